//! The HTTP client of the commands that talk to a server: endpoints, connections over TCP or TLS,
//! signed requests; and plain requests to other services. Beside them the settings that name a
//! server, the limit of a rate, and the circuit breaker.

mod breaker;
mod connection;
mod endpoint;
mod fetch;
mod rate;
mod requests;
pub(crate) mod settings;
mod signer;
#[cfg(test)]
mod tests;
mod transport;
mod trust;

pub(crate) use breaker::CircuitBreaker;
pub use connection::{Answer, HttpConnection, StreamedRequest};
pub use endpoint::Endpoint;
pub use fetch::Fetch;
pub(crate) use rate::RateLimit;
pub use requests::{
    Bucket, ListedObject, ObjectVersion, QueryParameter, SignedRequest, encoded, encoded_query, keys, listed,
    versions,
};
pub use settings::{ServerSettings, SettingProblem, SettingSources, certificate_trust};
pub use signer::{RequestSigner, RequestToSign};
pub use trust::{CertificateFingerprint, CertificateTrust};
