//! Files and directories as the disk and the page cache hold them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use super::cell::SimCell;
use super::crash::Survivors;

/// The size of an atomic write.
pub(super) const SECTOR_BYTES: u64 = 512;

/// The unit of deallocation.
const PAGE_BYTES: u64 = 4096;

/// Shared between the disks before and after a crash.
type Sector = Arc<[u8]>;

/// The bytes of one file. A missing sector holds zeros.
#[derive(Debug, Clone)]
pub(super) struct FileImage {
    sectors: BTreeMap<u64, SimCell<Sector>>,
    /// The sectors that a crash may change.
    in_doubt: BTreeSet<u64>,
    len: SimCell<u64>,
    /// The end of the allocated space.
    room: SimCell<u64>,
    /// Deallocated pages before that end.
    holes: BTreeSet<u64>,
}

impl FileImage {
    pub(super) fn new() -> Self {
        Self {
            sectors: BTreeMap::new(),
            in_doubt: BTreeSet::new(),
            len: SimCell::new(0),
            room: SimCell::new(0),
            holes: BTreeSet::new(),
        }
    }

    pub(super) fn len(&self) -> u64 {
        *self.len.current()
    }

    pub(super) fn room(&self) -> u64 {
        *self.room.current()
    }

    /// The allocated bytes.
    pub(super) fn allocated(&self) -> u64 {
        self.room() - self.holes.len() as u64 * PAGE_BYTES
    }

