//! The ring of a running server.

use std::sync::{Arc, RwLock};

use super::KeyRing;
use crate::base::NOT_POISONED;
use crate::crypto::{KeySource, MasterKey, NamedKey};

/// The ring in effect, which is replaced as a whole when its file is read again.
#[derive(Debug, Default)]
pub struct SharedKeyRing(RwLock<Arc<KeyRing>>);

impl SharedKeyRing {
    /// This ring.
    pub fn new(ring: KeyRing) -> Self {
        Self(RwLock::new(Arc::new(ring)))
    }

    /// The ring in effect.
    pub fn get(&self) -> Arc<KeyRing> {
        Arc::clone(&self.0.read().expect(NOT_POISONED))
    }

    /// Puts a changed ring into effect, apart from other changes.
    pub fn edit(&self, change: impl FnOnce(&KeyRing) -> KeyRing) {
        let mut ring = self.0.write().expect(NOT_POISONED);
        *ring = Arc::new(change(&ring));
    }

    /// Puts another ring into effect. Whoever took the one before goes on with it.
    pub fn replace(&self, ring: KeyRing) {
        *self.0.write().expect(NOT_POISONED) = Arc::new(ring);
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
}
