//! The check of whole segments before they are copied: damage is reported here, and not copied.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::Sweep;
use super::batch::{BatchBuilder, LiveExtent};
use super::references::references_of;
use crate::base::digest::Crc32;
use crate::format::ExtentHeader;
use crate::index::Cursor;
use crate::log::{ExtentLocation, Segment};
use crate::store::shared::{SharedStore, extents, walk_memory_bytes};
use crate::store::{Store, StoreError};

/// Keys per step of a walk.
const KEYS_PER_WALK: usize = 256;

/// The live extents of some immutable segments.
#[derive(Default)]
pub(in crate::store) struct SealedExtents {
    /// The segments whose extents are all known.
    segments: BTreeSet<u64>,
    /// In the order of the disk.
    extents: Vec<LiveExtent>,
}

impl SealedExtents {
    /// Finds the extents of the first segment, and of as many of the others as there is memory for.
    /// The segments are immutable, and their ids ascend.
    pub(in crate::store) fn find(shared: &SharedStore, ids: &[u64]) -> Self {
        let Some(first) = ids.first() else { return Self::default() };
        let Some(last) = ids.last() else { return Self::default() };
        let index = shared.index();
        let mut from = (*first, 0);
        let mut extents = Vec::new();
        let next = loop {
            let mut builder = BatchBuilder::new(from, *last, walk_memory_bytes(&index));
            loop {
                let entries = index.walk(&mut builder.cursor, KEYS_PER_WALK);
                if entries.is_empty() {
                    break;
                }
                for entry in &entries {
                    builder.add(entry);
                }
            }
            let (batch, next) = builder.finish();
            extents.extend(batch);
            match next {
                Some(rest) if rest.0 == *first => from = rest,
                next => break next,
            }
        };
        let mut segments: BTreeSet<u64> = ids.iter().copied().collect();
        // The extents of the one where the walk stopped, and of those after it, are not complete.
        if let Some((segment, _)) = next {
            segments.retain(|id| *id < segment);
        }
        extents.retain(|extent| segments.contains(&extent.segment));
        Self { segments, extents }
    }

    /// Whether the extents of a segment are known.
    pub(in crate::store) fn has(&self, segment: u64) -> bool {
        self.segments.contains(&segment)
    }

    /// The extents of a segment, in the order of the disk.
    pub(in crate::store) fn of(&self, segment: u64) -> &[LiveExtent] {
        let from = self.extents.partition_point(|extent| extent.segment < segment);
        let len = self.extents[from..].partition_point(|extent| extent.segment == segment);
        &self.extents[from..from + len]
    }

    /// The good block tables of a segment, each with its offset.
    pub(in crate::store) fn tables(&self, segment: &Segment) -> Vec<(u64, Vec<u8>)> {
        let mut tables = Vec::new();
        for extent in self.of(segment.id) {
            let len = ExtentHeader::table_len(extent.payload_len.into());
            let at = extent.offset + extent.len() - len;
            let mut bytes = vec![0; len as usize];
            if len > 0 && segment.read_at(&mut bytes, at).is_ok() && Crc32::of(&bytes) == extent.check {
                tables.push((at, bytes));
            }
        }
        tables
    }
}

impl Store {
    /// Reads all these extents that lie in an immutable segment. Returns the number of bad ones,
    /// which are listed with the findings of the scrub.
    ///
    /// # Errors
    /// Of the disk, if the segment cannot be read at all or a bad extent cannot be saved.
    pub(in crate::store) fn check_sealed(
        &self,
        segment: &Arc<Segment>,
        extents: &SealedExtents,
    ) -> Result<u64, StoreError> {
        let suspects = self.suspects(segment, extents)?;
        if suspects.is_empty() { Ok(0) } else { self.list_suspects(segment, &suspects) }
    }

    /// Whether all these extents that lie in an immutable segment are in its file, and good.
    /// Nothing is listed.
    ///
    /// # Errors
    /// Of the disk, if the segment cannot be read at all.
    pub(in crate::store) fn has_all(
        &self,
        segment: &Arc<Segment>,
        extents: &SealedExtents,
    ) -> Result<bool, StoreError> {
        Ok(self.suspects(segment, extents)?.is_empty())
    }

    /// The extents of a segment that are not as they were written.
    fn suspects(
        &self,
        segment: &Arc<Segment>,
        extents: &SealedExtents,
    ) -> Result<HashSet<ExtentLocation>, StoreError> {
        let extents = extents.of(segment.id);

        let mut sweep =
            Sweep::new(segment.clone(), self.shared.store).map_err(|error| self.shared.failed(error))?;
        let mut suspects = HashSet::new();
        for (at, extent) in extents.iter().enumerate() {
            if !sweep.is_good(&extents[at..], u64::MAX).map_err(|error| self.shared.failed(error))? {
                suspects.insert(extent.location());
            }
        }
        Ok(suspects)
    }

    /// Checks suspects closely, for each record that refers to them. Returns the number of bad
    /// ones.
    fn list_suspects(
        &self,
        segment: &Arc<Segment>,
        suspects: &HashSet<ExtentLocation>,
    ) -> Result<u64, StoreError> {
        let index = self.shared.index();
        let mut cursor = Cursor::Start;
        let mut bad = 0;
        loop {
            let entries = index.walk(&mut cursor, KEYS_PER_WALK);
            if entries.is_empty() {
                return Ok(bad);
            }
            for reference in entries.iter().flat_map(references_of) {
                let extent = &reference.extent;
                if !suspects.contains(&(extent.segment, extent.offset)) {
                    continue;
                }
                let owner = &reference.owner;
                let errors = extents::check(segment, &self.shared.store, extent, owner.bucket, &owner.key);
                if let Some(error) = errors.into_iter().next() {
                    let damage = error.into_damage(&segment.path(), extent.offset);
                    bad += u64::from(self.scrubber.list_bad(&self.shared, &reference, &damage)?);
                }
            }
        }
    }
}
