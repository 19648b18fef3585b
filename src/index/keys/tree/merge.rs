//! Merging nodes and leaves that have become small.

use super::MERGED_SHARE;
use super::memory_delta::MemoryDelta;
use super::node::{Child, Node};
use crate::index::keys::leaf::{EntryPos, Leaf, LeafBuilder};

impl Node {
    /// Merges a small child with a neighbour, if both fit into one.
    pub(super) fn merge_small(&mut self, at: usize, before: Option<EntryPos<'_>>, delta: &mut MemoryDelta) {
        let fits =
            |a: usize, b: usize| a.min(b) * 4 <= 1000 && (a + b) * MERGED_SHARE.1 <= 1000 * MERGED_SHARE.0;
        let fill = self.children[at].fill();
        if fill * 4 > 1000 {
            return;
        }
        let left = [at.checked_sub(1), Some(at)].into_iter().flatten();
        let mut pairs = left.filter(|left| left + 1 < self.children.len());
        if let Some(left) =
            pairs.find(|left| fits(self.children[*left].fill(), self.children[left + 1].fill()))
        {
            delta.subtract(&self.children[left..=left + 1]);
            self.merge(left, before);
            delta.add([&self.children[left]]);
        }
    }

    /// Merges a child with its right neighbour.
    fn merge(&mut self, left: usize, before: Option<EntryPos<'_>>) {
        let separator = self.separators.get(left);
        let joined = match (&self.children[left], &self.children[left + 1]) {
            (Child::Leaf(a, _), Child::Leaf(b, _)) => {
                Child::of_leaf(merge_leaves(a, b), self.separators.before(left).or(before))
            }
            (Child::Node(a, _), Child::Node(b, _)) => Child::of_node(a.merged(separator, b)),
            _ => unreachable!("the children of a node are of one kind"),
        };
        self.children[left] = joined;
        self.children.remove(left + 1);
        self.separators = self.separators.without(left);
    }

    fn merged(&self, separator: EntryPos<'_>, right: &Self) -> Self {
        Self {
            separators: self.separators.iter().chain([separator]).chain(right.separators.iter()).collect(),
            children: self.children.iter().chain(&right.children).cloned().collect(),
        }
    }
}

fn merge_leaves(a: &Leaf, b: &Leaf) -> Leaf {
    let mut builder = LeafBuilder::default();
    builder.copy_blocks(a, 0..a.blocks());
    builder.copy_blocks(b, 0..b.blocks());
    builder.finish()
}
