//! The log on a remote: what was answered is restored from there, one host writes at a time, and
//! nothing goes before it was shipped.

use super::tier::{NOTHING_LOCAL, Tiered, work};
use super::*;
use crate::base::limits::MIB;
use crate::format::{Claim, PARCEL_MAX_BYTES, Parcel, Root, UNIT_BYTES, segment_path};
use crate::fs::sim::{CrashPolicy, OpKind};
use crate::offline::verify::verify;
use crate::remote::sim::{RemoteCall, RemoteFault};

/// Room for the open segments, and for little that the remote has.
pub(super) const LITTLE_LOCAL: TierOptions = TierOptions { local_max_bytes: 24 * MIB, ..NOTHING_LOCAL };
pub(super) const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn shipping(tiered: &Tiered, fs: &SimFs, mode: ShipMode) -> Store {
    shipping_with(tiered, fs, ShipOptions { mode, root_every: HOUR, window: 7 * 24 * HOUR, lag_max: None })
}

pub(super) fn shipping_with(tiered: &Tiered, fs: &SimFs, options: ShipOptions) -> Store {
    let store = tiered.open_on(fs);
    store.ship_log_from(options, None);
    store
}

pub(super) fn begun(tiered: &Tiered, fs: &SimFs, mode: ShipMode) -> Store {
    let store = shipping(tiered, fs, mode);
    ship(&store).unwrap();
    store
}

pub(super) fn ship(store: &Store) -> Result<(), StoreError> {
    store.ship_step(&SeededEntropy::new(5))
}

pub(super) fn restored(tiered: &Tiered) -> SimFs {
    let fs = SimFs::new();
    restore_from_remote(tiered.reached().as_ref(), &fs, tiered.clock.as_ref(), &mut |_| ()).unwrap();
    fs
}

fn parcels(tiered: &Tiered) -> usize {
    tiered.remote.names().iter().filter(|name| name.starts_with("log/")).count()
}

pub(super) fn is_unavailable<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::RemoteUnavailable(_) | StoreError::InDoubt(_)))
}

#[test]
pub(super) fn a_restored_store_has_what_was_shipped_and_ships_on() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = begun(&tiered, &tiered.fs, ShipMode::Async);
    store.create_bucket("b", "admin").unwrap();
    for at in 0..12 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 700_000)).unwrap();
        put(&store, "b", &format!("s{at}"), &bytes(at, 300)).unwrap();
    }
    // Some of the bytes are on the remote as segments, some in parcels.
    reclaim_all(&store).unwrap();
    assert!(work(&store).unwrap().sent > 0);
    delete(&store, "b", "k0", Selector::Current).unwrap();
    put(&store, "b", "large", &bytes(99, 3 * MIB as usize)).unwrap();
    ship(&store).unwrap();
    assert_eq!(store.ship_figures().unwrap().waiting_groups, 0);
    drop(store);

    for _ in 0..2 {
        let fs = restored(&tiered);
        let report = verify(&fs, &mut |_| ()).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let store = begun(&tiered, &fs, ShipMode::Async);
        for at in 1..12 {
            assert!(get(&store, "b", &format!("k{at}")).unwrap() == bytes(at, 700_000), "k{at}");
            assert_eq!(get(&store, "b", &format!("s{at}")).unwrap(), bytes(at, 300));
        }
        assert_eq!(get(&store, "b", "k0"), Err(StoreError::NoSuchKey));
        assert!(get(&store, "b", "large").unwrap() == bytes(99, 3 * MIB as usize));
        assert_eq!(store.health().damage, []);
        put(&store, "b", "s1", &bytes(1, 300)).unwrap();
        ship(&store).unwrap();
    }
}

