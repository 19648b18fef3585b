//! The progress of the followers of the log.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::format::{FollowerNote, FollowerState};

/// A bound on the memory of a follower without its name and key.
const FOLLOWER_BYTES: u64 = 256;

/// A bound on the memory of a refused key without its key and reason.
const REFUSED_BYTES: u64 = 128;

/// A bound on the memory of a note without its texts.
const NOTE_BYTES: u64 = 192;

/// The memory that a follower may take, in bytes.
pub fn follower_bytes(name: &str, state: &FollowerState) -> u64 {
    let cursor = state.snapshot.as_ref().map_or(0, |cursor| cursor.key.len());
    let refused = state.refused.keys.len() as u64 * REFUSED_BYTES;
    FOLLOWER_BYTES + refused + (name.len() + cursor + state.refused.text_bytes()) as u64
}

/// The memory that a note of a follower may take, in bytes.
pub fn follower_note_bytes(name: &str, note: &FollowerNote) -> u64 {
    NOTE_BYTES + (name.len() + note.key.len() + note.value.as_ref().map_or(0, Vec::len)) as u64
}

/// The name of a follower, and the key of one of its notes.
type NotePlace = (String, Vec<u8>);

/// The followers by name, and their notes. A clone is a snapshot and costs O(1).
#[derive(Clone, Default)]
pub(super) struct Followers {
    by_name: Arc<BTreeMap<String, FollowerState>>,
    notes: Arc<BTreeMap<NotePlace, Vec<u8>>>,
    note_bytes: u64,
}

impl Followers {
    pub(super) fn get(&self, name: &str) -> Option<&FollowerState> {
        self.by_name.get(name)
    }

    /// The followers after one, or all, by name.
    pub(super) fn after(&self, name: Option<&str>) -> impl Iterator<Item = (&str, &FollowerState)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_name.range::<str, _>((from, Bound::Unbounded)).map(|(name, state)| (name.as_str(), state))
    }

    /// The notes after one, or all, by follower and key.
    pub(super) fn notes_after(
        &self,
        place: Option<&NotePlace>,
    ) -> impl Iterator<Item = (&NotePlace, &[u8])> + use<'_> {
        let from = place.map_or(Bound::Unbounded, |place| Bound::Excluded(place.clone()));
        self.notes.range((from, Bound::Unbounded)).map(|(place, value)| (place, value.as_slice()))
    }

    /// The notes of a follower, by key.
    pub(super) fn notes_of(&self, name: &str) -> impl Iterator<Item = (&[u8], &[u8])> {
        let from = Bound::Included((name.to_owned(), Vec::new()));
        let all = self.notes.range((from, Bound::Unbounded));
        let own = all.take_while(move |((of, _), _)| of == name);
        own.map(|((_, key), value)| (key.as_slice(), value.as_slice()))
    }

    /// Sets or removes a note.
    pub(super) fn set_note(&mut self, name: &str, note: &FollowerNote) {
        let all = Arc::make_mut(&mut self.notes);
        let place = (name.to_owned(), note.key.clone());
        let former = match &note.value {
            Some(value) => all.insert(place, value.clone()),
            None => all.remove(&place),
        };
        if note.value.is_some() {
            self.note_bytes += follower_note_bytes(name, note);
        }
        if former.is_some() {
            let former = FollowerNote { key: note.key.clone(), value: former };
            self.note_bytes -= follower_note_bytes(name, &former);
        }
    }

    /// Sets the progress of a follower, or removes it with its notes.
    pub(super) fn set(&mut self, name: &str, state: Option<&FollowerState>) {
        let all = Arc::make_mut(&mut self.by_name);
        match state {
            Some(state) => drop(all.insert(name.to_owned(), state.clone())),
            None => {
                all.remove(name);
                let keys: Vec<_> = self.notes_of(name).map(|(key, _)| key.to_vec()).collect();
                for key in keys {
                    self.set_note(name, &FollowerNote { key, value: None });
                }
            }
        }
    }

    /// The memory that they take up, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.by_name.iter().map(|(name, state)| follower_bytes(name, state)).sum::<u64>() + self.note_bytes
    }
}
