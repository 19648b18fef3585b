//! The HTTP client of the commands that talk to a server: endpoints, connections over TCP or TLS, signed requests; and plain requests to
//! other services.

mod connection;
mod endpoint;
mod fetch;
mod requests;
mod signer;
mod transport;
mod trust;

pub use connection::{Answer, HttpConnection, StreamedRequest};
pub use endpoint::Endpoint;
pub use fetch::Fetch;
pub use requests::{
    Bucket, ListedObject, ObjectVersion, QueryParameter, SignedRequest, encoded, encoded_query, keys, listed,
    versions,
};
pub use signer::{RequestSigner, RequestToSign};
pub use trust::{CertificateFingerprint, CertificateTrust};
