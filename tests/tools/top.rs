//! The command `top`, against a server of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::tcgetattr;
use serde_json::Value;

use super::{run, status, stderr, stdout};
use crate::support::process::{Running, on_a_free_port};

fn start(dir: &Path, more: &[&str]) -> Running {
    let mut command = on_a_free_port(dir);
    command.args(more);
    Running::start(command)
}

/// One view of a brief interval.
fn top(server: &Running, more: &[&str]) -> Output {
    let endpoint = format!("http://{}", server.address());
    run(&[&["top", "--endpoint", &endpoint, "--once", "--interval", "10ms"], more].concat())
}

#[test]
fn one_view_tells_of_requests_commits_disk_memory_and_buckets() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &["--bucket", "photos"]);
    let output = top(&server, &["--json"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let view: Value = serde_json::from_str(&stdout(&output)).unwrap();
    // The first reading of the metrics is a request that the second one tells of.
    let requests = view["requests"].as_array().unwrap();
    assert!(requests.len() == 1 && requests[0]["operation"] == "None", "{view:#}");
    assert!(requests[0]["per_second"].as_f64() > Some(0.0) && requests[0]["latency_ms"]["p99"].is_f64());
    assert_eq!(view["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&view["store_buckets"], &view["store_read_only"]), (&1.0.into(), &0.0.into()), "{view:#}");
    assert_eq!(view["commits"]["groups_per_second"], 0.0);
    assert_eq!(view["buckets"][0]["bucket"], "photos");
    for figure in ["disk_free_bytes", "memory_max_bytes", "memory_index_bytes"] {
        assert!(view[figure].as_f64() > Some(0.0), "{figure}: {view:#}");
    }
    assert_eq!(view["store_reclaimed_bytes_per_second"], 0.0);
    let text = stdout(&top(&server, &[]));
    for part in ["siltstone ", "commits ", "disk ", "memory ", "reclaim ", "None ", "photos "] {
        assert!(text.lines().any(|line| line.starts_with(part)), "{part}: {text}");
    }
    assert!(!text.contains('\x1b') && !text.contains("WARNING"), "{text}");
}

#[test]
fn a_token_shows_the_metrics_that_are_hidden_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("token");
    let token = path.to_str().unwrap();
    fs::write(&path, "a-token\n").unwrap();
    let server = start(dir.path(), &["--metrics", "off", "--metrics-token-file", token]);
    let refused = top(&server, &[]);
    assert_eq!(status(&refused), 2, "{}", stdout(&refused));
    let shown = top(&server, &["--metrics-token-file", token]);
    assert_eq!(status(&shown), 0, "{}", stderr(&shown));
    let endpoint = format!("http://{}", server.address());
    let examined = |more: &[&str]| {
        let doctor = run(&[&["--json", "doctor", "--endpoint", &endpoint], more].concat());
        let report: Value = serde_json::from_str(&stdout(&doctor)).unwrap();
        report["checks"].as_array().unwrap().contains(&"memory-refused".into())
    };
    assert!(!examined(&[]));
    assert!(examined(&["--metrics-token-file", token]));
    fs::write(&path, "two\nHost: words").unwrap();
    let wrong = top(&server, &["--metrics-token-file", token]);
    assert!(status(&wrong) == 2 && stderr(&wrong).contains("one word"), "{}", stderr(&wrong));
}

#[test]
fn the_live_view_goes_on_with_a_line_for_each_interval() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    command.args([
        "--json",
        "top",
        "--interval",
        "10ms",
        "--endpoint",
        &format!("http://{}", server.address()),
    ]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines.take(3) {
        let view: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(view["requests"][0]["operation"], "None", "{view:#}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_server_that_does_not_answer_or_shows_no_metrics_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &["--metrics", "off"]);
    let refused = top(&server, &[]);
    assert!(status(&refused) == 2 && stderr(&refused).contains("answers 404"), "{}", stderr(&refused));
    let absent = run(&["top", "--endpoint", "http://127.0.0.1:1", "--once"]);
    assert!(status(&absent) == 2 && stderr(&absent).contains("127.0.0.1:1"), "{}", stderr(&absent));
}

#[test]
fn the_key_q_ends_the_view_in_a_terminal_and_leaves_it_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &[]);
    let endpoint = format!("http://{}", server.address());
    for key in [b"xq".as_slice(), b"\x03"] {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
        let flags = OFlags::NOCTTY.bits().cast_signed();
        let device = fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(name).unwrap();
        let before = tcgetattr(&device).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
        command.args(["top", "--interval", "20ms", "--endpoint", &endpoint]);
        command.stdin(device.try_clone().unwrap()).stdout(device.try_clone().unwrap());
        let mut child = command.spawn().unwrap();
        let mut controller = fs::File::from(controller);
        let mut seen = [0; 4096];
        // The first view shows that the keys are read.
        while controller.read(&mut seen).unwrap() == 0 {}
        controller.write_all(key).unwrap();
        let screen = std::thread::spawn(move || while let Ok(1..) = controller.read(&mut seen) {});
        assert!(child.wait().unwrap().success());
        let after = tcgetattr(&device).unwrap();
        assert_eq!(after.local_modes, before.local_modes);
        drop((device, command));
        screen.join().unwrap();
    }
}
