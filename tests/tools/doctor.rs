//! `doctor` against prepared faults: each is named. The faults of hosts are beside the checks of
//! `tools/doctor`.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Fixture, run, status, stderr, stdout};
use crate::support::process::{Running, on_a_free_port};
use crate::support::proxy::{self, Fault, Verdict, value, with_head, without};

const ACCESS_KEY: &str = "AKDOCTORSEESALL1";
const SECRET_KEY: &str = "a secret of the doctor";

fn server(dir: &Path, variables: &[(&str, &str)]) -> Running {
    let mut command = on_a_free_port(dir);
    command.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
    command.envs(variables.iter().copied());
    if variables.iter().any(|(name, _)| *name == "SILTSTONE_TLS_CERT") {
        return Running::start_tls(command);
    }
    Running::start(command)
}

/// The checks with findings, without notes, and the report.
fn examine(args: &[&str]) -> (BTreeSet<String>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    command.args(["--json", "doctor"]).args(args).env_remove("SSL_CERT_FILE").stdin(Stdio::null());
    command.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
    let output = command.output().unwrap();
    let report: Value = serde_json::from_str(&stdout(&output))
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let findings = report["findings"].as_array().unwrap().iter();
    let faults = findings.filter(|finding| finding["severity"] != "note");
    let named: BTreeSet<_> = faults.map(|finding| finding["check"].as_str().unwrap().to_owned()).collect();
    assert_eq!(status(&output), i32::from(!named.is_empty()), "{report}");
    (named, report)
}

fn examine_behind(server: SocketAddr, fault: Fault) -> (BTreeSet<String>, Value) {
    examine(&["--endpoint", &format!("http://{}", proxy::start(server, fault))])
}

fn on_request(request: fn(String) -> Verdict) -> Fault {
    Fault { request, ..Fault::default() }
}

fn on_answer(answer: fn(&str, Vec<u8>) -> Vec<u8>) -> Fault {
    Fault { answer, ..Fault::default() }
}

/// A request whose path is changed.
fn with_path(head: &str, change: impl FnOnce(&str) -> String) -> Verdict {
    let (line, rest) = head.split_once("\r\n").unwrap();
    let words: Vec<_> = line.split(' ').collect();
    Verdict::Forward(format!("{} {} {}\r\n{rest}", words[0], change(words[1]), words[2]))
}

fn replaced(answer: &[u8], from: &[u8; 5], to: &[u8; 5]) -> Vec<u8> {
    let mut answer = answer.to_vec();
    if let Some(at) = answer.windows(5).position(|five| five == from) {
        answer[at..at + 5].copy_from_slice(to);
    }
    answer
}

const REFUSED: &str =
    "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nDate: Sat, 01 Jan 2050 00:00:00 GMT\r\n\r\n";
const TOO_LARGE: &str = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n";
const LENGTH_REQUIRED: &str = "HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\n\r\n";

