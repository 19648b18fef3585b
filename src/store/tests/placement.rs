//! Placements of buckets and classes of versions: where the bytes of segments lie that the remote has.

use super::ship::{begun, follow, is_whole, promoted, restored, ship, standby_on};
use super::tier::{NOTHING_LOCAL, Tiered, seal, work};
use super::*;
use crate::base::limits::MIB;
use crate::remote::sim::RemoteCall;

const LEN: usize = 700_000;
const OBJECTS: u64 = 6;

/// Six objects of each bucket, those of one bucket in segments of their own.
fn fill(store: &Store, buckets: &[&str], class: StorageClass) {
    for (nth, bucket) in (0..).zip(buckets) {
        store.create_bucket(bucket, "admin").unwrap();
        for at in 0..OBJECTS {
            let content = bytes(nth * OBJECTS + at, LEN);
            let mut writer = store.writer(bucket, &format!("k{at}"), Some(LEN as u64)).unwrap();
            writer.write(content.clone()).unwrap();
            writer.commit(Commit { storage_class: class, ..commit_of(&content) }).unwrap();
        }
        store.shared.segments.retire(|_| true);
    }
    store.create_bucket("b", "admin").unwrap();
    seal(store);
}

/// The objects of a bucket that can be read, each with its bytes.
fn readable(store: &Store, nth: u64, bucket: &str) -> u64 {
    let is_readable = |at: &u64| match get(store, bucket, &format!("k{at}")) {
        Ok(found) => {
            assert!(found == bytes(nth * OBJECTS + at, LEN), "{bucket}/k{at}");
            true
        }
        Err(error) => {
            assert!(matches!(error, StoreError::RemoteUnavailable(_)), "{error:?}");
            false
        }
    };
    (0..OBJECTS).filter(is_readable).count() as u64
}

/// The same while the remote does not answer.
fn here(tiered: &Tiered, store: &Store, nth: u64, bucket: &str) -> u64 {
    tiered.remote.set_down(true);
    let here = readable(store, nth, bucket);
    tiered.remote.set_down(false);
    here
}

fn place(store: &Store, bucket: &str, placement: Option<BucketPlacement>) {
    let document = placement.map(BucketPlacement::document);
    store.set_bucket_configuration(bucket, BucketConfigurationKind::Placement, document).unwrap();
}

fn reopened(tiered: &Tiered, store: Store) -> Store {
    store.close();
    drop(store);
    let store = tiered.open();
    work(&store).unwrap();
    store
}

#[test]
fn a_bucket_pinned_to_the_disk_stays_there_under_pressure_and_a_restart_keeps_it() {
    let tiered = Tiered::new(TierOptions::default());
    let store = tiered.open();
    fill(&store, &["here", "there"], StorageClass::Standard);
    place(&store, "here", Some(BucketPlacement::Local));
    store.close();
    drop(store);
    let tiered = tiered.with(NOTHING_LOCAL);
    let mut store = tiered.open();
    seal(&store);
    for _ in 0..2 {
        work(&store).unwrap();
        assert_eq!((here(&tiered, &store, 0, "here"), here(&tiered, &store, 1, "there")), (OBJECTS, 0));
        let figures = store.tier_figures().unwrap();
        assert!(figures.pinned_bytes >= OBJECTS * LEN as u64, "its bytes cannot be given back: {figures:?}");
        assert!(figures.cached_bytes < MIB, "{figures:?}");
        store = reopened(&tiered, store);
    }
    // Without its placement it goes as all others.
    place(&store, "here", None);
    work(&store).unwrap();
    assert!(here(&tiered, &store, 0, "here") < OBJECTS - 2, "no more than there is room for");
    assert_eq!((readable(&store, 0, "here"), readable(&store, 1, "there")), (OBJECTS, OBJECTS));
    assert_eq!(store.health().damage, []);
    store.close();
}

#[test]
fn cold_versions_leave_without_pressure_come_back_on_a_read_and_stay_cold_after_a_restart() {
    let tiered = Tiered::new(TierOptions::default());
    let store = tiered.open();
    fill(&store, &["cold"], StorageClass::Cold);
    let done = work(&store).unwrap();
    assert!(done.given_back_bytes > (OBJECTS - 2) * LEN as u64, "{done:?}");
    assert_eq!(here(&tiered, &store, 0, "cold"), 0);
    assert_eq!(get(&store, "b", "last").unwrap(), b"x");
    assert_eq!(readable(&store, 0, "cold"), OBJECTS);
    let fetched = tiered.remote.calls(RemoteCall::Get);
    work(&store).unwrap();
    assert_eq!(readable(&store, 0, "cold"), OBJECTS);
    assert_eq!(tiered.remote.calls(RemoteCall::Get), fetched, "they are kept as long as there is room");
    let store = reopened(&tiered, store);
    let found = store.find("cold", "k0", Selector::Current).unwrap().version;
    assert_eq!(found.storage_class, StorageClass::Cold);
    assert_eq!(here(&tiered, &store, 0, "cold"), 0);
    assert_eq!(readable(&store, 0, "cold"), OBJECTS);
    store.close();
}

