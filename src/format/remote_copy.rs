//! Copies of segments on the remote (data-format.md, section 6, *remote segment*).

use crate::base::Timestamp;
use crate::format::{ByteDecoder, DecodeError, Decoded, Encode};

/// How far a copy of a segment on the remote is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyPhase {
    /// It may be there in part, wholly or not at all. It counts for nothing.
    Leaving,
    /// It is there, whole and compared.
    Remote,
    /// No version refers to the segment any more. The copy goes after a while.
    Dropped,
}

impl CopyPhase {
    const NUMBERS: [(Self, u8); 3] = [(Self::Leaving, 1), (Self::Remote, 2), (Self::Dropped, 3)];
    /// There is no copy, and none is wanted.
    const NONE: u8 = 0;

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leaving => "leaving",
            Self::Remote => "remote",
            Self::Dropped => "dropped",
        }
    }

    fn number(self) -> u8 {
        Self::NUMBERS.into_iter().find(|(phase, _)| *phase == self).expect("it has all phases").1
    }
}

/// A copy of a segment on the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteCopy {
    /// How far it is.
    pub phase: CopyPhase,
    /// The epoch in which it was made: a part of its name.
    pub epoch: u64,
    /// Distinguishes two copies of one segment: a part of its name.
    pub nonce: u32,
    /// Bytes of the segment.
    pub length: u64,
    /// The time of the change to this phase.
    pub since: Timestamp,
}

impl RemoteCopy {
    /// The beginning of the names of all copies.
    pub const PREFIX: &str = "segment/";

    /// Its name below the prefix of the remote.
    pub fn name(&self, segment: u64) -> String {
        format!("segment/{:016x}/{segment:016x}-{:08x}", self.epoch, self.nonce)
    }

    /// The nonce that its put has.
    pub fn put_nonce(&self) -> String {
        format!("{:08x}", self.nonce)
    }
}

/// Appends the encoding of the copy of a segment, or of none.
pub(super) fn encode_copy(copy: Option<&RemoteCopy>, out: &mut Vec<u8>) {
    let Some(copy) = copy else { return out.put_u8(CopyPhase::NONE) };
    out.put_u8(copy.phase.number());
    out.put_varint(copy.epoch);
    out.put_u32(copy.nonce);
    out.put_varint(copy.length);
    out.put_varint(copy.since.as_millis());
}

/// Decodes the copy of a segment, or none.
pub(super) fn decode_copy(from: &mut ByteDecoder<'_>) -> Decoded<Option<RemoteCopy>> {
    let number = from.u8()?;
    if number == CopyPhase::NONE {
        return Ok(None);
    }
    let known = CopyPhase::NUMBERS.into_iter().find(|(_, known)| *known == number);
    let (phase, _) = known.ok_or(DecodeError::Unknown("a phase of a remote segment"))?;
    Ok(Some(RemoteCopy {
        phase,
        epoch: from.varint()?,
        nonce: from.u32()?,
        length: from.varint()?,
        since: Timestamp::from_millis(from.varint()?),
    }))
}
