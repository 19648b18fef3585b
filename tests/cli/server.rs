//! The command `server`, in MinIO's form, and the command `health`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;
use siltstone::client::Fetch;
use tempfile::TempDir;

use super::console::{ask, console_of};
use crate::support::client::{LONG, eventually};
use crate::support::process::{Running, finish, on_a_free_port, siltstone, stderr_of};

/// `siltstone server` with these arguments, on a free port of this host.
fn server(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = siltstone(dir);
    command.arg("server").args(arguments).args(["--address", "127.0.0.1:0"]);
    command
}

fn health(dir: &Path, url: &str) -> Output {
    finish(siltstone(dir).args(["health", "--url", url]))
}

/// All paths below a directory.
fn paths_below(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        found.push(path.display().to_string());
        if path.is_dir() {
            found.extend(paths_below(&path));
        }
    }
    found.sort();
    found
}

#[test]
fn no_store_is_made_in_a_foreign_directory_or_where_one_was_expected() {
    let dir = TempDir::new().unwrap();
    fs::create_dir_all(dir.path().join("volume/.minio.sys/config")).unwrap();
    fs::create_dir_all(dir.path().join("volume/data/cat.jpg")).unwrap();
    fs::write(dir.path().join("volume/data/cat.jpg/xl.meta"), "XL2 ").unwrap();
    fs::create_dir(dir.path().join("mount")).unwrap();
    let before = paths_below(dir.path());
    for (arguments, named) in [
        (&["volume"][..], "`.minio.sys` is of MinIO"),
        (&["mount", "--create", "never"], "the disk may not be mounted"),
        (&["missing", "--create", "never"], "there is no store in it"),
    ] {
        let output = finish(&mut server(dir.path(), arguments));
        assert_eq!(output.status.code(), Some(1), "{}", stderr_of(&output));
        assert!(stderr_of(&output).contains(named), "{}", stderr_of(&output));
        assert_eq!(paths_below(dir.path()), before);
    }
    // An empty directory is a first start, and then a store.
    assert_eq!(Running::start(server(dir.path(), &["mount"])).end(Signal::TERM).0, Some(0));
    let again = Running::start(server(dir.path(), &["mount", "--create", "never"]));
    assert_eq!(again.end(Signal::TERM).0, Some(0));
}

#[test]
fn the_form_of_minio_serves_its_directory_and_the_console_at_its_address() {
    for program in [&[][..], &["minio"]] {
        let dir = TempDir::new().unwrap();
        let mut command = siltstone(dir.path());
        command.args(program).args(["server", "data", "--console-address", ":0", "--quiet"]);
        command.env("MINIO_ADDRESS", "127.0.0.1:0");
        let running = Running::start(command);
        assert!(running.get("/-/ready").contains(" 200 ") && dir.path().join("data/meta").is_dir());
        let port = console_of(&running).rsplit_once(':').unwrap().1.to_owned();
        assert!(ask(&format!("127.0.0.1:{port}"), "/-/console/").contains("<title>Sign in"));
        assert_eq!(running.end(Signal::TERM).0, Some(0));
    }
}

