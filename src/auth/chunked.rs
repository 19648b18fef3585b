//! Decoding of `aws-chunked` bodies, in which all chunks are signed or none (S3 API reference,
//! "Transferring payload in multiple chunks").
//!
//! ```text
//! body     = *( chunk ) last-chunk [ trailers ] CRLF
//! chunk    = size [ ";chunk-signature=" 64HEXDIG ] CRLF data CRLF          the signature in all chunks or in none
//! last     = "0"  [ ";chunk-signature=" 64HEXDIG ] CRLF
//! trailers = *( name ":" value [ CR ] LF ) [ "x-amz-trailer-signature:" 64HEXDIG CRLF ]
//! ```
//!
//! One more empty line is accepted before the signature of the trailers, and one after the end:
//! minio-go ends its last trailer with a line feed and then begins a new line.

use crate::auth::signature::{Signature, is_same};
use crate::auth::signing_key::SigningKey;
use crate::auth::trailers::{self, Trailers};
use crate::base::digest::{Sha256, hex32};
use crate::base::limits;
use crate::s3::{BodyRead, ErrorCode, S3Error};

/// The announced properties of an `aws-chunked` body.
pub(super) struct ChunkedPayload {
    /// Bytes of all chunks.
    pub(super) decoded_length: u64,
    /// `None` if the body has no trailers.
    pub(super) trailers: Option<Trailers>,
    /// `None` if the chunks are not signed.
    pub(super) signer: Option<ChunkSigner>,
}

/// Computes the signatures of chunks, each of which covers the previous one.
pub(super) struct ChunkSigner {
    key: SigningKey,
    /// Date and scope of the request, each followed by a line end.
    context: String,
    previous: Signature,
}

impl ChunkSigner {
    /// Starts from the signature of the request.
    pub(super) fn new(key: SigningKey, timestamp: &str, scope: &str, request: Signature) -> Self {
        Self { key, context: format!("{timestamp}\n{scope}\n"), previous: request }
    }

    /// Verifies the signature of a chunk whose data has the hash `data`.
    fn check_chunk(&mut self, sent: &[u8], data: [u8; 32]) -> Result<(), S3Error> {
        let empty = hex32(&Sha256::of(b""));
        // The reference has the hash of no bytes as a line of its own.
        let computed = self.sign(b"AWS4-HMAC-SHA256-PAYLOAD\n", &[&empty, b"\n", &hex32(&data)]);
        self.advance(computed, sent)
    }

    /// Verifies the signature of the trailers, the last one of a body.
    fn check_trailers(&mut self, sent: &[u8], text: &[u8]) -> Result<(), S3Error> {
        let computed = self.sign(b"AWS4-HMAC-SHA256-TRAILER\n", &[&hex32(&Sha256::of(text))]);
        self.advance(computed, sent)
    }

    fn sign(&self, kind: &[u8], rest: &[&[u8]]) -> Signature {
        let start: [&[u8]; 4] = [kind, self.context.as_bytes(), &self.previous, b"\n"];
        hex32(&self.key.sign(&[&start, rest].concat()))
    }

    fn advance(&mut self, computed: Signature, sent: &[u8]) -> Result<(), S3Error> {
        if !is_same(&computed, sent) {
            return Err(S3Error::new(ErrorCode::SignatureDoesNotMatch)
                .message("The signature of a chunk or of the trailers does not match what was received."));
        }
        self.previous = computed;
        Ok(())
    }
}

/// Decodes the chunks of a body. Data are returned as they arrive, also of a signed chunk, so
/// that no chunk is held in memory. The signature of a chunk is verified before its last data are
/// returned, and all signatures before the end is.
pub(super) struct ChunkDecoder<'c> {
    input: ChunkInput<'c>,
    expected: ChunkedPayload,
    /// Bytes of the chunks whose size line has been read.
    decoded: u64,
    state: ChunkPhase,
    /// The hash of the current chunk so far, and its signature as sent.
    hash: Sha256,
    signature: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkPhase {
    /// The size line of a chunk comes next.
    Between,
    /// Within the data of a chunk, with this many bytes left.
    Data(u64),
    /// All chunks and trailers are verified.
    End,
}

