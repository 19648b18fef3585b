//! Two data directories with the same bytes (data-format.md, section 24).
//!
//! - `mark` and `witness` keep which side counts, in files of two [`pages`]; `verdict` decides what a
//!   start does; `keeper` has the marks while a store is in use.
//! - `states` keeps the state of each side while a store is in use, for operators.
//! - `level` makes both equal after a crash; `fill` copies one to the other; `repair` replaces what one has
//!   rotten.

mod fill;
mod keeper;
mod level;
mod mark;
mod pages;
mod places;
mod repair;
mod states;
mod verdict;
mod witness;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use places::{DescribedSide, MirrorHome, MirrorPlaces, OtherUse};
pub use repair::RepairReport;
pub use states::{SideChange, SideStatus};
pub use verdict::SidesRefusal;

use super::change::lock;
use super::{DisksError, UnmarkedFs};
use crate::base::{Clock, Entropy, NOT_POISONED};
use crate::format::{FileKind, Generation, GenerationId, SideId, SideMark, SideState, StoreId};
use crate::fs::{Fs, Lock, MirroredFs, Side, SideUse};
use crate::log::holds_store;
use crate::vault::{EncryptedFs, StoreKey, level_keys, replace_keys, take_newer_keys};
use keeper::{MarkKeeper, Marks, random_id};
use mark::{MarkFile, side_mark_path};
use repair::SideRepairs;
use verdict::{Accepted, OtherSide, plan_start};
use witness::WitnessFile;

/// Whether a directory has the mark of a side.
///
/// # Errors
/// [`DisksError::BadMark`], and those of the disk.
pub(super) fn is_side(disk: &dyn Fs) -> Result<bool, DisksError> {
    Ok(MarkFile::read(disk)?.is_some())
}

/// How a mirror is opened.
pub struct MirrorOptions {
    /// The directories, for messages.
    pub names: [PathBuf; 2],
    /// The disk of each.
    pub disks: [Arc<dyn Fs>; 2],
    /// The directory of the file of the witness, and its name there.
    pub witness: Option<(Arc<dyn Fs>, String)>,
    /// The key of both, where the store is encrypted: each side has salts of its own.
    pub key: Option<StoreKey>,
    /// Start with a side that may be stale.
    pub accepts_degraded: bool,
    /// Start with a side that was told that it is.
    pub accepts_outdated: bool,
    /// The time after which a sync counts as failed.
    pub patience: Duration,
    /// Of the ids of sides and generations.
    pub entropy: Arc<dyn Entropy>,
    /// Of the times of generations.
    pub clock: Arc<dyn Clock>,
}

/// Two directories in use.
pub struct DiskMirror {
    fs: MirroredFs,
    keeper: Arc<MarkKeeper>,
    to_copy: Mutex<SegmentsToCopy>,
    repairs: Mutex<SideRepairs>,
}

/// Segments to copy to the side that is being filled.
#[derive(Default)]
struct SegmentsToCopy {
    /// The id of each, and its bytes.
    left: Vec<(u64, u64)>,
    /// The bytes of all of them when they were listed.
    total_bytes: u64,
}

impl SegmentsToCopy {
    fn left_bytes(&self) -> u64 {
        self.left.iter().map(|(_, bytes)| bytes).sum()
    }

    fn step(&self) -> FillStep {
        FillStep::Copied { left_bytes: self.left_bytes(), total_bytes: self.total_bytes }
    }
}

/// What a step of a filling did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillStep {
    /// No side is being filled.
    Nothing,
    /// The segments to copy were listed, or one was copied.
    Copied {
        /// Bytes of segments that are still to be copied.
        left_bytes: u64,
        /// Those of all that were to be copied.
        total_bytes: u64,
    },
    /// The side is whole.
    Joined,
}

impl DiskMirror {
    /// Opens two directories to write to them: makes them a mirror where there is no store in either;
    /// makes both equal; or goes on with one, and begins to fill the other one.
    ///
    /// # Errors
    /// [`DisksError::Sides`], [`DisksError::Locked`], and those of the disks.
    pub fn open(options: MirrorOptions) -> Result<Self, DisksError> {
        let mut witness = None;
        if let Some((disk, name)) = &options.witness {
            witness = Some(WitnessFile::open(Arc::clone(disk), name)?);
        }
        let unmarked = options
            .disks
            .clone()
            .map(|disk| -> Arc<dyn Fs> { Arc::new(UnmarkedFs { disk, mark: side_mark_path() }) });
        let bare = unmarked.clone().map(|disk| in_the_clear(disk, &options));
        let opening = MirrorOpening { options, unmarked, bare };
        opening.run(witness)
    }

    /// The disk of both.
    pub fn fs(&self) -> Arc<dyn Fs> {
        Arc::new(self.fs.clone())
    }

