//! Expiry: the walk over places, the conditions at the commit, and the loss of power during a
//! sweep.

use std::collections::BTreeMap;

use super::*;
use crate::fs::sim::CrashPolicy;

const KIND: BucketConfigurationKind = BucketConfigurationKind::Lifecycle;

fn bucket_with(store: &Store, versioning: Versioning) -> Arc<BucketConfiguration> {
    store.create_bucket("b", "admin").unwrap();
    if versioning != Versioning::Unset {
        store.set_versioning("b", versioning).unwrap();
    }
    configure(store, b"rules")
}

fn configure(store: &Store, document: &[u8]) -> Arc<BucketConfiguration> {
    store.set_bucket_configuration("b", KIND, Some(document.to_vec())).unwrap();
    store.configured_bucket("b").unwrap().configurations.get(KIND).unwrap().clone()
}

fn expire(
    store: &Store,
    by: &Arc<BucketConfiguration>,
    items: &[(&str, ExpiringRole)],
) -> Result<Vec<ExpiryOutcome>, StoreError> {
    let item = |(key, role): &(&str, ExpiringRole)| ExpiringItem {
        key: key.as_bytes().to_vec(),
        role: *role,
        transition: None,
    };
    store.expire(ExpiryRequest {
        bucket: store.bucket("b")?,
        configuration: Some(by.clone()),
        items: items.iter().map(item).collect(),
    })
}

fn expire_one(store: &Store, by: &Arc<BucketConfiguration>, key: &str, role: ExpiringRole) -> ExpiryOutcome {
    expire(store, by, &[(key, role)]).unwrap()[0]
}

fn noncurrent(version: VersionId, newer_noncurrent_min: u32) -> ExpiringRole {
    ExpiringRole::Noncurrent { version, newer_noncurrent_min }
}

/// The key, the version and the place of all versions of the bucket, read in steps.
fn places(store: &Store, step: usize) -> Vec<(Vec<u8>, VersionId, VersionPlace)> {
    let bucket = store.bucket("b").unwrap();
    let mut cursor = PlaceCursor::default();
    let mut found = Vec::new();
    let mut push =
        |placed: &PlacedVersion<'_>| found.push((placed.key.to_vec(), placed.version.id, placed.place));
    while store.visit_places(&bucket, &mut cursor, step, &mut push) {}
    found
}

/// The versions of a key, newest first.
fn versions(store: &Store) -> BTreeMap<Vec<u8>, Vec<VersionSummary>> {
    let mut found = BTreeMap::<_, Vec<_>>::new();
    let page = store.list_versions("b", &ListQuery { limit: 100_000, ..ListQuery::default() }, None).unwrap();
    for (key, listed) in page.keys() {
        found.entry(key.as_bytes().to_vec()).or_default().push(listed.version);
    }
    found
}

/// The places by the definition, from all versions of each key.
fn places_by_definition(store: &Store) -> Vec<(Vec<u8>, VersionId, VersionPlace)> {
    let mut places = Vec::new();
    for (key, versions) in versions(store) {
        for (nth, version) in versions.iter().enumerate() {
            let place = match nth {
                0 if !version.delete_marker => VersionPlace::Current,
                0 if versions.len() == 1 => VersionPlace::LoneDeleteMarker,
                0 => continue,
                _ => VersionPlace::Noncurrent {
                    since: versions[nth - 1].modified,
                    newer_noncurrent: nth as u32 - 1,
                },
            };
            places.push((key.clone(), version.id, place));
        }
    }
    places
}

#[test]
fn a_walk_in_steps_of_any_size_finds_the_places_of_all_versions() {
    let random = SeededEntropy::new(seed());
    let clock = Arc::new(ManualClock::new(at(0)));
    let store =
        Store::open(Arc::new(SimFs::new()), clock.clone(), &SeededEntropy::new(1), options()).unwrap();
    bucket_with(&store, Versioning::Enabled);
    for _ in 0..600 {
        let key = format!("k{}", random.below(60));
        clock.advance(Duration::from_secs(random.below(100)));
        match random.below(5) {
            0 => drop(delete(&store, "b", &key, Selector::Current).unwrap()),
            1 => {
                let gone = versions(&store).remove(key.as_bytes()).unwrap_or_default();
                for version in gone.iter().skip(random.next_u64() as usize % 3) {
                    delete(&store, "b", &key, Selector::Id(version.id)).unwrap();
                }
            }
            _ => drop(put(&store, "b", &key, b"x").unwrap()),
        }
    }
    let expected = places_by_definition(&store);
    assert!(expected.iter().any(|(_, _, place)| *place == VersionPlace::LoneDeleteMarker));
    for step in [1, 2, 3, 7, 64, 100_000] {
        assert_eq!(places(&store, step), expected, "steps of {step}");
    }
}

