//! The ring of a running server.

use std::sync::{Arc, RwLock};

use super::KeyRing;
use crate::base::NOT_POISONED;

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

    /// Puts another ring into effect. Whoever took the one before goes on with it.
    pub fn replace(&self, ring: KeyRing) {
        *self.0.write().expect(NOT_POISONED) = Arc::new(ring);
    }
}
