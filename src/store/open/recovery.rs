//! Opening a store: the newest valid checkpoint and the log after it. Nothing is written before all
//! of it has been read and verified.

use std::io;
use std::sync::Arc;

use crate::base::{Clock, Entropy, Timestamp};
use crate::format::{FileKind, LOCK, StoreId, log_path, segment_path};
use crate::fs::{Fs, Lock};
use crate::index::Index;
use crate::log::{
    Damage, LogError, LogFollower, LogTail, LogWriter, SegmentOptions, Segments, SpaceClaim, list_numbers,
    open_file, remove_unfinished,
};
use crate::remote::RemoteView;
use crate::store::open::loader::{MissingSegment, StoreLoader, store_id, sync_and_evict};
use crate::store::remote_log::chain::RemoteLog;
use crate::store::remote_log::segment_copy::place_copy;
use crate::store::shared::write_counters::MeteredDisk;
use crate::store::shared::{Published, SharedStore, StoreBasis};
use crate::store::{OpenError, ReadOnlyReason, StoreOptions};

/// A store that has been read.
pub(in crate::store) struct Recovered {
    pub(in crate::store) shared: Arc<SharedStore>,
    /// The log writer; `None` if the log is damaged.
    pub(in crate::store) log_writer: Option<LogWriter>,
    /// Segments whose files were missing, and were placed again from the remote.
    pub(in crate::store) placed_segments: Vec<u64>,
}

/// Locks the directory against other processes.
pub(crate) fn lock(fs: &dyn Fs) -> Result<Box<dyn Lock>, OpenError> {
    fs.lock(LOCK).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked,
        _ => OpenError::Io(error),
    })
}

/// As [`lock`]; nothing where the file system cannot be written to.
pub(in crate::store) fn lock_to_look(fs: &dyn Fs) -> Result<Option<Box<dyn Lock>>, OpenError> {
    match fs.lock(LOCK) {
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(OpenError::Locked),
        locked => Ok(Some(locked?)),
    }
}

/// Reads the store, or creates one in an empty directory. Segments that are missing there and
/// whole on `remote` get their files again.
pub(in crate::store) fn open(
    fs: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    entropy: &dyn Entropy,
    options: StoreOptions,
    remote: Option<&dyn RemoteView>,
) -> Result<Recovered, OpenError> {
    for kind in FileKind::ALL {
        fs.create_dir(kind.dir())?;
    }
    // The lock file, too, must exist before a start on a full disk.
    fs.sync_dir("")?;
    let store = store_id(fs.as_ref())?;
    let disk = MeteredDisk::new(fs);
    match store {
        Some(store) => Recovery { basis: StoreBasis { disk, clock, store, options }, remote }.run(),
        None => create(disk, clock, entropy, options),
    }
}

fn create(
    disk: MeteredDisk,
    clock: Arc<dyn Clock>,
    entropy: &dyn Entropy,
    options: StoreOptions,
) -> Result<Recovered, OpenError> {
    let mut id = [0; 16];
    entropy.fill(&mut id);
    let store = StoreId(id);
    remove_unfinished(disk.fs.as_ref())?;
    let log_writer = LogWriter::create(disk.fs.clone(), clock.clone(), store, options.log_file_max_bytes)?;
    let basis = StoreBasis { disk, clock, store, options };
    let segments = open_segments(&basis)?;
    let shared = SharedStore::new(basis, segments, Index::new(), 0);
    Ok(Recovered { shared: Arc::new(shared), log_writer: Some(log_writer), placed_segments: Vec::new() })
}

fn open_segments(basis: &StoreBasis) -> Result<Segments, LogError> {
    let StoreBasis { disk, clock, store, options } = basis;
    let StoreOptions { segment_max_bytes, keep_free_bytes, segments_open_max: open_max, .. } = *options;
    let sizes = SegmentOptions { segment_max_bytes, keep_free_bytes, open_max };
    Segments::open(disk.fs.clone(), disk.relocation_fs.clone(), clock.clone(), *store, sizes)
}

