//! Verification of a body against `Content-MD5` (RFC 1864) and the declared checksum.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::base::digest::Md5;
use crate::base::{ChecksumAlgorithm, Md5Owner, Md5Purpose};
use crate::s3::checksum::{self, ChecksumHasher, ExpectedChecksum};
use crate::s3::{ErrorCode, Headers, S3Error, VendorHeaders};

/// The running digests of a body, and their expected values.
pub struct Integrity {
    md5: Md5Computation,
    content_md5: Option<[u8; 16]>,
    claim: Option<ExpectedChecksum>,
    /// Of the declared algorithm, or of the one that the server wants.
    running: Option<(ChecksumAlgorithm, ChecksumHasher)>,
}

/// The state of the MD5.
enum Md5Computation {
    /// Not computed here.
    Skipped,
    /// Computed from the bytes passed to [`Integrity::update`].
    Running(Md5),
    /// Computed by the pool; [`Integrity::set_md5`] is due.
    Pending,
    /// Set by the caller.
    Known([u8; 16]),
}

impl Md5Computation {
    fn finish(self) -> Option<[u8; 16]> {
        match self {
            Self::Skipped => None,
            Self::Running(md5) => Some(md5.finish()),
            Self::Pending => unreachable!("the caller sets the MD5 of the pool before it verifies"),
            Self::Known(md5) => Some(md5),
        }
    }
}

/// The digests of a body, none of which contradicts its declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The MD5, if it was computed before the commit.
    pub md5: Option<[u8; 16]>,
    /// The declared checksum, or the one that the server wanted.
    pub checksum: Option<(ChecksumAlgorithm, Vec<u8>)>,
}

impl Integrity {
    /// Reads `Content-MD5` and the declared checksum.
    ///
    /// # Errors
    /// `InvalidDigest` for a malformed `Content-MD5`; the errors of
    /// [`ExpectedChecksum::from_headers`].
    pub fn from_headers(headers: &Headers, vendor: VendorHeaders<'_>) -> Result<Self, S3Error> {
        let claim = ExpectedChecksum::from_headers(vendor)?;
        let algorithm = claim.as_ref().map(ExpectedChecksum::algorithm);
        Ok(Self { claim, ..Self::from_content_md5(headers)? }.computing(algorithm))
    }

    /// Reads `Content-MD5` alone, for requests whose checksum header is not about the body.
    ///
    /// # Errors
    /// `InvalidDigest`.
    pub fn from_content_md5(headers: &Headers) -> Result<Self, S3Error> {
        let content_md5 = headers.get("content-md5").map(parse_md5).transpose()?;
        Ok(Self { content_md5, ..Self::none() })
    }

    /// Nothing is declared.
    pub fn none() -> Self {
        Self { md5: Md5Computation::Running(Md5::new()), content_md5: None, claim: None, running: None }
    }

    /// Computes a checksum that is not declared. Must be called before the first byte; a declared
    /// checksum takes precedence.
    #[must_use]
    pub fn computing(mut self, algorithm: Option<ChecksumAlgorithm>) -> Self {
        self.running =
            self.running.or_else(|| algorithm.map(|algorithm| (algorithm, ChecksumHasher::new(algorithm))));
        self
    }

    /// Asks the policy who computes the MD5 of a body of `len` bytes, and prepares for that owner.
    /// Call it before the first byte. If the owner is [`Md5Owner::Pool`], the caller passes the
    /// result to [`Integrity::set_md5`].
    pub fn assign_md5(&mut self, purpose: Md5Purpose, len: Option<u64>) -> Md5Owner {
        let owner = Md5Owner::of(purpose, self.content_md5.is_some(), len);
        self.md5 = match owner {
            Md5Owner::Worker => Md5Computation::Running(Md5::new()),
            Md5Owner::Pool => Md5Computation::Pending,
            Md5Owner::Unneeded | Md5Owner::Committer => Md5Computation::Skipped,
        };
        owner
    }

    /// Sets the MD5 of all bytes.
    pub fn set_md5(&mut self, md5: [u8; 16]) {
        self.md5 = Md5Computation::Known(md5);
    }

    /// The algorithm of the declared checksum.
    pub fn claimed_algorithm(&self) -> Option<ChecksumAlgorithm> {
        self.claim.as_ref().map(ExpectedChecksum::algorithm)
    }

    /// Whether the headers declare a digest of the body.
    pub fn is_claimed(&self) -> bool {
        self.content_md5.is_some() || self.claim.is_some()
    }

