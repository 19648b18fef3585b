//! The import of a file.

use siltstone::transfer::{
    Header, MTIME, ObjectUpload, Origin, PeerError, PeerLink, SendBody, UploadShape, attributes_of,
};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use siltstone::base::digest::{Md5, to_hex};

use super::directory::FoundFile;
use super::report::Copied;
use super::threads::Transfer;
use crate::contained::ContainedDirectory;

/// The size of a part, as long as this makes no more than `PARTS_MAX`.
const PART_BYTES: u64 = 16 << 20;
/// The greatest length of a file that is uploaded whole.
const WHOLE_MAX_BYTES: u64 = 64 << 20;
const PARTS_MAX: u64 = 10_000;

/// The directory that an import reads.
pub(super) struct SourceDirectory {
    pub(super) contained: ContainedDirectory,
    /// Whether links may lead out of it, as its operator has asked.
    pub(super) follow_links: bool,
}

impl SourceDirectory {
    /// Opens a file of the directory.
    pub(super) fn open(&self, name: &str) -> io::Result<File> {
        match self.follow_links {
            true => File::open(self.contained.path().join(name)),
            false => self.contained.read(name),
        }
    }
}

/// The bytes of a file.
pub(super) struct FileOrigin<'f> {
    pub(super) directory: &'f SourceDirectory,
    pub(super) name: &'f str,
}

impl Origin for FileOrigin<'_> {
    fn with_range(&mut self, range: Range<u64>, send: &mut SendBody<'_>) -> Result<String, PeerError> {
        let mut file = self.directory.open(self.name).map_err(lasting)?;
        file.seek(SeekFrom::Start(range.start)).map_err(lasting)?;
        send(&mut file.take(range.end - range.start))
    }
}

/// Uploads a file, unless an object with the same bytes and attributes is there.
///
/// # Errors
/// A message, if it cannot be read or is not stored.
pub(super) fn import_file(
    target: &mut PeerLink<'_>,
    directory: &SourceDirectory,
    found: &FoundFile,
    key: &str,
    transfer: &Transfer,
) -> Result<Copied, String> {
    let shape = shape_of(found.length);
    let headers = headers_of(found);
    let mut file = directory.open(&found.name).map_err(|error| error.to_string())?;
    let etag = etag_of(&mut file, &shape).map_err(|error| error.to_string())?;
    let there = attributes_of(target, key, None).map_err(PeerError::text)?;
    if there.is_some_and(|there| there.length == found.length && there.etag == etag && there.kept == headers)
    {
        return Ok(Copied::Present);
    }
    let begun = transfer.begun;
    let stated_time = found.modified;
    let upload = ObjectUpload {
        key,
        headers: &headers,
        shape: &shape,
        begun,
        stated_time,
        repeated: true,
        expected: Some(&etag),
        checksum: None,
    };
    let sent = transfer.times.send(&upload, target, &mut FileOrigin { directory, name: &found.name });
    // The metadata has the time in any case.
    let (stored, _) = sent.map_err(PeerError::text)?;
    if stored == etag {
        Ok(Copied::Stored)
    } else {
        Err(format!("the file changed meanwhile: the ETag is {stored} in place of {etag}"))
    }
}

fn headers_of(found: &FoundFile) -> Vec<Header> {
    let kind = mime_guess::from_path(&found.name).first_raw().unwrap_or("application/octet-stream");
    vec![("content-type".to_owned(), kind.to_owned()), (MTIME.to_owned(), found.mtime.clone())]
}

fn shape_of(length: u64) -> UploadShape {
    if length <= WHOLE_MAX_BYTES {
        return UploadShape::Whole(length);
    }
    let part = PART_BYTES.max(length.div_ceil(PARTS_MAX));
    let starts = (0..length).step_by(usize::try_from(part).unwrap_or(usize::MAX));
    UploadShape::Parts(starts.map(|start| part.min(length - start)).collect())
}

/// The entity tag that the file has after an upload of this shape.
pub(super) fn etag_of(file: &mut File, shape: &UploadShape) -> io::Result<String> {
    copy_measured(file, shape, &mut io::sink())
}

/// Copies the bytes, and returns the entity tag that they have after an upload of this shape.
///
/// # Errors
/// Errors of the source and the sink; `UnexpectedEof` if the source is shorter.
pub(super) fn copy_measured(
    from: &mut dyn Read,
    shape: &UploadShape,
    sink: &mut dyn Write,
) -> io::Result<String> {
    match shape {
        UploadShape::Whole(length) => Ok(to_hex(&copy_md5(from, *length, sink)?)),
        UploadShape::Parts(lengths) => {
            let mut all = Md5::new();
            for length in lengths {
                all.update(&copy_md5(from, *length, sink)?);
            }
            Ok(format!("{}-{}", to_hex(&all.finish()), lengths.len()))
        }
    }
}

fn copy_md5(from: &mut dyn Read, length: u64, sink: &mut dyn Write) -> io::Result<[u8; 16]> {
    let mut md5 = Md5::new();
    let mut piece = vec![0; 64 * 1024];
    let mut left = length;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        let count = from.read(&mut piece[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        md5.update(&piece[..count]);
        sink.write_all(&piece[..count])?;
        left -= count as u64;
    }
    Ok(md5.finish())
}

fn lasting(error: impl std::fmt::Display) -> PeerError {
    PeerError::Lasting(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_length_and_are_no_more_than_allowed() {
        assert_eq!(shape_of(WHOLE_MAX_BYTES), UploadShape::Whole(WHOLE_MAX_BYTES));
        for length in [WHOLE_MAX_BYTES + 1, PART_BYTES * 7, PART_BYTES * PARTS_MAX + 1] {
            let UploadShape::Parts(parts) = shape_of(length) else { panic!("{length} is whole") };
            assert_eq!(parts.iter().sum::<u64>(), length);
            assert!(parts.len() as u64 <= PARTS_MAX && parts.iter().all(|part| *part > 0));
        }
    }
}
