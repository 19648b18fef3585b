//! One command for all hosts, at each of their starts: a standby that begins in the directory of a
//! writer. Its host goes on where nobody else writes; otherwise what the remote lacks is set aside,
//! and the directory follows the writer.

use super::ship::{
    HOUR, LITTLE_LOCAL, begun, follow, is_whole, promoted, restored, ship, shipping, standby_on,
};
use super::tier::Tiered;
use super::*;
use crate::base::test_scope::points;
use crate::format::{ASIDE, Claim, Cut, Heartbeat, LogPosition, STANDBY, aside_path};
use crate::fs::sim::CrashPolicy;
use crate::fs::{Fs, SubdirFs};
use crate::remote::sim::{RemoteCall, RemoteFault};

const MODES: [ShipMode; 2] = [ShipMode::Sync, ShipMode::Async];
const SYNC: ShipOptions = ShipOptions { mode: ShipMode::Sync, root_every: HOUR, window: HOUR, lag_max: None };
/// The longest interval between two looks for a heartbeat.
const LOOK: Duration = Duration::from_secs(10);

/// A host that starts. It looks once.
fn boot(tiered: &Tiered, fs: &SimFs) -> Standby {
    let mut standby = standby_on(tiered, fs);
    assert!(standby.step(&mut |_| ()).unwrap().more);
    standby
}

/// Looks for a heartbeat of another host. Returns whether there was one.
fn look(tiered: &Tiered, standby: &mut Standby) -> bool {
    tiered.clock.advance(LOOK);
    standby.step(&mut |_| ()).unwrap().heartbeat
}

/// A host that goes on as the writer.
fn goes_on(tiered: &Tiered, fs: &SimFs, mut standby: Standby, mode: ShipMode) -> Store {
    promoted(tiered, fs, &mut standby, mode)
}

/// A writer with an object that it has shipped, and one that it has not.
fn writer_with_a_tail(tiered: &Tiered) -> Store {
    let old = begun(tiered, &tiered.fs, ShipMode::Async);
    old.create_bucket("b", "admin").unwrap();
    put(&old, "b", "k", b"shipped").unwrap();
    ship(&old).unwrap();
    put(&old, "b", "tail", &bytes(3, 300_000)).unwrap();
    old
}

/// A host that takes over from what the remote has.
fn another(tiered: &Tiered) -> (SimFs, Store) {
    let fs = restored(tiered);
    let new = begun(tiered, &fs, ShipMode::Async);
    (fs, new)
}

/// A writer with a tail that is gone, and the one that took over from it and has shipped an object.
fn taken_over_beside_a_tail(bytes: &[u8]) -> (Tiered, Store) {
    let tiered = Tiered::new(LITTLE_LOCAL);
    drop(writer_with_a_tail(&tiered));
    let (_, new) = another(&tiered);
    put(&new, "b", "new", bytes).unwrap();
    ship(&new).unwrap();
    (tiered, new)
}

/// A host that takes over, and goes before its store is open: nothing is written in its epoch.
fn taken_over(tiered: &Tiered) -> (SimFs, TakenOver) {
    let fs = SimFs::new();
    let mut standby = standby_on(tiered, &fs);
    follow(&mut standby);
    let taken = standby.take_over(&SeededEntropy::new(1), &mut |_| ()).unwrap().unwrap();
    assert_eq!(taken.epoch(), 2);
    (fs, taken)
}

/// The directories of files that were set aside.
fn asides(fs: &SimFs) -> Vec<String> {
    let name = |path: &str| path.strip_prefix(ASIDE)?.get(1..)?.split('/').next().map(str::to_owned);
    let mut names: Vec<String> = fs.files().iter().filter_map(|(path, _)| name(path)).collect();
    names.dedup();
    names
}

/// The keys of the changes that a directory has and the remote lacks.
fn divergent_keys(tiered: &Tiered, fs: &dyn Fs) -> Vec<String> {
    let mut found = Vec::new();
    divergent_changes(&tiered.remote, fs, &mut |change| found.push(change)).unwrap();
    found.into_iter().map(|change| String::from_utf8(change.key).unwrap()).collect()
}

