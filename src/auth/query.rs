//! The query of a request as signatures see it: names and values in their one canonical encoding, beside the way they
//! were sent.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_decode_str, percent_encode};

/// Everything but the unreserved characters of RFC 3986, section 2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const RESERVED_BUT_SLASH: &AsciiSet = &RESERVED.remove(b'/');

/// How the bytes of a request target are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Decoded and encoded again: what the S3 API reference prescribes, and the same for all spellings of a target.
    Canonical,
    /// As they stand. Some signers (botocore's for one) sign the target as they send it, however it is spelled.
    Verbatim,
}

/// A parameter. One without `=` has an empty value.
pub(super) struct Param<'r> {
    sent: (&'r str, &'r str),
    canonical: (Cow<'r, str>, Cow<'r, str>),
}

impl<'r> Param<'r> {
    fn parse(text: &'r str) -> Self {
        let sent = text.split_once('=').unwrap_or((text, ""));
        Self { sent, canonical: (encoded(sent.0), encoded(sent.1)) }
    }

    /// The name in canonical encoding, which for names of unreserved characters is the name itself.
    pub(super) fn name(&self) -> &str {
        &self.canonical.0
    }

    /// The value, decoded; `None` when it is not UTF-8.
    pub(super) fn value(&self) -> Option<Cow<'_, str>> {
        percent_decode_str(&self.canonical.1).decode_utf8().ok()
    }

    fn reads_alike(&self) -> bool {
        let (name, value) = (&self.canonical.0, &self.canonical.1);
        !self.is_empty() && matches!((name, value), (Cow::Borrowed(_), Cow::Borrowed(_)))
    }

    /// Whether it is but the gap between two `&`, which the canonical reading leaves out.
    fn is_empty(&self) -> bool {
        self.sent == ("", "")
    }
}

/// All parameters in the order they were sent.
pub(super) struct Query<'r>(Vec<Param<'r>>);

impl<'r> Query<'r> {
    /// Takes the text behind the `?` apart.
    pub(super) fn parse(text: &'r str) -> Self {
        match text {
            "" => Self(Vec::new()),
            _ => Self(text.split('&').map(Param::parse).collect()),
        }
    }

    /// The parameters.
    pub(super) fn params(&self) -> impl Iterator<Item = &Param<'r>> {
        self.0.iter()
    }

    /// Whether both readings are the same.
    pub(super) fn reads_alike(&self) -> bool {
        self.0.iter().all(Param::reads_alike)
    }

    /// Names and values sorted by name, then value, without the parameter called `except`.
    pub(super) fn sorted(&self, reading: Reading, except: Option<&str>) -> Vec<(&str, &str)> {
        let kept = self.0.iter().filter(|param| except != Some(param.name()));
        let mut pairs: Vec<(&str, &str)> = match reading {
            Reading::Verbatim => kept.map(|param| param.sent).collect(),
            Reading::Canonical => {
                let shown = kept.filter(|param| !param.is_empty());
                shown.map(|param| (&*param.canonical.0, &*param.canonical.1)).collect()
            }
        };
        pairs.sort_unstable();
        pairs
    }
}

/// The canonical encoding of a query name or value, in which `+` stands for a blank (as in HTML forms, and as S3
/// takes it). Borrowed when it was sent so.
fn encoded(sent: &str) -> Cow<'_, str> {
    if is_canonical(sent, false) {
        return Cow::Borrowed(sent);
    }
    let blanks: Vec<u8> = sent.bytes().map(|b| if b == b'+' { b' ' } else { b }).collect();
    let decoded: Vec<u8> = percent_decode(&blanks).collect();
    Cow::Owned(percent_encode(&decoded, RESERVED).collect())
}

/// The canonical encoding of a path: every byte but unreserved ones and `/` is escaped, nothing is normalised (S3 API
/// reference, "Signature calculations for the authorization header", UriEncode). Borrowed when it was sent so.
pub(super) fn encoded_path(sent: &str) -> Cow<'_, str> {
    if is_canonical(sent, true) {
        return Cow::Borrowed(sent);
    }
    let decoded: Vec<u8> = percent_decode_str(sent).collect();
    Cow::Owned(percent_encode(&decoded, RESERVED_BUT_SLASH).collect())
}

/// Whether decoding and encoding `text` again would change nothing.
fn is_canonical(text: &str, slash: bool) -> bool {
    let plain =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~') || slash && b == b'/';
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => match (hex_digit(*high), hex_digit(*low)) {
                (Some(high), Some(low)) if !plain(high << 4 | low) => behind,
                _ => return false,
            },
            (first, behind) if plain(*first) => behind,
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

    fn joined(text: &str, reading: Reading, except: Option<&str>) -> String {
        let query = Query::parse(text);
        let pairs = query.sorted(reading, except);
        pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }

    #[test]
    fn parameters_sort_by_name_and_then_by_value() {
        assert_eq!(joined("b=2&a=2&a=1&a-b=0&B", Reading::Canonical, None), "B=&a=1&a=2&a-b=0&b=2");
        assert_eq!(joined("b=2&a=%7e&a=1", Reading::Verbatim, None), "a=%7e&a=1&b=2");
        assert_eq!(joined("", Reading::Canonical, None), "");
    }

    #[test]
    fn all_spellings_of_a_query_have_one_canonical_form() {
        let expected = "k%20y=%2F%3D%25~&p=a%20b";
        for text in ["k%20y=%2F%3D%25~&p=a%20b", "p=a+b&k+y=/=%25%7E", "p=a b&&k%20y=%2f%3d%~"] {
            assert_eq!(joined(text, Reading::Canonical, None), expected, "{text}");
            assert_eq!(Query::parse(text).reads_alike(), text == expected, "{text}");
        }
    }

    #[test]
    fn the_verbatim_form_changes_nothing_but_the_order() {
        assert_eq!(joined("b=a+b&&a%2f=*", Reading::Verbatim, None), "=&a%2f=*&b=a+b");
    }

    #[test]
    fn one_parameter_may_be_left_out_however_it_is_spelled() {
        assert_eq!(joined("X-S=1&a=1&X%2DS=2", Reading::Canonical, Some("X-S")), "a=1");
        assert_eq!(joined("X-S=1&a=1&X%2DS=2", Reading::Verbatim, Some("X-S")), "a=1");
    }

    #[test]
    fn values_are_decoded() {
        let query = Query::parse("a=%C3%BC+%2B&b=%ff");
        let values: Vec<_> = query.params().map(|param| param.value().map(Cow::into_owned)).collect();
        assert_eq!(values, [Some("ü +".to_owned()), None]);
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
