//! A file that is encrypted block by block.
//!
//! On the disk a file is a page with its salt, then its blocks of 16 bytes, each at its own place a
//! page further on. So a page, a sector and a hole of the one are those of the other, and a write
//! that the power cuts off leaves what it would leave of a plain file.
//!
//! A file that does not end with a block has a marker after its last one, which says how many bytes
//! that has. Its length on the disk alone could not: a length may grow in steps when the power is
//! cut.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use super::file_cipher::{DiskKey, FileCipher};
use super::file_start::FileStart;
use super::xts::{BLOCK, marked_len, marker};
use crate::base::NOT_POISONED;
use crate::base::limits::BLOCK_BYTES;
use crate::format::SaltPage;
use crate::fs::{File, FileUsage, forward_file};

const PAGE: u64 = SaltPage::BYTES;
const SECTOR: u64 = 512;
/// Bytes that are encrypted or decrypted aside at a time.
const STEP: u64 = BLOCK_BYTES;

/// What the handles of a file share.
#[derive(Default)]
pub(super) struct FileState {
    /// Set when the file has its salt, which it gets with its first byte.
    cipher: OnceLock<FileCipher>,
    /// Whether the end of the file is told by a marker, or was left within a block by a crash.
    is_ragged: AtomicBool,
    /// Taken by all for a write that fills whole blocks, and by one alone for a write that reads
    /// what else is in its first and its last block.
    writers: RwLock<()>,
    /// Odd while blocks are written of which a reader may want other bytes.
    rewrites: AtomicU64,
}

/// Why a file cannot be read or written.
#[derive(Debug, Clone)]
struct BadPage(String);

/// Why the first page says nothing.
enum PageError {
    Io(io::Error),
    Bad(BadPage),
}

/// One handle.
pub(super) struct EncryptedFile {
    path: String,
    file: Arc<dyn File>,
    disk: Arc<DiskKey>,
    state: Arc<FileState>,
    /// A first page that is no good. The file is there, and every read says why it has no bytes.
    refusal: Option<BadPage>,
}

impl EncryptedFile {
    pub(super) fn new(
        path: String,
        file: Arc<dyn File>,
        disk: Arc<DiskKey>,
        state: Arc<FileState>,
    ) -> io::Result<Self> {
        let mut opened = Self { path, file, disk, state, refusal: None };
        match opened.page() {
            Ok(None) => {}
            Err(PageError::Io(error)) => return Err(error),
            Err(PageError::Bad(refusal)) => opened.refusal = Some(refusal),
            Ok(Some(page)) => {
                let known = opened.state.cipher.get().is_some_and(|cipher| cipher.salt != page.salt);
                if known {
                    // Two files with one identity, on a file system that has none to give.
                    opened.state = Arc::default();
                }
                opened.state.cipher.get_or_init(|| opened.disk.key.cipher(&page));
                if opened.is_ragged_now()? {
                    opened.state.is_ragged.store(true, Ordering::Release);
                }
            }
        }
        Ok(opened)
    }

    /// Reads the first page: the salt, or `None` while nothing was written.
    fn page(&self) -> Result<Option<SaltPage>, PageError> {
        let why = match FileStart::of(self.file.as_ref()).map_err(PageError::Io)? {
            FileStart::Empty => return Ok(None),
            FileStart::Salted(page) if page.key == self.disk.key.id() => return Ok(Some(page)),
            FileStart::Salted(page) => format!(
                "it is encrypted with the key {}, and the directory has the key {}",
                page.key,
                self.disk.key.id()
            ),
            FileStart::Damaged(why) => format!("its first page: {why}"),
            FileStart::Plain => "it is not encrypted, and every file of this directory is to be".to_owned(),
        };
        Err(PageError::Bad(BadPage(why)))
    }

    /// The cipher; `None` while nothing was written.
    fn cipher(&self) -> io::Result<Option<&FileCipher>> {
        if let Some(refusal) = &self.refusal {
            return Err(self.refused(refusal));
        }
        if let Some(cipher) = self.state.cipher.get() {
            return Ok(Some(cipher));
        }
        // Another process may have written it.
        match self.page() {
            Ok(page) => Ok(page.map(|page| self.state.cipher.get_or_init(|| self.disk.key.cipher(&page)))),
            Err(PageError::Io(error)) => Err(error),
            Err(PageError::Bad(refusal)) => Err(self.refused(&refusal)),
        }
    }

