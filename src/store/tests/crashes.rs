//! The power goes at every single operation of the disk, and what was acknowledged is found afterwards.

use super::model::{If, Model, Step, Which};
use super::*;
use crate::fs::sim::CrashPolicy;

use Step::{Checkpoint, Create, Delete, Drop, Put, Reopen};

/// Everything that changes a store, small and large, with conditions, versions, buckets that come and go, checkpoints and
/// restarts.
const WORK: &[Step] = &[
    Create("a"),
    Put("a", "small", 1, 100, If::Always),
    Put("a", "blocks", 2, 70_000, If::Always),
    Put("a", "big", 3, 300_000, If::Absent),
    Put("a", "small", 4, 5_000, If::Is(1, 100)),
    Put("a", "empty", 5, 0, If::Always),
    Delete("a", &[("blocks", Which::Current)]),
    Step::Versioning("a", Versioning::Enabled),
    Put("a", "small", 6, 6_000, If::Always),
    Put("a", "small", 7, 66_000, If::Always),
    Delete("a", &[("small", Which::Current)]),
    Put("a", "small", 8, 800, If::Absent),
    Put("a", "small", 9, 900, If::Absent),
    Put("a", "small", 10, 1_000, If::Is(8, 800)),
    Checkpoint,
    Delete("a", &[("small", Which::Nth(2)), ("big", Which::Null), ("never", Which::Current)]),
    Reopen { close: true },
    Step::Versioning("a", Versioning::Suspended),
    Put("a", "small", 11, 1_100, If::Always),
    Delete("a", &[("small", Which::Current), ("small", Which::Nth(3)), ("never", Which::Nth(0))]),
    Create("b"),
    Create("a"),
    Put("b", "x", 12, 200, If::Always),
    Drop("b"),
    Delete("b", &[("x", Which::Current)]),
    Drop("b"),
    Reopen { close: false },
    Create("b"),
    Put("b", "x", 13, 140_000, If::Always),
    Checkpoint,
    Put("b", "y", 14, 10, If::Always),
];

/// What goes on after a recovery.
const MORE_WORK: &[Step] = &[
    Create("c"),
    Put("c", "small", 20, 2_000, If::Always),
    Put("c", "big", 21, 150_000, If::Always),
    Checkpoint,
    Delete("c", &[("small", Which::Current)]),
    Reopen { close: false },
    Put("c", "last", 22, 300, If::Absent),
];

/// What a crash may leave: what was acknowledged, or that and the step that was under way.
struct InDoubt {
    before: Model,
    after: Model,
}

impl InDoubt {
    fn nothing(model: Model) -> Self {
        Self { before: model.clone(), after: model }
    }

    /// Opens the store and reads what has become of it.
    fn recover(&self, fs: &SimFs, options: Options) -> Result<(Store, Model), OpenError> {
        let store = open_with(fs, options)?;
        let health = store.health();
        assert_eq!((health.read_only, health.damage), (None, vec![]));
        let found = Model::of(&store);
        assert!(
            self.before.agrees_with(&found) || self.after.agrees_with(&found),
            "acknowledged: {:#?}\nunder way: {:#?}\nfound: {found:#?}",
            self.before,
            self.after
        );
        Ok((store, found))
    }
}

/// Does the steps until the power goes.
fn work(fs: &SimFs, options: Options, steps: &[Step], mut model: Model) -> Result<Model, InDoubt> {
    let Ok(mut store) = open_with(fs, options) else {
        return Err(InDoubt::nothing(model));
    };
    for step in steps {
        let expected = model.after(step);
        let done = match step {
            Reopen { close } => {
                model.learn_ids(&store);
                if *close {
                    store.close();
                }
                drop(store);
                match open_with(fs, options) {
                    Ok(again) => store = again,
                    Err(_) => return Err(InDoubt::nothing(model)),
                }
                Ok(())
            }
            step => step.run(&store),
        };
        match (done, expected) {
            (Ok(()), Ok(after)) => model = after,
            (Err(error), Err(refusal)) if error == refusal => {}
            (Ok(()), Err(refusal)) => panic!("{step:?} ought to have been refused: {refusal}"),
            (Err(_), _) => {
                model.learn_ids(&store);
                let after = model.after(step).unwrap_or_else(|_| model.clone());
                return Err(InDoubt { before: model, after });
            }
        }
    }
    model.learn_ids(&store);
    Ok(model)
}