    /// Fills `buf` from `offset` on; the range must be inside the file.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) {
        buf.fill(0);
        let end = offset + buf.len() as u64;
        for (&number, cell) in self.sectors.range(offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES)) {
            let start = number * SECTOR_BYTES;
            let from = start.max(offset);
            let to = (start + SECTOR_BYTES).min(end);
            let part = &cell.current()[(from - start) as usize..(to - start) as usize];
            buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len() as usize];
        self.read(&mut bytes, 0);
        bytes
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64, at: u64) {
        let end = offset + bytes.len() as u64;
        let mut done = 0;
        while done < bytes.len() {
            let position = offset + done as u64;
            let within = (position % SECTOR_BYTES) as usize;
            let part = (SECTOR_BYTES as usize - within).min(bytes.len() - done);
            self.write_sector(position / SECTOR_BYTES, within, &bytes[done..done + part], at);
            done += part;
        }
        if end > self.len() {
            self.len.write(at, end);
        }
        self.holes.retain(|page| !(offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).contains(page));
        self.reserve(end, at);
    }

    fn write_sector(&mut self, number: u64, within: usize, bytes: &[u8], at: u64) {
        let cell = self.sectors.entry(number).or_insert_with(|| SimCell::new(zeros()));
        let sector = if bytes.len() == SECTOR_BYTES as usize {
            if *bytes == *zeros() { zeros() } else { bytes.into() }
        } else {
            let mut sector = cell.current().clone();
            Arc::make_mut(&mut sector)[within..within + bytes.len()].copy_from_slice(bytes);
            sector
        };
        cell.write(at, sector);
        self.in_doubt.insert(number);
    }

    /// Allocates space up to `end`.
    pub(super) fn reserve(&mut self, end: u64, at: u64) {
        if end > self.room() {
            self.room.write(at, end);
        }
    }

    /// Shortens the file to at most `end` bytes and frees the space after it.
    pub(super) fn truncate(&mut self, end: u64, at: u64) {
        let old = self.len();
        let end = end.min(self.len());
        self.zero(end, old, at);
        self.holes.retain(|page| *page < end / PAGE_BYTES);
        if end < old {
            self.len.write(at, end);
        }
        if self.room() > end {
            self.room.write(at, end);
        }
    }

    /// Deallocates whole pages inside the file, which then read as zeros.
    pub(super) fn punch(&mut self, offset: u64, len: u64, at: u64) {
        let end = (offset + len).min(self.len()).max(offset);
        self.zero(offset, end, at);
        self.holes.extend(offset.div_ceil(PAGE_BYTES)..end / PAGE_BYTES);
    }

    /// The first hole in a range.
    pub(super) fn next_hole(&self, range: Range<u64>) -> Option<Range<u64>> {
        let first = *self.holes.range(range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)).next()?;
        let pages = (first..).take_while(|page| self.holes.contains(page)).count() as u64;
        let hole = first * PAGE_BYTES..(first + pages) * PAGE_BYTES;
        Some(hole.start.max(range.start)..hole.end.min(range.end))
    }

    fn zero(&mut self, offset: u64, end: u64, at: u64) {
        let sectors = self.sectors.range(offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
        let sectors: Vec<u64> = sectors.map(|(number, _)| *number).collect();
        for number in sectors {
            let start = number * SECTOR_BYTES;
            let from = start.max(offset);
            let to = (start + SECTOR_BYTES).min(end);
            self.write_sector(number, (from - start) as usize, &vec![0; (to - from) as usize], at);
        }
    }

    /// Applies a successful sync of the writes up to `mark`.
    pub(super) fn confirm(&mut self, mark: u64) {
        self.len.confirm(mark);
        self.room.confirm(mark);
        self.each_in_doubt(|cell| cell.confirm(mark));
    }

    /// Applies a failed sync of the writes up to `mark`: they are not durable, whatever follows.
    pub(super) fn mark_lost(&mut self, mark: u64) {
        self.len.mark_lost(mark);
        self.room.mark_lost(mark);
        self.each_in_doubt(|cell| cell.mark_lost(mark));
    }

    /// Whether a crash may change it.
    pub(super) fn is_in_doubt(&self) -> bool {
        !(self.in_doubt.is_empty() && self.len.is_durable() && self.room.is_durable())
    }

    /// Drops the writes that a failed sync lost, so that readers see the disk.
    pub(super) fn evict(&mut self) {
        self.len.evict();
        self.room.evict();
        self.each_in_doubt(SimCell::evict);
    }

    fn each_in_doubt(&mut self, change: impl Fn(&mut SimCell<Sector>)) {
        let sectors = &mut self.sectors;
        self.in_doubt.retain(|number| {
            let cell = sectors.get_mut(number).expect("a sector in doubt has been written");
            change(cell);
            !cell.is_durable()
        });
    }

    /// The same file with its current content durable, cut to `len` bytes.
    pub(super) fn flushed(&self, len: u64) -> Self {
        let sectors = self.sectors.iter().map(|(&number, cell)| (number, cell.current().clone()));
        Self::durable(sectors, len.min(self.len()), self.room().min(len), &self.holes)
    }

    /// The file after a reboot. One that a crash does not change is shared.
    pub(super) fn after_crash(this: &Arc<Self>, survivors: &mut Survivors) -> Arc<Self> {
        let mut times: Vec<u64> = this
            .in_doubt
            .iter()
            .flat_map(|number| this.sectors[number].times())
            .chain(this.len.times())
            .collect();
        times.sort_unstable();
        times.dedup();
        survivors.choose_fate(&times);
        if !this.is_in_doubt() {
            return Arc::clone(this);
        }
        Arc::new(this.changed_by_crash(survivors))
    }

    fn changed_by_crash(&self, survivors: &mut Survivors) -> Self {
        let told = self.len.after_crash(survivors);
        let len = survivors.length(*self.len.durable(), told);
        let room = self.room.after_crash(survivors);
        let sectors = self.sectors.iter().map(|(&n, cell)| (n, cell.after_crash(survivors)));
        Self::durable(sectors, len, room, &self.holes)
    }

    /// A deallocated page is still a hole if it holds only zeros.
    fn durable(
        sectors: impl Iterator<Item = (u64, Sector)>,
        len: u64,
        room: u64,
        given_back: &BTreeSet<u64>,
    ) -> Self {
        let mut durable = BTreeMap::new();
        for (number, mut sector) in sectors.take_while(|(number, _)| number * SECTOR_BYTES < len) {
            let end = (len - number * SECTOR_BYTES).min(SECTOR_BYTES) as usize;
            if end < sector.len() {
                Arc::make_mut(&mut sector)[end..].fill(0);
            }
            durable.insert(number, SimCell::new(sector));
        }
        let per_page = PAGE_BYTES / SECTOR_BYTES;
        let mut holes = given_back.clone();
        holes.retain(|page| {
            let mut within = durable.range(page * per_page..(page + 1) * per_page);
            (page + 1) * PAGE_BYTES <= len
                && within.all(|(_, cell)| cell.current().iter().all(|byte| *byte == 0))
        });
        Self {
            sectors: durable,
            in_doubt: BTreeSet::new(),
            len: SimCell::new(len),
            room: SimCell::new(room.max(len)),
            holes,
        }
    }
}

