//! A mirror over a simulated disk to a simulated target, with crashes, lost requests and lost
//! answers.

mod rule_copy;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};

use super::runner::{Mirror, MirrorFeed, MirrorPauses};
use super::settings::MirrorPlace;
use super::source::{headers_of, tags_of};
use super::target::MirrorBody;
use super::{ActiveHours, MirrorSettings, MirrorState, MirrorTarget};
use crate::base::digest::{Md5, to_hex};
use crate::base::test_scope::seeds;
use crate::base::{Entropy as _, ManualClock, SeededEntropy, Timestamp, WriteCondition};
use crate::client::{CertificateTrust, ServerSettings};
use crate::fs::sim::{CrashPolicy, SimFs};
use crate::store::{
    Attributes, Beginning, Commit, DeleteCondition, Deletion, ETag, MirrorUpload, ObjectControls, Selector,
    StorageClass, Store, StoreOptions, Versioning,
};
use crate::transfer::{Header, PeerError, PeerStore, PeerVersion, StoredAttributes, Tags, UploadShape};

/// Crashes of the random test.
const CRASHES: &str = "SILTSTONE_MIRROR_CRASHES";
const KEYS: u64 = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
struct SimVersion {
    id: u64,
    /// `None` for a delete marker.
    object: Option<(Vec<u8>, Vec<Header>, Tags)>,
}

#[derive(Debug, Default)]
struct SimState {
    versioned: bool,
    keys: BTreeMap<MirrorPlace, Vec<SimVersion>>,
    next_id: u64,
    /// One of so many requests fails, and half of these after their effect.
    fault_every: u64,
    /// The keys that are never taken; with an empty one, none is.
    refused: BTreeSet<String>,
    /// The buckets that are not there.
    missing: BTreeSet<String>,
    /// Whether it makes no buckets.
    refuses_buckets: bool,
    /// Whether it refuses to let buckets keep versions, as Garage does.
    has_no_versions: bool,
    /// The buckets that it was asked to make.
    asked_buckets: u64,
    /// Whether a marker that follows another is not kept, as by Ceph.
    keeps_one_marker: bool,
    puts: u64,
    /// The keys with an upload in parts that was begun.
    uploads: BTreeSet<MirrorPlace>,
    /// The requests to let a bucket keep versions whose answers are lost before their effect.
    lost_enabling: u64,
}

/// A target that outlives the power of the store.
#[derive(Clone)]
struct SimTarget(Arc<Mutex<SimState>>, Arc<SeededEntropy>);

impl SimTarget {
    fn new(versioned: bool, seed: u64) -> Self {
        let state = SimState { versioned, ..SimState::default() };
        Self(Arc::new(Mutex::new(state)), Arc::new(SeededEntropy::new(seed)))
    }

    fn call<T>(&self, effect: impl FnOnce(&mut SimState) -> T) -> Result<T, PeerError> {
        let mut state = self.0.lock().unwrap();
        let fault = state.fault_every > 0 && self.1.next_u64().is_multiple_of(state.fault_every);
        if fault && self.1.next_u64().is_multiple_of(2) {
            return Err(PeerError::Passing("lost".to_owned()));
        }
        let done = effect(&mut state);
        if fault { Err(PeerError::Passing("the answer was lost".to_owned())) } else { Ok(done) }
    }

    fn set_faults(&self, every: u64) {
        self.0.lock().unwrap().fault_every = every;
    }
}

impl SimState {
    fn find(&self, place: &MirrorPlace, id: Option<&str>) -> Option<&SimVersion> {
        let versions = self.keys.get(place)?;
        match id {
            Some(id) => versions.iter().find(|version| version.id.to_string() == id),
            None => versions.last(),
        }
    }

    fn add(&mut self, place: &MirrorPlace, object: Option<(Vec<u8>, Vec<Header>, Tags)>) {
        let follows_marker = || self.find(place, None).is_some_and(|version| version.object.is_none());
        if object.is_none() && self.keeps_one_marker && follows_marker() {
            return;
        }
        self.next_id += 1;
        let version = SimVersion { id: self.next_id, object };
        let versions = self.keys.entry(place.clone()).or_default();
        if !self.versioned {
            versions.clear();
        }
        versions.push(version);
    }
}

impl MirrorTarget for SimTarget {
    fn keeps_versions(&mut self, bucket: &str, _: bool) -> Result<bool, PeerError> {
        self.call(|state| match state.missing.contains(bucket) {
            true => Err(PeerError::Absent),
            false => Ok(state.versioned),
        })?
    }

    fn store(&mut self, _: &str) -> Result<Option<PeerStore>, PeerError> {
        self.call(|_| None)
    }

    fn state_origin(&mut self, _: &[String]) {}

    fn has_bucket(&mut self, bucket: &str) -> Result<bool, PeerError> {
        self.call(|state| !state.missing.contains(bucket))
    }

    fn make_bucket(&mut self, bucket: &str) -> Result<(), PeerError> {
        self.call(|state| {
            state.asked_buckets += 1;
            if state.refuses_buckets {
                return Err(PeerError::Lasting("403 AccessDenied".to_owned()));
            }
            assert!(state.missing.remove(bucket));
            Ok(())
        })?
    }

    fn enable_versions(&mut self, bucket: &str) -> Result<(), PeerError> {
        self.call(|state| {
            assert!(!state.missing.contains(bucket));
            if state.lost_enabling > 0 {
                state.lost_enabling -= 1;
                return Err(PeerError::Passing("lost".to_owned()));
            }
            if state.has_no_versions {
                return Err(PeerError::Unsupported("501 NotImplemented".to_owned()));
            }
            state.versioned = true;
            Ok(())
        })?
    }

