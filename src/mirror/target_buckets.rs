//! The buckets at the target: which of them are the mirror's, and those that it makes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::due_keys::DueKeys;
use super::members::{Members, OccupiedBucket};
use super::settings::MirrorSettings;
use super::target::MirrorTarget;
use crate::base::Backoff;
use crate::store::{MirroredPlace, Store, TargetOrigin, Versioning};
use crate::transfer::PeerError;

/// The times after which refused buckets are tried again. One refusal may be a mistake of something
/// on the way, many are not.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };

/// The buckets whose counterparts have to be looked for.
#[derive(Default)]
pub(super) struct TargetBuckets {
    wanted: VecDeque<WantedBucket>,
    /// Those that the target refused to show or to make.
    refused: Vec<WantedBucket>,
    /// The time of the next try of these.
    next_try: Option<Instant>,
    /// How often some were refused in a row.
    refusals: u32,
}

#[derive(Clone, Copy)]
struct WantedBucket {
    id: u64,
    /// Whether all of its keys are still to come from the log.
    is_new: bool,
}

/// What a look at the target needs.
pub(super) struct BucketContext<'c> {
    pub(super) settings: &'c MirrorSettings,
    pub(super) members: &'c Members,
    pub(super) keys: &'c DueKeys,
    pub(super) store: &'c Store,
}

/// The outcome of a look at the target.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BucketsMade {
    /// The buckets that joined or were made again; `true` for those with keys that may have been
    /// passed over, so that all are compared.
    pub(super) joined: Vec<(String, bool)>,
    /// The buckets that were not made or looked at, or are occupied, with the reason.
    pub(super) refusal: Option<String>,
}

/// What a bucket of the store is to the mirror.
struct SourceBucket {
    id: u64,
    /// Its name here, and its counterpart's.
    source: String,
    name: String,
    versioning: Versioning,
    places: Vec<MirroredPlace>,
}

impl TargetBuckets {
    /// Looks for the counterparts of all buckets of the store.
    pub(super) fn want_all(&mut self, store: &Store) {
        let buckets = store.buckets();
        self.wanted = buckets.iter().map(|bucket| WantedBucket { id: bucket.id, is_new: false }).collect();
    }

    /// Looks for the counterpart of this bucket of the store, which is new or keeps versions now.
    pub(super) fn want(&mut self, bucket: u64, is_new: bool) {
        self.wanted.push_back(WantedBucket { id: bucket, is_new });
    }

    /// Whether it is not known yet what a bucket is to the mirror, and no request was refused.
    pub(super) fn wants(&self, bucket: u64) -> bool {
        self.wanted.iter().any(|wanted| wanted.id == bucket)
    }

