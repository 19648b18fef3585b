//! The way of browsers that open the address of S3 requests: they are led to the console, or told
//! why it is not shown to them. Every other request is answered as without a console.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::{Console, ConsoleAccess, address, guard, pages, proxies};
use crate::s3::{Handler, Method, Request, Response, S3Error};
use crate::service::Service;

/// The handler of S3 requests beside a console on a listener of its own.
pub struct ConsoleDoor {
    service: Arc<Service>,
    /// The console and its port, once it listens.
    console: OnceLock<(Arc<Console>, u16)>,
}

impl ConsoleDoor {
    /// A handler that leads nowhere yet.
    pub fn new(service: Arc<Service>) -> Self {
        Self { service, console: OnceLock::new() }
    }

    /// Leads browsers to `console`, which listens on `port`, from here on.
    pub fn open(&self, console: Arc<Console>, port: u16) {
        self.console.get_or_init(|| (console, port));
    }
}

impl Handler for ConsoleDoor {
    fn handle(&self, mut request: Request<'_>) -> Response {
        let led = self.console.get().and_then(|(console, port)| console.lead(&mut request, Some(*port)));
        if let Some(response) = led {
            return response;
        }
        self.service.handle(request)
    }

    fn overloaded(&self, request: Option<&Request<'_>>) -> Response {
        self.service.overloaded(request)
    }

    fn refused(&self, error: S3Error) -> Response {
        self.service.refused(error)
    }

    fn uses_reserve(&self, method: &[u8], target: &[u8]) -> bool {
        self.service.uses_reserve(method, target)
    }

    fn note_queue_wait(&self, waited: Duration) {
        self.service.note_queue_wait(waited);
    }
}

impl Console {
    /// The answer to a browser that opens the root of S3 requests, if there is a console. `port` is
    /// the console's own listener's.
    pub(super) fn lead(&self, request: &mut Request<'_>, port: Option<u16>) -> Option<Response> {
        if self.access == ConsoleAccess::Off || !is_of_browser(request) {
            return None;
        }
        if self.service.is_host_of_bucket(request) {
            return None;
        }
        proxies::restate(request, &self.is_trusted_proxy);
        if !guard::is_shown(request, self.access) {
            let refusal = guard::not_shown(port.unwrap_or_else(|| address::port(request)));
            return Some(guard::protect(of_browsers_alone(pages::not_shown(&refusal))));
        }
        let place = match (&self.url, port) {
            (Some(url), _) => url.clone(),
            (None, Some(port)) => format!("{}{}", address::with_port(request, port), self.root.as_str()),
            (None, None) => self.root.as_str().to_owned(),
        };
        let response = Response::new(303).header("Location", place).header("Cache-Control", "no-store");
        Some(of_browsers_alone(response))
    }
}

/// The response, which a cache must not give to a client of S3.
fn of_browsers_alone(response: Response) -> Response {
    response.header("Vary", "Accept, Authorization")
}

/// Whether a person opened the address: S3 clients that list buckets sign their requests, and do
/// not ask for HTML. Every request is asked, so that its method and its path come first.
fn is_of_browser(request: &Request<'_>) -> bool {
    request.method == Method::Get
        && request.path == "/"
        && request.query.is_empty()
        && request.headers.get_str("authorization").is_none()
        && request.headers.get_str("accept").is_some_and(|accepted| accepted.contains("text/html"))
}
