//! The findings and notes of a check. `tests/tools` covers every kind of damage.

use super::random::segments_of;
use super::*;
use crate::base::limits::PAGE_BYTES;
use crate::base::test_scope::is_long;
use crate::format::{
    Entry, FileHeader, FileKind, GroupHeader, GroupKind, LOCK, UncheckedGroup, checkpoint_path, log_path,
    segment_path, unfinished,
};
use crate::fs::sim::{CrashPolicy, OpKind};
use crate::fs::{Fs, ReadOnlyFs};
use crate::log::{LogError, LogWriter, Segment, build_log};
use crate::offline::verify::{NoteKind, RecordRef, VerifyError, VerifyReport};
use crate::store::open::loader::{StoreLoader, store_id};
use crate::store::{Progress, ProgressStep};

fn look(fs: &SimFs) -> VerifyReport {
    verify(fs, &mut |_| {}).expect("the store can be looked at")
}

fn nothing_found(fs: &SimFs) -> VerifyReport {
    let report = look(fs);
    assert_eq!(report.findings, []);
    report
}

fn kinds(report: &VerifyReport) -> Vec<NoteKind> {
    report.notes.iter().map(|note| note.kind).collect()
}

/// A store with small and large objects, versions and markers, two checkpoints and a log after
/// them.
fn filled(fs: &SimFs) -> Store {
    let store = open(fs);
    store.create_bucket("photos", "admin").unwrap();
    put(&store, "photos", "small", b"abc").unwrap();
    store.checkpoint().unwrap();
    store.set_versioning("photos", Versioning::Enabled).unwrap();
    for seed in 0..3 {
        put(&store, "photos", "large", &bytes(seed, 200_000)).unwrap();
    }
    delete(&store, "photos", "small", Selector::Current).unwrap();
    store.checkpoint().unwrap();
    put(&store, "photos", "late", b"").unwrap();
    store
}

#[test]
fn a_healthy_store_has_no_findings_and_is_counted_completely() {
    let fs = SimFs::new();
    drop(filled(&fs));
    let report = nothing_found(&fs);
    let counts = report.counts;
    assert_eq!((counts.segments, counts.log_files, counts.checkpoints), (2, 1, 2));
    assert_eq!((counts.buckets, counts.versions), (1, 6));
    assert_eq!((counts.extents, counts.payload_bytes), (1 + 3 * 2 + 1, 3 + 3 * 200_000));
    assert!(report.segments.iter().all(|segment| 0 < segment.live && segment.live < segment.len));
    assert_eq!(report.notes, []);
}

#[test]
fn a_shared_extent_is_read_once_and_reported_for_all_its_owners() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("photos", "admin").unwrap();
    put(&store, "photos", "source", &bytes(1, 100_000)).unwrap();
    let found = store.find("photos", "source", Selector::Current).unwrap();
    let source = found.version.clone();
    let extent = found.version.extents[0];
    let source =
        CopyRange { bucket: found.bucket.id, key: "source".into(), version: source, range: 10..90_000 };
    store.copy(source, "photos", "copy", commit_of(b"")).unwrap();
    drop(store);
    assert_eq!(nothing_found(&fs).counts.payload_bytes, 100_000);
    fs.damage(&segment_path(extent.segment), extent.offset + 70_000, 1).unwrap();
    let mut owners: Vec<_> = look(&fs).findings.into_iter().map(|f| f.owner.unwrap().key).collect();
    owners.sort_unstable();
    assert_eq!(owners, ["copy", "source"]);
}

#[test]
fn parts_of_uploads_in_progress_are_checked() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("photos", "admin").unwrap();
    let upload = begin_upload(&store, "photos", "film").unwrap();
    let mut writer = store.part_writer("photos", "film", upload, 7, None).unwrap();
    writer.write(bytes(1, 100_000)).unwrap();
    let extent = writer.commit([0; 16], None).unwrap().extents[0];
    drop(store);
    assert_eq!(nothing_found(&fs).counts.uploads, 1);
    fs.damage(&segment_path(extent.segment), extent.offset + 70_000, 1).unwrap();
    let owner = look(&fs).findings.remove(0).owner.unwrap();
    assert_eq!(owner.record, RecordRef::Part { upload, number: 7 });
}

