//! Responses: framing, sources that fail, handlers that panic.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use siltstone::http::Config;
use siltstone::s3::{BodySource, Request, Response, ResponseBody};

use crate::http::harness::{read_all, settings, start, start_with, text};
use crate::support::client::eventually;

/// Gives the pieces one by one, then what `end` says.
struct Pieces {
    pieces: Vec<Vec<u8>>,
    end: fn() -> io::Result<usize>,
}

impl BodySource for Pieces {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.pieces.is_empty() {
            return (self.end)();
        }
        let piece = &mut self.pieces[0];
        let count = piece.len().min(buf.len());
        buf[..count].copy_from_slice(&piece[..count]);
        piece.drain(..count);
        if piece.is_empty() {
            self.pieces.remove(0);
        }
        Ok(count)
    }
}

fn stream(length: Option<u64>, pieces: &[&[u8]], end: fn() -> io::Result<usize>) -> Response {
    let pieces = pieces.iter().filter(|p| !p.is_empty()).map(|p| p.to_vec()).collect();
    Response::new(200).with_body(ResponseBody::Stream { length, source: Box::new(Pieces { pieces, end }) })
}

fn well() -> io::Result<usize> {
    Ok(0)
}

fn damaged() -> io::Result<usize> {
    Err(io::Error::other("a block does not match its checksum"))
}

fn panicking() -> io::Result<usize> {
    panic!("a source of a test panics")
}

#[test]
fn bodies_are_framed_by_their_length() {
    let server = start(|request| match request.path.as_str() {
        "/empty" => Response::new(200),
        "/bytes" => text(200, "some bytes"),
        "/stream" => stream(Some(9), &[b"one", b"two", b"end"], well),
        _ => stream(Some(0), &[], well),
    });
    let mut client = server.client();
    for (path, body) in [("/empty", ""), ("/bytes", "some bytes"), ("/stream", "onetwoend"), ("/none", "")] {
        let answer = client.ask(path);
        assert_eq!(answer.text(), body, "{path}");
        assert_eq!(answer.header("content-length"), Some(body.len().to_string().as_str()), "{path}");
        assert!(answer.header("date").unwrap().ends_with(" GMT"));
    }
}

#[test]
fn a_large_body_arrives_whole() {
    let server = start(|_| stream(Some(3 << 20), &[&[1; 1 << 20], &[2; 1], &[3; (2 << 20) - 1]], well));
    let mut client = server.client();
    for _ in 0..2 {
        let body = client.ask("/").body;
        assert_eq!(body.len(), 3 << 20);
        assert_eq!((body[0], body[1 << 20], body[(1 << 20) + 1]), (1, 2, 3));
    }
}

#[test]
fn a_body_of_unknown_length_is_chunked_and_the_connection_goes_on() {
    let server = start(|_| stream(None, &[b"one ", b"two"], well));
    let mut client = server.client();
    for _ in 0..2 {
        let answer = client.ask("/");
        assert_eq!((answer.text(), answer.header("transfer-encoding")), ("one two", Some("chunked")));
    }
    let answer = client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").answer();
    assert_eq!((answer.text(), answer.says_close()), ("one two", true));
}

#[test]
fn a_slow_source_of_unknown_length_sends_each_piece_as_it_comes() {
    struct Slow(Arc<AtomicBool>, usize);
    impl BodySource for Slow {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            if self.1 > 0 {
                eventually("the test lets it go on", || self.0.swap(false, Ordering::SeqCst));
            }
            self.1 += 1;
            buf[0] = b' ';
            Ok(usize::from(self.1 < 3))
        }
    }
    let go_on = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&go_on);
    let server = start(move |_| {
        let source = Box::new(Slow(Arc::clone(&held), 0));
        Response::new(200).with_body(ResponseBody::Stream { length: None, source })
    });
    let mut client = server.client();
    let head = client.get("/").answer_without_body();
    assert_eq!(head.status, 200);
    let mut next = |expected: &str| {
        assert_eq!(client.take(expected.len()), expected.as_bytes());
        go_on.store(true, Ordering::SeqCst);
    };
    next("1\r\n \r\n");
    next("1\r\n \r\n");
    next("0\r\n\r\n");
}

#[test]
fn head_204_and_304_have_no_body_and_the_connection_goes_on() {
    let server = start(|request: Request<'_>| match request.path.as_str() {
        "/named" => Response::new(200).header("Content-Length", "1234"),
        "/bytes" => text(404, "NoSuchKey"),
        "/stream" => stream(Some(77), &[b"never read"], damaged),
        "/open" => stream(None, &[b"never read"], damaged),
        "/204" => text(204, "no room for this"),
        _ => text(304, "nor for this").header("ETag", "\"e\""),
    });
    let mut client = server.client();
    let ask = |method: &str, path: &str| format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    for (method, path, status, length) in [
        ("HEAD", "/named", 200, Some("1234")),
        ("HEAD", "/bytes", 404, Some("9")),
        ("HEAD", "/stream", 200, Some("77")),
        ("HEAD", "/open", 200, None),
        ("GET", "/204", 204, None),
        ("GET", "/304", 304, None),
        ("HEAD", "/304", 304, None),
    ] {
        let answer = client.send(ask(method, path)).answer_without_body();
        assert_eq!((answer.status, answer.header("content-length")), (status, length), "{method} {path}");
        assert_eq!(answer.header("transfer-encoding"), None, "{method} {path}");
    }
    assert_eq!(client.send(ask("GET", "/bytes")).answer().text(), "NoSuchKey");
}

