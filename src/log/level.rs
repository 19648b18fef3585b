//! Two copies of one log that were written in step: after a crash, each may have an end that the other
//! one lacks (data-format.md, section 24).

use std::io;
use std::sync::Arc;

use crate::base::digest::Crc32;
use crate::base::limits::{MIB, PACK_MAX_BYTES, PAGE_BYTES};
use crate::format::{FileHeader, FileKind, GroupKind, Pack, StoreId, UncheckedGroup, log_path};
use crate::fs::{File, Fs, copy_range};
use crate::log::files::read_header;
use crate::log::groups::{GroupFile, GroupReader};
use crate::log::{Damage, LogError, Segment};

/// The most bytes that one log file may be longer than its copy: more is no crash.
const LACKING_MAX_BYTES: u64 = 4 << 30;

/// What was made equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Levelled {
    /// Groups that one of both lacked.
    pub groups: u64,
    /// Packs that one of both lacked.
    pub packs: u64,
}

/// Makes a file that two logs have equal up to its last group, and the pack of that group where it is the
/// last one of all: before the last group began, all else was durable on both. Durable on return.
///
/// # Errors
/// Damage where the copies contradict each other; of the disks.
pub fn level_log(disks: [&dyn Fs; 2], number: u64, is_newest: bool) -> Result<Levelled, LogError> {
    let path = log_path(number);
    let files = [disks[0].open(&path)?, disks[1].open(&path)?];
    for file in &files {
        // In the page cache there may be groups that the disk has lost.
        file.sync_data()?;
        file.evict()?;
    }
    let header = level_headers(&files, number)?;
    level_lengths(&files, &path)?;
    let mut pair = LogPair { files: &files, store: header.store, levelled: Levelled::default() };
    let last_pack = pair.level_groups(number, header.previous_crc)?;
    for file in &files {
        file.sync_data()?;
    }
    if let Some(pack) = last_pack.filter(|_| is_newest) {
        pair.level_pack(disks, &pack)?;
    }
    Ok(pair.levelled)
}

/// The header of both, of which one may be damaged.
fn level_headers(files: &[Arc<dyn File>; 2], number: u64) -> Result<FileHeader, LogError> {
    let read = |file: &Arc<dyn File>| read_header(file.as_ref(), FileKind::Log, number, None);
    match [read(&files[0]), read(&files[1])] {
        [Ok(first), Ok(second)]
            if first.store == second.store && first.previous_crc == second.previous_crc =>
        {
            Ok(first)
        }
        [Ok(_), Ok(_)] => {
            Err(Damage::new(log_path(number), 0, "the two directories have different logs").into())
        }
        [Ok(header), Err(LogError::Damaged(_))] => copy_header(&files[0], &files[1]).map(|()| header),
        [Err(LogError::Damaged(_)), Ok(header)] => copy_header(&files[1], &files[0]).map(|()| header),
        [Err(error), _] | [_, Err(error)] => Err(error),
    }
}

/// Lengthens the shorter file. What is missing of it are groups, which are copied, and zeros.
fn level_lengths(files: &[Arc<dyn File>; 2], path: &str) -> Result<(), LogError> {
    let lens = [files[0].len()?, files[1].len()?];
    let end = lens[0].max(lens[1]);
    for (file, len) in files.iter().zip(lens) {
        if end - len > LACKING_MAX_BYTES {
            let what = format!("the file has {len} bytes in one directory, and {end} in the other one");
            return Err(Damage::new(path, len, what).into());
        }
        for at in (len..end).step_by(MIB as usize) {
            file.write_zeros(at, MIB.min(end - at))?;
        }
    }
    Ok(())
}

fn copy_header(from: &Arc<dyn File>, to: &Arc<dyn File>) -> Result<(), LogError> {
    Ok(copy_range(from.as_ref(), to.as_ref(), 0..PAGE_BYTES)?)
}

/// The newest file of both logs.
struct LogPair<'f> {
    files: &'f [Arc<dyn File>; 2],
    store: StoreId,
    levelled: Levelled,
}

