//! The versions to append to a key of the target, and those to remove.

use std::ops::Range;

/// The difference between the versions of a key, both oldest first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VersionPlan {
    /// The versions that both have: the index in the source, and that in the target.
    pub(super) matched: Vec<(usize, usize)>,
    /// The versions of the source that the target lacks: the last ones, since it has them in order.
    pub(super) append: Range<usize>,
    /// The versions of the target that the source does not have.
    pub(super) remove: Vec<usize>,
}

impl VersionPlan {
    /// Compares in order: each version of the source is the first one that is the same after that of the one before. From one without
    /// any on, all are appended.
    pub(super) fn of<E>(
        source: usize,
        target: usize,
        mut is_same: impl FnMut(usize, usize) -> Result<bool, E>,
    ) -> Result<Self, E> {
        let (mut matched, mut left) = (Vec::new(), 0..target);
        for wanted in 0..source {
            let Some(there) = first_same(&mut left, |there| is_same(wanted, there))? else { break };
            matched.push((wanted, there));
        }
        Ok(Self::with(matched, source, target))
    }

    fn with(matched: Vec<(usize, usize)>, source: usize, target: usize) -> Self {
        let append = matched.last().map_or(0, |(wanted, _)| wanted + 1)..source;
        let remove = (0..target).filter(|there| !matched.iter().any(|(_, kept)| kept == there)).collect();
        Self { matched, append, remove }
    }

    /// The plan without the match at `at` and those after it.
    pub(super) fn cut(mut self, at: usize, source: usize, target: usize) -> Self {
        self.matched.truncate(at);
        Self::with(self.matched, source, target)
    }
}

/// The first of `left` that is the same; those after it are left.
fn first_same<E>(
    left: &mut Range<usize>,
    mut is_same: impl FnMut(usize) -> Result<bool, E>,
) -> Result<Option<usize>, E> {
    for there in left {
        if is_same(there)? {
            return Ok(Some(there));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(source: &str, target: &str) -> (String, Vec<usize>) {
        let is_same =
            |wanted: usize, there: usize| Ok::<_, ()>(source.as_bytes()[wanted] == target.as_bytes()[there]);
        let plan = VersionPlan::of(source.len(), target.len(), is_same).unwrap();
        (source[plan.append].to_owned(), plan.remove)
    }

    #[test]
    fn new_versions_are_appended_and_old_ones_removed() {
        assert_eq!(plan("abc", ""), ("abc".into(), vec![]));
        assert_eq!(plan("abc", "ab"), ("c".into(), vec![]));
        assert_eq!(plan("bc", "ab"), ("c".into(), vec![0]));
        assert_eq!(plan("", "ab"), (String::new(), vec![0, 1]));
        assert_eq!(plan("ab", "ab"), (String::new(), vec![]));
    }

    #[test]
    fn a_target_that_lost_a_version_gets_all_after_it_again() {
        assert_eq!(plan("abc", "bc"), ("abc".into(), vec![0, 1]));
        assert_eq!(plan("abc", "ac"), ("bc".into(), vec![1]));
        // A crash after the appending leaves what the next plan removes.
        assert_eq!(plan("abc", "acbc"), (String::new(), vec![1]));
    }

    #[test]
    fn every_plan_leads_to_the_source() {
        let words = ["", "a", "aa", "ab", "ba", "aba", "abab", "bbab", "ccab"];
        for source in words {
            for target in words {
                let (append, remove) = plan(source, target);
                let kept = target.char_indices().filter(|(at, _)| !remove.contains(at)).map(|(_, c)| c);
                assert_eq!(kept.chain(append.chars()).collect::<String>(), source, "{target}");
            }
        }
    }
}
