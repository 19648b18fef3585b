//! The parts of a tree: leaves and nodes.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::CHILDREN_MAX;
use super::separators::{Separator, Separators};
use crate::index::keys::leaf::{BYTES_MAX, ENTRIES_MAX, EntryPos, Leaf};
use crate::index::keys::record;
use crate::index::memory::shared_bytes;

/// A part of the tree, and whether a key that begins in it visible.
#[derive(Clone)]
pub(super) enum Child {
    Leaf(Leaf, bool),
    Node(Arc<Node>, bool),
}

/// Children of one kind, and a separator between each two: no entry to its left is at or behind it, none to its right
/// before it. One that does not stand before all entries of its key tells that the last entry to its left is of that key: so
/// the separator before a leaf tells whether its first key begins in it.
///
/// All that a search looks at as a rule lies in one piece of memory: elsewhere means another fetch from it.
#[derive(Clone, Default)]
pub(super) struct Node {
    pub(super) separators: Separators,
    /// Room for one too many: it is split then.
    pub(super) children: ArrayVec<Child, { CHILDREN_MAX + 1 }>,
}

/// What a change leaves behind it to the right of a child that became too large.
pub(super) struct NodeSplit {
    pub(super) separator: Separator,
    pub(super) right: Child,
}

impl Child {
    /// `before` is what stands before it.
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
            // Where the child that `at` belongs to begins with it, the entry before it is the last of the one before.
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

    /// Sees again what visible, when it has changed or `before` has.
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

    /// Whether its last entry is one of `key`.
    pub(super) fn ends_with(&self, key: &[u8]) -> bool {
        match self {
            Self::Leaf(leaf, _) => leaf.scan_to_last(leaf.blocks()).at().key == key,
            Self::Node(node, _) => node.children.last().is_some_and(|last| last.ends_with(key)),
        }
    }

    /// The memory that it takes up without its children.
    pub(super) fn own_bytes(&self) -> u64 {
        match self {
            Self::Leaf(leaf, _) => shared_bytes(leaf.byte_len()),
            Self::Node(node, _) => shared_bytes(size_of::<Node>()) + node.separators.memory_bytes(),
        }
    }

    /// The memory that it takes up, counted.
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

    /// How full it is, of 1,000.
    pub(super) fn fill(&self) -> usize {
        match self {
            Self::Leaf(leaf, _) => (leaf.len() * 1000 / ENTRIES_MAX).max(leaf.byte_len() * 1000 / BYTES_MAX),
            Self::Node(node, _) => node.children.len() * 1000 / CHILDREN_MAX,
        }
    }
}

/// Whether a key that begins in the leaf visible. Its first one does not begin there if `before` stands among the entries of
/// that key.
fn has_visible_key(leaf: &Leaf, before: Option<EntryPos<'_>>) -> bool {
    let mut scan = leaf.scan(0..leaf.blocks());
    if let Some(key) = before.and_then(EntryPos::within) {
        scan.follow(key);
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

    /// To be called before it is copied, which counts a reference in each child.
    pub(super) fn touch_leaves(&self) {
        for child in &self.children {
            if let Child::Leaf(leaf, _) = child {
                leaf.touch();
            }
        }
    }

    pub(super) fn insert_after(&mut self, at: usize, split: NodeSplit) {
        let (before, behind) = (self.separators.iter().take(at), self.separators.iter().skip(at));
        self.separators = before.chain([split.separator.at()]).chain(behind).collect();
        self.children.insert(at + 1, split.right);
    }

    /// The right half, where it has too many children.
    pub(super) fn split(&mut self) -> Option<NodeSplit> {
        if self.children.len() <= CHILDREN_MAX {
            return None;
        }
        let middle = self.children.len() / 2;
        let children = self.children.drain(middle..).collect();
        let separator = Separator::from(self.separators.get(middle - 1));
        let separators = self.separators.iter().skip(middle).collect();
        self.separators = self.separators.iter().take(middle - 1).collect();
        Some(NodeSplit { separator, right: Child::of_node(Self { separators, children }) })
    }

    /// Drops a child that has become empty. What was before it is now before the next one.
    pub(super) fn drop_empty(&mut self, at: usize, before: Option<EntryPos<'_>>) {
        self.children.remove(at);
        self.separators = self.separators.without(at.min(self.children.len().saturating_sub(1)));
        if let Some(next) = self.children.get_mut(at) {
            next.refresh_first_leaf(self.separators.before(at).or(before));
        }
    }

    /// Puts the separator behind a child before all entries of `key`, if it stood among them and the child has none left.
    pub(super) fn tighten_separator(&mut self, at: usize, key: &[u8]) {
        let within = at < self.separators.len() && self.separators.get(at).within() == Some(key);
        if within && !self.children[at].ends_with(key) {
            let (before, behind) = (self.separators.iter().take(at), self.separators.iter().skip(at + 1));
            self.separators = before.chain([EntryPos::first_of(key)]).chain(behind).collect();
            self.children[at + 1].refresh_first_leaf(Some(EntryPos::first_of(key)));
        }
    }
}
