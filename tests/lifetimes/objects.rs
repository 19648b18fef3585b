//! The steps that bring bytes: puts, copies, uploads; and the quotas that they meet.

use std::collections::BTreeMap;
use std::sync::Arc;

use siltstone::base::WriteCondition;
use siltstone::store::{
    Attributes, Commit, CommittedVersion, Completion, CopyRange, DeleteCondition, Deleted, Deletion, ETag,
    NewUpload, ObjectControls, PartRecord, Quota, Retention, Selector, StorageClass, Store, StoreError,
    UploadId, Versioning,
};

use super::model::{ModelUpload, ModelVersion};
use super::run::Run;

/// The metadata of an object.
#[derive(Debug, Clone, Copy)]
struct Traits {
    tagged: bool,
    retention: Option<Retention>,
    held: bool,
}

fn commit_of(traits: Traits) -> Commit {
    let tags = if traits.tagged { vec![("kind".to_owned(), "log".to_owned())] } else { vec![] };
    let legal_hold = traits.held.then_some(true);
    let controls = ObjectControls { retention: traits.retention, legal_hold, ..ObjectControls::default() };
    let attributes = Attributes::new();
    let condition = WriteCondition::None;
    Commit {
        storage_class: StorageClass::Standard,
        etag: ETag::None,
        attributes,
        checksums: vec![],
        tags,
        controls,
        condition,
        stated_time: None,
    }
}

pub(super) fn delete(
    store: &Store,
    bucket: &str,
    key: &str,
    which: Selector,
    bypass: bool,
) -> Result<Deleted, StoreError> {
    let deletions = vec![Deletion { key: key.to_owned(), which, condition: DeleteCondition::default() }];
    let answered = match bypass {
        true => store.delete_bypassing_governance(bucket, deletions),
        false => store.delete(bucket, deletions),
    };
    answered?.remove(0)
}

fn write(
    store: &Store,
    at: (&str, &str),
    bytes: &[u8],
    told: bool,
    commit: Commit,
) -> Result<CommittedVersion, StoreError> {
    let mut writer = store.writer(at.0, at.1, told.then_some(bytes.len() as u64))?;
    writer.write(bytes)?;
    writer.commit(commit)
}

impl Run {
    fn drawn_bytes(&self) -> Arc<Vec<u8>> {
        let fill = self.draw.below(256) as u8;
        Arc::new(vec![fill; self.draw.below(1_200) as usize])
    }

    fn drawn_traits(&self) -> Traits {
        Traits {
            tagged: self.draw.one_in(3),
            retention: self.draw.one_in(4).then(|| self.drawn_retention()),
            held: self.draw.one_in(16),
        }
    }

    pub(super) fn drawn_quota(&self) -> Option<Quota> {
        let bytes = self.draw.one_in(2).then(|| self.draw.below(20_000));
        let objects = self.draw.one_in(2).then(|| self.draw.below(40));
        let uploads = self.draw.one_in(3).then(|| self.draw.below(4));
        (!self.draw.one_in(4)).then_some(Quota { bytes, objects, uploads, ..Quota::default() })
    }

    /// Puts a version into a copy of the model, and returns why the store must refuse it.
    fn expect_version(
        &mut self,
        (bucket, key): (&str, &str),
        bytes: &Arc<Vec<u8>>,
        traits: Traits,
        ended: Option<UploadId>,
    ) -> Vec<super::model::Refusal> {
        let now = self.stamp_time();
        let lock_time = self.lock_time();
        let Traits { tagged, retention, held } = traits;
        self.model.refusals(|model| {
            let bucket = model.bucket(bucket);
            let null = bucket.versioning != Versioning::Enabled;
            let id = None;
            let marker = false;
            let modified = now;
            let bytes = bytes.clone();
            let version = ModelVersion { id, null, marker, modified, bytes, tagged, retention, held };
            bucket.uploads.retain(|upload| Some(upload.id) != ended);
            bucket.put(key, version, lock_time)
        })
    }

    /// Compares the answer of a put.
    fn was_put(
        &mut self,
        (bucket, key): (&str, &str),
        answered: Result<CommittedVersion, StoreError>,
        expected: &[super::model::Refusal],
    ) {
        if let Some(written) = self.agreed(answered, expected) {
            let newest = &mut self.model.bucket(bucket).keys.get_mut(key).expect("it was put")[0];
            assert_eq!((newest.null, newest.modified), (written.null, written.modified.as_millis()));
            newest.id = Some(written.id);
        }
    }

    pub(super) fn put(&mut self, bucket: &str, key: &str) {
        let bytes = self.drawn_bytes();
        let traits = self.drawn_traits();
        let told = self.draw.one_in(2);
        println!("put {bucket}/{key}, {} bytes, {traits:?}", bytes.len());
        let expected = self.expect_version((bucket, key), &bytes, traits, None);
        let answered = write(self.store(), (bucket, key), &bytes, told, commit_of(traits));
        self.was_put((bucket, key), answered, &expected);
    }

