//! The mounts of a process (Linux, proc_pid_mountinfo(5)).

use std::path::{Path, PathBuf};

/// A mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mount {
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// The type of the file system, as `ext4`.
    pub kind: String,
    /// Its device, or another source.
    pub source: String,
    /// The options of the mount and of the file system.
    pub options: Vec<String>,
}

/// The mounts of the lines of `mountinfo`. Lines of another form are skipped.
pub fn mounts_of(lines: &str) -> impl Iterator<Item = Mount> {
    lines.lines().filter_map(mount_of_line)
}

/// The mount with the longest point that `dir` is below, of the lines of `mountinfo`. The last one
/// hides the others.
pub fn mount_of(lines: &str, dir: &Path) -> Mount {
    let above = mounts_of(lines).filter(|mount| dir.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count()).unwrap_or_default()
}

/// Its fields are: ID, parent, device, root, point, options, any number of tags, a hyphen, type,
/// source, options of the file system.
fn mount_of_line(line: &str) -> Option<Mount> {
    let (of_mount, of_file_system) = line.split_once(" - ")?;
    let mut of_mount = of_mount.split(' ').skip(3);
    let root = unescape(of_mount.next()?);
    let point = unescape(of_mount.next()?);
    let own_options = of_mount.next()?;
    let mut of_file_system = of_file_system.split(' ');
    let kind = of_file_system.next()?;
    let source = unescape(of_file_system.next().unwrap_or_default());
    let further_options = of_file_system.next().unwrap_or_default();
    let options = own_options.split(',').chain(further_options.split(','));
    Some(Mount {
        root,
        point,
        kind: kind.to_owned(),
        source: source.display().to_string(),
        options: options.map(str::to_owned).collect(),
    })
}

/// A path without the octal escapes of the kernel.
fn unescape(path: &str) -> PathBuf {
    let mut plain = path.to_owned();
    // The backslash comes last: it may stand before digits.
    for (escaped, character) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        plain = plain.replace(escaped, character);
    }
    PathBuf::from(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_their_tags_and_escapes() {
        let lines = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n\
                     35 31 0:32 /docker/a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                     36 31 0:33 / /my\\040disk\\134040 rw master:2 propagate_from:3 - nfs4 host:/x rw\n\
                     no mount\n\
                     1 2 3 / /half - ext4";
        let mounts: Vec<_> = mounts_of(lines).collect();
        assert_eq!(mounts.len(), 3, "{mounts:?}");
        assert_eq!(mounts[0].options, ["rw", "relatime", "rw", "errors=remount-ro"]);
        assert_eq!((mounts[0].source.as_str(), mounts[2].source.as_str()), ("/dev/sda1", "host:/x"));
        assert_eq!((mounts[1].root.as_path(), mounts[1].kind.as_str()), ("/docker/a".as_ref(), "cgroup"));
        assert_eq!(mounts[2].point, PathBuf::from("/my disk\\040"));
    }
}
