//! The engine's readers of bytes, opened to the fuzzers (`tests/fuzz`) and the benchmarks (`tests/benches`). No part of what this
//! crate promises.

use super::chunked::{TransferDecoder, TransferStep};
use super::head;
use crate::base::limits::HEADERS_MAX;
use crate::http::fields::BodyFraming;
use crate::s3::{Headers, Method, S3Error};

/// A request head that was read.
pub struct ParsedHead {
    /// The method.
    pub method: Method,
    /// The path as sent.
    pub path: String,
    /// The query as sent.
    pub query: String,
    /// The header lines.
    pub headers: Headers,
    /// What Content-Length says, where it decides.
    pub content_length: Option<u64>,
    /// Whether the body comes in chunks.
    pub chunked: bool,
    /// The bytes that the head took.
    pub len: usize,
}

/// Reads the head at the start of `bytes`; `None` while its end is missing.
///
/// # Errors
/// As the engine answers.
pub fn read_head(bytes: &[u8]) -> Result<Option<ParsedHead>, S3Error> {
    let head = head::parse(bytes, HEADERS_MAX)?;
    Ok(head.map(|head| ParsedHead {
        content_length: match head.body {
            BodyFraming::Length(len) => Some(len),
            BodyFraming::Absent | BodyFraming::Chunked => None,
        },
        chunked: head.body == BodyFraming::Chunked,
        method: head.method,
        path: head.path,
        query: head.query,
        headers: head.headers,
        len: head.len,
    }))
}

/// Whether the engine would hand `bytes` to a worker.
pub fn head_has_arrived(bytes: &[u8], searched: usize) -> bool {
    head::has_arrived(bytes, searched)
}

/// The data of a chunked body that arrives in `pieces`, and what is left behind it; `None` where its end is missing.
///
/// # Errors
/// As the engine answers.
#[expect(clippy::type_complexity, reason = "data and rest need no type of their own for one caller")]
pub fn read_chunked<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> Result<Option<(Vec<u8>, Vec<u8>)>, S3Error> {
    let (mut chunks, mut waiting, mut data, mut ended) =
        (TransferDecoder::new(), Vec::new(), Vec::new(), false);
    for piece in pieces {
        waiting.extend_from_slice(piece);
        while !ended {
            let (used, next) = chunks.advance(&waiting)?;
            waiting.drain(..used);
            let TransferStep::Data(left) = next else {
                ended = next == TransferStep::End;
                break;
            };
            let count = waiting.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if count == 0 {
                break;
            }
            data.extend(waiting.drain(..count));
            chunks.took(count as u64);
        }
    }
    Ok(ended.then_some((data, waiting)))
}
