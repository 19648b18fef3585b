//! The refusal of a data directory, with the remedy where permission is missing.

use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{self, Path};

use rustix::process::{getegid, geteuid};
use siltstone::store::OpenError;

use super::CliError;

/// The error of a start that cannot use `dir`. A missing permission is followed by the ids of both sides and the command
/// that gives the directory to the user of this process: in a container this user is often a bare number.
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
