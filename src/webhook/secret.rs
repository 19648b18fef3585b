//! The key of signatures.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use crate::base::NOT_POISONED;

/// The key of signatures: the content of a file without whitespace at its ends. All clones have the
/// same key.
#[derive(Debug, Clone)]
pub struct WebhookSecret {
    file: PathBuf,
    key: Arc<RwLock<Vec<u8>>>,
}

impl PartialEq for WebhookSecret {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file
    }
}

impl Eq for WebhookSecret {}

impl WebhookSecret {
    /// The secret of a file, which `read` reads.
    ///
    /// # Errors
    /// The file cannot be read, or is empty.
    pub fn read(file: &Path, read: &dyn Fn(&Path) -> Result<String, String>) -> Result<Self, String> {
        let key = key_of(file, read)?;
        Ok(Self { file: file.to_owned(), key: Arc::new(RwLock::new(key)) })
    }

    /// Reads the file again. Returns whether the key is another one.
    ///
    /// # Errors
    /// The file cannot be read, or is empty. The key is unchanged.
    pub fn reload(&self, read: &dyn Fn(&Path) -> Result<String, String>) -> Result<bool, String> {
        let key = key_of(&self.file, read)?;
        let mut current = self.key.write().expect(NOT_POISONED);
        let is_other = *current != key;
        *current = key;
        Ok(is_other)
    }

    /// The key.
    pub(super) fn key(&self) -> Vec<u8> {
        self.key.read().expect(NOT_POISONED).clone()
    }
}

fn key_of(file: &Path, read: &dyn Fn(&Path) -> Result<String, String>) -> Result<Vec<u8>, String> {
    let key = read(file)?.trim().as_bytes().to_vec();
    if key.is_empty() { Err("the file is empty".to_owned()) } else { Ok(key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_again_changes_nothing() {
        let secret = WebhookSecret::read(Path::new("s"), &|_| Ok("one\n".to_owned())).unwrap();
        let in_use = secret.clone();
        assert_eq!(secret.reload(&|_| Ok("one".to_owned())), Ok(false));
        assert_eq!(secret.reload(&|_| Ok(" ".to_owned())), Err("the file is empty".to_owned()));
        assert_eq!(secret.reload(&|_| Err("gone".to_owned())), Err("gone".to_owned()));
        assert_eq!(in_use.key(), b"one");
        assert_eq!(secret.reload(&|_| Ok("two".to_owned())), Ok(true));
        assert_eq!(in_use.key(), b"two");
    }
}
