//! Signed requests to the bucket of an examination, each on a connection of its own.

use std::io;
use std::time::Duration;

use siltstone::client::{RequestSigner, RequestToSign, encoded_query};

use super::wire::{Reply, Target, Wire};

/// A server, the keys, and the bucket.
pub(super) struct Session {
    pub(super) target: Target,
    pub(super) signer: RequestSigner,
    pub(super) bucket: String,
}

/// A request. The key is encoded; the query is sorted.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) method: &'a str,
    pub(super) key: &'a str,
    pub(super) query: &'a [(&'a str, &'a str)],
    /// Names in lower case. Those that begin with `x-amz-` are signed.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
    /// The value of x-amz-content-sha256.
    pub(super) hash: &'a str,
    /// Whether the body is sent in chunks, without its length.
    pub(super) chunked: bool,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        let hash = "UNSIGNED-PAYLOAD";
        Self { method: "GET", key: "", query: &[], headers: &[], body: b"", hash, chunked: false }
    }
}

impl Session {
    pub(super) fn ask(&self, ask: Ask<'_>) -> io::Result<Reply> {
        let mut wire = Wire::open(&self.target)?;
        wire.send(self.head(ask, &self.target.host, "").as_bytes())?;
        let sent = if ask.chunked { wire.send(&in_chunks(ask.body)) } else { wire.send(ask.body) };
        // A server that refuses a body answers before it closes.
        wire.reply(ask.method == "HEAD").or_else(|error| sent.and(Err(error)))
    }

    /// The same request to another host name at the same address.
    pub(super) fn ask_host(&self, host: &str, ask: Ask<'_>) -> io::Result<Reply> {
        let target = Target { host: host.to_owned(), ..self.target.clone() };
        let session = Self { target, signer: self.signer.clone(), bucket: String::new() };
        session.ask(ask)
    }

    /// Sends the head with the header Expect, and its body after the answer 100. The flag is false
    /// if it did not come within `patience`.
    pub(super) fn ask_expecting(&self, ask: Ask<'_>, patience: Duration) -> io::Result<(Reply, bool)> {
        let mut wire = Wire::open(&self.target)?;
        wire.send(self.head(ask, &self.target.host, "Expect: 100-continue\r\n").as_bytes())?;
        let first = wire.head(patience)?;
        let continued = first.as_ref().is_some_and(|reply| reply.status == 100);
        if let Some(reply) = first.filter(|reply| reply.status >= 200) {
            return Ok((reply, false));
        }
        wire.send(ask.body)?;
        Ok((wire.reply(false)?, continued))
    }

    /// The head of an answer to a request with a wrong signature whose body does not come; `None`
    /// after `patience`.
    pub(super) fn ask_without_body(&self, ask: Ask<'_>, patience: Duration) -> io::Result<Option<Reply>> {
        let mut wire = Wire::open(&self.target)?;
        let head = self.head(ask, &self.target.host, "");
        wire.send(head.replace("Signature=", "Signature=0").as_bytes())?;
        wire.head(patience)
    }

    fn head(&self, ask: Ask<'_>, host: &str, more: &str) -> String {
        let path = match (&*self.bucket, ask.key) {
            ("", key) => format!("/{key}"),
            (bucket, "") => format!("/{bucket}"),
            (bucket, key) => format!("/{bucket}/{key}"),
        };
        let query = encoded_query(ask.query);
        let (signed, plain): (Vec<_>, Vec<_>) =
            ask.headers.iter().copied().partition(|(name, _)| name.starts_with("x-amz-"));
        let Ask { method, hash, .. } = ask;
        let request = RequestToSign { method, path: &path, query: &query, host, hash, more: &signed };
        let mut lines = self.signer.lines_for_hash(&request);
        lines.extend(plain.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        if ask.chunked {
            lines += "Transfer-Encoding: chunked\r\n";
        } else if matches!(method, "PUT" | "POST") {
            lines += &format!("Content-Length: {}\r\n", ask.body.len());
        }
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{method} {path}{mark}{query} HTTP/1.1\r\nHost: {host}\r\n{lines}{more}\r\n")
    }
}

/// The body in the transfer coding `chunked`.
fn in_chunks(body: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n0\r\n\r\n"].concat()
}
