//! A server that is mirrored to another one, both of which are killed at random.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustix::process::Signal;
use siltstone::base::digest::Md5;
use siltstone::base::{Entropy as _, SeededEntropy, Timestamp};
use siltstone::client::{Endpoint, RequestSigner};
use siltstone::transfer::{
    ObjectUpload, Origin, Peer, PeerCall, PeerError, PeerLink, PeerVersioning, SendBody, UploadShape,
    bucket_names, has_bucket, versions_state, visit_keys,
};
use tempfile::TempDir;

use crate::support::client::eventually;
use crate::support::process::{Running, finish, siltstone, stderr_of};
use crate::support::proxy::{self, Fault, Verdict};

/// Times that a server is killed.
const ROUNDS: &str = "SILTSTONE_MIRROR_ROUNDS";
const KEY: &str = "AKMIRRORTESTMIRROR00";
const SECRET: &str = "a-secret-of-both-servers";
const KEYS: u64 = 8;

fn address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn start(dir: &Path, address: &str, arguments: &[&str]) -> Running {
    let mut command = siltstone(dir);
    command.args(["--data-dir", "data", "--listen", address]).args(arguments);
    command.env("SILTSTONE_ACCESS_KEY", KEY).env("SILTSTONE_SECRET_KEY", SECRET);
    Running::start(command)
}

fn peer(address: &str, bucket: &str) -> Peer {
    let endpoint = Endpoint::resolve(&format!("http://{address}"), None).unwrap();
    Peer { endpoint, signer: RequestSigner::new(KEY, SECRET, "eu"), bucket: bucket.to_owned() }
}

fn keep_versions(peer: &Peer) {
    let body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    let call = PeerCall { method: "PUT", query: &[("versioning", "")], ..PeerCall::default() };
    PeerLink::new(peer).ask_with(call, body).unwrap();
}

/// The bytes of a version and its metadata; `None` for a delete marker.
type SeenVersion = Option<(Vec<u8>, String)>;

/// Every version of every key, oldest first; keys without `prefix`.
fn content(peer: &Peer, prefix: &str) -> Vec<(String, Vec<SeenVersion>)> {
    let mut link = PeerLink::new(peer);
    let mut keys = Vec::new();
    visit_keys(&mut link, prefix, true, &mut |key| {
        keys.push(key);
        true
    })
    .unwrap();
    let mut content = Vec::new();
    for key in keys {
        let versions = key.versions.iter().map(|version| {
            if version.delete_marker {
                return None;
            }
            let query = [("versionId", version.id.as_deref().unwrap())];
            let call = PeerCall { method: "GET", key: &key.key, query: &query, ..PeerCall::default() };
            let (answer, bytes) = link.ask(call).unwrap();
            Some((bytes, answer.header("x-amz-meta-nth").unwrap_or_default()))
        });
        content.push((key.key[prefix.len()..].to_owned(), versions.collect()));
    }
    content
}

/// The entity tags of all versions of every key, oldest first.
fn listed(peer: &Peer) -> Vec<(String, Vec<String>)> {
    let mut keys = Vec::new();
    visit_keys(&mut PeerLink::new(peer), "", true, &mut |key| {
        keys.push((key.key, key.versions.into_iter().map(|version| version.etag).collect()));
        true
    })
    .unwrap();
    keys
}

/// Changes keys while the servers come and go.
fn work(source: &Peer, entropy: &SeededEntropy, from: u64, count: u64) {
    let mut link = PeerLink::new(source);
    for nth in from..from + count {
        let key = format!("dir/key {}", entropy.next_u64() % KEYS);
        let headers = [("x-amz-meta-nth".to_owned(), nth.to_string())];
        let mut body = vec![0; (entropy.next_u64() % 100_000) as usize];
        entropy.fill(&mut body);
        let method = if entropy.next_u64().is_multiple_of(5) { "DELETE" } else { "PUT" };
        let length = body.len() as u64;
        let call = PeerCall { method, key: &key, headers: &headers, length, ..PeerCall::default() };
        // The server may be gone.
        let body: &mut dyn io::Read = if method == "PUT" { &mut &body[..] } else { &mut io::empty() };
        drop(link.send(call, body, &mut io::sink()));
    }
}

