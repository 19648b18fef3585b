//! The configurations of a bucket of another server.

use siltstone::transfer::{PeerCall, PeerError, PeerLink};
use siltstone::xml::Document;

use super::threads::Transfer;
use crate::minio::format::bucket_metadata::BucketMetadata;

/// The subresources of a bucket that are documents, and the fields of [`BucketMetadata`] for them.
const DOCUMENTS: [(&str, &str); 13] = [
    ("versioning", "VersioningConfigXML"),
    ("object-lock", "ObjectLockConfigXML"),
    ("tagging", "TaggingConfigXML"),
    ("cors", "CorsConfigXML"),
    ("encryption", "EncryptionConfigXML"),
    ("website", "WebsiteConfigXML"),
    ("ownershipControls", "OwnershipControlsConfigXML"),
    ("logging", "LoggingConfigXML"),
    ("publicAccessBlock", "PublicAccessBlockConfigXML"),
    ("policy", "PolicyConfigJSON"),
    ("notification", "NotificationConfigXML"),
    ("replication", "ReplicationConfigXML"),
    ("lifecycle", "LifecycleConfigXML"),
];

/// Reads all configurations of the bucket of the link. Those that cannot be read are told.
pub(super) fn configurations_of(
    link: &mut PeerLink<'_>,
    bucket: &str,
    transfer: &Transfer,
) -> BucketMetadata {
    let mut metadata = BucketMetadata { name: bucket.to_owned(), ..BucketMetadata::default() };
    for (subresource, field) in DOCUMENTS {
        let call = PeerCall { method: "GET", query: &[(subresource, "")], ..PeerCall::default() };
        match link.ask(call) {
            Ok((_, document)) if says_something(field, &document) => {
                metadata.documents.insert(field.to_owned(), document);
            }
            // Servers that do not know a configuration have none.
            Ok(_) | Err(PeerError::Absent | PeerError::Unsupported(_)) => {}
            Err(error) => {
                let name = format!("{bucket}, {subresource}");
                transfer.report().find("configurations not read", &name, &error.text());
            }
        }
    }
    metadata
}

/// Whether a document is more than the empty one of a bucket without the configuration.
fn says_something(field: &str, document: &[u8]) -> bool {
    if field.ends_with("JSON") {
        return !document.is_empty();
    }
    Document::parse(document).is_ok_and(|document| document.root().children().next().is_some())
}
