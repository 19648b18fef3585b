//! Conditional requests (RFC 9110, section 13; S3 user guide, "Conditional requests").

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use crate::base::entity_tag::{matches_strongly, matches_weakly};
use crate::base::{DeleteCondition, Timestamp, WriteCondition};
use crate::s3::{ErrorCode, Headers, S3Error, VendorHeaders};

/// The conditions of a read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadConditions {
    /// `If-Match`: one of these tags, or `*`.
    pub if_match: Option<String>,
    /// `If-None-Match`: none of these tags, or `*`.
    pub if_none_match: Option<String>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<Timestamp>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<Timestamp>,
}

/// The outcome of the conditions of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionOutcome {
    /// All conditions hold.
    Proceed,
    /// Status 304; the name of the condition.
    NotModified(&'static str),
    /// Status 412; the name of the condition.
    Failed(&'static str),
}

impl ReadConditions {
    /// Reads the four headers. Invalid dates are ignored (RFC 9110, sections 13.1.3 and 13.1.4).
    pub fn from_headers(headers: &Headers) -> Self {
        // Most reads have none, and pay for one look.
        if !headers.iter().any(|(name, _)| name.starts_with("if-")) {
            return Self::default();
        }
        Self::read(|name| headers.get_list(name))
    }

    /// Reads the conditions on the source of a copy: `p-copy-source-if-match` and so on.
    pub fn of_copy_source(vendor: VendorHeaders<'_>) -> Self {
        Self::read(|name| vendor.get(&format!("copy-source-{name}")).map(Cow::Borrowed))
    }

    fn read<'h>(get: impl Fn(&'static str) -> Option<Cow<'h, [u8]>>) -> Self {
        Self {
            if_match: get("if-match").map(|value| tags(&value)),
            if_none_match: get("if-none-match").map(|value| tags(&value)),
            if_modified_since: get("if-modified-since").and_then(|value| date(&value)),
            if_unmodified_since: get("if-unmodified-since").and_then(|value| date(&value)),
        }
    }

    /// Evaluates the conditions in the order of RFC 9110, section 13.2.2: a condition on tags
    /// overrides the one on dates. An `If-Modified-Since` after `now` is invalid, and ignored (RFC
    /// 2616, section 14.25, as S3 does).
    pub fn decide(&self, etag: &str, modified: Timestamp, now: Timestamp) -> ConditionOutcome {
        // HTTP dates have no fractions: to the millisecond, the date that a client was told would
        // be before the object's own.
        let modified = modified.as_secs();
        match (&self.if_match, self.if_unmodified_since) {
            (Some(tags), _) if !matches_strongly(tags, etag) => return ConditionOutcome::Failed("If-Match"),
            (None, Some(date)) if modified > date.as_secs() => {
                return ConditionOutcome::Failed("If-Unmodified-Since");
            }
            _ => {}
        }
        let since = self.if_modified_since.filter(|date| date.as_secs() <= now.as_secs());
        match (&self.if_none_match, since) {
            (Some(tags), _) if matches_weakly(tags, etag) => ConditionOutcome::NotModified("If-None-Match"),
            (None, Some(date)) if modified <= date.as_secs() => {
                ConditionOutcome::NotModified("If-Modified-Since")
            }
            _ => ConditionOutcome::Proceed,
        }
    }
}

/// Whether to serve the range: without `If-Range`, or if it matches the current version (RFC 9110,
/// section 13.1.5).
pub fn range_applies(headers: &Headers, etag: &str, modified: Timestamp) -> bool {
    match headers.get_str("if-range") {
        None => true,
        Some(text) => match Timestamp::parse_http_date(text) {
            Some(date) => date.as_secs() == modified.as_secs(),
            None => matches_strongly(text, etag),
        },
    }
}

