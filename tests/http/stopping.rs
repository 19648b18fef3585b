//! The end of a server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use siltstone::http::Config;
use siltstone::s3::{BodySource, Request, Response, ResponseBody};

use crate::http::harness::{settings, start, start_with, text};
use crate::support::client::{Client, LONG, eventually};

#[test]
fn a_server_stops_when_told_and_says_what_it_has_done() {
    let server = start(|_| text(200, "served"));
    let mut client = server.client();
    assert_eq!(client.ask("/").status, 200);
    assert!(!server.has_ended());
    server.handle.clone().shutdown();
    eventually("the server ends", || server.has_ended());
    let address = server.address;
    let outcome = server.stop();
    assert_eq!((outcome.connections_accepted, outcome.requests_answered), (Some(1), 1));
    assert_eq!((outcome.connections_cut, outcome.workers_left), (0, 0));
    client.assert_closed();
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn an_order_to_stop_before_the_start_is_obeyed() {
    let server = start(|_| text(200, "served"));
    server.handle.shutdown();
    server.handle.shutdown();
    eventually("the server ends", || server.has_ended());
}

#[test]
fn what_runs_is_finished_and_what_waits_is_closed() {
    let (arrived, arrivals) = channel();
    let (release, released) = channel::<()>();
    let ends = (Mutex::new(arrived), Mutex::new(released));
    let server = start(move |request: Request<'_>| {
        if request.path == "/held" {
            ends.0.lock().unwrap().send(()).unwrap();
            let _ = ends.1.lock().unwrap().recv();
        }
        text(200, "served")
    });
    let mut idle = server.client();
    assert_eq!(idle.ask("/").status, 200);
    let mut half = server.client();
    half.send("GET / HTTP/1.1\r\nHo");
    // Once a later request has been answered, the event loop has received the incomplete one.
    assert_eq!(server.client().ask("/").status, 200);
    let mut held = server.client();
    held.get("/held");
    arrivals.recv().unwrap();
    server.handle.shutdown();
    idle.assert_closed();
    assert_eq!(half.answer().status, 503);
    assert!(!server.has_ended(), "a request is still running");
    release.send(()).unwrap();
    let answer = held.answer();
    assert_eq!((answer.status, answer.says_close()), (200, true));
    held.assert_closed();
    assert_eq!(server.stop().connections_cut, 0);
}

#[test]
fn under_load_every_request_that_was_taken_is_answered() {
    let answered = Arc::new(AtomicUsize::new(0));
    let server = start(|_| {
        thread::sleep(Duration::from_millis(1));
        text(200, "served")
    });
    let asking = |mut client: Client| {
        let answered = Arc::clone(&answered);
        thread::spawn(move || {
            loop {
                // The server may close while it waits for a request, as any server may; but what it
                // answers is whole.
                let sent =
                    std::io::Write::write_all(&mut client.socket, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                let mut first = [0];
                if sent.is_err() || !matches!(client.socket.peek(&mut first), Ok(1)) {
                    return;
                }
                let answer = client.answer();
                assert!(matches!(answer.status, 200 | 503));
                answered.fetch_add(1, Ordering::SeqCst);
                if answer.says_close() {
                    return;
                }
            }
        })
    };
    let clients: Vec<_> = (0..20).map(|_| server.client()).collect();
    let clients: Vec<_> = clients.into_iter().map(asking).collect();
    eventually("the load is there", || answered.load(Ordering::SeqCst) > 200);
    let outcome = server.stop();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!((outcome.connections_cut, outcome.workers_left), (0, 0));
    assert!(outcome.requests_answered as usize >= answered.load(Ordering::SeqCst) - 20);
}

#[test]
fn clients_that_do_not_end_are_ended_when_the_time_is_over() {
    struct Endless;
    impl BodySource for Endless {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            Ok(buf.len())
        }
    }
    let config = Config { shutdown_timeout: Duration::from_millis(500), ..settings() };
    let users = Arc::new(());
    let user = Arc::clone(&users);
    let server = start_with(config, move |mut request| {
        let _user = &user;
        if request.path == "/upload" {
            let mut buf = [0; 100];
            while let Ok(1..) = request.body.reader.read(&mut buf) {}
            return text(400, "IncompleteBody");
        }
        Response::new(200).with_body(ResponseBody::Stream { length: None, source: Box::new(Endless) })
    });
    let mut taker = server.client();
    taker.get("/endless").answer_without_body();
    let mut giver = server.client();
    giver.send("PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc");
    assert_eq!(server.client().get("/endless").answer_without_body().status, 200);
    let outcome = server.stop();
    assert!(outcome.connections_cut >= 2, "{outcome:?}");
    eventually("the workers end too, and the handler with the last", || Arc::strong_count(&users) == 1);
}

#[test]
fn a_handler_that_never_returns_does_not_keep_the_server() {
    let (arrived, arrivals) = channel();
    let (release, released) = channel::<()>();
    let ends = (Mutex::new(arrived), Mutex::new(released));
    let config = Config { workers: 1, shutdown_timeout: Duration::from_millis(300), ..settings() };
    let server = start_with(config, move |_| {
        ends.0.lock().unwrap().send(()).unwrap();
        let _ = ends.1.lock().unwrap().recv();
        text(200, "too late")
    });
    let mut client = server.client();
    client.get("/");
    arrivals.recv().unwrap();
    let begun = Instant::now();
    let outcome = server.stop();
    assert!(begun.elapsed() < LONG);
    assert_eq!((outcome.connections_cut, outcome.workers_left), (1, 1));
    drop(release);
}
