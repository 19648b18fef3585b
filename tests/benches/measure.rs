//! What the benchmarks share.

use std::time::{Duration, Instant};

/// The median of 1,001 runs of `work`.
pub(super) fn median<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut times: Vec<_> = (0..1001)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(work());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}
