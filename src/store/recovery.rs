//! Opening a store: the newest good checkpoint, the log behind it, and what they add up to. Nothing is written
//! before all of it has been read and found good.

use std::io;
use std::sync::Arc;

use crate::base::digest::Crc32;
use crate::base::{Clock, Entropy};
use crate::format::{Entry, FileKind, Group, LOCK, Pack, StoreId, log_path, segment_path};
use crate::fs::{File, Fs, Lock};
use crate::index::{ApplyError, Index};
use crate::log::{
    Damage, Journal, LogError, Replay, Segments, Start, Tail, list_numbers, open_file, read_checkpoint,
    remove_unfinished,
};
use crate::store::shared::Shared;
use crate::store::{OpenError, Options};

/// A store that has been read.
pub(super) struct Recovered {
    pub(super) shared: Arc<Shared>,
    /// Where groups are appended; `None` when the log is damaged.
    pub(super) journal: Option<Journal>,
}

/// Keeps others out of the directory.
pub(super) fn lock(fs: &dyn Fs) -> Result<Box<dyn Lock>, OpenError> {
    fs.lock(LOCK).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked,
        _ => OpenError::Io(error),
    })
}

/// Reads the store, or makes one where there is none.
pub(super) fn open(
    fs: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    entropy: &dyn Entropy,
    options: Options,
) -> Result<Recovered, OpenError> {
    for kind in FileKind::ALL {
        fs.create_dir(kind.dir())?;
    }
    // The file of the lock, too, must be there at a start for which the disk has no room.
    fs.sync_dir("")?;
    match store_id(fs.as_ref())? {
        Some(store) => Recovery { fs, clock, store, options, damage: Vec::new() }.run(),
        None => create(fs, clock, entropy, options),
    }
}

/// The id of the store, from the newest file of its log; `None` when there is no store.
fn store_id(fs: &dyn Fs) -> Result<Option<StoreId>, LogError> {
    if let Some(number) = list_numbers(fs, FileKind::Log)?.last() {
        return Ok(Some(open_file(fs, FileKind::Log, *number, None)?.1.store));
    }
    for kind in FileKind::ALL {
        if let Some(number) = list_numbers(fs, kind)?.first() {
            let what = "there are files of a store but no log: meta/*.log is missing";
            return Err(Damage::new(kind.path(*number), 0, what).into());
        }
    }
    Ok(None)
}

fn create(
    fs: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    entropy: &dyn Entropy,
    options: Options,
) -> Result<Recovered, OpenError> {
    let mut id = [0; 16];
    entropy.fill(&mut id);
    let store = StoreId(id);
    remove_unfinished(fs.as_ref())?;
    let journal = Journal::create(fs.clone(), clock.clone(), store, options.log_file_max_bytes)?;
    let segments = open_segments(&fs, &clock, store, options)?;
    let shared = Shared::new(fs, clock, store, options, segments, Index::new(), 0);
    Ok(Recovered { shared: Arc::new(shared), journal: Some(journal) })
}

fn open_segments(
    fs: &Arc<dyn Fs>,
    clock: &Arc<dyn Clock>,
    store: StoreId,
    options: Options,
) -> Result<Segments, LogError> {
    Segments::open(fs.clone(), clock.clone(), store, options.segment_max_bytes, options.keep_free_bytes)
}

struct Recovery {
    fs: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    store: StoreId,
    options: Options,
    /// What was found and does not keep the store from being read.
    damage: Vec<Damage>,
}

impl Recovery {
    fn run(mut self) -> Result<Recovered, OpenError> {
        self.settle()?;
        let segments = open_segments(&self.fs, &self.clock, self.store, self.options)?;
        let (mut index, start) = self.read_newest_checkpoint()?;
        let tail = self.replay(&mut index, start, &segments)?;
        let fatal = tail.damage.clone().or_else(|| inconsistency(&index, &segments, &tail));
        let shared = Shared::new(
            self.fs.clone(),
            self.clock.clone(),
            self.store,
            self.options,
            segments,
            index,
            tail.sequence - 1,
        );
        self.damage.iter().chain(&fatal).for_each(|damage| shared.report(damage));
        let journal = match fatal {
            Some(damage) => {
                shared.latch(damage.to_string());
                None
            }
            None => Some(self.resume(&shared, &tail)?),
        };
        Ok(Recovered { shared: Arc::new(shared), journal })
    }