#[test]
pub(super) fn nothing_is_written_before_the_epoch_has_begun_and_reads_go_on() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = begun(&tiered, &tiered.fs, ShipMode::Async);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", b"v").unwrap();
    ship(&store).unwrap();
    store.close();
    drop(store);
    tiered.remote.set_down(true);
    let store = shipping(&tiered, &tiered.fs, ShipMode::Async);
    assert!(is_unavailable(&ship(&store)));
    assert_eq!(get(&store, "b", "k").unwrap(), b"v");
    assert!(is_unavailable(&put(&store, "b", "k", b"w")));
    tiered.remote.set_down(false);
    ship(&store).unwrap();
    put(&store, "b", "k", b"w").unwrap();
}

#[test]
pub(super) fn a_synchronous_write_is_on_the_remote_when_it_is_answered() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = begun(&tiered, &tiered.fs, ShipMode::Sync);
    store.create_bucket("b", "admin").unwrap();
    for at in 0..5 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 200_000 * at as usize)).unwrap();
        let there = shipping(&tiered, &restored(&tiered), ShipMode::Sync);
        assert!(get(&there, "b", &format!("k{at}")).unwrap() == bytes(at, 200_000 * at as usize));
    }
    // Without the remote nothing is answered, and the write in doubt is neither visible nor lost.
    tiered.remote.set_down(true);
    assert!(is_unavailable(&put(&store, "b", "doubt", b"v")));
    assert_eq!(get(&store, "b", "doubt"), Err(StoreError::NoSuchKey));
    assert!(is_unavailable(&put(&store, "b", "next", b"v")));
    tiered.remote.set_down(false);
    put(&store, "b", "next", b"v").unwrap();
    assert_eq!(get(&store, "b", "doubt").unwrap(), b"v");
    let there = shipping(&tiered, &restored(&tiered), ShipMode::Sync);
    assert_eq!(keys(&there, "b"), keys(&store, "b"));
}

#[test]
pub(super) fn a_host_that_was_taken_over_answers_no_write() {
    for mode in [ShipMode::Sync, ShipMode::Async] {
        let tiered = Tiered::new(LITTLE_LOCAL);
        let old = begun(&tiered, &tiered.fs, mode);
        old.create_bucket("b", "admin").unwrap();
        put(&old, "b", "k", b"old").unwrap();
        ship(&old).unwrap();
        let new = begun(&tiered, &restored(&tiered), mode);
        put(&new, "b", "k", b"new").unwrap();
        ship(&new).unwrap();
        let late = put(&old, "b", "k", b"late");
        assert_eq!(late.is_err(), mode == ShipMode::Sync);
        assert!(matches!(ship(&old), Err(StoreError::ReadOnly(_))));
        assert!(put(&old, "b", "k", b"later").is_err());
        assert_eq!(old.health().read_only_reason, Some(ReadOnlyReason::Fenced));
        let there = shipping(&tiered, &restored(&tiered), mode);
        assert_eq!(get(&there, "b", "k").unwrap(), b"new");
        // It does not come back by a restart either: its log is another.
        drop(old);
        let old = shipping(&tiered, &tiered.fs.crash(CrashPolicy::DropAll), mode);
        assert!(mode == ShipMode::Sync || matches!(ship(&old), Err(StoreError::ReadOnly(_))));
    }
}

#[test]
pub(super) fn no_bytes_go_before_their_end_is_shipped() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = begun(&tiered, &tiered.fs, ShipMode::Async);
    store.create_bucket("b", "admin").unwrap();
    for at in 0..12 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 700_000)).unwrap();
    }
    tiered.remote.set_down(true);
    for at in 0..12 {
        delete(&store, "b", &format!("k{at}"), Selector::Current).unwrap();
    }
    put(&store, "b", "last", b"x").unwrap();
    store.shared.segments.retire(|_| true);
    assert_eq!(store.reclaim().unwrap().segments, 0);
    store.checkpoint().unwrap();
    store.checkpoint().unwrap();
    tiered.remote.set_down(false);
    // The parcels hold what their groups name, so that each of them can be the last.
    ship(&store).unwrap();
    reclaim_all(&store).unwrap();
    assert!(store.health().reclaimed_segments > 0);
    let there = shipping(&tiered, &restored(&tiered), ShipMode::Async);
    assert_eq!(keys(&there, "b"), ["last"]);
}

