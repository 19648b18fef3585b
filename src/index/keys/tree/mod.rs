//! A copy-on-write tree of leaves. A clone is a snapshot: it costs O(1) and does not see later
//! changes. A change copies the nodes on its path that a snapshot shares, and rewrites one leaf.
//!
//! A key is *visible* unless its first entry is a delete marker
//! ([`is_hidden`](crate::index::keys::record::is_hidden)). Each leaf and node knows whether it
//! holds the start of a visible key, so a search for the next visible key skips the others.

mod builder;
mod edit;
mod memory_delta;
mod merge;
mod node;
mod scan;
mod separators;
#[cfg(test)]
mod tests;

use crate::index::keys::leaf::{EntryPos, Leaf};
pub(super) use builder::TreeBuilder;
pub(super) use edit::LeafChange;
use edit::TreeEdit;
use node::{Child, Node};
pub(super) use scan::TreeScan;

/// Children of a node. Copying a node touches each of them.
const CHILDREN_MAX: usize = 16;
/// Neighbours are merged when one of them is less than a quarter full and both together fill no
/// more than this share of one.
const MERGED_SHARE: (usize, usize) = (3, 4);

/// Entries in order.
#[derive(Clone, Default)]
pub(super) struct Tree {
    root: Option<Child>,
    len: u64,
    /// The memory of its leaves and nodes.
    bytes: u64,
}

impl Tree {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Memory in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes a change. Returns whether the entry to remove was found; if it is in another leaf than
    /// the inserted one, it needs a change of its own.
    pub(super) fn change(&mut self, change: &LeafChange<'_>) -> bool {
        let mut edit = TreeEdit::new(change);
        match &mut self.root {
            None => {
                self.root = edit.first_leaf().map(|leaf| Child::of_leaf(leaf, None));
                edit.delta.add(self.root.iter());
            }
            Some(root) => {
                if let Some(split) = edit.apply(root, None) {
                    let left = root.clone();
                    *root = Child::of_node(Node::of_two(left, split));
                    edit.delta.add([&*root]);
                }
            }
        }
        edit.delta.apply_to(&mut self.bytes);
        self.shrink_root();
        self.len += u64::from(change.insert.is_some());
        self.len -= u64::from(edit.removed) + u64::from(edit.replaced);
        edit.removed
    }

    fn shrink_root(&mut self) {
        while let Some(Child::Node(node, _)) = &self.root {
            if node.children.len() > 1 {
                return;
            }
            let only = node.children.first().cloned();
            self.bytes -= self.root.as_ref().map_or(0, Child::own_bytes);
            self.root = only;
        }
        let empty = self.root.take_if(|root| root.is_empty());
        self.bytes -= empty.map_or(0, |root| root.own_bytes());
    }

    /// The leaf that holds the last entry before `at`.
    pub(super) fn leaf_before(&self, at: EntryPos<'_>) -> Option<&Leaf> {
        self.root.as_ref()?.leaf_before(at)
    }

    /// A scan without a position.
    pub(super) fn scan(&self) -> TreeScan<'_> {
        TreeScan::new(self)
    }
}