fn figure(metrics: &str, name: &str) -> f64 {
    shown_figure(metrics, name).unwrap_or_else(|| panic!("{name} in {metrics}"))
}

fn shown_figure(metrics: &str, name: &str) -> Option<f64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

fn is_current(server: &Running) -> bool {
    let metrics = server.answer("/-/metrics");
    ["siltstone_mirror_due_keys{mirror=\"away\"}", "siltstone_follower_waiting_groups{follower=\"away\"}"]
        .iter()
        // A follower that has not begun yet has no figures.
        .all(|name| shown_figure(&metrics, name) == Some(0.0))
}

/// Runs a `mirror` command against that server.
fn mirror(dir: &Path, address: &str, arguments: &[&str]) -> std::process::Output {
    let mut command = siltstone(dir);
    command.arg("mirror").args(arguments).args(["--config", "siltstone.toml", "--data-dir", "data"]);
    command.args(["--listen", address]).env("SILTSTONE_ACCESS_KEY", KEY).env("SILTSTONE_SECRET_KEY", SECRET);
    finish(&mut command)
}

fn stdout_of(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_mirror_converges_whichever_server_is_killed() {
    let rounds: u64 = std::env::var(ROUNDS).map_or(4, |rounds| rounds.parse().expect("a number"));
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let near = address();
    let far = address();
    let table = format!(
        "[[mirror]]\nname = 'away'\nendpoint = 'http://{far}'\naccess_key = '{KEY}'\nsecret_key = '{SECRET}'\n\
         buckets = ['photos']\ntarget_bucket = 'copy-{{bucket}}'\ntarget_prefix = 'box'\n"
    );
    fs::write(here.path().join("siltstone.toml"), table).unwrap();
    let start_source = || {
        start(
            here.path(),
            &near,
            &["--bucket", "photos", "--config", "siltstone.toml", "--audit-log", "audit.jsonl"],
        )
    };
    let start_target = || start(there.path(), &far, &["--bucket", "copy-photos"]);
    let mut source = Some(start_source());
    let mut target = Some(start_target());
    let near_peer = peer(&near, "photos");
    let far_peer = peer(&far, "copy-photos");
    keep_versions(&far_peer);
    keep_versions(&near_peer);
    let entropy = SeededEntropy::new(7);
    for round in 0..rounds {
        work(&near_peer, &entropy, round * 1_000, 20 + entropy.next_u64() % 30);
        match entropy.next_u64() % 3 {
            0 => {
                source.take().unwrap().end(Signal::KILL);
                source = Some(start_source());
            }
            1 => {
                target.take().unwrap().end(Signal::KILL);
                target = Some(start_target());
            }
            // The target is down while the source goes on, and is killed, too.
            _ => {
                target.take().unwrap().end(Signal::KILL);
                work(&near_peer, &entropy, round * 1_000 + 500, 30);
                source.take().unwrap().end(Signal::KILL);
                source = Some(start_source());
                target = Some(start_target());
            }
        }
    }
    let source = source.unwrap();
    let target = target.unwrap();
    let last = PeerCall { method: "PUT", key: "dir/key 1", ..PeerCall::default() };
    PeerLink::new(&near_peer).ask_with(last, b"last").unwrap();
    eventually("the mirror is current", || is_current(&source));
    assert!(content(&near_peer, "") == content(&far_peer, "box/"), "the target differs");
    assert!(!content(&near_peer, "").is_empty());

    let verified = mirror(here.path(), &near, &["verify", "away"]);
    assert!(verified.status.success(), "{}{}", stdout_of(&verified), stderr_of(&verified));
    let status = mirror(here.path(), &near, &["status"]);
    assert!(stdout_of(&status).starts_with("away\t"), "{}{}", stdout_of(&status), stderr_of(&status));
    // A target that lost an object is noticed and mended.
    let lost = PeerCall { method: "DELETE", key: "box/dir/key 1", ..PeerCall::default() };
    PeerLink::new(&far_peer).ask(lost).unwrap();
    let verified = mirror(here.path(), &near, &["verify", "away"]);
    assert!(stdout_of(&verified).contains("different\tphotos/dir/key 1"), "{}", stdout_of(&verified));
    assert_eq!(verified.status.code(), Some(1));
    let resync = mirror(here.path(), &near, &["resync", "away"]);
    assert!(resync.status.success(), "{}", stderr_of(&resync));
    let unknown = mirror(here.path(), &near, &["resync", "other"]);
    assert!(stderr_of(&unknown).contains("No mirror has this name"), "{}", stderr_of(&unknown));
    let audited = fs::read_to_string(here.path().join("audit.jsonl")).unwrap();
    let attempts: Vec<_> = audited.lines().filter(|line| line.contains("\"ResyncMirror\"")).collect();
    let [made, refused] = attempts[..] else { panic!("{audited}") };
    assert!(made.contains("\"away\"") && made.contains("204"), "{made}");
    assert!(refused.contains("\"other\"") && refused.contains("NoSuchMirror"), "{refused}");
    eventually("the target is mended", || content(&near_peer, "") == content(&far_peer, "box/"));
    assert_eq!(source.end(Signal::TERM).0, Some(0));
    assert_eq!(target.end(Signal::TERM).0, Some(0));
}

struct Bytes(Vec<u8>);

impl Origin for Bytes {
    fn with_range(&mut self, range: Range<u64>, send: &mut SendBody<'_>) -> Result<String, PeerError> {
        send(&mut &self.0[range.start as usize..range.end as usize])
    }
}

/// Stores an object in parts of these lengths.
fn put_parts(peer: &Peer, key: &str, seed: u64, lengths: &[u64]) {
    let mut bytes = vec![0; lengths.iter().sum::<u64>() as usize];
    SeededEntropy::new(seed).fill(&mut bytes);
    let headers = [("x-amz-meta-nth".to_owned(), seed.to_string())];
    let shape = UploadShape::Parts(lengths.to_vec());
    let begun = Timestamp::default();
    let headers = &headers;
    let shape = &shape;
    let upload = ObjectUpload {
        key,
        headers,
        shape,
        begun,
        stated_time: None,
        repeated: true,
        expected: None,
        checksum: None,
    };
    upload.send(&mut PeerLink::new(peer), &mut Bytes(bytes)).unwrap();
}

fn etag(peer: &Peer, key: &str) -> String {
    let call = PeerCall { method: "HEAD", key, ..PeerCall::default() };
    PeerLink::new(peer).ask(call).unwrap().0.header("etag").unwrap()
}

#[test]
fn an_object_in_parts_arrives_in_the_same_parts_and_a_refused_one_is_named() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let near = address();
    let far = address();
    let policy = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*",
        "Action": "s3:PutObject", "Resource": "arn:aws:s3:::films/closed"}]}"#;
    let table = format!(
        "[[mirror]]\nname = 'away'\nendpoint = 'http://{far}'\naccess_key = '{KEY}'\nsecret_key = '{SECRET}'\n\
         buckets = ['films']\nrate = '1GiB'\n"
    );
    fs::write(here.path().join("siltstone.toml"), table).unwrap();
    let target = start(there.path(), &far, &[]);
    let source = start(here.path(), &near, &["--bucket", "films", "--config", "siltstone.toml"]);
    let near_peer = peer(&near, "films");
    let far_peer = peer(&far, "films");
    let deny = PeerCall { method: "PUT", query: &[("policy", "")], ..PeerCall::default() };
    let is_denied = || PeerLink::new(&far_peer).ask_with(deny, policy.as_bytes()).is_ok();
    eventually("the mirror makes the bucket", is_denied);
    put_parts(&near_peer, "long", 1, &[6 << 20, 5 << 20, 100]);
    put_parts(&near_peer, "short", 2, &[1_000]);
    put_parts(&near_peer, "closed", 3, &[1_000]);
    let has_long = || content(&far_peer, "").len() == 2;
    eventually("the objects are there", has_long);
    assert!(etag(&near_peer, "long").ends_with("-3\""), "{}", etag(&near_peer, "long"));
    for key in ["long", "short"] {
        assert_eq!(etag(&far_peer, key), etag(&near_peer, key));
    }
    let mut wanted = content(&near_peer, "");
    let found = content(&far_peer, "");
    wanted.retain(|(key, _)| key != "closed");
    assert!(wanted == found, "the target differs");
    // The other key is tried for some minutes before it is set aside.
    let failing =
        || figure(&source.answer("/-/metrics"), "siltstone_mirror_failing_keys{mirror=\"away\"}") == 1.0;
    eventually("the refusal is counted", failing);
    let status = stdout_of(&mirror(here.path(), &near, &["status"]));
    assert!(status.contains("1 failing, 0 refused") && status.contains("films/closed: "), "{status}");
    let verified = mirror(here.path(), &near, &["verify", "away"]);
    assert!(stdout_of(&verified).contains("missing\tfilms/closed"), "{}", stdout_of(&verified));
    // The key of a client is not with the mirror: such an object is neither missing nor compared.
    let name = "x-amz-server-side-encryption-customer";
    let key = [7; 32];
    let headers = [
        (format!("{name}-algorithm"), "AES256".to_owned()),
        (format!("{name}-key"), BASE64.encode(key)),
        (format!("{name}-key-md5"), BASE64.encode(Md5::of(&key))),
    ];
    let theirs = PeerCall { method: "PUT", key: "theirs", headers: &headers, ..PeerCall::default() };
    PeerLink::new(&near_peer).ask_with(theirs, b"secret").unwrap();
    let verified = stdout_of(&mirror(here.path(), &near, &["verify", "away"]));
    assert!(verified.contains("1 keys are encrypted under keys of their clients"), "{verified}");
    assert!(verified.contains("1 missing, 0 different") && !verified.contains("theirs"), "{verified}");
    assert_eq!(source.end(Signal::TERM).0, Some(0));
    assert_eq!(target.end(Signal::TERM).0, Some(0));
}

