//! The head of a response, and the framing of its body (RFC 9112, section 6.3).

use std::io::Write;

use crate::base::Timestamp;
use crate::s3::status::reason;
use crate::s3::{Response, ResponseBody};

/// The properties of a request that decide the framing of its response.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RequestTraits {
    /// The method was HEAD.
    pub(super) head_only: bool,
    /// The client speaks HTTP/1.0.
    pub(super) http10: bool,
}

/// How the end of a response body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseFraming {
    /// No body, and no header about its length.
    Nothing,
    /// No body, but a Content-Length as if there were one.
    Announced(u64),
    /// That many bytes, by Content-Length.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The end of the connection, for HTTP/1.0 clients, which have no chunks.
    UntilClose,
}

impl ResponseFraming {
    /// The framing of `response`.
    pub(super) fn of(response: &Response, traits: RequestTraits) -> Self {
        let length = response.body.len();
        match response.status {
            // These have no body by definition: a client takes bytes after them for the next
            // response.
            204 | 304 => Self::Nothing,
            _ if traits.head_only && response.get_header("content-length").is_some() => Self::Nothing,
            _ if traits.head_only => length.map_or(Self::Nothing, Self::Announced),
            _ => match length {
                Some(length) => Self::Length(length),
                None if traits.http10 => Self::UntilClose,
                None => Self::Chunked,
            },
        }
    }
}

/// How a response is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendOptions {
    /// The properties of its request.
    pub(super) traits: RequestTraits,
    /// How the body is framed.
    pub(super) framing: ResponseFraming,
    /// Whether it is the last response of its connection.
    pub(super) close: bool,
}

/// The Date header, formatted once a second.
#[derive(Debug, Default)]
pub(super) struct DateHeader {
    secs: Option<u64>,
    text: String,
}

impl DateHeader {
    /// The value of the Date header at `now`.
    pub(super) fn at(&mut self, now: Timestamp) -> &str {
        if self.secs != Some(now.as_secs()) {
            self.secs = Some(now.as_secs());
            self.text = now.to_http_date();
        }
        &self.text
    }
}

