//! The server that takes it, and a client that sends any bytes.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use siltstone::base::SystemClock;
use siltstone::http;
use siltstone::ops::{EntityTags, PaddingTimes};
use siltstone::s3::ObjectOwnership;
use siltstone::s3::route::Addressing;
use siltstone::service::{MetricsAccess, ServiceSettings};
use siltstone::store::Store;

use crate::support::client::{LONG, eventually};
use crate::support::process::open_descriptors;
use crate::support::service::{InProcess, ServiceOptions, store_options};

const USERS: &str = r#"
[[user]]
name = "owner"
access_key = "AK"
secret_key = "secret"
[[user.allow]]
actions = ["*"]
resources = ["*"]
[[user]]
name = "anonymous"
[[user.allow]]
actions = ["*"]
resources = ["*"]
"#;

/// What is sent on a connection of its own, and what must come back before it ends.
pub(super) struct Case {
    pub(super) name: String,
    sent: Vec<u8>,
    /// The answers in their order, such as `200, 400 InvalidRequest`; empty for none.
    expected: String,
}

impl Case {
    pub(super) fn new(name: impl Into<String>, sent: impl Into<Vec<u8>>, expected: &str) -> Self {
        Self { name: name.into(), sent: sent.into(), expected: expected.to_owned() }
    }
}

/// A request with a body, whose length is announced.
pub(super) fn request(method: &str, target: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = match method {
        "GET" | "HEAD" | "DELETE" | "OPTIONS" if body.is_empty() => String::new(),
        _ => format!("Content-Length: {}\r\n", body.len()),
    };
    let head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{headers}{length}\r\n");
    [head.as_bytes(), body].concat()
}

/// A server over a socket. It holds the bucket `b` with the object `k` of ten digits, and `b/kept`,
/// which nothing touches.
pub(super) struct Victim {
    address: std::net::SocketAddr,
    handle: http::Handle,
    thread: Option<JoinHandle<()>>,
    store: Arc<Store>,
}

/// What the process holds.
pub(super) struct Footprint {
    descriptors: usize,
    threads: usize,
    resident_bytes: usize,
}

impl Victim {
    pub(super) fn new() -> Self {
        let settings = ServiceSettings {
            addressing: Addressing { domain: Some("s3.example".to_owned()), ..Addressing::default() },
            metrics: MetricsAccess::Open,
            cors_allow_origins: vec!["https://*.example".into()],
            ..ServiceSettings::default()
        };
        let started = InProcess::start(ServiceOptions {
            ownership: ObjectOwnership::default(),
            encryption: crate::support::service::EncryptionOptions::default(),
            users: USERS,
            settings,
            padding: PaddingTimes::default(),
            entity_tags: EntityTags::Md5,
            store: store_options(),
            audit_log: None,
            directory: None,
        });
        let store = started.store;
        let service = started.service;
        let mut config = http::Config::new(([127, 0, 0, 1], 0).into());
        config.workers = 2;
        let server = http::Server::bind(config, Arc::new(SystemClock), service).unwrap();
        let address = server.local_addr();
        let handle = server.handle();
        let thread = std::thread::spawn(move || {
            server.run().unwrap();
        });
        let victim = Self { address, handle, thread: Some(thread), store };
        for key in ["k", "kept"] {
            assert_eq!(victim.answers(&request("PUT", &format!("/b/{key}"), "", "0123456789")), "200");
        }
        victim
    }

    /// Sends each case, and reports all whose answer is another.
    pub(super) fn check(&self, cases: &[Case]) {
        let wrong: Vec<String> = cases
            .iter()
            .map(|case| (case, self.answers(&case.sent)))
            .filter(|(case, answer)| case.expected != *answer)
            .map(|(case, answer)| format!("{}: expected {:?}, got {answer:?}", case.name, case.expected))
            .collect();
        assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    }

    /// The server still answers, and rightly.
    pub(super) fn is_well(&self) {
        for _ in 0..3 {
            let got = self.exchange(&request("GET", "/b/kept", "", ""));
            assert!(got.starts_with(b"HTTP/1.1 200 ") && got.ends_with(b"\r\n\r\n0123456789"));
        }
        assert_eq!(self.answers(&request("PUT", "/b/well", "", "1")), "200");
        assert_eq!(self.answers(&request("DELETE", "/b/well", "", "")), "204");
        let health = self.store.health();
        assert!(health.read_only.is_none() && health.damage.is_empty());
    }

