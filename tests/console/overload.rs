//! The console of an overloaded server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use siltstone::base::SystemClock;
use siltstone::http::{Config, Server};

use super::harness::Site;
use crate::support::client::Client;

fn client(address: SocketAddr, cookie: &str, line: &str, body: &[u8]) -> Client {
    let mut client = Client::connect(address);
    let length = body.len();
    client.send(format!(
        "{line} HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\nContent-Length: {length}\r\n\r\n"
    ));
    client.send(body);
    client
}

#[test]
fn pages_are_shown_while_all_other_workers_wait_for_commits_and_bodies() {
    let site = Site::new();
    let owner = site.signed_in("owner");
    let cookie = owner.cookie.unwrap();
    let listen = ([127, 0, 0, 1], 0).into();
    let config = Config { workers: 3, reserve_workers: 2, ..Config::new(listen) };
    let server = Server::bind(config, Arc::new(SystemClock), site.console.clone()).unwrap();
    let address = server.local_addr();
    let handle = server.handle();
    let running = thread::spawn(move || server.run().unwrap());

    let gate = site.server.fs.hold_syncs("");
    let put = |n: usize| format!("PUT /-/console/s3?bucket=b&key={n}");
    let mut commits: Vec<_> = (0..8).map(|n| client(address, &cookie, &put(n), b"x")).collect();
    assert!(gate.wait_until_held(1));
    let mut upload = Client::connect(address);
    upload.send(format!(
        "{} HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 1000000\r\n\r\n",
        put(9)
    ));
    let mut other = Client::connect(address);
    other.get("/-/health").assert_silent();

    for page in ["", "bucket?name=b", "state", "connect", "settings?name=b"] {
        let answer = client(address, &cookie, &format!("GET /-/console/{page}"), b"").answer();
        assert!(answer.status == 200, "{page}: {} {}", answer.status, answer.text());
    }
    assert_eq!(Client::connect(address).ask("/-/console/").status, 401, "the form to sign in");
    assert!(!other.has_news(), "all other workers still wait");

    drop(gate);
    for commit in &mut commits {
        assert_eq!(commit.answer().status, 200);
    }
    assert_eq!(upload.send(vec![b'x'; 1_000_000]).answer().status, 200);
    assert_eq!(other.answer().text(), "alive\n");
    handle.shutdown();
    running.join().unwrap();
}
