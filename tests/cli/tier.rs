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
use siltstone::remote::{NewObject, Remote as _, RemoteError, RemoteSettings, S3Remote};
use tempfile::TempDir;

use crate::support::client::eventually;
use crate::support::process::{Running, finish, siltstone, stderr_of};

const KEY: &str = "AKTIERTESTTIERTEST00";
const SECRET: &str = "a-secret-of-both-servers";
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
    let (name, body) = (format!("object-{nth}"), bytes(nth));
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

pub(super) fn init(dir: &Path) {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    tool.current_dir(dir).args(["--data-dir", "data", "remote", "--config", "siltstone.toml", "init"]);
    let done = finish(&mut tool);
    assert!(done.status.success(), "{}", stderr_of(&done));
}

#[test]
fn segments_go_to_another_server_and_come_back_when_they_are_read() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
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
    let metrics = server.answer("/-/metrics");
    let figure = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} in {metrics}")).parse().unwrap()
    };
    assert!(figure("siltstone_remote_segments{phase=\"remote\"}") >= 8.0);
    assert!(figure("siltstone_remote_fetched_bytes_total") >= 20.0 * MIB as f64);
    assert!(figure("siltstone_remote_sent_bytes_total") >= 30.0 * MIB as f64);

    // More than the disk may hold cannot be pinned to it.
    let mut pin = siltstone(here.path());
    pin.args(["placement", "cold", "local", "--data-dir", "data", "--endpoint"]);
    pin.arg(format!("http://{}", server.address()));
    let pinned = finish(pin.env("SILTSTONE_ACCESS_KEY", KEY).env("SILTSTONE_SECRET_KEY", SECRET));
    assert!(!pinned.status.success() && stderr_of(&pinned).contains("--local-max"), "{}", stderr_of(&pinned));

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