/// The condition of a write from `If-Match` and `If-None-Match` (S3 user guide, "Conditional
/// writes").
///
/// # Errors
/// `InvalidArgument` for a value that is not UTF-8, and for an empty `If-None-Match`.
pub fn write_condition(headers: &Headers) -> Result<WriteCondition, S3Error> {
    let if_match = text(headers, "if-match")?.map(WriteCondition::IfMatch);
    let if_none_match = match text(headers, "if-none-match")? {
        None => None,
        Some(list) if list == "*" => Some(WriteCondition::IfAbsent),
        // It would always hold.
        Some(list) if list.is_empty() => return Err(no_tag("if-none-match")),
        Some(list) => Some(WriteCondition::IfNoneMatch(list)),
    };
    Ok(match (if_match, if_none_match) {
        (Some(first), Some(second)) => WriteCondition::Both(Box::new((first, second))),
        (one, other) => one.or(other).unwrap_or_default(),
    })
}

/// The condition of a deletion: `If-Match`, `p-if-match-size` and `p-if-match-last-modified-time`.
///
/// # Errors
/// `InvalidArgument` for an unreadable value; `NotImplemented` for `If-None-Match`, which S3 does
/// not have on deletions. To ignore either would delete an object that the client wants to keep.
pub fn delete_condition(headers: &Headers, vendor: VendorHeaders<'_>) -> Result<DeleteCondition, S3Error> {
    if headers.get("if-none-match").is_some() {
        return Err(S3Error::new(ErrorCode::NotImplemented).element("Header", "If-None-Match"));
    }
    Ok(DeleteCondition {
        if_match: text(headers, "if-match")?,
        size: vendor_value(vendor, "if-match-size", expected_size)?,
        modified: vendor_value(vendor, "if-match-last-modified-time", expected_time)?,
        ..DeleteCondition::default()
    })
}

