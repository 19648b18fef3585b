//! Listings of objects, in both forms.

use super::*;
use siltstone::format::{ObjectControls, StorageClass};

const KEYS: [&str; 9] = ["a", "dir/1", "dir/2", "dir/sub/1", "dir/sub/2", "e", "zoo/1", "zoo/2", "é"];

fn with_keys(keys: &[&str]) -> Server {
    let server = Server::new();
    for key in keys {
        server.put(&format!("/b/{}", encoded(key)), key.as_bytes());
    }
    server
}

/// Keys and common prefixes of one page.
fn listed(answer: &Answer) -> (Vec<String>, Vec<String>) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let document = roxmltree::Document::parse(answer.text()).unwrap();
    let texts = |parent: &str, name: &str| {
        let found = document.descendants().filter(|node| node.tag_name().name() == name);
        let found = found.filter(|node| node.parent().unwrap().tag_name().name() == parent);
        found.map(|node| node.text().unwrap_or_default().to_owned()).collect()
    };
    (texts("Contents", "Key"), texts("CommonPrefixes", "Prefix"))
}

/// All pages of the second form, one after the other.
fn all_pages(server: &Server, query: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut token = String::new();
    for _ in 0..100 {
        let page = server.get(&format!("/b?list-type=2&{query}{token}"));
        let (mut page_names, prefixes) = listed(&page);
        page_names.extend(prefixes);
        page_names.sort();
        assert_eq!(page.one("KeyCount"), Some(page_names.len().to_string()));
        names.extend(page_names);
        match page.one("NextContinuationToken") {
            Some(next) => token = format!("&continuation-token={}", encoded(&next)),
            None => {
                assert_eq!(page.one("IsTruncated").as_deref(), Some("false"));
                return names;
            }
        }
    }
    panic!("the listing does not end");
}

#[test]
fn version_2_echoes_the_request_and_lists_objects() {
    let server = with_keys(&["k"]);
    let answer = server.get("/b?list-type=2");
    assert_eq!(
        answer.outline(),
        ["ListBucketResult", "Name", "Prefix", "MaxKeys", "IsTruncated", "KeyCount", "Contents"]
    );
    assert!(answer.text().contains(&format!("<ListBucketResult xmlns=\"{NAMESPACE}\">")));
    for (name, text) in [
        ("Name", "b"),
        ("Prefix", ""),
        ("MaxKeys", "1000"),
        ("IsTruncated", "false"),
        ("KeyCount", "1"),
        ("Key", "k"),
        ("LastModified", NOW),
        ("ETag", "\"8ce4b16b22b58894aa86c421e8759df3\""),
        ("Size", "1"),
        ("StorageClass", "STANDARD"),
    ] {
        assert_eq!(answer.all(name), [text], "{name}");
    }
}

#[test]
fn keys_come_in_the_order_of_their_bytes() {
    let server = with_keys(&KEYS);
    assert_eq!(listed(&server.get("/b?list-type=2")).0, KEYS);
    let upper = with_keys(&["b", "B", "a", "A", "a/", "a-", "ä", "z"]);
    assert_eq!(listed(&upper.get("/b?list-type=2")).0, ["A", "B", "a", "a-", "a/", "b", "z", "ä"]);
}

#[test]
fn a_prefix_holds_keys_back() {
    let server = with_keys(&KEYS);
    let answer = server.get("/b?list-type=2&prefix=dir%2F");
    assert_eq!(listed(&answer).0, ["dir/1", "dir/2", "dir/sub/1", "dir/sub/2"]);
    assert_eq!(answer.one("Prefix").as_deref(), Some("dir/"));
    assert_eq!(listed(&server.get("/b?list-type=2&prefix=none")).0, [""; 0]);
}

#[test]
fn a_delimiter_groups_keys_into_common_prefixes() {
    let server = with_keys(&KEYS);
    let answer = server.get("/b?list-type=2&delimiter=%2F");
    assert_eq!(
        listed(&answer),
        (vec!["a".into(), "e".into(), "é".into()], vec!["dir/".into(), "zoo/".into()])
    );
    assert_eq!(answer.one("KeyCount").as_deref(), Some("5"));
    assert_eq!(answer.one("Delimiter").as_deref(), Some("/"));
    let below = server.get("/b?list-type=2&delimiter=%2F&prefix=dir%2F");
    assert_eq!(listed(&below), (vec!["dir/1".into(), "dir/2".into()], vec!["dir/sub/".to_owned()]));
    let partial = server.get("/b?list-type=2&delimiter=%2F&prefix=d");
    assert_eq!(listed(&partial), (vec![], vec!["dir/".to_owned()]));
}

