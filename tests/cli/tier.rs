//! A server whose segments go to another server.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use siltstone::base::{Entropy as _, SeededEntropy};
use siltstone::client::SettingSources;
use siltstone::remote::{NewObject, Remote as _, RemoteError, RemoteSettings, RemoteView as _, S3Remote};
use tempfile::TempDir;

use crate::support::client::eventually;
use crate::support::process::{Running, finish, siltstone, stderr_of};

pub(super) const KEY: &str = "AKTIERTESTTIERTEST00";
pub(super) const SECRET: &str = "a-secret-of-both-servers";
pub(super) const SOON: Duration = Duration::from_secs(60);
const MIB: usize = 1 << 20;

/// A server in `dir` with the bucket `cold`, at `address`.
pub(super) fn start(dir: &Path, address: &str, arguments: &[&str]) -> Running {
    Running::start(command(dir, address, arguments))
}

fn command(dir: &Path, address: &str, arguments: &[&str]) -> Command {
    let mut command = siltstone(dir);
    command.args(["--data-dir", "data", "--listen", address, "--bucket", "cold"]).args(arguments);
    command.env("SILTSTONE_ACCESS_KEY", KEY).env("SILTSTONE_SECRET_KEY", SECRET);
    command
}

/// The section with that server as the remote.
pub(super) fn section(address: &str) -> String {
    format!(
        "[remote]\nendpoint = 'http://{address}'\nbucket = 'cold'\nprefix = 'box'\naccess_key = '{KEY}'\n\
         secret_key = '{SECRET}'\n"
    )
}

/// A client of the bucket of that server.
pub(super) fn client(address: &str) -> S3Remote {
    let none = |_: &Path| Err("no file".to_owned());
    let sources = SettingSources { read: &none, variable: &|_| None };
    S3Remote::new(&RemoteSettings::parse(&section(address), &sources).unwrap().unwrap()).unwrap()
}

pub(super) fn bytes(nth: u64) -> Vec<u8> {
    let mut bytes = vec![0; MIB];
    SeededEntropy::new(nth).fill(&mut bytes);
    bytes
}

pub(super) fn put(client: &S3Remote, nth: u64) -> Result<(), RemoteError> {
    let name = format!("object-{nth}");
    let body = bytes(nth);
    let object = NewObject { name: &name, body: &body.as_slice(), nonce: "n", create_only: false };
    client.put(&object, SOON).map(drop)
}

pub(super) fn get(client: &S3Remote, nth: u64) -> Result<Vec<u8>, RemoteError> {
    client.get(&format!("object-{nth}"), 0..MIB as u64, SOON)
}

/// The space of the segments in a data directory.
fn local_bytes(dir: &Path) -> u64 {
    let files = fs::read_dir(dir.join("data/data")).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum()
}

/// Marks the remote after a small probe: the usual one has 3,200 creates.
pub(super) fn init(dir: &Path) {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    tool.current_dir(dir).args(["--data-dir", "data", "remote", "--config", "siltstone.toml", "init"]);
    tool.args(["--rounds", "4", "--racers", "4"]);
    let done = finish(&mut tool);
    assert!(done.status.success(), "{}", stderr_of(&done));
}

