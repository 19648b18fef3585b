//! The extents of all versions.

use std::sync::Arc;

use crate::format::{Entry, ExtentHeader, ExtentRef, StoreId, VersionRecord, segment_path};
use crate::fs::Fs;
use crate::log::{Damage, LogError, Segment};
use crate::store::text;
use crate::store::verify::{Finding, ObjectName, Progress, Report, Step, as_damage};

/// Checks extents and puts into the report what it finds.
pub(super) struct Objects<'a> {
    fs: &'a dyn Fs,
    store: StoreId,
    report: &'a mut Report,
    progress: &'a mut dyn FnMut(Progress),
    done: u64,
    total: u64,
    /// The bucket that the next versions are in.
    bucket: Bucket,
    /// The segment that was looked at last, or why it cannot be.
    segment: Option<(u64, Result<Arc<Segment>, String>)>,
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
    version: &'e VersionRecord,
}

impl<'a> Objects<'a> {
    pub(super) fn new(
        fs: &'a dyn Fs,
        store: StoreId,
        report: &'a mut Report,
        progress: &'a mut dyn FnMut(Progress),
        total: u64,
    ) -> Self {
        let bucket = Bucket::default();
        Self { fs, store, report, progress, done: 0, total, bucket, segment: None }
    }

    /// Checks the extents of some versions, in the order in which they lie on disk.
    pub(super) fn check(&mut self, entries: &[Entry]) {
        let mut extents = Vec::new();
        for entry in entries {
            match entry {
                Entry::BucketPut(bucket) => {
                    self.bucket = Bucket { id: bucket.id, name: bucket.name.clone() };
                }
                Entry::VersionPut { key, record, .. } => {
                    extents.extend(record.extents.iter().map(|e| Owned { extent: *e, key, version: record }));
                }
                _ => {}
            }
        }
        extents.sort_unstable_by_key(|owned| (owned.extent.segment, owned.extent.offset));
        extents.iter().for_each(|owned| self.check_extent(owned));
    }

    fn check_extent(&mut self, owned: &Owned<'_>) {
        let payload_len = u64::from(owned.extent.payload_len);
        match self.open(owned.extent.segment) {
            Ok(segment) => self.check_in(&segment, owned),
            Err(why) => {
                let what = format!("the segment cannot be used: {why}");
                self.find(Damage::new(segment_path(owned.extent.segment), owned.extent.offset, what), owned);
            }
        }
        self.report.counts.extents += 1;
        self.report.counts.payload_bytes += payload_len;
        self.done += ExtentHeader::BYTES as u64 + payload_len + ExtentHeader::table_len(payload_len);
        (self.progress)(Progress { step: Step::Objects, done: self.done, total: self.total });
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

    /// Header, payload and descriptor, each for itself: the payload can be read while the header is damaged.
    fn check_in(&mut self, segment: &Arc<Segment>, owned: &Owned<'_>) {
        let header = segment.extent(&self.store, owned.extent.offset);
        let header = header.and_then(|header| expect_reference(segment, header, &owned.extent));
        let named = header.and_then(|header| self.check_descriptor(segment, &header, owned));
        for checked in [named, segment.check_payload(&owned.extent)] {
            if let Err(error) = checked {
                self.find(as_damage(error, &segment.path(), owned.extent.offset), owned);
            }
        }
    }

    fn check_descriptor(
        &self,
        segment: &Segment,
        header: &ExtentHeader,
        owned: &Owned<'_>,
    ) -> Result<(), LogError> {
        let descriptor = segment.descriptor(header)?;
        if (descriptor.bucket, descriptor.key.as_slice()) == (self.bucket.id, owned.key) {
            return Ok(());
        }
        let what = format!(
            "the extent names key {:?} of bucket {} ({:016x})",
            text(descriptor.key),
            descriptor.bucket_name,
            descriptor.bucket
        );
        Err(Damage::new(segment.path(), header.offset + header.descriptor_at(), what).into())
    }

    fn find(&mut self, damage: Damage, owned: &Owned<'_>) {
        let object = ObjectName {
            bucket: self.bucket.name.clone(),
            key: text(owned.key.to_vec()),
            version: owned.version.id,
            null: owned.version.null,
        };
        self.report.findings.push(Finding { damage, object: Some(object) });
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
    Err(Damage::new(segment.path(), header.offset, what).into())
}
