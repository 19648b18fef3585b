//! The extents of all versions and parts.

use std::collections::HashMap;
use std::sync::Arc;

use crate::format::{Entry, ExtentHeader, ExtentRef, StoreId, segment_path};
use crate::fs::Fs;
use crate::log::{Damage, LogError, Segment};
use crate::store::text;
use crate::store::verify::{Finding, Owner, Progress, Report, Step, Which, as_damage};

/// Checks extents and puts into the report what it finds.
pub(super) struct Objects<'a> {
    fs: &'a dyn Fs,
    store: StoreId,
    report: &'a mut Report,
    progress: &'a mut dyn FnMut(Progress),
    done: u64,
    total: u64,
    /// The bucket that the next versions and parts are in.
    bucket: Bucket,
    /// The segment that was looked at last, or why it cannot be.
    segment: Option<(u64, Result<Arc<Segment>, String>)>,
    /// What was found in the extents that several share: each is read once, and found to be damaged for each of them.
    shared: HashMap<ExtentRef, Vec<Damage>>,
}

#[derive(Default)]
struct Bucket {
    id: u64,
    name: String,
}

/// An extent and whose it is.
struct Owned<'e> {
    extent: ExtentRef,
    key: &'e [u8],
    which: Which,
}

impl<'a> Objects<'a> {
    pub(super) fn new(
        fs: &'a dyn Fs,
        store: StoreId,
        report: &'a mut Report,
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
            bucket: Bucket::default(),
            segment: None,
            shared: HashMap::new(),
        }
    }

    /// Checks the extents of some versions and parts, in the order in which they lie on disk.
    pub(super) fn check(&mut self, entries: &[Entry]) {
        let mut extents = Vec::new();
        for entry in entries {
            let (key, which, refs) = match entry {
                Entry::BucketPut(bucket) => {
                    self.bucket = Bucket { id: bucket.id, name: bucket.name.clone() };
                    continue;
                }
                Entry::VersionPut { key, record, .. } => {
                    (key, Which::Version { id: record.id, null: record.null }, &record.extents)
                }
                Entry::PartPut { key, upload, record, .. } => {
                    (key, Which::Part { upload: *upload, number: record.number }, &record.extents)
                }
                _ => continue,
            };
            extents.extend(refs.iter().map(|extent| Owned { extent: *extent, key, which }));
        }
        extents.sort_unstable_by_key(|owned| (owned.extent.segment, owned.extent.offset));
        extents.iter().for_each(|owned| self.check_owned(owned));
    }

    fn check_owned(&mut self, owned: &Owned<'_>) {
        let whole = ExtentRef { skip: 0, take: owned.extent.payload_len, ..owned.extent };
        let damage = match self.shared.get(&whole) {
            Some(known) => known.clone(),
            None => self.check_extent(owned),
        };
        if whole.shared {
            self.shared.insert(whole, damage.clone());
        }
        let owner =
            || Owner { bucket: self.bucket.name.clone(), key: text(owned.key.to_vec()), which: owned.which };
        let findings = damage.into_iter().map(|damage| Finding { damage, owner: Some(owner()) });
        self.report.findings.extend(findings);
    }

    fn check_extent(&mut self, owned: &Owned<'_>) -> Vec<Damage> {
        let ExtentRef { segment: id, offset, payload_len, .. } = owned.extent;
        let damage = match self.open(id) {
            Ok(segment) => self.check_in(&segment, owned),
            Err(why) => {
                vec![Damage::new(segment_path(id), offset, format!("the segment cannot be used: {why}"))]
            }
        };
        let payload_len = u64::from(payload_len);
        self.report.counts.extents += 1;
        self.report.counts.payload_bytes += payload_len;
        self.done += ExtentHeader::BYTES as u64 + payload_len + ExtentHeader::table_len(payload_len);
        (self.progress)(Progress { step: Step::Objects, done: self.done, total: self.total });
        damage
    }

    fn open(&mut self, id: u64) -> Result<Arc<Segment>, String> {
        if self.segment.as_ref().is_none_or(|(open, _)| *open != id) {
            let opened = Segment::open(self.fs, self.store, id).map(Arc::new);
            let opened = opened.map_err(|error| as_damage(error, &segment_path(id), 0).what);
            self.segment = Some((id, opened));
        }
        let (_, opened) = self.segment.as_ref().expect("it was opened where it was not");
        opened.clone()
    }

    /// Header with descriptor, and payload, each for itself: the payload can be read while the header is damaged.
    fn check_in(&self, segment: &Arc<Segment>, owned: &Owned<'_>) -> Vec<Damage> {
        let header = segment.extent(&self.store, owned.extent.offset);
        let header = header.and_then(|header| expect_reference(segment, header, &owned.extent));
        let named = header.and_then(|header| self.check_descriptor(segment, &header, owned));
        let checks = [named, segment.check_payload(&owned.extent)];
        let errors = checks.into_iter().filter_map(Result::err);
        errors.map(|error| as_damage(error, &segment.path(), owned.extent.offset)).collect()
    }

    /// A shared extent names the first of those that it belongs to, which may be gone.
    fn check_descriptor(
        &self,
        segment: &Segment,
        header: &ExtentHeader,
        owned: &Owned<'_>,
    ) -> Result<(), LogError> {
        let descriptor = segment.descriptor(header)?;
        let fits = (descriptor.bucket, descriptor.key.as_slice()) == (self.bucket.id, owned.key);
        if fits || owned.extent.shared {
            return Ok(());
        }
        let what = format!(
            "the extent names key {:?} of bucket {} ({:016x})",
            text(descriptor.key),
            descriptor.bucket_name,
            descriptor.bucket
        );
        Err(segment.damage(header.offset + header.descriptor_at(), what).into())
    }
}

fn expect_reference(
    segment: &Segment,
    header: ExtentHeader,
    extent: &ExtentRef,
) -> Result<ExtentHeader, LogError> {
    if (header.payload_len, header.check) == (extent.payload_len, extent.check) {
        return Ok(header);
    }
    let what = format!(
        "the extent has {} bytes with check {:08x}, and the version refers to {} with {:08x}",
        header.payload_len, header.check, extent.payload_len, extent.check
    );
    Err(segment.damage(header.offset, what).into())
}
