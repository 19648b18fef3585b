//! The header lines that say how a message is framed and what becomes of the connection (RFC 9112, sections 6 and 9).
//! Whatever two readers could understand in two ways is refused: that is what request smuggling lives on.

use crate::s3::{ErrorCode, S3Error};

/// How the end of a request body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    /// There is no body.
    Absent,
    /// That many bytes, as Content-Length says.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// What the lines noted so far add up to.
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
    /// Takes one header line into account.
    ///
    /// # Errors
    /// `InvalidRequest` for a line that is malformed, or that may be there only once and is there again.
    pub(super) fn note(&mut self, name: &str, value: &[u8]) -> Result<(), S3Error> {
        if name.eq_ignore_ascii_case("host") {
            self.note_host(value)?;
        } else if name.eq_ignore_ascii_case("content-length") {
            self.note_length(value)?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            self.note_coding(value)?;
        } else if name.eq_ignore_ascii_case("connection") {
            self.close |= has_token(value, "close");
            self.keep_alive |= has_token(value, "keep-alive");
        } else if name.eq_ignore_ascii_case("expect") {
            self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
        }
        Ok(())
    }

    fn note_host(&mut self, value: &[u8]) -> Result<(), S3Error> {
        self.hosts += 1;
        if self.hosts > 1 || !is_host(value) {
            return Err(invalid_request("The Host header must be there once and name a host."));
        }
        Ok(())
    }

    fn note_length(&mut self, value: &[u8]) -> Result<(), S3Error> {
        let length =
            decimal(value).ok_or_else(|| invalid_request("The Content-Length header is not a length."))?;
        match self.length.replace(length) {
            Some(_) => Err(invalid_request("The Content-Length header must be there only once.")),
            None => Ok(()),
        }
    }

    fn note_coding(&mut self, value: &[u8]) -> Result<(), S3Error> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(invalid_request("The only Transfer-Encoding that is served is chunked."));
        }
        self.chunked = true;
        Ok(())
    }

    /// How the body of the request is framed.
    ///
    /// # Errors
    /// `InvalidRequest` where HTTP/1.1 misses its Host line, or the length of the body has two answers.
    pub(super) fn body(&self, http10: bool) -> Result<BodyFraming, S3Error> {
        if self.hosts == 0 && !http10 {
            return Err(invalid_request("The Host header is missing."));
        }
        match (self.length, self.chunked) {
            (None, false) => Ok(BodyFraming::Absent),
            (Some(length), false) => Ok(BodyFraming::Length(length)),
            (None, true) if !http10 => Ok(BodyFraming::Chunked),
            (None, true) => Err(invalid_request("HTTP/1.0 knows no Transfer-Encoding.")),
            (Some(_), true) => {
                Err(invalid_request("Content-Length and Transfer-Encoding exclude each other."))
            }
        }
    }

    /// Whether the client waits for `100 Continue` before it sends the body (RFC 9110, section 10.1.1).
    pub(super) fn expects_continue(&self, http10: bool) -> bool {
        self.expects_continue && !http10
    }

    /// Whether the client wants the connection to stay open.
    pub(super) fn keep_alive(&self, http10: bool) -> bool {
        !self.close && (self.keep_alive || !http10)
    }
}

/// An `InvalidRequest` that says why.
pub(super) fn invalid_request(message: &str) -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest).message(message)
}

/// Whether `value` could be host and port (RFC 3986, section 3.2), without user information.
pub(super) fn is_host(value: &[u8]) -> bool {
    value.iter().all(|b| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(b))
}

/// Whether `byte` may be in a token, such as a method or the name of a header line (RFC 9110, section 5.6.2).
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A number in decimal digits and nothing else.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Whether a comma-separated list holds `token`, in any case.
fn has_token(list: &[u8], token: &str) -> bool {
    list.split(|b| *b == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(lines: &[(&str, &str)]) -> Result<FramingFields, S3Error> {
        let mut fields = FramingFields::default();
        for (name, value) in lines {
            fields.note(name, value.as_bytes())?;
        }
        Ok(fields)
    }

    #[test]
    fn a_length_is_decimal_digits_once() {
        for good in ["0", "5", "007", "18446744073709551615"] {
            let fields = noted(&[("Content-Length", good), ("Host", "a")]).unwrap();
            assert_eq!(fields.body(false), Ok(BodyFraming::Length(good.parse().unwrap())));
        }
        for bad in ["", "+5", "-1", "5,5", "5 5", "0x5", "18446744073709551616", "5.0", "٥"] {
            assert!(noted(&[("content-length", bad)]).is_err(), "{bad}");
        }
        assert!(noted(&[("content-length", "5"), ("Content-Length", "5")]).is_err());
    }

    #[test]
    fn what_has_two_readings_is_refused() {
        assert!(noted(&[("transfer-encoding", "gzip, chunked")]).is_err());
        assert!(noted(&[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")]).is_err());
        assert!(noted(&[("host", "a"), ("host", "a")]).is_err());
        assert!(noted(&[("host", "a/b")]).is_err());
        let both = noted(&[("host", "a"), ("content-length", "3"), ("transfer-encoding", "Chunked")]);
        assert!(both.unwrap().body(false).is_err());
        assert!(noted(&[("transfer-encoding", "chunked")]).unwrap().body(true).is_err());
    }

    #[test]
    fn the_version_decides_what_silence_about_the_connection_means() {
        let silent = FramingFields::default();
        assert!(silent.keep_alive(false) && !silent.keep_alive(true));
        let close = noted(&[("Connection", "TE, Close")]).unwrap();
        assert!(!close.keep_alive(false));
        let keep = noted(&[("Connection", "Keep-Alive")]).unwrap();
        assert!(keep.keep_alive(true));
    }

    #[test]
    fn old_clients_cannot_expect_an_interim_response() {
        let fields = noted(&[("expect", "100-Continue")]).unwrap();
        assert!(fields.expects_continue(false) && !fields.expects_continue(true));
    }
}