#[test]
pub(super) fn a_root_makes_a_restore_short_and_every_point_of_a_crash_leads_to_a_store() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = begun(&tiered, &tiered.fs, ShipMode::Async);
    store.create_bucket("b", "admin").unwrap();
    for at in 0..6 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 300)).unwrap();
        tiered.clock.advance(HOUR);
        ship(&store).unwrap();
    }
    assert!(store.ship_figures().unwrap().roots >= 5);
    let fs = SimFs::new();
    let report =
        restore_from_remote(tiered.reached().as_ref(), &fs, tiered.clock.as_ref(), &mut |_| ()).unwrap();
    assert_eq!(report.sequence, store.health().sequence);
    let mut whole = 0;
    let mut none = 0;
    for stop in 1..=fs.operations() + 1 {
        let fs = SimFs::new();
        fs.stop_at(stop);
        let _ = restore_from_remote(tiered.reached().as_ref(), &fs, tiered.clock.as_ref(), &mut |_| ());
        let fs = fs.crash(CrashPolicy::Random(stop));
        match try_open_with(&tiered, &fs) {
            Some(store) => {
                assert_eq!(keys(&store, "b").len(), 6, "stopped at {stop}");
                whole += 1;
            }
            None => none += 1,
        }
    }
    assert!(whole > 0 && none > 0, "{whole} whole, {none} not");
}

#[test]
fn pieces_that_are_read_at_a_time_come_in_their_order() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = begun(&tiered, &tiered.fs, ShipMode::Sync);
    store.create_bucket("b", "admin").unwrap();
    let fs = SimFs::new();
    let mut early = standby_on(&tiered, &fs);
    follow(&mut early);
    for at in 0..50 {
        put(&store, "b", &format!("k{}", at % 7), &bytes(at, 3000 + 50_000 * (at % 3) as usize)).unwrap();
    }
    put(&store, "b", "large", &bytes(77, 3 * MIB as usize)).unwrap();
    let names = tiered.remote.names();
    assert!(names.iter().filter(|name| name.starts_with("log/")).count() > 50);
    for calls in [1, 3, 8, 64] {
        tiered.remote.set_calls_at_once(calls);
        let there = tiered.open_on(&restored(&tiered));
        for at in 43..50 {
            let expected = bytes(at, 3000 + 50_000 * (at % 3) as usize);
            assert!(get(&there, "b", &format!("k{}", at % 7)).unwrap() == expected, "{calls}");
        }
        assert!(get(&there, "b", "large").unwrap() == bytes(77, 3 * MIB as usize));
        // A standby that starts again finds its place.
        let mut again = standby_on(&tiered, &fs.copy());
        follow(&mut again);
        assert_eq!((again.figures().sequence, again.figures().fills), (store.health().sequence, 0));
    }
    // A piece that is missing in the midst is no end of the log.
    tiered.remote.remove(&Parcel::name(1, 20));
    let refused =
        restore_from_remote(tiered.reached().as_ref(), &SimFs::new(), tiered.clock.as_ref(), &mut |_| ());
    assert!(matches!(refused, Err(ShipError::Hidden { .. })), "{refused:?}");
}

/// Opens what a restore left, unless it says that it is no store.
fn try_open_with(tiered: &Tiered, fs: &SimFs) -> Option<Store> {
    let logs = fs.list("meta").unwrap().into_iter().any(|name| name.ends_with(".log"));
    logs.then(|| tiered.open_on(fs))
}

