//! A server whose log goes to another server, from which a second host takes over.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::Signal;
use siltstone::base::{Clock as _, SystemClock};
use siltstone::remote::{Remote as _, RemoteError, RemoteView as _};
use tempfile::TempDir;

use super::tier::{KEY, SECRET, SOON, client, get, init, put, section, start};
use crate::support::client::{eventually, eventually_done};
use crate::support::process::{Running, finish, siltstone, stderr_of};

fn restore(dir: &Path) {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    tool.current_dir(dir).args(["--data-dir", "data", "remote", "--config", "siltstone.toml", "restore"]);
    let done = finish(&mut tool);
    assert!(done.status.success(), "{}", stderr_of(&done));
    assert!(!finish(&mut tool).status.success(), "the directory is not empty any more");
}

/// The server takes writes once its epoch has begun.
fn put_soon(server: &Running, nth: u64) {
    eventually_done(|| {
        put(&client(server.address()), nth)
            .map_err(|refused| format!("no write is taken: {refused}. The server says:\n{}", server.said()))
    });
}

#[test]
fn another_host_takes_over_from_the_remote_and_the_old_one_is_refused() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
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
fn a_writer_whose_remote_has_a_log_is_not_started_without_it() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let remote = start(there.path(), "127.0.0.1:0", &[]);
    fs::write(here.path().join("siltstone.toml"), section(remote.address())).unwrap();
    assert_eq!(start(here.path(), "127.0.0.1:0", &[]).end(Signal::TERM).0, Some(0));
    init(here.path());
    let plain = ["--config", "siltstone.toml"];
    let server = start(here.path(), "127.0.0.1:0", &[plain[0], plain[1], "--ship", "async"]);
    put_soon(&server, 1);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    let mut forgotten = siltstone(here.path());
    forgotten.args(["--data-dir", "data", "--listen", "127.0.0.1:0"]).args(plain);
    let refused = finish(&mut forgotten);
    assert_eq!(refused.status.code(), Some(1));
    for named in ["started without --ship", "--read-only", "--abandon-log"] {
        assert!(stderr_of(&refused).contains(named), "{named}: {}", stderr_of(&refused));
    }
    let looking = start(here.path(), "127.0.0.1:0", &[plain[0], plain[1], "--read-only"]);
    assert!(get(&client(looking.address()), 1).is_ok());
    assert_eq!(looking.end(Signal::TERM).0, Some(0));
    let told = start(here.path(), "127.0.0.1:0", &[plain[0], plain[1], "--abandon-log", "true"]);
    put(&client(told.address()), 2).unwrap();
    assert!(told.answer("/-/metrics").contains("\nsiltstone_remote_refused 0\n"));
}

#[test]
fn buckets_of_the_options_are_made_by_a_store_that_ships_its_log() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
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

fn tool(dir: &Path, command: &[&str]) -> (Option<i32>, String) {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    tool.current_dir(dir).args(["--data-dir", "data", "remote", "--config", "siltstone.toml"]).args(command);
    let done = finish(&mut tool);
    let told = String::from_utf8(done.stdout.clone()).unwrap() + &stderr_of(&done);
    (done.status.code(), told)
}

fn promote(dir: &Path, arguments: &[&str]) -> Result<(), String> {
    let done = finish(siltstone(dir).args(["promote", "--data-dir", "data"]).args(arguments));
    if done.status.success() { Ok(()) } else { Err(stderr_of(&done)) }
}

/// Connects to an address all the time.
struct ListenerWatch {
    ends: Arc<AtomicBool>,
    refused: JoinHandle<u64>,
}

impl ListenerWatch {
    fn start(address: &str) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let address = address.to_owned();
        let told = Arc::clone(&ends);
        let refused = thread::spawn(move || {
            let mut refused = 0;
            while !told.load(Ordering::Relaxed) {
                refused += u64::from(TcpStream::connect(&address).is_err());
                thread::sleep(Duration::from_millis(2));
            }
            refused
        });
        Self { ends, refused }
    }

    /// Returns how many times it was refused.
    fn end(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        self.refused.join().unwrap()
    }
}

