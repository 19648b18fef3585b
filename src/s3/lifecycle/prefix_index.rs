//! The rules of a key by its prefixes: a binary search instead of a comparison with each rule.

/// Prefixes, each with numbers of rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PrefixIndex {
    /// In the order of their prefixes, without duplicates.
    nodes: Vec<PrefixNode>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PrefixNode {
    prefix: Box<[u8]>,
    /// The longest other prefix that this one begins with.
    parent: Option<usize>,
    rules: Vec<usize>,
}

impl PrefixIndex {
    /// The index of pairs of a prefix and the number of a rule.
    pub(super) fn new<'p>(rules: impl Iterator<Item = (&'p str, usize)>) -> Self {
        let mut pairs: Vec<_> = rules.collect();
        pairs.sort_unstable();
        let mut nodes: Vec<PrefixNode> = Vec::new();
        for (prefix, rule) in pairs {
            match nodes.last_mut() {
                Some(last) if *last.prefix == *prefix.as_bytes() => last.rules.push(rule),
                last => {
                    let last = last.is_some().then(|| nodes.len() - 1);
                    let parent = ancestor(&nodes, last, prefix.as_bytes());
                    nodes.push(PrefixNode { prefix: prefix.as_bytes().into(), parent, rules: vec![rule] });
                }
            }
        }
        Self { nodes }
    }

    /// Whether there is no rule.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The rules whose prefix `key` begins with, in no particular order. The prefixes of a key that
    /// are not greater than it are the last one that matches and its ancestors.
    pub(super) fn rules_of(&self, key: &[u8]) -> impl Iterator<Item = usize> {
        let at = self.nodes.partition_point(|node| *node.prefix <= *key);
        let first = ancestor(&self.nodes, at.checked_sub(1), key);
        let chain = std::iter::successors(first, |at| self.nodes[*at].parent);
        chain.flat_map(|at| self.nodes[at].rules.iter().copied())
    }
}

/// The first of `at` and its ancestors that `key` begins with.
fn ancestor(nodes: &[PrefixNode], mut at: Option<usize>, key: &[u8]) -> Option<usize> {
    while let Some(node) = at.map(|at| &nodes[at]) {
        if key.starts_with(&node.prefix) {
            return at;
        }
        at = node.parent;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_the_same_rules_as_a_comparison_with_each(
            prefixes in proptest::collection::vec("[ab/]{0,4}", 0..12),
            keys in proptest::collection::vec("[ab/]{0,6}", 1..20),
        ) {
            let index = PrefixIndex::new(prefixes.iter().enumerate().map(|(at, prefix)| (prefix.as_str(), at)));
            for key in &keys {
                let mut found: Vec<_> = index.rules_of(key.as_bytes()).collect();
                found.sort_unstable();
                let expected: Vec<_> =
                    (0..prefixes.len()).filter(|at| key.starts_with(prefixes[*at].as_str())).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
