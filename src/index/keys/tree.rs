//! A copy-on-write tree of leaves. A clone is a snapshot: it costs nothing, and nothing that is done to the other one
//! shows in it. A change copies the nodes on its way down that a snapshot still holds, and writes one leaf anew.
//!
//! A key *shows* when its first entry hides nothing ([`record::hides`]). The tree knows where none does: so a search for the next
//! one that shows never reads through those that do not.

use std::cmp::Ordering;
use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::index::keys::leaf::{
    At, BYTES_MAX, ENTRIES_MAX, Leaf, LeafBuilder, LeafScan, RUN, rewritten_run_max, shared_len,
};
use crate::index::keys::record;
use crate::index::memory::shared_bytes;

/// Children of a node. Copying a node touches each of them.
const CHILDREN_MAX: usize = 16;
/// What all keys of a node begin with is kept in it up to so many bytes.
const START_MAX: usize = 64;
/// Neighbours that together have no more than this share of what one may have become one, when one of them has less than
/// a third of that.
const MERGED_SHARE: (usize, usize) = (3, 4);

/// Entries in order.
#[derive(Clone, Default)]
pub(super) struct Tree {
    root: Option<Child>,
    len: u64,
    /// The memory of its leaves and nodes.
    bytes: u64,
}

/// A part of the tree, and whether a key that begins in it shows.
#[derive(Clone)]
enum Child {
    Leaf(Leaf, bool),
    Node(Arc<Node>, bool),
}

/// Children of one kind, and a separator between each two: no entry to its left is at or behind it, none to its right
/// before it. One that does not stand before all entries of its key tells that the last entry to its left is of that key: so
/// the separator before a leaf tells whether its first key begins in it.
///
/// All that a search looks at as a rule lies in one piece of memory: elsewhere means another fetch from it.
#[derive(Clone, Default)]
struct Node {
    separators: Separators,
    /// Room for one too many: it is split then.
    children: ArrayVec<Child, { CHILDREN_MAX + 1 }>,
}

/// Places in order, which do not change: copies of a node share what they need not have in themselves.
#[derive(Clone, Default)]
struct Separators {
    /// What all keys begin with, or as much of it as there is room for.
    start: ArrayVec<u8, START_MAX>,
    /// Of each key, the bytes behind that, as far as they go.
    heads: ArrayVec<u128, CHILDREN_MAX>,
    /// All keys, one behind the other.
    keys: Arc<[u8]>,
    /// The rank of each, and where its key ends.
    places: Arc<[(u64, u32)]>,
}

/// A place that owns its key.
#[derive(Clone)]
struct Separator {
    key: Vec<u8>,
    rank: u64,
}

/// What a change leaves behind it to the right of a child that became too large.
struct Split {
    separator: Separator,
    right: Child,
}

/// A change of one leaf: under one key, one entry goes, one comes, or both.
pub(super) struct Change<'c> {
    pub(super) key: &'c [u8],
    /// The rank of the entry that goes.
    pub(super) goes: Option<u64>,
    /// The rank and the value of the one that comes, in place of one of the same rank.
    pub(super) comes: Option<(u64, &'c [u8])>,
}

impl Tree {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The memory that it takes up, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes a change. Whether the entry that goes was found; where it stands in another leaf than the one that comes, it
    /// is not, and needs a change of its own.
    pub(super) fn change(&mut self, change: &Change<'_>) -> bool {
        let mut edit = Edit::new(change);
        match &mut self.root {
            None => {
                self.root = edit.first_leaf().map(|leaf| Child::of_leaf(leaf, None));
                edit.grown.by(self.root.iter());
            }
            Some(root) => {
                if let Some(split) = edit.apply(root, None) {
                    let left = root.clone();
                    *root = Child::of_node(Node::of_two(left, split));
                    edit.grown.by([&*root]);
                }
            }
        }
        edit.grown.change(&mut self.bytes);
        self.shrink_root();
        self.len += u64::from(change.comes.is_some());
        self.len -= u64::from(edit.gone) + u64::from(edit.replaced);
        edit.gone
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
    pub(super) fn leaf_before(&self, at: At<'_>) -> Option<&Leaf> {
        self.root.as_ref()?.leaf_before(at)
    }

    /// A scan that stands nowhere yet.
    pub(super) fn scan(&self) -> Scan<'_> {
        Scan { tree: self, path: Vec::with_capacity(8), leaf: LeafScan::nowhere() }
    }
}

