//! Stores that mirror each other in a circle.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::runner::{Mirror, MirrorFeed};
use super::settings::MirrorPlace;
use super::source::{headers_of, tags_of};
use super::target::MirrorBody;
use super::{ActiveHours, MirrorSettings, MirrorTarget};
use crate::base::digest::{Md5, to_hex};
use crate::base::limits::PAGE_LEN_MAX;
use crate::base::test_scope::seeds;
use crate::base::{Entropy as _, ManualClock, SeededEntropy, Timestamp, WriteCondition};
use crate::client::{CertificateTrust, ServerSettings};
use crate::fs::sim::{CrashPolicy, SimFs};
use crate::store::{
    Attributes, Cause, CauseScope, Commit, DeleteCondition, Deletion, ETag, ListQuery, ObjectControls,
    Selector, StorageClass, Store, StoreError, StoreOptions, VersionId, VersionSummary, Versioning,
};
use crate::transfer::{Header, PeerError, PeerStore, PeerVersion, StoredAttributes, Tags, UploadShape};

const BUCKET: &str = "b";

/// A store as the target of a mirror.
struct StoreTarget<'s> {
    store: &'s Store,
    /// Whether the mirror may state where changes come from.
    keeps_origins: bool,
    origins: Vec<String>,
    /// The stores that it has mirrors to.
    mirrors_to: Vec<String>,
    writes: &'s Cell<u64>,
}

fn commit(bytes: &[u8], attributes: Attributes, tags: Tags) -> Commit {
    Commit {
        storage_class: StorageClass::Standard,
        etag: ETag::Md5(Md5::of(bytes)),
        attributes,
        checksums: vec![],
        tags,
        controls: ObjectControls::default(),
        condition: WriteCondition::None,
        stated_time: None,
    }
}

fn write(store: &Store, bucket: &str, key: &str, (bytes, commit): (&[u8], Commit)) {
    let mut writer = store.writer(bucket, key, Some(bytes.len() as u64)).unwrap();
    writer.write(bytes).unwrap();
    writer.commit(commit).unwrap();
}

/// The version with an id of [`MirrorTarget::versions`].
fn selector(id: Option<&str>) -> Selector {
    id.map_or(Selector::Current, |id| Selector::Id(VersionId(id.parse().unwrap())))
}

fn remove(store: &Store, bucket: &str, key: &str, which: Selector) {
    let deletion = Deletion { key: key.into(), which, condition: DeleteCondition::default() };
    store.delete(bucket, vec![deletion]).unwrap();
}

impl StoreTarget<'_> {
    fn cause(&self) -> CauseScope {
        self.writes.set(self.writes.get() + 1);
        let origins = if self.keeps_origins { self.origins.clone() } else { Vec::new() };
        CauseScope::enter(Some(Arc::new(Cause { origins, ..Cause::default() })))
    }
}

