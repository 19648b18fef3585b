//! The elements of lifecycle documents, by name and by type.

use std::ops::RangeInclusive;

use crate::base::Timestamp;
use crate::s3::S3Error;
pub(super) use crate::s3::elements::{check_children, child, invalid, missing, number, text};
use crate::xml::Element;

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// A positive number of `action`.
///
/// # Errors
/// `MalformedXML`; `InvalidArgument` for a number below 1 or above `max`.
pub(super) fn positive(
    element: Element<'_>,
    name: &str,
    action: &str,
    max: u32,
) -> Result<Option<u32>, S3Error> {
    bounded(element, name, action, "positive", 1..=max)
}

/// As [`positive`], with 0.
///
/// # Errors
/// As of [`positive`].
pub(super) fn not_negative(
    element: Element<'_>,
    name: &str,
    action: &str,
    max: u32,
) -> Result<Option<u32>, S3Error> {
    bounded(element, name, action, "nonnegative", 0..=max)
}

fn bounded(
    element: Element<'_>,
    name: &str,
    action: &str,
    kind: &str,
    range: RangeInclusive<u32>,
) -> Result<Option<u32>, S3Error> {
    let Some(number) = number(element, name)? else { return Ok(None) };
    if let Ok(number) = u32::try_from(number)
        && range.contains(&number)
    {
        return Ok(Some(number));
    }
    let bound = match number > i64::from(*range.end()) {
        true => format!(" of at most {}", range.end()),
        false => String::new(),
    };
    let message = format!("'{name}' for {action} action must be a {kind} integer{bound}");
    Err(S3Error::invalid_argument(name, &number.to_string(), message))
}

/// A flag: `true` or `false`.
pub(super) fn flag(element: Element<'_>, name: &str) -> Result<Option<bool>, S3Error> {
    let Some(text) = text(element, name)? else { return Ok(None) };
    match text.trim() {
        "true" => Ok(Some(true)),
        "false" => Ok(Some(false)),
        _ => Err(S3Error::malformed_xml(&format!("<{name}> is true or false"))),
    }
}

/// A day, as the midnight at which it begins.
///
/// # Errors
/// `MalformedXML`; `InvalidArgument` for another time of day.
pub(super) fn midnight(element: Element<'_>, name: &str) -> Result<Option<Timestamp>, S3Error> {
    let Some(text) = text(element, name)? else { return Ok(None) };
    let Some(time) = Timestamp::parse_iso8601(text.trim()) else {
        return Err(S3Error::malformed_xml(&format!("<{name}> is not a time in the form of ISO 8601")));
    };
    if time.as_millis() % DAY_MILLIS != 0 {
        return Err(S3Error::invalid_argument(name, &text, format!("'{name}' must be at midnight GMT")));
    }
    Ok(Some(time))
}
