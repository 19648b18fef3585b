//! The HTTP client of the commands that talk to a server: endpoints, connections over TCP or TLS, signed requests; and plain requests to
//! other services.

mod connection;
mod endpoint;
mod fetch;
mod requests;
mod signer;
mod transport;

pub use connection::{Answer, HttpConnection};
pub use endpoint::Endpoint;
pub use fetch::Fetch;
pub use requests::{Bucket, ObjectVersion, QueryParameter, SignedRequest, keys, versions};
pub use signer::RequestSigner;
