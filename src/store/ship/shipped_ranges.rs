//! The bytes of segments that were shipped.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of bytes by segment.
#[derive(Default)]
pub(super) struct ShippedRanges(BTreeMap<u64, BTreeMap<u64, u64>>);

impl ShippedRanges {
    /// Adds a range, and returns those parts of it that were not among them.
    pub(super) fn add(&mut self, segment: u64, range: Range<u64>) -> Vec<Range<u64>> {
        let ranges = self.0.entry(segment).or_default();
        let touching: Vec<(u64, u64)> = ranges
            // From behind: the ranges do not touch one another, so that the first one that ends
            // before the new range ends the search. One that ends where the new one begins touches
            // it, and becomes one with it.
            .range(..=range.end)
            .rev()
            .take_while(|(_, end)| **end >= range.start)
            .map(|(start, end)| (*start, *end))
            .collect();
        let mut new = Vec::new();
        let mut at = range.start;
        for (start, end) in touching.iter().rev() {
            if at < *start {
                new.push(at..*start);
            }
            at = at.max(*end);
        }
        if at < range.end {
            new.push(at..range.end);
        }
        let start = touching.iter().map(|known| known.0).min().unwrap_or(range.start).min(range.start);
        let end = touching.iter().map(|known| known.1).max().unwrap_or(range.end).max(range.end);
        for (start, _) in touching {
            ranges.remove(&start);
        }
        ranges.insert(start, end);
        new
    }

    /// Forgets a range.
    pub(super) fn remove(&mut self, segment: u64, range: Range<u64>) {
        let Some(ranges) = self.0.get_mut(&segment) else { return };
        let touched: Vec<(u64, u64)> = ranges
            .range(..range.end)
            .rev()
            .take_while(|(_, end)| **end > range.start)
            .map(|(start, end)| (*start, *end))
            .collect();
        for (start, end) in touched {
            ranges.remove(&start);
            if start < range.start {
                ranges.insert(start, range.start);
            }
            if end > range.end {
                ranges.insert(range.end, end);
            }
        }
    }

    /// Forgets a segment.
    pub(super) fn forget(&mut self, segment: u64) {
        self.0.remove(&segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;

    #[test]
    fn each_byte_is_new_once() {
        let entropy = SeededEntropy::new(1);
        let mut ranges = ShippedRanges::default();
        let mut known = [false; 200];
        for _ in 0..300 {
            let start = entropy.below(180);
            let end = start + 1 + entropy.below(20);
            let new = ranges.add(7, start..end);
            let told: Vec<u64> = new.into_iter().flatten().collect();
            let wanted: Vec<u64> = (start..end).filter(|at| !known[*at as usize]).collect();
            assert_eq!(told, wanted);
            for at in start..end {
                known[at as usize] = true;
            }
            let start = entropy.below(180);
            let end = start + entropy.below(10);
            ranges.remove(7, start..end);
            for at in start..end {
                known[at as usize] = false;
            }
        }
        ranges.forget(7);
        assert_eq!(ranges.add(7, 1..2).len(), 1);
    }
}
