//! Backups of a store in use, and restoring them. Source and target are different disks here;
//! `tests/tools/backup.rs` covers hard links.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::model::Model;
use super::*;
use crate::base::limits::PAGE_BYTES;
use crate::format::{BackupCurrent, FileKind, log_path, segment_path};
use crate::fs::ReadOnlyFs;
use crate::fs::sim::{CrashPolicy, OpKind};
use crate::keys::first_file;
use crate::log::list_numbers;
use crate::offline::backup::{
    BackupError, BackupOptions, BackupReport, BackupSource, RestoreReport, backup, restore,
};

fn small() -> StoreOptions {
    StoreOptions {
        segment_max_bytes: 100_000,
        log_file_max_bytes: 16_384,
        checkpoint_after_bytes: 8_192,
        ..options()
    }
}

fn try_backup(from: &SimFs, to: &SimFs, options: BackupOptions) -> Result<BackupReport, BackupError> {
    backup_while(from, to, options, &|| ())
}

/// Makes a backup, with `meanwhile` called before each segment is pinned.
fn backup_while(
    from: &SimFs,
    to: &SimFs,
    options: BackupOptions,
    meanwhile: &dyn Fn(),
) -> Result<BackupReport, BackupError> {
    let elsewhere = |_: &str, _: &str| {
        meanwhile();
        Err(io::ErrorKind::CrossesDevices.into())
    };
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    backup(&BackupSource { fs: from, link: &elsewhere }, to, &clock, options, &mut |_| {})
}

fn back_up(from: &SimFs, to: &SimFs) -> BackupReport {
    try_backup(from, to, BackupOptions::default()).expect("a backup can be made")
}

fn try_restore(from: &SimFs) -> Result<(RestoreReport, SimFs), BackupError> {
    let to = SimFs::new();
    let report = restore(from, &to, &mut |_| {})?;
    Ok((report, to))
}

/// The content of a backup, with everything checked.
fn restored(from: &SimFs) -> Model {
    let (report, to) = try_restore(from).expect("the backup can be restored");
    assert_eq!(report.findings, []);
    // Appending to the restored store leaves the backup unchanged.
    Model::of(&open_with(&to, small()).unwrap())
}

