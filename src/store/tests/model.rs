//! What a store must hold after given steps, worked out without the code under test.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::steps::{If, Step, Which, long_keys, retention_until};
use super::*;
use crate::format::Entry;
use crate::index::{Cursor, Index};
use crate::store::shared::text::text;

/// The bytes of an object or part.
#[derive(Clone, PartialEq, Eq)]
struct Content(Arc<Vec<u8>>);

impl Content {
    fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes with MD5 {}", self.0.len(), ETag::Md5(Md5::of(&self.0)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    /// Unknown where nobody was told.
    id: Option<VersionId>,
    null: bool,
    marker: bool,
    content: Content,
    tag: Option<String>,
    controls: ObjectControls,
}

impl Version {
    fn agrees_with(&self, found: &Self) -> bool {
        let same_id = self.id.is_none() || self.id == found.id;
        same_id && Self { id: found.id, ..self.clone() } == *found
    }

    fn selector(&self) -> Selector {
        match self.id {
            Some(id) if !self.null => Selector::Id(id),
            _ => Selector::Null,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Bucket {
    versioning: Versioning,
    policy: Option<Vec<u8>>,
    /// Versions newest first; no key without one.
    keys: BTreeMap<String, Vec<Version>>,
    /// The parts of the upload that is in progress for a key.
    uploads: BTreeMap<String, BTreeMap<u32, Content>>,
}

/// What a store holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Model {
    buckets: BTreeMap<String, Bucket>,
}

impl Model {
    /// Everything that can be found in a store, read to the last byte.
    pub(super) fn of(store: &Store) -> Self {
        let mut model = Self::default();
        let mut names = BTreeMap::new();
        for bucket in store.buckets() {
            names.insert(bucket.id, bucket.name.clone());
            model.buckets.insert(bucket.name, Bucket { versioning: bucket.versioning, ..Bucket::default() });
        }
        for entry in entries_of(store) {
            model.put(&names, store, entry);
        }
        model.check_public_view(store);
        model
    }

    fn put(&mut self, names: &BTreeMap<u64, String>, store: &Store, entry: Entry) {
        if let Entry::BucketConfiguration { bucket, kind, document } = entry {
            assert_eq!(kind, BucketConfigurationKind::Policy);
            self.buckets.get_mut(&names[&bucket]).expect("it has a name").policy = document;
            return;
        }
        let (Entry::VersionPut { bucket, .. }
        | Entry::UploadPut { bucket, .. }
        | Entry::PartPut { bucket, .. }) = &entry
        else {
            return;
        };
        let name = &names[bucket];
        let bucket = self.buckets.get_mut(name).expect("it has a name");
        match entry {
            Entry::VersionPut { key, record, .. } => {
                bucket.keys.entry(text(key)).or_default().insert(0, version_of(store, record));
            }
            Entry::UploadPut { key, .. } => {
                let other = bucket.uploads.insert(text(key), BTreeMap::new());
                assert_eq!(other, None, "there is one upload for a key");
            }
            Entry::PartPut { key, upload, record, .. } => {
                let key = text(key);
                let content = content_of(store.read_part(name, &key, upload, &record).unwrap());
                bucket.uploads.get_mut(&key).unwrap().insert(record.number, content);
            }
            _ => unreachable!("nothing else is in a bucket"),
        }
    }

    /// Whether `found` may be this, as far as it is known.
    pub(super) fn agrees_with(&self, found: &Self) -> bool {
        let versions = |ours: &Vec<Version>, theirs: &Vec<Version>| {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(ours, theirs)| ours.agrees_with(theirs))
        };
        let bucket = |ours: &Bucket, theirs: &Bucket| {
            let same = (ours.versioning, &ours.policy) == (theirs.versioning, &theirs.policy);
            same && ours.uploads == theirs.uploads && all_agree(&ours.keys, &theirs.keys, versions)
        };
        all_agree(&self.buckets, &found.buckets, bucket)
    }

    /// Clients find through every door what stands in the model.
    fn check_public_view(&self, store: &Store) {
        for (name, bucket) in &self.buckets {
            let configured = store.configured_bucket(name).unwrap();
            let policy = configured.configuration(BucketConfigurationKind::Policy);
            assert_eq!(policy.map(BucketConfiguration::document), bucket.policy.as_deref());
            let visible = bucket.keys.iter().filter(|(_, versions)| !versions[0].marker);
            assert_eq!(keys(store, name), visible.map(|(key, _)| key.clone()).collect::<Vec<_>>());
            for (key, versions) in &bucket.keys {
                let current = store.find(name, key, Selector::Current).unwrap().version;
                assert_eq!(Some(current.id), versions[0].id);
                for version in versions {
                    let found = store.find(name, key, version.selector()).unwrap().version;
                    assert_eq!((Some(found.id), found.null), (version.id, version.null));
                }
            }
        }
    }

    /// Does a step in the model; ids of new versions are unknown. An error is what the store must
    /// answer.
    pub(super) fn after(&self, step: &Step) -> Result<Self, StoreError> {
        let mut next = self.clone();
        match step {
            Step::Create(name) => match self.buckets.contains_key(*name) {
                true => return Err(StoreError::BucketExists { owner: "admin".into() }),
                false => drop(next.buckets.insert((*name).into(), Bucket::default())),
            },
            Step::Drop(name) => match &self.bucket(name)?.keys {
                keys if !keys.is_empty() => return Err(StoreError::BucketNotEmpty),
                _ => drop(next.buckets.remove(*name)),
            },
            Step::Checkpoint | Step::Reclaim | Step::Reopen { .. } => {}
            Step::Versioning(name, ..)
            | Step::Configure(name, ..)
            | Step::Put(name, ..)
            | Step::Copy(name, ..)
            | Step::Tag(name, ..)
            | Step::Publish(name, ..)
            | Step::Retain(name, ..)
            | Step::Delete(name, ..)
            | Step::DeleteLong(name)
            | Step::Initiate(name, ..)
            | Step::Part(name, ..)
            | Step::Complete(name, ..)
            | Step::Abort(name, ..) => {
                next.buckets.get_mut(*name).ok_or(StoreError::NoSuchBucket)?.take(step)?;
            }
        }
        Ok(next)
    }

    fn bucket(&self, name: &str) -> Result<&Bucket, StoreError> {
        self.buckets.get(name).ok_or(StoreError::NoSuchBucket)
    }

    /// Learns the ids of versions from what a store shows its readers, which needs no disk.
    pub(super) fn learn_ids(&mut self, store: &Store) {
        let index = store.shared.index();
        for (name, bucket) in &mut self.buckets {
            let id = index.bucket(name).expect("the bucket was acknowledged").id;
            for (key, versions) in &mut bucket.keys {
                let ids: Vec<_> = index.summaries(id, key.as_bytes()).map(|version| version.id).collect();
                assert_eq!(ids.len(), versions.len(), "versions of {name}/{key}");
                versions.iter_mut().zip(ids).for_each(|(version, id)| version.id = Some(id));
            }
        }
    }
}

impl Bucket {
    /// Does a step that concerns this bucket alone.
    fn take(&mut self, step: &Step) -> Result<(), StoreError> {
        match step {
            Step::Versioning(_, versioning) => self.versioning = *versioning,
            Step::Configure(_, policy) => self.policy = policy.map(|text| text.as_bytes().to_vec()),
            Step::Put(_, key, seed, len, condition) => {
                self.check(key, *condition)?;
                self.put(key, Content::new(bytes(*seed, *len)), false);
            }
            Step::Copy(_, from, to, range) => {
                let source = self.current(from).ok_or(StoreError::NoSuchKey)?.content.0.clone();
                let end = source.len().min(range.end as usize);
                let copied = source[end.min(range.start as usize)..end].to_vec();
                self.put(to, Content::new(copied), false);
            }
            Step::Tag(_, key, tag) => {
                self.keys.get_mut(*key).ok_or(StoreError::NoSuchKey)?[0].tag = Some((*tag).into());
            }
            Step::Publish(_, key) => {
                self.keys.get_mut(*key).ok_or(StoreError::NoSuchKey)?[0].controls.acl = AclGrants::ALL_READ;
            }
            Step::Retain(_, key, until) => {
                let versions = self.keys.get_mut(*key).ok_or(StoreError::NoSuchKey)?;
                versions[0].controls.retention = retention_until(*until);
            }
            Step::Delete(_, deletions) => deletions.iter().for_each(|(key, which)| self.delete(key, *which)),
            Step::DeleteLong(_) => long_keys().for_each(|key| self.delete(&key, Which::Current)),
            Step::Initiate(_, key) => drop(self.uploads.entry((*key).into()).or_default()),
            Step::Part(_, key, number, seed, len) => {
                let parts = self.uploads.get_mut(*key).ok_or(StoreError::NoSuchUpload)?;
                parts.insert(*number, Content::new(bytes(*seed, *len)));
            }
            Step::Complete(_, key, numbers) => {
                let mut parts = self.uploads.get(*key).cloned().ok_or(StoreError::NoSuchUpload)?;
                parts.retain(|number, _| numbers.contains(number));
                if parts.is_empty() {
                    return Err(StoreError::PartsOutOfOrder);
                }
                self.uploads.remove(*key);
                let whole = parts.values().flat_map(|part| part.0.to_vec()).collect();
                self.put(key, Content::new(whole), false);
            }
            Step::Abort(_, key) => drop(self.uploads.remove(*key).ok_or(StoreError::NoSuchUpload)?),
            other => unreachable!("{other:?} concerns more than a bucket"),
        }
        Ok(())
    }

