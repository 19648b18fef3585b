//! Deciding what a group does: each mutation against the index and what the mutations before it in the same group
//! have changed. Nothing is written here.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use crate::base::Timestamp;
use crate::format::{
    Attributes, BucketRecord, Descriptor, ETag, Entry, ExtentRef, Purpose, VersionId, VersionRecord,
    VersionSummary, Versioning,
};
use crate::index::Index;
use crate::log::PackBuilder;
use crate::store::mutation::{BucketChange, Content, Deletions, Mutation, Put};
use crate::store::stamps::Stamps;
use crate::store::{Deleted, Deletion, Selector, StoreError, VersionRef, WriteCondition, Written};

/// Sends an answer once it is known whether the group is durable.
pub(super) type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// What a group will write.
#[derive(Default)]
pub(super) struct Plan {
    /// The entries; those of packed objects lack their extent.
    pub(super) entries: Vec<Entry>,
    /// The packed objects.
    pub(super) pack: PackBuilder,
    /// Which entries they belong to, in the order of the pack.
    packed: Vec<usize>,
    /// The answers, refusals among them: what a refusal is based on may be part of this group.
    pub(super) answers: Vec<Answer>,
}

impl Plan {
    /// Puts in where the pack's extents are.
    pub(super) fn place_pack(&mut self, extents: &[ExtentRef]) {
        for (at, extent) in self.packed.iter().zip(extents) {
            let Entry::VersionPut { record, .. } = &mut self.entries[*at] else {
                unreachable!("only a put has a packed object");
            };
            record.extents = vec![*extent];
        }
    }
}

/// Makes a plan.
pub(super) struct Planner<'a> {
    index: &'a Index,
    stamps: &'a Stamps,
    now: Timestamp,
    /// Whether there is room for packed objects.
    room: bool,
    /// The versions of the keys that this group has changed, newest first.
    changed: HashMap<(u64, Vec<u8>), Vec<VersionSummary>>,
    plan: Plan,
}

impl<'a> Planner<'a> {
    pub(super) fn new(index: &'a Index, stamps: &'a Stamps, now: Timestamp, room: bool) -> Self {
        Self { index, stamps, now, room, changed: HashMap::new(), plan: Plan::default() }
    }

    /// Decides one mutation.
    pub(super) fn add(&mut self, mutation: Mutation) {
        match mutation {
            Mutation::Bucket(change, reply) => {
                let decided = self.change_bucket(change);
                self.answer(decided, reply);
            }
            Mutation::Put(put, reply) => {
                let decided = self.put(*put);
                self.answer(decided, reply);
            }
            Mutation::Delete { bucket, deletions, reply } => {
                let decided = self.delete(&bucket, deletions);
                self.answer(decided, reply);
            }
        }
    }

    pub(super) fn finish(self) -> Plan {
        self.plan
    }

