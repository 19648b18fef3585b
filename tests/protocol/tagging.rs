//! The tags of objects and of buckets.

use super::*;

fn document(tags: &[(&str, &str)]) -> String {
    let tags: String = tags
        .iter()
        .map(|(key, value)| format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>"))
        .collect();
    format!("<Tagging xmlns=\"{NAMESPACE}\"><TagSet>{tags}</TagSet></Tagging>")
}

fn set(server: &Server, target: &str, tags: &[(&str, &str)]) -> Answer {
    server.request("PUT", target).body(document(tags).as_bytes()).send()
}

fn read(server: &Server, target: &str) -> Vec<(String, String)> {
    let answer = server.get(target);
    assert_eq!((answer.status, answer.outline()), (200, vec!["Tagging".to_owned(), "TagSet".to_owned()]));
    answer.all("Key").into_iter().zip(answer.all("Value")).collect()
}

fn owned(tags: &[(&str, &str)]) -> Vec<(String, String)> {
    tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn tags_are_set_read_and_taken_away() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        server.put("/b/k", b"x");
        let ask = |method: &str| server.request(method, "/b/k?tagging").dialect(dialect);
        assert_eq!(read(&server, "/b/k?tagging"), []);
        let tags = [("colour", "grün"), ("empty", "")];
        let put = ask("PUT").body(document(&tags).as_bytes()).send();
        assert_eq!((put.status, put.body.len()), (200, 0));
        assert_eq!(read(&server, "/b/k?tagging"), owned(&tags));
        assert_eq!(set(&server, "/b/k?tagging", &[("only", "1")]).status, 200);
        assert_eq!(read(&server, "/b/k?tagging"), owned(&[("only", "1")]));
        let deleted = ask("DELETE").send();
        assert_eq!((deleted.status, deleted.body.len()), (204, 0));
        assert_eq!(read(&server, "/b/k?tagging"), []);
        assert_eq!(server.get("/b/k").text(), "x");
    }
}

#[test]
fn tags_come_with_a_put_in_a_header() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        let put = |tags: &str| {
            server.request("PUT", "/b/k").dialect(dialect).header("p-tagging", tags).body(b"x").send()
        };
        assert_eq!(put("colour=gr%C3%BCn&size=10+cm&flag").status, 200);
        let expected = owned(&[("colour", "grün"), ("size", "10 cm"), ("flag", "")]);
        assert_eq!(read(&server, "/b/k?tagging"), expected);
        put("a=%zz").is_error(400, "InvalidArgument");
        put("a=1&a=2").is_error(400, "InvalidArgument");
        put("=1").is_error(400, "InvalidTag");
        put(&(0..11).map(|n| format!("k{n}=&")).collect::<String>()).is_error(400, "BadRequest");
        assert_eq!(read(&server, "/b/k?tagging"), expected);
        server.put("/b/k", b"without");
        assert_eq!(read(&server, "/b/k?tagging"), []);
    }
}

#[test]
fn responses_count_the_tags_for_callers_who_may_read_them() {
    let server = Server::with_grants(&[
        ("reader", &["GetObject"], &["b/*"]),
        ("tagger", &["GetObject", "GetObjectVersion", "GetObjectTagging"], &["b/*"]),
    ]);
    server.put("/b/k", b"x");
    assert_eq!(server.get("/b/k").header("p-tagging-count"), None);
    set(&server, "/b/k?tagging", &[("a", "1"), ("b", "2")]);
    assert_eq!(server.get("/b/k").header("p-tagging-count"), Some("2"));
    assert_eq!(server.request("HEAD", "/b/k").aws().send().header("x-amz-tagging-count"), Some("2"));
    let count = |user: &str, target: &str| {
        let answer = server.request("GET", target).by(user).send();
        assert_eq!(answer.status, 200);
        answer.header("p-tagging-count").map(str::to_owned)
    };
    assert_eq!(count("reader", "/b/k"), None);
    assert_eq!(count("tagger", "/b/k").as_deref(), Some("2"));
    assert_eq!(count("tagger", "/b/k?versionId=null"), None);
}

