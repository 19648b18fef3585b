//! Checks of the structure of trees, and of random changes.

use std::collections::BTreeMap;

use super::edit::LeafChange;
use super::node::Child;
use super::separators::Separators;
use super::*;
use crate::base::{Entropy, OsEntropy, SeededEntropy};
use crate::index::keys::leaf::{BYTES_MAX, ENTRIES_MAX};
use crate::index::keys::record;

/// Statistics of a tree.
#[derive(Default)]
struct TreeShape {
    leaves: usize,
    entries: u64,
    largest_leaf: usize,
    /// The last key visited.
    key: Option<Vec<u8>>,
}

/// Checks the invariants of a tree: separators bound the children, visibility is correct, and all
/// leaves have the same depth.
fn shape(tree: &Tree) -> TreeShape {
    let mut shape = TreeShape::default();
    if let Some(root) = &tree.root {
        refresh(root, None, None, &mut shape);
    }
    assert_eq!(shape.entries, tree.len());
    assert_eq!(tree.memory_bytes(), tree.root.as_ref().map_or(0, Child::memory_bytes));
    shape
}

fn refresh(
    child: &Child,
    from: Option<EntryPos<'_>>,
    to: Option<EntryPos<'_>>,
    shape: &mut TreeShape,
) -> usize {
    if let Some(key) = from.and_then(EntryPos::within) {
        assert_eq!(shape.key.as_deref(), Some(key), "a separator is inside a key without entries before it");
    }
    match child {
        Child::Leaf(leaf, visible) => {
            shape.leaves += 1;
            shape.largest_leaf = shape.largest_leaf.max(leaf.byte_len());
            let mut some = false;
            let mut scan = leaf.scan(0..leaf.blocks());
            while scan.next() {
                shape.entries += 1;
                assert!(from.is_none_or(|from| from <= scan.at()) && to.is_none_or(|to| scan.at() < to));
                let key = Some(scan.at().key.to_vec());
                some |= key != shape.key && !record::is_hidden(scan.value());
                shape.key = key;
            }
            assert_eq!(*visible, some, "a leaf has the wrong visibility");
            1
        }
        Child::Node(node, visible) => {
            assert_eq!(node.separators.len() + 1, node.children.len());
            assert!(node.children.len() <= CHILDREN_MAX);
            assert_eq!(*visible, node.visible(), "a node has the wrong visibility");
            let bound = |nth: usize| (nth < node.separators.len()).then(|| node.separators.get(nth));
            let depths: Vec<_> = node
                .children
                .iter()
                .enumerate()
                .map(|(nth, child)| {
                    refresh(child, node.separators.before(nth).or(from), bound(nth).or(to), shape)
                })
                .collect();
            assert!(depths.iter().all(|depth| *depth == depths[0]));
            depths[0] + 1
        }
    }
}

fn key(nth: usize) -> Vec<u8> {
    format!("some/directory/{:07}", nth * 7919 % 100_003).into_bytes()
}

fn put(tree: &mut Tree, nth: usize, value: &[u8]) {
    tree.change(&LeafChange { key: &key(nth), remove: None, insert: Some((1, value)) });
}

fn delete(tree: &mut Tree, nth: usize) -> bool {
    tree.change(&LeafChange { key: &key(nth), remove: Some(1), insert: None })
}

#[test]
fn a_tree_gives_back_its_leaves_as_it_shrinks() {
    let mut tree = Tree::default();
    (0..5_000).for_each(|nth| put(&mut tree, nth, b"value"));
    let full = shape(&tree);
    let snapshot = tree.clone();
    (0..5_000).filter(|nth| nth % 50 != 0).for_each(|nth| assert!(delete(&mut tree, nth)));
    let rest = shape(&tree);
    assert_eq!((full.entries, rest.entries), (5_000, 100));
    assert!(full.leaves <= 5_000 / 30 && rest.leaves <= 15, "{} and {} leaves", full.leaves, rest.leaves);
    (0..5_000).filter(|nth| nth % 50 == 0).for_each(|nth| assert!(delete(&mut tree, nth)));
    assert!(tree.root.is_none() && !delete(&mut tree, 0));
    assert_eq!(shape(&snapshot).entries, 5_000);
}

const SHOWS: &[u8] = &[0];
const HIDES: &[u8] = &[2];

/// The visible keys, and the most entries read before one of them or the end.
fn shown(tree: &Tree) -> (Vec<Vec<u8>>, usize) {
    let mut keys = Vec::new();
    let mut passed = 0;
    let mut passed_max = 0;
    let mut scan = tree.scan();
    scan.seek(EntryPos::first_of(&[]));
    while scan.next_in_visible_leaves() {
        passed += 1;
        passed_max = passed_max.max(passed);
        if !scan.is_same_key() && !record::is_hidden(scan.value()) {
            keys.push(scan.key().to_vec());
            passed = 0;
        }
    }
    (keys, passed_max)
}

