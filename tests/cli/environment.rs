//! Buckets and keys from the environment, also by the names of other servers.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use siltstone::base::{Clock as _, SystemClock};
use tempfile::TempDir;

use crate::support::process::{Running, finish, on_a_free_port, siltstone, stderr_of};
use crate::support::signer::{HeaderLines, Signer};

pub(super) const KEYS: [(&str, &str); 2] = [("MINIO_ROOT_USER", "root"), ("MINIO_ROOT_PASSWORD", SECRET)];
const SECRET: &str = "a secret of the environment";

/// A server with the administrator `root`, and further variables.
fn with_variables(dir: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = on_a_free_port(dir);
    command.envs(KEYS).envs(variables.iter().copied());
    command
}

/// The answer to a GET that `access_key` has presigned.
fn signed(running: &Running, keys: (&str, &str), target: &str) -> String {
    signed_for("us-east-1", running, keys, target)
}

fn signed_for(region: &'static str, running: &Running, keys: (&str, &str), target: &str) -> String {
    running.answer(&presigned("GET", region, running, keys, target))
}

/// The target of a presigned request.
fn presigned(
    method: &str,
    region: &'static str,
    running: &Running,
    (access_key, secret_key): (&str, &str),
    target: &str,
) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let signer = Signer {
        access_key: access_key.to_owned(),
        secret_key: secret_key.to_owned(),
        region,
        service: "s3",
        moment: SystemClock.now().to_iso_basic(),
    };
    let host = running.address().as_bytes();
    let lines = HeaderLines::of([("host".to_owned(), host)].into_iter());
    let query = signer.presigned_query(method, path, query, "X-Amz-", &[], &lines);
    format!("{path}?{query}")
}

