//! Planned faults.

use std::io::ErrorKind;

use super::{CrashPolicy, disk_with, durable, names, reboots};
use crate::fs::Fs;
use crate::fs::sim::{OpKind, SimFs};

/// Replaces a file safely.
fn replace(fs: &SimFs, path: &str, bytes: &[u8]) -> std::io::Result<()> {
    let aside = format!("{path}.tmp");
    let file = fs.create(&aside)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()?;
    fs.rename(&aside, path)?;
    fs.sync_dir("")
}

#[test]
fn a_careful_replacement_survives_the_loss_of_power_at_every_operation() {
    let old = vec![1; 3000];
    let new = vec![2; 5000];
    let (fs, _) = disk_with("a", &old);
    let before = fs.operations();
    replace(&fs, "a", &new).unwrap();
    let after = fs.operations();
    assert_eq!(after - before, 5);
    for stop in before + 1..=after + 1 {
        let (fs, _) = disk_with("a", &old);
        fs.stop_at(stop);
        let answered = replace(&fs, "a", &new).is_ok();
        assert_eq!(answered, stop > after);
        for rebooted in reboots(&fs) {
            let found = rebooted.contents("a").unwrap();
            assert!(found == new || (found == old && !answered), "stopped at {stop}");
        }
    }
}

#[test]
fn from_the_operation_at_which_power_is_lost_on_all_fail() {
    let (fs, file) = disk_with("a", b"old");
    fs.stop_at(fs.operations() + 2);
    file.write_all_at(b"1", 0).unwrap();
    assert!(fs.create("b").is_err_and(|e| e.to_string().contains("power lost")));
    assert!(file.write_all_at(b"2", 1).is_err() && file.len().is_err() && fs.lock("LOCK").is_err());
    assert_eq!(fs.crash(CrashPolicy::KeepAll).contents("a").unwrap(), b"1ld");
    assert_eq!(names(&fs.crash(CrashPolicy::KeepAll)), ["a", "b"], "what it did is in doubt");
    assert_eq!(names(&fs.crash(CrashPolicy::DropAll)), ["a"]);
}

#[test]
fn the_write_during_which_power_is_lost_is_done_in_part() {
    let mut lengths = std::collections::BTreeSet::new();
    for earlier in 0..10 {
        let (fs, file) = disk_with("a", b"");
        (0..earlier).for_each(|_| file.sync_data().unwrap());
        fs.stop_at(fs.operations() + 1);
        assert!(file.write_all_at(&[7; 1300], 0).is_err());
        lengths.insert(fs.crash(CrashPolicy::KeepAll).contents("a").unwrap().len());
    }
    assert_eq!(lengths, [0, 512, 1024, 1300].into());
}

#[test]
fn a_sync_during_which_power_is_lost_promises_nothing() {
    let (fs, file) = disk_with("a", b"old");
    file.write_all_at(b"new", 0).unwrap();
    fs.stop_at(fs.operations() + 1);
    assert!(file.sync_data().is_err());
    assert_eq!(fs.crash(CrashPolicy::DropAll).contents("a").unwrap(), b"old");
    assert_eq!(fs.crash(CrashPolicy::KeepAll).contents("a").unwrap(), b"new");
}

#[test]
fn bytes_of_a_failed_sync_stay_in_doubt_although_later_syncs_succeed() {
    let (fs, file) = disk_with("a", &[1; 600]);
    file.write_all_at(b"lost", 0).unwrap();
    fs.fail_sync_at(fs.syncs() + 1);
    let failed = file.sync_data().unwrap_err();
    assert!(failed.to_string().contains("a: "), "{failed}");
    file.sync_data().unwrap();
    file.write_all_at(b"kept", 512).unwrap();
    file.sync_data().unwrap();
    assert_eq!(fs.contents("a").unwrap()[..4], *b"lost", "a reader sees them");
    let found = fs.crash(CrashPolicy::DropAll).contents("a").unwrap();
    assert_eq!((&found[..4], &found[512..516]), (&[1; 4][..], &b"kept"[..]));
    assert_eq!(fs.crash(CrashPolicy::KeepAll).contents("a").unwrap()[..4], *b"lost");
}

#[test]
fn a_sector_written_again_after_a_failed_sync_is_carried_by_the_next() {
    let (fs, file) = disk_with("a", b"....");
    file.write_all_at(b"1", 0).unwrap();
    fs.fail_sync_at(fs.syncs() + 1);
    file.sync_data().unwrap_err();
    file.write_all_at(b"2", 1).unwrap();
    file.sync_data().unwrap();
    assert!(reboots(&fs).all(|rebooted| rebooted.contents("a").unwrap() == b"12.."));
}

