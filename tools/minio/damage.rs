//! The damage that a reading meets, each once.

use std::collections::BTreeSet;
use std::sync::Mutex;

use siltstone::base::NOT_POISONED;

/// The most that are kept by name.
const KEPT_MAX: usize = 10_000;

/// All damage so far.
#[derive(Default)]
pub(crate) struct DamageLog(Mutex<DamageList>);

#[derive(Default)]
struct DamageList {
    named: BTreeSet<(String, String)>,
    further: u64,
}

impl DamageLog {
    /// Notes that a file is damaged, and how.
    pub(crate) fn note(&self, file: String, what: String) {
        let mut list = self.0.lock().expect(NOT_POISONED);
        let entry = (file, what);
        if list.named.contains(&entry) {
            return;
        }
        match list.named.len() < KEPT_MAX {
            true => drop(list.named.insert(entry)),
            false => list.further += 1,
        }
    }

    /// Files with their damage, and the number of those that are not named.
    pub(crate) fn take(&self) -> (Vec<(String, String)>, u64) {
        let mut list = self.0.lock().expect(NOT_POISONED);
        let list = std::mem::take(&mut *list);
        (list.named.into_iter().collect(), list.further)
    }
}
