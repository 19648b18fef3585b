//! The key ring as operators see it, without any key.

use super::Context;
use super::key_ring::{KeyState, state_of};
use crate::base::Timestamp;

/// A key of the ring, without the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownKey {
    /// Its id.
    pub id: String,
    /// The name by which clients ask for it.
    pub name: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// What it is for.
    pub state: KeyState,
}

/// The ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownRing {
    /// Its keys, the newest first.
    pub keys: Vec<ShownKey>,
    /// Whether its file is on the disk of the data.
    pub is_with_data: bool,
    /// Whether there are encrypted objects, and no key at all.
    pub is_missing: bool,
}

impl Context {
    /// The ring, without the keys themselves.
    pub fn shown_ring(&self) -> ShownRing {
        let ring = self.keys.get();
        let mut keys = Vec::new();
        for key in ring.iter() {
            keys.push(ShownKey {
                id: key.id.clone(),
                name: key.name.clone(),
                created: key.created,
                state: state_of(key, &ring),
            });
        }
        keys.reverse();
        ShownRing {
            is_missing: keys.is_empty() && self.store.has_encrypted(),
            is_with_data: self.ring_is_with_data,
            keys,
        }
    }
}
