//! Quotas of buckets and owners.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::fs::sim::SimFs;
use crate::index::upload_index_bytes;

fn limited(bytes: Option<u64>, objects: Option<u64>, uploads: Option<u64>) -> Quota {
    Quota { bytes, objects, uploads, ..Quota::default() }
}

fn store_with(versioning: Versioning, quota: Quota) -> Store {
    let store = open(&SimFs::new());
    store.create_bucket("b", "ann").unwrap();
    if versioning != Versioning::Unset {
        store.set_versioning("b", versioning).unwrap();
    }
    store.set_bucket_quota("b", Some(&quota)).unwrap();
    store
}

/// The limit that refuses.
fn refused_by<T>(result: Result<T, StoreError>) -> &'static str {
    match result.map(drop) {
        Err(StoreError::QuotaExceeded { limit, .. }) => limit,
        other => panic!("{other:?}"),
    }
}

fn put_len(store: &Store, key: &str, len: usize) -> Result<CommittedVersion, StoreError> {
    put(store, "b", key, &vec![7; len])
}

/// As `put_len`, without telling the length before the commit.
fn put_unannounced(store: &Store, key: &str, len: usize) -> Result<CommittedVersion, StoreError> {
    let bytes = vec![7; len];
    let mut writer = store.writer("b", key, None)?;
    writer.write(&bytes[..])?;
    writer.commit(commit_of(&bytes))
}

/// The record of any upload of [`begin_upload`], without its id and its time.
fn upload_record() -> UploadRecord {
    UploadRecord {
        id: UploadId::NONE,
        initiated: Timestamp::default(),
        storage_class: StorageClass::Standard,
        initiator: new_upload().initiator,
        checksum: None,
        attributes: Attributes::new(),
        tags: vec![],
        controls: ObjectControls::default(),
        encryption: None,
    }
}

fn put_part(
    store: &Store,
    (key, id): (&str, UploadId),
    number: u32,
    len: usize,
) -> Result<PartRecord, StoreError> {
    let mut writer = store.part_writer("b", key, id, number, Some(len as u64))?;
    writer.write(vec![3; len])?;
    writer.commit([0; 16], None)
}

/// The first `len` bytes of an object, as the source of a copy.
fn start_of(store: &Store, key: &str, len: u64) -> CopyRange {
    let found = store.find("b", key, Selector::Current).unwrap();
    CopyRange { bucket: found.bucket.id, key: key.into(), range: 0..len, version: found.version }
}

fn complete(
    store: &Store,
    key: &str,
    upload: UploadId,
    parts: Vec<PartRecord>,
) -> Result<CommittedVersion, StoreError> {
    store.complete_upload("b", key, Completion { upload, parts, commit: commit_of(b"") })
}

#[test]
fn an_overwrite_of_equal_size_succeeds_at_the_brim() {
    let store = store_with(Versioning::Unset, limited(Some(100), None, None));
    put_len(&store, "a", 60).unwrap();
    put_len(&store, "b", 40).unwrap();
    put_len(&store, "a", 60).unwrap();
    put_unannounced(&store, "b", 40).unwrap();
    assert_eq!(refused_by(put_len(&store, "b", 41)), "bytes");
    assert_eq!(refused_by(put_unannounced(&store, "b", 41)), "bytes");
    put_len(&store, "c", 0).unwrap();
    assert_eq!(refused_by(put_len(&store, "d", 1)), "bytes");
    put_len(&store, "a", 59).unwrap();
    put_len(&store, "d", 1).unwrap();
    delete(&store, "b", "b", Selector::Current).unwrap();
    put_len(&store, "e", 40).unwrap();
    assert_eq!(store.usage("b").unwrap().bytes(), 100);
}

#[test]
fn a_put_is_refused_before_its_bytes_where_its_length_is_known() {
    let store = store_with(Versioning::Unset, limited(Some(100), Some(1), None));
    assert_eq!(refused_by(store.writer("b", "a", Some(101)).map(drop)), "bytes");
    put_len(&store, "a", 100).unwrap();
    assert_eq!(refused_by(store.writer("b", "other", None).map(drop)), "objects");
    store.writer("b", "a", Some(100)).unwrap();
}

