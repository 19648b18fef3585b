//! The costs of the store, each figure beside its lower bound. Run `cargo bench --bench store`.
//! `SILTSTONE_BENCH_DIR` can name the directory, which should be on a file system with a journal.

mod measure;
mod mirror_of;
mod objects;
mod opened;
mod slow_disk;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use siltstone::base::limits::{KIB, MIB, RECLAIM_RATE_BYTES_PER_SEC};
use siltstone::format::{BucketRecord, ETag, Entry, ObjectControls, VersionId, VersionRecord, Versioning};
use siltstone::fs::{Fs, OsFs, SplitFs};
use siltstone::index::{Index, ListQuery};
use siltstone::store::{Attributes, DeleteCondition, Deletion, Selector, StorageClass, Store, StoreOptions};

use measure::median;
use mirror_of::mirror_of;
use objects::put;
use opened::open_with;
use slow_disk::{SlowDisk, open_on};

const RUN: Duration = Duration::from_secs(3);

fn main() {
    // cargo test asks benches for their list of tests; there are none.
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let base = std::env::var_os("SILTSTONE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = base.join(format!("siltstone-bench-{}", std::process::id()));
    let pair = sync_pair(&dir.join("sync"));
    println!(
        "bare cost of one write of 4 KiB and fdatasync in each of two files, at the same time: {pair:.1?}"
    );
    commits(&dir.join("commit"), pair);
    commits_beside_moving(&dir.join("moving"));
    commits_on_two_disks(&dir.join("disks"));
    commits_on_a_mirror(&dir.join("mirror"));
    reads(&dir.join("read"));
    listings();
    std::fs::remove_dir_all(&dir).expect("the directory was made above");
}

/// The median time of the minimum of a commit: concurrent syncs of a log and a segment.
fn sync_pair(dir: &Path) -> Duration {
    let disk = OsFs::new(dir);
    disk.create_root().expect("the directory can be made");
    let files = ["a", "b"].map(|name| disk.create(name).expect("the file is new"));
    files.iter().for_each(|file| file.write_all_at(&vec![0; MIB as usize], 0).expect("there is room"));
    let block = vec![1; 4 * KIB as usize];
    let mut times: Vec<_> = (0..200)
        .map(|round| {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for file in &files {
                    scope.spawn(|| {
                        file.write_all_at(&block, round % 256 * 4 * KIB).expect("there is room");
                        file.sync_data().expect("the disk works");
                    });
                }
            });
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn open(dir: &Path) -> Store {
    open_with(dir, StoreOptions::default())
}

/// Many writers, one sync: concurrent commits share their syncs.
fn commits(dir: &Path, pair: Duration) {
    let store = open(dir);
    store.create_bucket("b", "bench").expect("the bucket is new");
    let bytes = vec![7; 4 * KIB as usize];
    for writers in [1, 16, 64, 256] {
        let before = store.health().sequence;
        let done = AtomicU64::new(0);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let store = &store;
                let bytes = &bytes;
                let done = &done;
                scope.spawn(move || {
                    for round in 0.. {
                        if start.elapsed() > RUN {
                            return;
                        }
                        put(store, "b", &format!("{writer}/{}", round % 100), bytes);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let puts = done.into_inner();
        let groups = store.health().sequence - before;
        let each = start.elapsed() / groups as u32;
        println!(
            "put 4 KiB, {writers} writers: {:.0}/s, {:.1} a group, a group in {each:.1?}, {:.2} bare sync pairs",
            puts as f64 / start.elapsed().as_secs_f64(),
            puts as f64 / groups as f64,
            each.as_secs_f64() / pair.as_secs_f64(),
        );
    }
}

/// Single commits while live extents are relocated out of mostly dead segments: at full speed, and
/// at the server's limit.
fn commits_beside_moving(dir: &Path) {
    for (how, rate) in
        [("as fast as can be", None), ("at the default rate", Some(RECLAIM_RATE_BYTES_PER_SEC))]
    {
        let store = mostly_dead(&dir.join(how));
        let stop = AtomicBool::new(false);
        let alone = commit_times(&store, |times| times < 2000);
        // Relocation at a limited rate may take long.
        let (beside, took, moved) = std::thread::scope(|scope| {
            let mover = scope.spawn(|| move_all(&store, rate, &stop));
            let start = Instant::now();
            let beside = commit_times(&store, |_| !mover.is_finished() && start.elapsed() < 4 * RUN);
            stop.store(true, Ordering::Relaxed);
            mover.join().expect("it does not panic");
            (beside, start.elapsed(), store.health().moved_bytes)
        });
        let ratio = |nth: usize| beside.0[nth].as_secs_f64() / alone.0[nth].as_secs_f64();
        println!(
            "commit alone: {:.0?}, 99 of 100 within {:.0?}; while segments are moved {how} ({:.0} MB/s, {} commits): \
             {:.0?}, within {:.0?}; {:.2} and {:.2} times as long",
            alone.0[0],
            alone.0[1],
            moved as f64 / took.as_secs_f64() / 1e6,
            beside.1,
            beside.0[0],
            beside.0[1],
            ratio(0),
            ratio(1)
        );
    }
}

/// A store of half a gigabyte, of which two fifths of every segment live.
fn mostly_dead(dir: &Path) -> Store {
    const OBJECTS: u64 = 8192;
    let store = open_with(dir, StoreOptions { segment_max_bytes: 32 * MIB, ..StoreOptions::default() });
    store.create_bucket("b", "bench").expect("the bucket is new");
    let bytes = vec![7; 64 * KIB as usize];
    std::thread::scope(|scope| {
        for writer in 0..16 {
            let store = &store;
            let bytes = &bytes;
            scope.spawn(move || {
                (writer..OBJECTS).step_by(16).for_each(|at| put(store, "b", &format!("large/{at}"), bytes));
            });
        }
    });
    let dead: Vec<_> = (0..OBJECTS).filter(|at| at % 5 > 1).map(|at| format!("large/{at}")).collect();
    for keys in dead.chunks(1000) {
        let deletion = |key: &String| Deletion {
            key: key.clone(),
            which: Selector::Current,
            condition: DeleteCondition::default(),
        };
        store.delete("b", keys.iter().map(deletion).collect()).expect("the bucket is there");
    }
    store
}

/// Relocates until nothing is left to relocate; with a rate in bytes a second it pauses in between,
/// as the server does.
fn move_all(store: &Store, rate: Option<u64>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let done = store.reclaim().expect("the disk works");
        if !done.more {
            return;
        }
        if let Some(rate) = rate {
            std::thread::sleep(Duration::from_secs_f64(done.moved_bytes as f64 / rate as f64));
        }
    }
}

/// The median and the 99th percentile of single commits, and their number; `go_on` gets the number
/// so far and ends the run.
fn commit_times(store: &Store, go_on: impl Fn(usize) -> bool) -> ([Duration; 2], usize) {
    let bytes = vec![7; 4 * KIB as usize];
    let mut times = Vec::new();
    while go_on(times.len()) {
        let start = Instant::now();
        put(store, "b", &format!("small/{}", times.len() % 100), &bytes);
        times.push(start.elapsed());
    }
    times.sort_unstable();
    ([times[times.len() / 2], times[times.len() * 99 / 100]], times.len())
}

/// Single commits of small objects on a fast disk, on a slow one, and on both as a pair; alone, and
/// beside large objects. The rounds are interleaved.
fn commits_on_two_disks(dir: &Path) {
    let sync_time = Duration::from_millis(10);
    let disk = |name: &str| {
        let disk = OsFs::new(dir.join(name));
        disk.create_root().expect("the directory can be made");
        disk
    };
    let slow = |name: &str| Arc::new(SlowDisk { disk: disk(name), sync_time });
    let pair = SplitFs::new(Arc::new(disk("ssd")), slow("hdd"));
    let stores = [
        ("the fast disk", open_on(Arc::new(disk("fast")))),
        ("both", open_on(Arc::new(pair))),
        ("the slow disk", open_on(slow("slow"))),
    ];
    commits_in_turn(&stores, &[("alone", false), ("beside puts of 256 MiB", true)]);
}

/// Single commits of small objects on one disk, on two as a mirror, and on a mirror that has lost one of
/// them. All directories are on one file system, but for the syncs of
/// the slow ones.
fn commits_on_a_mirror(dir: &Path) {
    let sync_time = Duration::from_millis(10);
    let disk = |name: &str| -> Arc<dyn Fs> {
        let disk = OsFs::new(dir.join(name));
        disk.create_root().expect("the directory can be made");
        Arc::new(disk)
    };
    let slow = |name: &str| -> Arc<dyn Fs> {
        let disk = OsFs::new(dir.join(name));
        disk.create_root().expect("the directory can be made");
        Arc::new(SlowDisk { disk, sync_time })
    };
    drop(open_on(mirror_of([disk("left"), disk("lost")]).fs()));
    std::fs::remove_dir_all(dir.join("lost")).expect("it was made above");
    let stores = [
        ("a disk", open_on(disk("single"))),
        ("a mirror", open_on(mirror_of([disk("first"), disk("second")]).fs())),
        ("a mirror with one side", open_on(mirror_of([disk("left"), disk("lost")]).fs())),
        ("a slow disk", open_on(slow("slow"))),
        ("a mirror of slow disks", open_on(mirror_of([slow("slow1"), slow("slow2")]).fs())),
    ];
    commits_in_turn(&stores, &[("alone", false)]);
}

/// Commits on each store in turn, under each of the loads: alone, or beside large objects.
fn commits_in_turn(stores: &[(&str, Store)], loads: &[(&str, bool)]) {
    for (_, store) in stores {
        store.create_bucket("b", "bench").expect("the bucket is new");
    }
    for (beside, is_loaded) in loads {
        let mut medians: Vec<Vec<Duration>> = vec![Vec::new(); stores.len()];
        for _ in 0..5 {
            for ((_, store), medians) in stores.iter().zip(&mut medians) {
                let stop = AtomicBool::new(!is_loaded);
                let median = std::thread::scope(|scope| {
                    scope.spawn(|| put_large(store, &stop));
                    let ([median, _], _) = commit_times(store, |times| times < 200);
                    stop.store(true, Ordering::Relaxed);
                    median
                });
                while store.shadow_log().expect("the disk works") {}
                medians.push(median);
            }
        }
        for ((name, _), mut medians) in stores.iter().zip(medians) {
            medians.sort_unstable();
            println!("commit of 4 KiB on {name}, {beside}, medians of 5 rounds: {medians:.2?}");
        }
    }
}

/// Puts large objects until the end.
fn put_large(store: &Store, stop: &AtomicBool) {
    let bytes = vec![7; 256 * MIB as usize];
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        put(store, "b", &format!("large/{}", round % 4), &bytes);
    }
}

fn reads(dir: &Path) {
    let store = open(dir);
    store.create_bucket("b", "bench").expect("the bucket is new");
    for size in [4 * KIB, MIB] {
        put(&store, "b", "k", &vec![7; size as usize]);
        let mut buffer = vec![0; 256 * KIB as usize];
        let start = Instant::now();
        let mut reads = 0;
        while start.elapsed() < RUN {
            let found = store.find("b", "k", Selector::Current).expect("it was put");
            let mut reader = store.read(&found, 0..found.version.size).expect("the segment is there");
            while reader.read(&mut buffer).expect("the bytes are good") > 0 {}
            reads += 1;
        }
        let each = start.elapsed() / reads;
        let rate = size as f64 * f64::from(reads) / start.elapsed().as_secs_f64() / 1e9;
        println!(
            "find and read {} KiB from the page cache, verified: {each:.2?}, {rate:.1} GB/s",
            size / KIB
        );
    }
}

/// The parent of a common prefix must cost the same, whatever the size of the prefix.
fn listings() {
    let time = |keys: u64| {
        let index = index_of(keys);
        let flat = ListQuery { limit: 1000, ..ListQuery::default() };
        let grouped = ListQuery { delimiter: b"/".to_vec(), ..flat.clone() };
        (median(|| index.list(1, &grouped).len()), median(|| index.list(1, &flat).len()))
    };
    let ((few, _), (many, page)) = (time(10), time(1_000_000));
    println!("list the parent of 10 keys: {few:.2?}; of 1,000,000 keys: {many:.2?}");
    println!(
        "that is {:.2} times as long; a page of 1,000 of them: {page:.1?}",
        many.as_secs_f64() / few.as_secs_f64()
    );
}

fn index_of(keys: u64) -> Index {
    let mut index = Index::new();
    let bucket = BucketRecord {
        id: 1,
        name: "b".into(),
        owner: "bench".into(),
        created: Default::default(),
        versioning: Versioning::Unset,
    };
    index.apply(&Entry::BucketPut(bucket)).expect("a bucket can always be put");
    for id in 0..keys {
        let record = VersionRecord {
            storage_class: StorageClass::Standard,
            id: VersionId(id + 2),
            null: true,
            delete_marker: false,
            modified: Default::default(),
            size: 0,
            etag: ETag::Md5([0; 16]),
            extents: vec![],
            attributes: Attributes::new(),
            checksums: vec![],
            tags: vec![],
            upload: None,
            controls: ObjectControls::default(),
            controls_stamp: None,
            encryption: None,
            stated_time: None,
        };
        let key = format!("one/{id:040}").into_bytes();
        index.apply(&Entry::VersionPut { bucket: 1, key, record }).expect("the bucket is there");
    }
    index
}
