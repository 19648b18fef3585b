//! The costs of the index. Run `cargo bench --bench index`. `SILTSTONE_BENCH_KEYS` sets the number
//! of keys (1,000,000). `SILTSTONE_BENCH_DIR` names the directory of the store of the second half,
//! which should be on a file system with a journal.
//!
//! At the end lifecycle rules take a third of the keys of that store, beside other requests.
//!
//! Each part is a process of its own, so that the growth of the process is the memory of the index.
//! Averages over many operations are processor time; pages and commits are medians of elapsed time.

mod measure;
mod objects;
mod opened;
mod scrape;
mod sweep;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use siltstone::base::limits::KIB;
use siltstone::base::{Entropy, SeededEntropy, Timestamp};
use siltstone::format::{
    BucketRecord, Entry, ExtentRef, Features, FileHeader, FileKind, ObjectControls, StoreId, VersionId,
    VersionRecord, Versioning,
};
use siltstone::fs::{Fs, OsFs};
use siltstone::index::{Cursor, Index};
use siltstone::log::{CheckpointPlan, CheckpointWriter, create_file, list_numbers, open_file};
use siltstone::store::{Attributes, ETag, ListQuery, Selector, StorageClass, Store, StoreOptions};

use measure::median;
use objects::put;
use opened::open_with;
use scrape::scrapes;

/// The content of a small object.
const SMALL: [u8; 4 * KIB as usize] = [7; 4 * KIB as usize];

/// Keys whose bytes share a segment.
const KEYS_PER_SEGMENT: u64 = 50_000;
const BUCKET: &str = "photos";
/// A recent time, in microseconds since 1970.
const FIRST_STAMP: u64 = 1_790_000_000_000_000;

fn main() {
    // cargo test asks benches for their list of tests; there are none.
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let keys =
        std::env::var("SILTSTONE_BENCH_KEYS").map_or(1_000_000, |keys| keys.parse().expect("a number"));
    let base = std::env::var_os("SILTSTONE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    match std::env::var("SILTSTONE_BENCH_PART").as_deref() {
        Ok("grow") => grow(keys, &store_dir(&base)),
        Ok("start") => start(keys, &store_dir(&base)),
        Ok("sweep") => sweep::sweep(keys, &store_dir(&base)),
        _ => {
            println!("{keys} keys of 44 bytes, each with an MD5, a content type and one extent");
            for part in ["empty", "grow", "start", "sweep"] {
                run(part, &base);
            }
            std::fs::remove_dir_all(store_dir(&base)).expect("the directory was made above");
        }
    }
}

/// The parent's process id, so that both halves find the same one.
fn store_dir(base: &Path) -> PathBuf {
    let id = std::env::var("SILTSTONE_BENCH_ID").unwrap_or_else(|_| std::process::id().to_string());
    base.join(format!("siltstone-bench-index-{id}"))
}

fn run(part: &str, base: &Path) {
    if part == "empty" {
        return empty_store(&store_dir(base));
    }
    let status = Command::new(std::env::current_exe().expect("a process knows its program"))
        .env("SILTSTONE_BENCH_PART", part)
        .env("SILTSTONE_BENCH_ID", std::process::id().to_string())
        .status();
    assert!(status.expect("a process can be started").success(), "{part} failed");
}

/// An empty store in which the second half will find all keys.
fn empty_store(dir: &Path) {
    let store = open(dir);
    store.create_bucket(BUCKET, "bench").expect("the bucket is new");
    // A close writes no checkpoint for a log as short as this.
    store.checkpoint().expect("there is room");
    store.close();
}

fn open(dir: &Path) -> Store {
    open_with(dir, StoreOptions::default())
}

/// Bytes of memory that the process occupies.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("it is a number");
    pages * 4 * KIB
}

/// The processor time of this thread, which excludes other threads on the same processors.
fn busy() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    let nanos = schedstat.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("it is a number"))
}

// ---- The first half: only the
// index -------------------------------------------------------------------

fn key(nth: u64) -> Vec<u8> {
    let day = nth / 3_000;
    let month = day / 28 % 12 + 1;
    let camera = nth / 100 % 30;
    let key = format!(
        "photos/{}/{month:02}/{:02}/camera-{camera:02}/img-{nth:08}.jpg",
        2000 + day / 336,
        day % 28 + 1
    );
    debug_assert_eq!(key.len(), 44);
    key.into_bytes()
}

