//! What a directory holds before a store is made in it. Where a store was expected, or something
//! else is, none is made: another program would share the directory, or an empty store would stand
//! in for a disk that is not mounted.

use std::io;

use thiserror::Error;

use crate::format::{
    ASIDE, CLOCK, EPOCH, FileKind, HISTORY, LOCK, RECLAIM, RETURN, SCRUB, STANDBY, unfinished,
};
use crate::fs::{DirEntry, OsFs};
use crate::log;

/// Whether a start may make a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreCreation {
    /// Where there is nothing yet.
    #[default]
    Auto,
    /// Not at all: the store is there, or the start is refused.
    Never,
}

/// The reason why no store is made in a directory.
#[derive(Debug, Error)]
pub enum FirstStartError {
    /// A store was expected.
    #[error(
        "there is no store in it, and --create never forbids to make one. If it is a mount point, the disk may not be mounted"
    )]
    NoStore,
    /// It holds something else.
    #[error("it is not empty, and holds no store: {what}. Nothing was changed. {remedy}")]
    Foreign {
        /// What was found.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The name of the program whose drives are read by `siltstone-tools import minio:DIR`.
const MINIO: &str = "MinIO";

/// A program that keeps its data in such a directory.
struct ForeignProgram {
    name: &'static str,
    /// Entries of the directory, any of which gives it away.
    marks: &'static [&'static str],
    /// Ends of the names of files that give it away.
    suffixes: &'static [&'static str],
}

const PROGRAMS: [ForeignProgram; 5] = [
    ForeignProgram { name: MINIO, marks: &[".minio.sys"], suffixes: &[] },
    ForeignProgram { name: "RustFS", marks: &[".rustfs.sys"], suffixes: &[] },
    ForeignProgram {
        name: "Garage",
        marks: &["garage-marker", "cluster_layout", "db.lmdb", "db.sqlite", "node_key", "peer_list"],
        suffixes: &[],
    },
    ForeignProgram {
        name: "SeaweedFS",
        marks: &["vol_dir.uuid", "filerldb2", "filerldb3"],
        suffixes: &[".vif", ".ecx"],
    },
    ForeignProgram { name: "Ceph", marks: &["ceph_fsid", "whoami", "kv_backend"], suffixes: &[] },
];

/// The file with the metadata of an object of MinIO or RustFS, below its bucket and key.
const OBJECT_METADATA: &str = "xl.meta";
/// How deep, and among how many entries, it is looked for.
const SEARCH_DEPTH: usize = 4;
const SEARCH_ENTRIES_MAX: usize = 2_000;

/// What file systems, storage boxes and desktops make, and placeholders of repositories.
const OF_SYSTEMS: [&str; 24] = [
    "lost+found",
    ".zfs",
    ".snapshot",
    ".snapshots",
    "~snapshot",
    "#snapshot",
    "@eaDir",
    "@Recycle",
    "@Recently-Snapshot",
    "#recycle",
    "$RECYCLE.BIN",
    "System Volume Information",
    ".DS_Store",
    ".AppleDouble",
    ".Spotlight-V100",
    ".TemporaryItems",
    ".Trashes",
    ".fseventsd",
    ".directory",
    "Thumbs.db",
    "desktop.ini",
    ".gitkeep",
    ".gitignore",
    ".keep",
];
const PREFIXES_OF_SYSTEMS: [&str; 5] = [".Trash-", "._", ".nfs", ".@__thumb", ".fuse_hidden"];

/// The ends of the names of files that operators put there before the first start.
const SUFFIXES_OF_OPERATORS: [&str; 8] =
    [".toml", ".toml.new", ".pem", ".crt", ".cer", ".key", ".env", ".log"];
/// Parts of the names of files with keys.
const PARTS_OF_KEY_NAMES: [&str; 3] = ["key", "secret", "password"];

/// What a standby leaves beside its store.
const OF_STANDBYS: [&str; 4] = [ASIDE, "promote", "promote.refused", "promote.waiting"];

/// How many strangers a refusal names.
const NAMED_MAX: usize = 3;

