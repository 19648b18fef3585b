//! Storage classes of versions and uploads (data-format.md, section 7).

use crate::base::StorageClass;
use crate::format::{ByteDecoder, DecodeError, Decoded, Encode, Features};

const COLD: u8 = 1;

/// Whether records state a class. They leave the usual one out.
pub(super) fn is_stated(class: StorageClass) -> bool {
    class != StorageClass::Standard
}

/// The critical features that a file with this class needs.
pub(super) fn features(class: StorageClass) -> Features {
    if is_stated(class) { Features::STORAGE_CLASSES } else { Features::NONE }
}

/// Appends a class, if records state it.
#[inline]
pub(super) fn encode(class: StorageClass, out: &mut Vec<u8>) {
    match class {
        StorageClass::Standard => {}
        StorageClass::Cold => out.put_u8(COLD),
    }
}

/// Reads a class, if the record states it.
#[inline]
pub(super) fn decode(is_stated: bool, from: &mut ByteDecoder<'_>) -> Decoded<StorageClass> {
    match is_stated {
        false => Ok(StorageClass::Standard),
        true if from.u8()? == COLD => Ok(StorageClass::Cold),
        true => Err(DecodeError::Unknown("a storage class")),
    }
}
