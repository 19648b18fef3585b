//! Query parameters with garbage in them.

use super::victim::{Case, request};

/// A method, a target that ends with the parameter, and the answers to garbage: empty, letters, a
/// number below nothing, a number beyond 64 bits, escapes that are not UTF-8, an escape that is
/// none, a NUL.
type Garbage = (&'static str, &'static str, [&'static str; 7]);

const ARGUMENT: &str = "400 InvalidArgument";
const URI: &str = "400 InvalidURI";

const GARBAGE: &[Garbage] = &[
    ("GET", "/b?list-type=2&max-keys=", ["200", ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT]),
    ("GET", "/b?list-type=2&prefix=", ["200", "200", "200", "200", URI, URI, "200"]),
    ("GET", "/b?list-type=2&delimiter=", ["200", "200", "200", "200", URI, URI, "200"]),
    ("GET", "/b?list-type=2&start-after=", ["200", "200", "200", "200", URI, URI, "200"]),
    (
        "GET",
        "/b?list-type=2&continuation-token=",
        [ARGUMENT, ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT],
    ),
    ("GET", "/b?list-type=2&encoding-type=", [ARGUMENT, ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT]),
    ("GET", "/b?list-type=2&fetch-owner=", ["200", "200", "200", "200", URI, URI, "200"]),
    ("GET", "/b?list-type=", [ARGUMENT, ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT]),
    ("GET", "/b?marker=", ["200", "200", "200", "200", URI, URI, "200"]),
    ("GET", "/b?versions&max-keys=", ["200", ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT]),
    ("GET", "/b?versions&key-marker=", ["200", "200", "200", "200", URI, URI, "200"]),
    (
        "GET",
        "/b?versions&key-marker=k&version-id-marker=",
        ["200", ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT],
    ),
    ("GET", "/b?uploads&max-uploads=", ["200", ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT]),
    (
        "GET",
        "/b?uploads&key-marker=k&upload-id-marker=",
        ["200", ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT],
    ),
    ("GET", "/?max-buckets=", ["200", ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT]),
    ("GET", "/?continuation-token=", [ARGUMENT, ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT]),
    ("GET", "/b/k?versionId=", [ARGUMENT, ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT]),
    ("GET", "/b/k?partNumber=", ["200", ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT]),
    (
        "GET",
        "/b/k?uploadId=",
        [
            "404 NoSuchUpload",
            "404 NoSuchUpload",
            "404 NoSuchUpload",
            "404 NoSuchUpload",
            URI,
            URI,
            "404 NoSuchUpload",
        ],
    ),
    (
        "GET",
        "/b/k?response-expires=",
        [
            "400 InvalidRequest",
            "400 InvalidRequest",
            "400 InvalidRequest",
            "400 InvalidRequest",
            URI,
            URI,
            "400 InvalidRequest",
        ],
    ),
    (
        "PUT",
        "/b/k?uploadId=0000000000000001aaaaaaaaaaaaaaaa&partNumber=",
        [ARGUMENT, ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT],
    ),
    ("DELETE", "/b/absent?versionId=", [ARGUMENT, ARGUMENT, ARGUMENT, ARGUMENT, URI, URI, ARGUMENT]),
    (
        "DELETE",
        "/b/k?uploadId=",
        [
            "404 NoSuchUpload",
            "404 NoSuchUpload",
            "404 NoSuchUpload",
            "404 NoSuchUpload",
            URI,
            URI,
            "404 NoSuchUpload",
        ],
    ),
    ("GET", "/b/k?unknown=", ["200", "200", "200", "200", URI, URI, "200"]),
];

/// A name, a method, a target, and the answer.
const TARGETS: &[(&str, &str, &str, &str)] = &[
    ("a parameter twice", "GET", "/b?list-type=2&prefix=a&prefix=b", "200"),
    ("two sub-resources", "GET", "/b?versions&uploads", "200"),
    ("a sub-resource of another level", "GET", "/?versions", "200"),
    ("a part without an upload", "PUT", "/b/k?partNumber=1", "400 InvalidArgument"),
    (
        "an upload without a part",
        "PUT",
        "/b/k?uploadId=0000000000000001aaaaaaaaaaaaaaaa",
        "400 InvalidArgument",
    ),
    ("part 0", "PUT", "/b/k?uploadId=0000000000000001aaaaaaaaaaaaaaaa&partNumber=0", "400 InvalidArgument"),
    (
        "part 10,001",
        "PUT",
        "/b/k?uploadId=0000000000000001aaaaaaaaaaaaaaaa&partNumber=10001",
        "400 InvalidArgument",
    ),
    (
        "a marker of versions without its key",
        "GET",
        "/b?versions&version-id-marker=null",
        "400 InvalidArgument",
    ),
    ("access lists", "GET", "/b?acl", "200"),
    ("an empty access list", "PUT", "/b/k?acl", "400 MalformedXML"),
    ("torrents", "GET", "/b/k?torrent", "501 NotImplemented"),
    ("selection", "POST", "/b/k?select&select-type=2", "501 NotImplemented"),
    ("a policy that was never set", "GET", "/b?policy", "404 NoSuchBucketPolicy"),
    ("an empty policy", "PUT", "/b?policy", "400 MalformedPolicy"),
    (
        "a name without end",
        "GET",
        "/b/k?nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn=1",
        "200",
    ),
    ("a page of nothing", "GET", "/b?list-type=2&max-keys=0", "200"),
    ("a page beyond the greatest", "GET", "/b?list-type=2&max-keys=2147483647", "200"),
];

pub(super) fn cases() -> Vec<Case> {
    let garbage = [
        ("nothing", ""),
        ("letters", "garbage"),
        ("a number below nothing", "-1"),
        ("a number beyond 64 bits", "18446744073709551616"),
        ("escapes that are not UTF-8", "%ff%fe"),
        ("an escape that is none", "%zz"),
        ("a NUL", "%00"),
    ];
    let mut cases = Vec::new();
    for (method, target, expected) in GARBAGE {
        for ((kind, value), expected) in garbage.iter().zip(expected) {
            let sent = request(method, &format!("{target}{value}"), "", "");
            cases.push(Case::new(format!("{method} {target}: {kind}"), sent, expected));
        }
    }
    cases.extend(TARGETS.iter().map(|(name, method, target, expected)| {
        Case::new(format!("{method} {target}: {name}"), request(method, target, "", ""), expected)
    }));
    cases
}