#[test]
fn an_extent_other_than_the_referenced_one_is_found() {
    let fs = SimFs::new();
    let store = open(&fs);
    let bucket = store.create_bucket("photos", "admin").unwrap().id;
    put(&store, "photos", "a", b"abc").unwrap();
    let record = store.find("photos", "a", Selector::Current).unwrap().version;
    drop(store);
    let mut other = record.clone();
    other.extents[0].check ^= 1;
    let entries = [("b", record), ("a", other)].map(|(key, record)| Entry::VersionPut {
        bucket,
        key: key.into(),
        record,
    });
    append(&fs, &entries);
    let found: Vec<_> = look(&fs).findings.iter().map(ToString::to_string).collect();
    let has = |key: &str, what: &str| found.iter().any(|f| f.contains(key) && f.contains(what));
    assert!(has("key \"b\"", "the extent names key \"a\" of bucket photos"), "{found:#?}");
    assert!(has("key \"a\"", "and the version refers to 3 with"), "{found:#?}");
}

/// Appends a group with invalid references to the log.
fn append(fs: &SimFs, entries: &[Entry]) {
    let id = store_id(fs).unwrap().unwrap();
    let tail = StoreLoader::from_newest(fs, id, &mut vec![]).unwrap().replay().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1)));
    let mut log_writer =
        LogWriter::resume(Arc::new(fs.clone()), clock, id, options().log_file_max_bytes, &tail).unwrap();
    let mut body = Vec::new();
    entries.iter().for_each(|entry| entry.encode(&mut body));
    let written = log_writer.write(entries.len() as u32, &body, None).unwrap();
    log_writer.mark_durable(&written);
}

#[test]
fn nothing_is_written_and_the_lock_is_released() {
    let fs = SimFs::new();
    drop(filled(&fs));
    let files = fs.files();
    let operations = fs.trace().len();
    nothing_found(&fs);
    assert_eq!(fs.files(), files);
    // The only requests to the disk make earlier writes durable.
    assert!(fs.trace()[operations..].iter().all(|op| op.kind == OpKind::SyncData));
    open(&fs);
}

#[test]
fn a_store_in_use_and_a_directory_without_a_store_are_not_checked() {
    let fs = SimFs::new();
    assert!(matches!(verify(&fs, &mut |_| {}), Err(VerifyError::NotAStore)));
    assert_eq!(fs.files(), []);
    let _store = filled(&fs);
    assert!(matches!(verify(&fs, &mut |_| {}), Err(VerifyError::Locked)));
}

#[test]
fn a_copy_without_a_file_to_lock_does_not_get_one() {
    let fs = SimFs::new();
    drop(filled(&fs));
    fs.remove(LOCK).unwrap();
    fs.create("users.toml").unwrap();
    let files = fs.files();
    assert_eq!(kinds(&nothing_found(&fs)), [NoteKind::NotLocked]);
    assert_eq!(fs.files(), files);
}

#[test]
fn a_read_only_file_system_is_checked_without_a_lock() {
    let fs = SimFs::new();
    drop(filled(&fs));
    let report = verify(&ReadOnlyFs::new(&fs), &mut |_| {}).unwrap();
    assert_eq!((report.findings.len(), kinds(&report)), (0, vec![NoteKind::NotLocked]));
}

#[test]
fn the_remains_of_a_crash_are_notes_and_not_damage() {
    for seed in 0..20 {
        let fs = SimFs::new();
        let store = filled(&fs);
        // The power goes during one of the next operations.
        fs.stop_at(fs.operations() + 1 + seed % 4);
        let _ = put(&store, "photos", "torn", &bytes(seed, 3_000));
        let crashed = fs.crash(CrashPolicy::Random(seed));
        nothing_found(&crashed);
    }
}

#[test]
fn a_torn_group_is_noted_with_its_place() {
    let fs = SimFs::new();
    drop(filled(&fs));
    let log = fs.contents(&log_path(1)).unwrap();
    let mut pages = log.chunks(PAGE_BYTES as usize);
    let end = pages.rposition(|page| page.iter().any(|byte| *byte != 0)).unwrap() as u64 + 1;
    fs.overwrite(&log_path(1), end * PAGE_BYTES, b"SGRP and half a group").unwrap();
    let report = nothing_found(&fs);
    let torn = report.notes.iter().find(|note| note.kind == NoteKind::Torn).unwrap();
    assert_eq!((torn.file.as_str(), torn.offset), (log_path(1).as_str(), end * PAGE_BYTES));
}

