//! Entity tags (data-format.md, section 7).

use std::fmt;

use crate::base::digest::{to_hex, write_hex};
use crate::format::codec::to_u32;
use crate::format::{ByteDecoder, DecodeError, Decoded, Encode};

/// An entity tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ETag {
    /// No entity tag, as of a delete marker.
    None,
    /// The MD5 of the bytes.
    Md5([u8; 16]),
    /// The tag of a multipart object.
    Multipart {
        /// The MD5 of the MD5s of the parts.
        md5: [u8; 16],
        /// The number of parts.
        parts: u32,
    },
    /// The CRC of the bytes, if the operator configured it.
    Crc(u32),
}

impl fmt::Display for ETag {
    /// The tag as in headers and XML, with its quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("\"\""),
            Self::Md5(md5) => {
                let mut tag = [b'"'; 34];
                write_hex(md5, &mut tag[1..33]);
                f.write_str(std::str::from_utf8(&tag).expect("the digits are ASCII"))
            }
            Self::Multipart { md5, parts } => write!(f, "\"{}-{parts}\"", to_hex(md5)),
            Self::Crc(crc) => write!(f, "\"{crc:08x}-1\""),
        }
    }
}

pub(super) fn encode_etag(etag: &ETag, out: &mut Vec<u8>) {
    match etag {
        ETag::None => out.put_u8(0),
        ETag::Md5(md5) => {
            out.put_u8(1);
            out.extend_from_slice(md5);
        }
        ETag::Multipart { md5, parts } => {
            out.put_u8(2);
            out.extend_from_slice(md5);
            out.put_varint((*parts).into());
        }
        ETag::Crc(crc) => {
            out.put_u8(3);
            out.put_u32(*crc);
        }
    }
}

#[inline]
pub(super) fn decode_etag(from: &mut ByteDecoder<'_>) -> Decoded<ETag> {
    Ok(match from.u8()? {
        0 => ETag::None,
        1 => ETag::Md5(from.array()?),
        2 => ETag::Multipart { md5: from.array()?, parts: to_u32(from.varint()?, "a number of parts")? },
        3 => ETag::Crc(from.u32()?),
        _ => return Err(DecodeError::Unknown("a kind of ETag")),
    })
}
