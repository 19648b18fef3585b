//! The keys of the ring that records name, counted as entries apply.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::format::{EncryptionKind, WrappedKey};
use crate::index::memory::heap_bytes;

/// The versions, uploads and parts that need each key of the ring, by its id. A clone is a snapshot
/// and costs O(1); nothing is kept per record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeyUses(Arc<BTreeMap<String, u64>>);

impl KeyUses {
    pub(super) fn get(&self) -> &BTreeMap<String, u64> {
        &self.0
    }

    /// The memory that they take up, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let entry = (size_of::<String>() + size_of::<u64>()) as u64;
        self.0.keys().map(|id| entry + heap_bytes(id.len())).sum()
    }

    /// Counts a record with these keys.
    pub(super) fn add(&mut self, keys: &[WrappedKey]) {
        for id in ids_of(keys) {
            let uses = Arc::make_mut(&mut self.0);
            match uses.get_mut(id) {
                Some(count) => *count += 1,
                None => drop(uses.insert(id.to_owned(), 1)),
            }
        }
    }

    /// Counts a record with these keys out.
    pub(super) fn remove(&mut self, keys: &[WrappedKey]) {
        for id in ids_of(keys) {
            let uses = Arc::make_mut(&mut self.0);
            let count = uses.get_mut(id).expect("what is removed was added");
            *count -= 1;
            if *count == 0 {
                uses.remove(id);
            }
        }
    }
}

/// The ids of the keys of the ring among these, each once.
fn ids_of(keys: &[WrappedKey]) -> BTreeSet<&str> {
    let of_ring = keys.iter().filter(|key| key.kind != EncryptionKind::Customer);
    of_ring.map(|key| key.key_id.as_str()).collect()
}
