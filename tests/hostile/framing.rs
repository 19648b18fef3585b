//! Where one request ends and the next begins: whatever two readers could understand in two ways is
//! refused, and what stands behind it is never taken for a request.

use super::victim::Case;

/// What a smuggler would like to have taken for a request.
const SMUGGLED: &str = "DELETE /b/kept HTTP/1.1\r\nHost: a\r\n\r\n";

/// A name, header lines, what stands behind the head, and the answer. `SMUGGLED` follows each.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    (
        "a length and chunks",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "0\r\n\r\n",
        "400 InvalidRequest",
    ),
    (
        "chunks and a length",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "0\r\n\r\n",
        "400 InvalidRequest",
    ),
    (
        "chunks and no length",
        "Transfer-Encoding: chunked\r\nContent-Length: 0",
        "0\r\n\r\n",
        "400 InvalidRequest",
    ),
    ("two lengths", "Content-Length: 0\r\nContent-Length: 38", "", "400 InvalidRequest"),
    ("the same length twice", "Content-Length: 0\r\nContent-Length: 0", "", "400 InvalidRequest"),
    ("a list of lengths", "Content-Length: 0, 0", "", "400 InvalidRequest"),
    ("a length with a sign", "Content-Length: +0", "", "400 InvalidRequest"),
    ("a length below nothing", "Content-Length: -1", "", "400 InvalidRequest"),
    ("a length in sixteens", "Content-Length: 0x0", "", "400 InvalidRequest"),
    ("a length with a point", "Content-Length: 0.0", "", "400 InvalidRequest"),
    ("a length with an exponent", "Content-Length: 0e0", "", "400 InvalidRequest"),
    ("a length with a blank in it", "Content-Length: 0 0", "", "400 InvalidRequest"),
    ("a length with an underscore", "Content-Length: 0_0", "", "400 InvalidRequest"),
    ("an empty length", "Content-Length:", "", "400 InvalidRequest"),
    ("a length of blanks", "Content-Length:   ", "", "400 InvalidRequest"),
    ("a length of letters", "Content-Length: abc", "", "400 InvalidRequest"),
    ("a length of other digits", "Content-Length: \u{660}", "", "400 InvalidRequest"),
    ("a length beyond 64 bits", "Content-Length: 18446744073709551616", "", "400 InvalidRequest"),
    ("a length in quotes", "Content-Length: \"0\"", "", "400 InvalidRequest"),
    ("a length with a NUL", "Content-Length: 0\0", "", "400 InvalidRequest"),
    ("a blank before the colon of the length", "Content-Length : 0", "", "400 InvalidRequest"),
    ("a tab before the colon of the coding", "Transfer-Encoding\t: chunked", "", "400 InvalidRequest"),
    ("a coding of gzip", "Transfer-Encoding: gzip", "", "400 InvalidRequest"),
    ("a coding of gzip and chunks", "Transfer-Encoding: gzip, chunked", "0\r\n\r\n", "400 InvalidRequest"),
    ("chunks and then gzip", "Transfer-Encoding: chunked, gzip", "0\r\n\r\n", "400 InvalidRequest"),
    ("chunks twice in a list", "Transfer-Encoding: chunked, chunked", "0\r\n\r\n", "400 InvalidRequest"),
    (
        "chunks twice in two lines",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "0\r\n\r\n",
        "400 InvalidRequest",
    ),
    (
        "identity and chunks",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "0\r\n\r\n",
        "400 InvalidRequest",
    ),
    ("identity", "Transfer-Encoding: identity", "", "400 InvalidRequest"),
    ("a coding that ends like chunked", "Transfer-Encoding: xchunked", "0\r\n\r\n", "400 InvalidRequest"),
    ("a coding that begins like chunked", "Transfer-Encoding: chunkedx", "0\r\n\r\n", "400 InvalidRequest"),
    ("chunked in quotes", "Transfer-Encoding: \"chunked\"", "0\r\n\r\n", "400 InvalidRequest"),
    ("chunked with a parameter", "Transfer-Encoding: chunked;a=b", "0\r\n\r\n", "400 InvalidRequest"),
    ("chunked behind a comma", "Transfer-Encoding: ,chunked", "0\r\n\r\n", "400 InvalidRequest"),
    ("an empty coding", "Transfer-Encoding:", "", "400 InvalidRequest"),
    ("chunked behind a vertical tab", "Transfer-Encoding: \x0bchunked", "0\r\n\r\n", "400 InvalidRequest"),
    ("a coding over two lines", "Transfer-Encoding:\r\n chunked", "0\r\n\r\n", "400 InvalidRequest"),
    ("a length over two lines", "Content-Length:\r\n 0", "", "400 InvalidRequest"),
    ("a line feed alone in front of a length", "X: y\nContent-Length: 0", "", "400 InvalidRequest"),
    ("a carriage return alone in front of a length", "X: y\rContent-Length: 0", "", "400 InvalidRequest"),
    ("a blank line with a blank", "X: y\r\n \r\nContent-Length: 0", "", "400 InvalidRequest"),
];

