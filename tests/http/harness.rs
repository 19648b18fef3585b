//! A server with a handler from the test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use siltstone::base::SystemClock;
use siltstone::http::{Config, Handle, Outcome, Server};
use siltstone::s3::{Handler, Request, Response, ResponseBody, S3Error};

use crate::support::client::Client;

struct Stub<F>(F);

impl<F: Fn(Request<'_>) -> Response + Send + Sync> Handler for Stub<F> {
    fn handle(&self, request: Request<'_>) -> Response {
        (self.0)(request)
    }

    /// Says which origin asked, if that is known.
    fn overloaded(&self, request: Option<&Request<'_>>) -> Response {
        let origin = request.and_then(|request| request.headers.get("origin"));
        let response = text(503, "SlowDown");
        match origin {
            Some(origin) => response.header("Seen-Origin", origin),
            None => response,
        }
    }

    fn refused(&self, error: S3Error) -> Response {
        text(error.status(), error.code.as_str())
    }

    fn uses_reserve(&self, method: &[u8], target: &[u8]) -> bool {
        method == b"GET" && target.starts_with(b"/look")
    }
}

/// A response with a text for its body.
pub(crate) fn text(status: u16, body: &str) -> Response {
    Response::new(status).with_body(ResponseBody::Bytes(body.into()))
}

/// Reads a request body to its end.
pub(crate) fn read_all(request: &mut Request<'_>) -> Result<Vec<u8>, S3Error> {
    let mut all = Vec::new();
    let mut buf = vec![0; 64 * 1024];
    loop {
        match request.body.reader.read(&mut buf)? {
            0 => return Ok(all),
            count => all.extend_from_slice(&buf[..count]),
        }
    }
}

/// A server that runs until it is dropped or stopped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) handle: Handle,
    thread: Option<JoinHandle<Outcome>>,
}

/// Settings for tests: few workers, a free port.
pub(crate) fn settings() -> Config {
    Config { workers: 4, ..Config::new(([127, 0, 0, 1], 0).into()) }
}

/// Starts a server with the settings for tests.
pub(crate) fn start(answer: impl Fn(Request<'_>) -> Response + Send + Sync + 'static) -> Running {
    start_with(settings(), answer)
}

/// Starts a server.
pub(crate) fn start_with(
    config: Config,
    answer: impl Fn(Request<'_>) -> Response + Send + Sync + 'static,
) -> Running {
    let server = Server::bind(config, Arc::new(SystemClock), Arc::new(Stub(answer))).unwrap();
    let address = server.local_addr();
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run().unwrap());
    Running { address, handle, thread: Some(thread) }
}

impl Running {
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Stops the server and waits for its end.
    pub(crate) fn stop(mut self) -> Outcome {
        self.handle.shutdown();
        self.thread.take().unwrap().join().unwrap()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.shutdown();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
