//! The disk after a reboot.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use super::{CrashPolicy, SEEDS, disk_with, durable, names, reboots};
use crate::fs::Fs;
use crate::fs::sim::SimFs;

const SECTOR: usize = 512;

/// The byte that fills each sector.
fn fills(bytes: &[u8]) -> Vec<u8> {
    let fill = |sector: &[u8]| {
        assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is written wholly or not at all");
        sector[0]
    };
    bytes.chunks(SECTOR).map(fill).collect()
}

#[test]
fn bytes_not_synced_are_lost_or_kept_as_the_policy_says() {
    let (fs, file) = disk_with("a", b"old");
    file.write_all_at(b"NEW and longer", 0).unwrap();
    assert_eq!(fs.crash(CrashPolicy::DropAll).contents("a").unwrap(), b"old");
    assert_eq!(fs.crash(CrashPolicy::KeepAll).contents("a").unwrap(), b"NEW and longer");
}

#[test]
fn synced_bytes_survive_every_seed() {
    let (fs, file) = disk_with("a", &[1; 4 * SECTOR]);
    file.write_all_at(&[2; SECTOR], SECTOR as u64).unwrap();
    file.write_all_at(&[3; 9], 7000).unwrap();
    for rebooted in reboots(&fs) {
        let found = rebooted.contents("a").unwrap();
        assert!(found.len() >= 4 * SECTOR);
        assert_eq!(found[..SECTOR], [1; SECTOR]);
        assert_eq!(found[2 * SECTOR..4 * SECTOR], [1; 2 * SECTOR]);
    }
}

#[test]
fn of_a_hole_not_synced_any_page_may_be_there_still_and_of_one_that_was_none() {
    let (fs, file) = disk_with("a", &[1; 8 * SECTOR]);
    file.punch(0, 4096).unwrap();
    let found: BTreeSet<_> = reboots(&fs).map(|rebooted| fills(&rebooted.contents("a").unwrap())).collect();
    assert!(found.contains(&vec![1; 8]) && found.contains(&vec![0; 8]) && found.len() > 2, "{found:?}");
    let (fs, file) = disk_with("a", &[1; 8 * SECTOR]);
    file.punch(0, 4096).unwrap();
    file.sync_data().unwrap();
    for rebooted in reboots(&fs) {
        assert_eq!(rebooted.contents("a").unwrap(), [0; 8 * SECTOR]);
        assert_eq!(rebooted.open("a").unwrap().usage().unwrap().allocated_bytes, 0);
    }
}

#[test]
fn a_name_not_synced_may_be_lost_even_if_its_bytes_were_synced() {
    let fs = SimFs::new();
    fs.create("a").unwrap().sync_data().unwrap();
    assert!(names(&fs.crash(CrashPolicy::DropAll)).is_empty());
    assert_eq!(names(&fs.crash(CrashPolicy::KeepAll)), ["a"]);
    let outcomes: BTreeSet<_> = reboots(&fs).map(|rebooted| names(&rebooted)).collect();
    assert_eq!(outcomes.len(), 2);
}

#[test]
fn a_synced_name_survives_every_seed_but_brings_no_bytes() {
    let fs = SimFs::new();
    let file = fs.create("a").unwrap();
    file.write_all_at(b"bytes", 0).unwrap();
    fs.sync_dir("").unwrap();
    assert_eq!(fs.crash(CrashPolicy::DropAll).files(), [("a".to_owned(), 0)]);
    assert!(reboots(&fs).all(|rebooted| names(&rebooted) == ["a"]));
}

#[test]
fn a_sync_covers_only_its_own_directory() {
    let fs = SimFs::new();
    fs.create_dir("d").unwrap();
    fs.create("d/a").unwrap();
    fs.create("b").unwrap();
    fs.sync_dir("d").unwrap();
    let rebooted = fs.crash(CrashPolicy::DropAll);
    assert_eq!(rebooted.files(), [("d/a".to_owned(), 0)]);
}

#[test]
fn a_directory_made_survives() {
    let fs = SimFs::new();
    fs.create_dir("d/e").unwrap();
    fs.crash(CrashPolicy::DropAll).create("d/e/a").unwrap();
}

#[test]
fn a_rename_happens_wholly_or_not_at_all() {
    let (fs, _) = disk_with("a", b"old");
    durable(&fs, "a.tmp", b"new");
    fs.rename("a.tmp", "a").unwrap();
    let mut outcomes = BTreeSet::new();
    for rebooted in reboots(&fs) {
        outcomes.insert((names(&rebooted), rebooted.contents("a").unwrap()));
    }
    let before = (vec!["a".to_owned(), "a.tmp".to_owned()], b"old".to_vec());
    let after = (vec!["a".to_owned()], b"new".to_vec());
    assert_eq!(outcomes, BTreeSet::from([before, after]));
}

