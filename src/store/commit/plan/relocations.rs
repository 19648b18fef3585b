//! Relocations: updating records to the new locations of their extents.

use crate::format::{Entry, ExtentRef};
use crate::store::commit::mutation::{RecordId, ReferringRecord, Relocation};
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
