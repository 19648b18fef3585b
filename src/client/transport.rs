//! The bytes of a connection: plain or encrypted.

use std::fmt::Display;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The usual timeout for a silent server.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The files in which systems keep the authorities that they trust: Debian and Alpine, Fedora, SUSE, BSD.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A stream to a server.
pub(super) enum Transport {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// The client's side of TLS for one server.
#[derive(Clone)]
pub(super) struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsClient {
    /// TLS 1.2 and 1.3 for the server `name`, whose certificate is verified by `authorities` or by those of the system.
    ///
    /// # Errors
    /// A message, if the name is none that certificates have, or if no authority is known.
    pub(super) fn new(name: &str, authorities: Option<&Path>) -> Result<Self, String> {
        let bare = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare).map_err(|why| why.to_string())?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?
            .with_root_certificates(trusted(authorities)?)
            .with_no_client_auth();
        Ok(Self { config: Arc::new(config), name })
    }
}

fn trusted(authorities: Option<&Path>) -> Result<RootCertStore, String> {
    let of_system = || SYSTEM_AUTHORITIES.into_iter().map(Path::new).find(|path| path.exists());
    let path = authorities.or_else(of_system);
    let path = path.ok_or("no certificate authority is known: name a PEM file by --ca-file")?;
    let unreadable = |why: &dyn Display| format!("{}: {why}", path.display());
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut roots = RootCertStore::empty();
    // Systems keep authorities that rustls does not accept beside those that it does.
    let (accepted, _) = roots.add_parsable_certificates(certificates.map_err(|why| unreadable(&why))?);
    if accepted == 0 { Err(unreadable(&"it has no certificate of an authority")) } else { Ok(roots) }
}

impl Transport {
    /// Connects. The handshake of TLS happens with the first request.
    pub(super) fn connect(
        address: SocketAddr,
        tls: Option<&TlsClient>,
        patience: Duration,
    ) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, patience)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        let Some(TlsClient { config, name }) = tls else { return Ok(Self::Plain(socket)) };
        let session = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        Ok(Self::Encrypted(Box::new(StreamOwned::new(session, socket))))
    }
}

impl Read for Transport {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buf),
            Self::Encrypted(stream) => stream.read(buf),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(buf),
            Self::Encrypted(stream) => stream.write(buf),
        }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write_vectored(bufs),
            Self::Encrypted(stream) => stream.write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}
