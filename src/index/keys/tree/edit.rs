//! Changing a leaf, and the nodes on the way to it.

use std::sync::Arc;

use super::memory_delta::MemoryDelta;
use super::node::{Child, Node, NodeSplit};
use super::separators::Separator;
use crate::index::keys::leaf::{
    BLOCK_ENTRIES, BYTES_MAX, ENTRIES_MAX, EntryPos, Leaf, LeafBuilder, rewritten_block_max,
};

/// A change of one leaf and one key: removes an entry, inserts one, or both.
pub(in crate::index::keys) struct LeafChange<'c> {
    pub(in crate::index::keys) key: &'c [u8],
    /// The order of the entry to remove.
    pub(in crate::index::keys) remove: Option<u64>,
    /// The order and value of the entry to insert. An entry with the same order is replaced.
    pub(in crate::index::keys) insert: Option<(u64, &'c [u8])>,
}

/// A running change.
pub(super) struct TreeEdit<'e> {
    change: &'e LeafChange<'e>,
    builder: LeafBuilder,
    pub(super) removed: bool,
    pub(super) replaced: bool,
    pub(super) delta: MemoryDelta,
}

impl<'e> TreeEdit<'e> {
    pub(super) fn new(change: &'e LeafChange<'e>) -> Self {
        let builder = LeafBuilder::default();
        let delta = MemoryDelta::default();
        Self { change, builder, removed: false, replaced: false, delta }
    }

    /// The position of the leaf: the inserted entry's, or else of the removed one.
    fn at(&self) -> EntryPos<'_> {
        let order = self.change.insert.map(|(order, _)| order).or(self.change.remove);
        EntryPos { key: self.change.key, order: order.expect("a change removes or inserts an entry") }
    }

    pub(super) fn first_leaf(&mut self) -> Option<Leaf> {
        let (order, value) = self.change.insert?;
        self.builder.push(EntryPos { key: self.change.key, order }, value, BLOCK_ENTRIES);
        Some(self.builder.finish())
    }

    pub(super) fn apply(&mut self, child: &mut Child, before: Option<EntryPos<'_>>) -> Option<NodeSplit> {
        // Counted before and after, at each level: what a leaf or node takes is known by itself, so
        // that no change walks the tree to find its memory.
        self.delta.subtract([&*child]);
        let split = match child {
            Child::Leaf(leaf, _) => {
                let (left, split) = self.rewrite(leaf);
                *leaf = left;
                split
            }
            Child::Node(node, _) => {
                // A snapshot has the node too, and it is about to be copied.
                if Arc::get_mut(node).is_none() {
                    node.touch_leaves();
                }
                self.apply_to_node(Arc::make_mut(node), before)
            }
        };
        child.refresh(before);
        self.delta.add([&*child].into_iter().chain(split.iter().map(|split| &split.right)));
        split
    }

    fn apply_to_node(&mut self, node: &mut Node, before: Option<EntryPos<'_>>) -> Option<NodeSplit> {
        let at = node.separators.count_up_to(self.at());
        let split = self.apply(&mut node.children[at], node.separators.before(at).or(before));
        // A leaf without entries has no first position, which searches and separators need.
        if node.children[at].is_empty() {
            self.delta.subtract([&node.children[at]]);
            node.drop_empty(at, before);
            return None;
        }
        let Some(split) = split else {
            node.tighten_separator(at, self.change.key);
            node.merge_small(at, before, &mut self.delta);
            return None;
        };
        node.insert_after(at, split);
        node.tighten_separator(at + 1, self.change.key);
        node.split()
    }

    /// The changed leaf, split in two if it is too large.
    fn rewrite(&mut self, leaf: &Leaf) -> (Leaf, Option<NodeSplit>) {
        let block = leaf.block_of(self.at());
        let added = self.change.insert.map_or(0, |(_, value)| 2 * self.change.key.len() + value.len());
        self.builder.reserve(leaf.byte_len() + added);
        // Blocks share no prefix with each other, so that those that do not change are copied as
        // bytes.
        self.builder.copy_blocks(leaf, 0..block);
        self.rewrite_block(leaf, block);
        self.builder.copy_blocks(leaf, block + 1..leaf.blocks());
        split_leaf(self.builder.finish())
    }

    /// Rewrites the block that changes.
    fn rewrite_block(&mut self, leaf: &Leaf, block: usize) {
        let key = self.change.key;
        let mut insert = self.change.insert.map(|(order, value)| (EntryPos { key, order }, value));
        let block_max = rewritten_block_max(leaf.block_len(block) + usize::from(insert.is_some()));
        let mut scan = leaf.scan(block..block + 1);
        while scan.next() {
            let at = scan.at();
            let mut remove = at.key == key && self.change.remove == Some(at.order);
            self.removed |= remove;
            if let Some((place, value)) = insert.take_if(|(place, _)| *place <= at) {
                self.builder.push(place, value, block_max);
                self.replaced = place == at;
                remove |= self.replaced;
            }
            if !remove {
                self.builder.push(at, scan.value(), block_max);
            }
        }
        if let Some((place, value)) = insert {
            self.builder.push(place, value, block_max);
        }
    }
}

/// Splits a leaf that is too large at the block boundary next to its middle.
fn split_leaf(leaf: Leaf) -> (Leaf, Option<NodeSplit>) {
    if leaf.len() <= ENTRIES_MAX && leaf.byte_len() <= BYTES_MAX {
        return (leaf, None);
    }
    // By bytes and not by entries: a few large values are as much to copy as many small ones.
    let middle = leaf.byte_len() / 2;
    let Some(cut) = (1..leaf.blocks()).min_by_key(|block| leaf.block_start(*block).abs_diff(middle)) else {
        return (leaf, None);
    };
    let separator = Separator::between(leaf.scan_to_last(cut).at(), leaf.block_pos(cut));
    let mut builder = LeafBuilder::default();
    builder.copy_blocks(&leaf, 0..cut);
    let left = builder.finish();
    builder.copy_blocks(&leaf, cut..leaf.blocks());
    let right = builder.finish();
    let right = Child::of_leaf(right, Some(separator.at()));
    (left, Some(NodeSplit { separator, right }))
}