/// Checks whether a store is in a directory, or may be made there. `known` are names of files and
/// directories that the configuration puts there.
/// Nothing is written.
///
/// # Errors
/// The reason why none may be made.
pub fn check_first_start(
    disk: &OsFs,
    creation: StoreCreation,
    known: &[String],
) -> Result<(), FirstStartError> {
    let entries = match disk.entries("") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries?,
    };
    if holds_store(disk, &entries)? {
        return Ok(());
    }
    if creation == StoreCreation::Never {
        return Err(FirstStartError::NoStore);
    }
    let strangers: Vec<_> = entries.iter().filter(|entry| !is_expected(disk, entry, known)).collect();
    if strangers.is_empty() {
        return Ok(());
    }
    Err(refusal(disk, &entries, &strangers))
}

/// The names of the empty directories in a directory where a store has still to be made. MinIO
/// takes those for buckets.
///
/// # Errors
/// The directory cannot be read.
pub fn empty_directories(disk: &OsFs) -> io::Result<Vec<String>> {
    let entries = match disk.entries("") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    // A first start that was cut off leaves its own directories beside its lock.
    let is_begun = entries.iter().any(|entry| entry.name == LOCK);
    let mut empty = Vec::new();
    for entry in &entries {
        let is_own = is_begun && FileKind::ALL.iter().any(|kind| kind.dir() == entry.name);
        if entry.is_dir && !is_own && disk.entries(&entry.name)?.is_empty() {
            empty.push(entry.name.clone());
        }
    }
    // The files of a store are many, and most have no such directory beside them.
    if !empty.is_empty() && holds_store(disk, &entries)? {
        return Ok(Vec::new());
    }
    Ok(empty)
}

/// Whether any file says that there is a store, be it damaged or one of a standby.
fn holds_store(disk: &OsFs, entries: &[DirEntry]) -> io::Result<bool> {
    // A standby that was cut off while it filled its directory has the mark, and no file of a store
    // yet.
    if entries.iter().any(|entry| entry.name == STANDBY && !entry.is_dir) {
        return Ok(true);
    }
    log::holds_store(disk)
}

/// Whether an entry does not speak against a first start.
fn is_expected(disk: &OsFs, entry: &DirEntry, known: &[String]) -> bool {
    let name = entry.name.as_str();
    if OF_STANDBYS.contains(&name)
        || OF_SYSTEMS.contains(&name)
        || PREFIXES_OF_SYSTEMS.iter().any(|prefix| name.starts_with(prefix))
    {
        return true;
    }
    if known.iter().any(|known| known == name) {
        return true;
    }
    if entry.is_dir {
        return FileKind::ALL.iter().any(|kind| kind.dir() == name) && is_begun(disk, name);
    }
    let is_key = PARTS_OF_KEY_NAMES.iter().any(|part| name.to_ascii_lowercase().contains(part));
    name == LOCK
        || SUFFIXES_OF_OPERATORS.iter().any(|suffix| name.ends_with(suffix))
        || is_key && !PROGRAMS.iter().any(|program| program.is_mark(entry))
}

/// Whether a directory of a store holds no more than a first start or a restore leaves when it is
/// cut off: files that are not finished, and notes.
fn is_begun(disk: &OsFs, dir: &str) -> bool {
    disk.entries(dir).is_ok_and(|entries| entries.iter().all(|entry| is_of_beginning(dir, entry)))
}

/// Whether an entry of such a directory is a file that is not finished, or a note.
fn is_of_beginning(dir: &str, entry: &DirEntry) -> bool {
    let path = format!("{dir}/{}", entry.name);
    let is_note = [SCRUB, RECLAIM, EPOCH, CLOCK, HISTORY, RETURN].contains(&path.as_str());
    !entry.is_dir && (is_note || entry.name.ends_with(&unfinished("")))
}

impl ForeignProgram {
    fn is_mark(&self, entry: &DirEntry) -> bool {
        self.marks.contains(&entry.name.as_str())
            || !entry.is_dir && self.suffixes.iter().any(|suffix| entry.name.ends_with(suffix))
    }
}

