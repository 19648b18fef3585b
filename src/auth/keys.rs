//! Access keys and secret keys: generation, and a type that keeps secrets out of logs.

use std::fmt;

use crate::base::Entropy;

/// A secret key, which `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text: for signing, and for the one time that it is shown to its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    /// Shows nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The credentials of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// Identifies the user; not secret.
    pub access_key: String,
    /// Signs the requests.
    pub secret_key: Secret,
}

/// Upper-case letters, and digits that are not mistaken for letters.
const ACCESS_KEY_ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const ACCESS_KEY_LEN: usize = 20;
/// Characters that need no quoting in a shell, a URL or a TOML file.
const SECRET_KEY_ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const SECRET_KEY_LEN: usize = 40;

impl KeyPair {
    /// A new pair: 20 characters of access key (100 bits) and 40 of secret (238 bits).
    pub fn generate(entropy: &dyn Entropy) -> Self {
        Self {
            access_key: draw(entropy, ACCESS_KEY_ALPHABET, ACCESS_KEY_LEN),
            secret_key: Secret::new(draw(entropy, SECRET_KEY_ALPHABET, SECRET_KEY_LEN)),
        }
    }
}

/// The start of the access keys of sessions, by which clients know that a token goes with them.
const SESSION_KEY_PREFIX: &str = "ASIA";

/// A new access key of a session.
pub(super) fn session_access_key(entropy: &dyn Entropy) -> String {
    let rest = ACCESS_KEY_LEN - SESSION_KEY_PREFIX.len();
    format!("{SESSION_KEY_PREFIX}{}", draw(entropy, ACCESS_KEY_ALPHABET, rest))
}

/// `len` characters of `alphabet`, drawn uniformly.
fn draw(entropy: &dyn Entropy, alphabet: &[u8], len: usize) -> String {
    // Bytes from the last multiple of the alphabet's length on would favour its first characters.
    let fair = 256 - 256 % alphabet.len();
    let mut text = String::with_capacity(len);
    let mut bytes = [0; 64];
    while text.len() < len {
        entropy.fill(&mut bytes);
        let indices = bytes.iter().map(|&byte| usize::from(byte)).filter(|&index| index < fair);
        let missing = len - text.len();
        text.extend(indices.take(missing).map(|index| char::from(alphabet[index % alphabet.len()])));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::base::SeededEntropy;

    #[test]
    fn generated_keys_have_the_length_and_characters_that_clients_expect() {
        let keys = KeyPair::generate(&SeededEntropy::new(1));
        assert_eq!(keys.access_key.len(), 20);
        assert!(keys.access_key.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()));
        assert_eq!(keys.secret_key.reveal().len(), 40);
        assert!(keys.secret_key.reveal().bytes().all(|b| b.is_ascii_alphanumeric()));
        assert_ne!(keys, KeyPair::generate(&SeededEntropy::new(2)));
    }

    #[test]
    fn every_character_of_the_alphabet_is_drawn() {
        let text = draw(&SeededEntropy::new(3), SECRET_KEY_ALPHABET, 2_000);
        assert_eq!(text.bytes().collect::<BTreeSet<_>>().len(), SECRET_KEY_ALPHABET.len());
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        let keys = KeyPair { access_key: "AK".to_owned(), secret_key: Secret::new("hidden") };
        assert_eq!(format!("{keys:?}"), r#"KeyPair { access_key: "AK", secret_key: Secret }"#);
    }
}