/// Loses every other answer to a request that stores or deletes an object of the bucket.
fn lose_answers(head: &str, answer: Vec<u8>) -> Vec<u8> {
    static STORED: AtomicU64 = AtomicU64::new(0);
    let is_of_object = head.starts_with("PUT /films/") || head.starts_with("DELETE /films/");
    let is_lost = is_of_object && STORED.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
    if is_lost { Vec::new() } else { answer }
}

#[test]
fn a_version_whose_answer_is_lost_is_not_stored_twice() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let near = address();
    let target = start(there.path(), "127.0.0.1:0", &[]);
    let fault = Fault { answer: lose_answers, ..Fault::default() };
    let proxy = proxy::start(target.address().parse().unwrap(), fault);
    let table = format!(
        "[[mirror]]\nname = 'away'\nendpoint = 'http://{proxy}'\naccess_key = '{KEY}'\nsecret_key = '{SECRET}'\n"
    );
    fs::write(here.path().join("siltstone.toml"), table).unwrap();
    let arguments = ["--bucket", "films:versioned", "--config", "siltstone.toml"];
    let source = start(here.path(), &near, &arguments);
    let near_peer = peer(&near, "films");
    let far_peer = peer(target.address(), "films");
    work(&near_peer, &SeededEntropy::new(5), 0, 12);
    eventually("everything is there", || is_current(&source));
    assert!(content(&near_peer, "") == content(&far_peer, ""), "the target differs");
    assert_eq!(source.end(Signal::TERM).0, Some(0));
}

