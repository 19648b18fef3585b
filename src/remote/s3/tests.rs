//! Tests of the client against a server that answers by a script.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;
use crate::base::digest::{Md5, to_hex};
use crate::client::{CertificateTrust, ServerSettings};
use crate::remote::RequestFigures;

const LONG: Duration = Duration::from_secs(60);

/// An answer: status, header lines, body. Without a status the connection is closed in its place.
type Script = (u16, String, &'static str);

/// A server that answers one request after another. It closes the connection after an answer whose
/// lines say so.
struct ScriptedServer {
    port: u16,
    /// The heads and bodies that were received.
    received: Arc<Mutex<Vec<String>>>,
}

impl ScriptedServer {
    fn start(script: impl IntoIterator<Item = Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut script = script.into_iter().collect::<Vec<_>>().into_iter();
        let requests = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming() {
                serve(&stream.unwrap(), &mut script, &requests);
            }
        });
        Self { port, received }
    }

    fn remote(&self) -> S3Remote {
        remote_at(self.port)
    }

    fn requests(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }

    /// The first lines of the requests, without the version.
    fn lines(&self) -> Vec<String> {
        let line = |request: &String| request.split(" HTTP").next().unwrap().to_owned();
        self.requests().iter().map(line).collect()
    }
}

fn remote_at(port: u16) -> S3Remote {
    let settings = RemoteSettings {
        server: ServerSettings {
            endpoint: format!("http://127.0.0.1:{port}"),
            region: "us-east-1".into(),
            access_key: "AK".into(),
            secret_key: "secret".into(),
            trust: CertificateTrust::System,
        },
        bucket: "cold".into(),
        prefix: "p".into(),
        upload_rate: 0,
        download_rate: 0,
        encryption: None,
    };
    S3Remote::new(&settings).unwrap()
}

fn serve(stream: &TcpStream, script: &mut impl Iterator<Item = Script>, requests: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        let is_head = head.starts_with("HEAD");
        requests.lock().unwrap().push(head + &String::from_utf8_lossy(&body));
        let Some((status, lines, body)) = script.next().filter(|(status, ..)| *status > 0) else { return };
        let length = match lines.contains("Content-Length") {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let body = if is_head { "" } else { body };
        let mut writer = stream;
        write!(writer, "HTTP/1.1 {status} So\r\n{lines}{length}\r\n{body}").unwrap();
        if lines.contains("close") {
            return;
        }
    }
}

fn plain(status: u16) -> Script {
    (status, String::new(), "")
}

fn refused(status: u16, document: &'static str) -> Script {
    (status, String::new(), document)
}

fn with_nonce(nonce: &str) -> Script {
    (200, format!("x-amz-meta-siltstone-nonce: {nonce}\r\nContent-Length: 5\r\n"), "")
}

fn ranged(range: &str, body: &'static str) -> Script {
    (206, format!("Content-Range: bytes {range}\r\n"), body)
}

fn tag_of(bytes: &[u8]) -> String {
    format!("ETag: \"{}\"\r\n", to_hex(&Md5::of(bytes)))
}

/// A body that cannot be read.
struct TornBody;

