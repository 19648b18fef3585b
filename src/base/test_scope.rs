//! How much the tests try that try all of something: every operation of a disk, many seeds.
//!
//! An ordinary run tries a part, and draws which one: runs after one another try all of it. With
//! `SILTSTONE_LONG_TESTS` in its environment, as `.ci/run --all` has it, one run tries everything.

use std::ops::Range;

use super::{Entropy as _, OsEntropy};

/// In an ordinary run a sweep looks at one in so many of its points. No multiple of the small
/// numbers by which tests alternate.
const THINNED: u64 = 7;

pub(crate) fn is_long() -> bool {
    std::env::var_os("SILTSTONE_LONG_TESTS").is_some()
}

/// Every `stride`-th point of a sweep without an end, in an ordinary run one in [`THINNED`] of them.
pub(crate) fn points(stride: u64) -> impl Iterator<Item = u64> {
    let stride = if is_long() { stride } else { stride * THINNED };
    let first = 1 + OsEntropy.next_u64() % stride;
    println!("from {first} on one in {stride}; SILTSTONE_LONG_TESTS=1 for more of them");
    (first..).step_by(stride as usize)
}

/// All seeds, in an ordinary run `count` of them, of which `all` is a multiple.
pub(crate) fn seeds(all: Range<u64>, count: u64) -> Range<u64> {
    if is_long() {
        return all;
    }
    let parts = (all.end - all.start) / count;
    let first = all.start + count * (OsEntropy.next_u64() % parts);
    println!("seeds from {first} on; SILTSTONE_LONG_TESTS=1 for all of {all:?}");
    first..first + count
}

/// All of some cases, in an ordinary run `count` of them, one after another from a drawn one on.
pub(crate) fn cases<T: Clone>(all: &[T], count: usize) -> Vec<T> {
    if is_long() {
        return all.to_vec();
    }
    let first = (OsEntropy.next_u64() % all.len() as u64) as usize;
    println!("cases from {first} on; SILTSTONE_LONG_TESTS=1 for all {}", all.len());
    all.iter().cycle().skip(first).take(count).cloned().collect()
}

#[test]
fn an_ordinary_run_tries_a_part() {
    if is_long() {
        return;
    }
    let drawn: Vec<_> = points(2).take(3).collect();
    assert!((1..=14).contains(&drawn[0]) && drawn[2] == drawn[0] + 28, "{drawn:?}");
    let drawn = seeds(10..40, 10);
    assert!([10, 20, 30].contains(&drawn.start) && drawn.end == drawn.start + 10, "{drawn:?}");
    let drawn = cases(&[0, 1, 2], 2);
    assert!([[0, 1], [1, 2], [2, 0]].contains(&[drawn[0], drawn[1]]) && drawn.len() == 2, "{drawn:?}");
}
