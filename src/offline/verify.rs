//! A read-only check of the whole store: every file, every group after a kept checkpoint, every
//! extent of every version and part.

mod object_verifier;
mod overlap_check;
mod report;

use std::collections::BTreeSet;
use std::io;

pub use report::{
    Finding, NamedOwner, Note, NoteKind, RecordRef, SegmentUse, VerifyCounts, VerifyError, VerifyReport,
};

use crate::base::digest::Crc32;
use crate::format::{CopyPhase, FileKind, LOCK, StoreId, segment_path, unfinished};
use crate::fs::{Fs, Lock, ReadOnlyFs};
use crate::index::{Cursor, Index};
use crate::log::{Damage, LogError, Segment, any_header, list_numbers, open_file};
use crate::store::commit::checkpointer::GENERATIONS;
use crate::store::open::loader::{StoreLoader, store_id};
use crate::store::open::recovery;
use crate::store::{OpenError, Progress, ProgressStep, history, reclaim, scrub};
use object_verifier::ObjectVerifier;

/// Keys per step of a walk.
const KEYS_AT_ONCE: usize = 4096;

/// Checks the whole store in `fs`. `progress` is called now and then. Nothing is written.
///
/// # Errors
/// If the check is impossible: another process has the store open, there is no store, or the disk
/// fails completely. Damage is not an error but a finding.
pub fn verify(fs: &dyn Fs, progress: &mut dyn FnMut(Progress)) -> Result<VerifyReport, VerifyError> {
    let guarded = ReadOnlyFs::new(fs);
    let mut report = VerifyReport::default();
    if count_files(&guarded, &mut report.counts)? == 0 {
        return Err(VerifyError::NotAStore);
    }
    let _lock = lock(fs, &mut report)?;
    let Some(store) = identify(&guarded, &mut report)? else {
        return Ok(report);
    };
    let mut verifier = Verifier { fs: &guarded, store, report, progress };
    verifier.run()?;
    Ok(verifier.report)
}

fn count_files(fs: &dyn Fs, counts: &mut VerifyCounts) -> io::Result<u64> {
    counts.segments = list_numbers(fs, FileKind::Segment)?.len() as u64;
    counts.log_files = list_numbers(fs, FileKind::Log)?.len() as u64;
    counts.checkpoints = list_numbers(fs, FileKind::Checkpoint)?.len() as u64;
    Ok(counts.segments + counts.log_files + counts.checkpoints)
}

/// Takes the lock, if that takes no writing. A copy without a lock file has no other user, and
/// nothing writes to a file system that is read-only here.
fn lock(fs: &dyn Fs, report: &mut VerifyReport) -> Result<Option<Box<dyn Lock>>, VerifyError> {
    let locked = if fs.list("")?.iter().any(|name| name == LOCK) {
        recovery::lock(fs)
    } else {
        Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "there is no file to lock").into())
    };
    match locked {
        Ok(lock) => Ok(Some(lock)),
        Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            let what = format!("checked without a lock, so no other process may write meanwhile: {error}");
            report.notes.push(Note::new(NoteKind::NotLocked, "", what));
            Ok(None)
        }
        Err(OpenError::Io(error)) => Err(error.into()),
        Err(OpenError::Locked | OpenError::Damaged(_)) => Err(VerifyError::Locked),
    }
}

/// The id of the store as recovery finds it, or else from any file that still holds it. Without an
/// id, the only check is for good file headers.
fn identify(fs: &dyn Fs, report: &mut VerifyReport) -> Result<Option<StoreId>, VerifyError> {
    match store_id(fs) {
        Ok(id) => return Ok(id),
        Err(error) => report.find(damage_unless_newer(error, FileKind::Log.dir())?),
    }
    if let Some(header) = any_header(fs)? {
        return Ok(Some(header.store));
    }
    for kind in FileKind::ALL {
        for number in list_numbers(fs, kind)? {
            if let Err(error) = open_file(fs, kind, number, None) {
                report.find(error.into_damage(&kind.path(number), 0));
            }
        }
    }
    Ok(None)
}

struct Verifier<'a> {
    fs: &'a dyn Fs,
    store: StoreId,
    report: VerifyReport,
    progress: &'a mut dyn FnMut(Progress),
}