fn put(peer: &Peer, key: &str, nth: u64, bytes: &[u8]) {
    let headers = [("x-amz-meta-nth".to_owned(), nth.to_string())];
    let call = PeerCall { method: "PUT", key, headers: &headers, ..PeerCall::default() };
    PeerLink::new(peer).ask_with(call, bytes).unwrap();
}

fn make_bucket(peer: &Peer) {
    PeerLink::new(peer).ask(PeerCall { method: "PUT", ..PeerCall::default() }).unwrap();
}

/// A table of a mirror to that server.
fn table(address: &str, more: &str) -> String {
    format!(
        "[[mirror]]\nname = 'away'\nendpoint = 'http://{address}'\naccess_key = '{KEY}'\nsecret_key = '{SECRET}'\n{more}"
    )
}

#[test]
fn versions_that_are_enabled_while_the_mirror_runs_are_all_copied() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let near = address();
    let far = address();
    fs::write(here.path().join("siltstone.toml"), table(&far, "")).unwrap();
    let target = start(there.path(), &far, &[]);
    let source = start(here.path(), &near, &["--bucket", "films", "--config", "siltstone.toml"]);
    let near_peer = peer(&near, "films");
    let far_peer = peer(&far, "films");
    put(&near_peer, "k", 0, b"none");
    eventually("the mirror is current", || is_current(&source));
    // Somebody takes the versions of the target away, which the mirror does not notice.
    let suspend = b"<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>";
    let call = PeerCall { method: "PUT", query: &[("versioning", "")], ..PeerCall::default() };
    keep_versions(&near_peer);
    eventually("the target keeps versions", || {
        versions_state(&mut PeerLink::new(&far_peer)).unwrap() == PeerVersioning::Enabled
    });
    eventually("the mirror is current", || is_current(&source));
    PeerLink::new(&far_peer).ask_with(call, suspend).unwrap();
    for nth in 1..6 {
        put(&near_peer, "k", nth, b"one of several");
        put(&near_peer, "other", nth, b"one of several");
    }
    eventually("the mirror is current", || is_current(&source));
    let verified = mirror(here.path(), &near, &["verify", "away"]);
    let told = stdout_of(&verified);
    assert!(!verified.status.success() && told.contains("films: kept here, and suspended"), "{told}");
    assert!(mirror(here.path(), &near, &["verify", "away", "--current"]).status.success());
    keep_versions(&far_peer);
    put(&near_peer, "third", 9, b"x");
    // Versions go while they are replaced, so that only their listing can be read at any time.
    eventually("every version is there", || listed(&near_peer) == listed(&far_peer) && is_current(&source));
    assert!(content(&near_peer, "") == content(&far_peer, ""), "the target differs");
    let verified = mirror(here.path(), &near, &["verify", "away"]);
    assert!(verified.status.success(), "{}{}", stdout_of(&verified), stderr_of(&verified));
    assert_eq!(source.end(Signal::TERM).0, Some(0));
    assert_eq!(target.end(Signal::TERM).0, Some(0));
}