#[test]
fn growth_in_a_failed_sync_stays_in_doubt() {
    let (fs, file) = disk_with("a", b"ab");
    file.write_all_at(b"cd", 2).unwrap();
    fs.fail_sync_at(fs.syncs() + 1);
    file.sync_data().unwrap_err();
    file.sync_data().unwrap();
    assert_eq!(file.len().unwrap(), 4);
    assert_eq!(fs.crash(CrashPolicy::DropAll).contents("a").unwrap(), b"ab");
}

#[test]
fn names_of_a_failed_sync_stay_in_doubt_until_they_change_again() {
    let (fs, _) = disk_with("a", b"old");
    durable(&fs, "a.tmp", b"new");
    fs.rename("a.tmp", "a").unwrap();
    fs.create("b").unwrap();
    fs.fail_sync_at(fs.syncs() + 1);
    fs.sync_dir("").unwrap_err();
    fs.create("c").unwrap();
    fs.sync_dir("").unwrap();
    assert_eq!(names(&fs), ["a", "b", "c"]);
    assert_eq!(names(&fs.crash(CrashPolicy::DropAll)), ["a", "a.tmp", "c"]);

    let (fs, _) = disk_with("a", b"old");
    fs.create("b").unwrap();
    fs.fail_sync_at(fs.syncs() + 1);
    fs.sync_dir("").unwrap_err();
    fs.remove("b").unwrap();
    fs.sync_dir("").unwrap();
    assert!(reboots(&fs).all(|rebooted| names(&rebooted) == ["a"]), "the step in doubt is overruled");
}

#[test]
fn a_write_to_a_full_disk_is_partial_and_fails() {
    let fs = SimFs::with_capacity(1000);
    let file = fs.create("a").unwrap();
    let failed = file.write_all_at(&[1; 1200], 0).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 1000);
    assert_eq!(fs.space().unwrap().free_bytes, 0);
    assert_eq!(fs.create("b").err().unwrap().kind(), ErrorKind::StorageFull);
    assert_eq!(fs.create_dir("d").unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_all_at(&[2; 1000], 0).unwrap();
    file.sync_data().unwrap();
    fs.rename("a", "c").unwrap();
    fs.lock("c").unwrap();
    assert_eq!(file.write_all_at(b"x", 1000).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 1000, "a write for which there is no room at all changes nothing");
}

#[test]
fn room_comes_back_when_the_last_name_and_handle_are_gone() {
    let fs = SimFs::with_capacity(1000);
    let file = durable(&fs, "a", &[1; 600]);
    fs.remove("a").unwrap();
    assert_eq!(fs.space().unwrap().free_bytes, 400);
    drop(file);
    assert_eq!(fs.space().unwrap().free_bytes, 1000);
    durable(&fs, "b", &[1; 1000]);
}

#[test]
fn reserved_room_counts_and_can_be_written_when_the_disk_is_full() {
    let fs = SimFs::with_capacity(1000);
    let a = fs.create("a").unwrap();
    let b = fs.create("b").unwrap();
    a.reserve(0, 700).unwrap();
    assert_eq!(fs.space().unwrap().free_bytes, 300);
    assert_eq!(b.reserve(0, 301).unwrap_err().kind(), ErrorKind::StorageFull);
    b.write_all_at(&[1; 300], 0).unwrap();
    a.write_all_at(&[1; 700], 0).unwrap();
    assert_eq!(a.write_all_at(&[1], 700).unwrap_err().kind(), ErrorKind::StorageFull);
}

#[test]
fn a_reservation_survives_once_synced() {
    let (fs, file) = disk_with("a", b"");
    file.reserve(0, 4096).unwrap();
    let free = |fs: &SimFs| fs.space().unwrap().free_bytes;
    let before = free(&fs);
    let lost = fs.crash(CrashPolicy::DropAll);
    assert_eq!(free(&lost), before + 4096);

    let file = lost.open("a").unwrap();
    file.reserve(0, 4096).unwrap();
    file.sync_data().unwrap();
    assert_eq!(free(&lost.crash(CrashPolicy::DropAll)), before);
}

#[test]
fn the_capacity_changes_at_any_time() {
    let (fs, file) = disk_with("a", &[1; 100]);
    fs.set_capacity(50);
    assert_eq!(fs.space().unwrap().free_bytes, 0);
    assert_eq!(file.write_all_at(&[2; 10], 95).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 100, "what is there stays");
    fs.set_capacity(105);
    file.write_all_at(&[2; 10], 95).unwrap();
}