/// Some sealed segments and some unsealed ones, versions, and an upload in progress.
fn filled(fs: &SimFs) -> Store {
    let store = open_with(fs, small()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    store.set_versioning("b", Versioning::Enabled).unwrap();
    fill(&store, 0);
    let upload = begin_upload(&store, "b", "film").unwrap();
    let mut part = store.part_writer("b", "film", upload, 1, None).unwrap();
    part.write(bytes(9, 70_000)).unwrap();
    part.commit(Md5::of(&bytes(9, 70_000)), None).unwrap();
    store
}

fn fill(store: &Store, first: u64) {
    for seed in first..first + 5 {
        put(store, "b", &format!("large{seed}"), &bytes(seed, 80_000)).unwrap();
        put(store, "b", "small", &bytes(seed, 100)).unwrap();
    }
    delete(store, "b", "small", Selector::Current).unwrap();
}

#[test]
fn a_store_in_use_is_restored_as_it_was() {
    let fs = SimFs::new();
    let target = SimFs::new();
    let store = filled(&fs);
    let report =
        try_backup(&fs, &target, BackupOptions { verify: true, ..BackupOptions::default() }).unwrap();
    assert_eq!((report.linked.count, report.kept.count), (0, 0));
    assert!(report.copied.count >= 5 && report.metadata_bytes > 0, "{report:?}");
    assert_eq!(report.sequence, store.health().sequence);
    assert_eq!(restored(&target), Model::of(&store));
    let left: Vec<_> = fs.files().into_iter().filter(|(path, _)| path.ends_with(".pin")).collect();
    assert_eq!(left, []);
}

#[test]
fn a_second_backup_copies_only_what_is_new_and_drops_what_is_gone() {
    let fs = SimFs::new();
    let target = SimFs::new();
    let store = filled(&fs);
    let first = back_up(&fs, &target);
    fill(&store, 100);
    let before = target.operations() as usize;
    let second = back_up(&fs, &target);
    assert_ne!(first.slot, second.slot);
    assert!(second.kept.count >= 4 && second.copied.count < first.copied.count + 6, "{second:?}");
    let dir = second.slot.dir();
    for op in &target.trace()[before..] {
        if let OpKind::Link { to } = &op.kind {
            let written = |op: &crate::fs::sim::Op| op.kind == OpKind::Write && op.path == *to;
            assert!(!target.trace()[before..].iter().any(written), "{to} was linked and written");
        }
    }
    assert!(target.files().iter().all(|(path, _)| path.starts_with(dir) || !path.contains('/')));
    assert_eq!(restored(&target), Model::of(&store));
    // An emptied store keeps its active segments only.
    drop(store);
    let other = SimFs::new();
    let target = SimFs::new();
    let store = open_with(&other, small()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", &bytes(1, 70_000)).unwrap();
    back_up(&other, &target);
    delete(&store, "b", "k", Selector::Current).unwrap();
    let empty = back_up(&other, &target);
    assert_eq!((empty.kept.count, empty.copied.count), (0, 0));
    assert!(!target.files().iter().any(|(path, _)| path.ends_with(FileKind::Segment.suffix())));
}

#[test]
fn a_segment_that_has_the_id_of_another_one_is_not_taken_for_it() {
    let fs = SimFs::new();
    let target = SimFs::new();
    let store = filled(&fs);
    let slot = back_up(&fs, &target).slot.dir();
    let sealed = list_numbers(&fs, FileKind::Segment).unwrap()[0];
    target.overwrite(&format!("{slot}/{}", segment_path(sealed)), 56, &[1, 2, 3]).unwrap();
    back_up(&fs, &target);
    assert_eq!(restored(&target), Model::of(&store));
}

/// One client overwrites ten keys in turn with rising numbers, and the space of the old versions is
/// reclaimed.
fn write_numbers(store: &Store, acknowledged: &AtomicU64, stop: &AtomicBool) {
    for number in 1_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let len = if number.is_multiple_of(3) { 70_000 } else { 500 };
        put(store, "b", &format!("key{}", number % 10), &numbered(number, len)).unwrap();
        acknowledged.store(number, Ordering::Relaxed);
        store.reclaim().unwrap();
    }
}

fn numbered(number: u64, len: usize) -> Vec<u8> {
    let mut content = bytes(number, len);
    content[..8].copy_from_slice(&number.to_le_bytes());
    content
}

#[test]
fn a_backup_taken_while_clients_write_is_the_store_at_one_moment() {
    for round in 0..6 {
        let fs = SimFs::new();
        let target = SimFs::new();
        let store = open_with(&fs, small()).unwrap();
        store.create_bucket("b", "admin").unwrap();
        let acknowledged = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| write_numbers(&store, &acknowledged, &stop));
            for _ in 0..3 {
                while acknowledged.load(Ordering::Relaxed) < 20 + round {
                    std::thread::yield_now();
                }
                let before = acknowledged.load(Ordering::Relaxed);
                back_up(&fs, &target);
                let (report, to) = try_restore(&target).expect("it can be restored");
                assert_eq!(report.findings, []);
                check_moment(&open_with(&to, small()).unwrap(), before);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

/// Every key has the last of its numbers up to the highest number in the backup, which is at least
/// the last acknowledged one.
fn check_moment(store: &Store, acknowledged: u64) {
    let number_of = |key: &String| {
        let content = get(store, "b", key).unwrap();
        let number = u64::from_le_bytes(content[..8].try_into().unwrap());
        assert!(content == numbered(number, content.len()), "{key}");
        number
    };
    let numbers: Vec<_> = keys(store, "b").iter().map(number_of).collect();
    let last = *numbers.iter().max().unwrap();
    assert!(last >= acknowledged, "{last} < {acknowledged}");
    for (digit, number) in numbers.iter().enumerate() {
        assert_eq!(*number, last - (last + 10 - digit as u64) % 10);
    }
}

#[test]
fn segments_reclaimed_before_they_are_pinned_are_not_in_the_backup() {
    let fs = SimFs::new();
    let target = SimFs::new();
    let store = filled(&fs);
    let version = store.find("b", "large1", Selector::Current).unwrap().version;
    let first = Cell::new(true);
    let verify = BackupOptions { verify: true, ..BackupOptions::default() };
    let made = backup_while(&fs, &target, verify, &|| {
        if first.replace(false) {
            delete(&store, "b", "large1", Selector::Id(version.id)).unwrap();
            let extent = version.extents[0];
            fs.overwrite(&segment_path(extent.segment), extent.offset, &[0; 80_000]).unwrap();
        }
    });
    assert!(made.is_ok(), "{made:?}");
    assert_eq!(restored(&target), Model::of(&store));
}

#[test]
fn segments_created_while_others_are_pinned_are_pinned_too() {
    let fs = SimFs::new();
    let target = SimFs::new();
    let store = filled(&fs);
    let calls = Cell::new(0);
    back_up_while_writing(&fs, &target, &store, &calls);
    assert!(calls.get() > 8, "{calls:?}");
    assert_eq!(restored(&target), Model::of(&store));
}

/// Fills another segment during a backup, three times.
fn back_up_while_writing(fs: &SimFs, target: &SimFs, store: &Store, calls: &Cell<u64>) {
    let write = || {
        calls.set(calls.get() + 1);
        if calls.get() < 12 && calls.get().is_multiple_of(4) {
            (0..3).for_each(|n| assert!(put(store, "b", &format!("new{n}"), &bytes(n, 80_000)).is_ok()));
        }
    };
    backup_while(fs, target, BackupOptions::default(), &write).unwrap();
}

#[test]
fn a_crash_at_any_step_leaves_the_former_backup_or_the_new_one() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let old = Model::of(&store);
    let first = SimFs::new();
    back_up(&fs, &first);
    fill(&store, 100);
    let new = Model::of(&store);
    let mut seen = [0, 0];
    for stop in 1_u64.. {
        let target = first.crash(CrashPolicy::KeepAll);
        target.stop_at(stop);
        let ended = try_backup(&fs, &target, BackupOptions::default()).is_ok();
        let policies = [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(stop)];
        let after = target.crash(policies[stop as usize % 3]);
        let found = restored(&after);
        seen[usize::from(found == new)] += 1;
        assert!(found == old || found == new, "power lost at operation {stop}");
        if stop.is_multiple_of(7) {
            back_up(&fs, &after);
            assert_eq!(restored(&after), new, "after operation {stop}");
        }
        if ended {
            assert!(found == new && seen[0] > 20 && seen[1] > 3, "{seen:?}");
            return;
        }
    }
}

#[test]
fn an_incomplete_first_backup_is_not_a_backup() {
    let fs = SimFs::new();
    let target = SimFs::new();
    drop(filled(&fs));
    target.stop_at(20);
    assert!(try_backup(&fs, &target, BackupOptions::default()).is_err());
    let target = target.crash(CrashPolicy::KeepAll);
    assert!(matches!(try_restore(&target), Err(BackupError::NotABackup)));
    back_up(&fs, &target);
    assert!(try_restore(&target).is_ok());
}

#[test]
fn a_target_that_is_something_else_is_left_alone() {
    let fs = SimFs::new();
    let target = SimFs::new();
    drop(filled(&fs));
    target.create("letters.txt").unwrap();
    let refused = try_backup(&fs, &target, BackupOptions::default());
    assert!(matches!(refused, Err(BackupError::Foreign(name)) if name == "letters.txt"));
    assert_eq!(target.files().len(), 1);
    let target = SimFs::new();
    back_up(&fs, &target);
    let other = SimFs::new();
    let entropy = SeededEntropy::new(2);
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1)));
    drop(Store::open(Arc::new(other.clone()), clock, &entropy, small()).unwrap());
    let refused = try_backup(&other, &target, BackupOptions::default());
    assert!(matches!(refused, Err(BackupError::OtherStore)));
    assert!(matches!(
        try_backup(&SimFs::new(), &target, BackupOptions::default()),
        Err(BackupError::NotAStore)
    ));
    let _held = target.lock("LOCK").unwrap();
    assert!(matches!(try_backup(&fs, &target, BackupOptions::default()), Err(BackupError::Busy)));
}

