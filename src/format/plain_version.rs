//! Version records of the usual form, decoded without allocation.

use crate::format::attributes::EncodedPairs;
use crate::format::checksum::{CHECKSUM_BYTES_MIN, check_checksum};
use crate::format::extent_ref::EXTENT_REF_BYTES_MIN;
use crate::format::version::{
    AMENDED_CONTROLS, ATTRIBUTES, CHECKSUMS, CONTROLS, ENCRYPTION, TAGS, UPLOAD, decode_summary,
    encode_summary, flag,
};
use crate::format::{ByteDecoder, Decoded, Encode, ExtentRef, VersionSummary};

/// A version record of the most frequent form: at most one extent with payload, at most one
/// checksum, no tags, no controls, no encryption and no parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainVersion<'a> {
    /// The fields that listings show.
    pub summary: VersionSummary,
    /// The extent with the bytes.
    pub extent: Option<ExtentRef>,
    /// The extent after it with the record and without payload.
    pub record: Option<ExtentRef>,
    /// Standard headers and user metadata.
    pub attributes: EncodedPairs<'a>,
    /// The checksum, encoded.
    pub checksum: Option<&'a [u8]>,
}

impl<'a> PlainVersion<'a> {
    /// Reads an encoded [`VersionRecord`](crate::format::VersionRecord); `None` if it has another
    /// form.
    ///
    /// # Errors
    /// On invalid bytes.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Decoded<Option<Self>> {
        let mut from = ByteDecoder::new(bytes);
        let (flags, summary) = decode_summary(&mut from)?;
        let extents = from.count(EXTENT_REF_BYTES_MIN)?;
        if flags & (TAGS | CONTROLS | AMENDED_CONTROLS | ENCRYPTION | UPLOAD) != 0 || extents > 2 {
            return Ok(None);
        }
        let extent = if extents > 0 { Some(ExtentRef::decode(&mut from)?) } else { None };
        let record = if extents > 1 { Some(ExtentRef::decode(&mut from)?) } else { None };
        if record.is_some_and(|record| !record.holds_record_alone()) {
            return Ok(None);
        }
        let attributes =
            if flags & ATTRIBUTES != 0 { EncodedPairs::decode(&mut from)? } else { EncodedPairs::default() };
        let mut checksum = None;
        if flags & CHECKSUMS != 0 {
            if from.count(CHECKSUM_BYTES_MIN)? != 1 {
                return Ok(None);
            }
            checksum = Some(from.rest());
            check_checksum(&mut from)?;
        }
        from.finish()?;
        Ok(Some(Self { summary, extent, record, attributes, checksum }))
    }

    /// Its extents, in order.
    pub fn extents(&self) -> impl Iterator<Item = &ExtentRef> {
        self.extent.iter().chain(&self.record)
    }

    /// Appends the encoding of the [`VersionRecord`](crate::format::VersionRecord).
    pub fn encode(&self, out: &mut Vec<u8>) {
        let optional =
            flag(!self.attributes.is_empty(), ATTRIBUTES) | flag(self.checksum.is_some(), CHECKSUMS);
        encode_summary(&self.summary, optional, out);
        out.put_varint(self.extents().count() as u64);
        for extent in self.extents() {
            extent.encode(out);
        }
        if !self.attributes.is_empty() {
            out.put_varint(self.attributes.count as u64);
            out.extend_from_slice(self.attributes.bytes);
        }
        if let Some(checksum) = self.checksum {
            out.put_varint(1);
            out.extend_from_slice(checksum);
        }
    }
}