/// Reads the directory of a store that another thread extends, for reads alone, and the place after
/// its last group. Nothing is written.
pub(in crate::store) fn read(
    fs: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    options: StoreOptions,
) -> Result<(Arc<SharedStore>, LogFollower), OpenError> {
    let (shared, tail) = load(fs, clock, options)?;
    match tail.damage {
        Some(damage) => Err(LogError::from(damage).into()),
        None => {
            let log = LogFollower::at_end(shared.fs.clone(), shared.store, &tail);
            Ok((Arc::new(shared), log))
        }
    }
}

/// As [`read`], of a directory that nobody extends: where the log is damaged, its beginning is
/// read.
pub(in crate::store) fn look(
    fs: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    options: StoreOptions,
) -> Result<Arc<SharedStore>, OpenError> {
    let (shared, tail) = load(fs, clock, options)?;
    if let Some(damage) = &tail.damage {
        shared.report(damage);
    }
    shared.only_look();
    Ok(Arc::new(shared))
}

/// Reads the directory of a store. Nothing is written.
fn load(
    fs: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    options: StoreOptions,
) -> Result<(SharedStore, LogTail), OpenError> {
    let Some(store) = store_id(fs.as_ref())? else {
        return Err(LogError::from(Damage::new(FileKind::Log.dir(), 0, "there is no store")).into());
    };
    let basis = StoreBasis { disk: MeteredDisk::new(fs), clock, store, options };
    let segments = open_segments(&basis)?;
    let mut damage = segments.damage().to_vec();
    let fs = basis.disk.fs.clone();
    let mut reading = StoreLoader::from_newest(fs.as_ref(), store, &mut damage)?;
    let tail = reading.replay()?;
    let index = reading.index;
    let sequence = tail.sequence - 1;
    let shared = SharedStore::new(basis, segments, index, sequence);
    for damage in &damage {
        shared.report(damage);
    }
    Ok((shared, tail))
}

/// The reading of a store that is to be written to.
struct Recovery<'r> {
    basis: StoreBasis,
    remote: Option<&'r dyn RemoteView>,
}