#[test]
fn a_standby_follows_and_becomes_the_writer_when_it_is_promoted() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let elsewhere = TempDir::new().unwrap();
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
    assert!(standby.answer("/-/ready").contains("\r\n\r\na standby of epoch 1, "));
    let refused = standby.answer("/cold/object-0").to_lowercase();
    assert!(standby.get("/-/ready").contains(" 503 ") && refused.contains(" 503 "));
    assert!(
        refused.contains("retry-after: 10\r\n") && refused.contains("<code>serviceunavailable</code>"),
        "{refused}"
    );
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
    let listener = ListenerWatch::start(standby.address());
    eventually("it is promoted", || promote(elsewhere.path(), &[]).is_ok());
    put_soon(&standby, 3);
    assert!(standby.get("/-/ready").contains(" 200 "));
    assert_eq!(listener.end(), 0, "the port was closed while the store was opened");
    for nth in 0..4 {
        assert!(get(&client(standby.address()), nth).unwrap() == super::tier::bytes(nth));
    }
    old.signal(Signal::CONT);
    eventually("it is fenced", || put(&client(old.address()), 4).is_err());
    assert!(tool(here.path(), &["status"]).1.contains("claims: 2 objects"));
    drop(old.end(Signal::TERM));
    let (status, listed) = tool(here.path(), &["divergent"]);
    let is_listed = listed.contains(" put cold/\"box/object-4\" version ");
    assert_eq!(status, Some(i32::from(is_listed)), "{listed}");
    assert_eq!(standby.end(Signal::TERM).0, Some(0));
    assert_eq!(tool(elsewhere.path(), &["divergent"]).0, Some(0));
}

/// What both of two hosts are started with, whichever starts when.
const ONE_COMMAND: [&str; 8] =
    ["--config", "siltstone.toml", "--standby", "true", "--ship", "async", "--ship-every", "100ms"];

