//! Percent-encoding (RFC 3986, section 2.1), in both directions.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::s3::S3Error;

/// All but the unreserved characters and `/`: the set that `encoding-type=url` encodes in listings
/// (S3 API reference, ListObjectsV2). A space becomes `%20` and a plus `%2B`, so that decoders of
/// forms and of paths read the same.
const LISTED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// The same with `/`: all but the unreserved characters, as in a query.
const QUERY: &AsciiSet = &LISTED.add(b'/');

/// The characters of a path that need encoding: all but a segment's (RFC 3986, section 3.3)
/// and `/`.
const PATH: &AsciiSet = &LISTED
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// The characters that no URI has (RFC 3986, section 2).
const OUTSIDE: &AsciiSet = &percent_encoding::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Decodes a part of a path. A `+` is a plus.
///
/// # Errors
/// `InvalidURI` for a `%` without two hexadecimal digits, and for text that is not UTF-8.
pub fn decode_path(text: &str) -> Result<String, S3Error> {
    // The decoder leaves a broken escape as it is: `%2` and `%252` would be the same key.
    if !escapes_are_whole(text.as_bytes()) {
        return Err(S3Error::invalid_uri(text));
    }
    percent_decode_str(text).decode_utf8().map(Into::into).map_err(|_| S3Error::invalid_uri(text))
}

/// Decodes a part of a query string, in which a `+` is a space.
///
/// # Errors
/// As [`decode_path`].
pub fn decode_query(text: &str) -> Result<String, S3Error> {
    if text.contains('+') { decode_path(&text.replace('+', "%20")) } else { decode_path(text) }
}

/// Encodes a name for a listing with `encoding-type=url`.
pub fn encode_listed(text: &str) -> String {
    utf8_percent_encode(text, LISTED).to_string()
}

/// Encodes a name or a value of a query.
pub fn encode_query(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

/// Encodes names and values as a query: `name=value&name=value`.
pub fn encode_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut encoded = String::new();
    for (name, value) in pairs {
        if !encoded.is_empty() {
            encoded.push('&');
        }
        encoded += &encode_query(name);
        encoded.push('=');
        encoded += &encode_query(value);
    }
    encoded
}

/// Encodes a key for the record of an event, as forms are: a space becomes a plus (S3 user guide,
/// "Event message structure").
pub fn encode_event_key(text: &str) -> String {
    encode_listed(text).replace("%20", "+")
}

/// Encodes a key as a path.
pub fn encode_path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// Encodes only the characters that no URI has, in text that is a part of a URI already.
pub fn encode_location(text: &str) -> String {
    utf8_percent_encode(text, OUTSIDE).to_string()
}

fn escapes_are_whole(bytes: &[u8]) -> bool {
    let mut after_percents = bytes.split(|byte| *byte == b'%').skip(1);
    after_percents.all(|rest| matches!(rest, [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::s3::ErrorCode;

    #[test]
    fn a_plus_is_a_plus_in_a_path_and_a_blank_in_a_query() {
        assert_eq!(decode_path("a+b%20c%2Fd%2b").unwrap(), "a+b c/d+");
        assert_eq!(decode_query("a+b%20c%2Fd%2b").unwrap(), "a b c/d+");
    }

    #[test]
    fn half_escapes_and_other_encodings_are_refused() {
        for text in ["%", "%4", "a%zz", "%%41", "%ff", "%c3"] {
            assert_eq!(decode_path(text).unwrap_err().code, ErrorCode::InvalidURI, "{text}");
            assert_eq!(decode_query(text).unwrap_err().code, ErrorCode::InvalidURI, "{text}");
        }
    }

    #[test]
    fn listed_names_keep_their_slashes_and_nothing_else_that_is_reserved() {
        assert_eq!(encode_listed("a b+c/(ü)~*\u{1}"), "a%20b%2Bc/%28%C3%BC%29~%2A%01");
        assert_eq!(encode_query("a b+c/(ü)~*\u{1}"), "a%20b%2Bc%2F%28%C3%BC%29~%2A%01");
        assert_eq!(encode_pairs([("a=b", "&"), ("", "c"), ("d", "")]), "a%3Db=%26&=c&d=");
        assert_eq!(encode_pairs([]), "");
    }

    #[test]
    fn keys_of_events_are_encoded_as_forms_are() {
        assert_eq!(encode_event_key("red flower/ü+.jpg"), "red+flower/%C3%BC%2B.jpg");
        assert_eq!(decode_query(&encode_event_key("a b+c/ü")).unwrap(), "a b+c/ü");
    }

    #[test]
    fn a_location_keeps_its_query_and_its_fragment_and_no_byte_that_could_end_it() {
        let text = "a b/?x=%20&y=ü#!/\r\nSet-Cookie: z\\\"<>\u{7f}";
        assert_eq!(encode_location(text), "a%20b/?x=%20&y=%C3%BC#!/%0D%0ASet-Cookie:%20z%5C%22%3C%3E%7F");
        assert_eq!(encode_path("a b/(c)=@:+?#%ü\r\n"), "a%20b/(c)=@:+%3F%23%25%C3%BC%0D%0A");
    }

    proptest! {
        #[test]
        fn whatever_is_encoded_decodes_to_itself(text in any::<String>()) {
            prop_assert_eq!(decode_path(&encode_listed(&text)).unwrap(), text.clone());
            prop_assert_eq!(decode_path(&encode_path(&text)).unwrap(), text.clone());
            prop_assert_eq!(decode_query(&encode_listed(&text)).unwrap(), text);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[%a-fA-F0-9+é]{0,20}") {
            let _ = (decode_path(&text), decode_query(&text));
        }
    }
}
