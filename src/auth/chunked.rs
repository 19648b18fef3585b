//! Bodies in `aws-chunked` encoding, each chunk signed or none (S3 API reference, "Transferring payload in multiple
//! chunks").
//!
//! ```text
//! body     = *( chunk ) last-chunk [ trailers ] CRLF
//! chunk    = size [ ";chunk-signature=" 64HEXDIG ] CRLF data CRLF          the signature in all chunks or in none
//! last     = "0"  [ ";chunk-signature=" 64HEXDIG ] CRLF
//! trailers = *( name ":" value [ CR ] LF ) [ "x-amz-trailer-signature:" 64HEXDIG CRLF ]
//! ```
//!
//! One more empty line is taken before the signature of the trailers and one behind the end, since minio-go ends
//! its last trailer with a line feed and then begins a new line.

use crate::auth::signature::{Signature, is_same};
use crate::auth::signing_key::SigningKey;
use crate::auth::trailers::{self, Trailers};
use crate::base::digest::{Sha256, hex32};
use crate::base::limits;
use crate::s3::{BodyRead, ErrorCode, S3Error};

/// What a body in chunks must turn out to be.
pub(super) struct Chunks {
    /// Bytes of all chunks together.
    pub(super) decoded_length: u64,
    /// `None` when the body ends without trailers.
    pub(super) trailers: Option<Trailers>,
    /// `None` when the chunks are not signed.
    pub(super) signer: Option<ChunkSigner>,
}

/// Signs one chunk after the other; each signature covers the one before.
pub(super) struct ChunkSigner {
    key: SigningKey,
    /// Date and scope of the request, each with its line end.
    context: String,
    previous: Signature,
}

impl ChunkSigner {
    /// Starts from the signature of the request.
    pub(super) fn new(key: SigningKey, stamp: &str, scope: &str, request: Signature) -> Self {
        Self { key, context: format!("{stamp}\n{scope}\n"), previous: request }
    }

    /// Goes on to the chunk whose data has that hash.
    fn check_chunk(&mut self, written: &[u8], data: [u8; 32]) -> Result<(), S3Error> {
        let empty = hex32(&Sha256::of(b""));
        let made = self.sign(b"AWS4-HMAC-SHA256-PAYLOAD\n", &[&empty, b"\n", &hex32(&data)]);
        self.go_on(made, written)
    }

    /// Goes on to the trailers, which are the last to be signed.
    fn check_trailers(&mut self, written: &[u8], text: &[u8]) -> Result<(), S3Error> {
        let made = self.sign(b"AWS4-HMAC-SHA256-TRAILER\n", &[&hex32(&Sha256::of(text))]);
        self.go_on(made, written)
    }

    fn sign(&self, kind: &[u8], rest: &[&[u8]]) -> Signature {
        let start: [&[u8]; 4] = [kind, self.context.as_bytes(), &self.previous, b"\n"];
        hex32(&self.key.sign(&[&start, rest].concat()))
    }

    fn go_on(&mut self, made: Signature, written: &[u8]) -> Result<(), S3Error> {
        if !is_same(&made, written) {
            return Err(S3Error::new(ErrorCode::SignatureDoesNotMatch)
                .message("The signature of a chunk or of the trailers does not match what was received."));
        }
        self.previous = made;
        Ok(())
    }
}

/// Takes the chunks of a body apart. Of a signed chunk it hands out nothing before the signature has been checked.
pub(super) struct Decoder<'c> {
    input: Input<'c>,
    chunks: Chunks,
    /// Bytes of the chunks whose size line has been read.
    decoded: u64,
    state: State,
    held: Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The size line of a chunk comes next.
    Between,
    /// This many bytes of an unsigned chunk are yet to come.
    Passing(u64),
    /// A verified chunk is being handed out.
    Holding,
    /// All is there and verified.
    End,
}

impl<'c> Decoder<'c> {
    /// Decodes what `inner` yields.
    pub(super) fn new(inner: Box<dyn BodyRead + 'c>, chunks: Chunks) -> Self {
        Self { input: Input::new(inner), chunks, decoded: 0, state: State::Between, held: Held::default() }
    }

