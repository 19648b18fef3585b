//! The directory that an export fills.

use siltstone::transfer::{
    Header, Loss, MTIME, PeerError, StoredAttributes, UploadShape, attempts, without_tags,
};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fs2::FileExt as _;

use super::file::{copy_measured, etag_of};
use super::file_names::SIDE_DIRECTORY;
use super::manifest::{MANIFEST, ManifestEntry, ManifestWriter, UNFINISHED_MANIFEST};
use super::object::CopySource;
use super::report::Copied;

/// Files with names that some file systems take for one.
const PROBES: [&str; 3] = ["probe-\u{e9}", "PROBE-\u{c9}", "probe-e\u{301}"];

/// A directory that is being filled. Its lock ends with it.
pub(super) struct ExportDirectory {
    root: PathBuf,
    _lock: File,
    manifest: Mutex<ManifestWriter>,
    /// Directories with new entries, which are not synced yet.
    changed: Mutex<BTreeSet<PathBuf>>,
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
    /// A message: the directory cannot be used, another export uses it, or it takes different names for one.
    pub(super) fn open(root: &Path, source: &str, versions: bool) -> Result<Self, String> {
        let failed = |error: io::Error| format!("{}: {error}", root.display());
        let side = root.join(SIDE_DIRECTORY);
        fs::create_dir_all(&side).map_err(failed)?;
        let lock = File::create(side.join("lock")).map_err(failed)?;
        lock.try_lock_exclusive().map_err(|_| format!("{}: another export uses it", root.display()))?;
        probe_names(&side).map_err(|why| format!("{}: {why}", root.display()))?;
        match fs::remove_dir_all(side.join("incoming")) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => fs::create_dir(side.join("incoming")).map_err(failed)?,
        }
        let manifest = ManifestWriter::create(&root.join(UNFINISHED_MANIFEST), source, versions);
        Ok(Self {
            root: root.to_owned(),
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
        let path = self.root.join(&version.file);
        let time = time_of(&headers, &from);
        let copied = if is_there(&path, &from, &shape, time) {
            set_time(&path, time).map_err(|error| error.to_string())?;
            Copied::Present
        } else {
            self.receive(version, &from, &shape, &path, time)?;
            from.losses.iter().for_each(|loss| (version.lost)(*loss));
            if version.source.has_grants(version.id) {
                (version.lost)(Loss::Grants);
            }
            Copied::Stored
        };
        let mut entry = entry_of(version, &from, &headers, &shape);
        if !is_told(&from, &shape) {
            entry.etag = etag_of(&path, &shape).map_err(|error| error.to_string())?;
        }
        Ok((copied, entry))
    }

    fn receive(
        &self,
        version: &mut SavedVersion<'_>,
        from: &StoredAttributes,
        shape: &UploadShape,
        path: &Path,
        time: SystemTime,
    ) -> Result<(), String> {
        let number = self.incoming.fetch_add(1, Ordering::Relaxed);
        let incoming = self.root.join(SIDE_DIRECTORY).join("incoming").join(number.to_string());
        let mut origin = version.source.origin(version.id, &from.etag);
        let etag = attempts(|| {
            origin.with_range(0..from.length, &mut |body| {
                let mut file = BufWriter::new(File::create(&incoming).map_err(lasting)?);
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
                self.place(&incoming, path).map_err(|error| format!("{}: {error}", path.display()))
            }
            Err(why) => Err(why),
        };
        if done.is_err() {
            // The next export removes it, too.
            let _ = fs::remove_file(&incoming);
        }
        done
    }

    /// Moves a complete file to its place.
    fn place(&self, incoming: &Path, path: &Path) -> io::Result<()> {
        let parent = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent)?;
        fs::rename(incoming, path)?;
        let above = parent.ancestors().take_while(|above| above.starts_with(&self.root));
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.extend(above.map(Path::to_owned));
        Ok(())
    }

    /// Adds the versions of a key to the manifest.
    pub(super) fn record(&self, entries: &[ManifestEntry]) -> io::Result<()> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner).append(entries)
    }

    /// Syncs all directories, and replaces the manifest. Everything is durable on return.
    pub(super) fn finish(self) -> io::Result<()> {
        for dir in self.changed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            File::open(dir)?.sync_all()?;
        }
        self.manifest.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
        fs::rename(self.root.join(UNFINISHED_MANIFEST), self.root.join(MANIFEST))?;
        File::open(self.root.join(SIDE_DIRECTORY))?.sync_all()?;
        File::open(&self.root)?.sync_all()
    }
}

/// Whether the directory holds files apart whose names differ in case or in their normal form alone.
fn probe_names(side: &Path) -> Result<(), String> {
    let [probe, others @ ..] = PROBES.map(|name| side.join(name));
    File::create(&probe).map_err(|error| error.to_string())?;
    let same = others.iter().any(|other| other.exists());
    fs::remove_file(&probe).map_err(|error| error.to_string())?;
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

/// Whether the file has the bytes. Where the entity tag tells nothing, length and time decide.
fn is_there(path: &Path, from: &StoredAttributes, shape: &UploadShape, time: SystemTime) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    if !metadata.is_file() || metadata.len() != from.length {
        return false;
    }
    if !is_told(from, shape) {
        return metadata.modified().is_ok_and(|modified| modified == time);
    }
    etag_of(path, shape).is_ok_and(|etag| etag == from.etag)
}

fn set_time(path: &Path, time: SystemTime) -> io::Result<()> {
    let file = File::open(path)?;
    if file.metadata()?.modified()? == time { Ok(()) } else { file.set_modified(time) }
}

/// The modification time: that of the metadata, or that of the version.
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
