//! A fast directory is added to a store, drained into the data directory, or given up.
//!
//! The mark of the data directory decides which log counts, and its name comes and goes in one
//! step: before `add` has made it, and after `drain` has removed it, the data directory is a store
//! of its own. What a change that was cut off leaves behind is of no meaning, and the next one
//! begins anew.

use std::io;

use super::{DisksError, mark};
use crate::base::Timestamp;
use crate::format::{EPOCH, FAST_MARK, FileKind, LOCK, SHADOW, StoreId, segment_path, unfinished};
use crate::fs::{DiskPlace, Fs, Lock, SubdirFs, copy_file, is_there};
use crate::log::{holds_store, list_numbers, remove_shadow};

/// How far a change is, in bytes of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeProgress {
    /// Bytes that were copied.
    pub done_bytes: u64,
    /// All that are to be copied.
    pub total_bytes: u64,
}

/// Receives the progress after each file.
type Shown<'s> = dyn FnMut(ChangeProgress) + 's;

/// Moves the log of a store to a directory without files, and marks both as a pair. Durable on
/// return. The segments stay where they are.
///
/// # Errors
/// [`DisksError::NoStore`], [`DisksError::NotEmpty`], [`DisksError::NoRoom`], [`DisksError::Locked`],
/// and those of the disks. The store is as it was then.
pub(super) fn add(
    data: &dyn Fs,
    fast: &dyn Fs,
    pair: StoreId,
    now: Timestamp,
    shown: &mut Shown<'_>,
) -> Result<(), DisksError> {
    if !holds_store(data)? {
        return Err(DisksError::NoStore);
    }
    check_empty(fast)?;
    let _data_lock = lock(data)?;
    let _fast_lock = lock(fast)?;
    let files = metadata_of(data)?;
    let mut copies = Copies::of(data, fast, &files, shown)?;
    copies.check_room("the fast directory")?;
    for kind in FileKind::ALL {
        fast.create_dir(kind.dir())?;
    }
    // Of an earlier fast directory.
    remove_shadow(&SubdirFs::new(data, SHADOW))?;
    // Before its files: they are never taken for a store of their own.
    mark::mark_fast(fast, pair, now)?;
    for path in &files {
        copies.copy(path, path)?;
    }
    fast.sync_dir(FileKind::Log.dir())?;
    fast.sync_dir("")?;
    // From here on the log of the fast directory counts.
    mark::mark_data(data, pair, now)?;
    remove_all(data, &files)
}

/// Moves the log and the segments of a fast directory into its data directory, which is a store of
/// its own then. Durable on return.
///
/// # Errors
/// [`DisksError::NoRoom`] and [`DisksError::Locked`], before anything is written; those of the disks:
/// the pair is as it was then, with fewer segments in the fast directory.
pub(super) fn drain(data: &dyn Fs, fast: &dyn Fs, shown: &mut Shown<'_>) -> Result<(), DisksError> {
    let _data_lock = lock(data)?;
    let _fast_lock = lock(fast)?;
    let segments: Vec<_> = list_numbers(fast, FileKind::Segment)?.into_iter().map(segment_path).collect();
    let metadata = metadata_of(fast)?;
    let all: Vec<_> = segments.iter().chain(&metadata).cloned().collect();
    let mut copies = Copies::of(fast, data, &all, shown)?;
    copies.check_room("the data directory")?;
    for path in &segments {
        // One that is there, too, was moved and not yet removed.
        if !is_there(data, path)? {
            let aside = unfinished(path);
            // An earlier try may have left one of the name.
            let _ = data.remove(&aside);
            copies.copy(path, &aside)?;
            data.rename(&aside, path)?;
        }
    }
    data.sync_dir(FileKind::Segment.dir())?;
    // Left by a change that was cut off: beside the mark, nothing counts.
    remove_all(data, &metadata_of(data)?)?;
    for path in &metadata {
        copies.copy(path, path)?;
    }
    data.sync_dir(FileKind::Log.dir())?;
    // From here on the data directory counts alone.
    remove_all(data, &[mark::data_path()])?;
    remove_shadow(&SubdirFs::new(data, SHADOW))?;
    remove_all(fast, &all)?;
    // After its files, which are not to be taken for a store of their own.
    remove_all(fast, &[FAST_MARK.to_owned()])
}

