//! A server whose log goes to another server, from which a second host takes over.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use super::tier::{client, get, init, put, section, start};
use crate::support::client::eventually;
use crate::support::process::{Running, finish, stderr_of};

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
