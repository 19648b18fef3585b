//! A standby that polls: as few requests as the writer's promise allows, and nothing is noticed
//! later than that says.

use super::ship::{begun, follow, promoted, ship, standby_on};
use super::tier::{NOTHING_LOCAL, Tiered};
use super::*;
use crate::base::{Clock as _, Timestamp};
use crate::remote::sim::RemoteCall;

/// A writer and a standby, on a clock that goes by seconds.
pub(super) struct Pair {
    pub(super) tiered: Tiered,
    pub(super) writer: Store,
    pub(super) disk: SimFs,
    pub(super) standby: Standby,
    next_poll: Timestamp,
    /// Requests of the standby.
    pub(super) calls: u64,
}

impl Pair {
    pub(super) fn new(takeover_after: Option<u64>) -> Self {
        let tiered = Tiered::new(NOTHING_LOCAL);
        let writer = begun(&tiered, &tiered.fs, ShipMode::Async);
        writer.promise_takeover(None);
        writer.create_bucket("b", "admin").unwrap();
        ship(&writer).unwrap();
        let disk = SimFs::new();
        let standby = standby_on(&tiered, &disk);
        let standby = match takeover_after {
            Some(after) => standby.with_takeover_after(Duration::from_secs(after)),
            None => standby,
        };
        let next_poll = tiered.clock.now();
        Self { tiered, writer, disk, standby, next_poll, calls: 0 }
    }

    /// Lets a second pass, in which the writer may give a heartbeat. Returns whether the standby has
    /// seen one.
    pub(super) fn second(&mut self) -> bool {
        self.tiered.clock.advance(Duration::from_secs(1));
        self.writer.give_heartbeat_if_due().unwrap();
        self.poll()
    }

    /// Lets that many seconds pass.
    pub(super) fn seconds(&mut self, count: u32) {
        for _ in 0..count {
            self.second();
        }
    }

    /// Polls, if it is time. Returns whether the standby has seen a heartbeat.
    pub(super) fn poll(&mut self) -> bool {
        let mut has_seen = false;
        while self.tiered.clock.now() >= self.next_poll {
            let before = self.tiered.remote.all_calls();
            let step = self.standby.poll(&mut |_| ()).unwrap();
            self.calls += self.tiered.remote.all_calls() - before;
            has_seen |= step.heartbeat;
            let pause = if step.more { Duration::ZERO } else { self.standby.pause() };
            self.next_poll = self.tiered.clock.now().plus(pause);
        }
        has_seen
    }

    fn is_level(&self) -> bool {
        self.standby.figures().sequence == self.writer.health().sequence
    }
}

#[test]
fn what_is_written_is_seen_a_second_later_and_five_after_a_quiet_minute() {
    let mut pair = Pair::new(None);
    pair.seconds(5);
    assert!(pair.is_level());
    for nth in 0..20 {
        put(&pair.writer, "b", &format!("k{nth}"), b"v").unwrap();
        ship(&pair.writer).unwrap();
        pair.second();
        assert!(pair.is_level(), "write {nth}");
    }
    pair.seconds(600);
    put(&pair.writer, "b", "late", b"v").unwrap();
    ship(&pair.writer).unwrap();
    pair.seconds(5);
    assert!(pair.is_level());
    put(&pair.writer, "b", "next", b"v").unwrap();
    ship(&pair.writer).unwrap();
    pair.second();
    assert!(pair.is_level(), "it is as fast as before");
}

#[test]
fn a_writer_gives_signs_as_often_as_its_standby_wishes_while_that_is_there() {
    let mut pair = Pair::new(Some(15));
    pair.seconds(730);
    assert_eq!(pair.standby.least_silence(), Duration::from_secs(15));
    // Hours later still, and never is the writer silent for long.
    let mut silent = 0;
    for second in 0..3 * 3600 {
        silent = if pair.second() { 0 } else { silent + 1 };
        assert!(silent < 15, "silent for {silent} s at {second}");
    }
    // Without it heartbeats are seldom again.
    let heartbeats = |pair: &Pair| {
        let before = pair.tiered.remote.calls(RemoteCall::Put);
        for _ in 0..3600 {
            pair.tiered.clock.advance(Duration::from_secs(1));
            pair.writer.give_heartbeat_if_due().unwrap();
        }
        pair.tiered.remote.calls(RemoteCall::Put) - before
    };
    heartbeats(&pair);
    assert_eq!(heartbeats(&pair), 60);
}

#[test]
fn a_writer_that_gives_few_signs_is_not_taken_for_gone() {
    let mut pair = Pair::new(None);
    let mut silent = 0;
    for _ in 0..3600 {
        silent = if pair.second() { 0 } else { silent + 1 };
        assert!(Duration::from_secs(silent) < pair.standby.least_silence(), "silent for {silent} s");
    }
    assert!(pair.standby.least_silence() > Duration::from_secs(60));
}

#[test]
fn a_takeover_by_another_host_is_noticed_and_followed() {
    for takeover_after in [None, Some(15)] {
        let mut pair = Pair::new(takeover_after);
        pair.seconds(730);
        let other = SimFs::new();
        let mut second = standby_on(&pair.tiered, &other);
        follow(&mut second);
        let new = promoted(&pair.tiered, &other, &mut second, ShipMode::Async);
        put(&new, "b", "new", b"v").unwrap();
        ship(&new).unwrap();
        let mut waited = 0;
        while pair.standby.figures().epoch < 2 {
            pair.tiered.clock.advance(Duration::from_secs(1));
            new.give_heartbeat_if_due().unwrap();
            pair.poll();
            waited += 1;
            assert!(waited <= 15, "it is not noticed");
        }
        (0..5).for_each(|_| {
            pair.tiered.clock.advance(Duration::from_secs(1));
            pair.poll();
        });
        assert_eq!(pair.standby.figures().sequence, new.health().sequence);
    }
}

#[test]
fn a_standby_whose_writer_is_gone_asks_less_and_less_often() {
    let mut pair = Pair::new(None);
    pair.seconds(730);
    let before = pair.calls;
    for _ in 0..3600 {
        pair.tiered.clock.advance(Duration::from_secs(1));
        pair.poll();
    }
    assert!(pair.calls - before < 3000, "{} requests", pair.calls - before);
    assert!(pair.disk.list("meta").is_ok());
}
