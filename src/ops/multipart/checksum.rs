//! The checksums of multipart objects (S3 user guide, "Checking object integrity", "Composite and
//! full object checksum types"). A composite checksum covers the parts' checksums; a
//! full-object checksum is combined from them.

use crate::base::ChecksumAlgorithm;
use crate::ops::padded_response::CancelToken;
use crate::ops::{body, checksums, client_error};
use crate::s3::checksum::{self, ChecksumHasher};
use crate::s3::integrity::{Integrity, wrong_checksum};
use crate::s3::{Call, ErrorCode, RequestId, S3Error};
use crate::store::{Checksum, ChecksumType, ObjectReader, PartRecord, StoreError};

/// The checksum that a new upload announces.
///
/// # Errors
/// `InvalidRequest` for unknown names, for a type without an algorithm, and for an unsupported
/// combination.
pub(super) fn announced(call: &Call<'_>) -> Result<Option<(ChecksumAlgorithm, ChecksumType)>, S3Error> {
    let Some(algorithm) = checksums::wanted(call)? else {
        return match kind(call)? {
            Some(_) => {
                let prefix = call.dialect.header_prefix();
                Err(invalid(format!(
                    "The {prefix}checksum-type header can only be used with the {prefix}checksum-algorithm header."
                )))
            }
            None => Ok(None),
        };
    };
    let kind = kind(call)?.unwrap_or(default_kind(algorithm));
    check_fits(algorithm, kind)?;
    Ok(Some((algorithm, kind)))
}

/// Prepares the verification of a part. If the upload announced a full-object checksum, the part
/// gets one even if its sender declares none.
///
/// # Errors
/// `InvalidRequest` for a checksum of another algorithm.
pub(super) fn for_part(
    integrity: Integrity,
    announced: Option<(ChecksumAlgorithm, ChecksumType)>,
) -> Result<Integrity, S3Error> {
    let Some((algorithm, kind)) = announced else { return Ok(integrity) };
    match (integrity.claimed_algorithm(), kind) {
        (Some(claimed), _) if claimed != algorithm => Err(mismatch(algorithm, claimed)),
        (None, ChecksumType::FullObject) => Ok(integrity.computing(Some(algorithm))),
        _ => Ok(integrity),
    }
}

/// The checksum of the object that a CompleteMultipartUpload declares.
pub(super) struct ClaimedChecksum {
    value: Option<ClaimedValue>,
    kind: Option<ChecksumType>,
}

pub(super) struct ClaimedValue {
    algorithm: ChecksumAlgorithm,
    bytes: Vec<u8>,
    /// The number of parts, if the value has one.
    parts: Option<u32>,
}

impl ClaimedChecksum {
    /// Reads the `p-checksum-*` headers.
    ///
    /// # Errors
    /// `InvalidRequest` for more than one value and for a malformed value.
    pub(super) fn from_headers(call: &Call<'_>) -> Result<Self, S3Error> {
        let mut value = None;
        for algorithm in ChecksumAlgorithm::ALL {
            for text in call.vendor().get_all(algorithm.suffix()) {
                if value.replace(ClaimedValue::parse(algorithm, text)?).is_some() {
                    let prefix = call.dialect.header_prefix();
                    return Err(invalid(format!(
                        "Expecting a single {prefix}checksum- header. Multiple checksum Types are not allowed."
                    )));
                }
            }
        }
        Ok(Self { value, kind: kind(call)? })
    }

    /// Whether the completion states a value or a type.
    pub(super) fn is_stated(&self) -> bool {
        self.value.is_some() || self.kind.is_some()
    }

    /// The checksum of the object, verified against the declared one. Without an announcement it
    /// has the declared algorithm, or the one that all parts have.
    ///
    /// # Errors
    /// `InvalidRequest` for a part without checksum and for a checksum that was not announced;
    /// `BadDigest`.
    pub(super) fn resolve(
        self,
        announced: Option<(ChecksumAlgorithm, ChecksumType)>,
        parts: &[PartRecord],
    ) -> Result<ObjectChecksum, S3Error> {
        let Some((algorithm, kind)) = self.choose(announced, parts)? else {
            return Ok(ObjectChecksum::Known(None));
        };
        match of_parts(algorithm, kind, parts) {
            Some(checksum) => {
                verify(self.value.as_ref(), &checksum, parts)?;
                Ok(ObjectChecksum::Known(Some(checksum)))
            }
            None if kind == ChecksumType::FullObject => {
                Ok(ObjectChecksum::NeedsReading { algorithm, value: self.value })
            }
            None => Err(part_without(algorithm, parts)),
        }
    }

