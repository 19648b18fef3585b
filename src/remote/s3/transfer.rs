//! The bodies of requests and answers: their digests, their rates and their bounds.

use std::io::{self, ErrorKind, Read, Write};
use std::thread;
use std::time::Instant;

use crate::base::digest::{Md5, Sha256, to_hex};
use crate::base::limits::MIB;
use crate::client::RateLimit;
use crate::remote::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// The size of the pieces in which a body is read for its digests.
const PIECE_BYTES: u64 = 256 * 1024;

/// The most memory that is set aside for a body before it comes. A read ahead fits.
const EXPECTED_MAX_BYTES: u64 = 8 * MIB;

/// A body with the digests that are sent with it.
pub(super) struct DigestedBody<'b> {
    pub(super) body: &'b dyn Body,
    pub(super) sha256_hex: String,
    pub(super) md5: [u8; 16],
}

impl<'b> DigestedBody<'b> {
    /// Reads the body once.
    pub(super) fn new(body: &'b dyn Body) -> io::Result<Self> {
        let mut sha256 = Sha256::new();
        let mut md5 = Md5::new();
        let mut piece = vec![0; PIECE_BYTES.min(body.length()) as usize];
        let mut offset = 0;
        while offset < body.length() {
            let count = (body.length() - offset).min(PIECE_BYTES) as usize;
            body.read_at(offset, &mut piece[..count])?;
            sha256.update(&piece[..count]);
            md5.update(&piece[..count]);
            offset += count as u64;
        }
        Ok(Self { body, sha256_hex: to_hex(&sha256.finish()), md5: md5.finish() })
    }

    /// The value of the header `Content-MD5`.
    pub(super) fn content_md5(&self) -> String {
        BASE64.encode(self.md5)
    }
}

/// The time and the rate of one transfer.
#[derive(Clone, Copy)]
pub(super) struct Pace<'p> {
    pub(super) limit: Option<&'p RateLimit>,
    pub(super) deadline: Instant,
}

impl Pace<'_> {
    /// Waits until `bytes` may be transferred. Returns whether that is in time.
    pub(super) fn wait_for(&self, bytes: usize) -> bool {
        let now = Instant::now();
        let wait = self.limit.map_or_else(Default::default, |limit| limit.book(bytes, now));
        if now + wait > self.deadline {
            return false;
        }
        thread::sleep(wait);
        true
    }
}

/// Reads a body from its start. An error of the own disk is kept, so that it is not mistaken for
/// one of the connection.
pub(super) struct BodyReader<'r> {
    body: Option<&'r dyn Body>,
    /// The bytes that were read.
    pub(super) offset: u64,
    pace: Pace<'r>,
    pub(super) failed: Option<io::Error>,
    /// Whether the rate limit takes longer than the call may.
    pub(super) late: bool,
}

impl<'r> BodyReader<'r> {
    pub(super) fn new(body: Option<&'r dyn Body>, pace: Pace<'r>) -> Self {
        Self { body, offset: 0, pace, failed: None, late: false }
    }
}

impl Read for BodyReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(body) = self.body else { return Ok(0) };
        let left = usize::try_from(body.length().saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let count = left.min(buffer.len());
        if count == 0 {
            return Ok(0);
        }
        if let Err(error) = body.read_at(self.offset, &mut buffer[..count]) {
            self.failed = Some(error);
            return Err(ErrorKind::Other.into());
        }
        if !self.pace.wait_for(count) {
            self.late = true;
            return Err(ErrorKind::TimedOut.into());
        }
        self.offset += count as u64;
        Ok(count)
    }
}

/// Keeps the body of an answer up to a bound.
pub(super) struct BoundedSink<'s> {
    pub(super) bytes: Vec<u8>,
    bound: u64,
    pace: Pace<'s>,
    /// Whether the body is longer.
    pub(super) exceeded: bool,
    /// Whether the rate limit takes longer than the call may.
    pub(super) late: bool,
}

impl<'s> BoundedSink<'s> {
    pub(super) fn new(bound: u64, pace: Pace<'s>) -> Self {
        let bytes = Vec::with_capacity(bound.min(EXPECTED_MAX_BYTES) as usize);
        Self { bytes, bound, pace, exceeded: false, late: false }
    }
}

impl Write for BoundedSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.bytes.len() + bytes.len()) as u64 > self.bound {
            self.exceeded = true;
            return Err(ErrorKind::InvalidData.into());
        }
        if !self.pace.wait_for(bytes.len()) {
            self.late = true;
            return Err(ErrorKind::TimedOut.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