#[test]
fn unfinished_files_and_segments_without_objects_are_noted() {
    let fs = SimFs::new();
    let store = filled(&fs);
    delete(&store, "photos", "late", Selector::Current).unwrap();
    for version in ["small", "late", "large"] {
        while let Ok(found) = store.find("photos", version, Selector::Current) {
            let which = if found.version.null { Selector::Null } else { Selector::Id(found.version.id) };
            delete(&store, "photos", version, which).unwrap();
        }
    }
    drop(store);
    let aside = unfinished(&segment_path(9));
    fs.create(&aside).unwrap();
    let report = nothing_found(&fs);
    assert_eq!(kinds(&report), [NoteKind::Unfinished, NoteKind::Unreferenced, NoteKind::Unreferenced]);
    assert_eq!(report.notes[0].file, aside);
    assert!(report.notes[1].to_string().starts_with(&segment_path(1)));
}

#[test]
fn a_checkpoint_older_than_the_two_kept_needs_no_log() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let oldest = list(&fs, FileKind::Checkpoint)[0];
    let kept = fs.contents(&checkpoint_path(oldest)).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    // The removal was lost in a crash.
    fs.create(&checkpoint_path(oldest)).unwrap();
    fs.overwrite(&checkpoint_path(oldest), 0, &kept).unwrap();
    let report = nothing_found(&fs);
    assert_eq!(kinds(&report), [NoteKind::Superfluous]);
    assert_eq!(report.notes[0].file, checkpoint_path(oldest));
}

#[test]
fn checkpoints_with_different_content_are_found() {
    let fs = SimFs::new();
    let store = filled(&fs);
    store.close();
    drop(store);
    let [older, newer] = list(&fs, FileKind::Checkpoint)[..] else { panic!("two are kept") };
    // The header of the newer one, and the groups of the older one: valid, but incomplete.
    let groups = fs.contents(&checkpoint_path(older)).unwrap().split_off(PAGE_BYTES as usize);
    fs.overwrite(&checkpoint_path(newer), PAGE_BYTES, &groups).unwrap();
    let report = look(&fs);
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("adds up to another index"), "{found:?}");
}

#[test]
fn a_checkpoint_made_while_a_bucket_goes_agrees_with_the_log() {
    for _ in 0..40 {
        let fs = SimFs::new();
        let store = open(&fs);
        store.create_bucket("stays", "admin").unwrap();
        store.create_bucket("goes", "admin").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| store.delete_bucket("goes").unwrap());
            scope.spawn(|| put(&store, "stays", "key", b"abc").unwrap());
            store.checkpoint().unwrap();
        });
        drop(store);
        nothing_found(&fs);
    }
}

#[test]
fn progress_goes_through_all_steps_and_reaches_its_end() {
    let fs = SimFs::new();
    drop(filled(&fs));
    let mut seen: Vec<Progress> = Vec::new();
    verify(&fs, &mut |progress| seen.push(progress)).unwrap();
    let mut steps: Vec<_> = seen.iter().map(|progress| progress.step).collect();
    steps.dedup();
    assert_eq!(
        steps,
        [ProgressStep::Files, ProgressStep::Metadata, ProgressStep::Objects, ProgressStep::OtherCheckpoints]
    );
    let last = seen.iter().rfind(|progress| progress.step == ProgressStep::Objects).unwrap();
    assert!(last.total > 600_000 && last.done == last.total, "{last:?}");
}

fn list(fs: &SimFs, kind: FileKind) -> Vec<u64> {
    crate::log::list_numbers(fs, kind).unwrap()
}

/// The ranges of a file that carry data: headers, groups without their padding, live extents.
fn meaningful(fs: &SimFs, path: &str, live: &[(u64, u64)]) -> Vec<Range<u64>> {
    let bytes = fs.contents(path).unwrap();
    let store = FileHeader::decode(&bytes).unwrap().store;
    let file = fs.open_read(path).unwrap();
    let first = 0..PAGE_BYTES;
    let mut regions = vec![first];
    let kind = FileHeader::decode(&bytes).unwrap().kind;
    if kind == FileKind::Segment {
        let segment = Segment { id: FileHeader::decode(&bytes).unwrap().number, file };
        for (id, offset) in live.iter().filter(|(id, _)| *id == segment.id) {
            let header = segment.extent(&store, *offset).unwrap();
            assert_eq!((header.segment, header.offset), (*id, *offset));
            regions.push(*offset..offset + header.extent_len());
        }
        regions.extend(segment.footer(&store).unwrap().map(|footer| footer.offset..bytes.len() as u64));
        return regions;
    }
    let kind = if kind == FileKind::Log { GroupKind::Log } else { GroupKind::Checkpoint };
    let mut at = PAGE_BYTES;
    while let Some(Ok(group)) =
        bytes.get(at as usize..).map(|rest| UncheckedGroup::decode(kind, &store, rest))
    {
        regions.push(at..at + GroupHeader::BYTES as u64 + group.body_len() as u64);
        at += group.group_len();
    }
    regions
}

