//! A data directory from the log on the remote.

use std::io;
use std::ops::ControlFlow;

use super::epoch::{NewestEpoch, RETURN_FILE, chain_at};
use super::parcel_applier::{ParcelApplier, learn_copy};
use super::witness::{FoundEnd, check_end};
use crate::base::limits::{MIB, PAGE_BYTES};
use crate::base::{Clock, Timestamp};
use crate::format::{
    Features, FileHeader, FileKind, Group, LogPosition, Parcel, ParcelHead, ParcelId, RETURN, ReturnPoint,
    checkpoint_path, log_path,
};
use crate::fs::{File, Fs};
use crate::log::{LogError, create_file, list_numbers, read_checkpoint, remove_unfinished, write_atomically};
use crate::remote::RemoteView;
use crate::store::remote_log::chain::{Chain, ParcelRun, RemoteLog};
use crate::store::remote_log::error::{ShipError, disk};
use crate::store::remote_log::object::{get, store_of};
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

/// Makes the store in the empty directory `fs` that the log on a remote describes, up to its last
/// parcel. Durable on return. The bytes of segments that the remote has are fetched when they are
/// read. The log file gets its name last, so that a directory that is not complete is no store;
/// after an error the same call begins anew in an empty directory.
///
/// # Errors
/// [`ShipError`]; also where the directory holds files of a store.
pub fn restore_from_remote(
    remote: &dyn RemoteView,
    fs: &dyn Fs,
    clock: &dyn Clock,
    progress: &mut dyn FnMut(Progress),
) -> Result<RemoteRestoreReport, ShipError> {
    restore(remote, fs, clock, None, progress)
}

/// As [`restore_from_remote`], up to the last group that is not younger than `at`. Where that gives
/// up a part of the log, a file in the directory says so: a start that ships the log goes on from
/// there in an epoch of its own.
///
/// # Errors
/// [`ShipError::BeforeWindow`] with the oldest time; others as of [`restore_from_remote`].
pub fn restore_from_remote_at(
    remote: &dyn RemoteView,
    fs: &dyn Fs,
    clock: &dyn Clock,
    at: Timestamp,
    progress: &mut dyn FnMut(Progress),
) -> Result<RemoteRestoreReport, ShipError> {
    restore(remote, fs, clock, Some(at), progress)
}

fn restore(
    remote: &dyn RemoteView,
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
    // A note of an earlier restore, which was cut off, would make this store go back to a point of
    // another log.
    match fs.remove(RETURN) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(disk(error)),
        _ => {}
    }
    let log = RemoteLog { remote, store: store_of(remote)? };
    let (chain, newest) = chain_at(&log, at.unwrap_or(Timestamp::from_millis(u64::MAX)))?;
    let (heads, end) = log.heads(&chain, at)?;
    let found = FoundEnd::of(newest.epoch, &chain, &heads, end);
    // Checked as before a takeover: a restore that ends early without a word would give up what
    // clients were answered for.
    let is_cut_short = match check_end(&log, log.newest_claim()? + 1, found, None) {
        // Who asks for a time goes without what came after it.
        Err(ShipError::Hidden { name, why }) if at.is_some() => {
            log::warn!("{name} is given up, which the remote does not show: {why}");
            true
        }
        checked => checked.map(|()| false)?,
    };
    let restore = Restore { at, is_cut_short, ..Restore::new(log, fs, &chain, newest) };
    restore.make(&heads, clock, progress)
}

/// Makes the store that a chain with the heads of its parcels describes, in a directory without
/// files of a store.
pub(super) fn restore_chain(
    log: RemoteLog<'_>,
    fs: &dyn Fs,
    chain: &Chain,
    heads: &[ParcelHead],
    clock: &dyn Clock,
    progress: &mut dyn FnMut(Progress),
) -> Result<RemoteRestoreReport, ShipError> {
    let newest = NewestEpoch { epoch: chain.root.epoch, covered: chain.root.covered.sequence };
    Restore::new(log, fs, chain, newest).make(heads, clock, progress)
}

/// A restore in progress.
struct Restore<'a> {
    log: RemoteLog<'a>,
    fs: &'a dyn Fs,
    chain: &'a Chain,
    /// The time after which no group is restored.
    at: Option<Timestamp>,
    newest: NewestEpoch,
    /// Whether a group was left out that is younger than the time.
    gives_up: bool,
    /// Whether something speaks for a longer log than the remote shows.
    is_cut_short: bool,
    /// The epoch and the number of the parcel with the last group.
    last: (u64, u64),
    applier: ParcelApplier<'a>,
    report: RemoteRestoreReport,
}

impl<'a> Restore<'a> {
    /// A restore of all that a chain describes.
    fn new(log: RemoteLog<'a>, fs: &'a dyn Fs, chain: &'a Chain, newest: NewestEpoch) -> Self {
        Self {
            log,
            fs,
            chain,
            at: None,
            newest,
            gives_up: false,
            is_cut_short: false,
            last: (chain.root.epoch, chain.root.after),
            applier: ParcelApplier::new(log, fs, chain.root.covered),
            report: RemoteRestoreReport { time: chain.root.made, ..RemoteRestoreReport::default() },
        }
    }

