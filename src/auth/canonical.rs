//! The canonical request, which a signature covers (S3 API reference, "Signature calculations for
//! the authorization header", step 1).

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode, utf8_percent_encode};

use crate::base::digest::Sha256;
use crate::base::signed_words;
use crate::s3::{Headers, QueryParams, encryption, uri};

/// All but the unreserved characters of RFC 3986, section 2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const RESERVED_BUT_SLASH: &AsciiSet = &RESERVED.remove(b'/');

/// The destination of the text: a hash for verification, or memory to show it in the error.
pub(super) trait CanonicalSink {
    fn put(&mut self, bytes: &[u8]);
}

impl CanonicalSink for Sha256 {
    fn put(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

impl CanonicalSink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Header lines sorted by name; lines of one name keep their order.
pub(super) struct SortedHeaders<'r>(Vec<(&'r str, &'r [u8])>);

impl<'r> SortedHeaders<'r> {
    pub(super) fn of(headers: &'r Headers) -> Self {
        let mut lines: Vec<_> = headers.iter().collect();
        lines.sort_by_key(|&(name, _)| name);
        Self(lines)
    }

    /// The names, one for each line.
    pub(super) fn names(&self) -> impl Iterator<Item = &'r str> {
        self.0.iter().map(|&(name, _)| name)
    }

    /// The lines named `name`.
    fn named(&self, name: &str) -> &[(&'r str, &'r [u8])] {
        let start = self.0.partition_point(|&(other, _)| other < name);
        let len = self.0[start..].iter().take_while(|&&(other, _)| other == name).count();
        &self.0[start..start + len]
    }
}

/// How the path and the query stand in the canonical request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetEncoding {
    /// Decoded and encoded again, as the S3 API reference prescribes: the same for all spellings of
    /// a target.
    Canonical,
    /// As sent. Some signers, botocore among them, sign the target in the spelling in which they
    /// send it.
    Verbatim,
}

/// Whether the keys of customers are in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyDisplay {
    /// As a signature covers them.
    Plain,
    /// For people.
    Hidden,
}

impl KeyDisplay {
    /// The value of a header or parameter.
    fn shown<'v>(self, name: &str, value: &'v [u8]) -> &'v [u8] {
        let is_hidden = self == Self::Hidden && encryption::is_secret(name);
        if is_hidden { encryption::HIDDEN.as_bytes() } else { value }
    }
}

/// The parts of the canonical request.
pub(super) struct CanonicalRequest<'r> {
    pub(super) method: &'r str,
    /// The path as sent.
    pub(super) path: &'r str,
    pub(super) query: &'r QueryParams,
    /// The query parameter that holds the signature, and is not signed.
    pub(super) signature_param: Option<&'r str>,
    pub(super) headers: &'r SortedHeaders<'r>,
    /// Names of the signed headers, joined by `;`.
    pub(super) signed_headers: &'r str,
    /// The content hash, or the keyword in its place.
    pub(super) payload: &'r str,
}

