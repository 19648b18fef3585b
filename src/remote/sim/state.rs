//! The objects of a simulated remote, and the writes that have not landed.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::super::{RemoteError, RemoteObject};
use super::plan::RemotePlan;
use crate::base::digest::Md5;

/// All of a simulated remote.
#[derive(Default)]
pub(super) struct SimState {
    pub(super) objects: BTreeMap<String, Arc<StoredObject>>,
    /// Writes with the number of the call before which they land, in the order in which they were
    /// sent.
    pub(super) late: Vec<(u64, LateWrite)>,
    pub(super) bytes_read: u64,
    /// The longest time that a slow call held its caller, on the clock of the simulation.
    pub(super) longest_wait: Duration,
    pub(super) plan: RemotePlan,
}

pub(super) struct StoredObject {
    pub(super) bytes: Vec<u8>,
    pub(super) nonce: Option<String>,
    /// Their MD5, once it was asked for.
    md5: OnceLock<[u8; 16]>,
}

/// A write whose answer was failure, and that may still land.
#[derive(Clone)]
pub(super) enum LateWrite {
    Put { name: String, stored: Arc<StoredObject>, create_only: bool },
    Delete { name: String },
}

impl StoredObject {
    pub(super) fn new(bytes: Vec<u8>, nonce: Option<String>) -> Self {
        Self { bytes, nonce, md5: OnceLock::new() }
    }

    pub(super) fn attributes(&self, name: &str) -> RemoteObject {
        let md5 = Some(*self.md5.get_or_init(|| Md5::of(&self.bytes)));
        RemoteObject { md5, ..self.attributes_without_md5(name) }
    }

    pub(super) fn attributes_without_md5(&self, name: &str) -> RemoteObject {
        let length = self.bytes.len() as u64;
        let nonce = self.nonce.clone();
        RemoteObject { name: name.to_owned(), length, nonce, md5: None }
    }
}

impl SimState {
    /// The same objects and late writes, without faults.
    pub(super) fn copy(&self) -> Self {
        let calls = self.plan.all_calls();
        let late = self.late.iter().map(|(at, write)| (at.saturating_sub(calls), write.clone()));
        Self { objects: self.objects.clone(), late: late.collect(), ..Self::default() }
    }

    /// The object that GET and HEAD find.
    pub(super) fn shown(&self, name: &str) -> Option<&Arc<StoredObject>> {
        self.objects.get(name).filter(|_| !self.plan.hidden.contains(name))
    }

    /// Carries out a write. A create of a taken name succeeds where the object is its own.
    pub(super) fn apply(&mut self, write: LateWrite) -> Result<(), RemoteError> {
        match write {
            LateWrite::Put { name, stored, create_only } => {
                let found = self.objects.get(&name).filter(|_| create_only && !self.plan.ignores_conditions);
                match found {
                    Some(found) if found.nonce == stored.nonce => {}
                    Some(_) => return Err(RemoteError::Exists),
                    None => drop(self.objects.insert(name, stored)),
                }
            }
            LateWrite::Delete { name } => drop(self.objects.remove(&name)),
        }
        Ok(())
    }

    /// Makes the late writes land that are due before call `now`.
    pub(super) fn land(&mut self, now: u64) {
        let (due, late): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.late).into_iter().partition(|(lands_at, _)| *lands_at <= now);
        self.late = late;
        for (_, write) in due {
            // Its caller has had an answer, so no one is there for an error.
            drop(self.apply(write));
        }
    }

    pub(super) fn damage(&mut self, name: &str, offset: usize) -> bool {
        let Some(object) = self.objects.get_mut(name) else { return false };
        let mut bytes = object.bytes.to_vec();
        if let Some(byte) = bytes.get_mut(offset) {
            *byte ^= 0x20;
        }
        *object = Arc::new(StoredObject::new(bytes, object.nonce.clone()));
        true
    }
}
