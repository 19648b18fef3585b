//! Signatures that others have made and the server must believe: the examples of the S3 API
//! reference, and requests recorded by `fixtures/auth/generate.py`.

use serde_json::Value;
use siltstone::s3::{Dialect, ErrorCode};

use super::{ACCESS_KEY, SECRET_KEY, Sent};

/// The hash of no bytes.
pub(crate) const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// An example of the S3 API reference: a request at its moment, to its host.
fn example(
    method: &str,
    path: &str,
    query: &str,
    rest: &[(&str, &str)],
    signed: &str,
    signature: &str,
) -> Sent {
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20130524/us-east-1/s3/aws4_request,SignedHeaders={signed},\
         Signature={signature}"
    );
    let host = [("Host", "examplebucket.s3.amazonaws.com"), ("Authorization", &authorization)];
    Sent::new(Dialect::Aws, method, path, query, &[&host, rest].concat())
}

/// "Signature calculations for the authorization header", example "GET object".
pub(crate) fn get_object() -> Sent {
    example(
        "GET",
        "/test.txt",
        "",
        &[("Range", "bytes=0-9"), ("x-amz-content-sha256", EMPTY), ("x-amz-date", "20130524T000000Z")],
        "host;range;x-amz-content-sha256;x-amz-date",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    )
}