/// The one directory that was set aside lists the tail, and has its bytes.
fn tail_is_aside(tiered: &Tiered, fs: &SimFs) {
    let [name] = asides(fs).try_into().unwrap();
    let aside = format!("{ASIDE}/{name}");
    assert_eq!(divergent_keys(tiered, &SubdirFs::new(fs, &aside)), ["tail"]);
    let disk = SimFs::new();
    for (path, _) in fs.files() {
        if let Some(inner) = path.strip_prefix(&format!("{aside}/")) {
            disk.create_dir(inner.split('/').next().unwrap()).unwrap();
            disk.create(inner).unwrap().write_all_at(&fs.contents(&path).unwrap(), 0).unwrap();
        }
    }
    let store = Store::look(Arc::new(disk), tiered.clock.clone(), options(), None).unwrap();
    assert!(get(&store, "b", "tail").unwrap() == bytes(3, 300_000));
}

#[test]
fn a_writer_that_starts_again_goes_on_at_once_with_what_it_has_not_shipped() {
    for mode in MODES {
        let tiered = Tiered::new(LITTLE_LOCAL);
        let old = begun(&tiered, &tiered.fs, mode);
        old.create_bucket("b", "admin").unwrap();
        put(&old, "b", "k", b"1").unwrap();
        ship(&old).unwrap();
        put(&old, "b", "tail", b"2").unwrap();
        drop(old);
        let fs = tiered.fs.crash(CrashPolicy::DropAll);
        let standby = boot(&tiered, &fs);
        assert!(standby.watches() && standby.is_newest());
        let store = goes_on(&tiered, &fs, standby, mode);
        assert_eq!(get(&store, "b", "tail").unwrap(), b"2");
        assert_eq!((store.ship_figures().unwrap().epoch, asides(&fs)), (2, vec![]));
        put(&store, "b", "next", b"3").unwrap();
        ship(&store).unwrap();
        assert_eq!(keys(&begun(&tiered, &restored(&tiered), mode), "b"), ["k", "next", "tail"]);
    }
}

#[test]
fn the_first_host_begins_the_log_and_an_empty_one_waits_for_it() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = tiered.open_unmarked(&tiered.fs);
    store.create_bucket("b", "admin").unwrap();
    let mut first = standby_on(&tiered, &tiered.fs);
    assert!(first.step(&mut |_| ()).unwrap_err().is_unmarked());
    assert!(first.is_of_writer().unwrap());
    tiered.mark(&store);
    drop(store);
    let empty = SimFs::new();
    let mut second = standby_on(&tiered, &empty);
    assert!(second.step(&mut |_| ()).unwrap_err().is_no_log());
    assert!(!second.is_of_writer().unwrap());
    let fs = tiered.fs.kill();
    let first = boot(&tiered, &fs);
    assert!(first.is_newest(), "there is no claim");
    let store = goes_on(&tiered, &fs, first, ShipMode::Sync);
    put(&store, "b", "k", b"v").unwrap();
    follow(&mut second);
    assert_eq!(second.figures().sequence, store.health().sequence);
}

#[test]
fn a_host_that_comes_back_beside_a_writer_sets_aside_what_the_remote_lacks_and_follows() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    drop(writer_with_a_tail(&tiered));
    let (_fs, new) = another(&tiered);
    put(&new, "b", "new", b"v").unwrap();
    ship(&new).unwrap();
    let fs = tiered.fs.kill();
    let mut old = boot(&tiered, &fs);
    assert!(!old.watches() && follows(&fs).unwrap());
    tail_is_aside(&tiered, &fs);
    follow(&mut old);
    assert_eq!(old.figures().sequence, new.health().sequence);
    is_whole(&fs);
    // It starts again, and takes over in its turn.
    let mut old = boot(&tiered, &fs);
    put(&new, "b", "newer", b"w").unwrap();
    ship(&new).unwrap();
    follow(&mut old);
    drop(new);
    let store = goes_on(&tiered, &fs, old, ShipMode::Async);
    assert_eq!(keys(&store, "b"), ["k", "new", "newer"]);
    tail_is_aside(&tiered, &fs);
}

#[test]
fn a_host_with_the_newest_groups_waits_for_a_heartbeat_and_follows_then() {
    for has_tail in [true, false] {
        let tiered = Tiered::new(LITTLE_LOCAL);
        let old = writer_with_a_tail(&tiered);
        if !has_tail {
            ship(&old).unwrap();
        }
        let store = old.shared.store;
        drop(old);
        drop(taken_over(&tiered));
        let fs = tiered.fs.kill();
        let before = fs.files();
        let mut old = boot(&tiered, &fs);
        assert!(old.watches() && !old.is_newest());
        assert!(!look(&tiered, &mut old) && !look(&tiered, &mut old));
        assert_eq!(fs.files(), before, "it is left as it is");
        let every = Duration::from_secs(5);
        let heartbeat = Heartbeat { store, epoch: 2, sequence: 1, made: tiered.clock.now(), every };
        tiered.remote.place(&Heartbeat::name(2), &heartbeat.encode());
        assert!(look(&tiered, &mut old));
        assert!(!old.watches() && follows(&fs).unwrap());
        assert_eq!(asides(&fs).len(), usize::from(has_tail));
        is_whole(&fs);
        assert!(!look(&tiered, &mut old), "it is the same heartbeat");
    }
}

