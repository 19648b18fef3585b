//! All headers of the answers about objects, in each state of versioning, and documents with and
//! without a namespace.

use super::*;

/// The vendor headers and the others, by their names, without the request id, which every answer
/// bears.
fn told(answer: &Answer) -> Vec<(String, String)> {
    let names = answer.header_names().filter(|name| *name != "x-request-id");
    let prefix = usual_dialect().header_prefix();
    let mut told: Vec<_> = names
        .map(|name| {
            (name.to_ascii_lowercase().replace(prefix, "p-"), answer.header(name).unwrap().to_owned())
        })
        .collect();
    told.sort();
    told
}

fn names(answer: &Answer) -> Vec<String> {
    told(answer).into_iter().map(|(name, _)| name).collect()
}

/// The names of headers, with those of `more` among them.
fn with(more: &[&str]) -> Vec<String> {
    let usual = ["accept-ranges", "content-type", "etag", "last-modified"];
    let mut names: Vec<_> = usual.iter().chain(more).map(|name| (*name).to_owned()).collect();
    names.sort();
    names
}

#[test]
fn each_versioning_state_has_its_response_headers_and_no_others() {
    for (state, id_is_told_of_puts, id_is_told) in
        [("", false, false), ("Enabled", true, true), ("Suspended", false, true)]
    {
        let server = Server::new();
        if !state.is_empty() {
            server.set_versioning(state);
        }
        let id = |told: bool| if told { vec!["p-version-id"] } else { vec![] };
        let crc = ["p-checksum-crc32", "p-checksum-type"];
        let put = server.put("/b/k", b"0123456789");
        assert_eq!(names(&put), [&["etag"], &id(id_is_told_of_puts)[..]].concat(), "PUT, {state}");
        let put = server.request("PUT", "/b/crc").header("p-checksum-crc32", "y/Q5Jg==").body(b"123456789");
        let expected = [&["etag"], &crc[..], &id(id_is_told_of_puts)].concat();
        assert_eq!(names(&put.send()), expected, "PUT with a checksum, {state}");

        for method in ["GET", "HEAD"] {
            let ask = |target: &str| server.request(method, target);
            assert_eq!(names(&ask("/b/k").send()), with(&id(id_is_told)), "{method}, {state}");
            let mode = ask("/b/crc").header("p-checksum-mode", "ENABLED").send();
            assert_eq!(names(&mode), with(&[&crc, &id(id_is_told)[..]].concat()), "{method}, {state}");
            assert_eq!(mode.header("p-checksum-type"), Some("FULL_OBJECT"));
            assert_eq!(names(&ask("/b/crc").send()), with(&id(id_is_told)), "{method}, {state}");
        }
        let range = server.request("GET", "/b/k").header("Range", "bytes=1-2").send();
        assert_eq!(names(&range), with(&[&["content-range"], &id(id_is_told)[..]].concat()));

        let deleted = server.delete("/b/k");
        let marked: &[&str] = if id_is_told { &["p-delete-marker", "p-version-id"] } else { &[] };
        assert_eq!(names(&deleted), marked, "DELETE, {state}");
        for method in ["GET", "HEAD"] {
            let gone = server.request(method, "/b/k").send();
            assert_eq!(names(&gone), [&["content-type"], marked].concat(), "{method}, {state}");
            assert_eq!(gone.status, 404);
            assert_eq!(gone.header("p-version-id"), deleted.header("p-version-id"), "{method}, {state}");
            let absent = server.request(method, "/b/absent").send();
            assert_eq!((absent.status, names(&absent)), (404, vec!["content-type".to_owned()]));
        }
    }
}

