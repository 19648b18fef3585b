//! Clients that take their time, and those beside them.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use siltstone::http::Config;
use siltstone::s3::{BodySource, Request, Response, ResponseBody};

use crate::http::harness::{Running, read_all, settings, start_with, text};
use crate::support::client::{Client, LONG, eventually};
use crate::support::process::{MANY_DESCRIPTORS, alone};

struct Endless;

impl BodySource for Endless {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        Ok(buf.len())
    }
}

/// Large bodies in both directions, and small answers.
fn answer(mut request: Request<'_>) -> Response {
    if request.path == "/large" {
        let source = Box::new(Endless);
        return Response::new(200).with_body(ResponseBody::Stream { length: Some(1 << 30), source });
    }
    match read_all(&mut request) {
        Ok(body) => text(200, &body.len().to_string()),
        Err(error) => text(error.status(), error.code.as_str()),
    }
}

fn serve(config: Config) -> Running {
    start_with(config, answer)
}

/// A server that says when a worker begins with a request for `path`.
fn serve_and_watch(config: Config, path: &'static str) -> (Running, Receiver<()>) {
    let (begun, beginnings) = channel();
    let begun = Mutex::new(begun);
    let server = start_with(config, move |request| {
        if request.path == path {
            begun.lock().unwrap().send(()).unwrap();
        }
        answer(request)
    });
    (server, beginnings)
}

/// One client has small requests answered, half of them with a body; how many a second.
fn rate(server: &Running) -> f64 {
    const REQUESTS: u32 = 1_000;
    let mut client = server.client();
    let begun = Instant::now();
    for _ in 0..REQUESTS / 2 {
        assert_eq!(client.ask("/small").status, 200);
        client.send("PUT /small HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n").send("hello");
        assert_eq!(client.answer().text(), "5");
    }
    f64::from(REQUESTS) / begun.elapsed().as_secs_f64()
}

/// The rates are printed, not judged: they are what is measured on a quiet machine (`--nocapture`).
#[test]
fn others_are_served_beside_fifteen_hundred_slow_readers_and_writers() {
    alone(
        "http::slow::others_are_served_beside_fifteen_hundred_slow_readers_and_writers",
        MANY_DESCRIPTORS,
        || {
            let server = serve(Config { workers: 8, queue_len: 4096, ..settings() });
            let before = rate(&server);
            let mut slow: Vec<Client> = (0..1500).map(|_| server.client()).collect();
            for (number, client) in slow.iter_mut().enumerate() {
                match number % 3 {
                    0 => client.get("/large"),
                    1 => client.send("PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\nabc"),
                    _ => client.send("PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\nabc"),
                };
            }
            println!("{before:.0} requests a second, {:.0} beside slow clients", rate(&server));
        },
    );
}

#[test]
fn slow_clients_give_way_sooner_while_others_wait_for_the_worker() {
    // Longer than a client of these tests waits. Under load, budgets are used up sixteen times
    // faster.
    let budget = 2 * LONG;
    let config = Config { workers: 1, read_stall_budget: budget, write_stall_budget: budget, ..settings() };
    let (server, uploads) = serve_and_watch(config, "/upload");
    let mut reader = server.client();
    reader.get("/large").take(100);
    let mut writer = server.client();
    writer.send("PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\nabc");
    uploads.recv_timeout(LONG).expect("the reader gives way to the writer");
    assert_eq!(server.client().ask("/small").status, 200);
    assert_eq!(writer.answer().text(), "RequestTimeout");
}

#[test]
fn a_small_body_may_come_late_and_a_large_response_by_another_worker() {
    let (server, late) = serve_and_watch(Config { workers: 4, ..settings() }, "/late");
    let mut client = server.client();
    client.send("PUT /late HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe");
    late.recv_timeout(LONG).expect("a worker waits for what the event loop has waited for in vain");
    client.send("llo");
    assert_eq!(client.answer().text(), "5");
    for _ in 0..20 {
        let mut client = server.client();
        client.get("/large").take(3_000_000);
    }
    assert_eq!(client.ask("/small").status, 200);
}

/// Bytes that tell where they stand.
struct Counting {
    at: usize,
    end: usize,
}

/// No power of two, so that no piece looks like another.
const PERIOD: usize = 251;

/// The first bytes.
fn counted(len: usize) -> Vec<u8> {
    let period: Vec<u8> = (0..PERIOD as u8).collect();
    period.repeat(len.div_ceil(PERIOD))[..len].to_vec()
}