fn transition(store: &Store, bucket: &str, key: &str) -> ExpiryOutcome {
    let version = store.find(bucket, key, Selector::Current).unwrap().version.id;
    let transition = ClassTransition { class: StorageClass::Cold, record_bytes: 4096 };
    let key = key.as_bytes().to_vec();
    let role = ExpiringRole::Current(version);
    let items = vec![ExpiringItem { key, role, transition: Some(transition) }];
    let request = ExpiryRequest { bucket: store.bucket(bucket).unwrap(), configuration: None, items };
    store.expire(request).unwrap()[0]
}

#[test]
fn a_transition_has_bytes_leave_and_a_warm_copy_of_them_keeps_them_here() {
    let tiered = Tiered::new(TierOptions::default());
    let store = tiered.open();
    fill(&store, &["b1", "b2"], StorageClass::Standard);
    work(&store).unwrap();
    assert_eq!((here(&tiered, &store, 0, "b1"), here(&tiered, &store, 1, "b2")), (OBJECTS, OBJECTS));
    for at in 0..OBJECTS {
        assert_eq!(transition(&store, "b1", &format!("k{at}")), ExpiryOutcome::Moved);
        assert_eq!(transition(&store, "b1", &format!("k{at}")), ExpiryOutcome::Obsolete, "it is there");
    }
    work(&store).unwrap();
    assert_eq!((here(&tiered, &store, 0, "b1"), here(&tiered, &store, 1, "b2")), (0, OBJECTS));
    // A copy shares the bytes, and wants them here.
    for at in 0..OBJECTS {
        let key = format!("k{at}");
        let found = store.find("b1", &key, Selector::Current).unwrap();
        let source = CopyRange {
            bucket: found.bucket.id,
            key: key.clone(),
            version: found.version,
            range: 0..LEN as u64,
        };
        store.copy(source, "b1", &key, commit_of(&bytes(at, LEN))).unwrap();
    }
    assert_eq!(readable(&store, 0, "b1"), OBJECTS);
    let store = reopened(&tiered, store);
    assert_eq!(here(&tiered, &store, 0, "b1"), OBJECTS, "what was fetched stays");
    store.close();
}

#[test]
fn a_bucket_pinned_to_the_remote_leaves_and_a_class_wins_over_a_pin() {
    let tiered = Tiered::new(TierOptions::default());
    let store = tiered.open();
    fill(&store, &["gone", "here"], StorageClass::Standard);
    place(&store, "gone", Some(BucketPlacement::Remote));
    place(&store, "here", Some(BucketPlacement::Local));
    work(&store).unwrap();
    assert_eq!((here(&tiered, &store, 0, "gone"), here(&tiered, &store, 1, "here")), (0, OBJECTS));
    for at in 0..OBJECTS {
        assert_eq!(transition(&store, "here", &format!("k{at}")), ExpiryOutcome::Moved);
    }
    work(&store).unwrap();
    assert_eq!(here(&tiered, &store, 1, "here"), 0);
    place(&store, "gone", None);
    assert_eq!(readable(&store, 0, "gone"), OBJECTS);
    let store = reopened(&tiered, store);
    assert_eq!(here(&tiered, &store, 0, "gone"), OBJECTS);
    store.close();
}

/// Live versions are moved together when most of a segment is dead; they keep their class, and
/// leave again.
#[test]
fn relocated_versions_keep_their_class() {
    let tiered = Tiered::new(TierOptions::default());
    let store = tiered.open();
    fill(&store, &["cold"], StorageClass::Cold);
    let deletions = (1..OBJECTS).map(|at| Deletion {
        key: format!("k{at}"),
        which: Selector::Current,
        condition: DeleteCondition::default(),
    });
    store.delete("cold", deletions.collect()).unwrap();
    reclaim_all(&store).unwrap();
    let found = store.find("cold", "k0", Selector::Current).unwrap().version;
    assert_eq!(found.storage_class, StorageClass::Cold);
    assert!(get(&store, "cold", "k0").unwrap() == bytes(0, LEN));
    assert_eq!(store.usage("cold").unwrap().cold.count, 1);
    store.close();
}

const PLACES: [&str; 4] = ["here", "gone", "cold", "free"];

