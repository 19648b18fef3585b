//! A sweep of more versions than one group takes. The power goes at every operation of it: the
//! versions of whole groups are gone, the held ones stay, and the next sweep takes the rest.

use std::sync::Arc;
use std::time::Duration;

use siltstone::base::{ManualClock, Timestamp};
use siltstone::fs::sim::{CrashPolicy, SimFs};
use siltstone::store::{
    Attributes, BucketConfigurationKind, Commit, ETag, EXPIRY_GROUP_MAX, ObjectControls, StorageClass, Store,
    Versioning, WriteCondition,
};

use super::DAY;
use super::power::open;

const BUCKET: &str = "logs";
const VERSIONS: usize = 2 * EXPIRY_GROUP_MAX + 100;
/// Each of so many is held.
const HELD_STEP: usize = 100;
const RULES: &[u8] =
    b"<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status><Filter/><NoncurrentVersionExpiration>\
    <NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration></Rule></LifecycleConfiguration>";

fn put(store: &Store, key: &str, is_held: bool) {
    let mut writer = store.writer(BUCKET, key, Some(1)).unwrap();
    writer.write(b"x").unwrap();
    let commit = Commit {
        storage_class: StorageClass::Standard,
        etag: ETag::Crc(1),
        attributes: Attributes::new(),
        checksums: vec![],
        tags: vec![],
        condition: WriteCondition::None,
        controls: ObjectControls { legal_hold: is_held.then_some(true), ..ObjectControls::default() },
        stated_time: None,
    };
    writer.commit(commit).unwrap();
}

/// A store in which each key has a noncurrent version that is due, and a current one that is not.
fn prepared(clock: &Arc<ManualClock>) -> SimFs {
    let fs = SimFs::new();
    let (store, _) = open(&fs, clock);
    store.create_bucket(BUCKET, "ann").unwrap();
    store.set_versioning(BUCKET, Versioning::Enabled).unwrap();
    for nth in 0..VERSIONS {
        let key = format!("{nth:05}");
        put(&store, &key, nth % HELD_STEP == 0);
        put(&store, &key, false);
    }
    store.set_bucket_configuration(BUCKET, BucketConfigurationKind::Lifecycle, Some(RULES.to_vec())).unwrap();
    store.checkpoint().unwrap();
    clock.advance(Duration::from_millis(3 * DAY));
    fs
}

fn noncurrent(store: &Store) -> usize {
    store.health().versions as usize - VERSIONS
}

#[test]
fn a_sweep_of_several_groups_survives_a_crash_at_every_operation() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let fs = prepared(&clock);
    let held = VERSIONS / HELD_STEP;
    let mut amounts = Vec::new();
    for after in 1.. {
        let mut is_done = false;
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(after)] {
            let fork = fs.kill();
            let (store, mut sweeper) = open(&fork, &clock);
            fork.stop_at(fork.operations() + after);
            is_done = sweeper.sweep_due(&|| false, &mut |_| {}).is_ok();
            drop((store, sweeper));
            let (store, mut sweeper) = open(&fork.crash(policy), &clock);
            let left = noncurrent(&store);
            amounts.push(left);
            sweeper.sweep_due(&|| false, &mut |_| {}).unwrap();
            assert_eq!(noncurrent(&store), held, "after {after} operations, {policy:?}");
            assert_eq!(store.health().damage, []);
        }
        if is_done {
            break;
        }
    }
    amounts.sort_unstable();
    amounts.dedup();
    assert_eq!(amounts.len(), 1 + (VERSIONS - held).div_ceil(EXPIRY_GROUP_MAX), "{amounts:?}");
}
