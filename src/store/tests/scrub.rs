use std::time::Duration;

use super::*;
use crate::base::Clock;
use crate::base::limits::SCRUB_BAD_EXTENTS_MAX;
use crate::format::{ExtentHeader, ExtentRef, SCRUB, page_ceil, segment_path};
use crate::fs::Fs;
use crate::fs::sim::CrashPolicy;
use crate::offline::verify::NoteKind;

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
/// More than the tests store.
const ALL: u64 = 1 << 30;
/// Bytes of the first extents of the tests: headers, payloads and block tables.
const LIVE: u64 = 10 * (64 + 5_000) + (64 + 300_000 + 5 * 4) + 64 + (64 + 70_000 + 2 * 4) + 64;

struct Scrubbing {
    fs: SimFs,
    clock: Arc<ManualClock>,
    store: Option<Store>,
}

impl Scrubbing {
    /// A store with small and large objects, versions, and a part of an upload.
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let mut this = Self { fs: SimFs::new(), clock, store: None };
        this.reopen();
        let store = this.store();
        store.create_bucket("b", "admin").unwrap();
        for key in 0..10 {
            put(store, "b", &format!("small{key}"), &bytes(key, 5_000)).unwrap();
        }
        put(store, "b", "large", &bytes(1, 300_000)).unwrap();
        let upload = begin_upload(store, "b", "film").unwrap();
        let mut part = store.part_writer("b", "film", upload, 1, None).unwrap();
        part.write(bytes(9, 70_000)).unwrap();
        part.commit([0; 16], None).unwrap();
        this
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn reopen(&mut self) {
        self.store = None;
        let fs = Arc::new(self.fs.clone());
        let clock = self.clock.clone();
        self.store = Some(Store::open(fs, clock, &SeededEntropy::new(1), options()).unwrap());
    }

    fn scrub(&self, budget: u64) -> Scrubbed {
        self.store().scrub(budget).unwrap()
    }

    /// Runs a whole pass, and returns the numbers of checked and of bad extents.
    fn pass(&self) -> (u64, u64) {
        let done = self.scrub(ALL);
        assert!(!done.more);
        (done.extents, done.bad)
    }

    fn extent(&self, key: &str) -> ExtentRef {
        self.store().find("b", key, Selector::Current).unwrap().version.extents[0]
    }

    /// Flips a bit of an object. Returns the file and the block.
    fn damage(&self, key: &str) -> Damage {
        let ExtentRef { segment, offset, .. } = self.extent(key);
        self.fs.damage(&segment_path(segment), offset + 64 + 100, 1).unwrap();
        Damage::new(segment_path(segment), offset + 64, "")
    }

    /// Files and offsets of the damage in the health report.
    fn told(&self) -> Vec<(String, u64)> {
        self.store().health().damage.into_iter().map(|damage| (damage.file, damage.offset)).collect()
    }
}

#[test]
fn a_pass_checks_every_extent_once_and_rests_for_a_week() {
    let scrubbing = Scrubbing::new();
    assert_eq!(scrubbing.pass(), (10 + 2 + 2, 0));
    let health = scrubbing.store().health();
    assert_eq!((health.scrub.extents, health.scrub.bad), (14, 0));
    assert!(health.scrub.bytes > 10 * 5_000 + 370_000);
    assert_eq!(health.scrub.finished, Some(scrubbing.clock.now()));
    scrubbing.clock.advance(WEEK - Duration::from_secs(1));
    assert_eq!(scrubbing.scrub(ALL), Scrubbed { live_bytes: LIVE, ..Scrubbed::default() });
    scrubbing.clock.advance(Duration::from_secs(1));
    assert_eq!(scrubbing.pass(), (14, 0));
}

#[test]
fn a_budget_limits_what_a_call_reads_and_calls_add_up_to_a_pass() {
    let scrubbing = Scrubbing::new();
    let mut extents = 0;
    let mut calls = 1;
    loop {
        let done = scrubbing.scrub(10_000);
        extents += done.extents;
        if !done.more {
            break;
        }
        assert!(done.bytes >= 10_000 && done.extents <= 3, "{done:?}");
        calls += 1;
    }
    assert_eq!(extents, 14);
    assert!(calls > 6, "{calls}");
}