/// A writer that ships its log, with a bucket placed on the disk, one placed on the remote, one of
/// COLD versions, and one as any other; and a standby that has followed.
fn placed_and_followed(tiered: &Tiered) -> (Store, SimFs, Standby) {
    let old = begun(tiered, &tiered.fs, ShipMode::Async);
    let fs = SimFs::new();
    let mut standby = standby_on(tiered, &fs);
    fill(&old, &PLACES, StorageClass::Standard);
    ship(&old).unwrap();
    follow(&mut standby);
    place(&old, "here", Some(BucketPlacement::Local));
    place(&old, "gone", Some(BucketPlacement::Remote));
    for at in 0..OBJECTS {
        assert_eq!(transition(&old, "cold", &format!("k{at}")), ExpiryOutcome::Moved);
    }
    settle(&old);
    follow(&mut standby);
    (old, fs, standby)
}

/// Sends segments, and ships the groups that say so: only then may bytes leave.
fn settle(store: &Store) {
    for _ in 0..2 {
        work(store).unwrap();
        ship(store).unwrap();
    }
    work(store).unwrap();
}

fn check_placed(store: &Store) {
    let placement = |bucket: &str| {
        let bucket = store.configured_bucket(bucket).unwrap();
        bucket.configuration(BucketConfigurationKind::Placement).and_then(BucketPlacement::of)
    };
    let local = Some(BucketPlacement::Local);
    let remote = Some(BucketPlacement::Remote);
    assert_eq!(PLACES.map(placement), [local, remote, None, None]);
    for bucket in PLACES {
        let class = if bucket == "cold" { StorageClass::Cold } else { StorageClass::Standard };
        for at in 0..OBJECTS {
            let found = store.find(bucket, &format!("k{at}"), Selector::Current).unwrap();
            assert_eq!(found.version.storage_class, class, "{bucket}/k{at}");
        }
    }
    assert_eq!(PLACES.map(|bucket| store.usage(bucket).unwrap().cold.count), [0, 0, OBJECTS, 0]);
}

fn all_here(tiered: &Tiered, store: &Store) -> [u64; 4] {
    [0, 1, 2, 3].map(|nth| here(tiered, store, nth, PLACES[nth as usize]))
}

/// Room for one of the buckets, and for the segments that are written to.
const TIGHT: TierOptions = TierOptions { local_max_bytes: 8 * MIB, ..NOTHING_LOCAL };

/// Reads all objects. The bytes of a bucket that is placed on the disk stay then, though another
/// host had them before.
fn read_and_keep(tiered: &Tiered, store: &Store) {
    settle(store);
    for _ in 0..2 {
        (0..)
            .zip(PLACES)
            .for_each(|(nth, bucket)| assert_eq!(readable(store, nth, bucket), OBJECTS, "{bucket}"));
        // Zeros in place of holes are read from the remote, and make way for holes that can be
        // filled.
        settle(store);
    }
    let [here, gone, cold, free] = all_here(tiered, store);
    assert_eq!(here, OBJECTS);
    assert!(free < OBJECTS, "there is no room for all: {gone}, {cold} and {free}");
    assert_eq!(store.health().damage, []);
}

#[test]
fn pins_and_classes_survive_takeovers_and_what_is_pinned_here_stays_once_it_was_read() {
    let tiered = Tiered::new(TierOptions::default());
    let (old, fs, mut standby) = placed_and_followed(&tiered);
    check_placed(&old);
    assert_eq!(all_here(&tiered, &old), [OBJECTS, 0, 0, OBJECTS]);
    is_whole(&fs);
    drop(old);
    let tiered = tiered.with(TIGHT);
    let new = promoted(&tiered, &fs, &mut standby, ShipMode::Async);
    check_placed(&new);
    assert_eq!(all_here(&tiered, &new), [0; 4], "a standby leaves to the remote what that has");
    read_and_keep(&tiered, &new);
    // The next host takes over from this one.
    let third = SimFs::new();
    let mut standby = standby_on(&tiered, &third);
    follow(&mut standby);
    is_whole(&third);
    drop(new);
    check_placed(&promoted(&tiered, &third, &mut standby, ShipMode::Async));
}

#[test]
fn pins_and_classes_survive_a_restore_and_what_is_pinned_here_stays_once_it_was_read() {
    let tiered = Tiered::new(TierOptions::default());
    let (old, _, standby) = placed_and_followed(&tiered);
    drop((old, standby));
    let fs = restored(&tiered);
    is_whole(&fs);
    let tiered = tiered.with(TIGHT);
    let store = begun(&tiered, &fs, ShipMode::Async);
    check_placed(&store);
    read_and_keep(&tiered, &store);
    store.close();
}
