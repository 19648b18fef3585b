//! Request bodies: framing, minimum rate, `Expect`, and bodies that the handler does not read.

use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use siltstone::http::Config;
use siltstone::s3::{Request, Response};

use crate::http::harness::{read_all, settings, start, start_with, text};
use crate::support::client::LONG;

/// Says how many bytes came and what they add up to, or which error did.
fn measure(mut request: Request<'_>) -> Response {
    match read_all(&mut request) {
        Ok(body) => {
            let sum: u64 = body.iter().map(|b| u64::from(*b)).sum();
            text(200, &format!("{} {sum}", body.len()))
        }
        Err(error) => text(error.status(), error.code.as_str()),
    }
}

fn refuse_unread(_: Request<'_>) -> Response {
    text(403, "AccessDenied")
}

fn put(length: usize) -> String {
    format!("PUT /k HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
}

const PUT_CHUNKED: &str = "PUT /k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn a_body_arrives_whole_however_it_is_cut() {
    let server = start(measure);
    let mut client = server.client();
    let body = [1_u8; 300];
    for size in [1, 7, 300] {
        client.send(put(300));
        for piece in body.chunks(size) {
            client.send(piece);
        }
        assert_eq!(client.answer().text(), "300 300", "pieces of {size}");
    }
    client.send([put(300).as_bytes(), &body].concat());
    assert_eq!(client.answer().text(), "300 300", "head and body at once");
    client.send(put(0));
    assert_eq!(client.answer().text(), "0 0");
}

#[test]
fn a_body_of_megabytes_arrives_whole() {
    let server = start(measure);
    let mut client = server.client();
    let body = vec![3_u8; 5 << 20];
    client.send(put(body.len())).send(&body);
    assert_eq!(client.answer().text(), format!("{} {}", body.len(), 3 * body.len()));
    client.send(PUT_CHUNKED);
    for piece in body.chunks(100_000) {
        client.send(format!("{:x}\r\n", piece.len())).send(piece).send("\r\n");
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.answer().text(), format!("{} {}", body.len(), 3 * body.len()));
}

#[test]
fn a_chunked_body_may_have_extensions_and_trailers_and_the_next_request_follows_it() {
    let server = start(measure);
    let mut client = server.client();
    let body = "3;name=\"value\"\r\n\x01\x01\x01\r\n2\r\n\x01\x01\r\n0\r\nX-Trailer: of no use\r\n\r\n";
    client.send(format!("{PUT_CHUNKED}{body}{PUT_CHUNKED}{body}"));
    assert_eq!(client.answer().text(), "5 5");
    assert_eq!(client.answer().text(), "5 5");
    for byte in format!("{PUT_CHUNKED}{body}").as_bytes() {
        client.send([*byte]);
    }
    assert_eq!(client.answer().text(), "5 5");
}

#[test]
fn a_handler_is_told_how_a_body_is_framed() {
    let server =
        start(|request| text(200, &format!("{:?} {}", request.body.content_length, request.body.chunked)));
    let mut client = server.client();
    assert_eq!(client.ask("/").text(), "None false");
    client.send(put(0));
    assert_eq!(client.answer().text(), "Some(0) false");
    client.send(put(2)).send("ab");
    assert_eq!(client.answer().text(), "Some(2) false");
    client.send(PUT_CHUNKED).send("0\r\n\r\n");
    assert_eq!(client.answer().text(), "None true");
}

#[test]
fn malformed_chunks_are_refused_and_the_connection_is_closed() {
    let server = start(measure);
    for bad in
        ["x\r\n", "\r\n\r\n", "3\r\nabcd\r\n", "3\nabc\r\n", "0\r\nA\0\r\n\r\n", "ffffffffffffffffff\r\n"]
    {
        let mut client = server.client();
        let answer = client.send(format!("{PUT_CHUNKED}{bad}")).answer();
        assert_eq!((answer.status, answer.text()), (400, "InvalidRequest"), "{bad:?}");
        assert!(answer.says_close());
        client.assert_closed();
    }
}

