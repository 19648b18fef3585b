//! Floor 3: credentials, Signature Version 4 in all its forms, chunked bodies and permissions.
//!
//! A request is authenticated top to bottom: its claim is understood (`header`, `presigned`, `claim`), the signature
//! is made again over the canonical request (`query`, `canonical`, `signature`) with a derived key (`signing_key`) and
//! compared, and the body is wrapped in the reader that verifies it (`payload`, `chunked`, `trailers`). Who may do what
//! is in `users`, `policy` and `identity`.

mod authenticator;
mod canonical;
mod chunked;
mod claim;
mod header;
mod identity;
mod keys;
mod payload;
mod policy;
mod presigned;
mod query;
mod signature;
mod signing_key;
mod trailers;
mod users;

pub use authenticator::Authenticator;
pub use identity::{Authorized, Identity};
pub use keys::{KeyPair, Secret};
pub use policy::{Action, Resource};
pub use users::{Users, UsersError};
