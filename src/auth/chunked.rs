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

/// Takes the chunks of a body apart. Data are handed out as they come, also those of a signed chunk, so that none is held
/// in memory; its signature is checked before the last of them are, and the end is not seen before all have been.
pub(super) struct Decoder<'c> {
    input: Input<'c>,
    chunks: Chunks,
    /// Bytes of the chunks whose size line has been read.
    decoded: u64,
    state: State,
    /// What the signature of the current chunk is to be checked against, and as what it was written.
    hash: Sha256,
    written: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The size line of a chunk comes next.
    Between,
    /// This many bytes of a chunk are yet to come.
    Passing(u64),
    /// All is there and verified.
    End,
}

impl<'c> Decoder<'c> {
    /// Decodes what `inner` yields.
    pub(super) fn new(inner: Box<dyn BodyRead + 'c>, chunks: Chunks) -> Self {
        let (hash, written) = (Sha256::new(), Vec::new());
        Self { input: Input::new(inner), chunks, decoded: 0, state: State::Between, hash, written }
    }

    fn begin_chunk(&mut self) -> Result<(), S3Error> {
        let line = self.input.line(|| wrong_size(b"").message("A line between the chunks is too long."))?;
        let (size, signature) = self.size_line(&line)?;
        self.decoded = self.decoded.saturating_add(size);
        if self.decoded > self.chunks.decoded_length {
            return Err(incomplete("The chunks hold more than the decoded length that was announced."));
        }
        self.written = signature.to_vec();
        if size == 0 {
            self.check_signature()?;
            return self.finish();
        }
        self.state = State::Passing(size);
        Ok(())
    }

    /// Takes the next bytes of a chunk of which `left` are to come.
    fn pass(&mut self, left: u64, buf: &mut [u8]) -> Result<usize, S3Error> {
        let wanted = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        let read = self.input.data(&mut buf[..wanted])?;
        if self.chunks.signer.is_some() {
            self.hash.update(&buf[..read]);
        }
        self.state = State::Passing(left - read as u64);
        if self.state == State::Passing(0) {
            self.check_signature()?;
        }
        Ok(read)
    }

    /// Goes on behind the data of a chunk, if chunks are signed.
    fn check_signature(&mut self) -> Result<(), S3Error> {
        match &mut self.chunks.signer {
            Some(signer) => signer.check_chunk(&self.written, std::mem::take(&mut self.hash).finish()),
            None => Ok(()),
        }
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
                State::Passing(left) => return self.pass(left, buf),
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

/// The number that hexadecimal digits, and nothing else, stand for; `None` from 2^63 on: no chunk is as large, and readers
/// that take sizes for signed numbers see something else.
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
