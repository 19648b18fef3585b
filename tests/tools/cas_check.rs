//! `cas-check` against the server, and against stores that break the contract of conditional
//! writes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use siltstone::store::{ListQuery, Versioning};

use super::tiny_store::{Fault, TinyStore};
use super::{status, stderr, stdout};
use crate::support::process::{Running, on_a_free_port};

const ACCESS_KEY: &str = "AKCHECKSWRITES";
const SECRET_KEY: &str = "a secret of the check";

fn start(dir: &Path) -> Running {
    let mut command = on_a_free_port(dir);
    command.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
    Running::start(command)
}

/// Runs `cas-check` with keys in the environment.
fn check(url: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    command.args(["--json", "cas-check", url]).args(more);
    for usual in [["--rounds", "6"], ["--connections", "6"]] {
        command.args(usual.iter().filter(|_| !more.contains(&usual[0])));
    }
    command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    command.env_remove("AWS_SESSION_TOKEN").stdin(Stdio::null()).output().unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

/// The results of the checks: name, with versions or without, result.
fn results(report: &Value) -> Vec<(String, bool, String)> {
    let text = |check: &Value, name: &str| check[name].as_str().unwrap().to_owned();
    let one =
        |check: &Value| (text(check, "check"), check["versions"].as_bool().unwrap(), text(check, "result"));
    report["checks"].as_array().unwrap().iter().map(one).collect()
}

/// The names of the checks without versions that have this result.
fn with_result(report: &Value, result: &str) -> Vec<String> {
    let all = results(report).into_iter().filter(|(_, versions, found)| !versions && found == result);
    all.map(|(name, ..)| name).collect()
}

fn against(fault: Fault) -> (Output, Value, (usize, usize)) {
    let store = TinyStore::start(fault);
    let output = check(&store.url(), &[]);
    let report = report(&output);
    (output, report, store.left())
}

#[test]
fn the_server_passes_with_versions_and_without_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let output = check(&format!("http://{}", server.address()), &[]);
    let report = report(&output);
    assert_eq!((status(&output), &report["verdict"]), (0, &Value::from("pass")), "{report}");
    let results = results(&report);
    assert_eq!(results.len(), 16);
    assert!(results.iter().all(|(.., result)| result == "holds"), "{results:?}");
    assert_eq!(results.iter().filter(|(_, versions, _)| *versions).count(), 8);
    assert!(report["requests"].as_u64().unwrap() > 2 * 3 * 6 * 6, "{report}");
    let metrics = server.answer("/-/metrics");
    assert!(metrics.contains("\nsiltstone_store_buckets 0\n"), "{metrics}");
}

#[test]
fn a_bucket_that_is_named_is_made_if_it_does_not_exist() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let made = check(&format!("http://{}", server.address()), &["--bucket", "named-here", "--rounds", "1"]);
    let report = report(&made);
    assert_eq!((status(&made), &report["bucket"]), (0, &Value::from("named-here")), "{report}");
    assert_eq!(results(&report).len(), 16);
    assert!(server.answer("/-/metrics").contains("\nsiltstone_store_buckets 0\n"), "made, so removed");
}

#[test]
fn a_bucket_that_exists_keeps_its_objects_and_its_versions_setting() {
    for setting in [Versioning::Unset, Versioning::Enabled, Versioning::Suspended] {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("siltstone-data");
        std::fs::create_dir(&data).unwrap();
        let store = super::open(&data);
        store.create_bucket("photos", "admin").unwrap();
        if setting != Versioning::Unset {
            store.set_versioning("photos", setting).unwrap();
        }
        super::put(&store, "kept", b"as it was");
        drop(store);
        let server = start(dir.path());
        let output = check(&format!("http://{}", server.address()), &["--bucket", "photos", "--rounds", "2"]);
        let results = results(&report(&output));
        assert_eq!((status(&output), results.len()), (0, 8), "{setting:?}: {results:?}");
        let expected = setting != Versioning::Unset;
        let good =
            |(_, versions, result): &(String, bool, String)| *versions == expected && result == "holds";
        assert!(results.iter().all(good), "{setting:?}: {results:?}");
        server.end(Signal::TERM);
        let store = super::open(&data);
        assert_eq!(store.bucket("photos").unwrap().versioning, setting);
        let query = ListQuery { limit: 9, ..ListQuery::default() };
        let left = store.list_versions("photos", &query, None).unwrap();
        assert_eq!(left.len(), 1, "{setting:?}: nothing else is there");
    }
}

#[test]
fn a_store_that_decides_under_a_lock_passes_without_versions() {
    let (output, report, left) = against(Fault::None);
    assert_eq!((status(&output), with_result(&report, "holds").len()), (0, 8), "{report}");
    let with_versions = results(&report).into_iter().filter(|(_, versions, _)| *versions);
    assert!(with_versions.into_iter().all(|(.., result)| result == "not offered"), "{report}");
    assert_eq!(left, (0, 0), "all is removed");
}