#[test]
fn a_head_is_the_get_without_its_body_whatever_comes_of_it() {
    let server = Server::with_grants(&[("none", &[], &["*"])]);
    server
        .request("PUT", "/b/k")
        .header("Cache-Control", "no-store")
        .header("p-meta-a", "1")
        .body(b"x")
        .send();
    server.put("/b/empty", b"");
    server.set_versioning("Enabled");
    let id = server.put("/b/k", b"0123456789").header("p-version-id").unwrap().to_owned();
    let marker = server.delete("/b/gone").header("p-version-id").unwrap().to_owned();
    let plain = [
        ("/b/k".to_owned(), 200),
        (format!("/b/k?versionId={id}"), 200),
        ("/b/k?versionId=null&response-cache-control=max-age%3D9".to_owned(), 200),
        ("/b/empty".to_owned(), 200),
        ("/b/k?partNumber=1".to_owned(), 206),
        ("/b/k?partNumber=2".to_owned(), 416),
        ("/b/k?versionId=x".to_owned(), 400),
        ("/b/absent".to_owned(), 404),
        ("/absent/k".to_owned(), 404),
        ("/b/k?versionId=0000000000000001aaaaaaaaaaaaaaaa".to_owned(), 404),
        ("/b/gone".to_owned(), 404),
        (format!("/b/gone?versionId={marker}"), 405),
    ];
    let plain =
        plain.iter().map(|(target, status)| (target.as_str(), *status, ("p-meta-none", "x"), "owner"));
    let others = [
        ("/b/k", 412, ("If-Match", "\"x\""), "owner"),
        ("/b/k", 304, ("If-None-Match", "*"), "owner"),
        ("/b/k", 416, ("Range", "bytes=99-"), "owner"),
        ("/b/k", 403, ("p-meta-none", "x"), "none"),
    ];
    for (target, status, (name, value), user) in plain.chain(others) {
        let [get, head] =
            ["GET", "HEAD"].map(|method| server.request(method, target).header(name, value).by(user).send());
        assert_eq!(get.status, status, "{target}: {get:?}");
        head.is_bare(status);
        assert_eq!(told(&head), told(&get), "{target}");
        let length: Option<usize> = head.header("Content-Length").map(|length| length.parse().unwrap());
        assert_eq!(length.is_some(), status != 304, "{target}");
        // The document that comes with a 405 names the method.
        assert!(status == 405 || length.is_none_or(|length| length == get.body.len()), "{target}");
    }
}

#[test]
fn documents_are_read_in_any_namespace_and_in_none() {
    let server = Server::new();
    let forms = ["", " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"", " xmlns=\"urn:example:other\""];
    for (at, namespace) in forms.iter().enumerate() {
        let send = |method: &str, target: &str, document: &str| {
            let digest = base64::Engine::encode(
                &base64::engine::general_purpose::STANDARD,
                siltstone::base::digest::Md5::of(document.as_bytes()),
            );
            let asked = server.request(method, target).header("Content-Type", "application/xml");
            let answer = asked.header("Content-MD5", digest).body(document.as_bytes()).send();
            assert_eq!(answer.status, 200, "{document}: {answer:?}");
            answer
        };
        let inner = "<LocationConstraint>eu</LocationConstraint>";
        let document = format!("<CreateBucketConfiguration{namespace}>{inner}</CreateBucketConfiguration>");
        send("PUT", &format!("/new-bucket-{at}"), &document);
        let status = ["Enabled", "Suspended", "Enabled"][at];
        let document = format!(
            "<VersioningConfiguration{namespace}><Status>{status}</Status></VersioningConfiguration>"
        );
        assert_eq!(send("PUT", "/b?versioning", &document).body.len(), 0);
        assert_eq!(server.get("/b?versioning").all("Status"), [status]);

        let id = server.request("POST", "/b/k?uploads").send().one("UploadId").unwrap();
        let tag = server.put(&format!("/b/k?partNumber=1&uploadId={id}"), b"x");
        let tag = tag.header("ETag").unwrap();
        let part = format!("<Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>");
        let document = format!("<CompleteMultipartUpload{namespace}>{part}</CompleteMultipartUpload>");
        send("POST", &format!("/b/k?uploadId={id}"), &document);

        let tag = "<Tag><Key>a</Key><Value>1</Value></Tag>";
        let document = format!("<Tagging{namespace}><TagSet>{tag}</TagSet></Tagging>");
        send("PUT", "/b/k?tagging", &document);
        assert_eq!(server.get("/b/k?tagging").all("Value"), ["1"]);
        let document = format!("<Delete{namespace}><Object><Key>k</Key></Object></Delete>");
        assert_eq!(send("POST", "/b?delete", &document).all("Deleted").len(), 1);
    }
}

