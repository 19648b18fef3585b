//! A disk that cannot read written bytes: reported as damage, with everything else readable.

use super::*;
use crate::base::limits::PAGE_BYTES;
use crate::format::{FileKind, checkpoint_path, log_path, segment_path};
use crate::fs::sim::CrashPolicy;

const ALL: u64 = 1 << 30;

/// Two small objects and a large one, two checkpoints, and a log after them.
fn filled(fs: &SimFs) -> Store {
    let store = open(fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "small", &bytes(1, 5_000)).unwrap();
    store.checkpoint().unwrap();
    put(&store, "b", "large", &bytes(2, 300_000)).unwrap();
    store.checkpoint().unwrap();
    put(&store, "b", "late", &bytes(3, 5_000)).unwrap();
    put(&store, "b", "last", &bytes(4, 5_000)).unwrap();
    store
}

fn check_all_but(store: &Store, lost: &str) {
    for (key, seed, len) in
        [("small", 1, 5_000), ("large", 2, 300_000), ("late", 3, 5_000), ("last", 4, 5_000)]
    {
        if key != lost {
            assert_eq!(get(store, "b", key).unwrap(), bytes(seed, len), "{key}");
        }
    }
}

/// The file of an extent, and the offset of its payload there.
fn payload_of(store: &Store, key: &str) -> (String, u64) {
    let extent = store.find("b", key, Selector::Current).unwrap().version.extents[0];
    (segment_path(extent.segment), extent.offset + 64)
}

/// Whether damage of this file is reported.
fn tells_of(damage: &[Damage], file: &str) -> bool {
    damage.iter().any(|damage| damage.file == file && damage.what.contains("cannot be read"))
}

#[test]
fn a_reader_gets_an_error_and_no_byte_of_the_block_and_health_reports_it() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let (file, at) = payload_of(&store, "large");
    fs.make_unreadable(&file, at + 150_000..at + 150_001).unwrap();
    let found = store.find("b", "large", Selector::Current).unwrap();
    let mut reader = store.read(&found, 0..300_000).unwrap();
    let mut read = Vec::new();
    let mut piece = vec![0; 10_000];
    let error = loop {
        match reader.read(&mut piece) {
            Ok(len) => read.extend_from_slice(&piece[..len]),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, StoreError::Corrupt(damage) if damage.file == file), "{error}");
    assert!(read == bytes(2, 300_000)[..read.len()] && read.len() <= 2 * 65_536);
    assert!(tells_of(&store.health().damage, &file));
    assert_eq!(store.health().read_only, None, "others can be put");
    let range = to_end(store.read(&found, 0..100_000).unwrap()).unwrap();
    assert_eq!(range, bytes(2, 300_000)[..100_000]);
    check_all_but(&store, "large");
}

#[test]
fn the_scrub_records_it_and_it_is_reported_until_the_object_is_gone() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let (file, at) = payload_of(&store, "small");
    fs.make_unreadable(&file, at..at + 512).unwrap();
    let done = store.scrub(ALL).unwrap();
    assert_eq!((done.bad, done.more), (1, false));
    let health = store.health();
    assert_eq!((health.scrub.bad, health.read_only), (1, None));
    assert!(tells_of(&health.damage, &file));
    store.close();
    drop(store);
    let report = verify(&fs, &mut |_| {}).unwrap();
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert_eq!(report.findings[0].owner.as_ref().unwrap().key, "small");
    let store = open(&fs);
    assert_eq!(store.health().scrub.bad, 1, "it is remembered");
    check_all_but(&store, "small");
    delete(&store, "b", "small", Selector::Current).unwrap();
    assert_eq!(store.health().scrub.bad, 0);
}

#[test]
fn verify_names_the_object_and_the_place() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let (file, at) = payload_of(&store, "late");
    drop(store);
    fs.make_unreadable(&file, at + 4_999..at + 5_000).unwrap();
    let report = verify(&fs, &mut |_| {}).unwrap();
    let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
    assert_eq!((finding.damage.file.as_str(), finding.damage.offset), (file.as_str(), at));
    assert!(finding.damage.what.contains("cannot be read"), "{}", finding.damage);
    assert_eq!(finding.owner.as_ref().unwrap().key, "late");
}

#[test]
fn verify_continues_after_every_unreadable_file() {
    let fs = SimFs::new();
    drop(filled(&fs));
    let files: Vec<_> = fs.files().into_iter().filter(|(_, len)| *len > 0).map(|(file, _)| file).collect();
    for file in files.iter().filter(|file| !file.contains("LOCK")) {
        let fs = fs.crash(CrashPolicy::KeepAll);
        fs.make_unreadable(file, 0..u64::MAX).unwrap();
        let report = verify(&fs, &mut |_| {}).unwrap_or_else(|error| panic!("{file}: {error}"));
        let damage: Vec<_> = report.findings.into_iter().map(|finding| finding.damage).collect();
        assert!(damage.iter().any(|damage| damage.file == *file), "{file}: {damage:?}");
    }
}

