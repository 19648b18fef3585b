//! The extents of all versions and parts.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::format::{Entry, ExtentRef, StoreId, segment_path};
use crate::fs::Fs;
use crate::index::Liveness;
use crate::log::{Damage, Segment};
use crate::offline::verify::overlap_check::OverlapCheck;
use crate::offline::verify::{Finding, NamedOwner, RecordRef, VerifyReport};
use crate::store::shared::extents;
use crate::store::{Progress, ProgressStep};

/// Checks extents, and adds the findings to the report.
pub(super) struct ObjectVerifier<'a> {
    fs: &'a dyn Fs,
    store: StoreId,
    report: &'a mut VerifyReport,
    progress: &'a mut dyn FnMut(Progress),
    done: u64,
    total: u64,
    /// The bucket of the next versions and parts.
    bucket: CurrentBucket,
    /// The last segment, or the reason why it cannot be used.
    segment: Option<(u64, Result<Arc<Segment>, String>)>,
    /// Segments whose extents are left out.
    remote: BTreeSet<u64>,
    /// The damage of each shared extent: it is read once, and reported for each of its owners.
    shared: HashMap<ExtentRef, Vec<Damage>>,
    overlap_check: OverlapCheck,
}

#[derive(Default)]
struct CurrentBucket {
    id: u64,
    name: String,
}

/// An extent with its owner.
struct OwnedExtent<'e> {
    extent: ExtentRef,
    key: &'e [u8],
    which: RecordRef,
}

impl<'a> ObjectVerifier<'a> {
    pub(super) fn new(
        fs: &'a dyn Fs,
        store: StoreId,
        report: &'a mut VerifyReport,
        progress: &'a mut dyn FnMut(Progress),
        total: u64,
    ) -> Self {
        Self {
            fs,
            store,
            report,
            progress,
            done: 0,
            total,
            bucket: CurrentBucket::default(),
            segment: None,
            remote: BTreeSet::new(),
            shared: HashMap::new(),
            overlap_check: OverlapCheck::default(),
        }
    }

    /// Leaves the extents of these segments out.
    pub(super) fn leave_out(&mut self, remote: BTreeSet<u64>) {
        self.remote = remote;
    }

    /// Checks the extents of some versions and parts in disk order.
    pub(super) fn check(&mut self, entries: &[Entry]) {
        let mut extents = Vec::new();
        for entry in entries {
            let (key, which, refs) = match entry {
                Entry::BucketPut(bucket) => {
                    self.bucket = CurrentBucket { id: bucket.id, name: bucket.name.clone() };
                    continue;
                }
                Entry::VersionPut { key, record, .. } => {
                    (key, RecordRef::Version { id: record.id, null: record.null }, &record.extents)
                }
                Entry::PartPut { key, upload, record, .. } => {
                    (key, RecordRef::Part { upload: *upload, number: record.number }, &record.extents)
                }
                _ => continue,
            };
            extents.extend(refs.iter().map(|extent| OwnedExtent { extent: *extent, key, which }));
        }
        extents.sort_unstable_by_key(|owned| (owned.extent.segment, owned.extent.offset));
        for owned in &extents {
            self.check_owned(owned);
        }
    }

    /// Compares all referenced extents with the live bytes of the index.
    pub(super) fn finish(self, liveness: &Liveness) {
        for damage in self.overlap_check.finish(liveness) {
            self.report.find(damage);
        }
    }

    fn check_owned(&mut self, owned: &OwnedExtent<'_>) {
        self.overlap_check.add(&owned.extent);
        let whole = ExtentRef { skip: 0, take: owned.extent.payload_len, ..owned.extent };
        if self.remote.contains(&owned.extent.segment) {
            return self.count_unchecked(whole);
        }
        let damage = match self.shared.get(&whole) {
            Some(known) => known.clone(),
            None => self.check_extent(owned),
        };
        if whole.shared {
            self.shared.insert(whole, damage.clone());
        }
        for damage in damage {
            let owner = NamedOwner::new(&self.store, &self.bucket.name, owned.key, owned.which);
            self.report.findings.push(Finding { damage, owner: Some(owner) });
        }
    }

    /// Counts an extent whose bytes may be on a remote alone.
    fn count_unchecked(&mut self, whole: ExtentRef) {
        let is_counted = whole.shared && self.shared.insert(whole, Vec::new()).is_some();
        if !is_counted {
            self.report.counts.unchecked_extents += 1;
            self.report.counts.unchecked_bytes += u64::from(whole.payload_len);
        }
    }

    fn check_extent(&mut self, owned: &OwnedExtent<'_>) -> Vec<Damage> {
        let ExtentRef { segment: id, offset, payload_len, .. } = owned.extent;
        let damage = match self.open(id) {
            Ok(segment) => {
                let errors = extents::check(&segment, &self.store, &owned.extent, self.bucket.id, owned.key);
                errors.into_iter().map(|error| error.into_damage(&segment.path(), offset)).collect()
            }
            Err(why) => {
                vec![Damage::new(segment_path(id), offset, format!("the segment cannot be used: {why}"))]
            }
        };
        self.report.counts.extents += 1;
        self.report.counts.payload_bytes += u64::from(payload_len);
        self.done += extents::len(&owned.extent);
        (self.progress)(Progress { step: ProgressStep::Objects, done: self.done, total: self.total });
        damage
    }

    fn open(&mut self, id: u64) -> Result<Arc<Segment>, String> {
        if self.segment.as_ref().is_none_or(|(open, _)| *open != id) {
            let opened = Segment::open(self.fs, self.store, id).map(Arc::new);
            let opened = opened.map_err(|error| error.into_damage(&segment_path(id), 0).what);
            self.segment = Some((id, opened));
        }
        let (_, opened) = self.segment.as_ref().expect("opened just above");
        opened.clone()
    }
}