#[test]
fn segments_go_to_another_server_and_come_back_when_they_are_read() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    // The address of the remote outlives its process.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let remote = start(there.path(), &address, &[]);
    fs::write(here.path().join("siltstone.toml"), section(&address)).unwrap();
    let sizes = ["--segment-size", "4MiB", "--local-max", "16MiB"];
    assert_eq!(start(here.path(), "127.0.0.1:0", &sizes).end(Signal::TERM).0, Some(0));
    init(here.path());
    let mut tiered = sizes.to_vec();
    tiered.extend(["--config", "siltstone.toml"]);
    let server = start(here.path(), "127.0.0.1:0", &tiered);
    let objects = client(server.address());
    for nth in 0..40 {
        // Where the limit is reached, what is there has to go first.
        eventually("there is room", || put(&objects, nth).is_ok());
    }
    eventually("local bytes go", || local_bytes(here.path()) <= 16 * MIB as u64);
    assert!((0..40).all(|nth| get(&objects, nth).unwrap() == bytes(nth)));
    assert!(local_bytes(here.path()) <= 18 * MIB as u64, "what was read takes no more room than allowed");
    assert!(metric(&server, "siltstone_remote_segments{phase=\"remote\"}") >= 8.0);
    assert!(metric(&server, "siltstone_remote_fetched_bytes_total") >= 20.0 * MIB as f64);
    assert!(metric(&server, "siltstone_remote_sent_bytes_total") >= 30.0 * MIB as f64);

    // More than the disk may hold cannot be placed on it.
    let mut place = siltstone(here.path());
    place.args(["placement", "cold", "local", "--data-dir", "data", "--endpoint"]);
    place.arg(format!("http://{}", server.address()));
    let placed = finish(place.env("SILTSTONE_ACCESS_KEY", KEY).env("SILTSTONE_SECRET_KEY", SECRET));
    assert!(!placed.status.success() && stderr_of(&placed).contains("--local-max"), "{}", stderr_of(&placed));

    // Without the remote it starts, lists and tells, and takes writes; cold bytes have to wait.
    assert_eq!(server.end(Signal::KILL).0, None);
    drop(remote);
    let server = start(here.path(), "127.0.0.1:0", &tiered);
    let objects = client(server.address());
    assert_eq!(objects.list("object-", "", SOON).unwrap().len(), 40);
    assert_eq!(objects.head("object-3", SOON).unwrap().unwrap().length, MIB as u64);
    let soon = Duration::from_secs(4);
    let mut refusals = Vec::new();
    for nth in (0..40).step_by(10) {
        match client(server.address()).get(&format!("object-{nth}"), 0..100, soon) {
            Ok(found) => assert!(found == bytes(nth)[..100]),
            Err(RemoteError::Unavailable(why)) => refusals.push(why),
            Err(other) => panic!("{other}"),
        }
    }
    // On a busy machine the patience of the client may end before it has an answer.
    assert!(refusals.len() > 1 && refusals.iter().any(|why| why.contains("503")), "{refusals:?}");
    put(&objects, 99).unwrap();
    let remote = start(there.path(), &address, &[]);
    eventually("the remote is asked again", || {
        get(&client(server.address()), 3).is_ok_and(|found| found == bytes(3))
    });
    drop((server, remote));

    let refused = finish(&mut command(here.path(), "127.0.0.1:0", &sizes));
    assert!(!refused.status.success() && stderr_of(&refused).contains("[remote]"), "{}", stderr_of(&refused));
}

fn copy_dir(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

#[test]
fn a_copy_of_the_directory_looks_on_until_it_is_adopted() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let remote = start(there.path(), "127.0.0.1:0", &[]);
    fs::write(here.path().join("siltstone.toml"), section(remote.address())).unwrap();
    let tiered = ["--segment-size", "1MiB", "--local-max", "4MiB", "--config", "siltstone.toml"];
    assert_eq!(start(here.path(), "127.0.0.1:0", &tiered[..4]).end(Signal::TERM).0, Some(0));
    init(here.path());
    let living = start(here.path(), "127.0.0.1:0", &tiered);
    let objects = client(living.address());
    for nth in 0..8 {
        eventually("there is room", || put(&objects, nth).is_ok());
    }
    let segments = || client(remote.address()).list("segment/", "", SOON).unwrap();
    eventually("segments are there", || segments().len() >= 4);

    // Started beside the living one, without an option and to look.
    let elsewhere = TempDir::new().unwrap();
    copy_dir(&here.path().join("data"), &elsewhere.path().join("data"));
    fs::copy(here.path().join("siltstone.toml"), elsewhere.path().join("siltstone.toml")).unwrap();
    let mut eager = tiered.to_vec();
    eager.extend(["--keep-dropped", "1s"]);
    let copy = start(elsewhere.path(), "127.0.0.1:0", &eager);
    assert!(copy.answer("/-/ready").contains("this directory is a copy"), "{}", copy.answer("/-/ready"));
    assert!(copy.answer("/-/metrics").contains("\nsiltstone_remote_refused 1\n"));
    let before = segments();
    (0..8).for_each(|nth| client(copy.address()).delete(&format!("object-{nth}"), SOON).unwrap());
    assert_eq!(copy.end(Signal::TERM).0, Some(0));
    let mut to_look = tiered.to_vec();
    to_look.push("--read-only");
    let looking = start(elsewhere.path(), "127.0.0.1:0", &to_look);
    assert!(put(&client(looking.address()), 9).is_err());
    assert!(looking.answer("/-/ready").contains("--read-only"), "{}", looking.answer("/-/ready"));
    assert_eq!(looking.end(Signal::TERM).0, Some(0));
    assert!((0..8).all(|nth| get(&objects, nth).unwrap() == bytes(nth)));
    assert!(before.iter().all(|segment| segments().contains(segment)));

    // The operator says that it is the right one.
    let mut adopt = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    adopt.args(["--data-dir", "data", "remote", "--config", "siltstone.toml", "adopt"]);
    let refused = finish(adopt.current_dir(here.path()));
    assert!(stderr_of(&refused).contains("stop it first"), "{}", stderr_of(&refused));
    assert_eq!(living.end(Signal::TERM).0, Some(0));
    let done = finish(adopt.current_dir(elsewhere.path()));
    assert!(done.status.success(), "{}", stderr_of(&done));
    // It is the right one whichever starts first.
    let old = start(here.path(), "127.0.0.1:0", &tiered);
    assert!(old.answer("/-/ready").contains("another directory has claimed epoch 2"));
    let copy = start(elsewhere.path(), "127.0.0.1:0", &tiered);
    assert!(copy.answer("/-/metrics").contains("\nsiltstone_remote_epoch 3\n"));
}