    fn versions(&mut self, place: &MirrorPlace) -> Result<Vec<PeerVersion>, PeerError> {
        let listed = |version: &SimVersion| PeerVersion {
            id: Some(version.id.to_string()),
            delete_marker: version.object.is_none(),
            length: version.object.as_ref().map_or(0, |it| it.0.len() as u64),
            etag: version.object.as_ref().map_or(String::new(), |it| to_hex(&Md5::of(&it.0))),
            modified: None,
        };
        self.call(|state| state.keys.get(place).into_iter().flatten().map(listed).collect())
    }

    fn attributes(
        &mut self,
        place: &MirrorPlace,
        id: Option<&str>,
    ) -> Result<Option<StoredAttributes>, PeerError> {
        self.call(|state| {
            let (bytes, headers, _) = state.find(place, id)?.object.as_ref()?;
            Some(StoredAttributes {
                length: bytes.len() as u64,
                etag: to_hex(&Md5::of(bytes)),
                kept: headers.clone(),
                losses: Vec::new(),
                modified: None,
                encrypted_by_key: false,
            })
        })
    }

    fn tags(&mut self, place: &MirrorPlace, id: Option<&str>) -> Result<Option<Tags>, PeerError> {
        self.call(|state| Some(state.find(place, id)?.object.as_ref()?.2.clone()))
    }

    fn put(
        &mut self,
        place: &MirrorPlace,
        headers: &[Header],
        tags: &Tags,
        MirrorBody { shape, expected, origin }: MirrorBody<'_>,
    ) -> Result<(), PeerError> {
        let length = match shape {
            UploadShape::Whole(length) => *length,
            UploadShape::Parts(lengths) => {
                // The upload begins, and fails with the answers that are lost.
                self.call(|state| state.uploads.insert(place.clone()))?;
                lengths.iter().sum()
            }
        };
        let mut bytes = Vec::new();
        origin.with_range(0..length, &mut |body| {
            body.read_to_end(&mut bytes).map_err(|error| PeerError::Passing(error.to_string()))?;
            Ok(String::new())
        })?;
        assert!(expected.is_none_or(|etag| etag.contains('-') || etag == to_hex(&Md5::of(&bytes))));
        self.call(|state| {
            if state.refused.contains(&place.key) || state.refused.contains("") {
                return Err(PeerError::Lasting(format!("400 {}", "InvalidKey ".repeat(40))));
            }
            state.puts += 1;
            if matches!(shape, UploadShape::Parts(_)) {
                state.uploads.remove(place);
            }
            state.add(place, Some((bytes, headers.to_vec(), tags.clone())));
            Ok(())
        })?
    }

    fn abort_uploads(&mut self, place: &MirrorPlace) -> Result<(), PeerError> {
        self.call(|state| state.uploads.remove(place)).map(drop)
    }

    fn set_tags(&mut self, place: &MirrorPlace, id: Option<&str>, tags: &Tags) -> Result<(), PeerError> {
        self.call(|state| {
            let versions = state.keys.get_mut(place).into_iter().flatten();
            let mut found: Vec<_> =
                versions.filter(|it| id.is_none_or(|id| it.id.to_string() == id)).collect();
            if let Some(object) = found.pop().and_then(|version| version.object.as_mut()) {
                object.2 = tags.clone();
            }
        })
    }

    fn delete(&mut self, place: &MirrorPlace, id: Option<&str>) -> Result<(), PeerError> {
        self.call(|state| match id {
            Some(id) => {
                let versions = state.keys.entry(place.clone()).or_default();
                versions.retain(|version| version.id.to_string() != id);
            }
            None if state.versioned => state.add(place, None),
            None => drop(state.keys.remove(place)),
        })?;
        self.call(|state| state.keys.retain(|_, versions| !versions.is_empty()))
    }

    fn visit(
        &mut self,
        bucket: &str,
        prefix: &str,
        all_versions: bool,
        visit: &mut dyn FnMut(&str) -> bool,
    ) -> Result<(), PeerError> {
        let keys = self.call(|state| {
            let is_listed = |(place, versions): &(&MirrorPlace, &Vec<SimVersion>)| {
                let is_current = versions.last().is_some_and(|version| version.object.is_some());
                place.bucket == bucket && place.key.starts_with(prefix) && (all_versions || is_current)
            };
            state.keys.iter().filter(is_listed).map(|(place, _)| place.key.clone()).collect::<Vec<_>>()
        })?;
        for key in keys {
            if !visit(&key) {
                break;
            }
        }
        Ok(())
    }
}

/// A store and its mirror.
struct Mirrored {
    fs: SimFs,
    clock: Arc<ManualClock>,
    target: SimTarget,
    kept: u64,
    rate: u64,
    hours: ActiveHours,
    /// Whether the rules of buckets say what is sent.
    replication: bool,
}

impl Mirrored {
    fn new(versioned: bool, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let target = SimTarget::new(versioned, seed);
        let hours = ActiveHours::default();
        Self { fs: SimFs::new(), clock, target, kept: 64 << 20, rate: 0, hours, replication: false }
    }

    fn open(&self) -> Option<Store> {
        let options = StoreOptions {
            log_file_max_bytes: 64 * 1024,
            checkpoint_after_bytes: 40_000,
            keep_free_bytes: 0,
            idle_group_after: None,
            replay_after_close_max: Duration::ZERO,
            follow_max_bytes: self.kept,
            ..StoreOptions::default()
        };
        Store::open(Arc::new(self.fs.clone()), self.clock.clone(), &SeededEntropy::new(1), options).ok()
    }

