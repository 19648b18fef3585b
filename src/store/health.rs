//! What the store knows of its own state.

use crate::log::Damage;

/// A store's state at one moment.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// Why no writes are taken, if so.
    pub read_only: Option<String>,
    /// Damage found since the store was opened, each place once.
    pub damage: Vec<Damage>,
    /// Groups that recovery dropped because a crash had left them unfinished: 0 or 1.
    pub torn_groups: u64,
    /// The sequence of the last group that is durable.
    pub sequence: u64,
    /// Buckets.
    pub buckets: u64,
    /// Versions, delete markers included.
    pub versions: u64,
    /// Bytes of extents that versions refer to.
    pub live_bytes: u64,
    /// Segments.
    pub segments: u64,
}
