//! A reader of MessagePack (msgpack.org, "Specification"), as far as MinIO writes it.
//!
//! Nothing is allocated by a length that stands in the bytes: strings and byte strings are borrowed,
//! and a list or map that announces more elements than there are bytes left is refused.

use super::malformed::Malformed;

/// The type of an extension with a time: 5 in MinIO's records, and -1 in the specification.
const TIME_TYPES: [i8; 2] = [5, -1];

/// A place in the bytes.
pub(crate) struct MsgReader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> MsgReader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The bytes that were read.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// The bytes that follow.
    pub(crate) fn rest(&self) -> &'b [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn malformed(&self, what: &str) -> Malformed {
        Malformed::new(self.at, what)
    }

    fn peek(&self) -> Result<u8, Malformed> {
        self.bytes.get(self.at).copied().ok_or_else(|| self.malformed("it ends early"))
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], Malformed> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.malformed("it is shorter than it says"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// A big-endian number of `width` bytes, of at most 8.
    fn number(&mut self, width: usize) -> Result<u64, Malformed> {
        Ok(self.take(width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(&mut self, width: usize) -> Result<usize, Malformed> {
        let length = self.number(width)?;
        usize::try_from(length).map_err(|_| self.malformed("a length beyond memory"))
    }

    /// Steps over a nil, if one is next.
    pub(crate) fn nil(&mut self) -> bool {
        let is_nil = self.bytes.get(self.at) == Some(&0xc0);
        self.at += usize::from(is_nil);
        is_nil
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.peek()? {
            0xc2 | 0xc3 => Ok(self.byte()? == 0xc3),
            _ => Err(self.malformed("no truth value")),
        }
    }

    /// An integer of any width.
    pub(crate) fn int(&mut self) -> Result<i64, Malformed> {
        let kind = self.peek()?;
        let at = self.at;
        if !matches!(kind, 0..=0x7f | 0xcc..=0xd3 | 0xe0..) {
            return Err(self.malformed("no integer"));
        }
        self.at += 1;
        // The casts take the bits as those of the signed type of the same width.
        Ok(match kind {
            0..=0x7f => i64::from(kind),
            0xcc => i64::from(self.number(1)? as u8),
            0xcd => i64::from(self.number(2)? as u16),
            0xce => i64::from(self.number(4)? as u32),
            0xcf => i64::try_from(self.number(8)?).map_err(|_| Malformed::new(at, "a number too great"))?,
            0xd0 => i64::from(self.number(1)? as i8),
            0xd1 => i64::from(self.number(2)? as i16),
            0xd2 => i64::from(self.number(4)? as i32),
            0xd3 => self.number(8)? as i64,
            _ => i64::from(kind as i8),
        })
    }

    /// An integer that is not negative.
    pub(crate) fn uint(&mut self) -> Result<u64, Malformed> {
        let at = self.at;
        let number = self.int()?;
        u64::try_from(number).map_err(|_| Malformed::new(at, "a negative number"))
    }

    /// A byte string, or the bytes of a string.
    pub(crate) fn bytes(&mut self) -> Result<&'b [u8], Malformed> {
        let kind = self.peek()?;
        let width = match kind {
            0xa0..=0xbf => 0,
            0xc4 | 0xd9 => 1,
            0xc5 | 0xda => 2,
            0xc6 | 0xdb => 4,
            _ => return Err(self.malformed("no byte string")),
        };
        self.at += 1;
        let length = if width == 0 { usize::from(kind & 0x1f) } else { self.length(width)? };
        self.take(length)
    }

    /// A string.
    pub(crate) fn text(&mut self) -> Result<&'b str, Malformed> {
        let at = self.at;
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::new(at, "a text that is not UTF-8"))
    }

    /// The number of elements of a list; a nil is an empty one.
    pub(crate) fn list(&mut self) -> Result<usize, Malformed> {
        if self.nil() {
            return Ok(0);
        }
        let kind = self.peek()?;
        let width = match kind {
            0x90..=0x9f => 0,
            0xdc => 2,
            0xdd => 4,
            _ => return Err(self.malformed("no list")),
        };
        self.at += 1;
        let count = if width == 0 { usize::from(kind & 0xf) } else { self.length(width)? };
        self.plausible(count)
    }

    /// The number of pairs of a map; a nil is an empty one.
    pub(crate) fn map(&mut self) -> Result<usize, Malformed> {
        if self.nil() {
            return Ok(0);
        }
        let kind = self.peek()?;
        let width = match kind {
            0x80..=0x8f => 0,
            0xde => 2,
            0xdf => 4,
            0x90..=0x9f | 0xdc | 0xdd => return Err(self.malformed("a list in place of a map")),
            _ => return Err(self.malformed("no map")),
        };
        self.at += 1;
        let count = if width == 0 { usize::from(kind & 0xf) } else { self.length(width)? };
        self.plausible(count.saturating_mul(2)).map(|elements| elements / 2)
    }

    /// Every element has a byte at least.
    fn plausible(&self, elements: usize) -> Result<usize, Malformed> {
        match elements <= self.bytes.len() - self.at {
            true => Ok(elements),
            false => Err(self.malformed("more elements than bytes")),
        }
    }

    /// A time in nanoseconds since 1970: i64 seconds and i32 nanoseconds in 12 bytes, or the forms
    /// of the specification.
    pub(crate) fn time(&mut self) -> Result<i64, Malformed> {
        let at = self.at;
        let length = match self.byte()? {
            0xd6 => 4,
            0xd7 => 8,
            0xc7 => self.length(1)?,
            _ => return Err(Malformed::new(at, "no time")),
        };
        let kind = self.byte()? as i8;
        let body = self.take(length)?;
        if !TIME_TYPES.contains(&kind) {
            return Err(Malformed::new(at, "an extension that is no time"));
        }
        nanos(kind, body).ok_or_else(|| Malformed::new(at, "a time out of range"))
    }

    /// Steps over a value of any type. Lists and maps in it take no stack.
    pub(crate) fn skip(&mut self) -> Result<(), Malformed> {
        let mut left: usize = 1;
        while left > 0 {
            left -= 1;
            let kind = self.peek()?;
            match kind {
                0x80..=0x8f | 0xde | 0xdf => left = left.saturating_add(2 * self.map()?),
                0x90..=0x9f | 0xdc | 0xdd => left = left.saturating_add(self.list()?),
                0xa0..=0xbf | 0xc4..=0xc6 | 0xd9..=0xdb => drop(self.bytes()?),
                _ => self.skip_scalar(kind)?,
            }
        }
        Ok(())
    }

    fn skip_scalar(&mut self, kind: u8) -> Result<(), Malformed> {
        self.at += 1;
        let length = match kind {
            0..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0.. => 0,
            0xcc | 0xd0 => 1,
            0xcd | 0xd1 => 2,
            0xca | 0xce | 0xd2 => 4,
            0xcb | 0xcf | 0xd3 => 8,
            // An extension has one byte with its type before its bytes.
            0xd4..=0xd8 => 1 + (1 << (kind - 0xd4)),
            0xc7 => self.length(1)?.saturating_add(1),
            0xc8 => self.length(2)?.saturating_add(1),
            0xc9 => self.length(4)?.saturating_add(1),
            _ => return Err(self.malformed("an unknown type")),
        };
        self.take(length).map(drop)
    }
}

