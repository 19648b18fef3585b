//! The directories of the store and their disks, as the console shows them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use siltstone::fs::{Fs as _, OsFs, absolute, mount_of};
use siltstone::service::{DiskDirectory, DiskRole};

use super::mirrored_sides::RunningMirror;
use crate::cli::config::options::StartOptions;

/// The directories of a store.
pub(crate) enum StoreDisks {
    Mirrored(Arc<RunningMirror>),
    Own { data: PathBuf, fast: Option<PathBuf> },
}

impl StoreDisks {
    /// Those of a store with these options.
    pub(crate) fn of(start: &StartOptions, mirror: Option<&Arc<RunningMirror>>) -> Self {
        match mirror {
            Some(mirror) => Self::Mirrored(Arc::clone(mirror)),
            None => Self::Own { data: start.data_dir.clone(), fast: start.fast_dir.clone() },
        }
    }

    /// The directories, as they are now.
    pub(crate) fn described(&self) -> Vec<DiskDirectory> {
        match self {
            Self::Own { data, fast } => {
                let mut directories = vec![used(DiskRole::Data, data)];
                directories.extend(fast.as_ref().map(|fast| used(DiskRole::Fast, fast)));
                directories
            }
            Self::Mirrored(mirror) => {
                let sides = mirror.figures().sides.into_iter();
                // In the place of one that is out may be the file system below it.
                let described = sides.map(|side| match side.state {
                    "out" => unused(DiskRole::Side(side.letter), Path::new(&side.dir)),
                    _ => used(DiskRole::Side(side.letter), Path::new(&side.dir)),
                });
                described.collect()
            }
        }
    }
}

fn unused(role: DiskRole, dir: &Path) -> DiskDirectory {
    let dir = dir.display().to_string();
    DiskDirectory { role, dir, file_system: String::new(), space: None }
}

fn used(role: DiskRole, dir: &Path) -> DiskDirectory {
    let space = OsFs::new(dir).space().ok().map(|space| (space.free_bytes, space.total_bytes));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = absolute(dir).map(|dir| mount_of(&mounts, &dir)).unwrap_or_default();
    let file_system = match mount.kind.is_empty() {
        true => String::new(),
        false => format!("{} on {}", mount.kind, mount.source),
    };
    DiskDirectory { file_system, space, ..unused(role, dir) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_space_and_a_file_system() {
        let disks = StoreDisks::Own { data: "/proc/self".into(), fast: Some("/no/such/directory".into()) };
        let [data, fast] = &disks.described()[..] else { panic!("there are two") };
        assert!(data.file_system.starts_with("proc on "), "{data:?}");
        assert_eq!((data.role, data.dir.as_str()), (DiskRole::Data, "/proc/self"));
        assert!(data.space.is_some() && fast.space.is_none(), "{data:?} {fast:?}");
    }
}
