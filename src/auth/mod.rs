//! Floor 3: credentials, Signature Version 4 in all its forms, presigned URLs of version 2, `aws-chunked` bodies and
//! permissions.
//!
//! Authentication of a request, in order:
//! 1. `header` or `presigned` finds the parameters of the signature (`signature_params`); for URLs presigned by version 2,
//!    `presigned_v2` does the first two steps, with the text of `string_to_sign_v2`;
//! 2. `canonical` writes the canonical request, `signing_key` derives the key, `signature` computes and compares;
//! 3. `payload` wraps the body in a verifying reader; `chunked` and `trailers` decode `aws-chunked`.
//!
//! Permissions are in `users` (the users file), `policy` (grants) and `identity` (the sender and its proof).

mod authenticator;
mod bucket_policy;
mod canonical;
mod chunked;
mod header;
mod identity;
mod keys;
mod payload;
mod policy;
mod presigned;
mod presigned_v2;
mod signature;
mod signature_params;
mod signing_key;
mod string_to_sign_v2;
mod trailers;
mod users;

pub use authenticator::Authenticator;
pub use bucket_policy::{BucketPolicy, PolicyContext, PolicyDecision};
pub use identity::{Authorized, Identity};
pub use keys::{KeyPair, Secret};
pub use policy::{Action, Resource};
pub use users::{Users, UsersError};
