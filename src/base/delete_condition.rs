//! The condition of a deletion (S3 API reference, DeleteObject, "If-Match", "x-amz-if-match-size"
//! and "x-amz-if-match-last-modified-time"), and whose the object must be.

use std::ops::Range;

use crate::base::Timestamp;
use crate::base::entity_tag::matches_strongly;

/// The condition of a deletion. It is checked at the commit. All parts that are set must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeleteCondition {
    /// One of these entity tags, as the client sent them; `*` stands for any.
    pub if_match: Option<String>,
    /// The size in bytes.
    pub size: Option<u64>,
    /// The time of the last modification, as a range: the text of a client covers a second or a
    /// millisecond.
    pub modified: Option<Range<Timestamp>>,
    /// Whose the object must be.
    pub owner: OwnerCondition,
}

/// Whose an object must still be at the commit that deletes it, where the sender may delete it
/// because it is his: another user may have put one in its place since.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OwnerCondition {
    /// Anybody's.
    #[default]
    Any,
    /// That of the owner of the bucket: its record names no owner.
    Bucket,
    /// That of a user.
    User {
        /// The name.
        name: String,
        /// Since when he has owned it, or a later object in its place.
        since: Timestamp,
    },
}

impl OwnerCondition {
    /// Whether the condition holds for an object whose record has this owner.
    pub fn holds(&self, recorded: Option<(&str, Timestamp)>) -> bool {
        match self {
            Self::Any => true,
            Self::Bucket => recorded.is_none(),
            Self::User { name, since } => {
                recorded.is_some_and(|(owner, from)| owner == name && from >= *since)
            }
        }
    }
}

impl DeleteCondition {
    /// Whether there is nothing to check.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the condition of the client holds for a version. A delete marker has neither content
    /// nor entity tag, so only its time can be compared.
    pub fn holds(&self, content: Option<(&str, u64)>, modified: Timestamp) -> bool {
        let etag = content.map(|(etag, _)| etag);
        let size = content.map(|(_, size)| size);
        self.if_match.as_ref().is_none_or(|list| etag.is_some_and(|etag| matches_strongly(list, etag)))
            && self.size.is_none_or(|expected| size == Some(expected))
            && self.modified.as_ref().is_none_or(|range| range.contains(&modified))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_that_is_set_must_hold() {
        let at = Timestamp::from_millis;
        let conditions = |tag: &str, size, from| DeleteCondition {
            if_match: Some(tag.to_owned()),
            size: Some(size),
            modified: Some(at(from)..at(from + 1000)),
            owner: OwnerCondition::Any,
        };
        let holds = |condition: &DeleteCondition| condition.holds(Some(("\"abc\"", 4)), at(2500));
        assert!(holds(&DeleteCondition::default()) && holds(&conditions("abc", 4, 2000)));
        for wrong in [conditions("x", 4, 2000), conditions("*", 5, 2000), conditions("*", 4, 1500)] {
            assert!(!holds(&wrong), "{wrong:?}");
        }
    }

    #[test]
    fn an_owner_is_the_same_with_a_later_object() {
        let at = Timestamp::from_millis;
        let of_bob = OwnerCondition::User { name: "bob".to_owned(), since: at(5) };
        let owners =
            [None, Some(("ann", at(5))), Some(("bob", at(4))), Some(("bob", at(5))), Some(("bob", at(6)))];
        assert_eq!(owners.map(|owner| of_bob.holds(owner)), [false, false, false, true, true]);
        assert_eq!(
            owners.map(|owner| OwnerCondition::Bucket.holds(owner)),
            [true, false, false, false, false]
        );
        assert!(owners.into_iter().all(|owner| OwnerCondition::Any.holds(owner)));
    }

    #[test]
    fn a_delete_marker_has_a_time_alone() {
        let at = Timestamp::from_millis;
        let holds = |condition: DeleteCondition| condition.holds(None, at(1));
        assert!(!holds(DeleteCondition { if_match: Some("*".to_owned()), ..Default::default() }));
        assert!(!holds(DeleteCondition { size: Some(0), ..Default::default() }));
        assert!(holds(DeleteCondition { modified: Some(at(1)..at(2)), ..Default::default() }));
    }
}
