//! Sources of random bytes. They are passed to constructors, so that tests are repeatable.

use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random bytes.
pub trait Entropy: Send + Sync {
    /// Fills `out` with random bytes.
    fn fill(&self, out: &mut [u8]);

    /// A random number.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// The generator of the operating system, suitable for keys.
#[derive(Debug, Default, Clone, Copy)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, out: &mut [u8]) {
        getrandom::fill(out).expect("the operating system hands out random bytes");
    }
}

/// A deterministic sequence without repetition (SplitMix64): for tests and for ids that need not be
/// secret, never for keys.
#[derive(Debug)]
pub struct SeededEntropy(AtomicU64);

impl SeededEntropy {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A number below `end`, which is not 0.
    pub fn below(&self, end: u64) -> u64 {
        self.next_u64() % end
    }

    /// `true` once in `count` times, on average.
    pub fn one_in(&self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// One of several choices.
    pub fn one_of<'t, T>(&self, choices: &'t [T]) -> &'t T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    fn step(&self) -> u64 {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.step().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_sequence_and_another_differs() {
        let draw = |seed| {
            let source = SeededEntropy::new(seed);
            [source.next_u64(), source.next_u64()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_ne!(draw(7)[0], draw(7)[1]);
    }

    #[test]
    fn every_choice_is_drawn_and_no_other() {
        let source = SeededEntropy::new(7);
        let mut drawn: Vec<_> = (0..100).map(|_| *source.one_of(&["a", "b", "c"])).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, ["a", "b", "c"]);
        assert!((0..100).all(|_| source.below(3) < 3));
        let ones = (0..1_000).filter(|_| source.one_in(4)).count();
        assert!((150..350).contains(&ones), "{ones}");
    }

    #[test]
    fn the_operating_system_does_not_repeat_itself() {
        assert_ne!(OsEntropy.next_u64(), OsEntropy.next_u64());
    }
}
