//! The progress of followers of the log, and the causes of changes (data-format.md, section 6, *follower* and *cause*).

use crate::format::{ByteDecoder, DecodeError, Decoded, Encode, LogPosition};

const REMOVED: u8 = 0;
const IN_LOG: u8 = 1;
const IN_SNAPSHOT: u8 = 2;

/// The progress of a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowerState {
    /// The last group that is done, or the one from which the log follows after the snapshot.
    pub position: LogPosition,
    /// The last key that is done, while the follower is in a snapshot.
    pub snapshot: Option<SnapshotCursor>,
}

/// A place between two keys of all buckets. The default is before all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SnapshotCursor {
    /// The id of the bucket; 0 before all buckets.
    pub bucket: u64,
    /// The key before the place; empty before all keys of the bucket.
    pub key: Vec<u8>,
}

/// The request that made a change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cause {
    /// The number of the entries after it that the request made.
    pub entries: u64,
    /// The name of the operation, as S3 calls it.
    pub operation: String,
    /// The name of the user; empty where there is none.
    pub user: String,
    /// The address of the client; empty where there is none.
    pub address: String,
    /// The id of the request; empty where there is none.
    pub request: String,
}

impl Cause {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.entries);
        for text in [&self.operation, &self.user, &self.address, &self.request] {
            out.put_bytes(text.as_bytes());
        }
    }

    pub(super) fn decode(from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        Ok(Self {
            entries: from.varint()?,
            operation: from.string()?.to_owned(),
            user: from.string()?.to_owned(),
            address: from.string()?.to_owned(),
            request: from.string()?.to_owned(),
        })
    }
}

/// Appends the fields of the entry *follower* after the name.
pub(super) fn encode_state(state: Option<&FollowerState>, out: &mut Vec<u8>) {
    let Some(FollowerState { position, snapshot }) = state else { return out.put_u8(REMOVED) };
    out.put_u8(if snapshot.is_some() { IN_SNAPSHOT } else { IN_LOG });
    out.put_varint(position.sequence);
    out.put_u32(position.crc);
    if let Some(cursor) = snapshot {
        out.put_varint(cursor.bucket);
        out.put_bytes(&cursor.key);
    }
}

/// Reads the fields of the entry *follower* after the name.
pub(super) fn decode_state(from: &mut ByteDecoder<'_>) -> Decoded<Option<FollowerState>> {
    let state = from.u8()?;
    match state {
        REMOVED => return Ok(None),
        IN_LOG | IN_SNAPSHOT => {}
        _ => return Err(DecodeError::Unknown("a state of a follower")),
    }
    let position = LogPosition { sequence: from.varint()?, crc: from.u32()? };
    let cursor = |from: &mut ByteDecoder<'_>| -> Decoded<SnapshotCursor> {
        Ok(SnapshotCursor { bucket: from.varint()?, key: from.bytes()?.to_vec() })
    };
    let snapshot = if state == IN_SNAPSHOT { Some(cursor(from)?) } else { None };
    Ok(Some(FollowerState { position, snapshot }))
}
