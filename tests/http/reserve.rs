//! Workers that are kept for some requests.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use siltstone::http::Config;
use siltstone::s3::{BodySource, Request, Response, ResponseBody};

use crate::http::harness::{Running, read_all, settings, start_with, text};
use crate::support::client::Client;

/// Two workers, and two kept for requests that look.
pub(crate) fn with_reserve() -> Config {
    Config { workers: 2, reserve_workers: 2, ..settings() }
}

/// A server whose workers but those of the reserve are held.
pub(crate) struct Held<C> {
    /// Dropping them releases the workers, which the drop of the server waits for.
    releases: Vec<Sender<()>>,
    clients: Vec<C>,
    pub(crate) server: Running,
}

/// As many zeros.
struct LongBody(usize);

impl BodySource for LongBody {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let count = buf.len().min(self.0);
        self.0 -= count;
        Ok(count)
    }
}

fn answer(
    begun: &Mutex<Sender<()>>,
    releases: &Mutex<Vec<Receiver<()>>>,
    mut request: Request<'_>,
) -> Response {
    match &*request.path {
        "/hold" => {
            let release = releases.lock().unwrap().pop().unwrap();
            begun.lock().unwrap().send(()).unwrap();
            // Released by its end.
            let _ = release.recv();
            text(200, "released")
        }
        "/look/long" => Response::new(200).with_body(ResponseBody::Stream {
            length: Some(2_000_000),
            source: Box::new(LongBody(2_000_000)),
        }),
        _ => text(200, &read_all(&mut request).unwrap().len().to_string()),
    }
}

/// A server with these settings, all of whose `workers` are held by a request for `/hold` each,
/// which `ask` sends.
pub(crate) fn held<C>(config: Config, ask: impl Fn(&Running) -> C) -> Held<C> {
    let workers = config.workers;
    let (begun, beginnings) = channel();
    let (releases, released): (Vec<_>, Vec<_>) = (0..workers).map(|_| channel()).unzip();
    let begun = Mutex::new(begun);
    let released = Mutex::new(released);
    let server = start_with(config, move |request| answer(&begun, &released, request));
    let hold = |_| {
        let client = ask(&server);
        beginnings.recv().unwrap();
        client
    };
    let clients = (0..workers).map(hold).collect();
    Held { releases, clients, server }
}

fn held_by_plain_clients(config: Config) -> Held<Client> {
    held(config, |server| {
        let mut client = server.client();
        client.get("/hold");
        client
    })
}

#[test]
fn requests_of_the_reserve_are_answered_while_all_other_workers_are_held() {
    let mut held = held_by_plain_clients(with_reserve());
    let mut client = held.server.client();
    for _ in 0..3 {
        assert_eq!(client.ask("/look").text(), "0");
    }
    assert_eq!(client.ask("/look/long").body.len(), 2_000_000);
    let mut others: Vec<_> = (0..4).map(|_| held.server.client()).collect();
    for other in &mut others {
        assert_eq!(other.ask("/look?a=b").text(), "0");
    }
    // The rest of a pipeline waits for the other workers.
    client.send("GET /look HTTP/1.1\r\nHost: a\r\n\r\nGET /else HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().text(), "0");
    client.assert_silent();
    held.releases.clear();
    assert_eq!(client.answer().text(), "0");
    for client in &mut held.clients {
        assert_eq!(client.answer().text(), "released");
    }
}

#[test]
fn a_slow_client_keeps_no_worker_of_the_reserve() {
    let held = held_by_plain_clients(with_reserve());
    let mut slow: Vec<_> = (0..4).map(|_| held.server.client()).collect();
    for client in &mut slow {
        client.get("/look/long");
    }
    let mut uploads: Vec<_> = (0..4).map(|_| held.server.client()).collect();
    for client in &mut uploads {
        client.send("GET /look HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
    }
    for _ in 0..3 {
        assert_eq!(held.server.client().ask("/look").text(), "0");
    }
    for client in &mut uploads {
        assert!(!client.has_news(), "a body that is to come is no work for the reserve");
    }
    for client in &mut slow {
        assert_eq!(client.answer().body.len(), 2_000_000);
    }
}

#[test]
fn a_late_small_body_is_no_work_for_the_reserve() {
    let held = held_by_plain_clients(with_reserve());
    let mut late: Vec<_> = (0..4).map(|_| held.server.client()).collect();
    for client in &mut late {
        client.send("GET /look HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na");
    }
    for client in &mut late {
        client.assert_silent();
    }
    assert_eq!(held.server.client().ask("/look").text(), "0");
    let mut in_time = held.server.client();
    in_time.send("GET /look HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(in_time.answer().text(), "2");
}

#[test]
fn without_a_reserve_all_requests_have_the_same_workers() {
    let mut held = held_by_plain_clients(Config { reserve_workers: 0, ..with_reserve() });
    let mut client = held.server.client();
    client.get("/look").assert_silent();
    held.releases.clear();
    assert_eq!(client.answer().text(), "0");
}
