//! The URL of a server: its address, its name in requests, and its encryption.

use std::fmt::Display;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use crate::client::transport::{SILENCE_MAX, TlsClient};

const FORM: &str = "the endpoint must be of the form http://HOST:PORT or https://HOST:PORT";

/// A server.
#[derive(Clone)]
pub struct Endpoint {
    /// The value of the header `Host`.
    pub host: String,
    pub(super) address: SocketAddr,
    /// `None` for plain HTTP.
    pub(super) tls: Option<TlsClient>,
    /// The longest silence of the server.
    pub(super) patience: Duration,
}

impl Endpoint {
    /// Resolves `url`. Certificates are verified by the authorities in the PEM file `authorities`, or by those that the system
    /// trusts.
    ///
    /// # Errors
    /// A message, if the URL is of another form, the host is unknown, or no authority is known.
    pub fn resolve(url: &str, authorities: Option<&Path>) -> Result<Self, String> {
        let (rest, port, encrypted) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (rest, 80, false),
            (_, Some(rest)) => (rest, 443, true),
            _ => return Err(format!("{url}: {FORM}")),
        };
        let host = rest.trim_end_matches('/');
        if host.is_empty() || host.contains(['/', '@', '?']) {
            return Err(format!("{url}: {FORM}"));
        }
        let named = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let with_port = if named.is_some() { host.to_owned() } else { format!("{host}:{port}") };
        let failed = |why: &dyn Display| format!("{url}: {why}");
        let mut addresses = with_port.to_socket_addrs().map_err(|why| failed(&why))?;
        let address = addresses.next().ok_or_else(|| failed(&"the host has no address"))?;
        let name = named.map_or(host, |(name, _)| name);
        let tls = encrypted.then(|| TlsClient::new(name, authorities)).transpose();
        let tls = tls.map_err(|why| failed(&why))?;
        Ok(Self { host: host.to_owned(), address, tls, patience: SILENCE_MAX })
    }

    /// The same server, which is given up after a silence of this length. It is a minute otherwise.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}
