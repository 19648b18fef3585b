//! The server as a service: under a user of its own, and started by a service manager.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

use crate::support::process::{Running, finish, may_leave_core, on_a_free_port, siltstone, stderr_of};

/// The user `nobody` of most systems.
const NOBODY: u32 = 65534;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The server with this data directory, as a user without privileges. The superuser becomes
/// `nobody`, and runs a copy of the program, since the original may be in a directory that is
/// closed to others.
fn without_privileges(dir: &Path, data_dir: &str) -> Command {
    let mut command = siltstone(dir);
    if geteuid().is_root() {
        let program = dir.join("program");
        fs::copy(command.get_program(), &program).unwrap();
        command = Command::new(program);
        command.current_dir(dir).uid(NOBODY).gid(NOBODY);
    }
    command.args(["--listen", "127.0.0.1:0", "--data-dir", data_dir]);
    command
}

fn uid_without_privileges() -> u32 {
    if geteuid().is_root() { NOBODY } else { geteuid().as_raw() }
}

#[test]
fn a_directory_of_another_user_is_refused_with_both_ids_and_the_command_that_helps() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    set_mode(dir.path(), 0o755);
    set_mode(&data, 0o555);
    let uid = uid_without_privileges();
    let path = data.display();
    for (data_dir, command) in [
        ("data", format!("As root, run: chown -R {uid}:")),
        ("data/sub", format!("As root, run: mkdir -p {path}/sub && chown -R {uid}:")),
    ] {
        let output = finish(&mut without_privileges(dir.path(), data_dir));
        let said = stderr_of(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let owner = format!("{path} belongs to uid {}, gid ", geteuid().as_raw());
        for told in [&format!("runs as uid {uid}, gid "), &owner, "has mode 555", &command] {
            assert!(said.contains(told), "{told:?} is missing in {said}");
        }
        assert!(said.trim_end().ends_with(&format!(" {}", dir.path().join(data_dir).display())), "{said}");
    }
}

#[test]
fn other_errors_of_the_directory_advise_no_chown() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("data"), "a file").unwrap();
    let output = finish(on_a_free_port(dir.path()).args(["--data-dir", "data"]));
    let said = stderr_of(&output);
    assert!(said.contains("cannot use data: ") && !said.contains("chown"), "{said}");
}

/// A socket of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(socket)
    }

    fn received(&self) -> String {
        let mut message = [0; 512];
        let len = self.0.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..len]).into_owned()
    }

    /// The next message with this line.
    fn wait_for(&self, line: &str) -> String {
        loop {
            let message = self.received();
            if message.lines().any(|told| told == line) {
                return message;
            }
        }
    }
}

#[test]
fn the_service_manager_is_told_when_connections_are_accepted_and_when_the_server_stops() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("notify");
    let manager = Manager::at(&path);
    let mut command = on_a_free_port(dir.path());
    command.env("NOTIFY_SOCKET", &path);
    let server = Running::start(command);
    let ready = manager.received();
    assert!(ready.starts_with("READY=1\nSTATUS=0 versions in 0 buckets, "), "{ready}");
    assert_eq!(server.get("/-/health"), "HTTP/1.1 200 OK");
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    assert_eq!(manager.received(), "STOPPING=1\nSTATUS=stopping\n");
}

#[test]
fn the_service_manager_gets_signs_of_life_and_is_told_of_a_reload() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("notify");
    let manager = Manager::at(&path);
    let command = on_a_free_port(dir.path());
    let mut shell = Command::new("sh");
    shell.args(["-c", "WATCHDOG_PID=$$ exec \"$0\""]).arg(command.get_program());
    shell.current_dir(dir.path()).env("SILTSTONE_LISTEN", "127.0.0.1:0");
    shell.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    let server = Running::start(shell);
    let sign = manager.wait_for("WATCHDOG=1");
    assert!(sign.starts_with("STATUS=0 versions"), "{sign}");
    manager.wait_for("WATCHDOG=1");
    server.signal(Signal::HUP);
    let reload = manager.wait_for("RELOADING=1");
    let time = reload.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
    assert!(time.parse::<u64>().unwrap() > 0, "{reload}");
    manager.wait_for("READY=1");
    server.signal(Signal::TERM);
    manager.wait_for("STOPPING=1");
}

#[test]
fn a_watchdog_of_another_process_gets_no_signs() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("notify");
    let manager = Manager::at(&path);
    let mut command = on_a_free_port(dir.path());
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "4000").env("WATCHDOG_PID", "1");
    let server = Running::start(command);
    server.wait_until("an answer", |server| server.get("/-/health").contains(" 200 "));
    server.end(Signal::TERM);
    loop {
        let message = manager.received();
        assert!(!message.contains("WATCHDOG"), "{message}");
        if message.contains("STOPPING=1") {
            break;
        }
    }
}

#[test]
fn a_server_leaves_no_core_file() {
    let dir = TempDir::new().unwrap();
    let server = Running::start(on_a_free_port(dir.path()));
    assert!(!may_leave_core(server.pid()));
}
