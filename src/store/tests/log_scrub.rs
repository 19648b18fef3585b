//! Damage of the log and of checkpoints is found while the store is open, and a new checkpoint takes
//! the place of what is damaged.

use super::model::Model;
use super::*;
use crate::base::limits::{LOG_SCRUB_EVERY_SECS, PAGE_BYTES};
use crate::base::test_scope::points;
use crate::format::{FileKind, checkpoint_path, log_path};
use crate::fs::Fs;
use crate::fs::sim::CrashPolicy;
use crate::log::list_numbers;

const SOON: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(LOG_SCRUB_EVERY_SECS);
/// More than the tests store.
const ALL: u64 = 1 << 30;

struct Scrubbing {
    fs: SimFs,
    clock: Arc<ManualClock>,
    store: Store,
    model: Model,
}

impl Scrubbing {
    /// A store with two checkpoints, log files between them, and more after the newer one.
    fn new() -> Self {
        Self::on(SimFs::new(), options())
    }

    fn on(fs: SimFs, options: StoreOptions) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let opened =
            Store::open(Arc::new(fs.clone()), clock.clone(), &SeededEntropy::new(1), options).unwrap();
        opened.create_bucket("b", "admin").unwrap();
        for round in 0..3 {
            for key in 0..40 {
                put(&opened, "b", &format!("{round}/{key}"), &bytes(key, 700)).unwrap();
            }
            if round < 2 {
                opened.checkpoint().unwrap();
            }
        }
        // Where the directory has nothing but durable bytes, the disk shows all damage.
        opened.close();
        drop(opened);
        let store =
            Store::open(Arc::new(fs.clone()), clock.clone(), &SeededEntropy::new(1), options).unwrap();
        for key in 0..80 {
            put(&store, "b", &format!("last/{key}"), &bytes(key, 300)).unwrap();
        }
        let model = Model::of(&store);
        Self { fs, clock, store, model }
    }

    fn numbers(&self, kind: FileKind) -> Vec<u64> {
        list_numbers(&self.fs, kind).unwrap()
    }

    /// Runs the pass that is due after `time`.
    fn pass_after(&self, time: Duration) {
        self.clock.advance(time);
        while self.store.scrub(ALL).unwrap().more {}
    }

    fn files(&self) -> Vec<String> {
        self.fs.files().into_iter().map(|(path, _)| path).filter(|path| path.starts_with("meta/")).collect()
    }

    /// The file was replaced, and what the store had is there after a crash.
    fn check_replaced(&self, path: &str) {
        let replaced = self.store.replaced_log_files();
        assert_eq!(replaced.iter().map(|bad| bad.file.as_str()).collect::<Vec<_>>(), [path]);
        assert!(replaced[0].repaired.is_some());
        let health = self.store.health();
        assert_eq!((health.damage, health.read_only), (vec![], None));
        assert_eq!(health.scrub.replaced_log_files, 1);
        assert!(!self.files().contains(&path.to_owned()), "{path} is still there");
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll] {
            let next = open(&self.fs.copy().crash(policy));
            let health = next.health();
            assert_eq!((health.damage, health.read_only), (vec![], None));
            assert!(self.model.agrees_with(&Model::of(&next)));
            put(&next, "b", "more", b"more").unwrap();
        }
        // The next pass finds nothing.
        self.pass_after(SOON);
        assert_eq!(self.store.replaced_log_files().len(), 1);
        assert!(self.store.health().scrub.log_finished.is_some());
    }
}

#[test]
fn an_undamaged_log_is_read_once_a_day_and_left_as_it_is() {
    let scrubbing = Scrubbing::new();
    let before = scrubbing.files();
    let finished = || scrubbing.store.health().scrub.log_finished;
    scrubbing.pass_after(SOON - Duration::from_secs(1));
    assert_eq!(finished(), None, "the start has just read it");
    scrubbing.pass_after(Duration::from_secs(1));
    let first = finished().expect("a pass has ended");
    scrubbing.pass_after(DAY - Duration::from_secs(1));
    assert_eq!(finished(), Some(first));
    scrubbing.pass_after(Duration::from_secs(1));
    assert!(finished() > Some(first));
    let of_log = |path: &String| path.ends_with(".log") || path.ends_with(".checkpoint");
    let after = scrubbing.files();
    assert!(before.iter().filter(|path| of_log(path)).eq(after.iter().filter(|path| of_log(path))));
    assert_eq!(scrubbing.store.replaced_log_files(), []);
}

#[test]
fn each_damaged_file_is_replaced() {
    let whole = Scrubbing::new();
    let checkpoints = whole.numbers(FileKind::Checkpoint);
    let logs = whole.numbers(FileKind::Log);
    assert!(checkpoints.len() == 2 && logs.len() >= 2, "{checkpoints:?} {logs:?}");
    let mut places = Vec::new();
    for path in checkpoints.iter().map(|n| checkpoint_path(*n)).chain(logs.iter().map(|n| log_path(*n))) {
        // The header of the file, of a group, and a body.
        places.extend([(path.clone(), 100), (path.clone(), PAGE_BYTES), (path, PAGE_BYTES + 90)]);
    }
    for (path, offset) in places {
        println!("{path} at {offset}");
        let scrubbing = Scrubbing::new();
        scrubbing.fs.damage(&path, offset, 1).unwrap();
        scrubbing.pass_after(SOON);
        scrubbing.check_replaced(&path);
    }
}

