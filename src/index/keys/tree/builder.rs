//! Building a tree from entries in order.

use arrayvec::ArrayVec;

use super::node::{Child, Node};
use super::separators::Separator;
use super::{CHILDREN_MAX, Tree};
use crate::index::keys::leaf::{BLOCK_ENTRIES, BYTES_MAX, ENTRIES_MAX, EntryPos, LeafBuilder};

/// Builds a tree from entries in order: leaves and nodes are full and written once.
#[derive(Default)]
pub(in crate::index::keys) struct TreeBuilder {
    leaf: LeafBuilder,
    /// The separator before the current leaf.
    separator: Option<Separator>,
    /// The open nodes, lowest level first.
    open: Vec<OpenNode>,
    len: u64,
}

/// A node that is being filled.
#[derive(Default)]
struct OpenNode {
    /// The separator before it.
    before: Option<Separator>,
    separators: Vec<Separator>,
    children: ArrayVec<Child, { CHILDREN_MAX + 1 }>,
}

impl OpenNode {
    fn close(self) -> (Option<Separator>, Child) {
        let separators = self.separators.iter().map(Separator::at).collect();
        (self.before, Child::of_node(Node { separators, children: self.children }))
    }
}

impl TreeBuilder {
    /// The position of the last entry.
    pub(in crate::index::keys) fn last(&self) -> Option<EntryPos<'_>> {
        (self.len > 0).then(|| self.leaf.last())
    }

    pub(in crate::index::keys) fn push(&mut self, at: EntryPos<'_>, value: &[u8]) {
        debug_assert!(self.last().is_none_or(|last| last < at), "entries come in order");
        let full = self.leaf.len() >= ENTRIES_MAX || self.leaf.byte_len() + value.len() > BYTES_MAX;
        if full && self.leaf.len() > 0 {
            let next = Separator::between(self.leaf.last(), at);
            let leaf = self.close_leaf();
            let before = self.separator.replace(next);
            self.push_child(0, before, leaf);
        }
        self.leaf.push(at, value, BLOCK_ENTRIES);
        self.len += 1;
    }

    fn close_leaf(&mut self) -> Child {
        Child::of_leaf(self.leaf.finish(), self.separator.as_ref().map(Separator::at))
    }

    fn push_child(&mut self, level: usize, before: Option<Separator>, child: Child) {
        if self.open.len() == level {
            self.open.push(OpenNode::default());
        }
        if self.open[level].children.len() == CHILDREN_MAX {
            let (separator, full) = std::mem::take(&mut self.open[level]).close();
            self.push_child(level + 1, separator, full);
        }
        let node = &mut self.open[level];
        match before {
            // The separator before the first child of a node is one level up, where it divides the
            // nodes.
            Some(separator) if !node.children.is_empty() => node.separators.push(separator),
            before => node.before = before,
        }
        node.children.push(child);
    }

    pub(in crate::index::keys) fn finish(mut self) -> Tree {
        let mut root = None;
        if self.leaf.len() > 0 {
            let leaf = self.close_leaf();
            root = Some((self.separator.take(), leaf));
        }
        let mut level = 0;
        while let Some((before, child)) = root.take_if(|_| level < self.open.len()) {
            self.push_child(level, before, child);
            root = Some(std::mem::take(&mut self.open[level]).close());
            level += 1;
        }
        let root = root.map(|(_, child)| child);
        let bytes = root.as_ref().map_or(0, Child::memory_bytes);
        let mut tree = Tree { root, len: self.len, bytes };
        // A level may have been closed over a single child.
        tree.shrink_root();
        tree
    }
}
