//! What every [`Fs`] does, held against each.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use super::sim::SimFs;
use super::{File, Fs, OsFs};

/// Every test once, in a module of that name. `$with` makes a file system and calls the test.
macro_rules! conformance {
    ($module:ident: $with:path) => {
        $crate::fs::conformance::conformance! {
            @ $module: $with,
            a_file_made_is_empty_and_listed
            a_name_is_taken_once
            a_missing_file_is_not_found
            a_file_needs_its_directory
            directories_are_made_with_their_parents_and_twice_is_once
            a_file_is_no_directory
            a_list_is_sorted_and_holds_only_files_of_that_directory
            a_missing_directory_lists_nothing_but_cannot_be_synced
            bytes_are_read_as_written_at_any_offset
            a_read_past_the_end_fails
            a_write_beyond_the_end_leaves_zeros_between
            a_write_of_nothing_changes_nothing
            handles_share_a_file
            a_handle_for_reading_does_not_write
            a_rename_replaces_and_keeps_handles
            a_rename_to_itself_changes_nothing
            a_rename_of_nothing_fails
            a_rename_stays_in_its_directory
            a_link_is_another_name_of_the_same_file
            a_link_takes_no_other_name_and_needs_a_file
            an_uncached_read_returns_the_same_bytes
            a_removed_file_stays_readable_where_open
            a_lock_is_exclusive_until_dropped
            a_lock_creates_its_file_or_keeps_an_existing_one
            a_reservation_changes_neither_length_nor_bytes
            space_after_the_end_is_freed
            truncated_bytes_do_not_come_back
            a_hole_reads_as_zeros_and_takes_no_room
            holes_are_found_until_they_are_written
            a_shared_lock_lasts_until_every_holder_has_closed_the_file
            syncs_succeed_on_everything
            evicting_the_cache_changes_nothing
            writing_out_early_changes_nothing
            there_is_room
            errors_name_the_file
        }
    };
    (@ $module:ident: $with:path, $($test:ident)*) => {
        mod $module {
            $(#[test] fn $test() { $with($crate::fs::conformance::$test) })*
        }
    };
}
pub(crate) use conformance;

fn with_os(test: fn(&dyn Fs)) {
    let dir = tempfile::tempdir().unwrap();
    test(&OsFs::new(dir.path()));
}

fn with_sim(test: fn(&dyn Fs)) {
    test(&SimFs::new());
}

conformance!(os: super::with_os);
conformance!(sim: super::with_sim);

/// A file that holds `bytes`.
pub(crate) fn write(fs: &dyn Fs, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = fs.create(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

/// All bytes of an open file.
pub(crate) fn read(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0xee; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn read_path(fs: &dyn Fs, path: &str) -> Vec<u8> {
    read(&*fs.open_read(path).unwrap())
}

fn kind<T>(result: io::Result<T>) -> ErrorKind {
    result.err().expect("it should have failed").kind()
}

pub(crate) fn a_file_made_is_empty_and_listed(fs: &dyn Fs) {
    assert_eq!(fs.create("a").unwrap().len().unwrap(), 0);
    assert_eq!(fs.list("").unwrap(), ["a"]);
}

pub(crate) fn a_name_is_taken_once(fs: &dyn Fs) {
    write(fs, "a", b"first");
    fs.create_dir("d").unwrap();
    assert_eq!(kind(fs.create("a")), ErrorKind::AlreadyExists);
    assert_eq!(kind(fs.create("d")), ErrorKind::AlreadyExists);
    assert_eq!(read_path(fs, "a"), b"first");
}

pub(crate) fn a_missing_file_is_not_found(fs: &dyn Fs) {
    assert_eq!(kind(fs.open("a")), ErrorKind::NotFound);
    assert_eq!(kind(fs.open_read("a")), ErrorKind::NotFound);
    assert_eq!(kind(fs.remove("a")), ErrorKind::NotFound);
}

pub(crate) fn a_file_needs_its_directory(fs: &dyn Fs) {
    assert_eq!(kind(fs.create("d/a")), ErrorKind::NotFound);
    assert_eq!(kind(fs.lock("d/a")), ErrorKind::NotFound);
    fs.create_dir("d").unwrap();
    fs.create("d/a").unwrap();
}

pub(crate) fn directories_are_made_with_their_parents_and_twice_is_once(fs: &dyn Fs) {
    fs.create_dir("d/e/f").unwrap();
    write(fs, "d/e/f/a", b"x");
    fs.create_dir("d/e/f").unwrap();
    fs.create_dir("d").unwrap();
    fs.create_dir("").unwrap();
    assert_eq!(read_path(fs, "d/e/f/a"), b"x");
    fs.create("d/e/b").unwrap();
}

pub(crate) fn a_file_is_no_directory(fs: &dyn Fs) {
    fs.create("a").unwrap();
    assert_eq!(kind(fs.create_dir("a")), ErrorKind::AlreadyExists);
    assert_eq!(kind(fs.create_dir("a/b")), ErrorKind::AlreadyExists);
}

pub(crate) fn a_list_is_sorted_and_holds_only_files_of_that_directory(fs: &dyn Fs) {
    fs.create_dir("d/e").unwrap();
    for path in ["d/b", "d/a", "d/Z", "d/a.tmp", "d/e/inner", "outer"] {
        fs.create(path).unwrap();
    }
    assert_eq!(fs.list("d").unwrap(), ["Z", "a", "a.tmp", "b"]);
}

pub(crate) fn a_missing_directory_lists_nothing_but_cannot_be_synced(fs: &dyn Fs) {
    assert!(fs.list("d").unwrap().is_empty());
    assert_eq!(kind(fs.sync_dir("d")), ErrorKind::NotFound);
}

pub(crate) fn bytes_are_read_as_written_at_any_offset(fs: &dyn Fs) {
    let bytes: Vec<u8> = (0..5000_u32).map(|i| (i % 251) as u8).collect();
    let file = write(fs, "a", &bytes);
    file.write_all_at(b"middle", 1021).unwrap();
    let mut part = [0; 10];
    file.read_exact_at(&mut part, 1019).unwrap();
    assert_eq!(part, [15, 16, b'm', b'i', b'd', b'd', b'l', b'e', 23, 24]);
    file.read_exact_at(&mut part, 4990).unwrap();
    assert_eq!(part, bytes[4990..]);
    assert_eq!(file.len().unwrap(), 5000);
}

pub(crate) fn a_read_past_the_end_fails(fs: &dyn Fs) {
    let file = write(fs, "a", b"0123456789");
    assert_eq!(kind(file.read_exact_at(&mut [0; 5], 6)), ErrorKind::UnexpectedEof);
    assert_eq!(kind(file.read_exact_at(&mut [0; 1], 10)), ErrorKind::UnexpectedEof);
    assert_eq!(kind(file.read_exact_at(&mut [0; 1], 1 << 40)), ErrorKind::UnexpectedEof);
    file.read_exact_at(&mut [], 1 << 40).unwrap();
}

pub(crate) fn a_write_beyond_the_end_leaves_zeros_between(fs: &dyn Fs) {
    let file = write(fs, "a", b"ab");
    file.write_all_at(b"z", 3000).unwrap();
    let mut expected = vec![0; 3001];
    expected[..2].copy_from_slice(b"ab");
    expected[3000] = b'z';
    assert_eq!(read(&*file), expected);
}

pub(crate) fn a_write_of_nothing_changes_nothing(fs: &dyn Fs) {
    let file = write(fs, "a", b"ab");
    file.write_all_at(b"", 100).unwrap();
    assert_eq!(read(&*file), b"ab");
}

pub(crate) fn handles_share_a_file(fs: &dyn Fs) {
    let writer = write(fs, "a", b"old");
    let reader = fs.open_read("a").unwrap();
    let other = fs.open("a").unwrap();
    writer.write_all_at(b"N", 0).unwrap();
    other.write_all_at(b"W", 2).unwrap();
    assert_eq!(read(&*reader), b"NlW");
}

pub(crate) fn a_handle_for_reading_does_not_write(fs: &dyn Fs) {
    write(fs, "a", b"old");
    let reader = fs.open_read("a").unwrap();
    assert!(reader.write_all_at(b"new", 0).is_err());
    assert!(reader.reserve(0, 100).is_err());
    reader.write_all_at(b"", 0).unwrap();
    reader.reserve(0, 0).unwrap();
    assert_eq!(read(&*reader), b"old");
}

pub(crate) fn a_rename_replaces_and_keeps_handles(fs: &dyn Fs) {
    let old = write(fs, "a", b"old");
    let new = write(fs, "a.tmp", b"new");
    fs.rename("a.tmp", "a").unwrap();
    assert_eq!(fs.list("").unwrap(), ["a"]);
    assert_eq!(read_path(fs, "a"), b"new");
    assert_eq!((read(&*old), read(&*new)), (b"old".to_vec(), b"new".to_vec()));
}

pub(crate) fn a_rename_to_itself_changes_nothing(fs: &dyn Fs) {
    write(fs, "a", b"same");
    fs.rename("a", "a").unwrap();
    assert_eq!(read_path(fs, "a"), b"same");
}

pub(crate) fn a_rename_of_nothing_fails(fs: &dyn Fs) {
    write(fs, "b", b"kept");
    assert_eq!(kind(fs.rename("a", "b")), ErrorKind::NotFound);
    assert_eq!(read_path(fs, "b"), b"kept");
}

pub(crate) fn a_rename_stays_in_its_directory(fs: &dyn Fs) {
    write(fs, "a", b"x");
    fs.create_dir("d").unwrap();
    assert_eq!(kind(fs.rename("a", "d/a")), ErrorKind::InvalidInput);
    assert_eq!(read_path(fs, "a"), b"x");
}

pub(crate) fn a_link_is_another_name_of_the_same_file(fs: &dyn Fs) {
    let file = write(fs, "a", b"old");
    fs.create_dir("d").unwrap();
    fs.link("a", "d/b").unwrap();
    file.write_all_at(b"new", 0).unwrap();
    assert_eq!(read_path(fs, "d/b"), b"new");
    fs.remove("a").unwrap();
    assert_eq!(read_path(fs, "d/b"), b"new");
    assert!(fs.list("").unwrap().is_empty());
}

pub(crate) fn a_link_takes_no_other_name_and_needs_a_file(fs: &dyn Fs) {
    write(fs, "a", b"x");
    write(fs, "b", b"kept");
    assert_eq!(kind(fs.link("a", "b")), ErrorKind::AlreadyExists);
    assert_eq!(kind(fs.link("gone", "c")), ErrorKind::NotFound);
    fs.link("a", "c").unwrap();
    fs.rename("a", "c").unwrap();
    assert_eq!(fs.list("").unwrap(), ["a", "b", "c"]);
    assert_eq!(kind(fs.link("a", "d/a")), ErrorKind::NotFound);
    assert_eq!(read_path(fs, "b"), b"kept");
}

pub(crate) fn an_uncached_read_returns_the_same_bytes(fs: &dyn Fs) {
    assert_eq!(kind(fs.open_uncached("a")), ErrorKind::NotFound);
    let bytes: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    let file = write(fs, "a", &bytes);
    file.sync_data().unwrap();
    let passing = fs.open_uncached("a").unwrap();
    for evicted in [false, true, false] {
        if evicted {
            file.evict().unwrap();
        }
        let mut part = vec![0; 150_000];
        passing.read_exact_at(&mut part, 1021).unwrap();
        assert_eq!(part, bytes[1021..151_021]);
    }
    assert_eq!(kind(passing.read_exact_at(&mut [0; 5], 199_996)), ErrorKind::UnexpectedEof);
    assert!(passing.write_all_at(b"x", 0).is_err());
}

pub(crate) fn a_removed_file_stays_readable_where_open(fs: &dyn Fs) {
    let open = write(fs, "a", b"bytes");
    fs.remove("a").unwrap();
    fs.sync_dir("").unwrap();
    assert_eq!(kind(fs.open("a")), ErrorKind::NotFound);
    assert!(fs.list("").unwrap().is_empty());
    assert_eq!(read(&*open), b"bytes");
    write(fs, "a", b"another");
    assert_eq!(read(&*open), b"bytes");
}

pub(crate) fn a_lock_is_exclusive_until_dropped(fs: &dyn Fs) {
    let held = fs.lock("LOCK").unwrap();
    assert_eq!(kind(fs.lock("LOCK")), ErrorKind::WouldBlock);
    fs.lock("another").unwrap();
    drop(held);
    fs.lock("LOCK").unwrap();
}

pub(crate) fn a_lock_creates_its_file_or_keeps_an_existing_one(fs: &dyn Fs) {
    write(fs, "a", b"kept");
    drop((fs.lock("a").unwrap(), fs.lock("b").unwrap()));
    assert_eq!(fs.list("").unwrap(), ["a", "b"]);
    assert_eq!(read_path(fs, "a"), b"kept");
}

pub(crate) fn a_reservation_changes_neither_length_nor_bytes(fs: &dyn Fs) {
    let file = write(fs, "a", b"ab");
    file.reserve(0, 8192).unwrap();
    file.reserve(4096, 0).unwrap();
    assert_eq!(read(&*file), b"ab");
    file.write_all_at(b"c", 4).unwrap();
    assert_eq!(read(&*file), b"ab\0\0c");
}

pub(crate) fn space_after_the_end_is_freed(fs: &dyn Fs) {
    let file = write(fs, "a", &[7; 5000]);
    file.reserve(0, 1 << 20).unwrap();
    let before = file.usage().unwrap();
    file.truncate(u64::MAX).unwrap();
    file.sync_data().unwrap();
    let after = file.usage().unwrap();
    assert!(after.allocated_bytes < before.allocated_bytes && before.allocated_bytes >= 1 << 20);
    assert_eq!((read(&*file), after.links), (vec![7; 5000], 1));
    assert!(fs.open_read("a").unwrap().truncate(u64::MAX).is_err());
}

pub(crate) fn truncated_bytes_do_not_come_back(fs: &dyn Fs) {
    let file = write(fs, "a", &[7; 100_000]);
    file.sync_data().unwrap();
    file.truncate(5000).unwrap();
    file.sync_data().unwrap();
    assert!(read(&*file) == [7; 5000] && file.usage().unwrap().allocated_bytes <= 8192);
    file.write_all_at(b"x", 20_000).unwrap();
    let mut expected = vec![7; 20_001];
    expected[5000..20_000].fill(0);
    expected[20_000] = b'x';
    assert!(read(&*file) == expected);
}

pub(crate) fn a_hole_reads_as_zeros_and_takes_no_room(fs: &dyn Fs) {
    let file = write(fs, "a", &[7; 100_000]);
    file.sync_data().unwrap();
    let before = file.usage().unwrap().allocated_bytes;
    file.punch(8192, 65_536).unwrap();
    file.punch(0, 0).unwrap();
    file.sync_data().unwrap();
    let mut expected = vec![7; 100_000];
    expected[8192..8192 + 65_536].fill(0);
    assert_eq!(read_path(fs, "a"), expected);
    assert_eq!(file.usage().unwrap().allocated_bytes, before - 65_536);
    assert!(fs.open_read("a").unwrap().punch(0, 4096).is_err());
}

pub(crate) fn holes_are_found_until_they_are_written(fs: &dyn Fs) {
    let file = write(fs, "a", &[7; 100_000]);
    file.punch(8192, 65_536).unwrap();
    let hole = |range| file.next_hole(range).unwrap();
    assert_eq!(hole(0..100_000), Some(8192..73_728));
    assert_eq!(
        (hole(10_000..20_000), hole(0..8192), hole(73_728..100_000)),
        (Some(10_000..20_000), None, None)
    );
    file.write_all_at(&[0; 4096], 12_288).unwrap();
    assert_eq!((hole(0..100_000), hole(12_288..100_000)), (Some(8192..12_288), Some(16_384..73_728)));
    assert_eq!(read(&*file)[0], 7);
}

pub(crate) fn a_shared_lock_lasts_until_every_holder_has_closed_the_file(fs: &dyn Fs) {
    let file = fs.create("a").unwrap();
    assert!(!file.has_shared_lock().unwrap());
    let [one, other] = [fs.open_uncached("a").unwrap(), fs.open_read("a").unwrap()];
    assert!(!file.has_shared_lock().unwrap(), "an open handle is not a lock");
    one.lock_shared().unwrap();
    other.lock_shared().unwrap();
    other.lock_shared().unwrap();
    drop(one);
    assert!(file.has_shared_lock().unwrap());
    drop(other);
    assert!(!file.has_shared_lock().unwrap());
}

pub(crate) fn syncs_succeed_on_everything(fs: &dyn Fs) {
    fs.create_dir("d").unwrap();
    write(fs, "d/a", b"x").sync_data().unwrap();
    fs.open_read("d/a").unwrap().sync_data().unwrap();
    fs.sync_dir("d").unwrap();
    fs.sync_dir("").unwrap();
}

pub(crate) fn evicting_the_cache_changes_nothing(fs: &dyn Fs) {
    let file = write(fs, "a", &[7; 70_000]);
    file.evict().unwrap();
    assert_eq!(read(&*file), [7; 70_000]);
    file.sync_data().unwrap();
    fs.open_read("a").unwrap().evict().unwrap();
    assert_eq!(read(&*file), [7; 70_000]);
}

pub(crate) fn writing_out_early_changes_nothing(fs: &dyn Fs) {
    let file = write(fs, "a", &[7; 70_000]);
    file.start_writeback(4096, 8192).unwrap();
    file.write_all_at(&[8; 10], 8190).unwrap();
    file.start_writeback(0, 1 << 20).unwrap();
    file.sync_data().unwrap();
    file.start_writeback(0, 4096).unwrap();
    let mut expected = [7; 70_000];
    expected[8190..8200].fill(8);
    assert_eq!(read(&*file), expected);
}

pub(crate) fn there_is_room(fs: &dyn Fs) {
    let space = fs.space().unwrap();
    assert!(0 < space.free_bytes && space.free_bytes <= space.total_bytes);
}

pub(crate) fn errors_name_the_file(fs: &dyn Fs) {
    fs.create_dir("d").unwrap();
    let file = write(fs, "d/there", b"x");
    let missing = fs.open("d/gone").err().unwrap().to_string();
    assert!(missing.contains("d/gone"), "{missing}");
    let short = file.read_exact_at(&mut [0; 2], 0).unwrap_err().to_string();
    assert!(short.contains("d/there"), "{short}");
}
