//! Limits of time and number.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use siltstone::base::{Budget, limits};
use siltstone::http::{Config, Networks};
use siltstone::s3::{Request, Response};

use crate::http::harness::{Running, settings, start_with, text};
use crate::support::client::{Client, LONG, eventually};
use crate::support::process::{MANY_DESCRIPTORS, alone, open_descriptors};

/// A server whose only worker is held by a client, with room for one more in each queue, until it
/// is released.
fn start_busy() -> (Running, Client, Sender<()>) {
    let (arrived, arrivals) = channel();
    let (release, released) = channel();
    let arrived = Mutex::new(arrived);
    let released = Mutex::new(released);
    let config = Config { workers: 1, queue_len: 1, ..settings() };
    let server = start_with(config, move |request: Request<'_>| -> Response {
        if request.path == "/held" {
            arrived.lock().unwrap().send(()).unwrap();
            let _ = released.lock().unwrap().recv();
        }
        text(200, "served")
    });
    let mut busy = server.client();
    busy.get("/held");
    arrivals.recv().unwrap();
    (server, busy, release)
}

#[test]
fn a_head_that_takes_too_long_is_refused() {
    let limit = Duration::from_millis(100);
    let config = Config { head_deadline: limit, drain_deadline: limit, ..settings() };
    let server = start_with(config, |_| text(200, "served"));
    let mut client = server.client();
    let answer = client.send("GET / HTTP/1.1\r\nHost:").answer();
    assert_eq!((answer.status, answer.text()), (400, "RequestTimeout"));
    client.assert_closed();

    // Nor does it help to send a byte now and then, on a connection that has been served before.
    let mut client = server.client();
    assert_eq!(client.ask("/").status, 200);
    let mut answered = false;
    eventually("the head is refused", || {
        use std::io::Write;
        answered = answered || client.socket.write_all(b"G").is_err();
        answered
    });
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let config = Config { idle_deadline: Duration::from_millis(100), ..settings() };
    let server = start_with(config, |_| text(200, "served"));
    server.client().assert_closed();
    let mut client = server.client();
    assert_eq!(client.ask("/").status, 200);
    client.assert_closed();
}

#[test]
fn requests_beyond_the_queue_are_answered_with_503_at_once() {
    let (server, mut busy, release) = start_busy();
    // The worker is held. Of three more, the queue has room for one.
    let (answered, answers) = channel();
    for _ in 0..3 {
        let address = server.address;
        let answered = answered.clone();
        thread::spawn(move || {
            let mut client = Client::connect(address);
            let answer = client.ask("/");
            assert!(!answer.says_close());
            answered.send((answer.status, client)).unwrap();
        });
    }
    let refused = [answers.recv().unwrap(), answers.recv().unwrap()];
    release.send(()).unwrap();
    assert_eq!(answers.recv().unwrap().0, 200);
    assert_eq!(busy.answer().status, 200);
    for (status, mut client) in refused {
        assert_eq!(status, 503);
        assert_eq!(client.ask("/").status, 200, "it may come back on the same connection");
    }
}

#[test]
fn a_request_of_which_something_is_missing_or_too_much_is_refused_for_good() {
    let (server, _busy, release) = start_busy();
    // There is room for one more, in each of the two queues.
    let mut waiting = [server.client(), server.client()];
    waiting[0].get("/");
    waiting[1].send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    waiting.iter_mut().for_each(Client::assert_silent);
    eventually("the queues are full", || {
        let mut probes = [server.client(), server.client()];
        probes[0].get("/");
        probes[1].send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        probes.iter_mut().all(Client::is_answered)
    });
    for last in [
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\nabc",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
    ] {
        let mut client = server.client();
        let answer = client.send(last).answer();
        assert_eq!((answer.status, answer.says_close()), (503, true), "{last}");
        client.assert_closed();
    }
    let mut whole = server.client();
    let answer = whole.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").answer();
    assert_eq!((answer.status, answer.says_close()), (503, false));
    for (request, origin) in [
        ("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://a\r\n\r\n", Some("https://a")),
        ("PUT / HTTP/1.1\r\nOrigin: null\r\nHost: a\r\nContent-Length: 9000000\r\n\r\nabc", Some("null")),
        ("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://a\r\nHost: b\r\n\r\n", None),
    ] {
        let answer = server.client().send(request).answer();
        assert_eq!((answer.status, answer.header("seen-origin")), (503, origin), "{request}");
    }
    drop(release);
    assert_eq!(waiting.map(|mut client| client.answer().status), [200; 2]);
    assert_eq!(whole.ask("/").status, 200);
}

