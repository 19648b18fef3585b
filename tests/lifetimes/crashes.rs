//! The power goes at every single operation of the disk: of a sweep, of the abort of idle uploads,
//! of changes of quotas. After each loss the store is as after one of the commits, nothing locked
//! is gone, and a second run finishes the work.

use siltstone::fs::sim::CrashPolicy;
use siltstone::store::Quota;

use super::comparison::check_bytes;
use super::model::Model;
use super::power::PowerCut;
use super::rules::ModelRule;
use super::run::{BUCKETS, KEYS, Run};
use super::{DAY, IDLE_DAYS};

/// A store with versions of which some are locked, and with uploads with parts.
fn prepared() -> Run {
    let mut run = Run::start(5);
    for key in KEYS {
        for (bucket, _) in BUCKETS {
            run.put(bucket, key);
            run.put(bucket, key);
            run.begin(bucket, key);
            run.begin(bucket, key);
            run.hold(bucket);
            (0..3).for_each(|_| run.change_upload(bucket));
        }
    }
    (0..20).for_each(|_| run.hold("locked"));
    run.check();
    run
}

/// The versions that are locked, with their buckets and keys.
fn locked(run: &Run, model: &Model) -> Vec<String> {
    let lock_time = run.lock_time();
    let versions =
        model.buckets.iter().flat_map(|(name, bucket)| bucket.versions().map(move |it| (name, it)));
    let locked = versions.filter(|(_, (_, version))| version.is_locked(lock_time, false));
    locked.map(|(name, (key, version))| format!("{name}/{key} {:?}", version.id)).collect()
}

/// Does some work again and again, on copies of one store, until it is done before the power goes.
/// `work` tells whether it was.
fn at_every_operation(mut run: Run, work: impl Fn(&mut Run, Option<PowerCut>) -> bool) {
    run.restart(None);
    let base = run.model.clone();
    let policies = [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(11)];
    let must_stay = locked(&run, &base);
    assert!(must_stay.len() > 3, "{must_stay:?}");
    for after in 1.. {
        for policy in policies {
            let mut fork = run.fork();
            println!("the power goes at operation {after}, {policy:?}");
            if work(&mut fork, Some(PowerCut { after, policy })) {
                assert!(after > 2, "all was done in {after} operations");
                return;
            }
            fork.check();
            assert!(work(&mut fork, None));
            fork.check();
            check_bytes(fork.store(), &fork.model);
            let there = locked(&fork, &fork.model);
            assert!(must_stay.iter().all(|version| there.contains(version)), "{must_stay:?}, {there:?}");
        }
    }
}

fn advance(run: &mut Run, days: u64) {
    run.pass(days * DAY);
}

#[test]
fn a_sweep_survives_a_crash_at_every_operation_and_a_second_one_finishes_it() {
    let mut run = prepared();
    for (bucket, _) in BUCKETS {
        run.set_rules(bucket, vec![ModelRule::of_everything()]);
    }
    advance(&mut run, 2);
    let uploads = |run: &Run| run.model.buckets.values().map(|bucket| bucket.uploads.len()).sum::<usize>();
    assert!(uploads(&run) > 3, "{}", uploads(&run));
    at_every_operation(run, |run, cut| {
        let done = run.sweep_until(cut);
        assert!(!done || uploads(run) == 0);
        done
    });
}

#[test]
fn the_abort_of_idle_uploads_survives_a_crash_at_every_operation() {
    let mut run = prepared();
    advance(&mut run, IDLE_DAYS + 1);
    at_every_operation(run, |run, cut| {
        let done = run.abort_idle_until(cut);
        assert!(!done || run.model.buckets.values().all(|bucket| bucket.uploads.is_empty()));
        done
    });
}

#[test]
fn changes_of_quotas_survive_a_crash_at_every_operation_and_hold_afterwards() {
    let quota = |bytes| Some(Quota { bytes: Some(bytes), ..Quota::default() });
    for (bucket, is_owner, new) in [
        ("plain", true, quota(20_000)),
        ("plain", false, quota(9_000)),
        ("locked", true, None),
        ("locked", false, None),
    ] {
        let mut run = prepared();
        run.set_quota_until("locked", true, quota(100), None);
        run.set_quota_until("locked", false, quota(100), None);
        at_every_operation(run, |run, cut| {
            let done = run.set_quota_until(bucket, is_owner, new, cut);
            // Refused or not, as the model says.
            for key in KEYS {
                run.put(bucket, key);
            }
            done
        });
    }
}
