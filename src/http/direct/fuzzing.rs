//! The parsers of the engine, opened to fuzzers (`tests/fuzz`) and benchmarks (`tests/benches`).
//! Not part of the public interface.

use super::head;
use super::request_body::chunked::{TransferDecoder, TransferStep};
use crate::base::limits::HEADERS_MAX;
use crate::http::fields::BodyFraming;
use crate::s3::{Headers, Method, S3Error};

/// A parsed request head.
pub struct ParsedHead {
    pub method: Method,
    /// The path as sent.
    pub path: String,
    /// The query as sent.
    pub query: String,
    /// The header lines.
    pub headers: Headers,
    /// The value of Content-Length, if it frames the body.
    pub content_length: Option<u64>,
    /// Whether the body comes in chunks.
    pub chunked: bool,
    /// The length of the head in bytes.
    pub len: usize,
}

/// Parses the head at the start of `bytes`. `None` while its end is missing.
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

/// Whether the engine would hand `bytes` to a worker. Their first `searched_len` bytes are known to
/// hold no complete head.
pub fn head_is_complete(bytes: &[u8], searched_len: usize) -> bool {
    head::is_complete(bytes, searched_len)
}

/// Decodes a chunked body that arrives in `pieces`. Returns its data and the bytes after it; `None`
/// where its end is missing.
///
/// # Errors
/// As the engine answers.
#[expect(clippy::type_complexity, reason = "data and rest need no type of their own for one caller")]
pub fn read_chunked<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> Result<Option<(Vec<u8>, Vec<u8>)>, S3Error> {
    let mut decoder = TransferDecoder::new();
    let mut input = Vec::new();
    let mut data = Vec::new();
    let mut ended = false;
    for piece in pieces {
        input.extend_from_slice(piece);
        while !ended {
            let (used, step) = decoder.advance(&input)?;
            input.drain(..used);
            let TransferStep::Data(remaining) = step else {
                ended = step == TransferStep::End;
                break;
            };
            let count = input.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
            if count == 0 {
                break;
            }
            data.extend(input.drain(..count));
            decoder.count(count as u64);
        }
    }
    Ok(ended.then_some((data, input)))
}
