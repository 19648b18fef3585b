//! Extents of records: slicing them to a range, and checking them against their references.

use std::ops::Range;
use std::sync::Arc;

use crate::base::digest::Crc32;
use crate::format::{ExtentHeader, ExtentRef, StoreId};
use crate::log::{LogError, Segment};
use crate::store::shared::text::text;

/// Checks header with descriptor, and payload, each for itself: the payload can be read while the
/// header is damaged. The extent belongs to that key of the bucket with that id.
pub(crate) fn check(
    segment: &Arc<Segment>,
    store: &StoreId,
    extent: &ExtentRef,
    bucket: u64,
    key: &[u8],
) -> Vec<LogError> {
    let header = segment.extent(store, extent.offset);
    let header = header.and_then(|header| expect_reference(segment, header, extent));
    let named = header.and_then(|header| check_descriptor(segment, &header, extent, bucket, key));
    [named, segment.check_payload(extent)].into_iter().filter_map(Result::err).collect()
}

/// The parts of extents that a range of their bytes covers.
pub(crate) fn slices(extents: &[ExtentRef], range: &Range<u64>) -> Vec<ExtentRef> {
    let mut start = 0;
    let mut slices = Vec::new();
    for extent in extents {
        let end = start + u64::from(extent.take);
        let from = range.start.max(start);
        let to = range.end.min(end);
        if from < to {
            let skip = extent.skip + (from - start) as u32;
            let take = (to - from) as u32;
            slices.push(ExtentRef { skip, take, ..*extent });
        }
        start = end;
    }
    slices
}

/// Bytes of an extent that are checked.
pub(crate) fn len(extent: &ExtentRef) -> u64 {
    let payload_len = u64::from(extent.payload_len);
    ExtentHeader::BYTES as u64 + payload_len + ExtentHeader::table_len(payload_len)
}

/// A short mark of a key in a bucket; never 0. Two keys may have the same mark, by chance and
/// rarely.
pub(crate) fn owner_mark(bucket: u64, key: &[u8]) -> u32 {
    let mut crc = Crc32::with_seed(0);
    crc.update(&bucket.to_le_bytes());
    crc.update(key);
    crc.value() | 1
}

/// A shared extent names the first of those that it belongs to, which may be gone.
fn check_descriptor(
    segment: &Segment,
    header: &ExtentHeader,
    extent: &ExtentRef,
    bucket: u64,
    key: &[u8],
) -> Result<(), LogError> {
    let descriptor = segment.descriptor(header)?;
    if extent.shared || (descriptor.bucket == bucket && descriptor.key == key) {
        return Ok(());
    }
    let what = format!(
        "the extent names key {:?} of bucket {} ({:016x})",
        text(descriptor.key),
        descriptor.bucket_name,
        descriptor.bucket
    );
    Err(segment.damage(header.offset + header.descriptor_at(), what).into())
}

fn expect_reference(
    segment: &Segment,
    header: ExtentHeader,
    extent: &ExtentRef,
) -> Result<ExtentHeader, LogError> {
    if (header.payload_len, header.check) == (extent.payload_len, extent.check) {
        return Ok(header);
    }
    let what = format!(
        "the extent has {} bytes with check {:08x}, and the version refers to {} with {:08x}",
        header.payload_len, header.check, extent.payload_len, extent.check
    );
    Err(segment.damage(header.offset, what).into())
}
