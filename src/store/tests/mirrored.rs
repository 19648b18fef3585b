//! A store on two disks with the same files: the power goes, either disk dies, and each of them alone has
//! what was acknowledged.

use super::crashes::{sweep, sweep_of, sweep_of_killed_processes, tiny_segments};
use super::disks::{fill, mirror_of, on_mirror, on_mirror_with, witness_on};
use super::model::Model;
use super::script::{CHURN, InDoubt, MORE_WORK, WORK, work};
use super::steps::Step;
use super::*;
use crate::base::test_scope::points;
use crate::disks::{DiskMirror, DisksError, MirrorOptions, RepairReport, SideChange};
use crate::fs::sim::CrashPolicy;
use crate::fs::{Fs, ReadOnlyFs, Side, SideUse};

/// A side of its own disk.
fn disks_of(first: &SimFs, second: &SimFs) -> [Arc<dyn Fs>; 2] {
    [Arc::new(first.clone()), Arc::new(second.clone())]
}

pub(super) fn mirror(first: &SimFs, second: &SimFs) -> Result<DiskMirror, DisksError> {
    DiskMirror::open(mirror_of(disks_of(first, second)))
}

pub(super) fn degraded(first: &SimFs, second: &SimFs) -> Result<DiskMirror, DisksError> {
    DiskMirror::open(MirrorOptions { accepts_degraded: true, ..mirror_of(disks_of(first, second)) })
}

pub(super) fn store_on(mirror: &DiskMirror) -> Store {
    store_with(mirror, options())
}

pub(super) fn store_with(mirror: &DiskMirror, options: StoreOptions) -> Store {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    Store::open(mirror.fs(), clock, &SeededEntropy::new(1), options).expect("the store opens")
}

/// A large object fills a segment.
pub(super) fn small_segments() -> StoreOptions {
    StoreOptions { segment_max_bytes: 100_000, ..options() }
}

/// Puts a large object into a segment that is sealed by then. Returns the path of that.
pub(super) fn put_into_sealed(store: &Store, disk: &SimFs) -> String {
    store.create_bucket("b", "admin").unwrap();
    put(store, "b", "large", &[7; 200_000]).unwrap();
    let path = large_segment(disk);
    put(store, "b", "next", &[8; 200_000]).unwrap();
    path
}

/// Has the second side dropped while a segment is not known to be equal, and both crash.
fn drop_second(opened: DiskMirror, store: Store, disks: [&SimFs; 2], path: &str) -> [SimFs; 2] {
    let again = opened.fs().open(path).unwrap();
    again.truncate(u64::MAX).unwrap();
    disks[1].stop_at(disks[1].operations() + 1);
    put(&store, "b", "last", b"last").unwrap();
    assert_eq!(opened.uses()[1], SideUse::Out);
    drop(again);
    drop(store);
    drop(opened);
    disks.map(|disk| disk.crash(CrashPolicy::DropAll))
}

/// Two disks that are a mirror, with an empty store.
pub(super) fn two_disks() -> [SimFs; 2] {
    two_disks_with(None)
}

fn two_disks_with(witness: Option<&SimFs>) -> [SimFs; 2] {
    let disks = [SimFs::new(), SimFs::new()];
    let options = mirror_of(disks_of(&disks[0], &disks[1]));
    let options = MirrorOptions { witness: witness.and_then(witness_on), ..options };
    drop(store_on(&DiskMirror::open(options).unwrap()));
    disks
}

/// Opens a side by itself, as an operator may who has lost the other one, and looks at what is there.
fn check_alone(side: &SimFs, doubt: &InDoubt) {
    let alone = degraded(&side.copy(), &SimFs::new()).expect("a whole side starts");
    let store = store_on(&alone);
    let health = store.health();
    assert_eq!((health.read_only, health.damage), (None, vec![]));
    let found = Model::of(&store);
    assert!(doubt.before.agrees_with(&found) || doubt.after.agrees_with(&found), "{found:#?}");
}

#[test]
fn a_mirror_keeps_what_was_acknowledged_through_a_crash_at_every_operation() {
    on_mirror(|| sweep(options(), 5));
}

#[test]
fn it_does_so_where_segments_are_emptied_and_go() {
    on_mirror(|| sweep_of(CHURN, tiny_segments(), 5));
}

