//! Floor 1: encoding and decoding of every structure in data-format.md, without I/O or a clock.
//! Each module names its section. Decoding accepts any bytes: it never panics, and allocates no
//! more than the length of the input justifies.

mod attributes;
mod backup;
mod bucket_configuration;
mod checksum;
mod client_ids;
mod codec;
mod controls;
mod descriptor;
mod encrypted_block;
mod encryption;
mod entry;
mod epoch;
mod etag;
mod extent;
mod extent_ref;
mod features;
mod file_header;
mod follower;
mod footer;
mod group;
mod history;
mod ids;
mod layout;
mod lock_clock;
mod mirror_note;
mod names;
mod parcel;
mod plain_version;
mod reclaim;
mod remote_copy;
mod remote_mark;
mod salt_page;
mod scrub;
mod sealed_line;
mod side_mark;
mod state_file;
mod storage_class;
mod store_keys;
mod upload;
mod version;
mod written_bytes;

pub use attributes::{Attributes, EncodedPairs, pairs_encoded_len};
pub use backup::{BackupCurrent, BackupSlot};
pub use bucket_configuration::BucketConfigurationKind;
pub use checksum::{Checksum, ChecksumType};
pub use client_ids::{ClientId, ClientIds};
pub use codec::{ByteDecoder, DecodeError, Decoded, Encode};
pub use controls::{AclGrants, NamedUsers, ObjectControls, ObjectOwner, Retention, RetentionMode, UserGrant};
pub use descriptor::{Descriptor, ExtentPurpose, PayloadSource, RebuildRecord};
pub use encrypted_block::{ENCRYPTED_BLOCK_LAYOUT, EncryptedBlockHead, EncryptionKeyId, EncryptionKeyLine};
pub use encryption::{
    EncryptedRun, EncryptionKind, ExtentPackages, PACKAGE_PLAIN_BYTES, PartEncryption, PlainDigests,
    RunCursor, VersionEncryption, WrappedKey, plain_len, stored_len,
};
pub use entry::{BucketRecord, CheckpointEnd, Entry, RawEntry, RawVersionPut, Versioning};
pub use epoch::{
    Claim, ClaimId, Cut, EpochRecord, Floor, Heartbeat, LogPosition, ParcelId, ReturnPoint, Root, RootId,
    TakeoverWish,
};
pub use etag::ETag;
pub use extent::{EXTENT_LAYOUT, ExtentHeader};
pub use extent_ref::ExtentRef;
pub use features::Features;
pub use file_header::{FILE_LAYOUT, FileHeader, FileKind, StoreId};
pub use follower::{Cause, FollowerNote, FollowerState, RefusedKey, RefusedKeys, SnapshotCursor};
pub use footer::{FOOTER_LAYOUT, Footer};
pub use group::{GROUP_LAYOUT, Group, GroupHeader, GroupKind, Pack, UncheckedGroup};
pub use history::{BucketSize, DaySizes, History, HistorySample};
pub use ids::{UploadId, VersionId};
pub use layout::Field;
pub use lock_clock::{LockClockState, SavedTime};
pub use mirror_note::{MirrorNote, MirrorUpload, MirroredPlace, TargetOrigin};
pub use names::{
    ASIDE, BULK_MARK_NUMBER, CLOCK, EPOCH, FAST_MARK, HISTORY, KEYS, KEYS_COPY, LOCK, RECLAIM, RETURN, SCRUB,
    SHADOW, SIDE_MARK_NUMBER, STANDBY, aside_path, checkpoint_path, log_path, number_of, segment_path,
    tables_path, unfinished,
};
pub use parcel::{
    PARCEL_LAYOUT, PARCEL_MAX_BYTES, PIECE_LAYOUT, PIECE_MAX_BYTES, Parcel, ParcelHead, ParcelPiece,
};
pub use plain_version::PlainVersion;
pub use reclaim::{HoleVerdict, MoveVerdict, ReclaimState, SegmentVerdict};
pub use remote_copy::{CopyPhase, RemoteCopy};
pub use remote_mark::RemoteMark;
pub use salt_page::{SALT_PAGE_LAYOUT, SaltPage, StoreKeyId};
pub use scrub::{BadExtent, ExtentOwner, ExtentOwnerKind, ScrubState};
pub use sealed_line::SEALED_LINE_MAX_BYTES;
pub use side_mark::{
    EndedGeneration, Generation, GenerationId, SIDE_MARK_LAYOUT, SideId, SideMark, SideState, WitnessMark,
};
pub use state_file::STATE_FILE_LAYOUT;
pub use store_keys::{
    KEY_SLOT_LAYOUT, KEYS_LAYOUT, KeySlot, KeySlotKind, KeysPage, KeysState, PassphraseCost, StoreKeyLine,
};
pub use upload::{PartRecord, UploadRecord};
pub(crate) use version::flag;
pub use version::{AssembledPart, Assembly, VersionRecord, VersionSummary};
pub use written_bytes::WrittenBytes;

use crate::base::limits::PAGE_BYTES;
pub use crate::base::{ChecksumAlgorithm, StorageClass};

/// Bytes of a unit: extents start at multiples of it.
pub const UNIT_BYTES: u64 = 64;

/// `offset` rounded up to a page.
pub fn page_ceil(offset: u64) -> u64 {
    offset.next_multiple_of(PAGE_BYTES)
}

/// `offset` rounded up to a unit.
pub fn unit_ceil(offset: u64) -> u64 {
    offset.next_multiple_of(UNIT_BYTES)
}