impl<'a> Verifier<'a> {
    /// Runs all checks. One index is in memory at a time: the older checkpoint is compared by a
    /// fingerprint.
    fn run(&mut self) -> Result<(), VerifyError> {
        self.check_files()?;
        self.step(ProgressStep::Metadata);
        let mut loader = self.newest()?;
        let covered = loader.start.covered;
        let whole = self.replay(&mut loader)?;
        for missing in loader.missing_segments().map_err(verify_error)? {
            self.report.find(missing.damage());
        }
        self.check_objects(&loader.index);
        self.check_scrub(&loader.index)?;
        self.check_reclaim()?;
        self.check_history()?;
        self.count_live_bytes(&loader.index, whole);
        let expected = whole.then(|| fingerprint(&loader.index));
        drop(loader);
        self.check_other_checkpoints(covered, expected)
    }

    /// Opens every file, which checks its header, and looks for footers and unfinished files.
    fn check_files(&mut self) -> Result<(), VerifyError> {
        self.step(ProgressStep::Files);
        for kind in FileKind::ALL {
            for number in list_numbers(self.fs, kind)? {
                self.check_file(kind, number);
            }
        }
        for dir in [FileKind::Segment.dir(), FileKind::Log.dir()] {
            for name in self.fs.list(dir)?.iter().filter(|name| name.ends_with(&unfinished(""))) {
                let what =
                    "unfinished when the process ended; it has no meaning, and the next start removes it";
                self.report.notes.push(Note::new(NoteKind::Unfinished, format!("{dir}/{name}"), what));
            }
        }
        Ok(())
    }

    fn check_file(&mut self, kind: FileKind, number: u64) {
        let path = kind.path(number);
        match open_file(self.fs, kind, number, Some(self.store)) {
            Ok((file, _)) if kind == FileKind::Segment => {
                let segment = Segment { id: number, file };
                let sealed = match segment.footer(&self.store) {
                    Ok(footer) => footer.is_some(),
                    Err(error) => {
                        self.report.find(error.into_damage(&path, 0));
                        true
                    }
                };
                let len = segment.file.len().unwrap_or(0);
                self.report.segments.push(SegmentUse { id: number, len, sealed, live: 0 });
            }
            Ok(_) => {}
            Err(error) => self.report.find(error.into_damage(&path, 0)),
        }
    }

