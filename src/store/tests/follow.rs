//! Followers of the log: every change in the order of its key, after any crash, and no more of the
//! log than is allowed.

use std::collections::BTreeMap;

use super::*;
use crate::base::limits::MIB;
use crate::base::test_scope::seeds;
use crate::format::{FileKind, log_path};
use crate::fs::Fs as _;
use crate::fs::sim::CrashPolicy;
use crate::log::list_numbers;

/// Crashes of the random test.
const CRASHES: &str = "SILTSTONE_FOLLOW_CRASHES";

/// A store with a clock that the test moves.
struct Followed {
    fs: SimFs,
    clock: Arc<ManualClock>,
    options: StoreOptions,
}

impl Followed {
    fn new(options: StoreOptions) -> Self {
        Self::on(SimFs::new(), options)
    }

    fn on(fs: SimFs, options: StoreOptions) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        Self { fs, clock, options }
    }

    fn open(&self) -> Result<Store, OpenError> {
        let entropy = SeededEntropy::new(1);
        Store::open(Arc::new(self.fs.clone()), self.clock.clone(), &entropy, self.options)
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

/// What a consumer knows: the versions of each key, oldest first.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Consumer(BTreeMap<Vec<u8>, Vec<VersionId>>);

impl Consumer {
    /// Handles the next batch; `false` where there is none.
    fn follow(&mut self, store: &Store, follower: &mut Follower, bound: usize) -> Result<bool, StoreError> {
        let Some(batch) = follower.next(store, bound)? else { return Ok(false) };
        batch.changes.into_iter().for_each(|change| self.apply(store, change));
        if let Some(range) = batch.range {
            let of_bucket = |key: &Vec<u8>| SnapshotCursor { bucket: bucket_id(store), key: key.clone() };
            let known = versions(store);
            self.0.retain(|key, versions| {
                let at = of_bucket(key);
                let is_in_range = at > range.after && range.through.as_ref().is_none_or(|end| at <= *end);
                if is_in_range {
                    versions.retain(|id| known.0.get(key).is_some_and(|there| there.contains(id)));
                }
                !versions.is_empty()
            });
        }
        follower.done_through(store, batch.end)?;
        Ok(true)
    }

    fn apply(&mut self, store: &Store, change: Change) {
        let now = store.shared.index();
        let versions = self.0.entry(change.key.clone()).or_default();
        match change.kind {
            // A version that is gone: a later change says so.
            ChangeKind::Put(record) if now.version(change.bucket, &change.key, record.id).is_none() => {}
            ChangeKind::Put(record) if versions.contains(&record.id) => {}
            ChangeKind::Put(record) => {
                versions.retain(|known| now.version(change.bucket, &change.key, *known).is_some());
                versions.push(record.id);
            }
            ChangeKind::Deleted(gone) => versions.retain(|known| *known != gone.id),
            _ => {}
        }
        self.0.retain(|_, versions| !versions.is_empty());
    }

    fn catch_up(&mut self, store: &Store, follower: &mut Follower) -> Result<(), StoreError> {
        while self.follow(store, follower, 7)? {}
        Ok(())
    }
}

fn bucket_id(store: &Store) -> u64 {
    store.bucket("b").map_or(0, |bucket| bucket.id)
}

/// The versions of the store, as a consumer that is current knows them.
fn versions(store: &Store) -> Consumer {
    let index = store.shared.index();
    let bucket = bucket_id(store);
    let mut known = BTreeMap::new();
    for key in (0..KEYS).map(|at| format!("k{at}").into_bytes()) {
        let mut ids: Vec<_> = index.summaries(bucket, &key).map(|version| version.id).collect();
        ids.reverse();
        if !ids.is_empty() {
            known.insert(key, ids);
        }
    }
    Consumer(known)
}

const KEYS: u64 = 6;

fn mirror(store: &Store) -> Follower {
    store.follower("away", Beginning::Snapshot)
}

fn versioned(store: &Store) {
    store.create_bucket("b", "admin").unwrap();
    store.set_versioning("b", Versioning::Enabled).unwrap();
}

fn states(store: &Store) -> Vec<(String, bool)> {
    let index = store.shared.index();
    index.followers().map(|(name, state)| (name.to_owned(), state.snapshot.is_some())).collect()
}

#[test]
fn a_follower_gets_what_there_is_and_then_every_change_in_order() {
    let followed = Followed::new(options());
    let store = followed.open().unwrap();
    versioned(&store);
    put(&store, "b", "k0", b"1").unwrap();
    put(&store, "b", "k0", b"2").unwrap();
    let mut follower = mirror(&store);
    let mut consumer = Consumer::default();
    consumer.catch_up(&store, &mut follower).unwrap();
    assert!(consumer == versions(&store));
    assert!(store.is_followed("away"));
    let oldest = store.shared.index().summaries(bucket_id(&store), b"k0").last().unwrap().id;
    delete(&store, "b", "k0", Selector::Id(oldest)).unwrap();
    delete(&store, "b", "k0", Selector::Current).unwrap();
    put(&store, "b", "k1", b"3").unwrap();
    assert!(!store.is_followed("away"));
    let batch = follower.next(&store, 10).unwrap().unwrap();
    let kinds: Vec<_> = batch.changes.iter().map(|change| (&change.key[..], &change.kind)).collect();
    assert!(
        matches!(
            &kinds[..],
            [(b"k0", ChangeKind::Deleted(gone)), (b"k0", ChangeKind::Put(marker)), (b"k1", ChangeKind::Put(_))]
                if gone.id == oldest && marker.delete_marker
        ),
        "{kinds:?}"
    );
    assert!(batch.changes.windows(2).all(|two| two[0].sequence < two[1].sequence));
    follower.done_through(&store, batch.end).unwrap();
    assert!(store.is_followed("away"));
}

#[test]
fn a_follower_goes_on_where_it_was_and_a_saved_position_is_no_news() {
    let followed = Followed::new(options());
    let store = followed.open().unwrap();
    versioned(&store);
    let mut consumer = Consumer::default();
    let mut one = mirror(&store);
    let mut other = store.follower("other", Beginning::Now);
    consumer.catch_up(&store, &mut one).unwrap();
    Consumer::default().catch_up(&store, &mut other).unwrap();
    for at in 0..20 {
        put(&store, "b", &format!("k{}", at % KEYS), b"x").unwrap();
        followed.pass(3);
        consumer.catch_up(&store, &mut one).unwrap();
        Consumer::default().catch_up(&store, &mut other).unwrap();
    }
    let mut sequences = Vec::new();
    for _ in 0..10 {
        followed.pass(60);
        consumer.catch_up(&store, &mut one).unwrap();
        Consumer::default().catch_up(&store, &mut other).unwrap();
        sequences.push(store.health().sequence);
    }
    assert_eq!(sequences[2], sequences[9], "nobody follows positions for ever: {sequences:?}");
    one.save(&store).unwrap();
    drop((one, store));
    let store = followed.open().unwrap();
    let mut again = mirror(&store);
    put(&store, "b", "k9", b"x").unwrap();
    let batch = again.next(&store, 1_000).unwrap().unwrap();
    assert_eq!(batch.changes.len(), 1, "all others were done: {:?}", batch.changes);
}

#[test]
fn a_position_survives_checkpoints_and_states_its_feature() {
    let followed = Followed::new(options());
    let store = followed.open().unwrap();
    versioned(&store);
    assert!(!store.shared.index().features().contains(crate::format::Features::FOLLOWERS));
    Consumer::default().catch_up(&store, &mut mirror(&store)).unwrap();
    assert!(store.shared.index().features().contains(crate::format::Features::FOLLOWERS));
    put(&store, "b", "k0", b"x").unwrap();
    store.close();
    drop(store);
    let store = followed.open().unwrap();
    assert_eq!(states(&store), [("away".to_owned(), true)]);
    let mut follower = mirror(&store);
    let mut consumer = Consumer::default();
    consumer.catch_up(&store, &mut follower).unwrap();
    assert!(consumer == versions(&store));
    store.keep_followers(&["away"]).unwrap();
    assert_eq!(states(&store).len(), 1);
    store.keep_followers(&[]).unwrap();
    store.close();
    drop(store);
    assert_eq!(states(&followed.open().unwrap()), []);
}

/// Puts until the log has that many files more, with a checkpoint before each.
fn fill_log(store: &Store, files: usize) {
    for at in 0..files * 40 {
        put(store, "b", &format!("k{}", at as u64 % KEYS), &[7; 9_000]).unwrap();
        if at % 20 == 19 {
            store.checkpoint().unwrap();
        }
    }
}

fn log_bytes(fs: &SimFs) -> u64 {
    let numbers = list_numbers(fs, FileKind::Log).unwrap();
    numbers.iter().map(|number| fs.open_read(&log_path(*number)).unwrap().len().unwrap()).sum()
}

#[test]
fn the_log_is_kept_for_a_follower_within_limits() {
    let small = StoreOptions { log_file_max_bytes: 64 * 1024, ..options() };
    for (max, is_kept) in [(64 * MIB, true), (200_000, false)] {
        let followed = Followed::new(StoreOptions { follow_max_bytes: max, ..small });
        let store = followed.open().unwrap();
        versioned(&store);
        let mut follower = mirror(&store);
        let mut consumer = Consumer::default();
        consumer.catch_up(&store, &mut follower).unwrap();
        follower.save(&store).unwrap();
        fill_log(&store, 20);
        let files = list_numbers(&followed.fs, FileKind::Log).unwrap();
        assert_eq!(files[0] <= 6, is_kept, "{files:?}");
        if !is_kept {
            let bytes = log_bytes(&followed.fs);
            assert!((100_000..600_000).contains(&bytes), "{bytes}");
        }
        consumer.catch_up(&store, &mut follower).unwrap();
        assert!(consumer == versions(&store));
        assert_eq!(store.follower_figures()[0].starts_over, u64::from(!is_kept));
        assert!(store.is_followed("away"));
        // Once the position has passed, the files go.
        put(&store, "b", "k0", b"x").unwrap();
        consumer.catch_up(&store, &mut follower).unwrap();
        follower.save(&store).unwrap();
        fill_log(&store, 2);
        assert!(list_numbers(&followed.fs, FileKind::Log).unwrap()[0] > 400);
    }
}

#[test]
fn a_full_disk_takes_the_log_from_a_follower() {
    let small = StoreOptions { log_file_max_bytes: 64 * 1024, ..options() };
    let followed = Followed::on(SimFs::with_capacity(64 * MIB), small);
    let store = followed.open().unwrap();
    versioned(&store);
    let mut follower = mirror(&store);
    let mut consumer = Consumer::default();
    consumer.catch_up(&store, &mut follower).unwrap();
    follower.save(&store).unwrap();
    fill_log(&store, 10);
    assert!(list_numbers(&followed.fs, FileKind::Log).unwrap()[0] <= 6);
    for len in [400_000, 20_000, 1_000] {
        while put(&store, "b", "k0", &bytes(1, len)).is_ok() {}
    }
    // It has the space of its reserve at most.
    drop(store.checkpoint());
    assert!(list_numbers(&followed.fs, FileKind::Log).unwrap()[0] > 6, "the disk is full");
    // It is made larger.
    followed.fs.set_capacity(128 * MIB);
    consumer.catch_up(&store, &mut follower).unwrap();
    assert!(consumer == versions(&store));
    assert_eq!(store.follower_figures()[0].starts_over, 1);
}

#[test]
fn a_walk_goes_on_after_a_restart_and_reaches_every_key() {
    let followed = Followed::new(options());
    let store = followed.open().unwrap();
    versioned(&store);
    for at in 0..1_000 {
        put(&store, "b", &format!("w{at:04}"), b"x").unwrap();
    }
    let mut follower = mirror(&store);
    let count = |batch: &ChangeBatch| batch.changes.iter().filter(|change| !change.key.is_empty()).count();
    let first = loop {
        let batch = follower.next(&store, 1).unwrap().unwrap();
        if count(&batch) > 0 {
            break batch;
        }
    };
    let mut keys = count(&first);
    let second = follower.next(&store, 1).unwrap().unwrap();
    follower.done_through(&store, first.end).unwrap();
    follower.save(&store).unwrap();
    drop((follower, store));
    let store = followed.open().unwrap();
    let mut follower = mirror(&store);
    let again = follower.next(&store, 1).unwrap().unwrap();
    assert_eq!(again.changes, second.changes, "what was not done comes again");
    keys += count(&again);
    loop {
        let batch = follower.next(&store, 1).unwrap().unwrap();
        keys += count(&batch);
        if batch.range.as_ref().unwrap().through.is_none() {
            break;
        }
    }
    assert_eq!(keys, 1_000);
}

#[test]
fn a_change_of_metadata_names_its_operation_and_moved_bytes_do_not() {
    let followed = Followed::new(options());
    let store = followed.open().unwrap();
    versioned(&store);
    let mut follower = mirror(&store);
    Consumer::default().catch_up(&store, &mut follower).unwrap();
    put(&store, "b", "k0", b"x").unwrap();
    let found = store.find("b", "k0", Selector::Current).unwrap();
    let copy = CopyRange {
        bucket: bucket_id(&store),
        key: "k0".into(),
        version: found.version.clone(),
        range: 0..1,
    };
    store.set_tags("b", "k0", found.version, vec![("a".into(), "b".into())]).unwrap();
    store.copy(copy, "b", "k1", commit_of(b"x")).unwrap();
    let batch = follower.next(&store, 100).unwrap().unwrap();
    let operation = |change: &Change| change.cause.as_ref().map(|cause| cause.operation.clone());
    let amended: Vec<_> =
        batch.changes.iter().filter(|it| matches!(it.kind, ChangeKind::Amended(_))).map(operation).collect();
    assert_eq!(amended, [Some("PutObjectTagging".to_owned()), None]);
    drop(store);
    let store = followed.open().unwrap();
    assert_eq!(store.find("b", "k0", Selector::Current).unwrap().version.tags.len(), 1);
}

/// The change of each key, without the others.
fn keys(batch: &ChangeBatch) -> Vec<String> {
    let keys = batch.changes.iter().filter(|change| !change.key.is_empty());
    keys.map(|change| String::from_utf8(change.key.clone()).unwrap()).collect()
}

#[test]
fn a_follower_without_a_walk_is_told_of_the_gap_until_it_is_past_it() {
    let small = StoreOptions { log_file_max_bytes: 64 * 1024, follow_max_bytes: 200_000, ..options() };
    let followed = Followed::new(small);
    let store = followed.open().unwrap();
    versioned(&store);
    let mut follower = store.follower("hook", Beginning::Now);
    assert_eq!(follower.next(&store, 0).unwrap(), None);
    let done = store.shared.index().follower("hook").unwrap().position.sequence;
    assert!(!store.follower_figures()[0].is_overrun);
    fill_log(&store, 20);
    assert!(store.follower_figures()[0].is_overrun, "before the follower reads");
    drop((follower, store));
    let mut gaps = Vec::new();
    for _ in 0..2 {
        let store = followed.open().unwrap();
        let mut follower = store.follower("hook", Beginning::Now);
        let batch = follower.next(&store, 0).unwrap().unwrap();
        let lost = batch.lost.unwrap();
        assert_eq!((lost.after, batch.changes.len()), (done, 0));
        let next = follower.next(&store, 1).unwrap().unwrap();
        assert_eq!((next.changes[0].sequence, next.lost), (lost.through + 1, None));
        assert!(lost.through + 2 < store.health().sequence, "what is kept is not lost");
        gaps.push(lost);
        put(&store, "b", "more", b"x").unwrap();
    }
    assert_eq!(gaps[0], gaps[1]);
    let store = followed.open().unwrap();
    let mut follower = store.follower("hook", Beginning::Now);
    while let Some(batch) = follower.next(&store, 100).unwrap() {
        follower.done_through(&store, batch.end).unwrap();
    }
    let figures = &store.follower_figures()[0];
    assert_eq!((figures.is_overrun, figures.starts_over, figures.waiting_groups), (false, 1, 0));
    follower.save(&store).unwrap();
    drop((follower, store));
    let store = followed.open().unwrap();
    put(&store, "b", "last", b"x").unwrap();
    let batch = store.follower("hook", Beginning::Now).next(&store, 100).unwrap().unwrap();
    assert_eq!((keys(&batch), batch.lost), (vec!["last".to_owned()], None));
}

#[test]
fn damage_of_the_log_is_a_gap_too() {
    let followed = Followed::new(StoreOptions { log_file_max_bytes: 64 * 1024, ..options() });
    let store = followed.open().unwrap();
    versioned(&store);
    let mut follower = store.follower("hook", Beginning::Now);
    assert_eq!(follower.next(&store, 0).unwrap(), None);
    fill_log(&store, 3);
    let files = list_numbers(&followed.fs, FileKind::Log).unwrap();
    assert!(files.len() > 3, "{files:?}");
    followed.fs.damage(&log_path(files[1]), 4096 + 8, 1).unwrap();
    let mut lost = Vec::new();
    let mut last = 0;
    while let Some(batch) = follower.next(&store, 10).unwrap() {
        lost.extend(batch.lost);
        assert!(batch.changes.iter().all(|change| change.sequence > last || batch.lost.is_some()));
        last = batch.changes.last().map_or(last, |change| change.sequence);
        follower.done_through(&store, batch.end).unwrap();
    }
    assert_eq!(lost, [LostChanges { after: files[1] - 1, through: files[2] - 1 }]);
    assert!(last >= files[2] && store.is_followed("hook"));
}

#[test]
fn a_follower_that_cannot_be_saved_at_first_misses_nothing() {
    let followed = Followed::on(SimFs::with_capacity(64 * MIB), options());
    let store = followed.open().unwrap();
    versioned(&store);
    for len in [400_000, 20_000, 1_000] {
        while put(&store, "b", "k0", &bytes(1, len)).is_ok() {}
    }
    let mut follower = store.follower("hook", Beginning::Now);
    assert!(follower.next(&store, 0).is_err(), "the disk is full");
    followed.fs.set_capacity(128 * MIB);
    put(&store, "b", "first", b"x").unwrap();
    let batch = follower.next(&store, 100).unwrap().unwrap();
    assert_eq!(keys(&batch), ["first"]);
    follower.done_through(&store, batch.end).unwrap();
    assert_eq!(states(&store), [("hook".to_owned(), false)]);
}

#[test]
fn deletions_tell_null_versions() {
    let followed = Followed::new(options());
    let store = followed.open().unwrap();
    store.create_bucket("b", "admin").unwrap();
    let mut follower = store.follower("hook", Beginning::Now);
    assert_eq!(follower.next(&store, 0).unwrap(), None);
    put(&store, "b", "k", b"null").unwrap();
    store.set_versioning("b", Versioning::Enabled).unwrap();
    put(&store, "b", "k", b"x").unwrap();
    let newest = store.find("b", "k", Selector::Current).unwrap().version.id;
    delete(&store, "b", "k", Selector::Id(newest)).unwrap();
    delete(&store, "b", "k", Selector::Null).unwrap();
    let batch = follower.next(&store, 100).unwrap().unwrap();
    let told = batch.changes.iter().filter_map(|change| match change.kind {
        ChangeKind::Deleted(gone) => Some((gone.null, gone.id == newest)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(false, true), (true, false)]);
}

#[test]
fn the_log_tells_a_bucket_that_is_gone() {
    let followed = Followed::new(options());
    let store = followed.open().unwrap();
    let document = |name: &str| format!("<of {name}/>").into_bytes();
    let notify = |name: &str| {
        let kind = BucketConfigurationKind::Notification;
        store.set_bucket_configuration(name, kind, Some(document(name))).unwrap();
    };
    for name in ["old", "new", "stays"] {
        store.create_bucket(name, "admin").unwrap();
        notify(name);
    }
    let mut follower = store.follower("hook", Beginning::Now);
    assert_eq!(follower.next(&store, 0).unwrap(), None);
    let ids = ["old", "new", "stays"].map(|name| store.bucket(name).unwrap().id);
    for name in ["old", "new"] {
        put(&store, name, "k", b"x").unwrap();
        delete(&store, name, "k", Selector::Current).unwrap();
        store.delete_bucket(name).unwrap();
    }
    // Another bucket under the name of one that is gone.
    store.create_bucket("old", "other").unwrap();
    store.checkpoint().unwrap();
    drop((follower, store));
    let store = followed.open().unwrap();
    let mut follower = store.follower("hook", Beginning::Now);
    let batch = follower.next(&store, 100).unwrap().unwrap();
    assert_eq!(keys(&batch), ["k"; 4]);
    let mut departed = DepartedBuckets::default();
    for (id, name) in ids.into_iter().zip(["old", "new"]) {
        let bucket = departed.get(&store, &follower, id).unwrap().unwrap();
        assert_eq!((&*bucket.record.name, &*bucket.record.owner), (name, "admin"));
        assert_eq!(bucket.notifications, Some(document(name)));
    }
    assert_eq!(departed.get(&store, &follower, ids[2]).unwrap(), None, "it is not gone");
}

/// Work with a consumer that outlives the power, as another server does.
fn work(
    store: &Store,
    follower: &mut Follower,
    consumer: &mut Consumer,
    seed: u64,
    clock: &ManualClock,
) -> Result<(), StoreError> {
    let entropy = SeededEntropy::new(seed);
    let random = |bound: u64| entropy.below(bound);
    if store.bucket("b").is_err() {
        store.create_bucket("b", "admin")?;
        store.set_versioning("b", Versioning::Enabled)?;
    }
    for _ in 0..30 {
        let key = format!("k{}", random(KEYS));
        match random(8) {
            0 => drop(delete(store, "b", &key, Selector::Current)?),
            1 => {
                let oldest = store.shared.index().summaries(bucket_id(store), key.as_bytes()).last();
                if let Some(oldest) = oldest {
                    delete(store, "b", &key, Selector::Id(oldest.id))?;
                }
            }
            2 => store.checkpoint()?,
            3 => clock.advance(Duration::from_secs(4)),
            4 | 5 => drop(consumer.follow(store, follower, 3)?),
            _ => drop(put(store, "b", &key, &vec![1; 1 + random(3_000) as usize])?),
        }
    }
    Ok(())
}

#[test]
fn a_consumer_has_every_version_in_order_whenever_the_power_goes() {
    let crashes: Option<u64> = std::env::var(CRASHES).ok().map(|count| count.parse().expect("a number"));
    let first = seed() * 1_000_000;
    let tried = crashes.map_or_else(|| seeds(0..200, 40), |count| 0..count);
    for (kept, seed) in [64 * MIB, 0].into_iter().cycle().zip(first + tried.start..first + tried.end) {
        let options = StoreOptions {
            log_file_max_bytes: 16 * 1024,
            checkpoint_after_bytes: 30_000,
            follow_max_bytes: kept,
            ..options()
        };
        let mut followed = Followed::new(options);
        let mut consumer = Consumer::default();
        for round in 0..3 {
            followed.fs.stop_at(followed.fs.operations() + 20 + seed * 7 % 130);
            if let Ok(store) = followed.open() {
                let mut follower = mirror(&store);
                let seed = seed * 3 + round;
                // The power goes somewhere in it.
                drop(work(&store, &mut follower, &mut consumer, seed, &followed.clock));
            }
            let policy = [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(seed)];
            followed.fs = followed.fs.crash(policy[(seed % 3) as usize]);
        }
        let store = followed.open().unwrap();
        consumer.catch_up(&store, &mut mirror(&store)).unwrap();
        assert!(consumer == versions(&store), "seed {seed}");
    }
}