#[test]
fn a_block_that_decays_on_the_disk_is_served_from_the_remote_and_its_file_is_written_anew() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let _remote = start(there.path(), &address, &[]);
    fs::write(here.path().join("siltstone.toml"), section(&address)).unwrap();
    let arguments = ["--segment-size", "4MiB", "--config", "siltstone.toml"];
    assert_eq!(start(here.path(), "127.0.0.1:0", &arguments[..2]).end(Signal::TERM).0, Some(0));
    init(here.path());
    let server = start(here.path(), "127.0.0.1:0", &arguments);
    let objects = client(server.address());
    for nth in 0..8 {
        put(&objects, nth).unwrap();
    }
    eventually("segments are sent", || metric(&server, "siltstone_remote_segments{phase=\"remote\"}") >= 1.0);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    // A byte in the midst of the first object.
    let path = here.path().join("data/data/0000000000000001.segment");
    let mut bytes = fs::read(&path).unwrap();
    bytes[MIB / 2] ^= 0x20;
    fs::write(&path, &bytes).unwrap();

    let server = start(here.path(), "127.0.0.1:0", &arguments);
    let objects = client(server.address());
    for nth in 0..8 {
        assert!(get(&objects, nth).unwrap() == self::bytes(nth), "{nth}");
    }
    eventually("the file is written anew", || metric(&server, "siltstone_repair_segments_total") >= 1.0);
    assert!(metric(&server, "siltstone_repair_served_reads_total") >= 1.0);
    assert!(fs::read(&path).unwrap() != bytes);
    for nth in 0..8 {
        assert!(get(&objects, nth).unwrap() == self::bytes(nth), "{nth}");
    }
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    // What is here now is good, without the remote.
    let mut verify = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    let done = finish(verify.current_dir(here.path()).args(["--data-dir", "data", "verify"]));
    assert!(done.status.success(), "{}", stderr_of(&done));
}

#[test]
fn a_segment_whose_file_was_deleted_is_named_and_comes_back_from_the_remote() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let remote = start(there.path(), &address, &[]);
    fs::write(here.path().join("siltstone.toml"), section(&address)).unwrap();
    let arguments = ["--segment-size", "4MiB", "--config", "siltstone.toml"];
    assert_eq!(start(here.path(), "127.0.0.1:0", &arguments[..2]).end(Signal::TERM).0, Some(0));
    init(here.path());
    let server = start(here.path(), "127.0.0.1:0", &arguments);
    let objects = client(server.address());
    for nth in 0..8 {
        put(&objects, nth).unwrap();
    }
    eventually("segments are sent", || metric(&server, "siltstone_remote_segments{phase=\"remote\"}") >= 1.0);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    fs::remove_file(here.path().join("data/data/0000000000000001.segment")).unwrap();
    let verify = || {
        let mut verify = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
        finish(verify.current_dir(here.path()).args(["--data-dir", "data", "verify"]))
    };
    let done = verify();
    assert!(!done.status.success());
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(told.contains("0000000000000001.segment") && told.contains("the remote has them"), "{told}");

    // Without the remote the store is there to be read, as far as it can be.
    assert_eq!(remote.end(Signal::TERM).0, Some(0));
    let server = start(here.path(), "127.0.0.1:0", &arguments);
    assert!(put(&client(server.address()), 8).is_err());
    assert_eq!(server.end(Signal::TERM).0, Some(0));

    let _remote = start(there.path(), &address, &[]);
    let server = start(here.path(), "127.0.0.1:0", &arguments);
    let objects = client(server.address());
    assert!(metric(&server, "siltstone_repair_segments_total") >= 1.0);
    put(&objects, 8).unwrap();
    for nth in 0..9 {
        assert!(get(&objects, nth).unwrap() == bytes(nth), "{nth}");
    }
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    let done = verify();
    assert!(done.status.success(), "{}", stderr_of(&done));
}

fn metric(server: &Running, name: &str) -> f64 {
    let page = server.answer("/-/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} in {page}")).parse().unwrap()
}