    /// A range of an object, and its bytes.
    fn source(&self) -> Option<(CopyRange, Arc<Vec<u8>>)> {
        let name = self.draw.one_of(&super::run::BUCKETS).0;
        let (key, nth) = self.some_version(name)?;
        let version = self.model.buckets[name].keys[&key][nth].clone();
        if version.marker {
            return None;
        }
        let found = self.store().find(name, &key, version.selector()).unwrap();
        let len = self.draw.below(version.bytes.len() as u64 + 1);
        let bytes = Arc::new(version.bytes[..len as usize].to_vec());
        Some((CopyRange { bucket: found.bucket.id, key, version: found.version, range: 0..len }, bytes))
    }

    pub(super) fn copy(&mut self, bucket: &str, key: &str) {
        let Some((source, bytes)) = self.source() else { return };
        let traits = self.drawn_traits();
        println!("copy {} {:?} to {bucket}/{key}, {traits:?}", source.key, source.range);
        let expected = self.expect_version((bucket, key), &bytes, traits, None);
        let answered = self.store().copy(source, bucket, key, commit_of(traits));
        self.was_put((bucket, key), answered, &expected);
    }

    pub(super) fn begin(&mut self, bucket: &str, key: &str) {
        println!("begin {bucket}/{key}");
        let initiated = self.stamp_time();
        let key = key.to_owned();
        let upload = ModelUpload { id: UploadId(0), key: key.clone(), initiated, parts: BTreeMap::new() };
        let expected = self.model.refusals(|model| {
            model.bucket(bucket).uploads.push(upload);
            Ok(())
        });
        let initiator = "ann".to_owned();
        let controls = ObjectControls::default();
        let attributes = Attributes::new();
        let tags = vec![];
        let new = NewUpload {
            storage_class: StorageClass::Standard,
            initiator,
            checksum: None,
            attributes,
            tags,
            controls,
        };
        let answered = self.store().create_upload(bucket, &key, new);
        if let Some(begun) = self.agreed(answered, &expected) {
            self.model.bucket(bucket).uploads.last_mut().expect("it began").id = begun.id;
        }
    }

    pub(super) fn change_upload(&mut self, bucket: &str) {
        let uploads = &self.model.buckets[bucket].uploads;
        if uploads.is_empty() {
            return;
        }
        let nth = self.draw.below(uploads.len() as u64) as usize;
        match self.draw.below(6) {
            0 => {
                let ended = self.model.bucket(bucket).uploads.remove(nth);
                println!("abort {bucket}/{} {:?}", ended.key, ended.id);
                self.store().abort_upload(bucket, &ended.key, ended.id).unwrap();
            }
            1 => self.complete(bucket, nth),
            2 => self.put_part(bucket, nth, true),
            _ => self.put_part(bucket, nth, false),
        }
    }

    fn put_part(&mut self, bucket: &str, nth: usize, is_copy: bool) {
        let number = 1 + self.draw.below(3) as u32;
        let source = if is_copy { self.source() } else { None };
        let bytes = source.as_ref().map_or_else(|| self.drawn_bytes(), |(_, bytes)| bytes.clone());
        let now = self.stamp_time();
        let upload = self.model.buckets[bucket].uploads[nth].clone();
        println!("part {number} of {bucket}/{}, {} bytes, a copy: {is_copy}", upload.key, bytes.len());
        let expected = self.model.refusals(|model| {
            model.bucket(bucket).uploads[nth].parts.insert(number, (bytes.clone(), now));
            Ok(())
        });
        let store = self.store().clone();
        let answered = match source {
            Some((source, _)) => {
                store.copy_part(source, (bucket, &upload.key), (upload.id, number), [0; 16], None)
            }
            None => write_part(&store, bucket, &upload, number, &bytes),
        };
        self.agreed(answered, &expected);
    }

    fn complete(&mut self, bucket: &str, nth: usize) {
        let ModelUpload { id: upload, key, parts, .. } = self.model.buckets[bucket].uploads[nth].clone();
        if parts.is_empty() {
            return;
        }
        // Those that are not named are dropped.
        let numbers: Vec<u32> = parts.keys().copied().filter(|_| !self.draw.one_in(4)).collect();
        let first = *parts.keys().next().expect("it has parts");
        let numbers = if numbers.is_empty() { vec![first] } else { numbers };
        let bytes = numbers.iter().flat_map(|number| parts[number].0.iter().copied()).collect();
        let bytes = Arc::new(bytes);
        let traits = self.drawn_traits();
        println!("complete {bucket}/{key} of {numbers:?}, {traits:?}");
        let stored = self.store().upload(bucket, &key, upload).unwrap().parts;
        let parts = stored.into_iter().filter(|part| numbers.contains(&part.number)).collect();
        let expected = self.expect_version((bucket, &key), &bytes, traits, Some(upload));
        let completion = Completion { upload, parts, commit: commit_of(traits) };
        let answered = self.store().complete_upload(bucket, &key, completion);
        self.was_put((bucket, &key), answered, &expected);
    }
}

fn write_part(
    store: &Store,
    bucket: &str,
    upload: &ModelUpload,
    number: u32,
    bytes: &[u8],
) -> Result<PartRecord, StoreError> {
    let mut writer = store.part_writer(bucket, &upload.key, upload.id, number, None)?;
    writer.write(bytes)?;
    writer.commit([0; 16], None)
}
