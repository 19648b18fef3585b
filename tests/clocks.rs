//! Wall clocks and the sources: what measures a time with one, and why it may.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::floors::rust_files;

/// Calls by which two times of a wall clock become an interval, or one moves.
const ARITHMETIC: &[&str] = &[
    ".since(",
    ".distance(",
    ".plus(",
    "as_millis().saturating_sub(",
    "as_secs().abs_diff(",
    "as_secs() + ",
];

/// The files that measure with a wall clock, the lines of each, and what for. All other intervals
/// are between two of `Clock::instant()`.
const MEASURED: &[(&str, usize, &str)] = &[
    ("auth/bucket_policy/condition_key.rs", 1, "a retention lasts for days from the wall clock"),
    ("auth/signature_params.rs", 3, "signatures state the time of their client"),
    ("auth/sts.rs", 1, "a token states its end, for other hosts and later starts"),
    ("base/clock.rs", 3, "a clock for tests"),
    ("cli/commands/service_account.rs", 1, "an account states its end, for later starts"),
    ("cli/run/host_clock.rs", 1, "whether the kernel speaks of the same clock"),
    ("console/pages/account.rs", 1, "when a session was begun and used, for people"),
    ("console/pages/change.rs", 1, "a retention lasts for days from the wall clock"),
    ("console/pages/find.rs", 1, "objects are found by the days since their wall clock time"),
    ("console/pages/overview.rs", 1, "a certificate states its end"),
    ("console/pages/share.rs", 2, "a link lasts to the end of a day of the wall clock"),
    ("console/pages/state.rs", 1, "a certificate states its end"),
    ("console/tickets.rs", 2, "a distance either way: a clock that is set ends a ticket early"),
    ("ops/lifecycle_sweep.rs", 1, "the next run of rules, for people"),
    ("ops/object_lock.rs", 1, "a retention lasts for days from the wall clock"),
    ("s3/conditions.rs", 1, "a condition states a second"),
    ("s3/lifecycle/evaluation.rs", 1, "a rule states days from the date of an object"),
    ("service/activity.rs", 2, "the requests of the last seconds, for people"),
    ("service/concerns.rs", 1, "a certificate states its end"),
    ("store/follow/mod.rs", 1, "the age of a change, for people"),
    ("store/shared/lock_clock/followed_time.rs", 7, "the lock clock"),
    ("store/shared/lock_clock/mod.rs", 4, "the lock clock"),
    ("store/tier/epoch.rs", 2, "a distance either way: a clock that is set makes a look due at once"),
    ("store/scrub/run.rs", 1, "the week between two passes goes on over a restart"),
    ("offline/log_lag.rs", 2, "the distance of two logs, for people"),
    ("store/ship/mod.rs", 2, "a distance either way: a clock that is set makes a heartbeat due at once"),
    ("store/ship/pace.rs", 4, "likewise"),
    ("store/ship/cleanup.rs", 4, "the ages of roots and copies"),
    ("store/ship/shipper.rs", 1, "the age of the last root of another epoch"),
    ("store/ship/wishes.rs", 3, "a distance either way: a clock that is set makes a look due at once"),
    ("offline/stats/totals.rs", 1, "the ages of objects, for people"),
    ("store/tier/inspection.rs", 2, "a copy that was not found a moment ago is asked for"),
    ("store/tier/mod.rs", 1, "the ages of copies"),
    ("store/tier/transfer.rs", 1, "the ages of copies"),
    ("store/expiry/uploads.rs", 1, "the ages of uploads"),
    ("webhook/delivery.rs", 1, "a receiver states when it wants to be asked again"),
];

/// The lines of a file that measure with a wall clock, without its tests and comments.
fn measuring_lines(source: &str) -> usize {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code = code.lines().map(|line| line.split("//").next().unwrap_or(""));
    code.filter(|line| ARITHMETIC.iter().any(|call| line.contains(call))).count()
}

fn is_measured(path: &Path) -> bool {
    let is_test = path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
    // The arithmetic itself, and a type of bytes with a method of the same name.
    let is_other = ["base/timestamp.rs", "format/written_bytes.rs", "store/shared/write_counters.rs"];
    !is_test && !is_other.iter().any(|name| path.ends_with(name))
}

#[test]
fn intervals_are_measured_by_the_clock_that_nobody_sets() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files: Vec<PathBuf> = Vec::new();
    rust_files(&src, &mut files);
    let mut found = BTreeMap::new();
    for file in files.iter().filter(|file| is_measured(file)) {
        let lines = measuring_lines(&fs::read_to_string(file).unwrap());
        if lines > 0 {
            found.insert(file.strip_prefix(&src).unwrap().display().to_string(), lines);
        }
    }
    let known = MEASURED.iter().map(|(file, lines, _)| ((*file).to_owned(), *lines)).collect();
    assert_eq!(found, known, "take `Clock::instant()`, or say why the wall clock is right");
}

#[test]
fn a_line_that_measures_is_found() {
    assert_eq!(measuring_lines("if now.since(last) > DAY {\n// now.since(last)\nlet end = at.plus(DAY);"), 2);
    assert_eq!(measuring_lines("let a = 1;\n#[cfg(test)]\nmod tests {\nnow.since(last)"), 0);
}