    fn make(
        mut self,
        heads: &[ParcelHead],
        clock: &dyn Clock,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RemoteRestoreReport, ShipError> {
        remove_unfinished(self.fs).map_err(disk)?;
        self.run(heads, clock, progress)?;
        let mut report = self.report;
        report.bytes += self.applier.bytes;
        Ok(report)
    }

    fn run(
        &mut self,
        heads: &[ParcelHead],
        clock: &dyn Clock,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ShipError> {
        let root = self.chain.root;
        // 1. The checkpoint, which says what is on the remote and needs no bytes here.
        self.fetch_checkpoint()?;
        // 2. The bytes that it names, from the parcels before the root.
        let base = self.log.parcels_before(&root)?;
        let runs = base.iter().map(ParcelRun::count);
        let total = runs.fold(heads.len() as u64, u64::saturating_add);
        let log = self.log;
        log.each_parcel(base.into_iter().flat_map(ParcelRun::ids), &mut |parcel| {
            self.applier.write_pieces(&parcel)?;
            self.report.parcels += 1;
            progress(fetched(self.report.parcels, total));
            Ok(ControlFlow::Continue(()))
        })?;
        // 3. The log, with the bytes that its groups name. The file gets its name when all of that
        //    is durable: before it the directory is no store, and the restore begins anew.
        let header = FileHeader {
            kind: FileKind::Log,
            store: self.log.store,
            number: root.covered.sequence + 1,
            features: heads.iter().fold(Features::NONE, |all, head| all.with(head.features)),
            created: clock.now(),
            previous_crc: root.covered.crc,
        };
        let fs = self.fs;
        let path = log_path(header.number);
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
        self.report.sequence = self.applier.end.sequence;
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
        let mut position = PAGE_BYTES;
        let mut file_len = 2 * PAGE_BYTES;
        let log = self.log;
        let ids = heads.iter().map(|head| ParcelId { epoch: head.epoch, counter: head.counter });
        let mut expected = heads.iter();
        log.each_parcel(ids, &mut |parcel| {
            let head = parcel.head;
            if expected.next() != Some(&head) {
                return Err(ShipError::damaged(Parcel::name(head.epoch, head.counter), &"it has changed"));
            }
            self.applier.write_pieces(&parcel)?;
            for (group, bytes) in self.wanted_groups(&parcel)? {
                self.last = (head.epoch, head.counter);
                file.write_all_at(bytes, position).map_err(disk)?;
                position += bytes.len() as u64;
                file_len = file_len.max(group.header.file_len);
                self.report.time = group.header.time;
                self.applier.learn(&group);
            }
            self.report.parcels += 1;
            progress(fetched(self.report.parcels, total));
            Ok(if self.gives_up { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        // The note comes before the name of the log: a start in between would go on in the epoch
        // whose end is given up. Not all that the newest root covers is in parcels after an older
        // one.
        if self.gives_up || self.is_cut_short || self.newest.covered > self.applier.end.sequence {
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
        self.report.remote_segments = self.applier.place_copies()?;
        self.applier.sync()
    }

    fn fetch_checkpoint(&mut self) -> Result<(), ShipError> {
        let root = self.chain.root;
        let name = root.checkpoint_name();
        let path = checkpoint_path(root.covered.sequence);
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
        let copies = &mut self.applier.copies;
        let read = read_checkpoint(self.fs, self.log.store, root.covered.sequence, &mut |entry| {
            let entry = entry.decode().map_err(|error| error.to_string())?;
            if let Some(entry) = &entry {
                learn_copy(copies, entry);
            }
            Ok(())
        });
        read.map(drop).map_err(|error| ShipError::damaged(name, &error))
    }

    /// The groups of a parcel that are restored.
    fn wanted_groups<'p>(&mut self, parcel: &'p Parcel) -> Result<Vec<(Group, &'p [u8])>, ShipError> {
        let before = self.applier.end;
        let mut groups = self.applier.groups(parcel)?;
        // A cut may adopt a parcel in part.
        let last = self.chain.last_sequence(parcel.head.epoch);
        groups.truncate(groups.iter().take_while(|(group, _)| group.header.sequence <= last).count());
        if let Some(at) = self.at {
            let found = groups.len();
            groups.truncate(groups.iter().take_while(|(group, _)| group.header.time <= at).count());
            self.gives_up |= groups.len() < found;
        }
        self.applier.end = match groups.last() {
            Some((group, _)) => LogPosition { sequence: group.header.sequence, crc: group.crc },
            None => before,
        };
        Ok(groups)
    }

    /// Says in the directory that the log after the last group is given up.
    fn note_return_point(&self) -> Result<(), ShipError> {
        let root = self.chain.root.id();
        let (former, last) = self.last;
        let store = self.log.store;
        let newest = self.newest.epoch;
        let end = self.applier.end;
        let point = ReturnPoint { store, newest, root, former, last, end };
        RETURN_FILE.save(self.fs, &point.encode()).map_err(|error| ShipError::Disk(error.to_string()))
    }
}

/// The progress after that many parcels.
fn fetched(done: u64, total: u64) -> Progress {
    Progress { step: ProgressStep::Parcels, done, total }
}