/// The directories with files that were set aside.
fn asides(dir: &Path) -> Vec<String> {
    let found = fs::read_dir(dir.join("data/aside"));
    let names = found.into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn one_command_is_right_at_each_start_of_two_hosts() {
    let a = TempDir::new().unwrap();
    let b = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let remote = start(there.path(), &address, &[]);
    for dir in [&a, &b] {
        fs::write(dir.path().join("siltstone.toml"), section(&address)).unwrap();
    }
    // The first host has a store before the remote is marked. The other one waits for its log.
    assert_eq!(start(a.path(), "127.0.0.1:0", &[]).end(Signal::TERM).0, Some(0));
    let first = start(a.path(), "127.0.0.1:0", &ONE_COMMAND);
    let second = start(b.path(), "127.0.0.1:0", &ONE_COMMAND);
    eventually("it waits", || second.answer("/-/ready").contains("a standby, which gets no further"));
    eventually("it serves", || first.answer("/-/ready").contains("The log is not sent to the remote yet"));
    init(a.path());
    (0..3).for_each(|nth| put_soon(&first, nth));
    eventually("it follows", || second.answer("/-/ready").contains("a standby of epoch 1, "));

    // After a loss of power it goes on at once.
    shipped(&first);
    drop(first.end(Signal::KILL));
    let first = start(a.path(), "127.0.0.1:0", &ONE_COMMAND);
    put_soon(&first, 3);
    assert!(first.answer("/-/metrics").contains("\nsiltstone_ship_epoch 2\n"));
    eventually("it follows on", || second.answer("/-/ready").contains("a standby of epoch 2, "));

    // It stalls, is taken over, and comes back: it ends for its service manager, and follows at its
    // next start.
    shipped(&first);
    first.signal(Signal::STOP);
    eventually("it is promoted", || promote(b.path(), &[]).is_ok());
    put_soon(&second, 4);
    shipped(&second);
    let mut first = first;
    first.signal(Signal::CONT);
    let mut late = 0;
    eventually("it ends", || {
        late += u64::from(put(&client(first.address()), 5).is_ok());
        !first.is_running()
    });
    assert_eq!(first.exit_code(), Some(3), "{}", first.said());
    assert!(first.said().contains("another host has taken over"), "{}", first.said());
    let first = start(a.path(), "127.0.0.1:0", &ONE_COMMAND);
    eventually("it follows the other", || first.answer("/-/ready").contains("a standby of epoch 3, "));
    let (status, listed) = tool(a.path(), &["divergent"]);
    assert_eq!(status, Some(i32::from(late > 0)), "{listed}");
    // A group without a change, such as that of a checkpoint, may have been written meanwhile.
    let aside = asides(a.path()).len();
    assert!(if late > 0 { aside == 1 } else { aside == 0 || listed.contains("with 0 changes") }, "{listed}");
    assert_eq!(listed.contains(" put cold/\"box/object-5\" version "), late > 0, "{listed}");

    // The other one goes, and what it had not shipped is set aside when it comes back.
    drop(remote.end(Signal::KILL));
    put(&client(second.address()), 6).unwrap();
    drop(second.end(Signal::KILL));
    let _remote = start(there.path(), &address, &[]);
    eventually("it is promoted", || promote(a.path(), &[]).is_ok());
    put_soon(&first, 7);
    shipped(&first);
    let second = start(b.path(), "127.0.0.1:0", &ONE_COMMAND);
    eventually("it follows", || second.answer("/-/ready").contains("a standby of epoch 4, "));
    let [aside] = asides(b.path()).try_into().unwrap();
    let (status, listed) = tool(b.path(), &["divergent"]);
    assert_eq!(status, Some(1), "{listed}");
    assert!(listed.starts_with(&format!("aside/{aside}:\n")), "{listed}");
    assert!(listed.contains(" put cold/\"box/object-6\" version "), "{listed}");
    assert!(second.said().contains(&format!("set aside in aside/{aside}")), "{}", second.said());

    // What was set aside can be read beside the standby.
    let dir = format!("data/aside/{aside}");
    let mut looking = siltstone(b.path());
    looking.args([
        "--data-dir",
        &dir,
        "--listen",
        "127.0.0.1:0",
        "--config",
        "siltstone.toml",
        "--read-only",
    ]);
    looking.env("SILTSTONE_ACCESS_KEY", KEY).env("SILTSTONE_SECRET_KEY", SECRET);
    let looking = Running::start(looking);
    assert!(get(&client(looking.address()), 6).unwrap() == super::tier::bytes(6));
    assert!(matches!(get(&client(first.address()), 6), Err(RemoteError::Missing)));
}

#[test]
fn a_host_that_may_be_the_newest_waits_for_the_other_and_says_so() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let remote = start(there.path(), "127.0.0.1:0", &[]);
    fs::write(here.path().join("siltstone.toml"), section(remote.address())).unwrap();
    assert_eq!(start(here.path(), "127.0.0.1:0", &[]).end(Signal::TERM).0, Some(0));
    init(here.path());
    let host = start(here.path(), "127.0.0.1:0", &ONE_COMMAND);
    put_soon(&host, 1);
    shipped(&host);
    drop(host.end(Signal::KILL));
    // Nothing tells that the newest claim is its own, as where another host has claimed and not
    // written yet.
    fs::remove_file(here.path().join("data/meta/epoch")).unwrap();
    let host = start(here.path(), "127.0.0.1:0", &ONE_COMMAND);
    eventually("it waits", || host.answer("/-/ready").contains("its directory has all that the remote has"));
    assert!(put(&client(host.address()), 2).is_err());
    eventually("it is promoted", || promote(here.path(), &[]).is_ok());
    put_soon(&host, 2);
    assert!(host.answer("/-/metrics").contains("\nsiltstone_ship_epoch 2\n"));
    assert!(promote(here.path(), &[]).unwrap_err().contains("a server runs, and no standby"));
}

/// Waits until the remote has all that the server has answered.
fn shipped(server: &Running) {
    eventually("the pieces are shipped", || {
        let metrics = server.answer("/-/metrics");
        metrics.contains("\nsiltstone_ship_waiting_groups 0\n")
            && metrics.contains("\nsiltstone_ship_lag_bytes 0\n")
    });
}

