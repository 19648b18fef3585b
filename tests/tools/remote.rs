//! `remote` and the client of remotes against the server, as a remote of another store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use siltstone::base::digest::{Md5, Sha256, to_hex};
use siltstone::client::SettingSources;
use siltstone::remote::{NewObject, Remote, RemoteError, RemoteSettings, RemoteView as _, S3Remote};
use tempfile::TempDir;

use super::tiny_store::{Fault, TinyStore};
use super::{Fixture, bytes, status, stderr, stdout};
use crate::support::process::{Running, finish, on_a_free_port, stderr_of};

const ACCESS_KEY: &str = "AKKEEPSSEGMENTS";
const SECRET_KEY: &str = "a-secret-of-the-remote";
const SOON: Duration = Duration::from_secs(60);

/// A server with the bucket `cold`, and a directory for configuration files.
pub(super) struct RemoteServer {
    server: Running,
    dir: TempDir,
}

impl RemoteServer {
    pub(super) fn start() -> Self {
        Self::start_by(Running::start, |_| {})
    }

    fn start_by(start: fn(Command) -> Running, change: impl Fn(&mut Command)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = on_a_free_port(dir.path());
        command.env("SILTSTONE_ACCESS_KEY", ACCESS_KEY).env("SILTSTONE_SECRET_KEY", SECRET_KEY);
        command.env("SILTSTONE_BUCKETS", "cold");
        change(&mut command);
        Self { server: start(command), dir }
    }

    fn section(&self, scheme: &str, more: &str) -> String {
        let address = self.server.address();
        format!(
            "[remote]\nendpoint = '{scheme}://{address}'\nbucket = 'cold'\nprefix = 'box'\naccess_key = '{ACCESS_KEY}'\n\
             secret_key = '{SECRET_KEY}'\n{more}"
        )
    }

    pub(super) fn config(&self) -> PathBuf {
        let path = self.dir.path().join("remote.toml");
        fs::write(&path, self.section("http", "")).unwrap();
        path
    }

    fn client(&self) -> S3Remote {
        S3Remote::new(&settings(&self.section("http", ""))).unwrap()
    }
}

fn settings(section: &str) -> RemoteSettings {
    let none = |_: &Path| Err("no file".to_owned());
    let sources = SettingSources { read: &none, variable: &|_| None };
    RemoteSettings::parse(section, &sources).unwrap().unwrap()
}

