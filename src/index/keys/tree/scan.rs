//! Reading the entries of a tree in order.

use super::Tree;
use super::node::{Child, Node};
use crate::index::keys::leaf::{EntryPos, LeafScan};

/// Reads entries in order.
pub(in crate::index::keys) struct TreeScan<'t> {
    tree: &'t Tree,
    /// The nodes above the leaf, from the root, and which child of each insert next.
    path: Vec<(&'t Node, usize)>,
    leaf: LeafScan<'t>,
}

impl<'t> TreeScan<'t> {
    /// A scan without a position.
    pub(super) fn new(tree: &'t Tree) -> Self {
        Self { tree, path: Vec::with_capacity(8), leaf: LeafScan::nowhere() }
    }

    /// Goes before the first entry at or behind `at`.
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

    /// Goes to the next entry; `false` when there is none.
    pub(in crate::index::keys) fn next(&mut self) -> bool {
        while !self.leaf.next() {
            if !self.enter_next_leaf(|_| true) {
                return false;
            }
        }
        true
    }

    /// The same, but past leaves in which no key that visible begins.
    pub(in crate::index::keys) fn next_in_visible_leaves(&mut self) -> bool {
        while !self.leaf.next() {
            if !self.enter_next_leaf(Child::visible) {
                return false;
            }
            if let Some(key) = self.before_leaf().and_then(EntryPos::within) {
                self.leaf.follow(key);
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

    /// What stands before the leaf that it is in.
    fn before_leaf(&self) -> Option<EntryPos<'t>> {
        self.path.iter().rev().find_map(|(node, next)| node.separators.before(next - 1))
    }

    /// Whether the last step, and the one before it, went to entries of one key.
    pub(in crate::index::keys) fn is_same_key(&self) -> bool {
        self.leaf.is_same_key()
    }

    /// Where it stands: at the entry that the last step went to.
    pub(in crate::index::keys) fn at(&self) -> EntryPos<'_> {
        self.leaf.at()
    }

    pub(in crate::index::keys) fn key(&self) -> &[u8] {
        self.leaf.at().key
    }

    /// What the entry holds.
    pub(in crate::index::keys) fn value(&self) -> &'t [u8] {
        self.leaf.value()
    }
}
