//! Request lines: methods, targets, versions.

use super::victim::Case;

/// A name, a request line, and the answer.
const LINES: &[(&str, &str, &str)] = &[
    // Methods.
    ("a plain GET", "GET /b/k HTTP/1.1", "200"),
    ("a plain HEAD", "HEAD /b/k HTTP/1.1", "200"),
    ("OPTIONS of the server", "OPTIONS * HTTP/1.1", "400 BadRequest"),
    ("OPTIONS of an object without an origin", "OPTIONS /b/k HTTP/1.1", "400 BadRequest"),
    ("a method in lower case", "get /b/k HTTP/1.1", "405 MethodNotAllowed"),
    ("PATCH", "PATCH /b/k HTTP/1.1", "405 MethodNotAllowed"),
    ("TRACE", "TRACE /b/k HTTP/1.1", "405 MethodNotAllowed"),
    ("CONNECT to a host", "CONNECT host:443 HTTP/1.1", "400 InvalidURI"),
    ("CONNECT to a path", "CONNECT /b HTTP/1.1", "405 MethodNotAllowed"),
    ("a method of one letter", "X /b/k HTTP/1.1", "405 MethodNotAllowed"),
    ("a method of token marks", "!#$%&'*+-.^_`|~ /b/k HTTP/1.1", "405 MethodNotAllowed"),
    ("a method with a mark that is no token's", "G@T /b/k HTTP/1.1", "400 InvalidRequest"),
    ("a method with a slash", "GET/ /b/k HTTP/1.1", "400 InvalidRequest"),
    ("a method in quotes", "\"GET\" /b/k HTTP/1.1", "400 InvalidRequest"),
    ("no method", " /b/k HTTP/1.1", "400 InvalidRequest"),
    ("no method and no blank", "/b/k HTTP/1.1", "400 InvalidRequest"),
    ("a method with a NUL", "GE\0T /b/k HTTP/1.1", "400 InvalidRequest"),
    ("a method with a letter beyond ASCII", "GÉT /b/k HTTP/1.1", "400 InvalidRequest"),
    // Blanks.
    ("two blanks behind the method", "GET  /b/k HTTP/1.1", "400 InvalidRequest"),
    ("two blanks behind the target", "GET /b/k  HTTP/1.1", "400 InvalidRequest"),
    ("a tab behind the method", "GET\t/b/k HTTP/1.1", "400 InvalidRequest"),
    ("a tab behind the target", "GET /b/k\tHTTP/1.1", "400 InvalidRequest"),
    ("a blank behind the version", "GET /b/k HTTP/1.1 ", "400 InvalidRequest"),
    ("a blank in front of the method", " GET /b/k HTTP/1.1", "400 InvalidRequest"),
    ("a blank within the target", "GET /b /k HTTP/1.1", "400 InvalidRequest"),
    ("a form feed behind the target", "GET /b/k\x0cHTTP/1.1", "400 InvalidRequest"),
    // Versions.
    ("version 1.0", "GET /b/k HTTP/1.0", "200"),
    ("version 0.9", "GET /b/k HTTP/0.9", "400 InvalidRequest"),
    ("version 1.2", "GET /b/k HTTP/1.2", "400 InvalidRequest"),
    ("version 2.0", "GET /b/k HTTP/2.0", "400 InvalidRequest"),
    ("version 1.10", "GET /b/k HTTP/1.10", "400 InvalidRequest"),
    ("version 01.1", "GET /b/k HTTP/01.1", "400 InvalidRequest"),
    ("version 1", "GET /b/k HTTP/1", "400 InvalidRequest"),
    ("a version in lower case", "GET /b/k http/1.1", "400 InvalidRequest"),
    ("another protocol", "GET /b/k SPDY/1.1", "400 InvalidRequest"),
    ("no version", "GET /b/k", "400 InvalidRequest"),
    ("no version behind a blank", "GET /b/k ", "400 InvalidRequest"),
    ("the preface of HTTP/2", "PRI * HTTP/2.0", "400 InvalidRequest"),
    // Targets.
    ("an empty target", "GET  HTTP/1.1", "400 InvalidRequest"),
    ("the star of another method", "GET * HTTP/1.1", "400 InvalidURI"),
    ("a target without its slash", "GET b/k HTTP/1.1", "400 InvalidURI"),
    ("a fragment", "GET /b/k#x HTTP/1.1", "400 InvalidURI"),
    ("a letter beyond ASCII", "GET /b/ü HTTP/1.1", "400 InvalidURI"),
    ("a NUL in the target", "GET /b/\0 HTTP/1.1", "400 InvalidRequest"),
    ("a DEL in the target", "GET /b/\x7f HTTP/1.1", "400 InvalidRequest"),
    ("a backslash in the target", "GET /b\\k HTTP/1.1", "404 NoSuchBucket"),
    ("a backslash in the key", "GET /b/..\\k HTTP/1.1", "404 NoSuchKey"),
    ("an escape that is cut", "GET /b/%2 HTTP/1.1", "400 InvalidURI"),
    ("an escape that is none", "GET /b/%zz HTTP/1.1", "400 InvalidURI"),
    ("a lone percent sign", "GET /b/% HTTP/1.1", "400 InvalidURI"),
    ("an escape in the bucket that is none", "GET /%zz/k HTTP/1.1", "400 InvalidURI"),
    ("escapes that are not UTF-8", "GET /b/%ff%fe HTTP/1.1", "400 InvalidURI"),
    ("an overlong encoding of a slash", "GET /b/%c0%af HTTP/1.1", "400 InvalidURI"),
    ("a surrogate", "GET /b/%ed%a0%80 HTTP/1.1", "400 InvalidURI"),
    ("an escaped NUL is a byte of a key", "GET /b/%00 HTTP/1.1", "404 NoSuchKey"),
    ("escaped line ends are bytes of a key", "GET /b/%0d%0aX:%20y HTTP/1.1", "404 NoSuchKey"),
    ("an escaped slash belongs to the key", "GET /b/%2fk HTTP/1.1", "404 NoSuchKey"),
    ("an escaped slash does not end the bucket", "GET /b%2fk HTTP/1.1", "404 NoSuchBucket"),
    ("dots are a key", "GET /b/.. HTTP/1.1", "404 NoSuchKey"),
    ("dots do not lead out of a bucket", "GET /b/../b/k HTTP/1.1", "404 NoSuchKey"),
    ("escaped dots do not either", "GET /b/%2e%2e/b/k HTTP/1.1", "404 NoSuchKey"),
    ("dots are no bucket", "GET /../etc/passwd HTTP/1.1", "404 NoSuchBucket"),
    ("two slashes are a key of one", "GET /b//k HTTP/1.1", "404 NoSuchKey"),
    ("two slashes in front are an empty bucket", "GET //b/k HTTP/1.1", "404 NoSuchBucket"),
    ("a bucket that is none", "GET /no-such-bucket/k HTTP/1.1", "404 NoSuchBucket"),
    ("a bucket name of capitals", "GET /B/k HTTP/1.1", "404 NoSuchBucket"),
    ("a path that is the server's own", "GET /-/health HTTP/1.1", "200"),
    ("a path below the server's own that is not there", "GET /-/k HTTP/1.1", "404"),
    ("an absolute target", "GET http://a/b/k HTTP/1.1", "200"),
    ("an absolute target of another host", "GET http://other.example:80/b/k HTTP/1.1", "200"),
    ("an absolute target of the other scheme", "GET https://a/b/k HTTP/1.1", "200"),
    ("an absolute target without a host", "GET http:///b/k HTTP/1.1", "400 InvalidURI"),
    ("an absolute target with a user", "GET http://u:p@a/b/k HTTP/1.1", "400 InvalidURI"),
    ("an absolute target of no scheme known", "GET ftp://a/b/k HTTP/1.1", "400 InvalidURI"),
    ("an absolute file", "GET file:///etc/passwd HTTP/1.1", "400 InvalidURI"),
    ("a target of a host alone", "GET a:9000 HTTP/1.1", "400 InvalidURI"),
    ("an empty query", "GET /b/k? HTTP/1.1", "200"),
    ("a query of question marks", "GET /b/k??? HTTP/1.1", "200"),
    ("a query of ampersands", "GET /b/k?&&& HTTP/1.1", "200"),
];

