//! What README.md says, held against the code. Its quick start is run by tests/clients/test_readme.py.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use siltstone::auth::{Action, Users};
use siltstone::base::limits::{self, GIB, KIB, MIB, TIB};
use siltstone::s3::Operation;
use siltstone::s3::operation::{Mark, Row};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The rows of the first table below that heading, without the two lines of its head.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let readme = read("README.md");
    let (_, section) = readme.split_once(&format!("\n{heading}\n")).unwrap();
    let lines =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.skip(2).map(cells).collect()
}

/// The number with commas between its thousands.
fn number(n: u64) -> String {
    if n < 1000 { n.to_string() } else { format!("{},{:03}", number(n / 1000), n % 1000) }
}

/// A size in the largest unit of which it is a small whole number: keys are counted in bytes.
fn size(bytes: u64) -> String {
    let units = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    match units.iter().find(|(unit, _)| bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", number(bytes / unit)),
        None => format!("{} bytes", number(bytes)),
    }
}

#[test]
fn the_limits_are_those_of_the_code() {
    let bucket =
        format!("{} to {} bytes", limits::BUCKET_NAME_LEN_MIN_BYTES, limits::BUCKET_NAME_LEN_MAX_BYTES);
    let expected = [
        ("object key", format!("{} bytes", number(limits::KEY_LEN_MAX_BYTES as u64))),
        ("bucket name", bucket),
        ("single put, copy or part", size(limits::PUT_SIZE_MAX_BYTES)),
        ("part but the last", format!("{} at least", size(limits::PART_SIZE_MIN_BYTES))),
        ("parts of an object", number(u64::from(limits::PART_NUMBER_MAX))),
        ("object", size(limits::OBJECT_SIZE_MAX_BYTES)),
        ("user metadata of an object", size(limits::USER_METADATA_MAX_BYTES as u64)),
        ("tags of an object", number(limits::TAGS_MAX as u64)),
        ("keys, versions, uploads or parts on a page of a listing", number(limits::PAGE_LEN_MAX as u64)),
        ("objects in one DeleteObjects request", number(limits::DELETE_OBJECTS_MAX as u64)),
        ("XML request body", size(limits::XML_BODY_MAX_BYTES as u64)),
        ("list of the parts of an upload", size(limits::PART_LIST_MAX_BYTES as u64)),
        ("request line and headers", size(limits::HEAD_MAX_BYTES as u64)),
        ("header lines of a request", number(limits::HEADERS_MAX as u64)),
        (
            "difference between the clocks of client and server",
            format!("{} minutes", limits::CLOCK_SKEW_MAX_SECS / 60),
        ),
        (
            "validity of a presigned URL",
            format!("{} days", limits::PRESIGNED_EXPIRES_MAX_SECS / (24 * 60 * 60)),
        ),
    ];
    let expected: Vec<_> = expected.map(|(name, value)| vec![name.to_owned(), value]).into();
    assert_eq!(rows("## Limits"), expected);
}

/// Told in a sentence below the table: they answer that there is no such configuration.
const NEVER_SET: [Operation; 9] = [
    Operation::GetBucketCors,
    Operation::GetBucketEncryption,
    Operation::GetBucketLifecycleConfiguration,
    Operation::GetBucketOwnershipControls,
    Operation::GetBucketPolicy,
    Operation::GetBucketReplication,
    Operation::GetBucketTagging,
    Operation::GetBucketWebsite,
    Operation::GetObjectLockConfiguration,
];

/// The request of an operation as the table shows it.
fn request(row: &Row) -> String {
    let line = format!("{} {}", row.method.as_str(), row.level.path());
    let line = if row.subresource.is_empty() { line } else { format!("{line}?{}", row.subresource) };
    match row.mark {
        Mark::None => format!("`{line}`"),
        Mark::Parameter(name, value) => format!("`{line}?{name}={value}`"),
        Mark::CopySource => format!("`{line}` with `x-amz-copy-source`"),
    }
}

#[test]
fn the_operations_are_those_of_the_code() {
    let told = Operation::TABLE.iter().filter(|row| !NEVER_SET.contains(&row.operation));
    let expected: BTreeSet<_> = told.map(|row| (row.operation.as_str().to_owned(), request(row))).collect();
    let listed: BTreeSet<_> =
        rows("## Operations").into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    assert_eq!(listed, expected);
}

/// Every `--flag` of the help, with its environment variable and its default.
fn options_of_the_help() -> BTreeSet<(String, String, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_siltstone")).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (_, options) = help.split_once("Options:\n").unwrap();
    let (options, _) = options.split_once("Examples:").unwrap();
    let between = |text: &str, start: &str, end: &str| {
        let (_, rest) = text.split_once(start)?;
        rest.split_once(end).map(|(found, _)| found.to_owned())
    };
    let described = options.split("\n      --").filter_map(|text| {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let flag = words.split(' ').next()?.trim_start_matches('-').to_owned();
        let variable = between(&words, "[env: ", "=")?;
        Some((flag, variable, between(&words, "[default: ", "]").unwrap_or_else(|| "none".to_owned())))
    });
    described.collect()
}

#[test]
fn the_options_are_those_of_the_help() {
    let code = |cell: &str| cell.trim_matches('`').to_owned();
    let listed: BTreeSet<_> = rows("## Command line")
        .iter()
        .map(|row| {
            let flag = code(&row[0]).trim_start_matches('-').split(' ').next().unwrap().to_owned();
            (flag, code(&row[1]), code(&row[2]))
        })
        .collect();
    assert_eq!(listed, options_of_the_help());
}

#[test]
fn the_compiler_is_that_of_the_manifest() {
    let needed = format!("It needs Rust {} or newer", env!("CARGO_PKG_RUST_VERSION"));
    assert!(read("README.md").contains(&needed), "{needed}");
}

#[test]
fn the_actions_are_those_of_the_code() {
    let readme = read("README.md");
    let (_, list) = readme.split_once("\nActions: ").unwrap();
    let (list, _) = list.split_once('.').unwrap();
    let listed: Vec<_> = list.split(',').map(str::trim).collect();
    let expected: Vec<_> = Action::ALL.iter().map(|action| action.as_str()).collect();
    assert_eq!(listed, expected);
}

#[test]
fn the_example_of_a_users_file_is_one() {
    let readme = read("README.md");
    let (_, section) = readme.split_once("\n## Users and permissions\n").unwrap();
    let (_, example) = section.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    Users::parse(example).unwrap();
}

#[test]
fn the_checks_run_the_test_command_of_the_readme() {
    let readme = read("README.md");
    let command =
        readme.lines().find_map(|line| line.strip_prefix("| test it | `")?.strip_suffix("` |")).unwrap();
    let checks = read(".ci/run");
    assert!(
        checks.lines().any(|line| line == format!("section {command}")),
        "{command} is missing in .ci/run"
    );
}
