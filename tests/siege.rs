//! A siege: all that makes a server hold memory, workers and connections for somebody, at once and
//! from several addresses, while others ask for small objects. Short here, with no judgement of
//! speed; `SILTSTONE_SIEGE_SECS=60` makes it a measurement, of the server that
//! `SILTSTONE_TEST_SERVER` names, and judges it by what the server has to hold:
//!
//! ```sh
//! SILTSTONE_SIEGE_SECS=60 SILTSTONE_TEST_SERVER=target/release/siltstone \
//!     cargo test --test siltstone -- siege --nocapture
//! ```

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use siltstone::base::digest::Md5;
use siltstone::base::{OsEntropy, Quota, SystemClock};
use siltstone::fs::OsFs;
use siltstone::store::{
    BucketConfigurationKind, DeleteCondition, Deletion, Selector, Store, StoreOptions, Versioning,
};

use crate::support::client::{Answer, Client};
use crate::support::process::{MANY_DESCRIPTORS, Running, alone, siltstone};
use crate::support::users::OPEN_TO_ALL;

const MIB: usize = 1 << 20;
/// What the server may take.
const CEILINGS: &[&str] = &["--memory-max", "64MiB", "--index-max", "64MiB"];
const CEILINGS_MIB: usize = 128;
/// What others ask for.
const SMALL: &[u8] = &[7; 4096];
const SHORT: Duration = Duration::from_secs(4);

/// The server, and the directory that goes with it.
struct Besieged {
    process: Running,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Besieged {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("users.toml"), OPEN_TO_ALL).unwrap();
        make_buckets(&dir.path().join("data"));
        let mut command = siltstone(dir.path());
        command
            .args(["--listen", "127.0.0.1:0", "--log-level", "error", "--dialect", "aws"])
            .args(["--trusted-proxies", "none", "--max-connections", "2000"])
            .args(["--data-dir", "data", "--users", "users.toml"])
            .args(CEILINGS);
        let process = Running::start(command);
        let address = process.address().parse().unwrap();
        Self { process, address, _dir: dir }
    }
}

/// Where and until when.
#[derive(Clone, Copy)]
struct Field {
    address: SocketAddr,
    end: Instant,
    large_mib: usize,
    crowd: usize,
}

impl Field {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn from(&self, last: u8) -> Client {
        Client::connect_from(last, self.address)
    }

    /// Repeats `attack`, each time on a connection from `127.0.0.{last}`, whatever becomes of it.
    fn repeat(&self, last: u8, attack: impl Fn(&mut Wire, usize) -> std::io::Result<()>) {
        let mut number = 0;
        while !self.is_over() {
            let mut wire = Wire::connect(self.from(last).socket);
            while !self.is_over() && attack(&mut wire, number).is_ok() {
                number += 1;
            }
            number += 1;
        }
    }
}

/// A connection of which nothing is expected: what fails is tried again.
struct Wire {
    socket: TcpStream,
}

impl Wire {
    fn connect(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        Self { socket }
    }

    fn send(&mut self, head: &str, lines: &str, body: &[u8]) -> std::io::Result<()> {
        let head = format!("{head} HTTP/1.1\r\nHost: siege\r\nContent-Length: {}\r\n{lines}\r\n", body.len());
        self.socket.write_all(&[head.as_bytes(), body].concat())
    }

    /// Sends a request and reads as much as comes at once: the answer, or its beginning.
    fn ask(&mut self, head: &str, lines: &str) -> std::io::Result<String> {
        self.send(head, lines, b"")?;
        let mut buffer = [0; 64 * 1024];
        match self.socket.read(&mut buffer)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => Ok(String::from_utf8_lossy(&buffer[..count]).into_owned()),
        }
    }

    /// The same on a connection that ends with the answer, which is read to its end.
    fn last(&mut self, head: &str, lines: &str) -> std::io::Result<String> {
        self.put_last(head, lines, b"")
    }

    fn put_last(&mut self, head: &str, lines: &str, body: &[u8]) -> std::io::Result<String> {
        self.send(head, &format!("{lines}Connection: close\r\n"), body)?;
        let mut all = Vec::new();
        let read = self.socket.read_to_end(&mut all);
        read.map(|_| String::from_utf8_lossy(&all).into_owned())
    }
}