/// What is no request line at all.
const STRANGERS: &[(&str, &[u8], &str)] = &[
    ("nothing", b"", ""),
    ("line ends alone", b"\r\n\r\n\r\n", ""),
    ("a handshake of TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400 InvalidRequest"),
    ("SSH", b"SSH-2.0-OpenSSH_9.6\r\n", ""),
    ("a request line that never ends", b"GET /b/k", ""),
    ("a NUL", b"\0", "400 InvalidRequest"),
    ("bytes above ASCII", b"\xff\xfe\xfd\r\n\r\n", "400 InvalidRequest"),
    ("a response", b"HTTP/1.1 200 OK\r\n\r\n", "400 InvalidRequest"),
    ("line ends, and then a request", b"\r\n\r\nGET /b/k HTTP/1.1\r\nHost: a\r\n\r\n", "200"),
    ("a line feed, and then a request", b"\nGET /b/k HTTP/1.1\r\nHost: a\r\n\r\n", "400 InvalidRequest"),
    (
        "a proxy's greeting",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET /b/k HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 InvalidRequest",
    ),
];

pub(super) fn cases() -> Vec<Case> {
    let lines = LINES
        .iter()
        .map(|(name, line, expected)| Case::new(*name, format!("{line}\r\nHost: a\r\n\r\n"), expected));
    let strangers = STRANGERS.iter().map(|(name, sent, expected)| Case::new(*name, *sent, expected));
    let long = "k".repeat(20_000);
    let key = |len| "k".repeat(len);
    let lengths = [
        Case::new(
            "a target that is too long",
            format!("GET /{long} HTTP/1.1\r\n"),
            "400 RequestHeaderSectionTooLarge",
        ),
        Case::new(
            "a method that is too long",
            format!("{long} / HTTP/1.1\r\n"),
            "400 RequestHeaderSectionTooLarge",
        ),
        Case::new("blank lines without end", "\r\n".repeat(20_000), "400 RequestHeaderSectionTooLarge"),
        Case::new(
            "a key of the greatest length",
            format!("GET /b/{} HTTP/1.1\r\nHost: a\r\n\r\n", key(1024)),
            "404 NoSuchKey",
        ),
        Case::new(
            "a key of one byte more",
            format!("GET /b/{} HTTP/1.1\r\nHost: a\r\n\r\n", key(1025)),
            "400 KeyTooLongError",
        ),
        Case::new(
            "a bucket name of 300 bytes",
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", key(300)),
            "404 NoSuchBucket",
        ),
        Case::new(
            "a query of 12,000 ampersands",
            format!("GET /b/k?{} HTTP/1.1\r\nHost: a\r\n\r\n", "&".repeat(12_000)),
            "200",
        ),
    ];
    lines.chain(strangers).chain(lengths).collect()
}
