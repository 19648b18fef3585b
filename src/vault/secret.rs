//! What opens the key of a data directory: a key file or a passphrase.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use argon2::{Algorithm, Argon2, Params, Version};
use zeroize::Zeroizing;

use super::error::VaultError;
use crate::base::Entropy;
use crate::base::digest::HmacSha256;
use crate::format::{PassphraseCost, StoreKeyId, StoreKeyLine};

/// The longest file with a secret.
const SECRET_MAX_BYTES: usize = 4096;
/// The shortest passphrase of a new slot. It is attacked without the host, at leisure.
const PASSPHRASE_MIN_CHARS: usize = 12;

const KEY_FILE_LABEL: &[u8] = b"siltstone store key file 1 id";

/// A secret that opens a slot.
pub enum StoreSecret {
    /// The bytes of a key file.
    KeyFile {
        /// Its name.
        id: StoreKeyId,
        /// Its secret.
        secret: Zeroizing<[u8; 32]>,
    },
    /// A passphrase.
    Passphrase(Zeroizing<Vec<u8>>),
}

impl StoreSecret {
    /// Reads a file with a secret.
    ///
    /// # Errors
    /// A message without the path: the file cannot be read, or as of [`StoreSecret::parse`].
    pub fn read(path: &Path) -> Result<Self, String> {
        // One byte more than is taken, so that a longer file is noticed.
        let most = SECRET_MAX_BYTES + 1;
        let mut content = Zeroizing::new(Vec::with_capacity(most));
        let read = File::open(path).and_then(|file| file.take(most as u64).read_to_end(&mut content));
        read.map_err(|error| error.to_string())?;
        Self::parse(&content).map_err(|error| error.to_string())
    }

    /// Reads the content of a file: the line of a key file, or else a passphrase, which ends before
    /// the line feed at its end.
    ///
    /// # Errors
    /// It is empty, too long, or a damaged key file. Nothing of it is quoted.
    pub fn parse(content: &Zeroizing<Vec<u8>>) -> Result<Self, VaultError> {
        if content.len() > SECRET_MAX_BYTES {
            return Err(refused("it is longer than 4096 bytes"));
        }
        if let Some(text) = str::from_utf8(content).ok().filter(|text| StoreKeyLine::is_meant(text)) {
            let line = StoreKeyLine::decode(text).map_err(|error| refused(&error.to_string()))?;
            let secret = Zeroizing::new(line.secret);
            if id_of(&secret) != line.id {
                return Err(refused("its id is not that of its secret, so a digit was changed"));
            }
            return Ok(Self::KeyFile { id: line.id, secret });
        }
        // Editors and `echo` end a file with a line feed, which nobody means as a part of the
        // passphrase.
        let end = content.strip_suffix(b"\n").unwrap_or(content);
        let end = end.strip_suffix(b"\r").unwrap_or(end);
        if end.is_empty() {
            return Err(refused("it is empty"));
        }
        Ok(Self::Passphrase(Zeroizing::new(end.to_vec())))
    }

    /// The line of a new key file, with its line feed, and the name of it.
    pub fn new_key_file(entropy: &dyn Entropy) -> (Zeroizing<String>, StoreKeyId) {
        let mut secret = Zeroizing::new([0; 32]);
        entropy.fill(secret.as_mut());
        let id = id_of(&secret);
        let line = StoreKeyLine { id, secret: *secret };
        (Zeroizing::new(format!("{}\n", line.encode())), id)
    }

    /// Whether it may be given a slot.
    ///
    /// # Errors
    /// It is a passphrase that is guessed too easily.
    pub(super) fn check_strength(&self) -> Result<(), VaultError> {
        let Self::Passphrase(phrase) = self else { return Ok(()) };
        if String::from_utf8_lossy(phrase).chars().count() >= PASSPHRASE_MIN_CHARS {
            return Ok(());
        }
        let why = format!("a passphrase has at least {PASSPHRASE_MIN_CHARS} characters");
        Err(VaultError::BadSecret(why))
    }
}

fn refused(why: &str) -> VaultError {
    VaultError::BadSecret(why.to_owned())
}

impl std::fmt::Debug for StoreSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::KeyFile { id, .. } => write!(f, "KeyFile({id})"),
            Self::Passphrase(_) => f.write_str("Passphrase"),
        }
    }
}