#[test]
fn a_flipped_bit_is_found_reported_and_survives_a_crash() {
    let mut scrubbing = Scrubbing::new();
    let damage = scrubbing.damage("small3");
    assert_eq!(scrubbing.pass(), (14, 1));
    assert_eq!(scrubbing.told(), [(damage.file.clone(), damage.offset)]);
    assert!(matches!(get(scrubbing.store(), "b", "small3"), Err(StoreError::Corrupt(_))));
    assert!(get(scrubbing.store(), "b", "small4").is_ok() && scrubbing.store().health().read_only.is_none());
    scrubbing.store = None;
    scrubbing.fs = scrubbing.fs.crash(CrashPolicy::DropAll);
    scrubbing.reopen();
    assert_eq!(scrubbing.told(), [(damage.file, damage.offset)]);
    assert_eq!(scrubbing.store().health().scrub.bad, 1);
}

#[test]
fn a_finding_goes_with_its_object() {
    for overwrite in [false, true] {
        let mut scrubbing = Scrubbing::new();
        scrubbing.damage("small3");
        scrubbing.damage("large");
        assert_eq!(scrubbing.pass().1, 2);
        if overwrite {
            put(scrubbing.store(), "b", "small3", b"new").unwrap();
        } else {
            delete(scrubbing.store(), "b", "small3", Selector::Current).unwrap();
        }
        assert_eq!(scrubbing.store().health().scrub.bad, 1);
        assert_eq!(scrubbing.told().len(), 1);
        // It is gone from the file, too.
        scrubbing.scrub(1);
        scrubbing.reopen();
        assert_eq!(scrubbing.store().scrubber.listed(), 1);
    }
}

#[test]
fn a_part_of_an_upload_is_checked_and_its_finding_goes_with_the_upload() {
    let scrubbing = Scrubbing::new();
    let store = scrubbing.store();
    let page = store.list_uploads("b", &ListQuery { limit: 1, ..ListQuery::default() }, None).unwrap();
    let (key, upload) = page.keys().next().unwrap();
    let extent = store.upload("b", &key, upload.id).unwrap().parts[0].extents[0];
    scrubbing.fs.damage(&segment_path(extent.segment), extent.offset + 200, 1).unwrap();
    assert_eq!(scrubbing.pass(), (14, 1));
    assert_eq!(store.health().scrub.bad, 1);
    store.abort_upload("b", &key, upload.id).unwrap();
    assert_eq!(store.health().scrub.bad, 0);
}

#[test]
fn an_extent_that_reads_well_again_is_no_longer_bad() {
    let scrubbing = Scrubbing::new();
    scrubbing.damage("small3");
    assert_eq!(scrubbing.pass(), (14, 1));
    scrubbing.damage("small3");
    scrubbing.clock.advance(WEEK);
    assert_eq!(scrubbing.pass(), (14, 0));
    assert_eq!(scrubbing.told(), []);
}

#[test]
fn a_pass_continues_after_a_restart() {
    let mut scrubbing = Scrubbing::new();
    let first = scrubbing.scrub(320_000).extents;
    assert!(first > 2 && first < 14, "{first}");
    scrubbing.store().close();
    scrubbing.reopen();
    assert_eq!(scrubbing.pass(), (14 - first, 0));
    // After a crash it continues from the position of at most a minute before.
    scrubbing.clock.advance(WEEK);
    // The log and the checkpoints come first.
    let first = loop {
        let done = scrubbing.scrub(50_000);
        if done.extents > 0 {
            break done.extents;
        }
        assert!(done.more, "the pass is due");
    };
    scrubbing.clock.advance(Duration::from_secs(60));
    let second = scrubbing.scrub(5_000).extents;
    let third = scrubbing.scrub(1).extents;
    scrubbing.reopen();
    assert_eq!(scrubbing.pass(), (14 - first - second, 0));
    assert!(third == 1 && first + second < 14);
}

