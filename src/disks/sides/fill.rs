//! Filling a side from the other one, which goes on meanwhile (data-format.md, section 24).
//!
//! Before the store is opened, the side gets the log and the segments that are written to. After it, all
//! that is written goes to both, and the sealed segments are copied one after another: nothing changes in
//! them but holes.

use std::io;
use std::sync::Arc;

use crate::base::digest::Crc32;
use crate::base::limits::{BLOCK_BYTES, MIB, PAGE_BYTES};
use crate::disks::DisksError;
use crate::format::{ExtentHeader, FileKind, StoreId, UNIT_BYTES, number_of, segment_path, unfinished};
use crate::fs::{
    DiskPlace, File, Fs, MirroredFs, Side, copy_file, copy_range, crc32_of, is_there, remove_if_there,
};
use crate::log::{
    LogError, Replay, ReplayStart, Scanned, Segment, SegmentRecord, SegmentScan, any_header, list_numbers,
    read_checkpoint,
};

/// In the name of a segment that is being copied, which is removed at the next start.
const FILLED: &str = "filled";

/// The end of the name of a segment that may differ from that of the source.
const STALE: &str = ".stale";

/// Segments that a store may write to again after a start are among the newest ones.
pub(super) const NEWEST_SEGMENTS: usize = 64;

/// The lowest id of a segment that the store may still write to; beyond all where there is none.
///
/// # Errors
/// Of the disk.
pub(super) fn lowest_unsealed(source: &dyn Fs) -> Result<u64, DisksError> {
    let Some(header) = any_header(source)? else { return Ok(0) };
    let mut lowest = u64::MAX;
    for id in list_numbers(source, FileKind::Segment)?.into_iter().rev().take(NEWEST_SEGMENTS) {
        if !is_sealed(source, header.store, id)? {
            lowest = id;
        }
    }
    Ok(lowest)
}

/// Checks that all of the log of a side can be read, and its newest checkpoint: the other side may have
/// what it lacks, and is written over.
///
/// # Errors
/// [`LogError::Damaged`], and those of the disk.
pub(super) fn check_log(source: &dyn Fs) -> Result<(), LogError> {
    let Some(header) = any_header(source)? else { return Ok(()) };
    let mut start = ReplayStart::default();
    if let Some(covered) = list_numbers(source, FileKind::Checkpoint)?.last().copied() {
        let end = read_checkpoint(source, header.store, covered, &mut |_| Ok(()))?;
        start = ReplayStart { covered, through: end.through.max(covered) };
    }
    let replay = Replay { fs: source, store: header.store, start, pack_is_good: &|_| Ok(true) };
    match replay.run(&mut |_| Ok(()))?.damage {
        Some(damage) => Err(damage.into()),
        None => Ok(()),
    }
}

/// Removes from a side its log, and what the source does not have. Segments that may differ get another
/// name until they are replaced: the source may have lost some of their bytes. Durable on return.
///
/// # Errors
/// Of the disks.
pub(super) fn keep_equal(source: &dyn Fs, side: &dyn Fs, sealed_below: u64) -> Result<(), DisksError> {
    let segments = FileKind::Segment.dir();
    let log = FileKind::Log.dir();
    for dir in [segments, log] {
        side.create_dir(dir)?;
    }
    for name in side.list(log)? {
        side.remove(&format!("{log}/{name}"))?;
    }
    side.sync_dir(log)?;
    let store = any_header(source)?.map(|header| header.store);
    let ids = list_numbers(source, FileKind::Segment)?;
    for name in side.list(segments)? {
        let path = format!("{segments}/{name}");
        let of_stale = name.strip_suffix(STALE).and_then(|name| number_of(FileKind::Segment, name));
        let id = number_of(FileKind::Segment, &name);
        let (Some(store), true) = (store, id.or(of_stale).is_some_and(|id| ids.binary_search(&id).is_ok()))
        else {
            side.remove(&path)?;
            continue;
        };
        let Some(id) = id else { continue };
        if id < sealed_below && are_sealed_alike(source, side, store, id)? {
            continue;
        }
        match is_there(side, &stale_path(id))? {
            false => side.rename(&path, &stale_path(id))?,
            // The older one was whole once.
            true => side.remove(&path)?,
        }
    }
    Ok(side.sync_dir(segments)?)
}

/// The path of a segment of a side that may differ from that of the source.
fn stale_path(id: u64) -> String {
    format!("{}{STALE}", segment_path(id))
}

/// Removes the segments that were not replaced, since the source has them no more.
///
/// # Errors
/// Of the disk.
pub(super) fn remove_stale(side: &dyn Fs) -> io::Result<()> {
    let dir = FileKind::Segment.dir();
    for name in side.list(dir)?.iter().filter(|name| name.ends_with(STALE)) {
        side.remove(&format!("{dir}/{name}"))?;
    }
    Ok(())
}