/// Proxies with one fault each, and the check that names it.
fn faults() -> Vec<(&'static str, Fault)> {
    vec![
        ("body-changed", on_answer(|_, answer| replaced(&answer, b"brown", b"green"))),
        (
            "compression",
            on_answer(|request, answer| {
                match value(request, "accept-encoding").is_some_and(|with| with.contains("br")) {
                    true => {
                        with_head(&answer, |head| head.replacen("\r\n", "\r\nContent-Encoding: gzip\r\n", 1))
                    }
                    false => answer,
                }
            }),
        ),
        (
            "headers-dropped",
            on_answer(|_, answer| with_head(&answer, |head| without(head, "x-amz-meta-doctor"))),
        ),
        (
            "etag-weakened",
            on_answer(|request, answer| match value(request, "accept-encoding") {
                Some("gzip") => with_head(&answer, |head| head.replace("ETag: ", "ETag: W/")),
                _ => answer,
            }),
        ),
        (
            "length-dropped",
            on_answer(|request, answer| match request.starts_with("HEAD") {
                true => with_head(&answer, |head| without(head, "content-length")),
                false => answer,
            }),
        ),
        (
            "length-dropped",
            // A proxy that does not know the length of its answer ends it by closing.
            on_answer(|request, answer| match request.starts_with("GET") {
                true => with_head(&answer, |head| without(head, "content-length")),
                false => answer,
            }),
        ),
        (
            "body-limit",
            on_request(|head| match value(&head, "content-length").and_then(|length| length.parse().ok()) {
                Some(1_048_577_u64..) => Verdict::Answer(TOO_LARGE),
                _ => Verdict::Forward(head),
            }),
        ),
        ("path-changed", on_request(|head| with_path(&head, str::to_lowercase))),
        ("path-changed", on_request(|head| with_path(&head, |path| path.replace("//", "/")))),
        ("path-changed", on_request(|head| with_path(&head, |path| path.replace("/u/..", "")))),
        ("path-changed", on_request(|head| with_path(&head, |path| path.replace("%25", "%")))),
        ("expect-continue", on_request(|head| Verdict::Forward(without(&head, "expect")))),
        (
            "transfer-chunked",
            on_request(|head| match value(&head, "transfer-encoding") {
                Some(_) => Verdict::Answer(LENGTH_REQUIRED),
                None => Verdict::Forward(head),
            }),
        ),
        ("range", on_request(|head| Verdict::Forward(without(&head, "range")))),
        ("conditions", on_request(|head| Verdict::Forward(without(&head, "if-none-match")))),
        (
            "cors",
            on_request(|head| match head.starts_with("OPTIONS") {
                true => Verdict::Answer(REFUSED),
                false => Verdict::Forward(head),
            }),
        ),
        (
            "cors",
            on_answer(|_, answer| with_head(&answer, |head| without(head, "access-control-allow-origin"))),
        ),
        (
            "delete",
            on_request(|head| match head.starts_with("DELETE") {
                true => Verdict::Answer(REFUSED),
                false => Verdict::Forward(head),
            }),
        ),
        (
            "clock-skew",
            on_answer(|_, answer| {
                with_head(&answer, |head| {
                    without(head, "date").replacen("\r\n", "\r\nDate: Wed, 01 Jan 2020 00:00:00 GMT\r\n", 1)
                })
            }),
        ),
        ("date", on_answer(|_, answer| with_head(&answer, |head| without(head, "date")))),
        (
            "signature",
            on_request(|head| {
                let inner = without(&head, "host").replacen("\r\n", "\r\nHost: inner:9000\r\n", 1);
                Verdict::Forward(inner)
            }),
        ),
    ]
}

#[test]
fn nothing_is_found_at_a_server_alone_and_behind_a_faithful_proxy() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path(), &[]);
    let url = format!("http://{}", server.address());
    let (named, report) = examine(&["--endpoint", &url]);
    assert_eq!(named, BTreeSet::new(), "{report}");
    assert!(report["checks"].as_array().unwrap().len() > 25, "{report}");
    let (named, report) = examine_behind(server.address().parse().unwrap(), Fault::default());
    assert_eq!(named, BTreeSet::new(), "{report}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    command.args(["stats", "--data-dir"]).arg(dir.path().join("siltstone-data"));
    let told = stdout(&command.output().unwrap());
    assert!(told.contains("buckets: 0"), "everything is removed: {told}");
}

#[test]
fn each_fault_of_a_proxy_is_named_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path(), &[("SILTSTONE_BUCKETS_MAX", "100")]);
    let address: SocketAddr = server.address().parse().unwrap();
    for (check, fault) in faults() {
        let (named, report) = examine_behind(address, fault);
        assert_eq!(named, BTreeSet::from([check.to_owned()]), "{report:#}");
    }
}

