//! Objects of a remote that are one line of text with a CRC (data-format.md, sections 16 and 17).

use crate::base::digest::to_hex;
use crate::base::limits::COUNTERS_END;
use crate::format::{DecodeError, Decoded, EncryptedBlockHead, StoreId};

/// The longest line, in bytes.
pub const SEALED_LINE_MAX_BYTES: u64 = 512;

/// The length of the CRC with its line feed.
const CRC_BYTES: usize = 9;

/// The version of most lines.
const FIRST_VERSION: &str = "1";

/// The line of an object of that kind, of that store, with its values by name.
pub(super) fn encode(kind: &str, store: &StoreId, values: &[(&str, &dyn std::fmt::Display)]) -> Vec<u8> {
    encode_version(kind, FIRST_VERSION, store, values)
}

/// As [`encode`], of a later version.
pub(super) fn encode_version(
    kind: &str,
    version: &str,
    store: &StoreId,
    values: &[(&str, &dyn std::fmt::Display)],
) -> Vec<u8> {
    let mut line = format!("siltstone {kind} {version} store {}", to_hex(&store.0));
    for (name, value) in values {
        line += &format!(" {name} {value}");
    }
    line += " crc ";
    let crc = store.seal(line.as_bytes());
    format!("{line}{crc:08x}\n").into_bytes()
}

/// The store and the values of a line of that kind, whose values have those names.
///
/// # Errors
/// `Unknown` for a later version; `Encrypted` without a key; another for a damaged object.
pub(super) fn decode<'l, const N: usize>(
    kind: &str,
    names: [&str; N],
    bytes: &'l [u8],
) -> Decoded<(StoreId, [&'l str; N])> {
    decode_version(kind, FIRST_VERSION, names, bytes)
}

/// As [`decode`], of a later version.
pub(super) fn decode_version<'l, const N: usize>(
    kind: &str,
    wanted: &str,
    names: [&str; N],
    bytes: &'l [u8],
) -> Decoded<(StoreId, [&'l str; N])> {
    if let Ok(head) = EncryptedBlockHead::decode(bytes) {
        return Err(DecodeError::Encrypted(head.key));
    }
    let line = std::str::from_utf8(bytes).map_err(|_| DecodeError::Utf8)?;
    let words: Vec<&str> = line.strip_suffix('\n').ok_or(DecodeError::Short)?.split(' ').collect();
    let ["siltstone", found, version, "store", store, rest @ .., "crc", crc] = words.as_slice() else {
        return Err(DecodeError::Magic);
    };
    if *found != kind {
        return Err(DecodeError::Magic);
    }
    if *version != wanted {
        return Err(DecodeError::Unknown("the version of an object of the remote"));
    }
    let store = u128::from_str_radix(store, 16).map_err(|_| DecodeError::Value("the store id"))?;
    let store = StoreId(store.to_be_bytes());
    if *crc != format!("{:08x}", store.seal(&bytes[..bytes.len() - CRC_BYTES])) {
        return Err(DecodeError::Crc("line's"));
    }
    let pairs: Vec<&[&str]> = rest.chunks(2).collect();
    let mut values = [""; N];
    for (nth, name) in names.into_iter().enumerate() {
        match pairs.get(nth) {
            Some([found, value]) if *found == name => values[nth] = value,
            _ => return Err(DecodeError::Value("a name")),
        }
    }
    if pairs.len() == N { Ok((store, values)) } else { Err(DecodeError::Long) }
}

/// The number that a word of a line is. All count on, or are times: none reaches [`COUNTERS_END`].
pub(super) fn number(word: &str, name: &'static str) -> Decoded<u64> {
    match word.parse() {
        Ok(number) if number < COUNTERS_END => Ok(number),
        _ => Err(DecodeError::Value(name)),
    }
}
