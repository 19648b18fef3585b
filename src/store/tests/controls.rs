//! Controls that are changed after the put: the log knows them, and so do the segments.

use super::configurations::features;
use super::random::{rebuild_log, segments_of};
use super::ship::{LITTLE_LOCAL, follow, followed, promoted, restored, ship};
use super::tier::Tiered;
use super::waiting::{begin, hold};
use super::*;
use crate::base::limits::MIB;
use crate::base::test_scope::points;
use crate::format::{Features, FileKind};
use crate::fs::sim::CrashPolicy;

const NONE: ObjectControls =
    ObjectControls { acl: AclGrants::NONE, users: None, retention: None, legal_hold: None };

fn until(days: u64) -> Option<Retention> {
    let until = Timestamp::from_millis(1_800_000_000_000 + days * 86_400_000);
    Some(Retention { mode: RetentionMode::Compliance, until })
}

fn current(store: &Store, key: &str) -> VersionRecord {
    store.find("b", key, Selector::Current).unwrap().version
}

fn controls(store: &Store, key: &str) -> ObjectControls {
    current(store, key).controls
}

fn retain(store: &Store, key: &str, days: u64) -> Result<(), StoreError> {
    store.set_retention("b", key, current(store, key), until(days), false)
}

fn hold_legally(store: &Store, key: &str, held: bool) -> Result<(), StoreError> {
    store.set_legal_hold("b", key, current(store, key), held)
}

/// The store that is made from the segments alone, of which nothing is damaged.
fn rebuilt(fs: &SimFs) -> Store {
    let copy = segments_of(fs);
    let report = rebuild_log(&copy);
    assert_eq!((report.damage, report.lost), (vec![], vec![]));
    assert_eq!(verify(&copy, &mut |_| {}).unwrap().findings, []);
    open(&copy)
}

fn bucket(fs: &SimFs, options: StoreOptions) -> Store {
    let store = open_with(fs, options).unwrap();
    store.create_bucket("b", "admin").unwrap();
    store
}

/// A small object, a large one, one that copies a range of it, and one that an upload made.
const OF_EACH_KIND: [&str; 4] = ["small", "large", "copy", "film"];

fn put_each_kind(store: &Store) {
    put(store, "b", "small", b"abc").unwrap();
    put(store, "b", "large", &bytes(1, 200_000)).unwrap();
    copy_of_large(store, "copy");
    let upload = begin_upload(store, "b", "film").unwrap();
    let mut part = store.part_writer("b", "film", upload, 1, None).unwrap();
    part.write(&bytes(2, 70_000)[..]).unwrap();
    part.commit(Md5::of(&bytes(2, 70_000)), None).unwrap();
    let parts = store.upload("b", "film", upload).unwrap().parts;
    store.complete_upload("b", "film", Completion { upload, parts, commit: commit_of(b"") }).unwrap();
}

fn copy_of_large(store: &Store, to: &str) {
    let found = store.find("b", "large", Selector::Current).unwrap();
    let bucket = found.bucket.id;
    let version = found.version;
    let source = CopyRange { bucket, key: "large".into(), version, range: 70_000..140_000 };
    store.copy(source, "b", to, commit_of(b"")).unwrap();
}

fn check_bytes(store: &Store) {
    assert_eq!(get(store, "b", "small").unwrap(), b"abc");
    assert!(get(store, "b", "large").unwrap() == bytes(1, 200_000));
    assert!(get(store, "b", "copy").unwrap() == bytes(1, 200_000)[70_000..140_000]);
    assert!(get(store, "b", "film").unwrap() == bytes(2, 70_000));
}

fn grant_to(name: &str, permissions: u8) -> UserGrant {
    UserGrant { name: name.to_owned(), since: Timestamp::from_millis(7), permissions }
}

