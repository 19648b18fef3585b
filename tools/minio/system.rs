//! MinIO's own objects: the configurations of buckets. They are coded as any other object.

use std::io::Read as _;

use super::content::ObjectContent;
use super::damage::DamageLog;
use super::drive::{SYSTEM, XL_META};
use super::facts::ObjectFacts;
use super::format::bucket_metadata::{self, BucketMetadata, METADATA_MAX_BYTES};
use super::format::keys::OperatorKeys;
use super::layout::Deployment;
use super::versions::KeyVersions;
use super::walk::{FoundKind, FoundPath};

/// The configurations of a bucket; `None` where there are none.
///
/// # Errors
/// A message: they are there, and cannot be read.
pub(crate) fn bucket_metadata_of(
    deployment: &Deployment,
    bucket: &str,
    damage: &DamageLog,
) -> Result<Option<BucketMetadata>, String> {
    match system_object(deployment, &format!("buckets/{bucket}/.metadata.bin"), damage)? {
        Some(bytes) => bucket_metadata::parse(&bytes).map(Some).map_err(|fault| fault.to_string()),
        None => Ok(None),
    }
}

/// The bytes of an object below `.minio.sys`; `None` if no drive has it.
///
/// # Errors
/// A message: it is there, and cannot be read.
pub(crate) fn system_object(
    deployment: &Deployment,
    path: &str,
    damage: &DamageLog,
) -> Result<Option<Vec<u8>>, String> {
    let mut drives = 0;
    for (at, drive) in deployment.drives.iter().enumerate() {
        if drive.open_file(&format!("{SYSTEM}/{path}/{XL_META}")).is_ok() {
            drives |= 1 << at;
        } else if let Ok(bytes) = drive.read_file(&format!("{SYSTEM}/{path}"), METADATA_MAX_BYTES) {
            // In FS mode it is a plain file.
            return Ok(Some(bytes));
        }
    }
    if drives == 0 {
        return Ok(None);
    }
    let found = FoundPath { path: path.to_owned(), kind: FoundKind::Object, drives };
    let key = KeyVersions::read(deployment, SYSTEM, &found);
    for (file, why) in key.damage {
        damage.note(file, why);
    }
    let Some(version) = key.versions.last() else {
        return Err(format!("{SYSTEM}/{path}: too few drives have it"));
    };
    let Some(object) = &version.object else { return Ok(None) };
    let failed = |why: String| format!("{SYSTEM}/{path}: {why}");
    let facts = ObjectFacts::of(&object.stored, &OperatorKeys::default(), SYSTEM, path, 0);
    let facts = facts.map_err(|obstacle| failed(obstacle.text()))?;
    if facts.length > METADATA_MAX_BYTES {
        return Err(failed(format!("it has {} bytes", facts.length)));
    }
    let content = ObjectContent { deployment, bucket: SYSTEM, path, object, facts: &facts, damage };
    let mut bytes = Vec::new();
    content.read(0..facts.length).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    Ok(Some(bytes))
}
