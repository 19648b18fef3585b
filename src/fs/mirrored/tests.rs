//! Two simulated disks, of which one fails.

use std::collections::BTreeSet;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::base::NOT_POISONED;
use crate::fs::conformance::{conformance, read, write};
use crate::fs::sim::{CrashPolicy, SimFs};
use crate::fs::{VerifiedCopy, forward_file, forward_fs};

/// What was dropped, and what was dirty then.
#[derive(Default)]
struct Dropped {
    sides: Mutex<Vec<(Side, Vec<String>)>>,
    /// Whether no mark can be written.
    fails: bool,
}

impl SideKeeper for Dropped {
    fn drop_side(&self, dropped: Side, dirty: &[String], _: &io::Error) -> io::Result<()> {
        if self.fails {
            return Err(io::Error::other("no mark"));
        }
        self.sides.lock().expect(NOT_POISONED).push((dropped, dirty.to_vec()));
        Ok(())
    }
}

struct Disks {
    first: SimFs,
    second: SimFs,
    keeper: Arc<Dropped>,
    both: MirroredFs,
}

impl Disks {
    fn with(uses: [SideUse; 2], keeper: Dropped) -> Self {
        let first = SimFs::new();
        let second = SimFs::new();
        let keeper = Arc::new(keeper);
        let disks: [Arc<dyn Fs>; 2] = [Arc::new(first.clone()), Arc::new(second.clone())];
        let as_keeper: Arc<dyn SideKeeper> = keeper.clone();
        let both = MirroredFs::new(disks, uses, Side::First, as_keeper, Duration::from_secs(60), Vec::new());
        Self { first, second, keeper, both }
    }

    fn new() -> Self {
        Self::with([SideUse::Whole; 2], Dropped::default())
    }

    /// With a directory.
    fn made(uses: [SideUse; 2], keeper: Dropped) -> Self {
        let disks = Self::with(uses, keeper);
        for disk in [&disks.first, &disks.second] {
            disk.create_dir("d").unwrap();
        }
        disks
    }

    fn whole() -> Self {
        Self::made([SideUse::Whole; 2], Dropped::default())
    }

    fn dropped(&self) -> Vec<Side> {
        self.keeper.sides.lock().expect(NOT_POISONED).iter().map(|(side, _)| *side).collect()
    }

    fn disk(&self, side: Side) -> &SimFs {
        [&self.first, &self.second][side.index()]
    }
}

fn with_both(test: fn(&dyn Fs)) {
    let disks = Disks::new();
    test(&disks.both);
    assert_eq!(disks.dropped(), []);
    assert_eq!(disks.first.files(), disks.second.files());
}

fn with_either(test: fn(&dyn Fs)) {
    test(&Disks::with([SideUse::Whole, SideUse::Out], Dropped::default()).both);
}

fn with_filled(test: fn(&dyn Fs)) {
    let disks = Disks::with([SideUse::Whole, SideUse::Filled], Dropped::default());
    test(&disks.both);
    assert_eq!(disks.dropped(), []);
}

conformance!(both: super::with_both);
conformance!(one_left: super::with_either);
conformance!(one_filled: super::with_filled);

#[test]
fn a_side_that_fails_is_dropped_and_the_other_one_goes_on() {
    for side in Side::BOTH {
        let disks = Disks::whole();
        let file = write(&disks.both, "d/a", b"before");
        file.sync_data().unwrap();
        disks.disk(side).stop_at(disks.disk(side).operations() + 1);
        file.write_all_at(b"after!", 0).unwrap();
        file.sync_data().unwrap();
        disks.both.sync_dir("d").unwrap();
        assert_eq!(disks.dropped(), [side]);
        assert_eq!(disks.both.use_of(side), SideUse::Out);
        assert_eq!(read(disks.both.open_read("d/a").unwrap().as_ref()), b"after!");
        let left = disks.disk(side.other()).crash(CrashPolicy::DropAll);
        assert_eq!(left.contents("d/a").unwrap(), b"after!");
    }
}

#[test]
fn a_side_whose_sync_fails_is_dropped_with_what_it_may_lack() {
    let disks = Disks::whole();
    let clean = write(&disks.both, "d/clean", b"x");
    clean.sync_data().unwrap();
    let file = write(&disks.both, "d/dirty", b"x");
    disks.second.fail_sync_at(disks.second.syncs() + 1);
    file.sync_data().unwrap();
    let dropped = disks.keeper.sides.lock().unwrap().clone();
    assert_eq!(dropped, [(Side::Second, vec!["d/dirty".to_owned()])]);
}