#[test]
fn framing_headers_of_a_handler_are_not_sent_twice_and_values_cannot_add_lines() {
    let server = start(|_| {
        text(200, "body")
            .header("content-length", "999")
            .header("Transfer-Encoding", "chunked")
            .header("Connection", "upgrade")
            .header("Date", "never")
            .header("x-meta", "a\r\nx-added: b")
    });
    let answer = server.client().ask("/");
    assert_eq!(answer.text(), "body");
    assert_eq!(answer.header("x-meta"), Some("a  x-added: b"));
    for name in ["content-length:", "date:"] {
        assert_eq!(answer.head.to_ascii_lowercase().matches(name).count(), 1);
    }
    assert!(answer.header("connection").is_none());
}

#[test]
fn a_handler_can_close_the_connection() {
    let server = start(|_| Response { close: true, ..text(200, "last") });
    let mut client = server.client();
    let answer = client.ask("/");
    assert_eq!((answer.text(), answer.says_close()), ("last", true));
    client.assert_closed();
}

#[test]
fn a_client_can_close_the_connection() {
    let server = start(|_| text(200, "last"));
    let mut client = server.client();
    let answer = client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").answer();
    assert!(answer.says_close());
    client.assert_closed();
}

/// What arrives of a response that breaks off: its head says 200 and some length.
fn assert_cut(response: impl Fn() -> Response + Send + Sync + 'static, whole: usize) {
    let server = start(move |_| response());
    let mut client = server.client();
    let (bytes, _) = client.get("/").rest_until_cut();
    let text = String::from_utf8_lossy(&bytes);
    let end = text.find("\r\n\r\n").map_or(bytes.len(), |at| at + 4);
    assert!(bytes.len() - end < whole, "all of it came");
    assert!(!text.ends_with("0\r\n\r\n"), "it looks complete");
}

#[test]
fn a_source_that_fails_in_the_middle_cuts_the_connection() {
    const MUCH: &[u8] = &[7; 1 << 20];
    assert_cut(|| stream(Some(2 << 20), &[MUCH], damaged), 2 << 20);
    assert_cut(|| stream(Some(2 << 20), &[MUCH], well), 2 << 20);
    assert_cut(|| stream(Some(1 << 20), &[MUCH, b"more"], well), 1 << 20);
    // The end itself is verified before the last bytes go out.
    assert_cut(|| stream(Some(1 << 20), &[MUCH], damaged), 1 << 20);
    assert_cut(|| stream(Some(2 << 20), &[MUCH], panicking), 2 << 20);
    assert_cut(|| stream(None, &[b"some"], damaged), usize::MAX);
}

#[test]
fn a_body_that_ends_with_the_connection_ends_in_a_reset_when_its_source_fails() {
    let server = start(|_| stream(None, &[b"some"], damaged));
    let mut client = server.client();
    let (_, reset) = client.send("GET / HTTP/1.0\r\n\r\n").rest_until_cut();
    assert!(reset, "an orderly end would look like the end of the body");
}

#[test]
fn a_source_that_fails_at_once_is_answered_with_500() {
    for end in [damaged, well, panicking] {
        let server = start(move |_| stream(Some(5), &[b"abc"], end));
        let mut client = server.client();
        let answer = client.ask("/");
        assert_eq!((answer.status, answer.text()), (500, "InternalError"));
        client.assert_closed();
    }
}

#[test]
fn a_panic_answers_500_and_costs_no_worker() {
    let server = start(|mut request| {
        if request.path == "/panic-later" {
            let _ = read_all(&mut request);
        }
        assert!(!request.path.starts_with("/panic"), "a handler of a test panics");
        text(200, "well")
    });
    for _ in 0..10 {
        let mut client = server.client();
        let answer = client.ask("/panic");
        assert_eq!((answer.status, answer.text(), answer.says_close()), (500, "InternalError", true));
        client.assert_closed();
        let mut client = server.client();
        client.send("PUT /panic-later HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(client.answer().status, 500);
    }
    let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
    assert!(clients.iter_mut().all(|client| client.ask("/").text() == "well"));
}

#[test]
fn a_client_that_takes_nothing_is_cut_and_its_worker_is_free_again() {
    let config = Config { workers: 1, write_stall_budget: Duration::from_millis(200), ..settings() };
    let server = start_with(config, |request| match request.path.as_str() {
        "/large" => stream(Some(64 << 20), &[&[0; 64 << 20]], well),
        _ => text(200, "served"),
    });
    let mut sleeper = server.client();
    sleeper.get("/large");
    assert_eq!(server.client().ask("/").text(), "served");
    // Reading any earlier would refill the stall budget.
    eventually("the connection is cut", || sleeper.socket.take_error().unwrap().is_some());
    let (bytes, _) = sleeper.rest_until_cut();
    assert!(bytes.len() < 64 << 20);
}

#[test]
fn a_client_that_goes_away_in_the_middle_hurts_nobody() {
    let server = start(|mut request| match request.path.as_str() {
        "/large" => stream(Some(16 << 20), &[&[0; 16 << 20]], well),
        _ => match read_all(&mut request) {
            Ok(_) => text(200, "served"),
            Err(error) => text(error.status(), error.code.as_str()),
        },
    });
    for _ in 0..20 {
        let mut client = server.client();
        client.get("/large");
        client.reset();
        let mut client = server.client();
        client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc");
        client.reset();
        let mut client = server.client();
        client.send("GET / HT");
        client.reset();
        let _ = server.client();
    }
    assert_eq!(server.client().ask("/").text(), "served");
}
