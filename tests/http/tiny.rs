//! What the engine tiny_http does around its crate.

use std::fs::File;

use siltstone::http::{Config, EngineName};
use siltstone::s3::{BodySource, Request, Response, ResponseBody};

use crate::http::harness::{Running, read_all, settings, start_with, text};
use crate::support::process::alone;

fn tiny(answer: impl Fn(Request<'_>) -> Response + Send + Sync + 'static) -> Running {
    start_with(Config { engine: EngineName::TinyHttp, ..settings() }, answer)
}

/// Answers with the length of the body, or with the error of reading it.
fn measured(mut request: Request<'_>) -> Response {
    match read_all(&mut request) {
        Ok(body) => text(200, &body.len().to_string()),
        Err(error) => text(error.status(), error.code.as_str()),
    }
}

#[test]
fn what_has_two_readings_is_refused_and_the_connection_ended() {
    let server = tiny(measured);
    for (lines, code) in [
        ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "InvalidRequest"),
        ("Content-Length: 3\r\nContent-Length: 4\r\n", "InvalidRequest"),
        ("Content-Length: +3\r\n", "InvalidRequest"),
        ("Content-Length: three\r\n", "InvalidRequest"),
        ("Content-Length: 5368709121\r\n", "EntityTooLarge"),
        ("Content-Length: 9223372036854775807\r\n", "EntityTooLarge"),
        ("Transfer-Encoding: gzip, chunked\r\n", "InvalidRequest"),
        ("Connection: Upgrade\r\nUpgrade: h2c\r\n", "InvalidRequest"),
        ("X-A: a\nb\r\n", "InvalidRequest"),
        ("Host: other\r\n", "InvalidRequest"),
    ] {
        let mut client = server.client();
        client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\n{lines}\r\nabc"));
        // Where the answer would cost the memory that was announced, there is an end and no answer.
        let (answer, _) = client.rest_until_cut();
        let answer = String::from_utf8(answer).unwrap();
        assert!(
            answer.ends_with(code) || (answer.is_empty() && code == "EntityTooLarge"),
            "{lines:?}: {answer:?}"
        );
        assert_eq!(server.client().ask("/").text(), "0", "{lines:?}");
    }
}

#[test]
fn a_body_that_ends_early_is_seen_in_every_framing() {
    let server = tiny(measured);
    for request in [
        "Content-Length: 2000\r\n\r\nabc",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "Transfer-Encoding: chunked\r\n\r\nx\r\nabc\r\n",
    ] {
        let mut client = server.client();
        client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\n{request}")).finish();
        assert_eq!(client.answer().text(), "IncompleteBody", "{request:?}");
    }
    let mut client = server.client();
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    assert_eq!(client.answer().text(), "3");
}

#[test]
fn a_body_that_nobody_read_is_not_taken_for_the_next_request() {
    let server = tiny(|request| text(200, &request.path));
    let mut client = server.client();
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n".repeat(200);
    client
        .send(format!("PUT /1 HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{smuggled}", smuggled.len()));
    client.send(format!(
        "PUT /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{smuggled}\r\n0\r\n\r\n",
        smuggled.len()
    ));
    client.get("/3");
    assert_eq!([(); 3].map(|()| client.answer().text().to_owned()), ["/1", "/2", "/3"]);
}

#[test]
fn a_panic_answers_500_and_the_connection_goes_on() {
    let server = tiny(|request| {
        assert!(request.path != "/panic", "as the test wants it");
        text(200, "served")
    });
    let mut client = server.client();
    for _ in 0..6 {
        assert_eq!(client.ask("/panic").status, 500);
        assert_eq!(client.ask("/").status, 200);
    }
}

#[test]
fn a_source_that_breaks_cuts_the_connection_or_answers_500() {
    struct Broken(usize);
    impl BodySource for Broken {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.0 =
                self.0.checked_sub(buf.len()).ok_or_else(|| std::io::Error::other("as the test wants it"))?;
            Ok(buf.len())
        }
    }
    let server = tiny(|request| {
        let source = Box::new(Broken(if request.path == "/late" { 300_000 } else { 0 }));
        Response::new(200).with_body(ResponseBody::Stream { length: Some(1_000_000), source })
    });
    assert_eq!(server.client().ask("/early").status, 500);
    let mut client = server.client();
    let (answer, _) = client.get("/late").rest_until_cut();
    assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() < 1_000_000);
}

#[test]
fn a_server_stops_when_told_and_finishes_what_runs() {
    let (arrived, arrivals) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let ends = std::sync::Mutex::new((arrived, released));
    let server = tiny(move |_| {
        let ends = ends.lock().unwrap();
        ends.0.send(()).unwrap();
        let _ = ends.1.recv();
        text(200, "finished")
    });
    let mut client = server.client();
    client.get("/");
    arrivals.recv().unwrap();
    server.handle.shutdown();
    release.send(()).unwrap();
    let answer = client.answer();
    assert_eq!((answer.text(), answer.says_close()), ("finished", true));
    client.assert_closed();
    let outcome = server.stop();
    assert_eq!((outcome.requests_answered, outcome.workers_left), (1, 0));
}

#[test]
fn an_acceptor_that_died_for_want_of_descriptors_is_replaced() {
    alone("http::tiny::an_acceptor_that_died_for_want_of_descriptors_is_replaced", "ulimit -n 64;", || {
        let server = tiny(|_| text(200, "served"));
        let mut old = server.client();
        assert_eq!(old.ask("/").status, 200);
        let mut hoard = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            hoard.push(file);
        }
        // One for the client's own end; the server finds none for its.
        hoard.pop();
        // Whether this one is refused or waits depends on where the last descriptor runs out.
        let client = server.client();
        std::thread::sleep(std::time::Duration::from_millis(50));
        hoard.clear();
        drop(client);
        assert_eq!(old.ask("/").status, 200, "connections of the dead acceptor live on");
        for _ in 0..10 {
            assert_eq!(server.client().ask("/").status, 200);
        }
    });
}