    fn mirror(&self) -> Mirror {
        let settings = MirrorSettings {
            name: "away".into(),
            server: ServerSettings {
                endpoint: "http://localhost:1".into(),
                region: "r".into(),
                access_key: "a".into(),
                secret_key: "s".into(),
                trust: CertificateTrust::System,
            },
            sources: vec![],
            target_bucket: "{bucket}".into(),
            target_buckets: BTreeMap::new(),
            target_prefix: "copy/".into(),
            rate: self.rate,
            hours: self.hours,
            workers: 1,
            replication: self.replication,
        };
        Mirror::new(settings, self.clock.clone()).unwrap()
    }

    /// Works until the target is current. Requests are lost ever more rarely: the copy of a key
    /// with many versions takes a hundred of them, which all have to succeed.
    fn converge(&self, store: &Store, mirror: &Mirror, feed: &mut MirrorFeed) {
        let mut target = self.target.clone();
        for turn in 1..100_000 {
            if turn % 1_000 == 0 {
                target.0.lock().unwrap().fault_every *= 2;
            }
            let fed = feed.step(mirror, store, &mut target);
            mirror.work(store, &mut target, Duration::ZERO);
            mirror.retry_now();
            if matches!(fed, Ok(false)) && mirror.figures().due_keys == 0 && store.is_followed("away") {
                return;
            }
        }
        panic!("the mirror does not become current: {:?}", mirror.figures());
    }

    /// The target has the versions of the store, with their bytes and attributes, in order; without
    /// versions the current ones. Markers in a row count once.
    fn check(&self, store: &Store, bucket: &str, versioned: bool) {
        let id = store.bucket(bucket).unwrap().id;
        let mut wanted = BTreeMap::new();
        for key in (0..KEYS).map(|at| format!("k{at}")) {
            let mut versions = Vec::new();
            for version in store.followed_key(id, key.as_bytes()).unwrap().versions {
                let which = if version.null { Selector::Null } else { Selector::Id(version.id) };
                let found = store.find(bucket, &key, which).unwrap();
                let mut bytes = vec![0; version.size as usize];
                store.read(&found, 0..version.size).unwrap().read(&mut bytes).unwrap();
                let object = (bytes, headers_of(&found.version), tags_of(&found.version));
                versions.push((!version.delete_marker).then_some(object));
            }
            if !versioned {
                versions = versions.pop().filter(Option::is_some).into_iter().collect();
            }
            versions.dedup_by(|one, other| one.is_none() && other.is_none());
            if !versions.is_empty() {
                wanted.insert(format!("copy/{key}"), versions);
            }
        }
        let state = self.target.0.lock().unwrap();
        let there = state.keys.iter().filter(|(place, _)| place.bucket == bucket);
        let objects = |versions: &Vec<SimVersion>| {
            let first = if versioned { 0 } else { versions.len() - 1 };
            let objects = versions[first..].iter().map(|it| it.object.clone());
            let mut objects: Vec<_> = objects.filter(|object| versioned || object.is_some()).collect();
            objects.dedup_by(|one, other| one.is_none() && other.is_none());
            objects
        };
        let there = there.map(|(place, all)| (place.key.clone(), objects(all)));
        let there: BTreeMap<_, _> = there.filter(|(_, objects)| !objects.is_empty()).collect();
        assert!(there == wanted, "the target differs");
    }
}

fn put(store: &Store, key: &str, bytes: &[u8], meta: &str) -> bool {
    put_in(store, "b", key, (bytes, meta))
}

fn put_in(store: &Store, bucket: &str, key: &str, (bytes, meta): (&[u8], &str)) -> bool {
    let mut attributes = Attributes::new();
    attributes.push("meta-m", meta);
    let commit = Commit {
        storage_class: StorageClass::Standard,
        etag: ETag::Md5(Md5::of(bytes)),
        attributes,
        checksums: vec![],
        tags: vec![],
        controls: ObjectControls::default(),
        condition: WriteCondition::None,
        stated_time: None,
    };
    let Ok(mut writer) = store.writer(bucket, key, Some(bytes.len() as u64)) else { return false };
    writer.write(bytes).is_ok() && writer.commit(commit).is_ok()
}

fn delete(store: &Store, key: &str, which: Selector) {
    delete_in(store, "b", key, which);
}

fn delete_in(store: &Store, bucket: &str, key: &str, which: Selector) {
    let deletion = Deletion { key: key.into(), which, condition: DeleteCondition::default() };
    // The power may have gone.
    drop(store.delete(bucket, vec![deletion]));
}

fn bucket(store: &Store, versioned: bool) {
    if store.create_bucket("b", "admin").is_ok() && versioned {
        drop(store.set_versioning("b", Versioning::Enabled));
    }
}

fn change_one(store: &Store, random: &dyn Fn(u64) -> u64) {
    let key = format!("k{}", random(KEYS));
    match random(8) {
        0 => delete(store, &key, Selector::Current),
        1 => {
            let id = store.bucket("b").map_or(0, |bucket| bucket.id);
            let versions = store.followed_key(id, key.as_bytes()).map_or(Vec::new(), |it| it.versions);
            if let Some(version) = versions.get(random(4) as usize) {
                delete(store, &key, Selector::Id(version.id));
            }
        }
        2 => {
            if let Ok(found) = store.find("b", &key, Selector::Current) {
                let tags = vec![("t".to_owned(), random(9).to_string())];
                drop(store.set_tags("b", &key, found.version, tags));
            }
        }
        // Few bodies and few attributes, so that versions are alike.
        _ => drop(put(store, &key, &[random(3) as u8; 300], &random(2).to_string())),
    }
}

