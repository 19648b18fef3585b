//! Configurations of buckets (data-format.md, section 6).

use crate::format::{DecodeError, Decoded};

/// The kinds of configurations that a bucket may have, one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BucketConfigurationKind {
    /// Cross-origin rules.
    Cors,
    /// The bucket policy.
    Policy,
    /// The public access block.
    PublicAccessBlock,
    /// The ownership of objects.
    OwnershipControls,
    /// The access control list of the bucket itself.
    Acl,
    /// The tags of the bucket.
    Tags,
    /// Lifecycle rules.
    Lifecycle,
    /// Object lock, with the default retention.
    ObjectLock,
    /// Quotas.
    Quota,
    /// Website hosting.
    Website,
    /// Event notifications.
    Notification,
    /// The placement of objects: local, remote or both.
    Placement,
    /// The encryption of new objects.
    Encryption,
    /// The delivery of the access log to another bucket.
    Logging,
    /// The rules of replication.
    Replication,
}

impl BucketConfigurationKind {
    /// All kinds, with the number and the name of each in data-format.md.
    pub const TABLE: [(Self, u8, &str); 15] = [
        (Self::Cors, 1, "cors"),
        (Self::Policy, 2, "policy"),
        (Self::PublicAccessBlock, 3, "public access block"),
        (Self::OwnershipControls, 4, "ownership controls"),
        (Self::Acl, 5, "acl"),
        (Self::Tags, 6, "tags"),
        (Self::Lifecycle, 7, "lifecycle"),
        (Self::ObjectLock, 8, "object lock"),
        (Self::Quota, 9, "quota"),
        (Self::Website, 10, "website"),
        (Self::Notification, 11, "notification"),
        (Self::Placement, 12, "placement"),
        (Self::Encryption, 13, "encryption"),
        (Self::Logging, 14, "logging"),
        (Self::Replication, 15, "replication"),
    ];

    /// The name in dumps.
    pub fn as_str(self) -> &'static str {
        self.row().2
    }

    pub(super) fn number(self) -> u8 {
        self.row().1
    }

    pub(super) fn from_number(number: u8) -> Decoded<Self> {
        let row = Self::TABLE.iter().find(|row| row.1 == number);
        row.map(|row| row.0).ok_or(DecodeError::Unknown("a kind of bucket configuration"))
    }

    fn row(self) -> &'static (Self, u8, &'static str) {
        const TABLE: &[(BucketConfigurationKind, u8, &str); 15] = &BucketConfigurationKind::TABLE;
        TABLE.iter().find(|row| row.0 == self).expect("the table names every kind")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_and_others_are_unknown() {
        for (kind, number, name) in BucketConfigurationKind::TABLE {
            assert_eq!(BucketConfigurationKind::from_number(number), Ok(kind));
            assert_eq!((kind.number(), kind.as_str()), (number, name));
        }
        for number in [0, 16, 255] {
            assert!(BucketConfigurationKind::from_number(number).is_err_and(DecodeError::is_newer));
        }
    }
}
