//! The directory that an export fills.

use siltstone::transfer::{
    Header, Loss, MTIME, PeerError, StoredAttributes, UploadShape, attempts, without_tags,
};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fs2::FileExt as _;
use siltstone::base::NOT_POISONED;

use super::file::{copy_measured, etag_of};
use super::file_names::SIDE_DIRECTORY;
use super::manifest::{MANIFEST, ManifestEntry, ManifestWriter, UNFINISHED_MANIFEST};
use super::object::CopySource;
use super::report::Copied;
use crate::contained::ContainedDirectory;

/// Files with names that some file systems take for one.
const PROBES: [&str; 3] = ["probe-\u{e9}", "PROBE-\u{c9}", "probe-e\u{301}"];

/// The lock, and the directory of incomplete files.
const LOCK: &str = ".siltstone-export/lock";
const INCOMING: &str = ".siltstone-export/incoming";

/// A directory that is being filled. Its lock ends with it.
pub(super) struct ExportDirectory {
    root: ContainedDirectory,
    _lock: File,
    manifest: Mutex<ManifestWriter>,
    /// Directories with new entries, which are not synced yet, by their names below the root; that
    /// has an empty one.
    changed: Mutex<BTreeSet<String>>,
    incoming: AtomicU64,
}

/// A version to be saved.
pub(super) struct SavedVersion<'s> {
    pub(super) source: &'s mut dyn CopySource,
    pub(super) id: Option<&'s str>,
    /// The path of its file below the directory.
    pub(super) file: String,
    pub(super) lost: &'s mut dyn FnMut(Loss),
}

impl ExportDirectory {
    /// Opens or creates the directory, and removes incomplete files of an interrupted export.
    ///
    /// # Errors
    /// A message: the directory cannot be used, another export uses it, or it takes different names
    /// for one.
    pub(super) fn open(root: &Path, source: &str, versions: bool) -> Result<Self, String> {
        let failed = |error: io::Error| format!("{}: {error}", root.display());
        fs::create_dir_all(root).map_err(failed)?;
        let contained = ContainedDirectory::open(root).map_err(failed)?;
        contained.make_directories(INCOMING).map_err(failed)?;
        let lock = contained.create(LOCK).map_err(failed)?;
        lock.try_lock_exclusive().map_err(|_| format!("{}: another export uses it", root.display()))?;
        // Before the first file: of two keys that are one name there, one would overwrite the
        // other.
        probe_names(&contained).map_err(|why| format!("{}: {why}", root.display()))?;
        contained.remove_files_of(INCOMING).map_err(failed)?;
        let unfinished = contained.create(UNFINISHED_MANIFEST).map_err(failed)?;
        let manifest = ManifestWriter::begin(unfinished, source, versions);
        Ok(Self {
            root: contained,
            _lock: lock,
            manifest: Mutex::new(manifest.map_err(failed)?),
            changed: Mutex::default(),
            incoming: AtomicU64::new(0),
        })
    }

    /// Saves a version, unless the file has its bytes.
    ///
    /// # Errors
    /// A message. The file is then as before.
    pub(super) fn save(&self, version: &mut SavedVersion<'_>) -> Result<(Copied, ManifestEntry), String> {
        let (from, headers) = version.source.wanted(version.id)?;
        if headers.iter().any(|(_, value)| value.contains('\u{fffd}')) {
            return Err("its metadata is not UTF-8".to_owned());
        }
        let shape = version.source.shape_of(&from, version.id).map_err(PeerError::text)?;
        let file = version.file.clone();
        let failed = |error: io::Error| format!("{}/{file}: {error}", self.root.path().display());
        let time = time_of(&headers, &from);
        let present = self.root.read_plain(&file).filter(|present| is_copy(present, &from, &shape, time));
        let copied = if let Some(present) = present {
            set_time(&present, time).map_err(failed)?;
            Copied::Present
        } else {
            self.receive(version, &from, &shape, time)?;
            for loss in &from.losses {
                (version.lost)(*loss);
            }
            if version.source.has_grants(version.id) {
                (version.lost)(Loss::Grants);
            }
            Copied::Stored
        };
        let mut entry = entry_of(version, &from, &headers, &shape);
        if !is_told(&from, &shape) {
            let mut stored = self.root.read(&file).map_err(failed)?;
            entry.etag = etag_of(&mut stored, &shape).map_err(failed)?;
        }
        Ok((copied, entry))
    }

    fn receive(
        &self,
        version: &mut SavedVersion<'_>,
        from: &StoredAttributes,
        shape: &UploadShape,
        time: SystemTime,
    ) -> Result<(), String> {
        // Under a name of its own first, so that a file in its place is always whole.
        let number = self.incoming.fetch_add(1, Ordering::Relaxed);
        let incoming = format!("{INCOMING}/{number}");
        let mut origin = version.source.origin(version.id, &from.etag);
        let etag = attempts(|| {
            origin.with_range(0..from.length, &mut |body| {
                let mut file = BufWriter::new(self.root.create(&incoming).map_err(lasting)?);
                let etag = copy_measured(body, shape, &mut file)
                    .map_err(|error| PeerError::Passing(error.to_string()))?;
                if etag != from.etag && is_told(from, shape) {
                    // Another attempt may bring the right bytes.
                    return Err(PeerError::Passing(format!(
                        "the ETag of the bytes received is {etag}, that of the source {}",
                        from.etag
                    )));
                }
                let file = file.into_inner().map_err(lasting)?;
                file.set_modified(time).and_then(|()| file.sync_all()).map_err(lasting)?;
                Ok(etag)
            })
        });
        drop(origin);
        let done = match etag.map_err(PeerError::text) {
            Ok(etag) => {
                if etag != from.etag {
                    (version.lost)(Loss::EntityTag);
                }
                let path = self.root.path().join(&version.file);
                self.place(&incoming, &version.file).map_err(|error| format!("{}: {error}", path.display()))
            }
            Err(why) => Err(why),
        };
        if done.is_err() {
            // The next export removes it, too.
            let _ = self.root.remove(&incoming);
        }
        done
    }

