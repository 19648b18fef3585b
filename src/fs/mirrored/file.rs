//! An open file of both disks.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use super::sides::{BadBytes, BothResults, OpenOnSides, Side, SideUse, Sides};
use super::workers::Job;
use crate::base::NOT_POISONED;
use crate::base::digest::Crc32;
use crate::fs::{BytesElsewhere, File, FileUsage, Fs, ReadAhead, VerifiedCopy, is_there};

/// Copies that were read and of which nobody has said yet whether they are good.
const COPIES_MAX: usize = 64;

pub(super) struct MirroredFile {
    sides: Arc<Sides>,
    path: RwLock<String>,
    is_writable: bool,
    files: [RwLock<Option<Arc<dyn File>>>; 2],
    /// The side where the file is read while that is whole and answers.
    home: Side,
    /// Whether it is read on the other side while the home does not answer.
    is_steered: bool,
    is_dirty: AtomicBool,
    /// Copies by their place, until they are found to be good.
    copies: Mutex<BTreeMap<u64, ReadCopy>>,
}

/// Bytes that were read in the place of others.
#[derive(Clone, Copy)]
struct ReadCopy {
    /// The side that they are of.
    side: Side,
    crc: u32,
}

impl MirroredFile {
    pub(super) fn new(
        sides: &Arc<Sides>,
        path: &str,
        is_writable: bool,
        files: [Option<Arc<dyn File>>; 2],
    ) -> Self {
        let home = sides.home_of(path);
        let home = if files[home.index()].is_some() { home } else { home.other() };
        Self {
            sides: Arc::clone(sides),
            path: RwLock::new(path.to_owned()),
            is_writable,
            files: files.map(RwLock::new),
            home,
            is_steered: true,
            is_dirty: AtomicBool::new(false),
            copies: Mutex::default(),
        }
    }

    /// The same, read on one side as long as that is whole: what is asked is whether that has good bytes.
    pub(super) fn on_one_side(self) -> Self {
        Self { is_steered: false, ..self }
    }

    fn on(&self, side: Side) -> Option<Arc<dyn File>> {
        self.files[side.index()].read().expect(NOT_POISONED).clone()
    }

    fn open_on(&self, side: Side) -> io::Result<Arc<dyn File>> {
        let disk: &dyn Fs = self.sides.disk(side).as_ref();
        let path = self.path();
        if self.is_writable { disk.open(&path) } else { disk.open_read(&path) }
    }

    /// The file on a side that is whole, to be read; it is opened there if need be.
    fn to_read(&self, side: Side) -> io::Result<Arc<dyn File>> {
        if let Some(file) = self.on(side) {
            return Ok(file);
        }
        let opened = self.open_on(side)?;
        let mut file = self.files[side.index()].write().expect(NOT_POISONED);
        Ok(Arc::clone(file.get_or_insert(opened)))
    }

    /// The side that reads are of.
    fn first_to_read(&self) -> Side {
        let home =
            if self.sides.use_of(self.home) == SideUse::Whole { self.home } else { self.sides.source() };
        if self.is_steered { self.sides.to_ask(home) } else { home }
    }

    /// Asks the side that reads are of, and the other one where that fails.
    fn ask<T>(&self, ask: impl Fn(&dyn File) -> io::Result<T>) -> io::Result<T> {
        let first = self.first_to_read();
        let asked = {
            let _read = self.sides.reads_on(first).begin();
            self.to_read(first).and_then(|file| ask(file.as_ref()))
        };
        match asked {
            Err(error) if self.sides.use_of(first.other()) == SideUse::Whole => {
                self.to_read(first.other()).and_then(|file| ask(file.as_ref())).map_err(|_| error)
            }
            asked => asked,
        }
    }

