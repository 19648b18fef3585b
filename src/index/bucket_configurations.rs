//! The configurations of a bucket, with their parsed forms.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::format::BucketConfigurationKind;

/// The memory of a configuration beside its document: its place in the map and small parsed forms.
const CONFIGURATION_BYTES: u64 = 256;
/// A bound on the memory of a document and its parsed form, as a multiple of the document.
const PARSED_SHARE: u64 = 8;

/// One configuration of a bucket. It never changes; another document makes another configuration.
pub struct BucketConfiguration {
    document: Box<[u8]>,
    parsed: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl BucketConfiguration {
    pub(super) fn new(document: &[u8]) -> Self {
        Self { document: document.into(), parsed: OnceLock::new() }
    }

    /// The document as it was stored.
    pub fn document(&self) -> &[u8] {
        &self.document
    }

    /// The parsed form. The first call parses; later ones only read, without a lock.
    ///
    /// # Panics
    /// When another call has parsed the same configuration to another type.
    pub fn parsed<T: Any + Send + Sync>(&self, parse: impl FnOnce(&[u8]) -> T) -> &T {
        let parsed = self.parsed.get_or_init(|| Box::new(parse(&self.document)));
        parsed.downcast_ref().expect("a kind of configuration has one parsed form")
    }
}

/// The memory that a configuration with a document of `len` bytes may take, in bytes.
pub fn configuration_bytes(len: usize) -> u64 {
    CONFIGURATION_BYTES + PARSED_SHARE * len as u64
}

/// The configurations of a bucket. A clone is a snapshot and costs O(1); without configurations it
/// costs no memory.
#[derive(Clone, Default)]
pub struct BucketConfigurations(Option<Arc<ConfigurationMap>>);

#[derive(Clone, Default)]
struct ConfigurationMap {
    kinds: BTreeMap<BucketConfigurationKind, Arc<BucketConfiguration>>,
    /// The sum of [`configuration_bytes`], since every change of the bucket asks for it.
    memory_bytes: u64,
}

impl BucketConfigurations {
    /// Whether the bucket has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The configuration of this kind.
    pub fn get(&self, kind: BucketConfigurationKind) -> Option<&Arc<BucketConfiguration>> {
        self.0.as_ref()?.kinds.get(&kind)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (BucketConfigurationKind, &Arc<BucketConfiguration>)> {
        self.0.iter().flat_map(|all| all.kinds.iter()).map(|(kind, configuration)| (*kind, configuration))
    }

    pub(super) fn set(&mut self, kind: BucketConfigurationKind, document: Option<&[u8]>) {
        let all = Arc::make_mut(self.0.get_or_insert_default());
        let bytes_of =
            |configuration: &BucketConfiguration| configuration_bytes(configuration.document.len());
        if let Some(old) = all.kinds.remove(&kind) {
            all.memory_bytes -= bytes_of(&old);
        }
        if let Some(document) = document {
            let new = BucketConfiguration::new(document);
            all.memory_bytes += bytes_of(&new);
            all.kinds.insert(kind, Arc::new(new));
        }
        if all.kinds.is_empty() {
            self.0 = None;
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |all| all.memory_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_parsed_once() {
        let configuration = BucketConfiguration::new(b"17");
        let parse = |document: &[u8]| document.len();
        assert_eq!(configuration.parsed(parse), &2);
        assert_eq!(configuration.parsed::<usize>(|_| unreachable!("it is parsed")), &2);
        assert_eq!(configuration.document(), b"17");
    }

    #[test]
    fn a_snapshot_keeps_its_configurations_and_none_cost_nothing() {
        let mut all = BucketConfigurations::default();
        all.set(BucketConfigurationKind::Cors, None);
        assert!(all.is_empty() && all.memory_bytes() == 0);
        all.set(BucketConfigurationKind::Cors, Some(b"rules"));
        let before = all.clone();
        all.set(BucketConfigurationKind::Cors, Some(b"others"));
        let document = |all: &BucketConfigurations| {
            all.get(BucketConfigurationKind::Cors).map(|found| found.document().to_vec())
        };
        assert_eq!((document(&before), document(&all)), (Some(b"rules".to_vec()), Some(b"others".to_vec())));
        assert_eq!(all.memory_bytes(), configuration_bytes(6));
        all.set(BucketConfigurationKind::Cors, None);
        assert!(all.is_empty() && all.memory_bytes() == 0 && !before.is_empty());
    }
}