#[test]
fn it_does_so_where_the_log_goes_on_in_file_after_file() {
    let options = StoreOptions { log_file_max_bytes: 16_384, checkpoint_after_bytes: 30_000, ..options() };
    on_mirror(|| sweep(options, 7));
}

#[test]
fn what_a_reader_of_a_mirror_has_seen_survives_a_crash() {
    on_mirror(|| sweep_of_killed_processes(options()));
}

/// One disk dies at operations of the work, which goes on; then it comes back, and is filled.
pub(super) fn one_dies(steps: &[Step], options: StoreOptions, dying: Side, stride: u64) {
    for stop in points(stride) {
        let witness = SimFs::new();
        let disks = two_disks_with(Some(&witness));
        let dead = &disks[dying.index()];
        let begun = dead.operations();
        dead.stop_at(begun + stop);
        let done = on_mirror_with(&disks[1], &witness, || work(&disks[0], options, steps, Model::default()));
        let done = done.map_err(|halt| halt.error).expect("the other disk goes on");
        if dead.operations() < begun + stop {
            println!("the work takes {} operations", dead.operations() - begun);
            return;
        }
        println!("{dying:?} dies at operation {stop}");
        let doubt = InDoubt::nothing(done);
        let survivor = disks[dying.other().index()].crash(CrashPolicy::DropAll);
        check_alone(&survivor, &doubt);
        let back = disks[dying.index()].crash(CrashPolicy::Random(stop));
        let mut pair = [survivor.clone(), back];
        if dying == Side::First {
            pair.reverse();
        }
        let again = mirror(&pair[0], &pair[1]).expect("the mirror opens");
        assert_eq!(again.uses()[dying.index()], SideUse::Filled);
        let store = store_on(&again);
        let doubt = InDoubt::nothing(Model::of(&store));
        assert!(fill(&again).unwrap());
        drop(store);
        for side in &pair {
            check_alone(&side.crash(CrashPolicy::DropAll), &doubt);
        }
    }
}

#[test]
fn a_disk_that_dies_at_any_operation_costs_nothing_and_is_filled_when_it_is_back() {
    for dying in Side::BOTH {
        one_dies(WORK, options(), dying, 5);
        one_dies(CHURN, tiny_segments(), dying, 5);
    }
}

#[test]
fn a_power_cut_during_a_filling_leaves_the_other_side_whole_and_the_filling_goes_on() {
    power_cuts_during_a_filling(3);
}

/// The power of both disks goes at operations of a filling during which the store works.
pub(super) fn power_cuts_during_a_filling(stride: u64) {
    for stop in points(stride) {
        let [first, second] = two_disks();
        let done =
            on_mirror_with(&second, &SimFs::new(), || work(&first, tiny_segments(), CHURN, Model::default()));
        let before = done.map_err(|halt| halt.error).unwrap();
        let first = first.crash(CrashPolicy::DropAll);
        let other = SimFs::new();
        // The second side is exchanged for one that was there before.
        let second = second.crash(CrashPolicy::DropAll);
        drop(degraded(&first, &other).unwrap());
        let is_first = stop % 2 == 0;
        let cut = if is_first { &first } else { &second };
        cut.stop_at(cut.operations() + stop.div_ceil(2));
        let mut doubt = InDoubt::nothing(before.clone());
        let mut is_filled = false;
        if let Ok(opened) = mirror(&first, &second) {
            let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
            if let Ok(store) = Store::open(opened.fs(), clock, &SeededEntropy::new(1), tiny_segments()) {
                let mut model = before.clone();
                for step in MORE_WORK.iter().filter(|step| !matches!(step, Step::Reopen { .. })) {
                    let after = model.after(step);
                    match (step.run(&store), after) {
                        (Ok(()), Ok(after)) => model = after,
                        (Err(_), Ok(after)) => {
                            doubt = InDoubt { before: model.clone(), after };
                            break;
                        }
                        (_, Err(_)) => {}
                    }
                    doubt = InDoubt::nothing(model.clone());
                    let _ = opened.fill_step(&mut |_| Ok(()));
                }
                is_filled = fill(&opened).unwrap_or(false);
            }
        }
        let was_cut = cut.list("").is_err();
        let left = [first.crash(CrashPolicy::Random(stop)), second.crash(CrashPolicy::Random(stop))];
        println!("operation {stop}: filled {is_filled}, cut {was_cut}");
        let again = mirror(&left[0], &left[1]).expect("the mirror opens");
        let store = store_on(&again);
        let found = Model::of(&store);
        assert!(doubt.before.agrees_with(&found) || doubt.after.agrees_with(&found), "{found:#?}");
        fill(&again).unwrap();
        drop(store);
        let doubt = InDoubt::nothing(found);
        for side in &left {
            check_alone(&side.crash(CrashPolicy::DropAll), &doubt);
        }
        if !was_cut {
            return;
        }
    }
}