#[test]
fn each_version_has_tags_of_its_own() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let old = server.put("/b/k", b"old").header("p-version-id").unwrap().to_owned();
    let new = server.put("/b/k", b"new").header("p-version-id").unwrap().to_owned();
    let at = |id: &str| format!("/b/k?tagging&versionId={id}");
    let put = set(&server, &at(&old), &[("of", "old")]);
    assert_eq!(put.header("p-version-id"), Some(old.as_str()));
    assert_eq!(set(&server, "/b/k?tagging", &[("of", "new")]).header("p-version-id"), Some(new.as_str()));
    assert_eq!(read(&server, &at(&old)), owned(&[("of", "old")]));
    assert_eq!(read(&server, &at(&new)), owned(&[("of", "new")]));
    assert_eq!(server.get("/b/k?tagging").header("p-version-id"), Some(new.as_str()));
    let deleted = server.delete(&at(&old));
    assert_eq!((deleted.status, deleted.header("p-version-id")), (204, Some(old.as_str())));
    assert_eq!(read(&server, &at(&old)), []);
    assert_eq!(read(&server, &at(&new)), owned(&[("of", "new")]));
    assert_eq!(server.get("/b?versions").all("Version").len(), 2);
}

#[test]
fn tags_that_are_none_are_refused_and_change_nothing() {
    let server = Server::new();
    server.put("/b/k", b"x");
    set(&server, "/b/k?tagging", &[("a", "1")]);
    let long = "ü".repeat(257);
    let refused = |tags: &[(&str, &str)], code: &str| {
        set(&server, "/b/k?tagging", tags).is_error(400, code);
    };
    refused(&[("", "v")], "InvalidTag");
    refused(&[(&long[..258], "v")], "InvalidTag");
    refused(&[("k", &long)], "InvalidTag");
    refused(&[("k!", "v")], "InvalidTag");
    refused(&[("aws:k", "v")], "InvalidTag");
    refused(&[("a", "1"), ("a", "2")], "InvalidTag");
    let keys: Vec<_> = (0..11).map(|n| format!("k{n}")).collect();
    let tags: Vec<_> = keys.iter().map(|key| (key.as_str(), "v")).collect();
    refused(&tags, "BadRequest");
    assert_eq!(read(&server, "/b/k?tagging"), owned(&[("a", "1")]));
    assert_eq!(set(&server, "/b/k?tagging", &tags[..10]).status, 200);
    assert_eq!(set(&server, "/b/k?tagging", &[(&long[..256], &long[..512])]).status, 200);
}

#[test]
fn a_document_that_is_no_tagging_is_malformed() {
    let server = Server::new();
    server.put("/b/k", b"x");
    for body in [
        "",
        "junk",
        "<Tagging/>",
        "<Other><TagSet/></Other>",
        "<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>",
        "<Tagging><TagSet><Tag><Value>a</Value></Tag></TagSet></Tagging>",
        "<Tagging><TagSet/><TagSet/></Tagging>",
    ] {
        let asked = server.request("PUT", "/b/k?tagging").body(body.as_bytes());
        asked.send().is_error(400, "MalformedXML");
    }
    server.request("PUT", "/b/k?tagging").unframed().send().is_error(411, "MissingContentLength");
    let wrong = server.request("PUT", "/b/k?tagging").header("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==");
    wrong.body(document(&[]).as_bytes()).send().is_error(400, "BadDigest");
}

#[test]
fn missing_objects_have_no_tags() {
    let server = Server::new();
    for method in ["GET", "PUT", "DELETE"] {
        let ask = |target: &str| server.request(method, target).body(document(&[]).as_bytes()).send();
        ask("/b/absent?tagging").is_error(404, "NoSuchKey");
        ask("/absent/k?tagging").is_error(404, "NoSuchBucket");
        ask("/b/absent?tagging&versionId=0000000000000001aaaaaaaaaaaaaaaa").is_error(404, "NoSuchVersion");
        ask("/b/absent?tagging&versionId=x").is_error(400, "InvalidArgument");
    }
    server.set_versioning("Enabled");
    let marker = server.delete("/b/k").header("p-version-id").unwrap().to_owned();
    server.get("/b/k?tagging").is_error(404, "NoSuchKey");
    server.get(&format!("/b/k?tagging&versionId={marker}")).is_error(405, "MethodNotAllowed");
    set(&server, &format!("/b/k?tagging&versionId={marker}"), &[]).is_error(405, "MethodNotAllowed");
}

