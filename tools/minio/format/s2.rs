//! A reader of compressed objects: the framing format of Snappy, with the blocks of S2.
//!
//! A stream begins with a chunk 0xff that names the format. 0x00 and 0x01 hold a block, compressed
//! or not, after the masked CRC-32C of its plain bytes. 0x99 is an index, 0xfe padding, 0x80 to 0xfd
//! may be stepped over. Several streams may follow each other. S2 adds to the blocks of Snappy the
//! copy that repeats the last offset: one of the short form with offset 0, whose length codes 5 to 7
//! stand for one to three further bytes.

use std::io::{self, Read};

use siltstone::base::digest::Crc32c;

/// The longest block of the format; MinIO writes 1 MiB.
const BLOCK_MAX_BYTES: usize = 4 << 20;
/// The longest compressed form of such a block, with its checksum.
const CHUNK_MAX_BYTES: usize = BLOCK_MAX_BYTES + BLOCK_MAX_BYTES / 6 + 64;
/// Memory that is reserved before a block is decoded.
const RESERVED_BYTES: usize = 64 << 10;
const NAMES: [&[u8; 6]; 2] = [b"S2sTwO", b"sNaPpY"];

/// A compressed stream that is read as plain bytes.
pub(crate) struct S2Reader<R> {
    inner: R,
    block: Vec<u8>,
    at: usize,
    begun: bool,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("compressed data: {what}"))
}

impl<R: Read> S2Reader<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, block: Vec::new(), at: 0, begun: false }
    }

    /// Reads the next block. Returns `false` at the end.
    fn next_block(&mut self) -> io::Result<bool> {
        loop {
            let mut head = [0; 4];
            if !read_or_end(&mut self.inner, &mut head)? {
                return Ok(false);
            }
            let length = usize::from(head[1]) | usize::from(head[2]) << 8 | usize::from(head[3]) << 16;
            if head[0] != 0xff && !self.begun {
                return Err(invalid("it does not begin with the name of its format"));
            }
            match head[0] {
                0xff => self.name(length)?,
                0x00 | 0x01 => {
                    self.block = self.data(head[0] == 0x00, length)?;
                    self.at = 0;
                    if !self.block.is_empty() {
                        return Ok(true);
                    }
                }
                0x80.. => {
                    let stepped = io::copy(&mut self.inner.by_ref().take(length as u64), &mut io::sink())?;
                    if stepped < length as u64 {
                        return Err(invalid("it ends within a chunk"));
                    }
                }
                other => return Err(invalid(&format!("a chunk of the unknown type {other:#04x}"))),
            }
        }
    }

    fn name(&mut self, length: usize) -> io::Result<()> {
        let mut name = [0; 6];
        if length != name.len() {
            return Err(invalid("the name of its format is unknown"));
        }
        self.inner.read_exact(&mut name)?;
        if !NAMES.contains(&&name) {
            return Err(invalid("the name of its format is unknown"));
        }
        self.begun = true;
        Ok(())
    }

    fn data(&mut self, compressed: bool, length: usize) -> io::Result<Vec<u8>> {
        if !(4..=CHUNK_MAX_BYTES).contains(&length) {
            return Err(invalid("a chunk has an impossible length"));
        }
        // Memory grows with what arrives: a length alone reserves nothing.
        let mut chunk = Vec::new();
        self.inner.by_ref().take(length as u64).read_to_end(&mut chunk)?;
        if chunk.len() < length {
            return Err(invalid("it ends within a chunk"));
        }
        let body = chunk.split_off(4);
        let sum = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        let block = if compressed { decode_block(&body).map_err(invalid)? } else { body };
        if block.len() > BLOCK_MAX_BYTES {
            return Err(invalid("a block is too long"));
        }
        if masked_sum(&block) != sum {
            return Err(invalid("the checksum of a block does not match"));
        }
        Ok(block)
    }
}