#[test]
fn held_bodies_and_lost_trailers_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path(), &[]);
    let address = server.address().parse().unwrap();
    let (named, report) = examine_behind(address, Fault { holds_bodies: true, ..Fault::default() });
    assert!(named.contains("buffering"), "{report:#}");
    let (named, report) = examine_behind(
        address,
        on_request(|head| Verdict::Forward(without(&head, "x-amz-decoded-content-length"))),
    );
    assert!(named.contains("aws-chunked"), "{report:#}");
}

#[test]
fn faults_of_the_way_and_of_keys_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let alone = server(dir.path(), &[]);
    let url = format!("http://{}", alone.address());
    let host = alone.address().replace("127.0.0.1", "localhost");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let name = format!("http://{}", "x".repeat(64));
    for (check, args) in [
        ("tcp", &["--endpoint", &format!("http://{closed}")][..]),
        ("dns", &["--endpoint", &name]),
        ("region", &["--endpoint", &url, "--region", "nowhere-1"]),
        ("keys", &["--endpoint", &url, "--access-key", "AKUNKNOWNKEY1234"]),
        ("signature", &["--endpoint", &url, "--secret-key", "another"]),
        (
            "tls",
            &["--endpoint", &format!("https://{}", alone.address()), "--ca-file", &certificate("ca-one.pem")],
        ),
    ] {
        let (named, report) = examine(args);
        assert_eq!(named, BTreeSet::from([check.to_owned()]), "{report:#}");
    }
    let (named, report) = examine(&["--endpoint", &format!("http://{host}")]);
    assert!(named.is_empty() && report["findings"].to_string().contains("--domain localhost"), "{report:#}");
    let with_domain = server(other.path(), &[("SILTSTONE_DOMAIN", "localhost")]);
    let host = with_domain.address().replace("127.0.0.1", "localhost");
    let (named, report) = examine(&["--endpoint", &format!("http://{host}")]);
    assert!(named.is_empty() && !report["findings"].to_string().contains("--domain"), "{report:#}");
}

#[test]
fn requests_over_tls_are_examined_and_an_unknown_authority_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let files =
        [("SILTSTONE_TLS_CERT", certificate("one.pem")), ("SILTSTONE_TLS_KEY", certificate("one.key"))];
    let server = server(dir.path(), &files.each_ref().map(|(name, file)| (*name, file.as_str())));
    let url = format!("https://{}", server.address());
    let (named, report) = examine(&["--endpoint", &url, "--ca-file", &certificate("ca-one.pem")]);
    assert_eq!(named, BTreeSet::new(), "{report:#}");
    let (named, report) = examine(&["--endpoint", &url, "--ca-file", &certificate("ca-two.pem")]);
    assert_eq!(named, BTreeSet::from(["tls".to_owned()]), "{report:#}");
}

#[test]
fn a_server_with_the_certificate_of_an_authority_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("SILTSTONE_TLS_CERT", certificate("authority.pem")),
        ("SILTSTONE_TLS_KEY", certificate("authority.key")),
    ];
    let server = server(dir.path(), &files.each_ref().map(|(name, file)| (*name, file.as_str())));
    let url = format!("https://{}", server.address());
    let (named, report) = examine(&["--endpoint", &url, "--ca-file", &certificate("authority.pem")]);
    assert_eq!(named, BTreeSet::from(["tls-authority".to_owned()]), "{report:#}");
}

