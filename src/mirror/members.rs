//! The buckets that have joined a mirror, and the uploads in parts that it began: what a restart
//! must not forget.
//!
//! Each change is durable in the notes of the follower before the target sees what it is about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::base::NOT_POISONED;
use crate::store::{FollowerNote, MirrorNote, MirrorUpload, MirroredPlace, Store, StoreError, TargetOrigin};
use crate::transfer::{PeerError, PeerStore};

/// A bucket whose counterpart at the target has objects that the mirror did not send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccupiedBucket {
    /// The bucket here.
    pub bucket: String,
    /// The bucket at the target.
    pub target_bucket: String,
    /// The beginning of the keys there.
    pub target_prefix: String,
}

#[derive(Default)]
struct MemberState {
    joined: BTreeMap<MirroredPlace, TargetOrigin>,
    occupied: BTreeMap<u64, OccupiedBucket>,
    /// The uploads that are noted, and which of them have no worker.
    uploads: BTreeSet<MirrorUpload>,
    left: BTreeSet<MirrorUpload>,
    partial: BTreeSet<u64>,
    complete_after: Option<u64>,
    /// The id of the store behind the target, if that is a Siltstone, and whether its changes come
    /// back here by mirrors.
    target_store: Option<String>,
    /// The stores that the target has mirrors to, directly or through others.
    reached: Vec<String>,
    is_in_cycle: bool,
    /// The buckets that are gone, and that changes from before the notes concern.
    trusted: BTreeSet<u64>,
}

impl MemberState {
    /// Whether a place whose bucket here is gone means nothing any more. One that the mirror made
    /// is known by its name, until a bucket of that name joins again.
    fn is_done_with(&self, place: &MirroredPlace, origin: TargetOrigin) -> bool {
        origin != TargetOrigin::Made
            || self.joined.iter().any(|(other, made)| {
                other.bucket == place.bucket && other.id > place.id && *made == TargetOrigin::Made
            })
    }
}

/// The buckets and uploads of a mirror.
pub(super) struct Members {
    name: String,
    state: Mutex<MemberState>,
    /// Whether a bucket whose versions were not all copied keeps versions at the target now.
    is_richer: AtomicBool,
}

