//! Checksums of uploads (S3 user guide, "Checking object integrity"): the declared checksum in a
//! header or a trailer, and the computation of each algorithm.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::base::ChecksumAlgorithm;
use crate::base::digest::{Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
use crate::s3::{ErrorCode, S3Error, VendorHeaders};

impl ChecksumAlgorithm {
    /// The name, as in `p-sdk-checksum-algorithm`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// The algorithm of that name, whatever the case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str().eq_ignore_ascii_case(name))
    }

    /// The header or trailer with its value.
    pub fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "p-checksum-crc32",
            Self::Crc32c => "p-checksum-crc32c",
            Self::Crc64Nvme => "p-checksum-crc64nvme",
            Self::Sha1 => "p-checksum-sha1",
            Self::Sha256 => "p-checksum-sha256",
        }
    }

    /// That header without its prefix.
    pub fn suffix(self) -> &'static str {
        &self.header()["p-".len()..]
    }

    /// Whether the checksum of a concatenation follows from the checksums of its pieces.
    pub fn combines(self) -> bool {
        matches!(self, Self::Crc32 | Self::Crc32c | Self::Crc64Nvme)
    }

    /// The checksum of two byte strings, concatenated, from the checksum of each and the length of
    /// the second; `None` for digests, which do not combine.
    pub fn combine(self, first: &[u8], second: &[u8], second_len: u64) -> Option<Vec<u8>> {
        match self {
            Self::Crc32 => {
                Some(Crc32::combine(short(first)?, short(second)?, second_len).to_be_bytes().to_vec())
            }
            Self::Crc32c => {
                Some(Crc32c::combine(short(first)?, short(second)?, second_len).to_be_bytes().to_vec())
            }
            Self::Crc64Nvme => {
                Some(Crc64Nvme::combine(long(first)?, long(second)?, second_len).to_be_bytes().to_vec())
            }
            Self::Sha1 | Self::Sha256 => None,
        }
    }

    /// Decodes base64; `None` for malformed text and for another length.
    fn decode(self, text: &[u8]) -> Option<Vec<u8>> {
        BASE64.decode(text).ok().filter(|value| value.len() == self.value_len())
    }
}

fn short(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

fn long(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

/// The base64 form of a checksum.
pub fn encode(value: &[u8]) -> String {
    BASE64.encode(value)
}

/// A running checksum.
#[derive(Debug, Clone)]
pub enum ChecksumHasher {
    /// Of [`ChecksumAlgorithm::Crc32`].
    Crc32(Crc32),
    /// Of [`ChecksumAlgorithm::Crc32c`].
    Crc32c(Crc32c),
    /// Of [`ChecksumAlgorithm::Crc64Nvme`].
    Crc64Nvme(Crc64Nvme),
    /// Of [`ChecksumAlgorithm::Sha1`].
    Sha1(Sha1),
    /// Of [`ChecksumAlgorithm::Sha256`].
    Sha256(Sha256),
}

impl ChecksumHasher {
    /// The checksum of no bytes.
    pub fn new(algorithm: ChecksumAlgorithm) -> Self {
        match algorithm {
            ChecksumAlgorithm::Crc32 => Self::Crc32(Crc32::new()),
            ChecksumAlgorithm::Crc32c => Self::Crc32c(Crc32c::new()),
            ChecksumAlgorithm::Crc64Nvme => Self::Crc64Nvme(Crc64Nvme::new()),
            ChecksumAlgorithm::Sha1 => Self::Sha1(Sha1::new()),
            ChecksumAlgorithm::Sha256 => Self::Sha256(Sha256::new()),
        }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32(crc) => crc.update(bytes),
            Self::Crc32c(crc) => crc.update(bytes),
            Self::Crc64Nvme(crc) => crc.update(bytes),
            Self::Sha1(digest) => digest.update(bytes),
            Self::Sha256(digest) => digest.update(bytes),
        }
    }

    /// The checksum of all bytes, CRCs with their highest byte first.
    pub fn finish(self) -> Vec<u8> {
        match self {
            Self::Crc32(crc) => crc.value().to_be_bytes().to_vec(),
            Self::Crc32c(crc) => crc.value().to_be_bytes().to_vec(),
            Self::Crc64Nvme(crc) => crc.value().to_be_bytes().to_vec(),
            Self::Sha1(digest) => digest.finish().to_vec(),
            Self::Sha256(digest) => digest.finish().to_vec(),
        }
    }
}

/// The checksum of the body that a request declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedChecksum {
    Value(ChecksumAlgorithm, Vec<u8>),
    /// The value follows in the trailer.
    Trailer(ChecksumAlgorithm),
}