/// The answer of a server to a page of another origin that reads an object, in lower case.
fn from_a_page(command: Command) -> String {
    let running = Running::start(command);
    let mut stream = TcpStream::connect(running.address()).unwrap();
    let headers = format!("Host: {}\r\nOrigin: https://app.example\r\nConnection: close", running.address());
    write!(stream, "GET /bucket/key HTTP/1.1\r\n{headers}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.to_ascii_lowercase()
}

#[test]
fn the_defaults_of_minio_hold_for_its_form_alone() {
    let dir = TempDir::new().unwrap();
    let own = from_a_page(server(dir.path(), &["data", "--bucket", "bucket"]));
    assert!(own.contains("x-amz-request-id") && !own.contains("x-svc-"), "{own}");
    assert!(own.contains("\r\naccess-control-allow-origin: "), "{own}");
    let mut served = on_a_free_port(dir.path());
    served.args(["--bucket", "bucket"]);
    let served = from_a_page(served);
    assert!(!served.contains("x-amz-request-id") && !served.contains("access-control-"), "{served}");
    let told = finish(siltstone(dir.path()).args(["server", "--help"]));
    let told = String::from_utf8(told.stdout).unwrap();
    for default in [
        "[default: [::]:9000]",
        "[default: aws]",
        "[default: us-east-1,*]",
        "[default: *]",
        "[default: ObjectWriter]",
    ] {
        assert!(told.contains(default), "{default} is missing in {told}");
    }
}

#[test]
fn a_listener_on_all_addresses_knows_its_clients_by_their_ipv4_addresses() {
    let dir = TempDir::new().unwrap();
    let mut command = siltstone(dir.path());
    command.args(["server", "data", "--address", ":0"]);
    let running = Running::start(command);
    let port = running.address().rsplit_once(':').unwrap().1;
    let asked = health(dir.path(), &format!("http://127.0.0.1:{port}"));
    assert_eq!(asked.status.code(), Some(0), "{}", stderr_of(&asked));
    ask(&format!("127.0.0.1:{port}"), "/bucket/key");
    running.wait_until("the line of the request", |running| running.said().contains(" 127.0.0.1:"));
}

#[test]
fn several_directories_are_refused_with_the_reason() {
    let dir = TempDir::new().unwrap();
    for directories in
        [&["one", "two"][..], &["data{1...4}"], &["http://host{1...4}/data"], &["https://host/data"]]
    {
        let refused = finish(&mut server(dir.path(), directories));
        let said = stderr_of(&refused);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("one directory") && said.contains(directories[0]), "{said}");
    }
    let named = |variable: &str| {
        let output = finish(siltstone(dir.path()).args(["server"]).env("MINIO_VOLUMES", variable));
        (output.status.code(), stderr_of(&output).contains("one directory"))
    };
    assert_eq!(named("one two"), (Some(2), true));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn what_the_command_line_says_twice_is_refused_and_variables_give_way() {
    let dir = TempDir::new().unwrap();
    for twice in [
        &["server", "one", "--data-dir", "two"][..],
        &["server", "--address", ":0", "--listen", "127.0.0.1:0"],
    ] {
        let refused = finish(siltstone(dir.path()).args(twice));
        let said = stderr_of(&refused);
        assert!(refused.status.code() == Some(2) && said.contains("write one of them"), "{said}");
    }
    let made = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = server(dir.path(), arguments);
        command.envs(variables.iter().copied());
        assert_eq!(Running::start(command).end(Signal::TERM).0, Some(0));
        let made =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
        fs::remove_dir_all(made.as_ref().unwrap()).unwrap();
        made.unwrap().file_name().unwrap().to_str().unwrap().to_owned()
    };
    let own = ("SILTSTONE_DATA_DIR", "own-variable");
    let minio = ("MINIO_VOLUMES", "minio-variable");
    assert_eq!(made(&["argument"], &[own, minio]), "argument");
    assert_eq!(made(&[], &[own, minio]), "own-variable");
    assert_eq!(made(&[], &[minio]), "minio-variable");
    assert_eq!(made(&["--data-dir", "flag"], &[minio]), "flag");
    fs::write(dir.path().join("c.toml"), "data_dir = 'file'\nlisten = '127.0.0.1:0'\n").unwrap();
    assert_eq!(made(&["--config", "c.toml"], &[]), "file");
    assert_eq!(made(&["argument", "--config", "c.toml"], &[]), "argument");
}