#[test]
fn the_owner_of_an_object_stays_when_its_list_changes_and_only_names_need_their_feature() {
    let fs = SimFs::new();
    let store = bucket(&fs, options());
    let uses_names = |fs: &SimFs| {
        let log = features(fs, FileKind::Log);
        log.last().is_some_and(|features| features.contains(Features::NAMED_USERS))
    };
    put(&store, "b", "k", b"abc").unwrap();
    store.set_acl("b", "k", current(&store, "k"), AclGrants::ALL_READ, Vec::new()).unwrap();
    hold_legally(&store, "k", true).unwrap();
    assert!(!uses_names(&fs), "an older program opens it");

    let since = Timestamp::from_millis(9);
    let owner = || Some(ObjectOwner { name: "ann".into(), since });
    let controls_of = |grants| ObjectControls { users: NamedUsers::of(owner(), grants), ..NONE };
    let mut writer = store.writer("b", "own", Some(3)).unwrap();
    writer.write(b"abc").unwrap();
    writer.commit(Commit { controls: controls_of(Vec::new()), ..commit_of(b"abc") }).unwrap();
    assert!(uses_names(&fs));
    let grants = || vec![grant_to("bob", 4)];
    store.set_acl("b", "own", current(&store, "own"), AclGrants::NONE, grants()).unwrap();
    let check = |store: &Store, expected: &ObjectControls| assert_eq!(controls(store, "own"), *expected);
    check(&store, &controls_of(grants()));
    check(&rebuilt(&fs), &controls_of(grants()));
    store.set_acl("b", "own", current(&store, "own"), AclGrants::NONE, Vec::new()).unwrap();
    check(&rebuilt(&fs), &controls_of(Vec::new()));
    store.close();
    drop(store);
    check(&open(&fs), &controls_of(Vec::new()));
}

#[test]
fn owners_and_grants_reach_a_restored_store_and_a_standby() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (old, fs, mut standby) = followed(&tiered);
    let owner = Some(ObjectOwner { name: "ann".into(), since: Timestamp::from_millis(9) });
    let own = ObjectControls { users: NamedUsers::of(owner, Vec::new()), ..NONE };
    let mut writer = old.writer("b", "k", Some(3)).unwrap();
    writer.write(b"abc").unwrap();
    writer.commit(Commit { controls: own, ..commit_of(b"abc") }).unwrap();
    let grants = vec![grant_to("bob", 4), grant_to("eve", 15)];
    old.set_acl("b", "k", current(&old, "k"), AclGrants::ALL_READ, grants).unwrap();
    let list = b"<AccessControlList/>".to_vec();
    old.set_bucket_configuration("b", BucketConfigurationKind::Acl, Some(list.clone())).unwrap();
    ship(&old).unwrap();
    follow(&mut standby);
    let expected = controls(&old, "k");
    assert_eq!(expected.users.as_ref().map(|users| users.grants.len()), Some(2));
    let there = tiered.open_on(&restored(&tiered));
    let taken_over = promoted(&tiered, &fs, &mut standby, ShipMode::Async);
    for store in [there, taken_over] {
        assert_eq!(controls(&store, "k"), expected);
        let bucket = store.configured_bucket("b").unwrap();
        assert_eq!(bucket.configuration(BucketConfigurationKind::Acl).unwrap().document(), list);
    }
}

#[test]
fn a_deletion_by_an_owner_spares_what_another_put_in_its_place() {
    let store = bucket(&SimFs::new(), options());
    let put_of = |name: Option<&str>, millis| {
        let since = Timestamp::from_millis(millis);
        let owner = name.map(|name| ObjectOwner { name: name.to_owned(), since });
        let controls = ObjectControls { users: NamedUsers::of(owner, Vec::new()), ..NONE };
        let mut writer = store.writer("b", "k", Some(3)).unwrap();
        writer.write(b"abc").unwrap();
        writer.commit(Commit { controls, ..commit_of(b"abc") }).unwrap();
    };
    let delete_of = |owner: &OwnerCondition| {
        let condition = DeleteCondition { owner: owner.clone(), ..DeleteCondition::default() };
        let deletion = Deletion { key: "k".into(), which: Selector::Current, condition };
        store.delete("b", vec![deletion]).unwrap().remove(0)
    };
    let is_gone = || match store.find("b", "k", Selector::Current) {
        Ok(found) => found.version.delete_marker,
        Err(error) => error == StoreError::NoSuchKey,
    };
    let of_ann = OwnerCondition::User { name: "ann".into(), since: Timestamp::from_millis(9) };
    for versioning in [None, Some(Versioning::Enabled)] {
        if let Some(versioning) = versioning {
            store.set_versioning("b", versioning).unwrap();
        }
        // The deletion was decided before this put, and comes after it.
        put_of(Some("bob"), 9);
        assert_eq!(delete_of(&of_ann), Err(StoreError::OtherOwner));
        put_of(None, 0);
        assert_eq!(delete_of(&of_ann), Err(StoreError::OtherOwner));
        assert_eq!(get(&store, "b", "k").unwrap(), b"abc");
        put_of(Some("ann"), 10);
        assert_eq!(delete_of(&OwnerCondition::Bucket), Err(StoreError::OtherOwner));
        delete_of(&of_ann).unwrap();
        assert!(is_gone());
        let deleted = delete_of(&of_ann).unwrap();
        assert!(!deleted.delete_marker, "what is gone already gets no marker");
        put_of(None, 0);
        delete_of(&OwnerCondition::Bucket).unwrap();
        assert!(is_gone());
    }
}

