//! What the rules of a bucket say of a mirror (S3 user guide, "Replicating objects"), and how far a
//! version is.

use std::sync::{Mutex, MutexGuard};

use super::settings::MirrorSettings;
use crate::base::{NOT_POISONED, Timestamp};
use crate::s3::XmlConfiguration as _;
use crate::s3::replication::{REPLICATION_STATUS, ReplicationCandidate, ReplicationConfiguration};
use crate::store::{
    BucketConfigurationKind, ConfiguredBucket, MirroredPlace, Store, VersionId, VersionRecord,
};

/// The longest time between the id of a version, which large objects get before their commit, and
/// its group in the log.
const COMMIT_MAX_MILLIS: u64 = 60_000;

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

/// The place in the log before which the keys of all changes were made due.
#[derive(Default)]
pub(super) struct ReadPlace(Mutex<(u64, Timestamp)>);

impl ReadPlace {
    fn lock(&self) -> MutexGuard<'_, (u64, Timestamp)> {
        self.0.lock().expect(NOT_POISONED)
    }

    /// Begins at the saved place of the mirror: what is before it was copied by an earlier run.
    pub(super) fn begin(&self, store: &Store, mirror: &str) {
        match store.followed_until(mirror) {
            Ok(place) => *self.lock() = place,
            Err(error) => log::warn!("mirror {mirror}: its position is not read: {error}"),
        }
    }

    /// Goes on to a place, unless that is in a walk.
    pub(super) fn advance(&self, place: Option<(u64, Timestamp)>) {
        if let Some((sequence, time)) = place {
            let mut read = self.lock();
            *read = (read.0.max(sequence), read.1.max(time));
        }
    }

    /// Forgets the place, since everything is compared.
    pub(super) fn forget(&self) {
        *self.lock() = (0, Timestamp::default());
    }

    /// Whether the change that made a version is before the place. `sequence` is the last group of
    /// the log when the version was found.
    pub(super) fn includes(&self, version: VersionId, sequence: u64) -> bool {
        let (read, time) = *self.lock();
        // Ids are microseconds.
        read >= sequence || version.0 / 1000 + COMMIT_MAX_MILLIS < time.as_millis()
    }
}