#[test]
fn every_version_counts_and_delete_markers_count_in_the_index_alone() {
    let store = store_with(Versioning::Enabled, limited(Some(100), Some(3), None));
    let first = put_len(&store, "a", 50).unwrap();
    put_len(&store, "a", 50).unwrap();
    assert_eq!(refused_by(put_len(&store, "a", 50)), "bytes");
    for _ in 0..5 {
        delete(&store, "b", "a", Selector::Current).unwrap();
    }
    put_len(&store, "a", 0).unwrap();
    assert_eq!(refused_by(put_len(&store, "c", 0)), "objects");
    delete(&store, "b", "a", Selector::Id(first.id)).unwrap();
    put_len(&store, "c", 50).unwrap();
    assert_eq!(store.usage("b").unwrap().delete_markers, 5);
}

#[test]
fn a_suspended_bucket_replaces_its_null_versions_alone() {
    let store = store_with(Versioning::Enabled, limited(Some(100), None, None));
    put_len(&store, "a", 50).unwrap();
    store.set_versioning("b", Versioning::Suspended).unwrap();
    put_len(&store, "a", 50).unwrap();
    put_len(&store, "a", 50).unwrap();
    assert_eq!(refused_by(put_len(&store, "a", 51)), "bytes");
    delete(&store, "b", "a", Selector::Current).unwrap();
    put_len(&store, "other", 50).unwrap();
}

#[test]
fn parts_count_when_they_are_stored_and_a_completion_does_not_grow() {
    let store = store_with(Versioning::Unset, limited(Some(100), Some(1), Some(1)));
    let id = begin_upload(&store, "b", "a").unwrap();
    assert_eq!(refused_by(begin_upload(&store, "b", "z")), "uploads");
    let one = put_part(&store, ("a", id), 1, 60).unwrap();
    put_part(&store, ("a", id), 2, 40).unwrap();
    assert_eq!(refused_by(put_part(&store, ("a", id), 3, 1)), "bytes");
    assert_eq!(refused_by(store.part_writer("b", "a", id, 3, Some(1)).map(drop)), "bytes");
    put_part(&store, ("a", id), 2, 40).unwrap();
    assert_eq!(refused_by(put_part(&store, ("a", id), 2, 41)), "bytes");
    assert_eq!(refused_by(put_len(&store, "z", 1)), "bytes");
    // The second part is dropped.
    complete(&store, "a", id, vec![one]).unwrap();
    assert_eq!((store.usage("b").unwrap().bytes(), store.usage("b").unwrap().objects()), (60, 1));
    let id = begin_upload(&store, "b", "other").unwrap();
    let part = put_part(&store, ("other", id), 1, 40).unwrap();
    assert_eq!(refused_by(complete(&store, "other", id, vec![part])), "objects");
    store.abort_upload("b", "other", id).unwrap();
    assert_eq!(store.usage("b").unwrap().bytes(), 60);
}

#[test]
fn a_copy_counts_in_full() {
    let store = store_with(Versioning::Unset, limited(Some(100), None, None));
    put_len(&store, "a", 60).unwrap();
    let copy = |key: &str, len| store.copy(start_of(&store, "a", len), "b", key, commit_of(b""));
    assert_eq!(refused_by(copy("b", 60)), "bytes");
    copy("b", 40).unwrap();
    copy("b", 40).unwrap();
    let id = begin_upload(&store, "b", "m").unwrap();
    let part = store.copy_part(start_of(&store, "a", 60), ("b", "m"), (id, 1), [0; 16], None);
    assert_eq!(refused_by(part), "bytes");
}

#[test]
fn nothing_that_does_not_grow_is_refused_beyond_a_lowered_quota() {
    let store = store_with(Versioning::Unset, limited(None, None, None));
    put_len(&store, "a", 60).unwrap();
    put_len(&store, "b", 60).unwrap();
    let id = begin_upload(&store, "b", "m").unwrap();
    let closed = Quota { index_bytes: None, ..Quota::CLOSED };
    store.set_bucket_quota("b", Some(&closed)).unwrap();
    assert_eq!(refused_by(put_len(&store, "c", 0)), "objects");
    assert_eq!(refused_by(begin_upload(&store, "b", "m")), "uploads");
    put_len(&store, "a", 60).unwrap();
    put_len(&store, "b", 59).unwrap();
    let found = store.find("b", "a", Selector::Current).unwrap();
    store.set_tags("b", "a", found.version, vec![("x".into(), "y".into())]).unwrap();
    store.abort_upload("b", "m", id).unwrap();
    delete(&store, "b", "a", Selector::Current).unwrap();
    store.set_bucket_quota("b", None).unwrap();
    put_len(&store, "c", 100).unwrap();
}