fn record(nth: u64, stamp: u64, draw: &SeededEntropy) -> VersionRecord {
    let size = 20_000 + draw.next_u64() % 2_000_000;
    let mut md5 = [0; 16];
    draw.fill(&mut md5);
    let mut attributes = Attributes::new();
    attributes.push("content-type", "image/jpeg");
    VersionRecord {
        storage_class: StorageClass::Standard,
        id: VersionId(stamp),
        null: true,
        delete_marker: false,
        modified: Timestamp::from_millis(stamp / 1000),
        size,
        etag: ETag::Md5(md5),
        extents: vec![ExtentRef {
            segment: nth / KEYS_PER_SEGMENT + 1,
            offset: 4096 + nth % KEYS_PER_SEGMENT * 5_312,
            payload_len: size as u32,
            check: draw.next_u64() as u32,
            skip: 0,
            take: size as u32,
            shared: false,
        }],
        attributes,
        checksums: vec![],
        tags: vec![],
        upload: None,
        controls: ObjectControls::default(),
        controls_stamp: None,
        encryption: None,
        stated_time: None,
    }
}

fn put_of(bucket: u64, nth: u64, stamp: u64, draw: &SeededEntropy) -> Entry {
    Entry::VersionPut { bucket, key: key(nth), record: record(nth, stamp, draw) }
}

/// The `step`th number of a walk that visits each number below `keys` once, in scattered order.
fn scattered(step: u64, keys: u64) -> u64 {
    step * 2_654_435_761 % keys
}

/// Puts in random order, each with a snapshot before it, like the puts of a busy server.
fn grow(keys: u64, dir: &Path) {
    let draw = SeededEntropy::new(1);
    let mut index = Index::new();
    let bucket = BucketRecord {
        id: FIRST_STAMP,
        name: BUCKET.into(),
        owner: "bench".into(),
        created: Timestamp::default(),
        versioning: Versioning::Unset,
    };
    index.apply(&Entry::BucketPut(bucket)).expect("a bucket can always be put");
    let before = resident();
    let mut seen = index.clone();
    let start = busy();
    for step in 0..keys {
        let entry = put_of(FIRST_STAMP, scattered(step, keys), FIRST_STAMP + 1 + step * 50, &draw);
        index.apply(&entry).expect("the bucket is there");
        seen = index.clone();
    }
    let applying = busy() - start;
    assert_eq!(seen.version_count(), keys, "each key was put once");
    let grown = resident() - before;
    println!(
        "grown by puts in random order: {:.1} B a key ({:.1} by its own count), {:.2?} a put",
        grown as f64 / keys as f64,
        index.memory_bytes() as f64 / keys as f64,
        applying / keys as u32
    );
    overwrite(&mut index, keys, &draw);
    look(&index, keys);
    write_store(&index, keys, dir);
}

fn overwrite(index: &mut Index, keys: u64, draw: &SeededEntropy) {
    const ROUNDS: u64 = 100_000;
    let id = index.bucket(BUCKET).expect("the bucket is there").id;
    let entries: Vec<_> = (0..ROUNDS)
        .map(|round| put_of(id, scattered(round * 7, keys), FIRST_STAMP + keys * 50 + round, draw))
        .collect();
    for group in [1, 64] {
        let mut seen = Vec::new();
        let start = busy();
        for entries in entries.chunks(group) {
            seen = vec![index.clone()];
            entries.iter().for_each(|entry| index.apply(entry).expect("the bucket is there"));
        }
        println!("overwrite, in groups of {group}: {:.2?} a put", (busy() - start) / ROUNDS as u32);
        drop(seen);
    }
}

fn look(index: &Index, keys: u64) {
    const ROUNDS: u64 = 200_000;
    let id = index.bucket(BUCKET).expect("the bucket is there").id;
    let wanted: Vec<_> = (0..ROUNDS).map(|round| key(scattered(round * 11, keys))).collect();
    let start = busy();
    for key in &wanted {
        std::hint::black_box(index.newest(id, key).expect("the key is there"));
    }
    println!("get: {:.2?}", (busy() - start) / ROUNDS as u32);
    let mut from = wanted.iter();
    let page = median(|| {
        let after = from.next().cloned();
        index.list(id, &ListQuery { after, limit: 1000, ..ListQuery::default() }).len()
    });
    println!("page of 1,000 keys, anywhere: {page:.1?}");
    let snapshot = median(|| index.clone());
    println!("snapshot: {snapshot:.0?}");
}

/// Writes a checkpoint of all keys into the empty store, and the segments that they name, each
/// without its objects.
fn write_store(index: &Index, keys: u64, dir: &Path) {
    let fs = OsFs::new(dir);
    let log = *list_numbers(&fs, FileKind::Log).expect("the store is there").last().expect("it has a log");
    let store = open_file(&fs, FileKind::Log, log, None).expect("the log is good").1.store;
    let covered = list_numbers(&fs, FileKind::Checkpoint).expect("the store is there").last().copied();
    let covered = covered.expect("the store was closed");
    for id in 1..=keys.div_ceil(KEYS_PER_SEGMENT) {
        let header = FileHeader {
            kind: FileKind::Segment,
            store,
            number: id,
            features: Features::NONE,
            created: Timestamp::default(),
            previous_crc: 0,
        };
        create_file(&fs, &header, |_| Ok(())).expect("there is room");
    }
    let start = Instant::now();
    let len = write_checkpoint(&fs, store, covered, index);
    println!(
        "checkpoint written, read back and synced: {:.1?}, {:.0} B a key",
        start.elapsed(),
        len as f64 / keys as f64
    );
}

