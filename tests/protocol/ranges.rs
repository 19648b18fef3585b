//! Ranges of objects.

use super::*;

fn range(server: &Server, key: &str, range: &str) -> Answer {
    server.request("GET", &format!("/b/{key}")).header("Range", range).send()
}

#[test]
fn every_form_of_a_range_is_served() {
    let server = Server::new();
    server.put("/b/k", b"0123456789");
    for (asked, bytes, shown) in [
        ("bytes=0-0", "0", "bytes 0-0/10"),
        ("bytes=2-5", "2345", "bytes 2-5/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-3", "789", "bytes 7-9/10"),
        ("bytes=5-99", "56789", "bytes 5-9/10"),
        ("bytes=-99", "0123456789", "bytes 0-9/10"),
    ] {
        let answer = range(&server, "k", asked);
        assert_eq!((answer.status, answer.text()), (206, bytes), "{asked}");
        assert_eq!(answer.header("Content-Range"), Some(shown));
        assert_eq!(answer.header("Accept-Ranges"), Some("bytes"));
    }
}

#[test]
fn a_head_of_a_range_differs_from_the_head_of_the_whole_in_its_length_alone() {
    let server = Server::new();
    server.request("PUT", "/b/k").header("p-checksum-crc32", "y/Q5Jg==").body(b"123456789").send();
    for dialect in Dialect::ALL {
        let asked = || server.request("HEAD", "/b/k").dialect(dialect).header("p-checksum-mode", "ENABLED");
        let whole = asked().send();
        let head = asked().header("Range", "bytes=2-5").send();
        head.is_bare(200);
        assert_eq!((whole.header("Content-Length"), head.header("Content-Length")), (Some("9"), Some("4")));
        assert_eq!(head.header("p-checksum-crc32"), Some("y/Q5Jg=="));
        assert_eq!(told(&head), told(&whole));
    }
    let part = server.head("/b/k?partNumber=1");
    part.is_bare(206);
    assert_eq!(part.header("Content-Range"), Some("bytes 0-8/9"));
}

/// The headers that do not differ from one answer to the next.
fn told(answer: &Answer) -> Vec<(&str, Option<&str>)> {
    let names = answer.header_names().filter(|name| *name != "x-request-id");
    names.map(|name| (name, answer.header(name))).collect()
}

#[test]
fn several_reversed_and_malformed_ranges_are_ignored() {
    let server = Server::new();
    server.put("/b/k", b"0123456789");
    for asked in ["bytes=0-1,4-5", "bytes=5-2", "bytes=x-", "bytes", "lines=1-2", ""] {
        let answer = range(&server, "k", asked);
        assert_eq!((answer.status, answer.text()), (200, "0123456789"), "{asked}");
        assert_eq!(answer.header("Content-Range"), None);
    }
}

#[test]
fn a_range_that_holds_no_byte_is_not_satisfiable() {
    let server = Server::new();
    server.put("/b/k", b"0123456789");
    server.put("/b/empty", b"");
    for (key, asked, size) in [
        ("k", "bytes=10-", "10"),
        ("k", "bytes=-0", "10"),
        ("empty", "bytes=0-0", "0"),
        ("empty", "bytes=-1", "0"),
    ] {
        let answer = range(&server, key, asked);
        answer.is_error(416, "InvalidRange");
        assert_eq!(answer.one("RangeRequested").as_deref(), Some(asked));
        assert_eq!(answer.one("ActualObjectSize").as_deref(), Some(size));
        assert_eq!(answer.header("Content-Range"), Some(format!("bytes */{size}").as_str()));
        server.request("HEAD", &format!("/b/{key}")).header("Range", asked).send().is_bare(416);
    }
}

#[test]
fn ranges_of_large_objects_are_cut_anywhere() {
    let server = Server::new();
    let body = pattern(2_000_000);
    server.put("/b/k", &body);
    for (first, last) in
        [(0, 0), (65_535, 65_536), (1, 1_999_999), (300_000, 900_000), (1_999_999, 1_999_999)]
    {
        let answer = range(&server, "k", &format!("bytes={first}-{last}"));
        assert!(answer.status == 206 && answer.body == body[first..=last], "{first}-{last}");
    }
}

#[test]
fn no_checksum_of_the_whole_is_returned_for_a_range() {
    let server = Server::new();
    server.request("PUT", "/b/k").header("p-checksum-crc32", "y/Q5Jg==").body(b"123456789").send();
    let asked =
        server.request("GET", "/b/k").header("p-checksum-mode", "ENABLED").header("Range", "bytes=0-3");
    assert_eq!(asked.send().header("p-checksum-crc32"), None);
}

#[test]
fn if_range_turns_a_range_of_something_else_into_the_whole() {
    let server = Server::new();
    let etag = server.put("/b/k", b"0123456789").header("ETag").unwrap().to_owned();
    let get = |value: &str| {
        server.request("GET", "/b/k").header("Range", "bytes=0-1").header("If-Range", value).send().status
    };
    assert_eq!((get(&etag), get("\"x\"")), (206, 200));
    assert_eq!((get(NOW_HTTP), get("Sat, 31 Jan 2026 11:00:00 GMT")), (206, 200));
}

#[test]
fn an_object_put_in_one_piece_has_one_part() {
    let server = Server::new();
    server.put("/b/k", b"0123456789");
    let part = server.get("/b/k?partNumber=1");
    assert_eq!((part.status, part.text()), (206, "0123456789"));
    assert_eq!(part.header("Content-Range"), Some("bytes 0-9/10"));
    server.get("/b/k?partNumber=2").is_error(416, "InvalidPartNumber");
    server.get("/b/k?partNumber=0").is_error(400, "InvalidArgument");
    server.get("/b/k?partNumber=10001").is_error(400, "InvalidArgument");
    let both = server.request("GET", "/b/k?partNumber=1").header("Range", "bytes=0-1").send();
    both.is_error(400, "InvalidRequest");
}