#[test]
fn an_owner_is_limited_in_all_its_buckets_by_the_stricter_quota() {
    let store = open(&SimFs::new());
    for (bucket, owner) in [("b", "ann"), ("second", "ann"), ("foreign", "bob")] {
        store.create_bucket(bucket, owner).unwrap();
    }
    store.set_owner_quota("ann", Some(&limited(Some(100), None, None))).unwrap();
    put(&store, "b", "a", &[1; 60]).unwrap();
    assert_eq!(refused_by(put(&store, "second", "a", &[1; 41])), "bytes");
    put(&store, "second", "a", &[1; 40]).unwrap();
    put(&store, "foreign", "a", &[1; 200]).unwrap();
    put(&store, "b", "a", &[1; 60]).unwrap();
    let configured = [("ann".to_owned(), limited(Some(80), Some(3), None))];
    store.configure_owner_quotas(configured.into());
    put(&store, "b", "b", &[]).unwrap();
    assert_eq!(refused_by(put(&store, "b", "c", &[])), "objects");
    delete(&store, "second", "a", Selector::Current).unwrap();
    assert_eq!(refused_by(put(&store, "second", "a", &[1; 21])), "bytes");
    put(&store, "second", "a", &[1; 20]).unwrap();
    store.set_owner_quota("ann", None).unwrap();
    assert_eq!(refused_by(put(&store, "second", "a", &[1; 21])), "bytes");
    store.configure_owner_quotas(OwnerQuotas::new());
    put(&store, "second", "a", &[1; 500]).unwrap();
}

#[test]
fn an_owner_has_so_many_buckets_at_most() {
    let store = open_with(&SimFs::new(), StoreOptions { buckets_max: 2, ..options() }).unwrap();
    let create = |nth: u32, owner: &str| store.create_bucket(&format!("bucket-{nth}"), owner).map(drop);
    create(1, "ann").unwrap();
    create(2, "ann").unwrap();
    assert_eq!(create(3, "ann"), Err(StoreError::TooManyBuckets { allowed: 2 }));
    create(3, "bob").unwrap();
    store.set_owner_quota("ann", Some(&Quota { buckets: Some(3), ..Quota::default() })).unwrap();
    create(4, "ann").unwrap();
    assert_eq!(create(5, "ann"), Err(StoreError::TooManyBuckets { allowed: 3 }));
    store.delete_bucket("bucket-1").unwrap();
    create(5, "ann").unwrap();
}

#[test]
fn quotas_and_their_usage_outlive_every_kind_of_restart() {
    let fs = SimFs::new();
    let check = |store: &Store, from: &str| {
        assert_eq!(refused_by(put_len(store, "c", 41)), "bytes", "{from}");
        assert_eq!(refused_by(put(store, "other", "c", &[1; 91])), "bytes", "{from}");
        let owners = store.limited_owners();
        let stored = owners.iter().map(|owner| (owner.owner.as_str(), owner.stored.unwrap().bytes));
        assert_eq!(stored.collect::<Vec<_>>(), [("ann", Some(150)), ("nobody", Some(1))], "{from}");
    };
    let store = open(&fs);
    // Before any bucket is there.
    store.set_owner_quota("nobody", Some(&limited(Some(1), None, None))).unwrap();
    store.checkpoint().unwrap();
    store.create_bucket("b", "ann").unwrap();
    store.create_bucket("other", "ann").unwrap();
    store.set_bucket_quota("b", Some(&limited(Some(100), None, None))).unwrap();
    store.set_owner_quota("ann", Some(&limited(Some(150), None, None))).unwrap();
    put_len(&store, "a", 60).unwrap();
    check(&store, "as set");
    drop(store);
    let store = open(&fs);
    check(&store, "from the log");
    store.close();
    drop(store);
    let store = open(&fs);
    check(&store, "from a checkpoint");
    store.set_owner_quota("nobody", None).unwrap();
    store.set_owner_quota("stranger", None).unwrap();
    drop(store);
    assert_eq!(open(&fs).limited_owners().len(), 1);
}

