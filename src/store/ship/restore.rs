//! A data directory from the log on the remote.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::chain::{Chain, RemoteLog, ShipError, get, line, missing};
use super::reign::{NewestReign, RETURN_FILE, chain_at};
use crate::base::limits::{MIB, PAGE_BYTES};
use crate::base::{Clock, Timestamp};
use crate::format::{
    CopyPhase, Entry, Features, FileHeader, FileKind, Group, GroupHeader, GroupKind, LogPosition, Parcel,
    ParcelHead, RETURN, RemoteCopy, RemoteMark, ReturnPoint, StoreId, UncheckedGroup, checkpoint_path,
    log_path, segment_path,
};
use crate::fs::{File, Fs};
use crate::log::{LogError, create_file, list_numbers, read_checkpoint, remove_unfinished, write_atomically};
use crate::remote::Remote;
use crate::store::{Progress, ProgressStep};

/// Bytes of a checkpoint that are fetched at once.
const FETCH_BYTES: u64 = 8 * MIB;

/// What a restore from the remote found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemoteRestoreReport {
    /// The last group.
    pub sequence: u64,
    /// The time of the last group; of the root if there is none after it.
    pub time: Timestamp,
    /// Parcels that were read.
    pub parcels: u64,
    /// Bytes that were fetched.
    pub bytes: u64,
    /// Segments whose bytes stay on the remote until they are read.
    pub remote_segments: u64,
}

/// Makes the store in the empty directory `fs` that the log on a remote describes, up to its last parcel. Durable on return. The bytes
/// of segments that the remote has are fetched when they are read. The log file gets its name last, so that a directory that is not
/// complete is no store; after an error the same call begins anew in an empty directory.
///
/// # Errors
/// [`ShipError`]; also where the directory holds files of a store.
pub fn restore_from_remote(
    remote: &dyn Remote,
    fs: &dyn Fs,
    clock: &dyn Clock,
    progress: &mut dyn FnMut(Progress),
) -> Result<RemoteRestoreReport, ShipError> {
    restore(remote, fs, clock, None, progress)
}

/// As [`restore_from_remote`], up to the last group that is not younger than `at`. Where that gives up a part of the log, a file in the
/// directory says so: a start that ships the log goes on from there in a reign of its own.
///
/// # Errors
/// [`ShipError::BeforeWindow`] with the oldest time; others as of [`restore_from_remote`].
pub fn restore_from_remote_at(
    remote: &dyn Remote,
    fs: &dyn Fs,
    clock: &dyn Clock,
    at: Timestamp,
    progress: &mut dyn FnMut(Progress),
) -> Result<RemoteRestoreReport, ShipError> {
    restore(remote, fs, clock, Some(at), progress)
}

fn restore(
    remote: &dyn Remote,
    fs: &dyn Fs,
    clock: &dyn Clock,
    at: Option<Timestamp>,
    progress: &mut dyn FnMut(Progress),
) -> Result<RemoteRestoreReport, ShipError> {
    for kind in FileKind::ALL {
        fs.create_dir(kind.dir()).map_err(disk)?;
        if !list_numbers(fs, kind).map_err(disk)?.is_empty() {
            return Err(ShipError::Disk(
                "the directory already holds files of a store: choose an empty one".to_owned(),
            ));
        }
    }
    remove_unfinished(fs).map_err(disk)?;
    match fs.remove(RETURN) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(disk(error)),
        _ => {}
    }
    let log = RemoteLog { remote, store: store_of(remote)? };
    let (chain, newest) = chain_at(&log, at.unwrap_or(Timestamp::from_millis(u64::MAX)))?;
    let (heads, _) = log.heads(&chain, at)?;
    let mut restore = Restore {
        log,
        fs,
        chain: &chain,
        at,
        newest,
        gives_up: false,
        last: (chain.root.epoch, chain.root.after),
        end: chain.root.covered,
        files: BTreeMap::new(),
        copies: BTreeMap::new(),
        report: RemoteRestoreReport { time: chain.root.made, ..RemoteRestoreReport::default() },
    };
    restore.run(&heads, clock, progress)?;
    Ok(restore.report)
}

