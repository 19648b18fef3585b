//! Repair of one side from the other: a file with bad bytes is written anew, so that no page is written
//! twice, and what cannot be read is not in the way (data-format.md, section 24).
//!
//! Only noted bytes are replaced, by ones that somebody has verified. All others stay as the side has them:
//! the other side may have rot of its own.

use std::collections::BTreeMap;
use std::io;

use super::fill::{has_nothing, is_sealed, names};
use crate::base::digest::Crc32;
use crate::base::limits::{MIB, PAGE_BYTES};
use crate::disks::DisksError;
use crate::format::{FileKind, number_of, unfinished};
use crate::fs::{BadBytes, File, Fs, MirroredFs, Side, SideUse, remove_if_there};
use crate::log::any_header;

/// What a repair did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Files that were written anew.
    pub files: u64,
    /// Files with bad bytes that wait: they are still written to, or their disk refused.
    pub waiting: u64,
}

/// Files with bad bytes, each on one side.
#[derive(Default)]
pub(super) struct SideRepairs {
    waiting: BTreeMap<(usize, String), Vec<BadBytes>>,
    /// Files that were written anew since the start.
    files: u64,
}

impl SideRepairs {
    /// Writes anew what can be.
    pub(super) fn step(&mut self, mirrored: &MirroredFs) -> Result<RepairReport, DisksError> {
        for bad in mirrored.take_bad_bytes() {
            let noted = self.waiting.entry((bad.side.index(), bad.path.clone())).or_default();
            if !noted.contains(&bad) {
                noted.push(bad);
            }
        }
        let mut report = RepairReport::default();
        for ((side, path), bad) in std::mem::take(&mut self.waiting) {
            let file = FileRepair { mirrored, side: Side::BOTH[side], path: &path, bad: &bad };
            match file.repair() {
                Ok(RepairOutcome::Done) => report.files += 1,
                Ok(RepairOutcome::Gone) => {}
                Ok(RepairOutcome::Waits) => {
                    self.waiting.insert((side, path), bad);
                }
                Err(error) => {
                    log::error!(
                        "{path} of side {}: it is not repaired yet: {error}",
                        Side::BOTH[side].letter()
                    );
                    self.waiting.insert((side, path), bad);
                }
            }
        }
        self.files += report.files;
        report.waiting = self.waiting.len() as u64;
        Ok(report)
    }

    /// Files that were written anew since the start.
    pub(super) fn files(&self) -> u64 {
        self.files
    }
}

enum RepairOutcome {
    Done,
    /// The file is no more, or the side is not whole any more.
    Gone,
    Waits,
}

/// A file with bad bytes.
struct FileRepair<'r> {
    mirrored: &'r MirroredFs,
    side: Side,
    path: &'r str,
    bad: &'r [BadBytes],
}

impl FileRepair<'_> {
    fn repair(&self) -> Result<RepairOutcome, DisksError> {
        if Side::BOTH.iter().any(|side| self.mirrored.use_of(*side) != SideUse::Whole) {
            return Ok(RepairOutcome::Gone);
        }
        let own = self.mirrored.disk_of(self.side);
        let other = self.mirrored.disk_of(self.side.other());
        let name = self.path.rsplit('/').next().unwrap_or(self.path);
        let Some(id) = number_of(FileKind::Segment, name) else {
            // The log and checkpoints are made equal at the next start.
            return Ok(RepairOutcome::Waits);
        };
        let Some(header) = any_header(other.as_ref())? else { return Ok(RepairOutcome::Waits) };
        for disk in [&own, &other] {
            if !is_sealed(disk.as_ref(), header.store, id)? {
                return Ok(RepairOutcome::Waits);
            }
        }
        let (bad, good) = match (own.open_read(self.path), other.open_read(self.path)) {
            (Ok(bad), Ok(good)) => (bad, good),
            (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(RepairOutcome::Gone);
            }
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        };
        let aside = unfinished(&format!("{}.repaired", self.path));
        let written = self.write_anew(own.as_ref(), bad.as_ref(), good.as_ref(), &aside);
        if written.is_err() {
            // The error to report is the first one.
            let _ = own.remove(&aside);
        }
        written?;
        let is_replaced =
            self.mirrored.with_fixed_names(|| match names(own.as_ref(), self.path, bad.as_ref())? {
                true => own.rename(&aside, self.path).map(|()| true),
                false => own.remove(&aside).map(|()| false),
            })?;
        own.sync_dir(FileKind::Segment.dir())?;
        if !is_replaced {
            return Ok(RepairOutcome::Gone);
        }
        self.mirrored.reopen(self.side, self.path)?;
        let what = self.bad.first().map_or("", |bad| &bad.what);
        log::warn!(
            "{} of side {} had bad bytes in {} places, and was written anew with those of the other side: {what}",
            self.path,
            self.side.letter(),
            self.bad.len(),
        );
        Ok(RepairOutcome::Done)
    }

    /// Writes the file with good bytes in the place of the bad ones. Its bytes are durable on return.
    fn write_anew(&self, own: &dyn Fs, bad: &dyn File, good: &dyn File, aside: &str) -> io::Result<()> {
        remove_if_there(own, aside)?;
        let new = own.create(aside)?;
        // A sealed file of zeros has lost what says how it is encrypted.
        let own_bytes = if has_nothing(bad)? { good } else { bad };
        let len = own_bytes.len()?;
        let mut buffer = vec![0; MIB as usize];
        for at in (0..len).step_by(MIB as usize) {
            let bytes = &mut buffer[..MIB.min(len - at) as usize];
            read_own(own_bytes, good, bytes, at)?;
            for (number, page) in bytes.chunks(PAGE_BYTES as usize).enumerate() {
                if page.iter().any(|byte| *byte != 0) {
                    new.write_all_at(page, at + number as u64 * PAGE_BYTES)?;
                }
            }
        }
        for noted in self.bad {
            let Some(crc) = noted.good_crc.filter(|_| noted.offset + noted.len <= len) else { continue };
            let mut bytes = vec![0; noted.len as usize];
            good.read_exact_at(&mut bytes, noted.offset)?;
            // Other bytes are dead by now, and were given back.
            if Crc32::of(&bytes) == crc {
                new.write_all_at(&bytes, noted.offset)?;
            }
        }
        if new.len()? < len {
            new.write_zeros(len - 1, 1)?;
        }
        new.sync_data()
    }
}

/// Fills `bytes` from a bad file, with those of the good one for pages that the disk cannot read.
///
/// # Errors
/// Neither can read a page: the bad file stays as it is.
fn read_own(bad: &dyn File, good: &dyn File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    if bad.read_exact_at(bytes, at).is_ok() {
        return Ok(());
    }
    for (number, page) in bytes.chunks_mut(PAGE_BYTES as usize).enumerate() {
        let place = at + number as u64 * PAGE_BYTES;
        if bad.read_exact_at(page, place).is_err() {
            good.read_exact_at(page, place)?;
        }
    }
    Ok(())
}
