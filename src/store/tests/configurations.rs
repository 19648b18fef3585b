//! Configurations of buckets, and the features that the files with them state.

use super::*;
use crate::base::limits::PAGE_BYTES;
use crate::format::{Features, FileHeader, FileKind};
use crate::log::list_numbers;

const CORS: BucketConfigurationKind = BucketConfigurationKind::Cors;

fn configure(store: &Store, bucket: &str, document: Option<&str>) -> Result<(), StoreError> {
    store.set_bucket_configuration(bucket, CORS, document.map(|text| text.as_bytes().to_vec()))
}

fn document(store: &Store, bucket: &str) -> Option<String> {
    let bucket = store.configured_bucket(bucket).unwrap();
    bucket.configuration(CORS).map(|found| String::from_utf8(found.document().to_vec()).unwrap())
}

/// The features that the headers of a kind of files state, oldest file first.
pub(super) fn features(fs: &SimFs, kind: FileKind) -> Vec<Features> {
    let header = |number| FileHeader::decode(&fs.contents(&kind.path(number)).unwrap()).unwrap();
    list_numbers(fs, kind).unwrap().into_iter().map(|number| header(number).features).collect()
}

#[test]
fn a_configuration_outlives_every_kind_of_restart_and_ends_with_its_bucket() {
    let fs = SimFs::new();
    let store = open(&fs);
    assert_eq!(configure(&store, "b", Some("x")), Err(StoreError::NoSuchBucket));
    store.create_bucket("b", "admin").unwrap();
    configure(&store, "b", Some("rules")).unwrap();
    assert_eq!(document(&store, "b").as_deref(), Some("rules"));
    drop(store);
    let store = open(&fs);
    assert_eq!(document(&store, "b").as_deref(), Some("rules"), "from the log");
    store.set_versioning("b", Versioning::Enabled).unwrap();
    store.close();
    drop(store);
    let store = open(&fs);
    assert_eq!(document(&store, "b").as_deref(), Some("rules"), "from a checkpoint");
    configure(&store, "b", None).unwrap();
    drop(store);
    let store = open(&fs);
    assert_eq!(document(&store, "b"), None);
    configure(&store, "b", Some("more")).unwrap();
    store.delete_bucket("b").unwrap();
    store.create_bucket("b", "admin").unwrap();
    assert_eq!(document(&store, "b"), None, "another bucket has no configuration");
}

#[test]
fn a_bucket_is_created_with_its_configurations_in_one_step() {
    let fs = SimFs::new();
    let store = open(&fs);
    let before = store.health().sequence;
    let new = NewBucket {
        name: "b".into(),
        owner: "admin".into(),
        versioning: Versioning::Enabled,
        configurations: vec![(CORS, b"rules".to_vec())],
    };
    store.create_configured_bucket(new).unwrap();
    assert_eq!(store.health().sequence, before + 1);
    drop(store);
    let store = open(&fs);
    assert_eq!(document(&store, "b").as_deref(), Some("rules"));
    assert_eq!(store.bucket("b").unwrap().versioning, Versioning::Enabled);
}

#[test]
fn files_state_the_feature_only_from_the_first_configuration_on() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    store.checkpoint().unwrap();
    assert_eq!(features(&fs, FileKind::Log), [Features::NONE]);
    assert_eq!(features(&fs, FileKind::Checkpoint), [Features::NONE]);
    configure(&store, "b", Some("rules")).unwrap();
    let stated = Features::BUCKET_CONFIGURATIONS;
    assert_eq!(features(&fs, FileKind::Log), [Features::NONE, stated], "a new file begins with it");
    store.checkpoint().unwrap();
    assert_eq!(features(&fs, FileKind::Checkpoint), [Features::NONE, stated]);
    drop(store);
    let store = open(&fs);
    put(&store, "b", "k", b"x").unwrap();
    store.checkpoint().unwrap();
    assert!(features(&fs, FileKind::Checkpoint).iter().all(|found| *found == stated));
    assert!(features(&fs, FileKind::Log).last() == Some(&stated), "it is stated from then on");
}

#[test]
fn a_log_file_without_groups_is_replaced_by_one_that_states_the_feature() {
    let fs = SimFs::new();
    let bucket = NewBucket {
        name: "b".into(),
        owner: "admin".into(),
        versioning: Versioning::Unset,
        configurations: vec![(CORS, b"rules".to_vec())],
    };
    open(&fs).create_configured_bucket(bucket).unwrap();
    assert_eq!(list_numbers(&fs, FileKind::Log).unwrap(), [1]);
    assert_eq!(features(&fs, FileKind::Log), [Features::BUCKET_CONFIGURATIONS]);
    assert_eq!(document(&open(&fs), "b").as_deref(), Some("rules"));
}

