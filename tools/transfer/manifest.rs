//! The manifest of an export: JSON lines, one for each version, those of a key one after another and the oldest first.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The path of the manifest below the exported directory.
pub(super) const MANIFEST: &str = ".siltstone-export/manifest.jsonl";
/// The path while it is written.
pub(super) const UNFINISHED_MANIFEST: &str = ".siltstone-export/manifest.jsonl.unfinished";
/// The form of the lines.
const FORM: u32 = 1;
/// The longest line, in bytes. Metadata, tags and the lengths of 10,000 parts are far below it.
const LINE_MAX_BYTES: u64 = 1 << 20;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ManifestHead {
    siltstone_export: u32,
    /// The bucket, and the prefix that names do not have.
    pub(super) source: String,
    /// Whether noncurrent versions and delete markers are there.
    pub(super) versions: bool,
}

/// A version of an object, or a delete marker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ManifestEntry {
    /// The key without the prefix.
    pub(super) key: String,
    /// The path of the bytes below the directory; `None` for a delete marker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    pub(super) current: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) delete_marker: bool,
    #[serde(default)]
    pub(super) length: u64,
    #[serde(default)]
    pub(super) etag: String,
    /// The time of the version at the source (ISO 8601); empty if unknown.
    #[serde(default)]
    pub(super) modified: String,
    /// The lengths of its parts, if the entity tag depends on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<u64>,
    /// The content headers and the metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tags: BTreeMap<String, String>,
}

/// A manifest that is being written.
pub(super) struct ManifestWriter(BufWriter<File>);

/// A manifest that is being read.
pub(super) struct ManifestReader {
    lines: BufReader<File>,
    pub(super) head: ManifestHead,
    ahead: Option<ManifestEntry>,
}

impl ManifestWriter {
    pub(super) fn create(path: &Path, source: &str, versions: bool) -> io::Result<Self> {
        let mut writer = Self(BufWriter::new(File::create(path)?));
        writer.line(&ManifestHead { siltstone_export: FORM, source: source.to_owned(), versions })?;
        Ok(writer)
    }

    /// Appends the versions of a key.
    pub(super) fn append(&mut self, entries: &[ManifestEntry]) -> io::Result<()> {
        entries.iter().try_for_each(|entry| self.line(entry))
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, line)?;
        self.0.write_all(b"\n")
    }

    /// Syncs the file.
    pub(super) fn finish(self) -> io::Result<()> {
        self.0.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

impl ManifestReader {
    /// Opens a manifest.
    ///
    /// # Errors
    /// A message, if it cannot be read, or its first line is of another form.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let mut lines = BufReader::new(file);
        let head = line(&mut lines)?.ok_or("it is empty")?;
        let head: ManifestHead = serde_json::from_str(&head).map_err(|error| format!("line 1: {error}"))?;
        if head.siltstone_export != FORM {
            return Err(format!("it is of form {}, which is unknown", head.siltstone_export));
        }
        Ok(Self { lines, head, ahead: None })
    }

    /// The versions of the next key, the oldest first; `None` at the end.
    ///
    /// # Errors
    /// A message, if a line is no version.
    pub(super) fn next_key(&mut self) -> Result<Option<Vec<ManifestEntry>>, String> {
        let Some(first) = self.next_entry()? else { return Ok(None) };
        let mut entries = vec![first];
        while let Some(next) = self.next_entry()? {
            if next.key != entries[0].key {
                self.ahead = Some(next);
                break;
            }
            entries.push(next);
        }
        Ok(Some(entries))
    }

    fn next_entry(&mut self) -> Result<Option<ManifestEntry>, String> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(Some(ahead));
        }
        let Some(line) = line(&mut self.lines)? else { return Ok(None) };
        serde_json::from_str(&line).map(Some).map_err(|error| format!("{error} in the line {line:.100}"))
    }
}

fn line(lines: &mut BufReader<File>) -> Result<Option<String>, String> {
    let mut text = String::new();
    let count = lines.take(LINE_MAX_BYTES).read_line(&mut text).map_err(|error| error.to_string())?;
    match (count, text.ends_with('\n')) {
        (0, _) => Ok(None),
        (_, true) => Ok(Some(text)),
        _ => Err("a line has no end".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, version: &str) -> ManifestEntry {
        ManifestEntry { key: key.to_owned(), version: Some(version.to_owned()), ..ManifestEntry::default() }
    }

    #[test]
    fn versions_come_back_by_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m");
        let mut writer = ManifestWriter::create(&path, "s3://b", true).unwrap();
        writer.append(&[entry("a", "1"), entry("a", "2")]).unwrap();
        writer.append(&[entry("b\n", "3")]).unwrap();
        writer.finish().unwrap();
        let mut reader = ManifestReader::open(&path).unwrap();
        assert!(reader.head.versions);
        assert_eq!(reader.next_key().unwrap(), Some(vec![entry("a", "1"), entry("a", "2")]));
        assert_eq!(reader.next_key().unwrap(), Some(vec![entry("b\n", "3")]));
        assert_eq!(reader.next_key().unwrap(), None);
    }

    #[test]
    fn other_files_and_torn_lines_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m");
        for text in ["", "{}\n", "{\"siltstone_export\":2,\"source\":\"\",\"versions\":false}\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(ManifestReader::open(&path).is_err(), "{text}");
        }
        let head = "{\"siltstone_export\":1,\"source\":\"\",\"versions\":false}\n";
        for text in ["{\"key\":\"a\"", "[]\n", "{\"key\":\"a\",\"current\":true,\"length\":-1}\n"] {
            std::fs::write(&path, format!("{head}{text}")).unwrap();
            assert!(ManifestReader::open(&path).unwrap().next_key().is_err(), "{text}");
        }
    }
}
