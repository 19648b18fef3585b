//! Lifecycle rules, object lock, quotas and versions together: long random sequences against a slow
//! model, and the loss of power during sweeps. `SILTSTONE_TEST_SEED` repeats one sequence,
//! `SILTSTONE_TEST_SEEDS` says how many there are, and `SILTSTONE_TEST_STEPS` how many steps each
//! has.

mod comparison;
mod crashes;
mod groups;
mod model;
mod objects;
mod policies;
mod power;
mod rules;
mod run;
mod sweeps;

use run::{Run, Seen};

const HOUR: u64 = 60 * 60 * 1000;
const DAY: u64 = 24 * HOUR;
/// Days after which an upload without activity and without a rule is aborted.
const IDLE_DAYS: u64 = 7;

const SEQUENCES: u64 = 3;
const STEPS: u64 = 1_000;

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|number| number.parse().expect("a number"))
}

fn sequence(seed: u64, steps: u64) -> Seen {
    println!("SILTSTONE_TEST_SEED={seed}");
    let mut run = Run::start(seed);
    for step in 1..=steps {
        print!("step {step}: ");
        run.step();
    }
    run.restart(None);
    run.check();
    run.seen
}

#[test]
fn rules_locks_and_quotas_together_do_what_a_slow_model_does() {
    let steps = number_from("SILTSTONE_TEST_STEPS").unwrap_or(STEPS);
    let seeds = number_from("SILTSTONE_TEST_SEEDS").unwrap_or(SEQUENCES);
    let seeds = number_from("SILTSTONE_TEST_SEED").map_or(1..=seeds, |seed| seed..=seed);
    let mut met = [0; 5];
    for seed in seeds {
        let seen = sequence(seed, steps);
        let seen = [seen.taken, seen.kept, seen.locked, seen.over_quota, seen.crashed_sweeps];
        met.iter_mut().zip(seen).for_each(|(met, seen)| *met += seen);
    }
    assert!(steps < STEPS || met.iter().all(|count| *count > 0), "{met:?}");
}
