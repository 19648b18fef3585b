//! The keys of the ring that a store needs, held against a ring.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use crate::base::limits::MIB;
use crate::format::Entry;
use crate::fs::Fs;
use crate::index::{Cursor, Index};
use crate::keys::KeyRing;

/// The file of the ring, in a data directory and in a backup.
pub(crate) const KEYS: &str = "keys.toml";

/// The longest file of a ring that is read.
const RING_MAX_BYTES: u64 = MIB;

/// Keys per step of a walk.
const KEYS_AT_ONCE: usize = 4096;

/// A key of the ring that records name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededKey {
    /// Its id.
    pub id: String,
    /// The versions, uploads and parts that need it.
    pub uses: u64,
}

impl fmt::Display for NeededKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, which {} versions, uploads and parts need", self.id, self.uses)
    }
}

/// The keys that records name and that `ring` does not open: it lacks them, or has other keys under
/// their ids.
pub fn unopened_keys(index: &Index, ring: &KeyRing) -> Vec<NeededKey> {
    let mut unopened: BTreeSet<&str> = BTreeSet::new();
    let mut untried: BTreeSet<&str> = BTreeSet::new();
    for id in index.key_uses().keys() {
        let is_held = ring.by_id(id).is_some();
        if is_held {
            untried.insert(id)
        } else {
            unopened.insert(id)
        };
    }
    let mut cursor = Cursor::Start;
    while !untried.is_empty() {
        let entries = index.walk(&mut cursor, KEYS_AT_ONCE);
        if entries.is_empty() {
            break;
        }
        // One record tells: what a key wrapped is wrapped by it wherever it is named. A customer's
        // key has no id.
        for wrapped in entries.iter().flat_map(Entry::wrapped_keys) {
            let Some(id) = untried.take(wrapped.key_id.as_str()) else { continue };
            if !ring.by_id(id).is_some_and(|key| wrapped.is_wrapped_by(&key.secret)) {
                unopened.insert(id);
            }
        }
    }
    let uses = index.key_uses().iter().filter(|(id, _)| unopened.contains(id.as_str()));
    uses.map(|(id, uses)| NeededKey { id: id.clone(), uses: *uses }).collect()
}

/// The text of the ring in a directory; `None` where there is none.
///
/// # Errors
/// Of the disk; the file is far too long, or no text.
pub(super) fn read_ring(fs: &dyn Fs) -> io::Result<Option<String>> {
    let file = match fs.open_uncached(KEYS) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let len = file.len()?;
    if len > RING_MAX_BYTES {
        return Err(no_ring("it is no file of keys: it is too long"));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    String::from_utf8(bytes).map(Some).map_err(|_| no_ring("it is no text"))
}

fn no_ring(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{KEYS}: {why}"))
}
