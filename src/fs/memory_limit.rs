//! The memory that the kernel leaves to a process.

use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::mounts::{Mount, mounts_of};

/// A limit of this size is none. Control groups of version 1 show the largest number of pages,
/// which depends on their size (Linux, cgroup-v1/memory.rst), and older kernels the largest signed
/// number.
const UNLIMITED_MIN_BYTES: u64 = 1 << 60;

/// The lowest limit of the memory of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Its size.
    pub bytes: u64,
    /// What sets it.
    pub source: MemoryLimitSource,
}

/// What limits the memory of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryLimitSource {
    /// The memory of the machine.
    Machine,
    /// A file of a control group.
    ControlGroup(PathBuf),
    /// `RLIMIT_AS`.
    AddressSpace,
    /// `RLIMIT_DATA`, which counts all private memory.
    Data,
}

impl MemoryLimitSource {
    /// What raises the limit.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Machine => "give the machine more memory",
            Self::ControlGroup(_) => "raise MemoryMax= of the unit or --memory of the container",
            Self::AddressSpace => "raise LimitAS= of the unit or ulimit -v",
            Self::Data => "raise LimitDATA= of the unit or ulimit -d",
        }
    }
}

impl fmt::Display for MemoryLimitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("the memory of the machine"),
            Self::ControlGroup(file) => write!(f, "{}", file.display()),
            Self::AddressSpace => f.write_str("RLIMIT_AS"),
            Self::Data => f.write_str("RLIMIT_DATA"),
        }
    }
}

/// The lowest limit of the memory of a process: the memory of the machine, the limits of its
/// control groups and of all groups above them, of version 1 or 2 or both, and the process's own.
/// `root` is the root directory; `process` is a directory of `/proc`, as `self`. `None` where the
/// kernel says nothing.
pub fn memory_limit(root: &Path, process: &str) -> Option<MemoryLimit> {
    let proc = root.join("proc");
    let own = text_of(&proc, &format!("{process}/limits"));
    let mut limits = vec![
        (machine_bytes(&text_of(&proc, "meminfo")), MemoryLimitSource::Machine),
        (soft_limit(&own, "Max address space"), MemoryLimitSource::AddressSpace),
        (soft_limit(&own, "Max data size"), MemoryLimitSource::Data),
    ];
    // Groups of another process and mounts are both named as this process sees them.
    let groups = text_of(&proc, &format!("{process}/cgroup"));
    for mount in mounts_of(&text_of(&proc, "self/mountinfo")) {
        for (file, bytes) in group_limits(root, &mount, &groups) {
            limits.push((Some(bytes), MemoryLimitSource::ControlGroup(file)));
        }
    }
    let limits = limits.into_iter().filter_map(|(bytes, source)| Some(MemoryLimit { bytes: bytes?, source }));
    limits.filter(|limit| limit.bytes < UNLIMITED_MIN_BYTES).min_by_key(|limit| limit.bytes)
}

/// A file of `/proc`; empty where it cannot be read, which states no limit.
fn text_of(proc: &Path, name: &str) -> String {
    fs::read_to_string(proc.join(name)).unwrap_or_default()
}

/// The limits of a process in the hierarchy of control groups that is mounted there, with their
/// files.
fn group_limits(root: &Path, mount: &Mount, groups: &str) -> Vec<(PathBuf, u64)> {
    let is_unified = mount.kind == "cgroup2";
    let is_of_memory = mount.kind == "cgroup" && mount.options.iter().any(|option| option == "memory");
    if !is_unified && !is_of_memory {
        return Vec::new();
    }
    let Some(group) = groups.lines().find_map(|line| group_of_line(line, is_unified)) else {
        return Vec::new();
    };
    let mut limits = Vec::new();
    // A group is limited by itself and by each one above it: the strictest counts.
    for (depth, group) in below_mount(Path::new(group), &mount.root).ancestors().enumerate() {
        let point = mount.point.join(group);
        let dir = root.join(point.strip_prefix("/").unwrap_or(&point));
        // Groups of version 1 are not counted in those above them where they are set not to be.
        let is_counted = depth == 0 || number_of(&dir.join("memory.use_hierarchy")) != Some(0);
        let names: &[&str] = match is_unified {
            true => &["memory.max", "memory.high"],
            false if is_counted => &["memory.limit_in_bytes"],
            false => &[],
        };
        for name in names {
            limits.extend(number_of(&dir.join(name)).map(|bytes| (point.join(name), bytes)));
        }
        // It includes groups above the mount, which a container does not see.
        let statistics = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
        let of_all = statistics.lines().find_map(|line| line.strip_prefix("hierarchical_memory_limit "));
        let of_all = of_all.filter(|_| is_counted).and_then(|bytes| bytes.trim().parse().ok());
        limits.extend(of_all.map(|bytes| (point.join("memory.stat"), bytes)));
    }
    limits
}