#[test]
fn a_delimiter_may_be_any_text_and_an_empty_one_is_none() {
    let server = with_keys(&["a--b--c", "a--d", "a-b"]);
    let answer = server.get("/b?list-type=2&delimiter=--");
    assert_eq!(listed(&answer), (vec!["a-b".into()], vec!["a--".to_owned()]));
    let none = server.get("/b?list-type=2&delimiter=");
    assert_eq!((listed(&none).0.len(), none.one("Delimiter")), (3, None));
}

#[test]
fn start_after_begins_after_a_key_and_is_echoed() {
    let server = with_keys(&KEYS);
    let answer = server.get("/b?list-type=2&start-after=dir%2Fsub%2F2");
    assert_eq!(listed(&answer).0, ["e", "zoo/1", "zoo/2", "é"]);
    assert_eq!(answer.one("StartAfter").as_deref(), Some("dir/sub/2"));
    assert_eq!(listed(&server.get("/b?list-type=2&start-after=f")).0, ["zoo/1", "zoo/2", "é"]);
}

#[test]
fn a_start_within_a_group_shows_the_group_while_a_key_is_left_in_it() {
    let server = with_keys(&KEYS);
    let behind = |start: &str| {
        let second = listed(&server.get(&format!("/b?list-type=2&delimiter=%2F&start-after={start}")));
        let first = listed(&server.get(&format!("/b?delimiter=%2F&marker={start}")));
        assert_eq!(first, second, "{start}");
        second
    };
    assert_eq!(behind("zoo/1"), (vec!["é".into()], vec!["zoo/".to_owned()]));
    assert_eq!(behind("zoo/2"), (vec!["é".into()], vec![]));
    assert_eq!(behind("zoo/"), (vec!["é".into()], vec![]));
}

#[test]
fn pages_add_up_to_the_whole_whatever_their_size() {
    let server = with_keys(&KEYS);
    let grouped = ["a", "dir/", "e", "zoo/", "é"];
    for size in 1..=10 {
        assert_eq!(all_pages(&server, &format!("max-keys={size}")), KEYS, "{size}");
        assert_eq!(all_pages(&server, &format!("max-keys={size}&delimiter=%2F")), grouped, "{size}");
        assert_eq!(all_pages(&server, &format!("max-keys={size}&prefix=dir%2F&delimiter=%2F")).len(), 3);
    }
}

#[test]
fn a_continuation_goes_before_start_after_and_is_echoed() {
    let server = with_keys(&KEYS);
    let token = server.get("/b?list-type=2&max-keys=1").one("NextContinuationToken").unwrap();
    let next = server.get(&format!("/b?list-type=2&max-keys=1&start-after=zoo&continuation-token={token}"));
    assert_eq!(listed(&next).0, ["dir/1"]);
    assert_eq!(next.one("ContinuationToken"), Some(token));
    assert_eq!(next.one("IsTruncated").as_deref(), Some("true"));
}

#[test]
fn a_token_that_is_none_is_refused_even_if_it_is_empty() {
    let server = with_keys(&KEYS);
    for dialect in Dialect::ALL {
        for token in ["", "%21", "dir%2F1", "%20"] {
            let target = format!("/b?list-type=2&max-keys=1&start-after=a&continuation-token={token}");
            let answer = server.request("GET", &target).dialect(dialect).send();
            answer.is_error(400, "InvalidArgument");
            assert_eq!(answer.one("ArgumentName").as_deref(), Some("continuation-token"));
            assert_eq!(
                answer.one("Message").as_deref(),
                Some("The continuation token provided is incorrect")
            );
        }
    }
}

#[test]
fn empty_markers_and_keys_begin_at_the_first_key() {
    let server = with_keys(&KEYS);
    let first = server.get("/b?marker=");
    assert_eq!(
        (listed(&first).0, first.all("Marker")),
        (KEYS.map(str::to_owned).to_vec(), vec![String::new()])
    );
    let second = server.get("/b?list-type=2&start-after=");
    assert_eq!((listed(&second).0, second.all("StartAfter").len()), (KEYS.map(str::to_owned).to_vec(), 0));
    assert_eq!(server.get("/b?versions&key-marker=").all("Version").len(), KEYS.len());
}

