//! Clients that take and give a body as slowly as a server lets them.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How many there are: half of them read, half of them write.
pub(super) const COUNT: usize = 1000;
/// Each moves a little more than the least rate that a server asks for, which is 1 KiB a second.
const PIECE_BYTES: usize = 512;
const PAUSE: Duration = Duration::from_millis(250);

/// Slow clients, until their end.
pub(super) struct Clients {
    thread: JoinHandle<usize>,
    ended: Arc<AtomicBool>,
}

impl Clients {
    /// Has all of them begin.
    pub(super) fn start(address: SocketAddr) -> Self {
        let mut sockets: Vec<_> = (0..COUNT).map(|number| begin(address, number)).collect();
        let ended = Arc::new(AtomicBool::new(false));
        let is_ended = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            while !is_ended.load(Ordering::Relaxed) {
                thread::sleep(PAUSE);
                sockets.retain_mut(|(reads, socket)| crawl(*reads, socket));
            }
            sockets.len()
        });
        Self { thread, ended }
    }

    /// Ends them. Says how many the server had not given up.
    pub(super) fn end(self) -> usize {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

/// A client and whether it reads.
fn begin(address: SocketAddr, number: usize) -> (bool, TcpStream) {
    let mut socket = TcpStream::connect(address).expect("it listens");
    let reads = number.is_multiple_of(2);
    let head = match reads {
        true => format!("GET /shown/large HTTP/1.1\r\nHost: {address}\r\n\r\n"),
        false => {
            format!("PUT /shown/slow-{number} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 8000000\r\n\r\n")
        }
    };
    socket.write_all(head.as_bytes()).expect("there is room");
    socket.set_nonblocking(true).expect("it is open");
    (reads, socket)
}

/// Moves a little; whether there is any use in going on.
fn crawl(reads: bool, socket: &mut TcpStream) -> bool {
    let mut piece = [0; PIECE_BYTES];
    match if reads { socket.read(&mut piece) } else { socket.write(&piece) } {
        Ok(count) => count > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}