/// Copies what the store writes to where it is: all but the sealed segments. Durable on return.
///
/// # Errors
/// Of the disks.
pub(super) fn copy_unsealed(source: &dyn Fs, side: &dyn Fs) -> Result<(), DisksError> {
    let dir = FileKind::Log.dir();
    for name in source.list(dir)? {
        let path = format!("{dir}/{name}");
        match copy_named(source, side, &path) {
            // One that a start needs was read before.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => log::warn!("{path}: {error}"),
            copied => copied?,
        }
    }
    side.sync_dir(dir)?;
    let Some(header) = any_header(source)? else { return Ok(()) };
    for id in list_numbers(source, FileKind::Segment)? {
        if !is_sealed(source, header.store, id)? {
            let path = segment_path(id);
            let aside = unfinished(&path);
            let before = side.open_read(&stale_path(id)).ok();
            let file = source.open_uncached(&path)?;
            copy_aside(file.as_ref(), before.as_deref(), side, &aside, &mut |_| Ok(()))?;
            side.rename(&aside, &path)?;
        }
    }
    Ok(side.sync_dir(FileKind::Segment.dir())?)
}

/// Whether both have a segment, sealed at the same place. One that is damaged on the source is better on
/// the side.
fn are_sealed_alike(source: &dyn Fs, side: &dyn Fs, store: StoreId, id: u64) -> Result<bool, DisksError> {
    let Some(own) = sealed_at(side, store, id)? else { return Ok(false) };
    match sealed_at(source, store, id)? {
        None => is_sealed(source, store, id),
        Some(end) => Ok(end == own),
    }
}

/// The end of a sealed segment; `None` where it is not sealed, not there, or damaged.
pub(super) fn sealed_at(side: &dyn Fs, store: StoreId, id: u64) -> Result<Option<u64>, DisksError> {
    match Segment::open(side, store, id).and_then(|segment| segment.footer(&store)) {
        Err(error) if is_damage(&error) => Ok(None),
        footer => Ok(footer?.map(|footer| footer.offset)),
    }
}

/// Whether the store writes to a segment no more. One with a bad footer counts as sealed for it.
pub(super) fn is_sealed(source: &dyn Fs, store: StoreId, id: u64) -> Result<bool, DisksError> {
    match Segment::open(source, store, id).and_then(|segment| segment.footer(&store)) {
        Err(error) if is_damage(&error) => Ok(true),
        footer => Ok(footer?.is_some()),
    }
}

/// Whether the bytes are bad, or the disk cannot read them.
fn is_damage(error: &LogError) -> bool {
    match error {
        LogError::Damaged(_) => true,
        LogError::Io(error) => error.kind() == io::ErrorKind::InvalidData,
        _ => false,
    }
}

/// Receives the bytes that were copied since the last call, and may end the copy.
pub(super) type CopyGate<'g> = dyn FnMut(u64) -> io::Result<()> + 'g;

/// The segments that a side lacks, with the bytes that they take on the other one.
///
/// # Errors
/// Of the disks.
pub(super) fn lacking(mirrored: &MirroredFs, side: Side) -> io::Result<Vec<(u64, u64)>> {
    let source = mirrored.disk_of(side.other());
    let there = list_numbers(mirrored.disk_of(side).as_ref(), FileKind::Segment)?;
    let mut lacking = Vec::new();
    for id in list_numbers(source.as_ref(), FileKind::Segment)? {
        if there.binary_search(&id).is_err() {
            match source.open_read(&segment_path(id)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                file => lacking.push((id, file?.usage()?.allocated_bytes)),
            }
        }
    }
    Ok(lacking)
}

