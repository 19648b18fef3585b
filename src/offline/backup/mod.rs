//! Backups of a store in use, and restoring them (data-format.md, section 11).
//!
//! A backup is in one of two slots, each a data directory like any other. A file beside them names
//! the slot with the current backup. A new backup goes to the other slot, and becomes current when
//! that file is replaced, in one step.

mod backup_pins;
mod expected_extents;
mod file_copier;
mod key_ring;
mod report;
mod restore;
mod slots;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

pub use report::{BackupError, BackupReport, FileTotals, RestoreReport};
pub use restore::restore;

use crate::base::Clock;
use crate::format::{BackupCurrent, FileKind, number_of};
use crate::fs::{File, Fs, ReadOnlyFs, SubdirFs};
use crate::index::Index;
use crate::log::{Damage, LogError, Segment};
use crate::offline::needed_keys::{KEYS, read_ring};
use crate::offline::verify::{VerifyReport, verify};
use crate::store::open::loader::{StoreLoader, store_id};
use crate::store::{Progress, ProgressStep};
use backup_pins::{BackupPins, slot_pin};
use expected_extents::{ExpectedExtents, findings_with_owners};
use file_copier::{FileCopier, ZeroBlocks};
use key_ring::{BackupRing, RingSources};
use slots::BackupSlots;

/// The users' file, in a data directory and in a backup.
const USERS: &str = "users.toml";

/// Attempts at a consistent set of metadata files; the files of a busy store may change during one.
const ATTEMPTS_MAX: usize = 100;

/// Attempts at metadata whose keys are all in a ring that was seen.
const RING_ATTEMPTS_MAX: usize = 8;

/// Gives a file of the source, named first, a further name in the target.
pub type Link<'l> = dyn Fn(&str, &str) -> io::Result<()> + 'l;

/// The store to back up. Its lock is not taken, since a server may use it.
pub struct BackupSource<'a> {
    /// The data directory.
    pub fs: &'a dyn Fs,
    /// Links from the source to the target; fails across file systems.
    pub link: &'a Link<'a>,
}

/// The choices of an operator.
#[derive(Debug, Clone, Copy, Default)]
pub struct BackupOptions {
    /// Whether to copy the users with their secrets, and the keys of encrypted objects. A data
    /// directory without users or keys is backed up without.
    pub with_users: bool,
    /// Whether every checksum of the new backup is checked before it becomes current, also in
    /// segments that were not copied.
    pub verify: bool,
}

/// Makes a backup of `source` in the directory `target`, while a server may write to `source`. The
/// backup holds everything that was acknowledged before the call. A sealed segment is copied only
/// if it can neither be linked nor taken from the former backup. Durable on return. After an error,
/// or a power cut at any point, the former backup is still current.
///
/// # The order
///
/// 1. Every segment gets pinned. A further name keeps its bytes: reclaiming unlinks the store's own
///    name only, and punches holes only into files with one name. If no name can be given, because
///    the store is read-only here or the file system knows no links, a shared lock on the open file
///    keeps holes away. Metadata read before the pins could refer to segments that are gone by
///    then.
/// 2. The metadata is copied, and the copy is read. Everything it refers to was live after step 1,
///    and is pinned.
/// 3. If the metadata refers to a segment that is newer than the pins, that one is pinned, too, and
///    the metadata is copied again: extents that were relocated to or from it may have lost their
///    bytes in between. The ring of keys is read before the metadata and after it: the backup has
///    every key of both that the metadata names. A key that came and went in between is in neither;
///    then the metadata is copied again.
/// 4. The segments are put in place. A sealed segment is never written again, so its pin becomes
///    its name, or the former copy serves. An unsealed segment is copied: it only grows, and the
///    metadata refers to its older bytes only. The check of a copy, as it is read back, covers
///    every extent that the metadata refers to.
/// 5. All is synced and read once more. Then the file that names the slot is replaced. Until then
///    the former backup is current and untouched.
/// 6. The former backup is removed.
///
/// # Errors
/// [`BackupError`]. The files written to the slot are removed again, as far as the disk permits.
pub fn backup(
    source: &BackupSource<'_>,
    target: &dyn Fs,
    clock: &dyn Clock,
    options: BackupOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<BackupReport, BackupError> {
    let taken = clock.now();
    let guarded = ReadOnlyFs::new(source.fs);
    let store = store_id(&guarded)?.ok_or(BackupError::NotAStore)?;
    let slots = BackupSlots::open(target)?;
    if slots.current().is_some_and(|current| current.store != store) {
        return Err(BackupError::OtherStore);
    }
    let slot = slots.next_slot();
    let report = BackupReport::started(slot, store, taken);
    let to = slots.slot_fs(slot);
    let mut run = BackupRun { source, guarded: &guarded, slots: &slots, to, options, progress, report };
    if let Err(error) = run.run() {
        // The error to report is the first one; the next backup clears the slot again.
        let _ = slots.clear(slot);
        return Err(error);
    }
    Ok(run.report)
}

/// The way of a segment into the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentTransfer {
    /// Its pin in the slot becomes its name.
    RenamePin,
    /// The copy in the former backup is linked.
    LinkFormer,
    /// All bytes are copied.
    Copy,
}

