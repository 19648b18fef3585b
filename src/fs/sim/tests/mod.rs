//! Tests of the simulated disk alone.

mod crashes;
mod faults;

use std::sync::Arc;

use super::{CrashPolicy, SimFs};
use crate::fs::{File, Fs};

/// Enough seeds for every outcome that is possible in these small cases.
const SEEDS: std::ops::Range<u64> = 0..300;

/// A disk with one durable file.
fn disk_with(path: &str, bytes: &[u8]) -> (SimFs, Arc<dyn File>) {
    let fs = SimFs::new();
    let file = durable(&fs, path, bytes);
    (fs, file)
}

/// A durable file.
fn durable(fs: &SimFs, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = fs.create(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir("").unwrap();
    file
}

/// The disks after a reboot, one for each seed.
fn reboots(fs: &SimFs) -> impl Iterator<Item = SimFs> {
    SEEDS.map(|seed| fs.crash(CrashPolicy::Random(seed)))
}

fn names(fs: &SimFs) -> Vec<String> {
    fs.list("").unwrap()
}
