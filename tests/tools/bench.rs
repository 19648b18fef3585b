//! The command `bench`, against a server of its own.

use std::path::Path;

use serde_json::Value;

use super::{run, status, stderr, stdout};
use crate::support::process::{Running, on_a_free_port};

const ACCESS_KEY: &str = "AKMEASURESTHINGS";
const SECRET_KEY: &str = "a secret of the bench";

fn start(dir: &Path) -> Running {
    let mut command = on_a_free_port(dir);
    command.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
    Running::start(command)
}

/// Runs it too briefly for meaningful figures.
fn bench(server: &Running, more: &[&str]) -> std::process::Output {
    let endpoint = format!("http://{}", server.address());
    let usual = ["bench", "--endpoint", &endpoint, "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
    let brief = ["--duration", "100ms", "--objects", "20"];
    run(&[usual.as_slice(), &brief, more].concat())
}

#[test]
fn every_operation_is_measured_at_every_size_and_number_of_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let output = bench(&server, &["--json", "--sizes", "1KiB,100KiB", "--clients", "1,3"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 5 * 2 * 2);
    for result in results {
        assert!(result["requests"].as_u64().unwrap() > 0, "{result}");
        assert_eq!(result["errors"].as_object().unwrap().len(), 0, "{result}");
        let latency = |name: &str| result["latency_ms"][name].as_f64().unwrap();
        assert!(latency("p50") > 0.0 && latency("p50") <= latency("p99") && latency("p99") <= latency("max"));
    }
    let get = results.iter().find(|r| r["operation"] == "get" && r["size_bytes"] == 102_400).unwrap();
    assert_eq!(get["body_bytes"].as_u64().unwrap(), 102_400 * get["requests"].as_u64().unwrap());
}

#[test]
fn nothing_is_left_behind_and_the_plot_shows_every_result() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    for (operations, rows) in [("put,get", 2), ("head", 1)] {
        let plot = dir.path().join(format!("{rows}.svg"));
        let output = bench(&server, &["--operations", operations, "--plot", plot.to_str().unwrap()]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let drawn = std::fs::read_to_string(plot).unwrap();
        let document = roxmltree::Document::parse(&drawn).unwrap();
        let texts: Vec<_> = document.descendants().filter_map(|node| node.text()).map(str::trim).collect();
        for operation in operations.split(',') {
            assert!(stdout(&output).lines().any(|line| line.starts_with(operation)), "{}", stdout(&output));
            assert!(texts.contains(&format!("{operation} 4.0 KiB x16").as_str()), "{texts:?}");
        }
    }
    let listed = server.answer("/-/metrics");
    assert!(listed.contains("\nsiltstone_store_buckets 0\n"), "{listed}");
}

#[test]
fn a_refusing_or_missing_server_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let endpoint = format!("http://{}", server.address());
    let refused =
        run(&["bench", "--endpoint", &endpoint, "--access-key", ACCESS_KEY, "--secret-key", "another"]);
    assert_eq!(status(&refused), 2);
    assert!(stderr(&refused).contains("SignatureDoesNotMatch"), "{}", stderr(&refused));
    let absent =
        run(&["bench", "--endpoint", "http://127.0.0.1:1", "--access-key", "a", "--secret-key", "b"]);
    assert_eq!(status(&absent), 2);
    assert!(stderr(&absent).contains("http://127.0.0.1:1"), "{}", stderr(&absent));
    let other = run(&["bench", "--endpoint", "ftp://a", "--access-key", "a", "--secret-key", "b"]);
    assert_eq!(status(&other), 2);
    assert!(stderr(&other).contains("http://HOST:PORT"), "{}", stderr(&other));
}