#[test]
fn a_target_gets_every_version_in_order() {
    let mirrored = Mirrored::new(true, 1);
    let store = mirrored.open().unwrap();
    bucket(&store, true);
    put(&store, "k0", b"one", "1");
    put(&store, "k0", b"two", "1");
    delete(&store, "k0", Selector::Current);
    let mirror = mirrored.mirror();
    let mut target = mirrored.target.clone();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    mirrored.check(&store, "b", true);
    assert_eq!(mirror.figures().objects, 2);
    // Nothing is sent again by a mirror that lost its memory.
    let again = mirrored.mirror();
    let mut feed = again.feed(&store);
    mirrored.converge(&store, &again, &mut feed);
    // A resync mends a target that lost and won objects.
    let place = |key: &str| MirrorPlace { bucket: "b".into(), key: key.into() };
    put(&store, "k1", b"three", "1");
    mirrored.converge(&store, &again, &mut feed);
    target.delete(&place("copy/k1"), None).unwrap();
    mirrored.target.0.lock().unwrap().add(&place("copy/foreign"), Some((b"x".to_vec(), vec![], vec![])));
    mirrored.target.0.lock().unwrap().keys.remove(&place("copy/k0"));
    mirrored.target.set_faults(4);
    again.resync();
    mirrored.converge(&store, &again, &mut feed);
    mirrored.check(&store, "b", true);
}

#[test]
fn a_new_mirror_takes_no_target_over_that_has_objects() {
    let mirrored = Mirrored::new(false, 1);
    let store = mirrored.open().unwrap();
    bucket(&store, false);
    put(&store, "k0", b"one", "1");
    let place = MirrorPlace { bucket: "b".into(), key: "copy/theirs".into() };
    mirrored.target.0.lock().unwrap().add(&place, Some((b"x".to_vec(), vec![], vec![])));
    let mirror = mirrored.mirror();
    let mut target = mirrored.target.clone();
    let mut feed = mirror.feed(&store);
    for _ in 0..10 {
        assert!(!feed.step(&mirror, &store, &mut target).unwrap());
        assert!(!mirror.work(&store, &mut target, Duration::ZERO));
    }
    assert_eq!(mirror.figures().state, MirrorState::Occupied);
    assert_eq!(mirrored.target.0.lock().unwrap().keys.len(), 1);
    mirror.resync();
    mirrored.converge(&store, &mirror, &mut feed);
    mirrored.check(&store, "b", false);
    assert_eq!(mirror.figures().state, MirrorState::Running);
}

/// Loses the bucket at the target with its objects.
fn lose_bucket(mirrored: &Mirrored) {
    let mut state = mirrored.target.0.lock().unwrap();
    state.missing.insert("b".to_owned());
    state.keys.clear();
}

#[test]
fn a_bucket_that_the_target_lacks_is_made_and_keeps_versions_as_here() {
    let mirrored = Mirrored::new(false, 3);
    lose_bucket(&mirrored);
    let store = mirrored.open().unwrap();
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    assert!(mirrored.target.0.lock().unwrap().missing.contains("b"), "there is no such bucket here");
    // The versions come after the bucket.
    bucket(&store, false);
    mirrored.target.set_faults(3);
    mirrored.converge(&store, &mirror, &mut feed);
    bucket(&store, true);
    store.set_versioning("b", Versioning::Enabled).unwrap();
    put(&store, "k0", b"one", "1");
    put(&store, "k0", b"two", "1");
    mirrored.converge(&store, &mirror, &mut feed);
    mirrored.check(&store, "b", true);
    assert_eq!(mirror.figures().removed, 0);
}

#[test]
fn a_bucket_that_the_target_lost_is_filled_again_after_the_next_start() {
    let mirrored = Mirrored::new(true, 4);
    let store = mirrored.open().unwrap();
    bucket(&store, true);
    put(&store, "k0", b"one", "1");
    put(&store, "k1", b"two", "1");
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    lose_bucket(&mirrored);
    let again = mirrored.mirror();
    let mut feed = again.feed(&store);
    mirrored.converge(&store, &again, &mut feed);
    mirrored.check(&store, "b", true);
}

#[test]
fn a_target_that_refused_a_bucket_is_asked_again_after_a_while() {
    let mirrored = Mirrored::new(true, 1);
    lose_bucket(&mirrored);
    mirrored.target.0.lock().unwrap().refuses_buckets = true;
    let store = mirrored.open().unwrap();
    bucket(&store, true);
    put(&store, "k0", b"one", "1");
    let mirror = mirrored.mirror();
    let mut target = mirrored.target.clone();
    let mut feed = mirror.feed(&store);
    let mut asked_after = |steps: u32| {
        for _ in 0..steps {
            drop(feed.step(&mirror, &store, &mut target));
        }
        mirrored.target.0.lock().unwrap().asked_buckets
    };
    let asked = asked_after(100);
    assert!((1..20).contains(&asked), "each step asks: {asked}");
    let (_, why) = mirror.figures().last_error.unwrap();
    assert!(why.contains("a bucket is not made") && why.contains("AccessDenied"), "{why}");
    mirrored.target.0.lock().unwrap().refuses_buckets = false;
    feed.buckets.retry_now();
    mirrored.converge(&store, &mirror, &mut feed);
    assert!(!mirrored.target.0.lock().unwrap().missing.contains("b"));
    mirrored.check(&store, "b", true);
}

