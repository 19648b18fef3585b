//! How far the scrub has got, and what it found (data-format.md, section 12).

use crate::base::Timestamp;
use crate::format::kept::{self, Magic};
use crate::format::{DecodeError, Decoded, Decoder, Encode, StoreId, UploadId, VersionId};

const MAGIC_BYTES: &Magic = b"SiltScrb";

/// The smallest encoding of a bad extent.
const BAD_EXTENT_BYTES_MIN: usize = 18;

/// What is kept of the scrub.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubState {
    /// When the pass that goes on was begun; `None` between passes.
    pub started: Option<Timestamp>,
    /// When the last pass ended.
    pub finished: Option<Timestamp>,
    /// All before it has been checked in this pass.
    pub position: ScrubPosition,
    /// Extents behind the position that have been checked, too.
    pub done: u64,
    /// Extents checked in this pass.
    pub extents: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bad extents found in this pass that are not listed, for want of room.
    pub unlisted: u64,
    /// What was found to be bad.
    pub bad: Vec<BadExtent>,
}

/// A place in the order of buckets, keys and uploads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ScrubPosition {
    /// Before the first bucket.
    #[default]
    Start,
    /// In a bucket, behind a key or before all of them.
    Keys(u64, Option<Vec<u8>>),
    /// In a bucket, behind all keys, and behind an upload or before all of them.
    Uploads(u64, Option<(Vec<u8>, UploadId)>),
    /// Behind a bucket.
    Behind(u64),
}

/// Whose an extent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentOwner {
    /// The id of the bucket.
    pub bucket: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The version or part.
    pub which: OwnerKind,
}

/// A version, or a part of an upload in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerKind {
    /// A version.
    Version(VersionId),
    /// A part, by its number.
    Part(UploadId, u32),
}

/// An extent that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadExtent {
    /// Whose it is.
    pub owner: ExtentOwner,
    /// The segment that it lies in.
    pub segment: u64,
    /// Where it starts.
    pub offset: u64,
    /// When it was found.
    pub found: Timestamp,
    /// Bytes from the start of the segment to what is wrong.
    pub at: u64,
    /// What was expected, and what is there instead.
    pub what: String,
}

