//! What clients and operators do to a store.

use super::*;

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

/// Something that is done to a store; the first names are those of a bucket and a key. Bytes are
/// told by seed and length.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Create(&'static str),
    Drop(&'static str),
    Versioning(&'static str, Versioning),
    /// Sets or removes the policy of a bucket.
    Configure(&'static str, Option<&'static str>),
    Put(&'static str, &'static str, u64, usize, If),
    /// Of a key in the same bucket so many bytes.
    Copy(&'static str, &'static str, &'static str, Range<u64>),
    Tag(&'static str, &'static str, &'static str),
    /// Lets everybody read an object.
    Publish(&'static str, &'static str),
    /// Retains an object until so many milliseconds after 1970, which lets it be deleted at once.
    Retain(&'static str, &'static str, u64),
    Delete(&'static str, &'static [(&'static str, Which)]),
    /// Deletes keys so long that their entries take up several pages of the log.
    DeleteLong(&'static str),
    /// Where an upload is in progress for the key nothing is done.
    Initiate(&'static str, &'static str),
    Part(&'static str, &'static str, u32, u64, usize),
    Complete(&'static str, &'static str, &'static [u32]),
    Abort(&'static str, &'static str),
    Checkpoint,
    /// As often as it has something to do.
    Reclaim,
    /// With or without an orderly end before it.
    Reopen {
        close: bool,
    },
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
            Self::Configure(name, policy) => {
                let document = policy.map(|text| text.as_bytes().to_vec());
                store.set_bucket_configuration(name, BucketConfigurationKind::Policy, document)
            }
            Self::Put(bucket, key, seed, len, condition) => {
                put_if(store, bucket, key, &bytes(*seed, *len), condition.to_store()).map(|_| ())
            }
            Self::Copy(bucket, from, to, range) => copy(store, bucket, from, to, range),
            Self::Tag(bucket, key, tag) => {
                let version = store.find(bucket, key, Selector::Current)?.version;
                store.set_tags(bucket, key, version, vec![("tag".into(), (*tag).into())])
            }
            Self::Publish(bucket, key) => {
                let version = store.find(bucket, key, Selector::Current)?.version;
                store.set_acl(bucket, key, version, AclGrants::ALL_READ, Vec::new())
            }
            Self::Retain(bucket, key, until) => {
                let version = store.find(bucket, key, Selector::Current)?.version;
                store.set_retention(bucket, key, version, retention_until(*until), false)
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
            Self::Reclaim => reclaim_all(store),
            Self::Reopen { .. } => unreachable!("whoever has the disk reopens the store"),
            upload => upload.run_upload(store),
        }
    }

    fn run_upload(&self, store: &Store) -> Result<(), StoreError> {
        match self {
            Self::Initiate(bucket, key) => {
                if upload_of(store, bucket, key).is_ok() {
                    return Ok(());
                }
                let checksum = None;
                let attributes = Attributes::new();
                let new = NewUpload {
                    storage_class: StorageClass::Standard,
                    initiator: "admin".into(),
                    checksum,
                    attributes,
                    tags: vec![],
                    controls: ObjectControls::default(),
                };
                store.create_upload(bucket, key, new).map(|_| ())
            }
            Self::Part(bucket, key, number, seed, len) => {
                let bytes = bytes(*seed, *len);
                let upload = upload_of(store, bucket, key)?;
                let mut writer = store.part_writer(bucket, key, upload, *number, None)?;
                writer.write(&bytes)?;
                writer.commit(Md5::of(&bytes), None).map(|_| ())
            }
            Self::Complete(bucket, key, numbers) => {
                let upload = upload_of(store, bucket, key)?;
                let mut parts = store.upload(bucket, key, upload)?.parts;
                parts.retain(|part| numbers.contains(&part.number));
                let completion = Completion { upload, parts, commit: commit_of(b"") };
                store.complete_upload(bucket, key, completion).map(|_| ())
            }
            Self::Abort(bucket, key) => store.abort_upload(bucket, key, upload_of(store, bucket, key)?),
            other => unreachable!("{other:?} is about no upload"),
        }
    }
}

impl If {
    fn to_store(self) -> WriteCondition {
        match self {
            Self::Always => WriteCondition::None,
            Self::Absent => WriteCondition::IfAbsent,
            Self::Is(seed, len) => WriteCondition::IfMatch(ETag::Md5(Md5::of(&bytes(seed, len))).to_string()),
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

/// A retention that has ended.
pub(super) fn retention_until(millis: u64) -> Option<Retention> {
    Some(Retention { mode: RetentionMode::Governance, until: Timestamp::from_millis(millis) })
}

pub(super) fn long_keys() -> impl Iterator<Item = String> {
    (0..9).map(|number| format!("{number:01000}"))
}

fn delete_all(
    store: &Store,
    bucket: &str,
    keys: impl Iterator<Item = (String, Selector)>,
) -> Result<(), StoreError> {
    let deletions =
        keys.map(|(key, which)| Deletion { key, which, condition: DeleteCondition::default() }).collect();
    store.delete(bucket, deletions)?.into_iter().try_for_each(|result| result.map(|_| ()))
}

fn copy(store: &Store, bucket: &str, from: &str, to: &str, range: &Range<u64>) -> Result<(), StoreError> {
    let found = store.find(bucket, from, Selector::Current)?;
    if found.version.delete_marker {
        return Err(StoreError::NoSuchKey);
    }
    let source =
        CopyRange { bucket: found.bucket.id, key: from.into(), version: found.version, range: range.clone() };
    store.copy(source, bucket, to, commit_of(b"")).map(|_| ())
}

/// The upload in progress for a key.
fn upload_of(store: &Store, bucket: &str, key: &str) -> Result<UploadId, StoreError> {
    let query = ListQuery { prefix: key.into(), limit: 1, ..ListQuery::default() };
    let page = store.list_uploads(bucket, &query, None)?;
    page.keys().next().map(|(_, upload)| upload.id).ok_or(StoreError::NoSuchUpload)
}
