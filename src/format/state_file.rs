//! The frame of small files that are replaced as a whole (data-format.md, section 12): magic, body
//! length, CRC, body.

use crate::format::{DecodeError, Decoded, Field, StoreId};

const MAGIC: Field = Field::new(0, 8, "magic");
const BODY_LEN: Field = Field::new(8, 4, "body length");
const CRC: Field = Field::new(12, 4, "CRC");

/// The fields before the body.
pub const STATE_FILE_LAYOUT: &[Field] = &[MAGIC, BODY_LEN, CRC];

const HEADER_BYTES: usize = 16;

/// The first bytes of a state file, which state the kind of its body.
pub(super) type StateFileMagic = [u8; 8];

/// A file with this body.
pub(super) fn encode(magic: &StateFileMagic, store: &StoreId, body: &[u8]) -> Vec<u8> {
    let mut file = vec![0; HEADER_BYTES];
    MAGIC.put(&mut file, magic);
    BODY_LEN.put_u32(&mut file, body.len() as u32);
    CRC.put_u32(&mut file, store.seal(body));
    file.extend(body);
    file
}

/// The body of a file, and the index of its magic in `magics`.
///
/// # Errors
/// On invalid bytes.
pub(super) fn decode<'f, const N: usize>(
    magics: [&StateFileMagic; N],
    store: &StoreId,
    file: &'f [u8],
) -> Decoded<(usize, &'f [u8])> {
    let (header, body) = file.split_at_checked(HEADER_BYTES).ok_or(DecodeError::Short)?;
    let magic = magics.iter().position(|magic| MAGIC.of(header) == *magic).ok_or(DecodeError::Magic)?;
    if BODY_LEN.u32(header) as usize != body.len() {
        return Err(DecodeError::Value("the body length"));
    }
    if CRC.u32(header) != store.seal(body) {
        return Err(DecodeError::Crc("body"));
    }
    Ok((magic, body))
}
