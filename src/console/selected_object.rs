//! An object as a page names it in the fields of its forms.

use super::form::decoded;
use super::s3_client::Refusal;
use crate::s3::uri;

/// An object, a version of it, or a delete marker, as the page that named it showed it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SelectedObject {
    pub(super) key: String,
    pub(super) version: Option<String>,
    /// The entity tag that was shown; empty for a delete marker, `None` where none was shown.
    pub(super) etag: Option<String>,
}

impl SelectedObject {
    /// The value of the field `object`: the key, after a question mark the version, after a number
    /// sign the entity tag. Each is percent-encoded, since browsers change line ends in fields.
    pub(super) fn field(&self) -> String {
        let mut field = uri::encode_query(&self.key);
        if let Some(version) = &self.version {
            field += &format!("?{}", uri::encode_query(version));
        }
        if let Some(etag) = &self.etag {
            field += &format!("#{}", uri::encode_query(etag));
        }
        field
    }

    /// The object of a field.
    ///
    /// # Errors
    /// A percent-encoding that is no UTF-8.
    pub(super) fn parse(field: &str) -> Result<Self, Refusal> {
        let (name, etag) = split_off(field, '#');
        let (key, version) = split_off(name, '?');
        Ok(Self {
            key: decoded(key)?,
            version: version.map(decoded).transpose()?,
            etag: etag.map(decoded).transpose()?,
        })
    }

    /// Whether a delete marker was shown.
    pub(super) fn is_marker(&self) -> bool {
        self.version.is_some() && self.etag.as_deref() == Some("")
    }
}

/// A text before and after a character.
pub(super) fn split_off(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}
