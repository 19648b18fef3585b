//! Bodies of objects that scripts send without a checksum.

use crate::base::ChecksumAlgorithm;
use crate::s3::checksum::{self, ChecksumHasher};
use crate::s3::{Body, BodyRead, Method, Request, S3Error};

const ALGORITHM: ChecksumAlgorithm = ChecksumAlgorithm::Crc32;

/// Lets the console declare the checksum of an object in place of the browser, where none is
/// declared: a bucket with a default retention takes no object without one. Parts have theirs from
/// the script that uploads them.
pub(super) fn declare_checksum(request: &mut Request<'_>) {
    let is_object = request.method == Method::Put && request.query.is_empty();
    if !is_object || request.headers.iter().any(|(name, _)| makes_checksum_needless(name)) {
        return;
    }
    let name = ALGORITHM.header().replacen("p-", "x-amz-", 1);
    request.headers.push("x-amz-trailer", name.as_bytes());
    let inner = std::mem::replace(&mut request.body.reader, Body::none().reader);
    let hasher = Some(ChecksumHasher::new(ALGORITHM));
    request.body.reader = Box::new(SummedBody { inner, hasher, trailers: Vec::new() });
}

/// Whether a request with this header has a checksum already, or has no body to sum.
fn makes_checksum_needless(name: &str) -> bool {
    name == "content-md5" || name.starts_with("x-amz-checksum-") || name.starts_with("x-amz-copy-source")
}

/// A body that ends with its checksum as a trailer.
struct SummedBody<'c> {
    inner: Box<dyn BodyRead + 'c>,
    /// Until the end.
    hasher: Option<ChecksumHasher>,
    trailers: Vec<(String, String)>,
}

impl BodyRead for SummedBody<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        let count = self.inner.read(buf)?;
        if count > 0 {
            if let Some(hasher) = &mut self.hasher {
                hasher.update(&buf[..count]);
            }
        } else if let Some(hasher) = self.hasher.take() {
            self.trailers.push((ALGORITHM.header().to_owned(), checksum::encode(&hasher.finish())));
        }
        Ok(count)
    }

    fn trailers(&self) -> &[(String, String)] {
        &self.trailers
    }
}
