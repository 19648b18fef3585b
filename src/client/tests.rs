//! Connections between requests.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use super::{Endpoint, HttpConnection, SignedRequest};

const TIME_MAX: Duration = Duration::from_secs(60);

/// Answers one request on a connection, which ends then without a word about it.
fn answer_one(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        received.push(byte[0]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").unwrap();
}

#[test]
fn a_connection_that_the_server_closed_while_it_was_idle_is_opened_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        answer_one(&listener);
        answer_one(&listener);
    });
    let endpoint = Endpoint::resolve(&url, None).unwrap();
    let head = "GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_owned();
    let request = SignedRequest { head, body: Cow::Borrowed(b""), head_only: false };
    let mut connection = HttpConnection::open(&endpoint).unwrap();
    assert!(connection.is_open());
    assert_eq!(connection.exchange(&request).unwrap().text(), "done");
    let give_up = Instant::now() + TIME_MAX;
    while connection.is_open() {
        assert!(Instant::now() < give_up, "the end of the connection is not noticed");
        thread::yield_now();
    }
    assert_eq!(connection.exchange(&request).unwrap().text(), "done");
    server.join().unwrap();
}
