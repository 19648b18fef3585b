//! A drive: a directory that is read, and never written.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::format::format_json::{self, DriveFormat, DriveMode};
use crate::contained::{ContainedDirectory, ContainedEntry, EntryKind};

/// The directory with MinIO's own files.
pub(crate) const SYSTEM: &str = ".minio.sys";
/// The file with all versions of a key, and the older one with a single version.
pub(crate) const XL_META: &str = "xl.meta";
pub(crate) const XL_JSON: &str = "xl.json";
/// The longest format.json that is read.
const FORMAT_MAX_BYTES: u64 = 4 << 20;
/// How many entries are looked at for an object, where nothing else says that this is a drive.
const SEARCH_ENTRIES_MAX: usize = 20_000;
/// Directories at the top that are no buckets.
const NO_BUCKETS: [&str; 2] = ["lost+found", "minio"];
/// The lengths of names of buckets.
const BUCKET_NAME: std::ops::RangeInclusive<usize> = 3..=63;

pub(crate) struct Drive {
    /// The path as it was given.
    pub(crate) path: PathBuf,
    pub(crate) format: Option<DriveFormat>,
    /// Why format.json cannot be read, if it is there.
    pub(crate) format_fault: Option<String>,
    directory: ContainedDirectory,
    inode: (u64, u64),
}

impl Drive {
    /// Opens a drive.
    ///
    /// # Errors
    /// A message that names the directory: it is no drive.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let directory = ContainedDirectory::open(path).map_err(|error| failed(&error))?;
        let metadata = std::fs::metadata(path).map_err(|error| failed(&error))?;
        let inode = (metadata.dev(), metadata.ino());
        let mut drive = Self { path: path.to_owned(), format: None, format_fault: None, directory, inode };
        let file = format!("{SYSTEM}/format.json");
        match drive.read_file(&file, FORMAT_MAX_BYTES) {
            Ok(text) => match format_json::parse(&text) {
                Ok(format) => drive.format = Some(format),
                Err(why) => drive.format_fault = Some(why),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => drive.format_fault = Some(error.to_string()),
        }
        // A drive that lost its format.json is one still, by what it holds.
        if drive.format.is_none() && drive.format_fault.is_none() && !drive.holds_objects() {
            return Err(failed(&format!(
                "it is no drive of MinIO: it has no {SYSTEM}/format.json, and no {XL_META} was found in it"
            )));
        }
        Ok(drive)
    }

    /// Whether both are one directory, or claim to be the same drive.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_named = matches!(
            &self.format,
            Some(DriveFormat { mode: DriveMode::Erasure { this, .. }, .. }) if !this.is_empty()
        );
        self.inode == other.inode || (is_named && self.format == other.format)
    }

    /// The name in reports.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        match self.directory.read_plain(name) {
            Some(file) => Ok(file),
            // The reason, which may be that there is nothing.
            None => self.directory.read(name).and_then(|_| Err(io::Error::other("it is a symbolic link"))),
        }
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// It cannot be read, or is longer than `max`.
    pub(crate) fn read_file(&self, name: &str, max: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(name)?;
        let length = file.metadata()?.len();
        if length > max {
            return Err(io::Error::other(format!("it has {length} bytes, and {max} are read at most")));
        }
        let mut bytes = Vec::new();
        file.take(max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The entries of a directory; empty for the drive itself.
    pub(crate) fn entries(&self, name: &str) -> io::Result<Vec<ContainedEntry>> {
        self.directory.entries(name)
    }

    /// The names of the buckets: all directories at the top that can be one.
    pub(crate) fn buckets(&self) -> io::Result<Vec<String>> {
        let entries = self.entries("")?;
        let directories = entries.into_iter().filter(|entry| entry.kind == EntryKind::Directory);
        let names = directories.filter_map(|entry| entry.name.into_string().ok());
        let mut names: Vec<_> = names.filter(|name| is_bucket_name(name)).collect();
        names.sort();
        Ok(names)
    }

    /// Whether metadata or parts of an object are there.
    fn holds_objects(&self) -> bool {
        !self.some_paths(1, &|name| name == XL_META || name == XL_JSON || is_part_name(name)).is_empty()
    }

    /// The paths of a few objects, with that of their bucket.
    pub(crate) fn some_objects(&self, count: usize) -> Vec<String> {
        self.some_paths(count, &|name| name == XL_META || name == XL_JSON)
    }

    /// The paths of a few directories with a file of such a name.
    fn some_paths(&self, count: usize, is_meant: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        let mut left = SEARCH_ENTRIES_MAX;
        let mut waiting = self.buckets().unwrap_or_default();
        while let Some(path) = waiting.pop() {
            let Ok(entries) = self.entries(&path) else { continue };
            left = left.saturating_sub(entries.len().max(1));
            let mut files = entries.iter().filter(|entry| entry.kind == EntryKind::File);
            if files.any(|file| file.name.to_str().is_some_and(is_meant)) {
                // What is below an object are its parts.
                found.push(path);
            } else {
                let directories = entries.into_iter().filter(|entry| entry.kind == EntryKind::Directory);
                let names = directories.filter_map(|entry| entry.name.into_string().ok());
                waiting.extend(names.map(|name| format!("{path}/{name}")));
            }
            if found.len() >= count || left == 0 {
                break;
            }
        }
        found
    }
}

/// Whether a file of this name is a part of an object.
fn is_part_name(name: &str) -> bool {
    name.strip_prefix("part.").is_some_and(|number| number.parse::<u32>().is_ok())
}

fn is_bucket_name(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-'));
    let mut ends = name.bytes().next().into_iter().chain(name.bytes().last());
    BUCKET_NAME.contains(&name.len())
        && is_plain
        && ends.all(|byte| byte.is_ascii_alphanumeric())
        && !NO_BUCKETS.contains(&name)
}
