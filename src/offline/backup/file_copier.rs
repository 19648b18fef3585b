//! Copying files.

use std::io;

use crate::base::digest::Crc32;
use crate::base::limits::{BLOCK_BYTES, MIB};
use crate::fs::{File, Fs, crc32_of};
use crate::store::{Progress, ProgressStep};

static ZEROS: [u8; BLOCK_BYTES as usize] = [0; BLOCK_BYTES as usize];

/// The treatment of blocks of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZeroBlocks {
    /// Write them: in a log they are preallocated space.
    Write,
    /// Leave them out, so that holes stay holes.
    Skip,
}

/// Reads a copy back. Returns its CRC, and a further result.
pub(super) type ReadBack<'r, T> = dyn FnMut(&dyn File) -> io::Result<(u32, T)> + 'r;

/// Copies files into a directory.
pub(super) struct FileCopier<'a> {
    pub(super) to: &'a dyn Fs,
    pub(super) step: ProgressStep,
    /// Bytes copied so far, of all files.
    pub(super) done: u64,
    pub(super) total: u64,
    pub(super) progress: &'a mut dyn FnMut(Progress),
}

impl FileCopier<'_> {
    /// Copies a file up to its current end, makes the bytes durable, and compares them with the
    /// bytes read back from the disk. Returns the length. The name is not durable.
    pub(super) fn copy(&mut self, from: &dyn File, path: &str, zeros: ZeroBlocks) -> io::Result<u64> {
        self.copy_and(from, path, zeros, &mut |written| Ok((crc32_of(written)?, ()))).map(|(len, ())| len)
    }

    /// Like `copy`, but `read` reads the copy back, and its further result is returned.
    pub(super) fn copy_and<T>(
        &mut self,
        from: &dyn File,
        path: &str,
        zeros: ZeroBlocks,
        read: &mut ReadBack<'_, T>,
    ) -> io::Result<(u64, T)> {
        let file = self.to.create(path)?;
        let (len, crc) = self.write_all(from, file.as_ref(), zeros)?;
        // Blocks of zeros at the end were left out.
        if file.len()? < len {
            file.write_all_at(&[0], len - 1)?;
        }
        file.sync_data()?;
        // From the cache the bytes would look good that the disk has lost.
        file.evict()?;
        match read(self.to.open_uncached(path)?.as_ref())? {
            (found, seen) if found == crc => Ok((len, seen)),
            _ => Err(io::Error::other(format!("{path}: the bytes read back differ from the bytes written"))),
        }
    }

    /// Returns the length and the CRC of the written bytes.
    fn write_all(&mut self, from: &dyn File, to: &dyn File, zeros: ZeroBlocks) -> io::Result<(u64, u32)> {
        let mut buffer = vec![0; MIB as usize];
        let mut crc = Crc32::new();
        let mut len = 0;
        loop {
            let part = MIB.min(from.len()?.saturating_sub(len)) as usize;
            if part == 0 {
                return Ok((len, crc.value()));
            }
            from.read_exact_at(&mut buffer[..part], len)?;
            crc.update(&buffer[..part]);
            write(to, &buffer[..part], len, zeros)?;
            len += part as u64;
            self.done += part as u64;
            (self.progress)(Progress { step: self.step, done: self.done, total: self.total.max(self.done) });
        }
    }
}

fn write(file: &dyn File, bytes: &[u8], offset: u64, zeros: ZeroBlocks) -> io::Result<()> {
    if zeros == ZeroBlocks::Write {
        return file.write_all_at(bytes, offset);
    }
    for (at, block) in bytes.chunks(ZEROS.len()).enumerate() {
        if *block != ZEROS[..block.len()] {
            file.write_all_at(block, offset + at as u64 * BLOCK_BYTES)?;
        }
    }
    Ok(())
}
