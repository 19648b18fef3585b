//! Segments whose files are missing while the remote has them: a start places them again, or leaves
//! everything as it was found.

use super::repair::{extent_of, sent};
use super::tier::{Tiered, check, work};
use super::*;
use crate::base::limits::PAGE_BYTES;
use crate::format::{CopyPhase, segment_path, unfinished};
use crate::fs::Fs;
use crate::fs::sim::CrashPolicy;

/// A store that was closed, all of whose sealed segments are on the remote and here.
fn closed() -> (Tiered, Vec<u64>) {
    let (tiered, store) = sent();
    let remote: Vec<u64> = {
        let index = store.shared.index();
        let copies = index.remote_copies(None);
        copies.filter(|(_, copy)| copy.phase == CopyPhase::Remote).map(|(segment, _)| segment).collect()
    };
    assert!(remote.len() >= 2, "{remote:?}");
    store.close();
    (tiered, remote)
}

fn remove(tiered: &Tiered, segments: &[u64]) {
    for segment in segments {
        tiered.fs.remove(&segment_path(*segment)).unwrap();
    }
    tiered.fs.sync_dir("data").unwrap();
}

/// The files of segments, each with its bytes.
fn segment_files(tiered: &Tiered) -> Vec<(String, Vec<u8>)> {
    let names = tiered.fs.files().into_iter().map(|(name, _)| name);
    let segments = names.filter(|name| name.starts_with("data/"));
    segments.map(|name| (name.clone(), tiered.fs.contents(&name).unwrap())).collect()
}

/// Every object is read, the store is in use, and another start finds no damage.
fn check_whole(tiered: &Tiered, placed: usize) {
    let store = tiered.open();
    assert_eq!(store.health().read_only, None);
    assert_eq!(store.health().damage, []);
    let figures = store.repair_figures().unwrap();
    assert_eq!(figures.repaired_segments, placed as u64);
    assert_eq!(figures.repaired.len(), placed);
    check(&store);
    put(&store, "b", "another", b"x").unwrap();
    store.begin_epoch(&SeededEntropy::new(8)).unwrap();
    work(&store).unwrap();
    store.close();
    drop(store);
    let store = tiered.open();
    assert_eq!(store.health().damage, []);
    assert_eq!(store.repair_figures().unwrap().repaired_segments, 0);
    check(&store);
    store.close();
}

/// A start finds damage, takes no change, and writes no segment.
fn check_left_alone(tiered: &Tiered, missing: &[u64]) {
    let before = segment_files(tiered);
    let store = tiered.open_unmarked(&tiered.fs);
    assert!(store.health().read_only.is_some());
    let told: Vec<String> = store.health().damage.into_iter().map(|damage| damage.file).collect();
    assert_eq!(told, missing.iter().map(|id| segment_path(*id)).collect::<Vec<_>>());
    assert_eq!(store.repair_figures().unwrap().repaired_segments, 0);
    drop(store);
    assert!(segment_files(tiered) == before);
}

#[test]
fn a_segment_that_is_missing_here_is_placed_again() {
    let (tiered, remote) = closed();
    for missing in [&remote[..1], &remote[1..2], &remote[..]] {
        let twin = tiered.copy();
        remove(&twin, missing);
        check_whole(&twin, missing.len());
    }
}

#[test]
fn what_was_placed_is_listed() {
    let (tiered, remote) = closed();
    remove(&tiered, &remote[..1]);
    let store = tiered.open();
    let figures = store.repair_figures().unwrap();
    let placed = &figures.repaired[0];
    assert_eq!(placed.file, segment_path(remote[0]));
    assert_eq!(placed.what, "the file was missing");
    assert_eq!(placed.repaired, Some(tiered.clock.now()));
    store.close();
}

#[test]
fn a_remote_that_is_away_leaves_it_missing_until_a_start_reaches_it() {
    let (tiered, remote) = closed();
    remove(&tiered, &remote);
    tiered.remote.set_down(true);
    check_left_alone(&tiered, &remote);
    tiered.remote.set_down(false);
    check_whole(&tiered, remote.len());
}

