//! Requests that need more memory than each worker has, while others hold it.

use std::time::{Duration, Instant};

use base64::Engine as _;
use siltstone::base::Reservation;
use siltstone::base::digest::Md5;
use siltstone::s3::{ErrorCode, S3Error};

use super::*;

/// Has others hold all of the memory but for a few bytes.
fn crowd(server: &Server) -> Reservation {
    let usage = server.memory.usage();
    server.memory.reserve(usage.ceiling - usage.reserved - 1024).unwrap()
}

/// Waits until all requests have released their memory.
fn is_all_given_back(server: &Server) -> bool {
    let end = Instant::now() + Duration::from_secs(30);
    while server.memory.usage().reserved > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    server.memory.usage().reserved == 0
}

fn claimed<'s>(server: &'s Server, method: &str, target: &str, body: &[u8]) -> Asked<'s> {
    let digest = base64::engine::general_purpose::STANDARD.encode(Md5::of(body));
    let asked = server.request(method, target).body(body);
    if body.is_empty() { asked } else { asked.header("Content-MD5", digest) }
}

#[test]
fn costly_requests_are_refused_while_others_hold_the_memory_and_served_when_it_is_back() {
    let server = Server::new();
    server.put("/b/small", b"x");
    server.put("/b/large", &pattern(300 * 1024));
    let id = server.request("POST", "/b/parts?uploads").send().one("UploadId").unwrap();
    let upload = format!("/b/parts?uploadId={id}");
    let deletion = b"<Delete><Object><Key>absent</Key></Object></Delete>";
    let tags = b"<Tagging><TagSet/></Tagging>";
    let list = b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part></CompleteMultipartUpload>";
    let costly: [(&str, &str, &[u8], u16); 10] = [
        ("GET", "/", b"", 200),
        ("GET", "/b", b"", 200),
        ("GET", "/b?list-type=2", b"", 200),
        ("GET", "/b?versions", b"", 200),
        ("GET", "/b?uploads", b"", 200),
        ("GET", &upload, b"", 200),
        ("GET", "/b/large", b"", 200),
        ("POST", "/b?delete", deletion, 200),
        ("PUT", "/b/small?tagging", tags, 200),
        ("POST", &upload, list, 400),
    ];
    let others = crowd(&server);
    for (method, target, body, _) in costly {
        let answer = claimed(&server, method, target, &[body, &b" ".repeat(2048)[..]].concat()).send();
        answer.is_error(503, "SlowDown");
        assert_eq!(answer.header("Retry-After"), Some("1"), "{method} {target}");
    }
    // Ordinary requests and bodies on their way in reserve nothing.
    server.put("/b/other", &pattern(300 * 1024));
    assert_eq!((server.get("/b/small").text(), server.head("/b/large").status), ("x", 200));
    drop(others);
    for (method, target, body, status) in costly {
        let answer = claimed(&server, method, target, body).send();
        assert_eq!(answer.status, status, "{method} {target}: {answer:?}");
    }
    assert!(is_all_given_back(&server), "{:?}", server.memory.usage());
}

#[test]
fn an_object_of_many_pieces_needs_memory_for_their_list_unless_only_its_head_is_asked_for() {
    const PIECES: u32 = 65;
    let server = Server::new();
    server.put("/b/piece", &pattern(5 << 20));
    let id = server.request("POST", "/b/many?uploads").send().one("UploadId").unwrap();
    let parts: String = (1..=PIECES)
        .map(|number| {
            let target = format!("/b/many?partNumber={number}&uploadId={id}");
            let part = server.request("PUT", &target).header("p-copy-source", "b/piece").send();
            let tag = part.one("ETag").unwrap();
            format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
        })
        .collect();
    let list = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
    let made = server.request("POST", &format!("/b/many?uploadId={id}")).body(list.as_bytes()).send();
    assert_eq!(made.status, 200, "{made:?}");
    let asked: [(&str, &str, Option<&str>); 4] = [
        ("HEAD", "/b/many", None),
        ("GET", "/b/many?tagging", None),
        ("PUT", "/b/copy", Some("b/many")),
        ("GET", "/b/many?attributes", None),
    ];
    let ask = |(method, target, source): (&str, &str, Option<&str>)| {
        let asked = server.request(method, target).header("p-object-attributes", "ObjectSize");
        source.into_iter().fold(asked, |asked, source| asked.header("p-copy-source", source)).send().status
    };
    let others = crowd(&server);
    assert_eq!(asked.map(ask), [200, 503, 503, 503]);
    drop(others);
    assert_eq!(asked.map(ask), [200; 4]);
    assert!(is_all_given_back(&server), "{:?}", server.memory.usage());
}

#[test]
fn a_document_that_there_is_no_memory_for_is_refused_before_it_is_read() {
    let server = Server::new();
    let _others = crowd(&server);
    let body = b" ".repeat(100_000);
    let error = S3Error::new(ErrorCode::InternalError);
    let asked = claimed(&server, "POST", "/b?delete", &body).failing(error);
    asked.send().is_error(503, "SlowDown");
}

#[test]
fn a_full_index_refuses_puts_with_507_and_says_so_while_the_rest_goes_on() {
    const CEILING: u64 = 1 << 20;
    let server = Server::with_index_max(CEILING);
    server.put("/b/key", b"bytes");
    let put = |nth: u32| {
        let asked = server.request("PUT", &format!("/b/{nth}")).body(b"");
        asked.header("Expires", "e".repeat(2_000)).send()
    };
    let refused = (0..2_000).map(put).find(|answer| answer.status != 200).expect("there is a ceiling");
    refused.is_error(507, "InsufficientStorage");
    assert!(refused.one("Message").unwrap().contains("index"), "{refused:?}");
    server
        .request("PUT", "/b/copy")
        .header("p-copy-source", "b/key")
        .send()
        .is_error(507, "InsufficientStorage");
    server.request("POST", "/b/upload?uploads").send().is_error(507, "InsufficientStorage");
    server.request("PUT", "/another").send().is_error(507, "InsufficientStorage");
    let ready = server.get("/-/ready");
    assert_eq!(ready.status, 503);
    for told in ["--index-max", &CEILING.to_string(), &server.store.index_bytes().to_string()] {
        assert!(ready.text().contains(told), "{}", ready.text());
    }
    let metrics = server.get("/-/metrics");
    let line = format!("siltstone_memory_index_max_bytes {CEILING}");
    assert!(metrics.text().lines().any(|l| l == line), "{}", metrics.text());
    assert_eq!((server.get("/b/key").text(), server.get("/-/health").status), ("bytes", 200));
    (0..100).for_each(|nth| assert_eq!(server.request("DELETE", &format!("/b/{nth}")).send().status, 204));
    assert_eq!((put(3_000).status, server.get("/-/ready").status), (200, 200));
}

#[test]
fn the_metrics_tell_of_memory() {
    let server = Server::new();
    server.put("/b/key", b"x");
    let _others = crowd(&server);
    let page = server.get("/-/metrics");
    let value = |name: &str| {
        let line =
            page.text().lines().find_map(|line| line.strip_prefix(&format!("siltstone_memory_{name} ")));
        line.unwrap_or_else(|| panic!("{name} is missing")).parse::<u64>().unwrap()
    };
    let usage = server.memory.usage();
    assert_eq!((value("max_bytes"), value("used_bytes")), (usage.ceiling, usage.reserved));
    assert_eq!(value("refused_total"), 0);
    assert!((900..100_000).contains(&value("index_bytes")), "{}", value("index_bytes"));
}