#[test]
fn a_host_with_the_newest_groups_goes_on_where_the_other_is_silent() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    drop(writer_with_a_tail(&tiered));
    let (other, _taken) = taken_over(&tiered);
    let fs = tiered.fs.kill();
    let mut old = boot(&tiered, &fs);
    assert!(!look(&tiered, &mut old));
    let store = goes_on(&tiered, &fs, old, ShipMode::Async);
    assert_eq!(keys(&store, "b"), ["k", "tail"]);
    put(&store, "b", "next", b"v").unwrap();
    ship(&store).unwrap();
    assert_eq!(asides(&fs), Vec::<String>::new());
    // The other one comes back, and has nothing of its own.
    let mut back = boot(&tiered, &other);
    follow(&mut back);
    assert_eq!((back.figures().sequence, asides(&other).len()), (store.health().sequence, 0));
}

#[test]
fn hosts_that_take_over_from_one_another_set_aside_what_each_has_not_shipped() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = writer_with_a_tail(&tiered);
    ship(&old).unwrap();
    drop(old);
    let (other, new) = another(&tiered);
    let fs = tiered.fs.kill();
    let mut old = boot(&tiered, &fs);
    follow(&mut old);
    put(&new, "b", "unshipped", b"of the other").unwrap();
    let store = goes_on(&tiered, &fs, old, ShipMode::Async);
    tiered.clock.advance(LOOK);
    assert!(matches!(ship(&new), Err(StoreError::ReadOnly(_))));
    assert_eq!(new.health().read_only_reason, Some(ReadOnlyReason::Fenced));
    let end = new.health().sequence;
    drop(new);
    let mut back = boot(&tiered, &other);
    follow(&mut back);
    let [name] = asides(&other).try_into().unwrap();
    assert!(name.starts_with(&format!("{end:016x}-")), "{name}");
    assert_eq!(divergent_keys(&tiered, &SubdirFs::new(&other, format!("{ASIDE}/{name}"))), ["unshipped"]);
    assert_eq!((back.figures().sequence, asides(&fs).len()), (store.health().sequence, 0));
}

#[test]
fn groups_that_come_between_the_look_and_the_claim_are_not_given_up() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    drop(writer_with_a_tail(&tiered));
    let (other, taken) = taken_over(&tiered);
    let fs = tiered.fs.kill();
    let mut old = boot(&tiered, &fs);
    assert!(old.watches());
    // The other host is slow, and writes right before the claim.
    let claims =
        |tiered: &Tiered| tiered.remote.names().iter().filter(|name| name.starts_with(Claim::PREFIX)).count();
    let counted = tiered.copy();
    let disk = fs.copy();
    let mut copy = boot(&counted, &disk);
    let before = counted.remote.all_calls();
    counted.remote.set_read_only(true);
    assert!(copy.take_over(&SeededEntropy::new(1), &mut |_| ()).is_err());
    let claim = counted.remote.all_calls() - before;
    let world = tiered.handle(&other);
    tiered.remote.call_before(tiered.remote.all_calls() + claim, move || {
        let new = world.open_on(&world.fs);
        new.ship_log_from(SYNC, Some(taken));
        ship(&new).unwrap();
        put(&new, "b", "late", b"v").unwrap();
    });
    let taken = old.take_over(&SeededEntropy::new(1), &mut |_| ()).unwrap();
    assert_eq!(claims(&tiered), 3);
    let store = tiered.open_on(&fs);
    store.ship_log_from(SYNC, taken);
    ship(&store).unwrap();
    assert_eq!(keys(&store, "b"), ["k", "late"]);
    tail_is_aside(&tiered, &fs);
}

