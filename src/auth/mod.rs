//! Floor 3: credentials, Signature Version 4 in all its forms, chunked bodies and permissions.

mod identity;
mod keys;
mod policy;
mod signing_key;
mod users;

pub use identity::{Authorized, Identity};
pub use keys::{KeyPair, Secret};
pub use policy::{Action, Resource};
pub use users::{Users, UsersError};