impl Child {
    /// `before` is what stands before it.
    fn of_leaf(leaf: Leaf, before: Option<At<'_>>) -> Self {
        let shows = leaf_shows(&leaf, before);
        Self::Leaf(leaf, shows)
    }

    fn of_node(node: Node) -> Self {
        let shows = node.shows();
        Self::Node(Arc::new(node), shows)
    }

    fn leaf_before(&self, at: At<'_>) -> Option<&Leaf> {
        match self {
            Self::Leaf(leaf, _) => (leaf.run_at(0) < at).then_some(leaf),
            // Where the child that `at` belongs to begins with it, the entry before it is the last of the one before.
            Self::Node(node, _) => {
                let upto = &node.children[..=node.separators.count_up_to(at)];
                upto.iter().rev().find_map(|child| child.leaf_before(at))
            }
        }
    }

    fn shows(&self) -> bool {
        match self {
            Self::Leaf(_, shows) | Self::Node(_, shows) => *shows,
        }
    }

    /// Sees again what shows, when it has changed or `before` has.
    fn look(&mut self, before: Option<At<'_>>) {
        match self {
            Self::Leaf(leaf, shows) => *shows = leaf_shows(leaf, before),
            Self::Node(node, shows) => *shows = node.shows(),
        }
    }

    /// The same, down to the first leaf.
    fn look_at_first(&mut self, before: Option<At<'_>>) {
        if let Self::Node(node, _) = self {
            Arc::make_mut(node).children[0].look_at_first(before);
        }
        self.look(before);
    }

    /// Whether its last entry is one of `key`.
    fn ends_with(&self, key: &[u8]) -> bool {
        match self {
            Self::Leaf(leaf, _) => leaf.scan_to_last(leaf.runs()).at().key == key,
            Self::Node(node, _) => node.children.last().is_some_and(|last| last.ends_with(key)),
        }
    }

    /// The memory that it takes up without its children.
    fn own_bytes(&self) -> u64 {
        match self {
            Self::Leaf(leaf, _) => shared_bytes(leaf.byte_len()),
            Self::Node(node, _) => {
                let Separators { keys, places, .. } = &node.separators;
                shared_bytes(size_of::<Node>())
                    + shared_bytes(keys.len())
                    + shared_bytes(size_of_val(&places[..]))
            }
        }
    }

    /// The memory that it takes up, counted.
    fn memory_bytes(&self) -> u64 {
        let of_children = match self {
            Self::Leaf(..) => 0,
            Self::Node(node, _) => node.children.iter().map(Self::memory_bytes).sum(),
        };
        self.own_bytes() + of_children
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Leaf(leaf, _) => leaf.len() == 0,
            Self::Node(node, _) => node.children.is_empty(),
        }
    }

    /// How full it is, of 1,000.
    fn fill(&self) -> usize {
        match self {
            Self::Leaf(leaf, _) => (leaf.len() * 1000 / ENTRIES_MAX).max(leaf.byte_len() * 1000 / BYTES_MAX),
            Self::Node(node, _) => node.children.len() * 1000 / CHILDREN_MAX,
        }
    }
}

/// Whether a key that begins in the leaf shows. Its first one does not begin there if `before` stands among the entries of
/// that key.
fn leaf_shows(leaf: &Leaf, before: Option<At<'_>>) -> bool {
    let mut scan = leaf.scan(0..leaf.runs());
    if let Some(key) = before.and_then(At::within) {
        scan.follow(key);
    }
    while scan.next() {
        if !scan.is_same_key() && !record::hides(scan.value()) {
            return true;
        }
    }
    false
}

