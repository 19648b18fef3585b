//! Answers that take long to work out, and requests beside them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use siltstone::http::Config;
use siltstone::s3::{BodySource, ErrorCode, Request, Response, ResponseBody, S3Error};

use crate::http::harness::{read_all, settings, start_with, text};
use crate::support::client::{LONG, eventually};

/// As many zeros.
struct Zeros(usize);

impl BodySource for Zeros {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let count = buf.len().min(self.0);
        self.0 -= count;
        Ok(count)
    }
}

fn deferred(work: impl FnOnce() -> Result<Response, S3Error> + Send + 'static) -> Response {
    Response::new(200).with_body(ResponseBody::Deferred(Box::new(work)))
}

/// Eight workers, of which six may do large work and one of these heavy work.
fn few() -> Config {
    Config { workers: 8, ..settings() }
}

#[test]
fn heavy_work_leaves_workers_for_large_and_small_requests() {
    let (begun, beginnings) = channel();
    let (release, released) = channel();
    let begun = Mutex::new(begun);
    let released = Arc::new(Mutex::new(released));
    let at_work = Arc::new(AtomicUsize::new(0));
    let most_at_work = Arc::clone(&at_work);
    let server = start_with(few(), move |mut request: Request<'_>| match &*request.path {
        "/heavy" => {
            let begun = begun.lock().unwrap().clone();
            let released = Arc::clone(&released);
            let at_work = Arc::clone(&at_work);
            deferred(move || {
                at_work.fetch_add(1, Ordering::SeqCst);
                begun.send(()).unwrap();
                released.lock().unwrap().recv().unwrap();
                at_work.fetch_sub(1, Ordering::SeqCst);
                Ok(text(200, "done"))
            })
        }
        "/large" => Response::new(200)
            .with_body(ResponseBody::Stream { length: Some(2_000_000), source: Box::new(Zeros(2_000_000)) }),
        _ => text(200, &read_all(&mut request).unwrap().len().to_string()),
    });
    let mut heavy: Vec<_> = (0..16).map(|_| server.client()).collect();
    for client in &mut heavy {
        client.get("/heavy");
    }
    beginnings.recv().unwrap();
    // One worker has heavy work; the others are free for whatever else comes.
    for _ in 0..20 {
        let mut client = server.client();
        assert_eq!(client.ask("/small").text(), "0");
        assert_eq!(client.ask("/large").body.len(), 2_000_000);
        client.send("PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n");
        assert_eq!(client.send(vec![0; 900_000]).answer().text(), "900000");
    }
    assert_eq!(most_at_work.load(Ordering::SeqCst), 1, "the others wait");
    for _ in &heavy {
        release.send(()).unwrap();
    }
    for client in &mut heavy {
        assert_eq!(client.answer().text(), "done");
        assert_eq!(client.ask("/small").status, 200, "it may go on");
    }
}

#[test]
fn work_can_tell_that_its_client_has_left_and_may_fail_or_panic() {
    let (seen, sightings) = channel();
    let seen = Mutex::new(seen);
    let server = start_with(few(), move |request: Request<'_>| match &*request.path {
        "/watched" => {
            let client = request.client.clone().unwrap();
            let seen = seen.lock().unwrap().clone();
            assert!(!client.has_left());
            seen.send(()).unwrap();
            deferred(move || {
                eventually("the client leaves", || client.has_left());
                seen.send(()).unwrap();
                Err(S3Error::new(ErrorCode::RequestTimeout))
            })
        }
        "/failing" => deferred(|| Err(S3Error::new(ErrorCode::SlowDown))),
        _ => deferred(|| panic!("as a test of the engine")),
    });
    let mut client = server.client();
    client.get("/watched");
    sightings.recv_timeout(LONG).expect("the handler has seen the client");
    thread::sleep(Duration::from_millis(20));
    assert!(sightings.try_recv().is_err());
    drop(client);
    sightings.recv_timeout(LONG).expect("the work has seen the client leave");
    assert_eq!(server.client().ask("/failing").text(), "SlowDown");
    assert_eq!(server.client().ask("/panicking").status, 500);
}