/// The group of a line of `/proc/self/cgroup`, if it is of the unified hierarchy, or of the one
/// with the memory controller (cgroups(7)).
fn group_of_line(line: &str, is_unified: bool) -> Option<&str> {
    let mut fields = line.splitn(3, ':');
    let id = fields.next()?;
    let controllers = fields.next()?;
    let group = fields.next()?;
    let is_meant = match is_unified {
        true => id == "0" && controllers.is_empty(),
        false => controllers.split(',').any(|controller| controller == "memory"),
    };
    is_meant.then_some(group)
}

/// The place of a group below the point of a mount with that root. A group that is not below the
/// root belongs to another namespace; what is mounted is then the closest that can be seen.
fn below_mount<'a>(group: &'a Path, root: &Path) -> &'a Path {
    match group.strip_prefix(root) {
        Ok(below) if below.components().all(|part| matches!(part, Component::Normal(_))) => below,
        _ => Path::new(""),
    }
}

fn number_of(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The total memory in `/proc/meminfo` (proc_meminfo(5)).
fn machine_bytes(info: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// A soft limit in `/proc/self/limits` (proc_pid_limits(5)).
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::base::limits::{GIB, MIB};

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:  1 kB\n");
    const V1: &str = "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs rw\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const V2: &str = "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    /// On pages of 4 and 64 KiB, and of older kernels.
    const NO_LIMITS: [&str; 3] = ["9223372036854771712", "9223372036854710272", "9223372036854775807"];

    fn tree(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn limit_in(files: &[(&str, &str)]) -> Option<(u64, String)> {
        let limit = memory_limit(tree(files).path(), "self");
        limit.map(|limit| (limit.bytes, limit.source.to_string()))
    }

    fn limit(bytes: u64, source: &str) -> Option<(u64, String)> {
        Some((bytes, source.to_owned()))
    }

    #[test]
    fn the_machine_alone_limits_and_nothing_is_known_without_it() {
        assert_eq!(limit_in(&[MEMINFO]), limit(8 * GIB, "the memory of the machine"));
        assert_eq!(limit_in(&[]), None);
        assert_eq!(limit_in(&[("proc/meminfo", "MemFree: 1 kB\n")]), None);
        assert!(memory_limit(Path::new("/"), "self").is_some());
    }

    #[test]
    fn groups_of_version_1_are_found_by_their_controller() {
        let groups = ("proc/self/cgroup", "5:cpuacct,memory:/nas/a:b\n3:cpu:/tight\n0::/\n");
        let mounts = ("proc/self/mountinfo", V1);
        let own = "sys/fs/cgroup/memory/nas/a:b/memory.limit_in_bytes";
        let is = |more: &[(&str, &str)]| limit_in(&[&[MEMINFO, groups, mounts], more].concat());
        assert_eq!(is(&[(own, "100663296\n")]), limit(96 * MIB, &format!("/{own}")));
        for unlimited in NO_LIMITS {
            assert_eq!(is(&[(own, unlimited)]), limit(8 * GIB, "the memory of the machine"), "{unlimited}");
        }
        let parent = "sys/fs/cgroup/memory/nas/memory.limit_in_bytes";
        assert_eq!(is(&[(own, NO_LIMITS[0]), (parent, "1048576")]), limit(MIB, &format!("/{parent}")));
        let apart = ("sys/fs/cgroup/memory/nas/memory.use_hierarchy", "0\n");
        assert_eq!(is(&[(own, "2097152"), (parent, "1048576"), apart]), limit(2 * MIB, &format!("/{own}")));
        let other = ("sys/fs/cgroup/memory/tight/memory.limit_in_bytes", "4096");
        assert_eq!(is(&[(own, "2097152"), other]), limit(2 * MIB, &format!("/{own}")));
    }

    #[test]
    fn a_limit_above_the_mount_of_a_container_counts() {
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/docker/abc/inner\n"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "8388608"),
            ("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", NO_LIMITS[0]),
        ];
        assert_eq!(limit_in(&files), limit(8 * MIB, "/sys/fs/cgroup/memory/memory.limit_in_bytes"));
        let above =
            ("sys/fs/cgroup/memory/inner/memory.stat", "cache 0\nhierarchical_memory_limit 4194304\n");
        let both = [&files[..], &[above]].concat();
        assert_eq!(limit_in(&both), limit(4 * MIB, "/sys/fs/cgroup/memory/inner/memory.stat"));
        let foreign = [&files[..1], &[("proc/self/cgroup", "4:memory:/../other\n")], &files[2..]].concat();
        assert_eq!(limit_in(&foreign), limit(8 * MIB, "/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    }

    #[test]
    fn of_version_2_the_maximum_and_the_high_mark_of_each_group_count() {
        let base =
            [MEMINFO, ("proc/self/cgroup", "0::/system.slice/s.service\n"), ("proc/self/mountinfo", V2)];
        let is = |more: &[(&str, &str)]| limit_in(&[&base[..], more].concat());
        let own = ("sys/fs/cgroup/system.slice/s.service/memory.max", "max\n");
        assert_eq!(is(&[own]), limit(8 * GIB, "the memory of the machine"));
        let slice = ("sys/fs/cgroup/system.slice/memory.max", "134217728\n");
        assert_eq!(is(&[own, slice]), limit(128 * MIB, "/sys/fs/cgroup/system.slice/memory.max"));
        let high = ("sys/fs/cgroup/system.slice/s.service/memory.high", "67108864\n");
        assert_eq!(
            is(&[own, slice, high]),
            limit(64 * MIB, "/sys/fs/cgroup/system.slice/s.service/memory.high")
        );
        // A container in a namespace of its own.
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/memory.max", "33554432\n"),
        ];
        assert_eq!(limit_in(&files), limit(32 * MIB, "/sys/fs/cgroup/memory.max"));
    }

    #[test]
    fn of_both_versions_the_lower_limit_counts() {
        let base = [
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/old\n0::/new\n"),
            ("proc/self/mountinfo", V1),
            ("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "100663296\n"),
        ];
        let old = "/sys/fs/cgroup/memory/old/memory.limit_in_bytes";
        assert_eq!(limit_in(&base), limit(96 * MIB, old));
        let with =
            |bytes| limit_in(&[&base[..], &[("sys/fs/cgroup/unified/new/memory.max", bytes)]].concat());
        assert_eq!(with("200663296"), limit(96 * MIB, old));
        assert_eq!(with("50331648"), limit(48 * MIB, "/sys/fs/cgroup/unified/new/memory.max"));
    }

    #[test]
    fn the_limits_of_the_process_itself_count() {
        let limits = |space: &str, data: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max data size             {data}            unlimited            bytes     \n\
                 Max address space         {space}            unlimited            bytes     \n"
            )
        };
        let is = |space: &str, data: &str| limit_in(&[MEMINFO, ("proc/self/limits", &limits(space, data))]);
        assert_eq!(is("unlimited", "unlimited"), limit(8 * GIB, "the memory of the machine"));
        assert_eq!(is("419430400", "unlimited"), limit(400 * MIB, "RLIMIT_AS"));
        assert_eq!(is("419430400", "104857600"), limit(100 * MIB, "RLIMIT_DATA"));
    }
}