    fn begin_chunk(&mut self) -> Result<(), S3Error> {
        let line = self.input.line(|| wrong_size(b"").message("A line between the chunks is too long."))?;
        let (size, signature) = self.size_line(&line)?;
        self.decoded = self.decoded.saturating_add(size);
        if self.decoded > self.chunks.decoded_length {
            return Err(incomplete("The chunks hold more than the decoded length that was announced."));
        }
        if let Some(signer) = &mut self.chunks.signer {
            let data = self.held.fill(&mut self.input, size)?;
            signer.check_chunk(signature, data)?;
        }
        if size == 0 {
            return self.finish();
        }
        self.state = if self.chunks.signer.is_some() {
            self.input.line_end()?;
            State::Holding
        } else {
            State::Passing(size)
        };
        Ok(())
    }

    /// Size and signature of a chunk; an unsigned one has an empty signature.
    fn size_line<'l>(&self, line: &'l [u8]) -> Result<(u64, &'l [u8]), S3Error> {
        let line = line.strip_suffix(b"\r").ok_or_else(|| wrong_size(line))?;
        let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let (digits, extension) = line.split_at(digits);
        let size = hexadecimal(digits).ok_or_else(|| wrong_size(line))?;
        if self.chunks.signer.is_none() {
            return if extension.is_empty() { Ok((size, extension)) } else { Err(wrong_size(line)) };
        }
        let signature = extension.strip_prefix(b";chunk-signature=").ok_or_else(|| wrong_size(line))?;
        if size > limits::AWS_CHUNK_MAX_BYTES {
            let max = limits::AWS_CHUNK_MAX_BYTES;
            return Err(wrong_size(digits).message(format!("A signed chunk holds at most {max} bytes.")));
        }
        Ok((size, signature))
    }

    /// Reads what stands behind the last chunk.
    fn finish(&mut self) -> Result<(), S3Error> {
        if self.decoded < self.chunks.decoded_length {
            return Err(incomplete("The chunks hold less than the decoded length that was announced."));
        }
        match &mut self.chunks.trailers {
            None => self.input.line_end()?,
            Some(trailers) => {
                take_trailers(&mut self.input, trailers, self.chunks.signer.as_mut())?;
                trailers.check_complete()?;
            }
        }
        self.input.end()?;
        self.state = State::End;
        Ok(())
    }
}

impl BodyRead for Decoder<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        loop {
            match self.state {
                State::Between => self.begin_chunk()?,
                State::Passing(0) => {
                    self.input.line_end()?;
                    self.state = State::Between;
                }
                State::Passing(left) => {
                    let wanted = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
                    let read = self.input.data(&mut buf[..wanted])?;
                    self.state = State::Passing(left - read as u64);
                    return Ok(read);
                }
                State::Holding => match self.held.give(buf) {
                    0 => self.state = State::Between,
                    given => return Ok(given),
                },
                State::End => return Ok(0),
            }
        }
    }

    fn trailers(&self) -> &[(String, String)] {
        match (&self.chunks.trailers, self.state) {
            (Some(trailers), State::End) => trailers.come(),
            _ => &[],
        }
    }
}

/// Takes trailers up to the empty line behind them and, where chunks are signed, their signature.
fn take_trailers(
    input: &mut Input<'_>,
    trailers: &mut Trailers,
    signer: Option<&mut ChunkSigner>,
) -> Result<(), S3Error> {
    let mut line = input.trailer_line()?;
    while !line.is_empty() && trailers.signature_in(&line).is_none() {
        trailers.take(&line)?;
        line = input.trailer_line()?;
    }
    let Some(signer) = signer else {
        return if line.is_empty() { Ok(()) } else { Err(trailers::malformed()) };
    };
    if line.is_empty() {
        line = input.trailer_line()?;
    }
    let written = trailers.signature_in(&line).ok_or_else(trailers::malformed)?;
    signer.check_trailers(written.as_bytes(), trailers.signed_text())?;
    input.line_end()
}

/// One signed chunk, in memory until its signature has been checked.
#[derive(Default)]
struct Held {
    /// Grows with what has come, never with what was announced; kept from chunk to chunk.
    bytes: Vec<u8>,
    filled: usize,
    given: usize,
}

impl Held {
    /// What the first bytes of a chunk may take; from there on the buffer doubles.
    const STEP_BYTES: usize = 64 * limits::KIB as usize;

    /// Reads a chunk of `size` bytes, which is within the limit, and returns its hash.
    fn fill(&mut self, input: &mut Input<'_>, size: u64) -> Result<[u8; 32], S3Error> {
        let size = usize::try_from(size).map_err(|_| incomplete("The chunk is too large."))?;
        (self.filled, self.given) = (0, 0);
        let mut hash = Sha256::new();
        while self.filled < size {
            if self.filled == self.bytes.len() {
                let room = size.min(self.filled.max(Self::STEP_BYTES / 2) * 2);
                self.bytes.resize(room, 0);
            }
            let end = size.min(self.bytes.len());
            let read = input.data(&mut self.bytes[self.filled..end])?;
            hash.update(&self.bytes[self.filled..self.filled + read]);
            self.filled += read;
        }
        Ok(hash.finish())
    }