#[test]
fn each_change_survives_a_restart_and_a_rebuild_and_takes_little_room() {
    let fs = SimFs::new();
    let store = bucket(&fs, options());
    put_each_kind(&store);
    let live = store.health().live_bytes;
    let check = |store: &Store, expected: &ObjectControls| {
        for key in OF_EACH_KIND {
            assert_eq!(controls(store, key), *expected, "{key}");
        }
        check_bytes(store);
    };
    let all = |change: &dyn Fn(&str) -> Result<(), StoreError>| {
        OF_EACH_KIND.iter().for_each(|key| change(key).unwrap());
    };
    let named = || vec![grant_to("bob", 15), grant_to("eve", 1)];
    all(&|key| store.set_acl("b", key, current(&store, key), AclGrants::ALL_READ, named()));
    let users = NamedUsers::of(None, named());
    let mut expected = ObjectControls { acl: AclGrants::ALL_READ, users, ..NONE };
    check(&store, &expected);
    check(&rebuilt(&fs), &expected);
    all(&|key| retain(&store, key, 1));
    all(&|key| hold_legally(&store, key, true));
    all(&|key| retain(&store, key, 2));
    (expected.retention, expected.legal_hold) = (until(2), Some(true));
    check(&rebuilt(&fs), &expected);
    all(&|key| store.set_acl("b", key, current(&store, key), AclGrants::NONE, Vec::new()));
    all(&|key| hold_legally(&store, key, false));
    expected = ObjectControls { acl: AclGrants::NONE, users: None, legal_hold: Some(false), ..expected };
    check(&store, &expected);
    check(&rebuilt(&fs), &expected);
    let extents = 4 * 64;
    assert_eq!(store.health().live_bytes, live + extents, "those of earlier changes are dead");
    drop(store);
    let store = open(&fs);
    check(&store, &expected);
    store.close();
    drop(store);
    check(&open(&fs), &expected);
    check(&open(&fs.crash(CrashPolicy::DropAll)), &expected);
}

#[test]
fn nothing_of_them_is_left_live_once_their_versions_are_gone() {
    let fs = SimFs::new();
    let store = bucket(&fs, options());
    put_each_kind(&store);
    for key in OF_EACH_KIND {
        hold_legally(&store, key, true).unwrap();
        hold_legally(&store, key, false).unwrap();
    }
    copy_of_large(&store, "twin");
    store.set_tags("b", "large", current(&store, "large"), vec![("a".into(), "b".into())]).unwrap();
    hold_legally(&store, "large", false).unwrap();
    for key in keys(&store, "b") {
        delete(&store, "b", &key, Selector::Current).unwrap();
    }
    assert_eq!(store.health().live_bytes, 0);
    drop(store);
    assert_eq!(open(&fs).health().live_bytes, 0, "nor after a restart");
}

