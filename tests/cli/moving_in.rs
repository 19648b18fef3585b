//! What people find who bring a compose file of MinIO: the names of its programs, directories that
//! are buckets, the console at the root, monitors.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;
use tempfile::TempDir;

use super::console::console_of;
use super::environment::{KEYS, buckets};
use crate::support::process::{Running, finish, on_a_free_port, siltstone, stderr_of};

/// The program, called by another name.
fn called(name: &str, dir: &Path, arguments: &[&str]) -> Output {
    let mut command = siltstone(dir);
    command.arg0(format!("/bin/{name}")).args(arguments).env("HOME", dir);
    finish(&mut command)
}

fn server(dir: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = siltstone(dir);
    command.args(["server", "data", "--address", "127.0.0.1:0"]);
    command.envs(KEYS).envs(variables.iter().copied());
    command
}

/// The head of the answer to a request without a body.
fn head_of(address: &str, request: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_programs_of_health_checks_answer_for_the_server() {
    let dir = TempDir::new().unwrap();
    let running = Running::start(on_a_free_port(dir.path()));
    let url = format!("http://{}", running.address());
    let live = format!("{url}/minio/health/live");
    for (name, arguments, said) in [
        ("curl", &["-f", &live][..], "alive\n"),
        ("curl", &["-fsS", "-o", "/dev/null", &live], ""),
        ("curl", &["-sfk", "--retry", "2", &format!("{url}/health")], "ready\n"),
        ("wget", &["-q", "--spider", &live], ""),
        ("wget", &["-qO-", &live], "alive\n"),
        ("mc", &["ready", &url], "ready\n"),
        ("mc", &["alias", "set", "mine", &url, "access", "secret"], "ready\n"),
        ("mc", &["--quiet", "ready", "mine"], "ready\n"),
        ("mc", &["ready", "--cluster-read", "mine"], "readable\n"),
    ] {
        let output = called(name, dir.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{name} {arguments:?}: {}", stderr_of(&output));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), said, "{name} {arguments:?}");
    }
    let shown = String::from_utf8(called("curl", dir.path(), &["-I", &live]).stdout).unwrap();
    assert!(shown.starts_with("HTTP/1.1 200 OK\r\n"), "{shown}");
    let kept = fs::read_to_string(dir.path().join(".mc/config.json")).unwrap();
    assert!(kept.contains(&url) && !kept.contains("secret"), "{kept}");
    let unfit = called("mc", dir.path(), &["ready", "--maintenance", "mine"]);
    assert_eq!(unfit.status.code(), Some(1));
    assert!(stderr_of(&unfit).starts_with("mc: not ready, status 412"), "{}", stderr_of(&unfit));
    running.end(Signal::TERM);
    assert_eq!(called("curl", dir.path(), &["-f", &live]).status.code(), Some(7));
    assert_eq!(called("mc", dir.path(), &["ready", "mine"]).status.code(), Some(1));
    let other = called("curl", dir.path(), &["http://127.0.0.1:1/bucket/key"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(stderr_of(&other).contains("This curl is Siltstone"), "{}", stderr_of(&other));
}

#[test]
fn empty_directories_are_buckets_to_make_until_there_is_a_store() {
    let dir = TempDir::new().unwrap();
    for name in ["photos", "logs.2026", "Not-A-Bucket"] {
        fs::create_dir_all(dir.path().join("data").join(name)).unwrap();
    }
    let refused = finish(&mut server(dir.path(), &[]));
    assert!(stderr_of(&refused).contains("there is `Not-A-Bucket`"), "{}", stderr_of(&refused));
    fs::remove_dir(dir.path().join("data/Not-A-Bucket")).unwrap();
    let running = Running::start(server(dir.path(), &[("SILTSTONE_BUCKETS", "photos:versioned,more")]));
    assert_eq!(buckets(&running), ["logs.2026", "more", "photos"]);
    let (_, said) = running.end(Signal::TERM);
    assert!(said.contains("the empty directory photos is a bucket to make"), "{said}");
    fs::create_dir(dir.path().join("data/later")).unwrap();
    let running = Running::start(server(dir.path(), &[]));
    assert_eq!(buckets(&running), ["logs.2026", "more", "photos"]);
    drop(running);
    // The form of `serve` is Siltstone's own: what it does not know, it refuses.
    let other = TempDir::new().unwrap();
    fs::create_dir_all(other.path().join("siltstone-data/photos")).unwrap();
    assert_eq!(finish(&mut on_a_free_port(other.path())).status.code(), Some(1));
}

const BROWSER: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

#[test]
fn a_browser_at_the_root_is_led_to_the_console_where_it_may_see_it() {
    let dir = TempDir::new().unwrap();
    let location = |variables: &[(&str, &str)], more: &str| {
        let running = Running::start(server(dir.path(), variables));
        let answer = head_of(running.address(), "GET /", &format!("{BROWSER}{more}"));
        let is_led = answer.starts_with("HTTP/1.1 303 ");
        let place = answer.lines().find_map(|line| line.strip_prefix("Location: ")).map(str::to_owned);
        assert_eq!(place.is_some(), is_led, "{answer}");
        (place, running.address().to_owned())
    };
    assert_eq!(location(&[], "").0.as_deref(), Some("/-/console/"));
    let known = [("MINIO_BROWSER_REDIRECT_URL", "https://console.example/")];
    assert_eq!(location(&known, "").0.as_deref(), Some("https://console.example"));
    assert_eq!(location(&[("MINIO_BROWSER", "off")], "").0, None);
    assert_eq!(location(&[], "Via: 1.1 proxy\r\n").0, None, "over plain HTTP from elsewhere");
    let open = [("SILTSTONE_CONSOLE_INSECURE", "true")];
    assert!(location(&open, "Via: 1.1 proxy\r\n").0.is_some());
    assert_eq!(location(&[], "Authorization: AWS4-HMAC-SHA256 x\r\n").0, None);
}

#[test]
fn a_browser_at_the_root_is_told_why_the_console_is_not_shown() {
    for engine in ["direct", "tiny_http"] {
        let dir = TempDir::new().unwrap();
        let running = Running::start(server(dir.path(), &[("SILTSTONE_HTTP_ENGINE", engine)]));
        let (_, port) = running.address().rsplit_once(':').unwrap();
        let from_elsewhere = "Via: 1.1 proxy\r\n";
        let answer = head_of(running.address(), "GET /", &format!("{BROWSER}{from_elsewhere}"));
        let (head, page) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 403 "), "{engine}: {head}");
        for line in [
            "Content-Type: text/html; charset=utf-8",
            "Vary: Accept, Authorization",
            "Cache-Control: no-store",
            "Content-Security-Policy: default-src 'none'",
        ] {
            assert!(head.contains(line), "{engine}: {line} in {head}");
        }
        let tunnel = format!("ssh -L {port}:127.0.0.1:{port} HOST");
        for told in ["S3", "--tls-cert", "--console-insecure true", "SILTSTONE_CONSOLE_INSECURE", &*tunnel] {
            assert!(page.contains(told), "{engine}: {told} in {page}");
        }
        assert!(!page.contains(env!("CARGO_PKG_VERSION")) && !page.contains(KEYS[1].1), "{page}");
        // Clients of S3, and browsers elsewhere, are answered as ever.
        for (request, headers) in [
            ("GET /", String::new()),
            ("GET /", "Accept: */*\r\n".to_owned()),
            ("GET /", format!("{BROWSER}Authorization: AWS4-HMAC-SHA256 x\r\n")),
            ("GET /?x-id=ListBuckets", BROWSER.to_owned()),
            ("GET /bucket", BROWSER.to_owned()),
        ] {
            let answer = head_of(running.address(), request, &format!("{headers}{from_elsewhere}"));
            assert!(answer.contains("<Error><Code>"), "{engine}: {request} {headers}: {answer}");
        }
    }
}

#[test]
fn a_browser_is_told_the_port_of_a_console_that_is_not_shown() {
    let dir = TempDir::new().unwrap();
    let running = Running::start(server(dir.path(), &[("MINIO_CONSOLE_ADDRESS", "127.0.0.1:0")]));
    let console = console_of(&running);
    let (_, port) = console.rsplit_once(':').unwrap();
    let answer = head_of(running.address(), "GET /", &format!("{BROWSER}Via: 1.1 proxy\r\n"));
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains(&format!("ssh -L {port}:127.0.0.1:{port} HOST")), "{answer}");
}

#[test]
fn a_browser_is_led_to_a_console_with_an_address_of_its_own() {
    let dir = TempDir::new().unwrap();
    let running = Running::start(server(dir.path(), &[("MINIO_CONSOLE_ADDRESS", "127.0.0.1:0")]));
    let console = console_of(&running);
    let answer = head_of(running.address(), "GET /", BROWSER);
    assert!(answer.contains(&format!("Location: http://{console}/-/console/\r\n")), "{answer}");
    let listing = head_of(running.address(), "GET /", "Accept: */*\r\n");
    assert!(listing.starts_with("HTTP/1.1 403 "), "{listing}");
}

#[test]
fn an_unsigned_head_of_the_root_says_that_a_server_is_there_and_nothing_else() {
    let dir = TempDir::new().unwrap();
    let running = Running::start(server(dir.path(), &[]));
    let answer = head_of(running.address(), "HEAD /", "");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(!answer.contains("xml"), "{answer}");
    let wrong = "Authorization: AWS4-HMAC-SHA256 Credential=x\r\n";
    assert!(!head_of(running.address(), "HEAD /", wrong).starts_with("HTTP/1.1 200 "));
    assert!(!head_of(running.address(), "HEAD /?acl", "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn health_checks_that_succeed_are_not_logged() {
    let dir = TempDir::new().unwrap();
    let running = Running::start(server(dir.path(), &[]));
    for path in ["/-/health", "/-/ready", "/minio/health/live", "/minio/health/cluster"] {
        assert!(running.get(path).contains(" 200 "), "{path}");
    }
    assert!(running.get("/minio/health/cluster?maintenance=true").contains(" 412 "));
    assert!(running.get("/bucket/key").contains(" 403 "));
    let (_, said) = running.end(Signal::TERM);
    let lines: Vec<_> = said.lines().filter(|line| line.contains(" access: ")).collect();
    assert!(lines.iter().any(|line| line.contains("/bucket/key")), "{said}");
    assert!(lines.iter().any(|line| line.contains(" 412 ")), "{said}");
    assert_eq!(lines.len(), 2, "{said}");
}