    fn choose(
        &self,
        announced: Option<(ChecksumAlgorithm, ChecksumType)>,
        parts: &[PartRecord],
    ) -> Result<Option<(ChecksumAlgorithm, ChecksumType)>, S3Error> {
        let (algorithm, default) = match (announced, &self.value) {
            (Some((algorithm, _)), Some(value)) if value.algorithm != algorithm => {
                return Err(mismatch(algorithm, value.algorithm));
            }
            (Some((_, kind)), _) if self.kind.is_some_and(|claimed| claimed != kind) => {
                return Err(invalid(format!(
                    "The upload was created using the {} checksum mode. The complete request must use the same \
                     checksum mode.",
                    checksums::type_name(kind)
                )));
            }
            (Some(announced), _) => announced,
            (None, Some(ClaimedValue { algorithm, parts: None, .. })) if algorithm.combines() => {
                (*algorithm, ChecksumType::FullObject)
            }
            (None, Some(value)) => (value.algorithm, ChecksumType::Composite),
            (None, None) => match common_algorithm(parts) {
                Some(algorithm) => (algorithm, default_kind(algorithm)),
                None => return Ok(None),
            },
        };
        let kind = self.kind.unwrap_or(default);
        check_fits(algorithm, kind)?;
        Ok(Some((algorithm, kind)))
    }
}

/// The checksum of an object before the commit.
pub(super) enum ObjectChecksum {
    /// The checksum, if the object has one.
    Known(Option<Checksum>),
    /// The parts have no checksums, so that all their bytes must be read, which may take as long as
    /// their upload.
    NeedsReading { algorithm: ChecksumAlgorithm, value: Option<ClaimedValue> },
}

/// Opens a part for reading.
type PartReader<'r> = &'r dyn Fn(&PartRecord) -> Result<ObjectReader, StoreError>;

impl ObjectChecksum {
    /// The checksum. Reads the parts by `read` if necessary.
    ///
    /// # Errors
    /// `BadDigest`; the errors of reading the parts; the error of [`CancelToken::check`].
    pub(super) fn finish(
        self,
        read: PartReader<'_>,
        id: &RequestId,
        cancel: &CancelToken,
        parts: &[PartRecord],
    ) -> Result<Option<Checksum>, S3Error> {
        match self {
            Self::Known(checksum) => Ok(checksum),
            Self::NeedsReading { algorithm, value } => {
                let mut running = ChecksumHasher::new(algorithm);
                for part in parts {
                    let mut reader = read(part).map_err(|error| client_error::to_client_error(&error, id))?;
                    body::for_each_chunk(&mut reader, id, cancel, |bytes| {
                        running.update(bytes);
                        Ok(())
                    })?;
                }
                let checksum = checksums::of_whole((algorithm, running.finish()));
                verify(value.as_ref(), &checksum, parts)?;
                Ok(Some(checksum))
            }
        }
    }
}

fn verify(claimed: Option<&ClaimedValue>, checksum: &Checksum, parts: &[PartRecord]) -> Result<(), S3Error> {
    match claimed {
        Some(value) if !value.proves(checksum, parts) => {
            Err(wrong_checksum(value.algorithm, &value.text(), &checksums::text(checksum)))
        }
        _ => Ok(()),
    }
}