#[test]
fn the_last_change_counts_whatever_the_clock_said_and_wherever_its_extent_lies() {
    let fs = SimFs::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let reopened =
        || Store::open(Arc::new(fs.clone()), clock.clone(), &SeededEntropy::new(1), options()).unwrap();
    let mut store = reopened();
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", b"abc").unwrap();
    clock.set(Timestamp::from_millis(1_750_000_000_000));
    retain(&store, "k", 1).unwrap();
    for (days, millis) in [(2, 1_400_000_000_000), (3, 1_390_000_000_000), (4, 1)] {
        clock.set(Timestamp::from_millis(millis));
        // One start is from the log, one from a checkpoint.
        if days == 3 {
            store.close();
        }
        drop(store);
        store = reopened();
        retain(&store, "k", days).unwrap();
        assert_eq!(controls(&rebuilt(&fs), "k").retention, until(days));
    }
}

#[test]
fn a_change_of_controls_shares_its_group_with_copies_tags_and_other_changes() {
    let fs = SimFs::new();
    let store = Arc::new(bucket(&fs, options()));
    put_each_kind(&store);
    hold_legally(&store, "large", false).unwrap();
    // Its extents say *shared*, and nothing shares them.
    delete(&store, "b", "copy", Selector::Current).unwrap();
    let mut first = None;
    let mut answers = Vec::new();
    let gate = hold(&fs, "meta/", || first = Some(begin(&store, |store| put(store, "b", "first", b"1"))));
    let mut queue = |act: fn(&Store)| {
        let queued = store.committer.queued();
        answers.push(begin(&store, act));
        while store.committer.queued() == queued {
            std::thread::yield_now();
        }
    };
    queue(|store| retain(store, "large", 1).unwrap());
    queue(|store| copy_of_large(store, "copy"));
    queue(|store| {
        store.set_tags("b", "large", current(store, "large"), vec![("a".into(), "b".into())]).unwrap();
    });
    queue(|store| hold_legally(store, "large", true).unwrap());
    queue(|store| copy_of_large(store, "copy-3"));
    let sequence = store.health().sequence;
    drop(gate);
    first.unwrap().recv().unwrap().unwrap();
    answers.into_iter().for_each(|answer| answer.recv().unwrap());
    assert_eq!(store.health().sequence, sequence + 2, "all in one group");
    let expected = ObjectControls { retention: until(1), legal_hold: Some(true), ..NONE };
    let check = |store: &Store| {
        assert_eq!(controls(store, "large"), expected);
        for copy in ["copy", "copy-3"] {
            assert_eq!(controls(store, copy), NONE);
            assert!(get(store, "b", copy).unwrap() == bytes(1, 200_000)[70_000..140_000]);
        }
        check_bytes(store);
    };
    check(&store);
    assert_eq!(current(&store, "large").tags, [("a".to_owned(), "b".to_owned())]);
    check(&rebuilt(&fs));
    let live = store.health().live_bytes;
    let crashed = fs.crash(CrashPolicy::DropAll);
    let store = open(&crashed);
    check(&store);
    assert_eq!(store.health().live_bytes, live, "shared extents are counted once");
    drop(store);
    assert_eq!(verify(&crashed, &mut |_| {}).unwrap().findings, []);
}

#[test]
fn they_are_moved_with_the_bytes_and_are_found_at_their_new_place() {
    let fs = SimFs::new();
    let options = StoreOptions { segment_max_bytes: 20_000, ..options() };
    let store = bucket(&fs, options);
    put(&store, "b", "kept", b"abc").unwrap();
    hold_legally(&store, "kept", true).unwrap();
    for at in 0..20 {
        put(&store, "b", "other", &bytes(at, 9_000)).unwrap();
        retain(&store, "kept", at).unwrap();
    }
    let before = current(&store, "kept").extents;
    for at in 0..20 {
        put(&store, "b", "other", &bytes(at, 9_000)).unwrap();
        reclaim_all(&store).unwrap();
    }
    let after = current(&store, "kept").extents;
    assert!(before.iter().zip(&after).all(|(before, after)| before.segment < after.segment), "{after:?}");
    assert_eq!(
        controls(&store, "kept"),
        ObjectControls { retention: until(19), legal_hold: Some(true), ..NONE }
    );
    assert_eq!(controls(&rebuilt(&fs), "kept"), controls(&store, "kept"));
}