impl LogPair<'_> {
    /// Copies each group that one file lacks from the other one. Returns the pack of the last group.
    fn level_groups(&mut self, number: u64, previous_crc: u32) -> Result<Option<Pack>, LogError> {
        let mut readers = Vec::new();
        for file in self.files {
            let groups =
                GroupFile { file: file.as_ref(), len: file.len()?, kind: GroupKind::Log, store: self.store };
            readers.push(GroupReader { groups, position: PAGE_BYTES, sequence: number, previous_crc });
        }
        let mut last_pack = None;
        loop {
            let at = readers[0].position;
            let first = readers[0].next_raw()?;
            let second = readers[1].next_raw()?;
            let (from, group) = match (first, second) {
                (Ok((group, _)), Ok((other, _))) if group.group.crc() == other.group.crc() => {
                    last_pack = group.group.header().pack;
                    continue;
                }
                // The second lacks it, or has another one: one took the place of the other, whose pack was
                // missing, and did so on one side alone. Neither was acknowledged.
                (Ok((group, _)), _) => (0, group),
                (Err(_), Ok((group, _))) => (1, group),
                // Pages of both may add up to a whole group.
                (Err(_), Err(_)) if self.level_tails(at, readers[0].sequence)? => continue,
                (Err(_), Err(_)) => return Ok(last_pack),
            };
            let to = 1 - from;
            copy_range(self.files[from].as_ref(), self.files[to].as_ref(), at..readers[from].position)?;
            readers[to].position = readers[from].position;
            readers[to].sequence = readers[from].sequence;
            readers[to].previous_crc = readers[from].previous_crc;
            self.levelled.groups += 1;
            last_pack = group.group.header().pack;
        }
    }

    /// Makes equal what comes after the last group: a torn group that only one side sees would count as
    /// the proof that the group before it was durable. Groups after damage stay, for a replay to tell of.
    /// Returns whether there was something to do.
    fn level_tails(&self, position: u64, sequence: u64) -> Result<bool, LogError> {
        let mut goes_on = false;
        self.visit_tails(position, |_, pages| {
            goes_on |= pages.iter().any(|page| self.is_later_group(page, sequence));
            Ok(())
        })?;
        if goes_on {
            return Ok(false);
        }
        let mut is_changed = false;
        self.visit_tails(position, |at, pages| {
            let [first, second] = pages;
            if first != second {
                let from = usize::from(first.iter().all(|byte| *byte == 0));
                self.files[1 - from].write_all_at(pages[from], at)?;
                is_changed = true;
            }
            Ok(())
        })?;
        Ok(is_changed)
    }

    /// Gives the pages of both files from `position` on to `visit`, with their place.
    fn visit_tails(
        &self,
        position: u64,
        mut visit: impl FnMut(u64, [&[u8]; 2]) -> io::Result<()>,
    ) -> Result<(), LogError> {
        let end = self.files[0].len()?.min(self.files[1].len()?);
        let [mut first, mut second] = [vec![0; MIB as usize], vec![0; MIB as usize]];
        for at in (position..end).step_by(MIB as usize) {
            let part = MIB.min(end - at) as usize;
            read_tail(self.files[0].as_ref(), &mut first[..part], at)?;
            read_tail(self.files[1].as_ref(), &mut second[..part], at)?;
            let pages =
                first[..part].chunks(PAGE_BYTES as usize).zip(second[..part].chunks(PAGE_BYTES as usize));
            for (number, (first, second)) in pages.enumerate() {
                visit(at + number as u64 * PAGE_BYTES, [first, second])?;
            }
        }
        Ok(())
    }

    /// Whether a page begins a group after the one that is torn at most.
    fn is_later_group(&self, page: &[u8], sequence: u64) -> bool {
        UncheckedGroup::decode(GroupKind::Log, &self.store, page)
            .is_ok_and(|group| group.header().sequence > sequence)
    }

    /// Writes the pack of the last group where one of both lacks it: it was written while the group
    /// was.
    fn level_pack(&mut self, disks: [&dyn Fs; 2], pack: &Pack) -> Result<(), LogError> {
        let mut segments = Vec::new();
        let mut found = Vec::new();
        for disk in disks {
            let segment = match Segment::open(disk, self.store, pack.segment) {
                // A replay tells of it.
                Err(LogError::Damaged(_)) => return Ok(()),
                segment => segment?,
            };
            segment.file.sync_data()?;
            segment.file.evict()?;
            found.push(good_pack(&segment, pack)?);
            segments.push(segment);
        }
        let (bytes, lacking) = match (&found[0], &found[1]) {
            (Some(bytes), None) => (bytes, &segments[1]),
            (None, Some(bytes)) => (bytes, &segments[0]),
            _ => return Ok(()),
        };
        lacking.file.write_all_at(bytes, pack.offset)?;
        lacking.file.sync_data()?;
        self.levelled.packs += 1;
        Ok(())
    }
}

/// Fills `bytes` from what comes after the last group, with zeros for pages that cannot be read.
fn read_tail(file: &dyn File, bytes: &mut [u8], at: u64) -> Result<(), LogError> {
    match file.read_exact_at(bytes, at) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
        read => return Ok(read?),
    }
    for (number, page) in bytes.chunks_mut(PAGE_BYTES as usize).enumerate() {
        match file.read_exact_at(page, at + number as u64 * PAGE_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => page.fill(0),
            read => read?,
        }
    }
    Ok(())
}

/// The bytes of a pack; `None` where they are not whole.
fn good_pack(segment: &Segment, pack: &Pack) -> Result<Option<Vec<u8>>, LogError> {
    let len = segment.file.len()?;
    // Before memory is taken for it.
    if u64::from(pack.len) > PACK_MAX_BYTES {
        return Ok(None);
    }
    if pack.offset.checked_add(pack.len.into()).is_none_or(|end| end > len) {
        return Ok(None);
    }
    let mut bytes = vec![0; pack.len as usize];
    match segment.read_at(&mut bytes, pack.offset) {
        Err(LogError::Damaged(_)) => Ok(None),
        read => read.map(|()| Some(bytes).filter(|bytes| Crc32::of(bytes) == pack.crc)),
    }
}