#[test]
fn a_time_is_restored_and_what_is_given_up_is_found_and_deleted() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let back = TempDir::new().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let _remote = start(there.path(), &address, &[]);
    for dir in [&here, &back] {
        fs::write(dir.path().join("siltstone.toml"), section(&address)).unwrap();
    }
    assert_eq!(start(here.path(), "127.0.0.1:0", &[]).end(Signal::TERM).0, Some(0));
    let (status, told) = tool(here.path(), &["status"]);
    assert_eq!((status, told.contains("belongs to: nobody")), (Some(1), true), "{told}");
    init(here.path());
    let shipping = ["--config", "siltstone.toml", "--ship", "async", "--ship-every", "100ms"];
    let server = start(here.path(), "127.0.0.1:0", &shipping);
    (0..2).for_each(|nth| put_soon(&server, nth));
    shipped(&server);
    // The times of groups are whole milliseconds.
    thread::sleep(Duration::from_millis(5));
    let then = SystemClock.now().to_iso8601();
    thread::sleep(Duration::from_millis(5));
    (2..4).for_each(|nth| put_soon(&server, nth));
    shipped(&server);
    let (status, told) = tool(here.path(), &["status"]);
    let expected =
        ["belongs to: this store", "fit for tier, ship, takeover", "restores reach: ", "log: epoch 1, "];
    assert!(status == Some(0) && expected.iter().all(|line| told.contains(line)), "{told}");
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    assert!(tool(here.path(), &["audit"]).1.ends_with(" objects, 0 missing, 0 orphans\n"));

    let (status, told) = tool(back.path(), &["restore", "--at", "2001-01-01T00:00:00Z"]);
    assert_eq!(
        (status, told.contains("the oldest time that can be restored is ")),
        (Some(2), true),
        "{told}"
    );
    assert_eq!(tool(back.path(), &["restore", "--at", "yesterday"]).0, Some(2));
    let (status, told) = tool(back.path(), &["restore", "--at", &then]);
    assert_eq!(status, Some(0), "{told}");
    let returned = start(back.path(), "127.0.0.1:0", &shipping);
    put_soon(&returned, 5);
    let objects = client(returned.address());
    assert!([0, 1, 5].iter().all(|nth| get(&objects, *nth).unwrap() == super::tier::bytes(*nth)));
    assert!((2..4).all(|nth| matches!(get(&objects, nth), Err(RemoteError::Missing))));
    shipped(&returned);

    // The pieces after that time are given up.
    let (status, told) = tool(here.path(), &["audit"]);
    assert_eq!((status, told.contains("\norphan: log/0000000000000001/")), (Some(1), true), "{told}");
    let (status, told) = tool(here.path(), &["audit", "--delete"]);
    assert_eq!((status, told.contains("\ndeleted: log/0000000000000001/")), (Some(0), true), "{told}");
    assert_eq!(tool(here.path(), &["audit"]).0, Some(0));
    let remote = client(&address);
    let bytes = remote.list("log/0000000000000002/", "", SOON).unwrap();
    let lost = bytes.iter().rfind(|object| object.name.contains('-')).unwrap();
    remote.delete(&lost.name, SOON).unwrap();
    let (status, told) = tool(here.path(), &["audit", "--delete"]);
    assert_eq!((status, told.contains(&format!("missing: {}: ", lost.name))), (Some(1), true), "{told}");
    assert_eq!(returned.end(Signal::TERM).0, Some(0));
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

/// The seconds that an answer says it may be stale.
fn stale(answer: &str) -> Option<u64> {
    let line = answer.lines().find_map(|line| line.strip_prefix("x-svc-siltstone-stale: "))?;
    assert!(answer.contains(&format!("\r\nAge: {line}\r\n")), "{answer}");
    Some(line.parse().unwrap())
}

