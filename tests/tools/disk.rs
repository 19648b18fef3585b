use std::collections::BTreeSet;

use siltstone::disks::StoreDirectories;
use siltstone::fs::Fs;

use super::*;

/// The store of the fixture, and a place for a fast directory.
struct Disks {
    store: Fixture,
    dir: TempDir,
}

impl Disks {
    fn new() -> Self {
        Self { store: Fixture::new(), dir: tempfile::tempdir().unwrap() }
    }

    fn fast(&self) -> PathBuf {
        self.dir.path().join("ssd")
    }

    /// Runs a command on both directories.
    fn tool(&self, args: &[&str]) -> Output {
        self.store.tool(&[&["--fast-dir", self.fast().to_str().unwrap()], args].concat())
    }

    fn succeeds(&self, args: &[&str]) -> String {
        let output = self.tool(args);
        assert_eq!(status(&output), 0, "{args:?}: {}{}", stdout(&output), stderr(&output));
        stdout(&output)
    }

    fn added() -> Self {
        let disks = Self::new();
        let said = disks.succeeds(&["disk", "add"]);
        assert!(said.contains("start the server with --fast-dir"), "{said}");
        disks
    }

    fn open(&self) -> Store {
        let fs = StoreDirectories::new(self.store.dir.path(), Some(&self.fast())).open().unwrap();
        open_on(&fs)
    }
}

fn open_on(fs: &Arc<dyn Fs>) -> Store {
    let options = StoreOptions { keep_free_bytes: 0, idle_group_after: None, ..StoreOptions::default() };
    let open = || Store::open(Arc::clone(fs), Arc::new(SystemClock), &OsEntropy, options);
    until_unlocked(open, |opened| matches!(opened, Err(OpenError::Locked))).unwrap()
}

fn content(store: &Store, key: &str) -> Vec<u8> {
    let found = store.find("photos", key, Selector::Current).unwrap();
    let mut bytes = vec![0; found.version.size as usize];
    let mut reader = store.read(&found, 0..found.version.size).unwrap();
    let mut done = 0;
    while done < bytes.len() {
        done += reader.read(&mut bytes[done..]).unwrap();
    }
    bytes
}

/// The paths of all files below a directory.
fn files_below(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.append(&mut files_below(&entry.path())),
            false => drop(found.insert(entry.path())),
        }
    }
    found
}

#[test]
fn the_log_goes_to_the_fast_directory_and_all_of_it_comes_back() {
    let disks = Disks::added();
    assert!(disks.fast().join("meta").read_dir().unwrap().count() > 2);
    let verified = disks.succeeds(&["verify"]);
    assert!(verified.ends_with("nothing is wrong\n"), "{verified}");
    let store = disks.open();
    put(&store, "new", b"a small one on the fast disk");
    put(&store, "new-large", &bytes(9, 300_000));
    drop(store);
    let listed: serde_json::Value =
        serde_json::from_str(&disks.succeeds(&["--json", "disk", "list"])).unwrap();
    assert_eq!((&listed[0]["role"], &listed[1]["role"]), (&"data".into(), &"fast".into()), "{listed}");
    assert_eq!(listed[1]["segments"], 1, "{listed}");

    let alone = disks.store.tool(&["verify"]);
    assert_eq!(status(&alone), 2);
    assert!(stderr(&alone).contains("name that with --fast-dir"), "{}", stderr(&alone));

    disks.succeeds(&["disk", "drain"]);
    assert!(
        files_below(&disks.fast()).iter().all(|path| path.ends_with("LOCK")),
        "{:?}",
        files_below(&disks.fast())
    );
    let alone = disks.store.tool(&["verify"]);
    assert!(stdout(&alone).ends_with("nothing is wrong\n"), "{}{}", stdout(&alone), stderr(&alone));
    let store = open(disks.store.dir.path());
    assert_eq!(content(&store, "new"), b"a small one on the fast disk");
    assert_eq!(content(&store, "new-large"), bytes(9, 300_000));
    assert_eq!(content(&store, "large"), bytes(3, 300_000));
    drop(store);
    // And once more: what is there after a drain is no obstacle.
    disks.succeeds(&["disk", "add"]);
    assert_eq!(content(&disks.open(), "new"), b"a small one on the fast disk");
}

#[test]
fn a_backup_of_two_directories_is_one_and_is_restored_into_two() {
    let disks = Disks::added();
    let store = disks.open();
    put(&store, "new", b"a small one on the fast disk");
    let to = disks.dir.path().join("backup");
    disks.succeeds(&["backup", to.to_str().unwrap()]);
    drop(store);
    let data = disks.dir.path().join("restored");
    let fast = disks.dir.path().join("restored-ssd");
    let restored = run(&[
        "--data-dir",
        data.to_str().unwrap(),
        "--fast-dir",
        fast.to_str().unwrap(),
        "restore",
        to.to_str().unwrap(),
    ]);
    assert_eq!(status(&restored), 0, "{}{}", stdout(&restored), stderr(&restored));
    let store = open_on(&StoreDirectories::new(&data, Some(&fast)).open().unwrap());
    assert_eq!(content(&store, "new"), b"a small one on the fast disk");
    assert_eq!(content(&store, "large"), bytes(3, 300_000));
    assert!(fast.join("meta").read_dir().unwrap().count() > 0);
}

