//! Long random sequences of everything that changes a store, compared with a world that is kept in
//! the simplest way. `SILTSTONE_TEST_SEED` repeats one sequence, `SILTSTONE_TEST_STEPS` says how
//! many steps each has.

mod buckets;
mod checks;
mod objects;
mod rebuilt;
mod steps;
mod uploads;
mod world;

use std::sync::Arc;

use super::*;
use crate::base::limits::MIB;
use crate::base::test_scope::{is_long, seeds};
use crate::fs::sim::CrashPolicy;
use crate::remote::sim::{RemoteCall, SimRemote};
pub(super) use rebuilt::{rebuild_log, segments_of};
use steps::Run;

const BUCKETS: &[(&str, Versioning)] =
    &[("plain", Versioning::Unset), ("kept", Versioning::Enabled), ("paused", Versioning::Suspended)];

/// Few, so that they collide; with delimiters at the end, doubled, and behind each other's names.
const KEYS: &[&str] =
    &["a", "a/", "a/b", "a/b/c", "a//b", "a/c", "b", "b-1", "b-2/", "ä/ö", "ä/ü", "\u{10ffff}/z"];

/// Steps of each sequence.
const STEPS: u64 = 1_200;
/// Sequences, each with a seed of its own.
const SEQUENCES: u64 = 6;
/// Steps between two comparisons of everything.
const CHECK_EVERY: u64 = 40;
/// Steps between two rebuilds of the log from the segments.
const REBUILD_EVERY: u64 = 150;

/// How a store ends and comes back.
#[derive(Debug, Clone, Copy)]
enum Restart {
    Drop,
    Close,
    Kill,
    Crash(CrashPolicy),
}

impl Restart {
    fn drawn(draw: &SeededEntropy) -> Self {
        match draw.below(5) {
            0 => Self::Drop,
            1 => Self::Close,
            2 => Self::Kill,
            3 => Self::Crash(CrashPolicy::DropAll),
            _ => Self::Crash(CrashPolicy::Random(draw.below(1 << 32))),
        }
    }
}

/// Options of a sequence: every other one with many segments, and with checkpoints while the work
/// goes on. What is kept free is enough for the log through some restarts.
fn options_for(seed: u64) -> StoreOptions {
    let options = StoreOptions { keep_free_bytes: 8 * MIB, ..options() };
    match seed % 2 {
        0 => options,
        _ => StoreOptions { segment_max_bytes: 300_000, checkpoint_after_bytes: 8_192, ..options },
    }
}

/// The remote of a sequence: the first four of eight have none.
fn remote_for(seed: u64) -> Option<SimRemote> {
    ((seed + 3) % 8 < 4).then(SimRemote::new)
}

/// Does a sequence, and says how much was refused because the disk was full.
fn sequence(seed: u64, steps: u64) -> u64 {
    println!("SILTSTONE_TEST_SEED={seed}");
    let mut run = Run::start(seed, options_for(seed), remote_for(seed));
    for step in 1..=steps {
        print!("step {step}: ");
        run.step();
        if step % CHECK_EVERY == 0 {
            run.check();
        }
        // A rebuild needs all bytes in the segments here.
        if step % REBUILD_EVERY == 0 && run.remote.is_none() {
            run.check_rebuilt();
        }
    }
    run.check();
    run.restart(Restart::Crash(CrashPolicy::DropAll));
    run.check();
    run.empty_all();
    assert_eq!(run.store().health().live_bytes, 0);
    run.restart(Restart::Drop);
    assert_eq!((run.store().health().buckets, run.store().health().live_bytes), (0, 0));
    if let Some(remote) = run.remote.as_ref().filter(|_| steps >= STEPS) {
        let [puts, gets] = [RemoteCall::Put, RemoteCall::Get].map(|call| remote.calls(call));
        println!("{puts} segments went to the remote, and bytes came back {gets} times");
        assert!(puts > 0 && gets > 20, "{puts} and {gets}");
    }
    run.refused.get()
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|number| number.parse().expect("a number"))
}

#[test]
fn whatever_is_done_in_whatever_order_the_store_holds_what_a_simple_model_holds() {
    let steps = number_from("SILTSTONE_TEST_STEPS").unwrap_or(STEPS);
    let refused: u64 = match number_from("SILTSTONE_TEST_SEED") {
        Some(seed) => sequence(seed, steps),
        // One without a remote, and one with it.
        None => seeds(1..5, 1).chain(seeds(5..SEQUENCES + 1, 1)).map(|seed| sequence(seed, steps)).sum(),
    };
    assert!(refused > 0 || steps < STEPS || !is_long(), "the disk was never full");
}