#[test]
fn the_state_of_each_side_is_told_and_so_is_every_change() {
    let uses = |mirror: &DiskMirror| mirror.statuses().map(|status| status.usage);
    let [first, second] = two_disks();
    let opened = mirror(&first, &second).unwrap();
    assert_eq!(uses(&opened), [SideUse::Whole; 2]);
    assert_eq!(opened.take_changes(), []);
    let store = store_on(&opened);
    store.create_bucket("b", "admin").unwrap();
    second.stop_at(second.operations() + 1);
    put(&store, "b", "one", b"one").unwrap();
    let dropped = opened.statuses();
    assert_eq!((dropped[0].usage, dropped[1].usage), (SideUse::Whole, SideUse::Out));
    assert!(dropped[0].why.is_empty() && !dropped[1].why.is_empty(), "{dropped:?}");
    assert!(dropped[1].since >= dropped[0].since, "{dropped:?}");
    let change = SideChange { side: Side::Second, before: SideUse::Whole, status: dropped[1].clone() };
    assert_eq!(opened.take_changes(), [change]);
    assert_eq!(opened.take_changes(), []);
    drop(store);
    drop(opened);

    let second = second.crash(CrashPolicy::DropAll);
    let opened = mirror(&first, &second).unwrap();
    assert_eq!(uses(&opened), [SideUse::Whole, SideUse::Filled]);
    assert!(fill(&opened).unwrap());
    assert_eq!(uses(&opened), [SideUse::Whole; 2]);
    let changes =
        opened.take_changes().into_iter().map(|change| (change.side, change.before, change.status.usage));
    let filled = (Side::Second, SideUse::Whole, SideUse::Filled);
    let joined = (Side::Second, SideUse::Filled, SideUse::Whole);
    assert_eq!(changes.collect::<Vec<_>>(), [filled, joined]);
    drop(opened);

    let alone = degraded(&SimFs::new(), &second).unwrap();
    assert_eq!(uses(&alone), [SideUse::Out, SideUse::Whole]);
    assert_eq!(alone.statuses()[0].why, "it was not there at the start");
    assert_eq!(alone.take_changes().len(), 1);
}

#[test]
fn a_side_that_was_dropped_does_not_start_alone_and_overwrites_nothing() {
    let [first, second] = two_disks();
    let opened = mirror(&first, &second).unwrap();
    let store = store_on(&opened);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "both", b"both").unwrap();
    second.stop_at(second.operations() + 1);
    put(&store, "b", "one", b"one").unwrap();
    assert_eq!(opened.uses(), [SideUse::Whole, SideUse::Out]);
    drop(store);
    drop(opened);
    let stale = second.crash(CrashPolicy::DropAll);
    assert!(mirror(&SimFs::new(), &stale).is_err(), "the other side may be later");
    // An operator has it started: it goes on by itself.
    let forced = degraded(&SimFs::new(), &stale).unwrap();
    let store = store_on(&forced);
    put(&store, "b", "two", b"two").unwrap();
    drop(store);
    drop(forced);
    let first = first.crash(CrashPolicy::DropAll);
    let stale = stale.crash(CrashPolicy::DropAll);
    for accepts in [false, true] {
        let options = MirrorOptions { accepts_degraded: accepts, ..mirror_of(disks_of(&first, &stale)) };
        assert!(DiskMirror::open(options).is_err(), "they are apart");
    }
    let alone = store_on(&degraded(&first, &SimFs::new()).unwrap());
    assert_eq!(get(&alone, "b", "one").unwrap(), b"one");
}

