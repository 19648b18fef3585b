//! Times as pages show them: in UTC, and by scripts as the browser's clock has them.

use askama::Template;
use askama::filters::HtmlSafe;

use super::text;
use crate::base::Timestamp;

/// A time, which names its zone.
#[derive(Template, Debug, Clone, PartialEq, Eq)]
#[template(path = "time.html", config = "src/console/askama.toml")]
pub(super) struct ShownTime {
    /// As ISO 8601 has it.
    iso: String,
    utc: String,
    /// How scripts show it; empty for its age, or its date.
    look: &'static str,
}

// The template escapes its parts.
impl HtmlSafe for ShownTime {}

impl ShownTime {
    /// One whose age counts: `5 minutes ago`.
    pub(super) fn age(iso: &str) -> Self {
        Self::with_look(iso, "")
    }

    /// One whose day and hour count: `21:02 today`.
    pub(super) fn of_day(iso: &str) -> Self {
        Self::with_look(iso, "day")
    }

    /// One whose second counts: `28 Nov 2026, 21:02:05`.
    pub(super) fn moment(iso: &str) -> Self {
        Self::with_look(iso, "moment")
    }

    /// One of a log, whose second counts and whose day does not: `21:02:05`.
    pub(super) fn of_clock(iso: &str) -> Self {
        Self::with_look(iso, "clock")
    }

    fn with_look(iso: &str, look: &'static str) -> Self {
        Self { iso: iso.to_owned(), utc: text::time(iso), look }
    }

    /// The time in UTC, without its zone.
    pub(super) fn utc(&self) -> &str {
        &self.utc
    }
}

/// A text that may have a time in it.
#[derive(Template, Debug, Clone, PartialEq, Eq)]
#[template(
    source = "{{ before }}{% if let Some(time) = time %}{{ time }}{% endif %}{{ after }}",
    ext = "html"
)]
pub(super) struct TimedText {
    pub(super) before: String,
    pub(super) time: Option<ShownTime>,
    pub(super) after: String,
}

// The template escapes its parts.
impl HtmlSafe for TimedText {}

impl TimedText {
    /// A moment alone.
    pub(super) fn moment(time: Timestamp) -> Self {
        Self::new("", time, "")
    }

    /// A moment within a text.
    pub(super) fn new(before: impl Into<String>, time: Timestamp, after: impl Into<String>) -> Self {
        let time = ShownTime::moment(&time.to_iso8601());
        Self { before: before.into(), time: Some(time), after: after.into() }
    }

    /// A time within a text of which day and hour count.
    pub(super) fn of_day(before: impl Into<String>, time: Timestamp, after: impl Into<String>) -> Self {
        let time = ShownTime::of_day(&time.to_iso8601());
        Self { before: before.into(), time: Some(time), after: after.into() }
    }
}

impl From<String> for TimedText {
    fn from(text: String) -> Self {
        Self { before: text, time: None, after: String::new() }
    }
}

impl From<&str> for TimedText {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_names_its_zone_and_is_escaped() {
        let time = ShownTime::of_day("2026-01-31T12:00:00.250Z");
        assert_eq!(
            time.to_string(),
            "<time datetime=\"2026-01-31T12:00:00.250Z\" title=\"2026-01-31 12:00:00 UTC\" data-look=\"day\">\
             2026-01-31 12:00:00 UTC</time>"
        );
        assert!(!ShownTime::age("<b>\"").to_string().contains("<b>"));
        let text = TimedText::new("<b>", Timestamp::from_millis(0), "<i>").to_string();
        assert!(text.starts_with("&#60;b&#62;<time ") && text.ends_with("UTC</time>&#60;i&#62;"), "{text}");
        assert_eq!(TimedText::from("a & b").to_string(), "a &#38; b");
    }
}
