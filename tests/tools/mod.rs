//! `siltstone-tools` as run by an operator, on stores made by the library.

mod backup;
mod bench;
mod cas_check;
mod compact;
mod disk;
mod doctor;
mod dump;
mod export;
mod foreign;
mod import;
mod key;
pub(crate) mod lifecycle;
pub(crate) mod minio;
mod moving_servers;
mod rebuild;
mod remote;
mod stats;
mod store_key;
mod tiny_store;
mod top;
mod undelete;
mod verify;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use siltstone::base::digest::Md5;
use siltstone::base::{Entropy, OsEntropy, SeededEntropy, SystemClock};
use siltstone::format::{ETag, ExtentRef, FileKind};
use siltstone::fs::OsFs;
use siltstone::store::{
    Attributes, Commit, DeleteCondition, Deletion, NewUpload, ObjectControls, OpenError, Selector,
    StorageClass, Store, StoreOptions, Versioning, WriteCondition,
};
use tempfile::TempDir;

/// Attempts at a released lock, a fiftieth of a second apart. A process that another test is just
/// starting inherits all open files, locks included, until it executes its program.
const LOCK_ATTEMPTS: usize = 50;

/// Runs the tools and waits for them.
fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    command.args(args).env_remove("SILTSTONE_DATA_DIR").stdin(Stdio::null());
    let run = || command.output().unwrap();
    until_unlocked(run, |output| stderr(output).contains("another process uses"))
}

fn until_unlocked<T>(mut attempt: impl FnMut() -> T, is_locked: impl Fn(&T) -> bool) -> T {
    for _ in 1..LOCK_ATTEMPTS {
        let outcome = attempt();
        if !is_locked(&outcome) {
            return outcome;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    attempt()
}

fn status(output: &Output) -> i32 {
    output.status.code().expect("no signal ended it")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A directory with a store in it.
pub(crate) struct Fixture {
    dir: TempDir,
    /// The extent of the small object, which is in a pack.
    small: ExtentRef,
    /// The first extent of the large object.
    large: ExtentRef,
}

impl Fixture {
    /// A store with all kinds of records: small and large objects, versions, a delete marker, an
    /// upload in progress, a sealed segment, two checkpoints, and groups after them.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        store.create_bucket("photos", "admin").unwrap();
        let small = put(&store, "small", b"a few bytes");
        let large = put(&store, "large", &bytes(1, 200_000));
        store.checkpoint().unwrap();
        store.set_versioning("photos", Versioning::Enabled).unwrap();
        (0..4).for_each(|seed| drop(put(&store, "large", &bytes(seed, 300_000))));
        let deletion =
            Deletion { key: "small".into(), which: Selector::Current, condition: DeleteCondition::default() };
        store.delete("photos", vec![deletion]).unwrap().remove(0).unwrap();
        begin_upload(&store);
        store.checkpoint().unwrap();
        put(&store, "late", b"behind the checkpoint");
        drop(store);
        Self { dir, small: small[0], large: large[0] }
    }

    /// Its directory, which is kept then.
    pub(crate) fn keep(self) -> PathBuf {
        self.dir.keep()
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// Runs a command on the store.
    fn tool(&self, args: &[&str]) -> Output {
        let dir = self.dir.path().to_str().unwrap();
        run(&[&["--data-dir", dir], args].concat())
    }

    fn dump(&self, args: &[&str], file: &str) -> Output {
        run(&[args, &["dump", self.path(file).to_str().unwrap()]].concat())
    }

    /// The files of a kind, in order.
    fn files(&self, kind: FileKind) -> Vec<String> {
        let all = self.contents().into_keys();
        all.filter(|file| file.starts_with(kind.dir()) && file.ends_with(kind.suffix())).collect()
    }

    /// All files with their bytes.
    fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let mut all = BTreeMap::new();
        for dir in ["", "data", "meta"] {
            for entry in fs::read_dir(self.path(dir)).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_file() {
                    let name = entry.file_name().into_string().unwrap();
                    let name = if dir.is_empty() { name } else { format!("{dir}/{name}") };
                    all.insert(name, fs::read(entry.path()).unwrap());
                }
            }
        }
        all
    }

    /// Flips bits of the byte at `offset`.
    fn flip(&self, file: &str, offset: u64, mask: u8) {
        self.change(file, |bytes| bytes[offset as usize] ^= mask);
    }

    fn change(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path(file)).unwrap();
        change(&mut bytes);
        fs::write(self.path(file), bytes).unwrap();
    }
}

fn open(dir: &Path) -> Store {
    let options = StoreOptions {
        segment_max_bytes: 1 << 20,
        keep_free_bytes: 0,
        idle_group_after: None,
        ..StoreOptions::default()
    };
    let open = || Store::open(Arc::new(OsFs::new(dir)), Arc::new(SystemClock), &OsEntropy, options);
    until_unlocked(open, |opened| matches!(opened, Err(OpenError::Locked))).unwrap()
}

fn put(store: &Store, key: &str, bytes: &[u8]) -> Vec<ExtentRef> {
    let mut writer = store.writer("photos", key, Some(bytes.len() as u64)).unwrap();
    writer.write(bytes).unwrap();
    writer.commit(commit(bytes)).unwrap();
    store.find("photos", key, Selector::Current).unwrap().version.extents
}

fn commit(bytes: &[u8]) -> Commit {
    let mut attributes = Attributes::new();
    attributes.push("content-type", "image/png");
    Commit {
        storage_class: StorageClass::Standard,
        etag: ETag::Md5(Md5::of(bytes)),
        attributes,
        checksums: vec![],
        tags: vec![],
        condition: WriteCondition::None,
        controls: ObjectControls::default(),
        stated_time: None,
    }
}

fn begin_upload(store: &Store) {
    let new = NewUpload {
        storage_class: StorageClass::Standard,
        initiator: "admin".into(),
        checksum: None,
        attributes: Attributes::new(),
        tags: vec![],
        controls: ObjectControls::default(),
    };
    let upload = store.create_upload("photos", "film", new).unwrap().id;
    let mut writer = store.part_writer("photos", "film", upload, 1, None).unwrap();
    writer.write(b"the first part").unwrap();
    writer.commit([0; 16], None).unwrap();
}

/// Bytes that differ in every block and for every seed.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SeededEntropy::new(seed).fill(&mut bytes);
    bytes
}

#[test]
fn wrong_arguments_exit_with_2() {
    for args in [&[][..], &["dump"], &["mend"], &["verify", "--loud"], &["--data-dir"]] {
        assert_eq!(status(&run(args)), 2, "{args:?}");
    }
}

#[test]
fn the_help_of_each_command_has_examples_and_exit_statuses() {
    for command in [
        "verify",
        "compact",
        "backup",
        "restore",
        "undelete",
        "rebuild",
        "stats",
        "dump",
        "cas-check",
        "remote",
        "import",
        "inspect",
        "export",
        "doctor",
    ] {
        let help = run(&[command, "--help"]);
        assert_eq!(status(&help), 0);
        for part in ["Examples:\n  siltstone-tools ", "Exit status:\n  0  ", "--data-dir <DIR>", "--json"] {
            assert!(stdout(&help).contains(part), "{command}: {part}");
        }
    }
}
