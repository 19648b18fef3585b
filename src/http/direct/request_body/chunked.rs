//! The chunked transfer coding (RFC 9112, section 7.1): finds the data between the framing.
//! Extensions and trailer lines are skipped, because S3 uses none.

use crate::base::limits;
use crate::http::fields::{invalid_request, is_token_byte};
use crate::s3::S3Error;

/// Sizes from here on are refused: readers with signed numbers take them for negative ones.
const CHUNK_SIZE_LIMIT: u64 = 1 << 63;

/// The position of the next byte in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransferPosition {
    /// In the size line of the next chunk.
    Size,
    /// In the data of a chunk, with that many bytes to go (never 0).
    Data(u64),
    /// After the data of a chunk, where CR LF must follow.
    DataEnd,
    /// In the trailer section.
    Trailer,
    /// After the body.
    End,
}

/// What comes next in a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TransferStep {
    /// That many bytes of data (never 0), to be counted as they are read.
    Data(u64),
    /// An incomplete line of framing: more bytes are needed.
    MoreInput,
    /// The end of the body.
    End,
}

/// Decodes the framing of one chunked body, and counts its data.
#[derive(Debug)]
pub(crate) struct TransferDecoder {
    position: TransferPosition,
    /// Bytes of extensions and trailer lines so far.
    extra_len: usize,
}

impl TransferDecoder {
    /// A decoder at the start of a body.
    pub(crate) fn new() -> Self {
        Self { position: TransferPosition::Size, extra_len: 0 }
    }

    /// Decodes framing at the start of `bytes`. Returns how many bytes it took, and what follows
    /// them.
    ///
    /// # Errors
    /// `InvalidRequest` for malformed framing and for too much of it.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<(usize, TransferStep), S3Error> {
        let mut used = 0;
        loop {
            match self.position {
                TransferPosition::Data(remaining) => return Ok((used, TransferStep::Data(remaining))),
                TransferPosition::End => return Ok((used, TransferStep::End)),
                _ => {}
            }
            let Some(line) = first_line(&bytes[used..])? else {
                return Ok((used, TransferStep::MoreInput));
            };
            used += line.len() + 2;
            self.position = self.position_after(line)?;
        }
    }

    /// Counts `len` bytes of data as read.
    pub(crate) fn count(&mut self, len: u64) {
        if let TransferPosition::Data(remaining) = self.position {
            self.position = match len < remaining {
                true => TransferPosition::Data(remaining - len),
                false => TransferPosition::DataEnd,
            };
        }
    }

    fn position_after(&mut self, line: &[u8]) -> Result<TransferPosition, S3Error> {
        match self.position {
            TransferPosition::Size => {
                let (size, extension_len) = chunk_size(line)?;
                self.add_extra(extension_len)?;
                Ok(if size == 0 { TransferPosition::Trailer } else { TransferPosition::Data(size) })
            }
            TransferPosition::DataEnd if line.is_empty() => Ok(TransferPosition::Size),
            TransferPosition::DataEnd => {
                Err(invalid_request("A chunk of the request body is longer than it says."))
            }
            _ if line.is_empty() => Ok(TransferPosition::End),
            _ if !is_field_line(line) => Err(invalid_request("A trailer of the request body is malformed.")),
            _ => {
                self.add_extra(line.len())?;
                Ok(TransferPosition::Trailer)
            }
        }
    }

    fn add_extra(&mut self, len: usize) -> Result<(), S3Error> {
        // Counted over the whole body: a client that sends nothing else keeps the minimum rate.
        self.extra_len += len;
        if self.extra_len > limits::CHUNK_EXTRA_MAX_BYTES {
            return Err(invalid_request("The request body has too many chunk extensions or trailers."));
        }
        Ok(())
    }
}

/// The line at the start of `bytes`, without its CR LF. `None` while its end is missing.
fn first_line(bytes: &[u8]) -> Result<Option<&[u8]>, S3Error> {
    // A line that does not end within this is refused, and the buffer never has to grow for one.
    let window = &bytes[..bytes.len().min(limits::CHUNK_LINE_MAX_BYTES)];
    let line = match window.iter().position(|b| *b == b'\n') {
        // A bare LF is malformed: proxies differ in whether it ends a line.
        Some(end) => window[..end].strip_suffix(b"\r"),
        None if bytes.len() < limits::CHUNK_LINE_MAX_BYTES => return Ok(None),
        None => return Err(invalid_request("A framing line of the request body is too long.")),
    };
    match line {
        Some(line) if !line.iter().any(|b| b.is_ascii_control() && *b != b'\t') => Ok(Some(line)),
        _ => Err(invalid_request("A framing line of the request body is malformed.")),
    }
}

