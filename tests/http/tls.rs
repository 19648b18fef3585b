//! Encrypted connections.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use siltstone::base::limits;
use siltstone::http::{Config, Tls};
use siltstone::s3::{BodySource, Request, Response, ResponseBody};

use crate::http::harness::{Running, read_all, settings, start_with, text};
use crate::http::reserve::{held, with_reserve};
use crate::support::client::LONG;

const ONE: (&[u8], &[u8]) =
    (include_bytes!("../fixtures/tls/one.pem"), include_bytes!("../fixtures/tls/one.key"));
const TWO: (&[u8], &[u8]) =
    (include_bytes!("../fixtures/tls/two.pem"), include_bytes!("../fixtures/tls/two.key"));
const CA_ONE: &[u8] = include_bytes!("../fixtures/tls/ca-one.pem");
const CA_TWO: &[u8] = include_bytes!("../fixtures/tls/ca-two.pem");

type Client = StreamOwned<ClientConnection, TcpStream>;

fn identity() -> Arc<Tls> {
    Arc::new(Tls::new(ONE.0, ONE.1).unwrap())
}

fn encrypted(
    mut config: Config,
    answer: impl Fn(Request<'_>) -> Response + Send + Sync + 'static,
) -> Running {
    config.tls = Some(identity());
    start_with(config, answer)
}

/// Answers with the length of the body, or with the error of reading it.
fn measured(mut request: Request<'_>) -> Response {
    assert!(request.secure);
    match read_all(&mut request) {
        Ok(body) => text(200, &body.len().to_string()),
        Err(error) => text(error.status(), error.code.as_str()),
    }
}

fn client_with(server: &Running, ca: &[u8], version: &'static SupportedProtocolVersion) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca).unwrap()).unwrap();
    let config = ClientConfig::builder_with_protocol_versions(&[version])
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let socket = TcpStream::connect(server.address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), socket)
}

fn client(server: &Running) -> Client {
    client_with(server, CA_ONE, &TLS13)
}

/// The bodies of the next `count` responses, which must be 200 and have a length.
fn bodies(client: &mut Client, count: usize) -> Vec<String> {
    let mut received = Vec::new();
    let mut found = Vec::new();
    loop {
        while let Some(end) = received.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8(received[..end].to_vec()).unwrap();
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
            let whole = end + 4 + length.parse::<usize>().unwrap();
            if received.len() < whole {
                break;
            }
            found.push(String::from_utf8(received[end + 4..whole].to_vec()).unwrap());
            received.drain(..whole);
        }
        if found.len() >= count {
            assert!(received.is_empty() && found.len() == count);
            return found;
        }
        let mut piece = [0; 16 * 1024];
        let more = client.read(&mut piece).unwrap();
        assert!(more > 0, "the connection ends after {found:?}");
        received.extend_from_slice(&piece[..more]);
    }
}

fn ask(client: &mut Client, path: &str) -> String {
    client.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    bodies(client, 1).remove(0)
}

