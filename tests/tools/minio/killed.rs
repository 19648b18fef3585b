//! An import that is killed again and again ends with what one run makes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use siltstone::base::{Entropy as _, OsEntropy, Timestamp};
use siltstone::index::ListQuery;

use super::super::import::{command_of, counts, report};
use super::super::{bytes, open, status};
use super::several;
use super::writer::{ENABLED, MinioDrives, TIME, Written};

/// Kills that have to come while some versions are there and others are not.
const KILLS_BETWEEN: usize = 4;
/// Runs that are killed in all: most of a short import is the start of a process.
const RUNS: usize = 200;
const SECOND: i64 = 1_000_000_000;

/// A version as the store has it, without its id, which each run draws.
#[derive(Debug, PartialEq)]
struct Copied {
    key: String,
    null: bool,
    /// None of a delete marker.
    etag: Option<String>,
    size: u64,
    /// None of a delete marker, whose time is not kept.
    time: Option<Timestamp>,
    latest: bool,
}

fn all_versions(data: &Path) -> Vec<Copied> {
    let store = open(data);
    if store.bucket("docs").is_err() {
        return Vec::new();
    }
    let query = ListQuery { limit: usize::MAX, ..ListQuery::default() };
    let page = store.list_versions("docs", &query, None).unwrap();
    let versions = page.keys().map(|(key, listed)| {
        let version = &listed.version;
        Copied {
            key: key.into_owned(),
            null: version.null,
            etag: (!version.delete_marker).then(|| version.etag.to_string()),
            size: version.size,
            time: (!version.delete_marker).then(|| version.stated_time.unwrap_or(version.modified)),
            latest: listed.latest,
        }
    });
    versions.collect()
}

/// Keys with one version inline, in parts, and with a history of three; 1,000,000 by
/// `SILTSTONE_RESCUE_OBJECTS`.
fn drives_of(objects: u64) -> MinioDrives {
    let drives = MinioDrives::new(1, 0);
    drives.configure("docs", &[("VersioningConfigXML", ENABLED)]);
    for number in 0..objects {
        let key = format!("{:03}/{number}", number % 1_000);
        let body = format!("the bytes of {number}");
        let first = Written::object(1, TIME, body.as_bytes());
        match number % 10 {
            0 => {
                let marker = Written::marker(2, TIME + SECOND);
                let last = Written::object(3, TIME + 2 * SECOND, b"the last");
                drives.put("docs", &key, &[first, marker, last]);
            }
            1 => drives.put("docs", &key, &[Written::object(1, TIME, &bytes(number, 5_000))]),
            _ => drives.put("docs", &key, &[first]),
        }
    }
    drives
}

#[test]
fn an_import_that_is_killed_at_any_moment_goes_on_to_the_same_end() {
    let objects = std::env::var("SILTSTONE_RESCUE_OBJECTS").map_or(300, |count| count.parse().unwrap());
    let drives = drives_of(objects);
    let home = tempfile::tempdir().unwrap();
    let whole = home.path().join("whole");
    let killed = home.path().join("killed");
    let import = |data: &Path| {
        let args = [&*drives.source(), "--offline", "--data-dir", data.to_str().unwrap()];
        command_of("import", &args)
    };
    let begun = Instant::now();
    let output = import(&whole).output().unwrap();
    let duration = begun.elapsed();
    assert_eq!((status(&output), counts(&report(&output))), (0, [objects, 0, 0, 0]));
    println!("{objects} keys in {duration:?}");
    let expected = all_versions(&whole);
    let keys: BTreeSet<&str> = expected.iter().map(|version| &*version.key).collect();

    let mut between = 0;
    let mut runs = 0;
    while between < KILLS_BETWEEN {
        runs += 1;
        assert!(runs <= RUNS, "only {between} of {RUNS} kills found an import at work");
        let mut child = import(&killed).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let part = OsEntropy.next_u64() % 1_000;
        thread::sleep(duration.mul_f64(part as f64 / 2_000.0));
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        if !killed.is_dir() {
            continue;
        }
        let there = all_versions(&killed);
        assert!(there.iter().all(|version| keys.contains(&*version.key)));
        if !there.is_empty() && there.len() < expected.len() {
            between += 1;
        } else if there.len() == expected.len() {
            std::fs::remove_dir_all(&killed).unwrap();
        }
    }
    let output = import(&killed).output().unwrap();
    let report = report(&output);
    let [stored, present, failed, left_out] = counts(&report);
    assert_eq!((status(&output), stored + present, failed, left_out), (0, objects, 0, 0), "{report}");
    for (found, expected) in all_versions(&killed).iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(all_versions(&killed).len(), expected.len());
    let store = open(&killed);
    for number in [0, 1, 2, objects - 1] {
        let key = format!("{:03}/{number}", number % 1_000);
        let expected = match number % 10 {
            0 => b"the last".to_vec(),
            1 => bytes(number, 5_000),
            _ => format!("the bytes of {number}").into_bytes(),
        };
        assert!(several::stored(&store, "docs", &key) == Some(expected), "{key}");
    }
}