#[test]
fn the_refusal_of_an_upload_for_lack_of_workers_reaches_the_client() {
    let (server, _busy, release) = start_busy();
    let (answered, answers) = channel();
    for _ in 0..4 {
        let address = server.address;
        let answered = answered.clone();
        thread::spawn(move || {
            let mut client = Client::connect(address);
            client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 4 << 20));
            // All of it is sent before anything is read; the one in the queue gets no further than
            // the system lets it.
            client.send(vec![0; 4 << 20]);
            answered.send(client.answer().status).unwrap();
        });
    }
    assert_eq!([(); 3].map(|()| answers.recv().unwrap()), [503; 3]);
    release.send(()).unwrap();
    assert_eq!(answers.recv().unwrap(), 200);
}

#[test]
fn a_head_request_is_turned_away_without_a_body() {
    let (server, _busy, release) = start_busy();
    let mut waiting = server.client();
    let mut clients = [server.client(), server.client()];
    waiting.get("/").assert_silent();
    eventually("the queue is full", || {
        let mut probe = server.client();
        probe.get("/").is_answered()
    });
    for client in &mut clients {
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("it is refused", || client.is_answered());
    }
    drop(release);
    assert_eq!(waiting.answer().status, 200);
    for client in &mut clients {
        assert_eq!(client.answer_without_body().status, 503);
        assert_eq!(client.ask("/").status, 200, "no body was between the two answers");
    }
}

#[test]
fn heads_that_wait_for_their_ends_are_refused_where_there_is_no_memory_for_them() {
    const BEGUN: &str = "GET / HTTP/1.1\r\nHost: a\r\n";
    let each = limits::HEAD_MAX_BYTES as u64;
    let memory = Budget::new(3 * each, 0);
    let server = start_with(Config { memory: Arc::clone(&memory), ..settings() }, |_| text(200, "served"));
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send(BEGUN);
    }
    eventually("three heads are kept", || memory.usage().reserved == 3 * each);
    let mut fourth = server.client();
    assert_eq!(fourth.send(BEGUN).answer().status, 503);
    fourth.assert_closed();
    assert_eq!(server.client().ask("/").status, 200, "a head that comes whole and is short needs none");
    let long = format!("{BEGUN}X-Long: {}\r\n\r\n", "x".repeat(limits::UNRESERVED_HEAD_BYTES));
    assert_eq!(server.client().send(&long).answer().status, 503);
    assert_eq!(clients[0].send("\r\n").answer().status, 200);
    eventually("there is room again", || memory.usage().reserved == 2 * each);
    assert_eq!(server.client().send(&long).answer().status, 200);
    drop(clients);
    eventually("all is given back", || memory.usage().reserved == 0);
}

/// A server that answers requests for `/held` when it is told to, and the order.
fn start_holding(config: Config) -> (Running, Sender<()>) {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let server = start_with(config, move |request: Request<'_>| {
        if request.path == "/held" {
            let _ = released.lock().unwrap().recv();
        }
        text(200, "served")
    });
    (server, release)
}

#[test]
fn a_connection_beyond_the_cap_displaces_an_idle_one() {
    let server = start_with(Config { connections_max: 3, ..settings() }, |_| text(200, "served"));
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("/").status, 200);
    }
    // Workers may stay with those for a moment: then none is idle.
    let mut newest = None;
    eventually("there is room for another", || {
        let mut client = server.client();
        let _ = std::io::Write::write_all(&mut client.socket, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let served = client.answer().status == 200;
        newest = served.then_some(client);
        served
    });
    clients.retain(|client| !client.is_closed());
    assert_eq!(clients.len(), 2);
    clients.extend(newest);
    for client in &mut clients {
        assert_eq!(client.ask("/").status, 200);
    }
}