/// How much more memory a change takes up, and how much less.
#[derive(Default)]
struct Grown {
    more: u64,
    less: u64,
}

impl Grown {
    fn by<'c>(&mut self, made: impl IntoIterator<Item = &'c Child>) {
        self.more += made.into_iter().map(Child::own_bytes).sum::<u64>();
    }

    fn without<'c>(&mut self, dropped: impl IntoIterator<Item = &'c Child>) {
        self.less += dropped.into_iter().map(Child::own_bytes).sum::<u64>();
    }

    fn change(&self, bytes: &mut u64) {
        *bytes = *bytes + self.more - self.less;
    }
}

/// A change under way.
struct Edit<'e> {
    change: &'e Change<'e>,
    builder: LeafBuilder,
    gone: bool,
    replaced: bool,
    grown: Grown,
}

impl<'e> Edit<'e> {
    fn new(change: &'e Change<'e>) -> Self {
        let (builder, grown) = (LeafBuilder::default(), Grown::default());
        Self { change, builder, gone: false, replaced: false, grown }
    }

    /// Where the leaf is: where the entry that comes belongs, or else the one that goes.
    fn at(&self) -> At<'_> {
        let rank = self.change.comes.map(|(rank, _)| rank).or(self.change.goes);
        At { key: self.change.key, rank: rank.expect("a change changes something") }
    }

    fn first_leaf(&mut self) -> Option<Leaf> {
        let (rank, value) = self.change.comes?;
        self.builder.push(At { key: self.change.key, rank }, value, RUN);
        Some(self.builder.finish())
    }

    fn apply(&mut self, child: &mut Child, before: Option<At<'_>>) -> Option<Split> {
        self.grown.without([&*child]);
        let split = match child {
            Child::Leaf(leaf, _) => {
                let (left, split) = self.rewrite(leaf);
                *leaf = left;
                split
            }
            Child::Node(node, _) => {
                if Arc::get_mut(node).is_none() {
                    node.touch_leaves();
                }
                self.apply_within(Arc::make_mut(node), before)
            }
        };
        child.look(before);
        self.grown.by([&*child].into_iter().chain(split.iter().map(|split| &split.right)));
        split
    }

    fn apply_within(&mut self, node: &mut Node, before: Option<At<'_>>) -> Option<Split> {
        let at = node.separators.count_up_to(self.at());
        let split = self.apply(&mut node.children[at], node.separators.before(at).or(before));
        if node.children[at].is_empty() {
            self.grown.without([&node.children[at]]);
            node.drop_empty(at, before);
            return None;
        }
        let Some(split) = split else {
            node.part(at, self.change.key);
            node.join_small(at, before, &mut self.grown);
            return None;
        };
        node.insert_behind(at, split);
        node.part(at + 1, self.change.key);
        node.split()
    }

    /// The leaf as it is to be, in two where it would be too large.
    fn rewrite(&mut self, leaf: &Leaf) -> (Leaf, Option<Split>) {
        let run = leaf.run_of(self.at());
        let added = self.change.comes.map_or(0, |(_, value)| 2 * self.change.key.len() + value.len());
        self.builder.reserve(leaf.byte_len() + added);
        self.builder.copy_runs(leaf, 0..run);
        self.rewrite_run(leaf, run);
        self.builder.copy_runs(leaf, run + 1..leaf.runs());
        split_leaf(self.builder.finish())
    }

    /// Writes the one run that changes.
    fn rewrite_run(&mut self, leaf: &Leaf, run: usize) {
        let key = self.change.key;
        let mut comes = self.change.comes.map(|(rank, value)| (At { key, rank }, value));
        let run_max = rewritten_run_max(leaf.run_len(run) + usize::from(comes.is_some()));
        let mut scan = leaf.scan(run..run + 1);
        while scan.next() {
            let at = scan.at();
            let mut goes = at.key == key && self.change.goes == Some(at.rank);
            self.gone |= goes;
            if let Some((place, value)) = comes.take_if(|(place, _)| *place <= at) {
                self.builder.push(place, value, run_max);
                self.replaced = place == at;
                goes |= self.replaced;
            }
            if !goes {
                self.builder.push(at, scan.value(), run_max);
            }
        }
        if let Some((place, value)) = comes {
            self.builder.push(place, value, run_max);
        }
    }
}

