//! A page of a server to ask for, and the answer.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use crate::cli::announce;
use crate::cli::config::options::ServerOptions;

/// The longest wait for a connection, and for each of its reads and writes.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// The page that is asked for if the URL names none.
pub(super) const READY_PAGE: &str = "/-/ready";
/// The longest answer that is read.
const ANSWER_MAX_BYTES: u64 = 16 * 1024;

/// The page to ask for.
#[derive(Debug, PartialEq)]
pub(super) struct Target {
    tls: bool,
    /// As in the `Host` header.
    host: String,
    /// The addresses of the host, tried in turn.
    addresses: Vec<SocketAddr>,
    /// With the query.
    pub(super) path: String,
}

/// The answer of a server.
#[derive(Debug)]
pub(super) struct Answer {
    /// The status of HTTP.
    pub(super) status: u16,
    /// The status line and the headers.
    pub(super) head: String,
    /// The body, cut off after 16 KiB.
    pub(super) body: String,
}

impl Target {
    /// The server of this host that listens on `listen`.
    ///
    /// # Errors
    /// The options of TLS contradict each other.
    pub(super) fn of_server(listen: SocketAddr, options: &ServerOptions) -> Result<Self, String> {
        let tls = options.http.tls_files().map_err(|e| e.to_string())?.is_some();
        let addresses = vec![announce::reachable(listen)];
        Ok(Self { tls, host: addresses[0].to_string(), addresses, path: READY_PAGE.to_owned() })
    }

    /// Parses `http://HOST[:PORT][/PATH]`, or `https://` for a host whose addresses are of this
    /// host: its certificate is not verified.
    ///
    /// # Errors
    /// The URL has another form, or its host has no address.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let (tls, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err("it begins with neither http:// nor https://".to_owned()),
        };
        let host = rest.split('/').next().unwrap_or_default();
        let path = &rest[host.len()..];
        if url.chars().any(|c| c.is_whitespace() || c.is_control()) || host.contains(['@', '?', '#']) {
            return Err("it is not of the form http://HOST:PORT/PATH".to_owned());
        }
        let path = if path.len() > 1 { path } else { READY_PAGE };
        let addresses = resolve(host, if tls { 443 } else { 80 })?;
        let target = Self { tls, host: host.to_owned(), addresses, path: path.to_owned() };
        if tls && !target.is_on_this_host() {
            return Err(
                "https is for servers on this host alone, since their certificate is not verified".to_owned()
            );
        }
        Ok(target)
    }

    /// Whether every address of the server is one of this host.
    pub(super) fn is_on_this_host(&self) -> bool {
        self.addresses.iter().all(|address| is_of_this_host(address.ip()))
    }

    /// Asks for the page with `GET` or `HEAD`. `patience` is the longest wait for the connection,
    /// and for each read.
    ///
    /// # Errors
    /// No address accepts a connection, the answer does not come, or it is not one of HTTP.
    pub(super) fn ask(&self, method: &str, patience: Duration) -> Result<Answer, String> {
        let host = &self.host;
        let text = self.exchange(method, patience).map_err(|e| format!("{host} does not answer: {e}"))?;
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.strip_prefix("HTTP/1.").and_then(|line| line.get(2..5)).unwrap_or_default();
        let status = status.parse().map_err(|_| format!("{host} does not speak HTTP"))?;
        Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
    }

    /// Sends the request and reads the answer to its end.
    fn exchange(&self, method: &str, patience: Duration) -> io::Result<String> {
        let (stream, address) = self.connect(patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        if self.tls {
            return self.converse(encrypted(stream, address.ip())?, method);
        }
        self.converse(stream, method)
    }

    /// A connection to the first address that accepts one; the error of the last.
    fn connect(&self, patience: Duration) -> io::Result<(TcpStream, SocketAddr)> {
        let mut outcome = Err(io::ErrorKind::AddrNotAvailable.into());
        for address in &self.addresses {
            outcome = TcpStream::connect_timeout(address, patience).map(|stream| (stream, *address));
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn converse(&self, mut stream: impl Read + Write, method: &str) -> io::Result<String> {
        let Self { host, path, .. } = self;
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        stream.flush()?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

impl Answer {
    /// The first line of the body, which gives the reason.
    pub(super) fn reason(&self) -> &str {
        self.body.lines().next().unwrap_or_default().trim()
    }
}

/// Whether a server of this host can have the address: the name of a container is its own address
/// there, not a loopback one.
fn is_of_this_host(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback() || TcpListener::bind((ip, 0)).is_ok()
}

/// The addresses of `host`, which may end in a port; at least one.
fn resolve(host: &str, default_port: u16) -> Result<Vec<SocketAddr>, String> {
    let has_port = host.rsplit_once(':').is_some_and(|(name, _)| !name.contains(':') || name.ends_with(']'));
    let named = if has_port { host.to_owned() } else { format!("{host}:{default_port}") };
    if let Some(port) = named.strip_prefix("localhost:") {
        // Without a file of hosts nothing knows the name, which means this host everywhere (RFC
        // 6761, section 6.3).
        let port = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
        return Ok(vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]);
    }
    let found: Vec<_> = named.to_socket_addrs().map_err(|e| format!("{host} has no address: {e}"))?.collect();
    if found.is_empty() { Err(format!("{host} has no address")) } else { Ok(found) }
}

fn encrypted(stream: TcpStream, ip: IpAddr) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    let tls = ClientConnection::new(Arc::new(config), ServerName::IpAddress(ip.into()))
        .map_err(io::Error::other)?;
    Ok(StreamOwned::new(tls, stream))
}

/// Accepts every certificate. The connection stays on this host, and the request holds no secret.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_host_and_perhaps_a_port_and_a_page() {
        let target = |url: &str| Target::parse(url).map(|it| (it.tls, it.addresses[0].to_string(), it.path));
        let ready = READY_PAGE.to_owned();
        assert_eq!(target("http://127.0.0.1:9000"), Ok((false, "127.0.0.1:9000".to_owned(), ready.clone())));
        assert_eq!(target("http://127.0.0.1/"), Ok((false, "127.0.0.1:80".to_owned(), ready.clone())));
        assert_eq!(target("http://localhost"), Ok((false, "127.0.0.1:80".to_owned(), ready.clone())));
        assert_eq!(target("https://[::1]"), Ok((true, "[::1]:443".to_owned(), ready)));
        let live = target("http://[::1]:9/minio/health/live").unwrap();
        assert_eq!((live.1.as_str(), live.2.as_str()), ("[::1]:9", "/minio/health/live"));
        for wrong in [
            "127.0.0.1:9000",
            "ftp://127.0.0.1",
            "http://",
            "http://a b",
            "http://localhost:port",
            "http://u@127.0.0.1",
            "https://192.0.2.1",
        ] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