#[test]
fn the_reserve_of_workers_does_the_handshake_where_all_others_are_held() {
    let held = held(Config { tls: Some(identity()), ..with_reserve() }, |server| {
        let mut client = client(server);
        client.write_all(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        client
    });
    for version in [&TLS12, &TLS13] {
        assert_eq!(ask(&mut client_with(&held.server, CA_ONE, version), "/look"), "0");
    }
}

#[test]
fn both_versions_are_spoken_and_connections_are_kept() {
    let server = encrypted(settings(), |request| text(200, &request.path));
    for version in [&TLS12, &TLS13] {
        let mut client = client_with(&server, CA_ONE, version);
        for path in ["/1", "/2", "/3"] {
            assert_eq!(ask(&mut client, path), path);
            // Longer than a worker lingers, so that the connection is parked in between.
            std::thread::sleep(Duration::from_millis(limits::LINGER_DEFAULT_MILLIS * 3));
        }
        assert_eq!(client.conn.protocol_version(), Some(version.version));
    }
}

#[test]
fn what_was_decrypted_with_a_request_and_not_read_is_the_next_request() {
    // A worker takes less at a time than one record holds.
    let config = Config { workers: 1, head_max_bytes: 2048, ..settings() };
    let server = encrypted(config, |request| text(200, &request.path));
    let mut others: Vec<_> = (0..4).map(|_| client(&server)).collect();
    let mut client = client(&server);
    for round in 0..20 {
        // All in one record, with others in the queue, so that the connection is parked with
        // received requests.
        let requests: String =
            (0..300).map(|n| format!("GET /{round}/{n} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
        client.write_all(requests.as_bytes()).unwrap();
        for other in &mut others {
            other.write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        }
        let expected: Vec<_> = (0..300).map(|n| format!("/{round}/{n}")).collect();
        assert_eq!(bodies(&mut client, 300), expected);
        for other in &mut others {
            assert_eq!(bodies(other, 1), ["/other"]);
        }
    }
}

#[test]
fn large_bodies_pass_in_both_directions() {
    struct Zeros(usize);
    impl BodySource for Zeros {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            let count = buf.len().min(self.0);
            buf[..count].fill(b'z');
            self.0 -= count;
            Ok(count)
        }
    }
    const SIZE: usize = 3_000_001;
    let server = encrypted(settings(), |request| match &*request.path {
        "/get" => {
            let body = ResponseBody::Stream { length: Some(SIZE as u64), source: Box::new(Zeros(SIZE)) };
            Response::new(200).with_body(body)
        }
        _ => measured(request),
    });
    let mut client = client(&server);
    assert_eq!(ask(&mut client, "/get"), "z".repeat(SIZE));
    let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {SIZE}\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(&vec![b'p'; SIZE]).unwrap();
    assert_eq!(bodies(&mut client, 1), [SIZE.to_string()]);
}

#[test]
fn a_body_that_ends_early_is_seen_whether_the_client_says_goodbye_or_not() {
    for says_goodbye in [true, false] {
        let server = encrypted(settings(), measured);
        let mut client = client(&server);
        client.write_all(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc").unwrap();
        if says_goodbye {
            client.conn.send_close_notify();
        }
        client.flush().unwrap();
        client.sock.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert!(answer.ends_with(b"IncompleteBody"), "{:?}", String::from_utf8_lossy(&answer));
    }
}

#[test]
fn an_orderly_end_is_told_and_a_cut_is_not() {
    struct Broken(bool);
    impl BodySource for Broken {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            match std::mem::replace(&mut self.0, true) {
                true => Err(std::io::Error::other("as the test wants it")),
                false => Ok(buf.len().min(10)),
            }
        }
    }
    let server = encrypted(settings(), |request| match &*request.path {
        "/broken" => {
            let source = Box::new(Broken(false));
            Response::new(200).with_body(ResponseBody::Stream { length: None, source })
        }
        _ => text(200, "whole"),
    });
    let end_of = |path: &str| {
        let mut client = client(&server);
        // Nothing but the end of the connection tells a client of HTTP/1.0 where a body ends.
        client.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
        client.read_to_end(&mut Vec::new()).map_err(|error| error.kind())
    };
    assert!(end_of("/whole").is_ok());
    let cut = end_of("/broken").unwrap_err();
    assert!(matches!(cut, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{cut:?}");
}

#[test]
fn handshakes_that_do_not_end_hold_nobody_and_are_ended() {
    let config = Config { workers: 1, head_deadline: Duration::from_millis(500), ..settings() };
    let server = encrypted(config, |_| text(200, "served"));
    let mut silent = server.client();
    let mut plain = server.client();
    plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    // The first bytes of a handshake, and no more.
    let mut half = server.client();
    half.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    for _ in 0..5 {
        assert_eq!(ask(&mut client(&server), "/"), "served");
    }
    // What is not TLS is told so by an alert and closed.
    let (said, _) = plain.rest_until_cut();
    assert!(said.is_empty() || said.starts_with(b"\x15"), "{said:?}");
    silent.assert_closed();
    half.rest_until_cut();
}

#[test]
fn another_identity_is_shown_to_new_connections_and_a_broken_one_to_none() {
    let tls = identity();
    let server = start_with(Config { tls: Some(Arc::clone(&tls)), ..settings() }, |_| text(200, "served"));
    let mut old = client(&server);
    assert_eq!(ask(&mut old, "/"), "served");
    for (certificates, key) in [(TWO.0, ONE.1), (b"none".as_slice(), TWO.1), (TWO.0, b"none".as_slice())] {
        assert!(tls.replace(certificates, key).is_err());
        assert_eq!(ask(&mut client(&server), "/"), "served");
    }
    tls.replace(TWO.0, TWO.1).unwrap();
    assert_eq!(ask(&mut client_with(&server, CA_TWO, &TLS12), "/"), "served");
    assert!(client(&server).write_all(b"GET").is_err(), "the old identity is gone");
    assert_eq!(ask(&mut old, "/"), "served");
}

#[test]
fn a_server_that_stops_says_goodbye() {
    let server = encrypted(settings(), |_| text(200, "served"));
    let mut client = client(&server);
    assert_eq!(ask(&mut client, "/"), "served");
    let outcome = server.stop();
    assert_eq!((outcome.connections_cut, outcome.workers_left), (0, 0));
    assert_eq!(client.read(&mut [0; 10]).unwrap(), 0);
}