#[test]
pub(super) fn a_damaged_object_is_named_and_nothing_is_restored() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = begun(&tiered, &tiered.fs, ShipMode::Async);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", &bytes(1, 2 * MIB as usize)).unwrap();
    ship(&store).unwrap();
    // The claim tells nothing but its name, and the first parcel of an empty store is empty.
    let is_read = |name: &String| !name.starts_with("claim/") && *name != Parcel::name(1, 1);
    let named: Vec<String> = tiered.remote.names().into_iter().filter(is_read).collect();
    assert!(parcels(&tiered) >= 3, "{named:?}");
    for name in named {
        let whole = tiered.remote.bytes(&name).unwrap();
        for at in [0, whole.len().min(100) - 1] {
            assert!(tiered.remote.damage(&name, at));
            let fs = SimFs::new();
            let done =
                restore_from_remote(tiered.reached().as_ref(), &fs, tiered.clock.as_ref(), &mut |_| ());
            let told = done.map(|_| ()).map_err(|error| error.to_string());
            let is_open = told.is_ok()
                && try_open_with(&tiered, &fs).is_some_and(|store| store.health().damage.is_empty());
            assert!(!is_open, "{name} at {at}");
            tiered.remote.place(&name, &whole);
        }
    }
}

pub(super) fn standby_on(tiered: &Tiered, fs: &SimFs) -> Standby {
    Standby::new(tiered.reached(), Arc::new(fs.clone()), tiered.clock.clone())
}

/// Applies all parcels that are there, whatever fails on the way.
pub(super) fn follow(standby: &mut Standby) {
    let mut idle = 0;
    while idle < 6 {
        idle = if standby.step(&mut |_| ()).unwrap().more { 0 } else { idle + 1 };
    }
}

/// A writer with a bucket, and a standby with its directory that has followed so far.
pub(super) fn followed(tiered: &Tiered) -> (Store, SimFs, Standby) {
    let old = begun(tiered, &tiered.fs, ShipMode::Async);
    old.create_bucket("b", "admin").unwrap();
    ship(&old).unwrap();
    let fs = SimFs::new();
    let mut standby = standby_on(tiered, &fs);
    follow(&mut standby);
    (old, fs, standby)
}

pub(super) fn promoted(tiered: &Tiered, fs: &SimFs, standby: &mut Standby, mode: ShipMode) -> Store {
    standby.look_for_claims().unwrap();
    let taken = standby.take_over(&SeededEntropy::new(9), &mut |_| ()).unwrap().unwrap();
    let store = tiered.open_on(fs);
    store.ship_log_from(
        ShipOptions { mode, root_every: HOUR, window: 7 * 24 * HOUR, lag_max: None },
        Some(taken),
    );
    ship(&store).unwrap();
    store
}

