//! The file `.metadata.bin`: the configurations of a bucket.
//!
//! u16 1 and u16 1, little-endian, and a map: the name, the time of creation, whether the bucket was
//! made with object lock, and one document in XML or JSON for each configuration.

use std::collections::BTreeMap;

use super::malformed::Malformed;
use super::msgpack::MsgReader;

/// The longest file that is read.
pub(crate) const METADATA_MAX_BYTES: u64 = 64 << 20;
const HEAD: [u8; 4] = [1, 0, 1, 0];

/// The fields that are documents of S3, and the subresources that have them there.
pub(crate) const SUBRESOURCES: [(&str, &str); 13] = [
    ("VersioningConfigXML", "versioning"),
    ("ObjectLockConfigXML", "object-lock"),
    ("TaggingConfigXML", "tagging"),
    ("CorsConfigXML", "cors"),
    ("EncryptionConfigXML", "encryption"),
    ("WebsiteConfigXML", "website"),
    ("OwnershipControlsConfigXML", "ownershipControls"),
    ("LoggingConfigXML", "logging"),
    ("PublicAccessBlockConfigXML", "publicAccessBlock"),
    ("PolicyConfigJSON", "policy"),
    ("NotificationConfigXML", "notification"),
    ("ReplicationConfigXML", "replication"),
    ("LifecycleConfigXML", "lifecycle"),
];

/// The configurations of a bucket.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct BucketMetadata {
    pub(crate) name: String,
    /// In nanoseconds since 1970; `None` where it is not known.
    pub(crate) created: Option<i64>,
    pub(crate) lock_enabled: bool,
    /// The documents that are not empty, by the names of their fields.
    pub(crate) documents: BTreeMap<String, Vec<u8>>,
}

impl BucketMetadata {
    /// Whether the bucket locks objects.
    pub(crate) fn is_locked(&self) -> bool {
        self.lock_enabled || self.documents.contains_key("ObjectLockConfigXML")
    }
}

/// Reads the file.
///
/// # Errors
/// It is not of this format, or damaged.
pub(crate) fn parse(bytes: &[u8]) -> Result<BucketMetadata, Malformed> {
    if bytes.get(..4) != Some(&HEAD) {
        return Err(Malformed::new(0, "it is of an unknown format or version"));
    }
    let mut metadata = BucketMetadata::default();
    let read = fields(&mut MsgReader::new(&bytes[HEAD.len()..]), &mut metadata);
    read.map_err(|fault| Malformed::new(fault.offset + HEAD.len(), fault.what))?;
    Ok(metadata)
}

fn fields(reader: &mut MsgReader<'_>, metadata: &mut BucketMetadata) -> Result<(), Malformed> {
    for _ in 0..reader.map()? {
        let name = reader.text()?;
        match name {
            "Name" => reader.text()?.clone_into(&mut metadata.name),
            // The zero time of Go is before 1970, and out of the range of nanoseconds.
            "Created" => metadata.created = reader.time().ok().filter(|time| *time > 0),
            "LockEnabled" => metadata.lock_enabled = reader.bool()?,
            _ if name.ends_with("XML") || name.ends_with("JSON") => {
                let document = if reader.nil() { &[][..] } else { reader.bytes()? };
                if !document.is_empty() {
                    metadata.documents.insert(name.to_owned(), document.to_vec());
                }
            }
            _ => reader.skip()?,
        }
    }
    Ok(())
}
