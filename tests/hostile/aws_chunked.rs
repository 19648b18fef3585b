//! Bodies in the coding `aws-chunked`, unsigned and with a checksum behind them (S3 API reference,
//! "Signature calculations: including trailing headers"). Signed ones are held by `auth_chunks`.

use super::victim::Case;

/// The CRC-32 of `hello`.
const CRC: &str = "NhCmhg==";

/// A name, what is announced for `hello` and what is sent, and the answer. `@` stands for the right
/// checksum.
const CASES: &[(&str, &str, &str, &str)] = &[
    ("one chunk", "5", "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n", "200"),
    ("two chunks", "5", "2\r\nhe\r\n3\r\nllo\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n", "200"),
    ("a trailer with a blank", "5", "5\r\nhello\r\n0\r\nx-amz-checksum-crc32: @\r\n\r\n", "200"),
    ("a trailer in capitals", "5", "5\r\nhello\r\n0\r\nX-Amz-Checksum-CRC32:@\r\n\r\n", "200"),
    ("a wrong checksum", "5", "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "400 BadDigest"),
    ("a checksum of other bytes", "5", "5\r\nhellO\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n", "400 BadDigest"),
    (
        "a checksum that is too short",
        "5",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n",
        "400 InvalidRequest",
    ),
    (
        "a checksum that is no base64",
        "5",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:!!!!\r\n\r\n",
        "400 InvalidRequest",
    ),
    (
        "an empty checksum",
        "5",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:\r\n\r\n",
        "400 MalformedTrailerError",
    ),
    ("no trailer", "5", "5\r\nhello\r\n0\r\n\r\n", "400 MalformedTrailerError"),
    (
        "another trailer",
        "5",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32c:@\r\n\r\n",
        "400 MalformedTrailerError",
    ),
    (
        "the trailer twice",
        "5",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 MalformedTrailerError",
    ),
    (
        "a trailer that nobody announced",
        "5",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\nx-amz-meta-a:b\r\n\r\n",
        "400 MalformedTrailerError",
    ),
    (
        "a trailer without a colon",
        "5",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32\r\n\r\n",
        "400 MalformedTrailerError",
    ),
    ("a trailer that is cut", "5", "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@", "400 IncompleteBody"),
    ("no end behind the trailer", "5", "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n", "400 IncompleteBody"),
    ("an empty body", "5", "", "400 IncompleteBody"),
    ("a size that is cut", "5", "5", "400 IncompleteBody"),
    ("data that are cut", "5", "5\r\nhel", "400 IncompleteBody"),
    ("no last chunk", "5", "5\r\nhello\r\n", "400 IncompleteBody"),
    (
        "a size that is none",
        "5",
        "x\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 InvalidChunkSizeError",
    ),
    ("no size", "5", "\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n", "400 InvalidChunkSizeError"),
    (
        "a size below nothing",
        "5",
        "-5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 InvalidChunkSizeError",
    ),
    (
        "a size with a sign",
        "5",
        "+5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 InvalidChunkSizeError",
    ),
    (
        "a size with 0x",
        "5",
        "0x5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 InvalidChunkSizeError",
    ),
    (
        "a size with a blank",
        "5",
        "5 \r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 InvalidChunkSizeError",
    ),
    ("a size beyond 64 bits", "5", "fffffffffffffffff\r\nhello", "400 InvalidChunkSizeError"),
    ("a size of 64 bits", "5", "ffffffffffffffff\r\nhello", "400 InvalidChunkSizeError"),
    (
        "data longer than their size",
        "5",
        "4\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 IncompleteBody",
    ),
    (
        "data shorter than their size",
        "5",
        "6\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 IncompleteBody",
    ),
    (
        "more than was announced",
        "4",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 IncompleteBody",
    ),
    (
        "less than was announced",
        "6",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 IncompleteBody",
    ),
    (
        "bytes behind the end",
        "5",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\nmore",
        "400 IncompleteBody",
    ),
    (
        "a line feed alone",
        "5",
        "5\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 InvalidChunkSizeError",
    ),
    ("a size line without end", "5", LONG, "400 InvalidChunkSizeError"),
    (
        "a decoded length of letters",
        "five",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 InvalidArgument",
    ),
    (
        "a decoded length below nothing",
        "-5",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 InvalidArgument",
    ),
    (
        "a decoded length beyond 64 bits",
        "99999999999999999999",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 InvalidArgument",
    ),
    (
        "a decoded length of nothing",
        "",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 InvalidArgument",
    ),
    (
        "a decoded length that is too large",
        "5368709121",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:@\r\n\r\n",
        "400 EntityTooLarge",
    ),
];

const LONG: &str = "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000005\r\nhello";

fn put(decoded: &str, coded: &str, framing: &str, body: &str) -> String {
    format!(
        "PUT /b/coded HTTP/1.1\r\nHost: a\r\nContent-Encoding: aws-chunked\r\n\
         x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\nx-amz-trailer: x-amz-checksum-crc32\r\n\
         x-amz-decoded-content-length: {decoded}\r\n{framing}: {coded}\r\n\r\n{body}"
    )
}

pub(super) fn cases() -> Vec<Case> {
    let of_a_length = CASES.iter().map(|(name, decoded, body, expected)| {
        let body = body.replace('@', CRC);
        let sent = put(decoded, &body.len().to_string(), "Content-Length", &body);
        Case::new(format!("aws-chunked: {name}"), sent, expected)
    });
    // The same within chunks of HTTP, as clients send them where no length is known.
    let in_chunks = CASES.iter().map(|(name, decoded, body, expected)| {
        let body = body.replace('@', CRC);
        let chunks: String = body
            .as_bytes()
            .chunks(7)
            .map(|piece| format!("{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece)))
            .collect();
        let sent = put(decoded, "chunked", "Transfer-Encoding", &format!("{chunks}0\r\n\r\n"));
        Case::new(format!("aws-chunked in chunks: {name}"), sent, expected)
    });
    of_a_length.chain(in_chunks).collect()
}
