//! ListObjectVersions.

use super::*;

/// The items of a page, in order: kind, key, version, and whether it is the latest.
fn entries(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let document = roxmltree::Document::parse(answer.text()).unwrap();
    let text = |node: roxmltree::Node<'_, '_>, name: &str| {
        let found = node.children().find(|child| child.tag_name().name() == name);
        found.and_then(|child| child.text()).unwrap_or_default().to_owned()
    };
    let kinds = ["Version", "DeleteMarker", "CommonPrefixes"];
    let nodes = document.root_element().children().filter(|node| kinds.contains(&node.tag_name().name()));
    let entry = |node: roxmltree::Node<'_, '_>| match node.tag_name().name() {
        "CommonPrefixes" => text(node, "Prefix"),
        kind => {
            let latest = if text(node, "IsLatest") == "true" { " latest" } else { "" };
            format!("{kind} {} {}{latest}", text(node, "Key"), text(node, "VersionId"))
        }
    };
    nodes.map(entry).collect()
}

fn put(server: &Server, key: &str) -> String {
    let answer = server.put(&format!("/b/{key}"), key.as_bytes());
    answer.header("p-version-id").unwrap_or("null").to_owned()
}

fn delete(server: &Server, key: &str) -> String {
    server.delete(&format!("/b/{key}")).header("p-version-id").unwrap().to_owned()
}

/// All pages of so many, one after the other.
fn all_pages(server: &Server, query: &str, max_keys: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut markers = String::new();
    for _ in 0..100 {
        let page = server.get(&format!("/b?versions&max-keys={max_keys}{query}{markers}"));
        let items = entries(&page);
        assert!(items.len() <= max_keys);
        all.extend(items);
        if page.one("IsTruncated").as_deref() == Some("false") {
            assert_eq!(page.all("NextKeyMarker").len() + page.all("NextVersionIdMarker").len(), 0);
            return all;
        }
        let key = page.one("NextKeyMarker").unwrap();
        let version = page.one("NextVersionIdMarker").unwrap_or_default();
        markers = format!("&key-marker={}&version-id-marker={version}", encoded(&key));
    }
    panic!("the listing does not end");
}

#[test]
fn versions_and_markers_come_interleaved_newest_first() {
    let server = Server::new();
    put(&server, "k");
    server.set_versioning("Enabled");
    let one = put(&server, "k");
    let marker = delete(&server, "k");
    let two = put(&server, "k");
    let other = put(&server, "a");
    let expected = [
        format!("Version a {other} latest"),
        format!("Version k {two} latest"),
        format!("DeleteMarker k {marker}"),
        format!("Version k {one}"),
        "Version k null".to_owned(),
    ];
    assert_eq!(entries(&server.get("/b?versions")), expected);
    let last = delete(&server, "a");
    let now = entries(&server.get("/b?versions"));
    assert_eq!(now[..2], [format!("DeleteMarker a {last} latest"), format!("Version a {other}")]);
}

#[test]
fn a_response_echoes_the_request_and_describes_each_version() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        server.set_versioning("Enabled");
        let etag = server.put("/b/k", b"four").header("ETag").unwrap().to_owned();
        delete(&server, "k");
        let answer = server.request("GET", "/b?versions").dialect(dialect).send();
        let outline = [
            "ListVersionsResult",
            "Name",
            "Prefix",
            "MaxKeys",
            "IsTruncated",
            "KeyMarker",
            "VersionIdMarker",
            "DeleteMarker",
            "Version",
        ];
        assert_eq!(answer.outline(), outline);
        assert!(answer.text().contains(&format!("<ListVersionsResult xmlns=\"{NAMESPACE}\">")));
        for (name, text) in [("Name", "b"), ("MaxKeys", "1000"), ("IsTruncated", "false"), ("Size", "4")] {
            assert_eq!(answer.all(name), [text]);
        }
        assert_eq!(answer.all("ETag"), [etag]);
        assert_eq!(answer.all("LastModified"), [NOW, NOW]);
        assert_eq!(answer.all("StorageClass"), ["STANDARD"]);
        assert_eq!(answer.all("ID"), ["owner", "owner"]);
    }
}

#[test]
fn a_bucket_without_versions_has_one_null_version_of_each_key() {
    let server = Server::new();
    put(&server, "a");
    put(&server, "a");
    put(&server, "b");
    let expected = ["Version a null latest", "Version b null latest"];
    assert_eq!(entries(&server.get("/b?versions")), expected);
    server.delete("/b/a");
    assert_eq!(entries(&server.get("/b?versions")), expected[1..]);
}

#[test]
fn pages_of_any_size_add_up_to_the_whole() {
    let server = Server::new();
    for key in ["a", "k", "d/1", "z"] {
        put(&server, key);
    }
    server.set_versioning("Enabled");
    for key in ["k", "d/1", "d/2", "d/2", "k"] {
        put(&server, key);
    }
    delete(&server, "k");
    delete(&server, "gone");
    server.set_versioning("Suspended");
    put(&server, "k");
    for query in ["", "&prefix=d", "&delimiter=/", "&prefix=d/&delimiter=/", "&prefix=k&delimiter=/"] {
        let whole = entries(&server.get(&format!("/b?versions{query}")));
        assert!(!whole.is_empty());
        for max_keys in 1..=whole.len() + 1 {
            let mut pages = all_pages(&server, query, max_keys);
            let mut whole = whole.clone();
            pages.sort();
            whole.sort();
            assert_eq!(pages, whole, "{query} by {max_keys}");
        }
    }
}

