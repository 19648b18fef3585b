//! The trailers after the last chunk of an `aws-chunked` body (S3 API reference, "Signature
//! calculations for trailing headers").

use crate::base::limits;
use crate::s3::{Dialect, ErrorCode, Headers, S3Error};

/// The announced trailers of a request, and those received.
#[derive(Debug)]
pub(super) struct Trailers {
    prefix: &'static str,
    /// Full names in lower case, of trailers not yet received.
    awaited: Vec<String>,
    /// Names with `p-` in place of the prefix, and values.
    received: Vec<(String, String)>,
    /// A line `name:value` for each received trailer, as it is signed.
    signed_text: Vec<u8>,
}

impl Trailers {
    /// Reads the names in the `p-trailer` headers.
    ///
    /// # Errors
    /// `InvalidRequest` for a name other than a checksum's, and for too many names.
    pub(super) fn announced(headers: &Headers, dialect: Dialect) -> Result<Self, S3Error> {
        let prefix = dialect.header_prefix();
        let mut awaited = Vec::new();
        for value in announcements(headers, dialect) {
            for name in value.split(|&b| b == b',') {
                awaited.push(checksum_name(name, prefix)?);
            }
        }
        if awaited.len() > limits::TRAILERS_MAX {
            return Err(unsupported(prefix));
        }
        Ok(Self { prefix, awaited, received: Vec::new(), signed_text: Vec::new() })
    }

    /// Parses the line of a trailer, without its end.
    ///
    /// # Errors
    /// `MalformedTrailerError` for a malformed, unannounced or repeated trailer.
    pub(super) fn receive(&mut self, line: &[u8]) -> Result<(), S3Error> {
        let text = std::str::from_utf8(line).map_err(|_| malformed())?;
        let (name, value) = text.split_once(':').ok_or_else(malformed)?;
        let name = name.to_ascii_lowercase();
        let value = value.trim_matches([' ', '\t']);
        // Announced names alone, each once: with the limit of names this bounds what is kept.
        let at = self.awaited.iter().position(|awaited| *awaited == name).ok_or_else(malformed)?;
        let suffix = name.strip_prefix(self.prefix).ok_or_else(malformed)?;
        if value.is_empty() {
            return Err(malformed());
        }
        self.signed_text.extend_from_slice(format!("{name}:{value}\n").as_bytes());
        self.received.push((format!("p-{suffix}"), value.to_owned()));
        self.awaited.swap_remove(at);
        Ok(())
    }

    /// The signature in a line, without its end; `None` for other lines.
    pub(super) fn signature_in<'l>(&self, line: &'l [u8]) -> Option<&'l str> {
        let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
        let name = name.to_ascii_lowercase();
        let is_it = name.strip_prefix(self.prefix) == Some("trailer-signature");
        is_it.then(|| value.trim_matches([' ', '\t']))
    }

    /// The text that the signature of the trailers covers.
    pub(super) fn signed_text(&self) -> &[u8] {
        &self.signed_text
    }

    /// Checks that all announced trailers are received.
    ///
    /// # Errors
    /// `MalformedTrailerError`.
    pub(super) fn check_complete(&self) -> Result<(), S3Error> {
        if self.awaited.is_empty() { Ok(()) } else { Err(malformed()) }
    }

    /// The received trailers, by names with `p-` in place of the prefix.
    pub(super) fn received(&self) -> &[(String, String)] {
        &self.received
    }
}

/// The values of all `p-trailer` headers.
pub(super) fn announcements(headers: &Headers, dialect: Dialect) -> impl Iterator<Item = &[u8]> {
    let prefix = dialect.header_prefix();
    let lines = headers.iter().filter(move |(name, _)| name.strip_prefix(prefix) == Some("trailer"));
    lines.map(|(_, value)| value)
}

/// The error for malformed trailers.
pub(super) fn malformed() -> S3Error {
    S3Error::new(ErrorCode::MalformedTrailerError)
}

/// The full name of an announced checksum.
fn checksum_name(name: &[u8], prefix: &str) -> Result<String, S3Error> {
    let name = std::str::from_utf8(name.trim_ascii()).unwrap_or_default().to_ascii_lowercase();
    let is_checksum = name.strip_prefix(prefix).is_some_and(|suffix| suffix.starts_with("checksum-"));
    if is_checksum { Ok(name) } else { Err(unsupported(prefix)) }
}

fn unsupported(prefix: &str) -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest)
        .message(format!("The value specified in the {prefix}trailer header is not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(values: &[&str]) -> Result<Trailers, S3Error> {
        let mut headers = Headers::default();
        for value in values {
            headers.push("x-amz-trailer", value.as_bytes());
        }
        Trailers::announced(&headers, Dialect::Aws)
    }

    #[test]
    fn announced_trailers_are_received_under_their_neutral_names() {
        let mut trailers = announced(&["x-amz-checksum-crc32, X-Amz-Checksum-SHA1"]).unwrap();
        trailers.receive(b"X-Amz-Checksum-Crc32: AAAAAA== ").unwrap();
        assert!(trailers.check_complete().is_err());
        trailers.receive(b"x-amz-checksum-sha1:x").unwrap();
        trailers.check_complete().unwrap();
        let expected = [("p-checksum-crc32", "AAAAAA=="), ("p-checksum-sha1", "x")];
        assert_eq!(trailers.received(), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(trailers.signed_text(), b"x-amz-checksum-crc32:AAAAAA==\nx-amz-checksum-sha1:x\n");
    }

    #[test]
    fn an_unannounced_or_repeated_trailer_is_malformed() {
        for line in [
            "x-amz-checksum-sha1:x",
            "x-svc-checksum-crc32:x",
            "x-amz-checksum-crc32",
            "",
            ":x",
            "x-amz-checksum-crc32: ",
        ] {
            let mut trailers = announced(&["x-amz-checksum-crc32"]).unwrap();
            let code = trailers.receive(line.as_bytes()).unwrap_err().code;
            assert_eq!(code, ErrorCode::MalformedTrailerError, "{line}");
        }
        let mut trailers = announced(&["x-amz-checksum-crc32"]).unwrap();
        trailers.receive(b"x-amz-checksum-crc32:x").unwrap();
        assert!(trailers.receive(b"x-amz-checksum-crc32:x").is_err());
        assert!(trailers.receive(b"\xff:x").is_err());
    }

    #[test]
    fn only_a_few_checksums_may_be_announced() {
        for value in ["", "x-amz-meta-a", "x-svc-checksum-crc32", "x-amz-checksum-crc32,", "ü"] {
            assert_eq!(announced(&[value]).unwrap_err().code, ErrorCode::InvalidRequest, "{value}");
        }
        let many = ["x-amz-checksum-crc32"; limits::TRAILERS_MAX + 1];
        assert!(announced(&many).is_err());
        assert!(announced(&many[1..]).is_ok());
    }

    #[test]
    fn the_signature_line_is_distinguished_from_trailers() {
        let trailers = announced(&[]).unwrap();
        assert_eq!(trailers.signature_in(b"X-Amz-Trailer-Signature: ab "), Some("ab"));
        for line in
            [&b"x-svc-trailer-signature:ab"[..], b"x-amz-checksum-crc32:ab", b"x-amz-trailer-signature"]
        {
            assert_eq!(trailers.signature_in(line), None);
        }
    }
}
