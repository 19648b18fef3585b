//! Which of the two disks are in use, and what the results of one operation on both amount to.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;

use super::read_watch::ReadWatch;
use super::workers::{Job, Workers};
use crate::base::NOT_POISONED;
use crate::fs::{File, Fs};

/// Bad bytes that are listed until they are taken.
const BAD_BYTES_MAX: usize = 1_000;

/// One of two disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that is named first.
    First,
    /// The one that is named second.
    Second,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::First, Self::Second];

    /// 0 or 1.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    /// The letter of it in `--mirror A=B`.
    pub fn letter(self) -> char {
        match self {
            Self::First => 'A',
            Self::Second => 'B',
        }
    }
}

/// The use of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideUse {
    /// It holds all, and is read and written.
    Whole,
    /// It is written in step, as far as it has the files, and gets the others meanwhile.
    Filled,
    /// It is neither read nor written.
    Out,
}

impl SideUse {
    const ALL: [Self; 3] = [Self::Whole, Self::Filled, Self::Out];
}

/// Notes what becomes of the sides.
pub trait SideKeeper: Send + Sync {
    /// Notes durably on the other side that `dropped` is not written any more. On `dropped`, the files
    /// `dirty` may lack what was written last.
    ///
    /// # Errors
    /// Of the disk: nothing may be answered any more.
    fn drop_side(&self, dropped: Side, dirty: &[String], why: &io::Error) -> io::Result<()>;
}

/// Bytes of one side that are bad, where those of the other one are good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadBytes {
    /// The side.
    pub side: Side,
    /// The file.
    pub path: String,
    /// Where in it.
    pub offset: u64,
    /// How many.
    pub len: u64,
    /// The CRC-32 of the good ones; `None` where nobody has verified them.
    pub good_crc: Option<u32>,
    /// What is wrong with the bad ones.
    pub what: String,
}

/// An open file of both disks.
pub(super) trait OpenOnSides: Send + Sync {
    fn path(&self) -> String;

    /// Notes that the file has another name now.
    fn set_path(&self, path: &str);

    /// Opens the file anew on a side, if it is open there: another file has its name now.
    ///
    /// # Errors
    /// Of the disk.
    fn reopen(&self, side: Side) -> io::Result<()>;
}

/// The state of both disks.
pub(super) struct Sides {
    disks: [Arc<dyn Fs>; 2],
    uses: [AtomicU8; 2],
    source: AtomicU8,
    uncached_source: AtomicU8,
    reads: [ReadWatch; 2],
    keeper: Arc<dyn SideKeeper>,
    patience: Duration,
    workers: Workers,
    /// The sides of which a sync has failed. The system tells a failure to one of those who sync, and the
    /// others must not answer before the side is dropped.
    failing: Arc<[AtomicBool; 2]>,
    /// One side is dropped at a time: two threads that drop one each would leave none.
    dropping: Mutex<()>,
    /// Held for reading by each change, so that a side joins between two of them.
    step: RwLock<()>,
    /// Held for writing by those who change names, for reading by those who open files.
    pub(super) names: RwLock<()>,
    /// Files with bytes that no sync has covered.
    dirty: Mutex<BTreeSet<String>>,
    open: Mutex<Vec<Weak<dyn OpenOnSides>>>,
    bad: Mutex<Vec<BadBytes>>,
}

impl Sides {
    pub(super) fn new(
        disks: [Arc<dyn Fs>; 2],
        uses: [SideUse; 2],
        source: Side,
        keeper: Arc<dyn SideKeeper>,
        patience: Duration,
    ) -> Self {
        Self {
            disks,
            uses: uses.map(|used| AtomicU8::new(used as u8)),
            source: AtomicU8::new(source as u8),
            uncached_source: AtomicU8::new(source as u8),
            reads: [ReadWatch::new(), ReadWatch::new()],
            keeper,
            patience,
            workers: Workers::new(),
            failing: Arc::default(),
            dropping: Mutex::default(),
            step: RwLock::default(),
            names: RwLock::default(),
            dirty: Mutex::default(),
            open: Mutex::default(),
            bad: Mutex::default(),
        }
    }

    pub(super) fn disk(&self, side: Side) -> &Arc<dyn Fs> {
        &self.disks[side.index()]
    }

    pub(super) fn use_of(&self, side: Side) -> SideUse {
        SideUse::ALL[usize::from(self.uses[side.index()].load(Ordering::Acquire))]
    }

