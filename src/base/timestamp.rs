//! Points in time and their textual forms in the protocol.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time: milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

/// 9999-12-31T23:59:59.999Z, the last moment that the textual forms can express.
const LAST_MILLIS: u64 = 253_402_300_799_999;

impl Timestamp {
    /// The point `millis` milliseconds after the epoch, at most the end of the year 9999.
    pub fn from_millis(millis: u64) -> Self {
        Self(millis.min(LAST_MILLIS))
    }

    /// Converts a system time; times before the epoch become the epoch.
    pub fn from_system(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self::from_millis(u64::try_from(since.as_millis()).unwrap_or(LAST_MILLIS))
    }

    /// Milliseconds since the epoch.
    pub fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down: the resolution of HTTP dates.
    pub fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// The distance between two points, whichever is first.
    pub fn distance(self, other: Self) -> Duration {
        Duration::from_millis(self.0.abs_diff(other.0))
    }

    /// The time since `earlier`; none if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// This point moved forward by `by`.
    pub fn plus(self, by: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(u64::try_from(by.as_millis()).unwrap_or(LAST_MILLIS)))
    }

    /// `2026-01-31T23:59:59.123Z`: the form of timestamps in XML (S3 API reference, Object,
    /// "LastModified").
    pub fn to_iso8601(self) -> String {
        self.to_string()
    }

    /// `Sat, 31 Jan 2026 23:59:59 GMT`: the form of dates in headers (RFC 9110, section 5.6.7).
    pub fn to_http_date(self) -> String {
        httpdate::fmt_http_date(self.to_system())
    }

    /// `20260131T235959Z`: the form of dates in signatures (Signature Version 4, "x-amz-date").
    pub fn to_iso_basic(self) -> String {
        let iso = self.to_iso8601();
        format!(
            "{}{}{}T{}{}{}Z",
            &iso[..4],
            &iso[5..7],
            &iso[8..10],
            &iso[11..13],
            &iso[14..16],
            &iso[17..19]
        )
    }

    /// Parses an HTTP date in any of the three forms of RFC 9110.
    pub fn parse_http_date(text: &str) -> Option<Self> {
        httpdate::parse_http_date(text).ok().map(Self::from_system)
    }

    /// Parses `20260131T235959Z`.
    pub fn parse_iso_basic(text: &str) -> Option<Self> {
        let shape = text.len() == 16 && text.is_ascii() && text.as_bytes()[8] == b'T' && text.ends_with('Z');
        if !shape {
            return None;
        }
        let text = text.as_bytes();
        let mut extended = *b"0000-00-00T00:00:00Z";
        extended[..4].copy_from_slice(&text[..4]);
        for (to, from) in [(5, 4), (8, 6), (11, 9), (14, 11), (17, 13)] {
            extended[to..to + 2].copy_from_slice(&text[from..from + 2]);
        }
        Self::parse_iso8601(std::str::from_utf8(&extended).ok()?)
    }

    /// Parses `2026-01-31T23:59:59Z` with an optional fraction.
    pub fn parse_iso8601(text: &str) -> Option<Self> {
        humantime::parse_rfc3339(text).ok().map(Self::from_system)
    }

    fn to_system(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0)
    }
}

impl fmt::Display for Timestamp {
    /// As [`Timestamp::to_iso8601`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis(self.to_system()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Timestamp = Timestamp(1_369_353_600_123);

    #[test]
    fn every_form_is_written_as_the_protocol_wants_it() {
        assert_eq!(MOMENT.to_iso8601(), "2013-05-24T00:00:00.123Z");
        assert_eq!(MOMENT.to_http_date(), "Fri, 24 May 2013 00:00:00 GMT");
        assert_eq!(MOMENT.to_iso_basic(), "20130524T000000Z");
    }

    #[test]
    fn every_form_is_read_back() {
        assert_eq!(Timestamp::parse_iso8601(&MOMENT.to_iso8601()), Some(MOMENT));
        let whole = Timestamp(MOMENT.as_secs() * 1000);
        assert_eq!(Timestamp::parse_http_date(&MOMENT.to_http_date()), Some(whole));
        assert_eq!(Timestamp::parse_iso_basic(&MOMENT.to_iso_basic()), Some(whole));
    }

    #[test]
    fn malformed_dates_are_refused() {
        for text in ["", "20130524T000000", "20130524 000000Z", "2013052éT00000Z", "20131324T000000Z"] {
            assert_eq!(Timestamp::parse_iso_basic(text), None, "{text}");
        }
        assert_eq!(Timestamp::parse_http_date("yesterday"), None);
    }

    #[test]
    fn times_are_clamped_to_the_textual_forms() {
        let last = Timestamp::from_millis(u64::MAX);
        assert_eq!(last.to_iso8601(), "9999-12-31T23:59:59.999Z");
        assert_eq!(last.plus(Duration::MAX), last);
    }
}