impl BodySource for Counting {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let count = buf.len().min(self.end - self.at);
        let phase = self.at % PERIOD;
        buf[..count].copy_from_slice(&counted(phase + count)[phase..]);
        self.at += count;
        Ok(count)
    }
}

/// Larger than what the system buffers on the way.
const STREAM_BYTES: usize = 12 << 20;
const PAGE_BYTES: usize = 8 << 20;

/// Large responses of both kinds, to be told from each other by their lengths.
fn serve_large(config: Config) -> Running {
    start_with(config, |request: Request<'_>| match &*request.path {
        "/stream" => {
            let source = Box::new(Counting { at: 0, end: STREAM_BYTES });
            Response::new(200).with_body(ResponseBody::Stream { length: Some(STREAM_BYTES as u64), source })
        }
        "/page" => Response::new(200).with_body(ResponseBody::Bytes(counted(PAGE_BYTES))),
        _ => text(200, "small"),
    })
}

#[test]
fn clients_that_take_nothing_hold_no_worker_and_find_their_responses_whole() {
    let config = Config { workers: 4, write_stall_budget: Duration::from_secs(3600), ..settings() };
    let server = serve_large(config);
    let mut stalled: Vec<Client> = (0..48).map(|_| server.client()).collect();
    for (number, client) in stalled.iter_mut().enumerate() {
        client.get(if number % 2 == 0 { "/stream" } else { "/page" });
    }
    for _ in 0..5 {
        let mut client = server.client();
        assert_eq!(client.ask("/small").text(), "small");
        assert!(client.ask("/stream").body == counted(STREAM_BYTES));
    }
    for (number, client) in stalled.iter_mut().enumerate().skip(40) {
        let len = if number % 2 == 0 { STREAM_BYTES } else { PAGE_BYTES };
        assert!(client.answer().body == counted(len), "{number}");
        assert_eq!(client.ask("/small").text(), "small", "it may go on");
    }
}

#[test]
fn a_client_that_takes_nothing_is_given_up_also_while_no_worker_waits_for_it() {
    let server = serve_large(Config { write_stall_budget: Duration::from_millis(300), ..settings() });
    let mut client = server.client();
    client.get("/page");
    eventually("the connection is cut", || {
        let error = client.socket.take_error().unwrap();
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    });
}

#[test]
fn one_address_delays_the_uploads_of_others_by_no_more_than_one_of_its_own() {
    let budget = Duration::from_secs(16);
    let answered = Arc::new(Mutex::new(Vec::new()));
    let statuses = Arc::clone(&answered);
    let config = Config { workers: 4, read_stall_budget: budget, ..settings() };
    let server = start_with(config, move |request| {
        let response = answer(request);
        statuses.lock().unwrap().push(response.status);
        response
    });
    let head = "PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n";
    let mut stalled: Vec<Client> = (0..64).map(|_| Client::connect_from(2, server.address)).collect();
    for client in &mut stalled {
        client.send(head);
    }
    stalled[63].assert_silent();
    let before = answered.lock().unwrap().len();
    let mut other = server.client();
    assert_eq!(other.send(head).send(vec![0; 900_000]).answer().text(), "900000");
    // The stalled ones have workers three at a time, and are dropped after a second: most of them
    // come after the other.
    let answered = answered.lock().unwrap();
    let place = answered.iter().position(|status| *status == 200).unwrap();
    assert!(place < before + 32, "{answered:?}");
}

#[test]
fn bodies_that_never_come_hold_no_worker_that_small_requests_need() {
    // With four workers one is left for small requests: whoever holds three, by whatever promise of
    // a small body, has all.
    for promised in [
        "Content-Length: 5\r\nExpect: 100-continue\r\n",
        "Content-Length: 200000\r\n",
        "Content-Length: 5\r\n",
    ] {
        let budget = Duration::from_secs(3600);
        let shutdown_timeout = Duration::from_millis(100);
        let server = serve(Config { workers: 4, read_stall_budget: budget, shutdown_timeout, ..settings() });
        let mut silent: Vec<Client> = (0..64).map(|_| server.client()).collect();
        for client in &mut silent {
            client.send(format!("PUT /upload HTTP/1.1\r\nHost: a\r\n{promised}\r\n"));
        }
        if promised.contains("Expect") {
            assert_eq!(silent[0].answer_without_body().status, 100, "it has a worker");
        }
        for _ in 0..20 {
            assert_eq!(server.client().ask("/small").status, 200, "{promised}");
        }
        // Their stall budgets outlast this test: a worker that they occupy would be lost to its
        // end.
        server.handle.shutdown();
    }
}
