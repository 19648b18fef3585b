use std::os::unix::fs::MetadataExt as _;
use std::process::Child;

use super::*;

/// An encrypted store, and beside it files with what opens it.
struct Encrypted {
    store: Fixture,
    beside: TempDir,
}

impl Encrypted {
    fn new() -> Self {
        let encrypted = Self::in_the_clear();
        let done = encrypted.tool(&["encrypt"]);
        assert_eq!(status(&done), 0, "{}", stderr(&done));
        encrypted
    }

    /// The same before it is encrypted.
    fn in_the_clear() -> Self {
        let encrypted = Self { store: Fixture::new(), beside: TempDir::new().unwrap() };
        assert_eq!(status(&run(&["store-key", "create", &encrypted.file("first.key")])), 0);
        encrypted
    }

    fn file(&self, name: &str) -> String {
        self.beside.path().join(name).to_str().unwrap().to_owned()
    }

    fn passphrase(&self, name: &str) -> String {
        fs::write(self.file(name), format!("the passphrase {name}")).unwrap();
        self.file(name)
    }

    fn tool_with(&self, secret: &str, args: &[&str]) -> Output {
        self.store.tool(&[&["--store-key-file", secret], args].concat())
    }

    fn tool(&self, args: &[&str]) -> Output {
        self.tool_with(&self.file("first.key"), args)
    }

    /// Starts a command on the keys.
    fn begin(&self, args: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
        command
            .arg("--data-dir")
            .arg(self.store.dir.path())
            .args(["--store-key-file", &self.file("first.key")]);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    }

    fn keys(&self) -> Vec<u8> {
        fs::read(self.store.path("KEYS")).unwrap()
    }
}

#[test]
fn commands_that_change_the_keys_wait_for_each_other() {
    let encrypted = Encrypted::new();
    let second = encrypted.passphrase("second");
    let third = encrypted.passphrase("third");
    let dir = fs::File::open(encrypted.store.dir.path()).unwrap();
    let inode = format!(":{} ", dir.metadata().unwrap().ino());
    let waiting = || {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        locks.lines().filter(|line| line.contains("->") && line.contains(&inode)).count()
    };
    let commands = [&["add", second.as_str()][..], &["add", third.as_str()], &["remove", "1"], &["mend"]];
    dir.lock().unwrap();
    let before = encrypted.keys();
    let mut children: Vec<_> =
        commands[..2].iter().map(|args| encrypted.begin(&[&["store-key"], *args].concat())).collect();
    while waiting() < children.len() {
        for child in &mut children {
            assert!(child.try_wait().unwrap().is_none(), "it did not wait for the lock");
        }
        std::thread::yield_now();
    }
    assert_eq!(encrypted.keys(), before);
    dir.unlock().unwrap();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    for secret in [&encrypted.file("first.key"), &second, &third] {
        assert_eq!(status(&encrypted.tool_with(secret, &["stats"])), 0, "{secret}");
    }
    for args in &commands[2..] {
        dir.lock().unwrap();
        let mut child = encrypted.begin(&[&["store-key"], *args].concat());
        while waiting() < 1 {
            assert!(child.try_wait().unwrap().is_none(), "{args:?} did not wait for the lock");
            std::thread::yield_now();
        }
        dir.unlock().unwrap();
        let is_done = child.wait().unwrap().success();
        assert!(is_done || *args == ["mend"], "{args:?}");
    }
    assert_eq!(status(&encrypted.tool(&["stats"])), 2, "its slot was removed");
}

#[test]
fn mend_writes_the_keys_of_the_directory_and_not_those_of_another() {
    let one = Encrypted::new();
    let other = Encrypted::in_the_clear();
    let key = one.file("first.key");
    assert_eq!(status(&other.tool_with(&key, &["encrypt"])), 0);
    let own = one.keys();
    fs::copy(other.store.path("KEYS"), one.store.path("KEYS")).unwrap();
    let found = one.tool(&["verify"]);
    assert!(status(&found) == 1 && stdout(&found).contains("of another directory"), "{}", stdout(&found));
    let refused = one.tool(&["store-key", "add", &one.passphrase("second")]);
    assert!(status(&refused) == 2 && stderr(&refused).contains("store-key mend"), "{}", stderr(&refused));
    let mended = one.tool(&["store-key", "mend"]);
    assert_eq!(status(&mended), 0, "{}", stderr(&mended));
    assert_eq!(one.keys()[24..32], own[24..32]);
    assert_eq!(one.keys(), fs::read(one.store.path("KEYS.copy")).unwrap());
    assert_eq!(status(&one.tool(&["verify"])), 0);
    for name in ["KEYS", "KEYS.copy"] {
        fs::copy(other.store.path("KEYS"), one.store.path(name)).unwrap();
    }
    let foreign = one.keys();
    let second = one.file("second");
    for args in [&["mend"][..], &["add", &second], &["remove", "1"]] {
        let refused = one.tool(&[&["store-key"], args].concat());
        assert!(status(&refused) == 2 && stderr(&refused).contains("from a backup"), "{}", stderr(&refused));
        assert_eq!(one.keys(), foreign);
    }
}

#[test]
fn keys_that_are_lost_are_named_and_an_unfinished_conversion_names_its_command() {
    let encrypted = Encrypted::new();
    let page = encrypted.keys();
    fs::remove_file(encrypted.store.path("KEYS")).unwrap();
    fs::remove_file(encrypted.store.path("KEYS.copy")).unwrap();
    for args in [&["slots"][..], &["mend"], &["remove", "1"]] {
        let told = stderr(&encrypted.tool(&[&["store-key"], args].concat()));
        assert!(told.contains("neither KEYS nor KEYS.copy"), "{told}");
    }
    // The state of a conversion that was cut off.
    let mut unfinished = page;
    unfinished[12] = 2;
    let crc = siltstone::base::digest::Crc32::of(&unfinished[..4092]);
    unfinished[4092..].copy_from_slice(&crc.to_le_bytes());
    fs::write(encrypted.store.path("KEYS.copy"), unfinished).unwrap();
    let shown = stdout(&encrypted.tool(&["store-key", "slots"]));
    assert!(shown.contains("siltstone-tools encrypt") && !shown.contains("mend"), "{shown}");
    let done = encrypted.tool(&["encrypt"]);
    assert_eq!(status(&done), 0, "{}", stderr(&done));
    assert_eq!(status(&encrypted.tool(&["verify"])), 0);
}