#[test]
fn to_put_with_tags_takes_a_permission_of_its_own() {
    let server = Server::with_grants(&[
        ("putter", &["PutObject"], &["b/*"]),
        ("tagger", &["PutObject", "PutObjectTagging"], &["b/*"]),
    ]);
    let put = |user: &str, tags: &str| {
        server.request("PUT", "/b/k").by(user).header("p-tagging", tags).body(b"x").send()
    };
    put("putter", "a=1").is_error(403, "AccessDenied");
    assert_eq!(put("putter", "").status, 200);
    assert_eq!(put("tagger", "a=1").status, 200);
}

#[test]
fn tags_of_a_bucket_are_set_read_and_taken_away() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        let ask = |method: &str| server.request(method, "/b?tagging").dialect(dialect);
        ask("GET").send().is_error(404, "NoSuchTagSet");
        let tags = [("team", "größer"), ("empty", "")];
        let put = ask("PUT").body(document(&tags).as_bytes()).send();
        assert_eq!((put.status, put.body.len()), (200, 0), "{put:?}");
        assert_eq!(read(&server, "/b?tagging"), owned(&tags));
        assert_eq!(set(&server, "/b?tagging", &[("only", "1")]).status, 200);
        assert_eq!(read(&server, "/b?tagging"), owned(&[("only", "1")]));
        let deleted = ask("DELETE").send();
        assert_eq!((deleted.status, deleted.body.len()), (204, 0));
        ask("GET").send().is_error(404, "NoSuchTagSet");
        assert_eq!(ask("DELETE").send().status, 204);
        set(&server, "/b?tagging", &tags);
        assert_eq!(set(&server, "/b?tagging", &[]).status, 200);
        ask("GET").send().is_error(404, "NoSuchTagSet");
        for method in ["GET", "PUT", "DELETE"] {
            let asked = server.request(method, "/absent?tagging").dialect(dialect);
            asked.body(document(&tags).as_bytes()).send().is_error(404, "NoSuchBucket");
        }
    }
}

#[test]
fn a_bucket_has_fifty_tags_by_the_rules_of_those_of_objects() {
    let server = Server::new();
    set(&server, "/b?tagging", &[("a", "1")]);
    let long = "ü".repeat(257);
    for tags in [
        &[("", "v")][..],
        &[(&long[..258], "v")],
        &[("k", &long)],
        &[("k!", "v")],
        &[("aws:k", "v")],
        &[("a", "1"), ("a", "2")],
    ] {
        set(&server, "/b?tagging", tags).is_error(400, "InvalidTag");
    }
    let keys: Vec<_> = (0..51).map(|n| format!("k{n}")).collect();
    let tags: Vec<_> = keys.iter().map(|key| (key.as_str(), "v")).collect();
    let refused = set(&server, "/b?tagging", &tags);
    refused.is_error(400, "BadRequest");
    assert_eq!(refused.one("Message").as_deref(), Some("Bucket tag count cannot be greater than 50"));
    for body in
        ["", "junk", "<Tagging/>", "<Other><TagSet/></Other>", "<Tagging><TagSet><Tag/></TagSet></Tagging>"]
    {
        let asked = server.request("PUT", "/b?tagging").body(body.as_bytes());
        asked.send().is_error(400, "MalformedXML");
    }
    server.request("PUT", "/b?tagging").unframed().send().is_error(411, "MissingContentLength");
    assert_eq!(read(&server, "/b?tagging"), owned(&[("a", "1")]));
    assert_eq!(set(&server, "/b?tagging", &tags[..50]).status, 200);
    assert_eq!(read(&server, "/b?tagging"), owned(&tags[..50]));
}
