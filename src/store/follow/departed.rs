//! Buckets that are gone, as the log states them before their end (data-format.md, section
//! 6, *bucket delete*).

use std::collections::HashMap;

use super::follower::{Follower, open_log};
use crate::base::limits::MIB;
use crate::format::{BucketConfigurationKind, BucketRecord, Entry, Group};
use crate::log::LogError;
use crate::store::{Store, StoreError};

/// Bytes of documents of the buckets that are read ahead.
const AHEAD_MAX_BYTES: usize = MIB as usize;

/// A bucket that is gone, as it was at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepartedBucket {
    /// The bucket.
    pub record: BucketRecord,
    /// The document of its notifications, if it had some.
    pub notifications: Option<Vec<u8>>,
}

/// The buckets that are gone, of which a follower may have changes to come.
#[derive(Debug, Default)]
pub struct DepartedBuckets {
    /// `None` for one that the log does not state.
    known: HashMap<u64, Option<DepartedBucket>>,
}

impl DepartedBuckets {
    /// The bucket with this id, which the index does not have any more; `None` where the log does
    /// not state it, as an earlier version of the server did not.
    ///
    /// # Errors
    /// Of the disk.
    pub fn get(
        &mut self,
        store: &Store,
        follower: &Follower,
        id: u64,
    ) -> Result<Option<&DepartedBucket>, StoreError> {
        if !self.known.contains_key(&id) {
            self.read_ahead(store, follower, id)?;
        }
        Ok(self.known.get(&id).and_then(Option::as_ref))
    }

    /// Forgets a bucket, whose end was reached.
    pub fn forget(&mut self, id: u64) {
        self.known.remove(&id);
    }

    /// Reads the log from the saved place of the follower on, up to the end of the wanted bucket,
    /// and keeps others that end before it.
    fn read_ahead(&mut self, store: &Store, follower: &Follower, wanted: u64) -> Result<(), StoreError> {
        let shared = &store.shared;
        // What was read ahead earlier is before the saved place by now, or is read again on the
        // way.
        self.known.clear();
        self.known.insert(wanted, None);
        let Some(state) = shared.index().follower(follower.name()).cloned() else { return Ok(()) };
        let Some(mut log) = open_log(shared, state.position)? else { return Ok(()) };
        let through = shared.published().sequence;
        let mut bytes = 0;
        loop {
            let group = match log.next(through) {
                Ok(Some(followed)) => followed.group,
                // The follower meets the damage itself, and reports it.
                Ok(None) | Err(LogError::Damaged(_)) => return Ok(()),
                Err(error) => return Err(shared.failed(error)),
            };
            for departed in departed_in(&group) {
                let id = departed.record.id;
                bytes += departed.notifications.as_ref().map_or(0, Vec::len) + size_of::<DepartedBucket>();
                // The wanted one is kept whatever its length: the caller waits for it alone.
                if id == wanted || bytes <= AHEAD_MAX_BYTES {
                    self.known.insert(id, Some(departed));
                }
                if id == wanted {
                    return Ok(());
                }
            }
        }
    }
}

/// The buckets that a group states and then deletes.
fn departed_in(group: &Group) -> Vec<DepartedBucket> {
    const KIND: BucketConfigurationKind = BucketConfigurationKind::Notification;
    let mut stated: Vec<DepartedBucket> = Vec::new();
    let mut departed = Vec::new();
    for entry in &group.entries {
        match entry {
            Entry::BucketPut(record) => {
                stated.push(DepartedBucket { record: record.clone(), notifications: None });
            }
            Entry::BucketConfiguration { bucket, kind: KIND, document } => {
                let of_bucket = stated.iter_mut().rfind(|it| it.record.id == *bucket);
                if let Some(it) = of_bucket {
                    it.notifications.clone_from(document);
                }
            }
            Entry::BucketDelete { id } => {
                let at = stated.iter().rposition(|it| it.record.id == *id);
                departed.extend(at.map(|at| stated.swap_remove(at)));
            }
            _ => {}
        }
    }
    departed
}