/// Requests that are well, and what follows them is the next one: here a GET of what is kept.
const SERVED: &[(&str, &str, &str, &str)] = &[
    ("a length of nothing", "Content-Length: 0", "", "200, 200"),
    ("a length with zeros in front", "Content-Length: 0005", "hello", "200, 200"),
    ("a length between blanks", "Content-Length: \t5\t ", "hello", "200, 200"),
    ("chunked in capitals", "Transfer-Encoding: CHUNKED", "5\r\nhello\r\n0\r\n\r\n", "200, 200"),
    ("names in capitals", "TRANSFER-ENCODING: chunked", "5\r\nhello\r\n0\r\n\r\n", "200, 200"),
    ("a header whose name is longer", "Content-Length-X: 9\r\nContent-Length: 5", "hello", "200, 200"),
    ("a header whose name has an underscore", "Content_Length: 9\r\nContent-Length: 5", "hello", "200, 200"),
    (
        "an interim answer that is not waited for",
        "Expect: 100-continue\r\nContent-Length: 5",
        "hello",
        "200, 200",
    ),
    ("the end of the connection", "Connection: close\r\nContent-Length: 5", "hello", "200"),
    ("no length where one is needed", "X: y", "", "411 MissingContentLength, 200"),
    ("an upgrade", "Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5", "hello", "200, 200"),
];

pub(super) fn cases() -> Vec<Case> {
    let put = "PUT /b/framed HTTP/1.1\r\nHost: a\r\n";
    let refused = REFUSED.iter().map(|(name, lines, behind, expected)| {
        Case::new(format!("framing by {name}"), format!("{put}{lines}\r\n\r\n{behind}{SMUGGLED}"), expected)
    });
    let next = "GET /b/kept HTTP/1.1\r\nHost: a\r\n\r\n";
    let served = SERVED.iter().map(|(name, lines, behind, expected)| {
        Case::new(
            format!("framing by {name}, served"),
            format!("{put}{lines}\r\n\r\n{behind}{next}"),
            expected,
        )
    });
    let zeros = "0".repeat(4_000);
    let old = [
        Case::new(
            "a length of 4,000 zeros",
            format!("{put}Content-Length: {zeros}\r\n\r\n{next}"),
            "200, 200",
        ),
        Case::new(
            "a length of 4,000 ones",
            format!("{put}Content-Length: {}\r\n\r\n{SMUGGLED}", "1".repeat(4_000)),
            "400 InvalidRequest",
        ),
        Case::new(
            "HTTP/1.0 with chunks",
            format!("PUT /b/framed HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}"),
            "400 InvalidRequest",
        ),
        Case::new("HTTP/1.0 ends behind its answer", format!("GET /b/k HTTP/1.0\r\n\r\n{SMUGGLED}"), "200"),
        Case::new(
            "a body of GET is no request",
            format!("GET /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{SMUGGLED}", SMUGGLED.len()),
            "200",
        ),
        Case::new(
            "a body of DELETE is no request",
            format!(
                "DELETE /b/none HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{SMUGGLED}",
                SMUGGLED.len()
            ),
            "204",
        ),
        Case::new(
            "a body of HEAD is no request",
            format!("HEAD /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{SMUGGLED}", SMUGGLED.len()),
            "200",
        ),
        Case::new(
            "fifty requests at once",
            "GET /b/k HTTP/1.1\r\nHost: a\r\n\r\n".repeat(50),
            &["200"; 50].join(", "),
        ),
        Case::new(
            "a refusal among requests ends them",
            format!("{next}{put}Content-Length: x\r\n\r\n{SMUGGLED}"),
            "200, 400 InvalidRequest",
        ),
    ];
    refused.chain(served).chain(old).collect()
}
