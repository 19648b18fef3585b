//! The server on two directories with the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use tempfile::TempDir;

use super::tier::{self, client, get, put};
use crate::support::client::eventually;
use crate::support::process::{Running, finish, on_a_free_port, siltstone, stderr_of};

/// Two places for disks, of which either can be taken out.
pub(super) struct Host {
    dir: TempDir,
}

impl Host {
    pub(super) fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn start(&self, arguments: &[&str]) -> Running {
        let both = [&["--mirror", "data=other"], arguments].concat();
        tier::start(self.dir.path(), "127.0.0.1:0", &both)
    }

    /// A start of a server that ends at once.
    fn run(&self, arguments: &[&str]) {
        assert_eq!(self.start(arguments).end(Signal::TERM).0, Some(0));
    }

    pub(super) fn refusal(&self, arguments: &[&str]) -> String {
        let output = finish(on_a_free_port(self.dir.path()).args(arguments));
        assert_ne!(output.status.code(), Some(0), "{arguments:?}");
        stderr_of(&output)
    }

    fn refused(&self) -> String {
        self.refusal(&["--mirror", "data=other"])
    }

    pub(super) fn tool(&self, arguments: &[&str]) -> Output {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
        finish(tool.current_dir(self.dir.path()).args(["--mirror", "data=other"]).args(arguments))
    }

    pub(super) fn take_out(&self, name: &str) {
        fs::rename(self.path(name), self.path(&format!("{name}-out"))).unwrap();
    }

    pub(super) fn bring_back(&self, name: &str) {
        fs::rename(self.path(&format!("{name}-out")), self.path(name)).unwrap();
    }

    /// The log and the segments in a directory.
    fn files(&self, name: &str) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for dir in ["data", "meta"] {
            for entry in fs::read_dir(self.path(name).join(dir)).unwrap().map(Result::unwrap) {
                let file = entry.file_name().into_string().unwrap();
                if file != "7ffffffffffffffe.log" {
                    files.insert(format!("{dir}/{file}"), fs::read(entry.path()).unwrap());
                }
            }
        }
        files
    }

    fn check_equal(&self) {
        let one = self.files("data");
        let other = self.files("other");
        assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
        for (name, bytes) in &one {
            assert!(other[name] == *bytes, "{name} differs");
        }
        assert!(one.len() >= 3, "{:?}", one.keys());
    }
}

pub(super) fn is_degraded(server: &Running) -> bool {
    let metrics = server.answer("/-/metrics");
    assert!(metrics.contains("siltstone_disk_side_state{dir=\"data\""), "{metrics}");
    metrics.contains("\nsiltstone_disk_degraded 1\n")
}

pub(super) fn wait_until_whole(server: &Running) {
    server.wait_until("both sides are whole", |server| !is_degraded(server));
}

pub(super) fn check_objects(server: &Running, count: u64) {
    let client = client(server.address());
    for nth in 0..count {
        assert!(get(&client, nth).unwrap() == tier::bytes(nth), "object {nth}");
    }
}