/// A size in bytes, as conditions have it; `None` if `text` is no size.
pub fn expected_size(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The moments that a time stands for: a second, or a millisecond for ISO 8601 with a fraction.
/// `None` if `text` is neither an HTTP date nor ISO 8601.
pub fn expected_time(text: &str) -> Option<Range<Timestamp>> {
    let text = text.trim();
    let iso = Timestamp::parse_iso8601(text);
    let from = iso.or_else(|| Timestamp::parse_http_date(text))?;
    let exact = iso.is_some() && text.contains('.');
    Some(from..from.plus(Duration::from_millis(if exact { 1 } else { 1000 })))
}

fn vendor_value<T>(
    vendor: VendorHeaders<'_>,
    name: &str,
    parse: fn(&str) -> Option<T>,
) -> Result<Option<T>, S3Error> {
    let Some(value) = vendor.get(name) else { return Ok(None) };
    let parsed = std::str::from_utf8(value).ok().and_then(parse);
    parsed.map(Some).ok_or_else(|| {
        let name = format!("{}{name}", vendor.dialect().header_prefix());
        S3Error::invalid_argument(
            &name,
            &String::from_utf8_lossy(value),
            "The value of a condition is malformed.",
        )
    })
}

/// The value of a condition. An unreadable one is an error: it must not count as absent.
fn text(headers: &Headers, name: &str) -> Result<Option<String>, S3Error> {
    let Some(value) = headers.get_list(name) else { return Ok(None) };
    String::from_utf8(value.into_owned()).map(Some).map_err(|_| no_tag(name))
}

fn no_tag(name: &str) -> S3Error {
    S3Error::invalid_argument(name, "", "The value of a condition must be an entity tag.")
}

/// A tag that is not UTF-8 matches no entity tag, unlike an absent one.
fn tags(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn date(value: &[u8]) -> Option<Timestamp> {
    Timestamp::parse_http_date(std::str::from_utf8(value).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::Dialect;

    const TAG: &str = "\"abc\"";
    const MODIFIED: &str = "Fri, 24 May 2013 00:00:00 GMT";
    const EARLIER: &str = "Thu, 23 May 2013 00:00:00 GMT";
    const LATER: &str = "Sat, 25 May 2013 00:00:00 GMT";
    const FUTURE: &str = "Sat, 25 May 2013 00:00:01 GMT";
    const NONE_MATCH: ConditionOutcome = ConditionOutcome::NotModified("If-None-Match");
    const MODIFIED_SINCE: ConditionOutcome = ConditionOutcome::NotModified("If-Modified-Since");

    fn headers(lines: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::default();
        for (name, value) in lines {
            headers.push(name, value.as_bytes());
        }
        headers
    }

    fn decide(lines: &[(&str, &str)]) -> ConditionOutcome {
        // Half a second later than the header can express: dates are compared in whole seconds.
        let modified = Timestamp::parse_iso8601("2013-05-24T00:00:00.500Z").unwrap();
        let now = Timestamp::parse_http_date(LATER).unwrap();
        ReadConditions::from_headers(&headers(lines)).decide(TAG, modified, now)
    }

    #[test]
    fn tags_match_with_and_without_quotes_in_lists_and_by_a_star() {
        for tags in ["\"abc\"", "abc", "\"x\", \"abc\"", "*", " \"abc\" "] {
            assert_eq!(decide(&[("if-match", tags)]), ConditionOutcome::Proceed, "{tags}");
            assert_eq!(decide(&[("if-none-match", tags)]), NONE_MATCH, "{tags}");
        }
        for tags in ["\"abcd\"", "\"x\", \"y\"", "", "\"abc"] {
            assert_eq!(decide(&[("if-match", tags)]), ConditionOutcome::Failed("If-Match"), "{tags}");
            assert_eq!(decide(&[("if-none-match", tags)]), ConditionOutcome::Proceed, "{tags}");
        }
    }

    #[test]
    fn a_weak_tag_matches_for_not_sending_alone() {
        assert_eq!(decide(&[("if-none-match", "W/\"abc\"")]), NONE_MATCH);
        assert_eq!(decide(&[("if-match", "W/\"abc\"")]), ConditionOutcome::Failed("If-Match"));
    }

    #[test]
    fn dates_are_compared_in_whole_seconds() {
        assert_eq!(decide(&[("if-modified-since", MODIFIED)]), MODIFIED_SINCE);
        assert_eq!(decide(&[("if-modified-since", LATER)]), MODIFIED_SINCE);
        assert_eq!(decide(&[("if-modified-since", EARLIER)]), ConditionOutcome::Proceed);
        assert_eq!(decide(&[("if-unmodified-since", MODIFIED)]), ConditionOutcome::Proceed);
        assert_eq!(decide(&[("if-unmodified-since", LATER)]), ConditionOutcome::Proceed);
        assert_eq!(
            decide(&[("if-unmodified-since", EARLIER)]),
            ConditionOutcome::Failed("If-Unmodified-Since")
        );
    }

    #[test]
    fn dates_that_are_none_are_ignored() {
        assert_eq!(decide(&[("if-modified-since", "yesterday")]), ConditionOutcome::Proceed);
        assert_eq!(decide(&[("if-unmodified-since", "yesterday")]), ConditionOutcome::Proceed);
    }

    #[test]
    fn a_date_in_the_future_is_no_date_of_a_copy() {
        assert_eq!(decide(&[("if-modified-since", FUTURE)]), ConditionOutcome::Proceed);
        assert_eq!(decide(&[("if-unmodified-since", FUTURE)]), ConditionOutcome::Proceed);
        assert_eq!(decide(&[("if-none-match", TAG), ("if-modified-since", FUTURE)]), NONE_MATCH);
    }

    #[test]
    fn a_tag_makes_the_date_beside_it_moot() {
        assert_eq!(decide(&[("if-match", TAG), ("if-unmodified-since", EARLIER)]), ConditionOutcome::Proceed);
        assert_eq!(
            decide(&[("if-none-match", "\"x\""), ("if-modified-since", LATER)]),
            ConditionOutcome::Proceed
        );
        assert_eq!(decide(&[("if-none-match", TAG), ("if-modified-since", EARLIER)]), NONE_MATCH);
        assert_eq!(
            decide(&[("if-match", "x"), ("if-none-match", TAG)]),
            ConditionOutcome::Failed("If-Match")
        );
        assert_eq!(decide(&[("if-match", TAG), ("if-none-match", TAG)]), NONE_MATCH);
    }

    #[test]
    fn the_source_of_a_copy_has_conditions_of_its_own() {
        let lines = headers(&[("if-match", "\"x\""), ("x-amz-copy-source-if-none-match", TAG)]);
        let modified = Timestamp::parse_http_date(MODIFIED).unwrap();
        let decide = |dialect| {
            ReadConditions::of_copy_source(VendorHeaders::new(&lines, dialect))
                .decide(TAG, modified, modified)
        };
        assert_eq!(decide(Dialect::Aws), NONE_MATCH);
        assert_eq!(decide(Dialect::Svc), ConditionOutcome::Proceed);
    }

    #[test]
    fn a_range_applies_if_if_range_matches() {
        let modified = Timestamp::parse_http_date(MODIFIED).unwrap();
        let applies = |lines| range_applies(&headers(lines), TAG, modified);
        assert!(applies(&[]));
        assert!(applies(&[("if-range", TAG)]) && applies(&[("if-range", MODIFIED)]));
        assert!(!applies(&[("if-range", "\"x\"")]) && !applies(&[("if-range", EARLIER)]));
    }

    #[test]
    fn a_write_may_have_either_condition_or_both() {
        let read = |lines| write_condition(&headers(lines)).unwrap();
        let is = WriteCondition::IfMatch(TAG.to_owned());
        let is_not = WriteCondition::IfNoneMatch("x".to_owned());
        assert_eq!(read(&[]), WriteCondition::None);
        assert_eq!(read(&[("if-none-match", "*")]), WriteCondition::IfAbsent);
        assert_eq!(read(&[("if-match", TAG)]), is);
        assert_eq!(read(&[("if-none-match", "x")]), is_not);
        let both = WriteCondition::Both(Box::new((is, is_not)));
        assert_eq!(read(&[("if-none-match", "x"), ("if-match", TAG)]), both);
    }

    #[test]
    fn several_lines_of_tags_are_one_list() {
        let lines = [("if-none-match", "\"x\""), ("if-none-match", TAG)];
        assert_eq!(decide(&lines), NONE_MATCH);
        let both = WriteCondition::IfNoneMatch("\"x\",\"abc\"".to_owned());
        assert_eq!(write_condition(&headers(&lines)), Ok(both));
    }

    #[test]
    fn a_deletion_takes_three_conditions_and_refuses_unreadable_ones() {
        let read = |lines: &[(&str, &str)]| {
            let lines = headers(lines);
            delete_condition(&lines, VendorHeaders::new(&lines, Dialect::Aws)).map_err(|error| error.code)
        };
        let size = "x-amz-if-match-size";
        let time = "x-amz-if-match-last-modified-time";
        let modified = expected_time(MODIFIED);
        assert!(modified.is_some());
        let all = DeleteCondition {
            if_match: Some(TAG.to_owned()),
            size: Some(7),
            modified,
            ..DeleteCondition::default()
        };
        assert_eq!(read(&[("if-match", TAG), (size, "7"), (time, MODIFIED)]), Ok(all));
        assert_eq!(read(&[]), Ok(DeleteCondition::default()));
        for wrong in [(size, "-1"), (size, ""), (size, "7x"), (time, "yesterday"), (time, "")] {
            assert_eq!(read(&[wrong]), Err(ErrorCode::InvalidArgument), "{wrong:?}");
        }
        assert_eq!(read(&[("if-none-match", TAG)]), Err(ErrorCode::NotImplemented));
    }

    #[test]
    fn a_time_stands_for_a_second_unless_it_has_a_fraction() {
        let millis = |text| expected_time(text).map(|range| (range.start.as_millis(), range.end.as_millis()));
        for (text, length) in
            [(MODIFIED, 1000), ("2013-05-24T00:00:00Z", 1000), (" 2013-05-24T00:00:00.000Z", 1)]
        {
            assert_eq!(millis(text), Some((1_369_353_600_000, 1_369_353_600_000 + length)), "{text}");
        }
        assert_eq!(millis("24 May"), None);
    }

    #[test]
    fn a_condition_that_cannot_be_read_is_not_taken_for_none() {
        let mut lines = Headers::default();
        lines.push("if-match", b"\xff");
        assert_eq!(write_condition(&lines).unwrap_err().code, ErrorCode::InvalidArgument);
    }
}