    fn answer<T: Send + 'static>(
        &mut self,
        decided: Result<T, StoreError>,
        reply: crossbeam_channel::Sender<Result<T, StoreError>>,
    ) {
        self.plan.answers.push(Box::new(move |durable| {
            // Whoever asked may have gone away: then nobody is told.
            let _ = reply.send(durable.and(decided));
        }));
    }

    fn change_bucket(&mut self, change: BucketChange) -> Result<BucketRecord, StoreError> {
        match change {
            BucketChange::Create { name, owner } => self.create_bucket(name, owner),
            BucketChange::Delete { name } => {
                let record = self.bucket(&name)?.clone();
                if !self.index.is_empty(record.id) {
                    return Err(StoreError::BucketNotEmpty);
                }
                self.plan.entries.push(Entry::BucketDelete { id: record.id });
                Ok(record)
            }
            BucketChange::SetVersioning { name, versioning } => {
                let record = BucketRecord { versioning, ..self.bucket(&name)?.clone() };
                self.plan.entries.push(Entry::BucketPut(record.clone()));
                Ok(record)
            }
        }
    }

    fn create_bucket(&mut self, name: String, owner: String) -> Result<BucketRecord, StoreError> {
        if let Some(taken) = self.index.bucket(&name) {
            return Err(StoreError::BucketExists { owner: taken.owner.clone() });
        }
        let id = self.stamps.next();
        let record = BucketRecord { id, name, owner, created: self.now, versioning: Versioning::Unset };
        self.plan.entries.push(Entry::BucketPut(record.clone()));
        Ok(record)
    }

    fn bucket(&self, name: &str) -> Result<&'a BucketRecord, StoreError> {
        self.index.bucket(name).ok_or(StoreError::NoSuchBucket)
    }

    fn put(&mut self, put: Put) -> Result<Written, StoreError> {
        let bucket = self.bucket(&put.bucket.name)?;
        if bucket.id != put.bucket.id {
            // It was deleted, and another made, while the bytes came in.
            return Err(StoreError::NoSuchBucket);
        }
        let current = self.versions(bucket.id, put.key.as_bytes()).first().copied();
        check(&put.commit.condition, current.as_ref())?;
        let (id, size, extents) = match &put.content {
            Content::Packed { .. } if !self.room => return Err(StoreError::DiskFull),
            Content::Packed { payload, .. } => {
                (VersionId(self.stamps.next()), payload.len() as u64, Vec::new())
            }
            Content::Stored { extents, id, size } => (*id, *size, extents.clone()),
        };
        let record = VersionRecord {
            id,
            null: bucket.versioning != Versioning::Enabled,
            delete_marker: false,
            modified: self.now,
            size,
            etag: put.commit.etag,
            extents,
            attributes: put.commit.attributes,
            checksums: put.commit.checksums,
            tags: put.commit.tags,
            upload: None,
        };
        let written = Written { id, null: record.null, modified: self.now };
        let key = put.key.into_bytes();
        if let Content::Packed { payload, crc } = put.content {
            self.pack(bucket, &key, &record, &payload, crc);
        }
        self.put_version(bucket.id, key, record);
        Ok(written)
    }

    fn pack(&mut self, bucket: &BucketRecord, key: &[u8], record: &VersionRecord, payload: &[u8], crc: u32) {
        let descriptor = Descriptor {
            bucket: bucket.id,
            bucket_name: bucket.name.clone(),
            key: key.to_vec(),
            write: record.id.0,
            position: 0,
            purpose: Purpose::Object(Some(Box::new(record.clone()))),
        };
        self.plan.pack.push(payload, crc, &descriptor);
        self.plan.packed.push(self.plan.entries.len());
    }

    fn put_version(&mut self, bucket: u64, key: Vec<u8>, record: VersionRecord) {
        let versions = self.versions(bucket, &key);
        versions.retain(|old| !(record.null && old.null));
        versions.insert(0, record.summary());
        self.plan.entries.push(Entry::VersionPut { bucket, key, record });
    }

    fn delete(&mut self, bucket: &str, deletions: Vec<Deletion>) -> Result<Deletions, StoreError> {
        let bucket = self.bucket(bucket)?;
        Ok(deletions.into_iter().map(|deletion| self.delete_one(bucket, deletion)).collect())
    }

    fn delete_one(&mut self, bucket: &BucketRecord, deletion: Deletion) -> Result<Deleted, StoreError> {
        let Deletion { key, which, if_match } = deletion;
        let key = key.into_bytes();
        let found = self.versions(bucket.id, &key).iter().find(|version| which.accepts(version)).copied();
        if let Some(etag) = if_match {
            check(&WriteCondition::IfMatch(etag), found.as_ref())?;
        }
        let named = match which {
            Selector::Current if bucket.versioning == Versioning::Unset => None,
            Selector::Current => return Ok(self.add_marker(bucket, key)),
            Selector::Null => Some(VersionRef::Null),
            Selector::Id(id) => Some(VersionRef::Id(id)),
        };
        if let Some(version) = found {
            self.versions(bucket.id, &key).retain(|old| old.id != version.id);
            self.plan.entries.push(Entry::VersionDelete { bucket: bucket.id, key, version: version.id });
        }
        let delete_marker = named.is_some() && found.is_some_and(|version| version.delete_marker);
        Ok(Deleted { delete_marker, version: named })
    }

    fn add_marker(&mut self, bucket: &BucketRecord, key: Vec<u8>) -> Deleted {
        let id = VersionId(self.stamps.next());
        let null = bucket.versioning != Versioning::Enabled;
        let record = VersionRecord {
            id,
            null,
            delete_marker: true,
            modified: self.now,
            size: 0,
            etag: ETag::None,
            extents: Vec::new(),
            attributes: Attributes::new(),
            checksums: Vec::new(),
            tags: Vec::new(),
            upload: None,
        };
        self.put_version(bucket.id, key, record);
        let version = if null { VersionRef::Null } else { VersionRef::Id(id) };
        Deleted { delete_marker: true, version: Some(version) }
    }

    /// The versions of a key as they are when the mutations so far have been made.
    fn versions(&mut self, bucket: u64, key: &[u8]) -> &mut Vec<VersionSummary> {
        match self.changed.entry((bucket, key.to_vec())) {
            Slot::Occupied(known) => known.into_mut(),
            Slot::Vacant(unknown) => unknown.insert(self.index.summaries(bucket, key).collect()),
        }
    }
}

fn check(condition: &WriteCondition, current: Option<&VersionSummary>) -> Result<(), StoreError> {
    let current = current.filter(|version| !version.delete_marker);
    match (condition, current) {
        (WriteCondition::None, _) | (WriteCondition::IfAbsent, None) => Ok(()),
        (WriteCondition::IfAbsent, Some(_)) => Err(StoreError::PreconditionFailed),
        (WriteCondition::IfMatch(_), None) => Err(StoreError::NoSuchKey),
        (WriteCondition::IfMatch(wanted), Some(version)) => {
            let tag = version.etag.to_string();
            let same = wanted == "*" || wanted.trim_matches('"') == tag.trim_matches('"');
            if same { Ok(()) } else { Err(StoreError::PreconditionFailed) }
        }
    }
}