    fn refused(&self, refusal: &BadPage) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {}", self.path, refusal.0))
    }

    /// The cipher of a file that is about to get bytes. The caller is its only writer.
    fn cipher_to_write(&self) -> io::Result<&FileCipher> {
        if let Some(cipher) = self.cipher()? {
            return Ok(cipher);
        }
        if self.file.len()? > 0 {
            // Bytes without a salt were never synced, and a new salt would make others of them.
            self.file.truncate(0)?;
        }
        let mut salt = [0; 32];
        self.disk.entropy.fill(&mut salt);
        let page = SaltPage { key: self.disk.key.id(), salt };
        // The salt is written before the first byte under it, and both are durable by the same
        // sync.
        self.file.write_all_at(&page.encode(), 0)?;
        Ok(self.state.cipher.get_or_init(|| self.disk.key.cipher(&page)))
    }

    /// The number in the last whole block of the file, if it is a marker.
    fn mark(&self, disk_len: u64) -> io::Result<Option<u64>> {
        let end = disk_len - disk_len % BLOCK;
        if end < PAGE + 2 * BLOCK {
            return Ok(None);
        }
        let mut block = [0; BLOCK as usize];
        match self.file.read_exact_at(&mut block, end - BLOCK) {
            Ok(()) => Ok(marked_len(&block)),
            // It was cut meanwhile, or the disk cannot read it: the length is asked for, not the
            // bytes.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The length of a file that is so long on the disk.
    fn plain_len(&self, disk_len: u64) -> io::Result<u64> {
        let blocks_end = (disk_len - disk_len % BLOCK).saturating_sub(PAGE);
        match self.mark(disk_len)? {
            Some(len) => Ok(blocks_end - 2 * BLOCK + len),
            None => Ok(blocks_end),
        }
    }

    fn is_ragged_now(&self) -> io::Result<bool> {
        let disk_len = self.file.len()?;
        Ok(!disk_len.is_multiple_of(BLOCK) || self.mark(disk_len)?.is_some())
    }

    /// The plain bytes of a block that may be outside of the file.
    fn block(&self, cipher: &FileCipher, at: u64) -> io::Result<[u8; BLOCK as usize]> {
        let mut block = [0; BLOCK as usize];
        match self.file.read_exact_at(&mut block, PAGE + at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok([0; BLOCK as usize]),
            read => read?,
        }
        cipher.xts.decrypt(&mut block, at);
        Ok(block)
    }

    /// Writes bytes, beside the others in their first and their last block. Each sector is written
    /// at once, so that a crash leaves the old one or the new one.
    fn write_blocks(&self, cipher: &FileCipher, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        let last = end.next_multiple_of(BLOCK);
        let mut step = Vec::with_capacity(bytes.len().min(STEP as usize) + 2 * BLOCK as usize);
        let mut at = offset - offset % BLOCK;
        while at < last {
            let step_end = (at - at % STEP + STEP).min(last);
            step.clear();
            if at < offset {
                step.extend_from_slice(&self.block(cipher, at)?[..(offset - at) as usize]);
            }
            let from = at.max(offset) - offset;
            let to = step_end.min(end) - offset;
            step.extend_from_slice(&bytes[from as usize..to as usize]);
            if step_end > end {
                let kept = end + BLOCK - last;
                step.extend_from_slice(&self.block(cipher, last - BLOCK)?[kept as usize..]);
            }
            cipher.xts.encrypt(&mut step, at);
            self.file.write_all_at(&step, PAGE + at)?;
            at = step_end;
        }
        Ok(())
    }

    /// Calls `change` as the only writer. Readers of the blocks that it writes read them again.
    fn alone<T>(&self, change: impl FnOnce(&Self) -> io::Result<T>) -> io::Result<T> {
        let _alone = self.state.writers.write().expect(NOT_POISONED);
        self.state.rewrites.fetch_add(1, Ordering::AcqRel);
        let changed = change(self);
        self.state.rewrites.fetch_add(1, Ordering::AcqRel);
        changed
    }

    /// Writes bytes that begin or end within a block, or after an end that a marker tells.
    fn write_alone(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let cipher = self.cipher_to_write()?;
        let end = offset + bytes.len() as u64;
        let ending = self.ending(end)?;
        self.write_blocks(cipher, bytes, offset)?;
        self.put_ending(&ending)
    }

    /// What has to follow the last block, once the file reaches to `end`.
    fn ending(&self, end: u64) -> io::Result<Ending> {
        let disk_len = self.file.len()?;
        if !disk_len.is_multiple_of(BLOCK) {
            self.file.truncate(disk_len - disk_len % BLOCK)?;
        }
        let disk_len = disk_len - disk_len % BLOCK;
        if end <= self.plain_len(disk_len)? {
            return Ok(Ending::Kept);
        }
        let blocks_end = end.next_multiple_of(BLOCK);
        if end == blocks_end && disk_len <= PAGE + blocks_end {
            return Ok(Ending::Even);
        }
        Ok(Ending::Marked { at: blocks_end, len: end + BLOCK - blocks_end })
    }

    fn put_ending(&self, ending: &Ending) -> io::Result<()> {
        match *ending {
            Ending::Kept => {}
            Ending::Even => self.state.is_ragged.store(false, Ordering::Release),
            Ending::Marked { at, len } => {
                // Readers count by it before it is there.
                self.state.is_ragged.store(true, Ordering::Release);
                self.file.write_all_at(&marker(len), PAGE + at)?;
            }
        }
        Ok(())
    }

    /// Fills `buf`, which is inside the file.
    fn read_blocks(&self, cipher: &FileCipher, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset + buf.len() as u64;
        if offset.is_multiple_of(BLOCK) && end.is_multiple_of(BLOCK) {
            self.file.read_exact_at(buf, PAGE + offset)?;
            cipher.xts.decrypt(buf, offset);
            return Ok(());
        }
        let first = offset - offset % BLOCK;
        let last = end.next_multiple_of(BLOCK);
        let mut step = vec![0; (last - first).min(STEP) as usize];
        let mut at = first;
        while at < last {
            let part = (last - at).min(STEP);
            let blocks = &mut step[..part as usize];
            self.file.read_exact_at(blocks, PAGE + at)?;
            cipher.xts.decrypt(blocks, at);
            let from = at.max(offset);
            let to = (at + part).min(end);
            buf[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&blocks[(from - at) as usize..(to - at) as usize]);
            at += part;
        }
        Ok(())
    }

    /// Fails where a range is not inside the file.
    fn check_inside(&self, end: Option<u64>) -> io::Result<()> {
        let len = self.len()?;
        if end.is_some_and(|end| end <= len) {
            return Ok(());
        }
        let why = format!("{}: failed to fill whole buffer", self.path);
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, why))
    }

    /// Zeros from `cut` to the end of the last sector that a cut there touches, and the marker.
    fn cut_at(&self, cipher: &FileCipher, cut: u64, disk_len: u64) -> io::Result<()> {
        let at = cut - cut % BLOCK;
        let mut block = self.block(cipher, at)?;
        block[(cut - at) as usize..].fill(0);
        cipher.xts.encrypt(&mut block, at);
        let mut bytes = block.to_vec();
        bytes.extend_from_slice(&marker(cut - at));
        // A sector is old or new, so that a crash before the cut leaves the bytes, or zeros.
        let sector_end =
            (PAGE + at + 2 * BLOCK).next_multiple_of(SECTOR).min(disk_len.max(PAGE + at + 2 * BLOCK));
        bytes.resize((sector_end - PAGE - at) as usize, 0);
        self.file.write_all_at(&bytes, PAGE + at)
    }

    fn truncate_alone(&self, len: u64) -> io::Result<()> {
        // Frees what is reserved after the end, and fails where the file is not writable.
        self.file.truncate(u64::MAX)?;
        let disk_len = self.file.len()?;
        let Some(cipher) = self.cipher()? else { return self.file.truncate(PAGE + len) };
        if len >= self.plain_len(disk_len)? {
            return Ok(());
        }
        if len.is_multiple_of(BLOCK) {
            if self.mark(PAGE + len)?.is_some() {
                // An earlier end of the file, which would count again as its last block.
                self.file.write_zeros(PAGE + len - BLOCK, BLOCK)?;
            }
            self.file.truncate(PAGE + len)?;
            self.state.is_ragged.store(false, Ordering::Release);
            return Ok(());
        }
        self.state.is_ragged.store(true, Ordering::Release);
        self.cut_at(cipher, len, disk_len)?;
        self.file.truncate(PAGE + len.next_multiple_of(BLOCK) + BLOCK)
    }

    /// Zeros in a range of the file, and beyond its end.
    fn zero_alone(&self, offset: u64, len: u64) -> io::Result<()> {
        let cipher = self.cipher_to_write()?;
        let end = offset + len;
        let ending = self.ending(end)?;
        let first = offset - offset % BLOCK;
        let last = end.next_multiple_of(BLOCK);
        // Whole sectors are zeros on the disk, too. The others are written at once.
        let head_end = if first.is_multiple_of(SECTOR) && first == offset {
            first
        } else {
            (offset + 1).next_multiple_of(SECTOR).min(last)
        };
        self.zero_blocks(cipher, first..head_end, offset..end)?;
        let tail = (end - end % SECTOR).max(head_end);
        if tail > head_end {
            self.file.write_zeros(PAGE + head_end, tail - head_end)?;
        }
        self.zero_blocks(cipher, tail..last, offset..end)?;
        self.put_ending(&ending)
    }

    /// Writes zeros as they are stored into whole blocks, except for the bytes outside of `zeros`.
    fn zero_blocks(&self, cipher: &FileCipher, blocks: Range<u64>, zeros: Range<u64>) -> io::Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let mut bytes = vec![0; (blocks.end - blocks.start) as usize];
        for place in [blocks.start, blocks.end - BLOCK] {
            if place >= zeros.start && place + BLOCK <= zeros.end {
                continue;
            }
            let mut block = self.block(cipher, place)?;
            let from = zeros.start.max(place) - place;
            let to = zeros.end.min(place + BLOCK) - place;
            block[from as usize..to as usize].fill(0);
            cipher.xts.encrypt(&mut block, place);
            let start = (place - blocks.start) as usize;
            bytes[start..start + BLOCK as usize].copy_from_slice(&block);
        }
        self.file.write_all_at(&bytes, PAGE + blocks.start)
    }

    /// A hole up to the end of a file that a marker tells, which stays.
    fn punch_ragged(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = (offset + len).min(self.len()?);
        if offset >= end {
            // After the end, and after its marker, there is nothing.
            return self.file.punch(2 * PAGE + offset, len);
        }
        let pages_end = end - end % PAGE;
        if offset < pages_end {
            self.file.punch(PAGE + offset, pages_end - offset)?;
        }
        let rest = offset.max(pages_end);
        if rest < end { self.zero_alone(rest, end - rest) } else { Ok(()) }
    }
}