#[test]
fn a_pass_continues_after_a_suspect_only_once_its_owner_is_found() {
    let mut scrubbing = Scrubbing::new();
    scrubbing.damage("small0");
    let first = scrubbing.scrub(1);
    assert_eq!((first.extents, first.bad), (1, 0));
    scrubbing.store().close();
    scrubbing.reopen();
    assert_eq!(scrubbing.pass(), (14, 1), "it is read again");
}

/// The data files are read once, from start to end.
#[test]
fn a_pass_reads_live_extents_once_in_disk_order_and_counts_the_bytes() {
    let scrubbing = Scrubbing::new();
    let store = scrubbing.store();
    for key in 0..200 {
        put(store, "b", &format!("many{}", key * 7 % 200), &bytes(key, 4_000)).unwrap();
    }
    put(store, "b", "huge", &bytes(3, 5_000_000)).unwrap();
    scrubbing.fs.trace_reads();
    let done = scrubbing.scrub(ALL);
    assert!(!done.more && done.bad == 0);
    let reads: Vec<_> = scrubbing.fs.reads().into_iter().filter(|op| op.path.starts_with("data/")).collect();
    let read: u64 = reads.iter().map(|op| page_ceil(op.len)).sum();
    // The header of each segment is read when it is opened.
    assert!(read.abs_diff(done.bytes) <= 4 * 4096, "{read} bytes for {} counted", done.bytes);
    assert!(done.bytes < done.checked_bytes * 5 / 4, "{} for {}", done.bytes, done.checked_bytes);
    assert_eq!(done.checked_bytes, done.live_bytes);
    assert!(reads.len() < 20, "{} reads for {} extents", reads.len(), done.extents);
    let places: Vec<_> = reads.iter().filter(|op| op.offset > 0).map(|op| (&op.path, op.offset)).collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn an_isolated_extent_takes_one_read() {
    let scrubbing = Scrubbing::new();
    let store = scrubbing.store();
    for key in 0..40 {
        put(store, "b", &format!("k{key:02}"), &bytes(key, 30_000)).unwrap();
    }
    for key in (0..40).filter(|key| key % 2 == 0) {
        delete(store, "b", &format!("k{key:02}"), Selector::Current).unwrap();
    }
    scrubbing.fs.trace_reads();
    let done = scrubbing.scrub(ALL);
    let reads = scrubbing.fs.reads().into_iter().filter(|op| op.path.starts_with("data/")).count() as u64;
    assert!(reads <= done.extents, "{reads} reads for {} extents", done.extents);
    assert!(done.bytes < done.checked_bytes * 5 / 4, "{} for {}", done.bytes, done.checked_bytes);
}

/// A flipped bit in any part of an extent is found, in a single read and in several.
#[test]
fn no_part_of_an_extent_goes_unchecked() {
    let scrubbing = Scrubbing::new();
    put(scrubbing.store(), "b", "huge", &bytes(3, 5_000_000)).unwrap();
    for key in ["small3", "large", "huge"] {
        let ExtentRef { segment, offset, payload_len, .. } = scrubbing.extent(key);
        let payload_len = u64::from(payload_len);
        let table = ExtentHeader::table_len(payload_len);
        let middle = [0, payload_len / 4, payload_len / 2, payload_len - 1].map(|at| 64 + at);
        let tail = [64 + payload_len, 64 + payload_len + table, 64 + payload_len + table + 10];
        for at in [0, 10, 30, 33, 38, 63].into_iter().chain(middle).chain(tail) {
            let flip = || scrubbing.fs.damage(&segment_path(segment), offset + at, 1).unwrap();
            flip();
            scrubbing.clock.advance(WEEK);
            assert_eq!(scrubbing.pass().1, 1, "{at} of {key}");
            flip();
        }
    }
    scrubbing.clock.advance(WEEK);
    assert_eq!(scrubbing.pass().1, 0);
    assert_eq!(scrubbing.told(), []);
}

#[test]
fn an_extent_in_the_place_of_another_is_found() {
    let scrubbing = Scrubbing::new();
    let one = scrubbing.extent("small3");
    let other = scrubbing.extent("small4");
    let file = scrubbing.fs.contents(&segment_path(one.segment)).unwrap();
    let bytes = &file[one.offset as usize..][..5_064];
    scrubbing.fs.overwrite(&segment_path(other.segment), other.offset, bytes).unwrap();
    assert_eq!(scrubbing.pass().1, 1);
}

#[test]
fn extents_written_during_a_pass_wait_for_the_next() {
    let scrubbing = Scrubbing::new();
    assert_eq!(scrubbing.scrub(1).extents, 1);
    let store = scrubbing.store();
    store.shared.segments.retire(|_| true);
    for key in 0..5 {
        put(store, "b", &format!("new{key}"), b"x").unwrap();
    }
    assert_eq!(scrubbing.pass(), (13, 0));
    scrubbing.clock.advance(WEEK);
    assert_eq!(scrubbing.pass(), (14 + 5, 0));
}

/// The clock was years ahead at the end of the last pass, or at the start of one.
#[test]
fn a_clock_in_the_future_delays_no_pass_for_longer_than_a_week() {
    for ended in [true, false] {
        let mut scrubbing = Scrubbing::new();
        let now = scrubbing.clock.now();
        scrubbing.clock.advance(500 * WEEK);
        let first = if ended { scrubbing.pass().0 } else { scrubbing.scrub(1).extents };
        scrubbing.store().close();
        scrubbing.clock = Arc::new(ManualClock::new(now));
        scrubbing.reopen();
        if ended {
            assert_eq!(scrubbing.scrub(ALL), Scrubbed { live_bytes: LIVE, ..Scrubbed::default() });
        } else {
            assert_eq!(scrubbing.pass(), (14 - first, 0));
        }
        scrubbing.clock.advance(WEEK);
        scrubbing.reopen();
        assert_eq!(scrubbing.pass().0, 14);
    }
}

#[test]
fn a_lost_or_damaged_state_restarts_the_pass_and_is_reported() {
    let mut scrubbing = Scrubbing::new();
    scrubbing.scrub(100_000);
    scrubbing.store().close();
    scrubbing.fs.damage(SCRUB, 20, 1).unwrap();
    scrubbing.reopen();
    assert_eq!(scrubbing.told(), [(SCRUB.to_owned(), 0)]);
    assert!(scrubbing.store().health().read_only.is_none());
    assert_eq!(scrubbing.pass(), (14, 0));
    scrubbing.store = None;
    scrubbing.fs.damage(SCRUB, 20, 1).unwrap();
    let report = verify(&scrubbing.fs, &mut |_| {}).unwrap();
    assert_eq!(report.findings.iter().map(|f| f.damage.file.as_str()).collect::<Vec<_>>(), [SCRUB]);
    scrubbing.fs.remove(SCRUB).unwrap();
    scrubbing.reopen();
    assert_eq!(scrubbing.told(), []);
    assert_eq!(scrubbing.pass(), (14, 0));
}

#[test]
fn verify_notes_recorded_extents_that_are_good_again() {
    let mut scrubbing = Scrubbing::new();
    scrubbing.damage("small3");
    scrubbing.damage("small4");
    assert_eq!(scrubbing.pass().1, 2);
    scrubbing.damage("small4");
    scrubbing.store = None;
    let report = verify(&scrubbing.fs, &mut |_| {}).unwrap();
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].owner.as_ref().unwrap().key, "small3");
    let recorded: Vec<_> = report.notes.iter().filter(|note| note.kind == NoteKind::Recorded).collect();
    assert_eq!(recorded.len(), 1);
    assert!(recorded[0].what.contains("the scrub found on 2023-11-14"), "{}", recorded[0].what);
}