impl<R: Read> Read for S2Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() && !self.next_block()? {
            return Ok(0);
        }
        let count = buffer.len().min(self.block.len() - self.at);
        buffer[..count].copy_from_slice(&self.block[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Fills the buffer; `false` if nothing is left.
fn read_or_end(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(invalid("it ends within a chunk")),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn masked_sum(block: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(block);
    // Masked, as the framing wants it: the sum of bytes that hold such sums is weak.
    crc.value().rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The plain bytes of a block.
///
/// # Errors
/// It breaks the format.
pub(crate) fn decode_block(body: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut source = Source { bytes: body, at: 0 };
    let length = source.varint()?;
    if length > BLOCK_MAX_BYTES {
        return Err("a block is too long");
    }
    let mut block = Vec::with_capacity(length.min(RESERVED_BYTES));
    // No copy has this offset: a repetition before the first copy fails.
    let mut last_offset = 0;
    while source.at < body.len() {
        let tag = source.number(1)?;
        if tag & 3 == 0 {
            let literal = source.literal(tag >> 2)?;
            if block.len() + literal.len() > length {
                return Err("a block is longer than it says");
            }
            block.extend_from_slice(literal);
            continue;
        }
        let count = match tag & 3 {
            1 => {
                let offset = (tag & 0xe0) << 3 | source.number(1)?;
                if offset == 0 {
                    source.repeat_length(tag >> 2 & 7)?
                } else {
                    last_offset = offset;
                    (tag >> 2 & 7) + 4
                }
            }
            kind => {
                last_offset = source.number(if kind == 2 { 2 } else { 4 })?;
                (tag >> 2) + 1
            }
        };
        copy(&mut block, last_offset, count, length)?;
    }
    if block.len() == length { Ok(block) } else { Err("a block is shorter than it says") }
}

/// Repeats bytes that stand `offset` before the end; the copy may overlap itself.
fn copy(block: &mut Vec<u8>, offset: usize, count: usize, max: usize) -> Result<(), &'static str> {
    if offset == 0 || offset > block.len() {
        return Err("a copy from before the block");
    }
    if count > max - block.len() {
        return Err("a block is longer than it says");
    }
    let start = block.len() - offset;
    if offset >= count {
        block.extend_from_within(start..start + count);
        return Ok(());
    }
    for at in start..start + count {
        block.push(block[at]);
    }
    Ok(())
}

struct Source<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Source<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], &'static str> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let taken = &self.bytes[self.at..end.ok_or("a block ends early")?];
        self.at += count;
        Ok(taken)
    }

    /// A little-endian number.
    fn number(&mut self, width: usize) -> Result<usize, &'static str> {
        Ok(self.take(width)?.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    fn varint(&mut self) -> Result<usize, &'static str> {
        let mut number = 0;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.number(1)?;
            number |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a block has an impossible length")
    }

    fn literal(&mut self, code: usize) -> Result<&'b [u8], &'static str> {
        let length = match code {
            0..60 => code,
            _ => self.number(code - 59)?,
        };
        self.take(length.checked_add(1).ok_or("a literal has an impossible length")?)
    }

    /// The length of a copy that repeats the last offset.
    fn repeat_length(&mut self, code: usize) -> Result<usize, &'static str> {
        let length = match code {
            5 => self.number(1)? + 4,
            6 => self.number(2)? + (1 << 8),
            7 => self.number(3)? + (1 << 16),
            short => short,
        };
        Ok(length + 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(kind: u8, body: &[u8], plain: &[u8]) -> Vec<u8> {
        let length = (body.len() + 4) as u32;
        let mut chunk = vec![kind];
        chunk.extend(&length.to_le_bytes()[..3]);
        chunk.extend(masked_sum(plain).to_le_bytes());
        chunk.extend(body);
        chunk
    }

    fn stream(chunks: &[Vec<u8>]) -> Vec<u8> {
        [&b"\xff\x06\0\0S2sTwO"[..], &chunks.concat()].concat()
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        S2Reader::new(bytes).read_to_end(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn literals_copies_and_repeats_are_decoded() {
        // "abcd", a copy of 5 from 4 before, a repeat of 4 from there, and long repeats.
        let body = [&[13 + 9 + 4, 3 << 2][..], b"abcd", &[1 << 2 | 1, 4, 1, 0, 5 << 2 | 1, 0, 5]].concat();
        assert_eq!(decode_block(&body).unwrap(), b"abcdabcdabcdabcdabcdabcdab");
        for cut in 0..body.len() {
            assert!(decode_block(&body[..cut]).is_err(), "{cut}");
        }
        // A repeat without a copy before it, and a copy from before the block.
        assert!(decode_block(&[8, 3 << 2, 1, 2, 3, 4, 1, 0]).is_err());
        assert!(decode_block(&[8, 3 << 2, 1, 2, 3, 4, 1, 5]).is_err());
        // More than was announced.
        assert!(decode_block(&[2, 3 << 2, 1, 2, 3, 4]).is_err());
        assert!(decode_block(&[0xff, 0xff, 0xff, 0xff, 0xf]).is_err());
    }

    #[test]
    fn chunks_of_all_kinds_are_read() {
        let stored = framed(1, b"stored", b"stored");
        let padding = vec![0xfe, 3, 0, 0, 1, 2, 3];
        let once = stream(&[stored.clone(), padding]);
        assert_eq!(read(&once).unwrap(), b"stored");
        assert_eq!(read(&[&once[..], &once].concat()).unwrap(), b"storedstored");
        assert_eq!(read(b"").unwrap(), b"");
        assert!(read(&stored).is_err());
        assert!(read(&stream(&[vec![2, 0, 0, 0]])).is_err());
        assert!(read(&once[..once.len() - 1]).is_err());
        let mut rotten = once.clone();
        rotten[20] ^= 1;
        assert!(read(&rotten).is_err());
    }
}
