//! Times as pages show them.

use askama::Template;
use askama::filters::HtmlSafe;

use super::text;

/// A time in UTC that scripts show as the browser's clock has it.
#[derive(Template)]
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
    /// One whose day and hour count: `21:02 today`.
    pub(super) fn of_day(iso: &str) -> Self {
        Self::with_look(iso, "day")
    }

    fn with_look(iso: &str, look: &'static str) -> Self {
        Self { iso: iso.to_owned(), utc: text::time(iso), look }
    }

    /// The time in UTC, without its zone.
    pub(super) fn utc(&self) -> &str {
        &self.utc
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
        assert!(!ShownTime::of_day("<b>\"").to_string().contains("<b>"));
    }
}
