//! The progress and findings of the scrub (data-format.md, section 12).

use crate::base::Timestamp;
use crate::format::state_file::{self, StateFileMagic};
use crate::format::{ByteDecoder, DecodeError, Decoded, Encode, StoreId, UploadId, VersionId};

const MAGIC_BYTES: &StateFileMagic = b"SiltScr2";
/// The magic of files that describe a pass in key order.
const BY_KEY_MAGIC_BYTES: &StateFileMagic = b"SiltScrb";

/// The smallest encoding of a bad extent.
const BAD_EXTENT_BYTES_MIN: usize = 18;

/// The saved state of the scrub.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubState {
    /// The start of the last pass.
    pub begun: Option<Timestamp>,
    /// Whether that pass is still running.
    pub goes_on: bool,
    /// The end of the last completed pass.
    pub finished: Option<Timestamp>,
    /// The current segment of the pass; all live extents in segments with lower ids have been
    /// checked.
    pub segment: u64,
    /// All live extents in that segment before this offset have been checked, too.
    pub offset: u64,
    /// The newest segment at the start of the pass. Later ones are left to the next pass.
    pub end: u64,
    /// Extents checked in this pass.
    pub extents: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bad extents found in this pass that do not fit in the list.
    pub unlisted: u64,
    /// The list of bad extents.
    pub bad: Vec<BadExtent>,
}

/// The version or part that refers to an extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentOwner {
    /// The id of the bucket.
    pub bucket: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The version or part.
    pub which: ExtentOwnerKind,
}

/// A version, or a part of an upload in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentOwnerKind {
    /// A version.
    Version(VersionId),
    /// A part, by its number.
    Part(UploadId, u32),
}

/// A damaged extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadExtent {
    /// The version or part that refers to it.
    pub owner: ExtentOwner,
    /// The segment that holds it.
    pub segment: u64,
    /// Its offset.
    pub offset: u64,
    /// The time when it was found.
    pub found: Timestamp,
    /// The offset of the damage in the segment.
    pub at: u64,
    /// The expected and the actual content.
    pub what: String,
}

impl ScrubState {
    /// The file.
    pub fn encode(&self, store: &StoreId) -> Vec<u8> {
        let mut body = Vec::new();
        body.put_varint(millis(self.begun));
        body.put_u8(u8::from(self.goes_on));
        body.put_varint(millis(self.finished));
        let Self { segment, offset, end, extents, bytes, unlisted, .. } = *self;
        for number in [segment, offset, end, extents, bytes, unlisted, self.bad.len() as u64] {
            body.put_varint(number);
        }
        for bad in &self.bad {
            bad.encode(&mut body);
        }
        state_file::encode(MAGIC_BYTES, store, &body)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(store: &StoreId, file: &[u8]) -> Decoded<Self> {
        let (by_key, body) = state_file::decode([MAGIC_BYTES, BY_KEY_MAGIC_BYTES], store, file)?;
        let mut decoder = ByteDecoder::new(body);
        let state =
            if by_key == 1 { Self::decode_by_key(&mut decoder) } else { Self::decode_body(&mut decoder) }?;
        decoder.finish().map(|()| state)
    }

    fn decode_body(decoder: &mut ByteDecoder<'_>) -> Decoded<Self> {
        Ok(Self {
            begun: timestamp(decoder)?,
            goes_on: match decoder.u8()? {
                0 => false,
                1 => true,
                _ => return Err(DecodeError::Unknown("a state of the scrub")),
            },
            finished: timestamp(decoder)?,
            segment: decoder.varint()?,
            offset: decoder.varint()?,
            end: decoder.varint()?,
            extents: decoder.varint()?,
            bytes: decoder.varint()?,
            unlisted: decoder.varint()?,
            bad: decode_bad(decoder)?,
        })
    }

    /// Decodes the state of a pass in key order. Such a pass starts again; its findings stay.
    fn decode_by_key(decoder: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let started = timestamp(decoder)?;
        let finished = timestamp(decoder)?;
        skip_position(decoder)?;
        // Progress, extents, bytes and unlisted of that pass.
        for _ in 0..4 {
            decoder.varint()?;
        }
        let begun = if started.is_some() { None } else { finished };
        Ok(Self { begun, finished, bad: decode_bad(decoder)?, ..Self::default() })
    }
}

fn decode_bad(decoder: &mut ByteDecoder<'_>) -> Decoded<Vec<BadExtent>> {
    let count = decoder.count(BAD_EXTENT_BYTES_MIN)?;
    (0..count).map(|_| BadExtent::decode(decoder)).collect()
}

/// Skips a position in key order: a kind, a bucket, and fields that depend on the kind.
fn skip_position(decoder: &mut ByteDecoder<'_>) -> Decoded<()> {
    let kind = decoder.u8()?;
    decoder.varint()?;
    match kind {
        0 | 1 | 3 | 5 => Ok(()),
        2 => decoder.bytes().map(|_| ()),
        4 => decoder.bytes().and_then(|_| decoder.u64()).map(|_| ()),
        _ => Err(DecodeError::Unknown("a position of the scrub")),
    }
}

impl BadExtent {
    fn encode(&self, body: &mut Vec<u8>) {
        let Self { owner: ExtentOwner { bucket, key, which }, segment, offset, found, at, what } = self;
        body.put_varint(*bucket);
        body.put_bytes(key);
        let (id, part) = match which {
            ExtentOwnerKind::Version(id) => (id.0, 0),
            ExtentOwnerKind::Part(upload, number) => (upload.0, *number),
        };
        body.put_u64(id);
        for number in [part.into(), *segment, *offset, found.as_millis(), *at] {
            body.put_varint(number);
        }
        body.put_bytes(what.as_bytes());
    }