#[test]
fn a_remote_that_fails_in_the_midst_of_a_start_leaves_nothing_half_done() {
    let fails_at = |nth: u64, calls: &mut u64| {
        let (tiered, new) = taken_over_beside_a_tail(b"v");
        let fs = tiered.fs.kill();
        let mut old = standby_on(&tiered, &fs);
        let before = tiered.remote.all_calls();
        let remote = tiered.remote.clone();
        tiered.remote.call_before(before + nth, move || remote.set_down(true));
        let failed = old.step(&mut |_| ());
        *calls = tiered.remote.all_calls() - before;
        tiered.remote.set_down(false);
        tiered.remote.forget_calls();
        assert!(failed.as_ref().err().is_none_or(|error| !error.lasts()), "{failed:?}");
        follow(&mut old);
        assert_eq!(old.figures().sequence, new.health().sequence);
        tail_is_aside(&tiered, &fs);
        failed.is_ok()
    };
    let mut calls = 0;
    let mut nth = 1;
    while !fails_at(nth, &mut calls) {
        nth += 1;
    }
    assert!(nth > 10, "{nth} of {calls} calls");
}

#[test]
fn a_loss_of_power_at_any_step_of_a_start_loses_no_name_of_what_is_set_aside() {
    let (tiered, new) = taken_over_beside_a_tail(&bytes(4, 200_000));
    let start = tiered.fs.crash(CrashPolicy::KeepAll);
    let whole = start.copy();
    follow(&mut standby_on(&tiered, &whole));
    let last = whole.operations();
    assert!(last > 20, "{last}");
    let mut before = 0;
    let mut after = 0;
    for stop in points(1).take_while(|stop| *stop < last).chain([last]) {
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(stop)] {
            let fs = start.copy();
            fs.stop_at(stop);
            let mut standby = standby_on(&tiered, &fs);
            while standby.step(&mut |_| ()).is_ok_and(|step| step.more) {}
            let fs = fs.crash(policy);
            if follows(&fs).unwrap() {
                after += 1;
            } else {
                before += 1;
            }
            let mut standby = standby_on(&tiered, &fs);
            follow(&mut standby);
            is_whole(&fs);
            assert_eq!(standby.figures().sequence, new.health().sequence, "stopped at {stop}");
            tail_is_aside(&tiered, &fs);
        }
    }
    assert!(before > 0 && after > 0, "{before} before the mark, {after} after it");
}

#[test]
fn names_of_a_crashed_start_are_those_of_the_files_at_the_next_one() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = writer_with_a_tail(&tiered);
    let end = old.health().sequence;
    drop(old);
    let (_fs, new) = another(&tiered);
    put(&new, "b", "new", b"v").unwrap();
    ship(&new).unwrap();
    let fs = tiered.fs.kill();
    // A start was cut off, and somebody has replaced a file since.
    let crc = {
        let other = fs.copy();
        drop(boot(&tiered, &other));
        u32::from_str_radix(asides(&other)[0].split_once('-').unwrap().1, 16).unwrap()
    };
    let aside = aside_path(end, crc);
    fs.create_dir(&format!("{aside}/meta")).unwrap();
    fs.create(&format!("{aside}/meta/0000000000000001.log")).unwrap().write_all_at(b"stale", 0).unwrap();
    drop(boot(&tiered, &fs));
    tail_is_aside(&tiered, &fs);
}

#[test]
fn a_part_of_the_log_is_nothing_to_be_set_aside_however_old_it_is() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = begun(&tiered, &tiered.fs, ShipMode::Sync);
    old.create_bucket("b", "admin").unwrap();
    put(&old, "b", "k", b"1").unwrap();
    let stale = tiered.fs.copy();
    put(&old, "b", "k", b"2").unwrap();
    let ended = tiered.fs.copy();
    drop(old);
    let (_fs, new) = another(&tiered);
    // Later roots cover all that the old hosts have.
    for at in 0..3 {
        put(&new, "b", &format!("n{at}"), b"v").unwrap();
        tiered.clock.advance(HOUR);
        ship(&new).unwrap();
    }
    assert!(new.ship_figures().unwrap().roots > 1);
    for fs in [stale, ended] {
        let mut standby = boot(&tiered, &fs);
        follow(&mut standby);
        assert_eq!(standby.figures().sequence, new.health().sequence);
        assert_eq!(asides(&fs), Vec::<String>::new());
    }
}

