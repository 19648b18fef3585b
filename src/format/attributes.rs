//! Attributes and tags: names with values (data-format.md, section 7).

use crate::format::codec::varint_len;
use crate::format::{ByteDecoder, Decoded, Encode};

/// The smallest encoding of a pair of strings.
const PAIR_BYTES_MIN: usize = 2;

/// Names and values of a version: standard headers by their lower-case names,
/// `website-redirect-location`, user metadata as `meta-` and the client's name. They keep the order
/// in which they were given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes(pub(super) Vec<(String, String)>);

impl Attributes {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an attribute.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// The value of the first attribute of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// All attributes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes of their encoding, without their number.
    pub fn encoded_len(&self) -> usize {
        pairs_encoded_len(&self.0)
    }
}

/// Encoded names and values that have been validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodedPairs<'a> {
    pub(super) count: usize,
    pub(super) bytes: &'a [u8],
}

impl<'a> EncodedPairs<'a> {
    pub(super) fn decode(from: &mut ByteDecoder<'a>) -> Decoded<Self> {
        let count = from.count(PAIR_BYTES_MIN)?;
        let start = from.rest();
        let mut strings = *from;
        for _ in 0..2 * count {
            from.bytes()?;
        }
        let bytes = &start[..start.len() - from.rest().len()];
        // The length bytes between short strings are ASCII, so ASCII as a whole means valid UTF-8.
        if !bytes.is_ascii() {
            for _ in 0..2 * count {
                strings.string()?;
            }
        }
        Ok(Self { count, bytes })
    }

    /// `count` pairs, encoded as [`EncodedPairs::iter`] returns them, without gaps.
    pub fn of(count: usize, bytes: &'a [u8]) -> Self {
        Self { count, bytes }
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.count
    }

    /// The bytes of the pairs.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encoding of each pair, and its name in it.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut from = ByteDecoder::new(self.bytes);
        (0..self.count).map(move |_| {
            let start = from.rest();
            let name = from.bytes().expect("the pairs have been checked");
            from.bytes().expect("the pairs have been checked");
            (&start[..start.len() - from.rest().len()], name)
        })
    }
}

/// The bytes of the encoding of names and values, without their number.
pub fn pairs_encoded_len(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(name, value)| len_of(name) + len_of(value)).sum()
}

fn len_of(text: &str) -> usize {
    varint_len(text.len() as u64) + text.len()
}

pub(super) fn encode_pairs(pairs: &[(String, String)], out: &mut Vec<u8>) {
    out.put_varint(pairs.len() as u64);
    for (name, value) in pairs {
        out.put_bytes(name.as_bytes());
        out.put_bytes(value.as_bytes());
    }
}

pub(super) fn decode_pairs(from: &mut ByteDecoder<'_>) -> Decoded<Vec<(String, String)>> {
    let count = from.count(PAIR_BYTES_MIN)?;
    (0..count).map(|_| Ok((from.string()?.to_owned(), from.string()?.to_owned()))).collect()
}