impl ExpectedChecksum {
    /// The algorithm.
    pub fn algorithm(&self) -> ChecksumAlgorithm {
        match self {
            Self::Value(algorithm, _) | Self::Trailer(algorithm) => *algorithm,
        }
    }

    /// Reads the `p-checksum-*` headers, `p-trailer` and `p-sdk-checksum-algorithm`.
    ///
    /// # Errors
    /// `InvalidRequest` for more than one checksum, for an unknown algorithm, for a malformed
    /// value, for a trailer that is not a checksum, and for an announced algorithm without its
    /// checksum.
    pub fn from_headers(vendor: VendorHeaders<'_>) -> Result<Option<Self>, S3Error> {
        check_known(vendor)?;
        let mut claims = Vec::new();
        for algorithm in ChecksumAlgorithm::ALL {
            for text in vendor.get_all(algorithm.suffix()) {
                claims.push(Self::Value(algorithm, parse_value(algorithm, text)?));
            }
        }
        if let Some(names) = vendor.get("trailer") {
            claims.push(Self::Trailer(trailing_algorithm(names, vendor)?));
        }
        if claims.len() > 1 {
            return Err(invalid("Expecting a single checksum: one checksum header, or one in the trailer."));
        }
        let claim = claims.pop();
        check_announced(vendor, claim.as_ref())?;
        Ok(claim)
    }
}

/// Parses the value of a checksum header or trailer.
///
/// # Errors
/// `InvalidRequest`.
pub fn parse_value(algorithm: ChecksumAlgorithm, text: &[u8]) -> Result<Vec<u8>, S3Error> {
    algorithm
        .decode(text)
        .ok_or_else(|| invalid(format!("Value for the {} header is invalid.", algorithm.suffix())))
}

/// The one checksum that `p-trailer` announces.
fn trailing_algorithm(names: &[u8], vendor: VendorHeaders<'_>) -> Result<ChecksumAlgorithm, S3Error> {
    let name = std::str::from_utf8(names).map_err(|_| unsupported_trailer())?.trim().to_ascii_lowercase();
    let suffix = name.strip_prefix(vendor.dialect().header_prefix()).ok_or_else(unsupported_trailer)?;
    ChecksumAlgorithm::ALL
        .into_iter()
        .find(|algorithm| algorithm.suffix() == suffix)
        .ok_or_else(unsupported_trailer)
}

fn unsupported_trailer() -> S3Error {
    invalid("The value specified in the trailer header is not supported.")
}

/// Refuses checksums of unknown algorithms, which the server cannot verify.
fn check_known(vendor: VendorHeaders<'_>) -> Result<(), S3Error> {
    for (suffix, _) in vendor.iter() {
        if suffix.starts_with("checksum-") && !is_known(suffix) {
            return Err(invalid(format!("The algorithm of the {suffix} header is not supported.")));
        }
    }
    Ok(())
}

fn is_known(suffix: &str) -> bool {
    matches!(suffix, "checksum-mode" | "checksum-algorithm" | "checksum-type")
        || ChecksumAlgorithm::ALL.iter().any(|algorithm| algorithm.suffix() == suffix)
}

/// An algorithm that a client announces must come with a value (S3 API reference, PutObject,
/// "x-amz-sdk-checksum-algorithm").
fn check_announced(vendor: VendorHeaders<'_>, claim: Option<&ExpectedChecksum>) -> Result<(), S3Error> {
    let Some(name) = vendor.get_str("sdk-checksum-algorithm") else { return Ok(()) };
    let announced = ChecksumAlgorithm::from_name(name)
        .ok_or_else(|| invalid("Value for the sdk-checksum-algorithm header is invalid."))?;
    let matching = match claim {
        Some(claim) => claim.algorithm() == announced,
        None => {
            vendor.get_str("checksum-algorithm").and_then(ChecksumAlgorithm::from_name) == Some(announced)
        }
    };
    if matching {
        return Ok(());
    }
    Err(invalid(
        "sdk-checksum-algorithm specified, but no corresponding checksum or trailer headers were found.",
    ))
}

