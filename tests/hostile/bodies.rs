//! Bodies: in chunks (RFC 9112, section 7.1) and of a length.

use super::victim::Case;

/// A name, a body in chunks, and the answer to putting it.
const CHUNKED: &[(&str, &[u8], &str)] = &[
    ("one chunk", b"5\r\nhello\r\n0\r\n\r\n", "200"),
    ("no chunk", b"0\r\n\r\n", "200"),
    (
        "sizes of both cases and zeros in front",
        b"0a\r\n0123456789\r\n00A\r\n0123456789\r\n000\r\n\r\n",
        "200",
    ),
    ("an extension", b"5;name=value\r\nhello\r\n0\r\n\r\n", "200"),
    ("an extension in quotes", b"5;name=\"a;b\"\r\nhello\r\n0\r\n\r\n", "200"),
    ("a blank before an extension", b"5 ;name\r\nhello\r\n0\r\n\r\n", "200"),
    ("a trailer", b"5\r\nhello\r\n0\r\nX: y\r\n\r\n", "200"),
    ("a trailer that looks like framing", b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n", "200"),
    ("an empty body", b"", "400 IncompleteBody"),
    ("a size that is cut", b"5", "400 IncompleteBody"),
    ("data that are cut", b"5\r\nhel", "400 IncompleteBody"),
    ("data without their line end", b"5\r\nhello", "400 IncompleteBody"),
    ("no last chunk", b"5\r\nhello\r\n", "400 IncompleteBody"),
    ("a last chunk without its line end", b"5\r\nhello\r\n0\r\n", "400 IncompleteBody"),
    ("a trailer that is cut", b"5\r\nhello\r\n0\r\nX: y", "400 IncompleteBody"),
    ("no size", b"\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("a size that is none", b"g\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("a size below nothing", b"-5\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("a size with a sign", b"+5\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("a size with 0x", b"0x5\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("a size with a blank in front", b" 5\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("a size with a blank behind", b"5 \r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("two sizes", b"5 5\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("a size with an underscore", b"0_5\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("a size of 64 bits", b"ffffffffffffffff\r\nhello", "400 InvalidRequest"),
    ("a size of 2^63", b"8000000000000000\r\nhello", "400 InvalidRequest"),
    ("a size below 2^63", b"7fffffffffffffff\r\nhello", "400 IncompleteBody"),
    ("a trailer without a colon", b"5\r\nhello\r\n0\r\nnothing\r\n\r\n", "400 InvalidRequest"),
    ("a size beyond 64 bits", b"10000000000000005\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("a size of 1,025 zeros", ZEROS, "400 InvalidRequest"),
    ("a size with a NUL", b"5\0\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("a size that ends with a line feed alone", b"5\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("a size that ends with a carriage return alone", b"5\rhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("an extension with a line feed alone", b"5;a\nb\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("an extension with a carriage return", b"5;a\rb\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("data longer than their size", b"4\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("data shorter than their size", b"6\r\nhello\r\n0\r\n\r\n", "400 InvalidRequest"),
    ("data that end with a line feed alone", b"5\r\nhello\n0\r\n\r\n", "400 InvalidRequest"),
    ("a last chunk with a line feed alone", b"5\r\nhello\r\n0\n\n", "400 InvalidRequest"),
    ("a trailer with a line feed alone", b"5\r\nhello\r\n0\r\nX: y\n\r\n", "400 InvalidRequest"),
    ("a trailer with a NUL", b"5\r\nhello\r\n0\r\nX: \0\r\n\r\n", "400 InvalidRequest"),
    ("plain data", b"hello", "400 IncompleteBody"),
];

const ZEROS: &[u8] = &[b'0'; 1025];

pub(super) fn chunked() -> Vec<Case> {
    let head = b"PUT /b/chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let cases = CHUNKED
        .iter()
        .map(|(name, body, expected)| Case::new(format!("chunks: {name}"), [head, *body].concat(), expected));
    let floods = [
        ("extensions without end", format!("1;{}", "a".repeat(5_000)).into_bytes()),
        ("many long extensions", format!("1;{}\r\nx\r\n", "a".repeat(900)).repeat(40).into_bytes()),
        (
            "trailers without end",
            format!("0\r\n{}", "X: yyyyyyyyyyyyyyyyyyyy\r\n".repeat(2_000)).into_bytes(),
        ),
    ];
    let floods = floods.into_iter().map(|(name, body)| {
        Case::new(format!("chunks: {name}"), [head.as_slice(), &body].concat(), "400 InvalidRequest")
    });
    cases.chain(floods).collect()
}

/// A name, an announced length, the body, and the answer to putting it.
const LENGTHS: &[(&str, &str, &str, &str)] = &[
    ("as announced", "5", "hello", "200"),
    ("nothing", "0", "", "200"),
    ("one byte short", "6", "hello", "400 IncompleteBody"),
    ("all of it missing", "5", "", "400 IncompleteBody"),
    ("of the greatest size, not sent", "5368709120", "hello", "400 IncompleteBody"),
    ("one byte larger than allowed", "5368709121", "hello", "400 EntityTooLarge"),
    ("of 64 bits", "18446744073709551615", "hello", "400 EntityTooLarge"),
    ("of 63 bits", "9223372036854775807", "hello", "400 EntityTooLarge"),
];

pub(super) fn lengths() -> Vec<Case> {
    let put = |length: &str, body: &str| {
        format!("PUT /b/length HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    let cases = LENGTHS.iter().map(|(name, length, body, expected)| {
        Case::new(format!("a body {name}"), put(length, body), expected)
    });
    let part = |length: &str| {
        format!(
            "PUT /b/p?partNumber=1&uploadId=0000000000000001aaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let parts = [
        Case::new("a part of an upload that is none", part("0"), "404 NoSuchUpload"),
        Case::new("a part larger than allowed", part("5368709121"), "400 EntityTooLarge"),
    ];
    cases.chain(parts).collect()
}