fn write_checkpoint(fs: &OsFs, store: StoreId, covered: u64, index: &Index) -> u64 {
    fs.remove(&FileKind::Checkpoint.path(covered)).expect("it is there");
    let written = CheckpointWriter::write(
        fs,
        store,
        Timestamp::default(),
        &CheckpointPlan::covering(covered),
        &mut |writer| {
            let mut cursor = Cursor::Start;
            let mut entries = Vec::new();
            while index.walk_encoded(&mut cursor, 256, &mut entries) {
                writer.put_encoded(&entries)?;
            }
            Ok(writer.end(covered, index.last_stamp()))
        },
    );
    written.expect("there is room")
}

// ---- The second half: a whole
// store -------------------------------------------------------------------

fn start(keys: u64, dir: &Path) {
    let before = resident();
    let start = Instant::now();
    let store = Arc::new(open(dir));
    let took = start.elapsed();
    let grown = resident() - before;
    assert_eq!((store.health().versions, store.health().read_only), (keys, None));
    println!(
        "start of a store, its checkpoint in the page cache: {took:.2?}, {:.1} B a key ({:.1} by its own count)",
        grown as f64 / keys as f64,
        store.index_bytes() as f64 / keys as f64
    );
    finds(&store, keys);
    pages(&store);
    scrapes(&store);
    commits(&store);
    store.close();
}

fn text(nth: u64) -> String {
    String::from_utf8(key(nth)).expect("keys are UTF-8")
}

fn finds(store: &Store, keys: u64) {
    const ROUNDS: u64 = 200_000;
    let wanted: Vec<_> = (0..ROUNDS).map(|round| text(scattered(round * 13, keys))).collect();
    let start = busy();
    for key in &wanted {
        std::hint::black_box(store.find(BUCKET, key, Selector::Current).expect("the key is there"));
    }
    println!("find in the store: {:.2?}", (busy() - start) / ROUNDS as u32);
}

/// The parent of a common prefix must cost the same, whatever the size of the prefix.
fn pages(store: &Store) {
    store.create_bucket("few", "bench").expect("the bucket is new");
    (0..10).for_each(|nth| put(store, "few", &text(nth), &SMALL));
    let flat = ListQuery { limit: 1000, ..ListQuery::default() };
    let page = median(|| store.list_objects(BUCKET, &flat).expect("the bucket is there").len());
    println!("page of 1,000 keys of the store: {page:.1?}");
    let parent = ListQuery { delimiter: "/".into(), ..flat };
    let time = |bucket| median(|| store.list_objects(bucket, &parent).expect("the bucket is there").len());
    let few = time("few");
    let many = time(BUCKET);
    println!(
        "list the parent of 10 keys: {few:.2?}; of all keys: {many:.2?}, {:.2} times as long",
        many.as_secs_f64() / few.as_secs_f64()
    );
}

/// Commits beside a thread that repeatedly lists the whole bucket.
fn commits(store: &Store) {
    let alone = commit_times(store);
    let stop = AtomicBool::new(false);
    let listed = AtomicU64::new(0);
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                list_all(store, &stop, &listed);
            }
        });
        let beside = commit_times(store);
        stop.store(true, Ordering::Relaxed);
        beside
    });
    let ratio = |nth: usize| beside[nth].as_secs_f64() / alone[nth].as_secs_f64();
    println!("commit alone: {:.0?}, 99 of 100 within {:.0?}", alone[0], alone[1]);
    println!(
        "commit while a bucket is listed ({} keys meanwhile): {:.0?}, 99 of 100 within {:.0?}; {:.2} and {:.2} times as long",
        listed.into_inner(),
        beside[0],
        beside[1],
        ratio(0),
        ratio(1)
    );
}

fn list_all(store: &Store, stop: &AtomicBool, listed: &AtomicU64) {
    let mut query = ListQuery { limit: 1000, ..ListQuery::default() };
    while !stop.load(Ordering::Relaxed) {
        let page = store.list_objects(BUCKET, &query).expect("the bucket is there");
        listed.fetch_add(page.len() as u64, Ordering::Relaxed);
        query.after = page.last_if_truncated().map(|item| item.name().into_owned().into_bytes());
    }
}

/// The median and the 99th percentile of single commits.
fn commit_times(store: &Store) -> [Duration; 2] {
    let mut times: Vec<_> = (0..2_000)
        .map(|nth| {
            let start = Instant::now();
            put(store, BUCKET, &text(nth * 17), &SMALL);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    [times[times.len() / 2], times[times.len() * 99 / 100]]
}
