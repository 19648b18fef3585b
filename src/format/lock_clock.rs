//! The lock clock as it is kept over a restart (data-format.md, section 19).

use crate::base::Timestamp;
use crate::format::state_file::{self, StateFileMagic};
use crate::format::{ByteDecoder, DecodeError, Decoded, Encode, StoreId};

const MAGIC_BYTES: &StateFileMagic = b"SiltClck";

/// The flags of a time that waited for the end of a doubt.
const ACTS_IN_DOUBT: u8 = 1;
const LOCKS_IN_DOUBT: u8 = 2;

/// A time that follows the wall clock, as it was when it was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedTime {
    /// The time.
    pub time: Timestamp,
    /// Whether the wall clock was ahead of it, and not believed.
    pub in_doubt: bool,
}

/// What is kept of the lock clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockClockState {
    /// The time of acts by time. The operator may set it.
    pub acts: SavedTime,
    /// The time of retentions in COMPLIANCE mode.
    pub locks: SavedTime,
}

impl LockClockState {
    /// The file.
    pub fn encode(&self, store: &StoreId) -> Vec<u8> {
        let mut body = Vec::new();
        body.put_varint(self.acts.time.as_millis());
        body.put_varint(self.locks.time.as_millis());
        let acts = if self.acts.in_doubt { ACTS_IN_DOUBT } else { 0 };
        let locks = if self.locks.in_doubt { LOCKS_IN_DOUBT } else { 0 };
        body.put_u8(acts | locks);
        state_file::encode(MAGIC_BYTES, store, &body)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(store: &StoreId, file: &[u8]) -> Decoded<Self> {
        let (_, body) = state_file::decode([MAGIC_BYTES], store, file)?;
        let mut decoder = ByteDecoder::new(body);
        let acts = Timestamp::from_millis(decoder.varint()?);
        let locks = Timestamp::from_millis(decoder.varint()?);
        let flags = decoder.u8()?;
        if flags > ACTS_IN_DOUBT | LOCKS_IN_DOUBT {
            return Err(DecodeError::Value("the flags of the lock clock"));
        }
        decoder.finish().map(|()| Self {
            acts: SavedTime { time: acts, in_doubt: flags & ACTS_IN_DOUBT > 0 },
            locks: SavedTime { time: locks, in_doubt: flags & LOCKS_IN_DOUBT > 0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([1; 16]);

    #[test]
    fn a_state_comes_back_and_no_flip_passes() {
        for (acts, locks) in [(false, false), (false, true), (true, false), (true, true)] {
            let saved = |millis, in_doubt| SavedTime { time: Timestamp::from_millis(millis), in_doubt };
            let state = LockClockState { acts: saved(1 << 40, acts), locks: saved(7, locks) };
            let file = state.encode(&STORE);
            assert_eq!(LockClockState::decode(&STORE, &file), Ok(state));
            for at in 0..file.len() {
                let mut flipped = file.clone();
                flipped[at] ^= 4;
                assert!(LockClockState::decode(&STORE, &flipped).is_err(), "byte {at}");
                assert!(LockClockState::decode(&STORE, &file[..at]).is_err(), "{at} bytes");
            }
        }
    }

    #[test]
    fn flags_that_are_not_known_are_refused() {
        let file = state_file::encode(MAGIC_BYTES, &STORE, &[1, 1, 4]);
        let refused = LockClockState::decode(&STORE, &file);
        assert_eq!(refused, Err(DecodeError::Value("the flags of the lock clock")));
    }
}