#[test]
fn a_bucket_named_as_a_foreign_one_is_occupied_until_a_resync() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let near = address();
    let far = address();
    fs::write(here.path().join("siltstone.toml"), table(&far, "")).unwrap();
    let target = start(there.path(), &far, &["--bucket", "theirs:versioned"]);
    put(&peer(&far, "theirs"), "k", 1, b"theirs");
    let source = start(here.path(), &near, &["--bucket", "films", "--config", "siltstone.toml"]);
    put(&peer(&near, "films"), "k", 1, b"ours");
    eventually("the mirror is current", || is_current(&source));
    let seen_before = content(&peer(&far, "theirs"), "");
    make_bucket(&peer(&near, "theirs"));
    put(&peer(&near, "theirs"), "k", 2, b"ours");
    put(&peer(&near, "films"), "other", 2, b"ours");
    let occupied = "siltstone_mirror_occupied_buckets{mirror=\"away\"}";
    eventually("the bucket is occupied", || figure(&source.answer("/-/metrics"), occupied) == 1.0);
    eventually("the mirror is current", || is_current(&source));
    assert!(content(&peer(&far, "theirs"), "") == seen_before, "the foreign bucket was changed");
    assert_eq!(content(&peer(&far, "films"), "").len(), 2);
    let status = stdout_of(&mirror(here.path(), &near, &["status"]));
    assert!(status.contains("away\toccupied\ttheirs\ttheirs/ has objects"), "{status}");
    assert!(mirror(here.path(), &near, &["resync", "away"]).status.success());
    let before = listed(&peer(&far, "theirs"));
    let is_taken_over = || listed(&peer(&far, "theirs")) != before;
    eventually("the bucket is taken over", is_taken_over);
    eventually("it is told so", || figure(&source.answer("/-/metrics"), occupied) == 0.0);
    assert_eq!(source.end(Signal::TERM).0, Some(0));
    assert_eq!(target.end(Signal::TERM).0, Some(0));
}

/// Something on the way answers the first requests in place of the server, and later one of them
/// with a refusal.
fn answer_in_its_place(head: String) -> Verdict {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 22\r\nConnection: close\r\n\r\n<html>Log in!  </html>";
    let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    match ASKED.fetch_add(1, Ordering::Relaxed) {
        0..20 => Verdict::Answer(page),
        22 | 25 => Verdict::Answer(refusal),
        _ => Verdict::Forward(head),
    }
}

