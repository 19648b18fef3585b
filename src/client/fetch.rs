//! Requests to URLs of other services, each on a connection of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::connection::ShortExchange;
use crate::client::{Answer, Endpoint, HttpConnection};

/// A request for the document at a URL.
pub struct Fetch<'a> {
    /// The URL: `http://` or `https://`, the host, and the path.
    pub url: &'a str,
    /// A PEM file with the authorities that sign certificates; `None` for the system's.
    pub authorities: Option<&'a Path>,
    /// How long it may take, however the server sends. The search for the address is not counted.
    pub time_max: Duration,
    /// The longest document.
    pub body_max_bytes: usize,
    /// Further header lines, each with its line end.
    pub lines: &'a str,
    /// The fields of a form, encoded, which POST sends; `None` for GET.
    pub form: Option<&'a str>,
}

impl Fetch<'_> {
    /// Sends the request. Redirects are not followed.
    ///
    /// # Errors
    /// A message, if the URL is none, the server is not reached or not trusted, or its answer is
    /// malformed, too long or too late.
    pub fn run(&self) -> Result<Answer, String> {
        let (base, path) = Endpoint::split(self.url);
        let endpoint = Endpoint::resolve(base, self.authorities)?.with_patience(self.time_max);
        let deadline = Instant::now() + self.time_max;
        let exchange = ShortExchange {
            head: self.head(&endpoint.host, path),
            body: self.form.unwrap_or_default().as_bytes(),
            kept_max_bytes: self.body_max_bytes,
            deadline,
        };
        let opened = HttpConnection::open_by(&endpoint, deadline);
        let answer = opened.and_then(|mut connection| connection.exchange_short(exchange));
        answer.map_err(|error| format!("{base}: {error}"))
    }

    fn head(&self, host: &str, path: &str) -> String {
        let lines = self.lines;
        let common = format!("Host: {host}\r\nAccept: application/json\r\n{lines}");
        match self.form {
            None => format!("GET {path} HTTP/1.1\r\n{common}\r\n"),
            Some(form) => format!(
                "POST {path} HTTP/1.1\r\n{common}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
                form.len()
            ),
        }
    }
}