#[test]
fn a_shared_extent_is_read_once_and_reported_for_all_its_owners() {
    let scrubbing = Scrubbing::new();
    let store = scrubbing.store();
    let found = store.find("b", "large", Selector::Current).unwrap();
    for key in ["copy1", "copy2"] {
        let version = store.find("b", "large", Selector::Current).unwrap().version;
        let source = CopyRange { bucket: found.bucket.id, key: "large".into(), version, range: 0..300_000 };
        store.copy(source, "b", key, commit_of(b"")).unwrap();
    }
    let (extents, bad) = scrubbing.pass();
    assert_eq!((extents, bad), (14 + 2, 0), "each copy has one extent of its own");
    scrubbing.damage("large");
    scrubbing.clock.advance(WEEK);
    assert_eq!(scrubbing.pass().1, 3);
    delete(store, "b", "large", Selector::Current).unwrap();
    assert_eq!(store.health().scrub.bad, 2);
}

#[test]
fn more_bad_extents_than_are_listed_are_counted() {
    let scrubbing = Scrubbing::new();
    for key in 0..SCRUB_BAD_EXTENTS_MAX + 5 {
        put(scrubbing.store(), "b", &format!("bad{key}"), &bytes(1, 200)).unwrap();
        scrubbing.damage(&format!("bad{key}"));
    }
    assert_eq!(scrubbing.pass().1, SCRUB_BAD_EXTENTS_MAX as u64 + 5);
    assert_eq!(scrubbing.store().health().scrub.bad, SCRUB_BAD_EXTENTS_MAX as u64 + 5);
    assert_eq!(scrubbing.told().len(), SCRUB_BAD_EXTENTS_MAX);
}