#[test]
fn without_space_nothing_is_started_and_partial_files_are_removed() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let old = Model::of(&store);
    let target = SimFs::with_capacity(2_000_000);
    back_up(&fs, &target);
    fill(&store, 100);
    fill(&store, 200);
    let refused = try_backup(&fs, &target, BackupOptions::default());
    assert!(matches!(refused, Err(BackupError::NoRoom { .. })), "{refused:?}");
    assert!(target.files().iter().all(|(path, _)| !path.starts_with("b/")), "{:?}", target.files());
    assert_eq!(restored(&target), old);
}

#[test]
fn damage_keeps_the_former_backup() {
    let fs = SimFs::new();
    let target = SimFs::new();
    let store = filled(&fs);
    let old = Model::of(&store);
    back_up(&fs, &target);
    let extent = store.find("b", "large1", Selector::Current).unwrap().version.extents[0];
    drop(store);
    let whole = BackupOptions { verify: true, ..BackupOptions::default() };
    fs.damage(&segment_path(extent.segment), extent.offset + 100, 1).unwrap();
    // The segment is sealed, and the former backup has it; the copied files are good.
    assert!(try_backup(&fs, &target, whole).is_ok());
    let empty = SimFs::new();
    let refused = try_backup(&fs, &empty, whole);
    assert!(matches!(&refused, Err(BackupError::Findings(found)) if found.len() == 1), "{refused:?}");
    assert!(matches!(try_restore(&empty), Err(BackupError::NotABackup)));
    // The newest log file holds more than one group, so that the first is known to be durable.
    let store = open_with(&fs, StoreOptions { checkpoint_after_bytes: u64::MAX, ..small() }).unwrap();
    fill(&store, 300);
    let newest = || *list_numbers(&fs, FileKind::Log).unwrap().last().unwrap();
    while newest() == store.health().sequence {
        put(&store, "b", "small", b"more").unwrap();
    }
    drop(store);
    let newest = newest();
    fs.damage(&log_path(newest), PAGE_BYTES + 10, 1).unwrap();
    let refused = try_backup(&fs, &target, BackupOptions::default());
    assert!(
        matches!(&refused, Err(BackupError::Damaged(damage)) if damage.file == log_path(newest)),
        "{refused:?}"
    );
    assert_eq!(restored(&target), old);
}