#[test]
fn a_side_that_cannot_be_written_to_is_left_out_where_the_other_one_has_all_that_it_has() {
    let read_only = |disk: &SimFs| -> Arc<dyn Fs> {
        let disk: Arc<dyn Fs> = Arc::new(disk.clone());
        Arc::new(ReadOnlyFs::new(disk))
    };
    for fixed in Side::BOTH {
        let disks = two_disks();
        let store = store_on(&mirror(&disks[0], &disks[1]).unwrap());
        store.create_bucket("b", "admin").unwrap();
        put(&store, "b", "both", b"both").unwrap();
        drop(store);
        let mounted = |writable: &SimFs| {
            let mut mounted = disks_of(writable, writable);
            mounted[fixed.index()] = read_only(&disks[fixed.index()]);
            mounted
        };
        let whole = &disks[fixed.other().index()];
        let opened = DiskMirror::open(mirror_of(mounted(whole))).unwrap();
        assert_eq!(opened.uses()[fixed.index()], SideUse::Out);
        assert!(opened.statuses()[fixed.index()].why.contains("read-only"), "{:?}", opened.statuses());
        let store = store_on(&opened);
        assert_eq!(get(&store, "b", "both").unwrap(), b"both");
        put(&store, "b", "later", b"later").unwrap();
        drop(store);
        drop(opened);
        // It is stale from now on: the other one goes on with it there, and it does not without.
        drop(DiskMirror::open(mirror_of(mounted(whole))).unwrap());
        assert!(DiskMirror::open(mirror_of(mounted(&SimFs::new()))).is_err());
        let opened = mirror(&disks[0], &disks[1]).unwrap();
        assert!(fill(&opened).unwrap());
        assert_eq!(get(&store_on(&opened), "b", "later").unwrap(), b"later");
    }
}

#[test]
fn a_later_side_that_cannot_be_written_to_is_not_replaced_by_an_older_one() {
    let [first, second] = two_disks();
    drop(store_on(&degraded(&first, &SimFs::new()).unwrap()));
    let disk: Arc<dyn Fs> = Arc::new(first.clone());
    let mounted =
        || -> [Arc<dyn Fs>; 2] { [Arc::new(ReadOnlyFs::new(disk.clone())), Arc::new(second.clone())] };
    for accepts in [false, true] {
        let options =
            MirrorOptions { accepts_degraded: accepts, accepts_outdated: accepts, ..mirror_of(mounted()) };
        let refused = DiskMirror::open(options).err().expect("it is refused").to_string();
        assert!(refused.contains("side A has what the other one lacks"), "{refused}");
    }
}

#[test]
fn an_empty_disk_in_the_place_of_a_side_is_not_filled() {
    let [first, second] = two_disks();
    drop(store_on(&mirror(&first, &second).unwrap()));
    let empty = SimFs::new();
    assert!(mirror(&first, &empty).is_err(), "the other one may be later");
    let alone = degraded(&first, &empty).unwrap();
    assert_eq!(alone.uses(), [SideUse::Whole, SideUse::Out]);
    drop(store_on(&alone));
    assert_eq!(empty.files(), []);
}

/// The path of a segment with a large object.
fn large_segment(disk: &SimFs) -> String {
    let files = disk.files().into_iter();
    let mut large = files.filter(|(path, len)| path.starts_with("data/") && *len > 100_000);
    large.next().expect("there is one").0
}

fn assert_repaired(opened: &DiskMirror, rotten: &SimFs, path: &str, whole: &[u8]) {
    assert_ne!(&rotten.contents(path).unwrap()[..whole.len()], whole);
    assert_eq!(opened.repair_step().unwrap(), RepairReport { files: 1, waiting: 0 });
    let durable = rotten.copy().crash(CrashPolicy::DropAll);
    assert_eq!(&durable.contents(path).unwrap()[..whole.len()], whole);
}

