//! The header lines that frame a message and keep or close its connection (RFC 9112, sections 6 and
//! 9). Lines that two readers could understand in two ways are refused, because request smuggling
//! depends on them.

use crate::s3::{Body, BodyRead, ErrorCode, S3Error};

/// How the end of a request body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    /// No body.
    Absent,
    /// That many bytes, by Content-Length.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

impl BodyFraming {
    /// The body with this framing, as a handler is given it.
    pub(super) fn into_body<'c>(self, reader: impl BodyRead + 'c) -> Body<'c> {
        let (content_length, chunked) = match self {
            Self::Absent => return Body::none(),
            Self::Length(length) => (Some(length), false),
            Self::Chunked => (None, true),
        };
        Body { content_length, chunked, reader: Box::new(reader) }
    }
}

/// The framing lines of a head, added one by one.
#[derive(Debug, Default)]
pub(super) struct FramingFields {
    hosts: usize,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl FramingFields {
    /// Adds one header line. Lines of other names are ignored.
    ///
    /// # Errors
    /// `InvalidRequest` for a malformed line, and for the second of a line that may occur only
    /// once.
    pub(super) fn add_line(&mut self, name: &str, value: &[u8]) -> Result<(), S3Error> {
        if name.eq_ignore_ascii_case("host") {
            self.add_host(value)?;
        } else if name.eq_ignore_ascii_case("content-length") {
            self.add_length(value)?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            self.add_coding(value)?;
        } else if name.eq_ignore_ascii_case("connection") {
            self.close |= has_token(value, "close");
            self.keep_alive |= has_token(value, "keep-alive");
        } else if name.eq_ignore_ascii_case("expect") {
            self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
        }
        Ok(())
    }

    fn add_host(&mut self, value: &[u8]) -> Result<(), S3Error> {
        self.hosts += 1;
        // Two Host lines are read by proxies in different ways: the first, the last, or joined. The
        // signature covers one.
        if self.hosts > 1 || !is_host(value) {
            return Err(invalid_request("There must be one Host header, which names a host."));
        }
        Ok(())
    }

    fn add_length(&mut self, value: &[u8]) -> Result<(), S3Error> {
        let length = decimal(value)
            .ok_or_else(|| invalid_request("The Content-Length header is not a decimal length."))?;
        // Also where both are equal, which RFC 9110, section 8.6, lets a recipient accept: a proxy
        // in front may have seen one of them alone.
        match self.length.replace(length) {
            Some(_) => Err(invalid_request("There must be only one Content-Length header.")),
            None => Ok(()),
        }
    }

    fn add_coding(&mut self, value: &[u8]) -> Result<(), S3Error> {
        // No list such as `gzip, chunked` and no second line: a reader that knows only one of the
        // codings sees another end of the body.
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(invalid_request("The only supported Transfer-Encoding is chunked."));
        }
        self.chunked = true;
        Ok(())
    }

    /// How the body of the request is framed.
    ///
    /// # Errors
    /// `InvalidRequest` if an HTTP/1.1 head has no Host line, or if the body has two lengths.
    pub(super) fn body(&self, http10: bool) -> Result<BodyFraming, S3Error> {
        if self.hosts == 0 && !http10 {
            return Err(invalid_request("The Host header is missing."));
        }
        match (self.length, self.chunked) {
            (None, false) => Ok(BodyFraming::Absent),
            (Some(length), false) => Ok(BodyFraming::Length(length)),
            (None, true) if !http10 => Ok(BodyFraming::Chunked),
            (None, true) => Err(invalid_request("HTTP/1.0 has no Transfer-Encoding.")),
            // RFC 9112, section 6.3, has the coding override the length, and warns of smuggling.
            (Some(_), true) => {
                Err(invalid_request("Content-Length and Transfer-Encoding exclude each other."))
            }
        }
    }

    /// Whether the client waits for `100 Continue` before it sends the body (RFC 9110, section
    /// 10.1.1).
    pub(super) fn expects_continue(&self, http10: bool) -> bool {
        self.expects_continue && !http10
    }

    /// Whether the client wants the connection to stay open.
    pub(super) fn keep_alive(&self, http10: bool) -> bool {
        !self.close && (self.keep_alive || !http10)
    }
}

/// An `InvalidRequest` with a message.
pub(super) fn invalid_request(message: &str) -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest).message(message)
}

/// Whether `value` has only bytes of a host and a port (RFC 3986, section 3.2), without user
/// information.
pub(super) fn is_host(value: &[u8]) -> bool {
    value.iter().all(|b| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(b))
}

/// Whether `byte` may be part of a token, such as a method or a header name (RFC 9110, section
/// 5.6.2).
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A number that consists of decimal digits only.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Whether a comma-separated list contains `token`, in any case.
fn has_token(list: &[u8], token: &str) -> bool {
    list.split(|b| *b == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_lines(lines: &[(&str, &str)]) -> Result<FramingFields, S3Error> {
        let mut fields = FramingFields::default();
        for (name, value) in lines {
            fields.add_line(name, value.as_bytes())?;
        }
        Ok(fields)
    }

    #[test]
    fn a_length_is_decimal_digits_once() {
        for good in ["0", "5", "007", "18446744073709551615"] {
            let fields = parse_lines(&[("Content-Length", good), ("Host", "a")]).unwrap();
            assert_eq!(fields.body(false), Ok(BodyFraming::Length(good.parse().unwrap())));
        }
        for bad in ["", "+5", "-1", "5,5", "5 5", "0x5", "18446744073709551616", "5.0", "٥"] {
            assert!(parse_lines(&[("content-length", bad)]).is_err(), "{bad}");
        }
        assert!(parse_lines(&[("content-length", "5"), ("Content-Length", "5")]).is_err());
    }

    #[test]
    fn ambiguous_framing_is_refused() {
        assert!(parse_lines(&[("transfer-encoding", "gzip, chunked")]).is_err());
        assert!(parse_lines(&[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")]).is_err());
        assert!(parse_lines(&[("host", "a"), ("host", "a")]).is_err());
        assert!(parse_lines(&[("host", "a/b")]).is_err());
        let both = parse_lines(&[("host", "a"), ("content-length", "3"), ("transfer-encoding", "Chunked")]);
        assert!(both.unwrap().body(false).is_err());
        assert!(parse_lines(&[("transfer-encoding", "chunked")]).unwrap().body(true).is_err());
    }

    #[test]
    fn without_a_connection_line_the_version_decides() {
        let silent = FramingFields::default();
        assert!(silent.keep_alive(false) && !silent.keep_alive(true));
        let close = parse_lines(&[("Connection", "TE, Close")]).unwrap();
        assert!(!close.keep_alive(false));
        let keep = parse_lines(&[("Connection", "Keep-Alive")]).unwrap();
        assert!(keep.keep_alive(true));
    }

    #[test]
    fn http_1_0_clients_cannot_expect_an_interim_response() {
        let fields = parse_lines(&[("expect", "100-Continue")]).unwrap();
        assert!(fields.expects_continue(false) && !fields.expects_continue(true));
    }
}