#[test]
fn an_encrypted_store_gets_a_fast_directory_too() {
    let disks = Disks::new();
    let key = disks.dir.path().join("key");
    assert_eq!(status(&run(&["store-key", "create", key.to_str().unwrap()])), 0);
    let with_key = ["--store-key-file", key.to_str().unwrap()];
    assert_eq!(status(&disks.store.tool(&[&with_key[..], &["encrypt"]].concat())), 0);
    disks.succeeds(&["disk", "add"]);
    let verified = disks.succeeds(&[&with_key[..], &["verify"]].concat());
    assert!(verified.ends_with("nothing is wrong\n"), "{verified}");
    disks.succeeds(&["disk", "drain"]);
    let alone = disks.store.tool(&[&with_key[..], &["verify"]].concat());
    assert!(stdout(&alone).ends_with("nothing is wrong\n"), "{}{}", stdout(&alone), stderr(&alone));
}

#[test]
fn two_directories_are_encrypted_as_one() {
    let disks = Disks::added();
    let key = disks.dir.path().join("key");
    assert_eq!(status(&run(&["store-key", "create", key.to_str().unwrap()])), 0);
    let with_key = ["--store-key-file", key.to_str().unwrap()];
    disks.succeeds(&[&with_key[..], &["encrypt"]].concat());
    for path in
        files_below(&disks.fast()).into_iter().filter(|path| path.to_str().unwrap().contains("/meta/"))
    {
        assert!(fs::read(&path).unwrap().starts_with(b"SiltSalt"), "{}", path.display());
    }
    let verified = disks.succeeds(&[&with_key[..], &["verify"]].concat());
    assert!(verified.ends_with("nothing is wrong\n"), "{verified}");
}

#[test]
fn doctor_opens_both_directories() {
    let disks = Disks::added();
    let output = disks.tool(&["--json", "doctor"]);
    assert!(!stdout(&output).contains("fast-dir"), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn a_restore_takes_no_fast_directory_with_other_files() {
    let disks = Disks::added();
    let full = disks.dir.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("letters.doc"), "").unwrap();
    let to = disks.dir.path().join("backup");
    disks.succeeds(&["backup", to.to_str().unwrap()]);
    let data = disks.dir.path().join("restored");
    let restored = run(&[
        "--data-dir",
        data.to_str().unwrap(),
        "--fast-dir",
        full.to_str().unwrap(),
        "restore",
        to.to_str().unwrap(),
    ]);
    assert_eq!(status(&restored), 2);
    assert!(stderr(&restored).contains("it is not empty"), "{}", stderr(&restored));
    assert!(!data.exists() && full.read_dir().unwrap().count() == 1, "nothing was made");
}

#[test]
fn what_is_named_wrongly_is_refused_and_nothing_is_written() {
    let disks = Disks::new();
    let other = Disks::added();
    let before = files_below(disks.store.dir.path());
    let other_before = files_below(&other.fast());
    let inside = disks.store.path("ssd");
    let full = disks.dir.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("a file"), "").unwrap();
    for (args, named) in [
        (vec!["disk", "add"], "name the fast directory with --fast-dir"),
        (vec!["--fast-dir", inside.to_str().unwrap(), "disk", "add"], "one is in the other"),
        (vec!["--fast-dir", full.to_str().unwrap(), "disk", "add"], "there is a file"),
        (
            vec!["--fast-dir", other.fast().to_str().unwrap(), "disk", "add"],
            "the fast directory is not empty",
        ),
        (vec!["--fast-dir", other.fast().to_str().unwrap(), "verify"], "disk add"),
        (vec!["--fast-dir", other.fast().to_str().unwrap(), "disk", "drain"], "disk add"),
        (vec!["disk", "lost"], "the store has no fast directory"),
    ] {
        let output = disks.store.tool(&args);
        assert_eq!(status(&output), 2, "{args:?}");
        assert!(stderr(&output).contains(named), "{args:?}: {}", stderr(&output));
    }
    let lost = other.tool(&["disk", "lost"]);
    assert!(stderr(&lost).contains("it is there"), "{}", stderr(&lost));
    let again = other.tool(&["disk", "add"]);
    assert!(stderr(&again).contains("has a fast directory already"), "{}", stderr(&again));
    assert_eq!(files_below(disks.store.dir.path()), before);
    assert_eq!(files_below(&other.fast()), other_before);
}