#[test]
fn a_page_continues_after_the_named_version() {
    let server = Server::new();
    put(&server, "k");
    server.set_versioning("Enabled");
    let one = put(&server, "k");
    let two = put(&server, "k");
    let after = |key: &str, version: &str| {
        entries(&server.get(&format!("/b?versions&key-marker={key}&version-id-marker={version}")))
    };
    assert_eq!(after("k", &two), [format!("Version k {one}"), "Version k null".to_owned()]);
    assert_eq!(after("k", "null"), [""; 0]);
    assert_eq!(after("k", ""), [""; 0]);
    assert_eq!(after("a", "").len(), 3);
    assert_eq!(after("", "").len(), 3);
    server.delete(&format!("/b/k?versionId={two}"));
    assert_eq!(after("k", &two), [format!("Version k {one} latest"), "Version k null".to_owned()]);
    let echoed = server.get(&format!("/b?versions&key-marker=k&version-id-marker={two}"));
    assert_eq!(echoed.all("KeyMarker"), ["k"]);
    assert_eq!(echoed.all("VersionIdMarker"), [two]);
}

#[test]
fn markers_that_are_none_are_refused() {
    let server = Server::new();
    for (query, name) in [
        ("version-id-marker=null", "version-id-marker"),
        ("key-marker=&version-id-marker=0000000000000001aaaaaaaaaaaaaaaa", "version-id-marker"),
        ("key-marker=k&version-id-marker=x", "version-id-marker"),
        ("max-keys=-1", "max-keys"),
        ("max-keys=many", "max-keys"),
        ("encoding-type=xml", "encoding-type"),
    ] {
        let answer = server.get(&format!("/b?versions&{query}"));
        answer.is_error(400, "InvalidArgument");
        assert_eq!(answer.one("ArgumentName").as_deref(), Some(name), "{query}");
    }
    server.get("/absent?versions").is_error(404, "NoSuchBucket");
    server.get("/absent?versions&max-keys=0").is_error(404, "NoSuchBucket");
}

#[test]
fn no_versions_are_asked_for_and_none_are_left() {
    let server = Server::new();
    put(&server, "k");
    let none = server.get("/b?versions&max-keys=0");
    assert_eq!((entries(&none).len(), none.one("IsTruncated").as_deref()), (0, Some("false")));
    assert_eq!(none.all("MaxKeys"), ["0"]);
    assert_eq!(server.get("/b?versions&max-keys=5000").all("MaxKeys"), ["1000"]);
}

#[test]
fn each_common_prefix_counts_as_one() {
    let server = Server::new();
    server.set_versioning("Enabled");
    for key in ["a", "d/1", "d/1", "d/2", "e"] {
        put(&server, key);
    }
    let page = server.get("/b?versions&delimiter=/&max-keys=2");
    assert_eq!(page.all("Delimiter"), ["/"]);
    assert_eq!(entries(&page)[1], "d/");
    assert_eq!((page.one("NextKeyMarker").as_deref(), page.one("NextVersionIdMarker")), (Some("d/"), None));
    let next = entries(&server.get("/b?versions&delimiter=/&key-marker=d/"));
    assert_eq!(next.len(), 1);
    assert!(next[0].starts_with("Version e "));
}

#[test]
fn names_are_encoded_when_it_is_asked_for() {
    let server = Server::new();
    for key in ["d e/1", "d e/2", "f+g"] {
        server.put(&format!("/b/{}", encoded(key)), b"x");
    }
    let page = server.get("/b?versions&encoding-type=url&delimiter=%20&key-marker=c%20d&max-keys=1&prefix=d");
    assert_eq!(page.all("EncodingType"), ["url"]);
    assert_eq!(page.all("Delimiter"), ["%20"]);
    assert_eq!(page.all("KeyMarker"), ["c%20d"]);
    assert_eq!(entries(&page), ["d%20"]);
    let page = server.get("/b?versions&encoding-type=url&max-keys=1");
    assert_eq!(
        (page.all("Key"), page.all("NextKeyMarker")),
        (vec!["d%20e/1".into()], vec!["d%20e/1".into()])
    );
    assert_eq!(server.get("/b?versions&prefix=f").all("Key"), ["f+g"]);
    assert_eq!(server.get("/b?versions&encoding-type=url&prefix=f").all("Key"), ["f%2Bg"]);
}

#[test]
fn a_marker_within_a_group_shows_the_group_while_something_is_left_in_it() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let one = put(&server, "d/1");
    let two = put(&server, "d/1");
    let after = |key: &str, version: &str| {
        let markers = format!("key-marker={key}&version-id-marker={version}");
        entries(&server.get(&format!("/b?versions&delimiter=/&{markers}")))
    };
    assert_eq!(after("d/1", &two), ["d/"]);
    assert_eq!(after("d/1", &one), [""; 0]);
    assert_eq!(after("d/", &two), [""; 0]);
    assert_eq!(after("d/0", ""), ["d/"]);
}

#[test]
fn a_page_holds_a_thousand_versions_and_no_more() {
    let server = Server::new();
    server.set_versioning("Enabled");
    for at in 0..1001 {
        let deletion = siltstone::store::Deletion {
            key: format!("{:04}", at / 2),
            which: siltstone::store::Selector::Current,
            condition: siltstone::store::DeleteCondition::default(),
        };
        server.store.delete("b", vec![deletion]).unwrap();
    }
    for query in ["", "&max-keys=1000", "&max-keys=2000"] {
        let page = server.get(&format!("/b?versions{query}"));
        assert_eq!((entries(&page).len(), page.one("IsTruncated").as_deref()), (1000, Some("true")));
        assert_eq!(page.one("NextKeyMarker").as_deref(), Some("0499"));
        assert_eq!(page.one("NextVersionIdMarker"), page.all("VersionId").last().cloned());
    }
    assert_eq!(all_pages(&server, "", 1000).len(), 1001);
}
