//! Keys for the objects of a remote: their file, and the ciphers that they make.

use std::fmt;

use crate::base::Entropy;
use crate::base::digest::HmacSha256;
use crate::format::{EncryptionKeyId, EncryptionKeyLine};

/// A key of 32 random bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptionKey {
    id: EncryptionKeyId,
    secret: [u8; 32],
}

impl EncryptionKey {
    /// A new key. `entropy` has to be the system's.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        let mut secret = [0; 32];
        entropy.fill(&mut secret);
        Self::of(secret)
    }

    fn of(secret: [u8; 32]) -> Self {
        let named = HmacSha256::of(&secret, b"siltstone remote key 1 id");
        let mut id = [0; 8];
        id.copy_from_slice(&named[..8]);
        Self { id: EncryptionKeyId(id), secret }
    }

    /// The name of the key.
    pub fn id(&self) -> EncryptionKeyId {
        self.id
    }

    /// The line of a key file, without its line feed.
    pub fn line(&self) -> String {
        EncryptionKeyLine { id: self.id, secret: self.secret }.encode()
    }

    /// The key of one of the purposes that `label` names.
    pub(super) fn derived(&self, label: &str) -> [u8; 32] {
        HmacSha256::of(&self.secret, format!("siltstone remote key 1 {label}").as_bytes())
    }
}

impl fmt::Debug for EncryptionKey {
    /// Shows the name alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}", self.id)
    }
}

/// The keys of a key file: the first one for new objects, all of them for reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionKeys {
    /// The key for new objects.
    pub current: EncryptionKey,
    /// The keys of objects that were put before.
    pub older: Vec<EncryptionKey>,
}

impl EncryptionKeys {
    /// Reads a key file: a key a line; empty lines, and those that begin with `#`, do not count.
    ///
    /// # Errors
    /// The first problem, with its line. Nothing of a key is quoted.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().map(|(nth, line)| (nth + 1, line.trim()));
        let mut keys = Vec::new();
        for (nth, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let key = key_of_line(line).map_err(|why| format!("line {nth} is not that of a key: {why}"))?;
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        let current = keys.next().ok_or("it has no key: make one with siltstone-tools remote key")?;
        Ok(Self { current, older: keys.collect() })
    }
}

fn key_of_line(line: &str) -> Result<EncryptionKey, String> {
    let read = EncryptionKeyLine::decode(line).map_err(|why| why.to_string())?;
    let key = EncryptionKey::of(read.secret);
    match key.id == read.id {
        true => Ok(key),
        false => Err("the id is that of another key, so that a digit is wrong".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;

    #[test]
    fn a_file_has_keys_in_their_order_and_a_wrong_digit_is_seen() {
        let [new, old] = [1, 2].map(|seed| EncryptionKey::generate(&SeededEntropy::new(seed)));
        let text = format!("# keys\n\n{}\n  {}  \n", new.line(), old.line());
        let keys = EncryptionKeys::parse(&text).unwrap();
        assert_eq!((&keys.current, keys.older.as_slice()), (&new, [old.clone()].as_slice()));
        assert_eq!(format!("{new:?}"), format!("key {}", new.id()), "no secret is shown");
        let line = new.line();
        for (at, digit) in line.char_indices() {
            let other = if digit == '0' { "1" } else { "0" };
            let changed = format!("{}{other}{}", &line[..at], &line[at + 1..]);
            assert!(EncryptionKeys::parse(&changed).is_err(), "{at}");
        }
        let problem = EncryptionKeys::parse(&text.replace(&old.line()[60..], "")).unwrap_err();
        assert!(problem.contains("line 4") && !problem.contains(&old.line()[40..60]), "{problem}");
        for none in ["", "# none\n", "\n\n"] {
            assert!(EncryptionKeys::parse(none).unwrap_err().contains("no key"));
        }
    }
}