impl Members {
    /// The members of the mirror with that name. [`Members::load`] comes before their use.
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), state: Mutex::default(), is_richer: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, MemberState> {
        self.state.lock().expect(NOT_POISONED)
    }

    /// Takes over what earlier runs noted.
    pub(super) fn load(&self, store: &Store) {
        let mut state = MemberState::default();
        for (key, value) in store.follower_notes(&self.name) {
            match MirrorNote::parse(&key, &value) {
                Ok(MirrorNote::Bucket(place, origin)) => drop(state.joined.insert(place, origin)),
                Ok(MirrorNote::Upload(upload)) => {
                    state.left.insert(upload.clone());
                    state.uploads.insert(upload);
                }
                Ok(MirrorNote::CompleteAfter(sequence)) => state.complete_after = Some(sequence),
                Ok(MirrorNote::Partial(id)) => drop(state.partial.insert(id)),
                Err(error) => log::error!("mirror {}: a note of it cannot be read: {error}", self.name),
            }
        }
        *self.lock() = state;
    }

    /// Whether notes list all buckets of later changes. A mirror of an earlier version has none.
    pub(super) fn is_begun(&self) -> bool {
        self.lock().complete_after.is_some()
    }

    /// Begins the notes with these buckets, which have joined before.
    pub(super) fn begin(
        &self,
        store: &Store,
        after: u64,
        joined: Vec<MirroredPlace>,
    ) -> Result<(), StoreError> {
        let mut notes = Vec::new();
        for place in &joined {
            notes.push(MirrorNote::Bucket(place.clone(), TargetOrigin::Found).set());
        }
        notes.push(MirrorNote::CompleteAfter(after).set());
        self.save(store, notes)?;
        let mut state = self.lock();
        state.joined.extend(joined.into_iter().map(|place| (place, TargetOrigin::Found)));
        state.complete_after = Some(after);
        Ok(())
    }

    fn save(&self, store: &Store, notes: Vec<FollowerNote>) -> Result<(), StoreError> {
        store.note_for_follower(&self.name, notes)
    }

    /// Whether the mirror may write to all of these places.
    pub(super) fn have_joined(&self, places: &[MirroredPlace]) -> bool {
        let state = self.lock();
        places.iter().all(|wanted| {
            state.joined.iter().any(|(joined, origin)| {
                joined.id == wanted.id
                    && joined.bucket == wanted.bucket
                    && *origin != TargetOrigin::Making
                    && wanted.prefix.starts_with(&joined.prefix)
            })
        })
    }

    /// Whether a bucket that is gone had joined, with that bucket of the target.
    pub(super) fn had_joined(&self, id: u64, target_bucket: &str) -> bool {
        let state = self.lock();
        let had_joined = state.joined.iter().any(|(place, origin)| {
            place.id == id && place.bucket == target_bucket && *origin != TargetOrigin::Making
        });
        had_joined || state.trusted.contains(&id)
    }

    /// Takes a bucket that is gone for one that had joined if a change of it comes from before the
    /// notes.
    pub(super) fn trust_former(&self, id: u64, sequence: u64) {
        let mut state = self.lock();
        if state.complete_after.is_some_and(|after| sequence <= after) {
            state.trusted.insert(id);
        }
    }

    /// Learns which store is behind the target, and whether that has a mirror to this one.
    pub(super) fn learn_store(&self, there: Option<&PeerStore>, own: &str) {
        let mut state = self.lock();
        state.target_store = there.map(|there| there.id.clone());
        state.reached = there.map_or(Vec::new(), |there| there.mirrors_to.clone());
        state.is_in_cycle |= there.is_some_and(|there| there.mirrors_to.iter().any(|id| id == own));
    }

    /// The store behind the target, if that is a Siltstone.
    pub(super) fn target_store(&self) -> Option<String> {
        self.lock().target_store.clone()
    }

    /// The stores that changes reach by this mirror, as far as they are known.
    pub(super) fn reached(&self) -> Vec<String> {
        let state = self.lock();
        state.target_store.iter().chain(&state.reached).cloned().collect()
    }

    /// Whether a change came from the target, directly or through other stores.
    pub(super) fn is_from_target(&self, origins: &[String]) -> bool {
        let mut state = self.lock();
        let is_from_target = state.target_store.as_ref().is_some_and(|store| origins.contains(store));
        state.is_in_cycle |= is_from_target;
        is_from_target
    }

    /// Whether changes of the target have come here.
    pub(super) fn is_in_cycle(&self) -> bool {
        self.lock().is_in_cycle
    }

    /// Whether any bucket has joined.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().joined.is_empty()
    }

    /// Whether the mirror has made the bucket of the target, for this bucket or one before it.
    pub(super) fn has_made(&self, bucket: &str) -> bool {
        let state = self.lock();
        state.joined.iter().any(|(place, origin)| place.bucket == bucket && *origin == TargetOrigin::Made)
    }

    /// Whether the mirror was about to make the bucket of the target.
    pub(super) fn was_making(&self, places: &[MirroredPlace]) -> bool {
        let state = self.lock();
        places.iter().any(|place| state.joined.get(place) == Some(&TargetOrigin::Making))
    }

    /// Notes places of a bucket. Durable on return.
    pub(super) fn join(
        &self,
        store: &Store,
        places: &[MirroredPlace],
        origin: TargetOrigin,
    ) -> Result<(), PeerError> {
        let notes = places.iter().map(|place| MirrorNote::Bucket(place.clone(), origin).set());
        // Durable before it counts in memory: a worker acts upon it at once.
        self.save(store, notes.collect()).map_err(|error| unsaved(&error))?;
        let mut state = self.lock();
        for place in places {
            state.joined.insert(place.clone(), origin);
            if origin != TargetOrigin::Making {
                state.occupied.remove(&place.id);
            }
        }
        Ok(())
    }

    /// Notes that a bucket does not join.
    pub(super) fn occupy(&self, id: u64, occupied: OccupiedBucket) {
        self.lock().occupied.insert(id, occupied);
    }

    pub(super) fn is_occupied(&self, id: u64) -> bool {
        self.lock().occupied.contains_key(&id)
    }

    /// The ids of the buckets that do not join.
    pub(super) fn occupied_ids(&self) -> Vec<u64> {
        self.lock().occupied.keys().copied().collect()
    }

    /// The buckets that do not join.
    pub(super) fn occupied(&self) -> Vec<OccupiedBucket> {
        self.lock().occupied.values().cloned().collect()
    }

    /// Forgets a bucket that does not join and is gone.
    pub(super) fn release(&self, id: u64) {
        self.lock().occupied.remove(&id);
    }

    /// Forgets the places of buckets that are gone, once all of their changes are done and the
    /// position after them is saved.
    pub(super) fn forget_departed(&self, store: &Store) -> Result<(), StoreError> {
        let mut state = self.lock();
        let mut gone = Vec::new();
        for (place, origin) in &state.joined {
            if store.followed_bucket(place.id).is_none() && state.is_done_with(place, *origin) {
                gone.push(place.clone());
            }
        }
        let partial: Vec<_> =
            state.partial.iter().copied().filter(|id| store.followed_bucket(*id).is_none()).collect();
        if gone.is_empty() && partial.is_empty() {
            return Ok(());
        }
        let places = gone.iter().map(|it| MirrorNote::Bucket(it.clone(), TargetOrigin::Found).removed());
        let notes = places.chain(partial.iter().map(|id| MirrorNote::Partial(*id).removed()));
        self.save(store, notes.collect())?;
        state.joined.retain(|place, _| !gone.contains(place));
        state.partial.retain(|id| !partial.contains(id));
        Ok(())
    }

    /// Notes an upload in parts before it begins. Durable on return.
    pub(super) fn begin_upload(&self, store: &Store, upload: &MirrorUpload) -> Result<(), PeerError> {
        self.save(store, vec![MirrorNote::Upload(upload.clone()).set()]).map_err(|error| unsaved(&error))?;
        self.lock().uploads.insert(upload.clone());
        Ok(())
    }

    /// Notes that an upload is not at the target any more.
    pub(super) fn end_upload(&self, store: &Store, upload: &MirrorUpload) -> Result<(), PeerError> {
        self.save(store, vec![MirrorNote::Upload(upload.clone()).removed()])
            .map_err(|error| unsaved(&error))?;
        let mut state = self.lock();
        state.uploads.remove(upload);
        state.left.remove(upload);
        Ok(())
    }

    /// Notes that an upload failed, and may still be at the target.
    pub(super) fn leave_upload(&self, upload: &MirrorUpload) {
        self.lock().left.insert(upload.clone());
    }

    /// The uploads that may be at the target, without anybody at work on them.
    pub(super) fn left_uploads(&self) -> Vec<MirrorUpload> {
        self.lock().left.iter().cloned().collect()
    }

    /// The uploads of a key.
    pub(super) fn left_of(&self, source: &str, key: &str) -> Vec<MirrorUpload> {
        let state = self.lock();
        state.left.iter().filter(|left| left.source == source && left.key == key).cloned().collect()
    }

    /// Notes that versions of a bucket were not copied, since the target keeps none. Durable on
    /// return.
    pub(super) fn set_partial(&self, store: &Store, id: u64) -> Result<(), PeerError> {
        if self.lock().partial.contains(&id) {
            return Ok(());
        }
        self.save(store, vec![MirrorNote::Partial(id).set()]).map_err(|error| unsaved(&error))?;
        self.lock().partial.insert(id);
        Ok(())
    }

    /// The buckets whose versions were not all copied.
    pub(super) fn partial(&self) -> Vec<u64> {
        self.lock().partial.iter().copied().collect()
    }

    /// Forgets that versions of buckets were not copied: all keys are compared after that.
    pub(super) fn clear_partial(&self, store: &Store, ids: &[u64]) -> Result<(), StoreError> {
        self.save(store, ids.iter().map(|id| MirrorNote::Partial(*id).removed()).collect())?;
        self.lock().partial.retain(|id| !ids.contains(id));
        Ok(())
    }

    /// Notes that the target keeps versions of a bucket. Those that it did not get are looked for
    /// if there are any.
    pub(super) fn tell_versions(&self, id: u64) {
        if self.lock().partial.contains(&id) {
            self.is_richer.store(true, Ordering::Release);
        }
    }

    /// Whether [`Members::tell_versions`] found something to do since the last call.
    pub(super) fn take_richer(&self) -> bool {
        self.is_richer.swap(false, Ordering::AcqRel)
    }
}

/// The store does not take the note: nothing is sent that rests on it.
fn unsaved(error: &StoreError) -> PeerError {
    PeerError::Passing(format!("its state is not saved: {error}"))
}
