//! The object that says whose a remote is (data-format.md, section 16).

use crate::base::Timestamp;
use crate::format::{Decoded, StoreId, sealed_line};

/// The kind of the object.
const KIND: &str = "remote";

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
        let races = if self.decides_races { "decided" } else { "undecided" };
        sealed_line::encode(KIND, &self.store, &[("made", &self.made.as_millis()), ("races", &races)])
    }

    /// Reads the object.
    ///
    /// # Errors
    /// `Unknown` for a later version; another for a damaged object.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let (store, [made, races]) = sealed_line::decode(KIND, ["made", "races"], bytes)?;
        let made = Timestamp::from_millis(sealed_line::number(made, "the time")?);
        Ok(Self { store, made, decides_races: races == "decided" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::DecodeError;

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
        let later = RemoteMark::decode(b"siltstone remote 2 store 00 and more crc 00\n");
        assert_eq!(later, Err(DecodeError::Unknown("the version of an object of the remote")));
    }

    #[test]
    fn the_example_of_the_format_is_read() {
        let page = include_str!("../../data-format.md");
        let line = page.lines().find(|line| line.starts_with("siltstone remote 1 ")).unwrap();
        let mark = RemoteMark::decode(format!("{line}\n").as_bytes()).unwrap();
        assert!(mark.decides_races);
    }
}
