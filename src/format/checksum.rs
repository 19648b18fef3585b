//! Checksums of objects and parts (data-format.md, section 7).

use crate::base::ChecksumAlgorithm;
use crate::format::codec::to_u32;
use crate::format::{ByteDecoder, DecodeError, Decoded, Encode};

/// The smallest encoding of a checksum.
pub(super) const CHECKSUM_BYTES_MIN: usize = 4;

/// The algorithms in the order of their numbers in the format, which start at 1.
const NUMBERED_ALGORITHMS: [ChecksumAlgorithm; 5] = [
    ChecksumAlgorithm::Crc32,
    ChecksumAlgorithm::Crc32c,
    ChecksumAlgorithm::Sha1,
    ChecksumAlgorithm::Sha256,
    ChecksumAlgorithm::Crc64Nvme,
];

impl ChecksumAlgorithm {
    pub(super) fn number(self) -> u8 {
        let at = NUMBERED_ALGORITHMS.iter().position(|numbered| *numbered == self);
        at.expect("every algorithm has a number") as u8 + 1
    }

    /// The algorithm with a number of the format.
    ///
    /// # Errors
    /// [`DecodeError::Value`] and [`DecodeError::Unknown`] for other numbers.
    pub fn from_number(number: u8) -> Decoded<Self> {
        let at = usize::from(number).checked_sub(1).ok_or(DecodeError::Value("a checksum algorithm"))?;
        NUMBERED_ALGORITHMS.get(at).copied().ok_or(DecodeError::Unknown("a checksum algorithm"))
    }
}

/// The input of a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksumType {
    /// All bytes of the object.
    FullObject,
    /// The checksums of its parts.
    Composite,
}

impl ChecksumType {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::FullObject => 0,
            Self::Composite => 1,
        }
    }

    /// The type with a number of the format.
    ///
    /// # Errors
    /// [`DecodeError::Value`] for other numbers.
    pub fn from_number(number: u8) -> Decoded<Self> {
        match number {
            0 => Ok(Self::FullObject),
            1 => Ok(Self::Composite),
            _ => Err(DecodeError::Value("a checksum type")),
        }
    }
}

/// A verified checksum of a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Checksum {
    /// The algorithm.
    pub algorithm: ChecksumAlgorithm,
    /// The input.
    pub kind: ChecksumType,
    /// The number of parts of a composite checksum, else 0.
    pub parts: u32,
    /// The raw value.
    pub value: Vec<u8>,
}

pub(super) fn encode_optional_checksum(checksum: Option<&Checksum>, out: &mut Vec<u8>) {
    out.put_u8(checksum.is_some().into());
    if let Some(checksum) = checksum {
        encode_checksum(checksum, out);
    }
}

pub(super) fn decode_optional_checksum(from: &mut ByteDecoder<'_>) -> Decoded<Option<Checksum>> {
    match from.u8()? {
        0 => Ok(None),
        1 => decode_checksum(from).map(Some),
        _ => Err(DecodeError::Value("the mark of a checksum")),
    }
}

pub(super) fn encode_checksum(checksum: &Checksum, out: &mut Vec<u8>) {
    out.put_u8(checksum.algorithm.number());
    out.put_u8(checksum.kind.number());
    out.put_varint(checksum.parts.into());
    out.put_bytes(&checksum.value);
}

pub(super) fn decode_checksums(from: &mut ByteDecoder<'_>) -> Decoded<Vec<Checksum>> {
    let count = from.count(CHECKSUM_BYTES_MIN)?;
    (0..count).map(|_| decode_checksum(from)).collect()
}

pub(super) fn decode_checksum(from: &mut ByteDecoder<'_>) -> Decoded<Checksum> {
    let (algorithm, kind, parts, value) = check_checksum(from)?;
    Ok(Checksum { algorithm, kind, parts, value: value.to_vec() })
}

pub(super) fn check_checksum<'a>(
    from: &mut ByteDecoder<'a>,
) -> Decoded<(ChecksumAlgorithm, ChecksumType, u32, &'a [u8])> {
    let algorithm = ChecksumAlgorithm::from_number(from.u8()?)?;
    let kind = ChecksumType::from_number(from.u8()?)?;
    let parts = to_u32(from.varint()?, "a number of parts")?;
    Ok((algorithm, kind, parts, from.bytes()?))
}