/// What follows the last block.
enum Ending {
    /// What is there: the file does not grow.
    Kept,
    /// Nothing.
    Even,
    /// The marker for a last block of `len` bytes.
    Marked { at: u64, len: u64 },
}

impl File for EncryptedFile {
    fn len(&self) -> io::Result<u64> {
        self.plain_len(self.file.len()?)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let end = offset.checked_add(buf.len() as u64);
        let Some(cipher) = self.cipher()? else {
            self.check_inside(end)?;
            buf.fill(0);
            return Ok(());
        };
        let begun = self.state.rewrites.load(Ordering::Acquire);
        // Without a marker the disk knows where the file ends.
        if self.state.is_ragged.load(Ordering::Acquire) || end.is_none_or(|end| end > u64::MAX - 2 * PAGE) {
            self.check_inside(end)?;
        }
        self.read_blocks(cipher, buf, offset)?;
        if begun.is_multiple_of(2) && self.state.rewrites.load(Ordering::Acquire) == begun {
            return Ok(());
        }
        let _still = self.state.writers.read().expect(NOT_POISONED);
        self.read_blocks(cipher, buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let is_even = offset.is_multiple_of(BLOCK) && (bytes.len() as u64).is_multiple_of(BLOCK);
        if is_even && self.refusal.is_none() {
            let _together = self.state.writers.read().expect(NOT_POISONED);
            if let Some(cipher) = self.state.cipher.get()
                && !self.state.is_ragged.load(Ordering::Acquire)
            {
                return self.write_blocks(cipher, bytes, offset);
            }
        }
        self.alone(|file| file.write_alone(bytes, offset))
    }

    fn write_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        self.alone(|file| file.zero_alone(offset, len))
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<bool> {
        if len == 0 {
            return Ok(true);
        }
        // The page with the salt comes with the first bytes, the marker after the last.
        let start = if offset == 0 { 0 } else { PAGE + offset };
        let end = PAGE.saturating_add(offset).saturating_add(len).saturating_add(2 * BLOCK);
        self.file.reserve(start, end - start)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.alone(|file| file.truncate_alone(len))
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        // A file that is not encrypted keeps its bytes.
        self.cipher()?;
        if self.state.is_ragged.load(Ordering::Acquire) {
            return self.alone(|file| file.punch_ragged(offset, len));
        }
        self.file.punch(PAGE + offset, len)
    }

    fn next_hole(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        let found = self.file.next_hole(PAGE + range.start..PAGE.saturating_add(range.end))?;
        Ok(found.map(|hole| hole.start - PAGE..hole.end - PAGE))
    }

    /// The page with the salt is of the file system, so to say.
    fn usage(&self) -> io::Result<FileUsage> {
        let mut usage = self.file.usage()?;
        if self.state.cipher.get().is_some() {
            usage.allocated_bytes = usage.allocated_bytes.saturating_sub(PAGE);
        }
        Ok(usage)
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.start_writeback(PAGE + offset, len)
    }

    forward_file!(file: lock_shared, has_shared_lock, sync_data, evict);
}