#[test]
fn an_unreadable_page_and_a_missing_file_are_damage_too() {
    let newest_log = |scrubbing: &Scrubbing| log_path(*scrubbing.numbers(FileKind::Log).last().unwrap());
    let scrubbing = Scrubbing::new();
    let path = newest_log(&scrubbing);
    scrubbing.fs.make_unreadable(&path, PAGE_BYTES..2 * PAGE_BYTES).unwrap();
    scrubbing.pass_after(SOON);
    scrubbing.check_replaced(&path);

    let scrubbing = Scrubbing::new();
    let oldest = log_path(scrubbing.numbers(FileKind::Log)[0]);
    scrubbing.fs.remove(&oldest).unwrap();
    scrubbing.fs.sync_dir("meta").unwrap();
    scrubbing.pass_after(SOON);
    assert_eq!(scrubbing.store.health().damage, []);
    assert!(scrubbing.model.agrees_with(&Model::of(&open(&scrubbing.fs.crash(CrashPolicy::DropAll)))));
}

#[test]
fn small_steps_find_what_one_large_step_finds() {
    let scrubbing = Scrubbing::new();
    let path = log_path(scrubbing.numbers(FileKind::Log)[0]);
    scrubbing.fs.damage(&path, 20 * PAGE_BYTES + 90, 1).unwrap();
    scrubbing.clock.advance(SOON);
    let mut steps = 0;
    while scrubbing.store.scrub(1).unwrap().more && scrubbing.store.replaced_log_files().is_empty() {
        steps += 1;
    }
    assert!(steps > 20, "{steps}");
    scrubbing.check_replaced(&path);
}

#[test]
fn changes_go_on_during_a_pass_and_files_that_are_no_more_needed_are_no_damage() {
    let scrubbing = Scrubbing::new();
    scrubbing.clock.advance(SOON);
    assert!(scrubbing.store.scrub(1).unwrap().more);
    for round in 0..3 {
        put(&scrubbing.store, "b", "new", &bytes(round, 300)).unwrap();
        assert!(scrubbing.store.scrub(1).unwrap().more);
        scrubbing.store.checkpoint().unwrap();
    }
    while scrubbing.store.scrub(1).unwrap().more {}
    assert_eq!((scrubbing.store.health().damage, scrubbing.store.replaced_log_files()), (vec![], vec![]));
    // The pass that lost its files is made up for soon.
    scrubbing.pass_after(SOON);
    assert!(scrubbing.store.health().scrub.log_finished.is_some());
}

#[test]
fn a_store_that_takes_no_writes_says_what_is_damaged_and_leaves_it() {
    let scrubbing = Scrubbing::new();
    let path = log_path(scrubbing.numbers(FileKind::Log)[0]);
    scrubbing.fs.damage(&path, PAGE_BYTES, 1).unwrap();
    scrubbing.fs.fail_sync_at(scrubbing.fs.syncs() + 1);
    put(&scrubbing.store, "b", "refused", b"refused").unwrap_err();
    scrubbing.pass_after(SOON);
    assert_eq!(scrubbing.store.health().damage[0].file, path);
    assert!(scrubbing.files().contains(&path) && scrubbing.store.replaced_log_files().is_empty());
}

#[test]
fn a_full_disk_puts_the_replacement_off() {
    let scrubbing = Scrubbing::new();
    let path = log_path(*scrubbing.numbers(FileKind::Log).last().unwrap());
    scrubbing.fs.damage(&path, PAGE_BYTES, 1).unwrap();
    scrubbing.fs.set_capacity(1);
    scrubbing.clock.advance(SOON);
    assert!(matches!(scrubbing.store.scrub(ALL), Err(StoreError::DiskFull)));
    assert_eq!(scrubbing.store.health().damage[0].file, path);
    scrubbing.fs.set_capacity(u64::MAX);
    scrubbing.pass_after(SOON);
    scrubbing.check_replaced(&path);
}

/// At each operation of a replacement the power goes. The damage is as it was, or gone, and so are
/// the objects.
#[test]
fn a_crash_during_the_replacement_loses_nothing_that_was_not_lost() {
    for kind in [FileKind::Checkpoint, FileKind::Log] {
        for stop in points(1) {
            let scrubbing = Scrubbing::new();
            let path = kind.path(*scrubbing.numbers(kind).last().unwrap());
            scrubbing.fs.damage(&path, PAGE_BYTES + 90, 1).unwrap();
            scrubbing.clock.advance(SOON);
            scrubbing.fs.stop_at(scrubbing.fs.operations() + stop);
            let replaced = scrubbing.store.scrub(ALL).is_ok();
            for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(stop)] {
                let next = open(&scrubbing.fs.crash(policy));
                let health = next.health();
                let is_whole = scrubbing.model.agrees_with(&Model::of(&next));
                let is_named = health.damage.iter().any(|damage| damage.file == path);
                println!("{path} at operation {stop}, {policy:?}: whole {is_whole}, named {is_named}");
                assert!(is_whole || is_named);
                assert!(is_whole || kind == FileKind::Log, "the older checkpoint has all");
                assert!(!replaced || !is_named);
            }
            if replaced {
                break;
            }
        }
    }
}
