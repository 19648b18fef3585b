//! The progress of followers of the log, and the causes of changes (data-format.md, section
//! 6, *follower* and *cause*).

use crate::base::Timestamp;
use crate::format::{ByteDecoder, DecodeError, Decoded, Encode, Features, LogPosition};

const REMOVED: u8 = 0;
const IN_LOG: u8 = 1;
const IN_SNAPSHOT: u8 = 2;
/// Added to a state with refused keys.
const WITH_REFUSED: u8 = 4;
/// The smallest encoding of a refused key.
const REFUSED_BYTES_MIN: usize = 4;

/// The progress of a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowerState {
    /// The last group that is done, or the one from which the log follows after the snapshot.
    pub position: LogPosition,
    /// The last key that is done, while the follower is in a snapshot.
    pub snapshot: Option<SnapshotCursor>,
    /// The keys that are done although they could not be delivered.
    pub refused: RefusedKeys,
}

/// Keys that a consumer has set aside, since they were refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefusedKeys {
    /// The number of those that are not listed.
    pub unlisted: u64,
    /// The others, at most [`RefusedKeys::LISTED_MAX`].
    pub keys: Vec<RefusedKey>,
}

/// A key that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedKey {
    /// The id of its bucket.
    pub bucket: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The time of the refusal.
    pub time: Timestamp,
    /// The reason.
    pub reason: String,
}

/// Something that a consumer has to know after a restart. The store does not interpret it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowerNote {
    /// The name of the note.
    pub key: Vec<u8>,
    /// Its value; `None` removes the note.
    pub value: Option<Vec<u8>>,
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
    /// The public ids of the stores whose mirrors brought the change, the last one first. They have
    /// an entry of their own.
    pub origins: Vec<String>,
}

impl Cause {
    /// The operation of lifecycle rules that take versions.
    pub const LIFECYCLE_EXPIRATION: &str = "LifecycleExpiration";
    /// The operation of lifecycle rules that give versions another storage class.
    pub const LIFECYCLE_TRANSITION: &str = "LifecycleTransition";
}

impl FollowerState {
    /// The critical features that a file with this progress needs, beside followers.
    pub fn features(&self) -> Features {
        if self.refused.is_empty() { Features::NONE } else { Features::REFUSED_KEYS }
    }
}

impl RefusedKeys {
    /// The most keys that are listed.
    pub const LISTED_MAX: usize = 100;

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.unlisted == 0 && self.keys.is_empty()
    }

    /// The bytes of their keys and reasons.
    pub fn text_bytes(&self) -> usize {
        self.keys.iter().map(|refused| refused.key.len() + refused.reason.len()).sum()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.unlisted);
        out.put_varint(self.keys.len() as u64);
        for refused in &self.keys {
            out.put_varint(refused.bucket);
            out.put_bytes(&refused.key);
            out.put_varint(refused.time.as_millis());
            out.put_bytes(refused.reason.as_bytes());
        }
    }

    fn decode(from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let unlisted = from.varint()?;
        let count = from.count(REFUSED_BYTES_MIN)?;
        if count > Self::LISTED_MAX {
            return Err(DecodeError::Value("refused keys"));
        }
        let mut keys = Vec::with_capacity(count);
        for _ in 0..count {
            keys.push(RefusedKey {
                bucket: from.varint()?,
                key: from.bytes()?.to_vec(),
                time: Timestamp::from_millis(from.varint()?),
                reason: from.string()?.to_owned(),
            });
        }
        Ok(Self { unlisted, keys })
    }
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
            origins: Vec::new(),
        })
    }
}

/// Appends the fields of the entry *origin*.
pub(super) fn encode_origins(origins: &[String], out: &mut Vec<u8>) {
    out.put_varint(origins.len() as u64);
    for origin in origins {
        out.put_bytes(origin.as_bytes());
    }
}

/// Reads the fields of the entry *origin*.
pub(super) fn decode_origins(from: &mut ByteDecoder<'_>) -> Decoded<Vec<String>> {
    let count = from.count(1)?;
    (0..count).map(|_| Ok(from.string()?.to_owned())).collect()
}

/// Appends the fields of the entry *follower* after the name.
pub(super) fn encode_state(state: Option<&FollowerState>, out: &mut Vec<u8>) {
    let Some(FollowerState { position, snapshot, refused }) = state else { return out.put_u8(REMOVED) };
    let with_refused = if refused.is_empty() { 0 } else { WITH_REFUSED };
    out.put_u8(if snapshot.is_some() { IN_SNAPSHOT } else { IN_LOG } + with_refused);
    out.put_varint(position.sequence);
    out.put_u32(position.crc);
    if let Some(cursor) = snapshot {
        out.put_varint(cursor.bucket);
        out.put_bytes(&cursor.key);
    }
    if !refused.is_empty() {
        refused.encode(out);
    }
}

/// Reads the fields of the entry *follower* after the name.
pub(super) fn decode_state(from: &mut ByteDecoder<'_>) -> Decoded<Option<FollowerState>> {
    let state = from.u8()?;
    let is_in_snapshot = match state & !WITH_REFUSED {
        REMOVED if state == REMOVED => return Ok(None),
        IN_LOG => false,
        IN_SNAPSHOT => true,
        _ => return Err(DecodeError::Unknown("a state of a follower")),
    };
    let position = LogPosition { sequence: from.counter("a sequence")?, crc: from.u32()? };
    let mut snapshot = None;
    if is_in_snapshot {
        snapshot = Some(SnapshotCursor { bucket: from.varint()?, key: from.bytes()?.to_vec() });
    }
    let refused = if state & WITH_REFUSED != 0 { RefusedKeys::decode(from)? } else { RefusedKeys::default() };
    Ok(Some(FollowerState { position, snapshot, refused }))
}
