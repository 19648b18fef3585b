//! The elements of the documents that configure buckets, by name.

use crate::s3::{ErrorCode, S3Error};
use crate::xml::{Element, XmlError};

/// Refuses children with other names.
pub(super) fn check_children(element: Element<'_>, known: &[&str]) -> Result<(), S3Error> {
    match element.children().find(|child| !known.contains(&child.name())) {
        Some(unknown) => Err(S3Error::malformed_xml(&format!("<{}> is unknown", unknown.name()))),
        None => Ok(()),
    }
}

/// The child with that name, if there is one.
pub(super) fn child<'d>(element: Element<'d>, name: &str) -> Result<Option<Element<'d>>, S3Error> {
    element.child(name).map_err(|error: XmlError| S3Error::malformed_xml(&error.to_string()))
}

/// The text of a child, as it is sent: keys and prefixes may have whitespace at their ends.
pub(super) fn text(element: Element<'_>, name: &str) -> Result<Option<String>, S3Error> {
    Ok(child(element, name)?.map(|found| found.text().into_owned()))
}

/// A whole number, which may be negative.
pub(super) fn number(element: Element<'_>, name: &str) -> Result<Option<i64>, S3Error> {
    let Some(text) = text(element, name)? else { return Ok(None) };
    match text.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(S3Error::malformed_xml(&format!("<{name}> is not a whole number"))),
    }
}

/// The error for an element that is not there.
pub(super) fn missing(name: &str) -> S3Error {
    S3Error::malformed_xml(&format!("there is no <{name}>"))
}

/// The error for a value or a combination that S3 refuses.
pub(super) fn invalid(message: impl Into<String>) -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest).message(message)
}