#[test]
fn max_keys_is_a_number_and_at_most_a_thousand() {
    let server = with_keys(&KEYS);
    let none = server.get("/b?list-type=2&max-keys=0");
    assert_eq!((listed(&none).0.len(), none.one("IsTruncated").as_deref()), (0, Some("false")));
    assert_eq!(none.one("KeyCount").as_deref(), Some("0"));
    let many = server.get("/b?list-type=2&max-keys=5000");
    assert_eq!((many.one("MaxKeys").as_deref(), listed(&many).0.len()), (Some("1000"), 9));
    for bad in ["-1", "x", "99999999999", "1.5"] {
        let answer = server.get(&format!("/b?list-type=2&max-keys={bad}"));
        answer.is_error(400, "InvalidArgument");
        assert_eq!(answer.one("ArgumentName").as_deref(), Some("max-keys"));
    }
    server.get("/absent?list-type=2&max-keys=0").is_error(404, "NoSuchBucket");
}

#[test]
fn names_are_encoded_where_that_is_asked_for() {
    let server = with_keys(&["a b+c/d", "x\u{1}y", "ü/1"]);
    let answer = server.get("/b?list-type=2&encoding-type=url&delimiter=%2F&start-after=A%20B");
    assert_eq!(answer.one("EncodingType").as_deref(), Some("url"));
    assert_eq!(listed(&answer), (vec!["x%01y".into()], vec!["a%20b%2Bc/".into(), "%C3%BC/".to_owned()]));
    assert_eq!(answer.one("Delimiter").as_deref(), Some("/"));
    assert_eq!(answer.one("StartAfter").as_deref(), Some("A%20B"));
    let prefix = server.get("/b?list-type=2&encoding-type=url&prefix=a%20b%2B");
    assert_eq!(prefix.one("Prefix").as_deref(), Some("a%20b%2B"));
    let plain = server.get("/b?list-type=2&prefix=a");
    assert_eq!((listed(&plain).0, plain.one("EncodingType")), (vec!["a b+c/d".to_owned()], None));
    server.get("/b?list-type=2&encoding-type=xml").is_error(400, "InvalidArgument");
}

#[test]
fn control_characters_are_numeric_references_where_no_encoding_is_asked_for() {
    let server = with_keys(&["x\u{1}y", "a\rb"]);
    let answer = server.get("/b?list-type=2");
    assert!(answer.text().contains("<Key>x&#x1;y</Key>") && answer.text().contains("<Key>a&#xd;b</Key>"));
}

#[test]
fn the_owner_is_listed_on_request() {
    let server = with_keys(&["k"]);
    assert_eq!(server.get("/b?list-type=2").all("Owner").len(), 0);
    let answer = server.get("/b?list-type=2&fetch-owner=true");
    assert_eq!(
        (answer.all("ID"), answer.all("DisplayName")),
        (vec!["owner".to_owned()], vec!["owner".to_owned()])
    );
    assert_eq!(server.get("/b?list-type=2&fetch-owner=false").all("Owner").len(), 0);
}

#[test]
fn deleted_objects_are_not_listed() {
    let server = with_keys(&["a", "dir/1", "z"]);
    server.set_versioning("Enabled");
    server.delete("/b/a");
    server.delete("/b/dir%2F1");
    let answer = server.get("/b?list-type=2&delimiter=%2F");
    assert_eq!(listed(&answer), (vec!["z".to_owned()], vec![]));
}

#[test]
fn the_list_type_is_two_or_absent() {
    let server = with_keys(&["k"]);
    server.get("/b?list-type=3").is_error(400, "InvalidArgument");
    server.get("/b?list-type").is_error(400, "InvalidArgument");
}

#[test]
fn a_bucket_that_is_not_there_is_not_listed() {
    let server = Server::new();
    server.get("/absent?list-type=2").is_error(404, "NoSuchBucket");
    server.get("/absent").is_error(404, "NoSuchBucket");
}

#[test]
fn the_first_form_goes_on_from_a_marker() {
    let server = with_keys(&KEYS);
    let first = server.get("/b?max-keys=2");
    assert_eq!(
        first.outline(),
        ["ListBucketResult", "Name", "Prefix", "MaxKeys", "IsTruncated", "Marker", "Contents", "Contents"]
    );
    assert_eq!((listed(&first).0, first.one("NextMarker")), (vec!["a".into(), "dir/1".to_owned()], None));
    assert_eq!(first.all("ID"), ["owner", "owner"]);
    let next = server.get("/b?max-keys=2&marker=dir%2F1");
    assert_eq!((listed(&next).0[0].as_str(), next.one("Marker").as_deref()), ("dir/2", Some("dir/1")));
}