#[test]
fn a_truncated_body_is_seen_as_such() {
    let server = start(measure);
    for (head, part) in
        [(put(10), "abc"), (PUT_CHUNKED.to_owned(), "a\r\nabc"), (PUT_CHUNKED.to_owned(), "3\r\nabc\r\n")]
    {
        let mut client = server.client();
        let answer = client.send(head).send(part).finish().answer();
        assert_eq!((answer.status, answer.text()), (400, "IncompleteBody"), "{part:?}");
        client.assert_closed();
    }
}

/// Says which elements the error of a body has.
fn describe(mut request: Request<'_>) -> Response {
    match read_all(&mut request) {
        Ok(_) => text(200, "whole"),
        Err(error) => text(error.status(), &format!("{:?}", error.elements)),
    }
}

#[test]
fn a_truncated_body_is_told_with_both_lengths() {
    let server = start(describe);
    let mut client = server.client();
    let answer = client.send(put(10)).send("abc").finish().answer();
    assert_eq!(answer.text(), r#"[("NumberBytesExpected", "10"), ("NumberBytesProvided", "3")]"#);
}

#[test]
fn a_length_beyond_all_memory_costs_nothing() {
    let server = start(measure);
    let mut client = server.client();
    client.send("PUT /k HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\nabc").finish();
    assert_eq!(client.answer().text(), "IncompleteBody");
    let mut client = server.client();
    client.send(format!("{PUT_CHUNKED}7fffffffffffffff\r\nabc")).finish();
    assert_eq!(client.answer().text(), "IncompleteBody");
    let mut client = server.client();
    client.send(format!("{PUT_CHUNKED}ffffffffffffffff\r\nabc")).finish();
    assert_eq!(client.answer().text(), "InvalidRequest");
}

#[test]
fn a_body_that_stops_coming_is_given_up() {
    let config = Config { read_stall_budget: Duration::from_millis(200), ..settings() };
    let server = start_with(config, measure);
    let mut client = server.client();
    let answer = client.send(put(10)).send("abc").answer();
    assert_eq!((answer.status, answer.text()), (400, "RequestTimeout"));
    client.assert_closed();
}

#[test]
fn a_body_below_the_minimum_rate_is_given_up() {
    let config = Config {
        read_stall_budget: Duration::from_millis(300),
        rate_min_bytes_per_sec: 1_000_000,
        ..settings()
    };
    let server = start_with(config, measure);
    let mut client = server.client();
    client.send(put(1_000_000));
    let mut feeder = client.socket.try_clone().unwrap();
    let feeding = std::thread::spawn(move || {
        while feeder.write_all(b"a").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(client.answer().text(), "RequestTimeout");
    feeding.join().unwrap();
}

#[test]
fn a_body_is_asked_for_when_the_handler_reads_it_and_not_before() {
    let (go_on, gone_on) = channel::<()>();
    let gone_on = Mutex::new(gone_on);
    let server = start(move |mut request| {
        if request.path == "/no" {
            return text(403, "AccessDenied");
        }
        gone_on.lock().unwrap().recv().unwrap();
        let body = read_all(&mut request).unwrap();
        text(200, &body.len().to_string())
    });
    let expecting = |path: &str| {
        format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    };
    let mut client = server.client();
    for _ in 0..2 {
        client.send(expecting("/yes")).assert_silent();
        go_on.send(()).unwrap();
        assert_eq!(client.answer_without_body().head, "HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(client.send("hello").answer().text(), "5");
    }
    let refusal = client.send(expecting("/no")).answer();
    assert_eq!((refusal.status, refusal.says_close()), (403, true));
    client.assert_closed();
}

#[test]
fn a_client_that_does_not_wait_for_the_interim_response_gets_none() {
    let server = start(measure);
    let mut client = server.client();
    let expecting = "PUT /k HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(client.send(format!("{expecting}\x01\x01")).answer().text(), "2 2");
    let old = "PUT /k HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    client.send(old).assert_silent();
    assert_eq!(client.send("\x01\x01").answer().text(), "2 2");
}

/// A client that waits takes whatever comes first for the final response. botocore then misreads
/// the next response on that connection: its status line counts as a header line, and the length
/// behind it is lost.
#[test]
fn a_client_that_waits_with_no_bytes_is_asked_too_or_sees_the_connection_end() {
    let server = start(|mut request| match request.path.as_str() {
        "/no" => text(403, "AccessDenied"),
        _ => text(200, &read_all(&mut request).unwrap().len().to_string()),
    });
    let expecting = |path: &str| {
        format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n")
    };
    let mut client = server.client();
    for _ in 0..2 {
        assert_eq!(client.send(expecting("/yes")).answer_without_body().status, 100);
        assert_eq!(client.answer().text(), "0");
    }
    let refusal = client.send(expecting("/no")).answer();
    assert_eq!((refusal.status, refusal.says_close()), (403, true));
    client.assert_closed();
}

#[test]
fn a_chunked_body_can_be_asked_for_too() {
    let server = start(measure);
    let mut client = server.client();
    client.send("PUT /k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-Continue\r\n\r\n");
    assert_eq!(client.answer_without_body().status, 100);
    assert_eq!(client.send("1\r\n\x01\r\n0\r\n\r\n").answer().text(), "1 1");
}

#[test]
fn a_small_unread_body_is_read_past_and_the_connection_goes_on() {
    let server = start(refuse_unread);
    let mut client = server.client();
    let smuggled = "GET /smuggled HTTP/1.1\r\n\r\n";
    for _ in 0..3 {
        client.send(put(smuggled.len()) + smuggled);
        assert_eq!(client.answer().status, 403);
        let chunk = format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len());
        client.send(PUT_CHUNKED.to_owned() + &chunk);
        assert_eq!(client.answer().status, 403);
    }
    let answer = client.ask("/last");
    assert_eq!((answer.status, answer.says_close()), (403, false));
}

#[test]
fn a_small_unread_body_that_does_not_come_closes_the_connection() {
    let server = start(refuse_unread);
    let mut client = server.client();
    let answer = client.send(put(100)).answer();
    assert_eq!((answer.status, answer.says_close()), (403, true));
    client.assert_closed();
}

#[test]
fn the_refusal_of_a_large_body_reaches_a_client_that_is_still_sending() {
    let server = start(refuse_unread);
    for head in [put(8 << 20), PUT_CHUNKED.to_owned() + "800000\r\n"] {
        let mut client = server.client();
        // All of it is sent before anything is read, as simple clients do.
        client.send(head).send(vec![0; 8 << 20]);
        let answer = client.answer();
        assert_eq!((answer.status, answer.says_close()), (403, true));
        client.assert_closed();
    }
}

#[test]
fn a_client_that_never_stops_sending_is_cut_off() {
    let config = Config { drain_deadline: Duration::from_millis(200), ..settings() };
    let server = start_with(config, refuse_unread);
    let mut client = server.client();
    client.send(put(usize::MAX));
    client.socket.set_write_timeout(Some(LONG)).unwrap();
    let chunk = vec![0; 64 * 1024];
    while client.socket.write_all(&chunk).is_ok() {}
}

#[test]
fn a_handler_that_reads_half_of_a_body_leaves_no_half_request() {
    let server = start(|mut request| {
        let mut half = [0; 3];
        let count = request.body.reader.read(&mut half).unwrap();
        text(200, std::str::from_utf8(&half[..count]).unwrap())
    });
    let mut client = server.client();
    for _ in 0..3 {
        client.send(put(6) + "abcdef");
        assert_eq!(client.answer().text(), "abc");
    }
}

#[test]
fn after_an_error_a_body_gives_nothing_more() {
    let (failed, failures) = channel();
    let (go_on, gone_on) = channel::<()>();
    let ends = (Mutex::new(failed), Mutex::new(gone_on));
    let config = Config { read_stall_budget: Duration::from_millis(50), ..settings() };
    let server = start_with(config, move |mut request| {
        let first = read_all(&mut request).unwrap_err();
        ends.0.lock().unwrap().send(()).unwrap();
        ends.1.lock().unwrap().recv().unwrap();
        let second = read_all(&mut request).unwrap_err();
        text(first.status(), &format!("{} {}", first.code, second.code))
    });
    let mut client = server.client();
    client.send(put(6)).send("abc");
    failures.recv().unwrap();
    // The rest arrives after all.
    client.send("def");
    go_on.send(()).unwrap();
    assert_eq!(client.answer().text(), "RequestTimeout RequestTimeout");
    client.assert_closed();
}