#[test]
fn a_standby_answers_reads_and_says_how_stale_they_may_be() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let elsewhere = TempDir::new().unwrap();
    let remote = start(there.path(), "127.0.0.1:0", &[]);
    fs::write(here.path().join("siltstone.toml"), section(remote.address())).unwrap();
    let both = section(remote.address());
    fs::write(elsewhere.path().join("siltstone.toml"), format!("standby_reads = true\n{both}")).unwrap();
    let anonymous =
        "[[user]]\nname = 'anonymous'\n[[user.allow]]\nactions = ['GetObject']\nresources = ['*']\n";
    for dir in [&here, &elsewhere] {
        fs::write(dir.path().join("users.toml"), anonymous).unwrap();
    }
    assert_eq!(start(here.path(), "127.0.0.1:0", &[]).end(Signal::TERM).0, Some(0));
    init(here.path());
    let shipping =
        ["--config", "siltstone.toml", "--users", "users.toml", "--ship", "async", "--ship-every", "100ms"];
    let writer = start(here.path(), "127.0.0.1:0", &shipping);
    (0..3).for_each(|nth| put_soon(&writer, nth));
    let following = [["standby"].as_slice(), &shipping].concat();
    let standby = start(elsewhere.path(), "127.0.0.1:0", &following);
    eventually("it answers reads", || standby.get("/-/readable").contains(" 200 "));
    assert!(standby.get("/minio/health/cluster/read").contains(" 200 "));
    let objects = client(standby.address());
    eventually("the objects are there", || get(&objects, 2).is_ok());
    assert!((0..3).all(|nth| get(&objects, nth).unwrap() == super::tier::bytes(nth)));

    // Writes are refused, and every answer is marked.
    let refused = put(&objects, 0).unwrap_err().to_string();
    assert!(refused.contains("503"), "{refused}");
    assert!(standby.get("/-/ready").contains(" 503 "), "a put would not succeed");
    assert!(standby.answer("/-/ready").contains(" behind, which answers reads\n"));
    assert!(standby.get("/-/api/1/users").contains(" 404 "));
    let answer = standby.answer("/cold/none");
    assert!(answer.contains(" 403 ") || answer.contains(" 404 "), "{answer}");
    assert!(stale(&answer).is_some_and(|seconds| seconds < 60), "{answer}");
    assert_eq!(stale(&writer.answer("/cold/none")), None);
    let metrics = standby.answer("/-/metrics");
    for line in
        ["siltstone_requests_total{operation=\"GetObject\",status=\"2xx\"} ", "siltstone_ship_lag_seconds "]
    {
        assert!(metrics.contains(&format!("\n{line}")), "{line} is missing from {metrics}");
    }
    let families: Vec<_> = metrics.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    assert!(families.iter().all(|one| families.iter().filter(|other| one == *other).count() == 1));

    // Later writes follow, and go on following after a restart.
    put_soon(&writer, 3);
    eventually("it is seen", || get(&objects, 3).is_ok_and(|found| found == super::tier::bytes(3)));
    client(writer.address()).delete("object-0", SOON).unwrap();
    eventually("it is gone", || matches!(get(&objects, 0), Err(RemoteError::Missing)));
    assert_eq!(standby.end(Signal::TERM).0, Some(0));
    let standby = start(elsewhere.path(), "127.0.0.1:0", &following);
    let objects = client(standby.address());
    eventually("it answers reads again", || get(&objects, 3).is_ok());

    // Without the remote the marks grow, and reads go on.
    let age = stale(&standby.answer("/cold/none")).unwrap();
    remote.signal(Signal::STOP);
    eventually("the marks grow", || stale(&standby.answer("/cold/none")).unwrap() > age + 3);
    assert!(get(&objects, 3).unwrap() == super::tier::bytes(3));
    remote.signal(Signal::CONT);

    shipped(&writer);
    writer.signal(Signal::STOP);
    eventually("it is promoted", || promote(elsewhere.path(), &[]).is_ok());
    put_soon(&standby, 4);
    assert!((1..5).all(|nth| get(&objects, nth).unwrap() == super::tier::bytes(nth)));
    assert_eq!(stale(&standby.answer("/cold/none")), None);
    writer.signal(Signal::CONT);
    drop(writer.end(Signal::TERM));
    assert_eq!(standby.end(Signal::TERM).0, Some(0));
}