/// Whether a file, which may be missing yet, lies in a directory: a secret that lies in what it
/// opens protects nothing. Links are followed.
pub fn is_inside(file: &Path, dir: &Path) -> bool {
    real_path(file).zip(real_path(dir)).is_some_and(|(file, dir)| file.starts_with(dir))
}

/// The path without links and `..`, as far as it is there.
fn real_path(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    for there in path.ancestors() {
        if let Ok(real) = there.canonicalize() {
            let missing = path.strip_prefix(there).ok()?;
            return Some(if missing.as_os_str().is_empty() { real } else { real.join(missing) });
        }
    }
    Some(path)
}

fn id_of(secret: &[u8; 32]) -> StoreKeyId {
    let mut id = [0; 8];
    id.copy_from_slice(&HmacSha256::of(secret, KEY_FILE_LABEL)[..8]);
    StoreKeyId(id)
}

/// The key that a passphrase gives with a salt (RFC 9106).
///
/// # Errors
/// There is no memory for it.
pub(super) fn stretch(
    phrase: &[u8],
    salt: &[u8],
    cost: PassphraseCost,
) -> Result<Zeroizing<[u8; 32]>, VaultError> {
    let PassphraseCost { memory_kib, passes, lanes } = cost;
    let params =
        Params::new(memory_kib, passes, lanes, Some(32)).map_err(|error| refused(&error.to_string()))?;
    let mut out = Zeroizing::new([0; 32]);
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(phrase, salt, out.as_mut()).map_err(|error| refused(&error.to_string()))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;

    fn parsed(text: &[u8]) -> Result<StoreSecret, String> {
        StoreSecret::parse(&Zeroizing::new(text.to_vec())).map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_file_reads_back_and_a_changed_digit_is_seen() {
        let (line, id) = StoreSecret::new_key_file(&SeededEntropy::new(1));
        assert!(matches!(parsed(line.as_bytes()), Ok(StoreSecret::KeyFile { id: found, .. }) if found == id));
        let at = line.len() - 2;
        let other = if line.ends_with("0\n") { "1" } else { "0" };
        let changed = format!("{}{other}\n", &line[..at]);
        assert!(parsed(changed.as_bytes()).unwrap_err().contains("a digit was changed"));
        assert!(parsed(&line.as_bytes()[..60]).is_err(), "a torn key file is no passphrase");
    }

    #[test]
    fn a_passphrase_ends_before_its_line_feed() {
        for text in ["correct horse battery", "correct horse battery\n", "correct horse battery\r\n"] {
            let found = parsed(text.as_bytes()).unwrap();
            assert!(matches!(found, StoreSecret::Passphrase(phrase) if *phrase == b"correct horse battery"));
        }
        assert!(parsed(b"").is_err() && parsed(b"\n").is_err() && parsed(&[b'x'; 4097]).is_err());
        assert!(parsed(b"short").unwrap().check_strength().is_err());
        assert!(parsed(b"long enough to be guessed late").unwrap().check_strength().is_ok());
    }

    #[test]
    fn a_file_lies_in_a_directory_by_whatever_way_it_is_named() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("data");
        std::fs::create_dir_all(dir.join("meta")).unwrap();
        std::fs::create_dir(place.path().join("data-2")).unwrap();
        for name in ["data/key", "data/meta/key", "data-2/key", "key"] {
            std::fs::write(place.path().join(name), "").unwrap();
        }
        std::os::unix::fs::symlink(&dir, place.path().join("link")).unwrap();
        std::os::unix::fs::symlink(dir.join("key"), place.path().join("linked-key")).unwrap();
        let of = |file: &str, dir: &str| is_inside(&place.path().join(file), &place.path().join(dir));
        for file in [
            "data/key",
            "data/meta/key",
            "data/new",
            "data/a/b",
            "link/key",
            "linked-key",
            "data-2/../data/key",
        ] {
            assert!(of(file, "data") && of(file, "link"), "{file}");
        }
        for file in ["key", "data-2/key", "data-2", "new", "data/../key"] {
            assert!(!of(file, "data") && !of(file, "link"), "{file}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let (line, id) = StoreSecret::new_key_file(&SeededEntropy::new(1));
        assert_eq!(format!("{:?}", parsed(line.as_bytes()).unwrap()), format!("KeyFile({id})"));
        assert_eq!(format!("{:?}", parsed(b"correct horse battery").unwrap()), "Passphrase");
    }
}
