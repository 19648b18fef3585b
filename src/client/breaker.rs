//! The circuit breaker: where tries have failed one after another, calls fail at once for a while.

use std::time::{Duration, Instant};

use crate::base::Backoff;

/// The number of failures in a row that opens the circuit.
const FAILURES_MAX: u32 = 8;
/// The pauses while the circuit is open.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(4) };

/// The state of the circuit.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker {
    failures: u32,
    /// The end of the pause, while the circuit is open.
    open_until: Option<Instant>,
    /// How often it was opened since the last answer.
    openings: u32,
    /// Whether a try is on its way that decides whether the circuit closes.
    probing: bool,
    /// The last failure.
    reason: String,
}

impl CircuitBreaker {
    /// Lets a try pass. Each one that passes is followed by a call of one of the other methods.
    ///
    /// # Errors
    /// The circuit is open: the reason.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<(), String> {
        self.check(now)?;
        self.probing = self.open_until.is_some();
        Ok(())
    }

    /// Whether a try would be refused, for callers that prepare one at some cost.
    ///
    /// # Errors
    /// As [`CircuitBreaker::admit`].
    pub(crate) fn check(&self, now: Instant) -> Result<(), String> {
        match self.open_until {
            // While one try decides whether the circuit closes, the other callers do not wait for
            // the same silence.
            Some(until) if now < until || self.probing => Err(self.refusal()),
            _ => Ok(()),
        }
    }

    fn refusal(&self) -> String {
        format!("not tried, since {} tries failed: {}", self.failures, self.reason)
    }

    /// Whether the last try that ended failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// The server has answered.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// The server was not reached, or is not able to answer.
    pub(crate) fn failed(&mut self, now: Instant, reason: &str) {
        self.failures = self.failures.saturating_add(1);
        reason.clone_into(&mut self.reason);
        // Tries that began before the circuit opened do not prolong its pause.
        if self.failures >= FAILURES_MAX && (self.open_until.is_none() || self.probing) {
            self.openings = self.openings.saturating_add(1);
            self.open_until = Some(now + BACKOFF.after(self.openings));
        }
        self.probing = false;
    }

    /// The try ended for a reason of this side.
    pub(crate) fn abandoned(&mut self) {
        // The circuit stays as it is: nothing was learnt about the server. The next try decides.
        self.probing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_failures(now: Instant, count: u32) -> CircuitBreaker {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..count {
            breaker.admit(now).unwrap();
            breaker.failed(now, "refused");
        }
        breaker
    }

    #[test]
    fn failures_in_a_row_open_the_circuit_and_an_answer_closes_it() {
        let now = Instant::now();
        let mut breaker = after_failures(now, FAILURES_MAX - 1);
        breaker.succeeded();
        for _ in 0..FAILURES_MAX {
            breaker.admit(now).unwrap();
            breaker.failed(now, "refused");
        }
        let why = breaker.admit(now).unwrap_err();
        assert!(why.contains("refused") && why.contains("8 tries"), "{why}");
        breaker.admit(now + BACKOFF.first).unwrap();
        breaker.succeeded();
        breaker.admit(now).unwrap();
    }

    #[test]
    fn one_try_decides_after_a_pause_that_grows() {
        let mut now = Instant::now();
        let mut breaker = after_failures(now, FAILURES_MAX);
        for seconds in [1, 2, 4, 4, 4] {
            let pause = Duration::from_secs(seconds);
            assert!(breaker.admit(now + pause - Duration::from_millis(1)).is_err(), "{seconds} s");
            now += pause;
            assert!(breaker.check(now).is_ok());
            breaker.admit(now).unwrap();
            assert!(breaker.check(now).is_err() && breaker.admit(now).is_err(), "one try at a time");
            breaker.failed(now, "refused");
        }
    }

    #[test]
    fn an_abandoned_try_leaves_its_place_to_the_next() {
        let now = Instant::now();
        let mut breaker = after_failures(now, FAILURES_MAX);
        breaker.admit(now + BACKOFF.first).unwrap();
        breaker.abandoned();
        breaker.admit(now + BACKOFF.first).unwrap();
    }

    #[test]
    fn tries_from_before_the_opening_do_not_prolong_the_pause() {
        let now = Instant::now();
        let mut breaker = after_failures(now, FAILURES_MAX);
        breaker.failed(now + BACKOFF.first / 2, "late");
        breaker.admit(now + BACKOFF.first).unwrap();
    }
}