impl MirrorTarget for StoreTarget<'_> {
    fn keeps_versions(&mut self, bucket: &str, _: bool) -> Result<bool, PeerError> {
        let found = self.store.bucket(bucket).map_err(|_| PeerError::Absent)?;
        Ok(found.versioning == Versioning::Enabled)
    }

    fn store(&mut self, _: &str) -> Result<Option<PeerStore>, PeerError> {
        Ok(Some(PeerStore { id: self.store.public_id(), mirrors_to: self.mirrors_to.clone() }))
    }

    fn state_origin(&mut self, stores: &[String]) {
        self.origins = stores.to_vec();
    }

    fn has_bucket(&mut self, bucket: &str) -> Result<bool, PeerError> {
        Ok(self.store.bucket(bucket).is_ok())
    }

    fn make_bucket(&mut self, bucket: &str) -> Result<(), PeerError> {
        let _scope = self.cause();
        self.store.create_bucket(bucket, "admin").unwrap();
        Ok(())
    }

    fn enable_versions(&mut self, bucket: &str) -> Result<(), PeerError> {
        self.store.set_versioning(bucket, Versioning::Enabled).unwrap();
        Ok(())
    }

    fn versions(&mut self, place: &MirrorPlace) -> Result<Vec<PeerVersion>, PeerError> {
        let id = self.store.bucket(&place.bucket).unwrap().id;
        let versions = self.store.followed_key(id, place.key.as_bytes()).unwrap().versions;
        let listed = |version: VersionSummary| PeerVersion {
            id: Some(version.id.0.to_string()),
            delete_marker: version.delete_marker,
            length: version.size,
            etag: version.etag.to_string().trim_matches('"').to_owned(),
            modified: None,
        };
        Ok(versions.into_iter().map(listed).collect())
    }

    fn attributes(
        &mut self,
        place: &MirrorPlace,
        id: Option<&str>,
    ) -> Result<Option<StoredAttributes>, PeerError> {
        let found = match self.store.find(&place.bucket, &place.key, selector(id)) {
            Err(StoreError::NoSuchKey | StoreError::NoSuchVersion) => return Ok(None),
            found => found.unwrap().version,
        };
        if found.delete_marker {
            return Ok(None);
        }
        Ok(Some(StoredAttributes {
            length: found.size,
            etag: found.etag.to_string().trim_matches('"').to_owned(),
            kept: headers_of(&found),
            losses: Vec::new(),
            modified: None,
            encrypted_by_key: false,
        }))
    }

    fn tags(&mut self, place: &MirrorPlace, id: Option<&str>) -> Result<Option<Tags>, PeerError> {
        let found = self.store.find(&place.bucket, &place.key, selector(id));
        Ok(found.ok().map(|found| tags_of(&found.version)))
    }

    fn put(
        &mut self,
        place: &MirrorPlace,
        headers: &[Header],
        tags: &Tags,
        MirrorBody { shape, expected, origin }: MirrorBody<'_>,
    ) -> Result<(), PeerError> {
        let UploadShape::Whole(length) = shape else { panic!("the test has no large objects") };
        let mut bytes = Vec::new();
        origin.with_range(0..*length, &mut |body| {
            body.read_to_end(&mut bytes).map_err(|error| PeerError::Passing(error.to_string()))?;
            Ok(String::new())
        })?;
        assert_eq!(expected, Some(&*to_hex(&Md5::of(&bytes))));
        let mut attributes = Attributes::new();
        for (name, value) in headers {
            attributes.push(name.trim_start_matches("x-amz-"), value.as_str());
        }
        let _scope = self.cause();
        let commit = commit(&bytes, attributes, tags.clone());
        write(self.store, &place.bucket, &place.key, (&bytes, commit));
        Ok(())
    }

    fn abort_uploads(&mut self, _: &MirrorPlace) -> Result<(), PeerError> {
        Ok(())
    }

    fn set_tags(&mut self, place: &MirrorPlace, id: Option<&str>, tags: &Tags) -> Result<(), PeerError> {
        let _scope = self.cause();
        let found = self.store.find(&place.bucket, &place.key, selector(id)).unwrap();
        self.store.set_tags(&place.bucket, &place.key, found.version, tags.clone()).unwrap();
        Ok(())
    }

    fn delete(&mut self, place: &MirrorPlace, id: Option<&str>) -> Result<(), PeerError> {
        let _scope = self.cause();
        remove(self.store, &place.bucket, &place.key, selector(id));
        Ok(())
    }

    fn visit(
        &mut self,
        bucket: &str,
        prefix: &str,
        _: bool,
        visit: &mut dyn FnMut(&str) -> bool,
    ) -> Result<(), PeerError> {
        for key in content(self.store, bucket).into_iter().map(|(key, ..)| key) {
            if key.starts_with(prefix) && !visit(&key) {
                break;
            }
        }
        Ok(())
    }
}

/// The keys of a bucket, with length and entity tag.
fn content(store: &Store, bucket: &str) -> Vec<(String, u64, String)> {
    let query = ListQuery { limit: PAGE_LEN_MAX, ..ListQuery::default() };
    let page = store.list_objects(bucket, &query).unwrap();
    page.keys().map(|(key, found)| (key.into_owned(), found.size, found.etag.to_string())).collect()
}

fn open(seed: u64) -> Store {
    open_on(&SimFs::new(), seed)
}

fn open_on(fs: &SimFs, seed: u64) -> Store {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let options = StoreOptions { keep_free_bytes: 0, idle_group_after: None, ..StoreOptions::default() };
    Store::open(Arc::new(fs.clone()), clock, &SeededEntropy::new(seed), options).unwrap()
}

fn mirror(sources: &[&str], target_bucket: &str) -> Mirror {
    let settings = MirrorSettings {
        name: "away".into(),
        server: ServerSettings {
            endpoint: "http://localhost:1".into(),
            region: "r".into(),
            access_key: "a".into(),
            secret_key: "s".into(),
            trust: CertificateTrust::System,
        },
        sources: sources.iter().map(|source| ((*source).to_owned(), String::new())).collect(),
        target_bucket: target_bucket.into(),
        target_buckets: std::collections::BTreeMap::new(),
        target_prefix: String::new(),
        rate: 0,
        hours: ActiveHours::default(),
        workers: 1,
        replication: false,
    };
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    Mirror::new(settings, clock).unwrap()
}

