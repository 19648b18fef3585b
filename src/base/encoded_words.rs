//! Encoded words (RFC 2047): text beyond ASCII in header lines, which many clients read as ASCII
//! alone. S3 sends metadata so (S3 user guide, "User-defined object metadata").

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

/// The beginning and the end of each word that is written.
const START: &str = "=?UTF-8?B?";
const END: &str = "?=";

/// The most bytes of text in a word, which has at most 75 characters (RFC 2047, section 2).
const WORD_TEXT_MAX_BYTES: usize = 45;

/// The characters that divide a header value into its parts. They stay as they are, so that
/// `attachment` is still one.
const DELIMITERS: [char; 4] = ['"', ';', '=', ','];

/// Reads base64 with its padding or without.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Whether all bytes of a header value are printable ASCII, or tabs.
pub fn is_plain(value: &[u8]) -> bool {
    value.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
}

/// Encodes a whole value, unless it is plain: one word, or several with a space between two.
pub fn encode(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut words = String::with_capacity(text.len() * 2 + START.len() + END.len());
    push_words(&mut words, text);
    Cow::Owned(words)
}

/// Encodes the parts of a value that are not plain. The others keep their meaning: types, names of
/// parameters, quotes.
pub fn encode_parts(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() * 2 + START.len() + END.len());
    for part in text.split_inclusive(DELIMITERS) {
        let end = part.trim_end_matches(DELIMITERS);
        let blanks = end.len() - end.trim_start_matches(' ').len();
        if is_plain(part.as_bytes()) {
            encoded.push_str(part);
            continue;
        }
        encoded.push_str(&part[..blanks]);
        push_words(&mut encoded, &end[blanks..]);
        encoded.push_str(&part[end.len()..]);
    }
    Cow::Owned(encoded)
}

fn push_words(words: &mut String, text: &str) {
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(word_len(rest));
        words.push_str(START);
        STANDARD.encode_string(word, words);
        words.push_str(END);
        words.push_str(if after.is_empty() { "" } else { " " });
        rest = after;
    }
}

/// The length of the first word of `text`, which ends between two characters.
fn word_len(text: &str) -> usize {
    let ends = text.char_indices().map(|(start, character)| start + character.len_utf8());
    ends.take_while(|end| *end <= WORD_TEXT_MAX_BYTES).last().unwrap_or(text.len())
}

/// Decodes the words in a value. The value stays as it is where they stand for ASCII alone, which
/// S3 presents as it was sent, where one cannot be read, and where a control character would come
/// out, which could end the line.
pub fn decode(text: &str) -> Cow<'_, str> {
    match decoded(text) {
        Some(plain) if !plain.is_ascii() && !plain.bytes().any(|byte| byte.is_ascii_control()) => {
            Cow::Owned(plain)
        }
        _ => Cow::Borrowed(text),
    }
}

/// The text with all its words decoded; `None` if it has none, or one that cannot be read.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    let mut after_word = false;
    while let Some(start) = rest.find("=?") {
        let (between, from_word) = rest.split_at(start);
        let Some(word) = EncodedWord::at_start(from_word) else {
            // An equals sign and a question mark that begin no word.
            bytes.extend_from_slice(between.as_bytes());
            bytes.extend_from_slice(b"=?");
            rest = &from_word["=?".len()..];
            after_word = false;
            continue;
        };
        // Whitespace between two words is not part of the text (RFC 2047, section 6.2).
        if !(after_word && between.trim_ascii().is_empty()) {
            bytes.extend_from_slice(between.as_bytes());
        }
        word.append_to(&mut bytes)?;
        rest = &from_word[word.len..];
        after_word = true;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

/// A word, as it stands in a value.
struct EncodedWord<'t> {
    charset: &'t str,
    encoding: &'t str,
    text: &'t str,
    /// The length of the whole word.
    len: usize,
}

impl<'t> EncodedWord<'t> {
    /// The word that `text` starts with, after which other text may follow.
    fn at_start(text: &'t str) -> Option<Self> {
        let (charset, rest) = text.strip_prefix("=?")?.split_once('?')?;
        let (encoding, rest) = rest.split_once('?')?;
        let (encoded, after) = rest.split_once(END)?;
        let is_word = [charset, encoding, encoded].iter().all(|part| !part.contains([' ', '\t', '?']));
        // A language may follow the character set (RFC 2231, section 5).
        let charset = charset.split('*').next().unwrap_or(charset);
        let len = text.len() - after.len();
        (is_word && !charset.is_empty()).then_some(Self { charset, encoding, text: encoded, len })
    }

    /// Appends the text as UTF-8. A character may be divided between two words.
    fn append_to(&self, bytes: &mut Vec<u8>) -> Option<()> {
        let raw = match self.encoding {
            "B" | "b" => LENIENT.decode(self.text).ok()?,
            "Q" | "q" => unquoted(self.text)?,
            _ => return None,
        };
        match self.charset.to_ascii_lowercase().as_str() {
            "utf-8" | "utf8" | "us-ascii" => bytes.extend_from_slice(&raw),
            "iso-8859-1" => {
                let text: String = raw.iter().map(|byte| char::from(*byte)).collect();
                bytes.extend_from_slice(text.as_bytes());
            }
            _ => return None,
        }
        Some(())
    }
}