fn refusal(disk: &OsFs, entries: &[DirEntry], strangers: &[&DirEntry]) -> FirstStartError {
    for program in &PROGRAMS {
        if let Some(mark) = entries.iter().find(|entry| program.is_mark(entry)) {
            let what = format!("`{}` is of {}", mark.name, program.name);
            return if program.name == MINIO { of_drives(&what) } else { of_server(&what) };
        }
    }
    if let Some(path) = object_metadata(disk, strangers) {
        return of_drives(&format!("`{path}` is an object of MinIO or RustFS"));
    }
    let named: Vec<_> = strangers.iter().take(NAMED_MAX).map(|entry| format!("`{}`", entry.name)).collect();
    let others = match strangers.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let remedy = "Name an empty directory with --data-dir. To take over files, run \
                  `siltstone-tools --data-dir NEW import DIR BUCKET --offline`";
    let what = format!("there is {}{others}", named.join(", "));
    FirstStartError::Foreign { what, remedy: remedy.to_owned() }
}

/// A directory whose files can be read without the server that wrote them.
fn of_drives(what: &str) -> FirstStartError {
    let remedy = "Name an empty directory with --data-dir. To move in, run `siltstone-tools --data-dir NEW import \
                  minio:DIR --offline`; where there are several drives, all of them: minio:DIR1,DIR2";
    FirstStartError::Foreign { what: what.to_owned(), remedy: remedy.to_owned() }
}

fn of_server(what: &str) -> FirstStartError {
    let remedy = "Name an empty directory with --data-dir. To move in, start that server again and run for each bucket \
                  `siltstone-tools --data-dir NEW import s3://BUCKET BUCKET --endpoint URL --offline`";
    FirstStartError::Foreign { what: what.to_owned(), remedy: remedy.to_owned() }
}