impl ScrubState {
    /// The file.
    pub fn encode(&self, store: &StoreId) -> Vec<u8> {
        let mut body = Vec::new();
        body.put_varint(millis(self.started));
        body.put_varint(millis(self.finished));
        self.position.encode(&mut body);
        for number in [self.done, self.extents, self.bytes, self.unlisted, self.bad.len() as u64] {
            body.put_varint(number);
        }
        self.bad.iter().for_each(|bad| bad.encode(&mut body));
        kept::encode(MAGIC_BYTES, store, &body)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(store: &StoreId, file: &[u8]) -> Decoded<Self> {
        let (_, body) = kept::decode([MAGIC_BYTES], store, file)?;
        let mut decoder = Decoder::new(body);
        let state = Self {
            started: timestamp(&mut decoder)?,
            finished: timestamp(&mut decoder)?,
            position: ScrubPosition::decode(&mut decoder)?,
            done: decoder.varint()?,
            extents: decoder.varint()?,
            bytes: decoder.varint()?,
            unlisted: decoder.varint()?,
            bad: {
                let count = decoder.count(BAD_EXTENT_BYTES_MIN)?;
                (0..count).map(|_| BadExtent::decode(&mut decoder)).collect::<Decoded<_>>()?
            },
        };
        decoder.finish().map(|()| state)
    }
}

impl ScrubPosition {
    fn encode(&self, body: &mut Vec<u8>) {
        let (kind, bucket) = match self {
            Self::Start => (0, 0),
            Self::Keys(bucket, None) => (1, *bucket),
            Self::Keys(bucket, Some(_)) => (2, *bucket),
            Self::Uploads(bucket, None) => (3, *bucket),
            Self::Uploads(bucket, Some(_)) => (4, *bucket),
            Self::Behind(bucket) => (5, *bucket),
        };
        body.put_u8(kind);
        body.put_varint(bucket);
        match self {
            Self::Keys(_, Some(key)) => body.put_bytes(key),
            Self::Uploads(_, Some((key, upload))) => {
                body.put_bytes(key);
                body.put_u64(upload.0);
            }
            _ => {}
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        let (kind, bucket) = (decoder.u8()?, decoder.varint()?);
        Ok(match kind {
            0 => Self::Start,
            1 => Self::Keys(bucket, None),
            2 => Self::Keys(bucket, Some(decoder.bytes()?.to_vec())),
            3 => Self::Uploads(bucket, None),
            4 => Self::Uploads(bucket, Some((decoder.bytes()?.to_vec(), UploadId(decoder.u64()?)))),
            5 => Self::Behind(bucket),
            _ => return Err(DecodeError::Unknown("a position of the scrub")),
        })
    }
}

impl BadExtent {
    fn encode(&self, body: &mut Vec<u8>) {
        let Self { owner: ExtentOwner { bucket, key, which }, segment, offset, found, at, what } = self;
        body.put_varint(*bucket);
        body.put_bytes(key);
        let (id, part) = match which {
            OwnerKind::Version(id) => (id.0, 0),
            OwnerKind::Part(upload, number) => (upload.0, *number),
        };
        body.put_u64(id);
        for number in [part.into(), *segment, *offset, found.as_millis(), *at] {
            body.put_varint(number);
        }
        body.put_bytes(what.as_bytes());
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        let (bucket, key) = (decoder.varint()?, decoder.bytes()?.to_vec());
        let (id, part) = (decoder.u64()?, decoder.varint()?);
        let which = match u32::try_from(part).map_err(|_| DecodeError::Value("the number of a part"))? {
            0 => OwnerKind::Version(VersionId(id)),
            number => OwnerKind::Part(UploadId(id), number),
        };
        Ok(Self {
            owner: ExtentOwner { bucket, key, which },
            segment: decoder.varint()?,
            offset: decoder.varint()?,
            found: Timestamp::from_millis(decoder.varint()?),
            at: decoder.varint()?,
            what: decoder.string()?.to_owned(),
        })
    }
}

/// 0 stands for no time.
fn millis(time: Option<Timestamp>) -> u64 {
    time.map_or(0, Timestamp::as_millis)
}

fn timestamp(decoder: &mut Decoder<'_>) -> Decoded<Option<Timestamp>> {
    let millis = decoder.varint()?;
    Ok((millis > 0).then(|| Timestamp::from_millis(millis)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([1; 16]);

    fn bad(which: OwnerKind) -> BadExtent {
        BadExtent {
            owner: ExtentOwner { bucket: 1 << 50, key: b"k".to_vec(), which },
            segment: 3,
            offset: 8192,
            found: Timestamp::from_millis(7),
            at: 8300,
            what: "the block has another CRC".into(),
        }
    }

    #[test]
    fn a_state_comes_back_and_no_flip_passes() {
        let key = || Some(b"some key".to_vec());
        let positions = [
            ScrubPosition::Start,
            ScrubPosition::Keys(5, None),
            ScrubPosition::Keys(5, key()),
            ScrubPosition::Uploads(5, None),
            ScrubPosition::Uploads(5, key().map(|key| (key, UploadId(9)))),
            ScrubPosition::Behind(u64::MAX),
        ];
        for position in positions {
            let state = ScrubState {
                started: Some(Timestamp::from_millis(1)),
                position,
                done: 300,
                unlisted: 2,
                bad: vec![bad(OwnerKind::Version(VersionId(8))), bad(OwnerKind::Part(UploadId(8), 4))],
                ..ScrubState::default()
            };
            let file = state.encode(&STORE);
            assert_eq!(ScrubState::decode(&STORE, &file), Ok(state));
            for at in 0..file.len() {
                let mut flipped = file.clone();
                flipped[at] ^= 4;
                assert!(ScrubState::decode(&STORE, &flipped).is_err(), "byte {at}");
                assert!(ScrubState::decode(&STORE, &file[..at]).is_err(), "{at} bytes");
            }
        }
    }
}