#[test]
fn hidden_keys_are_not_read_on_the_way_to_a_visible_one() {
    let mut tree = Tree::default();
    let mut change = |key: &str, order, value| {
        tree.change(&LeafChange { key: key.as_bytes(), remove: None, insert: Some((order, value)) });
    };
    for nth in 0..20_000 {
        let key = format!("{:05}", nth * 7_919 % 20_000);
        (0..nth % 4).for_each(|order| change(&key, order, SHOWS));
        change(&key, 9, HIDES);
    }
    change("many", 9, HIDES);
    (10..1_000).for_each(|order| change("many", order, SHOWS));
    change("many", 1_000, HIDES);
    ["10000+", "zoo"].iter().for_each(|key| change(key, 1, SHOWS));
    let (keys, passed) = shown(&tree);
    assert_eq!(keys, [b"10000+".to_vec(), b"zoo".to_vec()]);
    // The rest of the leaf of the previous key, and the entries before it in its own.
    assert!(passed <= 2 * ENTRIES_MAX, "{passed} entries were read");
    shape(&tree);
}

#[test]
fn a_key_without_its_newest_entries_stays_visible() {
    let mut builder = TreeBuilder::default();
    (0..300).rev().for_each(|order| builder.push(EntryPos { key: b"key", order }, SHOWS));
    let mut tree = builder.finish();
    for order in (0..300).rev() {
        shape(&tree);
        assert_eq!(shown(&tree).0, [b"key"]);
        tree.change(&LeafChange { key: b"key", remove: Some(order), insert: None });
    }
    assert!(shown(&tree).0.is_empty());
}

#[test]
fn visibility_is_right_after_random_changes() {
    let given = std::env::var("SILTSTONE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| OsEntropy.next_u64());
    println!("SILTSTONE_TEST_SEED={seed}");
    let draw = SeededEntropy::new(seed);
    let below = |end: u64| draw.below(end);
    let mut tree = Tree::default();
    let mut model = BTreeMap::<Vec<u8>, BTreeMap<u64, &[u8]>>::new();
    // The tree grows, stays as large, and shrinks to nothing. Keys have one entry or hundreds, in
    // leaves of 64.
    for (deletes, steps) in [(1, 3_000), (5, 3_000), (9, 6_000)] {
        for step in 0..steps {
            let key = format!("{:02}", below(40) * below(40) / 40).into_bytes();
            let value = if below(3) == 0 { SHOWS } else { HIDES };
            let entries = model.entry(key.clone()).or_default();
            let nth = below(entries.len().max(1) as u64) as usize;
            let remove = entries.keys().nth(nth).copied().filter(|_| below(10) < deletes);
            let insert = (remove.is_none() || below(20) == 0)
                .then(|| (entries.keys().last().map_or(7, |last| last + 1), value));
            let removed = tree.change(&LeafChange { key: &key, remove, insert });
            if removed || insert.is_none() {
                remove.map(|order| entries.remove(&order));
                assert!(removed);
            }
            insert.map(|(order, value)| entries.insert(order, value));
            if step % 100 == 0 {
                shape(&tree);
                let newest = |entries: &BTreeMap<u64, &[u8]>| entries.values().last() == Some(&SHOWS);
                let expected = model.iter().filter(|(_, entries)| newest(entries)).map(|(key, _)| key);
                assert!(shown(&tree).0.iter().eq(expected));
            }
        }
    }
}

#[test]
fn a_search_among_separators_equals_a_linear_comparison() {
    let tails = ["", "\0", "\0\0", "0123456789abcdef", "0123456789abcdef\0", "0123456789abcdefg", "1"];
    for start in ["", "a", &"long/".repeat(20)] {
        let keys: Vec<_> = tails.iter().map(|tail| [start, tail].concat().into_bytes()).collect();
        let places = keys.iter().flat_map(|key| [9, 5].map(|order| EntryPos { key, order }));
        let separators: Separators = places.clone().collect();
        let cut = keys.iter().flat_map(|key| (0..key.len()).map(|len| key[..len].to_vec()));
        let longer = keys.iter().flat_map(|key| [b'\0', b'/', b'~'].map(|byte| [&key[..], &[byte]].concat()));
        for key in keys.iter().cloned().chain(cut).chain(longer) {
            for order in [10, 9, 7, 5, 0] {
                let at = EntryPos { key: &key, order };
                let count = places.clone().filter(|place| *place <= at).count();
                assert_eq!(separators.count_up_to(at), count, "{at:?}");
            }
        }
    }
}

#[test]
fn large_values_lie_in_leaves_of_their_own() {
    let mut tree = Tree::default();
    let large = vec![7; 50_000];
    (0..2_000).for_each(|nth| put(&mut tree, nth, if nth % 100 == 7 { &large } else { b"value" }));
    // Entries added later stay apart from it.
    (2_000..3_000).for_each(|nth| put(&mut tree, nth, b"value"));
    let shape = shape(&tree);
    assert_eq!(shape.entries, 3_000);
    assert!(shape.largest_leaf < 50_000 + BYTES_MAX, "{} bytes", shape.largest_leaf);
}

#[test]
fn leaves_built_in_order_are_full() {
    let mut builder = TreeBuilder::default();
    for nth in 0..10_000u64 {
        let key = format!("{:07}", nth / 3).into_bytes();
        builder.push(EntryPos { key: &key, order: 100 - nth % 3 }, b"value");
    }
    let built = shape(&builder.finish());
    assert_eq!((built.entries, built.leaves), (10_000, 10_000usize.div_ceil(ENTRIES_MAX)));
    assert_eq!(shape(&TreeBuilder::default().finish()).leaves, 0);
}