/// Stores of which each mirrors to the next, and the last to the first.
struct Circle {
    disks: Vec<SimFs>,
    stores: Vec<Store>,
    mirrors: Vec<(Mirror, MirrorFeed)>,
    keeps_origins: bool,
    writes: Cell<u64>,
}

impl Circle {
    fn new(count: u64, keeps_origins: bool) -> Self {
        Self::with_versioning(count, keeps_origins, Versioning::Unset)
    }

    fn with_versioning(count: u64, keeps_origins: bool, versioning: Versioning) -> Self {
        let disks: Vec<_> = (0..count).map(|_| SimFs::new()).collect();
        let stores: Vec<_> = disks.iter().zip(1..).map(|(fs, seed)| open_on(fs, seed)).collect();
        let mut mirrors = Vec::new();
        for store in &stores {
            store.create_bucket(BUCKET, "admin").unwrap();
            if versioning == Versioning::Enabled {
                store.set_versioning(BUCKET, versioning).unwrap();
            }
            let mirror = mirror(&[BUCKET], "{bucket}");
            let feed = mirror.feed(store);
            mirrors.push((mirror, feed));
        }
        let mut circle = Self { disks, stores, mirrors, keeps_origins, writes: Cell::new(0) };
        circle.rest();
        circle
    }

    /// One step of one mirror; `false` if it has nothing to do.
    fn step(&mut self, at: usize) -> bool {
        let store = &self.stores[at];
        let there = &self.stores[(at + 1) % self.stores.len()];
        let keeps_origins = self.keeps_origins;
        let writes = &self.writes;
        let mirrors_to = self.stores.iter().map(Store::public_id).collect();
        let mut target = StoreTarget { store: there, keeps_origins, origins: Vec::new(), mirrors_to, writes };
        let (mirror, feed) = &mut self.mirrors[at];
        let has_fed = feed.step(mirror, store, &mut target).unwrap();
        let has_worked = mirror.work(store, &mut target, Duration::ZERO);
        mirror.retry_now();
        has_fed || has_worked || mirror.figures().due_keys > 0
    }

    /// Lets all mirrors work until none has anything to do.
    fn rest(&mut self) {
        for _ in 0..2_000 {
            let mut is_busy = false;
            for at in 0..self.stores.len() {
                is_busy |= self.step(at);
            }
            let is_done = self.stores.iter().all(|store| store.is_followed("away"));
            if !is_busy && is_done {
                return;
            }
        }
        panic!("the mirrors do not come to rest: {} writes", self.writes.get());
    }

    /// The power of a store and its mirror goes, and comes back.
    fn kill(&mut self, at: usize, policy: CrashPolicy) {
        self.disks[at] = self.disks[at].crash(policy);
        self.stores[at] = open_on(&self.disks[at], 100 + at as u64);
        let mirror = mirror(&[BUCKET], "{bucket}");
        let feed = mirror.feed(&self.stores[at]);
        self.mirrors[at] = (mirror, feed);
    }

    fn put(&self, at: usize, key: &str, bytes: &[u8]) {
        let commit = commit(bytes, Attributes::new(), vec![]);
        write(&self.stores[at], BUCKET, key, (bytes, commit));
    }

    fn delete(&self, at: usize, key: &str) {
        remove(&self.stores[at], BUCKET, key, Selector::Current);
    }

    /// The versions of a key at a store, oldest first: their entity tags, and nothing for delete
    /// markers.
    fn versions(&self, at: usize, key: &str) -> Vec<String> {
        let id = self.stores[at].bucket(BUCKET).unwrap().id;
        let versions = self.stores[at].followed_key(id, key.as_bytes()).unwrap().versions;
        let told = |it: &VersionSummary| if it.delete_marker { String::new() } else { it.etag.to_string() };
        versions.iter().map(told).collect()
    }

    fn check(&self) {
        let first = content(&self.stores[0], BUCKET);
        for store in &self.stores[1..] {
            assert_eq!(content(store, BUCKET), first);
        }
    }
}