    fn current(&self, key: &str) -> Option<&Version> {
        self.keys.get(key).map(|versions| &versions[0]).filter(|version| !version.marker)
    }

    fn check(&self, key: &str, condition: If) -> Result<(), StoreError> {
        match (condition, self.current(key)) {
            (If::Always, _) | (If::Absent, None) => Ok(()),
            (If::Is(..), None) => Err(StoreError::NoSuchKey),
            (If::Is(seed, len), Some(version)) if *version.content.0 == bytes(seed, len) => Ok(()),
            _ => Err(StoreError::PreconditionFailed),
        }
    }

    fn put(&mut self, key: &str, content: Content, marker: bool) {
        let null = self.versioning != Versioning::Enabled;
        let versions = self.keys.entry(key.into()).or_default();
        versions.retain(|old| !(null && old.null));
        let id = None;
        let tag = None;
        let controls = ObjectControls::default();
        versions.insert(0, Version { id, null, marker, content, tag, controls });
    }

    fn delete(&mut self, key: &str, which: Which) {
        if matches!(which, Which::Current) && self.versioning != Versioning::Unset {
            return self.put(key, Content::new(Vec::new()), true);
        }
        let Some(versions) = self.keys.get_mut(key) else {
            return;
        };
        let found = match which {
            Which::Current => Some(0),
            Which::Null => versions.iter().position(|version| version.null),
            Which::Nth(at) => Some(at).filter(|at| *at < versions.len()),
        };
        found.into_iter().for_each(|at| drop(versions.remove(at)));
        if versions.is_empty() {
            self.keys.remove(key);
        }
    }
}

fn version_of(store: &Store, record: VersionRecord) -> Version {
    let content = content_of(read_record(store, &record, 0..record.size).unwrap());
    let VersionRecord { id, null, delete_marker: marker, mut tags, controls, .. } = record;
    let tag = tags.pop().map(|(_, value)| value);
    Version { id: Some(id), null, marker, content, tag, controls }
}

fn content_of(mut reader: ObjectReader) -> Content {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 150_000];
    loop {
        match reader.read(&mut buffer).expect("it can be read") {
            0 => return Content::new(bytes),
            len => bytes.extend_from_slice(&buffer[..len]),
        }
    }
}

fn all_agree<T>(
    ours: &BTreeMap<String, T>,
    theirs: &BTreeMap<String, T>,
    agree: impl Fn(&T, &T) -> bool,
) -> bool {
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(ours, theirs)| ours.0 == theirs.0 && agree(ours.1, theirs.1))
}

/// The entries that make the index: the oldest version of a key first. What it knows of live bytes
/// is the same as if it had been made from them.
fn entries_of(store: &Store) -> Vec<Entry> {
    let index = store.shared.index();
    let mut all = Vec::new();
    let mut cursor = Cursor::Start;
    let mut made = Index::bulk_loading();
    loop {
        let entries = index.walk(&mut cursor, 3);
        if entries.is_empty() {
            break;
        }
        all.extend(entries);
    }
    all.iter().for_each(|entry| made.apply(entry).unwrap());
    made.finish_loading();
    assert!(made.liveness().iter().eq(index.liveness().iter()));
    all
}
