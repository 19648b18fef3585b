//! Redirects of all requests, by routing rules and by objects.

use super::*;

const EVERYTHING: &[&str] = &["GetObject", "ListBucket"];

fn rules(rules: &[(&str, &str)]) -> String {
    let rule = |(condition, redirect): &(&str, &str)| match *condition {
        "" => format!("<RoutingRule><Redirect>{redirect}</Redirect></RoutingRule>"),
        _ => format!(
            "<RoutingRule><Condition>{condition}</Condition><Redirect>{redirect}</Redirect></RoutingRule>"
        ),
    };
    format!("<RoutingRules>{}</RoutingRules>", rules.iter().map(rule).collect::<String>())
}

#[test]
fn all_requests_are_redirected_with_their_path_and_query() {
    let to = |protocol: &str| {
        format!("<RedirectAllRequestsTo><HostName>new.example</HostName>{protocol}</RedirectAllRequestsTo>")
    };
    let server = site(&to(""), &[]);
    server.visit("/").is_redirect(301, "http://new.example/");
    server.visit("/a%20b/?x=1&y=%zz").is_redirect(301, "http://new.example/a%20b/?x=1&y=%zz");
    server.visit("//evil.example/%0D%0A").is_redirect(301, "http://new.example//evil.example/%0D%0A");
    server.browse("POST", "/").send().is_page(405, "MethodNotAllowed");
    server.set_website(&to("<Protocol>https</Protocol>"));
    server.visit("/k").is_redirect(301, "https://new.example/k");
    let head = server.browse("HEAD", "/k").send();
    assert_eq!((head.status, head.header("Location")), (301, Some("https://new.example/k")));
}

#[test]
fn rules_on_a_prefix_redirect_before_the_object_is_looked_up() {
    let docs = "<KeyPrefixEquals>docs/</KeyPrefixEquals>";
    let server = site(
        &format!("{INDEX}{}", rules(&[(docs, "<ReplaceKeyPrefixWith>documents/</ReplaceKeyPrefixWith>")])),
        &[],
    );
    server.put("/b/docs/k", b"never shown");
    server.visit("/docs/k").is_redirect(301, "http://b.web.example/documents/k");
    server.visit("/docs/").is_redirect(301, "http://b.web.example/documents/");
    server.visit("/docs/a%20b%0D%0A?x=1").is_redirect(301, "http://b.web.example/documents/a%20b%0D%0A");
    server.visit("/docs").is_page(403, "AccessDenied");
    server.visit("/").is_page(403, "AccessDenied");
    let ported = server.browse("GET", "/docs/k").host("b.web.example:9000").send();
    ported.is_redirect(301, "http://b.web.example:9000/documents/k");
    let odd = server.browse("GET", "/docs/k").host("b.web.example:1@evil.example").send();
    assert!(
        odd.status == 400 || odd.header("Location") == Some("http://b.web.example/documents/k"),
        "{odd:?}"
    );
}

#[test]
fn every_part_of_a_location_can_be_replaced() {
    let images = "<KeyPrefixEquals>images/</KeyPrefixEquals>";
    for (redirect, status, location) in [
        (
            "<ReplaceKeyWith>folderdeleted.html</ReplaceKeyWith>",
            301,
            "http://b.web.example/folderdeleted.html",
        ),
        ("<HostName>cdn.example</HostName>", 301, "http://cdn.example/images/x"),
        ("<Protocol>https</Protocol>", 301, "https://b.web.example/images/x"),
        ("<ReplaceKeyPrefixWith>#!/</ReplaceKeyPrefixWith>", 301, "http://b.web.example/#!/x"),
        (
            "<Protocol>https</Protocol><HostName>cdn.example:8443</HostName>\
             <ReplaceKeyPrefixWith>v2/</ReplaceKeyPrefixWith><HttpRedirectCode>307</HttpRedirectCode>",
            307,
            "https://cdn.example:8443/v2/x",
        ),
    ] {
        let server = site(&format!("{INDEX}{}", rules(&[(images, redirect)])), EVERYTHING);
        server.visit("/images/x").is_redirect(status, location);
        server.visit("/other").is_page(404, "NoSuchKey");
    }
    for code in [301, 302, 303, 305, 307, 308] {
        let redirect =
            format!("<ReplaceKeyWith>x</ReplaceKeyWith><HttpRedirectCode>{code}</HttpRedirectCode>");
        let server = site(&format!("{INDEX}{}", rules(&[(images, &redirect)])), EVERYTHING);
        server.visit("/images/").is_redirect(code, "http://b.web.example/x");
    }
}

#[test]
fn rules_on_an_error_redirect_requests_that_fail_with_it() {
    let on = |status: u16| format!("<HttpErrorCodeReturnedEquals>{status}</HttpErrorCodeReturnedEquals>");
    let report = "<HostName>report.example</HostName><ReplaceKeyPrefixWith>404/</ReplaceKeyPrefixWith>";
    let images = format!("{}<KeyPrefixEquals>images/</KeyPrefixEquals>", on(404));
    let configuration = format!(
        "{WITH_ERROR}{}",
        rules(&[(&images, report), (&on(403), "<ReplaceKeyWith>login</ReplaceKeyWith>")])
    );
    let server = site(&configuration, EVERYTHING);
    server.put("/b/error.html", b"error document");
    server.put("/b/images/there", b"x");
    server.visit("/images/x").is_redirect(301, "http://report.example/404/x");
    server.visit("/images/").is_redirect(301, "http://report.example/404/");
    assert_eq!(server.visit("/images/there").text(), "x");
    assert_eq!((server.visit("/x").status, server.visit("/x").text()), (404, "error document"));
    // The folder comes before the rule.
    server.put("/b/images/deep/index.html", b"x");
    server.visit("/images/deep").is_redirect(302, "/images/deep/");

    let server = site(&configuration, &["GetObject"]);
    server.visit("/images/x").is_redirect(301, "http://b.web.example/login");
}