#[test]
fn a_mirror_whose_target_does_not_answer_says_so() {
    let mirrored = Mirrored::new(false, 1);
    let store = mirrored.open().unwrap();
    bucket(&store, false);
    put(&store, "k0", b"one", "1");
    let mirror = mirrored.mirror();
    let mut target = mirrored.target.clone();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    assert_eq!(mirror.figures().state, MirrorState::Running);
    put(&store, "k1", b"one", "1");
    mirrored.target.set_faults(1);
    for _ in 0..5 {
        drop(feed.step(&mirror, &store, &mut target));
        mirror.work(&store, &mut target, Duration::ZERO);
    }
    assert_eq!(mirror.figures().state, MirrorState::Unreachable);
    mirrored.target.set_faults(0);
    mirrored.converge(&store, &mirror, &mut feed);
    assert_eq!(mirror.figures().state, MirrorState::Running);
}

#[test]
fn a_bucket_is_made_at_a_target_that_knows_no_versions() {
    let mirrored = Mirrored::new(false, 1);
    lose_bucket(&mirrored);
    mirrored.target.0.lock().unwrap().has_no_versions = true;
    let store = mirrored.open().unwrap();
    bucket(&store, true);
    put(&store, "k0", b"one", "1");
    put(&store, "k0", b"two", "2");
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    mirrored.check(&store, "b", false);
    assert!(mirror.figures().last_error.is_none());
}

#[test]
fn a_bucket_that_was_emptied_and_deleted_before_a_restart_is_emptied_at_the_target() {
    let mirrored = Mirrored::new(false, 1);
    let store = mirrored.open().unwrap();
    bucket(&store, false);
    put(&store, "k0", b"one", "1");
    put(&store, "k1", b"two", "1");
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    feed.end(&mirror, &store);
    delete(&store, "k0", Selector::Current);
    delete(&store, "k1", Selector::Current);
    store.delete_bucket("b").unwrap();
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    assert_eq!(mirrored.target.0.lock().unwrap().keys, BTreeMap::new());
    assert_eq!(mirror.figures().removed, 2);
}

#[test]
fn a_bucket_that_is_gone_on_both_sides_holds_nothing_back() {
    let mirrored = Mirrored::new(false, 1);
    let store = mirrored.open().unwrap();
    bucket(&store, false);
    put(&store, "k0", b"one", "1");
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    delete(&store, "k0", Selector::Current);
    store.delete_bucket("b").unwrap();
    lose_bucket(&mirrored);
    mirrored.converge(&store, &mirror, &mut feed);
    assert_eq!(mirror.figures().failing_keys, 0);
}

#[test]
fn versions_that_the_target_could_not_keep_are_sent_once_it_does() {
    for is_restarted in [false, true] {
        let mirrored = Mirrored::new(false, 1);
        let store = mirrored.open().unwrap();
        bucket(&store, true);
        for bytes in [b"one", b"two", b"six"] {
            put(&store, "k0", bytes, "1");
        }
        let mut mirror = mirrored.mirror();
        let mut feed = mirror.feed(&store);
        mirrored.converge(&store, &mirror, &mut feed);
        mirrored.check(&store, "b", false);
        mirrored.target.0.lock().unwrap().versioned = true;
        if is_restarted {
            feed.end(&mirror, &store);
            mirror = mirrored.mirror();
            feed = mirror.feed(&store);
        }
        put(&store, "k1", b"one", "1");
        mirrored.converge(&store, &mirror, &mut feed);
        mirrored.converge(&store, &mirror, &mut feed);
        mirrored.check(&store, "b", true);
    }
}

#[test]
fn a_bucket_that_was_made_and_did_not_keep_versions_yet_does_after_a_restart() {
    let mirrored = Mirrored::new(false, 1);
    lose_bucket(&mirrored);
    mirrored.target.0.lock().unwrap().lost_enabling = 1;
    let store = mirrored.open().unwrap();
    bucket(&store, true);
    put(&store, "k0", b"one", "1");
    put(&store, "k0", b"two", "1");
    let mirror = mirrored.mirror();
    let mut target = mirrored.target.clone();
    let mut feed = mirror.feed(&store);
    while mirrored.target.0.lock().unwrap().lost_enabling > 0 {
        drop(feed.step(&mirror, &store, &mut target));
    }
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    mirrored.check(&store, "b", true);
}

#[test]
fn an_upload_in_parts_of_a_key_that_is_gone_is_aborted_after_a_restart() {
    let mirrored = Mirrored::new(false, 1);
    let store = mirrored.open().unwrap();
    bucket(&store, false);
    put(&store, "k0", b"one", "1");
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    let upload = MirrorUpload {
        id: store.bucket("b").unwrap().id,
        source: "b".into(),
        key: "k1".into(),
        bucket: "b".into(),
        target_key: "copy/k1".into(),
    };
    mirror.members.begin_upload(&store, &upload).unwrap();
    let place = MirrorPlace { bucket: "b".into(), key: "copy/k1".into() };
    mirrored.target.0.lock().unwrap().uploads.insert(place);
    mirrored.target.set_faults(3);
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    assert_eq!(mirrored.target.0.lock().unwrap().uploads, BTreeSet::new());
    // Nothing is left to do for a later run.
    let again = mirrored.mirror();
    again.feed(&store);
    assert_eq!((again.members.left_uploads(), again.figures().due_keys), (vec![], 0));
}

/// Stores an object at the target that the mirror did not send.
fn put_there(mirrored: &Mirrored, bucket: &str, key: &str) -> MirrorPlace {
    let place = MirrorPlace { bucket: bucket.to_owned(), key: key.to_owned() };
    mirrored.target.0.lock().unwrap().add(&place, Some((b"theirs".to_vec(), vec![], vec![])));
    place
}

