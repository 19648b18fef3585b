//! What the rules of a bucket say of a mirror (S3 user guide, "Replicating objects"), and how far a
//! version is.

use std::sync::atomic::{AtomicU64, Ordering};

use super::settings::MirrorSettings;
use crate::s3::XmlConfiguration as _;
use crate::s3::replication::{REPLICATION_STATUS, ReplicationCandidate, ReplicationConfiguration};
use crate::store::{BucketConfigurationKind, ConfiguredBucket, MirroredPlace, Store, VersionRecord};

/// How far a version is that a mirror sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyProgress {
    /// The target has it.
    Done,
    /// It is still to be sent.
    Due,
    /// The target refused its key.
    Refused,
}

/// The rules of a bucket, for one mirror.
pub(super) struct MirrorRules {
    bucket: ConfiguredBucket,
    mirror: String,
}

impl MirrorRules {
    /// The rules of a bucket for a mirror; `None` where none in force names it.
    pub(super) fn of(store: &Store, bucket: &str, mirror: &str) -> Option<Self> {
        let bucket = store.configured_bucket(bucket).ok()?;
        let rules = Self { bucket, mirror: mirror.to_owned() };
        rules.read()?.names(mirror).then_some(rules)
    }

    fn read(&self) -> Option<&ReplicationConfiguration> {
        let stored = self.bucket.configuration(BucketConfigurationKind::Replication)?;
        stored.parsed(ReplicationConfiguration::from_document).as_ref()
    }

    /// Whether some version of that key may be sent.
    pub(super) fn may_send(&self, key: &str) -> bool {
        self.read().is_some_and(|rules| rules.may_send(&self.mirror, key))
    }

    /// Whether a version is sent. One that a mirror wrote goes no further, so that cycles rest.
    pub(super) fn send(&self, key: &str, version: &VersionRecord) -> bool {
        let candidate =
            ReplicationCandidate { key, tags: &version.tags, delete_marker: version.delete_marker };
        version.attributes.get(REPLICATION_STATUS).is_none()
            && self.read().is_some_and(|rules| rules.sends(&self.mirror, candidate))
    }
}

impl MirrorSettings {
    /// The places at the target of a bucket of this store: by the rules of the bucket, or by the
    /// settings.
    pub(super) fn places_here(&self, store: &Store, id: u64, bucket: &str) -> Vec<MirroredPlace> {
        match self.replication && MirrorRules::of(store, bucket, &self.name).is_none() {
            true => Vec::new(),
            false => self.places_of(id, bucket),
        }
    }
}

/// The last group of the log up to which the keys of all changes were made due; 0 in a walk.
#[derive(Default)]
pub(super) struct ReadPlace(AtomicU64);

impl ReadPlace {
    /// Begins at the saved place of the mirror: what is before it was copied by an earlier run.
    pub(super) fn begin(&self, store: &Store, mirror: &str) {
        self.0.store(store.followed_until(mirror), Ordering::Release);
    }

    /// Goes on to a group.
    pub(super) fn advance(&self, through: u64) {
        self.0.fetch_max(through, Ordering::AcqRel);
    }

    /// Forgets the place, since everything is compared.
    pub(super) fn forget(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Whether the change that made a version is before the place. `last_group` is the last one
    /// that the change can be in.
    pub(super) fn includes(&self, last_group: u64) -> bool {
        self.0.load(Ordering::Acquire) >= last_group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_with_the_last_group_that_it_can_be_in() {
        let read = ReadPlace::default();
        assert!(!read.includes(1), "nothing is read yet");
        read.advance(5);
        read.advance(3);
        assert!(read.includes(5) && !read.includes(6));
        read.forget();
        assert!(!read.includes(1), "everything is compared");
    }
}