#[test]
fn rot_on_both_sides_in_different_places_is_read_from_the_other_and_written_anew() {
    let [first, second] = two_disks();
    let opened = mirror(&first, &second).unwrap();
    let store = store_on(&opened);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "large", &[7; 200_000]).unwrap();
    let path = large_segment(&first);
    let whole = first.contents(&path).unwrap();
    let home = opened.home_of(&path);
    first.damage(&path, 80_000, 0xff).unwrap();
    second.damage(&path, 160_000, 0xff).unwrap();
    assert_eq!(get(&store, "b", "large").unwrap(), [7; 200_000]);
    assert_eq!(store.health().damage, vec![]);
    assert_eq!(opened.repair_step().unwrap(), RepairReport { files: 0, waiting: 1 }, "it is written to");
    drop(store);
    drop(opened);

    // A segment of that size is sealed at once.
    let opened = mirror(&first, &second).unwrap();
    let store = store_with(&opened, small_segments());
    put(&store, "b", "next", &[8; 200_000]).unwrap();
    for id in store.shared.segments.immutable_segments() {
        store.shared.segments.seal_immutable(id).unwrap();
    }
    assert_eq!(get(&store, "b", "large").unwrap(), [7; 200_000]);
    assert_repaired(&opened, [&first, &second][home.index()], &path, &whole);
    opened.scrub_from(home.other());
    while store.scrub(u64::MAX).unwrap().more {}
    assert_repaired(&opened, [&first, &second][home.other().index()], &path, &whole);
    assert_eq!(opened.repaired_files(), 2);
    assert_eq!(store.health().damage, vec![]);
}

#[test]
fn a_log_that_is_rotten_on_one_side_is_made_good_at_the_start() {
    let [first, second] = two_disks();
    let opened = mirror(&first, &second).unwrap();
    let store = store_on(&opened);
    store.create_bucket("b", "admin").unwrap();
    for key in ["one", "two", "three"] {
        put(&store, "b", key, key.as_bytes()).unwrap();
    }
    drop(store);
    drop(opened);
    let (log, _) = first.files().into_iter().rfind(|(path, _)| path.ends_with("1.log")).unwrap();
    let whole = first.contents(&log).unwrap();
    first.damage(&log, 8_200, 0xff).unwrap();
    second.make_unreadable(&log, 12_288..12_800).unwrap();
    let opened = mirror(&first, &second).unwrap();
    let store = store_on(&opened);
    assert_eq!(store.health().read_only, None);
    assert_eq!(get(&store, "b", "one").unwrap(), b"one");
    assert_eq!(get(&store, "b", "three").unwrap(), b"three");
    assert_eq!(first.contents(&log).unwrap()[..16_384], whole[..16_384]);
    assert_eq!(second.contents(&log).unwrap()[..16_384], whole[..16_384]);
}

/// What one side cannot read of a file takes nothing from what else it has: the other one may lack that.
#[test]
fn a_first_page_that_cannot_be_read_is_replaced_alone() {
    let [first, second] = two_disks();
    let opened = mirror(&first, &second).unwrap();
    let store = store_with(&opened, small_segments());
    let path = put_into_sealed(&store, &first);
    drop(store);
    drop(opened);
    let (log, _) = first.files().into_iter().rfind(|(path, _)| path.ends_with("1.log")).unwrap();
    for (file, at) in [(&log, 8_200), (&path, 80_000)] {
        first.make_unreadable(file, 0..512).unwrap();
        second.damage(file, at, 0xff).unwrap();
    }
    let opened = mirror(&first, &second).unwrap();
    let store = store_on(&opened);
    assert_eq!(store.health().read_only, None);
    assert_eq!(get(&store, "b", "large").unwrap(), [7; 200_000]);
    assert_eq!(get(&store, "b", "next").unwrap(), [8; 200_000]);
}

#[test]
fn a_checkpoint_that_is_rotten_on_one_side_is_made_good_at_the_start() {
    for rotten in Side::BOTH {
        let disks = two_disks();
        let opened = mirror(&disks[0], &disks[1]).unwrap();
        let store = store_on(&opened);
        store.create_bucket("b", "admin").unwrap();
        put(&store, "b", "one", b"one").unwrap();
        store.checkpoint().unwrap();
        drop(store);
        drop(opened);
        let side = &disks[rotten.index()];
        let (path, _) = side.files().into_iter().rfind(|(path, _)| path.ends_with(".checkpoint")).unwrap();
        side.damage(&path, 4_200, 0xff).unwrap();
        let opened = mirror(&disks[0], &disks[1]).unwrap();
        let store = store_on(&opened);
        assert_eq!(store.health().damage, vec![]);
        assert_eq!(get(&store, "b", "one").unwrap(), b"one");
        assert_eq!(disks[0].contents(&path).unwrap(), disks[1].contents(&path).unwrap());
    }
}