/// Holds so many connections from `127.0.0.{last}` on which `sent` has been sent, and renews those
/// that the server closes.
fn hold(field: Field, last: u8, count: usize, sent: &str) {
    let mut held: Vec<Client> = Vec::new();
    while !field.is_over() {
        held.retain(|client| !has_ended(&client.socket));
        while held.len() < count && !field.is_over() {
            let mut client = field.from(last);
            if client.socket.write_all(sent.as_bytes()).is_ok() {
                held.push(client);
            }
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn has_ended(socket: &TcpStream) -> bool {
    socket.set_nonblocking(true).unwrap();
    // What a stalled client has been sent stays where it is.
    let peeked = socket.peek(&mut [0]);
    socket.set_nonblocking(false).unwrap();
    matches!(peeked, Ok(0)) || peeked.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
}

/// One kind of attack, from an address of its own, and how many threads it takes.
type Attack = (usize, fn(Field, usize));

/// Those on the memory: headers, copies, versions, uploads, and the listings of them.
fn attacks_on_memory() -> Vec<Attack> {
    vec![
        (2, |field, lane| {
            let much = "v".repeat(300);
            let names =
                ["Content-Type", "Cache-Control", "Content-Language", "Content-Disposition", "Expires"];
            let lines: String = names.iter().map(|name| format!("{name}: {much}\r\n")).collect();
            field.repeat(10, |wire, n| wire.ask(&format!("PUT /b/header-{lane}-{n}"), &lines).map(drop));
        }),
        (2, |field, lane| {
            field.repeat(11, |wire, n| {
                let copy = format!("/b/copy-{lane}-{}", n % 5000);
                wire.ask(&format!("PUT {copy}"), "x-amz-copy-source: /b/small\r\n")?;
                if n % 2 == 0 { wire.ask(&format!("DELETE {copy}"), "").map(drop) } else { Ok(()) }
            });
        }),
        (2, |field, _| field.repeat(12, |wire, _| wire.ask("PUT /versions/one", "").map(drop))),
        (2, |field, _| field.repeat(13, |wire, _| wire.last("GET /versions?versions", "").map(drop))),
        (2, |field, _| field.repeat(14, |wire, n| wire.ask(&format!("POST /b/u{n}?uploads"), "").map(drop))),
        (2, |field, _| field.repeat(15, |wire, _| wire.last("GET /b?uploads", "").map(drop))),
    ]
}

/// Those on commits and on the processor: deletions that look for the null version of a key with
/// very many others, conditions of a policy that long headers are compared with, and delete markers
/// for nothing against a quota.
fn attacks_on_commits() -> Vec<Attack> {
    vec![
        (2, |field, _| {
            let one = "<Object><Key>many</Key><VersionId>null</VersionId></Object>";
            let body = format!("<Delete>{}</Delete>", one.repeat(1_000));
            let md5 = BASE64.encode(Md5::of(body.as_bytes()));
            let lines = format!("Content-MD5: {md5}\r\n");
            field.repeat(16, |wire, _| wire.put_last("POST /many?delete", &lines, body.as_bytes()).map(drop));
        }),
        (2, |field, _| {
            field.repeat(17, |wire, _| wire.ask("DELETE /many/many?versionId=null", "").map(drop));
        }),
        (4, |field, _| {
            let lines = format!("User-Agent: {}\r\n", "ab".repeat(1_500));
            field.repeat(18, |wire, _| wire.ask("GET /patterns/none", &lines).map(drop));
        }),
        (2, |field, lane| {
            field.repeat(19, |wire, n| wire.ask(&format!("DELETE /limited/absent-{lane}-{n}"), "").map(drop));
        }),
    ]
}

/// Those on workers and connections: copies that read, some without a client, bodies that never
/// come, responses that are not taken, connections that do nothing.
fn attacks_on_workers() -> Vec<Attack> {
    vec![
        (8, |field, lane| {
            field.repeat(2, |wire, n| {
                let lines = "x-amz-copy-source: /b/large\r\nx-amz-checksum-algorithm: SHA256\r\n";
                wire.send(&format!("PUT /b/large-{lane}"), lines, b"")?;
                if n % 3 == 0 {
                    return Err(std::io::ErrorKind::Other.into());
                }
                wire.ask("GET /-/health", "").map(drop)
            });
        }),
        (8, |field, lane| {
            let mut wire = Wire::connect(field.from(3).socket);
            let made = wire.last(&format!("POST /b/parts-{lane}?uploads"), "").unwrap_or_default();
            let id = made.split("<UploadId>").nth(1).and_then(|rest| rest.split('<').next());
            let id = id.unwrap_or("none").to_owned();
            let lines = format!(
                "x-amz-copy-source: /b/large\r\nx-amz-copy-source-range: bytes=1-{}\r\n",
                field.large_mib * MIB - 1
            );
            let target = format!("PUT /b/parts-{lane}?partNumber=1&uploadId={id}");
            field.repeat(3, |wire, _| wire.last(&target, &lines).map(drop));
        }),
        (1, |field, _| {
            hold(
                field,
                4,
                64 * field.crowd,
                "PUT /b/x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
            );
        }),
        (1, |field, _| {
            hold(
                field,
                5,
                64 * field.crowd,
                "PUT /b/y HTTP/1.1\r\nHost: a\r\nContent-Length: 90000000\r\n\r\nabc",
            );
        }),
        (1, |field, _| hold(field, 6, 64 * field.crowd, "GET /b/large HTTP/1.1\r\nHost: a\r\n\r\n")),
        (1, |field, _| hold(field, 7, 800, "")),
        (1, |field, _| hold(field, 8, 400, "GET / HTTP/1.1\r\nHost:")),
    ]
}

/// What the others saw of one kind of request.
struct Seen {
    /// Milliseconds that answers took.
    took: Histogram<u64>,
    refused: usize,
}

impl Seen {
    fn p99(&self) -> u64 {
        self.took.value_at_quantile(0.99)
    }

    fn told(&self) -> String {
        let count = self.took.len();
        let refused = self.refused;
        let median = self.took.value_at_quantile(0.5);
        let p99 = self.p99();
        let max = self.took.max();
        format!("{count}, {refused} refused: median {median} ms, 99 of 100 within {p99} ms, at most {max} ms")
    }
}

/// Reads the small object all the time, on connections that are used again and on new ones.
fn read_small(field: Field) -> Seen {
    ask_all_the_time(field, 100, |client| {
        let answer = client.ask("/b/small");
        assert!(answer.status != 200 || answer.body == SMALL);
        answer
    })
}

/// Writes small objects all the time.
fn write_small(field: Field) -> Seen {
    ask_all_the_time(field, 102, |client| put(client, "/b/written", SMALL))
}

fn ask_all_the_time(field: Field, last: u8, ask: impl Fn(&mut Client) -> Answer) -> Seen {
    let mut seen = Seen { took: Histogram::new(3).unwrap(), refused: 0 };
    let mut kept: Option<Client> = None;
    while !field.is_over() {
        let begun = Instant::now();
        let mut client = kept.take().unwrap_or_else(|| field.from(last));
        let answer = ask(&mut client);
        seen.took.record(begun.elapsed().as_millis() as u64).unwrap();
        match answer.status {
            200 => {}
            503 => seen.refused += 1,
            other => panic!("{other}: {}", String::from_utf8_lossy(&answer.body)),
        }
        kept = (!answer.says_close() && !seen.took.len().is_multiple_of(4)).then_some(client);
        thread::sleep(Duration::from_millis(10));
    }
    seen
}

fn put(client: &mut Client, target: &str, body: &[u8]) -> Answer {
    client.send(format!("PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(body).answer()
}

/// Makes what anonymous clients cannot make.
fn make_buckets(dir: &Path) {
    let disk = OsFs::new(dir);
    disk.create_root().unwrap();
    let store =
        Store::open(Arc::new(disk), Arc::new(SystemClock), &OsEntropy, StoreOptions::default()).unwrap();
    store.create_bucket("b", "owner").unwrap();
    store.create_bucket("versions", "owner").unwrap();
    store.create_bucket("many", "owner").unwrap();
    store.set_versioning("many", Versioning::Enabled).unwrap();
    let marker =
        Deletion { key: "many".into(), which: Selector::Current, condition: DeleteCondition::default() };
    for _ in 0..20 {
        store.delete("many", vec![marker.clone(); 1_000]).unwrap();
    }
    store.create_bucket("patterns", "owner").unwrap();
    let policy = Some(costly_policy().into_bytes());
    store.set_bucket_configuration("patterns", BucketConfigurationKind::Policy, policy).unwrap();
    store.create_bucket("limited", "tenant").unwrap();
    store.set_versioning("limited", Versioning::Enabled).unwrap();
    let quota = Quota { index_bytes: Some(MIB as u64), ..Quota::default() };
    store.set_owner_quota("tenant", Some(&quota)).unwrap();
    store.close();
}

/// A policy with as many conditions on a header, and as many wildcards in each, as fit.
fn costly_policy() -> String {
    let pattern = "*a".repeat(31);
    let statements: Vec<_> = (0..80)
        .map(|nth| {
            format!(
                r#"{{"Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::patterns/*","Condition":{{"StringLike":{{"aws:UserAgent":"{pattern}{nth}"}}}}}}"#
            )
        })
        .collect();
    format!(r#"{{"Version":"2012-10-17","Statement":[{}]}}"#, statements.join(","))
}

/// What all of it is about.
fn prepare(address: SocketAddr, large_mib: usize) {
    let mut client = Client::connect_from(100, address);
    let versioned = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    for (target, body) in [("/versions?versioning", &versioned[..]), ("/b/small", SMALL)] {
        assert_eq!(put(&mut client, target, body).status, 200, "{target}");
    }
    assert_eq!(put(&mut client, "/b/large", &vec![1; large_mib * MIB]).status, 200);
}

#[test]
fn others_are_served_while_the_server_is_besieged() {
    alone("siege::others_are_served_while_the_server_is_besieged", MANY_DESCRIPTORS, || {
        let secs = std::env::var("SILTSTONE_SIEGE_SECS").ok().map(|secs| secs.parse().unwrap());
        let (time, large_mib, crowd) =
            secs.map_or((SHORT, 16, 1), |secs| (Duration::from_secs(secs), 256, 2));
        let mut server = Besieged::start();
        prepare(server.address, large_mib);
        let field = Field { address: server.address, end: Instant::now() + time, large_mib, crowd };
        let answered_large = AtomicUsize::new(0);
        let seen = thread::scope(|scope| {
            for (lanes, attack) in [attacks_on_memory(), attacks_on_commits(), attacks_on_workers()].concat()
            {
                for lane in 0..lanes {
                    scope.spawn(move || attack(field, lane));
                }
            }
            scope.spawn(|| {
                while !field.is_over() {
                    let answer = field.from(101).ask("/b/large");
                    answered_large.fetch_add(usize::from(answer.status == 200), Ordering::Relaxed);
                }
            });
            let writes = scope.spawn(move || write_small(field));
            (read_small(field), writes.join().unwrap())
        });
        let (reads, writes) = seen;
        assert!(server.process.is_running(), "the server has ended");
        let peak = server.process.peak_mib();
        let large = answered_large.into_inner();
        println!(
            "small GETs: {}; small PUTs: {}; {large} large GETs; {peak} MiB at the most",
            reads.told(),
            writes.told()
        );
        assert!(
            reads.took.len() as usize > reads.refused
                && writes.took.len() as usize > writes.refused
                && large > 0
        );
        let mut after = Client::connect_from(100, server.address);
        assert_eq!(after.ask("/b/small").body, SMALL);
        if secs.is_some() {
            assert!(reads.took.value_at_quantile(0.5) < 100 && peak < CEILINGS_MIB);
            assert!(reads.p99() < 1000 && writes.p99() < 1000 && reads.refused == 0);
        }
    });
}
