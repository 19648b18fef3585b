//! Followers of the log: consumers of the changes of objects and buckets, such as mirrors.
//!
//! A follower reads published groups on the thread of its consumer, so that no commit waits for it.
//! Its position is an entry in the log itself: after a crash the follower goes on from there, and
//! delivers some changes again. Positions are saved from time to time, and only when groups with
//! more than positions were read: saving one is no news to any follower.
//!
//! The log is kept for the slowest follower up to [`crate::store::StoreOptions::follow_max_bytes`],
//! and while the disk has space. A follower whose place is gone starts over, as its [`Beginning`]
//! says: from a walk over the index, in the order of buckets and keys, which a later start
//! continues, and then the log from where it was when the walk began; or without a walk, from the
//! oldest group after the gap, which its next batch reports.
//!
//! | Files | Job |
//! |---|---|
//! | `mod` | the interface; the log that is kept |
//! | `change` | the changes that consumers get |
//! | `departed` | buckets that are gone, for changes before their end |
//! | `follower` | one follower: its stage, its batches, its position |
//! | `snapshot` | the walk over the index |

mod change;
mod departed;
mod follower;
mod snapshot;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub use change::{Change, ChangeBatch, ChangeKind, DeletedVersion, FollowPosition, KeyRange, LostChanges};
pub use departed::{DepartedBucket, DepartedBuckets};
pub use follower::{Beginning, Follower};

use crate::format::{BucketRecord, FollowerState, VersionId, VersionSummary};
pub use crate::format::{
    FollowerNote, MirrorNote, MirrorUpload, MirroredPlace, RefusedKey, RefusedKeys, TargetOrigin,
};
use crate::store::commit::mutation::Mutation;
use crate::store::{Store, StoreError};

/// The state of a follower in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowerFigures {
    /// Its name.
    pub name: String,
    /// Groups that are not done.
    pub waiting_groups: u64,
    /// The age of the oldest change that is not done, or more.
    pub lag: Duration,
    /// Whether it walks over the index.
    pub in_snapshot: bool,
    /// How often it started over since the start of the server, because its place in the log was
    /// gone.
    pub starts_over: u64,
    /// Whether its place in the log is gone, and it has not gone on from another one.
    pub is_overrun: bool,
}

/// A key with its versions.
#[derive(Debug, Clone)]
pub struct FollowedKey {
    /// The bucket.
    pub bucket: Arc<BucketRecord>,
    /// The versions, oldest first.
    pub versions: Vec<VersionSummary>,
    /// Whether there are older ones.
    pub has_older: bool,
}

impl Store {
    /// The follower of that name, which goes on from its position in the log. A name has one
    /// follower in use at a time.
    pub fn follower(&self, name: &str, beginning: Beginning) -> Follower {
        let now = self.shared.clock.now();
        self.shared.followers.update(name, |progress| progress.current_at = now);
        let refused = self.shared.index().follower(name).map(|state| state.refused.clone());
        Follower::new(name, beginning, refused.unwrap_or_default())
    }

    /// Removes the followers that are not among `names`. Durable on return.
    ///
    /// # Errors
    /// Errors of the commit.
    pub fn keep_followers(&self, names: &[&str]) -> Result<(), StoreError> {
        let index = self.shared.index();
        let known: BTreeSet<_> =
            index.followers().map(|(name, _)| name).chain(index.noted_followers()).collect();
        for name in known.into_iter().filter(|name| !names.contains(name)) {
            log::info!("the follower {name} is not configured any more: the log is not kept for it");
            self.set_follower(name, None)?;
        }
        Ok(())
    }

    /// The followers in use, by name.
    pub fn follower_figures(&self) -> Vec<FollowerFigures> {
        let published = self.shared.published().sequence;
        let now = self.shared.clock.now();
        let log_from = self.shared.followers.log_from();
        let mut figures = Vec::new();
        for (name, progress) in self.shared.followers.lock().iter() {
            let waiting_groups = published.saturating_sub(progress.done);
            let is_current = waiting_groups == 0 && !progress.in_snapshot;
            figures.push(FollowerFigures {
                name: name.clone(),
                waiting_groups,
                lag: if is_current { Duration::ZERO } else { now.since(progress.current_at) },
                in_snapshot: progress.in_snapshot,
                starts_over: progress.starts_over,
                is_overrun: progress.is_lost || (progress.done > 0 && progress.done + 1 < log_from),
            });
        }
        figures
    }

    /// Whether a follower of that name has a position.
    pub fn has_follower(&self, name: &str) -> bool {
        self.shared.index().follower(name).is_some()
    }

    /// The versions of a key as of now, for consumers of its changes; `None` where the bucket is
    /// gone.
    pub fn followed_key(&self, bucket: u64, key: &[u8]) -> Option<FollowedKey> {
        self.followed_versions(bucket, key, usize::MAX)
    }

    /// The newest versions of a key as of now, at most `count`. A key may have very many.
    pub fn followed_versions(&self, bucket: u64, key: &[u8], count: usize) -> Option<FollowedKey> {
        let index = self.shared.index();
        let bucket = Arc::clone(index.bucket_by_id(bucket)?);
        let mut all = index.summaries(bucket.id, key);
        let mut versions: Vec<_> = all.by_ref().take(count).collect();
        let has_older = all.next().is_some();
        drop(all);
        versions.reverse();
        Some(FollowedKey { bucket, versions, has_older })
    }

    /// The bucket with this id; `None` where it is gone.
    pub fn followed_bucket(&self, bucket: u64) -> Option<Arc<BucketRecord>> {
        self.shared.index().bucket_by_id(bucket).cloned()
    }

    /// Whether every change so far is done by that follower.
    pub fn is_followed(&self, name: &str) -> bool {
        let followers = self.follower_figures();
        followers.iter().any(|it| it.name == name && it.waiting_groups == 0 && !it.in_snapshot)
    }

    /// The last group that is published.
    pub fn published_sequence(&self) -> u64 {
        self.shared.published().sequence
    }

    /// The last group that the commit of a version can be in. It is that very group or a later one,
    /// since ids are given before the commit; of a version from before the start of the store, it
    /// may be any until then.
    pub fn last_group_of(&self, version: VersionId) -> u64 {
        self.shared.last_group_of(version)
    }

    /// The last group that the saved place of a follower is after; 0 for one that has none, or
    /// walks.
    pub fn followed_until(&self, name: &str) -> u64 {
        let index = self.shared.index();
        let state = index.follower(name).filter(|state| state.snapshot.is_none());
        state.map_or(0, |state| state.position.sequence)
    }

    /// The notes of a follower: their keys and values.
    pub fn follower_notes(&self, name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let index = self.shared.index();
        index.follower_notes(name).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    /// Sets or removes notes of a follower. Durable on return.
    ///
    /// # Errors
    /// Errors of the commit.
    pub fn note_for_follower(&self, name: &str, notes: Vec<FollowerNote>) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.committer.submit(|reply| Mutation::FollowerNotes { name, notes, reply })
    }

    fn set_follower(&self, name: &str, state: Option<FollowerState>) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.committer.submit(|reply| Mutation::Follower { name, state, reply })
    }
}
