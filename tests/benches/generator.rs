//! Requests from one thread to one server, on schedule, whether answers come or not.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use socket2::{Domain, Socket, Type};

/// Connections at a time: more than a server by default lets wait, so that it is the one who
/// refuses.
const CONNECTIONS_MAX: usize = 4000;
/// How long those may take that were asked last.
const REST_MAX: Duration = Duration::from_secs(60);
/// Requests are sent in bundles of what is due.
const TICK: Duration = Duration::from_micros(500);

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Offer {
    /// So many clients, each of which asks again when it is answered.
    Closed(usize),
    /// So many requests a second.
    Open(f64),
}

/// What came of it; latencies in microseconds, from the moment when a request was due.
pub(super) struct Tally {
    time: Duration,
    accepted: Histogram<u64>,
    refused: Histogram<u64>,
    /// Refusals without Retry-After, answers of other kinds, connections that broke, and requests
    /// for which there was none.
    faults: [u64; 4],
    /// Accepted in each second.
    seconds: Vec<u64>,
}

impl Tally {
    fn new(time: Duration) -> Self {
        let histogram = || Histogram::new(3).expect("three digits are a precision");
        let seconds = vec![0; time.as_secs() as usize];
        Self { time, accepted: histogram(), refused: histogram(), faults: [0; 4], seconds }
    }

    /// Requests accepted in a second.
    pub(super) fn accepted_a_second(&self) -> f64 {
        self.accepted.len() as f64 / self.time.as_secs_f64()
    }

    /// The median latency of what was accepted, in microseconds.
    pub(super) fn median(&self) -> f64 {
        self.accepted.value_at_quantile(0.5) as f64
    }

    fn note(&mut self, answer: &Answer, due: Instant, now: Instant, start: Instant) {
        let latency = (now - due).as_micros() as u64;
        match answer.status {
            200 => {
                self.accepted.record(latency).expect("it grows as needed");
                if let Some(second) = self.seconds.get_mut((now - start).as_secs() as usize) {
                    *second += 1;
                }
            }
            503 => {
                self.refused.record(latency).expect("it grows as needed");
                self.faults[0] += u64::from(!answer.says_when);
            }
            _ => self.faults[1] += 1,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |of: &Histogram<u64>| {
            let at = |quantile| of.value_at_quantile(quantile) as f64 / 1000.0;
            format!("p50 {:.2} p99 {:.2} max {:.1} ms", at(0.5), at(0.99), at(1.0))
        };
        write!(f, "accepted {:.0}/s ({})", self.accepted_a_second(), times(&self.accepted))?;
        if !self.refused.is_empty() {
            let rate = self.refused.len() as f64 / self.time.as_secs_f64();
            let least = self.seconds.iter().min();
            let most = self.seconds.iter().max();
            let [least, most] = [least, most].map(|count| count.copied().unwrap_or(0));
            write!(
                f,
                ", from {least} to {most} in a second; refused {rate:.0}/s ({})",
                times(&self.refused)
            )?;
        }
        match self.faults {
            [0, 0, 0, 0] => Ok(()),
            [hints, others, broken, unsent] => write!(
                f,
                "; {hints} refusals without Retry-After, {others} other answers, {broken} broken, {unsent} unsent"
            ),
        }
    }
}

/// What the head of an answer says.
struct Answer {
    status: u16,
    says_when: bool,
    closes: bool,
    /// Bytes of the body that are still to come.
    left: usize,
}

impl Answer {
    /// The answer, and how many of `bytes` belong to its head.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut lines = [httparse::EMPTY_HEADER; 32];
        let mut head = httparse::Response::new(&mut lines);
        let httparse::Status::Complete(len) = head.parse(bytes).expect("it speaks HTTP") else {
            return None;
        };
        let line = |name: &str| head.headers.iter().find(|line| line.name.eq_ignore_ascii_case(name));
        let length =
            line("content-length").and_then(|line| std::str::from_utf8(line.value).ok()?.parse().ok());
        let answer = Self {
            status: head.code.unwrap_or(0),
            says_when: line("retry-after").is_some(),
            closes: line("connection").is_some_and(|line| line.value == b"close"),
            left: length.expect("it says how long it is"),
        };
        Some((answer, len))
    }
}

/// A connection, and the request that it is about.
struct Line {
    socket: TcpStream,
    /// When the request was due, while it is not answered.
    due: Option<Instant>,
    sent: bool,
    head: Vec<u8>,
    answer: Option<Answer>,
}

struct Generator<'r> {
    address: SocketAddr,
    request: &'r [u8],
    epoll: OwnedFd,
    lines: Vec<Option<Line>>,
    /// Lines without a connection, and those that have one and no request.
    vacant: Vec<usize>,
    idle: Vec<usize>,
    /// A closed offer is asked again.
    again: bool,
    buffer: Vec<u8>,
    start: Instant,
    end: Instant,
    tally: Tally,
}

