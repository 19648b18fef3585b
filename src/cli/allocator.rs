//! Keeps the allocator of the C library from holding on to what was given back to it.
//!
//! glibc has eight arenas for each processor, and moves the size above which memory goes back to the system at once up to
//! the largest that it has seen. A siege for which the server reserves 64 MiB at the most takes up 101 MiB of the system with
//! that, 37 with few arenas and both thresholds at 128 KiB, and 99 to 114 with mimalloc. Thresholds as low as that have
//! each listing map its pages anew, so they are higher here, and workers that share too few arenas wait for each other: the
//! siege takes 44 MiB with two arenas, 51 with eight and 59 with sixteen, and a small GET 36, 29 and 28 us of processor. A test
//! holds that the ceiling is kept. glibc reads its settings from the environment when a process begins, so the server begins
//! twice.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Places where threads allocate, each with a lock that a thread may lose its processor with.
const ARENAS: u32 = 8;
/// What is smaller comes from an arena, where it finds its pages again: documents and the buffers of bodies among it
/// (mallopt(3), "M_MMAP_THRESHOLD").
const MAPPED_MIN_BYTES: u32 = 1024 * 1024;
/// More than that at the end of an arena goes back to the system (mallopt(3), "M_TRIM_THRESHOLD").
const KEPT_MAX_BYTES: u32 = 4 * 1024 * 1024;

/// Begins the process anew, with the same arguments and the same number, unless the settings are there already; those of an
/// operator stay. `is_set` knows the environment. Returns where there is nothing to be done, or it cannot be done, which is
/// no reason not to serve.
pub(crate) fn settle(mut arguments: impl Iterator<Item = OsString>, is_set: impl Fn(&str) -> bool) {
    if !cfg!(target_env = "gnu") {
        return;
    }
    let missing: Vec<_> = settings().into_iter().filter(|(name, _)| !is_set(name)).collect();
    let name = arguments.next().unwrap_or_else(|| OsString::from("siltstone"));
    if let (false, Ok(program)) = (missing.is_empty(), env::current_exe()) {
        // Only a failure comes back.
        let _ = Command::new(program).arg0(name).args(arguments).envs(missing).exec();
    }
}

fn settings() -> [(&'static str, String); 3] {
    [
        ("MALLOC_ARENA_MAX", ARENAS.to_string()),
        ("MALLOC_MMAP_THRESHOLD_", MAPPED_MIN_BYTES.to_string()),
        ("MALLOC_TRIM_THRESHOLD_", KEPT_MAX_BYTES.to_string()),
    ]
}