/// Puts an object as the administrator.
fn put(running: &Running, target: &str, body: &str) {
    let target = presigned("PUT", "us-east-1", running, ("root", SECRET), target);
    let mut stream = TcpStream::connect(running.address()).unwrap();
    let host = running.address();
    let head = format!(
        "PUT {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nConnection: close",
        body.len()
    );
    write!(stream, "{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

fn by_root(running: &Running, target: &str) -> String {
    signed(running, ("root", SECRET), target)
}

/// The names of all buckets.
pub(super) fn buckets(running: &Running) -> Vec<String> {
    let answer = by_root(running, "/");
    let names = answer.split("<Name>").skip(1);
    names.map(|rest| rest.split("</Name>").next().unwrap().to_owned()).collect()
}

#[test]
fn buckets_are_made_if_they_are_missing_and_stay_as_they_are() {
    let dir = TempDir::new().unwrap();
    let start = |list: &str| Running::start(with_variables(dir.path(), &[("SILTSTONE_BUCKETS", list)]));
    let first = start("photos,logs:versioned,backup:versioned+locked");
    assert_eq!(buckets(&first), ["backup", "logs", "photos"]);
    assert!(by_root(&first, "/logs?versioning=").contains("<Status>Enabled</Status>"));
    assert!(!by_root(&first, "/photos?versioning=").contains("Status"));
    assert!(by_root(&first, "/").contains("<ID>admin</ID>"));
    let lock = by_root(&first, "/backup?object-lock=");
    assert!(lock.contains("<ObjectLockEnabled>Enabled</ObjectLockEnabled>"), "{lock}");
    assert!(by_root(&first, "/backup?versioning=").contains("<Status>Enabled</Status>"));
    assert!(by_root(&first, "/logs?object-lock=").contains("ObjectLockConfigurationNotFoundError"));
    // As after a crash: what is ready is durable.
    first.signal(Signal::KILL);
    drop(first);
    let second = start("logs,photos:versioned,,more");
    assert_eq!(buckets(&second), ["backup", "logs", "more", "photos"]);
    assert!(by_root(&second, "/logs?versioning=").contains("<Status>Enabled</Status>"));
    assert!(!by_root(&second, "/photos?versioning=").contains("Status"));
    let (_, said) = second.end(Signal::TERM);
    assert!(
        said.contains("photos exists and is not versioned") && said.contains("made the bucket more"),
        "{said}"
    );
    assert!(!said.contains("made the bucket logs"), "{said}");
}

#[test]
fn public_buckets_are_read_without_a_signature_and_listed_only_as_mc_does() {
    let dir = TempDir::new().unwrap();
    let variables = [
        ("SILTSTONE_BUCKETS", "private,site:public+versioned,both:public"),
        ("MINIO_DEFAULT_BUCKETS", "never read"),
    ];
    let status = |running: &Running, target: &str| running.get(target);
    let first = Running::start(with_variables(dir.path(), &variables));
    for (bucket, reads) in [("private", " 403 "), ("site", " 200 "), ("both", " 200 ")] {
        put(&first, &format!("/{bucket}/k"), "text");
        assert!(status(&first, &format!("/{bucket}/k")).contains(reads), "{bucket}");
        assert!(status(&first, &format!("/{bucket}?list-type=2")).contains(" 403 "), "{bucket}");
        assert!(status(&first, &format!("/{bucket}?versions=")).contains(" 403 "), "{bucket}");
    }
    assert!(!first.said().contains("MINIO_DEFAULT_BUCKETS"), "{}", first.said());
    let policy = by_root(&first, "/site?policy=");
    assert!(policy.contains("s3:GetObject") && !policy.contains("ListBucket"), "{policy}");
    assert!(by_root(&first, "/private?policy=").contains("NoSuchBucketPolicy"));
    drop(first);
    let variables = [("MINIO_DEFAULT_BUCKETS", "all:download other:upload;site:none")];
    let second = Running::start(with_variables(dir.path(), &variables));
    assert!(status(&second, "/all?list-type=2").contains(" 200 "));
    assert!(status(&second, "/all/absent").contains(" 404 "), "the policy allows listing");
    assert!(status(&second, "/other?list-type=2").contains(" 403 "));
    assert!(by_root(&second, "/other?policy=").contains("s3:PutObject"));
    assert!(by_root(&second, "/site?policy=").contains("s3:GetObject"), "it stays as it is");
    let (_, said) = second.end(Signal::TERM);
    assert!(
        said.contains("all:download lets everyone list and read")
            && said.contains("SILTSTONE_BUCKETS=all:public"),
        "{said}"
    );
}

#[test]
fn the_form_of_minio_accepts_signatures_for_any_region_and_ours_does_not() {
    let dir = TempDir::new().unwrap();
    let ask = |running: &Running, target: &str| signed_for("mars", running, ("root", SECRET), target);
    let mut command = siltstone(dir.path());
    command.args(["server", "siltstone-data", "--address", "127.0.0.1:0", "--bucket", "bucket"]).envs(KEYS);
    let running = Running::start(command);
    assert!(ask(&running, "/").contains("ListAllMyBucketsResult"));
    assert!(ask(&running, "/bucket?location=").contains(">us-east-1<"));
    drop(running);
    let running = Running::start(with_variables(dir.path(), &[]));
    let refused = ask(&running, "/bucket?location=");
    assert!(refused.contains("expecting 'eu'"), "{refused}");
    drop(running);
    let unnamed = finish(&mut with_variables(dir.path(), &[("SILTSTONE_REGION", "*")]));
    assert!(
        unnamed.status.code() == Some(2)
            && stderr_of(&unnamed).contains("first region is that of the server")
    );
}

#[test]
fn buckets_come_from_flags_from_the_file_and_from_an_empty_variable() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("c.toml"), "bucket = ['from-file', 'too:versioned']\n").unwrap();
    let mut command = with_variables(dir.path(), &[("SILTSTONE_BUCKETS", "")]);
    command.args(["--config", "c.toml"]);
    let running = Running::start(command);
    assert_eq!(buckets(&running), [""; 0], "an empty variable is a list without buckets");
    drop(running);
    let mut command = with_variables(dir.path(), &[]);
    command.args(["--config", "c.toml"]);
    assert_eq!(buckets(&Running::start(command)), ["from-file", "too"]);
    let mut command = with_variables(dir.path(), &[("SILTSTONE_BUCKETS", "variable")]);
    command.args(["--bucket", "one", "--bucket", "two,three"]);
    assert_eq!(buckets(&Running::start(command)), ["from-file", "one", "three", "too", "two"]);
}