    fn set_use(&self, side: Side, used: SideUse) {
        self.uses[side.index()].store(used as u8, Ordering::Release);
    }

    pub(super) fn source(&self) -> Side {
        Side::BOTH[usize::from(self.source.load(Ordering::Acquire))]
    }

    /// The side on which a file is read.
    pub(super) fn home_of(&self, path: &str) -> Side {
        let home = Side::BOTH[usize::from(path.bytes().fold(0, |sum, byte| sum ^ byte) % 2)];
        if self.use_of(home) == SideUse::Whole { home } else { self.source() }
    }

    /// The reads under way on a side.
    pub(super) fn reads_on(&self, side: Side) -> &ReadWatch {
        &self.reads[side.index()]
    }

    /// The side to ask in place of `home`: the other one while that does not answer.
    pub(super) fn to_ask(&self, home: Side) -> Side {
        let other = home.other();
        let is_stuck = self.reads_on(home).is_slow() && self.use_of(other) == SideUse::Whole;
        if is_stuck && !self.reads_on(other).is_slow() { other } else { home }
    }

    /// The side that uncached reads are of.
    pub(super) fn uncached_source(&self) -> Side {
        let wanted = Side::BOTH[usize::from(self.uncached_source.load(Ordering::Acquire))];
        if self.use_of(wanted) == SideUse::Whole { wanted } else { self.source() }
    }

    pub(super) fn read_uncached_from(&self, side: Side) {
        self.uncached_source.store(side as u8, Ordering::Release);
    }

    /// Lets no side join until the guard is dropped.
    pub(super) fn in_step(&self) -> RwLockReadGuard<'_, ()> {
        self.step.read().expect(NOT_POISONED)
    }

    pub(super) fn register<F: OpenOnSides + File + 'static>(&self, file: Arc<F>) -> Arc<dyn File> {
        let mut open = self.open.lock().expect(NOT_POISONED);
        if open.len() == open.capacity() {
            open.retain(|file| file.strong_count() > 0);
            let more = open.len().max(64);
            open.reserve(more);
        }
        let weak: Weak<F> = Arc::downgrade(&file);
        open.push(weak);
        file
    }

    fn open_files(&self, path: &str) -> Vec<Arc<dyn OpenOnSides>> {
        let open = self.open.lock().expect(NOT_POISONED);
        open.iter().filter_map(Weak::upgrade).filter(|file| file.path() == path).collect()
    }

    pub(super) fn reopen(&self, side: Side, path: &str) -> io::Result<()> {
        for file in self.open_files(path) {
            file.reopen(side)?;
        }
        Ok(())
    }

    /// Notes that a file has another name.
    pub(super) fn note_renamed(&self, from: &str, to: &str) {
        for file in self.open_files(from) {
            file.set_path(to);
        }
        let mut dirty = self.dirty.lock().expect(NOT_POISONED);
        if dirty.remove(from) {
            dirty.insert(to.to_owned());
        }
    }

    pub(super) fn note_dirty(&self, path: &str) {
        self.dirty.lock().expect(NOT_POISONED).insert(path.to_owned());
    }

    /// Notes that a sync has covered what was written to a file, unless it `is_dirty` again.
    pub(super) fn note_clean(&self, path: &str, is_dirty: impl Fn() -> bool) {
        let mut dirty = self.dirty.lock().expect(NOT_POISONED);
        if !is_dirty() {
            dirty.remove(path);
        }
    }

    pub(super) fn note_bad(&self, bad: BadBytes) {
        let mut listed = self.bad.lock().expect(NOT_POISONED);
        let is_listed = listed.iter().any(|known| {
            known.side == bad.side
                && known.path == bad.path
                && known.offset == bad.offset
                && known.len == bad.len
        });
        if !is_listed && listed.len() < BAD_BYTES_MAX {
            listed.push(bad);
        }
    }

    pub(super) fn take_bad_bytes(&self) -> Vec<BadBytes> {
        std::mem::take(&mut *self.bad.lock().expect(NOT_POISONED))
    }

    /// Does the same on each side in use.
    pub(super) fn on_each<T>(&self, act: impl Fn(Side) -> io::Result<T>) -> BothResults<T> {
        BothResults { results: Side::BOTH.map(|side| (self.use_of(side) != SideUse::Out).then(|| act(side))) }
    }

    /// As [`Sides::on_each`], at the same time, and no longer than the patience lasts.
    pub(super) fn on_each_at_once(&self, job_of: impl Fn(Side) -> Job) -> BothResults<()> {
        if Side::BOTH.into_iter().any(|side| self.use_of(side) == SideUse::Out) {
            return self.on_each(|side| job_of(side)());
        }
        let started = Side::BOTH.map(|side| {
            let job = job_of(side);
            let failing = Arc::clone(&self.failing);
            self.workers.start(Box::new(move || {
                let result = job();
                if result.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::ResourceBusy) {
                    failing[side.index()].store(true, Ordering::SeqCst);
                }
                result
            }))
        });
        let [first, second] = started.map(|awaited| Some(awaited.wait(self.patience)));
        BothResults { results: [first, second] }
    }

    /// Waits until the sides that fail are dropped, before something is answered that another thread
    /// may have learnt not to be durable.
    ///
    /// # Errors
    /// They cannot be dropped.
    fn check_failing(&self) -> io::Result<()> {
        for side in Side::BOTH {
            if self.failing[side.index()].load(Ordering::SeqCst) && self.use_of(side) != SideUse::Out {
                self.drop_side(side, &io::Error::other("a sync of it failed"))?;
            }
        }
        Ok(())
    }

    /// Reads from the source, and from the other side where that fails.
    pub(super) fn read_from_either<T>(&self, read: impl Fn(Side) -> io::Result<T>) -> io::Result<T> {
        let source = self.source();
        match read(source) {
            Err(error) if self.use_of(source.other()) == SideUse::Whole => {
                read(source.other()).map_err(|_| error)
            }
            result => result,
        }
    }

    /// Drops a side that failed. Nothing to do where it is out already.
    ///
    /// # Errors
    /// It is the last one, or the drop cannot be noted.
    pub(super) fn drop_side(&self, side: Side, why: &io::Error) -> io::Result<()> {
        let _alone = self.dropping.lock().expect(NOT_POISONED);
        let other = side.other();
        if self.use_of(side) == SideUse::Out {
            return Ok(());
        }
        if self.use_of(other) != SideUse::Whole {
            // The last one.
            return Err(io::Error::new(why.kind(), why.to_string()));
        }
        let dirty: Vec<String> = self.dirty.lock().expect(NOT_POISONED).iter().cloned().collect();
        self.keeper.drop_side(side, &dirty, why)?;
        self.source.store(other as u8, Ordering::Release);
        self.set_use(side, SideUse::Out);
        Ok(())
    }

    /// Calls `change` between two steps, and uses the filled side as a whole one after it.
    pub(super) fn join(&self, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _between = self.step.write().expect(NOT_POISONED);
        let Some(filled) = Side::BOTH.into_iter().find(|side| self.use_of(*side) == SideUse::Filled) else {
            return Err(io::Error::other("the side was dropped meanwhile"));
        };
        match change() {
            Ok(()) => {
                self.set_use(filled, SideUse::Whole);
                Ok(())
            }
            Err(error) => {
                self.drop_side(filled, &error)?;
                Err(error)
            }
        }
    }
}