impl CanonicalRequest<'_> {
    /// The encodings under which a signature may hold. Each covers the whole target.
    pub(super) fn encodings(&self) -> &'static [TargetEncoding] {
        let same = is_canonical_query(self.query.as_sent()) && is_canonical(self.path, true);
        if same {
            &[TargetEncoding::Canonical]
        } else {
            &[TargetEncoding::Canonical, TargetEncoding::Verbatim]
        }
    }

    /// The SHA-256 of the text.
    pub(super) fn digest(&self, encoding: TargetEncoding) -> [u8; 32] {
        let mut hash = Sha256::new();
        self.write(encoding, &mut hash);
        hash.finish()
    }

    /// The text as an error shows it: without the keys of customers.
    pub(super) fn text(&self) -> String {
        let mut bytes = Vec::new();
        self.write_as(TargetEncoding::Canonical, KeyDisplay::Hidden, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn write(&self, encoding: TargetEncoding, sink: &mut impl CanonicalSink) {
        self.write_as(encoding, KeyDisplay::Plain, sink);
    }

    fn write_as(&self, encoding: TargetEncoding, keys: KeyDisplay, sink: &mut impl CanonicalSink) {
        sink.put(self.method.as_bytes());
        sink.put(b"\n");
        match encoding {
            TargetEncoding::Canonical => sink.put(encoded_path(self.path).as_bytes()),
            TargetEncoding::Verbatim => sink.put(self.path.as_bytes()),
        }
        sink.put(b"\n");
        for (at, (name, value)) in self.sorted_params(encoding).into_iter().enumerate() {
            sink.put(if at == 0 { b"" } else { b"&" });
            sink.put(name.as_bytes());
            sink.put(b"=");
            sink.put(keys.shown(&name, value.as_bytes()));
        }
        sink.put(b"\n");
        self.write_headers(keys, sink);
        sink.put(b"\n");
        sink.put(self.signed_headers.as_bytes());
        sink.put(b"\n");
        sink.put(self.payload.as_bytes());
    }

    /// The signed query parameters, sorted by name, then value.
    fn sorted_params(&self, encoding: TargetEncoding) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
        let mut pairs: Vec<_> = match encoding {
            TargetEncoding::Canonical => self.canonical_params().collect(),
            TargetEncoding::Verbatim => self.sent_params().collect(),
        };
        pairs.sort_unstable();
        pairs
    }

    /// Gaps between two `&` are left out.
    fn canonical_params(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        let signed = self.query.iter().filter(|(name, value)| {
            Some(*name) != self.signature_param && !(name.is_empty() && value.is_empty())
        });
        signed.map(|(name, value)| (encoded(name), encoded(value)))
    }

    fn sent_params(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        let sent = self.query.as_sent();
        let pairs = sent.split('&').filter(move |_| !sent.is_empty()).map(split_pair);
        let signed =
            pairs.filter(move |(name, _)| uri::decode_query(name).ok().as_deref() != self.signature_param);
        signed.map(|(name, value)| (name.into(), value.into()))
    }

    /// One line for each signed name. A name without a line in the request gets an empty value.
    fn write_headers(&self, keys: KeyDisplay, sink: &mut impl CanonicalSink) {
        for name in self.signed_headers.split(';') {
            sink.put(name.as_bytes());
            sink.put(b":");
            for (at, (_, value)) in self.headers.named(name).iter().enumerate() {
                sink.put(if at == 0 { b"" } else { b"," });
                write_folded(keys.shown(name, value), sink);
            }
            sink.put(b"\n");
        }
    }
}

/// Writes a header value without surrounding whitespace, and with one space for each run of
/// whitespace inside.
fn write_folded(value: &[u8], sink: &mut impl CanonicalSink) {
    for (at, word) in signed_words(value).enumerate() {
        sink.put(if at == 0 { b"" } else { b" " });
        sink.put(word);
    }
}

fn encoded(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, RESERVED).into()
}

/// The canonical encoding of a path: all bytes but unreserved ones and `/` are escaped, nothing is
/// normalised (S3 API reference, "Signature calculations for the authorization header", UriEncode).
/// Borrowed if it was sent so.
fn encoded_path(sent: &str) -> Cow<'_, str> {
    if is_canonical(sent, true) {
        return Cow::Borrowed(sent);
    }
    let decoded: Vec<u8> = percent_decode_str(sent).collect();
    Cow::Owned(percent_encode(&decoded, RESERVED_BUT_SLASH).collect())
}

/// A parameter as sent. One without `=` has an empty value.
fn split_pair(pair: &str) -> (&str, &str) {
    pair.split_once('=').unwrap_or((pair, ""))
}

/// Whether the canonical and the verbatim form of a query are the same.
fn is_canonical_query(sent: &str) -> bool {
    sent.is_empty()
        || sent.split('&').map(split_pair).all(|(name, value)| {
            !(name.is_empty() && value.is_empty()) && is_canonical(name, false) && is_canonical(value, false)
        })
}

/// Whether decoding and encoding `text` again would change nothing.
fn is_canonical(text: &str, slash: bool) -> bool {
    let plain =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~') || slash && b == b'/';
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'%', [high, low, after @ ..]) => match (hex_digit(*high), hex_digit(*low)) {
                (Some(high), Some(low)) if !plain(high << 4 | low) => after,
                _ => return false,
            },
            (first, after) if plain(*first) => after,
            _ => return false,
        };
    }
    true
}

