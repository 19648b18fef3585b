//! The same requests over a socket: the engine and a client that shares no code with it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use siltstone::base::SystemClock;
use siltstone::http;
use siltstone::s3::Handler;

/// An engine that serves a handler until it is dropped.
pub(super) struct Socket {
    address: SocketAddr,
    handle: http::Handle,
    thread: Option<JoinHandle<()>>,
}

/// The response.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Whether the body ended before it was whole.
    pub(super) cut: bool,
}

/// The body that is sent after a head.
pub(super) enum Payload<'b> {
    /// These bytes, their length announced in the head.
    Bytes(&'b [u8]),
    /// These bytes in chunks.
    Chunks(&'b [u8]),
    /// Fewer bytes than were announced, and then the end of the connection.
    Short(&'b [u8]),
    /// Nothing unless it is asked for, which fails the test.
    Withheld,
}

impl Socket {
    pub(super) fn serve(engine: http::EngineName, handler: Arc<dyn Handler>) -> Self {
        let mut config = http::Config::new(([127, 0, 0, 1], 0).into());
        config.engine = engine;
        config.workers = 2;
        let server = http::Server::bind(config, Arc::new(SystemClock), handler).unwrap();
        let address = server.local_addr();
        let handle = server.handle();
        let thread = std::thread::spawn(move || {
            server.run().unwrap();
        });
        Self { address, handle, thread: Some(thread) }
    }

    pub(super) fn send(&self, head: &[u8], payload: &Payload<'_>, is_head: bool) -> Reply {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(head).unwrap();
        // A server that refuses may close before the whole body is sent; only its response counts.
        let _ = send_payload(&mut stream, payload);
        let mut reader = BufReader::new(stream);
        loop {
            let (status, headers) = read_head(&mut reader);
            if status == 100 {
                assert!(!matches!(payload, Payload::Withheld), "the body was read");
                continue;
            }
            let bodiless = is_head || matches!(status, 204 | 304);
            let (body, cut) = if bodiless { (Vec::new(), false) } else { read_body(&mut reader, &headers) };
            return Reply { status, headers, body, cut };
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.handle.shutdown();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the engine panicked");
    }
}

fn send_payload(stream: &mut TcpStream, payload: &Payload<'_>) -> std::io::Result<()> {
    match payload {
        Payload::Withheld => Ok(()),
        Payload::Bytes(bytes) => stream.write_all(bytes),
        Payload::Short(bytes) => {
            stream.write_all(bytes)?;
            stream.shutdown(Shutdown::Write)
        }
        Payload::Chunks(bytes) => {
            for chunk in bytes.chunks(70_001) {
                stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
                stream.write_all(chunk)?;
                stream.write_all(b"\r\n")?;
            }
            stream.write_all(b"0\r\n\r\n")
        }
    }
}

fn read_line(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).unwrap();
    String::from_utf8(line).unwrap().trim_end_matches("\r\n").to_owned()
}

fn read_head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let line = read_line(reader);
    let status =
        line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader);
        let Some((name, value)) = line.split_once(':') else {
            return (status.expect("a status line"), headers);
        };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
}

fn read_body(reader: &mut BufReader<TcpStream>, headers: &[(String, String)]) -> (Vec<u8>, bool) {
    let value =
        |name: &str| headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str());
    if value("Transfer-Encoding") == Some("chunked") {
        return read_chunks(reader);
    }
    let length: usize = value("Content-Length").expect("a length or chunks").parse().unwrap();
    let mut body = Vec::new();
    // A connection that is reset has been cut as well.
    let _ = reader.take(length as u64).read_to_end(&mut body);
    let cut = body.len() < length;
    (body, cut)
}

fn read_chunks(reader: &mut BufReader<TcpStream>) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader);
        let Ok(size) = u64::from_str_radix(&line, 16) else {
            return (body, true);
        };
        let had = body.len() as u64;
        let _ = reader.take(size).read_to_end(&mut body);
        if body.len() as u64 - had < size {
            return (body, true);
        }
        read_line(reader);
        if size == 0 {
            return (body, false);
        }
    }
}