    /// Loads the newest readable checkpoint, if there is any.
    fn newest(&mut self) -> Result<StoreLoader<'a>, VerifyError> {
        for covered in list_numbers(self.fs, FileKind::Checkpoint)?.into_iter().rev() {
            match StoreLoader::from_checkpoint(self.fs, self.store, covered) {
                Ok(loader) => return Ok(loader),
                Err(error) => {
                    self.report.find(damage_unless_newer(error, &FileKind::Checkpoint.path(covered))?);
                }
            }
        }
        Ok(StoreLoader::from_start(self.fs, self.store))
    }

    /// Replays the log after a checkpoint. Returns whether the index is complete.
    fn replay(&mut self, loader: &mut StoreLoader<'_>) -> Result<bool, VerifyError> {
        let tail = match loader.replay() {
            Ok(tail) => tail,
            Err(error) => {
                self.report.find(damage_unless_newer(error, FileKind::Log.dir())?);
                return Ok(false);
            }
        };
        if let Some(torn) = tail.torn {
            let what =
                format!("group {} is torn: never acknowledged, and dropped: {}", tail.sequence, torn.why);
            let note = Note { kind: NoteKind::Torn, file: torn.file, offset: torn.offset, what };
            self.report.note(note);
        }
        let whole = tail.damage.is_none();
        if let Some(damage) = tail.damage {
            self.report.find(damage);
        }
        Ok(whole)
    }

    fn check_objects(&mut self, index: &Index) {
        let total = index.liveness().total();
        let remote = self.remote_segments(index);
        let mut objects = ObjectVerifier::new(self.fs, self.store, &mut self.report, self.progress, total);
        objects.leave_out(remote);
        let mut cursor = Cursor::Start;
        loop {
            let entries = index.walk(&mut cursor, KEYS_AT_ONCE);
            if entries.is_empty() {
                break;
            }
            objects.check(&entries);
        }
        objects.finish(index.liveness());
    }

    /// The segments whose bytes may be on a remote alone, each with a note.
    fn remote_segments(&mut self, index: &Index) -> BTreeSet<u64> {
        let copies = index.remote_copies(None).filter(|(_, copy)| copy.phase == CopyPhase::Remote);
        let ids: BTreeSet<u64> = copies.map(|(id, _)| id).collect();
        for id in &ids {
            let what = "its bytes are on a remote and were not checked";
            self.report.notes.push(Note::new(NoteKind::Remote, segment_path(*id), what));
        }
        ids
    }

    /// Notes the bad extents of the scrub that are still referenced and can be read again.
    fn check_scrub(&mut self, index: &Index) -> Result<(), VerifyError> {
        let state = match scrub::load(self.fs, &self.store) {
            Err(LogError::Damaged(damage)) => {
                self.report.find(damage);
                return Ok(());
            }
            loaded => loaded.map_err(verify_error)?.unwrap_or_default(),
        };
        for bad in state.bad.iter().filter(|bad| scrub::is_referenced(index, bad)) {
            let Damage { file, offset, what } = scrub::damage_of(bad);
            if !self
                .report
                .findings
                .iter()
                .any(|finding| finding.damage.file == file && finding.damage.offset == offset)
            {
                let what = format!("the scrub found on {}: {what}; it is good again", bad.found);
                self.report.note(Note { kind: NoteKind::Recorded, file, offset, what });
            }
        }
        Ok(())
    }

    fn check_reclaim(&mut self) -> Result<(), VerifyError> {
        match reclaim::load(self.fs, &self.store) {
            Err(LogError::Damaged(damage)) => {
                self.report.find(damage);
                Ok(())
            }
            loaded => loaded.map(|_| ()).map_err(verify_error),
        }
    }

    fn check_history(&mut self) -> Result<(), VerifyError> {
        match history::load(self.fs, &self.store) {
            Err(LogError::Damaged(damage)) => {
                self.report.find(damage);
                Ok(())
            }
            loaded => loaded.map(|_| ()).map_err(verify_error),
        }
    }

    /// Counts the live bytes of each segment. With an incomplete index, no segment is reported as
    /// unreferenced.
    fn count_live_bytes(&mut self, index: &Index, whole: bool) {
        self.report.counts.buckets = index.bucket_count();
        self.report.counts.versions = index.version_count();
        self.report.counts.uploads = index.upload_count();
        for segment in &mut self.report.segments {
            segment.live = index.liveness().of(segment.id);
            if whole && segment.live == 0 {
                let what = format!("no object refers to it: {} bytes can be reclaimed", segment.len);
                self.report.notes.push(Note::new(NoteKind::Unreferenced, segment.path(), what));
            }
        }
    }

    /// Checks the other checkpoints. The older of the two kept ones must add up to the same index,
    /// with the log after it. A still older one is the remains of a crash, and its log may be gone.
    fn check_other_checkpoints(&mut self, newest: u64, expected: Option<u32>) -> Result<(), VerifyError> {
        self.step(ProgressStep::OtherCheckpoints);
        let covered = list_numbers(self.fs, FileKind::Checkpoint)?;
        for (age, covered) in covered.into_iter().rev().enumerate().filter(|(_, covered)| *covered != newest)
        {
            let path = FileKind::Checkpoint.path(covered);
            match StoreLoader::from_checkpoint(self.fs, self.store, covered) {
                Err(error) => self.report.find(error.into_damage(&path, 0)),
                Ok(_) if age >= GENERATIONS => {
                    let what = "outdated: the next checkpoint removes it";
                    self.report.notes.push(Note::new(NoteKind::Superfluous, path, what));
                }
                Ok(mut loader) => {
                    let whole = self.replay(&mut loader)?;
                    if whole && expected.is_some_and(|expected| expected != fingerprint(&loader.index)) {
                        let what = "with the log after it, it adds up to another index than the newest one";
                        self.report.find(Damage::new(path, 0, what));
                    }
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, step: ProgressStep) {
        (self.progress)(Progress { step, done: 0, total: 0 });
    }
}

/// The CRC of the index as entries.
fn fingerprint(index: &Index) -> u32 {
    let mut crc = Crc32::new();
    let mut cursor = Cursor::Start;
    loop {
        let entries = index.walk(&mut cursor, KEYS_AT_ONCE);
        if entries.is_empty() {
            return crc.value();
        }
        let mut bytes = Vec::new();
        for entry in &entries {
            entry.encode(&mut bytes);
        }
        crc.update(&bytes);
    }
}

/// Damage, unless only a newer siltstone can read the file.
fn damage_unless_newer(error: LogError, file: &str) -> Result<Damage, VerifyError> {
    match error {
        LogError::Io(newer) if error.is_newer() => Err(VerifyError::Io(newer)),
        error => Ok(error.into_damage(file, 0)),
    }
}

fn verify_error(error: LogError) -> VerifyError {
    VerifyError::Io(
        error.damage_or_io().map_or_else(|error| error, |damage| io::Error::other(damage.to_string())),
    )
}