#[test]
fn a_store_that_checks_and_then_puts_without_a_lock_is_caught_by_the_races_alone() {
    let (output, report, _) = against(Fault::NoLock);
    assert_eq!((status(&output), &report["verdict"]), (1, &Value::from("fail")), "{report}");
    let broken = with_result(&report, "broken");
    assert!(broken.contains(&"create-race".to_owned()), "{report}");
    assert!(broken.iter().all(|name| name.ends_with("-race")), "{broken:?}");
    let holds = with_result(&report, "holds");
    assert!(
        ["create", "replace", "delete", "multipart"].iter().all(|name| holds.contains(&(*name).to_owned()))
    );
}

#[test]
fn stores_that_ignore_conditions_are_caught() {
    for (fault, broken, good) in [
        (Fault::IgnoresAbsence, ["create", "create-race", "multipart", "multipart-race"], "replace"),
        (Fault::IgnoresTags, ["replace", "replace-race", "delete", "multipart"], "create"),
    ] {
        let (output, report, _) = against(fault);
        assert_eq!(status(&output), 1);
        let found = with_result(&report, "broken");
        assert!(broken.iter().all(|name| found.contains(&(*name).to_owned())), "{fault:?}: {report}");
        assert!(with_result(&report, "holds").contains(&good.to_owned()), "{fault:?}: {report}");
    }
}

#[test]
fn a_refused_write_that_becomes_visible_is_caught() {
    let (output, report, _) = against(Fault::WritesTheRefused);
    let broken = with_result(&report, "broken");
    assert_eq!((status(&output), broken.len()), (1, 8), "{report}");
    assert!(stdout(&output).contains("other bytes than those of the last write"), "{report}");
}

#[test]
fn a_refusal_and_a_failure_are_told_apart_from_a_broken_contract() {
    let (output, report, _) = against(Fault::RefusesDeletions);
    assert_eq!(
        (status(&output), with_result(&report, "refused")),
        (1, vec!["delete".into(), "delete-race".into()])
    );
    assert_eq!(with_result(&report, "broken"), Vec::<String>::new());
    assert!(report["reason"].as_str().unwrap().contains("refuses some conditions"), "{report}");
    let (output, report, _) = against(Fault::Fails);
    assert_eq!((status(&output), with_result(&report, "broken")), (1, vec![]));
    assert_eq!(with_result(&report, "unfinished"), ["multipart", "multipart-race"], "{report}");
}

#[test]
fn after_its_time_the_check_ends_and_removes_its_keys() {
    let store = TinyStore::start(Fault::None);
    let output = check(&store.url(), &["--timeout", "0s"]);
    assert_eq!((status(&output), with_result(&report(&output), "unfinished").len()), (1, 8));
    assert_eq!(store.left().0, 0);
}

#[test]
fn a_store_that_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let url = format!("http://{}", server.address());
    for (url, more, told) in [
        (&*url, &["--secret-key", "another"][..], "SignatureDoesNotMatch"),
        ("http://127.0.0.1:1", &[], "http://127.0.0.1:1"),
        ("ftp://a", &[], "http://HOST:PORT"),
        (&*url, &["--rounds", "0"], "--rounds"),
        (&*url, &["--connections", "1"], "--connections"),
    ] {
        let output = check(url, more);
        assert_eq!(status(&output), 2, "{url} {more:?}");
        assert!(stderr(&output).contains(told), "{url} {more:?}: {}", stderr(&output));
    }
}

#[test]
fn the_text_has_a_line_for_each_check_and_ends_with_the_verdict() {
    let store = TinyStore::start(Fault::None);
    let keys = ["--access-key", "a", "--secret-key", "b", "--rounds", "1", "--connections", "2"];
    let output = super::run(&[&["cas-check", &store.url()][..], &keys].concat());
    let text = stdout(&output);
    assert_eq!((status(&output), text.matches("\n  holds ").count()), (0, 8), "{text}");
    assert!(text.ends_with("verdict: pass: the store decides conditional writes atomically\n"), "{text}");
    assert!(stderr(&output).contains("create-race"), "progress: {}", stderr(&output));
}

#[test]
fn an_encrypted_store_is_verified_by_the_authority_that_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls");
    let mut command = on_a_free_port(dir.path());
    command.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
    command.arg("--tls-cert").arg(fixtures.join("one.pem")).arg("--tls-key").arg(fixtures.join("one.key"));
    let server = Running::start_tls(command);
    let url = format!("https://localhost:{}", server.address().rsplit_once(':').unwrap().1);
    let with =
        |file: &str| check(&url, &["--rounds", "1", "--ca-file", fixtures.join(file).to_str().unwrap()]);
    let output = with("ca-one.pem");
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let refused = with("ca-two.pem");
    assert_eq!(status(&refused), 2);
    assert!(stderr(&refused).contains("certificate"), "{}", stderr(&refused));
}
