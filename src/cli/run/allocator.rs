//! Settings of the glibc allocator that return freed memory to the system.
//!
//! By default glibc has eight arenas for each processor, and raises the size from which freed
//! memory is returned at once up to the largest allocation so far. Under load, a server that
//! reserves at most 64 MiB then takes 101 MiB of the system. It takes 37 MiB with few arenas and
//! both thresholds at 128 KiB, and 99 to 114 MiB with mimalloc. With thresholds as low as that each
//! listing maps its pages again, so they are higher here. Workers that share too few arenas wait
//! for each other: the same load takes 44 MiB with two arenas, 51 with eight and 59 with sixteen,
//! and a small GET takes 36, 29 and 28 us of processor time. A test checks the limit. glibc reads
//! its settings from the environment when a process starts, so the server starts itself again.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Arenas, each with a lock.
const ARENAS: u32 = 8;
/// Smaller allocations come from an arena, whose pages stay mapped: among them documents and the
/// buffers of bodies (mallopt(3), "M_MMAP_THRESHOLD").
const MAPPED_MIN_BYTES: u32 = 1024 * 1024;
/// Free memory at the end of an arena beyond this is returned to the system (mallopt(3),
/// "M_TRIM_THRESHOLD").
const KEPT_MAX_BYTES: u32 = 4 * 1024 * 1024;

/// Executes the program again in the same process, with the same arguments, unless the settings are
/// present already. Settings of the operator are kept. `is_set` knows the environment. Returns if
/// nothing needs to be done or if the execution fails; the server then runs without the settings.
pub(crate) fn restart_configured(
    mut arguments: impl Iterator<Item = OsString>,
    is_set: impl Fn(&str) -> bool,
) {
    if !cfg!(target_env = "gnu") {
        return;
    }
    let missing: Vec<_> = settings().into_iter().filter(|(name, _)| !is_set(name)).collect();
    let name = arguments.next().unwrap_or_else(|| OsString::from("siltstone"));
    if !missing.is_empty()
        && let Ok(program) = env::current_exe()
    {
        // `exec` returns only on an error.
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
