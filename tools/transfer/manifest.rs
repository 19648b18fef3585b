//! The manifest of an export: JSON lines, one for each version, a key's one after another
//! and the oldest first. The last line has their number and the SHA-256 of everything before it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use siltstone::base::digest::to_hex;

/// The path of the manifest below the exported directory.
pub(super) const MANIFEST: &str = ".siltstone-export/manifest.jsonl";
/// The path while it is written.
pub(super) const UNFINISHED_MANIFEST: &str = ".siltstone-export/manifest.jsonl.unfinished";
/// The form of the lines. That before it had no last line.
const FORM: u32 = 2;
const FORM_WITHOUT_END: u32 = 1;
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

/// The last line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestEnd {
    /// How many versions there are.
    end_of_versions: u64,
    /// The SHA-256 of all lines before, in hexadecimal.
    sha256: String,
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
pub(super) struct ManifestWriter {
    file: BufWriter<File>,
    hash: Context,
    versions: u64,
}

/// A manifest that is being read.
pub(super) struct ManifestReader {
    lines: BufReader<File>,
    pub(super) head: ManifestHead,
    /// The versions that have not been read.
    left: u64,
    ahead: Option<ManifestEntry>,
}

impl ManifestWriter {
    pub(super) fn begin(file: File, source: &str, versions: bool) -> io::Result<Self> {
        let mut writer = Self { file: BufWriter::new(file), hash: Context::new(&SHA256), versions: 0 };
        writer.line(&ManifestHead { siltstone_export: FORM, source: source.to_owned(), versions })?;
        Ok(writer)
    }

    /// Appends the versions of a key.
    pub(super) fn append(&mut self, entries: &[ManifestEntry]) -> io::Result<()> {
        for entry in entries {
            self.line(entry)?;
            self.versions += 1;
        }
        Ok(())
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.hash.update(&text);
        self.file.write_all(&text)
    }

    /// Writes the last line, and syncs the file.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let sha256 = to_hex(self.hash.clone().finish().as_ref());
        let end = ManifestEnd { end_of_versions: self.versions, sha256 };
        self.line(&end)?;
        self.file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

impl ManifestReader {
    /// Begins to read a manifest, all of which is checked first, if it has a last line: nothing is
    /// imported by a part of one, or by a damaged one.
    ///
    /// # Errors
    /// A message, if it cannot be read, is not as it was written, or its first line is of another
    /// form.
    pub(super) fn open(file: File) -> Result<Self, String> {
        let mut lines = BufReader::new(file);
        let head = line(&mut lines)?.ok_or("it is empty")?;
        let head: ManifestHead = serde_json::from_str(&head).map_err(|error| format!("line 1: {error}"))?;
        let left = match head.siltstone_export {
            FORM => checked_versions(&mut lines)?,
            FORM_WITHOUT_END => u64::MAX,
            form => return Err(format!("it is of form {form}, which is unknown")),
        };
        Ok(Self { lines, head, left, ahead: None })
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
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let Some(line) = line(&mut self.lines)? else { return Ok(None) };
        serde_json::from_str(&line).map(Some).map_err(|error| format!("{error} in the line {line:.100}"))
    }
}

/// The number of versions of a manifest whose last line is there and true. It is then read from the
/// second line on again.
fn checked_versions(lines: &mut BufReader<File>) -> Result<u64, String> {
    let failed = |error: io::Error| error.to_string();
    let second = lines.stream_position().map_err(failed)?;
    lines.rewind().map_err(failed)?;
    let mut hash = Context::new(&SHA256);
    let mut count = 0_u64;
    let mut last = None;
    while let Some(next) = line(lines)? {
        if let Some(before) = last.replace(next) {
            hash.update(before.as_bytes());
            count += 1;
        }
    }
    let last = last.unwrap_or_default();
    let end: ManifestEnd = serde_json::from_str(&last).map_err(
        |_| "its last line is missing, so that it may be a part of a manifest; run the export again",
    )?;
    // The first line is none of a version.
    if end.end_of_versions != count.saturating_sub(1) {
        return Err(format!(
            "it has {} versions in place of {}; run the export again",
            count.saturating_sub(1),
            end.end_of_versions
        ));
    }
    if end.sha256 != to_hex(hash.finish().as_ref()) {
        return Err("it is not as the export wrote it, by its SHA-256; run the export again".to_owned());
    }
    lines.seek(SeekFrom::Start(second)).map_err(failed)?;
    Ok(end.end_of_versions)
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
        let mut writer = ManifestWriter::begin(File::create(&path).unwrap(), "s3://b", true).unwrap();
        writer.append(&[entry("a", "1"), entry("a", "2")]).unwrap();
        writer.append(&[entry("b\n", "3")]).unwrap();
        writer.finish().unwrap();
        let mut reader = ManifestReader::open(File::open(&path).unwrap()).unwrap();
        assert!(reader.head.versions);
        assert_eq!(reader.next_key().unwrap(), Some(vec![entry("a", "1"), entry("a", "2")]));
        assert_eq!(reader.next_key().unwrap(), Some(vec![entry("b\n", "3")]));
        assert_eq!(reader.next_key().unwrap(), None);
    }

    #[test]
    fn a_manifest_that_is_not_whole_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m");
        let open = |text: &str| {
            std::fs::write(&path, text).unwrap();
            ManifestReader::open(File::open(&path).unwrap()).err()
        };
        let mut writer = ManifestWriter::begin(File::create(&path).unwrap(), "s3://b", true).unwrap();
        writer.append(&[entry("a", "1"), entry("a", "2"), entry("b", "3")]).unwrap();
        writer.finish().unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = whole.split_inclusive('\n').collect();
        assert_eq!((lines.len(), open(&whole)), (5, None));
        for gone in 1..lines.len() {
            let rest: String =
                lines.iter().enumerate().filter(|(at, _)| *at != gone).map(|(_, line)| *line).collect();
            assert!(open(&rest).is_some(), "without line {gone}");
        }
        for (from, to) in [
            ("\"key\":\"b\"", "\"key\":\"c\""),
            ("s3://b", "s3://c"),
            ("\"current\":false", "\"current\":true"),
        ] {
            assert!(open(&whole.replacen(from, to, 1)).is_some(), "{from}");
        }
        assert!(open(&whole[..whole.len() - 1]).is_some() && open(&format!("{whole}{}", lines[1])).is_some());
        // Before there was a last line.
        let old = [&lines[0].replace(":2,", ":1,"), lines[1], lines[2], lines[3]].concat();
        assert_eq!(open(&old), None);
        let mut reader = ManifestReader::open(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.next_key().unwrap().unwrap().len(), 2);
        assert_eq!(reader.next_key().unwrap().unwrap().len(), 1);
        assert_eq!(reader.next_key().unwrap(), None);
    }

    #[test]
    fn other_files_and_torn_lines_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m");
        for text in ["", "{}\n", "{\"siltstone_export\":3,\"source\":\"\",\"versions\":false}\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(ManifestReader::open(File::open(&path).unwrap()).is_err(), "{text}");
        }
        let head = "{\"siltstone_export\":1,\"source\":\"\",\"versions\":false}\n";
        for text in ["{\"key\":\"a\"", "[]\n", "{\"key\":\"a\",\"current\":true,\"length\":-1}\n"] {
            std::fs::write(&path, format!("{head}{text}")).unwrap();
            assert!(ManifestReader::open(File::open(&path).unwrap()).unwrap().next_key().is_err(), "{text}");
        }
    }
}