#[test]
fn a_synced_rename_survives_every_seed() {
    let (fs, _) = disk_with("a", b"old");
    durable(&fs, "a.tmp", b"new");
    fs.rename("a.tmp", "a").unwrap();
    fs.sync_dir("").unwrap();
    for rebooted in reboots(&fs) {
        assert_eq!(
            (names(&rebooted), rebooted.contents("a").unwrap()),
            (vec!["a".to_owned()], b"new".to_vec())
        );
    }
}

#[test]
fn steps_of_one_directory_survive_in_any_selection() {
    let fs = SimFs::new();
    for name in ["a", "b", "c"] {
        fs.create(name).unwrap();
    }
    let outcomes: BTreeSet<_> = reboots(&fs).map(|rebooted| names(&rebooted)).collect();
    assert_eq!(outcomes.len(), 8);
}

#[test]
fn a_removal_may_be_undone_with_all_bytes_until_synced() {
    let (fs, file) = disk_with("a", b"bytes");
    drop(file);
    fs.remove("a").unwrap();
    assert_eq!(fs.crash(CrashPolicy::DropAll).contents("a").unwrap(), b"bytes");
    assert!(names(&fs.crash(CrashPolicy::KeepAll)).is_empty());

    let (fs, _) = disk_with("a", b"bytes");
    fs.remove("a").unwrap();
    fs.sync_dir("").unwrap();
    assert!(reboots(&fs).all(|rebooted| names(&rebooted).is_empty()));
}

#[test]
fn a_write_tears_between_sectors_and_in_any_order() {
    let (fs, file) = disk_with("a", &[1; 8 * SECTOR]);
    file.write_all_at(&[2; 8 * SECTOR], 0).unwrap();
    let outcomes: BTreeSet<_> =
        reboots(&fs).map(|rebooted| fills(&rebooted.contents("a").unwrap())).collect();
    assert!(outcomes.contains(&vec![1; 8]) && outcomes.contains(&vec![2; 8]));
    assert!(outcomes.iter().any(|sectors| !sectors.is_sorted()), "a later sector without an earlier one");
    assert!(outcomes.len() > 50, "{} outcomes", outcomes.len());
}

#[test]
fn often_the_last_write_to_arrive_is_torn_and_all_before_it_are_whole() {
    let (fs, file) = disk_with("a", &[1; 32 * SECTOR]);
    file.write_all_at(&[2; 24 * SECTOR], 0).unwrap();
    file.write_all_at(&[2; 8 * SECTOR], 24 * SECTOR as u64).unwrap();
    let torn = |sectors: &[u8]| sectors.contains(&1) && sectors.contains(&2);
    let found: Vec<_> = reboots(&fs).map(|rebooted| fills(&rebooted.contents("a").unwrap())).collect();
    let count = found.iter().filter(|sectors| sectors[..24] == [2; 24] && torn(&sectors[24..])).count();
    assert!(count > 20, "{count} times");
}

#[test]
fn of_two_writes_to_a_sector_the_second_never_comes_without_the_first() {
    let (fs, file) = disk_with("a", b"----");
    file.write_all_at(b"1", 0).unwrap();
    file.write_all_at(b"2", 3).unwrap();
    let outcomes: BTreeSet<_> = reboots(&fs).map(|rebooted| rebooted.contents("a").unwrap()).collect();
    assert_eq!(outcomes, [b"----", b"1---", b"1--2"].map(|bytes| bytes.to_vec()).into());
}

#[test]
fn a_file_may_have_grown_without_its_bytes_and_shows_zeros_there() {
    let (fs, file) = disk_with("a", &[1; SECTOR]);
    file.write_all_at(&[2; 4 * SECTOR], SECTOR as u64).unwrap();
    let mut lengths = BTreeSet::new();
    let mut hole_seen = false;
    for rebooted in reboots(&fs) {
        let found = rebooted.contents("a").unwrap();
        lengths.insert(found.len());
        hole_seen |= fills(&found)[1..].windows(2).any(|pair| pair == [0, 2]);
    }
    assert!(hole_seen, "bytes behind a hole");
    assert!(lengths.contains(&SECTOR) && lengths.contains(&(5 * SECTOR)) && lengths.len() > 3, "{lengths:?}");
    assert!(lengths.iter().all(|len| (SECTOR..=5 * SECTOR).contains(len)), "{lengths:?}");
}

