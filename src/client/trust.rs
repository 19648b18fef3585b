//! The verification of a server's certificate: by authorities, or by its fingerprint.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::base::digest::Sha256;

/// The files in which systems keep the authorities that they trust: Debian and Alpine, Fedora,
/// SUSE, BSD.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The certificates that a client accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CertificateTrust {
    /// Those that an authority of the system vouches for.
    #[default]
    System,
    /// Those that an authority in this PEM file vouches for.
    Authorities(PathBuf),
    /// The one certificate with this SHA-256 digest of its DER form, whatever its names, dates and
    /// issuer.
    Fingerprint(CertificateFingerprint),
}

/// The SHA-256 digest of a certificate in DER form, as `openssl x509 -fingerprint -sha256` prints
/// it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CertificateFingerprint([u8; 32]);

impl CertificateFingerprint {
    /// Parses 64 hexadecimal digits; colons between them are skipped.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn parse(text: &str) -> Result<Self, String> {
        let digits: Vec<u32> = text
            .chars()
            .filter(|c| *c != ':')
            .map(|c| c.to_digit(16))
            .collect::<Option<_>>()
            .unwrap_or_default();
        let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect();
        let whole = digits.len() == 64;
        let bytes = bytes.try_into().ok().filter(|_| whole);
        bytes
            .map(Self)
            .ok_or_else(|| "a fingerprint has 64 hexadecimal digits: SHA-256 of the certificate".to_owned())
    }

    fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::of(certificate))
    }
}

impl fmt::Debug for CertificateFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl CertificateTrust {
    /// The authorities in the file at `path`, or the system's.
    pub fn authorities(path: Option<&Path>) -> Self {
        path.map_or(Self::System, |path| Self::Authorities(path.to_owned()))
    }

    /// Reads the authorities.
    ///
    /// # Errors
    /// A message, if none is known.
    pub fn check(&self) -> Result<(), String> {
        self.client_config().map(drop)
    }

    /// TLS 1.2 and 1.3 with this verification.
    ///
    /// # Errors
    /// A message, if no authority is known.
    pub fn client_config(&self) -> Result<ClientConfig, String> {
        let provider = Arc::new(ring::default_provider());
        let versions =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = versions.map_err(|why| why.to_string())?;
        let builder = match self {
            Self::System => builder.with_root_certificates(trusted(None)?),
            Self::Authorities(path) => builder.with_root_certificates(trusted(Some(path))?),
            Self::Fingerprint(expected) => {
                // Called dangerous, and narrower here than any authority: one certificate passes.
                let verifier = FingerprintVerifier { expected: *expected, provider };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        Ok(builder.with_no_client_auth())
    }
}

fn trusted(authorities: Option<&Path>) -> Result<RootCertStore, String> {
    let path =
        authorities.or_else(|| SYSTEM_AUTHORITIES.into_iter().map(Path::new).find(|path| path.exists()));
    let path = path.ok_or("no certificate authority is known: name a PEM file by --ca-file")?;
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|why| format!("{}: {why}", path.display()))?;
    let mut roots = RootCertStore::empty();
    // Systems keep authorities that rustls does not accept beside those that it does.
    let (accepted, _) = roots.add_parsable_certificates(certificates);
    match accepted {
        0 => Err(format!("{}: it has no certificate of an authority", path.display())),
        _ => Ok(roots),
    }
}

/// Accepts the one certificate with a fingerprint. The server still proves that it has its key.
#[derive(Debug)]
struct FingerprintVerifier {
    expected: CertificateFingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for FingerprintVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The signature of the handshake is checked beside it: a copy of the certificate without
        // its key does not pass.
        if CertificateFingerprint::of(end_entity) == self.expected {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_64_digits_with_or_without_colons() {
        let plain = "0aB1".repeat(16);
        let colons: Vec<_> =
            plain.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap()).collect();
        assert_eq!(CertificateFingerprint::parse(&plain), CertificateFingerprint::parse(&colons.join(":")));
        assert_eq!(format!("{:?}", CertificateFingerprint::parse(&plain).unwrap()), plain.to_lowercase());
        for wrong in ["", "0a", &"0g".repeat(32), &"0".repeat(65), &"00".repeat(33)] {
            assert!(CertificateFingerprint::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_certificate_is_accepted_by_its_fingerprint_alone() {
        let good = CertificateDer::from(b"one".to_vec());
        let other = CertificateDer::from(b"two".to_vec());
        let provider = Arc::new(ring::default_provider());
        let verifier = FingerprintVerifier { expected: CertificateFingerprint::of(&good), provider };
        let name = ServerName::try_from("any").unwrap();
        let verify = |certificate| verifier.verify_server_cert(certificate, &[], &name, &[], UnixTime::now());
        assert!(verify(&good).is_ok());
        assert!(verify(&other).is_err());
    }
}