#[test]
fn the_first_form_names_the_next_marker_where_keys_are_grouped() {
    let server = with_keys(&KEYS);
    let mut names = Vec::new();
    let mut marker = String::new();
    loop {
        let page = server.get(&format!("/b?max-keys=1&delimiter=%2F&marker={}", encoded(&marker)));
        let (keys, prefixes) = listed(&page);
        names.extend(keys.into_iter().chain(prefixes));
        match page.one("NextMarker") {
            Some(next) => marker = next,
            None => break,
        }
    }
    assert_eq!(names, ["a", "dir/", "e", "zoo/", "é"]);
}

#[test]
fn the_first_form_encodes_its_markers() {
    let server = with_keys(&["a b/1", "c d/1", "e"]);
    let page = server.get("/b?max-keys=1&delimiter=%2F&marker=%20&encoding-type=url");
    assert_eq!(page.one("Marker").as_deref(), Some("%20"));
    assert_eq!(page.one("NextMarker").as_deref(), Some("a%20b/"));
}

#[test]
fn a_page_holds_a_thousand_and_no_more() {
    let server = Server::new();
    for i in 0..1001 {
        let mut writer = server.store.writer("b", &format!("{i:04}"), None).unwrap();
        writer.write(b"x").unwrap();
        let commit = siltstone::store::Commit {
            storage_class: StorageClass::Standard,
            etag: siltstone::store::ETag::Md5([0; 16]),
            attributes: siltstone::store::Attributes::new(),
            tags: vec![],
            checksums: vec![],
            condition: siltstone::store::WriteCondition::None,
            controls: ObjectControls::default(),
            stated_time: None,
        };
        writer.commit(commit).unwrap();
    }
    let page = server.get("/b?list-type=2");
    assert_eq!((listed(&page).0.len(), page.one("IsTruncated").as_deref()), (1000, Some("true")));
    assert_eq!(all_pages(&server, "").len(), 1001);
}

/// Pages are full, or the last, in either form.
#[test]
fn keys_that_delete_markers_hide_cut_no_page_short() {
    let server = with_keys(&["a", "y", "z"]);
    server.set_versioning("Enabled");
    let hide = |part: usize| {
        let names = (0..1000).map(|nth| format!("<Object><Key>h{part:02}{nth:03}</Key></Object>"));
        let body = format!("<Delete><Quiet>true</Quiet>{}</Delete>", names.collect::<String>());
        assert_eq!(delete::many(&server, &body).status, 200);
    };
    (0..3).for_each(hide);
    for form in ["list-type=2&", ""] {
        let page = server.get(&format!("/b?{form}max-keys=2"));
        assert_eq!(
            (listed(&page).0, page.one("IsTruncated").as_deref()),
            (vec!["a".into(), "y".into()], Some("true"))
        );
        let rest = server.get(&format!("/b?{form}max-keys=2&start-after=h&marker=h"));
        assert_eq!(
            (listed(&rest).0, rest.one("IsTruncated").as_deref()),
            (vec!["y".into(), "z".into()], Some("false"))
        );
        assert!(listed(&server.get(&format!("/b?{form}prefix=h"))).0.is_empty());
    }
}

#[test]
fn a_plus_in_a_query_is_a_space_and_is_signed_as_it_is_sent() {
    let server = Server::new();
    server.put("/b/a%20b", b"");
    server.put("/b/a%2Bb", b"");
    for dialect in Dialect::ALL {
        let keys = |query: &str| {
            let answer = server.request("GET", &format!("/b?{query}")).dialect(dialect).send();
            assert_eq!(answer.status, 200, "{query}");
            answer.all("Key")
        };
        for (query, found) in [("prefix=a+", "a b"), ("prefix=a%20", "a b"), ("prefix=a%2B", "a+b")] {
            assert_eq!(keys(query), [found], "{query}");
            assert_eq!(keys(&format!("list-type=2&{query}")), [found], "{query}");
        }
        assert_eq!(keys("marker=a+b"), ["a+b"]);
        assert_eq!(keys("list-type=2&start-after=a+b"), ["a+b"]);
        let grouped = server.request("GET", "/b?delimiter=+").dialect(dialect).send();
        assert_eq!(grouped.all("Prefix").last().map(String::as_str), Some("a "));
        let typed = server.request("GET", "/b/a%2Bb?response-content-type=a%2Fb+c").dialect(dialect).send();
        assert_eq!(typed.header("Content-Type"), Some("a/b c"));
    }
}