impl crate::remote::Body for TornBody {
    fn length(&self) -> u64 {
        5
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> std::io::Result<()> {
        Err(std::io::Error::other("torn"))
    }
}

fn put(remote: &S3Remote, create_only: bool) -> Result<RemoteObject, RemoteError> {
    remote.put(&NewObject { name: "claim/1", body: &b"bytes".as_slice(), nonce: "mine", create_only }, LONG)
}

#[test]
fn a_put_is_signed_with_its_digests_nonce_and_condition() {
    let server = ScriptedServer::start([(200, tag_of(b"bytes"), ""), plain(200)]);
    let remote = server.remote();
    let stored = put(&remote, true).unwrap();
    assert_eq!(
        (stored.length, stored.nonce.as_deref(), stored.md5),
        (5, Some("mine"), Some(Md5::of(b"bytes")))
    );
    assert_eq!(put(&remote, false).unwrap().md5, None, "no tag, no MD5");
    let requests = server.requests();
    for line in [
        "PUT /cold/p/claim/1 HTTP/1.1",
        "If-None-Match: *",
        "Content-MD5: SzpiGLs+OnMD6KFxpg/Pkg==",
        "x-amz-meta-siltstone-nonce: mine",
        "x-amz-content-sha256: 277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9",
    ] {
        assert!(requests[0].contains(line), "{line}: {}", requests[0]);
    }
    assert!(
        requests[0].contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-meta-siltstone-nonce")
    );
    assert!(requests[0].ends_with("\r\n\r\nbytes") && !requests[1].contains("If-None-Match"));
}

#[test]
fn busy_answers_and_lost_connections_are_repeated_with_the_same_bytes() {
    let closed = (0, String::new(), "");
    let conflict = refused(409, "<Error><Code>ConditionalRequestConflict</Code><Message>m</Message></Error>");
    let late = refused(400, "<Error><Code>RequestTimeout</Code><Message>m</Message></Error>");
    let server = ScriptedServer::start([plain(503), closed, conflict, late, plain(200)]);
    put(&server.remote(), true).unwrap();
    let requests = server.requests();
    assert_eq!(
        requests.len(),
        5 + usize::from(requests.len() == 6),
        "a kept connection may be tried once more"
    );
    assert!(requests.iter().all(|request| request.ends_with("\r\n\r\nbytes")));
}

#[test]
fn a_taken_name_is_an_own_success_by_its_nonce() {
    let server = ScriptedServer::start([
        plain(412),
        with_nonce("mine"),
        plain(412),
        with_nonce("other"),
        plain(412),
        plain(404),
    ]);
    let remote = server.remote();
    assert_eq!(put(&remote, true).unwrap().nonce.as_deref(), Some("mine"));
    assert!(matches!(put(&remote, true), Err(RemoteError::Exists)));
    assert!(matches!(put(&remote, true), Err(RemoteError::Unavailable(_))), "taken, and free again");
    assert_eq!(server.lines()[..2], ["PUT /cold/p/claim/1", "HEAD /cold/p/claim/1"]);
}

#[test]
fn refusals_are_not_repeated_and_say_why() {
    let denied = "<Error><Code>AccessDenied</Code><Message>not yours</Message></Error>";
    let quota = "<Error><Code>QuotaExceeded</Code><Message>m</Message></Error>";
    let bucket = "<Error><Code>NoSuchBucket</Code><Message>m</Message></Error>";
    let server =
        ScriptedServer::start([refused(403, denied), refused(403, quota), plain(507), refused(404, bucket)]);
    let remote = server.remote();
    let why = put(&remote, false).unwrap_err();
    assert!(
        matches!(&why, RemoteError::Refused(text) if text.contains("AccessDenied: not yours")),
        "{why:?}"
    );
    assert!(matches!(put(&remote, false), Err(RemoteError::Full(_))));
    assert!(matches!(put(&remote, false), Err(RemoteError::Full(_))));
    assert!(
        matches!(remote.delete("a", LONG), Err(RemoteError::Refused(_))),
        "a missing bucket is no missing object"
    );
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn other_bytes_on_the_remote_are_told_unless_the_tag_is_no_md5() {
    let of_other = tag_of(b"other");
    let encrypted = format!("{of_other}x-amz-server-side-encryption: aws:kms\r\n");
    let server = ScriptedServer::start([(200, of_other, ""), (200, encrypted, "")]);
    let remote = server.remote();
    assert!(matches!(put(&remote, false), Err(RemoteError::Wrong(_))));
    assert_eq!(put(&remote, false).unwrap().md5, None);
}

#[test]
fn ranges_are_verified() {
    let server = ScriptedServer::start([
        ranged("1-3/5", "yte"),
        ranged("0-2/5", "byt"),
        ranged("1-3/5", "yt"),
        ranged("1-3/5", "ytes"),
        (200, "Connection: close\r\n".into(), "bytes"),
        plain(416),
        plain(404),
    ]);
    let remote = server.remote();
    assert_eq!(remote.get("a", 1..4, LONG).unwrap(), b"yte");
    assert!(server.requests()[0].contains("\r\nRange: bytes=1-3\r\n"));
    for what in ["another range", "too few bytes", "too many bytes", "the whole object", "beyond the end"] {
        assert!(matches!(remote.get("a", 1..4, LONG), Err(RemoteError::Wrong(_))), "{what}");
    }
    assert!(matches!(remote.get("a", 1..4, LONG), Err(RemoteError::Missing)));
}

#[test]
fn a_part_ends_where_the_object_does_and_tells_its_length() {
    let server = ScriptedServer::start([
        ranged("3-4/5", "es"),
        ranged("1-3/5", "yte"),
        ranged("3-4/*", "es"),
        ranged("3-5/5", "esx"),
        ranged("3-4/18446744073709551615", "es"),
        ranged("4-3/5", ""),
        ranged("3-18446744073709551615/5", "es"),
        ranged("3-4/5", "es"),
    ]);
    let remote = server.remote();
    let part = |bytes: &[u8]| ObjectPart { bytes: bytes.to_vec(), object_length: 5 };
    assert_eq!(remote.get_part("a", 3..9, LONG).unwrap(), part(b"es"));
    assert_eq!(remote.get_part("a", 1..4, LONG).unwrap(), part(b"yte"));
    for what in ["no length", "beyond the end", "cut before the end", "backwards", "the last number"] {
        assert!(matches!(remote.get_part("a", 3..9, LONG), Err(RemoteError::Wrong(_))), "{what}");
    }
    assert!(matches!(remote.get("a", 3..9, LONG), Err(RemoteError::Wrong(_))), "a part is not the range");
}

#[test]
fn requests_are_counted_by_kind_with_each_try_failures_and_bytes() {
    let server = ScriptedServer::start([
        plain(503),
        plain(200),
        plain(404),
        ranged("0-4/5", "bytes"),
        refused(403, "<Error><Code>AccessDenied</Code><Message>m</Message></Error>"),
    ]);
    let remote = server.remote();
    put(&remote, false).unwrap();
    assert_eq!(remote.head("a", LONG).unwrap(), None);
    remote.get("a", 0..5, LONG).unwrap();
    assert!(remote.list("", "", LONG).is_err());
    let counted = RemoteCall::ALL.map(|call| {
        let RequestFigures { requests, failures, sent_bytes, received_bytes } =
            remote.requests()[call as usize];
        (call.name(), requests, failures, sent_bytes, received_bytes)
    });
    assert_eq!(
        counted,
        [
            ("put", 2, 1, 10, 0),
            ("head", 1, 0, 0, 0),
            ("get", 1, 0, 0, 5),
            ("delete", 0, 0, 0, 0),
            ("list", 1, 1, 0, 0)
        ]
    );
}

#[test]
fn a_cut_body_is_fetched_again() {
    let cut =
        (206, "Content-Range: bytes 0-4/5\r\nContent-Length: 5\r\nConnection: close\r\n".to_owned(), "by");
    let server = ScriptedServer::start([cut, ranged("0-4/5", "bytes")]);
    assert_eq!(server.remote().get("a", 0..5, LONG).unwrap(), b"bytes");
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_stream_is_read_while_it_comes_and_its_connection_serves_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = remote_at(listener.local_addr().unwrap().port());
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let server = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let head = |range: &str| {
            format!("HTTP/1.1 206 So\r\nContent-Length: 5\r\nContent-Range: bytes {range}/100\r\n\r\n")
        };
        let mut request = BufReader::new(stream.try_clone().unwrap());
        for (range, first, second) in [("10-14", "ab", "cde"), ("20-24", "fg", "hij")] {
            assert!(request.by_ref().lines().map_while(Result::ok).any(|line| line.is_empty()));
            write!(stream, "{}{first}", head(range)).unwrap();
            waits.recv().unwrap();
            write!(stream, "{second}").unwrap();
        }
    });
    for (start, text) in [(10, b"abcde"), (20, b"fghij")] {
        let mut stream = remote.open_stream("a", start..start + 5, LONG).unwrap();
        assert_eq!(stream.object_length, 100);
        let mut bytes = [0; 5];
        stream.bytes.read(&mut bytes[..2], LONG).unwrap();
        assert_eq!(bytes[..2], text[..2], "before the rest was sent");
        go_on.send(()).unwrap();
        stream.bytes.read(&mut bytes[2..], LONG).unwrap();
        assert_eq!(&bytes, text);
        assert!(stream.bytes.read(&mut [0], LONG).is_err());
    }
    server.join().unwrap();
    let got = remote.requests()[RemoteCall::Get as usize];
    assert_eq!((got.requests, got.received_bytes, got.failures), (2, 10, 0));
}

