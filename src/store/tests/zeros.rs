//! The zeros behind the last extent of a segment, over which small packs are written.

use super::*;
use crate::format::{FileKind, segment_path};
use crate::fs::sim::{CrashPolicy, Op, OpKind};
use crate::fs::{File, Fs};
use crate::log::list_numbers;

const PAGE: u64 = 4096;

/// The segment that small objects go to.
fn newest(fs: &SimFs) -> Arc<dyn File> {
    let id = *list_numbers(fs, FileKind::Segment).unwrap().last().unwrap();
    fs.open(&segment_path(id)).unwrap()
}

fn writes_to_data(trace: &[Op]) -> Vec<(u64, u64)> {
    let writes = trace.iter().filter(|op| op.kind == OpKind::Write && op.path.starts_with("data/"));
    writes.map(|op| (op.offset, op.len)).collect()
}

fn store_with_an_object(fs: &SimFs) -> Store {
    let store = open(fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "first", b"x").unwrap();
    store
}

#[test]
fn small_objects_are_written_inside_the_file_and_large_ones_at_its_end() {
    let fs = SimFs::new();
    let store = store_with_an_object(&fs);
    let len = newest(&fs).len().unwrap();
    let before = fs.trace().len();
    for at in 0..50 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 3_000)).unwrap();
    }
    assert_eq!(newest(&fs).len().unwrap(), len);
    let writes = writes_to_data(&fs.trace()[before..]);
    assert_eq!(writes.len(), 50);
    assert!(writes.iter().all(|(offset, written)| offset % PAGE == 0 && offset + written <= len));
    let before = fs.trace().len();
    for at in 0..10 {
        put(&store, "b", &format!("large{at}"), &bytes(at, 60_000)).unwrap();
    }
    assert_eq!(writes_to_data(&fs.trace()[before..]).len(), 10, "no zeros for what is not small");
}

#[test]
fn what_needs_no_pack_has_no_zeros_written() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "streamed", &bytes(1, 1_000_000)).unwrap();
    assert_eq!(newest(&fs).len().unwrap(), PAGE, "a header");
}

#[test]
fn an_orderly_end_leaves_no_zeros_and_a_crash_costs_no_more_than_they_are() {
    let fs = SimFs::new();
    let store = store_with_an_object(&fs);
    let ready = newest(&fs).len().unwrap();
    assert!(ready > 2 * PAGE);
    store.close();
    assert_eq!(newest(&fs).len().unwrap(), 2 * PAGE, "a header, and a pack");
    let fs = SimFs::new();
    let _store = store_with_an_object(&fs);
    let after_a_crash = open(&fs.crash(CrashPolicy::KeepAll));
    put(&after_a_crash, "b", "second", b"y").unwrap();
    let found = after_a_crash.find("b", "second", Selector::Current).unwrap();
    assert_eq!(found.version.extents[0].offset, ready);
    for key in ["first", "second"] {
        assert!(get(&after_a_crash, "b", key).is_ok());
    }
}

#[test]
fn a_footer_stands_right_behind_the_last_extent() {
    let fs = SimFs::new();
    let store = store_with_an_object(&fs);
    store.shared.segments.retire(|_| true);
    let left = newest(&fs);
    put(&store, "b", "next", b"y").unwrap();
    assert_eq!(left.len().unwrap(), 3 * PAGE, "header, pack, footer");
    drop(store);
    assert_eq!(verify(&fs, &mut |_| {}).unwrap().findings, []);
}

/// Until it is known that the zeros are gone, a footer before them would not be the end of its
/// file.
#[test]
fn the_zeros_are_gone_for_good_before_the_footer_is_written() {
    use OpKind::{SyncData, Truncate, Write};
    let fs = SimFs::new();
    let store = store_with_an_object(&fs);
    store.shared.segments.retire(|_| true);
    let before = fs.trace().len();
    put(&store, "b", "next", b"y").unwrap();
    let trace = &fs.trace()[before..];
    let cut = trace.iter().position(|op| op.kind == Truncate).unwrap();
    let path = &trace[cut].path;
    let then: Vec<&OpKind> = trace[cut..].iter().filter(|op| op.path == *path).map(|op| &op.kind).collect();
    assert_eq!(then, [&Truncate, &SyncData, &Write, &Truncate, &SyncData]);
}