pub(super) fn is_whole(fs: &SimFs) {
    let report = verify(fs, &mut |_| ()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn a_standby_follows_and_reads_on_after_its_claim() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = begun(&tiered, &tiered.fs, ShipMode::Async);
    old.create_bucket("b", "admin").unwrap();
    let fs = SimFs::new();
    let mut standby = standby_on(&tiered, &fs);
    for at in 0..12 {
        put(&old, "b", &format!("k{at}"), &bytes(at, 700_000)).unwrap();
        put(&old, "b", &format!("s{at}"), &bytes(at, 300)).unwrap();
        ship(&old).unwrap();
        follow(&mut standby);
        is_whole(&fs);
        assert_eq!(standby.figures().sequence, old.health().sequence);
    }
    assert_eq!((standby.figures().epoch, standby.figures().fills), (1, 1));
    // Segments go to the remote, and their bytes go here.
    reclaim_all(&old).unwrap();
    assert!(work(&old).unwrap().sent > 0);
    ship(&old).unwrap();
    follow(&mut standby);
    is_whole(&fs);
    // These parcels come when the standby does not look, and the takeover finds them.
    put(&old, "b", "late", &bytes(77, 700_000)).unwrap();
    ship(&old).unwrap();
    let new = promoted(&tiered, &fs, &mut standby, ShipMode::Async);
    assert!(get(&new, "b", "late").unwrap() == bytes(77, 700_000));
    for at in 0..12 {
        assert!(get(&new, "b", &format!("k{at}")).unwrap() == bytes(at, 700_000), "k{at}");
        assert_eq!(get(&new, "b", &format!("s{at}")).unwrap(), bytes(at, 300));
    }
    assert_eq!(new.health().damage, []);
    tiered.clock.advance(Duration::from_secs(10));
    assert!(matches!(ship(&old), Err(StoreError::ReadOnly(_))));
    put(&new, "b", "new", b"v").unwrap();
    ship(&new).unwrap();
    // A second standby has followed through the change of epochs.
    let third = SimFs::new();
    let mut other = standby_on(&tiered, &third);
    follow(&mut other);
    assert_eq!(other.figures().epoch, 2);
    assert_eq!(keys(&promoted(&tiered, &third, &mut other, ShipMode::Async), "b"), keys(&new, "b"));
}

#[test]
fn a_standby_goes_from_epoch_to_epoch() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = begun(&tiered, &tiered.fs, ShipMode::Async);
    old.create_bucket("b", "admin").unwrap();
    let first = SimFs::new();
    let second = SimFs::new();
    let mut one = standby_on(&tiered, &first);
    let mut two = standby_on(&tiered, &second);
    put(&old, "b", "k", &bytes(1, 300_000)).unwrap();
    old.committer.write_idle_group().unwrap();
    ship(&old).unwrap();
    follow(&mut one);
    follow(&mut two);
    assert_eq!((two.figures().epoch, two.figures().fills), (1, 1));
    // A host that adds nothing of its own is followed as it is.
    old.checkpoint().unwrap();
    drop(old);
    let old = begun(&tiered, &tiered.fs, ShipMode::Async);
    put(&old, "b", "l", b"1").unwrap();
    ship(&old).unwrap();
    follow(&mut two);
    assert_eq!((two.figures().epoch, two.figures().fills), (2, 1));
    assert_eq!(two.figures().sequence, old.health().sequence);
    // This one adds a group when it opens, which is the first of its epoch.
    let new = promoted(&tiered, &first, &mut one, ShipMode::Async);
    put(&new, "b", "k", b"2").unwrap();
    ship(&new).unwrap();
    follow(&mut two);
    assert_eq!((two.figures().epoch, two.figures().fills), (3, 1));
    assert_eq!(two.figures().sequence, new.health().sequence);
    // It starts again, and finds its place.
    let mut two = standby_on(&tiered, &second);
    follow(&mut two);
    assert_eq!((two.figures().epoch, two.figures().fills), (3, 0));
    let newest = promoted(&tiered, &second, &mut two, ShipMode::Async);
    assert_eq!(get(&newest, "b", "k").unwrap(), b"2");
    assert_eq!(get(&newest, "b", "l").unwrap(), b"1");
}

#[test]
fn a_standby_goes_on_with_what_a_writer_had_not_shipped_before_its_start() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (old, fs, mut standby) = followed(&tiered);
    for at in 0..4 {
        put(&old, "b", &format!("k{at}"), &bytes(at, 400_000)).unwrap();
        put(&old, "b", "s", &bytes(at, 400)).unwrap();
    }
    // A segment is remote by a group that is not shipped, and so is its data.
    reclaim_all(&old).unwrap();
    old.shared.segments.retire(|_| true);
    put(&old, "b", "k4", &bytes(4, 400_000)).unwrap();
    reclaim_all(&old).unwrap();
    assert!(work(&old).unwrap().sent > 0);
    drop(old);
    let host = tiered.fs.crash(CrashPolicy::KeepAll);
    let old = begun(&tiered, &host, ShipMode::Async);
    follow(&mut standby);
    assert_eq!((standby.figures().epoch, standby.figures().fills), (2, 1));
    assert_eq!(standby.figures().sequence, old.health().sequence);
    is_whole(&fs);
    let new = promoted(&tiered, &fs, &mut standby, ShipMode::Async);
    for at in 0..5 {
        assert!(get(&new, "b", &format!("k{at}")).unwrap() == bytes(at, 400_000), "k{at}");
    }
    assert_eq!(get(&new, "b", "s").unwrap(), bytes(3, 400));
}

