//! Letting records refer to where their extents are now.

use crate::format::{Entry, ExtentRef};
use crate::store::mutation::{Moving, Owner, OwnerKind};
use crate::store::plan::Planner;

impl Planner<'_> {
    /// Compares and swaps: a record that is gone, or refers to other extents by now, stays as it is. All else in it is as the
    /// index has it at this moment.
    pub(super) fn move_extents(&mut self, moving: &Moving) {
        let entries = moving.owners.iter().filter_map(|owner| self.moved(owner, moving));
        let entries: Vec<Entry> = entries.collect();
        self.plan.entries.extend(entries);
    }

    fn moved(&self, owner: &Owner, moving: &Moving) -> Option<Entry> {
        let (bucket, key) = (owner.bucket, owner.key.clone());
        match owner.kind {
            OwnerKind::Version(id) => {
                let mut record = self.index.version(bucket, &key, id)?;
                self.redirect(&mut record.extents, moving).then_some(Entry::VersionAmend {
                    bucket,
                    key,
                    record,
                })
            }
            OwnerKind::Part { upload, number, id } => {
                let found = self.index.part(bucket, &key, upload, number);
                let mut record = found.filter(|part| part.id == id)?;
                self.redirect(&mut record.extents, moving).then_some(Entry::PartPut {
                    bucket,
                    key,
                    upload,
                    record,
                })
            }
        }
    }

    /// Whether there was anything to change.
    fn redirect(&self, extents: &mut [ExtentRef], moving: &Moving) -> bool {
        let mut changed = false;
        for extent in extents {
            if let Some((segment, offset)) = moving.target(extent, self.index.liveness()) {
                *extent = ExtentRef { segment, offset, ..*extent };
                changed = true;
            }
        }
        changed
    }
}
