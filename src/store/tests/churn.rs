//! Overwrite and delete at random, with readers beside it: space and files stay within bounds, and
//! every read is right. `SILTSTONE_TEST_CHURN_SECS` says how long the long run takes, in seconds;
//! an hour, if it does not.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::base::SystemClock;
use crate::base::limits::{KIB, MIB, SEGMENTS_BESIDE_MAX};
use crate::format::FileKind;
use crate::fs::sim::CrashPolicy;
use crate::fs::{Fs, OsFs};
use crate::log::list_numbers;

/// Segments that are written to, or wait for a reader or a writer.
const BUSY: u64 = 12;

/// How much there is, and for how long it is changed.
#[derive(Clone, Copy)]
struct Scale {
    keys: u64,
    segment_bytes: u64,
    changes_min: u64,
    time_min: Duration,
}

/// Some segments full, so that half of each may be dead.
const BRIEF: Scale = Scale { keys: 60, segment_bytes: 256 * KIB, changes_min: 600, time_min: Duration::ZERO };

/// So many segments that half of each may not be dead, because there would be too many of them.
fn long() -> Scale {
    let secs = std::env::var("SILTSTONE_TEST_CHURN_SECS").map_or(3600, |secs| secs.parse().unwrap());
    Scale { keys: 6000, segment_bytes: MIB, changes_min: 600, time_min: Duration::from_secs(secs) }
}

impl Scale {
    fn options(self) -> StoreOptions {
        StoreOptions {
            segment_max_bytes: self.segment_bytes,
            log_file_max_bytes: 64 * KIB,
            checkpoint_after_bytes: 512 * KIB,
            ..options()
        }
    }

    fn open(self, fs: &Arc<dyn Fs>) -> Store {
        Store::open(fs.clone(), Arc::new(SystemClock), &SeededEntropy::new(1), self.options()).unwrap()
    }
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
    scale: Scale,
    fs: Arc<dyn Fs>,
    draw: SeededEntropy,
    expected: Expected,
    put_bytes: u64,
    /// The highest of: bytes taken up for each that lives, and segments beyond those that the live
    /// bytes would fill.
    worst: (f64, u64),
}

impl Churn {
    fn change(&mut self, store: &Store) {
        let key = self.draw.below(self.scale.keys);
        let seed = self.draw.next_u64();
        if seed.is_multiple_of(4) {
            delete(store, "b", &key.to_string(), Selector::Current).unwrap();
            self.expected.remove(&key);
        } else {
            put(store, "b", &key.to_string(), &bytes(seed, len_of(seed))).unwrap();
            self.expected.insert(key, seed);
            self.put_bytes += len_of(seed) as u64;
        }
    }

    fn data(&self) -> (u64, u64) {
        let ids = list_numbers(self.fs.as_ref(), FileKind::Segment).unwrap();
        let paths = ids.iter().map(|id| FileKind::Segment.path(*id));
        let allocated = |path: String| self.fs.open_read(&path).unwrap().usage().unwrap().allocated_bytes;
        (ids.len() as u64, paths.map(allocated).sum())
    }

    /// Twice what lives, and the files that it would fill: both beside a few more.
    fn check_bounds(&mut self, store: &Store) {
        reclaim_all(store).unwrap();
        let live = store.health().live_bytes;
        let size = self.scale.segment_bytes;
        let (files, bytes) = self.data();
        assert!(bytes <= 2 * live + 5 * size, "{bytes} bytes for {live} that live");
        let files_max = live / size + SEGMENTS_BESIDE_MAX + BUSY;
        assert!(files <= files_max, "{files} files for {live} bytes that live");
        self.worst.0 = self.worst.0.max(bytes as f64 / live as f64);
        self.worst.1 = self.worst.1.max(files.saturating_sub(live / size));
    }

