//! The canonical request: the one text of a request that a signature is made over (S3 API reference, "Signature
//! calculations for the authorization header", step 1).

use std::borrow::Cow;

use crate::auth::query::{Query, Reading, encoded_path};
use crate::base::digest::Sha256;
use crate::s3::Headers;

/// Where the text goes: into a hash for the check, into memory only to be shown to whoever failed it.
pub(super) trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Sha256 {
    fn put(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Header lines sorted by name; those of one name stay in the order they came.
pub(super) struct SortedHeaders<'r>(Vec<(&'r str, &'r [u8])>);

impl<'r> SortedHeaders<'r> {
    pub(super) fn of(headers: &'r Headers) -> Self {
        let mut lines: Vec<_> = headers.iter().collect();
        lines.sort_by_key(|&(name, _)| name);
        Self(lines)
    }

    /// The names, each as often as it came.
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

/// What goes into the text.
pub(super) struct CanonicalRequest<'r> {
    pub(super) method: &'r str,
    /// The path as sent.
    pub(super) path: &'r str,
    pub(super) query: &'r Query<'r>,
    /// The parameter that the signature itself came in.
    pub(super) without: Option<&'r str>,
    pub(super) headers: &'r SortedHeaders<'r>,
    /// Names of the headers that are signed, joined by `;`.
    pub(super) signed_headers: &'r str,
    /// The hash of the body, or the word that stands in its place.
    pub(super) payload: &'r str,
}

impl CanonicalRequest<'_> {
    /// The ways of reading the target under which a signature may hold. Each of them binds the target in full.
    pub(super) fn readings(&self) -> &'static [Reading] {
        let alike = self.query.reads_alike() && matches!(encoded_path(self.path), Cow::Borrowed(_));
        if alike { &[Reading::Canonical] } else { &[Reading::Canonical, Reading::Verbatim] }
    }

    /// The SHA-256 of the text.
    pub(super) fn digest(&self, reading: Reading) -> [u8; 32] {
        let mut hash = Sha256::new();
        self.write(reading, &mut hash);
        hash.finish()
    }

    /// The text itself.
    pub(super) fn text(&self) -> String {
        let mut bytes = Vec::new();
        self.write(Reading::Canonical, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn write(&self, reading: Reading, sink: &mut impl Sink) {
        sink.put(self.method.as_bytes());
        sink.put(b"\n");
        match reading {
            Reading::Canonical => sink.put(encoded_path(self.path).as_bytes()),
            Reading::Verbatim => sink.put(self.path.as_bytes()),
        }
        sink.put(b"\n");
        for (at, (name, value)) in self.query.sorted(reading, self.without).into_iter().enumerate() {
            sink.put(if at == 0 { b"" } else { b"&" });
            sink.put(name.as_bytes());
            sink.put(b"=");
            sink.put(value.as_bytes());
        }
        sink.put(b"\n");
        self.write_headers(sink);
        sink.put(b"\n");
        sink.put(self.signed_headers.as_bytes());
        sink.put(b"\n");
        sink.put(self.payload.as_bytes());
    }

    /// One line for each signed name. A name that has no line in the request gets an empty value.
    fn write_headers(&self, sink: &mut impl Sink) {
        for name in self.signed_headers.split(';') {
            sink.put(name.as_bytes());
            sink.put(b":");
            for (at, (_, value)) in self.headers.named(name).iter().enumerate() {
                sink.put(if at == 0 { b"" } else { b"," });
                write_folded(value, sink);
            }
            sink.put(b"\n");
        }
    }
}

/// Writes a value without blanks around it, and with one blank for each run of them inside.
fn write_folded(value: &[u8], sink: &mut impl Sink) {
    let words = value.split(|&b| b == b' ' || b == b'\t').filter(|word| !word.is_empty());
    for (at, word) in words.enumerate() {
        sink.put(if at == 0 { b"" } else { b" " });
        sink.put(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, query: &str, lines: &[(&str, &str)], signed_headers: &str) -> String {
        let mut headers = Headers::default();
        for (name, value) in lines {
            headers.push(name, value.as_bytes());
        }
        let (query, headers) = (Query::parse(query), SortedHeaders::of(&headers));
        let (method, payload) = ("GET", "UNSIGNED-PAYLOAD");
        CanonicalRequest {
            method,
            path,
            query: &query,
            without: None,
            headers: &headers,
            signed_headers,
            payload,
        }
        .text()
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
    fn values_are_folded_and_lines_of_one_name_joined_in_order() {
        let lines = [("x", "  b \t  c  "), ("host", ""), ("x", "a"), ("x", "\t")];
        assert_eq!(
            text("/", "", &lines, "absent;host;x"),
            "GET\n/\n\nabsent:\nhost:\nx:b c,a,\n\nabsent;host;x\nUNSIGNED-PAYLOAD"
        );
    }
}