/// An upload of one part, which is aborted if the part or the completion is refused.
fn upload(
    store: &Store,
    key: &str,
    put: impl FnOnce(UploadId) -> Result<PartRecord, StoreError>,
) -> Result<(), StoreError> {
    let id = begin_upload(store, "b", key)?;
    let done = put(id).and_then(|part| complete(store, key, id, vec![part]));
    done.map(drop).or_else(|error| {
        store.abort_upload("b", key, id)?;
        Err(error)
    })
}

/// A copy of the first bytes of the object `source` in the bucket `copied`.
fn copy_of_source(
    store: &Store,
    len: usize,
    copy: impl FnOnce(CopyRange) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let found = store.find("copied", "source", Selector::Current)?;
    let bucket = found.bucket.id;
    let key = "source".into();
    let range = 0..len as u64;
    copy(CopyRange { bucket, key, range, version: found.version })
}

#[test]
fn writers_that_race_never_overrun_and_leave_no_room_unused() {
    const QUOTA: u64 = 100_000;
    const WRITERS: u64 = 64;
    let store = store_with(Versioning::Unset, limited(Some(QUOTA), None, None));
    store.create_bucket("copied", "ann").unwrap();
    put(&store, "copied", "source", &[7; 2_000]).unwrap();
    let refused = AtomicUsize::new(0);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            let refused = &refused;
            scope.spawn(move || {
                let draw = SeededEntropy::new(writer);
                for step in 0..40 {
                    let key = format!("{}", draw.below(150));
                    let len = draw.below(2_000) as usize;
                    let done = match draw.below(12) {
                        0 => delete(store, "b", &key, Selector::Current).map(drop),
                        1 => upload(store, &key, |id| put_part(store, (&key, id), 1, len)),
                        2 => copy_of_source(store, len, |source| {
                            upload(store, &key, |id| {
                                store.copy_part(source, ("b", &key), (id, 1), [0; 16], None)
                            })
                        }),
                        3 => copy_of_source(store, len, |source| {
                            store.copy(source, "b", &key, commit_of(b"")).map(drop)
                        }),
                        4..7 => put_unannounced(store, &key, len).map(drop),
                        _ => put_len(store, &key, len).map(drop),
                    };
                    let used = store.usage("b").unwrap().bytes();
                    assert!(used <= QUOTA, "writer {writer}, step {step}: {used}");
                    match done {
                        Ok(()) => {}
                        Err(StoreError::QuotaExceeded { limit: "bytes", used, .. }) => {
                            assert!(used + len as u64 > QUOTA, "refused with {used} used, {len} wanted");
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(other) => panic!("writer {writer}, step {step}: {other}"),
                    }
                }
            });
        }
    });
    assert!(refused.into_inner() > 0, "the quota was never reached");
    let free = QUOTA - store.usage("b").unwrap().bytes();
    put_len(&store, "last", free as usize).unwrap();
    assert_eq!(refused_by(put_len(&store, "more", 1)), "bytes");
}

/// A version of the model.
#[derive(Clone, Copy)]
struct Counted {
    id: VersionId,
    null: bool,
    /// `None` for a delete marker.
    size: Option<u64>,
    /// The number of its parts.
    parts: u64,
}

impl Counted {
    /// The bytes of the index that it counts for, with the attributes that all objects of these
    /// tests have.
    fn index_bytes(&self, key: &str) -> u64 {
        let attributes = if self.size.is_some() { commit_of(b"").attributes.encoded_len() as u64 } else { 0 };
        64 + key.len() as u64 + attributes + 64 * self.parts
    }
}

/// The content of the bucket, kept in the most obvious way.
#[derive(Clone, Default)]
struct Contents {
    versions: BTreeMap<String, Vec<Counted>>,
    uploads: BTreeMap<UploadId, (String, BTreeMap<u32, PartRecord>)>,
}