#[test]
fn health_exits_with_0_while_a_put_would_succeed() {
    let dir = TempDir::new().unwrap();
    for engine in ["direct", "tiny_http"] {
        let running = Running::start(server(dir.path(), &["data", "--http-engine", engine]));
        let url = format!("http://{}", running.address());
        let ready = health(dir.path(), &url);
        assert_eq!((ready.status.code(), ready.stdout.as_slice()), (Some(0), b"ready\n".as_slice()));
        let live = health(dir.path(), &format!("{url}/minio/health/live"));
        assert_eq!((live.status.code(), live.stdout.as_slice()), (Some(0), b"alive\n".as_slice()));
        let absent = health(dir.path(), &format!("{url}/-/absent"));
        assert_eq!(absent.status.code(), Some(1));
        assert!(stderr_of(&absent).contains("status 404"), "{}", stderr_of(&absent));
        let mut own = siltstone(dir.path());
        let asked = finish(own.arg("health").env("SILTSTONE_LISTEN", running.address()));
        assert_eq!(asked.status.code(), Some(0), "{}", stderr_of(&asked));
        let mut minio = siltstone(dir.path());
        let asked = finish(minio.arg("health").env("MINIO_ADDRESS", running.address()));
        assert_eq!(asked.status.code(), Some(0), "{}", stderr_of(&asked));
        let address = running.address().to_owned();
        running.end(Signal::TERM);
        let gone = health(dir.path(), &format!("http://{address}"));
        let said = stderr_of(&gone);
        assert!(
            gone.status.code() == Some(1) && said.contains("does not answer") && said.lines().count() == 1,
            "{said}"
        );
    }
}

#[test]
fn health_speaks_https_to_this_host() {
    let dir = TempDir::new().unwrap();
    let pem = |name: &str| format!("{}/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let certificate = pem("one.pem");
    let key = pem("one.key");
    let tls = [("SILTSTONE_TLS_CERT", &certificate), ("SILTSTONE_TLS_KEY", &key)];
    let mut command = server(dir.path(), &["data"]);
    command.envs(tls);
    let running = Running::start_tls(command);
    let ask = |arguments: &[&str]| {
        let mut command = siltstone(dir.path());
        command.arg("health").args(arguments).env("SILTSTONE_LISTEN", running.address());
        command
    };
    let asked = finish(ask(&[]).envs(tls));
    assert_eq!(asked.status.code(), Some(0), "{}", stderr_of(&asked));
    let asked = finish(&mut ask(&["--url", &format!("https://{}", running.address())]));
    assert_eq!(asked.status.code(), Some(0), "{}", stderr_of(&asked));
    assert_eq!(finish(&mut ask(&[])).status.code(), Some(1));
    let beyond = finish(&mut ask(&["--url", "https://192.0.2.1:9000"]));
    assert!(beyond.status.code() == Some(1) && stderr_of(&beyond).contains("this host alone"));
}

#[test]
fn the_metrics_tell_when_the_certificate_expires_also_after_a_reload() {
    let dir = TempDir::new().unwrap();
    let fixture = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name);
    let certificate = dir.path().join("certificate.pem");
    fs::copy(fixture("one.pem"), &certificate).unwrap();
    let mut command = server(dir.path(), &["data"]);
    command.env("SILTSTONE_TLS_CERT", &certificate).env("SILTSTONE_TLS_KEY", fixture("one.key"));
    let running = Running::start_tls(command);
    let url = format!("https://localhost:{}/-/metrics", running.address().rsplit_once(':').unwrap().1);
    let expiry = || {
        let authorities = fixture("ca-one.pem");
        let url = &*url;
        let authorities = Some(&*authorities);
        let body_max_bytes = 1 << 20;
        let fetch = Fetch { url, authorities, time_max: LONG, body_max_bytes, lines: "", form: None };
        let page = fetch.run().unwrap().text();
        let name = "siltstone_tls_certificate_expiry_timestamp_seconds ";
        page.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned))
    };
    assert_eq!(expiry().as_deref(), Some("4948906349"));
    let both = ["one.pem", "early.pem"].map(|name| fs::read(fixture(name)).unwrap()).concat();
    fs::write(&certificate, both).unwrap();
    running.signal(Signal::HUP);
    eventually("the certificate is read again", || expiry().as_deref() == Some("1925068801"));
}