#[test]
fn buckets_that_cannot_be_made_fail_the_start() {
    let dir = TempDir::new().unwrap();
    for (list, problem) in [
        ("Photos", "not a valid name of a bucket"),
        ("site:open", "`open` is none of versioned, locked and public"),
        ("logs,logs:versioned", "logs is there twice"),
    ] {
        let refused = finish(&mut with_variables(dir.path(), &[("SILTSTONE_BUCKETS", list)]));
        let said = stderr_of(&refused);
        assert!(refused.status.code() == Some(2) && said.contains(problem), "{list}: {said}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn keys_have_the_names_of_other_servers_too_and_those_are_told() {
    for (access, secret) in [
        ("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"),
        ("MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"),
        ("RUSTFS_ACCESS_KEY", "RUSTFS_SECRET_KEY"),
    ] {
        for form in ["", "_FILE"] {
            let dir = TempDir::new().unwrap();
            fs::write(dir.path().join("access"), "minioadmin\n").unwrap();
            fs::write(dir.path().join("secret"), "minioadmin\n").unwrap();
            let value = |file| if form.is_empty() { "minioadmin" } else { file };
            let mut command = siltstone(dir.path());
            command.args(["server", "data", "--address", "127.0.0.1:0"]);
            command
                .env(format!("{access}{form}"), value("access"))
                .env(format!("{secret}{form}"), value("secret"));
            let running = Running::start(command);
            let listed = signed(&running, ("minioadmin", "minioadmin"), "/");
            assert!(listed.contains("ListAllMyBucketsResult"), "{access}{form}: {listed}");
            let (_, said) = running.end(Signal::TERM);
            let told = format!(
                "{access} and {secret} are read in place of SILTSTONE_ACCESS_KEY and SILTSTONE_SECRET_KEY"
            );
            assert!(said.contains(&told) && said.contains("the secret key of `admin` is short"), "{said}");
            assert!(!said.contains("variables that are not used"), "{said}");
        }
    }
}

#[test]
fn our_names_win_over_those_of_other_servers() {
    let dir = TempDir::new().unwrap();
    let ours = [("SILTSTONE_ACCESS_KEY", "ours"), ("SILTSTONE_SECRET_KEY", "our secret of the environment")];
    let running = Running::start(with_variables(dir.path(), &ours));
    assert!(
        signed(&running, ("ours", "our secret of the environment"), "/").contains("ListAllMyBucketsResult")
    );
    assert!(by_root(&running, "/").contains("InvalidAccessKeyId"));
    assert!(!running.said().contains("MINIO_ROOT_USER and"), "{}", running.said());
}

#[test]
fn a_changed_secret_holds_from_the_next_start_on_and_the_old_one_no_longer() {
    let dir = TempDir::new().unwrap();
    let start = |keys: &[(&str, &str)]| {
        let mut command = on_a_free_port(dir.path());
        command.envs(keys.iter().copied());
        Running::start(command)
    };
    // The first start without keys writes others to the users file, which must not stay valid
    // either.
    drop(start(&[]));
    let users = fs::read_to_string(dir.path().join("siltstone-data/users.toml")).unwrap();
    let value = |name: &str| {
        let start = format!("{name} = \"");
        let line = users.lines().find_map(|line| line.strip_prefix(&start)?.strip_suffix('"'));
        line.unwrap().to_owned()
    };
    let generated = (value("access_key"), value("secret_key"));
    for secret in ["the first long secret", "the second long secret"] {
        let running = start(&[("MINIO_ROOT_USER", "root"), ("MINIO_ROOT_PASSWORD", secret)]);
        for (keys, outcome) in [
            (("root", "the first long secret"), "SignatureDoesNotMatch"),
            (("root", "the second long secret"), "SignatureDoesNotMatch"),
            ((generated.0.as_str(), generated.1.as_str()), "InvalidAccessKeyId"),
        ] {
            let expected = if keys.1 == secret { "ListAllMyBucketsResult" } else { outcome };
            let answer = signed(&running, keys, "/");
            assert!(answer.contains(expected), "{keys:?} with {secret}: {answer}");
        }
    }
}

#[test]
fn regions_domains_and_default_buckets_have_the_names_of_minio_too() {
    let dir = TempDir::new().unwrap();
    let minio = [
        ("MINIO_REGION", "mars-1"),
        ("MINIO_DOMAIN", "s3.example,other.example"),
        ("MINIO_DEFAULT_BUCKETS", "one; two:none,three:private four"),
        ("MINIO_API_CORS_ALLOW_ORIGIN", "https://app.example,https://other.example"),
        ("MINIO_BROWSER", "off"),
        ("MINIO_SERVER_URL", "https://s3.example/"),
        ("MINIO_PROMETHEUS_AUTH_TYPE", "public"),
        ("MINIO_UPDATE", "off"),
        ("RUSTFS_CONSOLE_ENABLE", "true"),
    ];
    let running = Running::start(with_variables(dir.path(), &minio));
    assert_eq!(buckets(&running), ["four", "one", "three", "two"]);
    assert!(by_root(&running, "/one?location=").contains(">mars-1<"));
    let (_, said) = running.end(Signal::TERM);
    for told in [
        "MINIO_REGION is read in place of --region",
        "MINIO_DOMAIN is read in place of --domain",
        "only the first domain is used, not other.example",
        "MINIO_DEFAULT_BUCKETS is read in place of --bucket",
        "MINIO_API_CORS_ALLOW_ORIGIN is read in place of --cors-allow-origin",
        "MINIO_BROWSER is read in place of --console",
        "MINIO_SERVER_URL is read in place of --public-url",
        "MINIO_PROMETHEUS_AUTH_TYPE is read in place of --metrics",
        "variables that are not used: MINIO_UPDATE, RUSTFS_CONSOLE_ENABLE",
    ] {
        assert!(said.contains(told), "{told:?} is missing in {said}");
    }
    let running = Running::start(with_variables(dir.path(), &[minio[0], ("SILTSTONE_REGION", "us-east-1")]));
    assert!(by_root(&running, "/one?location=").contains(">us-east-1<"));
    assert!(!running.said().contains("MINIO_REGION"), "{}", running.said());
    drop(running);
    let wrong = finish(&mut with_variables(dir.path(), &[("MINIO_DEFAULT_BUCKETS", "one:open")]));
    let said = stderr_of(&wrong);
    assert!(
        wrong.status.code() == Some(2) && said.contains("MINIO_DEFAULT_BUCKETS: `open` is none of"),
        "{said}"
    );
}
