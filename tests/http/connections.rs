//! Many requests on a connection, and many connections.

use std::sync::Mutex;
use std::thread::{self, ThreadId};
use std::time::Duration;

use siltstone::http::Config;
use siltstone::s3::{Request, Response};

use crate::http::harness::{settings, start, start_with, text};
use crate::support::client::{Client, eventually};
use crate::support::process::{MANY_DESCRIPTORS, alone, open_descriptors};

fn echo(request: &Request<'_>) -> Response {
    text(200, &request.path)
}

#[test]
fn a_connection_serves_many_requests() {
    let server = start(|r| echo(&r));
    let mut client = server.client();
    for number in 0..200 {
        let path = format!("/{number}");
        assert_eq!(client.ask(&path).text(), path);
    }
    let outcome = server.stop();
    assert_eq!((outcome.connections_accepted, outcome.requests_answered), (Some(1), 200));
}

#[test]
fn a_connection_is_served_again_after_any_pause() {
    let config = Config { linger: Duration::from_millis(1), ..settings() };
    let server = start_with(config, |r| echo(&r));
    let mut client = server.client();
    for number in 0..10 {
        let path = format!("/{number}");
        assert_eq!(client.ask(&path).text(), path);
        thread::sleep(Duration::from_millis(number));
    }
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let server = start(|r| echo(&r));
    let mut client = server.client();
    let request = |n: usize| format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n");
    // More than the buffer of a worker holds.
    client.send((0..1000).map(request).collect::<String>());
    for number in 0..1000 {
        assert_eq!(client.answer().text(), format!("/{number}"));
    }
    assert!(!client.ask("/after").says_close());
}

#[test]
fn pipelined_requests_are_answered_while_others_want_the_only_worker() {
    let server = start_with(Config { workers: 1, ..settings() }, |r| echo(&r));
    let address = server.address;
    let asking = |name: usize| {
        thread::spawn(move || {
            let mut client = Client::connect(address);
            let request = |n: usize| format!("GET /{name}/{n} HTTP/1.1\r\nHost: a\r\n\r\n");
            client.send((0..300).map(request).collect::<String>());
            for number in 0..300 {
                assert_eq!(client.answer().text(), format!("/{name}/{number}"));
            }
        })
    };
    let clients: Vec<_> = (0..8).map(asking).collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}

#[test]
fn a_head_may_come_byte_by_byte_also_behind_another_request() {
    let server = start(|r| echo(&r));
    let mut client = server.client();
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HT");
    assert_eq!(client.answer().text(), "/1");
    thread::sleep(Duration::from_millis(30));
    for byte in b"TP/1.1\r\nHost: a\r\n\r\n" {
        client.send([*byte]);
    }
    assert_eq!(client.answer().text(), "/2");
}

#[test]
fn a_lone_client_stays_with_one_worker() {
    // Idle workers take requests from the queue in turn, so that the same one twice in a row means
    // that it stayed. A client may be slow for any reason; that it is so every time is beyond
    // reason.
    let threads = Mutex::new(Vec::<ThreadId>::new());
    let seen: &'static Mutex<Vec<ThreadId>> = Box::leak(Box::new(threads));
    let config = Config { workers: 16, linger: Duration::from_millis(500), ..settings() };
    let server = start_with(config, |request| {
        seen.lock().unwrap().push(thread::current().id());
        echo(&request)
    });
    let mut client = server.client();
    eventually("three requests in a row are handled by one worker", || {
        client.ask("/");
        seen.lock().unwrap().windows(3).any(|w| w[0] == w[1] && w[1] == w[2])
    });
}

#[test]
fn two_hundred_connections_at_once_are_served_by_four_workers() {
    let server = start(|request| {
        thread::sleep(Duration::from_millis(2));
        echo(&request)
    });
    let mut clients: Vec<_> = (0..200).map(|_| server.client()).collect();
    for round in 0..3 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.get(&format!("/{number}/{round}"));
        }
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.answer().text(), format!("/{number}/{round}"));
        }
    }
    assert_eq!(server.stop().requests_answered, 600);
}

#[test]
fn a_client_is_served_beside_two_thousand_idle_connections() {
    alone(
        "http::connections::a_client_is_served_beside_two_thousand_idle_connections",
        MANY_DESCRIPTORS,
        || {
            let server = start(|r| echo(&r));
            let mut idle: Vec<_> = (0..2000).map(|_| server.client()).collect();
            for client in idle.iter_mut().step_by(2) {
                assert_eq!(client.ask("/once").status, 200);
            }
            let mut client = server.client();
            for _ in 0..100 {
                assert_eq!(client.ask("/beside").text(), "/beside");
            }
            for client in idle.iter_mut().step_by(100) {
                assert_eq!(client.ask("/again").text(), "/again");
            }
        },
    );
}

#[test]
fn connections_and_descriptors_are_given_back() {
    alone("http::connections::connections_and_descriptors_are_given_back", "", || {
        let before = open_descriptors();
        let server = start(|r| echo(&r));
        let running = open_descriptors();
        for round in 0..200 {
            let mut clients: Vec<_> = (0..5).map(|_| server.client()).collect();
            assert_eq!(clients[0].ask("/").status, 200);
            clients[1].send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").answer();
            clients[2].send("bad\r\n\r\n").answer();
            clients[3].send("GET / HT");
            if round % 2 == 0 {
                clients.into_iter().for_each(Client::reset);
            }
        }
        eventually("every connection is closed", || open_descriptors() == running);
        server.stop();
        eventually("everything is closed", || open_descriptors() == before);
    });
}

#[test]
fn connections_are_accepted_again_after_descriptors_ran_out() {
    let name = "http::connections::connections_are_accepted_again_after_descriptors_ran_out";
    alone(name, "ulimit -n 64;", || {
        let server = start(|r| echo(&r));
        let mut first = server.client();
        assert_eq!(first.ask("/").status, 200);
        let mut hoard = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            hoard.push(file);
        }
        // One descriptor for the client's end, none for the server's.
        hoard.pop();
        let mut starved = server.client();
        starved.get("/starved");
        thread::sleep(Duration::from_millis(300));
        assert_eq!(first.ask("/first").text(), "/first", "others are served meanwhile");
        hoard.clear();
        assert_eq!(starved.answer().text(), "/starved");
    });
}