/// A backup being made.
struct BackupRun<'a> {
    source: &'a BackupSource<'a>,
    guarded: &'a dyn Fs,
    slots: &'a BackupSlots<'a>,
    /// The slot of this backup.
    to: SubdirFs<&'a dyn Fs>,
    options: BackupOptions,
    progress: &'a mut dyn FnMut(Progress),
    report: BackupReport,
}

/// A file with its path.
type MetadataFile = (String, Arc<dyn File>);

/// The copied metadata, with the ring for it where one was found.
type ReadMetadata = (CopiedMetadata, Option<BackupRing>);

/// The facts about the copied metadata.
struct CopiedMetadata {
    /// The segments that it refers to.
    segments: BTreeSet<u64>,
    /// The sequence of the last group.
    sequence: u64,
    /// The index that it adds up to.
    index: Index,
}

impl<'a> BackupRun<'a> {
    fn run(&mut self) -> Result<(), BackupError> {
        let BackupReport { slot, store, taken, .. } = self.report;
        self.slots.prepare(slot)?;
        let mut pins = BackupPins::new(self.source, slot, self.slots.slot_fs(slot));
        // Steps 1 to 3 of the order above.
        let mut sources = self.ring_sources()?;
        let (mut metadata, ring) = self.pin_and_read_with_ring(&mut pins, &mut sources)?;
        // Step 4. The pins go after it: until then they are all that keeps bytes that the metadata
        // names.
        self.place_segments(&metadata, &pins)?;
        drop(pins);
        // The check builds an index of its own.
        metadata.index = Index::new();
        if self.options.with_users {
            self.report.with_users = self.copy_users()?;
        }
        if let Some(ring) = ring {
            self.write_ring(&ring.text)?;
            self.report.with_keys = true;
            self.report.keys_missing = ring.missing;
        }
        // Step 5. The check reads what is durable, and only what it found good becomes current.
        self.slots.sync(slot)?;
        self.check(&metadata)?;
        self.report.sequence = metadata.sequence;
        self.slots.set_current(&BackupCurrent { slot, store, sequence: metadata.sequence, taken })?;
        // Step 6. A crash before it leaves two backups, of which the next one overwrites the
        // former.
        Ok(self.slots.clear(slot.other())?)
    }

    /// What may have keys of the backup, as far as keys are wanted.
    fn ring_sources(&self) -> Result<RingSources, BackupError> {
        let former = self.slots.current().filter(|_| self.options.with_users);
        let former = former.map(|current| self.slots.slot_fs(current.slot));
        Ok(RingSources::of_former(former.as_ref().map(|slot| slot as &dyn Fs))?)
    }

    fn pin_and_read_with_ring(
        &mut self,
        pins: &mut BackupPins<'a>,
        sources: &mut RingSources,
    ) -> Result<ReadMetadata, BackupError> {
        if !self.options.with_users {
            return Ok((self.pin_and_read(pins)?, None));
        }
        sources.see(self.guarded)?;
        let mut before = None;
        let mut attempts = 0;
        loop {
            let metadata = self.pin_and_read(pins)?;
            attempts += 1;
            sources.see(self.guarded)?;
            let Some(ring) = sources.ring_for(&metadata.index)? else { return Ok((metadata, None)) };
            let missing: Vec<_> = ring.missing.iter().map(|key| key.id.clone()).collect();
            // Twice the same: they are lost, and not on their way.
            let is_lost = before.as_ref() == Some(&missing);
            if missing.is_empty() || is_lost || attempts == RING_ATTEMPTS_MAX {
                return Ok((metadata, Some(ring)));
            }
            before = Some(missing);
        }
    }