fn at(days: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + days * 24 * 60 * 60 * 1000)
}

#[test]
fn a_current_version_expires_as_the_versioning_demands() {
    for (versioning, outcome, left) in [
        (Versioning::Unset, ExpiryOutcome::Removed, 0),
        (Versioning::Enabled, ExpiryOutcome::MarkerAdded, 2),
        (Versioning::Suspended, ExpiryOutcome::MarkerAdded, 1),
    ] {
        let store = open(&SimFs::new());
        let by = bucket_with(&store, versioning);
        let version = put(&store, "b", "k", b"abc").unwrap().id;
        let role = ExpiringRole::Current(version);
        assert_eq!(expire_one(&store, &by, "k", role), outcome, "{versioning:?}");
        assert_eq!(versions(&store).get(&b"k"[..]).map_or(0, Vec::len), left, "{versioning:?}");
        assert_eq!(keys(&store, "b"), [""; 0]);
        assert_eq!(expire_one(&store, &by, "k", role), ExpiryOutcome::Obsolete, "again");
        assert_eq!(versions(&store).get(&b"k"[..]).map_or(0, Vec::len), left, "{versioning:?}");
    }
}

#[test]
fn a_version_in_another_place_than_it_was_found_in_stays() {
    let store = open(&SimFs::new());
    let by = bucket_with(&store, Versioning::Enabled);
    let ids: Vec<_> = (0..4).map(|_| put(&store, "b", "k", b"abc").unwrap().id).collect();
    let all = [
        ("k", ExpiringRole::Current(ids[2])),
        ("k", noncurrent(ids[3], 0)),
        ("k", ExpiringRole::LoneDeleteMarker(ids[3])),
        ("k", noncurrent(ids[1], 2)),
        ("other", noncurrent(ids[1], 0)),
        ("k", ExpiringRole::Upload(UploadId(ids[1].0))),
    ];
    assert_eq!(expire(&store, &by, &all), Ok(vec![ExpiryOutcome::Obsolete; 6]));
    assert_eq!(versions(&store)[&b"k"[..]].len(), 4);
    // Each counts the versions that the one before has left.
    let two = [("k", noncurrent(ids[1], 1)), ("k", noncurrent(ids[0], 1)), ("k", noncurrent(ids[2], 0))];
    assert_eq!(expire(&store, &by, &two), Ok(vec![ExpiryOutcome::Removed; 3]));
    let marker = delete(&store, "b", "k", Selector::Current).unwrap().version;
    let Some(VersionRef::Id(marker)) = marker else { panic!("a marker was added") };
    let both = [("k", ExpiringRole::LoneDeleteMarker(marker)), ("k", noncurrent(ids[3], 0))];
    assert_eq!(expire(&store, &by, &both), Ok(vec![ExpiryOutcome::Obsolete, ExpiryOutcome::Removed]));
    assert_eq!(expire_one(&store, &by, "k", both[0].1), ExpiryOutcome::Removed, "now it is alone");
    assert!(versions(&store).is_empty());
}

#[test]
fn a_configuration_that_was_changed_or_removed_takes_nothing() {
    let store = open(&SimFs::new());
    let before = bucket_with(&store, Versioning::Unset);
    let version = put(&store, "b", "k", b"abc").unwrap().id;
    let by = configure(&store, b"rules");
    let role = ExpiringRole::Current(version);
    assert_eq!(expire_one(&store, &before, "k", role), ExpiryOutcome::Obsolete, "put again");
    store.set_bucket_configuration("b", KIND, None).unwrap();
    assert_eq!(expire_one(&store, &by, "k", role), ExpiryOutcome::Obsolete, "removed");
    assert_eq!(get(&store, "b", "k").unwrap(), b"abc");
    let by = configure(&store, b"rules");
    assert_eq!(expire_one(&store, &by, "k", role), ExpiryOutcome::Removed);
}

#[test]
fn a_locked_version_stays_and_the_others_of_its_group_go() {
    let store = open(&SimFs::new());
    let by = bucket_with(&store, Versioning::Enabled);
    let ids: Vec<_> = (0..4).map(|_| put(&store, "b", "k", b"abc").unwrap().id).collect();
    let find = |id| store.find("b", "k", Selector::Id(id)).unwrap().version;
    let until = at(1);
    let retention = Some(Retention { mode: RetentionMode::Governance, until });
    store.set_retention("b", "k", find(ids[0]), retention, false).unwrap();
    store.set_legal_hold("b", "k", find(ids[1]), true).unwrap();
    let items: Vec<_> = ids[..3].iter().map(|id| ("k", noncurrent(*id, 0))).collect();
    let outcomes = expire(&store, &by, &items).unwrap();
    assert_eq!(outcomes, [ExpiryOutcome::Locked, ExpiryOutcome::Locked, ExpiryOutcome::Removed]);
    assert_eq!(expire_one(&store, &by, "k", ExpiringRole::Current(ids[3])), ExpiryOutcome::MarkerAdded);
}

