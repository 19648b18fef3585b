//! Copies of whole files.

use std::io;
use std::ops::Range;

use super::{DiskPlace, File, Fs, crc32_of};
use crate::base::digest::Crc32;
use crate::base::limits::{BLOCK_BYTES, MIB};

/// Writes the bytes of a file to a new one, makes them durable, and compares them as the disk has
/// them. The name is not durable on return. Where there are two disks, and either may have the file,
/// it is made on that of `place`.
///
/// # Errors
/// Of either disk; `InvalidData` for bytes that cannot be read, and where those that are read back
/// differ. No file is left then.
pub fn copy_file(from: &dyn File, to: &dyn Fs, place: DiskPlace, path: &str) -> io::Result<()> {
    let copied = copy_and_compare(from, to, place, path);
    if copied.is_err() {
        // The error to report is the copy's.
        let _ = to.remove(path);
    }
    copied
}

fn copy_and_compare(from: &dyn File, to: &dyn Fs, place: DiskPlace, path: &str) -> io::Result<()> {
    let copy = to.create_on(place, path)?;
    let crc = copy_bytes(from, copy.as_ref())?;
    copy.sync_data()?;
    // Compared as the disk has it, and not the page cache.
    copy.evict()?;
    let written = to.open_uncached(path)?;
    if crc32_of(written.as_ref())? == crc {
        return Ok(());
    }
    let what = format!("{path}: the bytes read back differ from the bytes written");
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// Copies the bytes of a file to an empty one, and returns their CRC. Holes stay holes, and zeros
/// that were written ahead stay zeros.
///
/// # Errors
/// Of either file.
pub fn copy_bytes(from: &dyn File, to: &dyn File) -> io::Result<u32> {
    let len = from.len()?;
    let mut buffer = vec![0; MIB as usize];
    let mut crc = Crc32::new();
    let mut at = 0;
    while at < len {
        let part = MIB.min(len - at);
        let bytes = &mut buffer[..part as usize];
        from.read_exact_at(bytes, at)?;
        crc.update(bytes);
        for (number, block) in bytes.chunks(BLOCK_BYTES as usize).enumerate() {
            let place = at + number as u64 * BLOCK_BYTES;
            let end = place + block.len() as u64;
            if from.next_hole(place..end)? != Some(place..end) {
                write_pages(from, to, block, place)?;
            }
        }
        at += part;
    }
    if to.len()? < len {
        to.write_zeros(len - 1, 1)?;
    }
    Ok(crc.value())
}

/// Copies a range of bytes to the same place of another file.
///
/// # Errors
/// Of either file.
pub fn copy_range(from: &dyn File, to: &dyn File, range: Range<u64>) -> io::Result<()> {
    let mut buffer = vec![0; MIB.min(range.end - range.start) as usize];
    for at in range.clone().step_by(MIB as usize) {
        let bytes = &mut buffer[..MIB.min(range.end - at) as usize];
        from.read_exact_at(bytes, at)?;
        to.write_all_at(bytes, at)?;
    }
    Ok(())
}

/// Writes a block without the holes in it.
fn write_pages(from: &dyn File, to: &dyn File, block: &[u8], place: u64) -> io::Result<()> {
    let end = place + block.len() as u64;
    let mut at = place;
    while at < end {
        let hole = from.next_hole(at..end)?.unwrap_or(end..end);
        to.write_all_at(&block[(at - place) as usize..(hole.start - place) as usize], at)?;
        at = hole.end;
    }
    Ok(())
}