#[test]
fn directories_that_no_start_may_replace_are_left_as_they_are() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = writer_with_a_tail(&tiered);
    tiered.clock.advance(HOUR);
    ship(&store).unwrap();
    let then = tiered.clock.now();
    tiered.clock.advance(HOUR);
    put(&store, "b", "given up", b"v").unwrap();
    ship(&store).unwrap();
    let returned = SimFs::new();
    restore_from_remote_at(tiered.reached().as_ref(), &returned, tiered.clock.as_ref(), then, &mut |_| ())
        .unwrap();
    let foreign = SimFs::new();
    drop(try_open_foreign(&foreign));
    for (fs, why) in [(returned, "earlier time"), (foreign, "another store")] {
        let before = fs.files();
        let refused = standby_on(&tiered, &fs).step(&mut |_| ()).unwrap_err();
        assert!(refused.lasts() && refused.to_string().contains(why), "{refused}");
        assert_eq!((fs.files(), fs.list("").unwrap().contains(&STANDBY.to_owned())), (before, false));
    }
}

/// A store with another id than that of the others.
fn try_open_foreign(fs: &SimFs) -> Store {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    Store::open(Arc::new(fs.clone()), clock, &SeededEntropy::new(99), options()).unwrap()
}

#[test]
fn a_takeover_that_was_claimed_goes_on_at_the_next_start_without_a_wait() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    drop(writer_with_a_tail(&tiered));
    drop(taken_over(&tiered));
    let fs = tiered.fs.kill();
    let mut old = boot(&tiered, &fs);
    assert!(!old.is_newest());
    let taken = old.take_over(&SeededEntropy::new(1), &mut |_| ()).unwrap().unwrap();
    assert_eq!(taken.epoch(), 3);
    // It crashes before its store is open.
    let fs = fs.crash(CrashPolicy::DropAll);
    let old = boot(&tiered, &fs);
    assert!(old.is_newest());
    let store = goes_on(&tiered, &fs, old, ShipMode::Sync);
    assert_eq!((store.ship_figures().unwrap().epoch, keys(&store, "b").len()), (4, 2));
}

#[test]
fn a_piece_that_a_fenced_writer_puts_late_is_not_followed_into_a_circle() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = begun(&tiered, &tiered.fs, ShipMode::Async);
    old.create_bucket("b", "admin").unwrap();
    tiered.clock.advance(HOUR);
    ship(&old).unwrap();
    let before = tiered.fs.copy();
    drop(taken_over(&tiered));
    // The piece comes after the cut of an epoch in which nothing is written.
    put(&old, "b", "late", b"v").unwrap();
    assert!(ship(&old).is_err());
    let mut standby = standby_on(&tiered, &before);
    let steps = (0..30).filter(|_| standby.step(&mut |_| ()).unwrap().more).count();
    assert!(steps < 10 && standby.figures().fills < 2, "{steps} steps, {:?}", standby.figures());
    let fs = SimFs::new();
    let mut standby = standby_on(&tiered, &fs);
    follow(&mut standby);
    assert_eq!((standby.figures().epoch, standby.figures().fills), (2, 1));
}

#[test]
fn an_interrupted_claim_is_a_heartbeat_and_keeps_the_directory() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = writer_with_a_tail(&tiered);
    let claim = Claim { store: old.shared.store, epoch: 2, made: Timestamp::from_millis(1), of_tier: false };
    drop(old);
    let fs = tiered.fs.kill();
    let mut host = boot(&tiered, &fs);
    assert!(host.is_newest());
    tiered.remote.place(&Claim::name(2), &claim.encode());
    assert!(host.take_over(&SeededEntropy::new(1), &mut |_| ()).unwrap().is_none(), "it is about to write");
    assert!(host.watches() && !host.is_newest());
    assert!(!look(&tiered, &mut host));
    let store = goes_on(&tiered, &fs, host, ShipMode::Sync);
    assert_eq!((store.ship_figures().unwrap().epoch, keys(&store, "b").len()), (3, 2));
    assert!(tiered.remote.bytes(&Cut::name(2)).is_none());
}

#[test]
fn a_claim_whose_answer_is_lost_is_gone_on_with() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    drop(writer_with_a_tail(&tiered));
    let fs = tiered.fs.kill();
    let mut host = boot(&tiered, &fs);
    tiered.remote.fail_next(RemoteCall::Put, RemoteFault::None);
    tiered.remote.fail_next(RemoteCall::Put, RemoteFault::Status(503));
    assert!(host.take_over(&SeededEntropy::new(1), &mut |_| ()).is_err());
    assert!(host.has_claimed());
    let taken = host.take_over(&SeededEntropy::new(1), &mut |_| ()).unwrap().unwrap();
    assert_eq!(taken.epoch(), 2);
    let store = shipping(&tiered, &fs, ShipMode::Sync);
    assert_eq!(keys(&store, "b"), ["k", "tail"]);
    assert_ne!(LogPosition::default().sequence, store.health().sequence);
}
