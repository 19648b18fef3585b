//! Floor 1: bytes <-> values, without I/O and without a clock: the code half of data-format.md, whose sections are named
//! above each type. Decoding accepts any bytes: it never panics and never allocates more than they justify.

mod backup;
mod client_ids;
mod codec;
mod descriptor;
mod entry;
mod extent;
mod file_header;
mod footer;
mod group;
mod kept;
mod layout;
mod names;
mod reclaim;
mod scrub;
mod upload;
mod version;
mod written;

pub use backup::{BackupCurrent, BackupSlot};
pub use client_ids::{ClientId, ClientIds};
pub use codec::{DecodeError, Decoded, Decoder, Encode};
pub use descriptor::{Descriptor, Purpose, Recorded, Source};
pub use entry::{BucketRecord, CheckpointEnd, Entry, RawEntry, RawVersionPut, Versioning};
pub use extent::{EXTENT_LAYOUT, ExtentHeader};
pub use file_header::{FILE_LAYOUT, FileHeader, FileKind, StoreId};
pub use footer::{FOOTER_LAYOUT, Footer};
pub use group::{GROUP_LAYOUT, Group, GroupHeader, GroupKind, Pack, UncheckedGroup};
pub use kept::KEPT_LAYOUT;
pub use layout::Field;
pub use names::{LOCK, RECLAIM, SCRUB, checkpoint_path, log_path, number_of, segment_path, unfinished};
pub use reclaim::{HoleVerdict, MoveVerdict, ReclaimState, SegmentVerdict};
pub use scrub::{BadExtent, ExtentOwner, OwnerKind, ScrubState};
pub use upload::{PartRecord, UploadRecord};
pub use version::{
    AssembledPart, Assembly, Attributes, Checksum, ChecksumAlgorithm, ChecksumType, ETag, EncodedPairs,
    ExtentRef, PlainVersion, UploadId, VersionId, VersionRecord, VersionSummary,
};
pub use written::WrittenBytes;

use crate::base::limits::PAGE_BYTES;

/// Bytes of a unit: extents start at multiples of it.
pub const UNIT_BYTES: u64 = 64;

/// `offset` or the next page behind it.
pub fn page_ceil(offset: u64) -> u64 {
    offset.next_multiple_of(PAGE_BYTES)
}

/// `offset` or the next unit behind it.
pub fn unit_ceil(offset: u64) -> u64 {
    offset.next_multiple_of(UNIT_BYTES)
}
