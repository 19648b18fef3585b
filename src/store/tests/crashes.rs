//! The power goes at every single operation of the disk, and what was acknowledged is found
//! afterwards.

use super::model::Model;
use super::script::{CHURN, InDoubt, MORE_WORK, WORK, work};
use super::steps::Step;
use super::*;
use crate::base::test_scope::points;
use crate::fs::sim::{CrashPolicy, OpKind};

/// Stops the work at every `stride`-th operation ([`points`]), and looks after crashes of three
/// kinds.
pub(super) fn sweep(options: StoreOptions, stride: u64) {
    sweep_of(WORK, options, stride);
}

pub(super) fn sweep_of(steps: &[Step], options: StoreOptions, stride: u64) {
    let seed = seed();
    for stop in points(stride) {
        let fs = SimFs::new();
        fs.stop_at(stop);
        let Err(halt) = work(&fs, options, steps, Model::default()) else {
            println!("the work takes {} operations", fs.operations());
            return;
        };
        assert_eq!(fs.operations(), stop, "the work ended before the power went");
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(seed + stop)] {
            println!("power lost at operation {stop}, {policy:?}");
            let reboot = || fs.crash(policy);
            recover_through_crashes(&reboot, policy, options, &halt.doubt, stop);
            go_on(&reboot(), policy, options, &halt.doubt, stop);
        }
    }
}

/// The power goes again during the recovery, at every fifth operation of it; at the others after
/// neighbouring stops.
fn recover_through_crashes(
    reboot: &dyn Fn() -> SimFs,
    policy: CrashPolicy,
    options: StoreOptions,
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
fn go_on(fs: &SimFs, policy: CrashPolicy, options: StoreOptions, doubt: &InDoubt, stop: u64) {
    let (store, found) = doubt.recover(fs, options).expect("the store opens");
    drop(store);
    fs.stop_at(fs.operations() + 1 + stop % 40);
    let doubt = match work(fs, options, MORE_WORK, found) {
        Ok(done) => InDoubt::nothing(done),
        Err(halt) => halt.doubt,
    };
    doubt.recover(&fs.crash(policy), options).expect("the store opens");
}

/// The process ends at operations of the work ([`points`]); the next one finds all that was written, synced
/// or not. What its readers have seen must survive a crash behind it.
pub(super) fn sweep_of_killed_processes(options: StoreOptions) {
    for stop in points(1) {
        let fs = SimFs::new();
        fs.stop_at(stop);
        let Err(halt) = work(&fs, options, WORK, Model::default()) else {
            return;
        };
        println!("killed at operation {stop}");
        let next = fs.kill();
        let (_, seen) = halt.doubt.recover(&next, options).expect("the store opens");
        let crashed = next.crash(CrashPolicy::DropAll);
        InDoubt::nothing(seen).recover(&crashed, options).expect("the store opens");
        go_on(&fs.kill(), CrashPolicy::DropAll, options, &halt.doubt, stop);
    }
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_every_operation() {
    sweep(options(), 1);
}

#[test]
fn it_survives_too_where_segments_and_checkpoints_are_many() {
    let options = StoreOptions { segment_max_bytes: 100_000, checkpoint_after_bytes: 8_192, ..options() };
    sweep(options, 2);
}

#[test]
fn it_survives_too_where_the_log_goes_on_in_file_after_file() {
    let options = StoreOptions { log_file_max_bytes: 16_384, checkpoint_after_bytes: 30_000, ..options() };
    sweep(options, 2);
}

/// Two objects fill a segment.
pub(super) fn tiny_segments() -> StoreOptions {
    StoreOptions { segment_max_bytes: 20_000, checkpoint_after_bytes: 30_000, ..options() }
}

#[test]
fn it_survives_too_where_segments_are_emptied_and_go() {
    let fs = SimFs::new();
    work(&fs, tiny_segments(), CHURN, Model::default()).map_err(|halt| halt.error).unwrap();
    let gone =
        fs.trace().iter().filter(|op| op.kind == OpKind::Remove && op.path.starts_with("data/")).count();
    assert!(gone > 8, "{gone} segments went");
    sweep_of(CHURN, tiny_segments(), 1);
}

#[test]
fn what_a_reader_has_seen_after_a_restart_survives_a_crash() {
    sweep_of_killed_processes(options());
}