#[test]
fn a_change_goes_once_around_and_ends() {
    for count in [2, 3] {
        let mut circle = Circle::new(count, true);
        circle.put(0, "k", b"one");
        circle.rest();
        circle.check();
        assert_eq!(circle.writes.get(), count - 1, "each of the others is written once");
        circle.put(1, "k", b"two");
        circle.rest();
        circle.check();
        circle.delete(1, "k");
        circle.rest();
        circle.check();
        assert_eq!(content(&circle.stores[0], BUCKET), []);
        assert_eq!(circle.writes.get(), 3 * (count - 1));
    }
}

#[test]
fn changes_of_a_key_that_follow_one_another_bring_nothing_back() {
    for count in [2, 3] {
        let mut circle = Circle::new(count, true);
        for seed in seeds(0..30, 10) {
            let entropy = SeededEntropy::new(seed);
            let random = |bound: u64| entropy.below(bound);
            for _ in 0..60 {
                // Each key is changed at one store, while the mirrors lag behind by any number of
                // steps.
                let key = random(6);
                let at = (key % count) as usize;
                match random(3) {
                    0 => circle.delete(at, &format!("k{key}")),
                    _ => circle.put(at, &format!("k{key}"), &[random(3) as u8; 100]),
                }
                for _ in 0..random(4) {
                    let at = random(count) as usize;
                    circle.step(at);
                }
            }
            let wanted: Vec<_> = (0..6)
                .filter_map(|key| {
                    let own = content(&circle.stores[(key % count) as usize], BUCKET);
                    own.into_iter().find(|(name, ..)| *name == format!("k{key}"))
                })
                .collect();
            circle.rest();
            circle.check();
            assert_eq!(content(&circle.stores[0], BUCKET), wanted, "seed {seed}");
        }
    }
}

#[test]
fn changes_of_a_key_on_all_sides_at_once_end() {
    for count in [2, 3] {
        let mut circle = Circle::new(count, true);
        let entropy = SeededEntropy::new(count);
        for round in 0..40_u64 {
            for at in 0..count {
                match entropy.below(3) {
                    0 => circle.delete(at as usize, "k"),
                    _ => circle.put(at as usize, "k", &[(round * count + at) as u8; 10]),
                }
                let stepped = entropy.below(count) as usize;
                circle.step(stepped);
            }
            circle.rest();
        }
    }
}

#[test]
fn a_change_ends_without_the_permission_to_state_where_it_comes_from() {
    for count in [2, 3] {
        let mut circle = Circle::new(count, false);
        circle.put(0, "k", b"one");
        circle.rest();
        circle.check();
        circle.delete(0, "k");
        circle.rest();
        circle.check();
    }
}

#[test]
fn a_resync_refills_a_store_that_lost_what_came_from_it() {
    let mut circle = Circle::new(2, true);
    circle.put(0, "k", b"one");
    circle.rest();
    // The loss is none that the log of the first store shows to its mirror as a deletion.
    let cause = Cause { origins: vec![circle.stores[1].public_id()], ..Cause::default() };
    let scope = CauseScope::enter(Some(Arc::new(cause)));
    circle.delete(0, "k");
    drop(scope);
    circle.rest();
    assert_eq!(content(&circle.stores[0], BUCKET), []);
    circle.mirrors[1].0.resync();
    circle.rest();
    circle.check();
    assert_eq!(content(&circle.stores[0], BUCKET).len(), 1);
}

#[test]
fn a_mirror_to_its_own_store_copies_nothing() {
    let store = open(1);
    store.create_bucket(BUCKET, "admin").unwrap();
    write(&store, BUCKET, "k", (b"one", commit(b"one", Attributes::new(), vec![])));
    let mirror = mirror(&[], "copy-{bucket}");
    let mut feed = mirror.feed(&store);
    let writes = Cell::new(0);
    let origins = Vec::new();
    let mirrors_to = Vec::new();
    let writes = &writes;
    let mut target = StoreTarget { store: &store, keeps_origins: true, origins, mirrors_to, writes };
    for _ in 0..20 {
        let refused = feed.step(&mirror, &store, &mut target);
        assert!(format!("{refused:?}").contains("this store itself"), "{refused:?}");
        mirror.work(&store, &mut target, Duration::ZERO);
    }
    assert_eq!((writes.get(), store.buckets().len()), (0, 1));
}

#[test]
fn a_walk_in_a_circle_removes_nothing_that_is_new_at_the_target() {
    for count in [2, 3] {
        let mut circle = Circle::new(count, true);
        circle.put(0, "old", b"one");
        circle.put(count as usize - 1, "own", b"one");
        circle.rest();
        // The last store walks while the first one has an object that has not gone around yet.
        circle.put(0, "new", b"two");
        circle.mirrors[count as usize - 1].0.resync();
        for _ in 0..100 {
            circle.step(count as usize - 1);
        }
        circle.rest();
        circle.check();
        assert_eq!(content(&circle.stores[0], BUCKET).len(), 3);
    }
}

