//! Header lines: their form, their number, and garbage in every header that the interface knows.

use super::victim::{Case, request};

/// A name, header lines with their line ends, and the answer to a GET of an object.
const LINES: &[(&str, &[u8], &str)] = &[
    ("no host", b"", "400 InvalidRequest"),
    ("two hosts", b"Host: a\r\nHost: a\r\n", "400 InvalidRequest"),
    ("a host with a path", b"Host: a/b\r\n", "400 InvalidRequest"),
    ("a host with a user", b"Host: u@a\r\n", "400 InvalidRequest"),
    ("a host with a blank", b"Host: a b\r\n", "400 InvalidRequest"),
    ("a host with a quote", b"Host: a\"b\r\n", "400 InvalidRequest"),
    ("a host beyond ASCII", b"Host: \xc3\xbc\r\n", "400 InvalidRequest"),
    ("an empty host", b"Host:\r\n", "200"),
    ("a host of an address", b"Host: [::1]:9000\r\n", "200"),
    ("a host that is a bucket that is none", b"Host: no.s3.example\r\n", "404 NoSuchBucket"),
    ("a host of dots", b"Host: ...s3.example\r\n", "404 NoSuchBucket"),
    ("a line without a colon", b"Host: a\r\nabc\r\n", "400 InvalidRequest"),
    ("a line without a name", b"Host: a\r\n: x\r\n", "400 InvalidRequest"),
    ("a name with a blank", b"Host: a\r\nA B: x\r\n", "400 InvalidRequest"),
    ("a blank before the colon", b"Host: a\r\nA : x\r\n", "400 InvalidRequest"),
    ("a name with a NUL", b"Host: a\r\nA\0: x\r\n", "400 InvalidRequest"),
    ("a name with a bracket", b"Host: a\r\nA(: x\r\n", "400 InvalidRequest"),
    ("a name beyond ASCII", b"Host: a\r\n\xc3\xbc: x\r\n", "400 InvalidRequest"),
    ("a name of token marks", b"Host: a\r\n!#$%&'*+-.^_`|~: x\r\n", "200"),
    ("a value with a NUL", b"Host: a\r\nA: x\0y\r\n", "400 InvalidRequest"),
    ("a value with a DEL", b"Host: a\r\nA: x\x7fy\r\n", "400 InvalidRequest"),
    ("a value with a bell", b"Host: a\r\nA: x\x07y\r\n", "400 InvalidRequest"),
    ("a value with an escape", b"Host: a\r\nA: \x1b[2J\r\n", "400 InvalidRequest"),
    ("a value with a carriage return", b"Host: a\r\nA: x\ry\r\n", "400 InvalidRequest"),
    ("a value with a tab", b"Host: a\r\nA: x\ty\r\n", "200"),
    ("a value of bytes above ASCII", b"Host: a\r\nA: \xff\xfe\r\n", "200"),
    ("an empty value", b"Host: a\r\nA:\r\n", "200"),
    ("a value of blanks", b"Host: a\r\nA:   \t \r\n", "200"),
    ("a line folded with a blank", b"Host: a\r\nA: x\r\n y\r\n", "400 InvalidRequest"),
    ("a line folded with a tab", b"Host: a\r\nA: x\r\n\ty\r\n", "400 InvalidRequest"),
    ("a first line folded", b" Host: a\r\n", "400 InvalidRequest"),
    ("a line feed alone", b"Host: a\nA: x\r\n", "400 InvalidRequest"),
    ("line feeds alone throughout", b"Host: a\nA: x\n", "400 InvalidRequest"),
    ("two carriage returns", b"Host: a\r\r\nA: x\r\n", "400 InvalidRequest"),
    ("both dialects at once", b"Host: a\r\nx-amz-date: 1\r\nx-svc-date: 1\r\n", "400 InvalidRequest"),
    ("the same header a hundred times but two", MANY_98, "200"),
];

