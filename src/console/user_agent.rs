//! The program of a session, as far as it says what it is.

use std::borrow::Cow;

use super::text::visible;
use crate::s3::Headers;

/// Bytes of a `User-Agent` that are kept. Browsers send some 120, and other clients whatever they
/// like: each session keeps one.
const KEPT_MAX_BYTES: usize = 256;
/// Characters that are shown of a program that is no known browser.
const SHOWN_MAX_CHARS: usize = 60;

/// What only one browser sends, and its name. The first that is found counts: most also claim to be
/// those below.
const BROWSERS: [(&str, &str); 10] = [
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("HeadlessChrome/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
];
/// Likewise for systems.
const SYSTEMS: [(&str, &str); 7] = [
    ("iPhone", "an iPhone"),
    ("iPad", "an iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
];

/// The beginning of the header `User-Agent` (RFC 9110, section 10.1.5). A client can send any text
/// in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct UserAgent(Box<str>);

impl UserAgent {
    /// The header of a request; empty where it is missing or no text.
    pub(super) fn of(headers: &Headers) -> Self {
        let sent = headers.get_str("user-agent").unwrap_or_default();
        let mut kept = String::new();
        for c in sent.chars() {
            if kept.len() + c.len_utf8() > KEPT_MAX_BYTES {
                break;
            }
            kept.push(c);
        }
        Self(kept.into_boxed_str())
    }

    /// Browser and system in words, or the beginning of the text.
    pub(super) fn in_words(&self) -> Cow<'_, str> {
        match (name_in(&self.0, &BROWSERS), name_in(&self.0, &SYSTEMS)) {
            (Some(browser), Some(system)) => Cow::Owned(format!("{browser} on {system}")),
            (Some(browser), None) => Cow::Borrowed(browser),
            (None, _) if self.0.trim().is_empty() => Cow::Borrowed("An unknown program"),
            (None, _) => {
                let shown: String = self.0.chars().take(SHOWN_MAX_CHARS).collect();
                Cow::Owned(visible(&shown).into_owned())
            }
        }
    }
}

fn name_in(text: &str, known: &[(&str, &'static str)]) -> Option<&'static str> {
    known.iter().find(|(mark, _)| text.contains(mark)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(text: &str) -> UserAgent {
        let mut headers = Headers::default();
        headers.push("user-agent", text.as_bytes());
        UserAgent::of(&headers)
    }

    #[test]
    fn browsers_are_known_by_what_only_they_send() {
        for (text, words) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36",
                "Chrome on Android",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/604.1",
                "Safari on an iPhone",
            ),
            ("Firefox/1", "Firefox"),
            ("curl/8.14.1", "curl/8.14.1"),
            ("", "An unknown program"),
            (" \t ", "An unknown program"),
        ] {
            assert_eq!(agent(text).in_words(), words);
        }
        assert_eq!(UserAgent::of(&Headers::default()).in_words(), "An unknown program");
    }

    #[test]
    fn hostile_text_is_cut_and_made_visible() {
        let long = agent(&"ü".repeat(100_000));
        assert_eq!((long.0.len(), long.in_words().chars().count()), (KEPT_MAX_BYTES, SHOWN_MAX_CHARS));
        assert_eq!(agent("a\u{202e}b").in_words(), "a⟨U+202E⟩b");
        let mut headers = Headers::default();
        headers.push("user-agent", b"\xff\xfe");
        assert_eq!(UserAgent::of(&headers), UserAgent::default());
    }
}