#[test]
fn groups_whose_bytes_went_in_a_start_that_did_not_ship_are_in_the_root_alone() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = begun(&tiered, &tiered.fs, ShipMode::Async);
    old.create_bucket("b", "admin").unwrap();
    put(&old, "b", "kept", &bytes(1, 300_000)).unwrap();
    ship(&old).unwrap();
    let fs = SimFs::new();
    let mut standby = standby_on(&tiered, &fs);
    follow(&mut standby);
    // The end of the first object is in the page where the second one begins.
    put(&old, "b", "first", &bytes(2, 2_000_000)).unwrap();
    put(&old, "b", "gone", &bytes(3, 1_500_000)).unwrap();
    drop(old);
    // Without the section [remote] it gives room back as any other store.
    let unshipped = open(&tiered.fs);
    unshipped.shared.segments.retire(|_| true);
    delete(&unshipped, "b", "gone", Selector::Current).unwrap();
    put(&unshipped, "b", "last", &bytes(4, 300_000)).unwrap();
    reclaim_all(&unshipped).unwrap();
    assert!(tiered.fs.trace().iter().any(|op| op.kind == OpKind::Punch));
    drop(unshipped);
    let old = begun(&tiered, &tiered.fs, ShipMode::Async);
    follow(&mut standby);
    assert_eq!((standby.figures().epoch, standby.figures().fills), (2, 2));
    is_whole(&fs);
    let new = promoted(&tiered, &fs, &mut standby, ShipMode::Async);
    assert_eq!(keys(&new, "b"), ["first", "kept", "last"]);
    for (key, seed, len) in [("first", 2, 2_000_000), ("kept", 1, 300_000), ("last", 4, 300_000)] {
        assert!(get(&new, "b", key).unwrap() == bytes(seed, len), "{key}");
    }
    drop(old);
}

#[test]
fn groups_whose_bytes_were_damaged_before_a_start_are_in_the_root_alone() {
    for key in ["small", "large"] {
        let tiered = Tiered::new(LITTLE_LOCAL);
        let (old, fs, mut standby) = followed(&tiered);
        put(&old, "b", "small", &bytes(1, 300)).unwrap();
        put(&old, "b", "large", &bytes(2, 400_000)).unwrap();
        put(&old, "b", "last", b"v").unwrap();
        let extent = old.find("b", key, Selector::Current).unwrap().version.extents[0];
        drop(old);
        let place = extent.offset + UNIT_BYTES + u64::from(extent.skip) + 10;
        tiered.fs.damage(&segment_path(extent.segment), place, 1).unwrap();
        let old = begun(&tiered, &tiered.fs, ShipMode::Async);
        follow(&mut standby);
        assert_eq!((standby.figures().epoch, standby.figures().fills), (2, 2), "{key}");
        let new = promoted(&tiered, &fs, &mut standby, ShipMode::Async);
        assert_eq!(get(&new, "b", "last").unwrap(), b"v");
        assert!(matches!(get(&new, "b", key), Err(StoreError::Corrupt(_))), "{key}");
        drop(old);
    }
}

#[test]
fn a_takeover_has_what_only_a_root_has() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (old, fs, mut standby) = followed(&tiered);
    // The host starts again with a tail that it has not shipped, and the standby follows to its
    // epoch before that comes.
    put(&old, "b", "tail", b"v").unwrap();
    drop(old);
    let old = shipping(&tiered, &tiered.fs, ShipMode::Async);
    let claim_and_cut = [RemoteFault::None; 2];
    for fault in claim_and_cut.into_iter().chain([RemoteFault::Status(503)]) {
        tiered.remote.fail_next(RemoteCall::Put, fault);
    }
    assert!(is_unavailable(&ship(&old)));
    follow(&mut standby);
    assert_eq!((standby.figures().epoch, standby.figures().fills), (2, 1));
    ship(&old).unwrap();
    let new = promoted(&tiered, &fs, &mut standby, ShipMode::Async);
    assert_eq!(get(&new, "b", "tail").unwrap(), b"v");
}