fn tool(config: &Path, data_dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    command.args(["--json", "--data-dir"]).arg(data_dir).arg("remote").arg("--config").arg(config).args(args);
    command.env_remove("SILTSTONE_DATA_DIR").stdin(Stdio::null()).output().unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

const SMALL: [&str; 4] = ["--rounds", "3", "--racers", "8"];

#[test]
fn the_server_is_a_remote_for_all_modes_and_nothing_of_the_probe_is_left() {
    let remote = RemoteServer::start();
    let output = tool(&remote.config(), remote.dir.path(), &[&["probe"][..], &SMALL].concat());
    let report = report(&output);
    assert_eq!(status(&output), 0, "{report}");
    assert_eq!(report["fit"], serde_json::json!({ "tier": true, "ship": true, "takeover": true }));
    assert!(report["checks"].as_array().unwrap().iter().all(|check| check["holds"] == true), "{report}");
    assert_eq!(report["checks"].as_array().unwrap().len(), 7);
    assert_eq!(remote.client().list("", "", SOON).unwrap(), []);
}

#[test]
fn a_store_that_checks_without_a_lock_decides_no_races() {
    let race = |fault: Fault| {
        let store = TinyStore::start(fault);
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("remote.toml");
        let url = store.url();
        let keys = "access_key = 'AK'\nsecret_key = 's'\n";
        fs::write(&config, format!("[remote]\nendpoint = '{url}'\nbucket = 'cold'\n{keys}")).unwrap();
        let report = report(&tool(&config, dir.path(), &[&["probe"][..], &SMALL].concat()));
        let check = |check: &&Value| check["check"] == "race";
        report["checks"].as_array().unwrap().iter().find(check).unwrap()["detail"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let liar = race(Fault::NoLock);
    assert!(liar.contains("of 8 creates of one name succeeded"), "{liar}");
    // It knows no HEAD and no ranges, so that the race ends with the read of the winner's object.
    let honest = race(Fault::None);
    assert!(honest.contains("asked for bytes 0-31"), "{honest}");
}

#[test]
fn a_remote_is_marked_once_and_belongs_to_one_store() {
    let remote = RemoteServer::start();
    let config = remote.config();
    let own = Fixture::new().keep();
    let other = Fixture::new().keep();
    let before = tool(&config, &own, &["status"]);
    assert_eq!((status(&before), &report(&before)["marked"]), (1, &Value::from(false)));
    let init = |dir: &Path| tool(&config, dir, &[&["init"][..], &SMALL].concat());
    let made = init(&own);
    assert_eq!(status(&made), 0, "{}", stderr(&made));
    assert_eq!(status(&init(&own)), 0, "again");
    let refused = init(&other);
    assert_eq!((status(&refused), &report(&refused)["own"]), (1, &Value::from(false)));
    let empty = tempfile::tempdir().unwrap();
    let early = init(empty.path());
    assert!(status(&early) == 2 && stderr(&early).contains("start the server once"), "{}", stderr(&early));
    let client = remote.client();
    let segment =
        NewObject { name: "segment/01-1", body: &b"cold bytes".as_slice(), nonce: "n", create_only: false };
    client.put(&segment, SOON).unwrap();
    let after = report(&tool(&config, &own, &["status"]));
    assert_eq!((&after["own"], &after["decides_races"]), (&Value::from(true), &Value::from(true)), "{after}");
    assert_eq!(after["segments"], serde_json::json!({ "count": 1, "bytes": 10 }));
    let foreign = tool(&config, &other, &["status"]);
    assert_eq!((status(&foreign), &report(&foreign)["own"]), (1, &Value::from(false)));
    [own, other].iter().for_each(|dir| fs::remove_dir_all(dir).unwrap());
}

#[test]
fn an_encrypted_remote_is_marked_read_with_older_keys_and_closed_without() {
    use std::os::unix::fs::PermissionsExt as _;
    let remote = RemoteServer::start();
    let own = Fixture::new().keep();
    let plain = remote.config();
    let keys = remote.dir.path().join("remote.key");
    let key_of = |more: &[&str]| {
        let made = tool(&plain, &own, &[&["key", keys.to_str().unwrap()], more].concat());
        assert_eq!(status(&made), 0, "{}", stderr(&made));
        report(&made)["key"].as_str().unwrap().to_owned()
    };
    let first = key_of(&[]);
    assert_eq!(fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o600);
    let refused = tool(&plain, &own, &["key", keys.to_str().unwrap()]);
    assert!(status(&refused) == 2 && stderr(&refused).contains("--rotate"), "{}", stderr(&refused));
    let with_keys = remote.dir.path().join("encrypted.toml");
    let more = format!("encryption_key_file = '{}'\n", keys.display());
    fs::write(&with_keys, remote.section("http", &more)).unwrap();
    let made = tool(&with_keys, &own, &[&["init"][..], &SMALL].concat());
    assert_eq!(status(&made), 0, "{}", stderr(&made));
    let bytes = remote.client().get("STORE", 0..32, SOON).unwrap();
    assert_eq!(to_hex(&bytes[8..16]), first, "the key of the mark");

    let second = key_of(&["--rotate"]);
    assert_ne!(first, second);
    let text = fs::read_to_string(&keys).unwrap();
    assert!(text.find(&second) < text.find(&first), "{text}");
    assert_eq!(fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o600);
    let after = tool(&with_keys, &own, &["status"]);
    assert_eq!((status(&after), &report(&after)["own"]), (0, &Value::from(true)));
    let without = tool(&plain, &own, &["status"]);
    assert!(status(&without) == 2 && stderr(&without).contains(&first), "{}", stderr(&without));
    fs::write(&keys, text.lines().next().unwrap()).unwrap();
    let other = tool(&with_keys, &own, &["status"]);
    assert!(status(&other) == 2 && stderr(&other).contains(&first), "{}", stderr(&other));
    fs::remove_dir_all(own).unwrap();
}

#[test]
fn objects_go_to_the_server_and_back() {
    let remote = RemoteServer::start();
    let client = remote.client();
    let body = bytes(7, 3 << 20);
    let put = |nonce: &str, create_only| {
        client.put(&NewObject { name: "segment/a-1", body: &body.as_slice(), nonce, create_only }, SOON)
    };
    let stored = put("mine", true).unwrap();
    assert_eq!((stored.length, stored.md5), (3 << 20, Some(Md5::of(&body))));
    assert_eq!(client.head("segment/a-1", SOON).unwrap(), Some(stored), "with its nonce");
    assert!(put("mine", true).is_ok(), "an own put, repeated");
    assert!(matches!(put("other", true), Err(RemoteError::Exists)));
    assert_eq!(client.get("segment/a-1", 100..1_000_100, SOON).unwrap(), body[100..1_000_100]);
    assert_eq!(client.get("segment/a-1", 0..3 << 20, SOON).unwrap(), body);
    assert!(matches!(client.get("segment/a-1", 0..(3 << 20) + 1, SOON), Err(RemoteError::Wrong(_))));
    assert!(matches!(client.get("segment/none", 0..1, SOON), Err(RemoteError::Missing)));
    let listed = client.list("segment/", "segment/a", SOON).unwrap();
    assert_eq!(listed.iter().map(|object| object.name.as_str()).collect::<Vec<_>>(), ["segment/a-1"]);
    client.delete("segment/a-1", SOON).unwrap();
    client.delete("segment/a-1", SOON).unwrap();
    assert_eq!(client.head("segment/a-1", SOON).unwrap(), None);
}

#[test]
fn wrong_keys_and_a_missing_bucket_are_refusals() {
    let remote = RemoteServer::start();
    for (from, to) in [(SECRET_KEY, "another-secret-key"), ("'cold'", "'none'")] {
        let client = S3Remote::new(&settings(&remote.section("http", "").replace(from, to))).unwrap();
        let object = NewObject { name: "a", body: &b"".as_slice(), nonce: "n", create_only: false };
        assert!(matches!(client.put(&object, SOON), Err(RemoteError::Refused(_))), "{to}");
    }
}

#[test]
fn a_certificate_is_accepted_by_its_fingerprint_or_by_its_authority() {
    let fixture = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name);
    let remote = RemoteServer::start_by(Running::start_tls, |command| {
        command.env("SILTSTONE_TLS_CERT", fixture("one.pem")).env("SILTSTONE_TLS_KEY", fixture("one.key"));
    });
    let certificate = CertificateDer::from_pem_file(fixture("one.pem")).unwrap();
    let right = to_hex(&Sha256::of(&certificate));
    let head = |more: &str| {
        let section = remote.section("https", more);
        S3Remote::new(&settings(&section)).unwrap().head("a", SOON)
    };
    assert!(head(&format!("fingerprint = '{right}'")).unwrap().is_none());
    let authority = fixture("ca-one.pem");
    assert!(head(&format!("ca_file = '{}'", authority.display())).unwrap().is_none());
    let wrong = head(&format!("fingerprint = '{}'", right.replace(['0', '1'], "2"))).unwrap_err();
    assert!(matches!(&wrong, RemoteError::Unavailable(why) if why.contains("certificate")), "{wrong:?}");
    let other = fixture("ca-two.pem");
    assert!(head(&format!("ca_file = '{}'", other.display())).is_err());
}

#[test]
fn the_server_checks_the_section_and_starts_without_the_remote() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("siltstone.toml");
    let section =
        "workers = 2\n[remote]\nendpoint = 'https://127.0.0.1:1'\nbucket = 'cold'\nsecret_key = 's'\n";
    let command = || {
        let mut command = on_a_free_port(dir.path());
        command.env("SILTSTONE_CONFIG", &config);
        command
    };
    fs::write(&config, section).unwrap();
    let refused = finish(&mut command());
    assert_eq!(refused.status.code(), Some(2));
    let said = stderr_of(&refused);
    assert!(said.contains("line 2") && said.contains("SILTSTONE_REMOTE_ACCESS_KEY"), "{said}");
    let mut allowed = command();
    allowed.env("SILTSTONE_REMOTE_ACCESS_KEY", "AK");
    let server = Running::start(allowed);
    assert!(server.get("/-/ready").contains("200"), "{}", server.said());
    assert!(server.said().contains("the remote is cold/"), "{}", server.said());
}
