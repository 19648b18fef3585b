//! Histograms that many threads count into without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets of durations, in microseconds: from a tenth of a millisecond to
/// half a minute.
pub const DURATION_BOUNDS_MICROS: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 10_000_000, 30_000_000,
];

/// The longest duration that is counted: about a year.
const DURATION_MAX_MICROS: u64 = 1 << 45;

/// The upper bounds of the buckets of counts.
pub const COUNT_BOUNDS: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 1024];

/// A histogram with `N` buckets of bounded values, and one for greater ones. It counts since the
/// start.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    bounds: [u64; N],
    counts: [AtomicU64; N],
    beyond: AtomicU64,
    sum: AtomicU64,
}

/// A histogram of durations.
pub type DurationHistogram = Histogram<16>;
/// A histogram of counts.
pub type CountHistogram = Histogram<10>;

/// The values of a histogram at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// Each upper bound, and the number of values up to it.
    pub buckets: Vec<(u64, u64)>,
    /// The number of all values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
}

impl HistogramSnapshot {
    /// The values that were counted since `before`, an earlier snapshot of the same histogram.
    #[must_use]
    pub fn beyond(&self, before: &Self) -> Self {
        let buckets = self.buckets.iter().zip(&before.buckets);
        let buckets = buckets.map(|((bound, count), (_, earlier))| (*bound, count.saturating_sub(*earlier)));
        Self {
            buckets: buckets.collect(),
            count: self.count.saturating_sub(before.count),
            sum: self.sum.wrapping_sub(before.sum),
        }
    }

    /// The bound up to which 99 of 100 values are; `None` without values, and where it is beyond the
    /// scale.
    pub fn bound_of_99_percent(&self) -> Option<u64> {
        let most = self.count - self.count / 100;
        let reached = self.buckets.iter().find(|(_, up_to)| *up_to >= most);
        reached.filter(|_| self.count > 0).map(|(bound, _)| *bound)
    }
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self::new(DURATION_BOUNDS_MICROS)
    }
}

impl Default for CountHistogram {
    fn default() -> Self {
        Self::new(COUNT_BOUNDS)
    }
}

impl<const N: usize> Histogram<N> {
    fn new(bounds: [u64; N]) -> Self {
        Self {
            bounds,
            counts: [const { AtomicU64::new(0) }; N],
            beyond: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    /// Counts a value.
    pub fn count(&self, value: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts.get(at).unwrap_or(&self.beyond).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Counts a duration, in microseconds.
    pub fn count_duration(&self, duration: Duration) {
        // A sum of such durations does not wrap.
        self.count(duration.as_micros().try_into().unwrap_or(u64::MAX).min(DURATION_MAX_MICROS));
    }

    /// The values so far. Values that are counted meanwhile may be in one part and not yet in
    /// another.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut count = 0;
        let buckets = self.bounds.iter().zip(&self.counts).map(|(bound, counted)| {
            count += counted.load(Ordering::Relaxed);
            (*bound, count)
        });
        let buckets: Vec<_> = buckets.collect();
        let count = count + self.beyond.load(Ordering::Relaxed);
        HistogramSnapshot { buckets, count, sum: self.sum.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_up_to_their_bounds() {
        let histogram = CountHistogram::default();
        for value in [0, 1, 2, 3, 4, 1024, 1025] {
            histogram.count(value);
        }
        let HistogramSnapshot { buckets, count, sum } = histogram.snapshot();
        assert_eq!((count, sum), (7, 2_059));
        assert_eq!(&buckets[..4], [(1, 2), (2, 3), (4, 5), (8, 5)]);
        assert_eq!(buckets[9], (1024, 6));
        let before = CountHistogram::default().snapshot();
        assert_eq!((before.bound_of_99_percent(), histogram.snapshot().bound_of_99_percent()), (None, None));
        for _ in 0..1_000 {
            histogram.count(3);
        }
        assert_eq!(histogram.snapshot().bound_of_99_percent(), Some(4));
        let before = histogram.snapshot();
        histogram.count(16);
        let since = histogram.snapshot().beyond(&before);
        assert_eq!((since.count, since.sum, since.bound_of_99_percent()), (1, 16, Some(16)));
        let histogram = DurationHistogram::default();
        histogram.count_duration(Duration::from_millis(1));
        histogram.count_duration(Duration::MAX);
        let snapshot = histogram.snapshot();
        assert_eq!((snapshot.buckets[2].1, snapshot.buckets[3].1, snapshot.count), (0, 1, 2));
    }
}
