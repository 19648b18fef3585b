//! Relocations: updating records to the new locations of their extents, and to keys that were
//! wrapped anew.

use crate::format::{Entry, ExtentRef, WrappedKey};
use crate::store::commit::mutation::{RecordId, ReferringRecord, Relocation, RewrappedKeys};
use crate::store::commit::plan::Planner;

impl Planner<'_> {
    /// Updates the extents of each record that still refers to the old ones. A deleted or changed
    /// record stays as it is.
    pub(super) fn relocate(&mut self, relocation: &Relocation) {
        let entries =
            relocation.referrers.iter().filter_map(|referrer| self.relocated_entry(referrer, relocation));
        let entries: Vec<Entry> = entries.collect();
        self.plan.entries.extend(entries);
    }

    fn relocated_entry(&self, referrer: &ReferringRecord, relocation: &Relocation) -> Option<Entry> {
        let bucket = referrer.bucket;
        let key = referrer.key.clone();
        match referrer.id {
            // The record as it is now: its tags may have changed while its extents were copied.
            RecordId::Version(id) => {
                let mut record = self.index.version(bucket, &key, id)?;
                self.redirect(&mut record.extents, relocation).then_some(Entry::VersionAmend {
                    bucket,
                    key,
                    record,
                })
            }
            RecordId::Part { upload, number, id } => {
                let found = self.index.part(bucket, &key, upload, number);
                let mut record = found.filter(|part| part.id == id)?;
                self.redirect(&mut record.extents, relocation).then_some(Entry::PartPut {
                    bucket,
                    key,
                    upload,
                    record,
                })
            }
            RecordId::Upload(_) => None,
        }
    }

    /// Replaces the wrapped keys of each record that still has the old ones, and returns the number
    /// of records.
    pub(super) fn rewrap(&mut self, changes: Vec<RewrappedKeys>) -> u64 {
        let entries: Vec<Entry> =
            changes.into_iter().filter_map(|change| self.rewrapped_entry(change)).collect();
        let count = entries.len() as u64;
        self.plan.entries.extend(entries);
        count
    }

    fn rewrapped_entry(&self, RewrappedKeys { record, before, mut keys }: RewrappedKeys) -> Option<Entry> {
        let ReferringRecord { bucket, key, id, .. } = record;
        match id {
            RecordId::Version(id) => {
                let mut record = self.index.version(bucket, &key, id)?;
                let encryption = record.encryption.as_mut().filter(|encryption| encryption.keys == before)?;
                encryption.keys = keys;
                Some(Entry::VersionAmend { bucket, key, record })
            }
            RecordId::Upload(id) => {
                let mut record = self.index.upload_record(bucket, &key, id)?.clone();
                let wrapped =
                    record.encryption.as_mut().filter(|wrapped| before == [WrappedKey::clone(wrapped)])?;
                **wrapped = keys.pop()?;
                Some(Entry::UploadPut { bucket, key, record })
            }
            RecordId::Part { upload, number, id } => {
                let found = self.index.part(bucket, &key, upload, number);
                let mut record = found.filter(|part| part.id == id)?;
                let encryption = record.encryption.as_mut().filter(|encryption| encryption.keys == before)?;
                encryption.keys = keys;
                Some(Entry::PartPut { bucket, key, upload, record })
            }
        }
    }

    /// Replaces relocated extents. Returns whether there were any.
    fn redirect(&self, extents: &mut [ExtentRef], relocation: &Relocation) -> bool {
        let mut changed = false;
        for extent in extents {
            if let Some((segment, offset)) = relocation.new_spot(extent, self.index.liveness()) {
                *extent = ExtentRef { segment, offset, ..*extent };
                changed = true;
            }
        }
        changed
    }
}
