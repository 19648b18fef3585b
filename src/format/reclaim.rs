//! Cached results of the search for reclaimable space (data-format.md, section 13).

use std::collections::BTreeMap;

use crate::format::state_file::{self, StateFileMagic};
use crate::format::{ByteDecoder, DecodeError, Decoded, Encode, StoreId};

const MAGIC_BYTES: &StateFileMagic = b"SiltRclm";

/// The smallest encoding of a segment.
const SEGMENT_BYTES_MIN: usize = 3;

/// The results for each segment, by its id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReclaimState {
    /// The segments.
    pub segments: BTreeMap<u64, SegmentVerdict>,
}

/// The results for a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentVerdict {
    /// The result for holes.
    pub hole: Option<HoleVerdict>,
    /// The result for relocation.
    pub moving: Option<MoveVerdict>,
}

/// The live bytes of a segment when holes were last considered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoleVerdict {
    /// Bytes.
    pub live: u64,
    /// Whether holes were looked for then. If not, `live` is all that may ever have lived in the
    /// segment.
    pub searched: bool,
}

/// The size that a segment would have without its dead bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveVerdict {
    /// The live bytes when this was computed.
    pub live: u64,
    /// The length with only live extents, in bytes. `u64::MAX`: its live extents cannot be
    /// relocated.
    pub dense: u64,
}

impl ReclaimState {
    /// The file. Segments that would make it longer than `max_bytes` are omitted.
    pub fn encode(&self, store: &StoreId, max_bytes: u64) -> Vec<u8> {
        let mut count = 0;
        let mut segments = Vec::new();
        let mut last = 0;
        // The header and the count take less than a hundred bytes.
        let room = max_bytes.saturating_sub(100) as usize;
        for (id, verdict) in &self.segments {
            let before = segments.len();
            segments.put_varint(id - last);
            verdict.encode(&mut segments);
            if segments.len() > room {
                segments.truncate(before);
                break;
            }
            (count, last) = (count + 1, *id);
        }
        let mut body = Vec::with_capacity(segments.len() + 10);
        body.put_varint(count);
        body.extend(segments);
        state_file::encode(MAGIC_BYTES, store, &body)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(store: &StoreId, file: &[u8]) -> Decoded<Self> {
        let (_, body) = state_file::decode([MAGIC_BYTES], store, file)?;
        let mut decoder = ByteDecoder::new(body);
        let mut segments = BTreeMap::new();
        let mut last = 0_u64;
        for _ in 0..decoder.count(SEGMENT_BYTES_MIN)? {
            last = last.checked_add(decoder.varint()?).ok_or(DecodeError::Value("a segment"))?;
            segments.insert(last, SegmentVerdict::decode(&mut decoder)?);
        }
        decoder.finish().map(|()| Self { segments })
    }
}

impl SegmentVerdict {
    fn encode(&self, body: &mut Vec<u8>) {
        body.put_varint(self.hole.map_or(0, |hole| hole.live << 1 | u64::from(hole.searched)));
        body.put_varint(self.moving.map_or(0, |moving| moving.live));
        if let Some(MoveVerdict { dense, .. }) = self.moving {
            body.put_varint(dense);
        }
    }

    fn decode(decoder: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let hole = Some(decoder.varint()?).filter(|hole| *hole > 0);
        let hole = hole.map(|hole| HoleVerdict { live: hole >> 1, searched: hole & 1 == 1 });
        let moving = match decoder.varint()? {
            0 => None,
            live => Some(MoveVerdict { live, dense: decoder.varint()? }),
        };
        Ok(Self { hole, moving })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([1; 16]);

    fn state() -> ReclaimState {
        let hole = |live, searched| Some(HoleVerdict { live, searched });
        let moving = |live, dense| Some(MoveVerdict { live, dense });
        let segments = [
            (1, SegmentVerdict { hole: hole(5, false), moving: None }),
            (2, SegmentVerdict { hole: None, moving: moving(300, u64::MAX) }),
            (90, SegmentVerdict { hole: hole(1 << 40, true), moving: moving(7, 0) }),
            (u64::MAX, SegmentVerdict::default()),
        ];
        ReclaimState { segments: segments.into() }
    }

    #[test]
    fn a_state_comes_back_and_no_flip_passes() {
        let file = state().encode(&STORE, 1 << 20);
        assert_eq!(ReclaimState::decode(&STORE, &file), Ok(state()));
        for at in 0..file.len() {
            let mut flipped = file.clone();
            flipped[at] ^= 4;
            assert!(ReclaimState::decode(&STORE, &flipped).is_err(), "byte {at}");
            assert!(ReclaimState::decode(&STORE, &file[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn segments_that_do_not_fit_are_left_out() {
        let verdict =
            SegmentVerdict { hole: Some(HoleVerdict { live: 1 << 28, searched: true }), moving: None };
        let all = ReclaimState { segments: (1..1000).map(|id| (id, verdict)).collect() };
        let file = all.encode(&STORE, 1000);
        assert!(file.len() <= 1000);
        let kept = ReclaimState::decode(&STORE, &file).unwrap();
        assert!(
            kept.segments.len() > 100 && all.segments.range(..=kept.segments.len() as u64).eq(&kept.segments)
        );
    }

    #[test]
    fn ids_that_no_number_holds_are_refused() {
        let mut body = vec![2];
        body.put_varint(u64::MAX);
        body.extend([0, 0, 1, 0, 0]);
        let file = state_file::encode(MAGIC_BYTES, &STORE, &body);
        assert_eq!(ReclaimState::decode(&STORE, &file), Err(DecodeError::Value("a segment")));
    }
}
