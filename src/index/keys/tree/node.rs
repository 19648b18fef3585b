//! Leaves and nodes.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::CHILDREN_MAX;
use super::separators::{Separator, Separators};
use crate::index::keys::leaf::{BYTES_MAX, ENTRIES_MAX, EntryPos, Leaf};
use crate::index::keys::record;
use crate::index::memory::shared_bytes;

/// A leaf or node, and whether it holds the start of a visible key.
#[derive(Clone)]
pub(super) enum Child {
    Leaf(Leaf, bool),
    Node(Arc<Node>, bool),
}

/// Children of one kind, with a separator between each two: entries of the left child are before
/// it, entries of the right child at or after it. A separator inside a key, not before all its
/// entries, means that the left child ends with that key. So the separator before a leaf shows
/// whether the leaf's first key starts in it.
///
/// Everything that most searches read is in one allocation, which saves a cache miss.
#[derive(Clone, Default)]
pub(super) struct Node {
    pub(super) separators: Separators,
    /// One more than the maximum, until the node is split.
    pub(super) children: ArrayVec<Child, { CHILDREN_MAX + 1 }>,
}

/// The right half of a child that was split.
pub(super) struct NodeSplit {
    pub(super) separator: Separator,
    pub(super) right: Child,
}

impl Child {
    /// A leaf after the separator `before`.
    pub(super) fn of_leaf(leaf: Leaf, before: Option<EntryPos<'_>>) -> Self {
        let visible = has_visible_key(&leaf, before);
        Self::Leaf(leaf, visible)
    }

    pub(super) fn of_node(node: Node) -> Self {
        let visible = node.visible();
        Self::Node(Arc::new(node), visible)
    }

    pub(super) fn leaf_before(&self, at: EntryPos<'_>) -> Option<&Leaf> {
        match self {
            Self::Leaf(leaf, _) => (leaf.block_pos(0) < at).then_some(leaf),
            // If `at` is the first position of its child, the entry before it is the last one of
            // the previous child.
            Self::Node(node, _) => {
                let upto = &node.children[..=node.separators.count_up_to(at)];
                upto.iter().rev().find_map(|child| child.leaf_before(at))
            }
        }
    }

    pub(super) fn visible(&self) -> bool {
        match self {
            Self::Leaf(_, visible) | Self::Node(_, visible) => *visible,
        }
    }

    /// Recomputes the visibility after a change of the child or of `before`.
    pub(super) fn refresh(&mut self, before: Option<EntryPos<'_>>) {
        match self {
            Self::Leaf(leaf, visible) => *visible = has_visible_key(leaf, before),
            Self::Node(node, visible) => *visible = node.visible(),
        }
    }

    /// The same, down to the first leaf.
    pub(super) fn refresh_first_leaf(&mut self, before: Option<EntryPos<'_>>) {
        if let Self::Node(node, _) = self {
            Arc::make_mut(node).children[0].refresh_first_leaf(before);
        }
        self.refresh(before);
    }

    /// Whether its last entry belongs to `key`.
    pub(super) fn ends_with(&self, key: &[u8]) -> bool {
        match self {
            Self::Leaf(leaf, _) => leaf.scan_to_last(leaf.blocks()).at().key == key,
            Self::Node(node, _) => node.children.last().is_some_and(|last| last.ends_with(key)),
        }
    }

    /// Memory without the children, in bytes.
    pub(super) fn own_bytes(&self) -> u64 {
        match self {
            Self::Leaf(leaf, _) => shared_bytes(leaf.byte_len()),
            Self::Node(node, _) => shared_bytes(size_of::<Node>()) + node.separators.memory_bytes(),
        }
    }

    /// Memory with the children, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let of_children = match self {
            Self::Leaf(..) => 0,
            Self::Node(node, _) => node.children.iter().map(Self::memory_bytes).sum(),
        };
        self.own_bytes() + of_children
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Leaf(leaf, _) => leaf.len() == 0,
            Self::Node(node, _) => node.children.is_empty(),
        }
    }

    /// The fill level in thousandths.
    pub(super) fn fill(&self) -> usize {
        match self {
            Self::Leaf(leaf, _) => (leaf.len() * 1000 / ENTRIES_MAX).max(leaf.byte_len() * 1000 / BYTES_MAX),
            Self::Node(node, _) => node.children.len() * 1000 / CHILDREN_MAX,
        }
    }
}

/// Whether a visible key starts in the leaf. The leaf's first key starts elsewhere if `before` is
/// inside that key.
fn has_visible_key(leaf: &Leaf, before: Option<EntryPos<'_>>) -> bool {
    let mut scan = leaf.scan(0..leaf.blocks());
    if let Some(key) = before.and_then(EntryPos::within) {
        scan.continue_key(key);
    }
    while scan.next() {
        if !scan.is_same_key() && !record::is_hidden(scan.value()) {
            return true;
        }
    }
    false
}

impl Node {
    pub(super) fn of_two(left: Child, split: NodeSplit) -> Self {
        let mut node = Self::default();
        node.children.push(left);
        node.insert_after(0, split);
        node
    }

    pub(super) fn visible(&self) -> bool {
        self.children.iter().any(Child::visible)
    }

    /// Loads the leaves into the cache before a copy of the node, which increments a reference
    /// count in each.
    pub(super) fn touch_leaves(&self) {
        for child in &self.children {
            if let Child::Leaf(leaf, _) = child {
                leaf.touch();
            }
        }
    }

    pub(super) fn insert_after(&mut self, at: usize, split: NodeSplit) {
        let before = self.separators.iter().take(at);
        let after = self.separators.iter().skip(at);
        self.separators = before.chain([split.separator.at()]).chain(after).collect();
        self.children.insert(at + 1, split.right);
    }

    /// Splits off the right half, if there are too many children.
    pub(super) fn split(&mut self) -> Option<NodeSplit> {
        if self.children.len() <= CHILDREN_MAX {
            return None;
        }
        let middle = self.children.len() / 2;
        let children = self.children.drain(middle..).collect();
        // The separator between the halves moves up: it is in neither of them.
        let separator = Separator::from(self.separators.get(middle - 1));
        let separators = self.separators.iter().skip(middle).collect();
        self.separators = self.separators.iter().take(middle - 1).collect();
        Some(NodeSplit { separator, right: Child::of_node(Self { separators, children }) })
    }

    /// Removes an empty child. Its separator becomes the next one's.
    pub(super) fn drop_empty(&mut self, at: usize, before: Option<EntryPos<'_>>) {
        self.children.remove(at);
        // The last child has no separator of its own after it: there the one before it goes.
        self.separators = self.separators.without(at.min(self.children.len().saturating_sub(1)));
        if let Some(next) = self.children.get_mut(at) {
            next.refresh_first_leaf(self.separators.before(at).or(before));
        }
    }

    /// Moves the separator after a child before all entries of `key`, if it was inside that key and
    /// the child has no entry of it left.
    pub(super) fn tighten_separator(&mut self, at: usize, key: &[u8]) {
        // A separator inside a key says that the left child ends with it. Once that is no longer
        // so, the first version at the right is the newest one, and would not be taken for it.
        let within = at < self.separators.len() && self.separators.get(at).within() == Some(key);
        if within && !self.children[at].ends_with(key) {
            let before = self.separators.iter().take(at);
            let after = self.separators.iter().skip(at + 1);
            self.separators = before.chain([EntryPos::first_of(key)]).chain(after).collect();
            self.children[at + 1].refresh_first_leaf(Some(EntryPos::first_of(key)));
        }
    }
}