fn nanos(kind: i8, body: &[u8]) -> Option<i64> {
    let whole = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let (seconds, nanos) = match body.len() {
        4 => (i64::try_from(whole(body)).ok()?, 0),
        8 => (i64::try_from(whole(body) & 0x3_ffff_ffff).ok()?, i64::try_from(whole(body) >> 34).ok()?),
        // The specification has the nanoseconds first.
        12 if kind == -1 => (whole(&body[4..]) as i64, i64::try_from(whole(&body[..4])).ok()?),
        12 => (whole(&body[..8]) as i64, i64::try_from(whole(&body[8..])).ok()?),
        _ => return None,
    };
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_width_are_read() {
        let cases: [(&[u8], i64); 10] = [
            (&[0x7f], 127),
            (&[0xff], -1),
            (&[0xcc, 200], 200),
            (&[0xcd, 1, 0], 256),
            (&[0xce, 0xff, 0xff, 0xff, 0xff], 0xffff_ffff),
            (&[0xcf, 0, 0, 0, 1, 0, 0, 0, 0], 1 << 32),
            (&[0xd0, 0x80], -128),
            (&[0xd1, 0xff, 0xfe], -2),
            (&[0xd2, 0x80, 0, 0, 0], -(1 << 31)),
            (&[0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], -1),
        ];
        for (bytes, number) in cases {
            assert_eq!(MsgReader::new(bytes).int(), Ok(number), "{bytes:x?}");
        }
        assert!(MsgReader::new(&[0xcf, 0xff, 0, 0, 0, 0, 0, 0, 0]).int().is_err());
        assert!(MsgReader::new(&[0xff]).uint().is_err());
    }

    #[test]
    fn lengths_beyond_the_bytes_are_refused() {
        for bytes in [&[0xc6, 0xff, 0xff, 0xff, 0xff][..], &[0xc4, 5, 1], &[0xdb, 0, 0, 1, 0], &[0xa3, 1]] {
            assert!(MsgReader::new(bytes).bytes().is_err() && MsgReader::new(bytes).skip().is_err());
        }
        assert!(MsgReader::new(&[0xdd, 0xff, 0xff, 0xff, 0xff, 1]).list().is_err());
        assert!(MsgReader::new(&[0xdf, 0x80, 0, 0, 0, 1]).map().is_err());
    }

    #[test]
    fn values_that_nest_deeply_are_stepped_over_without_stack() {
        let mut bytes = vec![0x91; 1 << 20];
        bytes.push(0xc0);
        let mut reader = MsgReader::new(&bytes);
        assert_eq!((reader.skip(), reader.rest().len()), (Ok(()), 0));
    }

    #[test]
    fn times_of_both_types_are_read() {
        let own = [0xc7, 12, 5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 7];
        assert_eq!(MsgReader::new(&own).time(), Ok(2_000_000_007));
        let standard = [0xc7, 12, 0xff, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2];
        assert_eq!(MsgReader::new(&standard).time(), Ok(2_000_000_007));
        assert_eq!(MsgReader::new(&[0xd6, 0xff, 0, 0, 0, 3]).time(), Ok(3_000_000_000));
        assert!(MsgReader::new(&[0xc7, 12, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 7]).time().is_err());
    }
}
