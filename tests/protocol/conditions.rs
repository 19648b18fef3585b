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
    let get = send("GET");
    let head = send("HEAD");
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
fn not_modified_has_the_headers_for_caches() {
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
    // A date in the future is no date of a copy, so it is ignored.
    assert_eq!(read(&server, &[("If-Modified-Since", LATER)]), 200);
    assert_eq!(read(&server, &[("If-Unmodified-Since", LATER)]), 200);
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
fn a_put_may_have_both_conditions_and_lists_of_tags() {
    let (server, etag) = with_object();
    let put = |lines: &[(&str, &str)]| {
        let asked = server.request("PUT", "/b/k").body(b"body");
        lines.iter().fold(asked, |asked, (name, value)| asked.header(name, value)).send().status
    };
    for (lines, status) in [
        (vec![("If-None-Match", etag.as_str())], 412),
        (vec![("If-None-Match", "\"x\"")], 200),
        (vec![("If-Match", &*format!("\"x\", {etag}"))], 200),
        (vec![("If-None-Match", &*format!("\"x\", W/{etag}"))], 412),
        (vec![("If-Match", &*etag), ("If-None-Match", "\"x\"")], 200),
        (vec![("If-Match", &*etag), ("If-None-Match", "*")], 412),
        (vec![("If-Match", "*"), ("If-None-Match", &*etag)], 412),
    ] {
        assert_eq!(put(&lines), status, "{lines:?}");
    }
}

/// How tags may be written, and whether they then are the tag.
fn spellings(etag: &str) -> [(String, bool); 6] {
    let bare = etag.trim_matches('"');
    [
        (etag.to_owned(), true),
        (bare.to_owned(), true),
        (format!("\"{bare}"), false),
        (format!("{bare}\""), false),
        (format!("\"{etag}\""), false),
        (bare.to_uppercase(), false),
    ]
}

#[test]
fn one_rule_compares_tags_everywhere() {
    let (server, etag) = with_object();
    server.put("/b/target", b"body");
    for (tag, same) in spellings(&etag) {
        let passes = |met| if same { met } else { 412 };
        let bearing = |method: &str, target: &str, name: &str| {
            server.request(method, target).header(name, &tag).body(if method == "PUT" {
                b"body"
            } else {
                b""
            })
        };
        assert_eq!(bearing("GET", "/b/k", "If-Match").send().status, passes(200), "{tag} read");
        assert_eq!(bearing("PUT", "/b/k", "If-Match").send().status, passes(200), "{tag} put");
        let copy = bearing("PUT", "/b/target", "If-Match").header("p-copy-source", "/b/k").body(b"");
        assert_eq!(copy.send().status, passes(200), "{tag} target of a copy");
        let copy =
            bearing("PUT", "/b/target", "p-copy-source-if-match").header("p-copy-source", "/b/k").body(b"");
        assert_eq!(copy.send().status, passes(200), "{tag} source of a copy");
        let entry = format!(
            "<Delete><Object><Key>k</Key><ETag>{}</ETag></Object></Delete>",
            tag.replace('"', "&quot;")
        );
        let code = delete::many(&server, &entry).one("Code");
        assert_eq!(code.as_deref(), (!same).then_some("PreconditionFailed"), "{tag} deletions");
        server.put("/b/k", b"body");
        assert_eq!(bearing("DELETE", "/b/k", "If-Match").send().status, passes(204), "{tag} deletion");
        server.put("/b/k", b"body");
        let listed = complete(&server, "owner", "k", Some(&tag), &[]);
        assert_eq!(listed.status, if same { 200 } else { 400 }, "{tag} listed as a part");
        server.put("/b/k", b"body");
    }
}

/// Completes an upload of one part, `body`, that `owner` has made ready, as `user`, who lists it
/// with `tag` or its own.
fn complete(server: &Server, user: &str, key: &str, tag: Option<&str>, lines: &[(&str, &str)]) -> Answer {
    let id = server.request("POST", &format!("/b/{key}?uploads")).send().one("UploadId").unwrap();
    let part = server.put(&format!("/b/{key}?partNumber=1&uploadId={id}"), b"body");
    let tag = tag.unwrap_or(part.header("ETag").unwrap()).replace('"', "&quot;");
    let body = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part></CompleteMultipartUpload>"
    );
    let asked = server.request("POST", &format!("/b/{key}?uploadId={id}")).by(user).body(body.as_bytes());
    lines.iter().fold(asked, |asked, (name, value)| asked.header(name, value)).send()
}

