//! The ring of a backup: every key that its metadata names, as far as one was seen.

use std::io;

use super::report::BackupError;
use crate::fs::Fs;
use crate::index::Index;
use crate::keys::{KeyRing, with_former_key};
use crate::offline::needed_keys::{KEYS, NeededKey, read_ring, unopened_keys};

/// The file of the ring as it was at several moments, and that of the former backup.
///
/// While a backup is made, keys come and go: `rewrap` gives all records to a new key, and `destroy`
/// removes the old one. A ring that is read before the metadata lacks the new key, and one that is
/// read after it lacks the old one, which the copied metadata may still name.
#[derive(Default)]
pub(super) struct RingSources {
    /// The keys of the former backup, which may have the last copy of a key that was lost.
    former: KeyRing,
    /// The texts of the file, the latest last.
    seen: Vec<String>,
}

/// A ring for a backup.
pub(super) struct BackupRing {
    pub(super) text: String,
    /// The keys that the metadata names and that no source has.
    pub(super) missing: Vec<NeededKey>,
}

impl RingSources {
    /// The ring of the former backup as the first source.
    pub(super) fn of_former(former: Option<&dyn Fs>) -> io::Result<Self> {
        let text = former.map_or(Ok(None), read_ring)?;
        // One that cannot be parsed has no keys to give.
        let ring = text.and_then(|text| KeyRing::parse(&text).ok()).unwrap_or_default();
        Ok(Self { former: ring, seen: Vec::new() })
    }

    /// Reads the file, if it is there.
    pub(super) fn see(&mut self, source: &dyn Fs) -> Result<(), BackupError> {
        if let Some(text) = read_ring(source)? {
            parsed(&text)?;
            self.seen.push(text);
        }
        Ok(())
    }

    /// The latest ring, with those keys of earlier ones that the metadata names and it lacks;
    /// `None` where the file was not there at any moment.
    pub(super) fn ring_for(&self, index: &Index) -> Result<Option<BackupRing>, BackupError> {
        let Some((latest, earlier)) = self.seen.split_last() else { return Ok(None) };
        let mut text = latest.clone();
        let mut sources = Vec::new();
        for seen in earlier.iter().rev() {
            sources.push(parsed(seen)?);
        }
        sources.push(self.former.clone());
        for source in &sources {
            let ring = parsed(&text)?;
            for needed in unopened_keys(index, &ring) {
                let known = source.by_id(&needed.id).filter(|_| ring.by_id(&needed.id).is_none());
                let Some(key) = known else { continue };
                text = with_former_key(&text, key).map_err(|error| broken(&error.to_string()))?;
            }
        }
        let missing = unopened_keys(index, &parsed(&text)?);
        Ok(Some(BackupRing { text, missing }))
    }
}

fn parsed(text: &str) -> Result<KeyRing, BackupError> {
    KeyRing::parse(text).map_err(|error| broken(&error.to_string()))
}

fn broken(what: &str) -> BackupError {
    io::Error::new(io::ErrorKind::InvalidData, format!("{KEYS}: {what}")).into()
}