#[test]
fn a_damaged_backup_is_reported() {
    let fs = SimFs::new();
    let target = SimFs::new();
    let store = filled(&fs);
    let slot = back_up(&fs, &target).slot.dir();
    let extent = store.find("b", "large1", Selector::Current).unwrap().version.extents[0];
    target.damage(&format!("{slot}/{}", segment_path(extent.segment)), extent.offset + 100, 1).unwrap();
    let (report, _) = try_restore(&target).unwrap();
    assert_eq!(report.findings.len(), 1);
    // A newer version of the line is not damage.
    target.overwrite(BackupCurrent::PATH, 17, b"2").unwrap();
    assert!(
        matches!(try_restore(&target), Err(BackupError::Io(error)) if error.to_string().contains("newer"))
    );
    target.overwrite(BackupCurrent::PATH, 17, b"1").unwrap();
    target.damage(BackupCurrent::PATH, 30, 1).unwrap();
    assert!(matches!(try_restore(&target), Err(BackupError::Damaged(_))));
    assert!(matches!(try_backup(&fs, &target, BackupOptions::default()), Err(BackupError::Damaged(_))));
}

#[test]
fn users_are_copied_only_with_the_option() {
    let fs = SimFs::new();
    let target = SimFs::new();
    drop(filled(&fs));
    fs.create("users.toml").unwrap().write_all_at(b"[[user]]", 0).unwrap();
    let ring = first_file(Timestamp::from_millis(1), &SeededEntropy::new(1));
    fs.create("keys.toml").unwrap().write_all_at(ring.as_bytes(), 0).unwrap();
    back_up(&fs, &target);
    let (report, to) = try_restore(&target).unwrap();
    assert!(
        !report.with_users && !report.with_keys && !to.list("").unwrap().contains(&"keys.toml".to_owned())
    );
    try_backup(&fs, &target, BackupOptions { with_users: true, ..BackupOptions::default() }).unwrap();
    let (report, to) = try_restore(&target).unwrap();
    assert!(report.with_users && report.with_keys);
    assert_eq!(to.contents("users.toml").unwrap(), b"[[user]]");
    assert_eq!(to.contents("keys.toml").unwrap(), ring.as_bytes());
}

#[test]
fn a_store_is_restored_into_an_empty_directory_only() {
    let fs = SimFs::new();
    let target = SimFs::new();
    drop(filled(&fs));
    back_up(&fs, &target);
    let files = fs.files();
    assert!(matches!(restore(&target, &fs, &mut |_| {}), Err(BackupError::NotEmpty)));
    assert_eq!(fs.files(), files);
    let little = SimFs::with_capacity(10_000);
    assert!(matches!(restore(&target, &little, &mut |_| {}), Err(BackupError::NoRoom { .. })));
}

#[test]
fn the_remains_of_a_crashed_restore_do_not_pass_for_the_store() {
    let fs = SimFs::new();
    let target = SimFs::new();
    let store = filled(&fs);
    let whole = Model::of(&store);
    back_up(&fs, &target);
    for stop in 1_u64.. {
        let to = SimFs::new();
        to.stop_at(stop);
        let ended = restore(&target, &to, &mut |_| {}).is_ok();
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll] {
            match open_with(&to.crash(policy), small()) {
                // Either nothing or everything was restored; or damage is reported, and nothing is
                // written.
                Ok(store) if store.buckets().is_empty() && store.health().damage.is_empty() => {
                    assert!(!ended && store.health().sequence == 0, "stopped at {stop}, {policy:?}");
                }
                Ok(store) if store.health().read_only.is_none() => assert_eq!(Model::of(&store), whole),
                Ok(_) | Err(OpenError::Damaged(_)) => assert!(!ended),
                Err(other) => panic!("stopped at {stop}, {policy:?}: {other}"),
            }
        }
        if ended {
            return;
        }
    }
}