/// Every conditional write there is, by `user` on `key`; the object there is `body`.
fn writes(server: &Server, user: &str, key: &str, name: &str, tag: &str) -> Vec<(&'static str, Answer)> {
    let target = format!("/b/{key}");
    let bearing = |method: &str| {
        if key != "absent" {
            server.put(&target, b"body");
        }
        server.request(method, &target).by(user).header(name, tag)
    };
    let mut all = vec![
        ("put", bearing("PUT").body(b"body").send()),
        ("copy", bearing("PUT").header("p-copy-source", "/b/source").send()),
    ];
    if name == "If-Match" {
        all.push(("delete", bearing("DELETE").send()));
    }
    drop(bearing("PUT"));
    all.push(("complete", complete(server, user, key, None, &[(name, tag)])));
    all
}

#[test]
fn a_condition_by_tag_takes_the_permission_to_read() {
    const WRITES: [&str; 2] = ["PutObject", "DeleteObject"];
    let server = Server::with_grants(&[
        ("writer", &WRITES, &["b/*"]),
        ("writer", &["GetObject"], &["b/source"]),
        ("lister", &[WRITES[0], WRITES[1], "ListBucket"], &["*"]),
        ("lister", &["GetObject"], &["b/source"]),
    ]);
    let source = server.put("/b/source", b"body");
    let etag = source.header("ETag").unwrap();
    for user in ["writer", "lister"] {
        for (name, tag) in
            [("If-Match", etag), ("If-Match", "\"x\""), ("If-Match", "*"), ("If-None-Match", etag)]
        {
            for key in ["k", "absent"] {
                for (write, answer) in writes(&server, user, key, name, tag) {
                    let told = (answer.status, answer.code());
                    assert_eq!(
                        told,
                        (403, "AccessDenied".to_owned()),
                        "{write} {key} {name}: {tag} by {user}"
                    );
                }
                assert_eq!(server.head("/b/absent").status, 404);
            }
        }
    }
}

#[test]
fn a_key_is_put_where_it_is_absent_with_the_permission_to_write_alone() {
    let server = Server::with_grants(&[("writer", &["PutObject"], &["b/*"])]);
    let put = |key: &str| {
        let asked = server.request("PUT", &format!("/b/{key}")).by("writer").body(b"x");
        asked.header("If-None-Match", "*").send().status
    };
    assert_eq!((put("k"), put("k")), (200, 412));
    let completed = |key| complete(&server, "writer", key, None, &[("If-None-Match", "*")]).status;
    assert_eq!((completed("l"), completed("l")), (200, 412));
}

#[test]
fn a_missing_key_is_reported_to_callers_who_may_list() {
    const WRITES: [&str; 3] = ["PutObject", "DeleteObject", "GetObject"];
    let server = Server::with_grants(&[
        ("reader", &WRITES, &["b/*"]),
        ("lister", &[WRITES[0], WRITES[1], WRITES[2], "ListBucket"], &["*"]),
    ]);
    let source = server.put("/b/source", b"body");
    let etag = source.header("ETag").unwrap();
    for (user, told) in [("reader", (403, "AccessDenied")), ("lister", (404, "NoSuchKey"))] {
        for tag in [etag, "*"] {
            for (write, answer) in writes(&server, user, "absent", "If-Match", tag) {
                match write {
                    "delete" => assert_eq!(answer.status, 204, "{tag} by {user}"),
                    _ => assert_eq!((answer.status, &*answer.code()), told, "{write} {tag} by {user}"),
                }
            }
            for (write, answer) in writes(&server, user, "k", "If-Match", tag) {
                assert!(matches!(answer.status, 200 | 204), "{write} {tag} by {user}: {answer:?}");
            }
        }
    }
}