impl Contents {
    /// Bytes, objects, uploads and bytes of the index.
    fn used(&self) -> [u64; 4] {
        let sizes: Vec<u64> = self.versions.values().flatten().filter_map(|version| version.size).collect();
        let parts = self.uploads.values().flat_map(|(_, parts)| parts.values()).map(|part| part.size);
        let bytes = sizes.iter().sum::<u64>() + parts.sum::<u64>();
        [bytes, sizes.len() as u64, self.uploads.len() as u64, self.index_bytes()]
    }

    fn index_bytes(&self) -> u64 {
        let of_key = |(key, versions): (&String, &Vec<Counted>)| {
            versions.iter().map(|version| version.index_bytes(key)).sum::<u64>()
        };
        let of_upload = |(key, parts): &(String, BTreeMap<u32, PartRecord>)| {
            upload_index_bytes(key.as_bytes(), &upload_record()) + 128 * parts.len() as u64
        };
        let uploads = self.uploads.values().map(of_upload).sum::<u64>();
        self.versions.iter().map(of_key).sum::<u64>() + uploads
    }

    fn add(&mut self, key: &str, added: Counted) {
        let versions = self.versions.entry(key.into()).or_default();
        versions.retain(|old| !(old.null && added.null));
        versions.insert(0, added);
    }
}

struct QuotaWorld {
    store: Store,
    quota: [u64; 4],
    /// The bytes of the index that the bucket counts for without content.
    index_bytes_of_bucket: u64,
    contents: Contents,
    draw: SeededEntropy,
    refused: usize,
}

impl QuotaWorld {
    /// Checks that a change is refused where the model grows beyond a limit, and only there. `then`
    /// is the model afterwards.
    fn settle<T>(&mut self, done: Result<T, StoreError>, then: impl FnOnce(&mut Contents, Option<T>)) {
        self.settle_by(done, false, then);
    }

    /// As `settle`. A change that is free is never refused.
    fn settle_by<T>(
        &mut self,
        done: Result<T, StoreError>,
        is_free: bool,
        then: impl FnOnce(&mut Contents, Option<T>),
    ) {
        let mut after = self.contents.clone();
        let before = self.contents.used();
        let is_refused = done.is_err();
        if let Err(error) = &done {
            assert!(matches!(error, StoreError::QuotaExceeded { .. }), "{error}");
            self.refused += 1;
        }
        then(&mut after, done.ok());
        let over = (0..4).any(|nth| after.used()[nth] > self.quota[nth].max(before[nth]));
        assert_eq!(is_refused, over && !is_free, "{before:?} {:?} of {:?}", after.used(), self.quota);
        if !is_refused {
            self.contents = after;
        }
        let usage = self.store.usage("b").unwrap();
        let index_bytes = usage.index_bytes - self.index_bytes_of_bucket;
        let counted = [usage.bytes(), usage.objects(), usage.uploads.count, index_bytes];
        assert_eq!(counted, self.contents.used());
    }

    fn step(&mut self) {
        let key = format!("{}", self.draw.below(12));
        let len = self.draw.below(300);
        let null = self.store.bucket("b").unwrap().versioning != Versioning::Enabled;
        // A refused change has no id.
        let added = |written: Option<CommittedVersion>, size| Counted {
            id: written.map_or(VersionId(0), |written| written.id),
            null,
            size: Some(size),
            parts: 0,
        };
        match self.draw.below(12) {
            0..4 => {
                let done = put_len(&self.store, &key, len as usize);
                self.settle(done, |all, written| all.add(&key, added(written, len)));
            }
            4 => {
                let current = |versions: &Vec<Counted>| {
                    versions.first().and_then(|version| Some((version.size?, version.parts)))
                };
                let source = self.contents.versions.iter().find_map(|(k, v)| Some((k.clone(), current(v)?)));
                let Some((from, (size, parts))) = source else { return };
                let source = start_of(&self.store, &from, size);
                let done = self.store.copy(source, "b", &key, commit_of(b""));
                self.settle(done, |all, written| {
                    all.add(&key, Counted { parts, ..added(written, size) });
                });
            }
            5 => {
                let done = begin_upload(&self.store, "b", &key);
                let upload = |all: &mut Contents, id: Option<UploadId>| {
                    all.uploads.insert(id.unwrap_or(UploadId::NONE), (key, BTreeMap::new()));
                };
                self.settle(done, upload);
            }
            6..8 => self.step_of_upload(len, null),
            8 => {
                let states = [Versioning::Enabled, Versioning::Suspended];
                self.store.set_versioning("b", states[self.draw.below(2) as usize]).unwrap();
            }
            9 => {
                let some = self.contents.versions.iter().find_map(|(key, all)| Some((key, *all.last()?)));
                let Some((key, Counted { id, null, .. })) = some.map(|(key, last)| (key.clone(), last))
                else {
                    return;
                };
                let which = if null { Selector::Null } else { Selector::Id(id) };
                let done = delete(&self.store, "b", &key, which);
                self.settle(done, |all, _| {
                    all.versions.get_mut(&key).and_then(Vec::pop);
                });
            }
            _ => self.delete_current(&key, null),
        }
    }

