//! Reading a store: a checkpoint and the log after it become an index. Both the server and the
//! tools use it. It writes nothing.

use std::thread;

use crate::base::digest::Crc32;
use crate::format::{
    CopyPhase, FileKind, Group, Pack, RemoteCopy, StoreId, WrittenBytes, checkpoint_path, log_path,
    segment_path,
};
use crate::fs::{File, Fs};
use crate::index::{ApplyError, Index, Loader};
use crate::log::{
    Damage, LogError, LogTail, Replay, ReplayStart, Segment, list_numbers, open_file, read_checkpoint,
};
use crate::store::open::bulk_apply;

/// The id of the store, from the newest log file with a valid header; `None` if there is no store.
pub(crate) fn store_id(fs: &dyn Fs) -> Result<Option<StoreId>, LogError> {
    let mut newest = None;
    for number in list_numbers(fs, FileKind::Log)?.into_iter().rev() {
        // From the newest on: an older file may be the damaged one, and the newest is the one that
        // goes on.
        match open_file(fs, FileKind::Log, number, None) {
            Err(LogError::Damaged(damage)) => newest = newest.or(Some(damage)),
            opened => return Ok(Some(opened?.1.store)),
        }
    }
    if let Some(damage) = newest {
        return Err(damage.into());
    }
    for kind in FileKind::ALL {
        if let Some(number) = list_numbers(fs, kind)?.first() {
            let what = "there are files of a store but no log: meta/*.log is missing";
            return Err(Damage::new(kind.path(*number), 0, what).into());
        }
    }
    Ok(None)
}

/// A store that is being read.
pub(crate) struct StoreLoader<'a> {
    fs: &'a dyn Fs,
    /// The file system with the segments.
    segments: &'a dyn Fs,
    store: StoreId,
    /// The index of all that has been read.
    pub(crate) index: Index,
    /// The groups that the checkpoint covers.
    pub(crate) start: ReplayStart,
    /// The length of the checkpoint in bytes.
    pub(crate) checkpoint_len: u64,
    /// The bytes written over the lifetime of the store, as of the checkpoint.
    pub(crate) written: WrittenBytes,
    /// Whether the log holds durable groups alone, so that no pack is asked.
    is_durable: bool,
}

impl<'a> StoreLoader<'a> {
    /// Reads the newest valid checkpoint; without one, the log must be read from its beginning.
    /// Damage of newer checkpoints goes to `damage`: an older one with more of the log gives the
    /// same index.
    pub(crate) fn from_newest(
        fs: &'a dyn Fs,
        store: StoreId,
        damage: &mut Vec<Damage>,
    ) -> Result<Self, LogError> {
        for covered in list_numbers(fs, FileKind::Checkpoint)?.into_iter().rev() {
            match Self::from_checkpoint(fs, store, covered) {
                Err(LogError::Damaged(found)) => damage.push(found),
                read => return read,
            }
        }
        Ok(Self::from_start(fs, store))
    }

    /// A store without a checkpoint.
    pub(crate) fn from_start(fs: &'a dyn Fs, store: StoreId) -> Self {
        let start = ReplayStart::default();
        let written = WrittenBytes::default();
        let index = Index::bulk_loading();
        Self { fs, segments: fs, store, index, start, checkpoint_len: 0, written, is_durable: false }
    }

    /// Reads the checkpoint that covers the groups up to `covered`. The live bytes are known only
    /// after the replay of the log.
    pub(crate) fn from_checkpoint(fs: &'a dyn Fs, store: StoreId, covered: u64) -> Result<Self, LogError> {
        let mut loader = Loader::default();
        let mut written = WrittenBytes::default();
        let end = read_checkpoint(fs, store, covered, &mut |entry| {
            written = entry.written_bytes().map_err(|error| error.to_string())?.unwrap_or(written);
            loader.add(entry).map_err(|error| error.to_string())
        })?;
        let mut index = loader.finish_before_log();
        index.raise_last_stamp(end.last_stamp);
        let start = ReplayStart { covered, through: end.through.max(covered) };
        let checkpoint_len = fs.open_read(&checkpoint_path(covered))?.len()?;
        Ok(Self { fs, segments: fs, store, index, start, checkpoint_len, written, is_durable: false })
    }

    /// The same store with its segments in another file system.
    pub(crate) fn with_segments_on(self, segments: &'a dyn Fs) -> Self {
        Self { segments, ..self }
    }

    /// A log that was copied once its groups were durable: the last one counts by its own bytes.
    pub(crate) fn of_durable_groups(self) -> Self {
        Self { is_durable: true, ..self }
    }

    /// Replays the log after the checkpoint and classifies its end. If the tail is damaged, the
    /// index has all groups before it.
    pub(crate) fn replay(&mut self) -> Result<LogTail, LogError> {
        let read = match self.replay_in_bulk() {
            Ok(None) => self.replay_by_group(),
            Ok(Some(tail)) => Ok(tail),
            Err(error) => Err(error),
        };
        // After an error, verify examines the groups read before it.
        self.index.finish_loading();
        let mut tail = read?;
        if !self.index.is_consistent() {
            let what = "at its end two buckets have one name";
            tail.damage.get_or_insert(Damage::new(log_path(tail.number), tail.position, what));
        }
        if !self.index.has_stamps_left() {
            // A further id would be below those that are there, and take their place.
            let what = "an id in it, or in the checkpoint, leaves none for what comes after it";
            tail.damage.get_or_insert(Damage::new(log_path(tail.number), tail.position, what));
        }
        Ok(tail)
    }