#[test]
fn without_the_copy_of_the_log_a_rebuild_makes_one_of_the_data_directory() {
    let disks = Disks::added();
    put(&disks.open(), "new-large", &bytes(9, 300_000));
    fs::remove_dir_all(disks.fast()).unwrap();
    let unnamed = disks.store.tool(&["disk", "lost"]);
    assert!(stderr(&unnamed).contains("name that with --fast-dir"), "{}", stderr(&unnamed));
    fs::create_dir(disks.fast()).unwrap();
    fs::write(disks.fast().join("letters.doc"), "").unwrap();
    let other = disks.tool(&["disk", "lost", "--discard-log"]);
    assert!(stderr(&other).contains("there is letters.doc"), "{}", stderr(&other));
    fs::remove_dir_all(disks.fast()).unwrap();
    let no_copy = disks.tool(&["disk", "lost"]);
    assert_eq!(status(&no_copy), 2);
    assert!(stderr(&no_copy).contains("--discard-log"), "{}", stderr(&no_copy));
    let lost = disks.tool(&["disk", "lost", "--discard-log"]);
    assert_eq!(status(&lost), 0, "{}", stderr(&lost));
    let rebuilt = disks.store.tool(&["rebuild"]);
    assert!(stdout(&rebuilt).contains("restored: buckets 1"), "{}{}", stdout(&rebuilt), stderr(&rebuilt));
    let store = open(disks.store.dir.path());
    assert_eq!(content(&store, "large"), bytes(3, 300_000));
    assert_eq!(content(&store, "new-large"), bytes(9, 300_000));
}

/// Puts objects on both disks, with the log copied between them, and loses the fast one.
fn lose_with_shadow(disks: &Disks, store: &Store) {
    put(store, "new-small", b"on the fast disk");
    put(store, "new-large", &bytes(9, 300_000));
    while store.shadow_log().unwrap() {}
    put(store, "later-large", &bytes(8, 300_000));
    fs::remove_dir_all(disks.fast()).unwrap();
}

#[test]
fn a_dead_fast_disk_leaves_what_the_copy_of_the_log_names_on_the_other_one() {
    let disks = Disks::added();
    lose_with_shadow(&disks, &disks.open());
    let lost = disks.tool(&["disk", "lost"]);
    assert_eq!(status(&lost), 1, "{}{}", stdout(&lost), stderr(&lost));
    assert!(stdout(&lost).contains(r#"lost: bucket photos, key "new-small", version"#), "{}", stdout(&lost));
    assert!(stdout(&lost).contains("lost: versions 1, parts of uploads in progress 0"), "{}", stdout(&lost));
    assert!(!disks.store.path("shadow/meta").read_dir().unwrap().any(|_| true));
    let alone = disks.store.tool(&["verify"]);
    assert!(stdout(&alone).ends_with("nothing is wrong\n"), "{}{}", stdout(&alone), stderr(&alone));
    let store = open(disks.store.dir.path());
    assert_eq!(content(&store, "large"), bytes(3, 300_000));
    assert_eq!(content(&store, "new-large"), bytes(9, 300_000));
    for gone in ["new-small", "later-large"] {
        assert!(store.find("photos", gone, Selector::Current).is_err(), "{gone}");
    }
    put(&store, "more", b"and it goes on");
    drop(store);
    let again = disks.tool(&["disk", "add"]);
    assert_eq!(status(&again), 0, "a new fast disk can be added: {}", stderr(&again));
}

#[test]
fn an_encrypted_store_is_left_encrypted_by_a_dead_fast_disk() {
    let disks = Disks::added();
    let key = disks.dir.path().join("key");
    assert_eq!(status(&run(&["store-key", "create", key.to_str().unwrap()])), 0);
    let with_key = ["--store-key-file", key.to_str().unwrap()];
    // The copy of the log is encrypted with the rest.
    while disks.open().shadow_log().unwrap() {}
    disks.succeeds(&[&with_key[..], &["encrypt"]].concat());
    let in_clear = |path: &PathBuf| !fs::read(path).unwrap().starts_with(b"SiltSalt");
    let mut shadow = files_below(&disks.store.path("shadow"));
    assert!(!shadow.is_empty());
    shadow.retain(in_clear);
    assert!(shadow.is_empty(), "{shadow:?}");
    fs::remove_dir_all(disks.fast()).unwrap();
    let without_key = disks.tool(&["disk", "lost"]);
    assert_eq!(status(&without_key), 2, "{}", stdout(&without_key));
    let lost = disks.tool(&[&with_key[..], &["--json", "disk", "lost"]].concat());
    assert_eq!(status(&lost), 0, "{}{}", stdout(&lost), stderr(&lost));
    let shown: serde_json::Value = serde_json::from_str(&stdout(&lost)).unwrap();
    assert_eq!((&shown["buckets"], &shown["lost"]), (&1.into(), &serde_json::json!([])), "{shown}");
    let alone = disks.store.tool(&[&with_key[..], &["verify"]].concat());
    assert!(stdout(&alone).ends_with("nothing is wrong\n"), "{}{}", stdout(&alone), stderr(&alone));
}