/// Cuts a leaf that is too large in two, between the two runs next to its middle.
fn split_leaf(leaf: Leaf) -> (Leaf, Option<Split>) {
    let large = leaf.len() > ENTRIES_MAX || leaf.byte_len() > BYTES_MAX;
    let middle = |run: &usize| leaf.run_start(*run).abs_diff(leaf.byte_len() / 2);
    let Some(cut) = (1..leaf.runs()).min_by_key(middle).filter(|_| large) else {
        return (leaf, None);
    };
    let separator = Separator::between(leaf.scan_to_last(cut).at(), leaf.run_at(cut));
    let mut builder = LeafBuilder::default();
    let mut part = |runs| {
        builder.copy_runs(&leaf, runs);
        builder.finish()
    };
    let (left, right) = (part(0..cut), part(cut..leaf.runs()));
    let right = Child::of_leaf(right, Some(separator.at()));
    (left, Some(Split { separator, right }))
}

impl Node {
    fn of_two(left: Child, split: Split) -> Self {
        let mut node = Self::default();
        node.children.push(left);
        node.insert_behind(0, split);
        node
    }

    fn shows(&self) -> bool {
        self.children.iter().any(Child::shows)
    }

    /// To be called before it is copied, which counts a reference in each child.
    fn touch_leaves(&self) {
        for child in &self.children {
            if let Child::Leaf(leaf, _) = child {
                leaf.touch();
            }
        }
    }

    fn insert_behind(&mut self, at: usize, split: Split) {
        let (before, behind) = (self.separators.iter().take(at), self.separators.iter().skip(at));
        self.separators = before.chain([split.separator.at()]).chain(behind).collect();
        self.children.insert(at + 1, split.right);
    }

    /// The right half, where it has too many children.
    fn split(&mut self) -> Option<Split> {
        if self.children.len() <= CHILDREN_MAX {
            return None;
        }
        let middle = self.children.len() / 2;
        let children = self.children.drain(middle..).collect();
        let separator = Separator::from(self.separators.get(middle - 1));
        let separators = self.separators.iter().skip(middle).collect();
        self.separators = self.separators.iter().take(middle - 1).collect();
        Some(Split { separator, right: Child::of_node(Self { separators, children }) })
    }

    /// Drops a child that has become empty. What was before it is now before the next one.
    fn drop_empty(&mut self, at: usize, before: Option<At<'_>>) {
        self.children.remove(at);
        self.separators = self.separators.without(at.min(self.children.len().saturating_sub(1)));
        if let Some(next) = self.children.get_mut(at) {
            next.look_at_first(self.separators.before(at).or(before));
        }
    }

    /// Puts the separator behind a child before all entries of `key`, if it stood among them and the child has none left.
    fn part(&mut self, at: usize, key: &[u8]) {
        let within = at < self.separators.len() && self.separators.get(at).within() == Some(key);
        if within && !self.children[at].ends_with(key) {
            let (before, behind) = (self.separators.iter().take(at), self.separators.iter().skip(at + 1));
            self.separators = before.chain([At::first_of(key)]).chain(behind).collect();
            self.children[at + 1].look_at_first(Some(At::first_of(key)));
        }
    }