/// Backs up a store with a read-only data directory, as through a read-only mount. `meanwhile` is
/// called once, before the first segment is copied.
fn back_up_read_only(from: &SimFs, to: &SimFs, meanwhile: &dyn Fn()) -> Result<BackupReport, BackupError> {
    let read_only = ReadOnlyFs::new(from);
    let elsewhere = |_: &str, _: &str| Err(io::ErrorKind::CrossesDevices.into());
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let mut once = Some(meanwhile);
    let mut progress = |progress: Progress| {
        if progress.step == ProgressStep::CopySegments {
            once.take().into_iter().for_each(|meanwhile| meanwhile());
        }
    };
    backup(
        &BackupSource { fs: &read_only, link: &elsewhere },
        to,
        &clock,
        BackupOptions::default(),
        &mut progress,
    )
}

/// Three objects large enough for holes in one sealed segment, and a fourth elsewhere.
fn with_room_for_holes(fs: &SimFs) -> Store {
    let store = open_with(fs, StoreOptions { segment_max_bytes: 8 << 20, ..options() }).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for at in 0..3 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 2_000_000)).unwrap();
    }
    store.shared.segments.retire(|_| true);
    put(&store, "b", "last", &bytes(9, 100_000)).unwrap();
    reclaim_all(&store).unwrap();
    store
}

fn punches(fs: &SimFs) -> usize {
    fs.trace().iter().filter(|op| op.kind == OpKind::Punch).count()
}

#[test]
fn no_holes_are_punched_into_segments_copied_through_a_read_only_mount() {
    let fs = SimFs::new();
    let target = SimFs::new();
    let store = with_room_for_holes(&fs);
    let before = Model::of(&store);
    back_up_read_only(&fs, &target, &|| {
        delete(&store, "b", "k1", Selector::Current).unwrap();
        reclaim_all(&store).unwrap();
    })
    .unwrap();
    assert_eq!(punches(&fs), 0);
    let (report, restored) = try_restore(&target).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(Model::of(&open(&restored)), before);
    reclaim_all(&store).unwrap();
    assert_eq!(punches(&fs), 1, "the backup holds nothing any more");
}

#[test]
fn copies_are_checked_and_zeros_in_place_of_an_object_keep_the_former_backup() {
    let fs = SimFs::new();
    let target = SimFs::new();
    let store = with_room_for_holes(&fs);
    let extent = store.find("b", "last", Selector::Current).unwrap().version.extents[0];
    let former = Model::of(&store);
    back_up(&fs, &target);
    put(&store, "b", "more", &bytes(10, 100)).unwrap();
    let segment = segment_path(extent.segment);
    // As by a server that ignores the lock.
    let zeros = vec![0; extent.payload_len as usize + 64];
    let refused = back_up_read_only(&fs, &target, &|| fs.overwrite(&segment, extent.offset, &zeros).unwrap());
    let Err(BackupError::Findings(found)) = &refused else { panic!("{refused:?}") };
    let places: Vec<_> = found.iter().map(|f| (f.damage.file.as_str(), f.damage.offset)).collect();
    assert_eq!(places, [(segment.as_str(), extent.offset)]);
    assert_eq!(found[0].owner.as_ref().unwrap().key, "last");
    assert_eq!(restored(&target), former);
}

#[test]
fn each_part_of_an_extent_that_is_copied_is_checked() {
    let fs = SimFs::new();
    let store = with_room_for_holes(&fs);
    let extent = store.find("b", "last", Selector::Current).unwrap().version.extents[0];
    drop(store);
    let payload = extent.offset + 64;
    let len = u64::from(extent.payload_len);
    for at in [extent.offset, payload, payload + 70_000, payload + len, payload + len + 8 + 2] {
        fs.damage(&segment_path(extent.segment), at, 1).unwrap();
        let refused = try_backup(&fs, &SimFs::new(), BackupOptions::default());
        assert!(
            matches!(&refused, Err(BackupError::Findings(found)) if found.len() == 1),
            "{at}: {refused:?}"
        );
        fs.damage(&segment_path(extent.segment), at, 1).unwrap();
        try_backup(&fs, &SimFs::new(), BackupOptions::default()).unwrap();
    }
}