    /// The file on a side, to be changed; `None` where a side that is being filled lacks it yet, and where
    /// the file has no name on either side any more.
    fn to_change(&self, side: Side) -> io::Result<Option<Arc<dyn File>>> {
        if let Some(file) = self.on(side) {
            return Ok(Some(file));
        }
        match self.to_read(side) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let is_filled = self.sides.use_of(side) == SideUse::Filled;
                let is_there = is_there(self.sides.disk(side.other()).as_ref(), &self.path());
                if is_filled || matches!(is_there, Ok(false)) { Ok(None) } else { Err(error) }
            }
            opened => opened.map(Some),
        }
    }

    /// Makes a change on each side in use.
    fn change<T: Default>(&self, change: impl Fn(&dyn File) -> io::Result<T>) -> BothResults<T> {
        self.sides.on_each(|side| match self.to_change(side)? {
            Some(file) => change(file.as_ref()),
            None => Ok(T::default()),
        })
    }

    fn write(&self, write: impl Fn(&dyn File) -> io::Result<()>) -> io::Result<()> {
        let _in_step = self.sides.in_step();
        if !self.is_dirty.swap(true, Ordering::AcqRel) {
            self.sides.note_dirty(&self.path());
        }
        self.change(write).settle(&self.sides)
    }
}

impl OpenOnSides for MirroredFile {
    fn path(&self) -> String {
        self.path.read().expect(NOT_POISONED).clone()
    }

    fn set_path(&self, path: &str) {
        path.clone_into(&mut self.path.write().expect(NOT_POISONED));
    }

    fn reopen(&self, side: Side) -> io::Result<()> {
        let mut file = self.files[side.index()].write().expect(NOT_POISONED);
        if file.is_some() {
            *file = Some(self.open_on(side)?);
        }
        Ok(())
    }
}

impl File for MirroredFile {
    fn len(&self) -> io::Result<u64> {
        self.ask(|file| file.len())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let first = self.first_to_read();
        let read = {
            let _read = self.sides.reads_on(first).begin();
            self.to_read(first).and_then(|file| file.read_exact_at(buf, offset))
        };
        let error = match read {
            // Both end there.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(error),
            Err(error) => error,
            Ok(()) => return Ok(()),
        };
        let other = first.other();
        if self.sides.use_of(other) != SideUse::Whole {
            return Err(error);
        }
        let Ok(()) = self.to_read(other).and_then(|file| file.read_exact_at(buf, offset)) else {
            return Err(error);
        };
        if error.kind() == io::ErrorKind::InvalidData {
            let path = self.path();
            let what = error.to_string();
            let len = buf.len() as u64;
            self.sides.note_bad(BadBytes { side: first, path, offset, len, good_crc: None, what });
        }
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write(|file| file.write_all_at(bytes, offset))
    }

    fn write_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        self.write(|file| file.write_zeros(offset, len))
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<bool> {
        let _in_step = self.sides.in_step();
        // Zeros are written on both where one of them cannot reserve.
        let reserved = self.sides.on_each(|side| match self.to_change(side)? {
            Some(file) => file.reserve(offset, len),
            None => Ok(true),
        });
        Ok(reserved.into_values(&self.sides)?.into_iter().all(|reserved| reserved))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.write(|file| file.truncate(len))
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let _in_step = self.sides.in_step();
        let mut punched = self.change(|file| file.punch(offset, len));
        let done: Vec<_> = punched.successes().collect();
        if let [side] = done[..] {
            // The other one has lost what says how it is encrypted. It is written anew.
            let lost = side.other();
            if let Some(what) = punched.forgive(lost, io::ErrorKind::InvalidData, ()) {
                let path = self.path();
                self.sides.note_bad(BadBytes { side: lost, path, offset: 0, len: 1, good_crc: None, what });
            }
        }
        punched.settle(&self.sides)
    }

    fn next_hole(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        self.ask(|file| file.next_hole(range.clone()))
    }

    fn elsewhere(&self) -> Option<&dyn BytesElsewhere> {
        (self.sides.use_of(self.first_to_read().other()) == SideUse::Whole).then_some(self)
    }

    fn lock_shared(&self) -> io::Result<()> {
        let _in_step = self.sides.in_step();
        self.change(|file| file.lock_shared()).settle(&self.sides)
    }

