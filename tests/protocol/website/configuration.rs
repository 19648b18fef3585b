//! Put, Get and DeleteBucketWebsite.

use super::*;

const RULES: &str = "<RoutingRules><RoutingRule><Condition><KeyPrefixEquals>docs/</KeyPrefixEquals></Condition>\
    <Redirect><ReplaceKeyPrefixWith>documents/</ReplaceKeyPrefixWith></Redirect></RoutingRule></RoutingRules>";

#[test]
fn a_website_is_set_returned_replaced_and_removed_in_both_dialects() {
    let server = Server::new();
    for dialect in Dialect::ALL {
        let ask = |method: &str, body: &str| {
            server.request(method, "/b?website").dialect(dialect).body(body.as_bytes()).send()
        };
        ask("GET", "").is_error(404, "NoSuchWebsiteConfiguration");
        let first = format!("{INDEX}<ErrorDocument><Key>404.html</Key></ErrorDocument>{RULES}");
        assert_eq!(ask("PUT", &document(&first)).status, 200);
        let answer = ask("GET", "");
        assert_eq!(answer.header("Content-Type"), Some("application/xml"));
        assert_eq!(answer.text().split_once('\n').unwrap().1, document(&first));
        let second = "<RedirectAllRequestsTo><HostName>a.example</HostName></RedirectAllRequestsTo>";
        assert_eq!(ask("PUT", &document(second).replace(&format!(" xmlns=\"{NAMESPACE}\""), "")).status, 200);
        assert_eq!(ask("GET", "").text().split_once('\n').unwrap().1, document(second));
        assert_eq!(ask("DELETE", "").status, 204);
        assert_eq!(ask("DELETE", "").status, 204);
        ask("GET", "").is_error(404, "NoSuchWebsiteConfiguration");
    }
}

#[test]
fn documents_that_s3_refuses_change_nothing() {
    let server = Server::new();
    server.set_website(INDEX);
    let before = server.get("/b?website").body;
    let long = format!("{INDEX}<!--{}-->", "x".repeat(128 << 10));
    for (body, code) in [
        (String::new(), "MalformedXML"),
        ("<WebsiteConfiguration>".to_owned(), "MalformedXML"),
        ("<CORSConfiguration/>".to_owned(), "MalformedXML"),
        (document(&format!("{INDEX}<Other/>")), "MalformedXML"),
        (document(""), "InvalidArgument"),
        (document(&INDEX.replace("index", "a/index")), "InvalidArgument"),
        (document(&format!("{INDEX}{}", RULES.replace("</ReplaceKeyP", "</Other"))), "MalformedXML"),
        (document(&format!("{INDEX}{}", RULES.replace("KeyPrefixEquals>", "Key>"))), "MalformedXML"),
        (
            document(&format!("{INDEX}{}", RULES.replace("<Redirect>", "<Redirect><Protocol>x</Protocol>"))),
            "InvalidRequest",
        ),
        (document(&long), "MaxMessageLengthExceeded"),
    ] {
        server.request("PUT", "/b?website").body(body.as_bytes()).send().is_error(400, code);
    }
    server.request("PUT", "/b?website").body(b"\xff").send().is_error(400, "MalformedXML");
    server.request("PUT", "/b?website").unframed().send().is_error(411, "MissingContentLength");
    let wrong = server.request("PUT", "/b?website").header("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==");
    wrong.body(document(INDEX).as_bytes()).send().is_error(400, "BadDigest");
    assert_eq!(server.get("/b?website").body, before);
    server.request("POST", "/b?website").send().is_error(405, "MethodNotAllowed");
}

#[test]
fn a_bucket_that_is_not_there_has_no_website() {
    let server = Server::new();
    for method in ["GET", "PUT", "DELETE"] {
        let body = document(INDEX);
        server.request(method, "/absent?website").body(body.as_bytes()).send().is_error(404, "NoSuchBucket");
    }
}