/// Copies a sealed segment to a side. Nothing is copied where the store removes it meanwhile. What the side
/// had in its place gives the pages that the other one cannot read. Durable on return.
///
/// # Errors
/// Of the disks, and of `gate`.
pub(super) fn copy_segment(
    mirrored: &MirroredFs,
    side: Side,
    id: u64,
    gate: &mut CopyGate<'_>,
) -> io::Result<()> {
    let source = mirrored.disk_of(side.other());
    let target = mirrored.disk_of(side);
    let path = segment_path(id);
    let aside = unfinished(&format!("{path}.{FILLED}"));
    let before = target.open_read(&stale_path(id)).ok();
    let file = match source.open_uncached(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let copied = copy_aside(file.as_ref(), before.as_deref(), target.as_ref(), &aside, gate);
    if copied.is_err() {
        // The error to report is the copy's.
        let _ = target.remove(&aside);
    }
    copied?;
    if let Some(before) = &before {
        keep_good_extents(target.as_ref(), id, &aside, before)?;
    }
    mirrored.with_fixed_names(|| {
        if names(source.as_ref(), &path, file.as_ref())? && !is_there(target.as_ref(), &path)? {
            target.rename(&aside, &path)
        } else {
            target.remove(&aside)
        }
    })?;
    target.sync_dir(FileKind::Segment.dir())?;
    match before {
        Some(_) => target.remove(&stale_path(id)),
        None => Ok(()),
    }
}

/// Copies a file under its name. The name is not durable on return.
pub(super) fn copy_named(from: &dyn Fs, to: &dyn Fs, path: &str) -> io::Result<()> {
    let aside = unfinished(path);
    // An earlier try may have left one of the name.
    remove_if_there(to, &aside)?;
    copy_file(from.open_uncached(path)?.as_ref(), to, DiskPlace::Bulk, &aside)?;
    to.rename(&aside, path)
}

/// Puts the extents of `before` into a copy where those of the copy are rotten: the source may have been
/// so without notice.
fn keep_good_extents(side: &dyn Fs, id: u64, copy: &str, before: &Arc<dyn File>) -> io::Result<()> {
    let file = side.open(copy)?;
    if crc32_of(file.as_ref())? == crc32_of(before.as_ref()).unwrap_or_default() {
        return Ok(());
    }
    let Ok(Some(header)) = any_header(side) else { return Ok(()) };
    let copied = Arc::new(Segment { id, file: Arc::clone(&file) });
    let before = Arc::new(Segment { id, file: Arc::clone(before) });
    let Ok(scan) = SegmentScan::new(Arc::clone(&before), header.store) else { return Ok(()) };
    for found in scan {
        let Ok((at, Scanned::Record(SegmentRecord::Extent(extent)))) = found else { continue };
        let is_same = copied.extent(&header.store, at).is_ok_and(|own| own == extent);
        let reference = extent.to_ref();
        if is_same && copied.check_payload(&reference).is_err() && before.check_payload(&reference).is_ok() {
            let len = UNIT_BYTES + u64::from(reference.payload_len);
            let end = at + len + ExtentHeader::table_len(reference.payload_len.into());
            copy_range(before.file.as_ref(), file.as_ref(), at..end)?;
        }
    }
    file.sync_data()
}

/// Whether a path still names a file, and not another one.
pub(super) fn names(disk: &dyn Fs, path: &str, file: &dyn File) -> io::Result<bool> {
    match disk.open_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        now => Ok(now?.usage()?.id == file.usage()?.id),
    }
}

/// Copies a file, and compares what the disk has of it.
fn copy_aside(
    from: &dyn File,
    before: Option<&dyn File>,
    to: &dyn Fs,
    aside: &str,
    gate: &mut CopyGate<'_>,
) -> io::Result<()> {
    remove_if_there(to, aside)?;
    let copy = to.create(aside)?;
    let crc = copy_readable(from, before, copy.as_ref(), gate)?;
    copy.sync_data()?;
    copy.evict()?;
    if crc32_of(to.open_uncached(aside)?.as_ref())? == crc {
        return Ok(());
    }
    let what = format!("{aside}: the bytes read back differ from the bytes written");
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// Copies the bytes of a file but for holes. A page that the disk cannot read is that of `before`, or a hole:
/// the disk may be the one that is to be replaced. Returns the CRC of the copy.
fn copy_readable(
    from: &dyn File,
    before: Option<&dyn File>,
    to: &dyn File,
    gate: &mut CopyGate<'_>,
) -> io::Result<u32> {
    let len = from.len()?;
    let mut buffer = vec![0; MIB as usize];
    let mut crc = Crc32::new();
    let mut at = 0;
    while at < len {
        let bytes = &mut buffer[..MIB.min(len - at) as usize];
        read_pages(from, before, bytes, at)?;
        crc.update(bytes);
        for (number, block) in bytes.chunks(BLOCK_BYTES as usize).enumerate() {
            let place = at + number as u64 * BLOCK_BYTES;
            if block.iter().any(|byte| *byte != 0) {
                to.write_all_at(block, place)?;
            }
        }
        at += bytes.len() as u64;
        gate(bytes.len() as u64)?;
    }
    if to.len()? < len {
        to.write_zeros(len - 1, 1)?;
    }
    Ok(crc.value())
}

/// Whether no byte of a file is left: each page is zeros, or cannot be read.
pub(super) fn has_nothing(file: &dyn File) -> io::Result<bool> {
    let len = file.len()?;
    let mut page = vec![0; PAGE_BYTES as usize];
    for at in (0..len).step_by(PAGE_BYTES as usize) {
        let part = &mut page[..PAGE_BYTES.min(len - at) as usize];
        match file.read_exact_at(part, at) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
            Err(error) => return Err(error),
            Ok(()) if part.iter().any(|byte| *byte != 0) => return Ok(false),
            Ok(()) => {}
        }
    }
    Ok(true)
}

/// Fills `bytes`, with those of `before` for the pages that the disk cannot read, or zeros.
fn read_pages(from: &dyn File, before: Option<&dyn File>, bytes: &mut [u8], at: u64) -> io::Result<()> {
    match from.read_exact_at(bytes, at) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
        read => return read,
    }
    for (number, page) in bytes.chunks_mut(PAGE_BYTES as usize).enumerate() {
        match from.read_exact_at(page, at + number as u64 * PAGE_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let place = at + number as u64 * PAGE_BYTES;
                if before.is_none_or(|before| before.read_exact_at(page, place).is_err()) {
                    page.fill(0);
                }
            }
            read => read?,
        }
    }
    Ok(())
}