    fn has_shared_lock(&self) -> io::Result<bool> {
        let _in_step = self.sides.in_step();
        let locked = self.change(|file| file.has_shared_lock());
        Ok(locked.into_values(&self.sides)?.into_iter().any(|locked| locked))
    }

    fn usage(&self) -> io::Result<FileUsage> {
        let own = self.ask(|file| file.usage())?;
        let other = self.first_to_read().other();
        let Some(file) = self.on(other).filter(|_| self.sides.use_of(other) == SideUse::Whole) else {
            return Ok(own);
        };
        let Ok(others) = file.usage() else { return Ok(own) };
        Ok(FileUsage {
            allocated_bytes: own.allocated_bytes.max(others.allocated_bytes),
            links: own.links.max(others.links),
            id: own.id,
        })
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        let _in_step = self.sides.in_step();
        self.change(|file| file.start_writeback(offset, len)).settle(&self.sides)
    }

    fn sync_data(&self) -> io::Result<()> {
        let _in_step = self.sides.in_step();
        // Before the sync: what is written meanwhile it may not cover.
        let was_dirty = self.is_dirty.swap(false, Ordering::AcqRel);
        let files = Side::BOTH.map(|side| match self.sides.use_of(side) {
            SideUse::Out => Ok(None),
            _ => self.to_change(side),
        });
        let files = files.map(|file| file.map_err(|error| (error.kind(), error.to_string())));
        let synced = self.sides.on_each_at_once(|side| -> Job {
            match files[side.index()].clone() {
                Ok(Some(file)) => Box::new(move || file.sync_data()),
                Ok(None) => Box::new(|| Ok(())),
                Err((kind, what)) => Box::new(move || Err(io::Error::new(kind, what))),
            }
        });
        let settled = synced.settle_sync(&self.sides);
        if settled.is_err() {
            self.is_dirty.store(was_dirty, Ordering::Release);
        } else if was_dirty {
            self.sides.note_clean(&self.path(), || self.is_dirty.load(Ordering::Acquire));
        }
        settled
    }

    fn evict(&self) -> io::Result<()> {
        let _in_step = self.sides.in_step();
        self.change(|file| file.evict()).settle(&self.sides)
    }
}

impl BytesElsewhere for MirroredFile {
    fn read_copy(&self, out: &mut [u8], offset: u64) -> io::Result<bool> {
        let first = self.first_to_read();
        let mut bytes = vec![0; out.len()];
        // The bad bytes may be of the other side: reads go now to one, now to the other.
        for side in [first.other(), first] {
            if self.sides.use_of(side) != SideUse::Whole {
                continue;
            }
            // A copy that cannot be read is none.
            let read = self.to_read(side).and_then(|file| file.read_exact_at(&mut bytes, offset));
            if read.is_err() || bytes == out {
                continue;
            }
            let mut copies = self.copies.lock().expect(NOT_POISONED);
            if copies.len() == COPIES_MAX {
                copies.clear();
            }
            copies.insert(offset, ReadCopy { side, crc: Crc32::of(&bytes) });
            out.copy_from_slice(&bytes);
            return Ok(true);
        }
        Ok(false)
    }

    fn note_bad(&self, _: u64, what: &str, copy: VerifiedCopy<'_>) {
        let crc = Crc32::of(copy.bytes);
        let mut copies = self.copies.lock().expect(NOT_POISONED);
        // Another reader may have found other bytes there meanwhile, which nobody has verified.
        let Some(read) = copies.get(&copy.offset).copied().filter(|read| read.crc == crc) else { return };
        copies.remove(&copy.offset);
        self.sides.note_bad(BadBytes {
            side: read.side.other(),
            path: self.path(),
            offset: copy.offset,
            len: copy.bytes.len() as u64,
            good_crc: Some(crc),
            what: what.to_owned(),
        });
    }

    fn will_read(&self, _: Range<u64>) -> io::Result<ReadAhead> {
        Ok(None)
    }

    fn read_aside(&self, _: Range<u64>) -> Option<Vec<u8>> {
        None
    }

    fn keep_aside(&self, _: &[u8], _: u64) {}
}
