//! The keys of encrypted objects, on a running server: what needs them, wrapping anew, and the end of
//! a key.

use std::io::Write as _;
use std::net::TcpStream;

use siltstone::base::OsEntropy;
use siltstone::keys::{self, KeyRing};

use super::*;

const USERS: &str = "[[user]]\nname = \"admin\"\naccess_key = \"AK1\"\nsecret_key = \"0123456789abcdef\"\n\n[[user.allow]]\n\
    actions = [\"*\"]\nresources = [\"*\"]\n\n[[user]]\nname = \"anonymous\"\n[[user.allow]]\n\
    actions = [\"PutObject\", \"GetObject\"]\nresources = [\"*\"]\n";

fn start(dir: &Path) -> Running {
    let mut command = on_a_free_port(dir);
    command.args(["--users", "users.toml", "--bucket", "photos", "--encrypt-objects", "true"]);
    Running::start(command)
}

/// Runs a command on the keys, and types an answer.
fn key(dir: &Path, server: &Running, arguments: &[&str], typed: &str) -> (Option<i32>, String, String) {
    let mut command = siltstone(dir);
    command.args(["--users", "users.toml", "--listen", server.address(), "key"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may end without reading.
    let _ = child.stdin.take().unwrap().write_all(typed.as_bytes());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout.clone()).unwrap(), stderr_of(&output))
}

fn put(server: &Running, name: &str) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let host = server.address();
    write!(
        stream,
        "PUT /photos/{name} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 4\r\n\r\nkept"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn ring(dir: &Path) -> String {
    fs::read_to_string(dir.join("keys.toml")).unwrap()
}

#[test]
fn keys_are_wrapped_anew_and_a_retired_one_is_destroyed_once_nothing_needs_it() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    write_users(dir, USERS);
    let server = start(dir);
    for name in ["a", "b", "c"] {
        put(&server, name);
    }
    let old = KeyRing::parse(&ring(dir)).unwrap().current().unwrap().id.clone();
    let destroy = |typed: &str| key(dir, &server, &["destroy", &old], typed);
    let (status, _, problem) = destroy(&old);
    assert!(status == Some(1) && problem.contains("3 versions"), "{problem}");
    let (added, new) = keys::with_new_key(&ring(dir), None, SystemClock.now(), &OsEntropy).unwrap();
    fs::write(dir.join("keys.toml"), &added).unwrap();
    server.signal(Signal::HUP);
    server.wait_until("the new key", |server| key(dir, server, &["uses"], "").1.contains("current\t0"));
    let (status, shown, problem) = key(dir, &server, &["rewrap"], "");
    assert_eq!(status, Some(0), "{problem}");
    assert!(shown.starts_with("3 wrapped anew, 0 not opened\n"), "{shown}");
    assert!(shown.contains(&format!("{new}\tcurrent\t3")), "{shown}");
    assert!(key(dir, &server, &["rewrap"], "").1.starts_with("0 wrapped anew"));
    let (status, _, problem) = destroy(&old);
    assert!(status == Some(1) && problem.contains("is not retired"), "{problem}");
    fs::write(dir.join("keys.toml"), keys::with_retired_key(&added, &old).unwrap()).unwrap();
    server.signal(Signal::HUP);
    server.wait_until("the retired key", |server| key(dir, server, &["uses"], "").1.contains("retired"));
    for typed in ["", "yes\n", &new] {
        let (status, _, problem) = destroy(typed);
        assert!(status == Some(1) && problem.contains("nothing is destroyed"), "{problem}");
        assert!(problem.contains("segments") && problem.contains("backups"), "{problem}");
    }
    assert!(ring(dir).contains(&old));
    let (status, shown, problem) = destroy(&format!("{old}\n"));
    assert!(status == Some(0) && shown.contains("is destroyed"), "{problem}");
    assert!(!ring(dir).contains(&old) && ring(dir).contains(&new));
    let (status, _, problem) = key(dir, &server, &["destroy", &new, "--confirm", &new], "");
    assert!(status == Some(1) && problem.contains("3 versions"), "{problem}");
    for name in ["a", "b", "c"] {
        assert!(server.answer(&format!("/photos/{name}")).ends_with("kept"), "{name}");
    }
    // Only what the server has destroyed is removed from a file that has it still.
    fs::write(dir.join("keys.toml"), keys::with_retired_key(&added, &old).unwrap()).unwrap();
    server.signal(Signal::HUP);
    let (status, shown, problem) = key(dir, &server, &["destroy", &old, "--confirm", &old], "");
    assert!(status == Some(0) && !ring(dir).contains(&old), "{shown}{problem}");
    server.signal(Signal::HUP);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    let server = start(dir);
    assert!(server.answer("/photos/a").ends_with("kept"));
}

/// One that asks another server would remove a key that objects of its own server need.
#[test]
fn a_key_is_not_destroyed_in_the_file_of_another_server() {
    let [own, other] = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let own = own.path();
    let other = other.path();
    write_users(own, USERS);
    write_users(other, USERS);
    let server = start(own);
    put(&server, "a");
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    let old = KeyRing::parse(&ring(own)).unwrap().current().unwrap().id.clone();
    let (added, _) = keys::with_new_key(&ring(own), None, SystemClock.now(), &OsEntropy).unwrap();
    let retired = keys::with_retired_key(&added, &old).unwrap();
    fs::write(own.join("keys.toml"), &retired).unwrap();
    let destroy = |server: &Running| key(own, server, &["destroy", &old, "--confirm", &old], "");
    let server = start(other);
    let (status, _, problem) = destroy(&server);
    assert!(status == Some(1) && problem.contains("has no key"), "{problem}");
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    fs::write(other.join("keys.toml"), &retired).unwrap();
    let server = start(other);
    let (status, _, problem) = destroy(&server);
    assert!(status == Some(1) && problem.contains("on its host"), "{problem}");
    assert!(key(other, &server, &["uses"], "").1.contains(&old));
    assert_eq!(ring(own), retired);
}