/// Whether a line begins as a header line does: a name and a colon (RFC 9112, sections 5 and
/// 7.1.2).
fn is_field_line(line: &[u8]) -> bool {
    let name = line.iter().take_while(|byte| is_token_byte(**byte)).count();
    name > 0 && line.get(name) == Some(&b':')
}

/// The size that a line announces, and the length of the extensions after it.
fn chunk_size(line: &[u8]) -> Result<(u64, usize), S3Error> {
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let (size, extension) = line.split_at(digits);
    let well_formed = extension.is_empty() || extension.trim_ascii_start().starts_with(b";");
    std::str::from_utf8(size)
        .ok()
        .and_then(|size| u64::from_str_radix(size, 16).ok())
        .filter(|size| well_formed && *size < CHUNK_SIZE_LIMIT)
        .map(|size| (size, extension.len()))
        .ok_or_else(|| invalid_request("The size of a chunk of the request body is malformed."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a body that arrives in pieces. Returns the data, and the bytes after the body.
    fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, Vec<u8>), S3Error> {
        let mut decoder = TransferDecoder::new();
        let mut input = Vec::new();
        let mut data = Vec::new();
        for piece in pieces {
            input.extend_from_slice(piece);
            loop {
                let (used, next) = decoder.advance(&input)?;
                input.drain(..used);
                let TransferStep::Data(left) = next else { break };
                let count = input.len().min(left as usize);
                if count == 0 {
                    break;
                }
                data.extend(input.drain(..count));
                decoder.count(count as u64);
            }
        }
        assert_eq!(decoder.advance(&[]).unwrap().1, TransferStep::End, "the body is incomplete");
        Ok((data, input))
    }

    const BODY: &[u8] = b"5\r\nhello\r\n00a ; name=\"v\"\r\n, my world\r\n0\r\nTrailer: x\r\n\r\nNEXT";

    #[test]
    fn a_body_reads_the_same_wherever_it_is_split() {
        for at in 0..BODY.len() {
            let (data, rest) = decode(&[&BODY[..at], &BODY[at..]]).unwrap();
            assert_eq!((data.as_slice(), rest.as_slice()), (&b"hello, my world"[..], &b"NEXT"[..]));
        }
        let bytes: Vec<&[u8]> = BODY.chunks(1).collect();
        assert_eq!(decode(&bytes).unwrap().0, b"hello, my world");
    }

    #[test]
    fn malformed_framing_is_refused() {
        for bad in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "+1\r\na",
            "0x1\r\na",
            "1 \r\na",
            "1 1\r\na",
            "11111111111111111\r\n",
            "1\na",
            "1;a\rb\r\na",
            "1;\0\r\na",
            "1\r\nab\r\n",
            "1\r\na\n",
            "0\r\nT: x\n\r\n",
            "0\r\nT\0\r\n\r\n",
            "0\r\nno colon\r\n\r\n",
            "0\r\nT : x\r\n\r\n",
            "0\r\nT: x\r\n folded\r\n\r\n",
            "0\r\n: x\r\n\r\n",
            "8000000000000000\r\na",
            "ffffffffffffffff\r\na",
        ] {
            let outcome = decode(&[bad.as_bytes()]);
            assert!(outcome.is_err(), "{bad:?}");
        }
    }

    #[test]
    fn framing_without_end_is_refused() {
        let long_line = [b"1;".as_slice(), &[b'x'; 2048]].concat();
        assert!(decode(&[&long_line]).is_err());
        let extensions = b"1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n".repeat(400);
        assert!(decode(&[&extensions]).is_err());
        let trailers = [b"0\r\n".as_slice(), &b"Trailer: of no use\r\n".repeat(1000)].concat();
        assert!(decode(&[&trailers]).is_err());
    }
}