    /// The state of each side, for operators.
    pub fn statuses(&self) -> [SideStatus; 2] {
        self.keeper.states.statuses()
    }

    /// The changes of the sides since the last call, the oldest first. Where a start cannot use both, that
    /// is a change, too. A bounded number of them is kept.
    pub fn take_changes(&self) -> Vec<SideChange> {
        self.keeper.states.take_changes()
    }

    /// The side on which a file is read that is opened now.
    #[cfg(test)]
    pub(crate) fn home_of(&self, path: &str) -> Side {
        self.fs.home_of(path)
    }

    /// The use of each side.
    pub fn uses(&self) -> [SideUse; 2] {
        Side::BOTH.map(|side| self.fs.use_of(side))
    }

    fn filled(&self) -> Option<Side> {
        Side::BOTH.into_iter().find(|side| self.fs.use_of(*side) == SideUse::Filled)
    }

    /// Lists the segments that the side being filled lacks, copies one of them, or makes that side whole
    /// where nothing is left. `gate` is told the bytes, and may end the copy. One thread at a time calls
    /// this.
    ///
    /// # Errors
    /// Of the disks, and of `gate`: the next call begins with the segment again.
    pub fn fill_step(&self, gate: &mut dyn FnMut(u64) -> io::Result<()>) -> Result<FillStep, DisksError> {
        let Some(side) = self.filled() else { return Ok(FillStep::Nothing) };
        let mut to_copy = self.to_copy.lock().expect(NOT_POISONED);
        let Some((id, _)) = to_copy.left.last().copied() else {
            let left = fill::lacking(&self.fs, side)?;
            if left.is_empty() {
                self.join(side)?;
                return Ok(FillStep::Joined);
            }
            *to_copy = SegmentsToCopy { left, total_bytes: 0 };
            to_copy.total_bytes = to_copy.left_bytes();
            return Ok(to_copy.step());
        };
        fill::copy_segment(&self.fs, side, id, gate)?;
        to_copy.left.pop();
        Ok(to_copy.step())
    }

    /// Writes anew the sealed segments of a side that have bad bytes, with those of the other side.
    ///
    /// # Errors
    /// Of the disks.
    pub fn repair_step(&self) -> Result<RepairReport, DisksError> {
        self.repairs.lock().expect(NOT_POISONED).step(&self.fs)
    }

    /// Files that were written anew since the start.
    pub fn repaired_files(&self) -> u64 {
        self.repairs.lock().expect(NOT_POISONED).files()
    }

    /// Lets the scrub read that side from now on, while it is whole.
    pub fn scrub_from(&self, side: Side) {
        self.fs.read_uncached_from(side);
    }

    /// Makes a side that has all a whole one.
    fn join(&self, side: Side) -> io::Result<()> {
        self.fs.join(|| {
            fill::remove_stale(self.fs.disk_of(side).as_ref())?;
            for dir in ["", "data", "meta"] {
                self.fs.disk_of(side).sync_dir(dir)?;
            }
            // The new one first: a generation counts once all of its members have it.
            self.keeper.begin_generation(&[side, side.other()], u64::MAX)?;
            // Before it can be dropped.
            self.keeper.states.note(side, SideUse::Whole, "");
            Ok(())
        })
    }
}

fn in_the_clear(disk: Arc<dyn Fs>, options: &MirrorOptions) -> Arc<dyn Fs> {
    match &options.key {
        Some(key) => Arc::new(EncryptedFs::new(disk, key.clone(), Arc::clone(&options.entropy))),
        None => disk,
    }
}

/// A side that is locked.
struct TakenSide {
    mark: MarkFile,
    lock: Box<dyn Lock>,
}

/// Two directories that are being opened.
struct MirrorOpening {
    options: MirrorOptions,
    /// The disks without the marks, as they are.
    unmarked: [Arc<dyn Fs>; 2],
    /// The disks without the marks, in the clear.
    bare: [Arc<dyn Fs>; 2],
}