/// Stops the work at every operation, and looks after a crash of each of the policies.
fn sweep(options: Options, seeds: u64) {
    let seed = seed();
    let policies: Vec<_> = [CrashPolicy::DropAll, CrashPolicy::KeepAll]
        .into_iter()
        .chain((seed..seed + seeds).map(CrashPolicy::Random))
        .collect();
    for stop in 1.. {
        let fs = SimFs::new();
        fs.stop_at(stop);
        let Err(doubt) = work(&fs, options, WORK, Model::default()) else {
            println!("the work takes {} operations", fs.operations());
            return;
        };
        assert_eq!(fs.operations(), stop, "the work ended before the power went");
        for policy in &policies {
            println!("power lost at operation {stop}, {policy:?}");
            let reboot = || fs.crash(*policy);
            recover_through_crashes(&reboot, *policy, options, &doubt, stop);
            go_on(&reboot(), *policy, options, &doubt, stop);
        }
    }
}

/// The power goes again during the recovery, at every fifth operation of it; at the others after neighbouring stops.
fn recover_through_crashes(
    reboot: &dyn Fn() -> SimFs,
    policy: CrashPolicy,
    options: Options,
    doubt: &InDoubt,
    stop: u64,
) {
    for again in (1 + stop % 5..).step_by(5) {
        let fs = reboot();
        fs.stop_at(again);
        if doubt.recover(&fs, options).is_ok() {
            return;
        }
        assert_eq!(fs.operations(), again, "the recovery failed before the power went");
        doubt.recover(&fs.crash(policy), options).expect("a recovery can be repeated");
    }
}

/// After the recovery there is more work, during which the power goes once more.
fn go_on(fs: &SimFs, policy: CrashPolicy, options: Options, doubt: &InDoubt, stop: u64) {
    let (store, found) = doubt.recover(fs, options).expect("the store opens");
    drop(store);
    fs.stop_at(fs.operations() + 1 + stop % 40);
    let doubt = match work(fs, options, MORE_WORK, found) {
        Ok(done) => InDoubt::nothing(done),
        Err(doubt) => doubt,
    };
    doubt.recover(&fs.crash(policy), options).expect("the store opens");
}

/// The process ends at every operation of the work; the next one finds all that was written, synced or not. What its
/// readers have seen must survive a crash behind it.
fn sweep_of_killed_processes(options: Options) {
    for stop in 1.. {
        let fs = SimFs::new();
        fs.stop_at(stop);
        let Err(doubt) = work(&fs, options, WORK, Model::default()) else {
            return;
        };
        println!("killed at operation {stop}");
        let next = fs.kill();
        let (_, seen) = doubt.recover(&next, options).expect("the store opens");
        let crashed = next.crash(CrashPolicy::DropAll);
        InDoubt::nothing(seen).recover(&crashed, options).expect("the store opens");
        go_on(&fs.kill(), CrashPolicy::DropAll, options, &doubt, stop);
    }
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_every_operation() {
    sweep(options(), 2);
}

#[test]
fn it_survives_too_where_segments_and_checkpoints_are_many() {
    let options = Options { segment_max_bytes: 100_000, checkpoint_after_bytes: 8_192, ..options() };
    sweep(options, 2);
}

#[test]
fn what_a_reader_has_seen_after_a_restart_survives_a_crash() {
    sweep_of_killed_processes(options());
}
