//! The quotas of owners.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::index::{BucketConfiguration, configuration_bytes};

/// The memory of an owner's place in the map, without the name.
const PLACE_BYTES: u64 = 64;

/// The documents of quotas, by owner. A clone is a snapshot and costs O(1).
#[derive(Clone, Default)]
pub(super) struct OwnerQuotaDocuments {
    by_owner: Arc<BTreeMap<String, Arc<BucketConfiguration>>>,
    /// The memory that they take up, in bytes, since every commit asks for it.
    bytes: u64,
}

fn quota_bytes(owner: &str, quota: &BucketConfiguration) -> u64 {
    PLACE_BYTES + owner.len() as u64 + configuration_bytes(quota.document().len())
}

impl OwnerQuotaDocuments {
    pub(super) fn get(&self, owner: &str) -> Option<&Arc<BucketConfiguration>> {
        self.by_owner.get(owner)
    }

    /// The quotas of the owners after one, or of all, by name.
    pub(super) fn after(
        &self,
        owner: Option<&str>,
    ) -> impl Iterator<Item = (&str, &Arc<BucketConfiguration>)> {
        let from = owner.map_or(Bound::Unbounded, Bound::Excluded);
        let found = self.by_owner.range::<str, _>((from, Bound::Unbounded));
        found.map(|(owner, quota)| (owner.as_str(), quota))
    }

    /// Sets or removes a quota.
    pub(super) fn set(&mut self, owner: &str, document: Option<&[u8]>) {
        let all = Arc::make_mut(&mut self.by_owner);
        if let Some(old) = all.remove(owner) {
            self.bytes -= quota_bytes(owner, &old);
        }
        if let Some(document) = document {
            let new = BucketConfiguration::new(document);
            self.bytes += quota_bytes(owner, &new);
            all.insert(owner.to_owned(), Arc::new(new));
        }
    }

    /// The memory that they take up, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes
    }
}
