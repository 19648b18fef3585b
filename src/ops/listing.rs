//! What all listings have in common: prefix, delimiter, the length of a page, and names that may have to be encoded.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use crate::base::limits::PAGE_LEN_MAX;
use crate::s3::{QueryParams, S3Error, uri};
use crate::store::ListQuery;
use crate::xml::Writer;

/// What a listing is asked for.
pub(super) struct Listing<'q> {
    /// What all names begin with.
    pub(super) prefix: &'q str,
    /// What ends a common prefix; empty for none.
    pub(super) delimiter: &'q str,
    /// How many items to tell of.
    pub(super) limit: usize,
    /// Whether names are to be percent-encoded, for clients whose XML parsers do not take every character.
    encoded: bool,
}

impl<'q> Listing<'q> {
    /// Reads the parameters; `limit` is the name of the one that bounds a page, `limits` what it may be. More than a page
    /// ever holds is as much as it holds.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(super) fn parse(
        query: &'q QueryParams,
        limit: &str,
        limits: RangeInclusive<usize>,
    ) -> Result<Self, S3Error> {
        let text = |name| query.get(name).unwrap_or_default();
        let limit = query.number(limit, limits)?.unwrap_or(PAGE_LEN_MAX).min(PAGE_LEN_MAX);
        let encoded = match query.get("encoding-type") {
            None => false,
            Some("url") => true,
            Some(other) => {
                let message = "Invalid Encoding Method specified in Request";
                return Err(S3Error::invalid_argument("encoding-type", other, message));
            }
        };
        Ok(Self { prefix: text("prefix"), delimiter: text("delimiter"), limit, encoded })
    }

    /// The same for the store.
    pub(super) fn query(&self, after: Option<String>) -> ListQuery {
        let (prefix, delimiter) = (self.prefix.to_owned(), self.delimiter.to_owned());
        ListQuery { prefix, delimiter, after, limit: self.limit }
    }

    /// A name as the client wants it.
    pub(super) fn name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if self.encoded { Cow::Owned(uri::encode_listed(name)) } else { Cow::Borrowed(name) }
    }

    /// Echoes what was asked for; `limit` is the name of the element that bounds the page.
    pub(super) fn write_head(&self, document: &mut Writer, limit: &str, truncated: bool) {
        document.leaf("Prefix", &self.name(self.prefix));
        document.plain(limit, self.limit);
        if !self.delimiter.is_empty() {
            document.leaf("Delimiter", &self.name(self.delimiter));
        }
        self.write_encoding(document);
        document.plain("IsTruncated", truncated);
    }

    /// Tells the encoding of names, if there is one.
    pub(super) fn write_encoding(&self, document: &mut Writer) {
        if self.encoded {
            document.leaf("EncodingType", "url");
        }
    }

    /// Writes common prefixes. They go behind everything else: some clients read each kind only where it stands together.
    pub(super) fn write_prefixes<'p>(&self, document: &mut Writer, prefixes: impl Iterator<Item = &'p str>) {
        for prefix in prefixes {
            document.element("CommonPrefixes", |entry| entry.leaf("Prefix", &self.name(prefix)));
        }
    }
}

/// Writes whose something is, as in `Owner` or `Initiator`.
pub(super) fn write_user(document: &mut Writer, element: &str, name: &str) {
    document.element(element, |user| {
        user.leaf("ID", name);
        user.leaf("DisplayName", name);
    });
}
