//! Where the bytes of a copy are, in words that stay true: extents move and segments go, while the write that an extent belongs
//! to, and its position there, are in its descriptor for good (data-format.md, section 4).

use std::ops::Range;

use crate::format::{ExtentRef, PayloadSource, VersionRecord};
use crate::log::LogError;
use crate::store::extents::slices;
use crate::store::mutation::Content;
use crate::store::shared::SharedStore;
use crate::store::{CopyRange, StoreError};

/// What the committer is given of a copy. The descriptors are read here, by whoever asks for the copy, so that commits do not
/// wait for it.
///
/// # Errors
/// [`StoreError::NoSuchVersion`] when the source is gone; when a descriptor of it cannot be read.
pub(super) fn copy_content(shared: &SharedStore, source: CopyRange) -> Result<Content, StoreError> {
    let mut version = current_version(shared, &source)?;
    loop {
        match sources_of_range(shared, &version.extents, &source.range) {
            Ok(sources) => return Ok(Content::Copied { source, sources }),
            Err(error) => {
                // Extents may have been moved since the version was looked at, but for once they stay where they are.
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
    let found = index.find(source.bucket, source.key.as_bytes(), |version| version.id == source.version.id);
    found.ok_or(StoreError::NoSuchVersion)
}

/// The sources of a range of the bytes in some extents; what follows on what stands before it is one with it.
fn sources_of_range(
    shared: &SharedStore,
    extents: &[ExtentRef],
    range: &Range<u64>,
) -> Result<Vec<PayloadSource>, LogError> {
    let mut sources: Vec<PayloadSource> = Vec::new();
    for slice in slices(extents, range) {
        let segment = shared.segments.get(slice.segment)?;
        let descriptor = segment.descriptor(&segment.extent(&shared.store, slice.offset)?)?;
        let (stamp, len) = (descriptor.write, u64::from(slice.take));
        let from = descriptor.position + u64::from(slice.skip);
        match sources.last_mut() {
            Some(last) if last.stamp == stamp && last.from + last.len == from => last.len += len,
            _ => sources.push(PayloadSource { stamp, from, len }),
        }
    }
    Ok(sources)
}