#[test]
fn an_upload_expires_by_a_rule_and_without_one_when_it_is_idle() {
    let clock = Arc::new(ManualClock::new(at(0)));
    let store =
        Store::open(Arc::new(SimFs::new()), clock.clone(), &SeededEntropy::new(1), options()).unwrap();
    let by = bucket_with(&store, Versioning::Unset);
    let begin = || upload_expiry::begin(&store, "b", "k");
    let ruled = begin();
    let idle = begin();
    clock.set(at(2));
    let mut part = store.part_writer("b", "k", idle, 1, None).unwrap();
    part.write(b"abc").unwrap();
    part.commit([0; 16], None).unwrap();
    let role = |since| ExpiringRole::IdleUpload(idle, since);
    assert_eq!(expire_one(&store, &by, "k", role(at(2))), ExpiryOutcome::Obsolete);
    assert_eq!(expire_one(&store, &by, "k", ExpiringRole::Upload(ruled)), ExpiryOutcome::Removed);
    assert_eq!(expire_one(&store, &by, "k", ExpiringRole::Upload(ruled)), ExpiryOutcome::Obsolete);
    assert_eq!(expire_one(&store, &by, "k", role(at(3))), ExpiryOutcome::Removed);
    assert_eq!(store.upload_record("b", "k", idle), Err(StoreError::NoSuchUpload));
}

/// Expires what is not current, and then what is, in groups of two. Returns the versions whose
/// expiry was acknowledged.
fn sweep(store: &Store, gone: &mut Vec<VersionId>) -> Result<(), StoreError> {
    let by = store.configured_bucket("b")?.configurations.get(KIND).unwrap().clone();
    let found = places(store, 3);
    for group in found.chunks(2) {
        let role = |(_, id, place): &(Vec<u8>, VersionId, VersionPlace)| match place {
            VersionPlace::Current => ExpiringRole::Current(*id),
            VersionPlace::LoneDeleteMarker => ExpiringRole::LoneDeleteMarker(*id),
            VersionPlace::Noncurrent { .. } => noncurrent(*id, 0),
        };
        let items = group
            .iter()
            .map(|it| ExpiringItem { key: it.0.clone(), role: role(it), transition: None })
            .collect();
        let request = ExpiryRequest { bucket: store.bucket("b")?, configuration: Some(by.clone()), items };
        let outcomes = store.expire(request)?;
        let removed = group.iter().zip(outcomes).filter(|(_, outcome)| *outcome == ExpiryOutcome::Removed);
        gone.extend(removed.map(|((_, id, _), _)| *id));
    }
    Ok(())
}

fn prepare(fs: &SimFs) -> Store {
    let store = open(fs);
    bucket_with(&store, Versioning::Enabled);
    for key in ["a", "b", "c", "d"] {
        for version in 0..3 {
            put(&store, "b", key, &bytes(version, 9_000)).unwrap();
        }
    }
    delete(&store, "b", "c", Selector::Current).unwrap();
    delete(&store, "b", "marker", Selector::Current).unwrap();
    store
}

#[test]
fn a_crash_at_every_operation_of_a_sweep_leaves_each_version_whole_or_gone() {
    for stop in 1.. {
        let fs = SimFs::new();
        let store = prepare(&fs);
        let before = versions(&store);
        fs.stop_at(fs.operations() + stop);
        let mut gone = Vec::new();
        let swept = sweep(&store, &mut gone);
        drop(store);
        if swept.is_ok() {
            assert!(stop > 10, "the sweep writes");
            return;
        }
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(seed() + stop)] {
            let store = open(&fs.crash(policy));
            assert!(store.health().damage.is_empty());
            let after = versions(&store);
            let is_there = |id: VersionId| after.values().flatten().any(|version| version.id == id);
            assert!(!gone.iter().any(|id| is_there(*id)), "an acknowledged expiry stays");
            for (key, version) in after.iter().flat_map(|(key, all)| all.iter().map(move |one| (key, one))) {
                let is_old = before[key].contains(version);
                assert!(is_old || version.delete_marker, "only delete markers are new");
                let found =
                    store.find("b", std::str::from_utf8(key).unwrap(), Selector::Id(version.id)).unwrap();
                read_all(&store, &found.version, 0..version.size).unwrap();
            }
            sweep(&store, &mut Vec::new()).expect("the sweep can be repeated");
        }
    }
}