impl<'c> ChunkDecoder<'c> {
    /// Decodes the bytes of `inner`.
    pub(super) fn new(inner: Box<dyn BodyRead + 'c>, expected: ChunkedPayload) -> Self {
        let hash = Sha256::new();
        let signature = Vec::new();
        Self {
            input: ChunkInput::new(inner),
            expected,
            decoded: 0,
            state: ChunkPhase::Between,
            hash,
            signature,
        }
    }

    fn begin_chunk(&mut self) -> Result<(), S3Error> {
        let line = self.input.line(|| wrong_size(b"").message("A line between the chunks is too long."))?;
        let (size, signature) = self.parse_size_line(&line)?;
        // By the lines with the sizes: no byte goes beyond the length that was announced, and that
        // space and quotas were checked for.
        self.decoded = self.decoded.saturating_add(size);
        if self.decoded > self.expected.decoded_length {
            return Err(incomplete("The chunks hold more than the decoded length that was announced."));
        }
        self.signature = signature.to_vec();
        // The last chunk is signed as well: a body that was cut after another one has none.
        if size == 0 {
            self.check_signature()?;
            return self.finish();
        }
        self.state = ChunkPhase::Data(size);
        Ok(())
    }

    /// Reads the next data of a chunk that has `left` bytes left.
    fn read_data(&mut self, left: u64, buf: &mut [u8]) -> Result<usize, S3Error> {
        let wanted = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        let read = self.input.data(&mut buf[..wanted])?;
        if self.expected.signer.is_some() {
            self.hash.update(&buf[..read]);
        }
        self.state = ChunkPhase::Data(left - read as u64);
        if self.state == ChunkPhase::Data(0) {
            self.check_signature()?;
        }
        Ok(read)
    }

    /// Verifies the signature of the current chunk, if chunks are signed.
    fn check_signature(&mut self) -> Result<(), S3Error> {
        match &mut self.expected.signer {
            Some(signer) => signer.check_chunk(&self.signature, std::mem::take(&mut self.hash).finish()),
            None => Ok(()),
        }
    }

    /// Parses the size and the signature of a chunk; the signature is empty if chunks are not
    /// signed.
    fn parse_size_line<'l>(&self, line: &'l [u8]) -> Result<(u64, &'l [u8]), S3Error> {
        let line = line.strip_suffix(b"\r").ok_or_else(|| wrong_size(line))?;
        let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let (digits, extension) = line.split_at(digits);
        let size = hexadecimal(digits).ok_or_else(|| wrong_size(line))?;
        if self.expected.signer.is_none() {
            return if extension.is_empty() { Ok((size, extension)) } else { Err(wrong_size(line)) };
        }
        let signature = extension.strip_prefix(b";chunk-signature=").ok_or_else(|| wrong_size(line))?;
        Ok((size, signature))
    }

    /// Reads the trailers and the end, after the last chunk.
    fn finish(&mut self) -> Result<(), S3Error> {
        if self.decoded < self.expected.decoded_length {
            return Err(incomplete("The chunks hold less than the decoded length that was announced."));
        }
        match &mut self.expected.trailers {
            None => self.input.line_end()?,
            Some(trailers) => {
                read_trailers(&mut self.input, trailers, self.expected.signer.as_mut())?;
                trailers.check_complete()?;
            }
        }
        self.input.end()?;
        self.state = ChunkPhase::End;
        Ok(())
    }
}

impl BodyRead for ChunkDecoder<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        loop {
            match self.state {
                ChunkPhase::Between => self.begin_chunk()?,
                ChunkPhase::Data(0) => {
                    self.input.line_end()?;
                    self.state = ChunkPhase::Between;
                }
                ChunkPhase::Data(left) => return self.read_data(left, buf),
                ChunkPhase::End => return Ok(0),
            }
        }
    }

    fn trailers(&self) -> &[(String, String)] {
        match (&self.expected.trailers, self.state) {
            (Some(trailers), ChunkPhase::End) => trailers.received(),
            _ => &[],
        }
    }
}

/// Reads trailers up to the empty line after them, and their signature if chunks are signed.
fn read_trailers(
    input: &mut ChunkInput<'_>,
    trailers: &mut Trailers,
    signer: Option<&mut ChunkSigner>,
) -> Result<(), S3Error> {
    let mut line = input.trailer_line()?;
    while !line.is_empty() && trailers.signature_in(&line).is_none() {
        trailers.receive(&line)?;
        line = input.trailer_line()?;
    }
    let Some(signer) = signer else {
        return if line.is_empty() { Ok(()) } else { Err(trailers::malformed()) };
    };
    if line.is_empty() {
        line = input.trailer_line()?;
    }
    let signature = trailers.signature_in(&line).ok_or_else(trailers::malformed)?;
    signer.check_trailers(signature.as_bytes(), trailers.signed_text())?;
    input.line_end()
}

