//! The object that says whose a remote is (data-format.md, section 16).

use crate::base::Timestamp;
use crate::base::digest::to_hex;
use crate::format::{DecodeError, Decoded, StoreId};

/// The owner of a remote, and the result of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteMark {
    /// The store whose objects are there.
    pub store: StoreId,
    /// The time when it was written.
    pub made: Timestamp,
    /// Whether the probe found that one of several creates of a name wins.
    pub decides_races: bool,
}

impl RemoteMark {
    /// The name of the object.
    pub const NAME: &str = "STORE";

    /// The longest form.
    pub const MAX_BYTES: u64 = 256;

    /// The object, which is one line.
    pub fn encode(&self) -> Vec<u8> {
        let (store, made) = (to_hex(&self.store.0), self.made.as_millis());
        let races = if self.decides_races { "decided" } else { "undecided" };
        let line = format!("siltstone remote 1 store {store} made {made} races {races} crc ");
        let crc = self.store.seal(line.as_bytes());
        format!("{line}{crc:08x}\n").into_bytes()
    }

    /// Reads the object.
    ///
    /// # Errors
    /// `Unknown` for a later version; another for a damaged object.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let line = std::str::from_utf8(bytes).map_err(|_| DecodeError::Utf8)?;
        let words: Vec<&str> = line.strip_suffix('\n').ok_or(DecodeError::Short)?.split(' ').collect();
        let ["siltstone", "remote", version, rest @ ..] = words.as_slice() else {
            return Err(DecodeError::Magic);
        };
        if *version != "1" {
            return Err(DecodeError::Unknown("the version of the remote"));
        }
        let ["store", store, "made", made, "races", races, "crc", _] = rest else {
            return Err(DecodeError::Short);
        };
        let store = u128::from_str_radix(store, 16).map_err(|_| DecodeError::Value("the store id"))?;
        let found = Self {
            store: StoreId(store.to_be_bytes()),
            made: Timestamp::from_millis(made.parse().map_err(|_| DecodeError::Value("the time"))?),
            decides_races: *races == "decided",
        };
        if found.encode() == bytes { Ok(found) } else { Err(DecodeError::Crc("line's")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_and_a_change_of_any_byte_is_seen() {
        for decides_races in [true, false] {
            let mark = RemoteMark {
                store: StoreId(*b"0123456789abcdef"),
                made: Timestamp::from_millis(1_763_766_000_000),
                decides_races,
            };
            let line = mark.encode();
            assert!(line.len() as u64 <= RemoteMark::MAX_BYTES);
            assert_eq!(RemoteMark::decode(&line), Ok(mark));
            for at in 0..line.len() {
                let mut bad = line.clone();
                bad[at] ^= 1;
                assert!(RemoteMark::decode(&bad).is_err(), "byte {at}");
                assert!(RemoteMark::decode(&line[..at]).is_err(), "{at} bytes");
            }
        }
        let later = RemoteMark::decode(b"siltstone remote 2 and more\n");
        assert_eq!(later, Err(DecodeError::Unknown("the version of the remote")));
    }

    #[test]
    fn the_example_of_the_format_is_read() {
        let page = include_str!("../../data-format.md");
        let line = page.lines().find(|line| line.starts_with("siltstone remote 1 ")).unwrap();
        let mark = RemoteMark::decode(format!("{line}\n").as_bytes()).unwrap();
        assert!(mark.decides_races);
    }
}
