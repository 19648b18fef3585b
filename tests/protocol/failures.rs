//! The responses when the disk is full, fails or has lost data.

use siltstone::fs::Fs as _;
use siltstone::s3::{ErrorCode, Handler as _, S3Error};

use super::*;

fn segment(server: &Server) -> (String, u64) {
    let files = server.fs.files();
    files
        .into_iter()
        .find(|(path, _)| path.contains("segment") || path.contains("seg"))
        .expect("there is a segment")
}

/// Damages every copy of `needle` in the segment.
pub(super) fn damage(server: &Server, needle: &[u8]) {
    let (path, _) = segment(server);
    let bytes = server.fs.contents(&path).unwrap();
    let places = bytes.windows(needle.len()).enumerate().filter(|(_, window)| *window == needle);
    let places: Vec<_> = places.map(|(at, _)| at as u64).collect();
    assert!(!places.is_empty());
    for place in places {
        server.fs.damage(&path, place, 0x10).unwrap();
    }
}

#[test]
fn damage_in_a_small_object_is_an_error_and_not_a_wrong_answer() {
    let server = Server::new();
    server.put("/b/k", b"precious bytes");
    damage(&server, b"precious bytes");
    let get = server.get("/b/k");
    get.is_error(500, "InternalError");
    assert!(!get.text().contains("segment") && !get.text().contains("offset"), "{get:?}");
}

#[test]
fn damage_at_the_start_of_a_large_object_is_an_error_and_further_on_a_cut() {
    let mut body = pattern(1_000_000);
    body[..5].copy_from_slice(b"first");
    body[900_000..900_004].copy_from_slice(b"last");
    let server = Server::new();
    server.put("/b/k", &body);
    damage(&server, b"last");
    let get = server.get("/b/k");
    assert!(get.status == 200 && get.cut && get.body.len() < body.len() && body.starts_with(&get.body));
    let range = server.request("GET", "/b/k").header("Range", "bytes=0-1000").send();
    assert_eq!((range.status, range.body.as_slice()), (206, &body[..=1000]));
    damage(&server, b"first");
    server.get("/b/k").is_error(500, "InternalError");
}

#[test]
fn an_unreadable_object_is_an_error_or_a_cut_and_counted_in_the_metrics() {
    let server = Server::new();
    server.put("/b/small", b"precious bytes");
    server.put("/b/large", &pattern(1_000_000));
    let place = |needle: &[u8]| {
        let (path, _) = segment(&server);
        let bytes = server.fs.contents(&path).unwrap();
        let at = bytes.windows(needle.len()).position(|window| window == needle);
        at.map(|at| (path, at as u64)).expect("it is in the segment of small objects")
    };
    let (path, at) = place(b"precious bytes");
    server.fs.make_unreadable(&path, at..at + 1).unwrap();
    let get = server.get("/b/small");
    get.is_error(500, "InternalError");
    assert!(!get.text().contains("seg") && !get.text().contains("input/output"), "{get:?}");
    server.head("/b/small").is_bare(200);

    let paths: Vec<_> =
        server.fs.files().into_iter().filter(|(file, len)| file.contains("seg") && *len > 900_000).collect();
    assert_eq!(paths.len(), 1, "the large object has a segment of its own");
    server.fs.make_unreadable(&paths[0].0, 800_000..800_512).unwrap();
    let get = server.get("/b/large");
    assert!(
        get.status == 200 && get.cut && !get.body.is_empty() && pattern(1_000_000).starts_with(&get.body)
    );
    let range = server.request("GET", "/b/large").header("Range", "bytes=0-1000").send();
    assert_eq!((range.status, range.body.len()), (206, 1001));
    let metrics = server.request("GET", "/-/metrics").anonymous().send();
    let damaged = metrics
        .text()
        .lines()
        .find(|line| line.starts_with("siltstone_store_damaged_places"))
        .map(str::to_owned);
    assert!(damaged.as_deref().is_some_and(|line| !line.ends_with(" 0")), "{}", metrics.text());
}

#[test]
fn a_full_disk_refuses_puts_and_goes_on_with_the_rest() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let used: u64 = server.fs.files().iter().map(|(_, len)| len).sum();
    server.fs.set_capacity(used);
    let answer = server.request("PUT", "/b/big").body(&pattern(5_000_000)).send();
    answer.is_error(507, "InsufficientStorage");
    assert_eq!(server.get("/b/k").text(), "x");
}

#[test]
fn after_a_failed_sync_writes_are_refused_and_reads_go_on() {
    let server = Server::new();
    server.put("/b/k", b"x");
    server.fs.fail_sync_at(server.fs.syncs() + 1);
    let put = || server.request("PUT", "/b/k2").body(b"y").send();
    put().is_error(503, "ServiceUnavailable");
    let answer = put();
    answer.is_error(503, "ServiceUnavailable");
    assert_eq!(answer.reads, 0);
    server.delete("/b/k").is_error(503, "ServiceUnavailable");
    assert_eq!(server.get("/b/k").text(), "x");
    let ready = server.request("GET", "/-/ready").anonymous().send();
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("a sync failed") && ready.text().contains("restart"), "{ready:?}");
    assert!(!ready.text().contains("seg") && !ready.text().contains('/'), "{ready:?}");
}

#[test]
fn a_server_on_a_full_disk_is_not_ready_until_a_put_would_succeed() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let ready = || server.request("GET", "/-/ready").anonymous().send();
    assert_eq!(ready().status, 200);
    let space = server.fs.space().unwrap();
    server.fs.set_capacity(space.total_bytes - space.free_bytes);
    let refused = ready();
    assert!(refused.status == 503 && refused.text().contains("disk is full"), "{refused:?}");
    server.request("PUT", "/b/big").body(&pattern(5_000_000)).send().is_error(507, "InsufficientStorage");
    assert_eq!(server.request("GET", "/-/health").anonymous().send().status, 200);
    server.fs.set_capacity(space.total_bytes);
    assert_eq!((ready().status, server.put("/b/big", &pattern(5_000_000)).status), (200, 200));
}

#[test]
fn an_overloaded_server_says_when_to_come_back() {
    let answer = Answer::read(Server::new().service.overloaded(None), 0);
    answer.is_error(503, "SlowDown");
    assert_eq!(answer.header("Retry-After"), Some("1"));
}

#[test]
fn bytes_that_are_no_request_get_an_error_in_its_full_form() {
    let error = S3Error::new(ErrorCode::RequestHeaderSectionTooLarge);
    Answer::read(Server::new().service.refused(error), 0).is_error(400, "RequestHeaderSectionTooLarge");
}
