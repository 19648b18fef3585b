//! The URL of a server: its address, its name in requests, and its encryption.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use crate::client::transport::{SILENCE_MAX, TlsClient};
use crate::client::trust::CertificateTrust;

const FORM: &str = "the endpoint must be of the form http://HOST:PORT or https://HOST:PORT";

/// A server.
#[derive(Clone)]
pub struct Endpoint {
    /// The value of the header `Host`.
    pub host: String,
    /// The host and the port.
    with_port: String,
    /// The address, where it was asked for at first; otherwise each connection asks for it.
    address: Option<SocketAddr>,
    /// `None` for plain HTTP.
    pub(super) tls: Option<TlsClient>,
    /// The longest silence of the server.
    pub(super) patience: Duration,
}

impl Endpoint {
    /// Resolves `url`. Certificates are verified by the authorities in the PEM file `authorities`,
    /// or by those that the system trusts.
    ///
    /// # Errors
    /// A message, if the URL is of another form, the host is unknown, or no authority is known.
    pub fn resolve(url: &str, authorities: Option<&Path>) -> Result<Self, String> {
        let endpoint = Self::unresolved(url, &CertificateTrust::authorities(authorities))?;
        let mut addresses = endpoint.addresses().map_err(|why| format!("{url}: {why}"))?.into_iter();
        Ok(Self { address: addresses.next(), ..endpoint })
    }

    /// The server at `url`, whose address is asked for with each connection. Its certificate is
    /// verified as `trust` says.
    ///
    /// # Errors
    /// A message, if the URL is of another form, or no authority is known.
    pub fn unresolved(url: &str, trust: &CertificateTrust) -> Result<Self, String> {
        let (rest, port, encrypted) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (rest, 80, false),
            (_, Some(rest)) => (rest, 443, true),
            _ => return Err(format!("{url}: {FORM}")),
        };
        let host = rest.trim_end_matches('/');
        // Credentials before an `@` would end up in the header `Host`; a path or a query would be
        // lost.
        if host.is_empty() || host.contains(['/', '@', '?']) {
            return Err(format!("{url}: {FORM}"));
        }
        let named = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let with_port = if named.is_some() { host.to_owned() } else { format!("{host}:{port}") };
        let name = named.map_or(host, |(name, _)| name);
        let tls = encrypted.then(|| TlsClient::new(name, trust)).transpose();
        let tls = tls.map_err(|why| format!("{url}: {why}"))?;
        Ok(Self { host: host.to_owned(), with_port, address: None, tls, patience: SILENCE_MAX })
    }

    /// The scheme and the host of a URL, and its path.
    pub fn split(url: &str) -> (&str, &str) {
        let start = url.find("://").map_or(0, |at| at + 3);
        match url[start..].find('/') {
            Some(at) => url.split_at(start + at),
            None => (url, "/"),
        }
    }

    /// The addresses of the server; at least one.
    pub(super) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let addresses = match self.address {
            Some(address) => vec![address],
            None => self.with_port.to_socket_addrs()?.collect(),
        };
        if addresses.is_empty() { Err(io::Error::other("the host has no address")) } else { Ok(addresses) }
    }

    /// The same server, which is given up after a silence of this length. It is a minute otherwise.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_a_path() {
        assert_eq!(Endpoint::split("https://h/a/b?c"), ("https://h", "/a/b?c"));
        assert_eq!(Endpoint::split("http://h:1"), ("http://h:1", "/"));
        assert_eq!(Endpoint::split("h/a"), ("h", "/a"));
    }
}