    /// Joins a child that has become small with a neighbour.
    fn join_small(&mut self, at: usize, before: Option<At<'_>>, grown: &mut Grown) {
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
            grown.without(&self.children[left..=left + 1]);
            self.join(left, before);
            grown.by([&self.children[left]]);
        }
    }

    /// Makes one of a child and the one to its right.
    fn join(&mut self, left: usize, before: Option<At<'_>>) {
        let separator = self.separators.get(left);
        let joined = match (&self.children[left], &self.children[left + 1]) {
            (Child::Leaf(a, _), Child::Leaf(b, _)) => {
                Child::of_leaf(join_leaves(a, b), self.separators.before(left).or(before))
            }
            (Child::Node(a, _), Child::Node(b, _)) => Child::of_node(a.joined(separator, b)),
            _ => unreachable!("the children of a node are of one kind"),
        };
        self.children[left] = joined;
        self.children.remove(left + 1);
        self.separators = self.separators.without(left);
    }

    fn joined(&self, separator: At<'_>, right: &Self) -> Self {
        Self {
            separators: self.separators.iter().chain([separator]).chain(right.separators.iter()).collect(),
            children: self.children.iter().chain(&right.children).cloned().collect(),
        }
    }
}

fn join_leaves(a: &Leaf, b: &Leaf) -> Leaf {
    let mut builder = LeafBuilder::default();
    builder.copy_runs(a, 0..a.runs());
    builder.copy_runs(b, 0..b.runs());
    builder.finish()
}

impl Separator {
    /// The shortest place behind `left` and not behind `right`.
    fn between(left: At<'_>, right: At<'_>) -> Self {
        if left.key == right.key {
            return Self { key: right.key.to_vec(), rank: right.rank };
        }
        let key = right.key[..=shared_len(left.key, right.key)].to_vec();
        Self { key, rank: u64::MAX }
    }

    fn at(&self) -> At<'_> {
        At { key: &self.key, rank: self.rank }
    }
}

impl From<At<'_>> for Separator {
    fn from(At { key, rank }: At<'_>) -> Self {
        Self { key: key.to_vec(), rank }
    }
}

impl<'k> FromIterator<At<'k>> for Separators {
    fn from_iter<I: IntoIterator<Item = At<'k>>>(places: I) -> Self {
        let (mut keys, mut ends) = (Vec::new(), Vec::with_capacity(CHILDREN_MAX));
        for At { key, rank } in places {
            keys.extend_from_slice(key);
            ends.push((rank, u32::try_from(keys.len()).expect("a few keys have less than 4 GiB")));
        }
        Self { keys: keys.into(), places: ends.into(), ..Self::default() }.with_heads()
    }
}

impl Separators {
    fn with_heads(mut self) -> Self {
        if let Some(last) = self.len().checked_sub(1) {
            let (first, last) = (self.get(0).key, self.get(last).key);
            self.start = first[..shared_len(first, last).min(START_MAX)].iter().copied().collect();
            self.heads = self.iter().map(|place| head(&place.key[self.start.len()..])).collect();
        }
        self
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    fn get(&self, nth: usize) -> At<'_> {
        let start = nth.checked_sub(1).map_or(0, |before| self.places[before].1 as usize);
        let (rank, end) = self.places[nth];
        At { key: &self.keys[start..end as usize], rank }
    }

    /// What stands before a child, unless that is the first.
    fn before(&self, child: usize) -> Option<At<'_>> {
        child.checked_sub(1).map(|nth| self.get(nth))
    }

    fn iter(&self) -> impl Iterator<Item = At<'_>> {
        (0..self.len()).map(|nth| self.get(nth))
    }

    fn without(&self, nth: usize) -> Self {
        self.iter().take(nth).chain(self.iter().skip(nth + 1)).collect()
    }

    /// How many stand at `at` or before it: the child that `at` belongs to.
    fn count_up_to(&self, at: At<'_>) -> usize {
        let (start, rest) = at.key.split_at(self.start.len().min(at.key.len()));
        match start.cmp(&self.start[..]) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.len(),
            Ordering::Equal => {}
        }
        let wanted = head(rest);
        // Looking at each does not wait for one to be fetched before it asks for the next, as halving would.
        let count = |is: fn(&u128, &u128) -> bool| self.heads.iter().filter(|head| is(head, &wanted)).count();
        let (before, up_to) = (count(u128::lt), count(u128::le));
        before + count_while(up_to - before, |nth| self.get(before + nth) <= at)
    }
}