#[test]
fn what_comes_on_an_idle_connection_is_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = remote_at(listener.local_addr().unwrap().port());
    let server = thread::spawn(move || {
        let mut idle = Vec::new();
        // The refusal of a server that ends an idle connection follows the first answer at once.
        for answer in ["HTTP/1.1 404 No\r\n\r\nHTTP/1.1 403 Too Late\r\n\r\n", "HTTP/1.1 404 No\r\n\r\n"] {
            let mut stream = listener.accept().unwrap().0;
            let request = BufReader::new(stream.try_clone().unwrap());
            assert!(request.lines().map_while(Result::ok).any(|line| line.is_empty()));
            write!(stream, "{answer}").unwrap();
            idle.push(stream);
        }
    });
    for _ in 0..2 {
        assert_eq!(remote.head("a", LONG).unwrap(), None);
    }
    server.join().unwrap();
}

#[test]
fn a_stream_that_ends_early_is_an_error_and_a_failure() {
    let lines = "Content-Range: bytes 0-9/10\r\nContent-Length: 10\r\nConnection: close\r\n".to_owned();
    let server = ScriptedServer::start([(206, lines, "abc"), ranged("0-2/10", "abc"), refused(404, "")]);
    let remote = server.remote();
    let mut stream = remote.open_stream("a", 0..10, LONG).unwrap();
    stream.bytes.read(&mut [0; 3], LONG).unwrap();
    let cut = stream.bytes.read(&mut [0; 3], LONG);
    assert!(matches!(cut, Err(RemoteError::Unavailable(_))), "{cut:?}");
    assert!(matches!(remote.open_stream("a", 0..10, LONG), Err(RemoteError::Wrong(_))));
    assert!(matches!(remote.open_stream("a", 0..10, LONG), Err(RemoteError::Missing)));
    let got = remote.requests()[RemoteCall::Get as usize];
    assert_eq!((got.requests, got.received_bytes, got.failures), (3, 3, 1));
}

