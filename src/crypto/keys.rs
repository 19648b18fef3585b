//! Keys in memory. They are wiped when they are dropped, and show nothing of themselves.

use std::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::base::Entropy;

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// A key that wraps the keys of objects: one of the ring, or a customer's.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; KEY_BYTES]>);

impl MasterKey {
    /// The key with these bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// A new key. `entropy` has to be the system's.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        Self(drawn(entropy))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl Eq for MasterKey {}

impl PartialEq for MasterKey {
    /// Takes the same time for all keys.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&*other.0).into()
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey")
    }
}

/// A key of the ring, with its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedKey {
    /// Its id.
    pub id: String,
    /// The key.
    pub key: MasterKey,
}

/// The key of an object or an upload, or that of one write. Records have it wrapped.
#[derive(Clone)]
pub struct DataKey {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    reach: KeyReach,
}

/// What a wrapped key opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyReach {
    /// All writes of an object or upload, whose keys are derived from it.
    Object,
    /// One write.
    Write,
}

impl DataKey {
    /// A new key of an object. `entropy` has to be the system's.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        Self { bytes: drawn(entropy), reach: KeyReach::Object }
    }

    pub(super) fn new(bytes: [u8; KEY_BYTES], reach: KeyReach) -> Self {
        Self { bytes: Zeroizing::new(bytes), reach }
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }

    /// What it opens.
    pub fn reach(&self) -> KeyReach {
        self.reach
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey")
    }
}

fn drawn(entropy: &dyn Entropy) -> Zeroizing<[u8; KEY_BYTES]> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    entropy.fill(&mut *bytes);
    bytes
}

/// A ring of keys, by their ids.
pub trait KeySource: Send + Sync {
    /// The key for objects that name none; `None` without a ring.
    fn current(&self) -> Option<NamedKey>;

    /// A key that new objects may have: one that was not retired.
    fn to_wrap(&self, id: &str) -> Option<MasterKey>;

    /// A key that opens objects: a retired one does, too.
    fn to_open(&self, id: &str) -> Option<MasterKey>;

    /// The key that wraps in place of one of the ring: the newest of its name, or the current one.
    /// `None` where no key is, or where the ring lacks the one of that id.
    fn successor(&self, id: &str) -> Option<NamedKey>;
}
