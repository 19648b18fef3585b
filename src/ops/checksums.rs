//! Checksums of stored objects in headers and documents.

use crate::base::ChecksumAlgorithm;
use crate::s3::checksum;
use crate::s3::{Call, ErrorCode, S3Error};
use crate::store::{Checksum, ChecksumType};
use crate::xml::Writer;

/// The algorithm that `p-checksum-algorithm` names.
///
/// # Errors
/// `InvalidRequest` for an unknown name.
pub(super) fn wanted(call: &Call<'_>) -> Result<Option<ChecksumAlgorithm>, S3Error> {
    let Some(name) = call.vendor_header("checksum-algorithm") else { return Ok(None) };
    ChecksumAlgorithm::from_name(name).map(Some).ok_or_else(|| {
        S3Error::new(ErrorCode::InvalidRequest).message(
            "Checksum algorithm provided is unsupported. Please try again with any of the valid types: \
             [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]",
        )
    })
}

/// The checksum of all bytes of an object or part.
pub(super) fn of_whole((algorithm, value): (ChecksumAlgorithm, Vec<u8>)) -> Checksum {
    Checksum { algorithm, kind: ChecksumType::FullObject, parts: 0, value }
}

/// The checksum of `algorithm`, if there is one.
pub(super) fn by(algorithm: ChecksumAlgorithm, checksums: &[Checksum]) -> Option<&Checksum> {
    checksums.iter().find(|checksum| checksum.algorithm == algorithm)
}

/// The header of a checksum.
pub(super) fn header(checksum: &Checksum) -> &'static str {
    checksum.algorithm.header()
}

/// The element of a checksum, as in `ChecksumCRC32`.
pub(super) fn element(algorithm: ChecksumAlgorithm) -> String {
    format!("Checksum{}", algorithm.as_str())
}

/// A checksum in headers and documents. A composite one includes the number of parts (S3 user
/// guide, "Checking object integrity", "Composite and full object checksum types").
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
    write_with(document, checksums, text);
}

/// As [`write`], but without the number of parts in a composite checksum: the form of
/// GetObjectAttributes, which shows that number elsewhere.
pub(super) fn write_bare(document: &mut Writer, checksums: &[Checksum]) {
    write_with(document, checksums, |checksum| checksum::encode(&checksum.value));
}

fn write_with(document: &mut Writer, checksums: &[Checksum], text: fn(&Checksum) -> String) {
    for checksum in checksums {
        document.leaf(&element(checksum.algorithm), &text(checksum));
    }
    if let Some(checksum) = checksums.first() {
        document.leaf("ChecksumType", type_name(checksum.kind));
    }
}

/// Writes a checksum as an element.
pub(super) fn write_value(document: &mut Writer, checksum: &Checksum) {
    document.leaf(&element(checksum.algorithm), &text(checksum));
}