    fn check_contents(&self, store: &Store) {
        for key in 0..self.scale.keys {
            let found = get(store, "b", &key.to_string());
            match self.expected.get(&key) {
                Some(seed) => assert_eq!(found.unwrap(), bytes(*seed, len_of(*seed)), "{key}"),
                None => assert_eq!(found, Err(StoreError::NoSuchKey)),
            }
        }
    }
}

/// Reads whatever is there until told to stop; whatever it reads is some object as it was put.
fn read_on(store: &Store, keys: u64, done: &AtomicBool, reads: &Mutex<u64>) {
    for key in (0..keys).cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
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

/// Ends those who go on until they are told to, also when a check has failed.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Changes, reclaim and reads at the same time.
fn churn(fs: Arc<dyn Fs>, scale: Scale) -> Churn {
    let draw = SeededEntropy::new(seed());
    let start = Instant::now();
    let mut changes = 0;
    let mut churn = Churn { scale, fs, draw, expected: Expected::new(), put_bytes: 0, worst: (0.0, 0) };
    let store = scale.open(&churn.fs);
    store.create_bucket("b", "admin").unwrap();
    let done = AtomicBool::new(false);
    let reads = Mutex::new(0);
    thread::scope(|scope| {
        let _end = End(&done);
        for _ in 0..2 {
            scope.spawn(|| read_on(&store, scale.keys, &done, &reads));
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.reclaim().unwrap();
                thread::yield_now();
            }
        });
        while changes < scale.changes_min || start.elapsed() < scale.time_min {
            churn.change(&store);
            changes += 1;
            if changes % 100 == 0 && changes >= 200 {
                churn.check_bounds(&store);
            }
        }
    });
    churn.check_bounds(&store);
    churn.check_contents(&store);
    let health = store.health();
    assert_eq!((&health.damage, &health.read_only), (&vec![], &None));
    assert!(health.moved_bytes > 0 && health.reclaimed_segments > BUSY, "{health:?}");
    assert!(health.moved_bytes <= 4 * churn.put_bytes, "{health:?} for {} bytes", churn.put_bytes);
    println!(
        "{changes} changes in {:?} beside {} reads: {} bytes live, at most {:.2} bytes for each, \
         {} files more than it would fill; {} segments went, {} bytes were put and {} moved",
        start.elapsed(),
        reads.lock().unwrap(),
        health.live_bytes,
        churn.worst.0,
        churn.worst.1,
        health.reclaimed_segments,
        churn.put_bytes,
        health.moved_bytes
    );
    store.close();
    churn
}

fn check_compacted(churn: &Churn) {
    let clock = Arc::new(SystemClock);
    let size = churn.scale.segment_bytes;
    let done = compact(&churn.fs, clock, &SeededEntropy::new(1), size, &mut |_| true).unwrap();
    assert!(done.after.data_bytes * 2 <= done.live_bytes * 3, "{done:?}");
    println!("compacted: {done:?}");
    assert_eq!(verify(churn.fs.as_ref(), &mut |_| {}).unwrap().findings, []);
    churn.check_contents(&churn.scale.open(&churn.fs));
}

fn on_disk(dir: &Path, scale: Scale) {
    check_compacted(&churn(Arc::new(OsFs::new(dir)), scale));
}

#[test]
fn space_and_files_stay_within_bounds_while_everything_is_read() {
    let fs = SimFs::new();
    let churn = churn(Arc::new(fs.clone()), BRIEF);
    check_compacted(&churn);
    let crashed: Arc<dyn Fs> = Arc::new(fs.crash(CrashPolicy::DropAll));
    churn.check_contents(&BRIEF.open(&crashed));
}

#[test]
fn they_do_so_on_a_real_disk() {
    on_disk(tempfile::tempdir().unwrap().path(), BRIEF);
}

#[test]
#[ignore = "takes an hour"]
fn they_do_so_for_an_hour() {
    on_disk(tempfile::tempdir().unwrap().path(), long());
}