impl MirrorOpening {
    fn run(self, witness: Option<WitnessFile>) -> Result<DiskMirror, DisksError> {
        let mut files = [None, None];
        let mut held = Vec::new();
        let mut silent = None;
        // The mark of a disk that cannot be written to. Nothing there has changed, and nothing will.
        let mut fixed = [None, None];
        for side in Side::BOTH {
            match self.take(side) {
                Ok(Some(taken)) => {
                    files[side.index()] = Some(taken.mark);
                    held.push(taken.lock);
                }
                Ok(None) => {}
                Err(DisksError::Locked) => return Err(DisksError::Locked),
                // The other one may be all that is needed.
                Err(error) => {
                    log::error!("{}: {error}", self.name(side));
                    if matches!(&error, DisksError::Io(io) if io.kind() == io::ErrorKind::ReadOnlyFilesystem)
                    {
                        fixed[side.index()] = MarkFile::read(self.options.disks[side.index()].as_ref())?;
                    }
                    silent = Some(error);
                }
            }
        }
        if silent.is_none() && self.may_be_made(&files) {
            if witness.as_ref().is_some_and(WitnessFile::is_there) {
                return Err(self.refused(SidesRefusal::NoMark));
            }
            // Only a start that was cut off has left a mark, and its lock is taken again with the other one.
            held.clear();
            for disk in &self.options.disks {
                held.push(lock(disk.as_ref())?);
            }
            let marks = self.create(witness)?;
            return Ok(self.mirror(marks, [SideUse::Whole; 2], Side::First, held));
        }
        let found = Side::BOTH.map(|side| {
            let index = side.index();
            files[index].as_ref().map(MarkFile::mark).or(fixed[index].as_ref())
        });
        let Some(mirror) = found.iter().flatten().next().map(|mark| mark.mirror) else {
            return Err(silent.unwrap_or_else(|| self.refused(SidesRefusal::NoMark)));
        };
        let remembered = match &witness {
            Some(witness) => witness.generation(mirror).map_err(|refusal| self.refused(refusal))?,
            None => None,
        };
        let accepted =
            Accepted { degraded: self.options.accepts_degraded, outdated: self.options.accepts_outdated };
        let plan = plan_start(found, remembered, accepted).map_err(|refusal| self.refused(refusal))?;
        let mut source = Side::BOTH[plan.source];
        let mut other = plan.other;
        if fixed[source.other().index()].is_some() {
            // Either has all that was acknowledged, where they are whole in one generation.
            other = OtherSide::Leave;
        }
        if fixed.iter().all(Option::is_some) {
            return Err(self.refused(SidesRefusal::BothReadOnly));
        }
        if fixed[source.index()].is_some() {
            if plan.other != OtherSide::Level {
                return Err(self.refused(SidesRefusal::LaterIsReadOnly(plan.source)));
            }
            source = source.other();
            other = OtherSide::Leave;
        }
        let Some(mark) = found[source.index()] else { return Err(self.refused(SidesRefusal::NoMark)) };
        let generation = mark.generation.clone();
        let is_remembered = remembered == Some(&generation);
        let marks = Marks { mirror, files, witness, generation, may_be_added: false };
        if other == OtherSide::Level {
            let levelled = self.level();
            if let Err(error) = levelled {
                let Some(failed) = self.failed_side() else { return Err(error) };
                // The other one has all that was acknowledged.
                log::error!("{}: {error}", self.name(failed));
                return self.start_alone(marks, failed.other(), OtherSide::Leave, &error.to_string(), held);
            }
            let opened = self.mirror(marks, [SideUse::Whole; 2], source, held);
            if !is_remembered {
                opened.keeper.write_witness()?;
            }
            return Ok(opened);
        }
        let why =
            silent.map_or_else(|| "it was not there at the start".to_owned(), |error| error.to_string());
        self.start_alone(marks, source, other, &why, held)
    }

    fn level(&self) -> Result<(), DisksError> {
        level_keys([self.unmarked[0].as_ref(), self.unmarked[1].as_ref()])?;
        level::level([self.bare[0].as_ref(), self.bare[1].as_ref()])
    }

    /// The side whose disk fails, if it is one of both.
    fn failed_side(&self) -> Option<Side> {
        let fails = |side: &Side| self.bare[side.index()].sync_dir(FileKind::Log.dir()).is_err();
        let failed: Vec<_> = Side::BOTH.into_iter().filter(fails).collect();
        match failed[..] {
            [side] => Some(side),
            _ => None,
        }
    }

    /// Goes on with one side, in a generation of its own. The other one is filled, or is left alone, and
    /// `why`.
    fn start_alone(
        self,
        marks: Marks,
        source: Side,
        other: OtherSide,
        why: &str,
        held: Vec<Box<dyn Lock>>,
    ) -> Result<DiskMirror, DisksError> {
        if self.options.key.is_some() {
            let own = self.unmarked[source.index()].as_ref();
            let newer = take_newer_keys(own, self.unmarked[source.other().index()].as_ref());
            // It is opened by what it has, then.
            newer.unwrap_or_else(|error| log::warn!("{}: {error}", self.name(source.other())));
        }
        let keeper = self.keeper(marks);
        // What is sealed on both is equal: a segment is sealed once all that it has is durable. One that
        // this side goes on with may have a footer on the other one, after bytes that nobody was told of.
        let sealed_below = fill::lowest_unsealed(self.bare[source.index()].as_ref())?;
        keeper.begin_generation(&[source], sealed_below)?;
        let mut uses = [SideUse::Out; 2];
        uses[source.index()] = SideUse::Whole;
        let mut why = why.to_owned();
        if let OtherSide::Fill { sealed_below } = other {
            match self.begin_filling(&keeper, source, sealed_below.unwrap_or(0)) {
                Ok(()) => uses[source.other().index()] = SideUse::Filled,
                Err(error) => {
                    log::error!("{}: {error}: it is not filled", self.name(source.other()));
                    why = format!("it cannot be filled: {error}");
                }
            }
        }
        match uses[source.other().index()] {
            SideUse::Filled => keeper.states.note(source.other(), SideUse::Filled, ""),
            _ => keeper.states.note(source.other(), SideUse::Out, &why),
        }
        log::warn!("the store is in {} alone", self.name(source));
        Ok(self.mirror_of(keeper, uses, source, held))
    }

