//! Files that are missing, were swapped, belong to another store, or have a bad header.

use super::damage::{Sample, everything};
use super::*;
use crate::format::log_path;

/// Two groups go into a file.
fn short_files() -> Options {
    Options { log_file_max_bytes: 12_288, ..options() }
}

/// The store cannot be opened, says why, and leaves the disk as it is.
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
fn a_log_file_under_another_name_is_not_taken_for_what_it_is_not() {
    let sample = Sample::new(short_files());
    let fs = sample.copy();
    swap(&fs, &log_path(3), &log_path(5));
    sample.check_corrupt(&fs, 3, &log_path(3), 0);
    let fs = sample.copy();
    fs.rename(&log_path(9), &log_path(10)).unwrap();
    check_refused(&sample, &fs, &log_path(10));
}
