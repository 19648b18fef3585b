//! A server whose log goes to another server, from which a second host takes over.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use super::tier::{client, get, init, put, section, start};
use crate::support::client::eventually;
use crate::support::process::{Running, finish, siltstone, stderr_of};

fn restore(dir: &Path) {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    tool.current_dir(dir).args(["--data-dir", "data", "remote", "--config", "siltstone.toml", "restore"]);
    let done = finish(&mut tool);
    assert!(done.status.success(), "{}", stderr_of(&done));
    assert!(!finish(&mut tool).status.success(), "the directory is not empty any more");
}

/// The server takes writes once its reign has begun.
fn put_soon(server: &Running, nth: u64) {
    eventually("the log is shipped", || put(&client(server.address()), nth).is_ok());
}

#[test]
fn another_host_takes_over_from_the_remote_and_the_old_one_is_refused() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let _remote = start(there.path(), &address, &[]);
    fs::write(here.path().join("siltstone.toml"), section(&address)).unwrap();
    assert_eq!(start(here.path(), "127.0.0.1:0", &[]).end(Signal::TERM).0, Some(0));
    init(here.path());
    let shipping = ["--config", "siltstone.toml", "--ship", "sync", "--ship-every", "100ms"];
    let old = start(here.path(), "127.0.0.1:0", &shipping);
    (0..3).for_each(|nth| put_soon(&old, nth));
    assert!(old.answer("/-/metrics").contains("\nsiltstone_ship_epoch 1\n"));

    // It stalls, and comes back after the takeover.
    old.signal(Signal::STOP);
    let elsewhere = TempDir::new().unwrap();
    fs::copy(here.path().join("siltstone.toml"), elsewhere.path().join("siltstone.toml")).unwrap();
    restore(elsewhere.path());
    let new = start(elsewhere.path(), "127.0.0.1:0", &shipping);
    put_soon(&new, 3);
    for nth in 0..4 {
        assert!(get(&client(new.address()), nth).unwrap() == super::tier::bytes(nth));
    }
    old.signal(Signal::CONT);
    assert!(put(&client(old.address()), 4).is_err(), "it was taken over");
    assert!(get(&client(old.address()), 2).is_ok());
    assert_eq!(new.end(Signal::TERM).0, Some(0));
}

#[test]
fn buckets_of_the_options_are_made_by_a_store_that_ships_its_log() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let remote = start(there.path(), "127.0.0.1:0", &[]);
    fs::write(here.path().join("siltstone.toml"), section(remote.address())).unwrap();
    assert_eq!(start(here.path(), "127.0.0.1:0", &[]).end(Signal::TERM).0, Some(0));
    init(here.path());
    for mode in ["async", "sync"] {
        let bucket = format!("made-{mode}");
        let shipping = ["--config", "siltstone.toml", "--ship", mode, "--bucket", &bucket];
        let server = start(here.path(), "127.0.0.1:0", &shipping);
        assert!(server.said().contains(&format!("made the bucket {bucket}")), "{}", server.said());
        assert_eq!(server.end(Signal::TERM).0, Some(0));
    }
}

fn tool(dir: &Path, command: &str) -> (Option<i32>, String) {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    tool.current_dir(dir).args(["--data-dir", "data", "remote", "--config", "siltstone.toml", command]);
    let done = finish(&mut tool);
    (done.status.code(), String::from_utf8(done.stdout).unwrap())
}

fn promote(dir: &Path, arguments: &[&str]) -> Result<(), String> {
    let done = finish(siltstone(dir).args(["promote", "--data-dir", "data"]).args(arguments));
    if done.status.success() { Ok(()) } else { Err(stderr_of(&done)) }
}

#[test]
fn a_standby_follows_and_becomes_the_writer_when_it_is_promoted() {
    let (here, there, elsewhere) =
        (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let _remote = start(there.path(), &address, &[]);
    fs::write(here.path().join("siltstone.toml"), section(&address)).unwrap();
    fs::copy(here.path().join("siltstone.toml"), elsewhere.path().join("siltstone.toml")).unwrap();
    assert_eq!(start(here.path(), "127.0.0.1:0", &[]).end(Signal::TERM).0, Some(0));
    init(here.path());
    assert!(promote(here.path(), &[]).unwrap_err().contains("no standby runs in data"));
    let shipping = ["--config", "siltstone.toml", "--ship", "async", "--ship-every", "100ms"];
    let old = start(here.path(), "127.0.0.1:0", &shipping);
    (0..3).for_each(|nth| put_soon(&old, nth));

    let following = ["standby", "--config", "siltstone.toml", "--ship", "async", "--ship-every", "100ms"];
    let standby = start(elsewhere.path(), "127.0.0.1:0", &following);
    eventually("it follows", || standby.answer("/-/metrics").contains("\nsiltstone_ship_epoch 1\n"));
    assert!(standby.get("/-/health").contains(" 200 "));
    assert!(standby.answer("/-/ready").contains("\r\n\r\na standby of reign 1, "));
    assert!(standby.get("/-/ready").contains(" 503 ") && standby.get("/cold/object-0").contains(" 503 "));
    // It ends and starts as it was; a server does not start in its directory.
    assert_eq!(standby.end(Signal::TERM).0, Some(0));
    let mut server = siltstone(elsewhere.path());
    let refused =
        finish(server.args(["--data-dir", "data", "--listen", "127.0.0.1:0", "--config", "siltstone.toml"]));
    assert!(stderr_of(&refused).contains("is the directory of a standby"), "{}", stderr_of(&refused));
    let standby = start(elsewhere.path(), "127.0.0.1:0", &following);

    eventually("the pieces are shipped", || {
        old.answer("/-/metrics").contains("\nsiltstone_ship_waiting_groups 0\n")
    });
    old.signal(Signal::STOP);
    eventually("it is promoted", || promote(elsewhere.path(), &[]).is_ok());
    put_soon(&standby, 3);
    assert!(standby.get("/-/ready").contains(" 200 "));
    for nth in 0..4 {
        assert!(get(&client(standby.address()), nth).unwrap() == super::tier::bytes(nth));
    }
    old.signal(Signal::CONT);
    eventually("it is fenced", || put(&client(old.address()), 4).is_err());
    assert!(tool(here.path(), "status").1.contains("claims: 2 objects"));
    drop(old.end(Signal::TERM));
    let (status, listed) = tool(here.path(), "divergent");
    let is_listed = listed.contains(" put cold/\"box/object-4\" version ");
    assert_eq!(status, Some(i32::from(is_listed)), "{listed}");
    assert_eq!(standby.end(Signal::TERM).0, Some(0));
    assert_eq!(tool(elsewhere.path(), "divergent").0, Some(0));
}

#[test]
fn a_standby_says_what_it_lacks() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("siltstone.toml"), section("127.0.0.1:9")).unwrap();
    let refused = |arguments: &[&str]| {
        let done = finish(siltstone(dir.path()).args(["standby", "--data-dir", "data"]).args(arguments));
        assert_eq!(done.status.code(), Some(2));
        stderr_of(&done)
    };
    assert!(refused(&["--ship", "async"]).contains("name a remote in the section [remote]"));
    assert!(refused(&["--config", "siltstone.toml"]).contains("set --ship"));
    let short = ["--config", "siltstone.toml", "--ship", "async", "--takeover-after", "14s"];
    assert!(refused(&short).contains("--takeover-after: at least 15s"));
}
