//! Overwrite and delete at random, with readers beside it: space and files stay within bounds, and every read is right.
//! `SILTSTONE_TEST_CHURN` says how many changes are made; a million is about an hour's worth.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::base::SystemClock;
use crate::base::limits::KIB;
use crate::format::FileKind;
use crate::fs::sim::CrashPolicy;
use crate::fs::{Fs, OsFs};
use crate::log::list_numbers;

const SEGMENT_BYTES: u64 = 256 * KIB;
const KEYS: u64 = 60;
const CHANGES: u64 = 600;

fn churned() -> Options {
    Options {
        segment_max_bytes: SEGMENT_BYTES,
        log_file_max_bytes: 64 * KIB,
        checkpoint_after_bytes: 512 * KIB,
        ..options()
    }
}

fn open_on(fs: &Arc<dyn Fs>) -> Store {
    Store::open(fs.clone(), Arc::new(SystemClock), &SeededEntropy::new(1), churned()).unwrap()
}

/// What is under each key: the seed that its bytes follow from.
type Expected = BTreeMap<u64, u64>;

fn len_of(seed: u64) -> usize {
    match seed % 10 {
        0 => 100_000 + (seed % 60_000) as usize,
        1..4 => 20_000 + (seed % 30_000) as usize,
        _ => (seed % 9_000) as usize,
    }
}

struct Churn {
    fs: Arc<dyn Fs>,
    draw: SeededEntropy,
    expected: Expected,
    /// The highest of: bytes taken up for each that lives, and segments beyond those that the live bytes would fill.
    worst: (f64, u64),
}

impl Churn {
    fn change(&mut self, store: &Store) {
        let (key, seed) = (self.draw.next_u64() % KEYS, self.draw.next_u64());
        if seed.is_multiple_of(4) {
            delete(store, "b", &key.to_string(), Selector::Current).unwrap();
            self.expected.remove(&key);
        } else {
            put(store, "b", &key.to_string(), &bytes(seed, len_of(seed))).unwrap();
            self.expected.insert(key, seed);
        }
    }

    fn data(&self) -> (u64, u64) {
        let ids = list_numbers(self.fs.as_ref(), FileKind::Segment).unwrap();
        let paths = ids.iter().map(|id| FileKind::Segment.path(*id));
        let allocated = |path: String| self.fs.open_read(&path).unwrap().usage().unwrap().allocated_bytes;
        (ids.len() as u64, paths.map(allocated).sum())
    }

    /// Twice what lives, and the segments that are written to; a segment is half full at the least.
    fn check_bounds(&mut self, store: &Store) {
        reclaim_all(store).unwrap();
        let live = store.health().live_bytes;
        let (files, bytes) = self.data();
        assert!(bytes <= 2 * live + 5 * SEGMENT_BYTES, "{bytes} bytes for {live} that live");
        assert!(files <= 2 * live / SEGMENT_BYTES + 12, "{files} files for {live} bytes that live");
        self.worst.0 = self.worst.0.max(bytes as f64 / live as f64);
        self.worst.1 = self.worst.1.max(files.saturating_sub(live / SEGMENT_BYTES));
    }

    fn check_contents(&self, store: &Store) {
        for key in 0..KEYS {
            let found = get(store, "b", &key.to_string());
            match self.expected.get(&key) {
                Some(seed) => assert_eq!(found.unwrap(), bytes(*seed, len_of(*seed)), "{key}"),
                None => assert_eq!(found, Err(StoreError::NoSuchKey)),
            }
        }
    }
}

/// Reads whatever is there until told to stop; whatever it reads is some object as it was put.
fn read_on(store: &Store, done: &AtomicBool, reads: &Mutex<u64>) {
    for key in (0..KEYS).cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
        let Ok(found) = store.find("b", &key.to_string(), Selector::Current) else { continue };
        let mut reader = store.read(&found, 0..found.version.size).unwrap();
        let mut read = vec![0; found.version.size as usize];
        for piece in read.chunks_mut(30_000) {
            let mut filled = 0;
            while filled < piece.len() {
                filled += reader.read(&mut piece[filled..]).expect("no reader sees an error");
            }
        }
        assert_eq!(found.version.etag, ETag::Md5(Md5::of(&read)));
        *reads.lock().unwrap() += 1;
    }
}

/// Changes, reclaim and reads at the same time.
fn churn(fs: Arc<dyn Fs>, changes: u64) -> Churn {
    let mut churn =
        Churn { fs, draw: SeededEntropy::new(seed()), expected: Expected::new(), worst: (0.0, 0) };
    let store = open_on(&churn.fs);
    store.create_bucket("b", "admin").unwrap();
    let (done, reads) = (AtomicBool::new(false), Mutex::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| read_on(&store, &done, &reads));
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.reclaim().unwrap();
                thread::yield_now();
            }
        });
        for change in 1..=changes {
            churn.change(&store);
            if change % 100 == 0 && change >= 200 {
                churn.check_bounds(&store);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    churn.check_bounds(&store);
    churn.check_contents(&store);
    let health = store.health();
    assert_eq!((&health.damage, &health.read_only), (&vec![], &None));
    assert!(health.moved_bytes > 0 && health.reclaimed_segments > changes / 100, "{health:?}");
    println!(
        "{changes} changes beside {} reads: at most {:.2} bytes for each that lives, {} files more than its segments; \
         {} segments went, {} bytes were moved",
        reads.lock().unwrap(),
        churn.worst.0,
        churn.worst.1,
        health.reclaimed_segments,
        health.moved_bytes
    );
    store.close();
    churn
}

fn check_compacted(churn: &Churn) {
    let clock = Arc::new(SystemClock);
    let done = compact(&churn.fs, clock, &SeededEntropy::new(1), SEGMENT_BYTES, &mut |_| true).unwrap();
    assert!(done.after.data_bytes * 2 <= done.live_bytes * 3, "{done:?}");
    assert_eq!(verify(churn.fs.as_ref(), &mut |_| {}).unwrap().findings, []);
    churn.check_contents(&open_on(&churn.fs));
}

fn on_disk(dir: &Path, changes: u64) {
    check_compacted(&churn(Arc::new(OsFs::new(dir)), changes));
}

#[test]
fn space_and_files_stay_within_bounds_while_everything_is_read() {
    let fs = SimFs::new();
    let churn = churn(Arc::new(fs.clone()), CHANGES);
    check_compacted(&churn);
    let crashed: Arc<dyn Fs> = Arc::new(fs.crash(CrashPolicy::DropAll));
    churn.check_contents(&open_on(&crashed));
}

#[test]
fn they_do_so_on_a_real_disk() {
    on_disk(tempfile::tempdir().unwrap().path(), CHANGES);
}

#[test]
#[ignore = "takes as long as it is told to"]
fn they_do_so_for_an_hour() {
    let changes = std::env::var("SILTSTONE_TEST_CHURN").map_or(1_000_000, |count| count.parse().unwrap());
    on_disk(tempfile::tempdir().unwrap().path(), changes);
}
