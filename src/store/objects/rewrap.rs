//! Wrapping the keys of objects anew, under the keys of the ring that have taken the place of
//! others.

use std::collections::BTreeMap;

use crate::base::limits::MIB;
use crate::format::{Entry, WrappedKey};
use crate::index::Cursor;
use crate::store::commit::mutation::{Mutation, RecordId, ReferringRecord, RewrappedKeys};
use crate::store::shared::SharedStore;
use crate::store::{Store, StoreError};

/// Keys and uploads that a step of a rewrap looks at.
const STEP_NAMES: usize = 256;

/// Records that change in one group, at most: a step may see thousands of versions of one key.
const GROUP_RECORDS_MAX: usize = 256;
/// Bytes of their records, unless there is but one.
const GROUP_BYTES_MAX: usize = MIB as usize;

/// The position of a rewrap over the whole store. A new one begins.
#[derive(Debug)]
pub struct RewrapCursor(Cursor);

impl Default for RewrapCursor {
    fn default() -> Self {
        Self(Cursor::Start)
    }
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RewrapStep {
    /// Whether there is more to look at.
    pub more: bool,
    /// Versions, uploads and parts that were looked at, and all other records.
    pub seen: u64,
    /// Versions, uploads and parts whose keys were wrapped anew.
    pub rewrapped: u64,
    /// Those whose master key the ring lacks, or has with other bytes.
    pub unavailable: u64,
}

impl Store {
    /// Wraps the keys of further objects, uploads and parts, whose master key was an earlier one of
    /// the ring, by the current one; those under an earlier key of a name by the newest of that
    /// name. Durable on return. Bytes stay as they are, and so does what is encrypted with
    /// customers' keys. The work may end after any step: who begins again passes over what is done.
    ///
    /// # Errors
    /// [`StoreError::KeyUnavailable`] without a current key; errors of the commit.
    pub fn rewrap(&self, cursor: &mut RewrapCursor) -> Result<RewrapStep, StoreError> {
        self.shared.current_key_id()?;
        let entries = self.shared.index().walk(&mut cursor.0, STEP_NAMES);
        let seen = entries.len() as u64;
        let mut step = RewrapStep { more: seen > 0, seen, ..RewrapStep::default() };
        // The keys are wrapped here and not by the committer: other commits do not wait for it. It
        // takes each only if the record still has the keys of before.
        let mut changes = Vec::new();
        for entry in entries {
            let Some(due) = OutdatedKeys::of(entry, &self.shared) else { continue };
            match self.wrapped_anew(&due.keys) {
                Ok(keys) => changes.push(RewrappedKeys { record: due.record, before: due.keys, keys }),
                // One object with a lost key does not keep the others from the new one.
                Err(StoreError::KeyUnavailable(_) | StoreError::WrongRingKey(_)) => step.unavailable += 1,
                Err(error) => return Err(error),
            }
        }
        for group in groups_of(changes) {
            step.rewrapped += self.committer.submit(|reply| Mutation::Rewrap(group, reply))?;
        }
        Ok(step)
    }

    /// Waits until all changes that were decided before this call are visible.
    ///
    /// # Errors
    /// If the store takes no changes.
    pub fn settle(&self) -> Result<(), StoreError> {
        self.committer.submit(|reply| Mutation::Rewrap(Vec::new(), reply)).map(drop)
    }

    /// The versions, uploads and parts that need each key of the ring, by its id.
    pub fn key_uses(&self) -> BTreeMap<String, u64> {
        self.shared.index().key_uses().clone()
    }

    /// The keys, those that another key of the ring is to wrap wrapped by it.
    fn wrapped_anew(&self, keys: &[WrappedKey]) -> Result<Vec<WrappedKey>, StoreError> {
        let mut anew = Vec::with_capacity(keys.len());
        for key in keys {
            anew.push(match self.shared.renewal(key) {
                Some(new) => self.shared.wrap(&new, &self.shared.open_key(key, None)?)?,
                None => key.clone(),
            });
        }
        Ok(anew)
    }
}

/// The changes in groups, each of which fits in a group of the log.
fn groups_of(changes: Vec<RewrappedKeys>) -> Vec<Vec<RewrappedKeys>> {
    let mut groups: Vec<Vec<RewrappedKeys>> = Vec::new();
    let mut bytes = 0;
    for change in changes {
        let len = change.record.len;
        match groups.last_mut() {
            Some(group) if group.len() < GROUP_RECORDS_MAX && bytes + len <= GROUP_BYTES_MAX => {
                bytes += len;
                group.push(change);
            }
            _ => {
                bytes = len;
                groups.push(vec![change]);
            }
        }
    }
    groups
}

/// Keys that others of the ring are to wrap.
struct OutdatedKeys {
    record: ReferringRecord,
    keys: Vec<WrappedKey>,
}

impl OutdatedKeys {
    /// The keys of a record, if one of them is wrapped by an earlier key of the ring.
    fn of(entry: Entry, shared: &SharedStore) -> Option<Self> {
        let keys = entry.wrapped_keys().to_vec();
        if !keys.iter().any(|key| shared.renewal(key).is_some()) {
            return None;
        }
        let mut encoded = Vec::new();
        entry.encode(&mut encoded);
        let len = encoded.len();
        let record = match entry {
            Entry::VersionPut { bucket, key, record } => {
                ReferringRecord::of_version(bucket, key, record.id, len)
            }
            Entry::UploadPut { bucket, key, record } => {
                ReferringRecord::of_upload(bucket, key, record.id, len)
            }
            Entry::PartPut { bucket, key, upload, record } => {
                let id = RecordId::Part { upload, number: record.number, id: record.id };
                ReferringRecord { bucket, key, id, len }
            }
            _ => return None,
        };
        Some(Self { record, keys })
    }
}