#[test]
fn nothing_is_answered_where_the_drop_cannot_be_noted() {
    let disks = Disks::made([SideUse::Whole; 2], Dropped { fails: true, ..Dropped::default() });
    let file = write(&disks.both, "d/a", b"x");
    disks.second.fail_sync_at(disks.second.syncs() + 1);
    assert_eq!(file.sync_data().unwrap_err().to_string(), "no mark");
    assert_eq!(disks.both.use_of(Side::Second), SideUse::Whole);
}

#[test]
fn the_last_side_is_not_dropped() {
    let disks = Disks::whole();
    let file = write(&disks.both, "d/a", b"x");
    disks.first.stop_at(disks.first.operations() + 1);
    disks.second.stop_at(disks.second.operations() + 1);
    file.write_all_at(b"y", 0).unwrap_err();
    assert_eq!(disks.dropped(), []);
    disks.both.sync_dir("d").unwrap_err();
}

#[test]
fn a_full_side_is_no_reason_to_drop_it() {
    let disks = Disks::whole();
    let file = write(&disks.both, "d/a", b"x");
    disks.second.set_capacity(4096);
    let refused = file.write_all_at(&[1; 9000], 0).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.ensure_allocated(1, 9000).unwrap_err().kind(), io::ErrorKind::StorageFull);
    disks.second.lack_inodes(true);
    assert_eq!(disks.both.create("d/b").err().unwrap().kind(), io::ErrorKind::StorageFull);
    assert!(disks.first.contents("d/b").is_err(), "it was undone");
    assert_eq!(disks.dropped(), []);
}