    /// Sends bytes and resets the connection.
    pub(super) fn reset_after(&self, bytes: &[u8]) {
        let mut socket = self.connect();
        socket.write_all(bytes).unwrap();
        rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
    }

    /// The object is whole, where it may be there at all; and then it is removed.
    pub(super) fn forget(&self, key: &str, content: &[u8], may_be_there: bool) {
        let got = self.exchange(&request("GET", &format!("/b/{key}"), "", ""));
        if may_be_there && got.starts_with(b"HTTP/1.1 200 ") {
            assert!(got.ends_with(content));
        } else {
            assert!(got.starts_with(b"HTTP/1.1 404 "), "{}", String::from_utf8_lossy(&got));
        }
        assert_eq!(self.answers(&request("DELETE", &format!("/b/{key}"), "", "")), "204");
    }

    pub(super) fn footprint(&self) -> Footprint {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
        };
        Footprint {
            descriptors: open_descriptors(),
            threads: field("Threads:"),
            resident_bytes: field("VmRSS:") * 1024,
        }
    }

    /// Connections that have just ended may take a moment to be gone.
    pub(super) fn has_grown_no_more_than(&self, before: &Footprint) {
        eventually("descriptors and threads are given back", || {
            let now = self.footprint();
            now.descriptors <= before.descriptors && now.threads <= before.threads
        });
        // The simulated disk keeps what was written to it: some kilobytes for each object.
        let grown = self.footprint().resident_bytes.saturating_sub(before.resident_bytes);
        assert!(grown < 32 << 20, "{grown} bytes more are resident");
    }

    /// The answers to `bytes`, behind which nothing comes: `200, 400 InvalidRequest`.
    fn answers(&self, bytes: &[u8]) -> String {
        let got = self.exchange(bytes);
        let mut rest = got.as_slice();
        let mut answers = Vec::new();
        while !rest.is_empty() {
            let (answer, behind) = first_answer(rest, bytes.starts_with(b"HEAD "));
            answers.push(answer);
            rest = behind;
        }
        answers.join(", ")
    }

    /// All bytes that come back until the server ends the connection.
    fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let mut socket = self.connect();
        let mut received = Vec::new();
        // A server that refuses may end the connection before it has read all of it.
        let _ = socket.write_all(bytes);
        let _ = socket.shutdown(Shutdown::Write);
        let mut buffer = [0; 16 * 1024];
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => return received,
                Ok(count) => received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return received,
                Err(error) => panic!("{error} behind {:?}", String::from_utf8_lossy(bytes)),
            }
        }
    }

    fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.handle.shutdown();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the engine panicked");
    }
}

/// The status of the first response in `bytes` and the code of its error, and what follows it. A
/// response that is cut short or badly framed shows as such.
fn first_answer(bytes: &[u8], is_head: bool) -> (String, &[u8]) {
    let Some(head_len) = bytes.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4) else {
        return (format!("no response: {:?}", String::from_utf8_lossy(bytes)), &[]);
    };
    let head = String::from_utf8_lossy(&bytes[..head_len]).into_owned();
    let status = head[9..12].to_owned();
    let header = |name: &str| {
        head.lines().find_map(|line| {
            let (n, value) = line.split_once(": ")?;
            n.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    };
    let rest = &bytes[head_len..];
    let bodiless = is_head || matches!(status.as_str(), "100" | "204" | "304");
    let len = match header("content-length") {
        _ if bodiless => 0,
        Some(len) => len.parse::<usize>().unwrap(),
        None => rest.len(),
    };
    if len > rest.len() {
        return (format!("{status} cut short"), &[]);
    }
    let (body, behind) = rest.split_at(len);
    (format!("{status} {}", code(&String::from_utf8_lossy(body))).trim_end().to_owned(), behind)
}

/// The code of an error document.
fn code(body: &str) -> &str {
    let code = body.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    if body.contains("<Error>") { code.map_or("", |(code, _)| code) } else { "" }
}