fn there(mirrored: &Mirrored, bucket: &str) -> Vec<String> {
    let state = mirrored.target.0.lock().unwrap();
    let keys = state.keys.keys().filter(|place| place.bucket == bucket);
    keys.map(|place| place.key.clone()).collect()
}

#[test]
fn a_bucket_named_as_a_foreign_one_leaves_that_alone_until_the_operator_says_so() {
    for versioned in [false, true] {
        let mut mirrored = Mirrored::new(versioned, 1);
        let store = mirrored.open().unwrap();
        bucket(&store, false);
        let mirror = mirrored.mirror();
        let mut feed = mirror.feed(&store);
        mirrored.converge(&store, &mirror, &mut feed);
        put_there(&mirrored, "theirs", "copy/k1");
        let foreign = mirrored.target.0.lock().unwrap().keys.clone();
        store.create_bucket("theirs", "ann").unwrap();
        put_in(&store, "theirs", "k1", (b"ours", "1"));
        put_in(&store, "theirs", "k2", (b"ours", "1"));
        put(&store, "k0", b"one", "1");
        mirrored.converge(&store, &mirror, &mut feed);
        let untouched = |mirrored: &Mirrored| {
            let state = mirrored.target.0.lock().unwrap();
            foreign.iter().all(|(place, versions)| state.keys.get(place) == Some(versions))
                && state.keys.keys().filter(|place| place.bucket == "theirs").count() == 1
        };
        assert!(untouched(&mirrored) && there(&mirrored, "b") == ["copy/k0"], "the others go on");
        let figures = mirror.figures();
        assert_eq!((figures.state, figures.occupied.len(), figures.due_keys), (MirrorState::Running, 1, 0));
        assert_eq!((&*figures.occupied[0].bucket, &*figures.occupied[0].target_prefix), ("theirs", "copy/"));
        // It is so after a crash, too, and for a walk that the log makes necessary.
        mirrored.fs = mirrored.fs.crash(CrashPolicy::DropAll);
        drop(store);
        let store = mirrored.open().unwrap();
        let mirror = mirrored.mirror();
        let mut feed = mirror.feed(&store);
        feed.follower.start_over(&store).unwrap();
        mirrored.converge(&store, &mirror, &mut feed);
        assert!(untouched(&mirrored) && mirror.figures().occupied.len() == 1);
        mirror.resync();
        mirrored.converge(&store, &mirror, &mut feed);
        assert_eq!(there(&mirrored, "theirs"), ["copy/k1", "copy/k2"]);
        assert_eq!(mirror.figures().occupied, []);
    }
}

