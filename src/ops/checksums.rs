//! Checksums as the protocol has them and as the store keeps them.

use crate::s3::checksum::{self, Algorithm};
use crate::s3::{Call, ErrorCode, S3Error};
use crate::store::{Checksum, ChecksumAlgorithm, ChecksumType};
use crate::xml::Writer;

/// The algorithm as the store names it.
pub(super) fn to_store(algorithm: Algorithm) -> ChecksumAlgorithm {
    match algorithm {
        Algorithm::Crc32 => ChecksumAlgorithm::Crc32,
        Algorithm::Crc32c => ChecksumAlgorithm::Crc32c,
        Algorithm::Crc64Nvme => ChecksumAlgorithm::Crc64Nvme,
        Algorithm::Sha1 => ChecksumAlgorithm::Sha1,
        Algorithm::Sha256 => ChecksumAlgorithm::Sha256,
    }
}

/// The algorithm as the protocol names it.
pub(super) fn from_store(algorithm: ChecksumAlgorithm) -> Algorithm {
    match algorithm {
        ChecksumAlgorithm::Crc32 => Algorithm::Crc32,
        ChecksumAlgorithm::Crc32c => Algorithm::Crc32c,
        ChecksumAlgorithm::Crc64Nvme => Algorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1 => Algorithm::Sha1,
        ChecksumAlgorithm::Sha256 => Algorithm::Sha256,
    }
}

/// The algorithm that `p-checksum-algorithm` names.
///
/// # Errors
/// `InvalidRequest` for a name that is none.
pub(super) fn wanted(call: &Call<'_>) -> Result<Option<Algorithm>, S3Error> {
    let Some(name) = call.p("checksum-algorithm") else { return Ok(None) };
    Algorithm::from_name(name).map(Some).ok_or_else(|| {
        S3Error::new(ErrorCode::InvalidRequest).message(
            "Checksum algorithm provided is unsupported. Please try again with any of the valid types: \
             [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]",
        )
    })
}

/// The checksum of all bytes of an object or part.
pub(super) fn of_whole((algorithm, value): (Algorithm, Vec<u8>)) -> Checksum {
    Checksum { algorithm: to_store(algorithm), kind: ChecksumType::FullObject, parts: 0, value }
}

/// That of an algorithm, if there is one.
pub(super) fn by(algorithm: Algorithm, checksums: &[Checksum]) -> Option<&Checksum> {
    checksums.iter().find(|checksum| checksum.algorithm == to_store(algorithm))
}

/// The header that bears a checksum.
pub(super) fn header(checksum: &Checksum) -> &'static str {
    from_store(checksum.algorithm).header()
}

/// The element that bears a checksum, as in `ChecksumCRC32`.
pub(super) fn element(algorithm: Algorithm) -> String {
    format!("Checksum{}", algorithm.as_str())
}

/// A checksum in headers and documents. A composite one tells of how many parts it is (S3 user guide, "Checking object
/// integrity", "Composite and full object checksum types").
pub(super) fn text(checksum: &Checksum) -> String {
    let value = checksum::encode(&checksum.value);
    match checksum.kind {
        ChecksumType::FullObject => value,
        ChecksumType::Composite => format!("{value}-{}", checksum.parts),
    }
}

/// The name of a type, as in `p-checksum-type`.
pub(super) fn type_name(kind: ChecksumType) -> &'static str {
    match kind {
        ChecksumType::FullObject => "FULL_OBJECT",
        ChecksumType::Composite => "COMPOSITE",
    }
}

/// Writes checksums and their type as elements.
pub(super) fn write(document: &mut Writer, checksums: &[Checksum]) {
    for checksum in checksums {
        write_value(document, checksum);
    }
    if let Some(checksum) = checksums.first() {
        document.leaf("ChecksumType", type_name(checksum.kind));
    }
}

/// Writes a checksum as an element.
pub(super) fn write_value(document: &mut Writer, checksum: &Checksum) {
    document.leaf(&element(from_store(checksum.algorithm)), &text(checksum));
}