/// The sector of all places with zeros.
fn zeros() -> Sector {
    static ZEROS: LazyLock<Sector> = LazyLock::new(|| Arc::new([0; SECTOR_BYTES as usize]));
    Arc::clone(&ZEROS)
}

/// The identity of a file, independent of its names.
pub(super) type FileId = u64;

/// The changes of one operation to the names of a directory, which are atomic on disk.
#[derive(Debug, Clone)]
struct NameChange {
    at: u64,
    names: Vec<(String, Option<FileId>)>,
    /// A failed sync marked it clean: no later sync covers it.
    lost: bool,
}

/// The names of one directory.
#[derive(Debug, Clone, Default)]
pub(super) struct Directory {
    durable: BTreeMap<String, FileId>,
    current: BTreeMap<String, FileId>,
    /// Oldest first.
    steps: Vec<NameChange>,
}

impl Directory {
    pub(super) fn of(names: BTreeMap<String, FileId>) -> Self {
        Self { durable: names.clone(), current: names, steps: Vec::new() }
    }

    pub(super) fn names(&self) -> &BTreeMap<String, FileId> {
        &self.current
    }

    /// The files that have a name, or may have one after a crash.
    pub(super) fn files(&self) -> impl Iterator<Item = FileId> {
        let told = self.steps.iter().flat_map(|step| step.names.iter().filter_map(|(_, id)| *id));
        self.durable.values().chain(self.current.values()).copied().chain(told)
    }

    /// Adds and removes names in one step.
    pub(super) fn change(&mut self, names: Vec<(String, Option<FileId>)>, at: u64) {
        apply(&mut self.current, &names);
        self.steps.push(NameChange { at, names, lost: false });
    }

    /// Applies a successful sync of the changes up to `mark`. It overrides lost changes of the same
    /// names.
    pub(super) fn confirm(&mut self, mark: u64) {
        let (done, mut rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.steps).into_iter().partition(|step| step.at <= mark && !step.lost);
        for step in done {
            for earlier in rest.iter_mut().filter(|other| other.at < step.at) {
                earlier.names.retain(|(name, _)| step.names.iter().all(|(other, _)| other != name));
            }
            apply(&mut self.durable, &step.names);
        }
        self.steps = rest;
    }

    /// Applies a failed sync of the changes up to `mark`.
    pub(super) fn mark_lost(&mut self, mark: u64) {
        for step in self.steps.iter_mut().filter(|step| step.at <= mark) {
            step.lost = true;
        }
    }

    /// The names after a reboot.
    pub(super) fn after_crash(&self, survivors: &mut Survivors) -> BTreeMap<String, FileId> {
        let times: Vec<u64> = self.steps.iter().map(|step| step.at).collect();
        survivors.choose_fate(&times);
        let mut names = self.durable.clone();
        for step in &self.steps {
            if survivors.kept(step.at) {
                apply(&mut names, &step.names);
            }
        }
        names
    }
}

fn apply(names: &mut BTreeMap<String, FileId>, changes: &[(String, Option<FileId>)]) {
    for (name, id) in changes {
        match id {
            Some(id) => drop(names.insert(name.clone(), *id)),
            None => drop(names.remove(name)),
        }
    }
}