/// The host and 98 more are 99 lines.
const MANY_98: &[u8] = &{
    let mut lines = [b'\n'; 9 + 98 * 6];
    let head = b"Host: a\r\n";
    let mut at = 0;
    while at < lines.len() {
        lines[at] = if at < 9 { head[at] } else { b"A: b\r\n"[(at - 9) % 6] };
        at += 1;
    }
    lines
};

pub(super) fn lines() -> Vec<Case> {
    let get = |lines: &[u8]| [b"GET /b/k HTTP/1.1\r\n", lines, b"\r\n"].concat();
    let lines = LINES.iter().map(|(name, lines, expected)| Case::new(*name, get(lines), expected));
    let too_large = "400 RequestHeaderSectionTooLarge";
    let host = "GET /b/k HTTP/1.1\r\nHost: a\r\n";
    let many = [
        Case::new("a hundred lines", format!("{host}{}\r\n", "A: b\r\n".repeat(99)), "200"),
        Case::new("a hundred and one lines", format!("{host}{}\r\n", "A: b\r\n".repeat(100)), too_large),
        Case::new("lines without end", format!("{host}{}", "A: b\r\n".repeat(5_000)), too_large),
        Case::new("a value without end", format!("{host}A: {}", "b".repeat(40_000)), too_large),
        Case::new("a name without end", format!("{host}{}", "b".repeat(40_000)), too_large),
        Case::new("a head that is cut", format!("{host}A: b"), ""),
        Case::new("a head without its last line end", host.to_owned(), ""),
    ];
    lines.chain(many).collect()
}

/// Headers of the interface: how a request is made, the header, and the answers to garbage: empty;
/// blanks and commas; letters; a number beyond 64 bits; a number below nothing; bytes that are not
/// UTF-8; 8,000 letters.
type Garbage = (&'static str, &'static str, &'static str, [&'static str; 7]);

/// Bytes that are not UTF-8 are no value of a header that is kept or that is the vendor's.
const fn text(answer: &'static str) -> [&'static str; 7] {
    let mut answers = [answer; 7];
    answers[5] = "400 InvalidArgument";
    answers
}

const OK: [&str; 7] = ["200"; 7];
const OK_TEXT: [&str; 7] = text("200");
const INVALID_ARGUMENT: [&str; 7] = ["400 InvalidArgument"; 7];
const INVALID_REQUEST: [&str; 7] = text("400 InvalidRequest");
const INVALID_DIGEST: [&str; 7] = ["400 InvalidDigest"; 7];
const TRAILER: [&str; 7] = text("400 MalformedTrailerError");
const NO_SUCH_KEY: [&str; 7] = text("404 NoSuchKey");
const NOTHING_DELETED: [&str; 7] = text("204");
/// Tags that no object has, but for the first, which is no condition at all.
const NONE_MATCH: [&str; 7] = {
    let mut answers = OK_TEXT;
    answers[0] = "400 InvalidArgument";
    answers
};
const UNSIGNED: [&str; 7] = {
    let mut answers = ["400 InvalidRequest"; 7];
    answers[5] = "400 AuthorizationHeaderMalformed";
    answers
};
const TAGS: [&str; 7] =
    ["200", "400 InvalidTag", "200", "200", "200", "400 InvalidArgument", "400 InvalidTag"];
const METADATA: [&str; 7] =
    ["200", "200", "200", "200", "200", "400 InvalidArgument", "400 MetadataTooLarge"];