    /// Replays with two threads: one reads, the other applies many groups at a time. `None` if an
    /// entry contradicts the index: a second replay, group by group, finds the group.
    fn replay_in_bulk(&mut self) -> Result<Option<LogTail>, LogError> {
        let Self { fs, segments, store, start, is_durable, ref mut index, .. } = *self;
        // Groups that the checkpoint has in part may contradict it, which only the group by group
        // replay forgives.
        if start.through > start.covered {
            return Ok(None);
        }
        let pack_is_good =
            |pack: &Pack| if is_durable { Ok(true) } else { pack_is_good(segments, store, pack) };
        let replay = Replay { fs, store, start, pack_is_good: &pack_is_good };
        let (tail, applied) = thread::scope(|scope| {
            let (mut sender, receiver) = bulk_apply::channel();
            let applier = scope.spawn(move || receiver.apply_to(index));
            let tail = replay.run(&mut |group| match sender.send_group(group) {
                true => Ok(()),
                false => Err("it contradicts the groups before it".into()),
            });
            sender.finish();
            (tail, applier.join().expect("applying does not panic"))
        });
        if applied.is_ok() {
            return tail.map(Some);
        }
        // The index has an unknown part of the entries by now: sorted by key, they were applied in
        // no order of the log.
        let again = match start.covered {
            0 => Self::from_start(fs, store),
            covered => Self::from_checkpoint(fs, store, covered)?,
        };
        self.index = again.index;
        Ok(None)
    }

    fn replay_by_group(&mut self) -> Result<LogTail, LogError> {
        let Self { fs, segments, store, start, is_durable, ref mut index, .. } = *self;
        let pack_is_good =
            |pack: &Pack| if is_durable { Ok(true) } else { pack_is_good(segments, store, pack) };
        let replay = Replay { fs, store, start, pack_is_good: &pack_is_good };
        replay.run(&mut |group| apply_group(index, &group, start.through))
    }

    /// The segments that have live bytes but no file.
    pub(crate) fn missing_segments(&self) -> Result<Vec<MissingSegment>, LogError> {
        let ids = list_numbers(self.segments, FileKind::Segment)?;
        let mut missing = Vec::new();
        for (id, live_bytes) in self.index.liveness().iter() {
            if ids.binary_search(&id).is_err() {
                let copy = self.index.remote_copy(id).filter(|copy| copy.phase == CopyPhase::Remote);
                missing.push(MissingSegment { id, live_bytes, copy: copy.copied() });
            }
        }
        Ok(missing)
    }
}

/// A segment that has live bytes but no file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MissingSegment {
    pub(crate) id: u64,
    live_bytes: u64,
    /// What the remote has of it, if it has all of it.
    pub(crate) copy: Option<RemoteCopy>,
}

impl MissingSegment {
    /// The damage that it is, as long as it is missing.
    pub(crate) fn damage(&self) -> Damage {
        let bytes = self.live_bytes;
        let what = match self.copy {
            None => format!("the segment is missing, and {bytes} bytes of objects with it"),
            Some(_) => format!(
                "the segment is missing, and {bytes} bytes of objects with it; the remote has them, and a start \
                 that reaches it places the file again"
            ),
        };
        Damage::new(segment_path(self.id), 0, what)
    }
}

/// Applies a group after the checkpoint, which proves that the groups up to `through` were durable
/// while it was written.
pub(crate) fn apply_group(index: &mut Index, group: &Group, through: u64) -> Result<(), String> {
    for entry in &group.entries {
        match index.apply(entry) {
            // Deleted by a later group, while the checkpoint was written.
            Err(ApplyError::UnknownBucket(_) | ApplyError::UnknownUpload(_))
                if group.header.sequence <= through => {}
            applied => applied.map_err(|error| error.to_string())?,
        }
    }
    Ok(())
}

/// Syncs a file and evicts it from the page cache, so that later reads come from the disk.
pub(crate) fn sync_and_evict(file: &dyn File) -> Result<(), LogError> {
    file.sync_data()?;
    Ok(file.evict()?)
}

pub(crate) fn pack_is_good(fs: &dyn Fs, store: StoreId, pack: &Pack) -> Result<bool, LogError> {
    let segment = Segment::open(fs, store, pack.segment)?;
    // From the disk: in the page cache the pack may be whole although the crash lost it.
    sync_and_evict(segment.file.as_ref())?;
    let len = segment.file.len()?;
    if pack.offset.checked_add(pack.len.into()).is_none_or(|end| end > len) {
        return Ok(false);
    }
    let mut bytes = vec![0; pack.len as usize];
    segment.read_at(&mut bytes, pack.offset)?;
    Ok(Crc32::of(&bytes) == pack.crc)
}