    /// Adds bytes of the body.
    pub fn update(&mut self, bytes: &[u8]) {
        if let Md5Computation::Running(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        if let Some((_, running)) = &mut self.running {
            running.update(bytes);
        }
    }

    /// Compares the digests after the last byte. `trailers` belong to the body, named `p-...`.
    ///
    /// # Errors
    /// `BadDigest`; `MalformedTrailerError` if the announced trailer is missing.
    pub fn verify(self, trailers: &[(String, String)]) -> Result<Verified, S3Error> {
        let md5 = self.md5.finish();
        if let Some(expected) = self.content_md5
            && let Some(md5) = md5
        {
            verify_md5(expected, md5)?;
        }
        let checksum = self.running.map(|(algorithm, running)| (algorithm, running.finish()));
        if let Some(claim) = self.claim
            && let Some((_, computed)) = &checksum
        {
            verify_claim(claim, computed, trailers)?;
        }
        Ok(Verified { md5, checksum })
    }
}

/// The error for a checksum that differs from the computed one, both as headers show them.
pub fn wrong_checksum(algorithm: ChecksumAlgorithm, expected: &str, computed: &str) -> S3Error {
    let message = format!("The {} you specified did not match the calculated checksum.", algorithm.as_str());
    S3Error::new(ErrorCode::BadDigest)
        .message(message)
        .element("ExpectedDigest", expected)
        .element("CalculatedDigest", computed)
}

fn parse_md5(text: &[u8]) -> Result<[u8; 16], S3Error> {
    let digest = BASE64.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    digest.ok_or_else(|| {
        S3Error::new(ErrorCode::InvalidDigest).element("Content-MD5", String::from_utf8_lossy(text))
    })
}

fn verify_md5(expected: [u8; 16], computed: [u8; 16]) -> Result<(), S3Error> {
    if computed == expected {
        return Ok(());
    }
    Err(S3Error::new(ErrorCode::BadDigest)
        .message("The Content-MD5 you specified did not match what we received.")
        .element("ExpectedDigest", BASE64.encode(expected))
        .element("CalculatedDigest", BASE64.encode(computed)))
}

fn verify_claim(
    claim: ExpectedChecksum,
    computed: &[u8],
    trailers: &[(String, String)],
) -> Result<(), S3Error> {
    let (algorithm, expected) = match claim {
        ExpectedChecksum::Value(algorithm, value) => (algorithm, value),
        ExpectedChecksum::Trailer(algorithm) => {
            let trailer = trailers.iter().find(|(name, _)| name == algorithm.header());
            let (_, text) = trailer.ok_or_else(|| S3Error::new(ErrorCode::MalformedTrailerError))?;
            (algorithm, checksum::parse_value(algorithm, text.as_bytes())?)
        }
    };
    if computed == expected {
        return Ok(());
    }
    Err(wrong_checksum(algorithm, &checksum::encode(&expected), &checksum::encode(computed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::Dialect;

    const BODY: &[u8] = b"123456789";
    const MD5: &str = "JfnnlDI7RTiF9RgfG2JNCw==";
    const CRC32: &str = "y/Q5Jg==";

    fn verify(lines: &[(&str, &str)], trailer: Option<&str>) -> Result<Verified, ErrorCode> {
        let mut headers = Headers::default();
        for (name, value) in lines {
            headers.push(name, value.as_bytes());
        }
        let vendor = VendorHeaders::new(&headers, Dialect::Aws);
        let mut integrity = Integrity::from_headers(&headers, vendor).map_err(|e| e.code)?;
        assert_eq!(integrity.is_claimed(), !lines.is_empty());
        integrity.update(&BODY[..4]);
        integrity.update(&BODY[4..]);
        let trailers: Vec<_> =
            trailer.map(|text| ("p-checksum-crc32".to_owned(), text.to_owned())).into_iter().collect();
        integrity.verify(&trailers).map_err(|e| e.code)
    }

    #[test]
    fn a_body_without_claims_yields_its_md5_and_no_invented_checksum() {
        let verified = verify(&[], None).unwrap();
        assert_eq!(BASE64.encode(verified.md5.unwrap()), MD5);
        assert_eq!(verified.checksum, None);
    }

    #[test]
    fn an_md5_is_skipped_only_without_content_md5() {
        let verify = |claimed: Option<[u8; 16]>| {
            let mut integrity = Integrity { content_md5: claimed, ..Integrity::none() };
            let owner = integrity.assign_md5(Md5Purpose::CrcTaggedObject, Some(9));
            let expected = if claimed.is_some() { Md5Owner::Worker } else { Md5Owner::Unneeded };
            assert_eq!(owner, expected);
            integrity.update(BODY);
            integrity.verify(&[]).map(|verified| verified.md5).map_err(|e| e.code)
        };
        assert_eq!(verify(None), Ok(None));
        let md5 = parse_md5(MD5.as_bytes()).unwrap();
        assert_eq!(verify(Some(md5)), Ok(Some(md5)));
        assert_eq!(verify(Some([0; 16])), Err(ErrorCode::BadDigest));
    }

    #[test]
    fn an_md5_from_the_pool_is_compared_with_content_md5() {
        let verify = |claimed: [u8; 16], computed: [u8; 16]| {
            let mut integrity = Integrity { content_md5: Some(claimed), ..Integrity::none() };
            assert_eq!(integrity.assign_md5(Md5Purpose::ObjectTag, None), Md5Owner::Pool);
            integrity.update(b"bytes that the pool hashes");
            integrity.set_md5(computed);
            integrity.verify(&[]).map(|verified| verified.md5).map_err(|e| e.code)
        };
        assert_eq!(verify([1; 16], [1; 16]), Ok(Some([1; 16])));
        assert_eq!(verify([1; 16], [2; 16]), Err(ErrorCode::BadDigest));
        let skipped = Integrity::none().assign_md5(Md5Purpose::CrcTaggedObject, None);
        assert_eq!(skipped, Md5Owner::Unneeded, "the pool is not asked for an MD5 without a use");
    }

    #[test]
    fn a_checksum_is_computed_on_request_where_none_is_claimed() {
        let value = |integrity: Integrity| {
            let mut integrity = integrity.computing(Some(ChecksumAlgorithm::Crc32));
            integrity.update(BODY);
            integrity.verify(&[]).unwrap().checksum
        };
        assert_eq!(value(Integrity::none()), Some((ChecksumAlgorithm::Crc32, vec![0xcb, 0xf4, 0x39, 0x26])));
        let mut headers = Headers::default();
        headers.push("x-amz-checksum-crc32c", b"4waSgw==");
        let claimed = Integrity::from_headers(&headers, VendorHeaders::new(&headers, Dialect::Aws)).unwrap();
        assert_eq!(claimed.claimed_algorithm(), Some(ChecksumAlgorithm::Crc32c));
        assert_eq!(value(claimed).unwrap().0, ChecksumAlgorithm::Crc32c);
    }

    #[test]
    fn the_md5_alone_is_read_where_the_checksum_is_of_something_else() {
        let mut headers = Headers::default();
        headers.push("content-md5", MD5.as_bytes());
        headers.push("x-amz-checksum-crc32", b"AAAAAA==");
        let mut integrity = Integrity::from_content_md5(&headers).unwrap();
        integrity.update(BODY);
        assert_eq!(integrity.verify(&[]).unwrap().checksum, None);
    }

    #[test]
    fn matching_digests_pass() {
        assert!(verify(&[("content-md5", MD5)], None).is_ok());
        let expected = Some((ChecksumAlgorithm::Crc32, vec![0xcb, 0xf4, 0x39, 0x26]));
        assert_eq!(verify(&[("x-amz-checksum-crc32", CRC32)], None).unwrap().checksum, expected);
        assert_eq!(
            verify(&[("x-amz-trailer", "x-amz-checksum-crc32")], Some(CRC32)).unwrap().checksum,
            expected
        );
    }

    #[test]
    fn wrong_digests_are_bad_digests() {
        let zero = BASE64.encode([0; 16]);
        assert_eq!(verify(&[("content-md5", &zero)], None), Err(ErrorCode::BadDigest));
        assert_eq!(verify(&[("x-amz-checksum-crc32", "AAAAAA==")], None), Err(ErrorCode::BadDigest));
        let announced = [("x-amz-trailer", "x-amz-checksum-crc32")];
        assert_eq!(verify(&announced, Some("AAAAAA==")), Err(ErrorCode::BadDigest));
    }

    #[test]
    fn malformed_digests_are_distinguished_from_wrong_ones() {
        for text in ["", "x", "AAAA", "JfnnlDI7RTiF9RgfG2JNCw"] {
            assert_eq!(verify(&[("content-md5", text)], None), Err(ErrorCode::InvalidDigest), "{text}");
        }
        let announced = [("x-amz-trailer", "x-amz-checksum-crc32")];
        assert_eq!(verify(&announced, None), Err(ErrorCode::MalformedTrailerError));
        assert_eq!(verify(&announced, Some("AAAA")), Err(ErrorCode::InvalidRequest));
    }
}
