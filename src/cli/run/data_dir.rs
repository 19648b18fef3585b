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
use siltstone::disks::{DisksError, OtherUse};
use siltstone::format::FAST_MARK;
use siltstone::fs::{Fs, OsFs, share_disk};
use siltstone::s3::BucketName;
use siltstone::store::{self, FirstStartError, OpenError, StoreOptions};

use crate::cli::config::bucket_specs::{BucketSpec, BucketSpecs};
use crate::cli::config::notes::Notes;
use crate::cli::config::options::{DEFAULT_DATA_DIR, ServerOptions};
use crate::cli::config::sections::Sections;
use crate::cli::error::CliError;

use super::server_secrets::ServerSecrets;

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
    let other = start.mirror_dirs.as_ref().map(|_| &start.unread_side.dir);
    for dir in [&start.data_dir].into_iter().chain(&start.fast_dir).chain(other) {
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

/// Takes the side of a mirror that counts for the data directory. A command that is no server takes the
/// first one where none does; what is to be said about that is returned.
///
/// # Errors
/// The options contradict each other, or the marks say that a server must not start.
pub(crate) fn choose_side(options: &mut ServerOptions, serves: bool) -> Result<Option<String>, CliError> {
    let Some(places) = options.start.mirror_places() else { return Ok(None) };
    let named = &options.start.data_dir;
    let is_side = places.sides.iter().any(|side| side == named);
    if !is_side && named != Path::new(DEFAULT_DATA_DIR) {
        return Err(CliError::usage(format!(
            "--mirror: the data directory {} is none of the two: leave --data-dir out",
            named.display()
        )));
    }
    if options.start.fast_dir.is_some() {
        return Err(CliError::usage(
            "--mirror: a store with a fast directory is not mirrored: leave --fast-dir out",
        ));
    }
    if options.remote.standby && serves {
        return Err(CliError::usage("--mirror: a standby has one directory: leave --mirror out"));
    }
    match options.start.choose_side() {
        Err(error) if serves => Err(CliError::start(error.to_string())),
        Err(error) => {
            Ok(Some(format!("{error}. The files of {} are used", options.start.data_dir.display())))
        }
        Ok(()) => Ok(None),
    }
}

/// Refuses a mirror beside what it is not for.
///
/// # Errors
/// There is a remote, or a witness of no mirror.
pub(crate) fn check_mirror(options: &ServerOptions, sections: &Sections) -> Result<(), CliError> {
    let start = &options.start;
    if start.mirror_dirs.is_none() && start.pair_witness.is_some() {
        return Err(CliError::usage("--pair-witness: it is of use with --mirror alone"));
    }
    if start.mirror_dirs.is_some() && sections.remote.is_some() {
        return Err(CliError::usage(
            "--mirror: a store with a section [remote] is not mirrored by this version",
        ));
    }
    Ok(())
}

/// Warns of a mirror whose disks are no three, and of options that are for one start.
pub(crate) fn warn_of_mirror(options: &ServerOptions) {
    let start = &options.start;
    let Some(places) = start.mirror_places() else { return };
    let [one, other] = &places.sides;
    if share_disk(one, other) {
        warn!(
            "--mirror: {} and {} are on one disk, so that both are lost with it",
            one.display(),
            other.display()
        );
    }
    if let Some(witness) = &places.witness {
        let dir = witness.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if share_disk(dir, one) || share_disk(dir, other) {
            warn!(
                "--pair-witness {}: it is on the disk of a side, and is lost with that one",
                witness.display()
            );
        }
    }
    for (accepts, option) in
        [(start.accept_degraded, "--accept-degraded"), (start.accept_outdated, "--accept-outdated")]
    {
        if accepts {
            warn!("{option} is for one start: leave it out from the next one on");
        }
    }
}

/// Makes the users file and the key ring equal on both sides of a mirror, where they are in it.
///
/// # Errors
/// The side that counts has an older file, and cannot be given the newer one.
pub(crate) fn make_files_level(options: &ServerOptions, secrets: &ServerSecrets) -> Result<(), CliError> {
    let newer_counts = options.start.unread_side.usage == OtherUse::Equal;
    for made in [secrets.users.make_level(newer_counts), secrets.keys.make_level(newer_counts)] {
        made.map_err(CliError::start)?;
    }
    Ok(())
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
