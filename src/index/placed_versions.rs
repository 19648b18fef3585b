//! Walking the versions of a bucket with their places among the versions of their keys, in bounded
//! steps. Expiry reads them.

use crate::base::Timestamp;
use crate::format::VersionSummary;
use crate::index::Index;
use crate::index::keys::{KeyScan, Version};

/// The place of a version among its key's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionPlace {
    /// The newest version, not a delete marker.
    Current,
    /// A delete marker that is the only version of its key.
    LoneDeleteMarker,
    /// An older version or delete marker.
    Noncurrent {
        /// The time of creation of the next newer version.
        since: Timestamp,
        /// Noncurrent versions that are newer.
        newer_noncurrent: u32,
    },
}

/// A version in a walk.
pub struct PlacedVersion<'v> {
    /// The key.
    pub key: &'v [u8],
    /// Its fields.
    pub version: VersionSummary,
    /// Its place.
    pub place: VersionPlace,
    record: Option<Version<'v>>,
}

impl PlacedVersion<'_> {
    /// The tags, decoded by the call.
    pub fn tags(&self) -> Vec<(String, String)> {
        self.record.map_or_else(Vec::new, |record| record.outline().tags)
    }

    /// The length of the record in the disk encoding, found by the call.
    pub fn record_bytes(&self) -> usize {
        let mut scratch = Vec::new();
        let mut encoded = Vec::new();
        if let Some(record) = self.record {
            record.encode_for_disk(&mut scratch, &mut encoded);
        }
        encoded.len()
    }
}

/// The position of a walk: the last version that was read. It takes the memory of a key.
#[derive(Debug, Clone, Default)]
pub struct PlaceCursor {
    key: Vec<u8>,
    /// `None` before the first version.
    last: Option<LastVersion>,
}

/// The version before the next one.
#[derive(Debug, Clone, Copy)]
struct LastVersion {
    order: u64,
    modified: Timestamp,
    /// Versions of the key up to this one.
    versions: u32,
}

impl Index {
    /// Reads up to `limit` further versions of a bucket, keys ascending and each key newest first,
    /// and advances the cursor; `false` at the end. A current delete marker above other versions is
    /// passed over. The steps of a walk may read different snapshots.
    pub fn visit_places(
        &self,
        bucket: u64,
        cursor: &mut PlaceCursor,
        limit: usize,
        visit: &mut dyn FnMut(&PlacedVersion<'_>),
    ) -> bool {
        let Some(bucket) = self.buckets.get(&bucket) else { return false };
        let mut scan = bucket.keys.scan();
        cursor.seek(&mut scan);
        // Whether a marker is the only version of its key shows only at the next version: it is
        // held back until then, also beyond the limit of the step.
        let mut marker = None;
        for taken in 0.. {
            let more = scan.next();
            let is_same_key = more && cursor.last.is_some() && cursor.key == scan.key();
            if let Some(version) = marker.take().filter(|_| !is_same_key) {
                let place = VersionPlace::LoneDeleteMarker;
                visit(&PlacedVersion { key: &cursor.key, version, place, record: None });
            }
            if !more || taken == limit {
                return more;
            }
            let version = scan.version().summary();
            let record = Some(scan.version());
            let place = cursor.advance(&scan, version.modified, is_same_key);
            match place {
                VersionPlace::Current if version.delete_marker => marker = Some(version),
                place => visit(&PlacedVersion { key: &cursor.key, version, place, record }),
            }
        }
        true
    }
}

impl PlaceCursor {
    fn seek(&self, scan: &mut KeyScan<'_>) {
        match self.last.map(|last| last.order.checked_sub(1)) {
            None => scan.seek_key(&[]),
            Some(Some(below)) => scan.seek_version(&self.key, below),
            Some(None) => scan.seek_past(&self.key),
        }
    }

    /// Goes to the version of the scan. Returns its place, which is `Current` for a current delete
    /// marker, too.
    fn advance(&mut self, scan: &KeyScan<'_>, modified: Timestamp, is_same_key: bool) -> VersionPlace {
        let newer = self.last.filter(|_| is_same_key);
        if newer.is_none() {
            self.key.clear();
            self.key.extend_from_slice(scan.key());
        }
        let versions = newer.map_or(0, |newer| newer.versions);
        self.last = Some(LastVersion { order: scan.order(), modified, versions: versions.saturating_add(1) });
        match newer {
            None => VersionPlace::Current,
            Some(newer) => VersionPlace::Noncurrent { since: newer.modified, newer_noncurrent: versions - 1 },
        }
    }
}