#[test]
fn relocation_leaves_unreadable_extents_where_they_are() {
    let fs = SimFs::new();
    let store = open_with(&fs, reclaim::small_segments()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for at in 0..20 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 20_000)).unwrap();
    }
    for at in (0..20).filter(|at| at % 4 != 0) {
        delete(&store, "b", &format!("k{at}"), Selector::Current).unwrap();
    }
    let (file, at) = payload_of(&store, "k4");
    fs.make_unreadable(&file, at..at + 1).unwrap();
    reclaim_all(&store).unwrap();
    assert!(store.health().moved_bytes > 0);
    assert_eq!(payload_of(&store, "k4"), (file.clone(), at));
    assert!(tells_of(&store.health().damage, &file));
    assert!((0..20).step_by(4).filter(|at| *at != 4).all(|at| get(&store, "b", &format!("k{at}")).is_ok()));
}

#[test]
fn a_start_loads_the_older_checkpoint_if_the_newest_is_unreadable() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let newest = *crate::log::list_numbers(&fs, FileKind::Checkpoint).unwrap().last().unwrap();
    drop(store);
    for place in [0, PAGE_BYTES] {
        let fs = fs.crash(CrashPolicy::KeepAll);
        fs.make_unreadable(&checkpoint_path(newest), place..place + 1).unwrap();
        let store = open(&fs);
        check_all_but(&store, "");
        let health = store.health();
        assert_eq!(health.read_only, None);
        assert!(tells_of(&health.damage, &checkpoint_path(newest)));
    }
}

/// The remains of a crash are always readable. So unreadable bytes were written before, and may
/// have been acknowledged.
#[test]
fn an_unreadable_log_never_passes_for_a_torn_one() {
    let fs = SimFs::new();
    drop(filled(&fs));
    let len = fs.contents(&log_path(1)).unwrap().iter().rposition(|byte| *byte != 0).unwrap() as u64;
    let last = len / PAGE_BYTES;
    let newest = *crate::log::list_numbers(&fs, FileKind::Checkpoint).unwrap().last().unwrap();
    for page in 0..=last + 1 {
        let fs = fs.crash(CrashPolicy::KeepAll);
        fs.make_unreadable(&log_path(1), page * PAGE_BYTES + 100..page * PAGE_BYTES + 101).unwrap();
        let before = fs.contents(&log_path(1)).unwrap();
        match try_open(&fs) {
            Ok(store) => {
                let health = store.health();
                assert!(health.read_only.is_some(), "page {page}: it takes no writes");
                assert_eq!(
                    (health.read_only_reason, health.torn_groups),
                    (Some(ReadOnlyReason::LogDamaged), 0),
                    "page {page}"
                );
                assert!(tells_of(&health.damage, &log_path(1)), "page {page}: {:?}", health.damage);
                assert!(health.sequence >= newest || page <= newest, "page {page}: what came before counts");
                assert!(store.create_bucket("c", "admin").is_err());
            }
            Err(OpenError::Damaged(damage)) => assert!(page == 0 && damage.file == log_path(1), "{damage}"),
            Err(error) => panic!("page {page}: {error}"),
        }
        assert!(fs.contents(&log_path(1)).unwrap() == before, "page {page}: nothing is mended in silence");
    }
}

#[test]
fn a_pack_that_cannot_be_read_while_its_group_is_in_doubt_is_damage() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let (file, at) = payload_of(&store, "last");
    drop(store);
    fs.make_unreadable(&file, at..at + 1).unwrap();
    let store = open(&fs);
    let health = store.health();
    assert!(health.read_only.is_some() && health.torn_groups == 0, "{health:?}");
    assert!(tells_of(&health.damage, &file));
    check_all_but(&store, "last");
    assert!(matches!(get(&store, "b", "last"), Err(StoreError::Corrupt(_))), "it was acknowledged");
}

#[test]
fn a_rebuild_restores_all_readable_objects() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let (file, at) = payload_of(&store, "late");
    drop(store);
    let fs = random::segments_of(&fs);
    fs.make_unreadable(&file, at..at + 1).unwrap();
    let rebuilt = random::rebuild_log(&fs);
    assert!(!rebuilt.damage.is_empty(), "{rebuilt:?}");
    check_all_but(&open(&fs), "late");
}
