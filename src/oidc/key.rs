//! The public keys of providers (RFC 7517 and 7518).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64_URL;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;

/// Keys of one provider that are tried: a token without the name of its key is tried with each.
const KEYS_MAX: usize = 100;

/// A public key of a provider (RFC 7517, section 4). Its parameters depend on its type.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ProviderKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// Parses a set of keys (RFC 7517, section 5). Those that this server does not know are left out.
///
/// # Errors
/// It is none.
pub(super) fn parse_keys(document: &[u8]) -> Result<Vec<ProviderKey>, String> {
    let set: KeySet = serde_json::from_slice(document).map_err(|error| error.to_string())?;
    let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
    Ok(keys.take(KEYS_MAX).collect())
}

impl ProviderKey {
    /// Whether that is its name.
    pub(super) fn is_called(&self, kid: Option<&str>) -> bool {
        self.kid.as_deref() == kid
    }

    /// Whether it has signed a text by that algorithm.
    pub(super) fn verifies(&self, alg: &str, signed: &[u8], signature: &[u8]) -> bool {
        let is_for_it = self.alg.as_deref().is_none_or(|own| own == alg)
            && self.purpose.as_deref().is_none_or(|own| own == "sig");
        is_for_it
            && match &*self.kty {
                "RSA" => self.verifies_rsa(alg, signed, signature),
                "EC" => self.verifies_ec(alg, signed, signature),
                "OKP" => self.verifies_ed25519(alg, signed, signature),
                // Symmetric keys and unsigned tokens are not accepted.
                _ => None,
            }
            .is_some()
    }

    fn verifies_rsa(&self, alg: &str, signed: &[u8], signature: &[u8]) -> Option<()> {
        let parameters = match alg {
            "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
            "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
            "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
            "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
            "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
            "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        };
        let key = RsaPublicKeyComponents { n: parameter(&self.n)?, e: parameter(&self.e)? };
        key.verify(parameters, signed, signature).ok()
    }

    fn verifies_ec(&self, alg: &str, signed: &[u8], signature: &[u8]) -> Option<()> {
        let algorithm = match (alg, self.crv.as_deref()?) {
            ("ES256", "P-256") => &signature::ECDSA_P256_SHA256_FIXED,
            ("ES384", "P-384") => &signature::ECDSA_P384_SHA384_FIXED,
            _ => return None,
        };
        // An uncompressed point (SEC 1, section 2.3.3).
        let point = [vec![4], parameter(&self.x)?, parameter(&self.y)?].concat();
        UnparsedPublicKey::new(algorithm, point).verify(signed, signature).ok()
    }

    fn verifies_ed25519(&self, alg: &str, signed: &[u8], signature: &[u8]) -> Option<()> {
        if !matches!((alg, self.crv.as_deref()?), ("EdDSA" | "Ed25519", "Ed25519")) {
            return None;
        }
        UnparsedPublicKey::new(&signature::ED25519, parameter(&self.x)?).verify(signed, signature).ok()
    }
}

fn parameter(text: &Option<String>) -> Option<Vec<u8>> {
    BASE64_URL.decode(text.as_deref()?).ok()
}
