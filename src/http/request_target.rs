//! The request target (RFC 9112, section 3.2). It is split but never decoded or normalised, because
//! the signature covers the bytes as sent.

use super::fields::is_host;
use crate::s3::S3Error;

/// The parts of a request target, byte for byte as sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestTarget<'a> {
    /// The path, which begins with `/`, or `*`.
    pub(super) path: &'a str,
    /// The part after the first `?`.
    pub(super) query: &'a str,
    /// Host and port of an absolute target. They replace the Host line's (RFC 9112, section
    /// 3.2.2).
    pub(super) authority: Option<&'a str>,
}

impl<'a> RequestTarget<'a> {
    /// Splits `raw`, the target of a request with this method.
    ///
    /// # Errors
    /// `InvalidURI` unless it is a path, an `http` or `https` URI, or the `*` of OPTIONS.
    pub(super) fn parse(raw: &'a str, method: &str) -> Result<Self, S3Error> {
        if !raw.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
            return Err(S3Error::invalid_uri(raw));
        }
        if raw == "*" && method == "OPTIONS" {
            return Ok(Self { path: raw, query: "", authority: None });
        }
        if raw.starts_with('/') {
            return Ok(Self::split(raw, None));
        }
        Self::absolute(raw).ok_or_else(|| S3Error::invalid_uri(raw))
    }

    fn absolute(raw: &'a str) -> Option<Self> {
        let (scheme, rest) = raw.split_once("://")?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return None;
        }
        let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.is_empty() || !is_host(authority.as_bytes()) {
            return None;
        }
        Some(Self::split(rest, Some(authority)))
    }

    fn split(rest: &'a str, authority: Option<&'a str>) -> Self {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        Self { path: if path.is_empty() { "/" } else { path }, query, authority }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::ErrorCode;

    #[test]
    fn the_path_is_kept_byte_for_byte_and_ends_at_the_first_question_mark() {
        for (raw, path, query) in [
            ("/", "/", ""),
            ("//a//../b%2Fc", "//a//../b%2Fc", ""),
            ("/b/k?list-type=2&prefix=a?b", "/b/k", "list-type=2&prefix=a?b"),
            ("/b?", "/b", ""),
        ] {
            assert_eq!(RequestTarget::parse(raw, "GET"), Ok(RequestTarget { path, query, authority: None }));
        }
    }

    #[test]
    fn an_absolute_target_is_split() {
        for (raw, path, query, authority) in [
            ("http://a.example/b/k?x", "/b/k", "x", "a.example"),
            ("HTTPS://[::1]:9000", "/", "", "[::1]:9000"),
            ("http://a:80?x=/y", "/", "x=/y", "a:80"),
        ] {
            assert_eq!(
                RequestTarget::parse(raw, "GET"),
                Ok(RequestTarget { path, query, authority: Some(authority) })
            );
        }
    }

    #[test]
    fn other_targets_are_refused() {
        for raw in
            ["*", "a", "host:80", "ftp://h/", "http:///k", "http://u@h/", "/a#b", "/a b", "/ü", "/\u{7f}"]
        {
            assert_eq!(RequestTarget::parse(raw, "GET").unwrap_err().code, ErrorCode::InvalidURI, "{raw}");
        }
        assert!(RequestTarget::parse("*", "OPTIONS").is_ok());
    }
}