/// The store that the remote is marked for.
pub(super) fn store_of(remote: &dyn Remote) -> Result<StoreId, ShipError> {
    let mark = line(remote, RemoteMark::NAME, RemoteMark::decode)?;
    mark.map(|mark| mark.store).ok_or_else(|| missing(RemoteMark::NAME))
}

/// A restore in progress.
struct Restore<'a> {
    log: RemoteLog<'a>,
    fs: &'a dyn Fs,
    chain: &'a Chain,
    /// The time after which no group is restored.
    at: Option<Timestamp>,
    newest: NewestReign,
    /// Whether a group was left out that is younger than the time.
    gives_up: bool,
    /// The reign and the number of the parcel with the last group.
    last: (u64, u64),
    /// The last group that was written.
    end: LogPosition,
    /// Segments that were written to.
    files: BTreeMap<u64, Arc<dyn File>>,
    /// The copies of segments, as of the last group.
    copies: BTreeMap<u64, RemoteCopy>,
    report: RemoteRestoreReport,
}

impl Restore<'_> {
    fn run(
        &mut self,
        heads: &[ParcelHead],
        clock: &dyn Clock,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ShipError> {
        let root = self.chain.root;
        self.fetch_checkpoint()?;
        let total = root.after + 1 - root.first + heads.len() as u64;
        for counter in root.first..=root.after {
            let parcel = self.log.parcel(root.epoch, counter)?;
            self.write_pieces(&parcel)?;
            self.report.parcels += 1;
            progress(fetched(self.report.parcels, total));
        }
        let header = FileHeader {
            kind: FileKind::Log,
            store: self.log.store,
            number: root.covered.sequence + 1,
            features: heads.iter().fold(Features::NONE, |all, head| all.with(head.features)),
            created: clock.now(),
            previous_crc: root.covered.crc,
        };
        let (fs, path) = (self.fs, log_path(header.number));
        let mut failure = None;
        let created = create_file(fs, &header, |file| {
            let filled = self.fill_log(file, heads, total, progress);
            filled.map_err(|error| {
                let told = LogError::Io(io::Error::other(error.to_string()));
                failure = Some(error);
                told
            })
        });
        match (created, failure) {
            (Ok(_), _) => {}
            (Err(_), Some(error)) => return Err(error),
            (Err(error), None) => return Err(ShipError::Disk(format!("{path}: {error}"))),
        }
        self.report.sequence = self.end.sequence;
        Ok(())
    }

    /// Writes the groups of all parcels, and before the file gets its name everything else.
    fn fill_log(
        &mut self,
        file: &dyn File,
        heads: &[ParcelHead],
        total: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ShipError> {
        let (mut position, mut file_len) = (PAGE_BYTES, 2 * PAGE_BYTES);
        for head in heads {
            let parcel = self.log.parcel(head.epoch, head.counter)?;
            if parcel.head != *head {
                return Err(ShipError::damaged(Parcel::name(head.epoch, head.counter), &"it has changed"));
            }
            self.write_pieces(&parcel)?;
            for (group, bytes) in self.wanted_groups(&parcel)? {
                self.last = (head.epoch, head.counter);
                file.write_all_at(bytes, position).map_err(disk)?;
                position += bytes.len() as u64;
                file_len = file_len.max(group.header.file_len);
                self.learn(&group);
            }
            self.report.parcels += 1;
            progress(fetched(self.report.parcels, total));
            if self.gives_up {
                break;
            }
        }
        // Not all that the newest root covers is in parcels after an older one.
        if self.gives_up || self.newest.covered > self.end.sequence {
            self.note_return_point()?;
        }
        // The groups say how long their file was.
        let mut at = position;
        let end = file_len.max(position + PAGE_BYTES);
        while at < end {
            let length = MIB.min(end - at);
            file.write_zeros(at, length).map_err(disk)?;
            at += length;
        }
        self.place_copies()?;
        for file in self.files.values() {
            file.sync_data().map_err(disk)?;
        }
        self.fs.sync_dir(FileKind::Segment.dir()).map_err(disk)
    }

    fn fetch_checkpoint(&mut self) -> Result<(), ShipError> {
        let root = self.chain.root;
        let (name, path) = (root.checkpoint_name(), checkpoint_path(root.covered.sequence));
        let mut failure = None;
        let written = write_atomically(self.fs, &path, FileKind::Checkpoint.dir(), |file| {
            let mut at = 0;
            while at < root.checkpoint_length {
                let length = FETCH_BYTES.min(root.checkpoint_length - at);
                match get(self.log.remote, &name, at..at + length) {
                    Ok(bytes) => file.write_all_at(&bytes, at)?,
                    Err(error) => {
                        let told = io::Error::other(error.to_string());
                        failure = Some(error);
                        return Err(told.into());
                    }
                }
                at += length;
            }
            Ok(())
        });
        match (written, failure) {
            (_, Some(error)) => return Err(error),
            (written, None) => drop(written.map_err(|error| ShipError::Disk(format!("{path}: {error}")))?),
        }
        self.report.bytes += root.checkpoint_length;
        let copies = &mut self.copies;
        let read = read_checkpoint(self.fs, self.log.store, root.covered.sequence, &mut |entry| {
            if let Some(Entry::RemoteSegment { segment, copy: Some(copy) }) =
                entry.decode().map_err(|error| error.to_string())?
            {
                copies.insert(segment, copy);
            }
            Ok(())
        });
        read.map(drop).map_err(|error| ShipError::damaged(name, &error))
    }

    /// The groups of a parcel after the last one that was written, each with its bytes.
    fn groups<'p>(&mut self, parcel: &'p Parcel) -> Result<Vec<(Group, &'p [u8])>, ShipError> {
        let name = || Parcel::name(parcel.head.epoch, parcel.head.counter);
        let damaged =
            |why: &dyn std::fmt::Display| ShipError::damaged(name(), &format!("a group in it: {why}"));
        let (mut found, mut rest) = (Vec::new(), parcel.groups.as_slice());
        while !rest.is_empty() {
            let head = UncheckedGroup::decode(GroupKind::Log, &self.log.store, rest);
            let head = head.map_err(|error| damaged(&error))?;
            let length = usize::try_from(head.group_len()).unwrap_or(usize::MAX);
            let (bytes, after) = rest.split_at_checked(length).ok_or_else(|| damaged(&"it is cut off"))?;
            rest = after;
            if head.header().sequence <= self.end.sequence {
                continue;
            }
            let body = &bytes[GroupHeader::BYTES..GroupHeader::BYTES + head.body_len()];
            let group = head.check(body).map_err(|error| damaged(&error))?;
            let follows =
                group.header.sequence == self.end.sequence + 1 && group.header.previous_crc == self.end.crc;
            if !follows {
                return Err(damaged(&"it does not follow the one before it"));
            }
            self.end = LogPosition { sequence: group.header.sequence, crc: group.crc };
            found.push((group, bytes));
        }
        if self.end.sequence > parcel.head.end.sequence || found.is_empty() || self.end == parcel.head.end {
            return Ok(found);
        }
        Err(damaged(&"the last one is missing"))
    }

    /// The groups of a parcel that are restored.
    fn wanted_groups<'p>(&mut self, parcel: &'p Parcel) -> Result<Vec<(Group, &'p [u8])>, ShipError> {
        let before = self.end;
        let mut groups = self.groups(parcel)?;
        let last = self.chain.last_sequence(parcel.head.epoch);
        groups.truncate(groups.iter().take_while(|(group, _)| group.header.sequence <= last).count());
        let found = groups.len();
        let is_wanted = |group: &Group| self.at.is_none_or(|at| group.header.time <= at);
        groups.truncate(groups.iter().take_while(|(group, _)| is_wanted(group)).count());
        let position =
            |(group, _): &(Group, _)| LogPosition { sequence: group.header.sequence, crc: group.crc };
        self.end = groups.last().map_or(before, position);
        self.gives_up |= groups.len() < found;
        Ok(groups)
    }

    /// Says in the directory that the log after the last group is given up.
    fn note_return_point(&self) -> Result<(), ShipError> {
        let (root, (former, last)) = (self.chain.root.id(), self.last);
        let store = self.log.store;
        let point = ReturnPoint { store, newest: self.newest.epoch, root, former, last, end: self.end };
        RETURN_FILE.save(self.fs, &point.encode()).map_err(|error| ShipError::Disk(error.to_string()))
    }

    fn learn(&mut self, group: &Group) {
        self.report.time = group.header.time;
        for entry in &group.entries {
            match entry {
                Entry::RemoteSegment { segment, copy: Some(copy) } => {
                    self.copies.insert(*segment, *copy);
                }
                Entry::RemoteSegment { segment, copy: None } => {
                    self.copies.remove(segment);
                }
                _ => {}
            }
        }
    }

    fn write_pieces(&mut self, parcel: &Parcel) -> Result<(), ShipError> {
        for (piece, bytes) in parcel.inline_pieces() {
            self.write(piece.segment, piece.offset, bytes)?;
        }
        for piece in parcel.pieces.iter().filter(|piece| piece.object != 0) {
            let bytes = self.log.piece(&parcel.head, piece)?;
            self.write(piece.segment, piece.offset, &bytes)?;
        }
        Ok(())
    }

    /// Writes bytes of a segment. The first ones that a parcel has of a segment are its header; where that was in a parcel before those that
    /// the root needs, the segment was remote or gone then.
    fn write(&mut self, segment: u64, offset: u64, bytes: &[u8]) -> Result<(), ShipError> {
        if offset > 0 && !self.files.contains_key(&segment) {
            return Ok(());
        }
        self.report.bytes += bytes.len() as u64;
        self.segment(segment)?.write_all_at(bytes, offset).map_err(disk)
    }

    fn segment(&mut self, id: u64) -> Result<&Arc<dyn File>, ShipError> {
        if !self.files.contains_key(&id) {
            self.files.insert(id, self.fs.create(&segment_path(id)).map_err(disk)?);
        }
        Ok(&self.files[&id])
    }

    /// Gives each segment that the remote has its length, with its first and last page: a start reads no other.
    fn place_copies(&mut self) -> Result<(), ShipError> {
        let copies: Vec<(u64, RemoteCopy)> = self.copies.iter().map(|(id, copy)| (*id, *copy)).collect();
        for (id, copy) in copies {
            if copy.phase != CopyPhase::Remote {
                continue;
            }
            let name = copy.name(id);
            if copy.length < 2 * PAGE_BYTES || !copy.length.is_multiple_of(PAGE_BYTES) {
                return Err(ShipError::damaged(name, &"its length is that of no segment"));
            }
            for at in [0, copy.length - PAGE_BYTES] {
                let page = get(self.log.remote, &name, at..at + PAGE_BYTES)?;
                self.write(id, at, &page)?;
            }
            self.report.remote_segments += 1;
        }
        Ok(())
    }
}

/// The progress after that many parcels.
fn fetched(done: u64, total: u64) -> Progress {
    Progress { step: ProgressStep::Parcels, done, total }
}

#[expect(clippy::needless_pass_by_value, reason = "it is mapped over results")]
fn disk(error: io::Error) -> ShipError {
    ShipError::Disk(error.to_string())
}
