//! A proxy between a client and a server, with one fault.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::client::LONG;

/// The proxy's dealing with a request.
pub(crate) enum Verdict {
    /// It goes to the server with this head.
    Forward(String),
    /// The proxy answers by itself.
    Answer(&'static str),
}

/// What a proxy does to requests and answers. The default is nothing.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    /// Is told the head of a request.
    pub(crate) request: fn(String) -> Verdict,
    /// Is told the head of the request, and the answer.
    pub(crate) answer: fn(&str, Vec<u8>) -> Vec<u8>,
    /// Whether the body is read to its end before the request goes on.
    pub(crate) holds_bodies: bool,
}

impl Default for Fault {
    fn default() -> Self {
        Self { request: Verdict::Forward, answer: |_, answer| answer, holds_bodies: false }
    }
}

/// Starts a proxy in front of `server`, which runs as long as the test process. Returns its
/// address.
pub(crate) fn start(server: SocketAddr, fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // A client may close at any time.
            thread::spawn(move || drop(pass(client, server, fault)));
        }
    });
    address
}

/// Passes one request and its answer, and closes.
fn pass(mut client: TcpStream, server: SocketAddr, fault: Fault) -> std::io::Result<()> {
    client.set_read_timeout(Some(LONG))?;
    let mut received = Vec::new();
    let head = head(&mut client, &mut received)?;
    let forwarded = match (fault.request)(head.clone()) {
        Verdict::Forward(forwarded) => forwarded,
        Verdict::Answer(answer) => {
            client.write_all(answer.as_bytes())?;
            client.shutdown(Shutdown::Write)?;
            return std::io::copy(&mut client, &mut std::io::sink()).map(drop);
        }
    };
    if fault.holds_bodies {
        let length = value(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while received.len() < length {
            more(&mut client, &mut received)?;
        }
    }
    let mut upstream = TcpStream::connect(server)?;
    upstream.write_all(forwarded.replacen("\r\n", "\r\nConnection: close\r\n", 1).as_bytes())?;
    upstream.write_all(&received)?;
    let mut from = client.try_clone()?;
    let mut to = upstream.try_clone()?;
    thread::spawn(move || std::io::copy(&mut from, &mut to));
    answer(&mut client, &mut upstream, |answer| (fault.answer)(&head, answer))?;
    client.shutdown(Shutdown::Both)
}

/// Passes informational answers at once, and the last one when it is there.
fn answer(
    client: &mut TcpStream,
    upstream: &mut TcpStream,
    change: impl FnOnce(Vec<u8>) -> Vec<u8>,
) -> std::io::Result<()> {
    let mut received = Vec::new();
    loop {
        let head = head(upstream, &mut received)?;
        if head.starts_with("HTTP/1.1 1") {
            client.write_all(head.as_bytes())?;
            continue;
        }
        // The server closes after its answer; a reset ends it, too.
        while more(upstream, &mut received).is_ok() {}
        return client.write_all(&change([head.into_bytes(), received].concat()));
    }
}

/// The next head, with the empty line after it. The bytes after it stay in `received`.
fn head(stream: &mut TcpStream, received: &mut Vec<u8>) -> std::io::Result<String> {
    loop {
        if let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            let head: Vec<u8> = received.drain(..end + 4).collect();
            return Ok(String::from_utf8_lossy(&head).into_owned());
        }
        more(stream, received)?;
    }
}

fn more(stream: &mut TcpStream, received: &mut Vec<u8>) -> std::io::Result<()> {
    let mut piece = vec![0; 64 * 1024];
    match stream.read(&mut piece)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        count => {
            received.extend_from_slice(&piece[..count]);
            Ok(())
        }
    }
}

/// The value of a header.
pub(crate) fn value<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let is_named = |line: &&str| line.split(':').next().is_some_and(|given| given.eq_ignore_ascii_case(name));
    head.lines().skip(1).find(is_named)?.split_once(':').map(|(_, value)| value.trim())
}

/// The head without a header.
pub(crate) fn without(head: &str, name: &str) -> String {
    let is_kept = |line: &&str| !line.split(':').next().is_some_and(|given| given.eq_ignore_ascii_case(name));
    head.split_inclusive("\r\n").filter(is_kept).collect()
}

/// The answer with its head changed.
pub(crate) fn with_head(answer: &[u8], change: impl FnOnce(&str) -> String) -> Vec<u8> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(answer.len(), |end| end + 4);
    [change(&String::from_utf8_lossy(&answer[..end])).as_bytes(), &answer[end..]].concat()
}