/// The path of a file with the metadata of an object below the strangers. The search is bounded.
fn object_metadata(disk: &OsFs, strangers: &[&DirEntry]) -> Option<String> {
    let mut dirs: Vec<String> =
        strangers.iter().filter(|entry| entry.is_dir).map(|entry| entry.name.clone()).collect();
    let mut seen = 0;
    while let Some(dir) = dirs.pop() {
        for entry in disk.entries(&dir).unwrap_or_default() {
            seen += 1;
            let path = format!("{dir}/{}", entry.name);
            if entry.name == OBJECT_METADATA && !entry.is_dir {
                return Some(path);
            }
            if entry.is_dir && path.matches('/').count() < SEARCH_DEPTH {
                dirs.push(path);
            }
        }
        // The search only makes a refusal more helpful: a start on a large directory is not to wait
        // for it.
        if seen > SEARCH_ENTRIES_MAX {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn check(dir: &Path, creation: StoreCreation) -> Result<(), String> {
        let known = ["my-users".to_owned()];
        check_first_start(&OsFs::new(dir), creation, &known).map_err(|error| error.to_string())
    }

    fn make(dir: &Path, path: &str) {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    fn names(dir: &Path) -> Vec<String> {
        OsFs::new(dir).entries("").unwrap().into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn foreign_directories_are_refused_by_what_is_in_them_and_stay_as_they_are() {
        for (path, named) in [
            (".minio.sys/format.json", "`.minio.sys` is of MinIO"),
            (".minio.sys/format.json", "import minio:DIR --offline"),
            (".rustfs.sys/format.json", "import s3://BUCKET BUCKET --endpoint URL"),
            (".rustfs.sys/format.json", "`.rustfs.sys` is of RustFS"),
            ("photos/2026/cat.jpg/xl.meta", "`photos/2026/cat.jpg/xl.meta` is an object of MinIO or RustFS"),
            ("data/cat.jpg/xl.meta", "`data/cat.jpg/xl.meta`"),
            ("garage-marker", "`garage-marker` is of Garage"),
            ("node_key", "`node_key` is of Garage"),
            ("vol_dir.uuid", "`vol_dir.uuid` is of SeaweedFS"),
            ("photos_1.vif", "is of SeaweedFS"),
            ("ceph_fsid", "is of Ceph"),
            ("meta/cluster_layout", "there is `meta`"),
            ("data/photo.jpg", "there is `data`"),
            ("letter.txt", "there is `letter.txt`"),
            ("photos/cat.jpg", "import DIR BUCKET --offline"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            make(dir.path(), path);
            make(dir.path(), "users.toml");
            let before = names(dir.path());
            let refused = check(dir.path(), StoreCreation::Auto).unwrap_err();
            assert!(refused.contains(named), "{path}: {refused}");
            assert_eq!(names(dir.path()), before);
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c", "d", "e"] {
            make(dir.path(), name);
        }
        let refused = check(dir.path(), StoreCreation::Auto).unwrap_err();
        assert!(refused.contains("there is `a`, `b`, `c` and 2 more"), "{refused}");
    }

    #[test]
    fn what_systems_and_operators_put_there_does_not_keep_a_store_from_being_made() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(check(&dir.path().join("missing"), StoreCreation::Auto), Ok(()));
        assert_eq!(check(dir.path(), StoreCreation::Auto), Ok(()));
        let of_systems =
            ["lost+found/x", ".zfs/snapshot/x", "@eaDir/x", "#recycle/x", ".Trash-1000/x", "._users.toml"];
        let of_operators =
            ["users.toml", "users.toml.new", "siltstone.toml", "tls.pem", "tls.key", "remote.key"];
        let of_standbys = ["aside/x", "promote.waiting"];
        for path in of_systems.into_iter().chain(of_operators).chain(of_standbys).chain([
            ".DS_Store",
            "my-users",
            "secret_key",
        ]) {
            make(dir.path(), path);
        }
        assert_eq!(check(dir.path(), StoreCreation::Auto), Ok(()));
        fs::remove_file(dir.path().join("my-users")).unwrap();
        make(dir.path(), "my-users/users.toml");
        assert_eq!(check(dir.path(), StoreCreation::Auto), Ok(()));
    }

    #[test]
    fn empty_directories_count_until_there_is_a_store() {
        let dir = tempfile::tempdir().unwrap();
        let empty = || {
            let mut names = empty_directories(&OsFs::new(dir.path())).unwrap();
            names.sort();
            names
        };
        assert_eq!(empty_directories(&OsFs::new(dir.path().join("missing"))).unwrap(), [""; 0]);
        for name in ["photos", "data", "meta"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        make(dir.path(), "used/file");
        make(dir.path(), "users.toml");
        assert_eq!(empty(), ["data", "meta", "photos"]);
        make(dir.path(), LOCK);
        assert_eq!(empty(), ["photos"]);
        make(dir.path(), "meta/0000000000000001.log");
        assert_eq!(empty(), [""; 0]);
    }

    #[test]
    fn a_first_start_that_was_cut_off_goes_on_wherever_it_ended() {
        let dir = tempfile::tempdir().unwrap();
        let steps: [&dyn Fn(); 5] = [
            &|| make(dir.path(), LOCK),
            &|| fs::create_dir(dir.path().join("data")).unwrap(),
            &|| make(dir.path(), CLOCK),
            &|| make(dir.path(), "meta/0000000000000001.log.new"),
            &|| make(dir.path(), "users.toml.new"),
        ];
        for step in steps {
            step();
            assert_eq!(check(dir.path(), StoreCreation::Auto), Ok(()));
            assert!(check(dir.path(), StoreCreation::Never).is_err(), "there is no store yet");
        }
    }

    #[test]
    fn a_store_is_taken_as_one_whatever_lies_beside_it() {
        for file in [
            "meta/0000000000000001.log",
            "meta/000000000000000a.checkpoint",
            "data/0000000000000001.segment",
            STANDBY,
        ] {
            let dir = tempfile::tempdir().unwrap();
            make(dir.path(), ".minio.sys/format.json");
            make(dir.path(), file);
            assert_eq!(check(dir.path(), StoreCreation::Auto), Ok(()), "{file}");
            assert_eq!(check(dir.path(), StoreCreation::Never), Ok(()), "{file}");
        }
    }

    #[test]
    fn without_permission_to_create_only_a_store_will_do() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_owned(), dir.path().join("missing")] {
            assert!(check(&path, StoreCreation::Never).unwrap_err().contains("--create never"));
        }
        assert!(!dir.path().join("missing").exists());
    }
}
