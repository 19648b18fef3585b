//! The file that names the complete slot of a backup (data-format.md, section 11).

use crate::base::Timestamp;
use crate::base::digest::{Crc32, to_hex};
use crate::format::{DecodeError, Decoded, StoreId};

/// One of the two directories of a backup, which are used in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupSlot {
    /// The slot of a first backup.
    A,
    /// The other slot.
    B,
}

impl BackupSlot {
    /// The name of the directory.
    pub fn dir(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// The slot of the next backup.
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// A complete backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupCurrent {
    /// Its slot.
    pub slot: BackupSlot,
    /// The store id.
    pub store: StoreId,
    /// The sequence of its last group.
    pub sequence: u64,
    /// The time when it was started.
    pub taken: Timestamp,
}

impl BackupCurrent {
    /// The name of its file.
    pub const PATH: &str = "CURRENT";

    /// The file, which is one line.
    pub fn encode(&self) -> Vec<u8> {
        let Self { slot, store, sequence, taken } = self;
        let slot = slot.dir();
        let store = to_hex(&store.0);
        let taken = taken.as_millis();
        let said =
            format!("siltstone backup 1 slot {slot} store {store} sequence {sequence} taken {taken} crc ");
        let crc = Crc32::of(said.as_bytes());
        format!("{said}{crc:08x}\n").into_bytes()
    }

    /// Reads the file.
    ///
    /// # Errors
    /// `Unknown` for a later version; another for a damaged file.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let line = std::str::from_utf8(bytes).map_err(|_| DecodeError::Utf8)?;
        let words: Vec<&str> = line.strip_suffix('\n').ok_or(DecodeError::Short)?.split(' ').collect();
        let ["siltstone", "backup", version, rest @ ..] = words.as_slice() else {
            return Err(DecodeError::Magic);
        };
        if *version != "1" {
            return Err(DecodeError::Unknown("the version of the backup"));
        }
        let ["slot", slot, "store", store, "sequence", sequence, "taken", taken, "crc", _] = rest else {
            return Err(DecodeError::Short);
        };
        let found = Self {
            slot: [BackupSlot::A, BackupSlot::B]
                .into_iter()
                .find(|known| known.dir() == *slot)
                .ok_or(DecodeError::Value("the slot"))?,
            store: StoreId(hex(store).ok_or(DecodeError::Value("the store id"))?),
            sequence: sequence.parse().map_err(|_| DecodeError::Value("the sequence"))?,
            taken: Timestamp::from_millis(taken.parse().map_err(|_| DecodeError::Value("the time"))?),
        };
        if found.encode() == bytes { Ok(found) } else { Err(DecodeError::Crc("line's")) }
    }
}

/// Sixteen bytes in hexadecimal digits.
fn hex(text: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_and_a_change_of_any_byte_is_seen() {
        let current = BackupCurrent {
            slot: BackupSlot::B,
            store: StoreId(*b"0123456789abcdef"),
            sequence: 7,
            taken: Timestamp::from_millis(1_700_000_000_123),
        };
        let line = current.encode();
        assert_eq!(BackupCurrent::decode(&line), Ok(current));
        for at in 0..line.len() {
            let mut bad = line.clone();
            bad[at] ^= 1;
            assert!(BackupCurrent::decode(&bad).is_err(), "byte {at}");
            assert!(BackupCurrent::decode(&line[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn a_later_version_is_refused() {
        let refused = BackupCurrent::decode(b"siltstone backup 2 what then stands here\n");
        assert_eq!(refused, Err(DecodeError::Unknown("the version of the backup")));
    }
}
