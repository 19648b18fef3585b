//! A copy-on-write tree of leaves. A clone is a snapshot: it costs nothing, and nothing that is done to the other one
//! visible in it. A change copies the nodes on its way down that a snapshot still holds, and writes one leaf anew.
//!
//! A key *visible* when its first entry hides nothing ([`record::is_hidden`]). The tree knows where none does: so a search for the next
//! one that visible never reads through those that do not.

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
/// Neighbours are merged when one of them is less than a quarter full and both together fill no more than this share of one.
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

    /// The memory that it takes up, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes a change. Whether the entry that remove was found; where it stands in another leaf than the one that insert, it
    /// is not, and needs a change of its own.
    pub(super) fn change(&mut self, change: &LeafChange<'_>) -> bool {
        let mut edit = TreeEdit::new(change);
        match &mut self.root {
            None => {
                self.root = edit.first_leaf().map(|leaf| Child::of_leaf(leaf, None));
                edit.delta.by(self.root.iter());
            }
            Some(root) => {
                if let Some(split) = edit.apply(root, None) {
                    let left = root.clone();
                    *root = Child::of_node(Node::of_two(left, split));
                    edit.delta.by([&*root]);
                }
            }
        }
        edit.delta.change(&mut self.bytes);
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

    /// The last leaf that begins before `at`, in which the entry before `at` stands.
    pub(super) fn leaf_before(&self, at: EntryPos<'_>) -> Option<&Leaf> {
        self.root.as_ref()?.leaf_before(at)
    }

    /// A scan that stands nowhere yet.
    pub(super) fn scan(&self) -> TreeScan<'_> {
        TreeScan::new(self)
    }
}
