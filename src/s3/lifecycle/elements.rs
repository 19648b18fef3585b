//! The elements of lifecycle documents, by name and by type.

use crate::base::Timestamp;
use crate::s3::{ErrorCode, S3Error};
use crate::xml::{Element, XmlError};

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// Refuses children with other names.
pub(super) fn check_children(element: Element<'_>, known: &[&str]) -> Result<(), S3Error> {
    match element.children().find(|child| !known.contains(&child.name())) {
        Some(unknown) => Err(S3Error::malformed_xml(&format!("<{}> is unknown", unknown.name()))),
        None => Ok(()),
    }
}

pub(super) fn child<'d>(element: Element<'d>, name: &str) -> Result<Option<Element<'d>>, S3Error> {
    element.child(name).map_err(|error: XmlError| S3Error::malformed_xml(&error.to_string()))
}

/// The text of a child, as it is sent: prefixes may have whitespace at their ends.
pub(super) fn text(element: Element<'_>, name: &str) -> Result<Option<String>, S3Error> {
    Ok(child(element, name)?.map(|found| found.text().into_owned()))
}

/// A whole number, which may be negative.
pub(super) fn number(element: Element<'_>, name: &str) -> Result<Option<i64>, S3Error> {
    let malformed = |_| S3Error::malformed_xml(&format!("<{name}> is not a whole number"));
    text(element, name)?.map(|text| text.trim().parse().map_err(malformed)).transpose()
}

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
    let Some(number) = number(element, name)? else { return Ok(None) };
    let refused = |range: String| {
        let message = format!("'{name}' for {action} action must be a positive integer{range}");
        S3Error::invalid_argument(name, &number.to_string(), message)
    };
    match u32::try_from(number) {
        Ok(number) if (1..=max).contains(&number) => Ok(Some(number)),
        _ if number > i64::from(max) => Err(refused(format!(" of at most {max}"))),
        _ => Err(refused(String::new())),
    }
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
    let malformed = || S3Error::malformed_xml(&format!("<{name}> is not a time in the form of ISO 8601"));
    let time = Timestamp::parse_iso8601(text.trim()).ok_or_else(malformed)?;
    if time.as_millis() % DAY_MILLIS != 0 {
        return Err(S3Error::invalid_argument(name, &text, format!("'{name}' must be at midnight GMT")));
    }
    Ok(Some(time))
}

pub(super) fn missing(name: &str) -> S3Error {
    S3Error::malformed_xml(&format!("there is no <{name}>"))
}

pub(super) fn invalid(message: impl Into<String>) -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest).message(message)
}