/// Appends the head of `response` to `out`: the status line, Date, the lines of the handler, and
/// those of the engine.
pub(super) fn write_head(out: &mut Vec<u8>, response: &Response, options: SendOptions, date: &str) {
    let SendOptions { traits, framing, close } = options;
    write_number(out, "HTTP/1.1 ", response.status.into(), " ");
    out.extend_from_slice(reason(response.status).as_bytes());
    out.extend_from_slice(b"\r\nDate: ");
    out.extend_from_slice(date.as_bytes());
    out.extend_from_slice(b"\r\n");
    // A second line about the framing would let two readers see two ends of the body.
    for (name, value) in &response.headers {
        if !is_engine_header(name, traits) {
            write_line(out, name, value);
        }
    }
    match framing {
        ResponseFraming::Announced(length) | ResponseFraming::Length(length) => {
            write_number(out, "Content-Length: ", length, "\r\n");
        }
        ResponseFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        ResponseFraming::Nothing | ResponseFraming::UntilClose => {}
    }
    if close {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if traits.http10 {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// The bytes of a whole response. A streamed body is left out.
pub(super) fn render(response: &Response, traits: RequestTraits, close: bool, date: &str) -> Vec<u8> {
    let framing = ResponseFraming::of(response, traits);
    let mut out = Vec::new();
    write_head(&mut out, response, SendOptions { traits, framing, close }, date);
    if let ResponseBody::Bytes(body) = &response.body
        && matches!(framing, ResponseFraming::Length(_))
    {
        out.extend_from_slice(body);
    }
    out
}

/// Whether the engine writes that line itself. The handler may write the Content-Length of a HEAD
/// response.
fn is_engine_header(name: &str, traits: RequestTraits) -> bool {
    (name.eq_ignore_ascii_case("content-length") && !traits.head_only)
        || ["transfer-encoding", "connection", "date"].iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Replaces bytes that would end the line by spaces (RFC 9110, section 5.5), so that no stored
/// value can add a line.
fn write_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend(name.as_bytes().iter().copied().map(harmless));
    out.extend_from_slice(b": ");
    out.extend(value.iter().copied().map(harmless));
    out.extend_from_slice(b"\r\n");
}

/// A blank in place of a byte that ends a line: whatever a value has, it begins no other header.
fn harmless(byte: u8) -> u8 {
    if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { byte }
}

fn write_number(out: &mut Vec<u8>, prefix: &str, number: u64, suffix: &str) {
    write!(out, "{prefix}{number}{suffix}").expect("a vector takes every byte");
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Fri, 24 May 2013 00:00:00 GMT";
    const HEAD: RequestTraits = RequestTraits { head_only: true, http10: false };
    const OLD: RequestTraits = RequestTraits { head_only: false, http10: true };

    fn stream(length: Option<u64>) -> ResponseBody {
        struct Nothing;
        impl crate::s3::BodySource for Nothing {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Ok(0)
            }
        }
        ResponseBody::Stream { length, source: Box::new(Nothing) }
    }

    fn head(response: &Response, traits: RequestTraits, close: bool) -> String {
        let mut out = Vec::new();
        let framing = ResponseFraming::of(response, traits);
        write_head(&mut out, response, SendOptions { traits, framing, close }, DATE);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn status_method_and_version_decide_the_framing() {
        let framing =
            |status, body, traits| ResponseFraming::of(&Response::new(status).with_body(body), traits);
        let plain = RequestTraits::default();
        assert_eq!(framing(200, ResponseBody::Empty, plain), ResponseFraming::Length(0));
        assert_eq!(framing(404, ResponseBody::Bytes(b"gone".to_vec()), plain), ResponseFraming::Length(4));
        assert_eq!(framing(200, stream(Some(7)), plain), ResponseFraming::Length(7));
        assert_eq!(framing(200, stream(None), plain), ResponseFraming::Chunked);
        assert_eq!(framing(200, stream(None), OLD), ResponseFraming::UntilClose);
        assert_eq!(framing(204, ResponseBody::Bytes(b"x".to_vec()), plain), ResponseFraming::Nothing);
        assert_eq!(framing(304, stream(Some(7)), plain), ResponseFraming::Nothing);
        assert_eq!(framing(200, stream(Some(7)), HEAD), ResponseFraming::Announced(7));
        assert_eq!(framing(200, stream(None), HEAD), ResponseFraming::Nothing);
    }

    #[test]
    fn only_a_head_response_keeps_the_length_set_by_its_handler() {
        let response = Response::new(200).header("Content-Length", "5").header("date", "never");
        assert_eq!(
            head(&response, HEAD, false),
            format!("HTTP/1.1 200 OK\r\nDate: {DATE}\r\nContent-Length: 5\r\n\r\n")
        );
        assert_eq!(
            head(&response, RequestTraits::default(), true),
            format!("HTTP/1.1 200 OK\r\nDate: {DATE}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        );
        assert!(head(&Response::new(204), OLD, false).ends_with("Connection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn a_value_cannot_add_lines() {
        let response = Response::new(200).header("x-meta", "a\r\nSet-Cookie: b\0".as_bytes());
        assert!(head(&response, RequestTraits::default(), false).contains("x-meta: a  Set-Cookie: b \r\n"));
    }

    #[test]
    fn the_date_follows_the_second() {
        let mut line = DateHeader::default();
        assert_eq!(line.at(Timestamp::from_millis(1_369_353_600_999)), DATE);
        assert_eq!(line.at(Timestamp::from_millis(1_369_353_601_000)), "Fri, 24 May 2013 00:00:01 GMT");
        assert_eq!(line.at(Timestamp::from_millis(1_369_353_600_000)), DATE);
    }
}