    fn delete_current(&mut self, key: &str, null: bool) {
        let unset = self.store.bucket("b").unwrap().versioning == Versioning::Unset;
        let newest = self.contents.versions.get(key).and_then(|versions| versions.first());
        let hides = newest.is_some_and(|version| version.size.is_some());
        let done = delete(&self.store, "b", key, Selector::Current);
        self.settle_by(done, unset || hides, |all, deleted| {
            let id = match deleted.and_then(|deleted| deleted.version) {
                Some(VersionRef::Id(id)) => id,
                _ => VersionId(0),
            };
            match unset {
                true => drop(all.versions.remove(key)),
                false => all.add(key, Counted { id, null, size: None, parts: 0 }),
            }
        });
    }

    fn step_of_upload(&mut self, len: u64, null: bool) {
        let Some((id, (key, parts))) = self.contents.uploads.first_key_value() else { return };
        let id = *id;
        let key = key.clone();
        let parts = parts.clone();
        match self.draw.below(5) {
            0 => {
                let done = self.store.abort_upload("b", &key, id);
                self.settle(done, |all, _| drop(all.uploads.remove(&id)));
            }
            1 if !parts.is_empty() => {
                // Some are left out.
                let chosen: Vec<_> = parts.values().take(2).cloned().collect();
                let parts = chosen.len() as u64;
                let size = chosen.iter().map(|part| part.size).sum();
                let done = complete(&self.store, &key, id, chosen);
                self.settle(done, |all, written| {
                    all.uploads.remove(&id);
                    let id = written.map_or(VersionId(0), |written| written.id);
                    all.add(&key, Counted { id, null, size: Some(size), parts });
                });
            }
            _ => {
                let number = 1 + self.draw.below(4) as u32;
                let done = put_part(&self.store, (&key, id), number, len as usize);
                self.settle(done, |all, put| {
                    let (_, parts) = all.uploads.get_mut(&id).unwrap();
                    let refused = PartRecord {
                        number,
                        id: 0,
                        modified: Timestamp::default(),
                        size: len,
                        md5: [0; 16],
                        extents: vec![],
                        checksum: None,
                        encryption: None,
                    };
                    parts.insert(number, put.unwrap_or(refused));
                });
            }
        }
    }
}

#[test]
fn whatever_is_done_a_quota_refuses_growth_beyond_it_and_nothing_else() {
    for round in 0..4 {
        let [bytes, objects, uploads] = [2_000, 14, 2];
        let index_bytes = if round < 2 { u64::MAX } else { 3_000 };
        let store = store_with(Versioning::Unset, limited(Some(bytes), Some(objects), Some(uploads)));
        let set = |index_bytes| {
            let limits = limited(Some(bytes), Some(objects), Some(uploads));
            let quota = Quota { index_bytes: Some(index_bytes), ..limits };
            store.set_bucket_quota("b", Some(&quota)).unwrap();
            store.usage("b").unwrap().index_bytes
        };
        let of_bucket = set(index_bytes);
        let index_bytes_of_bucket = set(index_bytes.saturating_add(of_bucket));
        let draw = SeededEntropy::new(seed() + round);
        let mut world = QuotaWorld {
            store,
            quota: [bytes, objects, uploads, index_bytes.saturating_add(of_bucket) - index_bytes_of_bucket],
            index_bytes_of_bucket,
            contents: Contents::default(),
            draw,
            refused: 0,
        };
        (0..400).for_each(|_| world.step());
        assert!(world.refused > 20, "only {} refusals", world.refused);
    }
}