#[test]
fn a_configuration_counts_towards_the_memory_of_the_index() {
    let store = open(&SimFs::new());
    store.create_bucket("b", "admin").unwrap();
    let before = store.index_bytes();
    configure(&store, "b", Some(&"x".repeat(10_000))).unwrap();
    assert!(store.index_bytes() > before + 10_000);
    configure(&store, "b", None).unwrap();
    assert_eq!(store.index_bytes(), before);
}

#[test]
fn on_a_full_disk_a_configuration_is_refused_and_removing_one_is_not() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    configure(&store, "b", Some("rules")).unwrap();
    let space = Fs::space(&fs).unwrap();
    fs.set_capacity(space.total_bytes - space.free_bytes + PAGE_BYTES);
    // What was found free before the disk became full is used up first.
    let refused = (0..100).find_map(|_| configure(&store, "b", Some(&"x".repeat(300_000))).err());
    assert_eq!(refused, Some(StoreError::DiskFull));
    assert!(document(&store, "b").is_some());
    configure(&store, "b", None).unwrap();
    assert_eq!(document(&store, "b"), None);
}

const HELD: ObjectControls =
    ObjectControls { acl: AclGrants::ALL_READ, users: None, retention: None, legal_hold: Some(true) };

fn controls(store: &Store, key: &str) -> ObjectControls {
    store.find("b", key, Selector::Current).unwrap().version.controls
}

fn put_held(store: &Store, key: &str) {
    let mut writer = store.writer("b", key, Some(3)).unwrap();
    writer.write(b"abc").unwrap();
    writer.commit(Commit { controls: HELD, ..commit_of(b"abc") }).unwrap();
}

#[test]
fn controls_outlive_restarts_and_a_rebuild_and_files_state_them() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "plain", b"abc").unwrap();
    assert_eq!(features(&fs, FileKind::Log), [Features::NONE]);
    put_held(&store, "held");
    assert_eq!(features(&fs, FileKind::Log), [Features::NONE, Features::OBJECT_CONTROLS]);
    let found = |store: &Store| (controls(store, "plain"), controls(store, "held"));
    assert_eq!(found(&store), (ObjectControls::default(), HELD));
    drop(store);
    let store = open(&fs);
    assert_eq!(found(&store), (ObjectControls::default(), HELD), "from the log");
    store.close();
    drop(store);
    assert_eq!(features(&fs, FileKind::Checkpoint), [Features::OBJECT_CONTROLS]);
    let store = open(&fs);
    assert_eq!(found(&store), (ObjectControls::default(), HELD), "from a checkpoint");
    put(&store, "b", "more", b"abc").unwrap();
    store.checkpoint().unwrap();
    drop(store);
    assert_eq!(features(&fs, FileKind::Checkpoint), [Features::OBJECT_CONTROLS; 2], "as the one before it");
    let copy = random::segments_of(&fs);
    random::rebuild_log(&copy);
    assert_eq!(features(&copy, FileKind::Log), [Features::OBJECT_CONTROLS]);
    assert_eq!(found(&open(&copy)), (ObjectControls::default(), HELD), "from the segments");
}

#[test]
fn a_changed_access_control_list_leaves_the_other_controls() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put_held(&store, "k");
    let version = store.find("b", "k", Selector::Current).unwrap().version;
    store.set_acl("b", "k", version.clone(), AclGrants::NONE, Vec::new()).unwrap();
    assert_eq!(controls(&store, "k"), ObjectControls { acl: AclGrants::NONE, ..HELD });
    let live = store.health().live_bytes;
    store.set_tags("b", "k", version.clone(), vec![("a".into(), "b".into())]).unwrap();
    assert_eq!(controls(&store, "k"), ObjectControls { acl: AclGrants::NONE, ..HELD });
    store.set_legal_hold("b", "k", version.clone(), false).unwrap();
    delete(&store, "b", "k", Selector::Current).unwrap();
    assert!(store.health().live_bytes < live);
    assert_eq!(store.set_acl("b", "k", version, HELD.acl, Vec::new()), Err(StoreError::NoSuchVersion));
}