/// Whether the error says nothing against the disk: nothing was changed, or what was changed is
/// written over later.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::ResourceBusy
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::WouldBlock
    )
}

fn of_kind(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

/// What one operation came to on each side in use.
pub(super) struct BothResults<T> {
    results: [Option<io::Result<T>>; 2],
}

impl<T> BothResults<T> {
    /// The sides where it succeeded.
    pub(super) fn successes(&self) -> impl Iterator<Item = Side> {
        Side::BOTH.into_iter().filter(|side| matches!(self.results[side.index()], Some(Ok(_))))
    }

    /// The error that both are to have, though one succeeded: it is none of the disk.
    pub(super) fn refusal(&self) -> Option<io::Error> {
        let errors = self.results.iter().flatten().filter_map(|result| result.as_ref().err());
        errors.into_iter().find(|error| is_refusal(error)).map(of_kind)
    }

    /// The side that is being filled and lacks the file yet.
    pub(super) fn lacking(&self, sides: &Sides) -> Option<Side> {
        Side::BOTH.into_iter().find(|side| {
            let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            sides.use_of(*side) == SideUse::Filled
                && self.results[side.index()].as_ref().is_some_and(|r| r.as_ref().is_err_and(is_missing))
        })
    }

    pub(super) fn set(&mut self, side: Side, result: io::Result<T>) {
        self.results[side.index()] = Some(result);
    }

    /// Takes an error of a kind on one side for `value`. Returns the text of that error.
    pub(super) fn forgive(&mut self, side: Side, kind: io::ErrorKind, value: T) -> Option<String> {
        let result = self.results[side.index()].as_ref()?;
        let forgiven = result.as_ref().err().filter(|error| error.kind() == kind)?.to_string();
        self.results[side.index()] = Some(Ok(value));
        Some(forgiven)
    }

    /// The result of an operation whose refusals leave nothing behind: a side that failed alone is
    /// dropped.
    ///
    /// # Errors
    /// A refusal of either side; the error of the source, where both failed; where a side cannot be
    /// dropped.
    pub(super) fn settle(self, sides: &Sides) -> io::Result<T> {
        let Some(refusal) = self.refusal() else { return self.settle_or_drop(sides) };
        for (side, result) in Side::BOTH.into_iter().zip(self.results) {
            // The other one has refused, and the disk of this one has failed.
            if let Some(Err(error)) = result
                && !is_refusal(&error)
            {
                sides.drop_side(side, &error)?;
            }
        }
        Err(refusal)
    }

    /// The result of a sync: as [`BothResults::settle_or_drop`], but that a lack of descriptors is the
    /// fault of no side.
    ///
    /// # Errors
    /// As of [`BothResults::settle`].
    pub(super) fn settle_sync(self, sides: &Sides) -> io::Result<T> {
        let errors = self.results.iter().flatten().filter_map(|result| result.as_ref().err());
        let busy = errors.into_iter().find(|error| error.kind() == io::ErrorKind::ResourceBusy).map(of_kind);
        if let Some(busy) = busy {
            return Err(busy);
        }
        let settled = self.settle_or_drop(sides)?;
        sides.check_failing()?;
        Ok(settled)
    }

    /// As [`BothResults::settle`]; a side that refused alone is dropped, too, since what it lacks cannot
    /// be undone on the other one.
    ///
    /// # Errors
    /// As of [`BothResults::settle`].
    pub(super) fn settle_or_drop(self, sides: &Sides) -> io::Result<T> {
        let [first, second] = self.results;
        let source = sides.source();
        match (first, second) {
            (Some(Ok(first)), Some(Ok(second))) => Ok(if source == Side::First { first } else { second }),
            (Some(Ok(value)), Some(Err(error))) => sides.drop_side(Side::Second, &error).map(|()| value),
            (Some(Err(error)), Some(Ok(value))) => sides.drop_side(Side::First, &error).map(|()| value),
            (Some(Err(first)), Some(Err(second))) => Err(if source == Side::First { first } else { second }),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => Err(io::Error::other("no side is in use")),
        }
    }

    /// The values of the sides that succeeded.
    ///
    /// # Errors
    /// As of [`BothResults::settle`].
    pub(super) fn into_values(self, sides: &Sides) -> io::Result<Vec<T>> {
        let mut values = Vec::new();
        let mut outcome = BothResults { results: [None, None] };
        for (side, result) in Side::BOTH.into_iter().zip(self.results) {
            outcome.results[side.index()] = result.map(|result| result.map(|value| values.push(value)));
        }
        outcome.settle(sides)?;
        Ok(values)
    }
}

impl BothResults<Arc<dyn File>> {
    /// The file on the sides where it could be opened. A side where it could not is dropped once the file
    /// is written to: reads do without it.
    ///
    /// # Errors
    /// A lack of descriptors; it could be opened nowhere.
    pub(super) fn into_opened(self) -> io::Result<[Option<Arc<dyn File>>; 2]> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        let mut files = [None, None];
        let mut missing = None;
        for (side, result) in Side::BOTH.into_iter().zip(self.results) {
            match result {
                Some(Ok(file)) => files[side.index()] = Some(file),
                Some(Err(error)) => missing = missing.or(Some(error)),
                None => {}
            }
        }
        match missing {
            Some(error) if files.iter().all(Option::is_none) => Err(error),
            _ => Ok(files),
        }
    }

    /// The new file of each side.
    ///
    /// # Errors
    /// As of [`BothResults::settle`].
    pub(super) fn into_files(self, sides: &Sides) -> io::Result<[Option<Arc<dyn File>>; 2]> {
        let mut files = [None, None];
        let mut outcome = BothResults { results: [None, None] };
        for (side, result) in Side::BOTH.into_iter().zip(self.results) {
            outcome.results[side.index()] =
                result.map(|result| result.map(|file| files[side.index()] = Some(file)));
        }
        outcome.settle_or_drop(sides)?;
        Ok(files)
    }
}