    fn pin_and_read(&mut self, pins: &mut BackupPins<'a>) -> Result<CopiedMetadata, BackupError> {
        self.step(ProgressStep::CopyMetadata, 0, 0);
        pins.pin_all()?;
        let mut missing = None;
        loop {
            let metadata = self.copy_metadata()?;
            let Some(unknown) = metadata.segments.iter().copied().find(|id| !pins.contains(*id)) else {
                return Ok(metadata);
            };
            pins.pin_all()?;
            // Missing once, it may have been removed while the metadata changed; twice, it is lost.
            if !pins.contains(unknown) && missing.replace(unknown) == Some(unknown) {
                let what = "the segment is missing, with the objects in it";
                return Err(Damage::new(FileKind::Segment.path(unknown), 0, what).into());
            }
        }
    }

    /// Copies the metadata until a copy is good. While a server writes groups, a copy may miss one
    /// group and hold a later one. Such a copy looks damaged, each time at another place.
    fn copy_metadata(&mut self) -> Result<CopiedMetadata, BackupError> {
        let mut before = None;
        loop {
            self.slots.clear_metadata(self.report.slot)?;
            self.copy_metadata_once()?;
            match self.read_copy(self.guarded) {
                Err(LogError::Damaged(damage)) if before.as_ref() != Some(&damage) => before = Some(damage),
                read => return Ok(read?),
            }
        }
    }

    fn copy_metadata_once(&mut self) -> Result<(), BackupError> {
        let files = self.open_metadata()?;
        let total = files.iter().try_fold(0, |sum, (_, file)| Ok::<_, io::Error>(sum + file.len()?))?;
        self.slots.check_room(total)?;
        let mut copier = self.copier(ProgressStep::CopyMetadata, total);
        let mut bytes = 0;
        for (path, file) in &files {
            bytes += copier.copy(file.as_ref(), path, ZeroBlocks::Write)?;
        }
        self.report.metadata_bytes = bytes;
        Ok(())
    }

