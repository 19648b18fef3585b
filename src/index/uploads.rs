//! Multipart uploads in progress, ordered by key and then by the time of initiation, which their
//! ids follow.

use std::ops::Bound;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use crate::base::Timestamp;
use crate::format::{
    ChecksumAlgorithm, ChecksumType, ObjectOwner, PartRecord, StorageClass, UploadId, UploadRecord,
    WrappedKey,
};
use crate::index::listing::{ListPage, ListQuery};
use crate::index::memory::{heap_bytes, map_entry_bytes, shared_bytes};
use crate::index::parts::PartTable;
use crate::index::usage::ContentTotal;

/// An upload and its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// The upload.
    pub record: UploadRecord,
    /// Its parts, by number.
    pub parts: Vec<PartRecord>,
}

/// The listed fields of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadSummary {
    /// Its id.
    pub id: UploadId,
    /// The time of initiation.
    pub initiated: Timestamp,
    /// The name of the user who initiated it.
    pub initiator: String,
    /// The owner of the object to be, where it is not the owner of the bucket.
    pub owner: Option<ObjectOwner>,
    /// The checksum that the client announced.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// The storage class that the object will have.
    pub storage_class: StorageClass,
}

impl From<&UploadRecord> for UploadSummary {
    fn from(record: &UploadRecord) -> Self {
        let UploadRecord { id, initiated, ref initiator, checksum, storage_class, .. } = *record;
        let owner = record.controls.users.as_ref().and_then(|users| users.owner.clone());
        Self { id, initiated, initiator: initiator.clone(), owner, checksum, storage_class }
    }
}

/// An upload as the index keeps it.
#[derive(Clone)]
pub(super) struct UploadEntry {
    pub(super) record: Arc<UploadRecord>,
    pub(super) parts: PartTable,
}

/// A key and the id of an upload for it.
type UploadKey = (Arc<[u8]>, UploadId);

/// The uploads of one bucket. A clone is a snapshot and costs O(1).
#[derive(Clone, Default)]
pub(super) struct Uploads {
    uploads: RedBlackTreeMapSync<UploadKey, UploadEntry>,
    /// The memory of the uploads, in bytes.
    bytes: u64,
    /// The sizes of the parts of all uploads, in bytes.
    payload: u64,
    /// The bytes of the index that the uploads and their parts count for.
    counted: u64,
}

/// The memory of a record, in bytes: each text is an allocation.
pub(super) fn record_bytes(record: &UploadRecord) -> u64 {
    let tags = record.tags.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let texts =
        record.attributes.iter().chain(tags).map(|(name, value)| text_bytes(name) + text_bytes(value));
    let key = record.encryption.as_ref().map_or(0, |key| size_of::<WrappedKey>() as u64 + key.index_bytes());
    shared_bytes(size_of::<UploadRecord>()) + text_bytes(&record.initiator) + texts.sum::<u64>() + key
}

fn text_bytes(text: &str) -> u64 {
    size_of::<String>() as u64 + heap_bytes(text.len())
}

/// The bytes of the index that an upload without parts counts for.
pub fn upload_index_bytes(key: &[u8], record: &UploadRecord) -> u64 {
    map_entry_bytes::<UploadKey, UploadEntry>() + shared_bytes(key.len()) + record_bytes(record)
}

impl UploadEntry {
    fn to_upload(&self) -> Upload {
        Upload { record: UploadRecord::clone(&self.record), parts: self.parts.iter().collect() }
    }

    fn memory_bytes(&self, key: &[u8]) -> u64 {
        upload_index_bytes(key, &self.record) + self.parts.memory_bytes()
    }

    fn index_bytes(&self, key: &[u8]) -> u64 {
        upload_index_bytes(key, &self.record) + self.parts.index_bytes()
    }
}

impl Uploads {
    /// The memory of the uploads, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds an upload, or puts its record in the place of another, which it returns; its parts
    /// stay.
    pub(super) fn put(&mut self, key: &[u8], record: &UploadRecord) -> Option<Arc<UploadRecord>> {
        let known = self.remove(key, record.id);
        let replaced = known.as_ref().map(|entry| Arc::clone(&entry.record));
        let parts = known.map(|entry| entry.parts).unwrap_or_default();
        let entry = UploadEntry { record: Arc::new(record.clone()), parts };
        self.bytes += entry.memory_bytes(key);
        self.payload += entry.parts.payload_bytes();
        self.counted += entry.index_bytes(key);
        self.uploads.insert_mut((key.into(), record.id), entry);
        replaced
    }

    /// Removes and returns an upload, if it exists.
    pub(super) fn remove(&mut self, key: &[u8], upload: UploadId) -> Option<UploadEntry> {
        let name = (key.into(), upload);
        let entry = self.uploads.get(&name).cloned()?;
        self.uploads.remove_mut(&name);
        self.bytes -= entry.memory_bytes(key);
        self.payload -= entry.parts.payload_bytes();
        self.counted -= entry.index_bytes(key);
        Some(entry)
    }

