//! Parameters and elements that all listings share: prefix, delimiter, page length, encoding of
//! names.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use crate::base::limits::PAGE_LEN_MAX;
use crate::s3::{QueryParams, S3Error, uri};
use crate::store::{ListItem, ListPage, ListQuery};
use crate::xml::Writer;

/// The parameters of a listing.
pub(super) struct ListParams<'q> {
    /// Only keys that begin with it.
    pub(super) prefix: &'q str,
    /// The end of a common prefix; empty for no grouping.
    pub(super) delimiter: &'q str,
    /// The most items of a page.
    pub(super) limit: usize,
    /// Whether names are percent-encoded, for clients whose XML parsers do not accept every
    /// character.
    url_encoding: bool,
}

impl<'q> ListParams<'q> {
    /// Reads the parameters. `limit` names the one that bounds a page, `limits` is its valid range.
    /// A limit above [`PAGE_LEN_MAX`] is lowered to it.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(super) fn parse(
        query: &'q QueryParams,
        limit: &str,
        limits: RangeInclusive<usize>,
    ) -> Result<Self, S3Error> {
        let limit = query.number(limit, limits)?.unwrap_or(PAGE_LEN_MAX).min(PAGE_LEN_MAX);
        let url_encoding = match query.get("encoding-type") {
            None => false,
            Some("url") => true,
            Some(other) => {
                let message = "Invalid Encoding Method specified in Request";
                return Err(S3Error::invalid_argument("encoding-type", other, message));
            }
        };
        let prefix = query.get("prefix").unwrap_or_default();
        let delimiter = query.get("delimiter").unwrap_or_default();
        Ok(Self { prefix, delimiter, limit, url_encoding })
    }

    /// The query for the page after that name; an empty name is none.
    pub(super) fn query(&self, after: &str) -> ListQuery {
        let after = (!after.is_empty()).then(|| after.into());
        ListQuery { prefix: self.prefix.into(), delimiter: self.delimiter.into(), after, limit: self.limit }
    }

    /// A name in the encoding that the client has asked for.
    pub(super) fn encoded<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if self.url_encoding { Cow::Owned(uri::encode_listed(name)) } else { Cow::Borrowed(name) }
    }

    /// Echoes the parameters. `limit` names the element for the page length.
    pub(super) fn write_head(&self, document: &mut Writer, limit: &str, truncated: bool) {
        document.leaf("Prefix", &self.encoded(self.prefix));
        document.plain(limit, self.limit);
        if !self.delimiter.is_empty() {
            document.leaf("Delimiter", &self.encoded(self.delimiter));
        }
        self.write_encoding(document);
        document.plain("IsTruncated", truncated);
    }

    /// Writes the encoding of names, if there is one.
    pub(super) fn write_encoding(&self, document: &mut Writer) {
        if self.url_encoding {
            document.leaf("EncodingType", "url");
        }
    }

    /// Writes the common prefixes of a page, after all keys: some clients read each kind of element
    /// only in one piece.
    pub(super) fn write_prefixes<T>(&self, document: &mut Writer, page: &ListPage<T>) {
        for item in page.items() {
            let ListItem::Prefix(prefix) = item else { continue };
            document.element("CommonPrefixes", |entry| entry.leaf("Prefix", &self.encoded(&prefix)));
        }
    }
}

/// Writes a user as `Owner` or `Initiator`.
pub(super) fn write_user(document: &mut Writer, element: &str, name: &str) {
    document.element(element, |user| {
        user.leaf("ID", name);
        user.leaf("DisplayName", name);
    });
}
