//! The data directory before its first start, and its refusal, with the remedy where permission is
//! missing.

use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{self, Path, PathBuf};

use bytesize::ByteSize;
use log::warn;
use rustix::process::{getegid, geteuid};
use siltstone::base::limits::MIB;
use siltstone::disks::DisksError;
use siltstone::format::FAST_MARK;
use siltstone::fs::{Fs, OsFs};
use siltstone::s3::BucketName;
use siltstone::store::{self, FirstStartError, OpenError, StoreOptions};

use crate::cli::config::bucket_specs::{BucketSpec, BucketSpecs};
use crate::cli::config::notes::Notes;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;

/// The size below which a file system is worth a warning: the reserve takes more than half of it.
const SMALL_DISK_BYTES: u64 = 128 * MIB;

/// Checks whether the directories have a store, or may get one. Nothing is written before.
///
/// # Errors
/// What was found, and what to do.
pub(crate) fn check_first_start(options: &ServerOptions) -> Result<(), CliError> {
    let start = &options.start;
    match start.directories().open() {
        // There are two, and no store in either.
        Err(DisksError::NoStore) => {}
        Err(error) => {
            return Err(CliError::start(format!("cannot use {}: {error}", start.data_dir.display())));
        }
        Ok(_) => return check_directory(options, &start.data_dir),
    }
    for dir in [&start.data_dir].into_iter().chain(&start.fast_dir) {
        check_directory(options, dir)?;
    }
    Ok(())
}

fn check_directory(options: &ServerOptions, dir: &Path) -> Result<(), CliError> {
    let files = options.files().filter_map(|file| name_within(file, dir));
    let of_store = [FAST_MARK.to_owned()];
    let known: Vec<_> =
        files.chain(options.start.bucket_directories.iter().cloned()).chain(of_store).collect();
    match store::check_first_start(&OsFs::new(dir), options.start.create, &known) {
        Ok(()) => Ok(()),
        Err(FirstStartError::Io(error)) => Err(refusal(dir, &OpenError::Io(error))),
        Err(error) => Err(CliError::start(format!("cannot use {}: {error}", dir.display()))),
    }
}

/// Makes the empty directories of a data directory without a store buckets to make: the entry
/// points of compose files make buckets by `mkdir -p /data/NAME && minio server /data`.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn take_bucket_directories(
    options: &mut ServerOptions,
    notes: &mut Notes,
) -> Result<(), CliError> {
    let found = store::empty_directories(&OsFs::new(&options.start.data_dir))
        .map_err(|error| refusal(&options.start.data_dir, &OpenError::Io(error)))?;
    for name in found {
        if BucketName::new(&name).is_err() {
            continue;
        }
        notes.info(format!("the empty directory {name} is a bucket to make, as in MinIO"));
        if !options.start.bucket.iter().any(|specs| specs.names(&name)) {
            options.start.bucket.push(BucketSpecs(vec![BucketSpec::plain(&name)]));
        }
        options.start.bucket_directories.push(name);
    }
    Ok(())
}

/// Warns of a file system of which the reserve leaves puts little or nothing. It is no reason to
/// refuse the start: reads and deletes need no more.
pub(crate) fn warn_of_small_disk(dir: &Path) {
    // A file system that does not tell is not small for all that is known.
    let total = OsFs::new(dir).space().map_or(u64::MAX, |space| space.total_bytes);
    if let Some(told) = small_disk(total) {
        warn!("{}: {told}", dir.display());
    }
}

fn small_disk(total_bytes: u64) -> Option<String> {
    let kept = StoreOptions::default().keep_free_bytes;
    (total_bytes < SMALL_DISK_BYTES).then(|| {
        format!(
            "the file system has {} in all, of which {} stay free so that everything can be deleted on a full disk, so puts get 507 \
             soon, or from the first one on: give it 256 MiB at least",
            ByteSize(total_bytes),
            ByteSize(kept)
        )
    })
}

/// The name of the entry of `dir` that is `file`, or that `file` is below.
fn name_within(file: &Path, dir: &Path) -> Option<String> {
    let file = absolute(file)?;
    let dir = absolute(dir)?;
    let first = file.strip_prefix(dir).ok()?.components().next()?;
    Some(first.as_os_str().to_string_lossy().into_owned())
}

fn absolute(path: &Path) -> Option<PathBuf> {
    path.canonicalize().or_else(|_| path::absolute(path)).ok()
}

/// The error of a start that cannot use `dir`. A missing permission is followed by the ids of both
/// sides and the command that gives the directory to the user of this process: in a container this
/// user is often a bare number.
pub(crate) fn refusal(dir: &Path, error: &OpenError) -> CliError {
    let is_denied = matches!(error, OpenError::Io(e) if e.kind() == ErrorKind::PermissionDenied);
    let process = Owner { uid: geteuid().as_raw(), gid: getegid().as_raw() };
    let remedy = if is_denied { remedy(dir, &process) } else { String::new() };
    CliError::start(format!("cannot use {}: {error}{remedy}", dir.display()))
}

/// The user and the group of a file or a process.
struct Owner {
    uid: u32,
    gid: u32,
}

impl Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "uid {}, gid {}", self.uid, self.gid)
    }
}

/// The sentences after the error. They show the directory, or the closest parent that exists.
fn remedy(dir: &Path, process: &Owner) -> String {
    let dir = path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let found = dir.ancestors().find_map(|path| Some((path, fs::metadata(path).ok()?)));
    let Some((path, metadata)) = found else { return String::new() };
    let owner = Owner { uid: metadata.uid(), gid: metadata.gid() };
    let create = if path == dir { String::new() } else { format!("mkdir -p {} && ", dir.display()) };
    format!(
        ". The server runs as {process}; {} belongs to {owner} and has mode {:o}. As root, run: {create}chown -R {}:{} {}",
        path.display(),
        metadata.mode() & 0o7777,
        process.uid,
        process.gid,
        dir.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_is_mostly_reserve_is_told() {
        assert_eq!(small_disk(SMALL_DISK_BYTES), None);
        let told = small_disk(80 * MIB).unwrap();
        assert!(told.contains("80.0 MiB in all, of which 64.0 MiB stay free"), "{told}");
        assert!(2 * StoreOptions::default().keep_free_bytes <= SMALL_DISK_BYTES);
    }
}
