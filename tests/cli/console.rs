//! The console of a server process, at an address of its own.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::client::eventually;
use crate::support::process::{Running, finish, on_a_free_port, siltstone, stderr_of};

/// The address of the console, as the log tells it.
pub(super) fn console_of(running: &Running) -> String {
    let place = place_of_console(running);
    place.split(' ').next().unwrap().trim_end_matches("/-/console/").to_owned()
}

/// What the log says of the place of the console, without the scheme.
fn place_of_console(running: &Running) -> String {
    running.wait_until("the address of the console", |running| running.said().contains("the console is at "));
    let said = running.said();
    let place = said.split_once("the console is at http").unwrap().1.lines().next().unwrap();
    place.trim_start_matches('s').trim_start_matches("://").to_owned()
}

/// The answer to an unsigned GET.
pub(super) fn ask(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_console_with_an_address_of_its_own_is_there_alone_with_each_engine() {
    for engine in ["direct", "tiny_http"] {
        let dir = TempDir::new().unwrap();
        let mut command = on_a_free_port(dir.path());
        command.args(["--http-engine", engine, "--console-listen", "127.0.0.1:0"]);
        let running = Running::start(command);
        let console = console_of(&running);
        assert_ne!(console, running.address());
        let page = ask(&console, "/-/console/");
        assert!(page.starts_with("HTTP/1.1 401") && page.contains("<title>Sign in"), "{engine}: {page}");
        assert!(ask(&console, "/-/health").starts_with("HTTP/1.1 404"), "{engine}");
        assert!(running.get("/-/console/").contains(" 404 "), "{engine}: not beside S3 requests");
        assert!(running.get("/-/health").contains(" 200 "), "{engine}");
        let (status, said) = running.end(Signal::TERM);
        assert_eq!(status, Some(0), "{said}");
        assert!(said.contains("the console answered 2 requests"), "{engine}: {said}");
        assert!(TcpStream::connect(&console).is_err(), "{engine}");
    }
}

#[test]
fn the_log_names_the_console_by_an_address_that_browsers_can_open() {
    let dir = TempDir::new().unwrap();
    let mut everywhere = on_a_free_port(dir.path());
    everywhere.args(["--console-listen", "[::]:0"]);
    let running = Running::start(everywhere);
    let said = place_of_console(&running);
    let (console, elsewhere) = said.split_once("/-/console/ on this host; of a container, ").unwrap();
    let port = console.strip_prefix("127.0.0.1:").unwrap();
    assert!(elsewhere.ends_with(&format!("published for {port}")), "{said}");
    assert!(ask(console, "/-/console/").contains("<title>Sign in"));
    assert_eq!(running.end(Signal::TERM).0, Some(0));
    let mut behind_a_proxy = on_a_free_port(dir.path());
    behind_a_proxy.args(["--console-listen", "[::]:0", "--console-url", "https://console.example.org/ui"]);
    let running = Running::start(behind_a_proxy);
    assert_eq!(console_of(&running), "console.example.org/ui");
}

#[test]
fn addresses_and_paths_at_which_there_can_be_no_console_are_refused() {
    let dir = TempDir::new().unwrap();
    for (arguments, why) in [
        (&["--console", "off", "--console-listen", "127.0.0.1:1"][..], "--console off"),
        (&["--listen", "127.0.0.1:1", "--console-listen", "127.0.0.1:1"], "--listen"),
        (&["--http-engine", "tiny_http", "--console-listen", "0.0.0.0:1"], "--console-listen 0.0.0.0:1"),
        (&["--console-path", "/ui/"], "hide a bucket"),
        (&["--console-path", "ui", "--console-listen", "127.0.0.1:0"], "--console-path"),
        (&["--console-path", "/a b/", "--console-listen", "127.0.0.1:0"], "letters, digits"),
        (&["--console-path", "/a/../b", "--console-listen", "127.0.0.1:0"], "letters, digits"),
        (&["server", "--console-address", "here"], "--console-address"),
        (&["server", "--console-address", ":1", "--console-listen", ":1"], "--console-listen"),
    ] {
        let refused = finish(siltstone(dir.path()).args(arguments));
        let said = stderr_of(&refused);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let refused = finish(on_a_free_port(dir.path()).args(["--console-listen", &taken]));
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr_of(&refused).contains(&format!("cannot listen on {taken}")), "{}", stderr_of(&refused));
    let mut off = siltstone(dir.path());
    off.args([
        "server",
        "data",
        "--address",
        "127.0.0.1:0",
        "--console",
        "off",
        "--console-address",
        ":9001",
    ]);
    let (status, said) = Running::start(off).end(Signal::TERM);
    assert!(status == Some(0) && said.contains("nothing listens there"), "{said}");
}

/// What comes back on the connection, after these bytes were sent.
fn exchange(stream: &mut TcpStream, sent: &str) -> String {
    stream.write_all(sent.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_upload_by_the_console_is_completed_before_the_store_is_closed() {
    let dir = TempDir::new().unwrap();
    let mut command = on_a_free_port(dir.path());
    command.args(["--console-listen", "127.0.0.1:0", "--bucket", "photos:public"]);
    command.env("SILTSTONE_ACCESS_KEY", "known").env("SILTSTONE_SECRET_KEY", "hidden-secret");
    let running = Running::start(command);
    let console = console_of(&running);
    let head = |line: &str, more: &str, length: usize| {
        format!(
            "{line} HTTP/1.1\r\nHost: {console}\r\nSec-Fetch-Site: same-origin\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n"
        )
    };
    let keys = "access_key=known&secret_key=hidden-secret";
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let sign_in = head("POST /-/console/sign-in", form, keys.len()) + keys;
    let signed_in = exchange(&mut TcpStream::connect(&console).unwrap(), &sign_in);
    let (_, cookie) = signed_in.split_once("Set-Cookie: ").unwrap_or_else(|| panic!("{signed_in}"));
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let length = 1 << 20;
    let mut upload = TcpStream::connect(&console).unwrap();
    let more = cookie + "Expect: 100-continue\r\n";
    upload.write_all(head("PUT /-/console/s3?bucket=photos&key=cat", &more, length).as_bytes()).unwrap();
    // A worker has it now. Before that the end of the server would close the connection.
    let mut goes_on = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    upload.read_exact(&mut goes_on).unwrap();
    assert!(goes_on.starts_with(b"HTTP/1.1 100"));
    upload.write_all(&vec![b'x'; length - 1]).unwrap();
    running.signal(Signal::TERM);
    running.wait_until("the end of S3 requests", |running| running.said().contains(": answered "));
    let answer = exchange(&mut upload, "x");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(upload);
    let (status, said) = running.end(Signal::TERM);
    assert_eq!(status, Some(0), "{said}");
    let again = Running::start(on_a_free_port(dir.path()));
    assert!(again.get("/photos/cat").contains(" 200 "));
}

#[test]
fn only_a_server_with_a_console_has_threads_for_it() {
    let dir = TempDir::new().unwrap();
    let start = |arguments: &[&str]| {
        let mut command = on_a_free_port(dir.path());
        command.args(["--workers", "3"]).args(arguments);
        Running::start(command)
    };
    let off = start(&["--console", "off"]);
    eventually("its workers run", || off.threads_named("http-") == 3);
    let without = off.threads();
    assert_eq!(off.end(Signal::TERM).0, Some(0));
    for (arguments, more) in [(&[][..], 2), (&["--console-listen", "127.0.0.1:0"], 2 + 4 + 1)] {
        let running = start(arguments);
        eventually("the threads run", || running.threads() == without + more);
        assert_eq!(running.end(Signal::TERM).0, Some(0));
    }
}

#[test]
fn the_console_has_the_path_that_is_set() {
    let dir = TempDir::new().unwrap();
    let mut command = on_a_free_port(dir.path());
    command.args(["--console-listen", "127.0.0.1:0", "--console-path", "/box/ui"]);
    let running = Running::start(command);
    running.wait_until("the address", |running| running.said().contains("/box/ui/"));
    let said = running.said();
    let console = said.split_once("the console is at http://").unwrap().1.split('/').next().unwrap();
    assert!(ask(console, "/box/ui/").contains("<title>Sign in"));
    assert!(ask(console, "/-/console/").starts_with("HTTP/1.1 404"));
    let mut beside = on_a_free_port(dir.path());
    beside.args(["--data-dir", "other", "--console-path", "/-/console/box/"]);
    let beside = Running::start(beside);
    assert!(beside.get("/-/console/box/").contains(" 401 ") && beside.get("/-/console/").contains(" 404 "));
    assert!(beside.get("/-/health").contains(" 200 "));
}
