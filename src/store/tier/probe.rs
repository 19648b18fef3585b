//! The weekly probe: a remote that was fit when it was marked may have lost that since, as by an
//! upgrade or a proxy in front of it.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Tier;
use crate::base::{Entropy, Timestamp};
use crate::remote::probe::{ProbeReport, ProbeSize, probe};
use crate::store::Store;
use crate::store::remote_log::request::PATIENCE;

/// The least time from the start to the first probe. As much again is drawn, as after it: several
/// servers with one remote take turns.
const FIRST_AFTER: Duration = Duration::from_secs(5 * 60);
/// The time between two probes, to which a seventh at most is added.
const PROBE_INTERVAL: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The time to the next probe after one that found a fault, or could not be made.
const AGAIN_AFTER: Duration = Duration::from_secs(60 * 60);
/// Races that cost some ten requests each.
const PROBE_SIZE: ProbeSize = ProbeSize { rounds: 16, racers: 8, settle: SETTLE };
#[cfg(not(test))]
const SETTLE: Duration = ProbeSize::SETTLE;
#[cfg(test)]
const SETTLE: Duration = Duration::ZERO;

/// The outcome of a probe of the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteProbed {
    /// The time of its end.
    pub at: Timestamp,
    /// Whether cold segments and the log are safe there.
    pub keeps_objects: bool,
    /// Whether two hosts can agree by it which of them writes.
    pub decides_races: bool,
    /// The first thing that it is not able to do.
    pub problem: Option<String>,
}

/// The probes since the start.
#[derive(Default)]
pub(super) struct WeeklyProbe {
    /// The time of the next one; unknown before the first look.
    due: Option<Instant>,
    last: Option<RemoteProbed>,
    /// The first race that was decided badly since the start. Later probes that see none change
    /// nothing.
    badly_decided: Option<String>,
}

impl Store {
    /// Probes the remote, if it is time. Returns the outcome, where there is one. Nothing without a
    /// tier.
    pub fn probe_remote(&self, entropy: &dyn Entropy) -> Option<RemoteProbed> {
        let tier = self.tier.as_ref()?;
        let now = self.shared.clock.instant();
        let due = *tier.probes().due.get_or_insert_with(|| now + FIRST_AFTER + drawn(FIRST_AFTER, entropy));
        if now < due {
            return None;
        }
        let probed = tier.probe_now().map(|report| tier.verdict(&report));
        let is_good = probed.as_ref().is_some_and(|probed| probed.problem.is_none());
        let pause = if is_good { PROBE_INTERVAL + drawn(PROBE_INTERVAL / 7, entropy) } else { AGAIN_AFTER };
        let mut probes = tier.probes();
        probes.due = Some(self.shared.clock.instant() + pause);
        // A probe that could not be made says nothing: the last verdict stays.
        probes.last = probed.clone().or(probes.last.take());
        probed
    }

    /// The outcome of the last probe of the remote; `None` before the first since the start, and
    /// without a tier.
    pub fn remote_probed(&self) -> Option<RemoteProbed> {
        self.tier.as_ref()?.probes().last.clone()
    }
}

/// A time below `most`, so that stores that share a remote do not probe it at once.
fn drawn(most: Duration, entropy: &dyn Entropy) -> Duration {
    Duration::from_millis(entropy.next_u64() % most.as_millis() as u64)
}

impl Tier {
    fn probes(&self) -> MutexGuard<'_, WeeklyProbe> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a probe says, together with what earlier ones have proven.
    fn verdict(&self, report: &ProbeReport) -> RemoteProbed {
        let mut probes = self.probes();
        if report.is_proven_unfit && probes.badly_decided.is_none() {
            probes.badly_decided = report.first_problem();
        }
        RemoteProbed {
            at: self.clock.now(),
            keeps_objects: report.keeps_objects(),
            decides_races: report.decides_races() && probes.badly_decided.is_none(),
            problem: report.first_problem().or_else(|| probes.badly_decided.clone()),
        }
    }

    /// A probe, if the remote is the own one and answers. A fault counts only if a second probe
    /// finds it, too: the remote may have been away for a moment. A race that was decided badly
    /// counts at once.
    fn probe_now(&self) -> Option<ProbeReport> {
        self.mark.pass(self.remote.as_ref(), PATIENCE).ok()?;
        // Who may not change the remote puts nothing there to try it.
        self.right.epoch()?;
        let remote = self.right.claimant()?;
        let first = probe(remote, PROBE_SIZE, |_, _, _| ()).ok()?;
        if first.first_problem().is_none() || first.is_proven_unfit {
            return Some(first);
        }
        probe(remote, PROBE_SIZE, |_, _, _| ()).ok()
    }
}
