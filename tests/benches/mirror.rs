//! What a mirror costs beside the commits: its start after a crash, and the filling of a side. Run
//! `cargo bench --bench mirror`. `SILTSTONE_BENCH_DIR` can name the directory, with 4 GB free.

mod mirror_of;
mod objects;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use siltstone::base::limits::{KIB, MIB};
use siltstone::base::{OsEntropy, SystemClock};
use siltstone::disks::{DiskMirror, FillStep, MirrorPlaces};
use siltstone::fs::{Fs, OsFs};
use siltstone::store::{Store, StoreOptions};

use mirror_of::mirror_of;
use objects::put;

const SEGMENTS: u64 = 5_000;
const FILLED_BYTES: u64 = 1024 * MIB;

fn main() {
    // cargo test asks benches for their list of tests; there are none.
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let base = std::env::var_os("SILTSTONE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = base.join(format!("siltstone-bench-{}", std::process::id()));
    filling(&dir.join("filling"));
    starts(&dir.join("starts"));
    fs::remove_dir_all(&dir).expect("the directory was made above");
}

fn disk(dir: &Path) -> Arc<dyn Fs> {
    let disk = OsFs::new(dir);
    disk.create_root().expect("the directory can be made");
    Arc::new(disk)
}

fn sides(dir: &Path) -> DiskMirror {
    mirror_of([disk(&dir.join("first")), disk(&dir.join("second"))])
}

fn open(disk: Arc<dyn Fs>, options: StoreOptions) -> Store {
    Store::open(disk, Arc::new(SystemClock), &OsEntropy, options).expect("the store opens")
}

/// The filling of a side by sealed segments, beside copies of the same files. Two copies and two fillings
/// take turns; the rests that a server makes between the parts are not in it.
fn filling(dir: &Path) {
    let store = open(sides(dir).fs(), StoreOptions::default());
    store.create_bucket("b", "bench").expect("the bucket is new");
    let bytes: Vec<u8> =
        (0..64 * MIB as u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    for nth in 0..FILLED_BYTES / bytes.len() as u64 + 1 {
        put(&store, "b", &nth.to_string(), &bytes);
    }
    store.close();
    drop(store);
    for round in 0..2 {
        let (copied, took) = copy_files(&dir.join("first/data"), &dir.join(format!("copy-{round}")));
        let copy_rate = copied as f64 / took.as_secs_f64();
        fs::remove_dir_all(dir.join("second")).expect("it is a side");
        drop(sides(dir));
        let places = MirrorPlaces {
            sides: [dir.join("first"), dir.join("second")],
            witness: None,
            accepts_degraded: true,
            accepts_outdated: false,
        };
        fs::remove_dir_all(dir.join("second")).expect("it is an empty directory");
        places.replace(&OsEntropy, siltstone::base::Clock::now(&SystemClock)).expect("the side is lost");
        let mirror = sides(dir);
        let start = Instant::now();
        let mut filled = 0;
        while let FillStep::Copied { .. } = mirror
            .fill_step(&mut |bytes| {
                filled += bytes;
                Ok(())
            })
            .expect("the disks work")
        {}
        let fill_rate = filled as f64 / start.elapsed().as_secs_f64();
        println!(
            "filling of {} MiB: {:.0} MB/s, {:.2} of a copy with a sync, and {:.2} with the rests of a server",
            filled / MIB,
            fill_rate / 1e6,
            fill_rate / copy_rate,
            0.8 * fill_rate / copy_rate
        );
    }
}

/// Copies the files of a directory, past the page cache as far as syncs are. Returns the bytes.
fn copy_files(from: &Path, to: &Path) -> (u64, Duration) {
    fs::create_dir(to).expect("it is new");
    let start = Instant::now();
    let mut bytes = 0;
    for entry in fs::read_dir(from).expect("it is there").map(|entry| entry.expect("it is read")) {
        let mut source = File::open(entry.path()).expect("it is there");
        let mut target = File::create(to.join(entry.file_name())).expect("it is new");
        bytes += io::copy(&mut source, &mut target).expect("there is room");
        target.sync_all().expect("the disk works");
    }
    let took = start.elapsed();
    fs::remove_dir_all(to).expect("it was made above");
    (bytes, took)
}

/// Starts after a crash of a store with many segments, of one directory and of a mirror in turn.
fn starts(dir: &Path) {
    let options = StoreOptions { segment_max_bytes: 100_000, ..StoreOptions::default() };
    let single = || disk(&dir.join("single"));
    let mirrored = || sides(dir).fs();
    for opened in [single(), mirrored()] {
        let store = open(opened, options);
        store.create_bucket("b", "bench").expect("the bucket is new");
        let bytes = vec![7; 100 * KIB as usize];
        for nth in 0..SEGMENTS {
            put(&store, "b", &nth.to_string(), &bytes);
        }
    }
    let segments = fs::read_dir(dir.join("first/data")).expect("it is a side").count();
    for _ in 0..3 {
        let start = Instant::now();
        drop(open(single(), options));
        let of_single = start.elapsed();
        let start = Instant::now();
        drop(open(mirrored(), options));
        let of_mirror = start.elapsed();
        println!("start after a crash, {segments} segments: {of_single:.2?}, as a mirror {of_mirror:.2?}");
    }
}