fn invalid(message: impl Into<String>) -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest).message(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::{Dialect, Headers};

    fn claim(lines: &[(&str, &str)]) -> Result<Option<ExpectedChecksum>, ErrorCode> {
        let mut headers = Headers::default();
        for (name, value) in lines {
            headers.push(name, value.as_bytes());
        }
        ExpectedChecksum::from_headers(VendorHeaders::new(&headers, Dialect::Svc)).map_err(|e| e.code)
    }

    const CHECK: &str = "y/Q5Jg==";
    const INVALID: Result<Option<ExpectedChecksum>, ErrorCode> = Err(ErrorCode::InvalidRequest);

    #[test]
    fn every_algorithm_computes_its_check_value() {
        let expected = [
            "y/Q5Jg==",
            "4waSgw==",
            "rosUhgp5mIg=",
            "98O8HYCOBHMq32eZZczDTKeuNEE=",
            "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
        ];
        for (algorithm, expected) in ChecksumAlgorithm::ALL.into_iter().zip(expected) {
            let mut running = ChecksumHasher::new(algorithm);
            running.update(b"12345");
            running.update(b"6789");
            let value = running.finish();
            assert_eq!(value.len(), algorithm.value_len());
            assert_eq!(encode(&value), expected, "{algorithm:?}");
            assert_eq!(algorithm.decode(expected.as_bytes()), Some(value));
        }
    }

    #[test]
    fn the_checksum_of_a_whole_follows_from_its_pieces_unless_it_is_a_digest() {
        let of = |algorithm, bytes: &[u8]| {
            let mut running = ChecksumHasher::new(algorithm);
            running.update(bytes);
            running.finish()
        };
        for algorithm in ChecksumAlgorithm::ALL {
            let first = of(algorithm, b"1234");
            let second = of(algorithm, b"56789");
            let whole = algorithm.combines().then(|| of(algorithm, b"123456789"));
            assert_eq!(algorithm.combine(&first, &second, 5), whole, "{algorithm:?}");
            let same = algorithm.combines().then(|| first.clone());
            assert_eq!(algorithm.combine(&first, &of(algorithm, b""), 0), same, "{algorithm:?}");
        }
    }

    #[test]
    fn a_checksum_is_claimed_in_a_header_or_a_trailer() {
        let value = vec![0xcb, 0xf4, 0x39, 0x26];
        assert_eq!(claim(&[]), Ok(None));
        assert_eq!(
            claim(&[("x-svc-checksum-crc32", CHECK)]),
            Ok(Some(ExpectedChecksum::Value(ChecksumAlgorithm::Crc32, value)))
        );
        assert_eq!(
            claim(&[("x-svc-trailer", "X-Svc-Checksum-Sha256")]),
            Ok(Some(ExpectedChecksum::Trailer(ChecksumAlgorithm::Sha256)))
        );
        assert_eq!(
            claim(&[("x-svc-checksum-mode", "ENABLED"), ("x-svc-checksum-type", "FULL_OBJECT")]),
            Ok(None)
        );
    }

    #[test]
    fn values_that_are_none_are_refused() {
        for value in ["", "y/Q5Jg", "y/Q5J", "AAAA", "####", "y/Q5Jg==="] {
            assert_eq!(claim(&[("x-svc-checksum-crc32", value)]), INVALID, "{value}");
        }
    }

    #[test]
    fn two_checksums_are_refused() {
        let header = ("x-svc-checksum-crc32", CHECK);
        assert_eq!(claim(&[header, ("x-svc-checksum-crc32c", CHECK)]), INVALID);
        assert_eq!(claim(&[header, header]), INVALID);
        assert_eq!(claim(&[header, ("x-svc-trailer", "x-svc-checksum-crc32")]), INVALID);
    }

    #[test]
    fn a_trailer_must_be_a_checksum_in_the_same_dialect() {
        for name in ["", "x-amz-checksum-crc32", "x-svc-meta-a", "x-svc-checksum-crc32, x-svc-checksum-sha1"]
        {
            assert_eq!(claim(&[("x-svc-trailer", name)]), INVALID, "{name}");
        }
    }

    #[test]
    fn an_announced_algorithm_needs_its_checksum() {
        let announced = ("x-svc-sdk-checksum-algorithm", "crc32");
        assert_eq!(claim(&[announced]), INVALID);
        assert_eq!(claim(&[announced, ("x-svc-checksum-crc32c", CHECK)]), INVALID);
        assert_eq!(
            claim(&[("x-svc-sdk-checksum-algorithm", "CRC31"), ("x-svc-checksum-crc32", CHECK)]),
            INVALID
        );
        assert!(claim(&[announced, ("x-svc-checksum-crc32", CHECK)]).is_ok());
        assert!(claim(&[announced, ("x-svc-trailer", "x-svc-checksum-crc32")]).is_ok());
        assert_eq!(claim(&[announced, ("x-svc-checksum-algorithm", "CRC32")]), Ok(None));
    }
}
