//! Requests to URLs of other services, each on a connection of its own.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use crate::client::{Answer, Endpoint, HttpConnection, SignedRequest};

/// A request for the document at a URL.
pub struct Fetch<'a> {
    /// The URL: `http://` or `https://`, the host, and the path.
    pub url: &'a str,
    /// A PEM file with the authorities that sign certificates; `None` for the system's.
    pub authorities: Option<&'a Path>,
    /// The longest silence of the server.
    pub patience: Duration,
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
    /// malformed.
    pub fn run(&self) -> Result<Answer, String> {
        let (base, path) = Endpoint::split(self.url);
        let endpoint = Endpoint::resolve(base, self.authorities)?.with_patience(self.patience);
        let failed = |error: std::io::Error| format!("{base}: {error}");
        let mut connection = HttpConnection::open(&endpoint).map_err(failed)?;
        connection.exchange(&self.request(&endpoint.host, path)).map_err(failed)
    }

    fn request(&self, host: &str, path: &str) -> SignedRequest<'_> {
        let lines = self.lines;
        let common = format!("Host: {host}\r\nAccept: application/json\r\n{lines}");
        let head = match self.form {
            None => format!("GET {path} HTTP/1.1\r\n{common}\r\n"),
            Some(form) => format!(
                "POST {path} HTTP/1.1\r\n{common}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
                form.len()
            ),
        };
        let body = Cow::Borrowed(self.form.unwrap_or_default().as_bytes());
        SignedRequest { head, body, head_only: false }
    }
}
