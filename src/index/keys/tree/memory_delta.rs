//! The change of a tree's memory by an edit.

use super::node::Child;

/// The memory that an edit adds and frees, in bytes.
#[derive(Default)]
pub(super) struct MemoryDelta {
    more: u64,
    less: u64,
}

impl MemoryDelta {
    pub(super) fn add<'c>(&mut self, made: impl IntoIterator<Item = &'c Child>) {
        self.more += made.into_iter().map(Child::own_bytes).sum::<u64>();
    }

    pub(super) fn subtract<'c>(&mut self, dropped: impl IntoIterator<Item = &'c Child>) {
        self.less += dropped.into_iter().map(Child::own_bytes).sum::<u64>();
    }

    pub(super) fn apply_to(&self, bytes: &mut u64) {
        *bytes = *bytes + self.more - self.less;
    }
}
