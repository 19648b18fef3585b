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

use crate::support::process::{Running, finish, on_a_free_port, siltstone, stderr_of};

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

#[test]
fn the_service_manager_is_told_when_connections_are_accepted_and_when_the_server_stops() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let received = || {
        let mut message = [0; 64];
        let len = socket.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..len]).into_owned()
    };
    let mut command = on_a_free_port(dir.path());
    command.env("NOTIFY_SOCKET", &path);
    let server = Running::start(command);
    assert_eq!(received(), "READY=1");
    assert_eq!(server.get("/-/health"), "HTTP/1.1 200 OK");
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    assert_eq!(received(), "STOPPING=1");
}