#[test]
fn an_extent_reclaimed_before_it_was_read_is_no_finding() {
    let scrubbing = Scrubbing::new();
    let extents = scrubbing.store().find("b", "large", Selector::Current).unwrap().version.extents;
    // The pass has reached the first extent of the object, and has collected the second.
    assert_eq!(scrubbing.scrub(1).extents, 1);
    delete(scrubbing.store(), "b", "large", Selector::Current).unwrap();
    scrubbing.fs.overwrite(&segment_path(extents[1].segment), extents[1].offset, &[0; 64]).unwrap();
    assert_eq!(scrubbing.pass(), (13, 0));
    assert_eq!(scrubbing.told(), []);
}

#[test]
fn an_object_deleted_and_reclaimed_during_a_pass_is_no_finding() {
    let scrubbing = Scrubbing::new();
    let options = StoreOptions { segment_max_bytes: 100_000, ..options() };
    let store = open_with(&scrubbing.fs.crash(CrashPolicy::KeepAll), options).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..60_u64 {
                put(&store, "b", &format!("key{}", round % 7), &bytes(round, 60_000)).unwrap();
                delete(&store, "b", &format!("key{}", (round + 3) % 7), Selector::Current).unwrap();
                store.reclaim().unwrap();
            }
        });
        while !writer.is_finished() {
            store.scrub(30_000).unwrap();
        }
    });
    let health = store.health();
    assert_eq!((health.scrub.bad, health.damage), (0, vec![]));
    assert!(health.scrub.extents > 0 && health.reclaimed_segments > 0);
}

#[test]
fn a_read_only_store_is_scrubbed_and_nothing_is_written() {
    let mut scrubbing = Scrubbing::new();
    scrubbing.damage("small3");
    let missing = scrubbing.extent("large").segment;
    scrubbing.store = None;
    scrubbing.fs.remove(&segment_path(missing)).unwrap();
    scrubbing.reopen();
    assert!(scrubbing.store().health().read_only.is_some());
    let files = scrubbing.fs.files();
    let (_, bad) = scrubbing.pass();
    assert!(bad > 1, "{bad}");
    assert_eq!(scrubbing.fs.files(), files);
}

#[test]
fn a_full_disk_does_not_end_the_pass() {
    let scrubbing = Scrubbing::new();
    scrubbing.damage("small3");
    scrubbing.fs.set_capacity(0);
    assert_eq!(scrubbing.pass(), (14, 1));
    assert_eq!(scrubbing.store().health().scrub.bad, 1);
    assert!(scrubbing.store().health().read_only.is_none());
}
