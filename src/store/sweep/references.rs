//! The records that refer to extents.

use std::sync::Arc;

use crate::format::{Entry, ExtentOwner, ExtentOwnerKind, ExtentRef};

/// An extent, and one of the records that refer to it.
pub(in crate::store) struct ExtentReference {
    pub(in crate::store) extent: ExtentRef,
    pub(in crate::store) owner: Arc<ExtentOwner>,
}

/// The extents of a version or part, each with its owner.
pub(in crate::store) fn references_of(entry: &Entry) -> Vec<ExtentReference> {
    let (bucket, key, which, extents) = match entry {
        Entry::VersionPut { bucket, key, record } => {
            (*bucket, key, ExtentOwnerKind::Version(record.id), &record.extents)
        }
        Entry::PartPut { bucket, key, upload, record } => {
            (*bucket, key, ExtentOwnerKind::Part(*upload, record.number), &record.extents)
        }
        _ => return Vec::new(),
    };
    let owner = Arc::new(ExtentOwner { bucket, key: key.clone(), which });
    extents.iter().map(|extent| ExtentReference { extent: *extent, owner: owner.clone() }).collect()
}
