//! What the files of a store add up to: a checkpoint and the log behind it. The store is read like this when it is
//! opened and when the tools look at it. Nothing is written here.

use std::thread;

use crate::base::digest::Crc32;
use crate::format::{
    FileKind, Group, Pack, RawEntry, StoreId, WrittenBytes, checkpoint_path, log_path, segment_path,
};
use crate::fs::{File, Fs};
use crate::index::{ApplyError, Index, Loader};
use crate::log::{
    Damage, LogError, LogTail, Replay, ReplayStart, Segment, list_numbers, open_file, read_checkpoint,
};
use crate::store::bulk_apply;

/// The id of the store, from the newest file of its log that has a good header; `None` when there is no store.
pub(super) fn store_id(fs: &dyn Fs) -> Result<Option<StoreId>, LogError> {
    let mut newest = None;
    for number in list_numbers(fs, FileKind::Log)?.into_iter().rev() {
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

/// A store while it is read.
pub(super) struct StoreLoader<'a> {
    fs: &'a dyn Fs,
    /// Where the segments are looked for.
    segments: &'a dyn Fs,
    store: StoreId,
    /// What has been read adds up to this.
    pub(super) index: Index,
    /// What the checkpoint holds.
    pub(super) start: ReplayStart,
    /// Its length in bytes.
    pub(super) checkpoint_len: u64,
    /// What had been written when the checkpoint was made, in the life of the store.
    pub(super) written: WrittenBytes,
}

impl<'a> StoreLoader<'a> {
    /// Reads the newest checkpoint that is good; where none is, the log is to be read from its beginning. `damage` takes
    /// what is wrong with the others: an older one with more of the log gives the same index.
    pub(super) fn from_newest(
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

    /// A store of which nothing has been read.
    pub(super) fn from_start(fs: &'a dyn Fs, store: StoreId) -> Self {
        let (start, written) = (ReplayStart::default(), WrittenBytes::default());
        Self { fs, segments: fs, store, index: Index::bulk_loading(), start, checkpoint_len: 0, written }
    }

    /// Reads the checkpoint that covers the groups up to `covered`. Which bytes live is known when the log was replayed.
    pub(super) fn from_checkpoint(fs: &'a dyn Fs, store: StoreId, covered: u64) -> Result<Self, LogError> {
        let mut loader = Loader::default();
        let mut written = WrittenBytes::default();
        let mut visit = |entry: &RawEntry<'_>| {
            written = entry.written_bytes().map_err(|error| error.to_string())?.unwrap_or(written);
            loader.add(entry).map_err(|error| error.to_string())
        };
        let end = read_checkpoint(fs, store, covered, &mut visit)?;
        let mut index = loader.finish_before_log();
        index.raise_last_stamp(end.last_stamp);
        let start = ReplayStart { covered, through: end.through.max(covered) };
        let checkpoint_len = fs.open_read(&checkpoint_path(covered))?.len()?;
        Ok(Self { fs, segments: fs, store, index, start, checkpoint_len, written })
    }

    /// The same, but the segments are on another disk.
    pub(super) fn with_segments_on(self, segments: &'a dyn Fs) -> Self {
        Self { segments, ..self }
    }

    /// Reads the log behind the checkpoint and judges its end. Damage in the tail does not keep what came before it out of the
    /// index.
    pub(super) fn replay(&mut self) -> Result<LogTail, LogError> {
        let read = match self.replay_in_bulk() {
            Ok(None) => self.replay_by_group(),
            Ok(Some(tail)) => Ok(tail),
            Err(error) => Err(error),
        };
        // What was read before an error is looked at by verify.
        self.index.finish_loading();
        let mut tail = read?;
        if !self.index.is_consistent() {
            let what = "at its end two buckets have one name";
            tail.damage.get_or_insert(Damage::new(log_path(tail.number), tail.position, what));
        }
        Ok(tail)
    }

    /// One thread reads while another one applies many groups at once. `None` where something does not fit: which group it
    /// was is found out by reading again, one after the other.
    fn replay_in_bulk(&mut self) -> Result<Option<LogTail>, LogError> {
        let Self { fs, segments, store, start, ref mut index, .. } = *self;
        if start.through > start.covered {
            return Ok(None);
        }
        let pack_is_good = |pack: &Pack| pack_is_good(segments, store, pack);
        let replay = Replay { fs, store, start, pack_is_good: &pack_is_good };
        let (tail, applied) = thread::scope(|scope| {
            let (mut sender, receiver) = bulk_apply::channel();
            let applier = scope.spawn(move || receiver.apply_to(index));
            let tail = replay.run(&mut |group| match sender.send_group(group) {
                true => Ok(()),
                false => Err("it does not fit those before it".into()),
            });
            sender.finish();
            (tail, applier.join().expect("applying does not panic"))
        });
        if applied.is_ok() {
            return tail.map(Some);
        }
        let again = match start.covered {
            0 => Self::from_start(fs, store),
            covered => Self::from_checkpoint(fs, store, covered)?,
        };
        self.index = again.index;
        Ok(None)
    }

    fn replay_by_group(&mut self) -> Result<LogTail, LogError> {
        let Self { fs, segments, store, start, ref mut index, .. } = *self;
        let pack_is_good = |pack: &Pack| pack_is_good(segments, store, pack);
        let replay = Replay { fs, store, start, pack_is_good: &pack_is_good };
        replay.run(&mut |group| apply(index, &group, start.through))
    }

    /// The segments that objects lie in and that are not there.
    pub(super) fn missing_segments(&self) -> Result<Vec<Damage>, LogError> {
        let ids = list_numbers(self.segments, FileKind::Segment)?;
        let missing = self.index.liveness().iter().filter(|(segment, _)| ids.binary_search(segment).is_err());
        let damage = |(segment, bytes)| {
            let what = format!("the segment is missing, and {bytes} bytes of objects with it");
            Damage::new(segment_path(segment), 0, what)
        };
        Ok(missing.map(damage).collect())
    }
}

fn apply(index: &mut Index, group: &Group, through: u64) -> Result<(), String> {
    for entry in &group.entries {
        match index.apply(entry) {
            // It was deleted while the checkpoint was made, behind this group.
            Err(ApplyError::UnknownBucket(_) | ApplyError::UnknownUpload(_))
                if group.header.sequence <= through => {}
            applied => applied.map_err(|error| error.to_string())?,
        }
    }
    Ok(())
}

/// Has what is cached of a file written, and what is read of it from now on come from the disk.
pub(super) fn sync_and_evict(file: &dyn File) -> Result<(), LogError> {
    file.sync_data()?;
    Ok(file.evict()?)
}

fn pack_is_good(fs: &dyn Fs, store: StoreId, pack: &Pack) -> Result<bool, LogError> {
    let segment = Segment::open(fs, store, pack.segment)?;
    sync_and_evict(segment.file.as_ref())?;
    let len = segment.file.len()?;
    if pack.offset.checked_add(pack.len.into()).is_none_or(|end| end > len) {
        return Ok(false);
    }
    let mut bytes = vec![0; pack.len as usize];
    segment.read_at(&mut bytes, pack.offset)?;
    Ok(Crc32::of(&bytes) == pack.crc)
}