#[test]
fn deletions_by_tag_go_by_the_same_permissions() {
    let server = Server::with_grants(&[
        ("writer", &["DeleteObject", "DeleteObjectVersion"], &["b/*"]),
        ("reader", &["DeleteObject", "GetObject"], &["b/*"]),
    ]);
    let etag = server.put("/b/k", b"body").header("ETag").unwrap().replace('"', "");
    let many = |user: &str, key: &str, inner: &str| {
        let body = format!("<Delete><Object><Key>{key}</Key>{inner}</Object></Delete>");
        delete::many_by(&server, user, &body).one("Code")
    };
    let by_tag = format!("<ETag>{etag}</ETag>");
    assert_eq!(many("writer", "k", &by_tag).as_deref(), Some("AccessDenied"));
    assert_eq!(many("writer", "absent", &by_tag).as_deref(), Some("AccessDenied"));
    let named = format!("{by_tag}<VersionId>null</VersionId>");
    assert_eq!(many("writer", "k", &named).as_deref(), Some("AccessDenied"));
    assert_eq!(many("reader", "absent", &by_tag), None);
    for other in ["<Size>4</Size>", "<LastModifiedTime>Sat, 31 Jan 2026 12:00:00 GMT</LastModifiedTime>"] {
        assert_eq!(many("writer", "k", other).as_deref(), Some("AccessDenied"), "{other}");
    }
    assert_eq!(server.get("/b/k").text(), "body");
    assert_eq!(many("reader", "k", &by_tag), None);
    assert_eq!(server.head("/b/k").status, 404);
    let named = server.request("DELETE", "/b/k?versionId=null").by("writer").header("If-Match", "*").send();
    named.is_error(403, "AccessDenied");
    let by_size = server.request("DELETE", "/b/k").by("writer").header("p-if-match-size", "4").send();
    by_size.is_error(403, "AccessDenied");
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

/// Conditions of a deletion of `body`, put at `NOW_HTTP`: the name of the header, its value, and
/// whether it holds.
const DELETE_CONDITIONS: [(&str, &str, bool); 8] = [
    ("p-if-match-size", "4", true),
    ("p-if-match-size", "5", false),
    ("p-if-match-last-modified-time", NOW_HTTP, true),
    ("p-if-match-last-modified-time", EARLIER, false),
    ("p-if-match-last-modified-time", LATER, false),
    ("p-if-match-last-modified-time", "2026-01-31T12:00:00Z", true),
    ("p-if-match-last-modified-time", "2026-01-31T12:00:00.001Z", false),
    ("If-Match", "*", true),
];

#[test]
fn a_delete_honours_size_and_time() {
    for dialect in Dialect::ALL {
        for (name, value, holds) in DELETE_CONDITIONS {
            let (server, _) = with_object();
            let answer = server.request("DELETE", "/b/k").dialect(dialect).header(name, value).send();
            assert_eq!(answer.status, if holds { 204 } else { 412 }, "{name}: {value}");
            assert_eq!(server.head("/b/k").status, if holds { 404 } else { 200 }, "{name}: {value}");
        }
        let (server, etag) = with_object();
        let delete = |size: &str, tag: &str| {
            let asked = server.request("DELETE", "/b/k").dialect(dialect).header("p-if-match-size", size);
            asked.header("If-Match", tag).send().status
        };
        assert_eq!((delete("5", &etag), delete("4", "x"), delete("4", &etag)), (412, 412, 204));
    }
}

#[test]
fn a_deletion_of_several_objects_honours_the_conditions_of_each() {
    for (name, value, holds) in DELETE_CONDITIONS {
        let (server, _) = with_object();
        server.put("/b/other", b"x");
        let element = match name {
            "p-if-match-size" => "Size",
            "If-Match" => "ETag",
            _ => "LastModifiedTime",
        };
        let answer = delete::many(
            &server,
            &format!(
                "<Delete><Object><Key>k</Key><{element}>{value}</{element}></Object>\
                 <Object><Key>other</Key></Object></Delete>"
            ),
        );
        assert_eq!(
            answer.one("Code").as_deref(),
            (!holds).then_some("PreconditionFailed"),
            "{name}: {value}"
        );
        assert_eq!(server.head("/b/k").status, if holds { 404 } else { 200 }, "{name}: {value}");
        assert_eq!(server.head("/b/other").status, 404);
    }
}

#[test]
fn a_deletion_whose_condition_cannot_be_read_deletes_nothing() {
    let (server, _) = with_object();
    for (name, value) in [
        ("p-if-match-size", "four"),
        ("p-if-match-size", "-4"),
        ("p-if-match-last-modified-time", "yesterday"),
        ("p-if-match-last-modified-time", ""),
    ] {
        let answer = server.request("DELETE", "/b/k").header(name, value).send();
        answer.is_error(400, "InvalidArgument");
    }
    for element in ["<Size>four</Size>", "<Size/>", "<LastModifiedTime>yesterday</LastModifiedTime>"] {
        let body = format!("<Delete><Object><Key>k</Key>{element}</Object></Delete>");
        delete::many(&server, &body).is_error(400, "MalformedXML");
    }
    server.request("DELETE", "/b/k").header("If-None-Match", "*").send().is_error(501, "NotImplemented");
    assert_eq!(server.get("/b/k").text(), "body");
}

#[test]
fn a_conditional_deletion_of_an_absent_key_is_done_already_and_writes_nothing() {
    let (server, etag) = with_object();
    server.set_versioning("Enabled");
    server.delete("/b/k");
    let versions = |server: &Server| server.get("/b?versions").all("VersionId");
    let before = versions(&server);
    for (name, value) in [
        ("If-Match", "*"),
        ("If-Match", etag.as_str()),
        ("p-if-match-size", "99"),
        ("p-if-match-last-modified-time", EARLIER),
    ] {
        for target in ["/b/k", "/b/absent", "/b/absent?versionId=null"] {
            let answer = server.request("DELETE", target).header(name, value).send();
            assert_eq!((answer.status, answer.header("p-delete-marker")), (204, None), "{target} {name}");
        }
    }
    let answer = delete::many(&server, "<Delete><Object><Key>absent</Key><ETag>x</ETag></Object></Delete>");
    assert_eq!((answer.one("Key").as_deref(), answer.one("Code")), (Some("absent"), None));
    assert_eq!(versions(&server), before, "no marker was added");
}

#[test]
fn a_named_marker_has_a_time_and_no_tag() {
    let (server, _) = with_object();
    server.set_versioning("Enabled");
    let id = server.delete("/b/k").header("p-version-id").unwrap().to_owned();
    let delete = |name: &str, value: &str| {
        server.request("DELETE", &format!("/b/k?versionId={id}")).header(name, value).send().status
    };
    assert_eq!((delete("If-Match", "*"), delete("p-if-match-size", "0")), (412, 412));
    assert_eq!(delete("p-if-match-last-modified-time", NOW_HTTP), 204);
    assert_eq!(server.get("/b/k").text(), "body");
}

#[test]
fn of_two_deletions_by_one_tag_only_one_removes_a_version() {
    let (server, etag) = with_object();
    server.set_versioning("Enabled");
    let delete = || server.request("DELETE", "/b/k").header("If-Match", &etag).send();
    let answers =
        std::thread::scope(|scope| [(); 8].map(|()| scope.spawn(delete)).map(|it| it.join().unwrap()));
    assert!(answers.iter().all(|answer| answer.status == 204), "{answers:?}");
    let markers = answers.iter().filter(|answer| answer.header("p-delete-marker").is_some());
    assert_eq!(markers.count(), 1);
    assert_eq!(server.get("/b?versions").all("DeleteMarker").len(), 1);
}
