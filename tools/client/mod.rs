//! The HTTP client of the commands that talk to a server: endpoints, connections over TCP or TLS, signed requests.

mod connection;
mod endpoint;
mod requests;
mod signer;
mod transport;

pub(crate) use connection::{Answer, Connection};
pub(crate) use endpoint::Endpoint;
pub(crate) use requests::{Bucket, ObjectVersion, Request, keys, versions};
pub(crate) use signer::Signer;