    /// Moves a complete file to its place.
    fn place(&self, incoming: &str, name: &str) -> io::Result<()> {
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.root.make_directories(parent)?;
        }
        self.root.rename(incoming, name)?;
        let mut changed = self.changed.lock().expect(NOT_POISONED);
        // Each directory on the way may be new.
        let mut below = name;
        while let Some((parent, _)) = below.rsplit_once('/') {
            changed.insert(parent.to_owned());
            below = parent;
        }
        changed.insert(String::new());
        Ok(())
    }

    /// Adds the versions of a key to the manifest.
    pub(super) fn record(&self, entries: &[ManifestEntry]) -> io::Result<()> {
        self.manifest.lock().expect(NOT_POISONED).append(entries)
    }

    /// Syncs all directories, and replaces the manifest. Everything is durable on return.
    pub(super) fn finish(self) -> io::Result<()> {
        // The files first: the manifest names none that a crash takes away.
        for dir in self.changed.into_inner().expect(NOT_POISONED) {
            self.root.sync(&dir)?;
        }
        self.manifest.into_inner().expect(NOT_POISONED).finish()?;
        self.root.rename(UNFINISHED_MANIFEST, MANIFEST)?;
        self.root.sync(SIDE_DIRECTORY)?;
        self.root.sync("")
    }
}

/// Whether the directory holds files apart whose names differ in case or in their normal form
/// alone.
fn probe_names(root: &ContainedDirectory) -> Result<(), String> {
    let [probe, others @ ..] = PROBES.map(|name| format!("{SIDE_DIRECTORY}/{name}"));
    root.create(&probe).map_err(|error| error.to_string())?;
    let same = others.iter().any(|other| root.has(other));
    root.remove(&probe).map_err(|error| error.to_string())?;
    if same {
        Err("the file system takes names for one that differ in case or form".to_owned())
    } else {
        Ok(())
    }
}

/// Whether the entity tag proves the bytes.
fn is_told(from: &StoredAttributes, shape: &UploadShape) -> bool {
    from.has_digest() && (from.part_count().is_none() || matches!(shape, UploadShape::Parts(_)))
}

/// Whether the file has the bytes. Where the entity tag proves nothing, length and time decide.
fn is_copy(file: &File, from: &StoredAttributes, shape: &UploadShape, time: SystemTime) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    if metadata.len() != from.length {
        return false;
    }
    if !is_told(from, shape) {
        return metadata.modified().is_ok_and(|modified| modified == time);
    }
    copy_measured(&mut &*file, shape, &mut io::sink()).is_ok_and(|etag| etag == from.etag)
}

fn set_time(file: &File, time: SystemTime) -> io::Result<()> {
    if file.metadata()?.modified()? == time { Ok(()) } else { file.set_modified(time) }
}

/// The modification time: the metadata's, or else the version's.
fn time_of(headers: &[Header], from: &StoredAttributes) -> SystemTime {
    let told = headers.iter().find(|(name, _)| name == MTIME).and_then(|(_, value)| parse_time(value));
    told.unwrap_or_else(|| UNIX_EPOCH + Duration::from_secs(from.modified.unwrap_or_default()))
}

/// A number of seconds with a fraction, in the form of rclone.
fn parse_time(text: &str) -> Option<SystemTime> {
    let (past, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if ![seconds, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit())) {
        return None;
    }
    let nanos = format!("{fraction:0<9.9}").parse().ok()?;
    let since = Duration::new(seconds.parse().ok()?, nanos);
    if past { UNIX_EPOCH.checked_sub(since) } else { UNIX_EPOCH.checked_add(since) }
}

fn entry_of(
    version: &SavedVersion<'_>,
    from: &StoredAttributes,
    headers: &[Header],
    shape: &UploadShape,
) -> ManifestEntry {
    let (headers, tags) = without_tags(headers);
    let modified = from.modified.map(|seconds| siltstone::base::Timestamp::from_millis(seconds * 1_000));
    let parts = if let UploadShape::Parts(lengths) = shape { lengths.clone() } else { Vec::new() };
    ManifestEntry {
        file: Some(version.file.clone()),
        version: version.id.map(str::to_owned),
        length: from.length,
        etag: from.etag.clone(),
        modified: modified.map(siltstone::base::Timestamp::to_iso8601).unwrap_or_default(),
        parts,
        headers: headers.into_iter().collect(),
        tags: tags.into_iter().collect(),
        ..ManifestEntry::default()
    }
}

fn lasting(error: impl std::fmt::Display) -> PeerError {
    PeerError::Lasting(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_the_form_in_which_an_import_writes_them() {
        assert_eq!(parse_time("1500000000.25"), Some(UNIX_EPOCH + Duration::from_millis(1_500_000_000_250)));
        assert_eq!(parse_time("-1.500000000"), Some(UNIX_EPOCH - Duration::from_millis(1_500)));
        assert_eq!(parse_time("7"), Some(UNIX_EPOCH + Duration::from_secs(7)));
        for text in ["", "x", "1.x", "1e9", "99999999999999999999", "9999999999999999999.0"] {
            assert_eq!(parse_time(text).filter(|time| *time < UNIX_EPOCH), None, "{text}");
        }
        assert_eq!((parse_time("x"), parse_time("1e9"), parse_time("+1")), (None, None, None));
    }
}