#[test]
fn a_change_of_any_byte_that_carries_data_is_found_and_of_no_other() {
    let fs = SimFs::new();
    let options = StoreOptions { segment_max_bytes: 200_000, log_file_max_bytes: 16_384, ..options() };
    let store = open_with(&fs, options).unwrap();
    store.create_bucket("photos", "admin").unwrap();
    put(&store, "photos", "gone", &bytes(1, 3_000)).unwrap();
    store.checkpoint().unwrap();
    put(&store, "photos", "small", b"abc").unwrap();
    for seed in 2..4 {
        put(&store, "photos", "large", &bytes(seed, 66_000)).unwrap();
    }
    delete(&store, "photos", "gone", Selector::Current).unwrap();
    store.close();
    let extents = ["small", "large"]
        .map(|key| store.find("photos", key, Selector::Current).unwrap().version.extents)
        .concat();
    let live: Vec<_> = extents.iter().map(|extent| (extent.segment, extent.offset)).collect();
    drop(store);
    nothing_found(&fs);
    let thinned = if is_long() { 1 } else { 4 };
    let mut flips = (0, 0);
    for (path, len) in fs.files().into_iter().filter(|(path, _)| path.contains('/')) {
        let regions = meaningful(&fs, &path, &live);
        let inside = |at: &u64| regions.iter().any(|region| region.contains(at));
        // The payload of the large object is tested in larger steps.
        let step = |at: u64| thinned * if inside(&at) && !inside(&(at + 40_000)) { 17 } else { 211 };
        let mut at = seed() % (17 * thinned);
        while at < len {
            fs.damage(&path, at, 1 << (at % 8)).unwrap();
            let findings = look(&fs).findings;
            let found = findings.iter().any(|finding| finding.damage.file == path);
            assert_eq!(found, inside(&at), "{path} at {at}: {findings:#?}");
            if inside(&at) {
                flips.0 += 1;
            } else {
                flips.1 += 1;
            }
            fs.damage(&path, at, 1 << (at % 8)).unwrap();
            at += step(at);
        }
    }
    println!("flips that mattered {}, that did not {}", flips.0, flips.1);
    assert!(flips.0 > 1_000 / thinned && flips.1 > 100 / thinned, "{flips:?}");
    nothing_found(&fs);
}

/// Writes a log with these entries for the segments of a store.
fn with_log(fs: &SimFs, entries: &[Entry]) -> SimFs {
    let copy = segments_of(fs);
    copy.create_dir("meta").unwrap();
    let store = store_id(fs).unwrap().unwrap();
    let mut feed = |put: &mut dyn FnMut(&Entry) -> Result<(), LogError>| entries.iter().try_for_each(put);
    build_log(&copy, store, Timestamp::from_millis(1), &mut feed, || Ok(())).unwrap();
    copy
}

#[test]
fn an_extent_with_two_owners_that_is_not_marked_as_shared_is_found() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("photos", "admin").unwrap();
    put(&store, "photos", "k", b"abc").unwrap();
    let bucket = store.bucket("photos").unwrap();
    let record = find_record(&store, "k");
    drop(store);
    let version = |id, shared| {
        let mut record = VersionRecord { id: VersionId(id), null: false, ..record.clone() };
        record.extents.iter_mut().for_each(|extent| extent.shared = shared);
        Entry::VersionPut { bucket: bucket.id, key: b"k".to_vec(), record }
    };
    let look = |one, two| {
        let entries = [Entry::BucketPut(bucket.clone()), version(5, one), version(6, two)];
        look(&with_log(&fs, &entries)).findings
    };
    assert_eq!(look(true, true), []);
    for (one, two) in [(false, false), (false, true)] {
        let found = look(one, two);
        let here = found
            .iter()
            .find(|finding| finding.damage.what.contains("not all references are marked"))
            .unwrap();
        assert_eq!(here.damage.offset, record.extents[0].offset);
    }
}

fn find_record(store: &Store, key: &str) -> VersionRecord {
    store.find("photos", key, Selector::Current).unwrap().version
}