/// The bytes of the encoding `Q` (RFC 2047, section 4.2).
fn unquoted(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'_' => bytes.push(b' '),
            b'=' => {
                let [high, low, after @ ..] = after else { return None };
                let high = char::from(*high).to_digit(16)?;
                let low = char::from(*low).to_digit(16)?;
                bytes.push((high * 16 + low) as u8);
                rest = after;
            }
            other => bytes.push(*other),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_values_are_presented_as_they_are() {
        for text in ["", "a b\tc", "=?UTF-8?B?Zm9v?=", "=?UTF-8?B?w7w=?=", "~!?="] {
            assert_eq!(encode(text), text);
            assert_eq!(encode_parts(text), text);
        }
    }

    #[test]
    fn text_beyond_ascii_becomes_words() {
        assert_eq!(encode("ü"), "=?UTF-8?B?w7w=?=");
        assert_eq!(encode("a ü"), "=?UTF-8?B?YSDDvA==?=");
        assert_eq!(encode("\u{1}\u{7f}"), "=?UTF-8?B?AX8=?=");
    }

    #[test]
    fn no_word_is_longer_than_seventy_five_characters_nor_divides_a_character() {
        for text in ["ü".repeat(200), format!("a{}", "€".repeat(100)), "😀".repeat(50)] {
            let encoded = encode(&text).into_owned();
            assert!(encoded.split(' ').count() > 1);
            for word in encoded.split(' ') {
                assert!(word.len() <= 75, "{word}");
                assert!(!decode(word).contains("=?"), "{word}");
            }
            assert_eq!(decode(&encoded), text);
        }
    }

    #[test]
    fn the_parts_of_a_value_keep_their_meaning() {
        assert_eq!(
            encode_parts("attachment; filename=\"grün b.txt\"; x=1"),
            "attachment; filename=\"=?UTF-8?B?Z3LDvG4gYi50eHQ=?=\"; x=1"
        );
        assert_eq!(encode_parts("attachment; filename=ü"), "attachment; filename==?UTF-8?B?w7w=?=");
        assert_eq!(encode_parts("no-store, ü"), "no-store, =?UTF-8?B?w7w=?=");
        assert_eq!(decode("attachment; filename==?UTF-8?B?w7w=?="), "attachment; filename=ü");
    }

    #[test]
    fn words_of_other_senders_are_decoded() {
        for (sent, text) in [
            ("=?UTF-8?B?w7w=?=", "ü"),
            ("=?utf-8?b?w7w?=", "ü"),
            ("=?UTF-8?Q?Mini=C3=B6_b?=", "Miniö b"),
            ("=?UTF-8*de?q?=c3=bc?=", "ü"),
            ("=?ISO-8859-1?Q?a=FC?=", "aü"),
            ("=?UTF-8?Q?a?= =?UTF-8?Q?=C3=BC?=", "aü"),
            ("=?UTF-8?Q?a?=\r\n =?UTF-8?Q?=C3=BC?=", "aü"),
            ("=?UTF-8?B?w?= =?UTF-8?B?7w?=", "=?UTF-8?B?w?= =?UTF-8?B?7w?="),
            ("=?UTF-8?Q?=C3?= =?UTF-8?Q?=BC?=", "ü"),
            ("x =?UTF-8?B?w7w=?= y", "x ü y"),
            ("a=?b =?UTF-8?B?w7w=?=", "a=?b ü"),
            ("grün =?UTF-8?B?w7w=?=", "grün ü"),
        ] {
            assert_eq!(decode(sent), text, "{sent}");
        }
    }

    #[test]
    fn values_without_readable_words_beyond_ascii_stay() {
        for text in [
            "",
            "plain",
            "=?",
            "=??B?w7w=?=",
            "=?UTF-8?B?Zm9v?=",
            "=?UTF-8?X?w7w=?=",
            "=?KOI8-R?B?w7w=?=",
            "=?UTF-8?B?*?=",
            "=?UTF-8?Q?=C3=B?=",
            "=?UTF-8?Q?=FF?=",
            "=?UTF-8?Q?=C3=BC=0D=0AEvil:_1?=",
            "=?UTF-8?B?w7w=",
        ] {
            assert_eq!(decode(text), text, "{text}");
        }
    }

    proptest! {
        #[test]
        fn each_form_decodes_to_the_text(text in "([ -~äß€😀\u{80}]|=\\?|\\?=|UTF-8\\?B\\?){0,80}é") {
            for encoded in [encode(&text), encode_parts(&text)] {
                prop_assert!(is_plain(encoded.as_bytes()));
                let again = decode(&encoded);
                prop_assert!(again == text || text.contains("=?"), "{} {}", again, text);
            }
            let whole = encode(&text);
            prop_assert_eq!(decode(&whole), text.as_str());
        }

        #[test]
        fn no_text_makes_it_panic(text in "(=\\?|\\?=|[?=_ABbQq0-9é*]|UTF-8|iso-8859-1){0,40}") {
            let decoded = decode(&text);
            prop_assert!(decoded.len() <= text.len() * 2);
        }
    }
}