#[test]
fn a_sync_that_never_ends_drops_its_side() {
    let disks = Disks::whole();
    let fs: [Arc<dyn Fs>; 2] = [Arc::new(disks.first.clone()), Arc::new(disks.second.clone())];
    let keeper: Arc<dyn SideKeeper> = disks.keeper.clone();
    let both =
        MirroredFs::new(fs, [SideUse::Whole; 2], Side::First, keeper, Duration::from_millis(20), Vec::new());
    let file = write(&both, "d/a", b"x");
    let gate = disks.first.hold_syncs("d/a");
    file.sync_data().unwrap();
    assert_eq!(disks.dropped(), [Side::First]);
    drop(gate);
    file.write_all_at(b"y", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(disks.first.contents("d/a").unwrap(), b"x", "nothing is written to it any more");
}

#[test]
fn bytes_that_one_side_cannot_read_come_from_the_other_and_are_listed() {
    let disks = Disks::whole();
    let file = write(&disks.both, "d/a", &[7; 9000]);
    file.sync_data().unwrap();
    disks.first.make_unreadable("d/a", 4096..4608).unwrap();
    assert_eq!(read(file.as_ref()), [7; 9000]);
    let bad = disks.both.take_bad_bytes();
    assert_eq!(bad.len(), 1);
    assert_eq!((bad[0].side, bad[0].offset, bad[0].len, bad[0].good_crc), (Side::First, 0, 9000, None));
    assert_eq!(disks.dropped(), []);
}

#[test]
fn a_copy_that_was_verified_is_listed_with_its_crc() {
    let disks = Disks::whole();
    let file = write(&disks.both, "d/a", b"abcd");
    disks.first.damage("d/a", 1, 0xff).unwrap();
    let mut out = [0; 2];
    let copy = file.elsewhere().unwrap();
    assert!(copy.read_copy(&mut out, 1).unwrap());
    assert_eq!(&out, b"bc");
    copy.note_bad(1, "the CRC", VerifiedCopy { offset: 1, bytes: b"xx" });
    assert_eq!(disks.both.take_bad_bytes(), [], "nobody has verified what was read");
    copy.note_bad(1, "the CRC", VerifiedCopy { offset: 1, bytes: b"bc" });
    let [bad] = &disks.both.take_bad_bytes()[..] else { panic!("one is listed") };
    assert_eq!((bad.side, bad.offset, bad.len), (Side::First, 1, 2));
    assert_eq!(bad.good_crc, Some(crate::base::digest::Crc32::of(b"bc")));
}

/// A side that does not answer may be the one that has the good bytes.
#[test]
fn a_copy_is_read_on_the_side_that_the_bad_bytes_are_not_of() {
    let disks = Disks::whole();
    let file = write(&disks.both, "d/a", b"abcd");
    let home = disks.both.home_of("d/a");
    let away = if home == Side::First { &disks.second } else { &disks.first };
    away.damage("d/a", 1, 0xff).unwrap();
    // The bad bytes were read away from home, and reads are of the home now.
    let mut out = [0; 2];
    away.open_read("d/a").unwrap().read_exact_at(&mut out, 1).unwrap();
    assert_ne!(&out, b"bc");
    let copy = file.elsewhere().unwrap();
    assert!(copy.read_copy(&mut out, 1).unwrap());
    assert_eq!(&out, b"bc");
    copy.note_bad(1, "the CRC", VerifiedCopy { offset: 1, bytes: b"bc" });
    assert_eq!(disks.both.take_bad_bytes()[0].side, home.other());
}

#[test]
fn a_side_that_is_being_filled_gets_what_is_written_and_is_not_read() {
    let disks = Disks::made([SideUse::Whole, SideUse::Filled], Dropped::default());
    write(&disks.first, "d/old", b"old");
    let old = disks.both.open("d/old").unwrap();
    old.punch(0, 0).unwrap();
    write(&disks.both, "d/new", b"new").sync_data().unwrap();
    assert_eq!(disks.second.contents("d/new").unwrap(), b"new");
    disks.first.make_unreadable("d/new", 0..3).unwrap();
    let file = disks.both.open_read("d/new").unwrap();
    assert_eq!(file.read_exact_at(&mut [0; 3], 0).unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert!(file.elsewhere().is_none());
    write(&disks.second, "d/new2", b"a copy").sync_data().unwrap();
    write(&disks.first, "d/new2.new", b"newer").sync_data().unwrap();
    disks.both.rename("d/new2.new", "d/new2").unwrap();
    assert!(disks.second.contents("d/new2").is_err(), "it is older than the name");
    disks.both.join(|| Ok(())).unwrap();
    assert_eq!(disks.both.use_of(Side::Second), SideUse::Whole);
    assert!(disks.both.join(|| Ok(())).is_err(), "there is none to join");
}

#[test]
fn a_filled_side_whose_addition_fails_is_dropped() {
    let disks = Disks::made([SideUse::Whole, SideUse::Filled], Dropped::default());
    assert!(disks.both.join(|| Err(io::Error::other("no mark"))).is_err());
    assert_eq!(disks.dropped(), [Side::Second]);
    assert_eq!(disks.both.use_of(Side::Second), SideUse::Out);
}

/// Notes that a side was dropped once it has waited for an answer that must not come before.
struct SlowKeeper {
    begun: crossbeam_channel::Sender<()>,
    answers: crossbeam_channel::Receiver<()>,
    was_early: AtomicBool,
}

impl SideKeeper for SlowKeeper {
    fn drop_side(&self, _: Side, _: &[String], _: &io::Error) -> io::Result<()> {
        let _ = self.begun.send(());
        let answered = self.answers.recv_timeout(Duration::from_millis(100));
        self.was_early.store(answered.is_ok(), Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn no_sync_is_answered_while_a_side_that_failed_is_being_dropped() {
    let first = SimFs::new();
    let second = SimFs::new();
    let (answer, answers) = crossbeam_channel::unbounded();
    let (begun, begins) = crossbeam_channel::unbounded();
    let keeper = Arc::new(SlowKeeper { begun, answers, was_early: AtomicBool::new(false) });
    let fs: [Arc<dyn Fs>; 2] = [Arc::new(first.clone()), Arc::new(second.clone())];
    let as_keeper: Arc<dyn SideKeeper> = keeper.clone();
    let patience = Duration::from_secs(60);
    let both = MirroredFs::new(fs, [SideUse::Whole; 2], Side::First, as_keeper, patience, Vec::new());
    let failing = write(&both, "failing", b"x");
    let other = write(&both, "other", b"x");
    second.fail_sync_at(second.syncs() + 1);
    thread::scope(|scope| {
        let failed = scope.spawn(|| failing.sync_data());
        // The system tells the failure to that thread alone.
        begins.recv().unwrap();
        other.sync_data().unwrap();
        let _ = answer.send(());
        failed.join().unwrap().unwrap();
    });
    assert!(!keeper.was_early.load(Ordering::SeqCst));
    assert_eq!(both.use_of(Side::Second), SideUse::Out);
}

#[test]
fn a_file_is_found_by_the_name_that_it_has_now() {
    let disks = Disks::whole();
    let file = write(&disks.both, "d/a.new", &[7; 9000]);
    disks.both.rename("d/a.new", "d/a").unwrap();
    file.sync_data().unwrap();
    disks.first.make_unreadable("d/a", 0..512).unwrap();
    assert_eq!(read(file.as_ref()), [7; 9000]);
    let bad = disks.both.take_bad_bytes();
    assert_eq!(bad.iter().map(|bad| bad.path.as_str()).collect::<Vec<_>>(), ["d/a"]);
    // Another file takes the name on one side, and the handle goes on with it.
    write(&disks.first, "d/b", &[8; 9000]);
    disks.first.rename("d/b", "d/a").unwrap();
    disks.both.reopen(Side::First, "d/a").unwrap();
    assert_eq!(read(file.as_ref()), [8; 9000]);
}

#[test]
fn a_lack_of_descriptors_drops_no_side() {
    let disks = Disks::whole();
    write(&disks.both, "d/a", b"x");
    disks.second.fail_opens(disks.second.opens() + 1..disks.second.opens() + 2);
    assert_eq!(disks.both.sync_dir("d").unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    assert_eq!(disks.dropped(), []);
    disks.both.sync_dir("d").unwrap();
}

/// A disk that does not answer reads while its gate is closed.
struct StuckFs {
    disk: SimFs,
    gate: Arc<RwLock<()>>,
}

impl Fs for StuckFs {
    forward_fs!(disk: open_uncached, list, create_dir, rename, link, remove, sync_dir, lock, space);

    fn create_on(&self, place: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        self.disk.create_on(place, path)
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(path)
    }

    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(StuckFile { file: self.disk.open_read(path)?, gate: Arc::clone(&self.gate) }))
    }
}

struct StuckFile {
    file: Arc<dyn File>,
    gate: Arc<RwLock<()>>,
}

impl File for StuckFile {
    forward_file!(file: len, write_all_at, reserve, truncate, punch, next_hole, lock_shared, has_shared_lock);
    forward_file!(file: usage, start_writeback, sync_data, evict);

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let _open = self.gate.read().expect(NOT_POISONED);
        self.file.read_exact_at(buf, offset)
    }
}

#[test]
fn reads_go_to_the_other_disk_until_one_that_is_stuck_has_answered() {
    let second = SimFs::new();
    let gate = Arc::new(RwLock::new(()));
    let stuck = StuckFs { disk: SimFs::new(), gate: Arc::clone(&gate) };
    let disks: [Arc<dyn Fs>; 2] = [Arc::new(stuck), Arc::new(second.clone())];
    let keeper: Arc<dyn SideKeeper> = Arc::new(Dropped::default());
    let both =
        MirroredFs::new(disks, [SideUse::Whole; 2], Side::First, keeper, Duration::from_secs(60), Vec::new());
    let path = "b";
    assert_eq!(both.sides.home_of(path), Side::First);
    write(&both, path, &[7; 9000]).sync_data().unwrap();
    let file = both.open_read(path).unwrap();
    let (answer, answers) = crossbeam_channel::unbounded();
    thread::scope(|scope| {
        let closed = gate.write().unwrap();
        let read_once = || {
            let answer = answer.clone();
            let file = Arc::clone(&file);
            scope.spawn(move || answer.send(read(file.as_ref())));
        };
        read_once();
        while !both.sides.reads_on(Side::First).is_slow() {
            assert!(answers.is_empty(), "the disk is stuck");
            thread::sleep(Duration::from_millis(20));
            read_once();
        }
        read_once();
        assert_eq!(answers.recv_timeout(Duration::from_secs(60)).unwrap(), [7; 9000]);
        // A file that is opened now is read there, too.
        assert_eq!(read(both.open_read(path).unwrap().as_ref()), [7; 9000]);
        drop(closed);
    });
    second.make_unreadable(path, 0..512).unwrap();
    assert_eq!(read(file.as_ref()), [7; 9000]);
    assert_eq!(both.take_bad_bytes(), [], "it was read on its own disk");
}

#[test]
fn files_are_divided_between_the_disks_by_their_names_while_both_are_whole() {
    let disks = Disks::whole();
    let mut homes = BTreeSet::new();
    for id in 0..4 {
        let path = format!("d/{id:016x}.seg");
        write(&disks.both, &path, b"x").sync_data().unwrap();
        let home = disks.both.sides.home_of(&path);
        homes.insert(home.index());
        disks.disk(home.other()).make_unreadable(&path, 0..1).unwrap();
        assert_eq!(read(disks.both.open_read(&path).unwrap().as_ref()), b"x");
        assert_eq!(disks.both.take_bad_bytes(), [], "{path}");
    }
    assert_eq!(homes.len(), 2);
    let degraded = Disks::with([SideUse::Whole, SideUse::Out], Dropped::default());
    assert_eq!(degraded.both.sides.home_of("d/0"), Side::First);
    assert_eq!(degraded.both.sides.home_of("d/1"), Side::First);
}
