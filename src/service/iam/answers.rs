//! What the answers of several calls of IAM have in common: pages of lists, times, documents.

use super::{IamRequest, PATH};
use crate::base::Timestamp;
use crate::base::limits::IAM_PAGE_MAX_ITEMS;
use crate::s3::CallError;
use crate::s3::query_call::CallWriter;
use crate::s3::uri::encode_query;

/// The entries of a page without another number (IAM API reference, "MaxItems").
const PAGE_ITEMS: u64 = 100;
/// The version of every policy.
pub(super) const VERSION: &str = "v1";

/// A page of a list.
pub(super) struct MemberPage<T> {
    entries: Vec<T>,
    /// After which name the next page begins.
    next: Option<String>,
}

impl IamRequest<'_> {
    /// The page of a list that is asked for. Names are in order, so that a page is not moved by
    /// what comes and goes between two calls.
    pub(super) fn page<T>(
        &self,
        mut entries: Vec<T>,
        name: impl Fn(&T) -> &str,
    ) -> Result<MemberPage<T>, CallError> {
        let items = self.params.number("MaxItems")?.unwrap_or(PAGE_ITEMS);
        if !(1..=IAM_PAGE_MAX_ITEMS).contains(&items) {
            return Err(CallError::validation(format!("MaxItems is from 1 to {IAM_PAGE_MAX_ITEMS}")));
        }
        if self.params.get("PathPrefix").is_some_and(|prefix| prefix != PATH) {
            entries.clear();
        }
        let marker = self.params.get("Marker").unwrap_or_default();
        entries.retain(|entry| marker.is_empty() || name(entry) > marker);
        entries.sort_by(|one, other| name(one).cmp(name(other)));
        let is_truncated = entries.len() as u64 > items;
        entries.truncate(usize::try_from(items).unwrap_or(usize::MAX));
        let next = entries.last().filter(|_| is_truncated).map(|entry| name(entry).to_owned());
        Ok(MemberPage { entries, next })
    }
}

impl<T> MemberPage<T> {
    /// Writes the list called `list`, each of whose members `fill` writes.
    pub(super) fn write(
        &self,
        result: &mut CallWriter,
        list: &str,
        mut fill: impl FnMut(&mut CallWriter, &T),
    ) {
        result.element(list, |list| {
            for entry in &self.entries {
                list.element("member", |member| fill(member, entry));
            }
        });
        self.write_end(result);
    }

    /// Writes whether, and where, the list goes on.
    fn write_end(&self, result: &mut CallWriter) {
        result.plain("IsTruncated", self.next.is_some());
        if let Some(next) = &self.next {
            result.leaf("Marker", next);
        }
    }

    /// The entries.
    pub(super) fn entries(&self) -> &[T] {
        &self.entries
    }

    /// Writes the end of a list that is written in several parts.
    pub(super) fn end(&self, result: &mut CallWriter) {
        self.write_end(result);
    }
}

/// Writes a time of the users file; the beginning of time where it is unknown, since clients expect
/// one.
pub(super) fn date(result: &mut CallWriter, name: &str, created: Option<&str>) {
    match created {
        Some(created) => result.leaf(name, created),
        None => result.leaf(name, &Timestamp::default().to_iso8601()),
    }
}

/// Writes the document of a policy, encoded as IAM's are (RFC 3986).
pub(super) fn document(result: &mut CallWriter, name: &str, text: &str) {
    result.leaf(name, &encode_query(text));
}