#[test]
fn a_bucket_that_is_gone_before_it_was_looked_at_removes_nothing_of_a_foreign_one() {
    let mirrored = Mirrored::new(false, 1);
    let store = mirrored.open().unwrap();
    bucket(&store, false);
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    put_there(&mirrored, "theirs", "copy/k1");
    let change = |store: &Store| {
        store.create_bucket("theirs", "ann").unwrap();
        put_in(store, "theirs", "k1", (b"ours", "1"));
        delete_in(store, "theirs", "k1", Selector::Current);
        store.delete_bucket("theirs").unwrap();
    };
    change(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    // Its keys are due while nobody knows yet what the target has.
    store.create_bucket("theirs", "ann").unwrap();
    put_in(&store, "theirs", "k1", (b"ours", "1"));
    mirrored.target.set_faults(1);
    let mut target = mirrored.target.clone();
    for _ in 0..20 {
        drop(feed.step(&mirror, &store, &mut target));
        mirror.work(&store, &mut target, Duration::ZERO);
    }
    delete_in(&store, "theirs", "k1", Selector::Current);
    store.delete_bucket("theirs").unwrap();
    mirrored.target.set_faults(0);
    mirrored.converge(&store, &mirror, &mut feed);
    assert_eq!(there(&mirrored, "theirs"), ["copy/k1"]);
}

#[test]
fn a_bucket_that_is_made_again_joins_where_the_mirror_made_its_counterpart() {
    for (versioned, is_replaced) in [(false, false), (true, false), (false, true), (true, true)] {
        let mirrored = Mirrored::new(versioned, 1);
        lose_bucket(&mirrored);
        let store = mirrored.open().unwrap();
        bucket(&store, versioned);
        put(&store, "k0", b"one", "1");
        put(&store, "k1", b"one", "1");
        let mirror = mirrored.mirror();
        let mut feed = mirror.feed(&store);
        mirrored.converge(&store, &mirror, &mut feed);
        for key in ["k0", "k1"] {
            let id = store.bucket("b").unwrap().id;
            for version in store.followed_key(id, key.as_bytes()).unwrap().versions {
                let which = if version.null { Selector::Null } else { Selector::Id(version.id) };
                delete(&store, key, which);
            }
        }
        store.delete_bucket("b").unwrap();
        if is_replaced {
            // Somebody else has a bucket of the name there.
            mirrored.converge(&store, &mirror, &mut feed);
            mirrored.target.0.lock().unwrap().keys.clear();
            put_there(&mirrored, "b", "copy/k0");
        }
        bucket(&store, versioned);
        put(&store, "k0", b"two", "1");
        mirrored.converge(&store, &mirror, &mut feed);
        assert_eq!(mirror.figures().occupied.len(), usize::from(is_replaced), "versions: {versioned}");
        if !is_replaced {
            mirrored.check(&store, "b", false);
        }
    }
}

#[test]
fn the_buckets_of_a_mirror_of_an_earlier_version_stay_its_own() {
    let mirrored = Mirrored::new(false, 1);
    let store = mirrored.open().unwrap();
    bucket(&store, false);
    put(&store, "k0", b"one", "1");
    // It has a position, and no notes.
    let mut follower = store.follower("away", Beginning::Snapshot);
    while let Some(batch) = follower.next(&store, 10).unwrap() {
        follower.done_through(&store, batch.end).unwrap();
    }
    follower.save(&store).unwrap();
    put_there(&mirrored, "b", "copy/k0");
    delete(&store, "k0", Selector::Current);
    put(&store, "k1", b"two", "1");
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    assert_eq!(mirror.figures().occupied, []);
    mirrored.check(&store, "b", false);
    assert_eq!(there(&mirrored, "b"), ["copy/k1"]);
}

#[test]
fn a_target_that_keeps_one_of_several_markers_in_a_row_has_the_versions_in_order() {
    for at_once in [true, false] {
        let mirrored = Mirrored::new(true, 1);
        mirrored.target.0.lock().unwrap().keeps_one_marker = true;
        let store = mirrored.open().unwrap();
        bucket(&store, true);
        let mirror = mirrored.mirror();
        let mut feed = mirror.feed(&store);
        // The same bytes twice in a row are two versions.
        for change in ["x", "x", "", "", "x", "y", "", "", ""] {
            match change.is_empty() {
                true => delete(&store, "k0", Selector::Current),
                false => assert!(put(&store, "k0", change.as_bytes(), "1")),
            }
            if !at_once {
                mirrored.converge(&store, &mirror, &mut feed);
            }
        }
        mirrored.converge(&store, &mirror, &mut feed);
        // Nothing is sent again.
        mirror.resync();
        mirrored.converge(&store, &mirror, &mut feed);
        let state = mirrored.target.0.lock().unwrap();
        let place = MirrorPlace { bucket: "b".into(), key: "copy/k0".into() };
        let bodies = state.keys[&place].iter().map(|it| it.object.as_ref().map_or(&b""[..], |it| &it.0));
        let wanted: [&[u8]; 6] = [b"x", b"x", b"", b"x", b"y", b""];
        assert_eq!(bodies.collect::<Vec<_>>(), wanted);
        assert_eq!((state.puts, mirror.figures().removed), (4, 0), "at once: {at_once}");
    }
}

/// Makes the target refuse these keys, and no others.
fn refuse(mirrored: &Mirrored, keys: &[&str]) {
    let refused = keys.iter().map(|key| if key.is_empty() { String::new() } else { format!("copy/{key}") });
    mirrored.target.0.lock().unwrap().refused = refused.collect();
}

#[test]
fn a_key_that_the_target_refuses_is_set_aside_and_named_until_it_is_copied() {
    let mut mirrored = Mirrored::new(true, 1);
    let store = mirrored.open().unwrap();
    bucket(&store, true);
    refuse(&mirrored, &["k1"]);
    put(&store, "k1", b"one", "1");
    put(&store, "k2", b"two", "1");
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    let figures = mirror.figures();
    assert_eq!((figures.refused_keys, figures.due_keys, figures.objects), (1, 0, 1));
    let named = &figures.refused[0];
    assert_eq!((named.bucket.as_str(), named.key.as_str()), ("b", "k1"));
    assert!(named.reason.starts_with("400 InvalidKey") && named.reason.len() <= 300, "{}", named.reason);
    // It is known after a crash, too, and one more refusal of it holds nothing back.
    feed.end(&mirror, &store);
    mirrored.fs = mirrored.fs.crash(CrashPolicy::DropAll);
    let store = mirrored.open().unwrap();
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    assert_eq!(mirror.figures().refused, figures.refused);
    put(&store, "k1", b"other", "1");
    mirrored.converge(&store, &mirror, &mut feed);
    assert_eq!(mirror.figures().refused_keys, 1);
    // It is tried at a start, and copied with all of its versions.
    feed.end(&mirror, &store);
    refuse(&mirrored, &[]);
    let mirror = mirrored.mirror();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    assert_eq!((mirror.figures().refused_keys, mirror.figures().objects), (0, 2));
    mirrored.check(&store, "b", true);
    feed.end(&mirror, &store);
    assert!(mirrored.mirror().feed(&store).follower.refused().is_empty());
}

#[test]
fn a_target_that_refuses_everything_holds_the_position_back() {
    let mirrored = Mirrored::new(false, 1);
    let store = mirrored.open().unwrap();
    bucket(&store, false);
    let mirror = mirrored.mirror();
    let mut target = mirrored.target.clone();
    let mut feed = mirror.feed(&store);
    mirrored.converge(&store, &mirror, &mut feed);
    refuse(&mirrored, &[""]);
    put(&store, "k0", b"one", "1");
    put(&store, "k1", b"one", "1");
    for _ in 0..100 {
        feed.step(&mirror, &store, &mut target).unwrap();
        mirror.work(&store, &mut target, Duration::ZERO);
        mirror.retry_now();
    }
    let figures = mirror.figures();
    assert_eq!((figures.refused_keys, figures.due_keys, figures.failing_keys), (0, 2, 2));
    assert!(!store.is_followed("away"));
    refuse(&mirrored, &[]);
    mirrored.converge(&store, &mirror, &mut feed);
    mirrored.check(&store, "b", false);
}

#[test]
fn refused_keys_beyond_the_list_are_counted_and_a_resync_tries_all_of_them() {
    let mirrored = Mirrored::new(false, 1);
    let store = mirrored.open().unwrap();
    bucket(&store, false);
    let names: Vec<_> = (0..103).map(|at| format!("r{at:03}")).collect();
    refuse(&mirrored, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let mirror = mirrored.mirror();
    let mut target = mirrored.target.clone();
    let mut feed = mirror.feed(&store);
    for name in &names {
        put(&store, name, b"one", "1");
    }
    // All of them are refused once before one is accepted.
    for _ in 0..200 {
        feed.step(&mirror, &store, &mut target).unwrap();
        mirror.work(&store, &mut target, Duration::ZERO);
    }
    put(&store, "k0", b"one", "1");
    mirrored.converge(&store, &mirror, &mut feed);
    let figures = mirror.figures();
    assert_eq!((figures.refused_keys, figures.refused.len()), (103, 100));
    refuse(&mirrored, &[]);
    mirror.resync();
    mirrored.converge(&store, &mirror, &mut feed);
    assert_eq!((mirror.figures().refused_keys, mirrored.target.0.lock().unwrap().keys.len()), (0, 104));
}

#[test]
fn bytes_are_booked_with_the_rate_limit() {
    let mirrored = Mirrored { rate: 1_000, ..Mirrored::new(false, 1) };
    let store = mirrored.open().unwrap();
    bucket(&store, false);
    put(&store, "k0", &[1; 200], "1");
    let mirror = mirrored.mirror();
    let begun = Instant::now();
    mirrored.converge(&store, &mirror, &mut mirror.feed(&store));
    // A burst of a quarter of a second is free, of which the object has taken four fifths or, some
    // time later, more.
    let pause = mirror.rate.as_ref().unwrap().book(1_000, begun);
    assert!(pause >= Duration::from_millis(950), "{pause:?}");
}

#[test]
fn a_stop_waits_for_no_pause_after_a_target_that_cannot_be_reached() {
    let mirrored = Mirrored::new(false, 1);
    let store = mirrored.open().unwrap();
    bucket(&store, false);
    put(&store, "k0", b"one", "1");
    // Nothing listens at the target.
    let mirror = mirrored.mirror();
    // Longer than the wait below, and short enough for a test that fails.
    let pause = Duration::from_secs(180);
    let (stop, stopped) = bounded::<()>(0);
    let (ending, ended) = bounded::<()>(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ending = ending;
            mirror.run_with(&store, &stopped, MirrorPauses { look: pause, error: pause });
        });
        while mirror.figures().last_error.is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        drop(stop);
        let end = ended.recv_timeout(Duration::from_secs(60));
        assert_eq!(end, Err(RecvTimeoutError::Disconnected), "it waits for the end of a pause");
    });
}

