//! The versions that do not have their id as their order. Present stores write none: the ids of a
//! key rise. Logs of earlier versions have some, and a tail of the log that is applied over its own
//! result makes some.

use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use crate::format::VersionId;
use crate::index::memory::{map_entry_bytes, shared_bytes};

/// A key and the id of a version of it.
type DisplacedKey = (Arc<[u8]>, VersionId);

/// The orders of displaced versions. A clone is a snapshot and costs O(1).
#[derive(Clone, Default)]
pub(super) struct DisplacedVersions {
    orders: RedBlackTreeMapSync<DisplacedKey, u64>,
    /// The memory of the keys, in bytes.
    key_bytes: u64,
}

impl DisplacedVersions {
    pub(super) fn memory_bytes(&self) -> u64 {
        self.key_bytes + self.orders.size() as u64 * map_entry_bytes::<DisplacedKey, u64>()
    }

    /// The order of a version, if it is displaced.
    pub(super) fn order_of(&self, key: &[u8], id: VersionId) -> Option<u64> {
        if self.orders.is_empty() { None } else { self.orders.get(&(key.into(), id)).copied() }
    }

    /// Adds a version, if it is displaced.
    pub(super) fn add(&mut self, key: &[u8], id: VersionId, order: u64) {
        if order != id.0 {
            self.orders.insert_mut((key.into(), id), order);
            self.key_bytes += shared_bytes(key.len());
        }
    }

    /// Removes a version that was added with this order.
    pub(super) fn remove(&mut self, key: &[u8], id: VersionId, order: u64) {
        if order != id.0 && self.orders.remove_mut(&(key.into(), id)) {
            self.key_bytes -= shared_bytes(key.len());
        }
    }
}
