//! Pauses between tries that fail.

use std::time::Duration;

use super::Entropy;

/// A pause that doubles with each failure in a row, up to a longest one.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// The pause after the first failure.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after so many failures in a row; that of one failure for none.
    pub fn after(&self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        self.first.saturating_mul(doubled).min(self.longest)
    }

    /// As [`Backoff::after`], [`jittered`].
    pub fn jittered_after(&self, failures: u32, entropy: &dyn Entropy) -> Duration {
        jittered(self.after(failures), entropy)
    }
}

/// A time between half of `pause` and all of it, so that those who failed together do not try
/// together.
pub fn jittered(pause: Duration, entropy: &dyn Entropy) -> Duration {
    let half = pause / 2;
    half + half.mul_f64((entropy.next_u64() % 1024) as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;

    #[test]
    fn pauses_double_up_to_the_longest_whatever_the_number_of_failures() {
        let backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(60) };
        let pauses = [0, 1, 2, 3, 8, 9, u32::MAX].map(|failures| backoff.after(failures).as_millis());
        assert_eq!(pauses, [500, 500, 1000, 2000, 60_000, 60_000, 60_000]);
    }

    #[test]
    fn jittered_pauses_differ_and_keep_their_bounds() {
        let pause = Duration::from_secs(60);
        let entropy = SeededEntropy::new(1);
        let pauses: Vec<_> = (0..100).map(|_| jittered(pause, &entropy)).collect();
        assert!(pauses.iter().all(|drawn| (pause / 2..=pause).contains(drawn)));
        assert!(pauses.windows(2).any(|pair| pair[0] != pair[1]));
        assert!(jittered(Duration::MAX, &entropy) <= Duration::MAX);
    }
}