#[test]
fn a_mirrored_store_goes_on_with_either_side_and_fills_the_one_that_comes_back() {
    let host = Host::new();
    let server = host.start(&[]);
    assert!(!is_degraded(&server));
    put(&client(server.address()), 0).unwrap();
    assert!(host.refused().contains("another process"));
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    host.check_equal();

    host.take_out("other");
    let said = host.refused();
    assert!(said.contains("--accept-degraded"), "{said}");
    let examined = String::from_utf8(host.tool(&["doctor"]).stdout).unwrap();
    assert!(examined.contains("a start is refused"), "{examined}");
    assert!(!host.path("other").exists());
    let server = host.start(&["--accept-degraded", "true"]);
    assert!(is_degraded(&server));
    let ready = server.answer("/-/ready");
    assert!(
        ready.starts_with("HTTP/1.1 200 ") && ready.contains("degraded: side B (other) is not in"),
        "{ready}"
    );
    assert!(ready.contains("it was not there at the start"), "{ready}");
    let forwarded = server.answer_to("/-/ready", "X-Forwarded-For: 192.0.2.1\r\n");
    assert!(
        forwarded.contains("degraded: side B is not in") && !forwarded.contains("(other)"),
        "{forwarded}"
    );
    check_objects(&server, 1);
    put(&client(server.address()), 1).unwrap();
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    // It is the only member from now on.
    host.run(&[]);

    host.bring_back("other");
    let server = host.start(&[]);
    wait_until_whole(&server);
    assert!(!server.answer("/-/ready").contains("degraded"));
    put(&client(server.address()), 2).unwrap();
    check_objects(&server, 3);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    host.check_equal();

    host.take_out("data");
    let server = host.start(&["--accept-degraded", "true"]);
    check_objects(&server, 3);
    put(&client(server.address()), 3).unwrap();
    assert_eq!(server.end(Signal::KILL).0, None);
    host.bring_back("data");
    let server = host.start(&[]);
    check_objects(&server, 4);
    wait_until_whole(&server);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    host.check_equal();
    let examined = host.tool(&["doctor"]);
    let examined = String::from_utf8(examined.stdout).unwrap();
    assert!(examined.contains("are on one disk") && !examined.contains("sides:"), "{examined}");
    let verified = host.tool(&["verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", stderr_of(&verified));
}

/// Writes a program of a shell. Another process writes the file: here it could be open for writing in a
/// child of another test, and could not be run.
fn write_program(host: &Host, name: &str, lines: &str) {
    let text = format!("#!/bin/sh\n{lines}\n");
    let mut shell = Command::new("sh");
    shell
        .current_dir(host.dir.path())
        .arg("-c")
        .arg(format!("printf %s '{text}' > {name} && chmod +x {name}"));
    assert!(finish(&mut shell).status.success());
}

#[test]
fn a_program_is_told_of_each_change_of_a_side() {
    let host = Host::new();
    host.run(&[]);
    let told = host.path("told");
    let line = r#""$SILTSTONE_DISK_EVENT $SILTSTONE_DISK_SIDE $SILTSTONE_DISK_PATH $SILTSTONE_DISK_STATE: $SILTSTONE_DISK_TEXT ${SILTSTONE_SECRET_KEY-no secret}""#;
    write_program(&host, "hook", &format!("echo {line} >> {}\nexit 3", told.display()));
    let lines = || fs::read_to_string(&told).unwrap_or_default();
    host.take_out("other");
    let server = host.start(&["--disk-hook", "hook", "--accept-degraded", "true"]);
    eventually("a failure is counted", || {
        server.answer("/-/metrics").contains("\nsiltstone_disk_hook_failures_total 1\n")
    });
    let dropped = "dropped B other out: Side B of the mirror (other) is not in the mirror: it was not there at the start no secret\n";
    assert_eq!(lines(), dropped);
    let (code, said) = server.end(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(said.contains("hook failed on `dropped`: exit status: 3"), "{said}");

    host.bring_back("other");
    let server = host.start(&["--disk-hook", "hook"]);
    eventually("the filling is reported", || lines().lines().count() == 3);
    let lines = lines();
    let filled: Vec<_> = lines.lines().skip(1).collect();
    assert!(filled[0].starts_with("filling B other filling: Side B "), "{lines}");
    assert!(
        filled[1].starts_with("filled B other whole: Side B of the mirror (other) has all bytes"),
        "{lines}"
    );
    assert!(server.answer("/-/metrics").contains("\nsiltstone_disk_hook_calls_total 2\n"));
}

#[test]
fn a_program_that_hangs_holds_up_nothing_and_does_not_outlast_the_server() {
    let host = Host::new();
    host.run(&[]);
    host.take_out("other");
    write_program(
        &host,
        "hook",
        &format!("sleep 1000 & echo $$ $! > {0}.new; mv {0}.new {0}; wait", host.path("ids").display()),
    );
    let server = host.start(&["--disk-hook", "hook", "--accept-degraded", "true"]);
    eventually("the program runs", || host.path("ids").exists());
    put(&client(server.address()), 0).unwrap();
    let (code, said) = server.end(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(said.contains("it was killed, since the server stops"), "{said}");
    let ids = fs::read_to_string(host.path("ids")).unwrap();
    for id in ids.split_whitespace() {
        // The child of the program has another parent by now, which may not have waited for it.
        let state = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }
}

#[test]
fn a_program_that_cannot_be_run_is_refused_before_a_disk_fails() {
    let host = Host::new();
    fs::write(host.path("text"), "").unwrap();
    for (program, why) in [("missing", "No such file"), ("text", "not executable"), (".", "no program")] {
        let said = host.refusal(&["--mirror", "data=other", "--disk-hook", program]);
        assert!(said.contains(&format!("--disk-hook {program}: ")) && said.contains(why), "{said}");
        assert!(!host.path("data").exists(), "{program}");
    }
}

#[test]
fn a_server_that_only_looks_locks_both_sides() {
    let host = Host::new();
    host.run(&[]);
    let server = host.start(&["--read-only"]);
    assert!(host.refused().contains("another process"));
    for side in ["data", "other"] {
        let lock = fs::File::open(host.path(side).join("LOCK")).unwrap();
        assert!(lock.try_lock().is_err(), "{side}");
    }
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    let server = host.start(&[]);
    let said = host.refusal(&["--mirror", "data=other", "--read-only"]);
    assert!(said.contains("another process"), "{said}");
    drop(server);
    // One side is enough to look at.
    host.take_out("other");
    assert!(host.refusal(&["--mirror", "data=other", "--read-only"]).contains("--accept-degraded"));
    assert_eq!(host.start(&["--read-only", "--accept-degraded", "true"]).end(Signal::TERM).0, Some(0));
}

#[test]
fn a_side_starts_alone_where_the_witness_names_it() {
    let host = Host::new();
    fs::create_dir(host.path("third")).unwrap();
    let witness = ["--pair-witness", "third/witness"];
    let server = host.start(&witness);
    put(&client(server.address()), 0).unwrap();
    // The power is cut, and one disk is dead after it.
    assert_eq!(server.end(Signal::KILL).0, None);
    host.take_out("data");
    let server = host.start(&witness);
    check_objects(&server, 1);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    host.take_out("other");
    host.bring_back("data");
    let stale = host.refusal(&[&["--mirror", "data=other"], &witness[..]].concat());
    assert!(stale.contains("went on without side A"), "{stale}");
    fs::remove_dir_all(host.path("data")).unwrap();
    let both_missing = host.refusal(&[&["--mirror", "data=other"], &witness[..]].concat());
    assert!(both_missing.contains("may not be mounted"), "{both_missing}");
    assert!(!host.path("data").exists() && !host.path("other").exists());
}

#[test]
fn of_sides_that_each_went_on_alone_an_operator_keeps_one() {
    let host = Host::new();
    host.run(&[]);
    for (nth, out) in ["other", "data"].into_iter().enumerate() {
        host.take_out(out);
        let server = host.start(&["--accept-degraded", "true"]);
        put(&client(server.address()), nth as u64).unwrap();
        assert_eq!(server.end(Signal::TERM).0, Some(0));
        host.bring_back(out);
    }
    let before = host.files("other");
    let said = host.refused();
    assert!(said.contains("--keep SIDE"), "{said}");
    let listed = host.tool(&["disk", "list"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("a start is refused: ") && listed.contains("side data: whole"), "{listed}");
    let kept = host.tool(&["disk", "resolve", "--keep", "data"]);
    assert_eq!(kept.status.code(), Some(0), "{}", stderr_of(&kept));
    let said = host.refused();
    assert!(said.contains("disk replace"), "{said}");
    assert!(host.tool(&["disk", "replace"]).status.code() == Some(2), "it has files");
    let mut after = host.files("other");
    after.retain(|name, _| !name.contains("replaced"));
    assert!(after == before, "nothing was written over");

    host.take_out("other");
    let replaced = host.tool(&["disk", "replace"]);
    assert_eq!(replaced.status.code(), Some(0), "{}", stderr_of(&replaced));
    let server = host.start(&[]);
    wait_until_whole(&server);
    check_objects(&server, 1);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    host.check_equal();
    // The one that was set aside is a store of its own.
    let mut command = siltstone(host.dir.path());
    command.args(["--data-dir", "other-out", "--listen", "127.0.0.1:0"]);
    command.env("SILTSTONE_ACCESS_KEY", tier::KEY).env("SILTSTONE_SECRET_KEY", tier::SECRET);
    let aside = Running::start(command);
    assert!(get(&client(aside.address()), 1).unwrap() == tier::bytes(1));
}

#[test]
fn a_store_gets_a_second_side_and_its_users_are_on_both() {
    let host = Host::new();
    let start = |arguments: &[&str]| {
        let mut command = on_a_free_port(host.dir.path());
        command.args(arguments);
        Running::start(command)
    };
    assert_eq!(start(&["--data-dir", "data"]).end(Signal::TERM).0, Some(0));
    let users = fs::read(host.path("data/users.toml")).unwrap();
    let said = host.refused();
    assert!(said.contains("disk add"), "{said}");
    let added = host.tool(&["disk", "add"]);
    assert_eq!(added.status.code(), Some(0), "{}", stderr_of(&added));
    let alone = host.refusal(&["--data-dir", "data"]);
    assert!(alone.contains("name both directories with --mirror"), "{alone}");
    let server = start(&["--mirror", "data=other"]);
    wait_until_whole(&server);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    host.check_equal();
    for file in ["users.toml", "keys.toml"] {
        let one = fs::read(host.path("data").join(file)).unwrap();
        assert_eq!(fs::read(host.path("other").join(file)).unwrap(), one, "{file}");
    }
    assert_eq!(fs::read(host.path("other/users.toml")).unwrap(), users);

    let user = |arguments: &[&str]| {
        let mut command = siltstone(host.dir.path());
        finish(command.args(["--mirror", "data=other", "--accept-degraded", "true", "user"]).args(arguments))
    };
    let rights = ["--actions", "*", "--resources", "*"];
    let added = user(&[&["add", "ada"], &rights[..]].concat());
    assert!(added.status.success(), "{}", stderr_of(&added));
    let of = |side: &str| fs::read_to_string(host.path(side).join("users.toml")).unwrap();
    assert_eq!(of("data"), of("other"));
    assert!(of("data").contains("ada"));
    host.take_out("data");
    let added = user(&[&["add", "grace"], &rights[..]].concat());
    assert!(added.status.success(), "{}", stderr_of(&added));
    assert!(of("other").contains("grace") && !host.path("data").exists());
    let server = start(&["--mirror", "data=other", "--accept-degraded", "true"]);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    host.bring_back("data");
    let server = start(&["--mirror", "data=other"]);
    assert_eq!(of("data"), of("other"));
    assert!(of("data").contains("grace"));
    drop(server);
}

#[test]
fn directories_that_make_no_mirror_are_refused_before_anything_is_written() {
    let host = Host::new();
    let section =
        "[remote]\nendpoint = 'http://127.0.0.1:1'\nbucket = 'b'\naccess_key = 'a'\nsecret_key = 's'\n";
    fs::write(host.path("remote.toml"), section).unwrap();
    for (arguments, named) in [
        (&["--mirror", "data"][..], "as A=B"),
        (&["--mirror", "data=data"], "one is in the other"),
        (&["--mirror", "data=data/b"], "one is in the other"),
        (&["--mirror", "data=other", "--data-dir", "third"], "none of the two"),
        (&["--mirror", "data=other", "--fast-dir", "ssd"], "leave --fast-dir out"),
        (&["--mirror", "data=other", "--standby", "true"], "a standby has one directory"),
        (&["--mirror", "data=other", "--config", "remote.toml"], "[remote]"),
        (&["--pair-witness", "w", "--data-dir", "data"], "with --mirror alone"),
        (&["--mirror", "data=other", "--create", "never"], "never"),
    ] {
        let said = host.refusal(arguments);
        assert!(said.contains(named), "{arguments:?}: {said}");
        assert!(!host.path("data").exists() && !host.path("other").exists(), "{arguments:?}");
    }
    fs::create_dir(host.path("other")).unwrap();
    fs::write(host.path("other/letters.doc"), "").unwrap();
    let said = host.refused();
    assert!(said.contains("not empty") && !host.path("data").exists(), "{said}");
    fs::remove_file(host.path("other/letters.doc")).unwrap();
    let (code, said) = host.start(&["--pair-witness", "data/w"]).end(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(said.contains("are on one disk") && said.contains("is on the disk of a side"), "{said}");
}

#[test]
fn another_mirror_or_a_copy_of_a_side_is_refused() {
    let host = Host::new();
    host.run(&[]);
    copy_dir(&host.path("data"), &host.path("copy"));
    let said = host.refusal(&["--mirror", "data=copy"]);
    assert!(said.contains("one is a copy of the other"), "{said}");
    let second = Host::new();
    second.run(&[]);
    copy_dir(&second.path("other"), &host.path("stranger"));
    let said = host.refusal(&["--mirror", "data=stranger"]);
    assert!(said.contains("different mirrors"), "{said}");
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_dir(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}