fn certificate(name: &str) -> String {
    format!("{}/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_data_directory_is_examined_beside_and_without_a_server() {
    let store = Fixture::new();
    let dir = store.tool(&["stats"]);
    assert_eq!(status(&dir), 0);
    let (named, report) = examine(&[store.dir.path().to_str().unwrap(), "--backup", "/nowhere"]);
    assert!(named.contains("backup") && !named.contains("store"), "{report:#}");
    let home = tempfile::tempdir().unwrap();
    let running =
        server(home.path(), &[("SILTSTONE_MEMORY_MAX", "512MiB"), ("SILTSTONE_INDEX_MAX", "900TiB")]);
    let data = home.path().join("siltstone-data");
    fs::write(data.join("users.toml"), "").unwrap();
    fs::set_permissions(data.join("users.toml"), fs::Permissions::from_mode(0o644)).unwrap();
    let (named, report) = examine(&[data.to_str().unwrap()]);
    assert!(named.contains("memory"), "the process is found by its lock: {report:#}");
    assert!(named.contains("secrets"), "{report:#}");
    drop(running);
    assert_eq!(status(&run(&["doctor", "/nowhere/at/all"])), 2);
    let beside = run(&["--data-dir", "/nowhere/at/all", "doctor", "--endpoint", "http://127.0.0.1:1"]);
    assert!(status(&beside) == 2 && stderr(&beside).contains("/nowhere/at/all"), "it is not passed over");
}

/// The section takes no key with blanks.
const REMOTE_SECRET: &str = "a-secret-of-the-remote";

/// A file with a section `[remote]`.
fn section(dir: &Path, name: &str, endpoint: &str, more: &str) -> String {
    let file = dir.join(name);
    let keys = format!("access_key = '{ACCESS_KEY}'\nprefix = 'box'\n");
    fs::write(&file, format!("[remote]\nendpoint = '{endpoint}'\n{keys}{more}")).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The checks of the remote with findings.
fn examine_remote(store: &Fixture, config: &str) -> (BTreeSet<String>, Value) {
    let (named, report) = examine(&[store.dir.path().to_str().unwrap(), "--remote", config]);
    (named.into_iter().filter(|check| check.starts_with("remote-")).collect(), report)
}

#[test]
fn faults_of_a_remote_are_named_alone() {
    let dir = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let mut command = on_a_free_port(dir.path());
    command.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", REMOTE_SECRET);
    command.args(["--bucket", "cold", "--bucket", "kept:versioned"]);
    let server = Running::start(command);
    let store = Fixture::new();
    let other = Fixture::new();
    let url = format!("http://{}", server.address());
    let secret = format!("secret_key = '{REMOTE_SECRET}'\n");
    let on = |name: &str, bucket: &str, more: &str| {
        section(files.path(), name, &url, &format!("bucket = '{bucket}'\n{more}"))
    };
    let expect = |config: &str, checks: &[&str]| {
        let (named, report) = examine_remote(&store, config);
        assert_eq!(named, checks.iter().map(|&check| check.to_owned()).collect(), "{config}: {report:#}");
    };
    let init = |of: &Fixture, config: &str| {
        let done = of.tool(&["remote", "--config", config, "init", "--rounds", "1", "--racers", "2"]);
        assert_eq!(status(&done), 0, "{done:?}");
    };
    let cold = on("cold.toml", "cold", &secret);
    expect(&cold, &["remote-mark"]);
    init(&store, &cold);
    expect(&cold, &[]);
    let (named, report) = examine_remote(&other, &cold);
    assert!(named == BTreeSet::from(["remote-mark".to_owned()]), "of another store: {report:#}");
    let key = files.path().join("key");
    assert_eq!(status(&run(&["remote", "key", key.to_str().unwrap()])), 0);
    let keyed = format!("{secret}encryption_key_file = '{}'\n", key.display());
    expect(&on("keyed.toml", "cold", &keyed), &["remote-mark"]);
    let kept = on("kept.toml", "kept", &secret);
    init(&store, &kept);
    expect(&kept, &["remote-versions"]);
    expect(&on("none.toml", "none", &secret), &["remote-bucket"]);
    expect(&on("secret.toml", "cold", "secret_key = 'another'\n"), &["remote-keys"]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed = section(
        files.path(),
        "closed.toml",
        &format!("http://{closed}"),
        &format!("bucket = 'cold'\n{secret}"),
    );
    expect(&closed, &["remote-reach"]);
}