#[test]
fn attributes_listings_and_deletions_are_read() {
    let page = "<ListBucketResult><Contents><Key>p/a/1</Key><Size>7</Size><ETag>&quot;x-2&quot;</ETag></Contents>\
        <Contents><Key>p/a/2</Key><Size>8</Size><ETag>\"00112233445566778899aabbccddeeff\"</ETag></Contents></ListBucketResult>";
    let gone = refused(404, "<Error><Code>NoSuchKey</Code><Message>m</Message></Error>");
    let server = ScriptedServer::start([
        with_nonce("n"),
        plain(404),
        (200, String::new(), page),
        plain(204),
        gone,
        plain(200),
    ]);
    let remote = server.remote();
    let found = remote.head("a", LONG).unwrap().unwrap();
    assert_eq!((found.length, found.nonce.as_deref()), (5, Some("n")));
    assert_eq!(remote.head("a", LONG).unwrap(), None);
    let listed = remote.list("a/", "a/0", LONG).unwrap();
    let shown: Vec<_> =
        listed.iter().map(|object| (object.name.as_str(), object.length, object.md5.is_some())).collect();
    assert_eq!(shown, [("a/1", 7, false), ("a/2", 8, true)]);
    assert_eq!(
        server.lines()[2],
        "GET /cold?list-type=2&max-keys=1000&prefix=p%2Fa%2F&start-after=p%2Fa%2F0"
    );
    remote.delete("a", LONG).unwrap();
    remote.delete("a", LONG).unwrap();
    assert!(matches!(remote.list("", "", LONG), Err(RemoteError::Wrong(_))), "no listing");
    assert!(matches!(remote.head("a\r\nb", LONG), Err(RemoteError::Refused(_))));
}

#[test]
fn a_remote_that_is_not_reached_is_left_alone_after_some_calls() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let remote = remote_at(port);
    let calls: Vec<_> = (0..4).map(|_| remote.head("a", LONG).unwrap_err().to_string()).collect();
    assert!(calls[0].contains("127.0.0.1") && calls[0].contains("6 tries"), "{calls:?}");
    assert!(calls[3].contains("not tried"), "{calls:?}");
    let object = NewObject { name: "a", body: &TornBody, nonce: "n", create_only: false };
    let put = remote.put(&object, LONG);
    assert!(matches!(put, Err(RemoteError::Unavailable(_))), "the body is not read: {put:?}");
}

#[test]
fn a_silent_remote_holds_a_call_no_longer_than_it_may() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = remote_at(listener.local_addr().unwrap().port());
    let began = Instant::now();
    let why = remote.head("a", Duration::from_millis(50)).unwrap_err();
    assert!(matches!(why, RemoteError::Unavailable(_)), "{why:?}");
    // Without the deadline of the call, the longest silence of a try ends it.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn an_unreadable_own_copy_is_no_failure_of_the_remote() {
    let server = ScriptedServer::start([]);
    let object = NewObject { name: "a", body: &TornBody, nonce: "n", create_only: false };
    assert!(matches!(server.remote().put(&object, LONG), Err(RemoteError::Body(_))));
}

/// A body that counts the bytes that are read of it.
struct CountedBody(AtomicU64);

impl crate::remote::Body for CountedBody {
    fn length(&self) -> u64 {
        5
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.0.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        b"bytes".as_slice().read_at(offset, buffer)
    }
}

#[test]
fn a_body_is_read_for_its_digests_once_and_once_to_be_sent() {
    let tag = tag_of(b"bytes");
    let nonce = |tag: &str| with_nonce("n").1 + tag;
    for (told, equal) in [(tag.clone(), true), (tag_of(b"other"), false)] {
        let server = ScriptedServer::start([(200, tag.clone(), ""), (200, nonce(&told), "")]);
        let body = CountedBody(AtomicU64::new(0));
        let object = NewObject { name: "a", body: &body, nonce: "n", create_only: false };
        let compared = server.remote().put_and_compare(&object, LONG);
        assert_eq!(matches!(compared, Ok(Comparison::Equal)), equal, "{compared:?}");
        assert_eq!(body.0.into_inner(), 10);
        assert_eq!(server.lines(), ["PUT /cold/p/a", "HEAD /cold/p/a"]);
    }
}
