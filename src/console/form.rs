//! The fields of forms.

use std::borrow::Borrow;

use super::s3_client::Refusal;
use crate::s3::{QueryParams, Request, uri};

/// Bytes of a form of a signed-in user: enough for a thousand keys of the greatest length.
pub(super) const FORM_MAX_BYTES: usize = 1 << 20;
/// Fields of a form: enough for a thousand objects beside any page's own. Each is more in memory
/// and in a page than it was when it was sent.
const FIELDS_MAX: usize = 2_000;
/// Bytes of the form to sign in.
pub(super) const SIGN_IN_MAX_BYTES: usize = 4 << 10;

/// The fields in the body of a request (URL Standard, "application/x-www-form-urlencoded"): at most
/// `max` bytes.
///
/// # Errors
/// The body is too long, cannot be read, or is no form.
pub(super) fn read(request: &mut Request<'_>, max: usize) -> Result<QueryParams, Refusal> {
    let content_type = request.headers.get_str("content-type").unwrap_or_default();
    if content_type.split(';').next() != Some("application/x-www-form-urlencoded") {
        return Err(Refusal::new(415, "This is not the form of the page."));
    }
    let text = request.body.read_short(max).map_err(|error| Refusal::of_error(&error))?;
    let text = text.ok_or_else(|| Refusal::new(413, "The form is too long."))?;
    if text.iter().filter(|byte| **byte == b'&').count() >= FIELDS_MAX {
        return Err(Refusal::new(400, format!("A form has at most {FIELDS_MAX} fields.")));
    }
    let text = String::from_utf8(text).map_err(|_| Refusal::new(400, "The form is not UTF-8."))?;
    parse(&text)
}

/// The parameters in the query of a request.
///
/// # Errors
/// They are malformed.
pub(super) fn query(request: &Request<'_>) -> Result<QueryParams, Refusal> {
    parse(&request.query)
}

fn parse(text: &str) -> Result<QueryParams, Refusal> {
    QueryParams::parse(text).map_err(|error| Refusal::of_error(&error))
}

/// A field that must be there.
///
/// # Errors
/// It is not.
pub(super) fn required<'q>(fields: &'q QueryParams, name: &str) -> Result<&'q str, Refusal> {
    let value = fields.get(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| Refusal::new(400, format!("The field `{name}` is missing.")))
}

/// Decodes a field that pages percent-encode.
///
/// # Errors
/// It is malformed.
pub(super) fn decoded(field: &str) -> Result<String, Refusal> {
    uri::decode_path(field).map_err(|error| Refusal::of_error(&error))
}

/// All values of a field, in their order.
pub(super) fn all<'q>(fields: &'q QueryParams, name: &'q str) -> impl Iterator<Item = &'q str> {
    fields.iter().filter(move |(given, _)| *given == name).map(|(_, value)| value)
}

/// The fields without some names: what the next form of a change has again.
pub(super) fn without<'q>(fields: &'q QueryParams, names: &[&str]) -> Vec<(&'q str, &'q str)> {
    fields.iter().filter(|(name, _)| !names.contains(name)).collect()
}

/// What was entered in a form that was refused, for its page to show again; nothing for any other
/// form.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EnteredFields<'q>(Option<&'q QueryParams>);

impl<'q> EnteredFields<'q> {
    /// The fields of a refused form.
    pub(super) fn of(fields: &'q QueryParams) -> Self {
        Self(Some(fields))
    }

    /// Whether the form was refused.
    pub(super) fn are_there(&self) -> bool {
        self.0.is_some()
    }

    /// The fields of a refused form.
    pub(super) fn fields(&self) -> Option<&'q QueryParams> {
        self.0
    }

    /// The text of a field, `stored` where none was entered.
    pub(super) fn text<'t>(&self, name: &str, stored: &'t str) -> &'t str
    where
        'q: 't,
    {
        self.0.and_then(|fields| fields.get(name)).unwrap_or(stored)
    }

    /// Whether a box was ticked or an option chosen: in the refused form, or without one
    /// `by_default`.
    pub(super) fn chose(&self, name: &str, value: &str, by_default: impl Borrow<bool>) -> bool {
        match self.0 {
            Some(fields) => all(fields, name).any(|chosen| chosen == value),
            None => *by_default.borrow(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_form_shows_what_was_entered_and_any_other_what_is_stored() {
        let fields = QueryParams::parse("name=a&empty=&box=1&box=2").unwrap();
        let entered = EnteredFields::of(&fields);
        assert!(entered.are_there() && entered.fields() == Some(&fields));
        assert_eq!(
            [entered.text("name", "b"), entered.text("empty", "b"), entered.text("other", "b")],
            ["a", "", "b"]
        );
        assert!(entered.chose("box", "2", false) && !entered.chose("box", "3", true));
        assert!(!entered.chose("other", "1", true), "a box that is not ticked sends nothing");
        let none = EnteredFields::default();
        assert!(!none.are_there() && none.text("name", "b") == "b");
        assert!(none.chose("box", "1", true) && !none.chose("box", "1", false));
    }
}