const OF_THE_INTERFACE: &[Garbage] = &[
    // Reading. What is no range or date is ignored (RFC 9110, sections 14.2 and 13.1).
    ("GET", "/b/k", "Range", OK),
    ("GET", "/b/k", "If-Modified-Since", OK),
    ("GET", "/b/k", "If-Unmodified-Since", OK),
    ("GET", "/b/k", "If-None-Match", OK),
    ("GET", "/b/k", "If-Match", ["412 PreconditionFailed"; 7]),
    ("GET", "/b/k", "If-Range", OK),
    ("GET", "/b/k", "x-amz-checksum-mode", OK_TEXT),
    ("GET", "/b/k", "Accept-Encoding", OK),
    ("GET", "/b/k?attributes", "x-amz-object-attributes", INVALID_ARGUMENT),
    ("GET", "/b/k?attributes", "x-amz-max-parts", INVALID_ARGUMENT),
    ("GET", "/b/k?attributes", "x-amz-part-number-marker", INVALID_ARGUMENT),
    // Writing.
    ("PUT", "/b/garbage", "Content-MD5", INVALID_DIGEST),
    ("PUT", "/b/garbage", "Content-Type", METADATA),
    ("PUT", "/b/garbage", "Cache-Control", METADATA),
    ("PUT", "/b/garbage", "Content-Disposition", METADATA),
    ("PUT", "/b/garbage", "Content-Encoding", METADATA),
    ("PUT", "/b/garbage", "Content-Language", METADATA),
    ("PUT", "/b/garbage", "Expires", METADATA),
    ("PUT", "/b/garbage", "x-amz-checksum-crc32", INVALID_REQUEST),
    ("PUT", "/b/garbage", "x-amz-checksum-crc32c", INVALID_REQUEST),
    ("PUT", "/b/garbage", "x-amz-checksum-crc64nvme", INVALID_REQUEST),
    ("PUT", "/b/garbage", "x-amz-checksum-sha1", INVALID_REQUEST),
    ("PUT", "/b/garbage", "x-amz-checksum-sha256", INVALID_REQUEST),
    ("PUT", "/b/garbage", "x-amz-checksum-none", INVALID_REQUEST),
    ("PUT", "/b/garbage", "x-amz-sdk-checksum-algorithm", INVALID_REQUEST),
    ("PUT", "/b/garbage", "x-amz-trailer", TRAILER),
    ("PUT", "/b/garbage", "x-amz-tagging", TAGS),
    ("PUT", "/b/garbage", "x-amz-acl", INVALID_ARGUMENT),
    ("PUT", "/b/garbage", "x-amz-storage-class", OK_TEXT),
    ("PUT", "/b/garbage", "x-amz-server-side-encryption", INVALID_ARGUMENT),
    ("PUT", "/b/garbage", "x-amz-meta-a", METADATA),
    ("PUT", "/b/garbage", "x-amz-content-sha256", INVALID_ARGUMENT),
    ("PUT", "/b/garbage", "x-amz-copy-source", INVALID_ARGUMENT),
    ("PUT", "/b/absent", "If-Match", NO_SUCH_KEY),
    ("PUT", "/b/garbage", "If-None-Match", NONE_MATCH),
    ("PUT", "/b/garbage", "x-amz-date", OK_TEXT),
    ("PUT", "/b/garbage", "Date", OK),
    ("PUT", "/b/garbage", "Authorization", UNSIGNED),
    ("DELETE", "/b/absent", "If-Match", NOTHING_DELETED),
    ("POST", "/b/garbage?uploads", "x-amz-checksum-algorithm", INVALID_REQUEST),
    ("POST", "/b/garbage?uploads", "x-amz-checksum-type", INVALID_REQUEST),
];

pub(super) fn of_the_interface() -> Vec<Case> {
    let long = "a".repeat(8_000);
    let garbage: [(&str, &[u8]); 7] = [
        ("nothing", b""),
        ("blanks and commas", b" , ,, ;= "),
        ("letters", b"garbage"),
        ("a number beyond 64 bits", b"18446744073709551616"),
        ("a number below nothing", b"-1"),
        ("bytes that are not UTF-8", b"\xff\xfe\x80"),
        ("8,000 letters", long.as_bytes()),
    ];
    let mut cases = Vec::new();
    for (method, target, header, expected) in OF_THE_INTERFACE {
        for ((kind, value), expected) in garbage.iter().zip(expected) {
            let with = request(method, target, "@\r\n", "");
            let at = with.iter().position(|b| *b == b'@').unwrap();
            let line = [header.as_bytes(), b": ", value].concat();
            let sent = [&with[..at], &line, &with[at + 1..]].concat();
            cases.push(Case::new(format!("{method} {target}, {header}: {kind}"), sent, expected));
        }
    }
    cases
}