/// The encoded bytes. Lines are read through a small buffer, which large data bypass.
struct ChunkInput<'c> {
    inner: Box<dyn BodyRead + 'c>,
    buffer: Box<[u8; ChunkInput::BUFFER_BYTES]>,
    start: usize,
    end: usize,
}

impl<'c> ChunkInput<'c> {
    const BUFFER_BYTES: usize = 4096;

    fn new(inner: Box<dyn BodyRead + 'c>) -> Self {
        Self { inner, buffer: Box::new([0; ChunkInput::BUFFER_BYTES]), start: 0, end: 0 }
    }

    /// The buffered bytes: at least one unless the body has ended.
    fn peek(&mut self) -> Result<&[u8], S3Error> {
        if self.start == self.end {
            self.end = self.inner.read(&mut self.buffer[..])?;
            self.start = 0;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Reads up to the next line feed, which is left out.
    fn line(&mut self, too_long: impl Fn() -> S3Error) -> Result<Vec<u8>, S3Error> {
        let mut line = Vec::new();
        loop {
            let bytes = self.peek()?;
            if bytes.is_empty() {
                return Err(incomplete("The body ended in the midst of its chunks."));
            }
            let feed = bytes.iter().position(|&b| b == b'\n');
            let part = &bytes[..feed.unwrap_or(bytes.len())];
            if line.len() + part.len() > limits::AWS_CHUNK_LINE_MAX_BYTES {
                return Err(too_long());
            }
            line.extend_from_slice(part);
            self.start += part.len() + usize::from(feed.is_some());
            if feed.is_some() {
                return Ok(line);
            }
        }
    }

    /// As `line`, without the carriage return before the line feed, if there is one.
    fn trailer_line(&mut self) -> Result<Vec<u8>, S3Error> {
        let mut line = self.line(trailers::malformed)?;
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }

    /// Reads an empty line.
    fn line_end(&mut self) -> Result<(), S3Error> {
        if self.line(wrong_end)? == b"\r" { Ok(()) } else { Err(wrong_end()) }
    }

    /// Reads at least one byte of data, or fails.
    fn data(&mut self, out: &mut [u8]) -> Result<usize, S3Error> {
        let read = if self.start == self.end && out.len() >= Self::BUFFER_BYTES {
            self.inner.read(out)?
        } else {
            let bytes = self.peek()?;
            let count = bytes.len().min(out.len());
            out[..count].copy_from_slice(&bytes[..count]);
            self.start += count;
            count
        };
        if read == 0 { Err(incomplete("The body ended in the midst of a chunk.")) } else { Ok(read) }
    }

    /// Checks that at most one empty line follows.
    fn end(&mut self) -> Result<(), S3Error> {
        if !self.peek()?.is_empty() {
            self.line_end()?;
        }
        if self.peek()?.is_empty() {
            Ok(())
        } else {
            Err(incomplete("The body goes on after its last chunk."))
        }
    }
}

fn wrong_end() -> S3Error {
    incomplete("A chunk does not end where its size says.")
}

/// Parses hexadecimal digits; `None` from 2^63 on. No chunk is that large, and decoders with signed
/// sizes would read another number.
fn hexadecimal(digits: &[u8]) -> Option<u64> {
    i64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().and_then(|size| size.try_into().ok())
}

fn wrong_size(line: &[u8]) -> S3Error {
    let shown = String::from_utf8_lossy(line).into_owned();
    S3Error::new(ErrorCode::InvalidChunkSizeError).element("BadChunkSizeInBytes", shown)
}

fn incomplete(message: &str) -> S3Error {
    S3Error::new(ErrorCode::IncompleteBody).message(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_hexadecimal_numbers_of_64_bits() {
        assert_eq!(hexadecimal(b"0"), Some(0));
        assert_eq!(hexadecimal(b"00fF"), Some(255));
        assert_eq!(hexadecimal(b"7fffffffffffffff"), Some((1 << 63) - 1));
        for digits in [&b""[..], b"8000000000000000", b"ffffffffffffffff", b"10000000000000000"] {
            assert_eq!(hexadecimal(digits), None);
        }
    }
}