#[test]
fn nothing_is_sent_at_other_hours() {
    let mirrored = Mirrored { hours: ActiveHours::parse("23:00-06:00").unwrap(), ..Mirrored::new(false, 1) };
    // The clock begins at 22:13.
    let store = mirrored.open().unwrap();
    bucket(&store, false);
    let mirror = mirrored.mirror();
    let mut target = mirrored.target.clone();
    let mut feed = mirror.feed(&store);
    assert!(!mirror.work(&store, &mut target, Duration::ZERO));
    assert!(!mirror.has_waited(), "a worker turns in a circle");
    put(&store, "k0", b"one", "1");
    for _ in 0..20 {
        feed.step(&mirror, &store, &mut target).unwrap();
        assert!(!mirror.work(&store, &mut target, Duration::ZERO));
    }
    assert_eq!((mirror.figures().state, mirror.figures().due_keys), (MirrorState::Paused, 1));
    mirrored.clock.advance(Duration::from_secs(47 * 60));
    mirrored.converge(&store, &mirror, &mut feed);
    assert_eq!(mirror.figures().state, MirrorState::Running);
    mirrored.check(&store, "b", false);
}

#[test]
fn a_target_converges_whenever_the_power_goes_and_requests_are_lost() {
    let crashes: Option<u64> = std::env::var(CRASHES).ok().map(|count| count.parse().expect("a number"));
    for seed in crashes.map_or_else(|| seeds(1..151, 30), |count| 1..count + 1) {
        let entropy = SeededEntropy::new(seed);
        let random = |bound: u64| entropy.below(bound);
        let of_target = seed % 2 == 0;
        let of_source = seed % 3 > 0;
        let mut mirrored = Mirrored::new(of_target, seed);
        mirrored.kept = if seed % 5 == 0 { 0 } else { 64 << 20 };
        mirrored.target.set_faults(6);
        for _ in 0..3 {
            mirrored.fs.stop_at(mirrored.fs.operations() + 60 + random(250));
            if let Some(store) = mirrored.open() {
                bucket(&store, of_source);
                let mirror = mirrored.mirror();
                let mut target = mirrored.target.clone();
                let mut feed = mirror.feed(&store);
                for _ in 0..40 {
                    change_one(&store, &random);
                    for _ in 0..random(4) {
                        // The power may have gone.
                        drop(feed.step(&mirror, &store, &mut target));
                        mirror.work(&store, &mut target, Duration::ZERO);
                        mirror.retry_now();
                    }
                    if random(10) == 0 {
                        mirrored.clock.advance(Duration::from_secs(6));
                        drop(store.checkpoint());
                    }
                }
            }
            let policy = [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(seed)];
            mirrored.fs = mirrored.fs.crash(policy[random(3) as usize]);
        }
        let store = mirrored.open().expect("the store opens");
        bucket(&store, of_source);
        // A comparison of many versions alike takes many requests in a row.
        mirrored.target.set_faults(40);
        let mirror = mirrored.mirror();
        let mut feed = mirror.feed(&store);
        mirrored.converge(&store, &mirror, &mut feed);
        let versioned = of_target && store.bucket("b").unwrap().versioning == Versioning::Enabled;
        println!("seed {seed}");
        mirrored.check(&store, "b", versioned);
    }
}