/// The first sixteen bytes, or fewer and zeros: keys are in the order of these, or have the same.
fn head(key: &[u8]) -> u128 {
    let short = || {
        let mut bytes = [0; 16];
        bytes[..key.len()].copy_from_slice(key);
        bytes
    };
    u128::from_be_bytes(key.first_chunk().copied().unwrap_or_else(short))
}

/// How many of the first `len` numbers `is` is true of: of the first ones, and of none behind these.
fn count_while(len: usize, is: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if is(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Reads entries in order.
pub(super) struct Scan<'t> {
    tree: &'t Tree,
    /// The nodes above the leaf, from the root, and which child of each comes next.
    path: Vec<(&'t Node, usize)>,
    leaf: LeafScan<'t>,
}

impl<'t> Scan<'t> {
    /// Goes before the first entry at or behind `at`.
    pub(super) fn seek(&mut self, at: At<'_>) {
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
    pub(super) fn next(&mut self) -> bool {
        while !self.leaf.next() {
            if !self.enter_next_leaf(|_| true) {
                return false;
            }
        }
        true
    }

    /// The same, but past leaves in which no key that shows begins.
    pub(super) fn next_where_some_show(&mut self) -> bool {
        while !self.leaf.next() {
            if !self.enter_next_leaf(Child::shows) {
                return false;
            }
            if let Some(key) = self.before_leaf().and_then(At::within) {
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
    fn before_leaf(&self) -> Option<At<'t>> {
        self.path.iter().rev().find_map(|(node, next)| node.separators.before(next - 1))
    }

    /// Whether the last step, and the one before it, went to entries of one key.
    pub(super) fn is_same_key(&self) -> bool {
        self.leaf.is_same_key()
    }

    /// Where it stands: at the entry that the last step went to.
    pub(super) fn at(&self) -> At<'_> {
        self.leaf.at()
    }

    pub(super) fn key(&self) -> &[u8] {
        self.leaf.at().key
    }

    /// What the entry holds.
    pub(super) fn value(&self) -> &'t [u8] {
        self.leaf.value()
    }
}

/// Makes a tree of entries that come in order: full leaves, full nodes, nothing written twice.
#[derive(Default)]
pub(super) struct TreeBuilder {
    leaf: LeafBuilder,
    /// What stands before the leaf being filled.
    separator: Option<Separator>,
    /// Nodes being filled, the lowest first.
    open: Vec<OpenNode>,
    len: u64,
}

/// A node being filled.
#[derive(Default)]
struct OpenNode {
    /// What stands before it.
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
    /// The last entry.
    pub(super) fn last(&self) -> Option<At<'_>> {
        (self.len > 0).then(|| self.leaf.last())
    }

    pub(super) fn push(&mut self, at: At<'_>, value: &[u8]) {
        debug_assert!(self.last().is_none_or(|last| last < at), "entries come in order");
        let full = self.leaf.len() >= ENTRIES_MAX || self.leaf.byte_len() + value.len() > BYTES_MAX;
        if full && self.leaf.len() > 0 {
            let next = Separator::between(self.leaf.last(), at);
            let leaf = self.close_leaf();
            let before = self.separator.replace(next);
            self.push_child(0, before, leaf);
        }
        self.leaf.push(at, value, RUN);
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
            Some(separator) if !node.children.is_empty() => node.separators.push(separator),
            before => node.before = before,
        }
        node.children.push(child);
    }

    pub(super) fn finish(mut self) -> Tree {
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
        tree.shrink_root();
        tree
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::{Entropy, OsEntropy, SeededEntropy};

    /// What a tree is made of.
    #[derive(Default)]
    struct Shape {
        leaves: usize,
        entries: u64,
        largest_leaf: usize,
        /// The last key that was looked at.
        key: Option<Vec<u8>>,
    }

    /// Looks at all of a tree: each child holds what its separators promise, and knows whether a key shows; and all children
    /// of a node are as deep.
    fn shape(tree: &Tree) -> Shape {
        let mut shape = Shape::default();
        if let Some(root) = &tree.root {
            look(root, None, None, &mut shape);
        }
        assert_eq!(shape.entries, tree.len());
        assert_eq!(tree.memory_bytes(), tree.root.as_ref().map_or(0, Child::memory_bytes));
        shape
    }

    fn look(child: &Child, from: Option<At<'_>>, to: Option<At<'_>>, shape: &mut Shape) -> usize {
        if let Some(key) = from.and_then(At::within) {
            assert_eq!(
                shape.key.as_deref(),
                Some(key),
                "a separator stands among entries that are not there"
            );
        }
        match child {
            Child::Leaf(leaf, shows) => {
                shape.leaves += 1;
                shape.largest_leaf = shape.largest_leaf.max(leaf.byte_len());
                let mut some = false;
                let mut scan = leaf.scan(0..leaf.runs());
                while scan.next() {
                    shape.entries += 1;
                    assert!(from.is_none_or(|from| from <= scan.at()) && to.is_none_or(|to| scan.at() < to));
                    let key = Some(scan.at().key.to_vec());
                    some |= key != shape.key && !record::hides(scan.value());
                    shape.key = key;
                }
                assert_eq!(*shows, some, "a leaf does not know what shows");
                1
            }
            Child::Node(node, shows) => {
                assert_eq!(node.separators.len() + 1, node.children.len());
                assert!(node.children.len() <= CHILDREN_MAX);
                assert_eq!(*shows, node.shows(), "a node does not know what shows");
                let bound = |nth: usize| (nth < node.separators.len()).then(|| node.separators.get(nth));
                let depths: Vec<_> = node
                    .children
                    .iter()
                    .enumerate()
                    .map(|(nth, child)| {
                        look(child, node.separators.before(nth).or(from), bound(nth).or(to), shape)
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
        tree.change(&Change { key: &key(nth), goes: None, comes: Some((1, value)) });
    }

    fn delete(tree: &mut Tree, nth: usize) -> bool {
        tree.change(&Change { key: &key(nth), goes: Some(1), comes: None })
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

    /// The keys that show, and the most entries that were read on the way to one or to the end.
    fn shown(tree: &Tree) -> (Vec<Vec<u8>>, usize) {
        let (mut keys, mut passed, mut passed_max) = (Vec::new(), 0, 0);
        let mut scan = tree.scan();
        scan.seek(At::first_of(&[]));
        while scan.next_where_some_show() {
            passed += 1;
            passed_max = passed_max.max(passed);
            if !scan.is_same_key() && !record::hides(scan.value()) {
                keys.push(scan.key().to_vec());
                passed = 0;
            }
        }
        (keys, passed_max)
    }

    #[test]
    fn what_does_not_show_is_not_read_on_the_way_to_what_does() {
        let mut tree = Tree::default();
        let mut change = |key: &str, rank, value| {
            tree.change(&Change { key: key.as_bytes(), goes: None, comes: Some((rank, value)) });
        };
        for nth in 0..20_000 {
            let key = format!("{:05}", nth * 7_919 % 20_000);
            (0..nth % 4).for_each(|rank| change(&key, rank, SHOWS));
            change(&key, 9, HIDES);
        }
        change("many", 9, HIDES);
        (10..1_000).for_each(|rank| change("many", rank, SHOWS));
        change("many", 1_000, HIDES);
        ["10000+", "zoo"].iter().for_each(|key| change(key, 1, SHOWS));
        let (keys, passed) = shown(&tree);
        assert_eq!(keys, [b"10000+".to_vec(), b"zoo".to_vec()]);
        // What is left of the leaf that holds the one before, and what stands before it in its own.
        assert!(passed <= 2 * ENTRIES_MAX, "{passed} entries were read");
        shape(&tree);
    }

    #[test]
    fn a_key_that_loses_its_newest_entries_shows_what_is_left() {
        let mut builder = TreeBuilder::default();
        (0..300).rev().for_each(|rank| builder.push(At { key: b"key", rank }, SHOWS));
        let mut tree = builder.finish();
        for rank in (0..300).rev() {
            shape(&tree);
            assert_eq!(shown(&tree).0, [b"key"]);
            tree.change(&Change { key: b"key", goes: Some(rank), comes: None });
        }
        assert!(shown(&tree).0.is_empty());
    }

    #[test]
    fn every_part_knows_what_shows_whatever_comes_and_goes() {
        let given = std::env::var("SILTSTONE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| OsEntropy.next_u64());
        println!("SILTSTONE_TEST_SEED={seed}");
        let draw = SeededEntropy::new(seed);
        let below = |end: u64| draw.next_u64() % end;
        let (mut tree, mut model) = (Tree::default(), BTreeMap::<Vec<u8>, BTreeMap<u64, &[u8]>>::new());
        // It grows, stays as large, and goes to nothing. Keys have one entry or some hundreds, in leaves of 64.
        for (deletes, steps) in [(1, 3_000), (5, 3_000), (9, 6_000)] {
            for step in 0..steps {
                let key = format!("{:02}", below(40) * below(40) / 40).into_bytes();
                let value = if below(3) == 0 { SHOWS } else { HIDES };
                let entries = model.entry(key.clone()).or_default();
                let nth = below(entries.len().max(1) as u64) as usize;
                let goes = entries.keys().nth(nth).copied().filter(|_| below(10) < deletes);
                let comes = (goes.is_none() || below(20) == 0)
                    .then(|| (entries.keys().last().map_or(7, |last| last + 1), value));
                let gone = tree.change(&Change { key: &key, goes, comes });
                if gone || comes.is_none() {
                    goes.map(|rank| entries.remove(&rank));
                    assert!(gone);
                }
                comes.map(|(rank, value)| entries.insert(rank, value));
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
    fn a_search_among_separators_finds_what_comparing_with_each_does() {
        let tails = ["", "\0", "\0\0", "0123456789abcdef", "0123456789abcdef\0", "0123456789abcdefg", "1"];
        for start in ["", "a", &"long/".repeat(20)] {
            let keys: Vec<_> = tails.iter().map(|tail| [start, tail].concat().into_bytes()).collect();
            let places = keys.iter().flat_map(|key| [9, 5].map(|rank| At { key, rank }));
            let separators: Separators = places.clone().collect();
            let cut = keys.iter().flat_map(|key| (0..key.len()).map(|len| key[..len].to_vec()));
            let longer =
                keys.iter().flat_map(|key| [b'\0', b'/', b'~'].map(|byte| [&key[..], &[byte]].concat()));
            for key in keys.iter().cloned().chain(cut).chain(longer) {
                for rank in [10, 9, 7, 5, 0] {
                    let at = At { key: &key, rank };
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
        // The neighbours that come later stay apart from it.
        (2_000..3_000).for_each(|nth| put(&mut tree, nth, b"value"));
        let shape = shape(&tree);
        assert_eq!(shape.entries, 3_000);
        assert!(shape.largest_leaf < 50_000 + BYTES_MAX, "{} bytes", shape.largest_leaf);
    }

    #[test]
    fn what_is_built_in_order_is_full() {
        let mut builder = TreeBuilder::default();
        for nth in 0..10_000u64 {
            let key = format!("{:07}", nth / 3).into_bytes();
            builder.push(At { key: &key, rank: 100 - nth % 3 }, b"value");
        }
        let built = shape(&builder.finish());
        assert_eq!((built.entries, built.leaves), (10_000, 10_000usize.div_ceil(ENTRIES_MAX)));
        assert_eq!(shape(&TreeBuilder::default().finish()).leaves, 0);
    }
}