/// Puts that load on the server for `time`, and waits until what was asked has been answered.
pub(super) fn put_load(address: SocketAddr, request: &[u8], offer: Offer, time: Duration) -> Tally {
    let start = Instant::now();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("there are descriptors");
    let mut generator = Generator {
        address,
        request,
        epoll,
        lines: (0..CONNECTIONS_MAX).map(|_| None).collect(),
        vacant: (0..CONNECTIONS_MAX).rev().collect(),
        idle: Vec::new(),
        again: matches!(offer, Offer::Closed(_)),
        buffer: vec![0; 256 << 10],
        start,
        end: start + time,
        tally: Tally::new(time),
    };
    generator.run(offer);
    generator.tally
}

impl Generator<'_> {
    fn run(&mut self, offer: Offer) {
        let (mut due, period) = match offer {
            Offer::Closed(clients) => {
                (0..clients).for_each(|_| self.ask(self.start));
                (self.end, Duration::ZERO)
            }
            Offer::Open(rate) => (self.start, Duration::from_secs_f64(1.0 / rate)),
        };
        loop {
            let now = Instant::now();
            if now >= self.end {
                break;
            }
            while due <= now {
                self.ask(due);
                due += period;
            }
            self.turn(TICK);
        }
        self.again = false;
        let rest = Instant::now() + REST_MAX;
        while self.idle.len() + self.vacant.len() < CONNECTIONS_MAX && Instant::now() < rest {
            self.turn(TICK);
        }
    }

    /// Sends a request on a connection that has none, or on a new one.
    fn ask(&mut self, due: Instant) {
        let at = match self.idle.pop() {
            Some(at) => at,
            None => match self.connect() {
                Some(at) => at,
                None => return self.tally.faults[3] += 1,
            },
        };
        let line = self.lines[at].as_mut().expect("it is neither vacant nor closed");
        line.due = Some(due);
        line.sent = false;
        self.advance(at);
    }

    fn connect(&mut self) -> Option<usize> {
        self.vacant.last()?;
        let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, None).ok()?;
        socket.set_nonblocking(true).ok()?;
        match socket.connect(&self.address.into()) {
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
                return None;
            }
            _ => {}
        }
        let at = self.vacant.pop()?;
        let socket = TcpStream::from(socket);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        epoll::add(&self.epoll, &socket, EventData::new_u64(at as u64), flags).ok()?;
        self.lines[at] = Some(Line { socket, due: None, sent: false, head: Vec::new(), answer: None });
        Some(at)
    }

    fn turn(&mut self, timeout: Duration) {
        let mut room = [const { MaybeUninit::uninit() }; 256];
        let timeout = Timespec::try_from(timeout).expect("it is short");
        let (events, _) = epoll::wait(&self.epoll, &mut room, Some(&timeout)).expect("the set is open");
        for event in events {
            self.advance(event.data.u64() as usize);
        }
    }

    /// Goes on with a line as far as it goes.
    fn advance(&mut self, at: usize) {
        let Some(line) = self.lines[at].as_mut() else {
            return;
        };
        match line.advance(self.request, &mut self.buffer) {
            Ok(None) => {}
            Ok(Some(answer)) => self.conclude(at, &answer),
            Err(error) if is_wait(&error) => {}
            Err(_) => self.hang_up(at),
        }
    }

    fn conclude(&mut self, at: usize, answer: &Answer) {
        let now = Instant::now();
        let line = self.lines[at].as_mut().expect("it was just read from");
        if let Some(due) = line.due.take().filter(|_| now < self.end) {
            self.tally.note(answer, due, now, self.start);
        }
        match answer.closes {
            true => self.hang_up(at),
            false => self.idle.push(at),
        }
        if self.again {
            self.ask(now);
        }
    }

    fn hang_up(&mut self, at: usize) {
        if let Some(line) = self.lines[at].take() {
            self.idle.retain(|idle| *idle != at);
            self.vacant.push(at);
            self.tally.faults[2] += u64::from(line.due.is_some());
        }
    }
}

impl Line {
    /// Sends what is to be sent and reads what has come; the answer once it is whole.
    fn advance(&mut self, request: &[u8], buffer: &mut [u8]) -> io::Result<Option<Answer>> {
        if self.due.is_some() && !self.sent {
            match self.socket.write(request) {
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(None),
                count => assert_eq!(count?, request.len(), "an empty socket has room for a request"),
            }
            self.sent = true;
        }
        loop {
            let count = self.socket.read(buffer)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if let Some(answer) = self.take(&buffer[..count]) {
                return Ok(Some(answer));
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Option<Answer> {
        let mut answer = match self.answer.take() {
            Some(answer) => Answer { left: answer.left - bytes.len(), ..answer },
            None => {
                self.head.extend_from_slice(bytes);
                let (answer, len) = Answer::parse(&self.head)?;
                let body = self.head.len() - len;
                self.head.clear();
                Answer { left: answer.left - body, ..answer }
            }
        };
        if answer.left > 0 {
            self.answer = Some(answer);
            return None;
        }
        answer.left = 0;
        Some(answer)
    }
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
