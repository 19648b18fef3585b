//! `import minio:` from drives that a writer of the tests makes.

mod configured;
mod encoded;
mod killed;
mod older;
mod salvaged;
mod sets;
mod several;
mod single;
mod users;
pub(crate) mod writer;

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use super::import::{Client, command_of, report, start};
use super::status;
use crate::support::process::Running;
use writer::MinioDrives;

/// Imports into the data directory below `data`, with further arguments.
fn import(source: &str, data: &Path, more: &[&str]) -> Output {
    let data = data.join("siltstone-data");
    let data = data.to_str().unwrap();
    let args = [&[source][..], more, &["--offline", "--data-dir", data]].concat();
    command_of("import", &args).output().unwrap()
}

/// Imports all of the drives. Returns the exit status and the report.
fn imported(drives: &MinioDrives, data: &Path, more: &[&str]) -> (i32, Value) {
    let output = import(&drives.source(), data, more);
    (status(&output), report(&output))
}

/// A server over an imported directory, and a client of one bucket.
fn served(data: &TempDir, bucket: &str) -> (Running, Client) {
    let server = start(data.path());
    let client = Client::of_bucket(&server, bucket);
    (server, client)
}

/// The bytes of an object that is too long for one answer.
fn long_body(client: &mut Client, key: &str, length: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < length {
        let range = format!("range: bytes={}-{}", body.len(), body.len() + (1 << 20) - 1);
        body.extend(client.ask("GET", key, &[], &range, b"").into_body());
    }
    body
}

/// The versions of the bucket: kind, key, and whether it is the latest.
fn kinds(client: &mut Client) -> Vec<String> {
    let history = client.history();
    let fields = history.iter().map(|line| line.split(' ').take(3).collect::<Vec<_>>());
    fields.map(|fields| fields.join(" ")).collect()
}

/// The names below a heading of a report.
fn names(report: &Value, heading: &str) -> Vec<String> {
    let list = report[heading].as_array().into_iter().flatten();
    list.map(|entry| format!("{}: {}", entry["name"].as_str().unwrap(), entry["why"].as_str().unwrap()))
        .collect()
}
