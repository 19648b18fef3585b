//! The certificate and key of the server.

use std::sync::{Arc, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection};
use x509_cert::Certificate;
use x509_cert::der::Decode;

use crate::base::{NOT_POISONED, Timestamp};

/// A certificate chain and its private key, for TLS 1.2 and 1.3. They can be replaced at any time;
/// open connections keep the ones they started with.
pub struct Tls {
    identity: RwLock<TlsIdentity>,
}

/// A certificate with its key, as connections use it.
struct TlsIdentity {
    config: Arc<ServerConfig>,
    expires: Option<Timestamp>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// An identity from PEM texts: the certificate of the server followed by the certificates of
    /// its intermediate authorities, and the key.
    ///
    /// # Errors
    /// A message for the operator, if they cannot be read or do not belong together.
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Self, String> {
        Ok(Self { identity: RwLock::new(identity(certificates, key)?) })
    }

    /// Replaces the identity for new connections.
    ///
    /// # Errors
    /// As [`Tls::new`]. The old identity stays in use.
    pub fn replace(&self, certificates: &[u8], key: &[u8]) -> Result<(), String> {
        let next = identity(certificates, key)?;
        *self.identity.write().expect(NOT_POISONED) = next;
        Ok(())
    }

    /// The end of the certificate's validity, or of an intermediate's that ends earlier; `None` if
    /// none of them says (RFC 5280, section 4.1.2.5).
    pub fn expires(&self) -> Option<Timestamp> {
        self.identity.read().expect(NOT_POISONED).expires
    }

    /// The server's side of a new encrypted connection.
    pub(super) fn accept(&self) -> Result<ServerConnection, rustls::Error> {
        let config = Arc::clone(&self.identity.read().expect(NOT_POISONED).config);
        ServerConnection::new(config)
    }
}

fn identity(certificates: &[u8], key: &[u8]) -> Result<TlsIdentity, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
    let chain = chain.map_err(|e| format!("the certificates cannot be read: {e}"))?;
    if chain.is_empty() {
        return Err("there is no certificate in PEM".to_owned());
    }
    let expires = chain.iter().filter_map(not_after).min();
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|e| format!("the private key cannot be read: {e}"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|e| format!("the certificate and its key cannot be used: {e}"))?;
    // Named, so that a client that would rather speak HTTP/2 learns of it in the handshake, and not
    // by a request that is no HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsIdentity { config: Arc::new(config), expires })
}

/// The end of a certificate's validity. A certificate that only TLS can read has none here.
fn not_after(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let since_1970 = certificate.tbs_certificate().validity().not_after.to_unix_duration();
    Some(Timestamp::from_millis(since_1970.as_millis().try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_end_of_the_chain_is_known_and_follows_a_replacement() {
        let read = |name: &str| std::fs::read(format!("tests/fixtures/tls/{name}")).unwrap();
        let long = read("one.pem");
        let early = read("early.pem");
        let key = read("one.key");
        let tls = Tls::new(&long, &key).unwrap();
        assert_eq!(tls.expires().unwrap().as_secs(), 4_948_906_349);
        tls.replace(&[long, early].concat(), &key).unwrap();
        assert_eq!(tls.expires().unwrap().as_secs(), 1_925_068_801);
        assert!(tls.replace(b"", &key).is_err());
        assert_eq!(tls.expires().unwrap().as_secs(), 1_925_068_801, "after a failure the old one is in use");
    }
}
