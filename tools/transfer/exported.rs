//! A key of an exported directory as the source of a copy.

use siltstone::base::Timestamp;
use siltstone::transfer::{Header, Origin, PeerError, PeerVersion, StoredAttributes, UploadShape, with_tags};

use super::file::{FileOrigin, SourceDirectory, etag_of};
use super::file_names::is_below;
use super::manifest::ManifestEntry;
use super::object::CopySource;

/// A key of an exported directory, with its versions by the manifest.
pub(super) struct ExportedKey<'e> {
    directory: &'e SourceDirectory,
    entries: &'e [ManifestEntry],
    /// The file of the version that is being copied.
    file: String,
}

impl<'e> ExportedKey<'e> {
    pub(super) fn new(directory: &'e SourceDirectory, entries: &'e [ManifestEntry]) -> Self {
        Self { directory, entries, file: String::new() }
    }

    fn entry(&self, id: Option<&str>) -> Result<&'e ManifestEntry, String> {
        let mut entries = self.entries.iter();
        let found = match id {
            Some(id) => entries.find(|entry| entry.version.as_deref() == Some(id)),
            None => entries.find(|entry| entry.current),
        };
        found.ok_or_else(|| "the manifest does not have the version".to_owned())
    }
}

/// The versions of a key, as a listing has them.
pub(super) fn listed(entries: &[ManifestEntry]) -> Vec<PeerVersion> {
    let mut versions = Vec::with_capacity(entries.len());
    for entry in entries {
        versions.push(PeerVersion {
            id: entry.version.clone(),
            delete_marker: entry.delete_marker,
            length: entry.length,
            etag: entry.etag.clone(),
            modified: Timestamp::parse_iso8601(&entry.modified),
        });
    }
    versions
}

fn shape_of(entry: &ManifestEntry) -> UploadShape {
    let sum = entry.parts.iter().try_fold(0_u64, |sum, length| sum.checked_add(*length));
    if !entry.parts.is_empty() && sum == Some(entry.length) {
        return UploadShape::Parts(entry.parts.clone());
    }
    UploadShape::Whole(entry.length)
}

impl CopySource for ExportedKey<'_> {
    /// The attributes of a version, whose file must have the exported bytes.
    fn wanted(&mut self, id: Option<&str>) -> Result<(StoredAttributes, Vec<Header>), String> {
        let entry = self.entry(id)?;
        let file = entry.file.as_deref().filter(|file| is_below(file));
        let file = file.ok_or("the manifest names no file below the directory")?;
        file.clone_into(&mut self.file);
        let shape = shape_of(entry);
        let from = StoredAttributes {
            length: entry.length,
            etag: entry.etag.clone(),
            kept: Vec::new(),
            losses: Vec::new(),
            modified: Timestamp::parse_iso8601(&entry.modified).map(Timestamp::as_secs),
            encrypted_by_key: false,
        };
        let failed = |error: std::io::Error| format!("{file}: {error}");
        let mut opened = self.directory.open(file).map_err(failed)?;
        let length = opened.metadata().map_err(failed)?.len();
        let etag = etag_of(&mut opened, &shape).map_err(failed)?;
        let is_told =
            from.has_digest() && (from.part_count().is_none() || matches!(shape, UploadShape::Parts(_)));
        if length != entry.length || (is_told && etag != entry.etag) {
            return Err(format!("{file} does not have the bytes that were exported"));
        }
        let headers = entry.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let tags = entry.tags.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok((from, with_tags(headers, &tags)))
    }

    fn shape_of(&mut self, _: &StoredAttributes, id: Option<&str>) -> Result<UploadShape, PeerError> {
        self.entry(id).map(shape_of).map_err(PeerError::Lasting)
    }

    fn has_grants(&mut self, _: Option<&str>) -> bool {
        false
    }

    fn origin<'o>(&'o mut self, _: Option<&'o str>, _: &'o str) -> Box<dyn Origin + 'o> {
        Box::new(FileOrigin { directory: self.directory, name: &self.file })
    }
}
