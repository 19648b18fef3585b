//! The ring of a running server.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use super::{KeyRing, RingKey};
use crate::base::NOT_POISONED;
use crate::crypto::{KeySource, MasterKey, NamedKey};

/// The ring in effect, which is replaced as a whole when its file is read again.
#[derive(Debug, Default)]
pub struct SharedKeyRing(RwLock<InEffect>);

#[derive(Debug, Default)]
struct InEffect {
    ring: Arc<KeyRing>,
    /// The ids of keys that this process gave up, and whether that is final. Their file may still
    /// have them.
    given_up: BTreeMap<String, bool>,
}

impl SharedKeyRing {
    /// This ring.
    pub fn new(ring: KeyRing) -> Self {
        Self(RwLock::new(InEffect { ring: Arc::new(ring), given_up: BTreeMap::new() }))
    }

    /// The ring in effect.
    pub fn get(&self) -> Arc<KeyRing> {
        Arc::clone(&self.0.read().expect(NOT_POISONED).ring)
    }

    /// Takes a retired key out, and keeps it out. `None` where there is no such key.
    pub fn give_up(&self, id: &str) -> Option<RingKey> {
        let mut now = self.0.write().expect(NOT_POISONED);
        let key = now.ring.by_id(id).filter(|key| key.retired)?.clone();
        now.ring = Arc::new(now.ring.without(id));
        now.given_up.insert(id.to_owned(), false);
        Some(key)
    }

    /// Puts a key that was given up into effect again.
    pub fn take_back(&self, key: RingKey) {
        let mut now = self.0.write().expect(NOT_POISONED);
        now.given_up.remove(&key.id);
        now.ring = Arc::new(now.ring.with(key));
    }

    /// Notes that a key that was given up does not come back.
    pub fn end(&self, id: &str) {
        self.0.write().expect(NOT_POISONED).given_up.insert(id.to_owned(), true);
    }

    /// The ids of the keys that do not come back while this process lives.
    pub fn destroyed(&self) -> Vec<String> {
        let now = self.0.read().expect(NOT_POISONED);
        now.given_up.iter().filter(|(_, is_final)| **is_final).map(|(id, _)| id.clone()).collect()
    }

    /// Puts another ring into effect, without the keys that were given up; returns their ids.
    /// Whoever took the one before goes on with it.
    pub fn replace(&self, mut ring: KeyRing) -> Vec<String> {
        let mut now = self.0.write().expect(NOT_POISONED);
        let given_up = now.given_up.keys().filter(|id| ring.by_id(id).is_some());
        let kept_out: Vec<_> = given_up.cloned().collect();
        for id in &kept_out {
            ring = ring.without(id);
        }
        now.ring = Arc::new(ring);
        kept_out
    }
}

impl KeySource for SharedKeyRing {
    fn current(&self) -> Option<NamedKey> {
        let ring = self.get();
        ring.current().map(|key| NamedKey { id: key.id.clone(), key: key.secret.clone() })
    }

    fn to_wrap(&self, id: &str) -> Option<MasterKey> {
        let ring = self.get();
        ring.by_id(id).filter(|key| !key.retired).map(|key| key.secret.clone())
    }

    fn to_open(&self, id: &str) -> Option<MasterKey> {
        self.get().by_id(id).map(|key| key.secret.clone())
    }

    fn successor(&self, id: &str) -> Option<NamedKey> {
        let ring = self.get();
        let next = match ring.by_id(id)?.name.as_deref() {
            Some(name) => ring.named(name).ok()?,
            None => ring.current()?,
        };
        Some(NamedKey { id: next.id.clone(), key: next.secret.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{first_file, with_new_key, with_retired_key};
    use super::*;
    use crate::base::{SeededEntropy, Timestamp};

    #[test]
    fn a_retired_key_opens_and_wraps_no_more() {
        let first = first_file(Timestamp::from_millis(1), &SeededEntropy::new(1));
        let old = KeyRing::parse(&first).unwrap().current().unwrap().clone();
        let later = Timestamp::from_millis(2);
        let (both, new) = with_new_key(&first, None, later, &SeededEntropy::new(2)).unwrap();
        let shared = SharedKeyRing::new(KeyRing::parse(&both).unwrap());
        assert_eq!(shared.current().map(|key| key.id), Some(new.clone()));
        assert_eq!(shared.to_wrap(&old.id), Some(old.secret.clone()));
        shared.replace(KeyRing::parse(&with_retired_key(&both, &old.id).unwrap()).unwrap());
        assert_eq!((shared.to_wrap(&old.id), shared.to_open(&old.id)), (None, Some(old.secret)));
        assert_eq!(shared.successor(&old.id).map(|key| key.id), Some(new.clone()));
        assert!(shared.successor("none").is_none());
        assert!(shared.to_wrap("none").is_none() && shared.to_open("none").is_none());
        shared.replace(KeyRing::default());
        assert!(shared.current().is_none() && shared.to_open(&new).is_none());
    }

    #[test]
    fn a_key_that_was_given_up_stays_out_although_its_file_has_it() {
        let first = first_file(Timestamp::from_millis(1), &SeededEntropy::new(1));
        let old = KeyRing::parse(&first).unwrap().current().unwrap().id.clone();
        let later = Timestamp::from_millis(2);
        let (both, new) = with_new_key(&first, None, later, &SeededEntropy::new(2)).unwrap();
        let ring = KeyRing::parse(&with_retired_key(&both, &old).unwrap()).unwrap();
        let shared = SharedKeyRing::new(ring.clone());
        assert!(shared.give_up(&new).is_none(), "it is not retired");
        let key = shared.give_up(&old).unwrap();
        assert_eq!(shared.destroyed(), [""; 0], "it may come back");
        assert_eq!(shared.replace(ring.clone()), std::slice::from_ref(&old));
        assert!(shared.to_open(&old).is_none() && shared.to_open(&new).is_some());
        shared.take_back(key);
        assert_eq!((*shared.get()).clone(), ring);
        assert_eq!(shared.replace(ring.clone()), [""; 0]);
        shared.give_up(&old).unwrap();
        shared.end(&old);
        assert_eq!((shared.replace(ring), shared.destroyed()), (vec![old.clone()], vec![old.clone()]));
        assert!(shared.to_open(&old).is_none());
    }
}