/// Deletes the parcels that a root of the first epoch covers, as retention does.
pub(super) fn delete_covered(tiered: &Tiered) -> usize {
    let names = tiered.remote.names();
    let newest = names.iter().rfind(|name| name.starts_with("root/")).unwrap();
    let root = Root::decode(&tiered.remote.bytes(newest).unwrap()).unwrap();
    let needed = Parcel::name(root.first.epoch, root.first.counter);
    let covered = names.iter().filter(|name| name.starts_with("log/") && **name < needed);
    covered.map(|name| tiered.remote.remove(name)).count()
}

#[test]
fn a_standby_that_lags_behind_deleted_parcels_goes_on_from_the_newest_root() {
    for takes_over_at_once in [false, true] {
        let tiered = Tiered::new(LITTLE_LOCAL);
        let old = begun(&tiered, &tiered.fs, ShipMode::Async);
        old.create_bucket("b", "admin").unwrap();
        ship(&old).unwrap();
        let fs = SimFs::new();
        let mut standby = standby_on(&tiered, &fs);
        follow(&mut standby);
        for at in 0..6 {
            old.shared.segments.retire(|_| true);
            put(&old, "b", &format!("k{at}"), &bytes(at, 200_000)).unwrap();
            reclaim_all(&old).unwrap();
            assert!(at == 0 || work(&old).unwrap().sent > 0);
            tiered.clock.advance(HOUR);
            ship(&old).unwrap();
        }
        assert!(delete_covered(&tiered) > 2);
        if !takes_over_at_once {
            follow(&mut standby);
            assert_eq!(standby.figures().fills, 2);
        }
        let new = promoted(&tiered, &fs, &mut standby, ShipMode::Async);
        assert_eq!(keys(&new, "b").len(), 6);
        drop(new);
        is_whole(&fs);
    }
}

#[test]
fn a_standby_that_crashes_at_any_step_goes_on() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = begun(&tiered, &tiered.fs, ShipMode::Async);
    old.create_bucket("b", "admin").unwrap();
    for at in 0..4 {
        put(&old, "b", &format!("k{at}"), &bytes(at, 200_000)).unwrap();
        ship(&old).unwrap();
    }
    let start = SimFs::new();
    follow(&mut standby_on(&tiered, &start));
    old.shared.segments.retire(|_| true);
    put(&old, "b", "k4", &bytes(4, 200_000)).unwrap();
    reclaim_all(&old).unwrap();
    assert!(work(&old).unwrap().sent > 0);
    ship(&old).unwrap();
    put(&old, "b", "k5", &bytes(5, 200_000)).unwrap();
    ship(&old).unwrap();
    let whole = start.crash(CrashPolicy::KeepAll);
    follow(&mut standby_on(&tiered, &whole));
    assert!(whole.operations() > 20);
    for stop in 1..=whole.operations() {
        let fs = start.crash(CrashPolicy::KeepAll);
        fs.stop_at(stop);
        let mut standby = standby_on(&tiered, &fs);
        while standby.step(&mut |_| ()).is_ok_and(|step| step.more) {}
        let fs = fs.crash(CrashPolicy::Random(stop));
        let mut standby = standby_on(&tiered, &fs);
        follow(&mut standby);
        is_whole(&fs);
        assert_eq!(standby.figures().sequence, old.health().sequence, "stopped at {stop}");
    }
}

#[test]
fn a_directory_with_groups_that_the_log_lacks_tells_them() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = begun(&tiered, &tiered.fs, ShipMode::Async);
    old.create_bucket("b", "admin").unwrap();
    ship(&old).unwrap();
    let new = begun(&tiered, &restored(&tiered), ShipMode::Async);
    put(&new, "b", "k", b"new").unwrap();
    ship(&new).unwrap();
    put(&old, "b", "k", b"divergent").unwrap();
    drop(old);
    let mut found = Vec::new();
    let told = divergent_changes(&tiered.remote, &tiered.fs, &mut |change| found.push(change)).unwrap();
    assert_eq!((told.epoch, told.groups, found.len()), (2, told.last - told.shared, 1));
    let change = &found[0];
    assert_eq!((change.bucket.as_str(), change.key.as_slice(), change.size), ("b", b"k".as_slice(), 9));
    assert_eq!(change.kind, DivergentKind::Put);
    assert_eq!(get(&tiered.open_on(&tiered.fs), "b", "k").unwrap(), b"divergent");
}