#[test]
fn versions_go_once_around_and_are_the_same_everywhere() {
    for count in [2, 3] {
        let mut circle = Circle::with_versioning(count, true, Versioning::Enabled);
        for nth in 0..12_u64 {
            let at = (nth % count) as usize;
            match nth % 4 {
                3 => circle.delete(at, "k"),
                _ => {
                    circle.put(at, "k", &nth.to_le_bytes());
                    circle.put(at, "k", &[nth as u8; 3]);
                }
            }
            circle.rest();
        }
        let versions = circle.versions(0, "k");
        assert_eq!(versions.len(), 21);
        for at in 1..count as usize {
            assert_eq!(circle.versions(at, "k"), versions);
        }
        // A version that is deleted for good is so everywhere.
        let id = circle.stores[1].bucket(BUCKET).unwrap().id;
        let third = circle.stores[1].followed_key(id, b"k").unwrap().versions[2].id;
        remove(&circle.stores[1], BUCKET, "k", Selector::Id(third));
        circle.rest();
        for at in 0..count as usize {
            assert_eq!(circle.versions(at, "k").len(), 20);
        }
        assert_eq!(circle.versions(0, "k"), circle.versions(1, "k"));
    }
}

/// Puts versions of one key at all stores at once, now and then with rest; returns their entity
/// tags.
fn put_on_all_sides(circle: &mut Circle, seed: u64) -> BTreeSet<String> {
    let entropy = SeededEntropy::new(seed);
    let count = circle.stores.len() as u64;
    let mut put = BTreeSet::new();
    for round in 0..12_u64 {
        for at in 0..count {
            if entropy.next_u64().is_multiple_of(2) {
                let bytes = (round * count + at).to_le_bytes();
                circle.put(at as usize, "k", &bytes);
                put.insert(ETag::Md5(Md5::of(&bytes)).to_string());
            }
            let stepped = entropy.below(count) as usize;
            circle.step(stepped);
        }
        if round % 4 == 3 {
            circle.rest();
        }
    }
    circle.rest();
    put
}

#[test]
fn two_stores_lose_no_version_of_a_key_that_both_put_at_once() {
    for seed in seeds(0..40, 8) {
        let mut circle = Circle::with_versioning(2, true, Versioning::Enabled);
        let put = put_on_all_sides(&mut circle, seed);
        for at in 0..2 {
            let versions = circle.versions(at, "k");
            assert_eq!(versions.iter().cloned().collect::<BTreeSet<_>>(), put, "store {at}, seed {seed}");
            assert_eq!(versions.len(), put.len(), "sent twice: store {at}, seed {seed}");
        }
    }
}

#[test]
fn versions_of_a_key_that_three_stores_put_at_once_end() {
    for seed in seeds(0..40, 8) {
        let mut circle = Circle::with_versioning(3, true, Versioning::Enabled);
        put_on_all_sides(&mut circle, seed);
    }
}

#[test]
fn two_stores_that_are_killed_at_any_time_have_the_same_versions() {
    for seed in seeds(0..60, 12) {
        let mut circle = Circle::with_versioning(2, true, Versioning::Enabled);
        let entropy = SeededEntropy::new(seed);
        let random = |bound: u64| entropy.below(bound);
        let mut histories = vec![Vec::new(); 4];
        for nth in 0..60_u64 {
            // Each key has one store that changes it.
            let key = random(4);
            let at = (key % 2) as usize;
            match random(4) {
                0 => {
                    circle.delete(at, &format!("k{key}"));
                    histories[key as usize].push(String::new());
                }
                _ => {
                    let bytes = nth.to_le_bytes();
                    circle.put(at, &format!("k{key}"), &bytes);
                    histories[key as usize].push(ETag::Md5(Md5::of(&bytes)).to_string());
                }
            }
            for _ in 0..random(4) {
                let at = random(2) as usize;
                circle.step(at);
            }
            if random(8) == 0 {
                let policy = [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(seed)];
                circle.kill(random(2) as usize, policy[random(3) as usize]);
            }
        }
        circle.rest();
        for (key, history) in histories.iter().enumerate() {
            for at in 0..2 {
                assert_eq!(
                    &circle.versions(at, &format!("k{key}")),
                    history,
                    "store {at}, key {key}, seed {seed}"
                );
            }
        }
    }
}
