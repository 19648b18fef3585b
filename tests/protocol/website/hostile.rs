//! Whatever a document or a request says, the answer is one.

use proptest::prelude::*;

use super::*;

/// Elements of website configurations with values that are odd or fit.
const PIECES: &str = "(<IndexDocument><Suffix>|</Suffix></IndexDocument>|<ErrorDocument><Key>|</Key></ErrorDocument>|\
    <RoutingRules><RoutingRule>|</RoutingRule><RoutingRule>|</RoutingRule></RoutingRules>|<Condition>|</Condition>|<Redirect>|\
    </Redirect>|<HostName>|</HostName>|<KeyPrefixEquals>|</KeyPrefixEquals>|404|301|k|/|&#13;&#10;|&lt;|é|<!--|-->){0,20}";

fn text() -> impl Strategy<Value = String> {
    "(k|/|&#13;|&#10;Set-Cookie: x|&lt;script&gt;|\\\\|%0d%0a|\\?|#|é| ){0,4}"
}

/// A document that is taken unless its text is refused.
fn site_document() -> impl Strategy<Value = String> {
    (text(), text(), text(), text()).prop_map(|(prefix, host, key, error)| {
        format!(
            "{INDEX}<ErrorDocument><Key>e{error}</Key></ErrorDocument><RoutingRules><RoutingRule><Condition>\
             <KeyPrefixEquals>{prefix}</KeyPrefixEquals></Condition><Redirect><HostName>h{host}</HostName>\
             <ReplaceKeyPrefixWith>{key}</ReplaceKeyPrefixWith></Redirect></RoutingRule></RoutingRules>"
        )
    })
}

fn put(server: &Server, document: &str) -> u16 {
    server.request("PUT", "/b?website").body(document.as_bytes()).send().status
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn documents_are_taken_as_a_whole_or_refused(pieces in PIECES) {
        let server = Server::new();
        match put(&server, &document(&pieces)) {
            200 => prop_assert_eq!(server.get("/b?website").status, 200),
            status => {
                prop_assert_eq!(status, 400);
                prop_assert_eq!(server.get("/b?website").status, 404);
            }
        }
    }

    #[test]
    fn no_document_and_no_path_adds_a_header_or_markup(
        inner in site_document(),
        target in "(k|/|%0d%0a|%0aSet-Cookie:x|%3Cscript%3E|%5C|%00|%c3%a9|\\?|&|'){0,8}",
        location in "(/|k|\\\\|\\?|#|<|>|\"|\\^){0,6}",
    ) {
        let server = site(INDEX, &["GetObject", "ListBucket"]);
        let stored = server.request("PUT", "/b/k").header("p-website-redirect-location", location);
        prop_assert!(matches!(stored.send().status, 200 | 400));
        prop_assert!(matches!(put(&server, &document(&inner)), 200 | 400));
        let answer = server.visit(&format!("/{target}"));
        prop_assert!(matches!(answer.status, 200 | 301 | 302 | 400..=499), "{answer:?}");
        prop_assert!(answer.header("Set-Cookie").is_none());
        if let Some(location) = answer.header("Location") {
            let is_of_uri = |byte: u8| byte.is_ascii_graphic() && !b"<>\"\\\\^`{|}".contains(&byte);
            prop_assert!(location.bytes().all(is_of_uri), "{location:?}");
        }
        if answer.header("Content-Type") == Some("text/html; charset=utf-8") {
            prop_assert!(!answer.text().contains("<script"), "{answer:?}");
        }
    }
}