#[test]
fn an_idle_writer_gives_heartbeats_and_one_that_was_taken_over_gives_none() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = begun(&tiered, &tiered.fs, ShipMode::Async);
    let fs = SimFs::new();
    let mut standby = standby_on(&tiered, &fs);
    follow(&mut standby);
    let heartbeats =
        |standby: &mut Standby| (0..9).filter(|_| standby.step(&mut |_| ()).unwrap().heartbeat).count();
    assert_eq!(heartbeats(&mut standby), 0);
    tiered.clock.advance(Duration::from_secs(5));
    old.give_heartbeat().unwrap();
    assert_eq!(heartbeats(&mut standby), 1);
    let new = promoted(&tiered, &fs, &mut standby, ShipMode::Async);
    assert!(ship(&old).is_err() || put(&old, "b", "k", b"v").is_err());
    tiered.clock.advance(Duration::from_secs(20));
    assert!(ship(&old).is_err());
    assert!(matches!(old.give_heartbeat(), Err(StoreError::ReadOnly(_))));
    new.give_heartbeat().unwrap();
}

#[test]
pub(super) fn an_answer_that_was_lost_does_not_end_an_epoch() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = shipping(&tiered, &tiered.fs, ShipMode::Async);
    tiered.remote.fail_next(RemoteCall::Put, RemoteFault::Lost);
    assert!(is_unavailable(&ship(&store)));
    ship(&store).unwrap();
    assert!(tiered.remote.bytes(&Claim::name(2)).is_some(), "the first claim is void");
    store.create_bucket("b", "admin").unwrap();
    tiered.remote.fail_next(RemoteCall::Put, RemoteFault::Lost);
    assert!(is_unavailable(&ship(&store)));
    ship(&store).unwrap();
    assert!(tiered.remote.bytes(&Parcel::name(2, 2)).is_some());
}

#[test]
pub(super) fn a_look_for_the_next_claim_that_failed_is_made_up_for_before_anything_counts_as_shipped() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = begun(&tiered, &tiered.fs, ShipMode::Sync);
    old.create_bucket("b", "admin").unwrap();
    tiered.remote.fail_next(RemoteCall::Head, RemoteFault::Status(503));
    assert!(is_unavailable(&put(&old, "b", "doubt", b"v")));
    assert_eq!(old.ship_figures().unwrap().waiting_groups, 0, "the group is not published");
    let new = begun(&tiered, &restored(&tiered), ShipMode::Sync);
    assert_eq!(get(&new, "b", "doubt").unwrap(), b"v");
    // The parcel is there, and the look finds the claim of the other host.
    assert!(matches!(put(&old, "b", "next", b"v"), Err(StoreError::ReadOnly(_))));
    assert_eq!(get(&old, "b", "doubt"), Err(StoreError::NoSuchKey));
}

#[test]
pub(super) fn many_objects_of_any_size_fit_into_parcels_that_are_read_back() {
    let tiered = Tiered::new(TierOptions { local_max_bytes: u64::MAX, ..NOTHING_LOCAL });
    let store = tiered.open_on(&tiered.fs);
    store.create_bucket("b", "admin").unwrap();
    let body = bytes(1, 500_000);
    for at in 0..160 {
        put(&store, "b", &format!("k{at}"), &body).unwrap();
    }
    store.ship_log_from(
        ShipOptions { mode: ShipMode::Async, root_every: HOUR, window: 7 * 24 * HOUR, lag_max: None },
        None,
    );
    ship(&store).unwrap();
    let longest = tiered.remote.names().iter().map(|name| tiered.remote.bytes(name).unwrap().len()).max();
    assert!(longest.unwrap() as u64 <= PARCEL_MAX_BYTES / 2, "{longest:?}");
    let there = shipping(&tiered, &restored(&tiered), ShipMode::Async);
    assert!((0..160).all(|at| get(&there, "b", &format!("k{at}")).unwrap() == body));
}
