//! The key ring as operators see it, without any key.

use std::collections::BTreeMap;

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
    /// The keys that records name and the ring lacks, with the versions, uploads and parts that
    /// need them.
    pub missing: BTreeMap<String, u64>,
    /// Versions, uploads and parts that a rewrap would give to a newer key.
    pub rewrap_due: u64,
}

impl ShownRing {
    /// A sentence for who has to put keys back; `None` where none is missing.
    pub fn lack(&self) -> Option<String> {
        let keys = match self.missing.len() {
            0 => return None,
            1 => "1 key".to_owned(),
            many => format!("{many} keys"),
        };
        let uses: u64 = self.missing.values().sum();
        Some(format!(
            "The key ring lacks {keys} of {uses} encrypted versions, uploads and parts, so that they cannot be read: put the ring back. \
             `siltstone key uses` names the keys."
        ))
    }
}

impl Context {
    /// The ring, without the keys themselves.
    pub fn shown_ring(&self) -> ShownRing {
        let ring = self.keys.get();
        let mut missing = self.store.key_uses();
        let mut keys = Vec::new();
        let mut rewrap_due = 0;
        for key in ring.iter() {
            let state = state_of(key, &ring);
            let uses = missing.remove(&key.id).unwrap_or(0);
            if matches!(state, KeyState::Former | KeyState::Retired) {
                rewrap_due += uses;
            }
            keys.push(ShownKey { id: key.id.clone(), name: key.name.clone(), created: key.created, state });
        }
        keys.reverse();
        ShownRing { missing, is_with_data: self.ring_is_with_data, keys, rewrap_due }
    }
}