/// Removes the segments of a fast directory that the data directory has, too: a crash left them
/// there, after they were moved. Nothing where another process uses it.
///
/// # Errors
/// Of the disks.
pub(super) fn remove_moved(data: &dyn Fs, fast: &dyn Fs) -> Result<(), DisksError> {
    let _lock = match lock(fast) {
        Err(DisksError::Locked) => return Ok(()),
        locked => locked?,
    };
    let mut moved = Vec::new();
    for path in list_numbers(fast, FileKind::Segment)?.into_iter().map(segment_path) {
        if is_there(data, &path)? {
            moved.push(path);
        }
    }
    if moved.is_empty() {
        return Ok(());
    }
    // It may be there since a moment, in the page cache alone.
    data.sync_dir(FileKind::Segment.dir())?;
    remove_all(fast, &moved)
}

/// Takes the lock of a data directory whose fast directory is lost, and removes what a change that was
/// cut off has left there. Durable on return.
///
/// # Errors
/// [`DisksError::Locked`], and those of the disk.
pub(super) fn begin_loss(data: &dyn Fs) -> Result<Box<dyn Lock>, DisksError> {
    let lock = lock(data)?;
    remove_all(data, &metadata_of(data)?)?;
    Ok(lock)
}

/// Gives up a fast directory that is lost: what the data directory has in `meta/` is its log from then
/// on, and there is no shadow. Durable on return.
///
/// # Errors
/// Those of the disk.
pub(super) fn end_loss(data: &dyn Fs) -> Result<(), DisksError> {
    remove_all(data, &[mark::data_path()])?;
    Ok(remove_shadow(&SubdirFs::new(data, SHADOW))?)
}

/// Copies of files from one of the disks to the other.
struct Copies<'c, 's> {
    from: &'c dyn Fs,
    to: &'c dyn Fs,
    progress: ChangeProgress,
    needed_bytes: u64,
    shown: &'c mut Shown<'s>,
}

impl<'c, 's> Copies<'c, 's> {
    fn of(
        from: &'c dyn Fs,
        to: &'c dyn Fs,
        files: &[String],
        shown: &'c mut Shown<'s>,
    ) -> Result<Self, DisksError> {
        let mut needed_bytes = 0;
        let mut total_bytes = 0;
        for path in files {
            let file = from.open_read(path)?;
            needed_bytes += file.usage()?.allocated_bytes;
            total_bytes += file.len()?;
        }
        let progress = ChangeProgress { done_bytes: 0, total_bytes };
        Ok(Self { from, to, progress, needed_bytes, shown })
    }

    fn check_room(&self, dir: &'static str) -> Result<(), DisksError> {
        let free_bytes = self.to.space()?.free_bytes;
        if self.needed_bytes <= free_bytes {
            return Ok(());
        }
        Err(DisksError::NoRoom { dir, needed_bytes: self.needed_bytes, free_bytes })
    }

    fn copy(&mut self, path: &str, to: &str) -> Result<(), DisksError> {
        let file = self.from.open_uncached(path)?;
        copy_file(file.as_ref(), self.to, DiskPlace::Bulk, to)?;
        self.progress.done_bytes += file.len()?;
        (self.shown)(self.progress);
        Ok(())
    }
}

/// The files beside the segments that are in the fast directory where there is one: all but the
/// mark, the note of the epoch, which names its own inode, and what a crash has left.
fn metadata_of(disk: &dyn Fs) -> io::Result<Vec<String>> {
    let dir = FileKind::Log.dir();
    let paths = disk.list(dir)?.into_iter().map(|name| format!("{dir}/{name}"));
    let is_moved =
        |path: &String| *path != mark::data_path() && *path != EPOCH && !path.ends_with(&unfinished(""));
    Ok(paths.filter(is_moved).collect())
}

/// Refuses a directory that has files. A file that was put there by hand, or the log of another
/// store, is not written over.
pub(super) fn check_empty(disk: &dyn Fs) -> Result<(), DisksError> {
    for dir in ["", FileKind::Log.dir(), FileKind::Segment.dir()] {
        if let Some(name) = disk.list(dir)?.into_iter().find(|name| name != LOCK) {
            let path = format!("{dir}/{name}");
            return Err(DisksError::NotEmpty(path.trim_start_matches('/').to_owned()));
        }
    }
    Ok(())
}

/// Locks a directory against other processes.
///
/// # Errors
/// [`DisksError::Locked`], and those of the disk.
pub(super) fn lock(disk: &dyn Fs) -> Result<Box<dyn Lock>, DisksError> {
    disk.lock(LOCK).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => DisksError::Locked,
        _ => error.into(),
    })
}

