//! Floor 3: credentials, Signature Version 4 in all its forms, presigned URLs of version 2,
//! `aws-chunked` bodies and permissions.
//!
//! Authentication of a request, in order:
//! 1. `header` or `presigned` finds the parameters of the signature (`signature_params`); for URLs
//!    presigned by version 2, `presigned_v2` does the first two steps, with the text of
//!    `string_to_sign_v2`;
//! 2. `canonical` writes the canonical request, `signing_key` derives the key, `signature` computes
//!    and compares;
//! 3. `payload` wraps the body in a verifying reader; `chunked` and `trailers` decode
//!    `aws-chunked`.
//!
//! Sessions of browsers rest on keys that were entered, or whose users an OpenID provider vouched
//! for (`admission`): `entered_key`.
//!
//! Forms are authenticated by their fields: `post_form` verifies the signature, `post_policy` the
//! conditions that it covers.
//!
//! Sessions of programs have keys for a while: `sts` issues them, `session` reads their tokens.
//!
//! Permissions: `access` decides. It asks `users` (the users file, whose grants of `action`s are in
//! `policy` and `resource`), `bucket_policy`, and the ACLs and blocks of public access. `identity`
//! has the sender and its proof; `roles` are rights that users assume, and people and programs whom
//! one of the `issuers` vouches for.

mod access;
mod action;
mod admission;
mod authenticator;
mod bucket_policy;
mod canonical;
mod chunked;
mod entered_key;
mod header;
mod identity;
mod issuers;
mod keys;
mod managed_policies;
mod payload;
mod policy;
mod post_form;
mod post_policy;
mod presigned;
mod presigned_v2;
mod resource;
mod roles;
mod service_accounts;
mod session;
mod signature;
mod signature_params;
mod signing_key;
mod string_to_sign_v2;
mod sts;
mod trailers;
mod user;
mod user_quota;
mod users;
mod users_fields;

pub use access::{AccessFacts, AclPlace};
pub use action::Action;
pub use admission::OidcPerson;
pub use authenticator::Authenticator;
pub use bucket_policy::{
    BucketPolicy, ConditionMemo, ExistingTags, PolicyContext, PolicyDecision, PrincipalFacts,
    StatedEncryption, StatedHeader, TokenClaim,
};
pub use entered_key::{EnteredKey, SharedObject};
pub use identity::{Authorized, Identity};
pub use issuers::{TrustedIssuer, WebIdentity, is_thumbprint, provider_name};
pub use keys::{KeyPair, Secret};
pub use managed_policies::{READY_MADE_POLICIES, ReadyMadePolicy, check_policy_document};
pub use post_form::FormGrant;
pub use resource::Resource;
pub use roles::{ROLE_DURATION_DEFAULT_SECS, ROLE_OF_EVERYBODY};
pub use session::SenderSession;
pub use session::arn::{ACCOUNT, NameKind, provider_arn, provider_of_arn};
pub use session::token::SealingKey;
pub use signature_params::ANY_REGION;
pub use sts::{CallerIdentity, FederationRequest, IssuedSession, RoleRequest, TokenRoleRequest};
pub use users::{Users, UsersError};