#[test]
fn bytes_after_the_end_that_survived_do_not_come_back() {
    let (fs, file) = disk_with("a", &[1; 10]);
    file.write_all_at(&[2; 2000], 10).unwrap();
    for rebooted in reboots(&fs) {
        let file = rebooted.open("a").unwrap();
        let len = usize::try_from(file.len().unwrap()).unwrap();
        file.write_all_at(b"end", 4000).unwrap();
        assert!(rebooted.contents("a").unwrap()[len..4000].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_seed_always_finds_the_same_and_another_may_not() {
    let outcome = |seed| {
        let (fs, file) = disk_with("a", &[1; 16 * SECTOR]);
        file.write_all_at(&[2; 16 * SECTOR], 0).unwrap();
        fs.create("b").unwrap();
        let rebooted = fs.crash(CrashPolicy::Random(seed));
        (rebooted.files(), rebooted.contents("a").unwrap())
    };
    assert!((0..20).all(|seed| outcome(seed) == outcome(seed)));
    assert!(SEEDS.map(outcome).collect::<BTreeSet<_>>().len() > 50);
}

#[test]
fn the_content_after_a_reboot_is_durable() {
    let (fs, file) = disk_with("a", &[1; 4 * SECTOR]);
    file.write_all_at(&[2; 4 * SECTOR], 0).unwrap();
    fs.create("b").unwrap();
    for rebooted in reboots(&fs) {
        let again = rebooted.crash(CrashPolicy::DropAll);
        assert_eq!(again.files(), rebooted.files());
        assert_eq!(again.contents("a").unwrap(), rebooted.contents("a").unwrap());
    }
}

#[test]
fn files_created_after_a_reboot_do_not_affect_earlier_ones() {
    let (fs, _) = disk_with("a", b"old");
    let rebooted = fs.crash(CrashPolicy::DropAll);
    durable(&rebooted, "b", b"new file");
    assert_eq!(rebooted.contents("a").unwrap(), b"old");
    assert!(fs.files().len() == 1, "nor does the old disk change");
}

#[test]
fn handles_from_before_a_crash_fail_and_locks_are_released() {
    let (fs, file) = disk_with("a", b"bytes");
    let held = fs.lock("LOCK").unwrap();
    fs.sync_dir("").unwrap();
    let rebooted = fs.crash(CrashPolicy::DropAll);
    let read = file.read_exact_at(&mut [0; 5], 0).unwrap_err();
    assert_eq!((read.kind(), read.to_string().contains("power lost")), (ErrorKind::Other, true));
    assert!(file.write_all_at(b"x", 0).is_err() && file.sync_data().is_err() && file.len().is_err());
    assert!(
        fs.create("b").is_err() && fs.open("a").is_err() && fs.list("").is_err() && fs.sync_dir("").is_err()
    );
    let again = rebooted.lock("LOCK").unwrap();
    drop(held);
    assert!(rebooted.lock("LOCK").is_err(), "the old lock gives back nothing on the new disk");
    drop(again);
}

#[test]
fn bytes_written_while_a_sync_runs_are_not_covered_by_it() {
    let (fs, file) = disk_with("a", b"..");
    file.write_all_at(b"1", 0).unwrap();
    fs.create("early").unwrap();
    let gate = fs.hold_syncs("");
    std::thread::scope(|scope| {
        let syncs = [scope.spawn(|| file.sync_data()), scope.spawn(|| fs.sync_dir(""))];
        assert!(gate.wait_until_held(2));
        file.write_all_at(b"2", 1).unwrap();
        fs.create("late").unwrap();
        drop(gate);
        for sync in syncs {
            sync.join().unwrap().unwrap();
        }
    });
    let rebooted = fs.crash(CrashPolicy::DropAll);
    assert_eq!(rebooted.contents("a").unwrap(), b"1.");
    assert_eq!(names(&rebooted), ["a", "early"]);
    assert_eq!(fs.crash(CrashPolicy::KeepAll).contents("a").unwrap(), b"12");
}

#[test]
fn the_next_process_reads_unsynced_writes_which_a_crash_may_still_lose() {
    let (fs, file) = disk_with("a", b"old");
    file.write_all_at(b"new", 0).unwrap();
    fs.create("b").unwrap();
    let _lock = fs.lock("LOCK").unwrap();
    let next = fs.kill();
    assert!(file.len().is_err() && fs.lock("LOCK").is_err());
    next.lock("LOCK").unwrap();
    assert_eq!(names(&next), ["LOCK", "a", "b"]);
    assert_eq!(next.contents("a").unwrap(), b"new");
    let rebooted = next.crash(CrashPolicy::DropAll);
    assert_eq!(names(&rebooted), ["a"]);
    assert_eq!(rebooted.contents("a").unwrap(), b"old");

    let next = fs.kill();
    next.open("a").unwrap().sync_data().unwrap();
    assert_eq!(next.crash(CrashPolicy::DropAll).contents("a").unwrap(), b"new");
}

#[test]
fn bytes_lost_by_a_failed_sync_stay_lost_and_eviction_reveals_it() {
    let (fs, file) = disk_with("a", b"old");
    file.write_all_at(b"new and longer", 0).unwrap();
    fs.fail_sync_at(fs.syncs() + 1);
    file.sync_data().unwrap_err();
    let next = fs.kill();
    let file = next.open("a").unwrap();
    file.sync_data().unwrap();
    assert_eq!(next.contents("a").unwrap(), b"new and longer");
    file.evict().unwrap();
    assert_eq!(next.contents("a").unwrap(), b"old");
    file.write_all_at(b"n", 0).unwrap();
    file.evict().unwrap();
    assert_eq!(next.contents("a").unwrap(), b"nld", "what was not synced stays cached");
    assert_eq!(next.crash(CrashPolicy::DropAll).contents("a").unwrap(), b"old");
}