    fn begin_filling(&self, keeper: &MarkKeeper, source: Side, sealed_below: u64) -> Result<(), DisksError> {
        let side = source.other();
        let from = self.bare[source.index()].as_ref();
        let to = self.bare[side.index()].as_ref();
        log::info!("{} is filled from {}", self.name(side), self.name(source));
        fill::check_log(from)?;
        // By its old generation it is known what is equal, until all else has gone.
        keeper.mark_filling(side, false)?;
        fill::keep_equal(from, to, sealed_below)?;
        keeper.mark_filling(side, true)?;
        replace_keys(self.unmarked[source.index()].as_ref(), self.unmarked[side.index()].as_ref())?;
        fill::copy_unsealed(from, to)
    }

    /// Whether neither directory has any file of a store, or more than the mark of a start that was cut
    /// off between the two marks.
    fn may_be_made(&self, files: &[Option<MarkFile>; 2]) -> bool {
        let marks: Vec<_> = files.iter().flatten().map(MarkFile::mark).collect();
        let was_cut_off = match marks[..] {
            [] => true,
            [mark] => mark.is_first(),
            _ => false,
        };
        was_cut_off && self.bare.iter().all(|disk| matches!(holds_store(disk.as_ref()), Ok(false)))
    }

    /// Makes a mirror of two directories without a store.
    fn create(&self, witness: Option<WitnessFile>) -> Result<Marks, DisksError> {
        let entropy = self.options.entropy.as_ref();
        let now = self.options.clock.now();
        let mirror = StoreId(random_id(entropy));
        let ids = [SideId(random_id(entropy)), SideId(random_id(entropy))];
        let generation = Generation::first(GenerationId(random_id(entropy)), ids.to_vec(), now);
        let mut files = [None, None];
        for side in Side::BOTH {
            let mark = SideMark {
                mirror,
                side: ids[side.index()],
                number: 1,
                state: SideState::Whole,
                generation: generation.clone(),
            };
            let disk = self.options.disks[side.index()].as_ref();
            files[side.index()] = Some(MarkFile::create(disk, mark, now)?);
        }
        let mut marks = Marks { mirror, files, witness, generation, may_be_added: false };
        marks.write_witness(now)?;
        Ok(marks)
    }

    /// Locks a directory that is a side, and opens its mark; `None` where it has none.
    ///
    /// # Errors
    /// [`DisksError::Locked`]; [`DisksError::BadMark`], and those of the disk: it is not used then.
    fn take(&self, side: Side) -> Result<Option<TakenSide>, DisksError> {
        let disk = &self.options.disks[side.index()];
        if MarkFile::read(disk.as_ref())?.is_none() {
            return Ok(None);
        }
        let lock = lock(disk.as_ref())?;
        Ok(MarkFile::open(disk.as_ref())?.map(|mark| TakenSide { mark, lock }))
    }

    fn keeper(&self, marks: Marks) -> MarkKeeper {
        MarkKeeper::new(marks, Arc::clone(&self.options.entropy), Arc::clone(&self.options.clock))
    }

    fn mirror(self, marks: Marks, uses: [SideUse; 2], source: Side, held: Vec<Box<dyn Lock>>) -> DiskMirror {
        let keeper = self.keeper(marks);
        self.mirror_of(keeper, uses, source, held)
    }

    fn mirror_of(
        self,
        keeper: MarkKeeper,
        uses: [SideUse; 2],
        source: Side,
        held: Vec<Box<dyn Lock>>,
    ) -> DiskMirror {
        let keeper = Arc::new(keeper);
        let as_keeper: Arc<dyn crate::fs::SideKeeper> = keeper.clone();
        let fs = MirroredFs::new(self.bare, uses, source, as_keeper, self.options.patience, held);
        DiskMirror { fs, keeper, to_copy: Mutex::default(), repairs: Mutex::default() }
    }

    fn name(&self, side: Side) -> std::path::Display<'_> {
        self.options.names[side.index()].display()
    }

    fn refused(&self, refusal: SidesRefusal) -> DisksError {
        DisksError::Sides { sides: self.options.names.clone(), refusal }
    }
}
