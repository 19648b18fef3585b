//! Request heads as bytes: finds their ends and parses them. Stricter than the parser `httparse`,
//! which accepts line feeds as line ends.

use std::mem::MaybeUninit;

use crate::base::limits;
use crate::http::fields::{BodyFraming, invalid_request, is_token_byte};
use crate::http::request_head::{RequestHead, RequestLine};
use crate::s3::{ErrorCode, S3Error};

/// Whether `bytes` hold a complete head, or can never become one. Then `parse` gives a head or an
/// error. The first `searched_len` bytes are known to hold no complete head.
pub(super) fn is_complete(bytes: &[u8], searched_len: usize) -> bool {
    let Some(start) = bytes.iter().position(|b| !matches!(b, b'\r' | b'\n')) else {
        return false;
    };
    // Bytes that begin no method are handed on at once: a client of another protocol, such as TLS,
    // waits for an answer.
    if !is_token_byte(bytes[start]) || bytes.ends_with(b"\r\n\r\n") {
        return true;
    }
    // The end may begin in the last bytes that were searched before.
    let unsearched = &bytes[start.max(searched_len.saturating_sub(2))..];
    memchr::memchr_iter(b'\n', unsearched)
        .any(|at| matches!(&unsearched[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

/// The method and the target of the request whose complete head is at the start of `bytes`; `None`
/// if they are not where they belong.
pub(super) fn request_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let bytes = &bytes[bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?..];
    let line = &bytes[..memchr::memchr(b'\r', bytes)?];
    let (method, rest) = line.split_at(memchr::memchr(b' ', line)?);
    Some((method, &rest[1..=memchr::memchr(b' ', &rest[1..])?]))
}

/// The class of the body of a request, as far as its head shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyClass {
    /// The request can be answered from the bytes received. So can an invalid head.
    Small,
    /// A small body is incomplete. Head and body together have that many bytes.
    Awaited(usize),
    /// The body may take any time to arrive.
    Large,
}

/// The class of the body of the request whose complete head is at the start of `bytes`.
pub(super) fn body_class(bytes: &[u8]) -> BodyClass {
    let mut lines = [const { MaybeUninit::uninit() }; limits::HEADERS_MAX];
    let mut raw = httparse::Request::new(&mut []);
    let Ok(httparse::Status::Complete(len)) = raw.parse_with_uninit_headers(bytes, &mut lines) else {
        return BodyClass::Small;
    };
    let line = |name: &str| raw.headers.iter().find(|line| line.name.eq_ignore_ascii_case(name));
    if line("transfer-encoding").is_some() {
        return BodyClass::Large;
    }
    let length = line("content-length").and_then(|line| std::str::from_utf8(line.value).ok()?.parse().ok());
    match length {
        None | Some(0) => BodyClass::Small,
        Some(length) if length > limits::SMALL_BODY_MAX_BYTES => BodyClass::Large,
        Some(length) => match len + length as usize {
            total if total <= bytes.len() => BodyClass::Small,
            // The client sends nothing until a worker sends `100 Continue`, and perhaps nothing
            // then.
            _ if line("expect").is_some() => BodyClass::Large,
            total => BodyClass::Awaited(total),
        },
    }
}

/// Parses the head at the start of `bytes`. `None` while its end is missing.
///
/// # Errors
/// `InvalidRequest` or `InvalidURI` for an invalid head, `RequestHeaderSectionTooLarge` for more
/// than `headers_max` lines (at most [`limits::HEADERS_MAX`]).
pub(super) fn parse(bytes: &[u8], headers_max: usize) -> Result<Option<RequestHead>, S3Error> {
    let mut lines = [const { MaybeUninit::uninit() }; limits::HEADERS_MAX];
    let mut raw = httparse::Request::new(&mut []);
    match raw.parse_with_uninit_headers(bytes, &mut lines[..headers_max]) {
        // The parser takes a bare LF for the end of a line. A proxy in front may not, and would see
        // other lines than we do.
        Ok(httparse::Status::Complete(len)) if has_bare_line_feed(&bytes[..len]) => {
            Err(invalid_request("A line of the request head does not end with CR LF."))
        }
        Ok(httparse::Status::Complete(len)) => validate(&raw, len).map(Some),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => Err(too_large()),
        Err(error) => Err(invalid_request(&format!("The request head is malformed: {error}."))),
    }
}

/// Whether `head` and its body are the only received bytes, `received_len` in number, and the
/// connection can stay open after the response. `false` if the end is ambiguous, or if the client
/// waits for `100 Continue` or wants the connection closed.
pub(super) fn is_whole_request(head: &RequestHead, received_len: usize) -> bool {
    let body_len = match head.body {
        BodyFraming::Absent => 0,
        BodyFraming::Length(len) => len,
        BodyFraming::Chunked => return false,
    };
    let is_whole = (received_len - head.len) as u64 == body_len;
    is_whole && head.keep_alive && !head.http10 && !head.expects_continue
}

/// The error of a head that exceeds a limit.
pub(super) fn too_large() -> S3Error {
    S3Error::new(ErrorCode::RequestHeaderSectionTooLarge)
}

/// Whether a line ends with LF alone. The parser refuses a CR alone.
fn has_bare_line_feed(head: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', head).any(|at| at == 0 || head[at - 1] != b'\r')
}

fn validate(raw: &httparse::Request<'_, '_>, len: usize) -> Result<RequestHead, S3Error> {
    let method = raw.method.ok_or_else(incomplete_line)?;
    let target = raw.path.ok_or_else(incomplete_line)?;
    let version = raw.version.ok_or_else(incomplete_line)?;
    let lines = raw.headers.iter().map(|line| (line.name, line.value));
    RequestHead::from_parts(RequestLine { method, target, http10: version == 0 }, lines, len)
}

fn incomplete_line() -> S3Error {
    invalid_request("The request line is incomplete.")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::s3::Method;

    fn parsed(bytes: &[u8]) -> Result<Option<RequestHead>, S3Error> {
        parse(bytes, limits::HEADERS_MAX)
    }

    /// The outcome of a parse as text, which can be compared.
    fn describe(outcome: &Result<Option<RequestHead>, S3Error>) -> String {
        format!("{outcome:?}")
    }

    #[test]
    fn a_head_is_parsed_as_it_was_sent() {
        let bytes =
            "PUT //b/../k%2F?x=y HTTP/1.1\r\nHost: a\r\nX-Meta:  grün \r\nContent-Length: 3\r\n\r\nabc";
        let head = parsed(bytes.as_bytes()).unwrap().unwrap();
        assert_eq!(
            (head.method, head.path.as_str(), head.query.as_str()),
            (Method::Put, "//b/../k%2F", "x=y")
        );
        assert_eq!(head.headers.get("x-meta"), Some("grün".as_bytes()));
        assert_eq!((head.body, head.keep_alive, head.http10), (BodyFraming::Length(3), true, false));
        assert_eq!(head.len, bytes.len() - 3);
    }

    #[test]
    fn the_host_of_an_absolute_target_counts() {
        let head = parsed(b"GET http://real:1/k HTTP/1.1\r\nHost: other\r\n\r\n").unwrap().unwrap();
        assert_eq!((head.path.as_str(), head.headers.get("host")), ("/k", Some(&b"real:1"[..])));
    }

    #[test]
    fn the_number_of_lines_is_limited() {
        let with_lines = |count: usize| {
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(count - 1)).into_bytes()
        };
        assert!(parsed(&with_lines(100)).unwrap().is_some());
        let error = parsed(&with_lines(101)).unwrap_err();
        assert_eq!(error.code, ErrorCode::RequestHeaderSectionTooLarge);
    }

    #[test]
    fn bytes_that_never_become_a_head_are_known_by_the_first() {
        for bytes in [&b"\x16\x03\x01"[..], b"\0", b" GET", b"\r\n{"] {
            assert!(is_complete(bytes, 0));
            assert!(parsed(bytes).is_err());
        }
        assert!(!is_complete(b"", 0) && !is_complete(b"\r\n\r\n", 0) && !is_complete(b"G", 0));
    }

    #[test]
    fn a_head_that_ends_in_the_middle_of_the_bytes_is_found() {
        for rest in ["", "body", "\r\n\r\n", "GET / HT"] {
            let bytes = format!("\r\nPUT / HTTP/1.1\r\nHost: a\r\n\r\n{rest}");
            assert!(is_complete(bytes.as_bytes(), 0), "{rest:?}");
        }
    }

    #[test]
    fn the_request_line_is_found_without_the_rest_of_the_head() {
        let of = |text: &str| {
            request_line(text.as_bytes()).map(|(method, target)| {
                (String::from_utf8(method.to_vec()).unwrap(), String::from_utf8(target.to_vec()).unwrap())
            })
        };
        let found = |method: &str, target: &str| Some((method.to_owned(), target.to_owned()));
        assert_eq!(of("\r\nGET /a?b=c HTTP/1.1\r\nHost: a\r\n\r\n"), found("GET", "/a?b=c"));
        assert_eq!(of("POST * HTTP/1.1\r\n"), found("POST", "*"));
        for text in ["", "\r\n", "GET", "GET /a", "GET\r\n", "GET /a\r\nHost: a b c\r\n", "\0"] {
            assert_eq!(of(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_request_is_small_once_its_small_body_has_arrived() {
        let of = |lines: &str, body: usize| {
            let head = format!("PUT / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            (body_class(&[head.as_bytes(), &vec![0; body]].concat()), head.len())
        };
        assert_eq!(of("", 0).0, BodyClass::Small);
        assert_eq!(of("Content-Length: 0\r\nExpect: 100-continue\r\n", 0).0, BodyClass::Small);
        assert_eq!(of("Content-Length: 5\r\n", 5).0, BodyClass::Small);
        let (awaited, len) = of("Content-Length: 5\r\n", 4);
        assert_eq!(awaited, BodyClass::Awaited(len + 5));
        let most = limits::SMALL_BODY_MAX_BYTES as usize;
        let (awaited, len) = of(&format!("Content-Length: {most}\r\n"), 4);
        assert_eq!(awaited, BodyClass::Awaited(len + most));
        assert_eq!(of("Content-Length: 5\r\nExpect: 100-continue\r\n", 4).0, BodyClass::Large);
        assert_eq!(of("Content-Length: 5\r\nExpect: 100-continue\r\n", 5).0, BodyClass::Small);
        assert_eq!(of(&format!("Content-Length: {}\r\n", most + 1), 4).0, BodyClass::Large);
        assert_eq!(of("Transfer-Encoding: chunked\r\n", 9).0, BodyClass::Large);
    }

    #[test]
    fn a_whole_request_has_neither_missing_nor_surplus_bytes() {
        let is_whole = |text: &str| {
            let head = parse(text.as_bytes(), limits::HEADERS_MAX).ok().flatten();
            head.is_some_and(|head| is_whole_request(&head, text.len()))
        };
        assert!(is_whole("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(is_whole("\r\nPUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"));
        for not in [
            "GET / HTTP/1.1\r\nHost: a\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET",
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
            "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na",
            "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nabc",
            "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
            "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n",
            "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "",
        ] {
            assert!(!is_whole(not), "{not:?}");
        }
    }

    /// Byte strings that often resemble parts of a head.
    fn head_like() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            Just(b"GET / HTTP/1.1".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"Host: a".to_vec()),
            Just(b"Content-Length: 1".to_vec()),
            Just(b" ".to_vec()),
            Just(b"HTTP/1.".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    fn valid_head() -> impl Strategy<Value = Vec<u8>> {
        let lines = proptest::collection::vec(("[A-Za-z-]{1,12}", "[ -~\u{80}-\u{ff}]{0,20}"), 0..8);
        let target = prop_oneof!["/[!-\"$-~]{0,30}", Just("http://h:1/x?y".to_owned())];
        (target, lines).prop_map(|(target, lines)| {
            let mut text = format!("\r\nGET {target} HTTP/1.1\r\nHost: a\r\n");
            for (name, value) in lines {
                text += &format!("x-{name}: {value}\r\n");
            }
            (text + "\r\n").into_bytes()
        })
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
            let _ = (is_complete(&bytes, 0), parsed(&bytes));
        }

        #[test]
        fn a_head_is_complete_exactly_when_the_parser_has_an_answer_to_it(bytes in head_like()) {
            let outcome = parsed(&bytes);
            if is_complete(&bytes, 0) {
                prop_assert!(!matches!(outcome, Ok(None)), "no answer");
            } else {
                prop_assert!(!matches!(outcome, Ok(Some(_))), "{}", describe(&outcome));
            }
        }

        #[test]
        fn a_head_reads_the_same_wherever_it_is_split(bytes in valid_head()) {
            prop_assert!(matches!(parsed(&bytes), Ok(Some(_))), "{}", describe(&parsed(&bytes)));
            for at in 0..bytes.len() {
                prop_assert!(!is_complete(&bytes[..at], 0));
                prop_assert!(matches!(parsed(&bytes[..at]), Ok(None)));
                prop_assert!(is_complete(&bytes, at));
            }
            let followed = [bytes.as_slice(), b"next"].concat();
            prop_assert_eq!(describe(&parsed(&followed)), describe(&parsed(&bytes)));
        }
    }
}
