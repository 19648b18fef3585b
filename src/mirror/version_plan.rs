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
    /// Compares in order: each version of the source is the first one that is the same after that
    /// of the one before. From one without any on, all are appended.
    ///
    /// Some targets keep one of several delete markers in a row, which no request changes. The
    /// others are passed over where that leaves less to append; at the end of the source they are
    /// appended nevertheless, for a target that keeps them. `source` and `target` say of each
    /// version whether it is a delete marker.
    pub(super) fn of<E>(
        source: &[bool],
        target: &[bool],
        mut is_same: impl FnMut(usize, usize) -> Result<bool, E>,
    ) -> Result<Self, E> {
        let mut matched = Vec::new();
        let mut left = 0..target.len();
        for wanted in 0..source.len() {
            let Some(there) = first_same(&mut left, |there| is_same(wanted, there))? else { break };
            matched.push((wanted, there));
        }
        let exact = Self::with(matched, source.len(), target.len());
        // The second comparison costs as many requests as the first, and helps only keys with
        // several markers in a row.
        if exact.append.is_empty() || !(1..source.len()).any(|at| is_repeated(source, at)) {
            return Ok(exact);
        }
        let matched = passing_over_markers(source, target, is_same)?;
        let passing = Self::with(matched, source.len(), target.len());
        Ok(if passing.append.len() < exact.append.len() { passing } else { exact })
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

/// Whether the version at `at` is a delete marker after another one.
fn is_repeated(markers: &[bool], at: usize) -> bool {
    markers[at] && at.checked_sub(1).is_some_and(|before| markers[before])
}

/// The versions that both have, where among several markers in a row that the target lacks are
/// passed over.
fn passing_over_markers<E>(
    source: &[bool],
    target: &[bool],
    mut is_same: impl FnMut(usize, usize) -> Result<bool, E>,
) -> Result<Vec<(usize, usize)>, E> {
    let mut matched = Vec::new();
    let mut left = 0..target.len();
    for wanted in 0..source.len() {
        if is_repeated(source, wanted) && !target.get(left.start).is_some_and(|marker| *marker) {
            continue;
        }
        let Some(there) = first_same(&mut left, |there| is_same(wanted, there))? else { break };
        matched.push((wanted, there));
    }
    Ok(matched)
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
        let markers = |text: &str| text.bytes().map(|version| version == b'-').collect::<Vec<_>>();
        let plan = VersionPlan::of(&markers(source), &markers(target), is_same).unwrap();
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
    fn markers_in_a_row_that_the_target_keeps_one_of_are_passed_over() {
        assert_eq!(plan("a--b", "a-b"), (String::new(), vec![]));
        assert_eq!(plan("a--b", "ab"), ("--b".into(), vec![1]));
        assert_eq!(plan("--b---c", "-b-"), ("--c".into(), vec![]));
        assert_eq!(plan("a--b", "a-b-"), (String::new(), vec![3]));
        // One at the end may be new.
        assert_eq!(plan("a--", "a-"), ("-".into(), vec![]));
        // A target that keeps all of them has them all.
        assert_eq!(plan("a--b", "a-c-b"), (String::new(), vec![2]));
        assert_eq!(plan("a--b", "a-b-b"), (String::new(), vec![2]));
        assert_eq!(plan("a-b", "a--b"), (String::new(), vec![2]));
    }

    /// A word with one of several markers in a row.
    fn with_single_markers(word: &str) -> String {
        word.split("--").collect::<Vec<_>>().join("-").replace("--", "-")
    }

    #[test]
    fn every_plan_leads_to_the_source() {
        let words = [
            "", "a", "aa", "ab", "ba", "aba", "abab", "bbab", "ccab", "a-b", "a--b", "--", "b--a", "a-b--",
            "--a-",
        ];
        for source in words {
            for target in words {
                let (append, remove) = plan(source, target);
                let kept = target.char_indices().filter(|(at, _)| !remove.contains(at)).map(|(_, c)| c);
                let led_to = kept.chain(append.chars()).collect::<String>();
                assert_eq!(with_single_markers(&led_to), with_single_markers(source), "{target}");
                assert!(source.contains("--") || led_to == source, "{source} {target}");
            }
        }
    }
}
