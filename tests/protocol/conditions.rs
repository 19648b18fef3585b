//! Conditional reads and writes.

use super::*;

const EARLIER: &str = "Sat, 31 Jan 2026 11:59:59 GMT";
const LATER: &str = "Sat, 31 Jan 2026 12:00:01 GMT";

/// A server with an object `k` and its tag.
fn with_object() -> (Server, String) {
    let server = Server::new();
    let etag = server.put("/b/k", b"body").header("ETag").unwrap().to_owned();
    (server, etag)
}

fn read(server: &Server, lines: &[(&str, &str)]) -> u16 {
    let send = |method| {
        let mut asked = server.request(method, "/b/k");
        for (name, value) in lines {
            asked = asked.header(name, value);
        }
        asked.send()
    };
    let (get, head) = (send("GET"), send("HEAD"));
    assert_eq!(get.status, head.status, "{lines:?}");
    if get.status == 412 {
        get.is_error(412, "PreconditionFailed");
    }
    assert!(head.body.is_empty());
    get.status
}

#[test]
fn if_match_passes_the_tag_with_or_without_quotes_and_fails_others() {
    let (server, etag) = with_object();
    for tag in [etag.as_str(), etag.trim_matches('"'), "*", &format!("\"x\", {etag}")] {
        assert_eq!(read(&server, &[("If-Match", tag)]), 200, "{tag}");
    }
    assert_eq!(read(&server, &[("If-Match", "\"x\"")]), 412);
}

#[test]
fn if_none_match_answers_304_with_the_tag_and_no_body() {
    let (server, etag) = with_object();
    for tag in [etag.as_str(), etag.trim_matches('"'), "*", &format!("W/{etag}")] {
        assert_eq!(read(&server, &[("If-None-Match", tag)]), 304, "{tag}");
    }
    assert_eq!(read(&server, &[("If-None-Match", "\"x\"")]), 200);
    let answer = server.request("GET", "/b/k").header("If-None-Match", &etag).send();
    assert_eq!((answer.header("ETag"), answer.body.len()), (Some(etag.as_str()), 0));
    assert_eq!(answer.header("Last-Modified"), Some(NOW_HTTP));
}

#[test]
fn not_modified_tells_a_cache_what_it_needs() {
    let server = Server::new();
    server
        .request("PUT", "/b/k")
        .header("Cache-Control", "max-age=60")
        .header("p-meta-a", "1")
        .body(b"x")
        .send();
    let answer = server.request("GET", "/b/k").header("If-None-Match", "*").send();
    assert_eq!((answer.status, answer.header("Cache-Control")), (304, Some("max-age=60")));
    assert_eq!((answer.header("Content-Type"), answer.header("p-meta-a")), (None, None));
}

#[test]
fn a_condition_that_cannot_be_read_is_not_ignored() {
    let (server, _) = with_object();
    for method in ["PUT", "DELETE"] {
        let asked = server.request(method, "/b/k").header("If-Match", b"\xff");
        asked.send().is_error(400, "InvalidArgument");
    }
    assert_eq!(server.request("GET", "/b/k").header("If-Match", b"\xff").send().status, 412);
    assert_eq!(server.get("/b/k").text(), "body");
}

#[test]
fn dates_are_held_against_the_last_modification() {
    let (server, _) = with_object();
    assert_eq!(read(&server, &[("If-Modified-Since", NOW_HTTP)]), 304);
    assert_eq!(read(&server, &[("If-Modified-Since", EARLIER)]), 200);
    assert_eq!(read(&server, &[("If-Unmodified-Since", NOW_HTTP)]), 200);
    assert_eq!(read(&server, &[("If-Unmodified-Since", EARLIER)]), 412);
}

#[test]
fn a_tag_that_passes_makes_the_date_beside_it_moot() {
    let (server, etag) = with_object();
    assert_eq!(read(&server, &[("If-Match", &etag), ("If-Unmodified-Since", EARLIER)]), 200);
    assert_eq!(read(&server, &[("If-None-Match", "\"x\""), ("If-Modified-Since", LATER)]), 200);
    assert_eq!(read(&server, &[("If-None-Match", &etag), ("If-Modified-Since", EARLIER)]), 304);
}

#[test]
fn conditions_go_before_ranges() {
    let (server, etag) = with_object();
    assert_eq!(read(&server, &[("If-None-Match", &etag), ("Range", "bytes=99-")]), 304);
    assert_eq!(read(&server, &[("If-Match", "x"), ("Range", "bytes=0-1")]), 412);
}

#[test]
fn a_key_is_put_only_where_it_is_absent() {
    let (server, _) = with_object();
    let put = |key: &str| {
        server.request("PUT", &format!("/b/{key}")).header("If-None-Match", "*").body(b"new").send()
    };
    put("k").is_error(412, "PreconditionFailed");
    assert_eq!(server.get("/b/k").text(), "body");
    assert_eq!(put("fresh").status, 200);
    put("fresh").is_error(412, "PreconditionFailed");
}

#[test]
fn a_current_marker_counts_as_absent() {
    let (server, etag) = with_object();
    server.set_versioning("Enabled");
    server.delete("/b/k");
    server.request("PUT", "/b/k").header("If-Match", &etag).body(b"new").send().is_error(404, "NoSuchKey");
    assert_eq!(server.request("PUT", "/b/k").header("If-None-Match", "*").body(b"new").send().status, 200);
}

#[test]
fn a_key_is_replaced_only_where_its_tag_matches() {
    let (server, etag) = with_object();
    let put = |key: &str, tag: &str| {
        server.request("PUT", &format!("/b/{key}")).header("If-Match", tag).body(b"new").send()
    };
    put("k", "\"x\"").is_error(412, "PreconditionFailed");
    put("absent", &etag).is_error(404, "NoSuchKey");
    assert_eq!(server.get("/b/k").text(), "body");
    assert_eq!(put("k", etag.trim_matches('"')).status, 200);
    assert_eq!(server.get("/b/k").text(), "new");
}

#[test]
fn other_conditions_on_a_put_are_not_served() {
    let (server, etag) = with_object();
    let put = || server.request("PUT", "/b/k").body(b"new");
    put().header("If-None-Match", &etag).send().is_error(501, "NotImplemented");
    put().header("If-None-Match", "*").header("If-Match", &etag).send().is_error(501, "NotImplemented");
    assert_eq!(server.get("/b/k").text(), "body");
}

#[test]
fn of_two_writers_who_race_for_a_key_exactly_one_wins() {
    let server = Server::new();
    let put =
        |body: &[u8]| server.request("PUT", "/b/k").header("If-None-Match", "*").body(body).send().status;
    let mut statuses = std::thread::scope(|scope| {
        let racers = [b"one", b"two"].map(|body| scope.spawn(move || put(body)));
        racers.map(|racer| racer.join().unwrap())
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412]);
}

#[test]
fn a_delete_honours_if_match() {
    let (server, etag) = with_object();
    let delete = |tag: &str| server.request("DELETE", "/b/k").header("If-Match", tag).send();
    delete("\"x\"").is_error(412, "PreconditionFailed");
    assert_eq!(server.get("/b/k").text(), "body");
    assert_eq!(delete(&etag).status, 204);
    server.get("/b/k").is_error(404, "NoSuchKey");
}
