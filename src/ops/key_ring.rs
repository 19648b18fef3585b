//! The keys of the ring as administrators see them: what each encrypts, keys wrapped anew, and the
//! end of a key.

use std::collections::BTreeMap;

use super::Context;
use crate::base::Timestamp;
use crate::keys::{KeyRing, RingKey};
use crate::store::{RewrapCursor, StoreError};

/// Steps of a rewrap without a key to wrap that one request takes.
const IDLE_STEPS_MAX: usize = 64;

/// A key that is in the ring, or that records name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFigures {
    /// Its id.
    pub id: String,
    /// The name by which clients ask for it.
    pub name: Option<String>,
    /// What it is for.
    pub state: KeyState,
    /// Its time; `None` where the ring lacks it.
    pub created: Option<Timestamp>,
    /// The versions, uploads and parts whose keys it wraps.
    pub uses: u64,
}

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// Encrypts new objects that name no key.
    Current,
    /// Encrypts new objects that name it.
    Named,
    /// A newer one has taken its place.
    Former,
    /// Encrypts nothing new.
    Retired,
    /// Records name it, and the ring lacks it.
    Missing,
}

impl KeyState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Named => "named",
            Self::Former => "former",
            Self::Retired => "retired",
            Self::Missing => "missing",
        }
    }
}

/// Why a key cannot be destroyed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefusal {
    #[error("the ring of the server has no key `{0}`")]
    Unknown(String),
    #[error(
        "the key `{0}` is not retired in the ring of the server: retire it first, and let the server read the ring again"
    )]
    NotRetired(String),
    #[error(
        "{1} versions, uploads and parts need the key `{0}`: wrap their keys anew, or delete them, first"
    )]
    InUse(String, u64),
    #[error("{0}")]
    Failed(String),
}

/// A rewrap of the whole store, which goes on from request to request.
#[derive(Debug, Default)]
pub struct RewrapRun {
    cursor: RewrapCursor,
    /// The totals so far.
    pub figures: RewrapFigures,
}

/// The totals of a rewrap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RewrapFigures {
    /// Whether there is more to look at.
    pub more: bool,
    /// Records that were looked at.
    pub seen: u64,
    /// Versions, uploads and parts whose keys were wrapped anew.
    pub rewrapped: u64,
    /// Those whose key the ring cannot open.
    pub unavailable: u64,
}

/// What a key of the ring is for.
pub(super) fn state_of(key: &RingKey, ring: &KeyRing) -> KeyState {
    if key.retired {
        return KeyState::Retired;
    }
    if ring.current().is_some_and(|current| current.id == key.id) {
        return KeyState::Current;
    }
    match key.name.as_ref().map(|name| ring.named(name)) {
        Some(Ok(newest)) if newest.id == key.id => KeyState::Named,
        _ => KeyState::Former,
    }
}

impl Context {
    /// The keys of the ring, the oldest first, then those that it lacks.
    pub fn key_figures(&self) -> Vec<KeyFigures> {
        let ring = self.keys.get();
        let mut uses: BTreeMap<String, u64> = self.store.key_uses();
        let mut figures = Vec::new();
        for key in ring.iter() {
            figures.push(KeyFigures {
                id: key.id.clone(),
                name: key.name.clone(),
                state: state_of(key, &ring),
                created: Some(key.created),
                uses: uses.remove(&key.id).unwrap_or(0),
            });
        }
        let missing = uses.into_iter().map(|(id, uses)| KeyFigures {
            id,
            name: None,
            state: KeyState::Missing,
            created: None,
            uses,
        });
        figures.extend(missing);
        figures
    }

    /// Takes a rewrap one step further: up to some hundred keys, or many records without any.
    ///
    /// # Errors
    /// As of [`Store::rewrap`](crate::store::Store::rewrap).
    pub fn rewrap(&self, run: &mut RewrapRun) -> Result<RewrapFigures, StoreError> {
        for _ in 0..IDLE_STEPS_MAX {
            let step = self.store.rewrap(&mut run.cursor)?;
            let figures = &mut run.figures;
            figures.more = step.more;
            figures.seen += step.seen;
            figures.rewrapped += step.rewrapped;
            figures.unavailable += step.unavailable;
            if !step.more || step.rewrapped > 0 {
                break;
            }
        }
        Ok(run.figures)
    }

    /// Takes a retired key out of the ring in effect. The file of the ring still has it.
    ///
    /// # Errors
    /// The key is unknown, not retired, or needed by a record.
    pub fn destroy_key(&self, id: &str) -> Result<(), KeyRefusal> {
        let ring = self.keys.get();
        let key = ring.by_id(id).ok_or_else(|| KeyRefusal::Unknown(id.to_owned()))?;
        if !key.retired {
            return Err(KeyRefusal::NotRetired(id.to_owned()));
        }
        self.check_unused(id)?;
        // 1. No record that names the key is committed from here on, also where the file, which
        //    has the key, is read again. Another request may have been faster.
        let key = self.keys.give_up(id).ok_or_else(|| KeyRefusal::Unknown(id.to_owned()))?;
        // 2. Those that were decided before are visible.
        let settled = self.store.settle().map_err(|error| KeyRefusal::Failed(error.to_string()));
        // 3. One of them may have named it.
        let checked = settled.and_then(|()| self.check_unused(id));
        match checked {
            Ok(()) => self.keys.end(id),
            Err(_) => self.keys.take_back(key),
        }
        checked
    }

    fn check_unused(&self, id: &str) -> Result<(), KeyRefusal> {
        match self.store.key_uses().get(id) {
            Some(uses) => Err(KeyRefusal::InUse(id.to_owned(), *uses)),
            None => Ok(()),
        }
    }
}
