//! The certificate and key of the server.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection};

/// A certificate chain and its private key, for TLS 1.2 and 1.3. They can be replaced at any time; open connections keep the
/// ones they started with.
pub struct Tls {
    config: RwLock<Arc<ServerConfig>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// An identity from PEM texts: the certificate of the server followed by those of its intermediate authorities, and the key.
    ///
    /// # Errors
    /// A message for the operator, if they cannot be read or do not belong together.
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Self, String> {
        Ok(Self { config: RwLock::new(config(certificates, key)?) })
    }

    /// Replaces the identity for new connections.
    ///
    /// # Errors
    /// As [`Tls::new`]. The old identity stays in use.
    pub fn replace(&self, certificates: &[u8], key: &[u8]) -> Result<(), String> {
        let next = config(certificates, key)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// The server's side of a new encrypted connection.
    pub(super) fn accept(&self) -> Result<ServerConnection, rustls::Error> {
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
        ServerConnection::new(config)
    }
}

fn config(certificates: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
    let chain = chain.map_err(|e| format!("the certificates cannot be read: {e}"))?;
    if chain.is_empty() {
        return Err("there is no certificate in PEM".to_owned());
    }
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|e| format!("the private key cannot be read: {e}"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|e| format!("the certificate and its key cannot be used: {e}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