impl ClaimedValue {
    fn parse(algorithm: ChecksumAlgorithm, text: &[u8]) -> Result<Self, S3Error> {
        let (value, parts) = match text.iter().rposition(|&b| b == b'-') {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let parts = match parts {
            None => None,
            Some(digits) => {
                let count = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
                Some(count.ok_or_else(|| {
                    invalid(format!("Value for the {} header is invalid.", algorithm.suffix()))
                })?)
            }
        };
        Ok(Self { algorithm, bytes: checksum::parse_value(algorithm, value)?, parts })
    }

    /// The value as a header shows it.
    fn text(&self) -> String {
        let value = checksum::encode(&self.bytes);
        match self.parts {
            Some(parts) => format!("{value}-{parts}"),
            None => value,
        }
    }

    /// Whether the declared value matches the object. A value without a number of parts may also be
    /// the full-object checksum.
    fn proves(&self, checksum: &Checksum, parts: &[PartRecord]) -> bool {
        let same = self.bytes == checksum.value;
        match self.parts {
            Some(count) => same && checksum.kind == ChecksumType::Composite && count == checksum.parts,
            None => {
                same || of_parts(self.algorithm, ChecksumType::FullObject, parts)
                    .is_some_and(|full| full.value == self.bytes)
            }
        }
    }
}

/// The checksum of an object of these parts; `None` if a part lacks the checksum of `algorithm`.
fn of_parts(algorithm: ChecksumAlgorithm, kind: ChecksumType, parts: &[PartRecord]) -> Option<Checksum> {
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        values.push(part.checksum.as_ref().filter(|own| is_of(own, algorithm))?.value.clone());
    }
    match kind {
        ChecksumType::Composite => {
            let mut running = ChecksumHasher::new(algorithm);
            for value in &values {
                running.update(value);
            }
            Some(Checksum { algorithm, kind, parts: parts.len() as u32, value: running.finish() })
        }
        ChecksumType::FullObject => {
            let none = ChecksumHasher::new(algorithm).finish();
            let whole = values
                .iter()
                .zip(parts)
                .try_fold(none, |whole, (value, part)| algorithm.combine(&whole, value, part.size))?;
            Some(checksums::of_whole((algorithm, whole)))
        }
    }
}

fn is_of(checksum: &Checksum, algorithm: ChecksumAlgorithm) -> bool {
    checksum.algorithm == algorithm
}

/// The algorithm of the checksums of all parts.
fn common_algorithm(parts: &[PartRecord]) -> Option<ChecksumAlgorithm> {
    let first = parts.first()?.checksum.as_ref()?.algorithm;
    let is_common = parts.iter().all(|part| part.checksum.as_ref().is_some_and(|own| is_of(own, first)));
    is_common.then_some(first)
}

/// The value of `p-checksum-type`.
fn kind(call: &Call<'_>) -> Result<Option<ChecksumType>, S3Error> {
    match call.vendor_header("checksum-type") {
        None => Ok(None),
        Some("COMPOSITE") => Ok(Some(ChecksumType::Composite)),
        Some("FULL_OBJECT") => Ok(Some(ChecksumType::FullObject)),
        Some(_) => {
            let prefix = call.dialect.header_prefix();
            Err(invalid(format!("Value for {prefix}checksum-type header is invalid.")))
        }
    }
}

fn default_kind(algorithm: ChecksumAlgorithm) -> ChecksumType {
    match algorithm {
        ChecksumAlgorithm::Crc64Nvme => ChecksumType::FullObject,
        ChecksumAlgorithm::Crc32
        | ChecksumAlgorithm::Crc32c
        | ChecksumAlgorithm::Sha1
        | ChecksumAlgorithm::Sha256 => ChecksumType::Composite,
    }
}

/// Checks that the algorithm supports the type. A digest of the full object would require reading
/// it; CRC-64 is never composite.
fn check_fits(algorithm: ChecksumAlgorithm, kind: ChecksumType) -> Result<(), S3Error> {
    let fits = match kind {
        ChecksumType::FullObject => algorithm.combines(),
        ChecksumType::Composite => algorithm != ChecksumAlgorithm::Crc64Nvme,
    };
    if fits {
        return Ok(());
    }
    let kind = checksums::type_name(kind);
    let algorithm = algorithm.as_str().to_ascii_lowercase();
    Err(invalid(format!("The {kind} checksum type cannot be used with the {algorithm} checksum algorithm.")))
}

fn mismatch(expected: ChecksumAlgorithm, actual: ChecksumAlgorithm) -> S3Error {
    let [expected, actual] = [expected, actual].map(|algorithm| algorithm.as_str().to_ascii_lowercase());
    invalid(format!(
        "Checksum Type mismatch occurred, expected checksum Type: {expected}, actual checksum Type: {actual}"
    ))
}

fn part_without(algorithm: ChecksumAlgorithm, parts: &[PartRecord]) -> S3Error {
    let mut parts = parts.iter();
    let lacking = parts.find(|part| !part.checksum.as_ref().is_some_and(|own| is_of(own, algorithm)));
    let number = lacking.map_or(0, |part| part.number);
    let name = algorithm.as_str().to_ascii_lowercase();
    invalid(format!("The upload was created using a {name} checksum. Part {number} was uploaded without it."))
}

fn invalid(message: impl Into<String>) -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest).message(message)
}