    fn decode(decoder: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let bucket = decoder.varint()?;
        let key = decoder.bytes()?.to_vec();
        let id = decoder.u64()?;
        let part = decoder.varint()?;
        let which = match u32::try_from(part).map_err(|_| DecodeError::Value("the number of a part"))? {
            0 => ExtentOwnerKind::Version(VersionId(id)),
            number => ExtentOwnerKind::Part(UploadId(id), number),
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

/// The time in milliseconds; 0 means none.
fn millis(time: Option<Timestamp>) -> u64 {
    time.map_or(0, Timestamp::as_millis)
}

fn timestamp(decoder: &mut ByteDecoder<'_>) -> Decoded<Option<Timestamp>> {
    let millis = decoder.varint()?;
    Ok((millis > 0).then(|| Timestamp::from_millis(millis)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([1; 16]);

    fn bad(which: ExtentOwnerKind) -> BadExtent {
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
        for goes_on in [false, true] {
            let state = ScrubState {
                begun: Some(Timestamp::from_millis(1)),
                goes_on,
                finished: Some(Timestamp::from_millis(3)),
                segment: 300,
                offset: 1 << 40,
                end: 302,
                unlisted: 2,
                bad: vec![
                    bad(ExtentOwnerKind::Version(VersionId(8))),
                    bad(ExtentOwnerKind::Part(UploadId(8), 4)),
                ],
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

    /// The file of a pass in key order.
    fn by_key(started: u64, position: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        body.put_varint(started);
        body.put_varint(7);
        body.extend_from_slice(position);
        for number in [300, 9, 90_000, 2, 1] {
            body.put_varint(number);
        }
        bad(ExtentOwnerKind::Version(VersionId(8))).encode(&mut body);
        state_file::encode(BY_KEY_MAGIC_BYTES, &STORE, &body)
    }

    #[test]
    fn findings_of_a_pass_in_key_order_are_kept_and_the_pass_restarts() {
        let upload = [&[4, 5, 3][..], b"key", &[9; 8]].concat();
        let positions = [&[0, 0][..], &[1, 5], &[2, 5, 3, 107, 101, 121], &[3, 5], &upload, &[5, 200, 1]];
        for position in positions {
            let finished = Some(Timestamp::from_millis(7));
            let expected = ScrubState {
                finished,
                bad: vec![bad(ExtentOwnerKind::Version(VersionId(8)))],
                ..ScrubState::default()
            };
            assert_eq!(ScrubState::decode(&STORE, &by_key(1, position)), Ok(expected.clone()));
            let rests = ScrubState { begun: finished, ..expected };
            assert_eq!(ScrubState::decode(&STORE, &by_key(0, position)), Ok(rests));
        }
        assert!(ScrubState::decode(&STORE, &by_key(1, &[6, 0])).is_err());
    }
}
