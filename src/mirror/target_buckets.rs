//! The buckets at the target, which a mirror makes where they are missing.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::settings::MirrorSettings;
use super::target::MirrorTarget;
use crate::store::{BucketInfo, Store, Versioning};
use crate::transfer::PeerError;

/// The time after which a refused bucket is tried again: the operator may have mended the keys there, or made it by hand.
const REFUSED_AGAIN: Duration = Duration::from_secs(60);

/// The buckets that have to be there.
#[derive(Default)]
pub(super) struct TargetBuckets {
    /// The buckets of the store whose counterparts were not looked for yet.
    wanted: VecDeque<WantedBucket>,
    /// Those that the target refused to make.
    refused: Vec<WantedBucket>,
    /// The time of the next try of these.
    next_try: Option<Instant>,
    /// The buckets that were made here. They keep versions as soon as their sources do.
    made: HashSet<String>,
}

#[derive(Clone, Copy)]
struct WantedBucket {
    id: u64,
    /// Whether all of its keys are still to come from the log.
    is_new: bool,
    /// Whether the target was asked to make it.
    asked: bool,
}

/// The outcome of a look at the target.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BucketsMade {
    /// The buckets that were missing, and are there now; `true` for those that were there once, unless the mirror is new.
    pub(super) made: Vec<(String, bool)>,
    /// The reason of the target for not making one. Its keys fail until the bucket is there.
    pub(super) refusal: Option<String>,
}

impl TargetBuckets {
    /// Looks for the counterparts of all buckets of the store.
    pub(super) fn want_all(&mut self, store: &Store) {
        let wanted = |bucket: BucketInfo| WantedBucket { id: bucket.id, is_new: false, asked: false };
        self.wanted = store.buckets().into_iter().map(wanted).collect();
    }

    /// Looks for the counterpart of this bucket of the store, which is new or keeps versions now.
    pub(super) fn want(&mut self, bucket: u64) {
        self.wanted.push_back(WantedBucket { id: bucket, is_new: true, asked: false });
    }

    /// Lets those that the target refused be tried again now.
    #[cfg(test)]
    pub(super) fn retry_now(&mut self) {
        self.next_try = self.next_try.map(|_| Instant::now());
    }

    /// Makes the wanted buckets that are missing.
    ///
    /// # Errors
    /// The target is down: a later call goes on.
    pub(super) fn make(
        &mut self,
        settings: &MirrorSettings,
        store: &Store,
        target: &mut dyn MirrorTarget,
    ) -> Result<BucketsMade, PeerError> {
        let mut done = BucketsMade::default();
        if self.next_try.take_if(|at| *at <= Instant::now()).is_some() {
            self.wanted.extend(self.refused.drain(..));
        }
        while let Some(mut wanted) = self.wanted.pop_front() {
            match self.make_one(&mut wanted, settings, store, target) {
                Ok(made) => done.made.extend(made.map(|name| (name, !wanted.is_new))),
                Err(error @ PeerError::Passing(_)) => {
                    self.wanted.push_front(wanted);
                    return Err(error);
                }
                Err(error) => {
                    done.refusal = Some(format!("a bucket is not made: {}", error.text()));
                    self.refused.push(wanted);
                    self.next_try = Some(Instant::now() + REFUSED_AGAIN);
                }
            }
        }
        Ok(done)
    }

    /// The name of the bucket, if the target lacked it.
    fn make_one(
        &mut self,
        wanted: &mut WantedBucket,
        settings: &MirrorSettings,
        store: &Store,
        target: &mut dyn MirrorTarget,
    ) -> Result<Option<String>, PeerError> {
        let source = store.followed_bucket(wanted.id);
        let Some(source) = source.filter(|it| !settings.prefixes_of(&it.name).is_empty()) else {
            return Ok(None);
        };
        let name = settings.bucket_for(&source.name);
        if !target.has_bucket(&name)? {
            // It is made, too, where the answer is lost.
            self.made.insert(name.clone());
            wanted.asked = true;
            target.make_bucket(&name)?;
        }
        if self.made.contains(&name) && source.versioning == Versioning::Enabled {
            match target.enable_versions(&name) {
                Err(PeerError::Unsupported(why)) => {
                    log::info!("mirror {}: {name} keeps the current objects alone: {why}", settings.name);
                }
                enabled => enabled?,
            }
        }
        Ok(wanted.asked.then_some(name))
    }
}