    /// Adds a part and returns the one that it replaces; `None` when there is no such upload.
    pub(super) fn put_part(
        &mut self,
        key: &[u8],
        upload: UploadId,
        record: &PartRecord,
    ) -> Option<Option<PartRecord>> {
        let parts = &mut self.uploads.get_mut(&(key.into(), upload))?.parts;
        let bytes = parts.memory_bytes();
        let payload = parts.payload_bytes();
        let counted = parts.index_bytes();
        let replaced = parts.put(record);
        self.bytes = self.bytes - bytes + parts.memory_bytes();
        self.payload = self.payload - payload + parts.payload_bytes();
        self.counted = self.counted - counted + parts.index_bytes();
        Some(replaced)
    }

    pub(super) fn contains(&self, key: &[u8], upload: UploadId) -> bool {
        self.uploads.contains_key(&(key.into(), upload))
    }

    pub(super) fn get(&self, key: &[u8], upload: UploadId) -> Option<Upload> {
        self.uploads.get(&(key.into(), upload)).map(UploadEntry::to_upload)
    }

    pub(super) fn part(&self, key: &[u8], upload: UploadId, number: u32) -> Option<PartRecord> {
        self.uploads.get(&(key.into(), upload))?.parts.get(number)
    }

    /// The parts of an upload.
    pub(super) fn parts(&self, key: &[u8], upload: UploadId) -> Option<&PartTable> {
        self.uploads.get(&(key.into(), upload)).map(|entry| &entry.parts)
    }

    pub(super) fn record(&self, key: &[u8], upload: UploadId) -> Option<&UploadRecord> {
        self.uploads.get(&(key.into(), upload)).map(|entry| entry.record.as_ref())
    }

    /// The uploads, and the bytes of their parts.
    pub(super) fn total(&self) -> ContentTotal {
        ContentTotal { count: self.len(), bytes: self.payload }
    }

    /// The bytes of the index that the uploads and their parts count for.
    pub(super) fn index_bytes(&self) -> u64 {
        self.counted
    }

    /// The same of one upload; 0 if it does not exist.
    pub(super) fn index_bytes_of(&self, key: &[u8], upload: UploadId) -> u64 {
        self.uploads.get(&(key.into(), upload)).map_or(0, |entry| entry.index_bytes(key))
    }

    pub(super) fn len(&self) -> u64 {
        self.uploads.size() as u64
    }

    /// All uploads, without their parts.
    pub(super) fn records(&self) -> impl Iterator<Item = &UploadRecord> {
        self.uploads.values().map(|entry| entry.record.as_ref())
    }

    /// The parts of all uploads.
    pub(super) fn all_parts(&self) -> impl Iterator<Item = PartRecord> {
        self.uploads.values().flat_map(|entry| entry.parts.iter())
    }

    /// The uploads after `after`, in order, each with its key and parts.
    pub(super) fn after(
        &self,
        after: Option<(Vec<u8>, UploadId)>,
    ) -> impl Iterator<Item = (&[u8], &UploadRecord, &PartTable)> {
        let from = after.map_or(Bound::Unbounded, |(key, id)| Bound::Excluded((key.into(), id)));
        let found = self.uploads.range((from, Bound::Unbounded));
        found.map(|((key, _), entry): (&UploadKey, &UploadEntry)| {
            (key.as_ref(), entry.record.as_ref(), &entry.parts)
        })
    }

    /// A page of uploads. With `after_id`, it begins with the uploads of the key `query.after` that
    /// have a greater id.
    pub(super) fn list(&self, query: &ListQuery, after_id: Option<UploadId>) -> ListPage<UploadSummary> {
        let mut page = ListPage::default();
        // A page after a common prefix skips all uploads of the key of that name.
        let within = query.after.as_ref().filter(|key| query.common_prefix(key) != Some(key));
        let mut from = match (within, after_id) {
            (Some(key), Some(id)) => Bound::Excluded((key.as_slice().into(), id)),
            _ => match query.start() {
                Some(Bound::Excluded(key)) => Bound::Excluded((key.into(), UploadId(u64::MAX))),
                Some(Bound::Included(key)) => Bound::Included((key.into(), UploadId(0))),
                Some(Bound::Unbounded) => Bound::Unbounded,
                None => return page,
            },
        };
        while let Some(((key, id), entry)) = self.uploads.range((from.clone(), Bound::Unbounded)).next() {
            if !key.starts_with(&query.prefix) {
                // A marker before the prefix starts the scan before it.
                if key.as_ref() < query.prefix.as_slice() {
                    from = Bound::Included((query.prefix.as_slice().into(), UploadId(0)));
                    continue;
                }
                break;
            }
            let Some(prefix) = query.common_prefix(key) else {
                if !page.push(query.limit, key, Some(entry.record.as_ref().into())) {
                    break;
                }
                from = Bound::Excluded((key.clone(), *id));
                continue;
            };
            if !page.push(query.limit, prefix, None) {
                break;
            }
            let Some(next) = ListQuery::past(prefix) else { break };
            from = Bound::Included((next.into(), UploadId(0)));
        }
        page
    }
}
