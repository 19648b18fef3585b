//! Letting records refer to where their extents are now.

use crate::format::{Entry, ExtentRef};
use crate::store::mutation::{RecordId, ReferringRecord, Relocation};
use crate::store::plan::Planner;

impl Planner<'_> {
    /// Compares and swaps: a record that is gone, or refers to other extents by now, stays as it is. All else in it is as the
    /// index has it at this moment.
    pub(super) fn relocate(&mut self, relocation: &Relocation) {
        let entries =
            relocation.referrers.iter().filter_map(|referrer| self.relocated_entry(referrer, relocation));
        let entries: Vec<Entry> = entries.collect();
        self.plan.entries.extend(entries);
    }

    fn relocated_entry(&self, referrer: &ReferringRecord, relocation: &Relocation) -> Option<Entry> {
        let (bucket, key) = (referrer.bucket, referrer.key.clone());
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

    /// Whether there was anything to change.
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