#[test]
fn connections_beyond_the_cap_are_answered_with_503_while_all_others_are_in_use() {
    let (server, release) = start_holding(Config { connections_max: 3, ..settings() });
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        client.get("/held").assert_silent();
    }
    for _ in 0..5 {
        let mut excess = server.client();
        let answer = excess.answer();
        assert_eq!((answer.status, answer.says_close()), (503, true));
        excess.assert_closed();
    }
    drop(release);
    for client in &mut clients {
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn one_address_has_no_more_than_its_share_of_the_connections() {
    let untrusting = Config {
        connections_max: 100,
        connections_per_address_max: Some(2),
        trusted_proxies: Networks::default(),
        ..settings()
    };
    let server = start_with(untrusting.clone(), |_| text(200, "served"));
    let mut other = Client::connect_from(1, server.address);
    assert_eq!(other.ask("/").status, 200);
    let greedy: Vec<_> = (0..20).map(|_| Client::connect_from(2, server.address)).collect();
    eventually("the others are closed", || greedy.iter().filter(|client| !client.is_closed()).count() == 2);
    assert!(!greedy[19].is_closed(), "the newest stay");
    assert_eq!(other.ask("/").status, 200);

    // Whoever is trusted may have all.
    let config = Config { trusted_proxies: "127.0.0.2".parse().unwrap(), ..untrusting };
    let server = start_with(config, |_| text(200, "served"));
    let mut proxy: Vec<_> = (0..20).map(|_| Client::connect_from(2, server.address)).collect();
    for client in &mut proxy {
        assert_eq!(client.ask("/").status, 200);
    }
    assert!(proxy.iter().all(|client| !client.is_closed()));
}

#[test]
fn a_flood_beyond_the_share_of_one_address_leaves_others_alone() {
    let name = "http::limits::a_flood_beyond_the_share_of_one_address_leaves_others_alone";
    alone(name, MANY_DESCRIPTORS, || {
        // Only the limit of their number keeps those from staying that are drained.
        let config = Config {
            connections_max: 4,
            connections_per_address_max: Some(2),
            trusted_proxies: Networks::default(),
            drain_deadline: 2 * LONG,
            ..settings()
        };
        let (server, _release) = start_holding(config);
        let mut served = server.client();
        assert_eq!(served.ask("/").status, 200);
        // Neither of these is idle.
        let mut held = [(); 2].map(|()| Client::connect_from(2, server.address));
        held.iter_mut().for_each(|client| client.get("/held").assert_silent());
        let before = open_descriptors();
        // More than are drained at a time, and none of them ever reads.
        let flood: Vec<_> = (0..600).map(|_| Client::connect_from(2, server.address)).collect();
        for _ in 0..20 {
            assert_eq!(served.ask("/").status, 200);
        }
        let bound = before + flood.len() + limits::DRAINING_MAX;
        eventually("the excess is closed at once", || open_descriptors() <= bound);
    });
}

#[test]
fn slow_heads_and_idle_connections_hold_no_worker() {
    let server = start_with(Config { workers: 1, ..settings() }, |_| text(200, "served"));
    let mut slow: Vec<_> = (0..50).map(|_| server.client()).collect();
    for client in &mut slow {
        client.send("GET / HTTP/1.1\r\nHo");
    }
    let mut client = server.client();
    for _ in 0..10 {
        assert_eq!(client.ask("/").status, 200);
    }
    for client in &mut slow {
        assert_eq!(client.send("st: a\r\n\r\n").answer().status, 200);
    }
}

#[test]
fn settings_out_of_bounds_are_refused() {
    use siltstone::base::SystemClock;
    use siltstone::s3::{Handler, S3Error};
    struct Nobody;
    impl Handler for Nobody {
        fn handle(&self, _: Request<'_>) -> Response {
            Response::new(200)
        }
        fn overloaded(&self, _: Option<&Request<'_>>) -> Response {
            Response::new(503)
        }
        fn refused(&self, error: S3Error) -> Response {
            Response::new(error.status())
        }
    }
    let config = Config { workers: 0, ..settings() };
    let bound = siltstone::http::Server::bind(config, Arc::new(SystemClock), Arc::new(Nobody));
    assert_eq!(bound.err().map(|error| error.kind()), Some(std::io::ErrorKind::InvalidInput));
}