#[test]
fn damage_is_seen_at_once_and_stays_after_a_crash() {
    type Harm = fn(&SimFs);
    let harms: [(Harm, &[u8]); 4] = [
        (|fs| fs.damage("a", 1, 0x20).unwrap(), b"aBcdef"),
        (|fs| fs.overwrite("a", 4, b"XYZ").unwrap(), b"abcdXYZ"),
        (|fs| fs.truncate("a", 5).unwrap(), b"abcde"),
        (|fs| fs.truncate("a", 500).unwrap(), b"abcdef"),
    ];
    for (harm, expected) in harms {
        let (fs, file) = disk_with("a", b"abcdef");
        let before = fs.operations();
        harm(&fs);
        assert_eq!(file.len().unwrap(), expected.len() as u64);
        assert_eq!(fs.contents("a").unwrap(), expected);
        assert_eq!(fs.crash(CrashPolicy::DropAll).contents("a").unwrap(), expected);
        assert_eq!(fs.operations(), before, "it is no operation");
    }
}

#[test]
fn damage_needs_something_to_harm() {
    let (fs, _) = disk_with("a", b"abcdef");
    assert_eq!(fs.damage("a", 6, 1).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(fs.damage("b", 0, 1).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs.truncate("b", 0).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn the_trace_lists_operations_in_order() {
    let fs = SimFs::new();
    let file = fs.create("a").unwrap();
    file.reserve(0, 100).unwrap();
    file.write_all_at(b"abc", 7).unwrap();
    file.sync_data().unwrap();
    fs.create_dir("d").unwrap();
    fs.rename("a", "b").unwrap();
    fs.sync_dir("").unwrap();
    fs.remove("b").unwrap();
    fs.open("b").err().unwrap();
    fs.lock("LOCK").unwrap();
    let told: Vec<_> = fs.trace().into_iter().map(|op| (op.kind, op.path, op.offset, op.len)).collect();
    let op = |kind, path: &str, offset, len| (kind, path.to_owned(), offset, len);
    let expected = [
        op(OpKind::Create, "a", 0, 0),
        op(OpKind::Reserve, "a", 0, 100),
        op(OpKind::Write, "a", 7, 3),
        op(OpKind::SyncData, "a", 0, 0),
        op(OpKind::CreateDir, "d", 0, 0),
        op(OpKind::Rename { to: "b".to_owned() }, "a", 0, 0),
        op(OpKind::SyncDir, "", 0, 0),
        op(OpKind::Remove, "b", 0, 0),
        op(OpKind::Create, "LOCK", 0, 0),
    ];
    assert_eq!(told, expected);
    assert_eq!((fs.operations(), fs.syncs()), (9, 2));
}

#[test]
fn a_gate_holds_only_the_syncs_of_its_prefix() {
    let (fs, log) = disk_with("log", b"");
    let data = durable(&fs, "data", b"");
    log.write_all_at(b"entry", 0).unwrap();
    let gate = fs.hold_syncs("log");
    std::thread::scope(|scope| {
        let held = scope.spawn(|| log.sync_data());
        assert!(gate.wait_until_held(1));
        data.sync_data().unwrap();
        data.write_all_at(b"meanwhile", 0).unwrap();
        assert!(!held.is_finished());
        drop(gate);
        held.join().unwrap().unwrap();
    });
    assert_eq!(fs.crash(CrashPolicy::DropAll).contents("log").unwrap(), b"entry");
}

#[test]
fn a_crash_fails_the_syncs_that_are_held() {
    let (fs, file) = disk_with("a", b"old");
    file.write_all_at(b"new", 0).unwrap();
    let gate = fs.hold_syncs("");
    std::thread::scope(|scope| {
        let held = scope.spawn(|| file.sync_data());
        assert!(gate.wait_until_held(1));
        let rebooted = fs.crash(CrashPolicy::DropAll);
        assert!(held.join().unwrap().is_err());
        assert_eq!(rebooted.contents("a").unwrap(), b"old");
    });
}

#[test]
fn unreadable_bytes_stay_unreadable_and_others_readable() {
    let (fs, file) = disk_with("a", &[7; 10_000]);
    fs.make_unreadable("a", 4_000..4_001).unwrap();
    let check = |file: &dyn crate::fs::File| {
        let read = |from: u64, to: u64| file.read_exact_at(&mut vec![0; (to - from) as usize], from);
        assert_eq!(read(0, 10_000).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(read(4_000, 4_001).unwrap_err().kind(), ErrorKind::InvalidData);
        assert!(read(0, 4_000).is_ok() && read(4_001, 10_000).is_ok());
    };
    check(file.as_ref());
    file.write_all_at(&[8; 100], 3_950).unwrap();
    file.sync_data().unwrap();
    for fs in [fs.kill(), fs.crash(CrashPolicy::DropAll)] {
        check(fs.open("a").unwrap().as_ref());
    }
    assert!(fs.make_unreadable("b", 0..1).is_err());
}