/// "PUT object" of the same page.
pub(crate) fn put_object() -> Sent {
    let hash = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    example(
        "PUT",
        "/test%24file.text",
        "",
        &[
            ("Date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ("x-amz-content-sha256", hash),
        ],
        "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    )
    .with_body("Welcome to Amazon S3.")
}

/// "GET bucket lifecycle" of the same page.
pub(crate) fn get_lifecycle() -> Sent {
    example(
        "GET",
        "/",
        "lifecycle",
        &[("x-amz-date", "20130524T000000Z"), ("x-amz-content-sha256", EMPTY)],
        "host;x-amz-content-sha256;x-amz-date",
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    )
}

/// "GET bucket (list objects)" of the same page.
pub(crate) fn list_objects() -> Sent {
    example(
        "GET",
        "/",
        "max-keys=2&prefix=J",
        &[("x-amz-date", "20130524T000000Z"), ("x-amz-content-sha256", EMPTY)],
        "host;x-amz-content-sha256;x-amz-date",
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    )
}

/// The example of "Authenticating requests: using query parameters".
pub(crate) fn presigned() -> Sent {
    let query = "X-Amz-Algorithm=AWS4-HMAC-SHA256\
        &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
        &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
        &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    let host = [("Host", "examplebucket.s3.amazonaws.com")];
    Sent::new(Dialect::Aws, "GET", "/test.txt", query, &host)
}

/// A body of 64 KiB and 1 KiB of `a`, with the signatures of its three chunks.
fn chunks(signatures: [&str; 3], end: &str) -> Vec<u8> {
    let [first, second, last] = signatures;
    let large = "a".repeat(65_536);
    let small = "a".repeat(1024);
    format!(
        "10000;chunk-signature={first}\r\n{large}\r\n400;chunk-signature={second}\r\n{small}\r\n\
         0;chunk-signature={last}\r\n{end}\r\n"
    )
    .into_bytes()
}

/// The example of "Transferring payload in multiple chunks".
pub(crate) fn chunked() -> Sent {
    let mut sent = example(
        "PUT",
        "/examplebucket/chunkObject.txt",
        "",
        &[
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
            ("Content-Encoding", "aws-chunked"),
            ("x-amz-decoded-content-length", "66560"),
            ("Content-Length", "66824"),
        ],
        "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;\
         x-amz-storage-class",
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    );
    *sent.header("host") = b"s3.amazonaws.com".to_vec();
    sent.with_body(chunks(
        [
            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
        ],
        "",
    ))
}

/// The example of "Signature calculations for trailing headers".
pub(crate) fn trailing() -> Sent {
    let mut sent = example(
        "PUT",
        "/examplebucket/chunkObject.txt",
        "",
        &[
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"),
            ("Content-Encoding", "aws-chunked"),
            ("x-amz-decoded-content-length", "66560"),
            ("x-amz-trailer", "x-amz-checksum-crc32c"),
            ("Content-Length", "66946"),
        ],
        "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;\
         x-amz-trailer",
        "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
    );
    *sent.header("host") = b"s3.amazonaws.com".to_vec();
    sent.with_body(chunks(
        [
            "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
            "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
            "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
        ],
        "x-amz-checksum-crc32c:sOO8/Q==\r\n\
         x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n",
    ))
}

/// A recorded request and its expected outcome.
pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) sent: Sent,
    pub(crate) data: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn pairs(value: &Value) -> Vec<(String, String)> {
    value.as_array().unwrap().iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

/// All recorded requests.
pub(crate) fn recorded() -> Vec<Recorded> {
    let document: Value = serde_json::from_str(include_str!("../fixtures/auth/requests.json")).unwrap();
    assert_eq!(document["access_key"], ACCESS_KEY);
    assert_eq!(document["secret_key"], SECRET_KEY);
    let cases = document["cases"].as_array().unwrap();
    let read = |case: &Value| {
        let dialect = if case["dialect"] == "aws" { Dialect::Aws } else { Dialect::Svc };
        let lines = pairs(&case["headers"]);
        let lines: Vec<_> = lines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let method = text(&case["method"]);
        let path = text(&case["path"]);
        let query = text(&case["query"]);
        Recorded {
            name: text(&case["name"]),
            sent: Sent::new(dialect, &method, &path, &query, &lines).with_body(text(&case["body"])),
            data: text(&case["data"]).into_bytes(),
            trailers: pairs(&case["trailers"]),
        }
    };
    cases.iter().map(read).collect()
}

/// The recorded request of that name.
pub(crate) fn recorded_as(name: &str) -> Sent {
    recorded().into_iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no {name}")).sent
}

/// The query among the recorded ones that is no valid encoding.
const UNDECODABLE: &str = "a=%";

#[test]
fn the_published_examples_are_believed() {
    for sent in [get_object(), put_object(), get_lifecycle(), list_objects(), presigned()] {
        let received = sent.received();
        assert_eq!(received.identity.name(), "alice");
        assert!(!received.identity.is_anonymous());
        assert_eq!(received.data, sent.body);
        assert_eq!(received.content_length, Some(sent.body.len() as u64));
    }
}

#[test]
fn the_published_chunks_are_decoded() {
    for (sent, encoded, trailers) in [(chunked(), 66_824, &[][..]), (trailing(), 66_946, &["sOO8/Q=="])] {
        assert_eq!(sent.body.len(), encoded);
        let received = sent.received();
        assert_eq!(received.data, vec![b'a'; 66_560]);
        assert_eq!(received.content_length, Some(66_560));
        let expected = trailers.iter().map(|value| ("p-checksum-crc32c".to_owned(), (*value).to_owned()));
        assert_eq!(received.trailers, expected.collect::<Vec<_>>());
    }
}

#[test]
fn recorded_requests_are_believed_and_their_bodies_decoded() {
    let cases = recorded();
    assert!(cases.len() > 300, "only {} cases", cases.len());
    let (_, authenticator) = super::authenticator();
    let mut failures = Vec::new();
    for case in &cases {
        match case.sent.outcome(&authenticator) {
            Ok(received) => {
                assert_eq!(received.identity.name(), "alice", "{}", case.name);
                assert_eq!(received.data, case.data, "{}", case.name);
                assert_eq!(received.trailers, case.trailers, "{}", case.name);
                assert_eq!(received.content_length, Some(case.data.len() as u64), "{}", case.name);
            }
            // It decodes to nothing, however well it is signed.
            Err(error) if case.sent.query == UNDECODABLE => assert_eq!(error.code, ErrorCode::InvalidURI),
            Err(error) => failures.push(format!("{}: {error}", case.name)),
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}