    /// Hands out as much as fits; 0 when all has been handed out.
    fn give(&mut self, buf: &mut [u8]) -> usize {
        let count = buf.len().min(self.filled - self.given);
        buf[..count].copy_from_slice(&self.bytes[self.given..self.given + count]);
        self.given += count;
        count
    }
}

/// The encoded bytes: lines out of a small buffer, data past it.
struct Input<'c> {
    inner: Box<dyn BodyRead + 'c>,
    buffer: Box<[u8; Input::BUFFER_BYTES]>,
    start: usize,
    end: usize,
}

impl<'c> Input<'c> {
    const BUFFER_BYTES: usize = 4096;

    fn new(inner: Box<dyn BodyRead + 'c>) -> Self {
        Self { inner, buffer: Box::new([0; Input::BUFFER_BYTES]), start: 0, end: 0 }
    }

    /// The bytes at hand: at least one unless the body has ended.
    fn peek(&mut self) -> Result<&[u8], S3Error> {
        if self.start == self.end {
            self.end = self.inner.read(&mut self.buffer[..])?;
            self.start = 0;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Takes everything up to the next line feed, which is left out.
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

    /// The same without the carriage return before it, if there is one.
    fn trailer_line(&mut self) -> Result<Vec<u8>, S3Error> {
        let mut line = self.line(trailers::malformed)?;
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }

    /// Takes the end of a line and nothing else.
    fn line_end(&mut self) -> Result<(), S3Error> {
        let goes_on = || incomplete("A chunk does not end where its size says.");
        if self.line(goes_on)? == b"\r" { Ok(()) } else { Err(goes_on()) }
    }

    /// Takes at least one byte of data, or fails.
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

    /// Makes sure that nothing follows but at most one empty line.
    fn end(&mut self) -> Result<(), S3Error> {
        if !self.peek()?.is_empty() {
            self.line_end()?;
        }
        if self.peek()?.is_empty() {
            Ok(())
        } else {
            Err(incomplete("The body goes on behind its last chunk."))
        }
    }
}

/// The number that hexadecimal digits, and nothing else, stand for; `None` if it takes more than 64 bits.
fn hexadecimal(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
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

    /// Yields `left` bytes, a thousand at a time, and then ends.
    struct Supply {
        left: usize,
    }

    impl BodyRead for Supply {
        fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
            let count = self.left.min(buf.len()).min(1000);
            self.left -= count;
            Ok(count)
        }
    }

    #[test]
    fn memory_follows_what_has_come_and_not_what_was_announced() {
        for come in [0, 1, 5_000, 65_536, 65_537, 300_000] {
            let mut held = Held::default();
            let error =
                held.fill(&mut Input::new(Box::new(Supply { left: come })), limits::AWS_CHUNK_MAX_BYTES);
            assert_eq!(error.unwrap_err().code, ErrorCode::IncompleteBody);
            assert_eq!(held.filled, come);
            assert!(
                held.bytes.capacity() <= 2 * come.max(Held::STEP_BYTES / 2),
                "{come}: {}",
                held.bytes.capacity()
            );
        }
    }

    #[test]
    fn the_buffer_of_one_chunk_serves_the_next() {
        let (mut held, mut out) = (Held::default(), [0; 70_000]);
        let mut input = Input::new(Box::new(Supply { left: 200_000 }));
        for size in [70_000, 3, 0, 70_000] {
            assert_eq!(held.fill(&mut input, size).unwrap(), Sha256::of(&vec![0; size as usize]));
            assert_eq!(held.give(&mut out), size as usize);
            assert_eq!(held.give(&mut out), 0);
        }
        assert_eq!(held.bytes.len(), 70_000);
    }

    #[test]
    fn sizes_are_hexadecimal_numbers_of_64_bits() {
        assert_eq!(hexadecimal(b"0"), Some(0));
        assert_eq!(hexadecimal(b"00fF"), Some(255));
        assert_eq!(hexadecimal(b"ffffffffffffffff"), Some(u64::MAX));
        for digits in [&b""[..], b"10000000000000000"] {
            assert_eq!(hexadecimal(digits), None);
        }
    }
}