    /// Whether there are such buckets.
    pub(super) fn wants_any(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Lets those that the target refused be tried again now.
    #[cfg(test)]
    pub(super) fn retry_now(&mut self) {
        self.next_try = self.next_try.map(|_| Instant::now());
    }

    /// Looks for the counterparts of the wanted buckets, and makes those that are missing.
    ///
    /// # Errors
    /// The target is down: a later call goes on.
    pub(super) fn make(
        &mut self,
        context: &BucketContext<'_>,
        target: &mut dyn MirrorTarget,
    ) -> Result<BucketsMade, PeerError> {
        let mut done = BucketsMade::default();
        if self.next_try.take_if(|at| *at <= Instant::now()).is_some() {
            self.wanted.extend(self.refused.drain(..));
        }
        let mut waiting = VecDeque::new();
        while let Some(mut wanted) = self.wanted.pop_front() {
            match look(&mut wanted, context, target) {
                Ok(Look::Waits) => waiting.push_back(wanted),
                Ok(Look::Known) => {}
                Ok(Look::Joined(name)) => done.joined.push((name, !wanted.is_new)),
                Ok(Look::MadeAgain(name)) => done.joined.push((name, true)),
                Ok(Look::Occupied(why)) => done.refusal = Some(why),
                // An outage keeps the order, and ends the round: the others would meet the same.
                Err(error @ PeerError::Passing(_)) => {
                    self.wanted.push_front(wanted);
                    self.wanted.append(&mut waiting);
                    return Err(error);
                }
                Err(error) => {
                    done.refusal = Some(format!("a bucket is not made: {}", error.text()));
                    self.refused.push(wanted);
                }
            }
        }
        self.wanted = waiting;
        if self.refused.is_empty() {
            self.refusals = 0;
        } else if self.next_try.is_none() {
            self.refusals = self.refusals.saturating_add(1);
            self.next_try = Some(Instant::now() + BACKOFF.after(self.refusals));
        }
        Ok(done)
    }
}

/// What a look at the counterpart of a bucket found.
enum Look {
    /// Keys of a bucket before it, which had the same counterpart, are still due.
    Waits,
    /// There is nothing to do.
    Known,
    /// The bucket has joined.
    Joined(String),
    /// The target had lost it.
    MadeAgain(String),
    /// It does not join.
    Occupied(String),
}

fn look(
    wanted: &mut WantedBucket,
    context: &BucketContext<'_>,
    target: &mut dyn MirrorTarget,
) -> Result<Look, PeerError> {
    let BucketContext { settings, members, keys, store } = *context;
    let Some(record) = store.followed_bucket(wanted.id) else {
        members.release(wanted.id);
        return Ok(Look::Known);
    };
    let places = settings.places_here(store, record.id, &record.name);
    let Some(first) = places.first() else { return Ok(Look::Known) };
    let source = SourceBucket {
        id: record.id,
        source: record.name.clone(),
        name: first.bucket.clone(),
        versioning: record.versioning,
        places: places.clone(),
    };
    // Before anything is made or noted there: a mirror to the own store would send each change
    // round for ever.
    let there = target.store(&source.name)?;
    let own = store.public_id();
    if there.as_ref().is_some_and(|there| there.id == own) {
        let why = "the target is this store itself: nothing is mirrored";
        return Err(PeerError::Passing(why.to_owned()));
    }
    members.learn_store(there.as_ref(), &own);
    if members.have_joined(&places) {
        // Keys that were copied before are sent again if the target has lost the bucket.
        wanted.is_new = false;
        return keep(&source, context, target);
    }
    if keys.has_any(|id, name| id != record.id && settings.bucket_for(name) == source.name) {
        return Ok(Look::Waits);
    }
    join(&source, context, target)
}

/// Looks after the counterpart of a bucket that has joined.
fn keep(
    source: &SourceBucket,
    context: &BucketContext<'_>,
    target: &mut dyn MirrorTarget,
) -> Result<Look, PeerError> {
    let is_there = target.has_bucket(&source.name)?;
    if !is_there {
        make(source, context, target)?;
    }
    if context.members.has_made(&source.name) {
        keep_versions(source, context.settings, target)?;
    }
    Ok(if is_there { Look::Known } else { Look::MadeAgain(source.name.clone()) })
}

/// Lets a bucket join whose counterpart is missing, or has nothing that the mirror would take for
/// its own.
fn join(
    source: &SourceBucket,
    context: &BucketContext<'_>,
    target: &mut dyn MirrorTarget,
) -> Result<Look, PeerError> {
    let BucketContext { members, store, .. } = *context;
    if !target.has_bucket(&source.name)? {
        make(source, context, target)?;
        return Ok(Look::Joined(source.name.clone()));
    }
    // Versions of a bucket that is gone stay at the target, where the mirror made their bucket.
    let is_own = members.has_made(&source.name);
    for place in &source.places {
        let mut is_empty = true;
        target.visit(&source.name, &place.prefix, !is_own, &mut |_| {
            is_empty = false;
            false
        })?;
        if !is_empty {
            members.occupy(
                source.id,
                OccupiedBucket {
                    bucket: source.source.clone(),
                    target_bucket: source.name.clone(),
                    target_prefix: place.prefix.clone(),
                },
            );
            let what = "the target has objects that the mirror did not send: `siltstone mirror resync` takes them over";
            return Ok(Look::Occupied(format!("{what} ({}/{})", source.name, place.prefix)));
        }
    }
    let is_made = is_own || members.was_making(&source.places);
    if is_made {
        keep_versions(source, context.settings, target)?;
    }
    let origin = if is_made { TargetOrigin::Made } else { TargetOrigin::Found };
    members.join(store, &source.places, origin)?;
    Ok(Look::Joined(source.name.clone()))
}

/// Makes the counterpart. That it is the mirror's own is known before it is there, and that it may
/// be filled only after it was seen.
fn make(
    source: &SourceBucket,
    context: &BucketContext<'_>,
    target: &mut dyn MirrorTarget,
) -> Result<(), PeerError> {
    let BucketContext { members, store, .. } = *context;
    // 1. Noted as about to be made. After a crash in between, the empty bucket is known as the
    //    mirror's own.
    members.join(store, &source.places, TargetOrigin::Making)?;
    target.make_bucket(&source.name)?;
    if !target.has_bucket(&source.name)? {
        return Err(PeerError::Passing(format!("{} is not there after it was made", source.name)));
    }
    keep_versions(source, context.settings, target)?;
    // 2. Seen, and with versions: only now objects may be sent there.
    members.join(store, &source.places, TargetOrigin::Made)
}

/// Lets a counterpart that the mirror made keep versions, if the bucket here does.
fn keep_versions(
    source: &SourceBucket,
    settings: &MirrorSettings,
    target: &mut dyn MirrorTarget,
) -> Result<(), PeerError> {
    if source.versioning != Versioning::Enabled || target.keeps_versions(&source.name, true)? {
        return Ok(());
    }
    match target.enable_versions(&source.name) {
        Err(PeerError::Unsupported(why)) => {
            log::info!("mirror {}: {} keeps the current objects alone: {why}", settings.name, source.name);
            return Ok(());
        }
        enabled => enabled?,
    }
    match target.keeps_versions(&source.name, true)? {
        true => Ok(()),
        false => {
            Err(PeerError::Passing(format!("{} keeps no versions although it was told to", source.name)))
        }
    }
}
