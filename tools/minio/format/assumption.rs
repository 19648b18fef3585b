//! What is known of the formats from MinIO's source alone: no bytes that it wrote were there to
//! check it by. A report names what it relies on of these.

/// A fact of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assumption {
    /// The form of a data key in the newest releases.
    BinaryDataKey,
    /// A data key in JSON under AES; those under ChaCha20 were seen.
    JsonAesDataKey,
    /// Keys and bytes that clients encrypted in 2018.
    OldestSealedKey,
    /// The rule for what has no bytes that could prove it.
    HalfOfTheDrives,
    /// Configurations under a key of the operator.
    ConfigByOperator,
    /// Configurations under the keys of the first user; those under AES and Argon2id were seen.
    ConfigByOtherCipher,
}

impl Assumption {
    /// The fact in a report.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::BinaryDataKey => "data keys under MINIO_KMS_SECRET_KEY in binary form",
            Self::JsonAesDataKey => "data keys under MINIO_KMS_SECRET_KEY as JSON with AES",
            Self::OldestSealedKey => "encryption with keys of clients (SSE-C) as it was in 2018",
            Self::HalfOfTheDrives => {
                "delete markers and empty objects are there if half of the drives of their set have them"
            }
            Self::ConfigByOperator => "users that are encrypted under MINIO_KMS_SECRET_KEY",
            Self::ConfigByOtherCipher => {
                "users that are encrypted with the keys of the first user by ChaCha20 or PBKDF2"
            }
        }
    }
}
