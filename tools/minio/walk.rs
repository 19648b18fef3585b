//! The keys of a bucket: a walk through the directories of all drives at once.

use super::drive::{Drive, XL_JSON, XL_META};
use super::format::version::parse_uuid;
use crate::contained::EntryKind;

/// The end of the directory of a key that ends with a slash.
const DIRECTORY_KEY: &str = "__XLDIR__";
/// The directory of the parts of an overwritten xl.json.
const LEGACY: &str = "legacy";
/// The copy of xl.meta from before an overwrite that was cut off.
pub(crate) const BACKUP: &str = "xl.meta.bkp";
/// The greatest depth. Keys of 1,024 bytes have 512 segments.
const DEPTH_MAX: usize = 600;

/// Drives, one bit each.
pub(crate) type DriveMask = u64;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoundKind {
    /// The metadata of an object, on some drives at least.
    Object,
    /// A plain file: an object of FS mode, or a stray one.
    PlainFile,
    /// A directory with parts, and no metadata that tells whose they are.
    LostParts,
}

/// A path below a bucket, and the drives that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundPath {
    pub(crate) path: String,
    pub(crate) kind: FoundKind,
    pub(crate) drives: DriveMask,
}

impl FoundPath {
    /// The key of the object.
    pub(crate) fn key(&self) -> String {
        match self.path.strip_suffix(DIRECTORY_KEY) {
            Some(key) => format!("{key}/"),
            None => self.path.clone(),
        }
    }
}

/// The bits that are set.
pub(crate) fn drives_in(mask: DriveMask) -> impl Iterator<Item = usize> {
    (0..DriveMask::BITS as usize).filter(move |at| mask >> at & 1 == 1)
}

/// A walk through a bucket.
pub(crate) struct BucketWalk<'w> {
    pub(crate) drives: &'w [Drive],
    pub(crate) bucket: &'w str,
    /// Is told each path, and returns whether the walk goes on.
    pub(crate) found: &'w mut dyn FnMut(FoundPath) -> bool,
    /// Is told what cannot be read, and why.
    pub(crate) unreadable: &'w mut dyn FnMut(String, String),
}

/// An entry that some drives have.
struct Entry {
    name: Box<str>,
    directories: DriveMask,
    files: DriveMask,
}

impl BucketWalk<'_> {
    /// Walks through the bucket on all drives that have it.
    pub(crate) fn start(&mut self) {
        let all = (0..self.drives.len()).fold(0, |mask, at| mask | 1 << at);
        self.directory("", all, 0);
    }

    fn full(&self, path: &str) -> String {
        if path.is_empty() { self.bucket.to_owned() } else { format!("{}/{path}", self.bucket) }
    }

    /// The entries of a directory on all drives, in order.
    fn entries(&mut self, path: &str, drives: DriveMask) -> Vec<Entry> {
        let full = self.full(path);
        let mut entries = Vec::new();
        for at in drives_in(drives) {
            let named = |name: &str| format!("{}/{full}{name}", self.drives[at].name());
            let there = match self.drives[at].entries(&full) {
                Ok(there) => there,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    (self.unreadable)(named(""), error.to_string());
                    continue;
                }
            };
            for entry in there {
                let bit = 1 << at;
                let shown = entry.name.to_string_lossy().into_owned();
                match (entry.name.into_string(), entry.kind) {
                    (Err(_), _) => {
                        (self.unreadable)(named(&format!("/{shown}")), "its name is not UTF-8".to_owned());
                    }
                    (Ok(_), EntryKind::Other) => {
                        (self.unreadable)(named(&format!("/{shown}")), "it is no regular file".to_owned());
                    }
                    (Ok(name), EntryKind::Directory) => {
                        entries.push(Entry { name: name.into(), directories: bit, files: 0 });
                    }
                    (Ok(name), EntryKind::File) => {
                        entries.push(Entry { name: name.into(), directories: 0, files: bit });
                    }
                }
            }
        }
        // Only entries of one name that follow each other are put together.
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        entries.dedup_by(|next, kept| {
            let is_same = next.name == kept.name;
            if is_same {
                kept.directories |= next.directories;
                kept.files |= next.files;
            }
            is_same
        });
        entries
    }

    /// Walks through a directory. Returns whether the walk goes on.
    fn directory(&mut self, path: &str, drives: DriveMask, depth: usize) -> bool {
        if depth > DEPTH_MAX {
            let full = self.full(path);
            (self.unreadable)(full, "it is too deep".to_owned());
            return true;
        }
        let entries = self.entries(path, drives);
        let mut metadata = 0;
        for entry in &entries {
            if &*entry.name == XL_META || &*entry.name == XL_JSON {
                metadata |= entry.files;
            }
        }
        // At the top, that is the name of a key: a bucket is none itself.
        let is_object = metadata != 0 && !path.is_empty();
        if is_object
            && !(self.found)(FoundPath { path: path.to_owned(), kind: FoundKind::Object, drives: metadata })
        {
            return false;
        }
        for entry in entries {
            let below =
                if path.is_empty() { entry.name.to_string() } else { format!("{path}/{}", entry.name) };
            if entry.files != 0 && !is_object {
                let found =
                    FoundPath { path: below.clone(), kind: FoundKind::PlainFile, drives: entry.files };
                if !(self.found)(found) {
                    return false;
                }
            }
            if entry.directories != 0 && !self.below(&entry, &below, is_object, depth) {
                return false;
            }
        }
        true
    }

    fn below(&mut self, entry: &Entry, path: &str, of_object: bool, depth: usize) -> bool {
        // A key may have the form of a UUID, so its content decides.
        let may_be_parts = parse_uuid(&entry.name).is_some() || (of_object && &*entry.name == LEGACY);
        if may_be_parts && self.holds_parts_alone(path, entry.directories) {
            if of_object {
                return true;
            }
            let found =
                FoundPath { path: path.to_owned(), kind: FoundKind::LostParts, drives: entry.directories };
            return (self.found)(found);
        }
        self.directory(path, entry.directories, depth + 1)
    }

    /// Whether a directory is that of the parts of a version, and not one of keys.
    fn holds_parts_alone(&mut self, path: &str, drives: DriveMask) -> bool {
        self.entries(path, drives).iter().all(|entry| {
            entry.directories == 0 && (entry.name.starts_with("part.") || &*entry.name == BACKUP)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_a_slash_at_their_end_have_a_name_of_their_own() {
        let found =
            |path: &str| FoundPath { path: path.to_owned(), kind: FoundKind::Object, drives: 1 }.key();
        assert_eq!(found("a/b__XLDIR__"), "a/b/");
        assert_eq!(found("a/b"), "a/b");
        assert_eq!(drives_in(0b1010_0001).collect::<Vec<_>>(), [0, 5, 7]);
    }
}
