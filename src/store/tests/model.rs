//! What a store must hold after given steps, worked out without the code under test.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::*;
use crate::format::Entry;
use crate::index::Cursor;

/// The bytes of an object.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Content(Arc<Vec<u8>>);

impl Content {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes with MD5 {}", self.0.len(), ETag::Md5(Md5::of(&self.0)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    /// Unknown where nobody was told.
    id: Option<VersionId>,
    null: bool,
    marker: bool,
    content: Content,
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
    /// Versions newest first; no key without one.
    keys: BTreeMap<String, Vec<Version>>,
}

/// Which version of a key a test deletes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which {
    Current,
    Null,
    /// Counted from the newest, which is 0, before the first deletion of the step.
    Nth(usize),
}

/// What a put asks of the version before it.
#[derive(Debug, Clone, Copy)]
pub(super) enum If {
    Always,
    Absent,
    /// The object has the bytes that follow from this seed and length.
    Is(u64, usize),
}

/// Something that a client or an operator does to a store.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Create(&'static str),
    Drop(&'static str),
    Versioning(&'static str, Versioning),
    /// Bucket, key, seed and length of the bytes, condition.
    Put(&'static str, &'static str, u64, usize, If),
    Delete(&'static str, &'static [(&'static str, Which)]),
    /// Deletes keys so long that their entries take up several pages of the log.
    DeleteLong(&'static str),
    Checkpoint,
    /// With or without an orderly end before it.
    Reopen {
        close: bool,
    },
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
        for (bucket, key, record) in versions_of(store) {
            let content = Content::new(read_all(store, &record, 0..record.size).expect("it can be read"));
            let VersionRecord { id, null, delete_marker: marker, .. } = record;
            let bucket = model.buckets.get_mut(&names[&bucket]).expect("it has a name");
            let versions = bucket.keys.entry(String::from_utf8(key).unwrap()).or_default();
            versions.insert(0, Version { id: Some(id), null, marker, content });
        }
        model.check_public_view(store);
        model
    }

    /// Whether `found` may be this, as far as it is known.
    pub(super) fn agrees_with(&self, found: &Self) -> bool {
        let versions = |ours: &Vec<Version>, theirs: &Vec<Version>| {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(ours, theirs)| ours.agrees_with(theirs))
        };
        let bucket = |ours: &Bucket, theirs: &Bucket| {
            ours.versioning == theirs.versioning && all_agree(&ours.keys, &theirs.keys, versions)
        };
        all_agree(&self.buckets, &found.buckets, bucket)
    }

    /// Clients find through every door what stands in the model.
    fn check_public_view(&self, store: &Store) {
        for (name, bucket) in &self.buckets {
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

    /// Does a step in the model; ids of new versions are unknown. An error is what the store must answer.
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
            Step::Versioning(name, versioning) => next.bucket_mut(name)?.versioning = *versioning,
            Step::Put(bucket, key, seed, len, condition) => {
                self.check(bucket, key, *condition)?;
                next.bucket_mut(bucket)?.put(key, Content::new(bytes(*seed, *len)), false);
            }
            Step::Delete(bucket, deletions) => {
                let bucket = next.bucket_mut(bucket)?;
                deletions.iter().for_each(|(key, which)| bucket.delete(key, *which));
            }
            Step::DeleteLong(bucket) => {
                let bucket = next.bucket_mut(bucket)?;
                long_keys().for_each(|key| bucket.delete(&key, Which::Current));
            }
            Step::Checkpoint | Step::Reopen { .. } => {}
        }
        Ok(next)
    }

    fn bucket(&self, name: &str) -> Result<&Bucket, StoreError> {
        self.buckets.get(name).ok_or(StoreError::NoSuchBucket)
    }

    fn bucket_mut(&mut self, name: &str) -> Result<&mut Bucket, StoreError> {
        self.buckets.get_mut(name).ok_or(StoreError::NoSuchBucket)
    }

    fn check(&self, bucket: &str, key: &str, condition: If) -> Result<(), StoreError> {
        let versions = self.bucket(bucket)?.keys.get(key);
        let current = versions.map(|versions| &versions[0]).filter(|version| !version.marker);
        match (condition, current) {
            (If::Always, _) | (If::Absent, None) => Ok(()),
            (If::Is(..), None) => Err(StoreError::NoSuchKey),
            (If::Is(seed, len), Some(version)) if version.content.bytes() == bytes(seed, len) => Ok(()),
            _ => Err(StoreError::PreconditionFailed),
        }
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
    fn put(&mut self, key: &str, content: Content, marker: bool) {
        let null = self.versioning != Versioning::Enabled;
        let versions = self.keys.entry(key.into()).or_default();
        versions.retain(|old| !(null && old.null));
        versions.insert(0, Version { id: None, null, marker, content });
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

impl Step {
    pub(super) fn is_reopen(&self) -> bool {
        matches!(self, Self::Reopen { .. })
    }

    /// Does the step to a store; reopening is not among what it can do.
    pub(super) fn run(&self, store: &Store) -> Result<(), StoreError> {
        match self {
            Self::Create(name) => store.create_bucket(name, "admin").map(|_| ()),
            Self::Drop(name) => store.delete_bucket(name),
            Self::Versioning(name, versioning) => store.set_versioning(name, *versioning),
            Self::Put(bucket, key, seed, len, condition) => {
                let condition = match condition {
                    If::Always => WriteCondition::None,
                    If::Absent => WriteCondition::IfAbsent,
                    If::Is(seed, len) => {
                        WriteCondition::IfMatch(ETag::Md5(Md5::of(&bytes(*seed, *len))).to_string())
                    }
                };
                put_if(store, bucket, key, &bytes(*seed, *len), condition).map(|_| ())
            }
            Self::Delete(bucket, deletions) => {
                let chosen =
                    |(key, which): &(&str, Which)| ((*key).into(), which.selector(store, bucket, key));
                delete_all(store, bucket, deletions.iter().map(chosen))
            }
            Self::DeleteLong(bucket) => {
                delete_all(store, bucket, long_keys().map(|key| (key, Selector::Current)))
            }
            Self::Checkpoint => store.checkpoint(),
            Self::Reopen { .. } => unreachable!("whoever has the disk reopens the store"),
        }
    }
}

impl Which {
    fn selector(self, store: &Store, bucket: &str, key: &str) -> Selector {
        match self {
            Self::Current => Selector::Current,
            Self::Null => Selector::Null,
            Self::Nth(at) => {
                let id = store.bucket(bucket).expect("it is there").id;
                let version = store.shared.index().summaries(id, key.as_bytes()).nth(at);
                version.map_or(Selector::Id(VersionId(0)), |version| match version.null {
                    true => Selector::Null,
                    false => Selector::Id(version.id),
                })
            }
        }
    }
}

fn long_keys() -> impl Iterator<Item = String> {
    (0..9).map(|number| format!("{number:01000}"))
}

fn delete_all(
    store: &Store,
    bucket: &str,
    keys: impl Iterator<Item = (String, Selector)>,
) -> Result<(), StoreError> {
    let deletions = keys.map(|(key, which)| Deletion { key, which, if_match: None }).collect();
    store.delete(bucket, deletions)?.into_iter().try_for_each(|result| result.map(|_| ()))
}

fn all_agree<T>(
    ours: &BTreeMap<String, T>,
    theirs: &BTreeMap<String, T>,
    agree: impl Fn(&T, &T) -> bool,
) -> bool {
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(ours, theirs)| ours.0 == theirs.0 && agree(ours.1, theirs.1))
}

/// All versions, the oldest of a key first.
fn versions_of(store: &Store) -> Vec<(u64, Vec<u8>, VersionRecord)> {
    let (mut versions, mut cursor) = (Vec::new(), Cursor::Start);
    loop {
        let entries = store.shared.index().walk(&mut cursor, 100);
        if entries.is_empty() {
            return versions;
        }
        versions.extend(entries.into_iter().filter_map(|entry| match entry {
            Entry::VersionPut { bucket, key, record } => Some((bucket, key, record)),
            _ => None,
        }));
    }
}
