//! What the first page of a file says.

use std::io;

use crate::format::SaltPage;
use crate::fs::File;

/// What the start of a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileStart {
    /// It has no bytes, or none that were synced.
    Empty,
    /// It is not encrypted.
    Plain,
    /// It is encrypted.
    Salted(SaltPage),
    /// It is encrypted, and its first page is damaged or cannot be read.
    Damaged(String),
}

impl FileStart {
    /// Reads the start of a file.
    pub(super) fn of(file: &dyn File) -> io::Result<Self> {
        let mut head = [0; SaltPage::HEAD_BYTES];
        let len = file.len()?.min(head.len() as u64) as usize;
        match file.read_exact_at(&mut head[..len], 0) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok(Self::Damaged(error.to_string()));
            }
            read => read?,
        }
        // Its sector is on the disk wholly or not at all, and its length comes before the first
        // sync returns: where either is missing, nothing was synced.
        if SaltPage::is_unfinished(&head[..len]) {
            return Ok(Self::Empty);
        }
        Ok(match SaltPage::decode(&head) {
            Ok(page) => Self::Salted(page),
            Err(error) if SaltPage::is_meant(&head) => Self::Damaged(error.to_string()),
            Err(_) => Self::Plain,
        })
    }
}