impl Recovery<'_> {
    fn run(self) -> Result<Recovered, OpenError> {
        // 1. What is read is durable: answers by it may be given at once, and would be lost by a
        //    crash otherwise.
        self.sync_before_reading()?;
        // 2. The newest good checkpoint, and the log after it. Damage before that is reported, and
        //    does no harm.
        let mut damage = Vec::new();
        let mut reading = StoreLoader::from_newest(self.fs(), self.basis.store, &mut damage)?;
        let newest_checkpoint = self.creation_of_checkpoint(reading.start.covered)?;
        let tail = reading.replay()?;
        // 3. Segments that are missing here and whole on the remote. With damage that stays, nothing
        //    is written: the store stays as it was found.
        let missing = reading.missing_segments()?;
        let placed_segments = if tail.damage.is_none() { self.place(&missing)? } else { Vec::new() };
        let segments = open_segments(&self.basis)?;
        damage.extend_from_slice(segments.damage());
        // 4. Damage of the log, and segments that are still missing, end all writing: the groups
        //    after the damage may refer to bytes that look dead.
        let mut fatal: Vec<Damage> = tail.damage.clone().into_iter().collect();
        let still_missing = missing.iter().filter(|missing| !placed_segments.contains(&missing.id));
        fatal.extend(still_missing.map(MissingSegment::damage));
        self.basis.disk.counters.resume_from(reading.written);
        let shared = SharedStore::new(self.basis.clone(), segments, reading.index, tail.sequence - 1);
        if let Some(created) = newest_checkpoint {
            shared.set_newest_checkpoint(created);
        }
        shared.backlog.start(reading.checkpoint_len, tail.volume, shared.segments.reserve());
        // 5. The segment by which the last group counts is known before anything is reclaimed.
        let doubtful_segment = tail.doubtful_segment.unwrap_or(0);
        shared.publish(Published { doubtful_segment, ..shared.published() });
        for damage in damage.iter().chain(&fatal) {
            shared.report(damage);
        }
        // 6. The log goes on, and without damage alone: a store with damage stays as it was found.
        let log_writer = match fatal.first() {
            Some(damage) => {
                shared.latch(ReadOnlyReason::of(damage), damage.to_string());
                None
            }
            None => Some(self.resume(&shared, &tail)?),
        };
        Ok(Recovered { shared: Arc::new(shared), log_writer, placed_segments })
    }

    fn fs(&self) -> &dyn Fs {
        self.basis.disk.fs.as_ref()
    }

    /// Gives missing segments their files again where the remote has all of them: their bytes are
    /// read from there. Durable on return. Returns those that were placed.
    ///
    /// # Errors
    /// Of the directory, if it cannot be listed.
    fn place(&self, missing: &[MissingSegment]) -> Result<Vec<u64>, LogError> {
        let mut placed = Vec::new();
        let Some(remote) = self.remote else { return Ok(placed) };
        if missing.iter().any(|missing| missing.copy.is_none()) {
            return Ok(placed);
        }
        if !missing.is_empty() && list_numbers(self.fs(), FileKind::Segment)?.is_empty() {
            // Files that are placed below the directory of a disk that is not mounted would be
            // missing with it again.
            log::error!("no segment is there: is a disk not mounted? Nothing is placed from the remote");
            return Ok(placed);
        }
        let remote = RemoteLog { remote, store: self.basis.store };
        for MissingSegment { id, copy, .. } in missing {
            let Some(copy) = copy else { continue };
            if let Err(error) = place_copy(remote, self.fs(), *id, *copy) {
                // The others would wait as long for a remote that does not answer.
                log::error!("{} is missing, and is not placed from the remote: {error}", segment_path(*id));
                return Ok(placed);
            }
            log::warn!("{} was missing: its bytes are read from the remote", segment_path(*id));
            placed.push(*id);
        }
        Ok(placed)
    }

    /// The creation time of the checkpoint of `covered` groups; `None` without one.
    fn creation_of_checkpoint(&self, covered: u64) -> Result<Option<Timestamp>, LogError> {
        if covered == 0 {
            return Ok(None);
        }
        let opened = open_file(self.fs(), FileKind::Checkpoint, covered, Some(self.basis.store))?;
        Ok(Some(opened.1.created))
    }

    /// Makes the input of recovery durable. After a crash of the process alone, the page cache may
    /// hold bytes that are not on the disk, or, after a failed sync, never will be. Here: file
    /// names and the last log file; later: the pack of the last group. All else was durable before
    /// the last group began.
    fn sync_before_reading(&self) -> Result<(), LogError> {
        for kind in [FileKind::Segment, FileKind::Log] {
            self.basis.disk.fs.sync_dir(kind.dir())?;
        }
        if let Some(last) = list_numbers(self.fs(), FileKind::Log)?.last() {
            sync_and_evict(self.basis.disk.fs.open(&log_path(*last))?.as_ref())?;
        }
        Ok(())
    }

    fn resume(&self, shared: &SharedStore, tail: &LogTail) -> Result<LogWriter, LogError> {
        remove_unfinished(self.fs())?;
        let mut log_writer = LogWriter::resume(
            self.basis.disk.fs.clone(),
            self.basis.clock.clone(),
            self.basis.store,
            self.basis.options.log_file_max_bytes,
            tail,
        )?;
        if let Some(torn) = &tail.torn {
            log::warn!(
                "{} at offset {}: dropped the group {}, which a crash left unfinished and which was not acknowledged: {}",
                torn.file,
                torn.offset,
                tail.sequence,
                torn.why
            );
            shared.count_torn();
        }
        if tail.torn.is_some() || tail.in_doubt {
            write_idle_group(shared, &mut log_writer)?;
        }
        Ok(log_writer)
    }
}

/// Writes an idle group. It overwrites a torn group before anything else is written, so that the
/// torn group can never become valid; and it confirms that the group before it is durable.
fn write_idle_group(shared: &SharedStore, log_writer: &mut LogWriter) -> Result<(), LogError> {
    log_writer.set_space_limit(shared.room(SpaceClaim::Removal)?);
    let written = match log_writer.write(0, &[], None) {
        // The next group does both, once it has space.
        Err(LogError::DiskFull(_)) => return Ok(()),
        written => written?,
    };
    log_writer.file().sync_data()?;
    log_writer.mark_durable(&written);
    shared.publish(Published {
        sequence: log_writer.next_sequence() - 1,
        doubtful_segment: 0,
        ..shared.published()
    });
    Ok(())
}