/// Removes files of one of the disks, durably. Those that are missing are gone already.
fn remove_all(disk: &dyn Fs, paths: &[String]) -> Result<(), DisksError> {
    let mut dirs: Vec<&str> = Vec::new();
    for path in paths {
        match disk.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        dirs.push(path.rsplit_once('/').map_or("", |(dir, _)| dir));
    }
    dirs.sort_unstable();
    dirs.dedup();
    for dir in dirs {
        disk.sync_dir(dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::SplitFs;
    use crate::fs::sim::{CrashPolicy, SimFs};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const PAIR: StoreId = StoreId([9; 16]);
    const SEGMENT: &str = "data/0000000000000001.segment";
    const LOG: &str = "meta/0000000000000001.log";

    fn now() -> Timestamp {
        Timestamp::from_millis(1)
    }

    fn put(fs: &SimFs, path: &str, bytes: &[u8]) {
        let file = fs.create(path).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file.sync_data().unwrap();
    }

    /// A data directory with a log, a segment and the note of an epoch.
    fn store() -> SimFs {
        let data = SimFs::new();
        for dir in ["data", "meta"] {
            data.create_dir(dir).unwrap();
        }
        put(&data, SEGMENT, b"segment");
        put(&data, LOG, &[7; 9000]);
        put(&data, EPOCH, b"epoch");
        for dir in ["", "data", "meta"] {
            data.sync_dir(dir).unwrap();
        }
        data
    }

    fn files_of(fs: &dyn Fs) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for dir in ["data", "meta"] {
            for name in fs.list(dir).unwrap().into_iter().filter(|name| !name.ends_with(".new")) {
                let path = format!("{dir}/{name}");
                let file = fs.open_read(&path).unwrap();
                let mut bytes = vec![0; file.len().unwrap() as usize];
                file.read_exact_at(&mut bytes, 0).unwrap();
                files.insert(path, bytes);
            }
        }
        files
    }

    /// What a store would see, by the mark of the data directory. The note of the epoch is opened by
    /// its name, and not listed.
    fn seen(data: &SimFs, fast: &SimFs) -> BTreeMap<String, Vec<u8>> {
        let mut files = match mark::of_data(data).unwrap() {
            None => files_of(data),
            Some(pair) => {
                assert_eq!(mark::of_fast(fast).unwrap(), Some(pair), "the pair is whole");
                files_of(&SplitFs::new(Arc::new(fast.clone()), Arc::new(data.clone())))
            }
        };
        files.remove(EPOCH);
        files
    }

    #[test]
    fn a_log_moves_to_the_fast_directory_and_back_with_what_it_has_there() {
        let data = store();
        let before = seen(&data, &SimFs::new());
        let fast = SimFs::new();
        let mut told = Vec::new();
        add(&data, &fast, PAIR, now(), &mut |progress| told.push(progress)).unwrap();
        assert_eq!(told, [ChangeProgress { done_bytes: 9000, total_bytes: 9000 }]);
        assert_eq!(seen(&data, &fast), before);
        assert_eq!(files_of(&fast).keys().collect::<Vec<_>>(), [LOG]);
        assert!(is_there(&data, EPOCH).unwrap() && !is_there(&data, LOG).unwrap());

        put(&fast, "data/0000000000000002.segment", b"small");
        let with_small = seen(&data, &fast);
        drain(&data, &fast, &mut |_| ()).unwrap();
        assert_eq!(mark::of_data(&data).unwrap(), None);
        assert_eq!(seen(&data, &fast), with_small);
        assert!(files_of(&fast).is_empty() && mark::of_fast(&fast).unwrap().is_none());
    }

    #[test]
    fn nothing_is_written_over_in_a_directory_that_is_to_be_the_fast_one() {
        let fast = SimFs::new();
        fast.create_dir("meta").unwrap();
        put(&fast, LOG, b"of another store");
        let refusal = add(&store(), &fast, PAIR, now(), &mut |_| ()).unwrap_err();
        assert!(matches!(&refusal, DisksError::NotEmpty(path) if path == LOG), "{refusal}");
    }

    #[test]
    fn a_store_in_use_is_not_changed() {
        let data = store();
        let _lock = data.lock(LOCK).unwrap();
        let refusal = add(&data, &SimFs::new(), PAIR, now(), &mut |_| ()).unwrap_err();
        assert!(matches!(refusal, DisksError::Locked), "{refusal}");
    }

    #[test]
    fn a_disk_without_the_space_is_refused_before_anything_is_copied() {
        let fast = SimFs::new();
        fast.set_capacity(8192);
        let refusal = add(&store(), &fast, PAIR, now(), &mut |_| ()).unwrap_err();
        assert!(matches!(refusal, DisksError::NoRoom { .. }), "{refusal}");
        assert!(fast.list("meta").unwrap().is_empty());
    }

    /// Cuts the power at each operation of a change on each of the disks, and looks at what is left.
    /// Returns the number of cuts.
    fn cut_at_each(prepare: impl Fn() -> (SimFs, SimFs), change: impl Fn(&SimFs, &SimFs) -> bool) -> u64 {
        let (data, fast) = prepare();
        let before = seen(&data, &fast);
        let mut cuts = 0;
        for is_fast in [false, true] {
            for at in 1.. {
                let (data, fast) = prepare();
                let cut = if is_fast { &fast } else { &data };
                cut.stop_at(cut.operations() + at);
                if change(&data, &fast) {
                    break;
                }
                cuts += 1;
                for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(at)] {
                    let left = seen(&data.crash(policy), &fast.crash(policy));
                    assert_eq!(left, before, "operation {at}, on the fast disk: {is_fast}, {policy:?}");
                }
            }
        }
        cuts
    }

    #[test]
    fn a_power_cut_at_any_operation_of_an_addition_leaves_the_whole_store() {
        let cuts = cut_at_each(
            || (store(), SimFs::new()),
            |data, fast| add(data, fast, PAIR, now(), &mut |_| ()).is_ok(),
        );
        assert!(cuts > 20, "{cuts}");
    }

    #[test]
    fn a_power_cut_at_any_operation_of_a_drain_leaves_the_whole_store() {
        let pair = || {
            let data = store();
            let fast = SimFs::new();
            add(&data, &fast, PAIR, now(), &mut |_| ()).unwrap();
            put(&fast, "data/0000000000000002.segment", b"small");
            fast.sync_dir("data").unwrap();
            (data, fast)
        };
        let cuts = cut_at_each(pair, |data, fast| drain(data, fast, &mut |_| ()).is_ok());
        assert!(cuts > 15, "{cuts}");
    }

    #[test]
    fn a_drain_that_was_cut_off_is_done_by_the_next_one() {
        let data = store();
        let fast = SimFs::new();
        let before = seen(&data, &fast);
        add(&data, &fast, PAIR, now(), &mut |_| ()).unwrap();
        for at in [2, 4, 6] {
            let data = data.copy();
            let fast = fast.copy();
            data.stop_at(data.operations() + at);
            assert!(drain(&data, &fast, &mut |_| ()).is_err(), "{at}");
            let data = data.crash(CrashPolicy::KeepAll);
            let fast = fast.crash(CrashPolicy::KeepAll);
            drain(&data, &fast, &mut |_| ()).unwrap();
            assert_eq!(seen(&data, &fast), before, "{at}");
            assert!(mark::of_data(&data).unwrap().is_none());
        }
    }

    #[test]
    fn segments_that_a_crash_left_on_both_disks_are_removed_from_the_fast_one() {
        let data = store();
        let fast = SimFs::new();
        add(&data, &fast, PAIR, now(), &mut |_| ()).unwrap();
        let small = "data/0000000000000002.segment";
        put(&fast, SEGMENT, b"segment");
        put(&fast, small, b"small");
        let before = seen(&data, &fast);
        remove_moved(&data, &fast).unwrap();
        assert_eq!(seen(&data, &fast), before);
        assert!(!is_there(&fast, SEGMENT).unwrap() && is_there(&fast, small).unwrap());
        let _lock = fast.lock(LOCK).unwrap();
        put(&fast, SEGMENT, b"segment");
        remove_moved(&data, &fast).unwrap();
        assert!(is_there(&fast, SEGMENT).unwrap(), "a server moves it");
    }

    #[test]
    fn a_store_whose_fast_directory_is_given_up_has_its_segments_and_no_log() {
        let data = store();
        add(&data, &SimFs::new(), PAIR, now(), &mut |_| ()).unwrap();
        put(&data, "meta/0000000000000009.log", b"of a change that was cut off");
        begin_loss(&data).unwrap();
        end_loss(&data).unwrap();
        assert_eq!(mark::of_data(&data).unwrap(), None);
        assert_eq!(files_of(&data).keys().collect::<Vec<_>>(), [SEGMENT, EPOCH]);
    }
}