#[test]
fn a_segment_that_this_process_made_is_written_anew_and_read_from_its_new_file() {
    let [first, second] = two_disks();
    let opened = mirror(&first, &second).unwrap();
    let store = store_with(&opened, small_segments());
    let path = put_into_sealed(&store, &first);
    let whole = first.contents(&path).unwrap();
    let rotten = [&first, &second][opened.home_of(&path).index()];
    rotten.damage(&path, 80_000, 0xff).unwrap();
    assert_eq!(get(&store, "b", "large").unwrap(), [7; 200_000]);
    assert_repaired(&opened, rotten, &path, &whole);
    assert_eq!(get(&store, "b", "large").unwrap(), [7; 200_000]);
    assert_eq!(opened.repair_step().unwrap(), RepairReport::default(), "it is read without a fault");
}

#[test]
fn pages_that_the_source_of_a_filling_cannot_read_are_those_that_the_side_had() {
    let [first, second] = two_disks();
    let opened = mirror(&first, &second).unwrap();
    let store = store_with(&opened, small_segments());
    let path = put_into_sealed(&store, &first);
    let [first, second] = drop_second(opened, store, [&first, &second], &path);
    first.make_unreadable(&path, 80_000..84_000).unwrap();
    let opened = mirror(&first, &second).unwrap();
    assert!(second.contents(&path).is_err(), "it is copied again");
    let store = store_on(&opened);
    assert!(fill(&opened).unwrap());
    assert_eq!(get(&store, "b", "large").unwrap(), [7; 200_000], "of the other side");
    assert!(second.files().iter().all(|(path, _)| !path.ends_with(".stale")), "{:?}", second.files());
}

/// The power goes twice, and then one side is lost: what the other one has after its last group must not
/// make it believe a group whose bytes it lacks.
#[test]
fn a_torn_end_of_the_log_is_equal_on_both_sides_after_a_start() {
    let [first, second] = two_disks();
    let store = store_on(&mirror(&first, &second).unwrap());
    store.create_bucket("b", "admin").unwrap();
    drop(store);
    let (log, len) = second.files().into_iter().rfind(|(path, _)| path.ends_with("1.log")).unwrap();
    second.overwrite(&log, len - 4096, &[9; 100]).unwrap();
    drop(mirror(&first, &second).unwrap());
    assert_eq!(first.contents(&log).unwrap(), second.contents(&log).unwrap());
}

#[test]
fn a_side_is_not_filled_from_one_whose_log_cannot_be_read() {
    let [first, second] = two_disks();
    let opened = mirror(&first, &second).unwrap();
    let store = store_on(&opened);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "both", b"both").unwrap();
    second.stop_at(second.operations() + 1);
    put(&store, "b", "one", b"one").unwrap();
    drop(store);
    drop(opened);
    let first = first.crash(CrashPolicy::DropAll);
    let second = second.crash(CrashPolicy::DropAll);
    let before = second.files();
    let (log, _) = first.files().into_iter().rfind(|(path, _)| path.ends_with("1.log")).unwrap();
    first.make_unreadable(&log, 4096..4608).unwrap();
    let opened = mirror(&first, &second).unwrap();
    assert_eq!(opened.uses(), [SideUse::Whole, SideUse::Out]);
    assert_eq!(second.files(), before, "it may be needed");
}

#[test]
fn rot_of_the_source_of_a_filling_does_not_replace_good_bytes() {
    let [first, second] = two_disks();
    let opened = mirror(&first, &second).unwrap();
    let store = store_with(&opened, small_segments());
    let path = put_into_sealed(&store, &first);
    let [first, second] = drop_second(opened, store, [&first, &second], &path);
    first.damage(&path, 80_000, 0xff).unwrap();
    let opened = mirror(&first, &second).unwrap();
    let store = store_on(&opened);
    assert!(fill(&opened).unwrap());
    assert_eq!(get(&store, "b", "large").unwrap(), [7; 200_000], "of the side that was filled");
}
