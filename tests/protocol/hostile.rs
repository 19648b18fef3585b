//! Whatever is sent, the answer is one.

use proptest::prelude::*;

use super::*;

/// Pieces that mean something somewhere, so that random requests get past the first check.
const WORDS: &str = "(b|k|/|//|%|%2F|%zz|\\.\\.|é|=|&|\\?|acl|versioning|uploads|uploadId|partNumber|versionId|null|list-type|2|\
    max-keys|-1|9|prefix|delimiter|marker|start-after|continuation-token|encoding-type|url|delete|tagging|response-expires|\
    [\u{0}-\u{7f}]){0,12}";

fn header() -> impl Strategy<Value = (String, Vec<u8>)> {
    let names = "(Range|If-Match|If-None-Match|If-Modified-Since|If-Range|Content-MD5|Content-Type|Content-Encoding|\
        Authorization|p-checksum-crc32|p-checksum-sha256|p-trailer|p-sdk-checksum-algorithm|p-content-sha256|\
        p-decoded-content-length|p-copy-source|p-meta-a|p-acl|p-date|x-amz-date|Host)";
    let values = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..20),
        "(bytes=[0-9]{0,20}-[0-9]{0,20}|\\*|UNSIGNED-PAYLOAD|STREAMING-UNSIGNED-PAYLOAD-TRAILER|[0-9]{1,20}|\
            AWS4-HMAC-SHA256 Credential=AK/1/eu/s3/aws4_request, SignedHeaders=host, Signature=0)"
            .prop_map(String::into_bytes),
    ];
    (names, values)
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let xml = "(<Delete>|</Delete>|<Object>|</Object>|<Key>|</Key>|<VersioningConfiguration>|</VersioningConfiguration>|\
        <Status>|</Status>|Enabled|k|&amp;|&|<!DOCTYPE|<!\\[CDATA\\[|\\]\\]>){0,12}";
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..100), xml.prop_map(String::into_bytes)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_request_makes_the_service_panic_or_answer_with_nonsense(
        method in "(GET|PUT|POST|DELETE|HEAD|OPTIONS|X)",
        target in WORDS,
        headers in proptest::collection::vec(header(), 0..4),
        body in body(),
    ) {
        let server = Server::with_grants(&[("anonymous", &["*"], &["*"])]);
        server.put("/b/k", b"0123456789");
        let mut asked = server.request(&method, &format!("/{target}")).anonymous().body(&body);
        for (name, value) in headers {
            asked = asked.header(&name, value);
        }
        let answer = asked.send();
        prop_assert!(matches!(answer.status, 200..=206 | 304 | 400..=416 | 500 | 501), "{answer:?}");
        prop_assert!(answer.status != 500, "{answer:?}");
        prop_assert!(answer.header("x-request-id").is_some());
        if answer.status >= 400 && method != "HEAD" && answer.header("Content-Type") == Some("application/xml") {
            prop_assert_eq!(answer.all("Error").len(), 1);
        }
        if method == "HEAD" {
            prop_assert!(answer.body.is_empty());
        }
    }
}
