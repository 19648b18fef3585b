//! Quotas: the most that a bucket or an owner may hold.

use serde::{Deserialize, Serialize};

/// The limits of a bucket, or of all buckets of an owner. A missing limit does not limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Bytes of all versions and of the parts of uploads in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Versions, without delete markers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Multipart uploads in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploads: Option<u64>,
    /// Bytes of the index: of versions, delete markers, uploads, parts, tags, buckets and their
    /// configurations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_bytes: Option<u64>,
    /// Buckets; of owners alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buckets: Option<u64>,
}

impl Quota {
    /// The quota that nothing fits into.
    pub const CLOSED: Self =
        Self { bytes: Some(0), objects: Some(0), uploads: Some(0), index_bytes: Some(0), buckets: Some(0) };

    /// Parses a document: a JSON object with the names of the limits.
    ///
    /// # Errors
    /// The first error; an unknown or repeated name is one.
    pub fn parse(document: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(document).map_err(|error| error.to_string())
    }

    /// The document.
    pub fn document(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers can be written as JSON")
    }

    /// Whether it limits nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The stricter limit of both, one by one.
    #[must_use]
    pub fn stricter(&self, other: &Self) -> Self {
        Self {
            bytes: least(self.bytes, other.bytes),
            objects: least(self.objects, other.objects),
            uploads: least(self.uploads, other.uploads),
            index_bytes: least(self.index_bytes, other.index_bytes),
            buckets: least(self.buckets, other.buckets),
        }
    }
}

/// `None` is no limit.
fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_names_the_limits_that_are_set() {
        let quota = Quota { bytes: Some(u64::MAX), uploads: Some(0), ..Quota::default() };
        assert_eq!(quota.document(), br#"{"bytes":18446744073709551615,"uploads":0}"#);
        assert_eq!(Quota::parse(&quota.document()), Ok(quota));
        assert_eq!(Quota::parse(b" {} "), Ok(Quota::default()));
        assert!(Quota::default().is_empty() && !quota.is_empty());
    }

    #[test]
    fn other_documents_are_refused() {
        for wrong in [
            "",
            "[]",
            "{\"bytes\":-1}",
            "{\"bytes\":1.5}",
            "{\"keys\":1}",
            "{\"bytes\":1,\"bytes\":2}",
            "{} x",
        ] {
            assert!(Quota::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn of_two_quotas_each_limit_is_the_lower_one() {
        let one = Quota { bytes: Some(5), objects: Some(1), ..Quota::default() };
        let other = Quota { bytes: Some(4), buckets: Some(2), ..Quota::default() };
        let both = Quota { bytes: Some(4), objects: Some(1), buckets: Some(2), ..Quota::default() };
        assert_eq!((one.stricter(&other), other.stricter(&one)), (both, both));
    }
}