#[test]
fn on_a_full_disk_a_lock_is_refused_and_one_can_be_lifted_in_the_log() {
    let fs = SimFs::with_capacity(6 * MIB);
    let store = bucket(&fs, StoreOptions { keep_free_bytes: MIB, ..options() });
    put(&store, "b", "k", b"abc").unwrap();
    hold_legally(&store, "k", true).unwrap();
    for at in 0.. {
        if put(&store, "b", &format!("k{at}"), &bytes(at, 20_000)).is_err() {
            break;
        }
    }
    let refused = (0..10_000).find_map(|days| retain(&store, "k", days).err());
    assert_eq!(refused, Some(StoreError::DiskFull));
    let retained = controls(&store, "k").retention;
    hold_legally(&store, "k", false).unwrap();
    let lifted = ObjectControls { retention: retained, legal_hold: Some(false), ..NONE };
    assert_eq!(controls(&store, "k"), lifted);
    let from_segments = controls(&rebuilt(&fs), "k");
    assert_eq!(
        from_segments,
        ObjectControls { retention: retained, legal_hold: Some(true), ..NONE },
        "the stricter"
    );
    fs.set_capacity(64 * MIB);
    hold_legally(&store, "k", true).unwrap();
    hold_legally(&store, "k", false).unwrap();
    assert!(!controls(&rebuilt(&fs), "k").is_held());
}

/// Changes of locks among other work, and the controls that each leaves.
fn locks_at_work(store: &Store, acknowledged: &mut Vec<ObjectControls>) -> Result<(), StoreError> {
    store.create_bucket("b", "admin")?;
    put(store, "b", "k", b"abc")?;
    acknowledged.push(NONE);
    let held = ObjectControls { legal_hold: Some(true), ..NONE };
    hold_legally(store, "k", true)?;
    acknowledged.push(held.clone());
    for days in 1..4 {
        retain(store, "k", days)?;
        acknowledged.push(ObjectControls { retention: until(days), ..held.clone() });
        put(store, "b", "other", &bytes(days, 9_000))?;
        reclaim_all(store)?;
    }
    store.checkpoint()?;
    hold_legally(store, "k", false)?;
    acknowledged.push(ObjectControls { retention: until(3), legal_hold: Some(false), ..NONE });
    Ok(())
}

#[test]
fn an_acknowledged_lock_survives_a_crash_at_every_operation_and_the_loss_of_the_log() {
    let options = StoreOptions { segment_max_bytes: 20_000, ..options() };
    for stop in points(1) {
        let fs = SimFs::new();
        fs.stop_at(stop);
        let mut acknowledged = Vec::new();
        let done = match open_with(&fs, options) {
            Ok(store) => locks_at_work(&store, &mut acknowledged).is_ok(),
            Err(_) => false,
        };
        if done {
            assert!(stop > 60, "{stop} operations");
            return;
        }
        let Some(last) = acknowledged.last() else { continue };
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(stop)] {
            let crashed = fs.crash(policy);
            let found = controls(&open_with(&crashed, options).unwrap(), "k");
            assert!(found == *last || is_next(last, &found), "stopped at {stop}, {policy:?}: {found:?}");
            // A put of the other object that was never answered may be lost.
            let copy = segments_of(&crashed);
            let lost = rebuild_log(&copy).lost;
            assert!(lost.iter().all(|lost| lost.owner.key == "other"), "{lost:?}");
            let found = controls(&open(&copy), "k");
            assert!(found == *last || is_next(last, &found), "rebuilt at {stop}, {policy:?}: {found:?}");
        }
    }
}

/// Whether a change that was under way leads from one to the other.
fn is_next(acknowledged: &ObjectControls, found: &ObjectControls) -> bool {
    let days =
        |controls: &ObjectControls| controls.retention.map_or(0, |it| it.until.as_millis() / 86_400_000);
    let extended = found.retention.is_some() && days(found) >= days(acknowledged);
    let held = found.legal_hold != acknowledged.legal_hold && found.retention == acknowledged.retention;
    held || (extended && found.legal_hold == acknowledged.legal_hold)
}
