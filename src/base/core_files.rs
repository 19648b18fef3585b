//! Core files, which hold what a process had in memory.

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Makes a crash of this process leave no core file: its memory holds the secrets of users, and the
/// keys of objects and of the data directory.
///
/// # Errors
/// The system refuses the limit.
pub fn forbid_core_files() -> io::Result<()> {
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    Ok(setrlimit(Resource::Core, nothing)?)
}