#[test]
fn the_first_rule_that_holds_counts() {
    let name = |name: &str| format!("<ReplaceKeyWith>{name}</ReplaceKeyWith>");
    let first = name("first");
    let second = name("second");
    let last = name("last");
    let server = site(
        &format!(
            "{INDEX}{}",
            rules(&[
                ("<KeyPrefixEquals>a</KeyPrefixEquals>", &first),
                ("<KeyPrefixEquals>ab</KeyPrefixEquals>", &second),
                ("", &last),
            ])
        ),
        &[],
    );
    server.visit("/abc").is_redirect(301, "http://b.web.example/first");
    server.visit("/b").is_redirect(301, "http://b.web.example/last");
    server.visit("/").is_redirect(301, "http://b.web.example/last");
}

#[test]
fn an_object_may_name_another_location() {
    let server = site(WITH_ERROR, EVERYTHING);
    for (key, location, sent) in [
        ("relative", "/new place", "/new%20place"),
        ("absolute", "https://new.example/?a=b#c", "https://new.example/?a=b#c"),
    ] {
        let target = format!("/b/{key}");
        let put = server.request("PUT", &target).header("p-website-redirect-location", location);
        assert_eq!(put.body(b"content").send().status, 200);
        let answer = server.get(&target);
        assert_eq!((answer.status, answer.text()), (200, "content"));
        assert_eq!(answer.header("p-website-redirect-location"), Some(location));
        assert_eq!(server.head(&target).header("p-website-redirect-location"), Some(location));
        server.visit(&format!("/{key}")).is_redirect(301, sent);
        let etag = answer.header("ETag").unwrap().to_owned();
        let conditional = server.browse("GET", &format!("/{key}")).header("If-None-Match", etag).send();
        conditional.is_redirect(301, sent);
    }
    let closed = site(WITH_ERROR, &["ListBucket"]);
    let put = closed.request("PUT", "/b/k").header("p-website-redirect-location", "/x");
    assert_eq!(put.send().status, 200);
    closed.visit("/k").is_page(403, "AccessDenied");
}

#[test]
fn an_index_and_an_error_document_may_name_another_location() {
    let server = site(WITH_ERROR, EVERYTHING);
    for (key, location) in [("index.html", "/start"), ("error.html", "https://help.example/")] {
        let put = server.request("PUT", &format!("/b/{key}")).header("p-website-redirect-location", location);
        assert_eq!(put.send().status, 200);
    }
    server.visit("/").is_redirect(301, "/start");
    server.visit("/absent").is_redirect(301, "https://help.example/");
}

#[test]
fn rules_take_precedence_over_the_location_of_an_object() {
    let rule = rules(&[("<KeyPrefixEquals>k</KeyPrefixEquals>", "<ReplaceKeyWith>by-rule</ReplaceKeyWith>")]);
    let server = site(&format!("{INDEX}{rule}"), EVERYTHING);
    let put = server.request("PUT", "/b/k").header("p-website-redirect-location", "/by-object");
    assert_eq!(put.send().status, 200);
    server.visit("/k").is_redirect(301, "http://b.web.example/by-rule");
}

#[test]
fn the_location_of_an_object_is_that_of_its_put_copy_or_upload() {
    const NAME: &str = "p-website-redirect-location";
    let server = Server::new();
    for dialect in Dialect::ALL {
        let ask = |method: &str, target: &str| server.request(method, target).dialect(dialect);
        let location = |key: &str| ask("HEAD", key).send().header(NAME).map(str::to_owned);
        assert_eq!(ask("PUT", "/b/k").header(NAME, "/a").send().status, 200);
        assert_eq!(location("/b/k").as_deref(), Some("/a"));
        // A copy does not keep it.
        assert_eq!(ask("PUT", "/b/copy").header("p-copy-source", "/b/k").send().status, 200);
        assert_eq!(location("/b/copy"), None);
        let copy = ask("PUT", "/b/copy").header("p-copy-source", "/b/k").header(NAME, "/c");
        assert_eq!(copy.header("p-metadata-directive", "REPLACE").send().status, 200);
        assert_eq!(location("/b/copy").as_deref(), Some("/c"));
        // Another one is a change of the object.
        let onto_itself = || ask("PUT", "/b/k").header("p-copy-source", "/b/k");
        onto_itself().send().is_error(400, "InvalidRequest");
        assert_eq!(onto_itself().header(NAME, "/b").send().status, 200);
        assert_eq!(location("/b/k").as_deref(), Some("/b"));

        let upload = ask("POST", "/b/parts?uploads").header(NAME, "/d").send().one("UploadId").unwrap();
        let part = ask("PUT", &format!("/b/parts?partNumber=1&uploadId={upload}")).body(b"x").send();
        let list = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
            part.header("ETag").unwrap()
        );
        let complete = ask("POST", &format!("/b/parts?uploadId={upload}")).body(list.as_bytes()).send();
        assert_eq!(complete.status, 200, "{complete:?}");
        assert_eq!(location("/b/parts").as_deref(), Some("/d"));

        for wrong in ["b", "ftp://a.example", "javascript:alert(1)"] {
            ask("PUT", "/b/k").header(NAME, wrong).send().is_error(400, "InvalidRedirectLocation");
            ask("POST", "/b/k?uploads").header(NAME, wrong).send().is_error(400, "InvalidRedirectLocation");
            onto_itself().header(NAME, wrong).send().is_error(400, "InvalidRedirectLocation");
        }
    }
}