#[test]
fn an_odd_answer_is_not_remembered() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let near = address();
    let target = start(there.path(), "127.0.0.1:0", &[]);
    let fault = Fault { request: answer_in_its_place, ..Fault::default() };
    let proxy = proxy::start(target.address().parse().unwrap(), fault);
    fs::write(here.path().join("siltstone.toml"), table(&proxy.to_string(), "")).unwrap();
    let arguments = ["--bucket", "films:versioned", "--config", "siltstone.toml"];
    let source = start(here.path(), &near, &arguments);
    let near_peer = peer(&near, "films");
    let far_peer = peer(target.address(), "films");
    for nth in 0..5 {
        put(&near_peer, "k", nth, b"one of several");
    }
    let is_copied = || is_current(&source) && has_bucket(&mut PeerLink::new(&far_peer)).unwrap();
    eventually("everything is there", is_copied);
    assert!(content(&near_peer, "") == content(&far_peer, ""), "the target differs");
    assert_eq!(source.end(Signal::TERM).0, Some(0));
}

#[test]
fn two_servers_that_mirror_each_other_come_to_rest() {
    let here = TempDir::new().unwrap();
    let there = TempDir::new().unwrap();
    let near = address();
    let far = address();
    fs::write(here.path().join("siltstone.toml"), table(&far, "")).unwrap();
    fs::write(there.path().join("siltstone.toml"), table(&near, "")).unwrap();
    let arguments = ["--bucket", "films", "--config", "siltstone.toml"];
    let one = start(here.path(), &near, &arguments);
    let other = start(there.path(), &far, &arguments);
    let near_peer = peer(&near, "films");
    let far_peer = peer(&far, "films");
    let are_current = || is_current(&one) && is_current(&other);
    eventually("both have begun", are_current);
    let keys = |peer: &Peer| {
        let mut link = PeerLink::new(peer);
        let mut keys = Vec::new();
        visit_keys(&mut link, "", false, &mut |key| {
            keys.push(format!("{} {}", key.key, key.versions[0].etag));
            true
        })
        .unwrap();
        keys
    };
    for nth in 0..20_u64 {
        put(&near_peer, &format!("near {}", nth % 4), nth, &nth.to_le_bytes());
        put(&far_peer, &format!("far {}", nth % 4), nth, &nth.to_le_bytes());
    }
    for key in ["near 1", "near 2"] {
        PeerLink::new(&near_peer).ask(PeerCall { method: "DELETE", key, ..PeerCall::default() }).unwrap();
    }
    eventually("both are the same", || are_current() && keys(&near_peer) == keys(&far_peer));
    let sent = "siltstone_mirror_objects_total{mirror=\"away\"}";
    let counts = || [&one, &other].map(|server| figure(&server.answer("/-/metrics"), sent));
    let before = counts();
    assert_eq!(keys(&near_peer).len(), 6);
    // Each object goes over once: the ones of here from here, and the ones of there from there.
    put(&near_peer, "near 1", 100, b"the last");
    eventually("both are the same", || are_current() && keys(&near_peer) == keys(&far_peer));
    assert_eq!(counts(), [before[0] + 1.0, before[1]]);
    assert_eq!(one.end(Signal::TERM).0, Some(0));
    assert_eq!(other.end(Signal::TERM).0, Some(0));
}

#[test]
fn a_mirror_to_its_own_server_says_so_and_copies_nothing() {
    let here = TempDir::new().unwrap();
    let near = address();
    let by_another_name = near.replace("127.0.0.1", "localhost");
    let config = table(&by_another_name, "target_bucket = 'copy-{bucket}'\n");
    fs::write(here.path().join("siltstone.toml"), config).unwrap();
    let server = start(here.path(), &near, &["--bucket", "films", "--config", "siltstone.toml"]);
    put(&peer(&near, "films"), "k", 1, b"x");
    let status = || stdout_of(&mirror(here.path(), &near, &["status"]));
    eventually("it is refused", || status().contains("the target is this store itself"));
    let own = peer(&near, "films");
    assert_eq!(bucket_names(&mut PeerLink::new(&own)).unwrap(), ["films"]);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}
