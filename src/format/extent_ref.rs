//! References of records to extents (data-format.md, section 7).

use crate::format::codec::to_u32;
use crate::format::{ByteDecoder, DecodeError, Decoded, Encode, UNIT_BYTES, plain_len};

/// The smallest encoding of a reference: three varints and a CRC.
pub(super) const EXTENT_REF_BYTES_MIN: usize = 7;

/// The location of some bytes of a version: an extent, or a slice of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExtentRef {
    /// The segment.
    pub segment: u64,
    /// The offset of the extent's header in the segment; a multiple of 64.
    pub offset: u64,
    /// Bytes of the whole payload.
    pub payload_len: u32,
    /// The `check` field of the extent's header.
    pub check: u32,
    /// The first byte of the payload that belongs to the version; of an encrypted payload the first
    /// plain byte.
    pub skip: u32,
    /// The number of payload bytes that belong to the version; of an encrypted payload, of plain
    /// bytes.
    pub take: u32,
    /// Whether other versions or parts may refer to the extent.
    pub shared: bool,
}

impl ExtentRef {
    /// A reference to an extent with a record and without payload.
    pub fn of_record(segment: u64, offset: u64, shared: bool) -> Self {
        Self { segment, offset, payload_len: 0, check: 0, skip: 0, take: 0, shared }
    }

    /// The reference to a whole payload that is encrypted.
    #[must_use]
    pub fn encrypted(self) -> Self {
        Self { take: plain_len(self.payload_len.into()) as u32, ..self }
    }

    pub(super) fn holds_record_alone(&self) -> bool {
        *self == Self::of_record(self.segment, self.offset, self.shared)
    }

    fn is_slice(&self) -> bool {
        self.skip != 0 || self.take != self.payload_len
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.segment << 2 | u64::from(self.shared) << 1 | u64::from(self.is_slice()));
        out.put_varint(self.offset / UNIT_BYTES);
        out.put_varint(self.payload_len.into());
        out.put_u32(self.check);
        if self.is_slice() {
            out.put_varint(self.skip.into());
            out.put_varint(self.take.into());
        }
    }

    /// Skips an encoded reference.
    #[inline]
    pub(super) fn skip(from: &mut ByteDecoder<'_>) -> Decoded<()> {
        let first = from.varint()?;
        from.varint()?;
        from.varint()?;
        from.take(4)?;
        if first & 1 != 0 {
            from.varint()?;
            from.varint()?;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn decode(from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let first = from.varint()?;
        let offset = from.varint()?.checked_mul(UNIT_BYTES).ok_or(DecodeError::Value("an offset"))?;
        let payload_len = to_u32(from.varint()?, "a payload length")?;
        let check = from.u32()?;
        let (skip, take) = match first & 1 {
            0 => (0, payload_len),
            _ => (to_u32(from.varint()?, "a slice")?, to_u32(from.varint()?, "a slice")?),
        };
        if skip.checked_add(take).is_none_or(|end| end > payload_len) {
            return Err(DecodeError::Value("a slice"));
        }
        Ok(Self { segment: first >> 2, offset, payload_len, check, skip, take, shared: first & 2 != 0 })
    }
}

pub(super) fn encode_extents(extents: &[ExtentRef], out: &mut Vec<u8>) {
    out.put_varint(extents.len() as u64);
    for extent in extents {
        extent.encode(out);
    }
}

pub(super) fn decode_extents(from: &mut ByteDecoder<'_>) -> Decoded<Vec<ExtentRef>> {
    let count = from.count(EXTENT_REF_BYTES_MIN)?;
    (0..count).map(|_| ExtentRef::decode(from)).collect()
}
