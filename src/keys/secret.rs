//! The bytes of a key.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use subtle::ConstantTimeEq as _;

use crate::base::Entropy;

/// A key of 256 bits, of the ring or of a client. It is never shown, and compared in constant time.
#[derive(Clone)]
pub struct MasterSecret([u8; Self::BYTES]);

impl MasterSecret {
    /// The length of a key.
    pub const BYTES: usize = 32;

    /// A new key. `entropy` has to be the system's.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; Self::BYTES];
        entropy.fill(&mut bytes);
        Self(bytes)
    }

    /// The key with these bytes.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The key that `text` spells in base64; `None` for another length or another text.
    pub fn from_base64(text: &str) -> Option<Self> {
        BASE64.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// The bytes: to derive other keys from them.
    pub fn reveal(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// The key in base64: for the file of the ring.
    pub(super) fn to_base64(&self) -> String {
        BASE64.encode(self.0)
    }
}

impl PartialEq for MasterSecret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for MasterSecret {}

impl fmt::Debug for MasterSecret {
    /// Shows nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;

    #[test]
    fn a_key_is_32_bytes_in_base64_and_shows_nothing() {
        let key = MasterSecret::generate(&SeededEntropy::new(1));
        assert_eq!(MasterSecret::from_base64(&key.to_base64()), Some(key.clone()));
        for other in ["", "AAAA", &BASE64.encode([0; 31]), &BASE64.encode([0; 33]), "no base64!"] {
            assert_eq!(MasterSecret::from_base64(other), None, "{other}");
        }
        assert_eq!(format!("{key:?}"), "MasterSecret");
        assert_ne!(key, MasterSecret::new([0; 32]));
    }
}