    /// Opens all files of the metadata as of one moment: with the same names before and after. The
    /// files are removed oldest first, and their names never come back, so an open file is as good
    /// as its name.
    fn open_metadata(&self) -> Result<Vec<MetadataFile>, BackupError> {
        for _ in 0..ATTEMPTS_MAX {
            let names = self.metadata_names()?;
            match self.open_all(&names) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => {
                    let opened = opened?;
                    if self.metadata_names()? == names {
                        return Ok(opened);
                    }
                }
            }
        }
        Err(io::Error::other("the files of the metadata change too fast").into())
    }

    fn open_all(&self, names: &[String]) -> io::Result<Vec<MetadataFile>> {
        let mut files = Vec::new();
        for name in names {
            files.push((name.clone(), self.guarded.open_uncached(name)?));
        }
        Ok(files)
    }

    fn metadata_names(&self) -> io::Result<Vec<String>> {
        let dir = FileKind::Log.dir();
        let mut names = Vec::new();
        for name in self.guarded.list(dir)? {
            let is_log = number_of(FileKind::Log, &name).is_some();
            if is_log || number_of(FileKind::Checkpoint, &name).is_some() {
                names.push(format!("{dir}/{name}"));
            }
        }
        Ok(names)
    }

    /// Reads the copy of the metadata like a start of the server. `segments` holds the segments.
    fn read_copy(&self, segments: &dyn Fs) -> Result<CopiedMetadata, LogError> {
        let mut damage = Vec::new();
        let loader = StoreLoader::from_newest(&self.to, self.report.store, &mut damage)?;
        let mut loader = loader.with_segments_on(segments);
        let tail = loader.replay()?;
        if let Some(damage) = damage.into_iter().chain(tail.damage).next() {
            return Err(damage.into());
        }
        let segments = loader.index.liveness().iter().map(|(segment, _)| segment).collect();
        Ok(CopiedMetadata { segments, sequence: tail.sequence - 1, index: loader.index })
    }

    fn place_segments(
        &mut self,
        metadata: &CopiedMetadata,
        pins: &BackupPins<'a>,
    ) -> Result<(), BackupError> {
        let mut to_copy = Vec::new();
        for id in &metadata.segments {
            let segment = Segment { id: *id, file: pins.open(*id)? };
            let len = segment.file.len()?;
            match self.place_without_copying(&segment, pins)? {
                Some(way) => self.report.count(way, len),
                None => to_copy.push((*id, len)),
            }
        }
        let total = to_copy.iter().map(|(_, len)| len).sum();
        self.slots.check_room(total)?;
        self.step(ProgressStep::CopySegments, 0, total);
        let mut done = 0;
        let mut found = Vec::new();
        let store = self.report.store;
        let mut extents = ExpectedExtents::new(&metadata.index);
        for (id, _) in to_copy {
            let file = pins.open(id)?;
            let path = FileKind::Segment.path(id);
            let mut copier = FileCopier { done, ..self.copier(ProgressStep::CopySegments, total) };
            let (len, damage) = copier.copy_and(file.as_ref(), &path, ZeroBlocks::Skip, &mut |copy| {
                extents.check(id, &store, copy)
            })?;
            done = copier.done;
            self.report.count(SegmentTransfer::Copy, len);
            found.extend(damage);
        }
        pins.clear_slot()?;
        match found.is_empty() {
            true => Ok(()),
            false => Err(BackupError::Findings(findings_with_owners(&store, &metadata.index, found))),
        }
    }

    /// Puts a segment in place by a link. If the target does not support links, all segments are
    /// copied.
    fn place_without_copying(
        &self,
        segment: &Segment,
        pins: &BackupPins<'a>,
    ) -> Result<Option<SegmentTransfer>, BackupError> {
        if segment.footer(&self.report.store)?.is_none() {
            return Ok(None);
        }
        if pins.is_in_slot(segment.id) {
            self.to.rename(&slot_pin(segment.id), &segment.path())?;
            return Ok(Some(SegmentTransfer::RenamePin));
        }
        Ok(self.slots.link_from_former(segment, self.report.slot)?.then_some(SegmentTransfer::LinkFormer))
    }

    /// Copies the users. Returns whether there are any: a server may take them from elsewhere.
    fn copy_users(&mut self) -> Result<bool, BackupError> {
        let users = match self.guarded.open_uncached(USERS) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            users => users?,
        };
        self.copier(ProgressStep::CopyMetadata, 0).copy(users.as_ref(), USERS, ZeroBlocks::Write)?;
        Ok(true)
    }

    /// Writes the ring, and reads it back from the disk.
    fn write_ring(&self, text: &str) -> Result<(), BackupError> {
        let file = self.to.create(KEYS)?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.sync_data()?;
        file.evict()?;
        match read_ring(&self.to)? {
            Some(read) if read == text => Ok(()),
            _ => {
                Err(io::Error::other(format!("{KEYS}: what is read back differs from what was written"))
                    .into())
            }
        }
    }

    /// Reads the new backup from the disk: all of it, or its metadata and the headers of its
    /// segments.
    fn check(&mut self, metadata: &CopiedMetadata) -> Result<(), BackupError> {
        self.step(ProgressStep::CheckCopy, 0, 0);
        if self.options.verify {
            let found = verify_copy(&self.to, self.progress)?.findings;
            return if found.is_empty() { Ok(()) } else { Err(BackupError::Findings(found)) };
        }
        let found = self.read_copy(&self.to)?;
        debug_assert_eq!(found.sequence, metadata.sequence, "what was synced is what was read before");
        found
            .segments
            .iter()
            .try_for_each(|id| Ok(Segment::open(&self.to, self.report.store, *id).map(|_| ())?))
    }

    fn copier(&mut self, step: ProgressStep, total: u64) -> FileCopier<'_> {
        FileCopier { to: &self.to, step, done: 0, total, progress: &mut *self.progress }
    }

    fn step(&mut self, step: ProgressStep, done: u64, total: u64) {
        (self.progress)(Progress { step, done, total });
    }
}

/// A check of every checksum in `fs`.
fn verify_copy(fs: &dyn Fs, progress: &mut dyn FnMut(Progress)) -> Result<VerifyReport, BackupError> {
    Ok(verify(fs, &mut |checked| {
        progress(Progress { step: ProgressStep::CheckCopy, ..checked });
    })?)
}
