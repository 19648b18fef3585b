//! The choice of unsynced changes that survive a crash.

use crate::base::entropy::SeededEntropy;

/// The changes that survive a crash, of those that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPolicy {
    /// None of them.
    DropAll,
    /// All of them.
    KeepAll,
    /// Any subset that [`Fs`](crate::fs::Fs) permits, chosen by the seed.
    Random(u64),
}

/// The surviving changes of one file or directory.
#[derive(Debug, Clone, Copy)]
enum CrashFate {
    Nothing,
    Everything,
    /// All before this time, and a random part of the change at this time.
    UpTo(u64),
    /// A random subset.
    Any,
}

/// The choices of one crash.
#[derive(Debug)]
pub(super) struct Survivors {
    policy: CrashPolicy,
    entropy: SeededEntropy,
    fate: CrashFate,
}

impl Survivors {
    pub(super) fn new(policy: CrashPolicy) -> Self {
        let seed = match policy {
            CrashPolicy::Random(seed) => seed,
            CrashPolicy::DropAll | CrashPolicy::KeepAll => 0,
        };
        Self { policy, entropy: SeededEntropy::new(seed), fate: CrashFate::Nothing }
    }

    /// Chooses the fate of the next file or directory, which was changed at `times`.
    pub(super) fn choose_fate(&mut self, times: &[u64]) {
        self.fate = match self.policy {
            CrashPolicy::DropAll => CrashFate::Nothing,
            CrashPolicy::KeepAll => CrashFate::Everything,
            CrashPolicy::Random(_) => self.draw(times),
        };
    }

    fn draw(&mut self, times: &[u64]) -> CrashFate {
        match (self.entropy.below(8), times.len()) {
            (_, 0) | (0, _) => CrashFate::Nothing,
            (1, _) => CrashFate::Everything,
            (2..5, count) => CrashFate::UpTo(times[self.entropy.below(count as u64) as usize]),
            _ => CrashFate::Any,
        }
    }

    /// The number of writes to one cell, made at `times`, that reached the disk. The cell holds the
    /// last of them.
    pub(super) fn reached(&mut self, times: &[u64]) -> usize {
        match self.fate {
            CrashFate::Nothing => 0,
            CrashFate::Everything => times.len(),
            CrashFate::UpTo(last) => times.iter().take_while(|&&at| self.keeps(at, last)).count(),
            CrashFate::Any => self.entropy.below(times.len() as u64 + 1) as usize,
        }
    }

    /// Whether an independent change, made at `at`, reached the disk.
    pub(super) fn kept(&mut self, at: u64) -> bool {
        match self.fate {
            CrashFate::Nothing => false,
            CrashFate::Everything => true,
            CrashFate::UpTo(last) => self.keeps(at, last),
            CrashFate::Any => self.coin(),
        }
    }

    /// The length of a file that was `from` bytes long and should be `to`: a file system may grow
    /// the length in steps during a write.
    pub(super) fn length(&mut self, from: u64, to: u64) -> u64 {
        match self.fate {
            CrashFate::UpTo(_) | CrashFate::Any if to > from && self.entropy.one_in(4) => {
                from + self.entropy.below(to - from + 1)
            }
            _ => to,
        }
    }

    fn keeps(&self, at: u64, last: u64) -> bool {
        at < last || (at == last && self.coin())
    }

    fn coin(&self) -> bool {
        self.entropy.one_in(2)
    }
}