    /// Where only the process ended before, and not the power, what is there to be read may not be on the disk yet, or, where
    /// a sync had failed, never. It is made durable, and read from the disk, before anything is built on it: the
    /// names of files here, and the end of the log; the pack of the last group when it is looked at. All else was
    /// durable before the last group was begun.
    fn settle(&self) -> Result<(), LogError> {
        for kind in [FileKind::Segment, FileKind::Log] {
            self.fs.sync_dir(kind.dir())?;
        }
        if let Some(last) = list_numbers(self.fs.as_ref(), FileKind::Log)?.last() {
            let (file, _) = open_file(self.fs.as_ref(), FileKind::Log, *last, Some(self.store))?;
            settle(file.as_ref())?;
        }
        Ok(())
    }

    /// The index of the newest checkpoint that is good, or an empty one when there is no checkpoint.
    fn read_newest_checkpoint(&mut self) -> Result<(Index, Start), LogError> {
        for covered in list_numbers(self.fs.as_ref(), FileKind::Checkpoint)?.into_iter().rev() {
            let mut index = Index::new();
            let mut visit = |entry: Entry| index.apply(&entry).map_err(|error| error.to_string());
            match read_checkpoint(self.fs.as_ref(), self.store, covered, &mut visit) {
                Ok(end) => {
                    index.raise_last_stamp(end.last_stamp);
                    return Ok((index, Start { covered, through: end.through.max(covered) }));
                }
                // An older one with more of the log gives the same index.
                Err(LogError::Damaged(damage)) => self.damage.push(damage),
                Err(error) => return Err(error),
            }
        }
        Ok((Index::new(), Start::default()))
    }

    fn replay(&self, index: &mut Index, start: Start, segments: &Segments) -> Result<Tail, LogError> {
        let pack_is_good = |pack: &Pack| pack_is_good(segments, pack);
        let replay = Replay { fs: self.fs.as_ref(), store: self.store, start, pack_is_good: &pack_is_good };
        replay.run(&mut |group| apply(index, group, start.through))
    }

    fn resume(&self, shared: &Shared, tail: &Tail) -> Result<Journal, LogError> {
        remove_unfinished(self.fs.as_ref())?;
        let mut journal = Journal::resume(
            self.fs.clone(),
            self.clock.clone(),
            self.store,
            self.options.log_file_max_bytes,
            tail,
        )?;
        if let Some(torn) = &tail.torn {
            log::warn!(
                "{} at offset {}: dropped the group {}, which a crash had left unfinished and nobody was told of: {}",
                torn.file,
                torn.offset,
                tail.sequence,
                torn.why
            );
            shared.count_torn();
        }
        if tail.torn.is_some() || tail.in_doubt {
            mark(shared, &mut journal)?;
        }
        Ok(journal)
    }
}

/// Writes an empty group. It takes the place of a torn one before anything else is written, so that the bytes that the torn
/// one waits for can never come to be; and it says that the one before it is durable.
fn mark(shared: &Shared, journal: &mut Journal) -> Result<(), LogError> {
    let written = match journal.write(0, &[], None) {
        // The next group will do both, once there is room for it.
        Err(LogError::DiskFull(_)) => return Ok(()),
        written => written?,
    };
    journal.file().sync_data()?;
    journal.is_durable(&written);
    shared.set_sequence(journal.next_sequence() - 1);
    Ok(())
}

fn settle(file: &dyn File) -> Result<(), LogError> {
    file.sync_data()?;
    Ok(file.evict()?)
}

fn apply(index: &mut Index, group: &Group, through: u64) -> Result<(), String> {
    for entry in &group.entries {
        match index.apply(entry) {
            // The bucket was deleted while the checkpoint was made, behind this group.
            Err(ApplyError::UnknownBucket(_)) if group.header.sequence <= through => {}
            applied => applied.map_err(|error| error.to_string())?,
        }
    }
    Ok(())
}

fn pack_is_good(segments: &Segments, pack: &Pack) -> Result<bool, LogError> {
    let segment = segments.get(pack.segment)?;
    settle(segment.file.as_ref())?;
    let len = segment.file.len()?;
    if pack.offset.checked_add(pack.len.into()).is_none_or(|end| end > len) {
        return Ok(false);
    }
    let mut bytes = vec![0; pack.len as usize];
    segment.file.read_exact_at(&mut bytes, pack.offset)?;
    Ok(Crc32::of(&bytes) == pack.crc)
}

/// What cannot be so when all has been read.
fn inconsistency(index: &Index, segments: &Segments, tail: &Tail) -> Option<Damage> {
    if !index.is_consistent() {
        let what = "at its end two buckets have one name";
        return Some(Damage::new(log_path(tail.number), tail.position, what));
    }
    let ids = segments.ids();
    let missing = index.liveness().iter().find(|(segment, _)| ids.binary_search(segment).is_err());
    missing.map(|(segment, bytes)| {
        Damage::new(
            segment_path(segment),
            0,
            format!("the segment is missing, and {bytes} bytes of objects with it"),
        )
    })
}
