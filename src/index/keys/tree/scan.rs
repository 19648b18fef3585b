//! Reading the entries of a tree in order.

use super::Tree;
use super::node::{Child, Node};
use crate::index::keys::leaf::{EntryPos, LeafScan};

/// Reads the entries of a tree in order.
pub(in crate::index::keys) struct TreeScan<'t> {
    tree: &'t Tree,
    /// The nodes above the leaf, from the root, each with the index of its next child.
    path: Vec<(&'t Node, usize)>,
    leaf: LeafScan<'t>,
}

impl<'t> TreeScan<'t> {
    /// A scan without a position.
    pub(super) fn new(tree: &'t Tree) -> Self {
        Self { tree, path: Vec::with_capacity(8), leaf: LeafScan::empty() }
    }

    /// Seeks the first entry at or after `at`.
    pub(in crate::index::keys) fn seek(&mut self, at: EntryPos<'_>) {
        self.path.clear();
        let Some(root) = &self.tree.root else {
            return;
        };
        let mut child = root;
        loop {
            match child {
                Child::Leaf(leaf, _) => return self.leaf.seek(leaf, at),
                Child::Node(node, _) => {
                    let nth = node.separators.count_up_to(at);
                    self.path.push((node, nth + 1));
                    child = &node.children[nth];
                }
            }
        }
    }

    /// Advances to the next entry; `false` at the end.
    pub(in crate::index::keys) fn next(&mut self) -> bool {
        while !self.leaf.next() {
            if !self.enter_next_leaf(|_| true) {
                return false;
            }
        }
        true
    }

    /// As `next`, but skips leaves in which no visible key starts.
    pub(in crate::index::keys) fn next_in_visible_leaves(&mut self) -> bool {
        while !self.leaf.next() {
            if !self.enter_next_leaf(Child::visible) {
                return false;
            }
            // The leaves that were passed over may end with the key that this one begins with: then
            // its first entry is not the newest of the key.
            if let Some(key) = self.before_leaf().and_then(EntryPos::within) {
                self.leaf.continue_key(key);
            }
        }
        true
    }

    fn enter_next_leaf(&mut self, wanted: impl Fn(&Child) -> bool) -> bool {
        while let Some((node, nth)) = self.path.last_mut() {
            let Some(child) = node.children.get(*nth) else {
                self.path.pop();
                continue;
            };
            *nth += 1;
            match child {
                child if !wanted(child) => {}
                Child::Node(node, _) => self.path.push((node, 0)),
                Child::Leaf(leaf, _) => {
                    self.leaf.enter(leaf);
                    return true;
                }
            }
        }
        false
    }

    /// The separator before the current leaf.
    fn before_leaf(&self) -> Option<EntryPos<'t>> {
        self.path.iter().rev().find_map(|(node, next)| node.separators.before(next - 1))
    }

    /// Whether the last two steps went to entries of the same key.
    pub(in crate::index::keys) fn is_same_key(&self) -> bool {
        self.leaf.is_same_key()
    }

    /// The position of the current entry.
    pub(in crate::index::keys) fn at(&self) -> EntryPos<'_> {
        self.leaf.at()
    }

    pub(in crate::index::keys) fn key(&self) -> &[u8] {
        self.leaf.at().key
    }

    /// The value of the current entry.
    pub(in crate::index::keys) fn value(&self) -> &'t [u8] {
        self.leaf.value()
    }
}
