//! The content of a copy. Its descriptor names the sources by write and position, which never
//! change, while extents are relocated (data-format.md, section 4).

use std::ops::Range;

use crate::format::{ExtentRef, PayloadSource, VersionRecord};
use crate::log::LogError;
use crate::store::commit::mutation::Content;
use crate::store::shared::SharedStore;
use crate::store::shared::extents::slices;
use crate::store::{CopyRange, StoreError};

/// The content of a copy for the committer. The caller's thread reads the descriptors, so that
/// commits do not wait for the disk.
///
/// # Errors
/// [`StoreError::NoSuchVersion`] if the source is gone; [`StoreError::Encrypted`]; errors of
/// reading a descriptor.
pub(in crate::store) fn copy_content(shared: &SharedStore, source: CopyRange) -> Result<Content, StoreError> {
    if source.version.encryption.is_some() {
        return Err(StoreError::Encrypted);
    }
    shared_content(shared, source)
}

/// The same of a source that may be encrypted.
///
/// # Errors
/// As of [`copy_content`], but for [`StoreError::Encrypted`].
pub(in crate::store) fn shared_content(
    shared: &SharedStore,
    source: CopyRange,
) -> Result<Content, StoreError> {
    let mut version = current_version(shared, &source)?;
    loop {
        match sources_of_range(shared, &version.extents, &source.range) {
            Ok(sources) => return Ok(Content::Copied { source: Box::new(source), sources }),
            Err(error) => {
                // Extents may have been relocated since the version was read. If not, the error is
                // real.
                let now = current_version(shared, &source)?;
                if now.extents == version.extents {
                    return Err(shared.failed(error));
                }
                version = now;
            }
        }
    }
}

fn current_version(shared: &SharedStore, source: &CopyRange) -> Result<VersionRecord, StoreError> {
    let index = shared.index();
    let found = index.version(source.bucket, source.key.as_bytes(), source.version.id);
    found.ok_or(StoreError::NoSuchVersion)
}

/// The sources of a range of the bytes of extents. Adjacent sources are merged.
fn sources_of_range(
    shared: &SharedStore,
    extents: &[ExtentRef],
    range: &Range<u64>,
) -> Result<Vec<PayloadSource>, LogError> {
    let mut sources: Vec<PayloadSource> = Vec::new();
    for slice in slices(extents, range) {
        // The bytes of a copy of a copy are named by the first write of them, as their extents say.
        let segment = shared.segments.get(slice.segment)?;
        let descriptor = segment.descriptor(&segment.extent(&shared.store, slice.offset)?)?;
        let stamp = descriptor.write;
        let len = u64::from(slice.take);
        let from = descriptor.position + u64::from(slice.skip);
        match sources.last_mut() {
            Some(last) if last.stamp == stamp && last.from + last.len == from => last.len += len,
            _ => sources.push(PayloadSource { stamp, from, len }),
        }
    }
    Ok(sources)
}