#[test]
fn with_a_segment_missing_that_the_remote_lacks_nothing_is_placed() {
    let (tiered, remote) = closed();
    let store = tiered.open();
    put(&store, "b", "here alone", &bytes(3, 100_000)).unwrap();
    let here = extent_of(&store, "here alone").segment;
    store.close();
    drop(store);
    let mut missing = vec![remote[0], here];
    missing.sort_unstable();
    remove(&tiered, &missing);
    check_left_alone(&tiered, &missing);
}

#[test]
fn below_a_directory_without_any_segment_nothing_is_placed() {
    let (tiered, remote) = closed();
    // All that live objects need is on the remote; the files are those of a disk that is not mounted.
    let all: Vec<String> = segment_files(&tiered).into_iter().map(|(name, _)| name).collect();
    for name in all {
        tiered.fs.remove(&name).unwrap();
    }
    let store = tiered.open_unmarked(&tiered.fs);
    assert!(store.health().read_only.is_some());
    assert!(store.health().damage.len() >= remote.len());
    drop(store);
    assert!(segment_files(&tiered).is_empty());
}

#[test]
fn a_copy_that_is_gone_or_is_that_of_another_segment_is_not_placed() {
    let (tiered, remote) = closed();
    let store = tiered.open_unmarked(&tiered.fs);
    let names: Vec<String> = {
        let index = store.shared.index();
        remote.iter().map(|segment| index.remote_copy(*segment).unwrap().name(*segment)).collect()
    };
    store.close();
    drop(store);
    remove(&tiered, &remote[..1]);
    let own = tiered.remote.bytes(&names[0]).unwrap();
    tiered.remote.remove(&names[0]);
    check_left_alone(&tiered, &remote[..1]);
    tiered.remote.place(&names[0], &tiered.remote.bytes(&names[1]).unwrap());
    check_left_alone(&tiered, &remote[..1]);
    tiered.remote.place(&names[0], &own);
    check_whole(&tiered, 1);
}

#[test]
fn a_damaged_log_leaves_all_as_it_was_found() {
    let (tiered, remote) = closed();
    remove(&tiered, &remote[..1]);
    let names = tiered.fs.files().into_iter().map(|(name, _)| name);
    let newest = names.filter(|name| name.ends_with(".log")).max().unwrap();
    let mut read_only = 0;
    for at in (PAGE_BYTES..3 * PAGE_BYTES).step_by(200) {
        let twin = tiered.copy();
        twin.fs.damage(&newest, at, 0xff).unwrap();
        let before = segment_files(&twin);
        let Ok(store) = twin.try_open_on(&twin.fs) else { continue };
        if !store.health().damage.iter().any(|damage| damage.file == newest) {
            continue;
        }
        read_only += u64::from(store.health().read_only.is_some());
        drop(store);
        assert!(segment_files(&twin) == before, "{at}");
    }
    assert!(read_only > 0);
}

#[test]
fn a_crash_while_files_are_placed_leaves_them_missing_or_whole() {
    let (tiered, remote) = closed();
    remove(&tiered, &remote);
    let whole = tiered.copy();
    let before = whole.fs.operations();
    let store = whole.open_unmarked(&whole.fs);
    let operations = before + 1..whole.fs.operations() + 1;
    assert_eq!(store.repair_figures().unwrap().repaired_segments, remote.len() as u64);
    drop(store);
    for at in operations {
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll] {
            let twin = tiered.copy();
            twin.fs.stop_at(at);
            drop(twin.try_open_on(&twin.fs));
            let rebooted = twin.fs.crash(policy);
            let store = twin.open_unmarked(&rebooted);
            assert_eq!(store.health().read_only, None, "{at}");
            check(&store);
            let files = rebooted.files();
            let is_left = |id: &u64| files.iter().any(|(name, _)| *name == unfinished(&segment_path(*id)));
            assert!(!remote.iter().any(is_left), "{at}: {files:?}");
            store.close();
        }
    }
}