/// The value of an upper-case hexadecimal digit.
fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `check` with a canonical request of these parts.
    fn with_request<T>(
        (path, query): (&str, &str),
        lines: &[(&str, &str)],
        signed_headers: &str,
        signature_param: Option<&str>,
        check: impl FnOnce(&CanonicalRequest<'_>) -> T,
    ) -> T {
        let mut headers = Headers::default();
        for (name, value) in lines {
            headers.push(name, value.as_bytes());
        }
        let query = QueryParams::parse(query).unwrap();
        let headers = SortedHeaders::of(&headers);
        let method = "GET";
        let payload = "UNSIGNED-PAYLOAD";
        check(&CanonicalRequest {
            method,
            path,
            query: &query,
            signature_param,
            headers: &headers,
            signed_headers,
            payload,
        })
    }

    fn text(path: &str, query: &str, lines: &[(&str, &str)], signed_headers: &str) -> String {
        with_request((path, query), lines, signed_headers, None, |request| {
            let mut bytes = Vec::new();
            request.write(TargetEncoding::Canonical, &mut bytes);
            String::from_utf8(bytes).unwrap()
        })
    }

    fn joined(query: &str, encoding: TargetEncoding, signature_param: Option<&str>) -> String {
        with_request(("/", query), &[], "host", signature_param, |request| {
            let pairs = request.sorted_params(encoding);
            pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
        })
    }

    #[test]
    fn every_part_stands_in_its_place() {
        let lines = [("Range", "bytes=0-9"), ("Host", "h"), ("Other", "unsigned")];
        assert_eq!(
            text("/b/k y", "b&a=1", &lines, "host;range"),
            "GET\n/b/k%20y\na=1&b=\nhost:h\nrange:bytes=0-9\n\nhost;range\nUNSIGNED-PAYLOAD"
        );
    }

    #[test]
    fn the_key_of_a_customer_is_signed_and_not_shown() {
        let name = "x-svc-copy-source-server-side-encryption-customer-key";
        let query = "X-Svc-Server-Side-Encryption-Customer-Key=moved";
        with_request(("/b/k", query), &[(name, "the key")], name, None, |request| {
            let mut signed = Vec::new();
            request.write(TargetEncoding::Canonical, &mut signed);
            let signed = String::from_utf8(signed).unwrap();
            assert!(signed.contains("the key") && signed.contains("moved"), "{signed}");
            let shown = request.text();
            let hidden = signed.replace("the key", "(not shown)").replace("moved", "(not shown)");
            assert_eq!(shown, hidden);
        });
    }

    #[test]
    fn values_are_folded_and_lines_of_one_name_joined_in_order() {
        let lines = [("x", "  b \t  c  "), ("host", ""), ("x", "a"), ("x", "\t")];
        assert_eq!(
            text("/", "", &lines, "absent;host;x"),
            "GET\n/\n\nabsent:\nhost:\nx:b c,a,\n\nabsent;host;x\nUNSIGNED-PAYLOAD"
        );
    }

    #[test]
    fn parameters_sort_by_name_and_then_by_value() {
        assert_eq!(joined("b=2&a=2&a=1&a-b=0&B", TargetEncoding::Canonical, None), "B=&a=1&a=2&a-b=0&b=2");
        assert_eq!(joined("b=2&a=%7e&a=1", TargetEncoding::Verbatim, None), "a=%7e&a=1&b=2");
        for encoding in [TargetEncoding::Canonical, TargetEncoding::Verbatim] {
            assert_eq!(joined("", encoding, None), "");
        }
    }

    #[test]
    fn all_spellings_of_a_query_have_one_canonical_form() {
        let expected = "k%20y=%2F%3D%25~&p=a%20b";
        for query in [
            "k%20y=%2F%3D%25~&p=a%20b",
            "p=a+b&k+y=/=%25%7E",
            "p=a b&&k%20y=%2f%3d%25~",
            "p=a+b&=&k+y=/=%25~",
        ] {
            assert_eq!(joined(query, TargetEncoding::Canonical, None), expected, "{query}");
            assert_eq!(is_canonical_query(query), query == expected, "{query}");
            let encodings =
                with_request(("/", query), &[], "host", None, |request| request.encodings().len());
            assert_eq!(encodings, if query == expected { 1 } else { 2 }, "{query}");
        }
    }

    #[test]
    fn the_verbatim_form_changes_nothing_but_the_order() {
        assert_eq!(joined("b=a+b&&a%2f=*", TargetEncoding::Verbatim, None), "=&a%2f=*&b=a+b");
    }

    #[test]
    fn the_signature_parameter_is_left_out_in_every_spelling() {
        for encoding in [TargetEncoding::Canonical, TargetEncoding::Verbatim] {
            assert_eq!(joined("X-S=1&a=1&X%2DS=2", encoding, Some("X-S")), "a=1");
        }
    }

    #[test]
    fn paths_are_encoded_but_never_normalised() {
        for (sent, canonical) in [
            ("/b/a//b/../c/./", "/b/a//b/../c/./"),
            ("/b/k%20y+*'(!)", "/b/k%20y%2B%2A%27%28%21%29"),
            ("/b/%7e%2f%c3%bc", "/b/~/%C3%BC"),
            ("/b/ü%", "/b/%C3%BC%25"),
            ("/b/%4", "/b/%254"),
            ("/b/%zz", "/b/%25zz"),
        ] {
            assert_eq!(encoded_path(sent), canonical, "{sent}");
            assert_eq!(encoded_path(canonical), canonical, "{sent}");
            assert!(matches!(encoded_path(canonical), Cow::Borrowed(_)), "{sent}");
        }
    }
}
