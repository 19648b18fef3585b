//! Names and values in a form, two fields a row, for tags and metadata.

use super::form::{self, EnteredFields, decoded};
use super::s3_client::Refusal;
use crate::s3::{QueryParams, uri};

/// Rows without a name, for further pairs.
const EMPTY_ROWS: usize = 3;

/// A row of a form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PairRow {
    pub(super) name: String,
    pub(super) value: String,
    /// The pair that the row showed, percent-encoded; empty for a further one.
    pub(super) was: String,
}

/// The rows for pairs, and some for further ones.
pub(super) fn rows(pairs: &[(String, String)]) -> Vec<PairRow> {
    let filled = pairs.iter().map(|(name, value)| PairRow {
        name: name.clone(),
        value: value.clone(),
        was: uri::encode_pairs([(&**name, &**value)]),
    });
    filled.chain(std::iter::repeat_n(PairRow::default(), EMPTY_ROWS)).collect()
}

/// The rows of a form as they were entered or, of one that was not refused, those for the stored
/// pairs.
pub(super) fn shown(entered: EnteredFields<'_>, stored: &[(String, String)]) -> Vec<PairRow> {
    entered.fields().and_then(|fields| entered_rows(fields).ok()).unwrap_or_else(|| rows(stored))
}

fn entered_rows(fields: &QueryParams) -> Result<Vec<PairRow>, Refusal> {
    let names: Vec<_> = form::all(fields, "name").map(str::to_owned).collect();
    let values: Vec<_> = form::all(fields, "value").map(str::to_owned).collect();
    let shown: Vec<_> = form::all(fields, "was").map(str::to_owned).collect();
    if names.len() != values.len() || names.len() != shown.len() {
        return Err(Refusal::new(400, "Each row has a name, a value and the pair that it showed."));
    }
    let pairs = names.into_iter().zip(values).zip(shown);
    Ok(pairs.map(|((name, value), was)| PairRow { name, value, was }).collect())
}

/// The pairs in the rows of a form: those with a name, with each byte of the fields. A field that
/// was not edited has the text that it showed, also where browsers leave its line ends out.
///
/// # Errors
/// The form is not one of a page.
pub(super) fn read(fields: &QueryParams) -> Result<Vec<(String, String)>, Refusal> {
    let mut pairs = Vec::new();
    for PairRow { name, value, was } in entered_rows(fields)? {
        let (old_name, old_value) = was.split_once('=').unwrap_or_default();
        let name = kept(&name, decoded(old_name)?);
        let value = kept(&value, decoded(old_value)?);
        if !name.is_empty() {
            pairs.push((name, value));
        }
    }
    Ok(pairs)
}

/// The old text where a browser would send it as `field` (HTML Standard, "strip newlines"), else
/// the field.
pub(super) fn kept(field: &str, old: String) -> String {
    match old.replace(['\r', '\n'], "") == field {
        true => old,
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submitted(rows: &[PairRow]) -> QueryParams {
        let field = |name: &str, value: &str| {
            format!("{name}={}", uri::encode_query(&value.replace(['\r', '\n'], "")))
        };
        let rows = rows.iter().map(|row| {
            format!("{}&{}&{}", field("name", &row.name), field("value", &row.value), field("was", &row.was))
        });
        QueryParams::parse(&rows.collect::<Vec<_>>().join("&")).unwrap()
    }

    #[test]
    fn pairs_that_are_not_edited_keep_every_byte() {
        let pairs: Vec<_> = [("a=b", " c "), ("plain", ""), ("line", "one\r\ntwo"), ("ü:%3D", "=&?#")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let mut rows = rows(&pairs);
        assert_eq!(read(&submitted(&rows)).unwrap(), pairs);
        rows[0].name.clear();
        rows[2].value = "three".to_owned();
        rows[4].name = "new".to_owned();
        let edited = read(&submitted(&rows)).unwrap();
        let names: Vec<_> = edited.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(names, [("plain", ""), ("line", "three"), ("ü:%3D", "=&?#"), ("new", "")]);
        assert!(read(&QueryParams::parse("name=a&value=b").unwrap()).is_err());
    }

    #[test]
    fn rows_of_a_refused_form_are_shown_as_they_were_entered() {
        let stored = [("a".to_owned(), "1".to_owned())];
        let fields = QueryParams::parse("name=&value=kept&was=a%3D1&name=b&value=&was=").unwrap();
        let entered = shown(EnteredFields::of(&fields), &stored);
        let row = |name: &str, value: &str, was: &str| PairRow {
            name: name.to_owned(),
            value: value.to_owned(),
            was: was.to_owned(),
        };
        assert_eq!(entered, [row("", "kept", "a=1"), row("b", "", "")]);
        assert_eq!(shown(EnteredFields::default(), &stored), rows(&stored));
        let other = QueryParams::parse("name=b").unwrap();
        assert_eq!(shown(EnteredFields::of(&other), &stored), rows(&stored));
    }
}
