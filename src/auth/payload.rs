//! Verification of a body against the signed content hash (S3 API reference,
//! "x-amz-content-sha256").

use std::mem;

use crate::auth::chunked::{ChunkDecoder, ChunkSigner, ChunkedPayload};
use crate::auth::header::vendor;
use crate::auth::trailers::{self, Trailers};
use crate::base::digest::{Sha256, from_hex, to_hex};
use crate::s3::{Body, BodyRead, Dialect, ErrorCode, Headers, S3Error};

/// The keyword for a body that the signature does not cover.
pub(super) const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// The kinds of content hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PayloadKind {
    /// The body is not covered.
    Unsigned,
    /// The SHA-256 of the whole body.
    Hashed([u8; 32]),
    /// The body is `aws-chunked`.
    Chunked {
        /// Whether each chunk carries a signature.
        signed: bool,
        /// Whether trailers follow.
        trailers: bool,
    },
}

impl PayloadKind {
    /// Parses a content hash.
    ///
    /// # Errors
    /// `NotImplemented` for chunks signed by elliptic curves, `InvalidArgument` for other text.
    pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Self, S3Error> {
        Ok(match text {
            UNSIGNED => Self::Unsigned,
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Self::Chunked { signed: false, trailers: true },
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => Self::Chunked { signed: true, trailers: false },
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => Self::Chunked { signed: true, trailers: true },
            _ if text.starts_with("STREAMING-AWS4-ECDSA-") => {
                let name = format!("{}content-sha256", dialect.header_prefix());
                return Err(S3Error::new(ErrorCode::NotImplemented).element("Header", name));
            }
            _ => {
                let digest = from_hex(text).and_then(|bytes| bytes.try_into().ok());
                Self::Hashed(digest.ok_or_else(|| unknown(text, dialect))?)
            }
        })
    }
}

fn unknown(text: &str, dialect: Dialect) -> S3Error {
    let name = format!("{}content-sha256", dialect.header_prefix());
    let message = format!("{name} must be {UNSIGNED}, a STREAMING- form, or a valid sha256 value.");
    S3Error::invalid_argument(&name, text, message)
}

/// The verifier of a body, before it is wrapped around the reader.
pub(super) enum PayloadVerifier {
    /// Nothing to verify.
    None,
    /// The expected SHA-256.
    Hash([u8; 32]),
    /// The expected chunks.
    Chunked(Box<ChunkedPayload>),
}

impl PayloadVerifier {
    /// Reads the announcements of the body in the headers. `signer` makes the signer of the chunks;
    /// `None` for an anonymous request.
    ///
    /// # Errors
    /// - `MissingContentLength` for chunks without a decoded length, `InvalidArgument` for a length
    ///   that is not a number;
    /// - `InvalidRequest` for signed chunks in an unsigned request and for unsupported trailers;
    /// - `MalformedTrailerError` for announced trailers of a body that has none.
    pub(super) fn new(
        kind: &PayloadKind,
        headers: &Headers,
        dialect: Dialect,
        signer: impl FnOnce() -> Option<ChunkSigner>,
    ) -> Result<Self, S3Error> {
        let (signed, has_trailers) = match *kind {
            PayloadKind::Chunked { signed, trailers } => (signed, trailers),
            PayloadKind::Unsigned | PayloadKind::Hashed(_) => (false, false),
        };
        // The client believes that its checksum is verified, and no trailer with it will come.
        if !has_trailers && trailers::announcements(headers, dialect).next().is_some() {
            return Err(trailers::malformed());
        }
        match *kind {
            PayloadKind::Unsigned => Ok(Self::None),
            PayloadKind::Hashed(digest) => Ok(Self::Hash(digest)),
            PayloadKind::Chunked { .. } => {
                let signer = if signed { Some(signer().ok_or_else(unsigned_request)?) } else { None };
                let decoded_length = decoded_length(headers, dialect)?;
                let announced = has_trailers.then(|| Trailers::announced(headers, dialect)).transpose()?;
                Ok(Self::Chunked(Box::new(ChunkedPayload { decoded_length, trailers: announced, signer })))
            }
        }
    }

    /// Replaces the reader of a body by one that verifies it.
    pub(super) fn wrap(self, body: &mut Body<'_>) {
        match self {
            Self::None => {}
            Self::Hash(expected) => {
                let plain = mem::replace(body, Body::none());
                let reader = HashVerifier { inner: plain.reader, hash: Sha256::new(), expected };
                *body = Body { reader: Box::new(Fused::new(reader)), ..plain };
            }
            Self::Chunked(chunks) => {
                let plain = mem::replace(body, Body::none());
                // From here on the length of the object, by which space and quotas are checked; the
                // decoder holds the chunks to it.
                let content_length = Some(chunks.decoded_length);
                let reader = Fused::new(ChunkDecoder::new(plain.reader, *chunks));
                *body = Body { content_length, chunked: false, reader: Box::new(reader) };
            }
        }
    }
}

fn unsigned_request() -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest)
        .message("The chunks of a body are signed only in a signed request.")
}

fn decoded_length(headers: &Headers, dialect: Dialect) -> Result<u64, S3Error> {
    let name = format!("{}decoded-content-length", dialect.header_prefix());
    let text = vendor(headers, dialect, "decoded-content-length")?.ok_or_else(|| {
        S3Error::new(ErrorCode::MissingContentLength).message(format!("You must provide the {name} header."))
    })?;
    // `parse` takes a sign, too.
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let length = text.parse().ok().filter(|_| digits);
    length.ok_or_else(|| S3Error::invalid_argument(&name, text, "The length is not a number of bytes."))
}

/// Compares the hash of a whole body with the signed one before it reports the end.
struct HashVerifier<'c> {
    inner: Box<dyn BodyRead + 'c>,
    hash: Sha256,
    expected: [u8; 32],
}

impl BodyRead for HashVerifier<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        let read = self.inner.read(buf)?;
        if read > 0 {
            self.hash.update(&buf[..read]);
            return Ok(read);
        }
        let computed = self.hash.clone().finish();
        if computed == self.expected {
            return Ok(0);
        }
        Err(S3Error::new(ErrorCode::XAmzContentSHA256Mismatch)
            .element("ClientComputedContentSHA256", to_hex(&self.expected))
            .element("S3ComputedContentSHA256", to_hex(&computed)))
    }

    fn trailers(&self) -> &[(String, String)] {
        self.inner.trailers()
    }
}

/// A reader that returns its first error again on all later reads.
struct Fused<R> {
    inner: R,
    failure: Option<S3Error>,
}

impl<R> Fused<R> {
    fn new(inner: R) -> Self {
        Self { inner, failure: None }
    }
}

impl<R: BodyRead> BodyRead for Fused<R> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.inner.read(buf).inspect_err(|failure| self.failure = Some(failure.clone()))
    }

    fn trailers(&self) -> &[(String, String)] {
        self.inner.trailers()
    }
}
