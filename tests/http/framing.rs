//! Heads: what is refused, and what is served as it was sent.

use siltstone::s3::{Request, Response};

use crate::http::harness::{Running, read_all, settings, start, start_with, text};

/// Says what it was asked, body included.
fn echo(mut request: Request<'_>) -> Response {
    let body = match read_all(&mut request) {
        Ok(body) => String::from_utf8(body).unwrap(),
        Err(error) => return text(error.status(), error.code.as_str()),
    };
    let method = request.method.as_str();
    let path = &request.path;
    let query = &request.query;
    text(200, &format!("{method}|{path}|{query}|{body}"))
}

fn assert_refused(server: &Running, raw: &str, status: u16, code: &str) {
    let mut client = server.client();
    let answer = client.send(raw).answer();
    assert_eq!((answer.status, answer.text()), (status, code), "{raw:?}");
    assert!(answer.says_close(), "{raw:?}");
    client.assert_closed();
}

#[test]
fn heads_with_two_readings_or_none_are_refused_and_the_connection_is_closed() {
    let server = start(echo);
    for raw in [
        // Framing that two readers could understand in two ways.
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\nabc",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        // Lines.
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\x7fb\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX\u{e9}: y\r\n\r\n",
        // Hosts.
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        // Request lines.
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        "GET / HTTP/0.9\r\nHost: a\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
        "G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\u{16}\u{3}\u{1}",
    ] {
        assert_refused(&server, raw, 400, "InvalidRequest");
    }
}

#[test]
fn targets_that_name_nothing_here_are_refused() {
    let server = start(echo);
    for target in ["*", "a", "host:443", "ftp://a/", "http:///k", "http://u@h/k", "/a#b"] {
        let raw = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_refused(&server, &raw, 400, "InvalidURI");
    }
    assert_refused(&server, "GET /gr\u{fc}n HTTP/1.1\r\nHost: a\r\n\r\n", 400, "InvalidURI");
}

#[test]
fn heads_beyond_the_limits_are_refused() {
    let server = start(echo);
    let code = "RequestHeaderSectionTooLarge";
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(100));
    assert_refused(&server, &many, 400, code);
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "b".repeat(16 * 1024));
    assert_refused(&server, &long, 400, code);
    let endless = format!("GET /{}", "b".repeat(64 * 1024));
    assert_refused(&server, &endless, 400, code);
    let blank = "\r\n".repeat(16 * 1024);
    assert_refused(&server, &blank, 400, code);
}

#[test]
fn a_head_as_large_as_allowed_is_served() {
    let server = start(echo);
    let fixed = "GET / HTTP/1.1\r\nHost: a\r\nA: \r\n\r\n";
    let raw = fixed.replace("A: ", &format!("A: {}", "b".repeat(16 * 1024 - fixed.len())));
    assert_eq!(raw.len(), 16 * 1024);
    let mut client = server.client();
    assert_eq!(client.send(&raw).answer().status, 200);
    assert_eq!(client.send(&raw).answer().status, 200);
}

#[test]
fn smaller_limits_can_be_set() {
    let config = siltstone::http::Config { head_max_bytes: 2048, headers_max: 3, ..settings() };
    let server = start_with(config, echo);
    let code = "RequestHeaderSectionTooLarge";
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(3));
    assert_refused(&server, &many, 400, code);
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "b".repeat(2048));
    assert_refused(&server, &long, 400, code);
    assert_eq!(server.client().ask("/").status, 200);
}

#[test]
fn targets_reach_the_handler_as_they_were_sent() {
    let server = start(echo);
    let mut client = server.client();
    for (raw, said) in [
        ("GET / HTTP/1.1", "GET|/||"),
        ("GET //a/../b%2Fc/. HTTP/1.1", "GET|//a/../b%2Fc/.||"),
        ("GET /b?list-type=2&prefix=a?b HTTP/1.1", "GET|/b|list-type=2&prefix=a?b|"),
        ("GET http://other/b/k?x HTTP/1.1", "GET|/b/k|x|"),
        ("OPTIONS * HTTP/1.1", "OPTIONS|*||"),
        ("get / HTTP/1.1", "get|/||"),
        ("PATCH /x HTTP/1.1", "PATCH|/x||"),
        ("\r\n\r\nGET / HTTP/1.1", "GET|/||"),
    ] {
        let answer = client.send(format!("{raw}\r\nHost: a\r\n\r\n")).answer();
        assert_eq!((answer.status, answer.text()), (200, said), "{raw:?}");
    }
}

#[test]
fn header_values_reach_the_handler_as_bytes() {
    let server = start(|request| {
        let value = request.headers.get("x-svc-meta-name").unwrap().to_vec();
        Response::new(200).header("x-svc-meta-name", value)
    });
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Svc-Meta-Name: \t gr\u{fc}n \u{1fab5} \r\n\r\n");
    assert_eq!(client.answer().header("x-svc-meta-name"), Some("gr\u{fc}n \u{1fab5}"));
}

#[test]
fn http_1_0_is_served_and_closed_unless_it_asks_to_stay() {
    let server = start(echo);
    let mut client = server.client();
    let answer = client.send("GET /old HTTP/1.0\r\n\r\n").answer();
    assert_eq!((answer.text(), answer.says_close()), ("GET|/old||", true));
    client.assert_closed();

    let mut client = server.client();
    for _ in 0..3 {
        let answer = client.send("GET /old HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").answer();
        assert_eq!((answer.text(), answer.header("connection")), ("GET|/old||", Some("keep-alive")));
    }
    let answer = client.send("PUT /old HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc").answer();
    assert_eq!(answer.text(), "PUT|/old||abc");
}

#[test]
fn a_refused_head_leaves_nothing_behind_that_is_taken_for_a_request() {
    let server = start(echo);
    let mut client = server.client();
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
    ));
    assert_eq!(client.answer().status, 400);
    client.assert_closed();
}
