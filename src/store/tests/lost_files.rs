//! Files that are missing, swapped, of another store, or with a bad header.

use super::damage::{Sample, everything, foreign};
use super::model::Model;
use super::*;
use crate::format::{FileKind, checkpoint_path, log_path};
use crate::fs::sim::CrashPolicy;
use crate::log::list_numbers;

/// Two groups fit into a file.
fn short_files() -> StoreOptions {
    StoreOptions { log_file_max_bytes: 12_288, ..options() }
}

/// The store cannot be opened, names the reason, and leaves the disk unchanged.
fn check_refused(sample: &Sample, fs: &SimFs, file: &str) {
    let before = everything(fs);
    match open_with(fs, sample.options) {
        Err(OpenError::Damaged(damage)) => assert_eq!(damage.file, file, "{damage}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opened without {file}"),
    }
    assert!(everything(fs) == before);
}

fn swap(fs: &SimFs, one: &str, other: &str) {
    fs.rename(one, &format!("{one}.aside")).unwrap();
    fs.rename(other, one).unwrap();
    fs.rename(&format!("{one}.aside"), other).unwrap();
}

#[test]
fn a_log_file_that_is_missing_ends_the_log_before_it() {
    let sample = Sample::new(short_files());
    for number in [3, 5, 7] {
        let fs = sample.copy();
        fs.remove(&log_path(number)).unwrap();
        sample.check_corrupt(&fs, number, &log_path(number - 2), 12_288);
    }
    let fs = sample.copy();
    fs.remove(&log_path(1)).unwrap();
    check_refused(&sample, &fs, &log_path(1));
}

#[test]
fn a_log_file_under_another_name_is_refused() {
    let sample = Sample::new(short_files());
    let fs = sample.copy();
    swap(&fs, &log_path(3), &log_path(5));
    sample.check_corrupt(&fs, 3, &log_path(3), 0);
    let fs = sample.copy();
    fs.rename(&log_path(9), &log_path(10)).unwrap();
    sample.check_corrupt(&fs, 9, &log_path(7), 12_288);
}

#[test]
fn a_log_file_with_a_bad_header_ends_the_log_before_it() {
    let sample = Sample::new(short_files());
    for number in [3, 5, 9] {
        for place in [0, 9, 17, 33, 65, 2_000, 4_093] {
            let fs = sample.copy();
            fs.damage(&log_path(number), place, 4).unwrap();
            sample.check_corrupt(&fs, number, &log_path(number), 0);
        }
    }
    let fs = sample.copy();
    fs.damage(&log_path(1), 9, 4).unwrap();
    check_refused(&sample, &fs, &log_path(1));
}

fn replace(fs: &SimFs, path: &str, bytes: &[u8]) {
    fs.truncate(path, 0).unwrap();
    fs.overwrite(path, 0, bytes).unwrap();
}

#[test]
fn a_log_file_of_another_store_ends_the_log_before_it() {
    let sample = Sample::new(short_files());
    for number in [3, 5, 7] {
        let fs = sample.copy();
        replace(&fs, &log_path(number), &foreign(&sample, &log_path(number)));
        sample.check_corrupt(&fs, number, &log_path(number), 0);
    }
}

/// A store with two checkpoints, the log after the older one, and nothing before it.
fn with_checkpoints() -> (SimFs, Model, [u64; 2]) {
    let fs = SimFs::new();
    let store = open_with(&fs, short_files()).unwrap();
    store.create_bucket("a", "admin").unwrap();
    for round in 0..6 {
        put(&store, "a", &format!("k{round}"), &bytes(round, 500)).unwrap();
        put(&store, "a", "again", &bytes(round, 66_000)).unwrap();
        if round % 2 == 0 {
            store.checkpoint().unwrap();
        }
    }
    let model = Model::of(&store);
    drop(store);
    let checkpoints = list_numbers(&fs, FileKind::Checkpoint).unwrap();
    assert!(fs.open(&log_path(1)).is_err(), "the start of the log is gone");
    (fs, model, checkpoints.try_into().expect("two are kept"))
}

#[test]
fn if_the_newest_checkpoint_is_damaged_or_missing_the_older_one_and_the_log_give_the_same() {
    let (fs, model, [_, newest]) = with_checkpoints();
    let path = checkpoint_path(newest);
    let len = fs.contents(&path).unwrap().len() as u64;
    for place in (0..len).step_by(97) {
        let fs = fs.crash(CrashPolicy::KeepAll);
        fs.damage(&path, place, 8).unwrap();
        let store = open_with(&fs, short_files()).unwrap();
        let health = store.health();
        assert_eq!(health.read_only, None);
        assert!(model.agrees_with(&Model::of(&store)));
        // Padding is ignored.
        assert!(health.damage.iter().all(|damage| damage.file == path));
        let in_header = place < 4096 + 128;
        assert!(!health.damage.is_empty() || !in_header, "damage at {place} went unnoticed");
    }
    let fs = fs.crash(CrashPolicy::KeepAll);
    fs.remove(&path).unwrap();
    assert!(model.agrees_with(&Model::of(&open_with(&fs, short_files()).unwrap())));
}

#[test]
fn without_a_good_checkpoint_and_the_start_of_the_log_the_store_is_not_opened() {
    let (fs, _, [older, newest]) = with_checkpoints();
    for number in [older, newest] {
        fs.damage(&checkpoint_path(number), 10, 8).unwrap();
    }
    match open_with(&fs, short_files()) {
        Err(OpenError::Damaged(damage)) => assert_eq!(damage.file, log_path(1)),
        _ => panic!("the log does not begin at its beginning"),
    }
}

#[test]
fn a_checkpoint_beyond_the_log_proves_that_the_log_has_lost_its_end() {
    let (fs, _, [_, newest]) = with_checkpoints();
    let logs = list_numbers(&fs, FileKind::Log).unwrap();
    for number in logs.iter().filter(|number| **number > newest - 2) {
        fs.remove(&log_path(*number)).unwrap();
    }
    let health = open_with(&fs, short_files()).unwrap().health();
    assert!(health.read_only.unwrap().contains("was durable and cannot be read"));
}

/// Had the damaged one counted, the last good one would have been removed in its favour.
#[test]
fn a_damaged_checkpoint_does_not_count_as_one_of_the_two_kept() {
    let (fs, model, [older, newest]) = with_checkpoints();
    fs.damage(&checkpoint_path(newest), 10, 8).unwrap();
    let store = open_with(&fs, short_files()).unwrap();
    put(&store, "a", "more", b"more").unwrap();
    store.checkpoint().unwrap();
    drop(store);
    let kept = list_numbers(&fs, FileKind::Checkpoint).unwrap();
    assert!(kept.contains(&older), "{kept:?}");
    fs.damage(&checkpoint_path(*kept.last().unwrap()), 10, 8).unwrap();
    let store = open_with(&fs, short_files()).unwrap();
    delete(&store, "a", "more", Selector::Current).unwrap();
    assert!(model.agrees_with(&Model::of(&store)));
}