#[test]
fn a_key_has_one_character_at_least() {
    let server = Server::new();
    server.put("/b/x", b"1");
    assert_eq!(server.get("/b/").outline()[0], "ListBucketResult", "nothing behind the slash is no key");
    let made = server.request("PUT", "/new-bucket/").send();
    assert_eq!((made.status, made.header("Location")), (200, Some("/new-bucket")));
    assert_eq!(server.get("/b//").is_error(404, "NoSuchKey").one("Key").as_deref(), Some("/"));
    assert_eq!(server.get("/b/x").text(), "1");
}

/// Each header that a sender gives an object, in text beyond ASCII, and the same as it comes back.
const BEYOND_ASCII: [(&str, &str, &str); 8] = [
    ("p-meta-city", "Zürich=Ж", "=?UTF-8?B?WsO8cmljaD3Qlg==?="),
    ("Cache-Control", "max-age=5, ü", "max-age=5, =?UTF-8?B?w7w=?="),
    (
        "Content-Disposition",
        "attachment; filename=\"ü.htm\"",
        "attachment; filename=\"=?UTF-8?B?w7wuaHRt?=\"",
    ),
    ("Content-Encoding", "ü", "=?UTF-8?B?w7w=?="),
    ("Content-Language", "de, ü", "de, =?UTF-8?B?w7w=?="),
    ("Content-Type", "text/plain; x=ü", "text/plain; x==?UTF-8?B?w7w=?="),
    ("Expires", "ü", "=?UTF-8?B?w7w=?="),
    ("p-website-redirect-location", "/ü", "=?UTF-8?B?L8O8?="),
];

#[test]
fn text_beyond_ascii_comes_back_as_encoded_words_and_is_stored_as_text() {
    let server = Server::new();
    let put = BEYOND_ASCII
        .iter()
        .fold(server.request("PUT", "/b/k"), |request, (name, text, _)| request.header(name, *text));
    assert_eq!(put.body(b"x").send().status, 200);
    let copied = server.request("PUT", "/b/copy").header("p-copy-source", "b/k").send();
    assert_eq!(copied.status, 200, "{copied:?}");
    for answer in [server.get("/b/k"), server.head("/b/k"), server.get("/b/copy")] {
        for (name, _, words) in BEYOND_ASCII {
            // A copy has no redirect location of its source.
            if name != "p-website-redirect-location" || answer.header(name).is_some() {
                assert_eq!(answer.header(name), Some(words), "{name}");
            }
        }
    }
    let kept = server.request("GET", "/b/k").header("If-None-Match", "*").send();
    assert_eq!((kept.status, kept.header("Cache-Control")), (304, Some("max-age=5, =?UTF-8?B?w7w=?=")));
}

#[test]
fn an_override_is_latin_1_as_in_s3_and_goes_out_as_ascii() {
    let server = Server::new();
    server.put("/b/k", b"x");
    for parameter in [
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "expires",
    ] {
        let latin = server.get(&format!("/b/k?response-{parameter}=a;x=%C3%BC"));
        assert_eq!((latin.status, latin.header(parameter)), (200, Some("a;x==?UTF-8?B?w7w=?=")));
        for method in ["GET", "HEAD"] {
            let target = format!("/b/k?response-{parameter}=%E6%97%A5");
            let refused = server.request(method, &target).send();
            assert_eq!(refused.status, 400, "{method} {parameter}");
        }
        let refused = server.get(&format!("/b/k?response-{parameter}=%E6%97%A5"));
        refused.is_error(400, "InvalidArgument");
        let told = ["Message", "ArgumentName", "ArgumentValue"].map(|name| refused.one(name).unwrap());
        let message = "Header value cannot be represented using ISO-8859-1.";
        assert_eq!(told, [message, &format!("response-{parameter}"), "日"]);
    }
}
