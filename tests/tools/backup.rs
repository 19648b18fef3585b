use std::os::unix::fs::MetadataExt;

use serde_json::Value;
use siltstone::base::Timestamp;
use siltstone::format::segment_path;
use siltstone::index::BucketConfiguration;
use siltstone::keys::{KeyRing, SharedKeyRing};
use siltstone::store::{
    AclGrants, BucketConfigurationKind, NamedUsers, NewEncryption, ObjectOwner, UserGrant,
};

use super::*;

/// A backup of the fixture in a directory beside it.
struct Backup {
    store: Fixture,
    dir: TempDir,
}

impl Backup {
    fn new() -> Self {
        Self { store: Fixture::new(), dir: tempfile::tempdir().unwrap() }
    }

    fn to(&self) -> PathBuf {
        self.dir.path().join("backup")
    }

    fn run(&self, args: &[&str]) -> Output {
        self.store.tool(&[args, &["backup", self.to().to_str().unwrap()]].concat())
    }

    fn make(&self) -> Value {
        let output = self.run(&["--json"]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn restore(&self, args: &[&str]) -> (Output, PathBuf) {
        let from = self.to();
        let to = self.dir.path().join("restored");
        let command = ["--data-dir", to.to_str().unwrap(), "restore", from.to_str().unwrap()];
        (run(&[args, &command].concat()), to)
    }
}

fn content(dir: &Path, key: &str) -> Vec<u8> {
    let store = open(dir);
    let found = store.find("photos", key, Selector::Current).unwrap();
    let mut bytes = vec![0; found.version.size as usize];
    let mut reader = store.read(&found, 0..found.version.size).unwrap();
    let mut done = 0;
    while done < bytes.len() {
        done += reader.read(&mut bytes[done..]).unwrap();
    }
    bytes
}

#[test]
fn a_store_is_backed_up_beside_a_running_server_and_restored() {
    let backup = Backup::new();
    let server = open(backup.store.dir.path());
    put(&server, "last", b"acknowledged before");
    let made = backup.make();
    assert!(made["linked"]["count"].as_u64().unwrap() >= 1, "{made}");
    drop(server);
    let (output, to) = backup.restore(&[]);
    assert_eq!(status(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).ends_with("nothing is wrong\n"));
    assert_eq!(content(&to, "large"), bytes(3, 300_000));
    assert_eq!(content(&to, "last"), b"acknowledged before");
    // Writing to the restored store leaves the backup unchanged.
    put(&open(&to), "more", &bytes(8, 400_000));
    let slot = backup.to().join(made["slot"].as_str().unwrap());
    assert_eq!(status(&run(&["--data-dir", slot.to_str().unwrap(), "verify"])), 0);
}

#[test]
fn sealed_segments_are_hard_links_and_others_are_not() {
    let backup = Backup::new();
    let report = backup.store.tool(&["--json", "verify"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let slot = backup.make()["slot"].as_str().unwrap().to_owned();
    let mut links = [0, 0];
    for segment in report["segments"].as_array().unwrap() {
        let file = segment["file"].as_str().unwrap();
        let copy = backup.to().join(&slot).join(file);
        let own = backup.store.path(file).metadata().unwrap();
        let copy = copy.metadata().unwrap();
        let sealed = segment["sealed"].as_bool().unwrap();
        assert_eq!(own.ino() == copy.ino(), sealed, "{file}");
        assert_eq!(own.nlink(), if sealed { 2 } else { 1 }, "{file}");
        links[usize::from(sealed)] += 1;
    }
    assert!(links[0] > 0 && links[1] > 0);
    assert!(!backup.store.path("backup").exists(), "no pins are needed beside the store");
    // The next backup takes the other slot, and the links of this one are gone.
    let next = backup.make();
    assert_ne!(next["slot"].as_str().unwrap(), slot);
    let first = report["segments"].as_array().unwrap().iter().find(|s| s["sealed"] == true).unwrap();
    assert_eq!(backup.store.path(first["file"].as_str().unwrap()).metadata().unwrap().nlink(), 2);
}

#[test]
fn nothing_in_the_data_directory_changes() {
    let backup = Backup::new();
    let before = backup.store.contents();
    backup.make();
    assert!(backup.store.contents() == before);
}

#[test]
fn users_are_copied_with_the_option_and_stay_private() {
    let backup = Backup::new();
    fs::write(backup.store.path("users.toml"), "# secrets").unwrap();
    fs::write(backup.store.path("keys.toml"), "# keys").unwrap();
    assert_eq!(status(&backup.run(&["--json"])), 0);
    let (output, to) = backup.restore(&[]);
    assert_eq!(status(&output), 0);
    assert!(!to.join("users.toml").exists() && !to.join("keys.toml").exists());
    fs::remove_dir_all(&to).unwrap();
    let with = backup.store.tool(&["--json", "backup", "--with-users", backup.to().to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&with.stdout).unwrap();
    assert_eq!((status(&with), &report["with_users"]), (0, &Value::Bool(true)));
    let (output, to) = backup.restore(&["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!([&report["with_users"], &report["with_keys"]], [true, true]);
    assert_eq!(fs::read_to_string(to.join("users.toml")).unwrap(), "# secrets");
    assert_eq!(fs::read_to_string(to.join("keys.toml")).unwrap(), "# keys");
    for file in ["users.toml", "keys.toml"] {
        assert_eq!(to.join(file).metadata().unwrap().mode() & 0o777, 0o600, "{file}");
    }
}

/// Makes a ring in the directory and puts an object that it encrypts. Returns the id of the key.
fn put_encrypted(dir: &Path) -> String {
    let ring = dir.join("keys.toml");
    assert_eq!(status(&run(&["key", "create", ring.to_str().unwrap()])), 0);
    let ring = KeyRing::parse(&fs::read_to_string(ring).unwrap()).unwrap();
    let id = ring.current().unwrap().id.clone();
    let store = open(dir);
    store.set_keys(Arc::new(SharedKeyRing::new(ring)));
    let mut writer = store.writer("photos", "encrypted", Some(5)).unwrap();
    writer.encrypt(&NewEncryption::S3).unwrap();
    writer.write(b"bytes").unwrap();
    writer.commit(commit(b"bytes")).unwrap();
    id
}

#[test]
fn a_ring_that_lacks_a_needed_key_is_a_finding_that_names_it() {
    let backup = Backup::new();
    let dir = backup.store.dir.path();
    let id = put_encrypted(dir);
    let to = backup.to();
    let backed_up = ["backup", "--with-users", to.to_str().unwrap()];
    assert_eq!(status(&backup.store.tool(&backed_up)), 0);
    let key = backup.store.path("keys.toml");
    let data_dir = dir.to_str().unwrap();
    assert_eq!(status(&run(&["--data-dir", data_dir, "key", "add"])), 0);
    let whole = fs::read_to_string(&key).unwrap();
    let without: Vec<&str> = whole.split("[[key]]").filter(|part| !part.contains(&id)).collect();
    fs::write(&key, without.join("[[key]]")).unwrap();

    let missing = format!("key missing: {id}, which 1 versions, uploads and parts need");
    assert_eq!(status(&backup.store.tool(&backed_up)), 0, "the former backup has the key");
    fs::remove_dir_all(&to).unwrap();
    let made = backup.store.tool(&backed_up);
    assert_eq!(status(&made), 1, "{}", stderr(&made));
    assert!(stdout(&made).contains(&missing), "{}", stdout(&made));
    let (restored, to) = backup.restore(&[]);
    assert_eq!(status(&restored), 1);
    assert!(stdout(&restored).contains(&missing), "{}", stdout(&restored));
    fs::remove_dir_all(to.join("meta")).unwrap();
    let rebuilt = run(&["--data-dir", to.to_str().unwrap(), "rebuild"]);
    assert_eq!(status(&rebuilt), 1);
    assert!(stdout(&rebuilt).contains(&missing), "{}", stdout(&rebuilt));
    assert!(stdout(&rebuilt).contains("put back a copy that has it"), "{}", stdout(&rebuilt));

    fs::write(&key, whole).unwrap();
    assert_eq!(status(&backup.store.tool(&backed_up)), 0, "the key is back");
}

/// A server may take its keys from the environment; then there is no users.toml.
#[test]
fn a_store_without_users_is_backed_up_without_and_the_output_says_so() {
    let backup = Backup::new();
    let to = backup.to();
    let output = backup.store.tool(&["backup", "--with-users", to.to_str().unwrap()]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let told = stdout(&output);
    assert!(told.contains("users: none, since the data directory has no users.toml"), "{told}");
    assert!(told.contains("keys: none, since the data directory has no keys.toml"), "{told}");
    let output = backup.store.tool(&["--json", "backup", "--with-users", to.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((status(&output), &report["with_users"]), (0, &Value::Bool(false)));
    let (output, restored) = backup.restore(&[]);
    assert_eq!(status(&output), 0);
    assert!(!restored.join("users.toml").exists());
}

#[test]
fn impossible_requests_exit_with_2() {
    let backup = Backup::new();
    let data_dir = backup.store.dir.path().to_str().unwrap().to_owned();
    let inside = format!("{data_dir}/here");
    let parent = backup.store.dir.path().parent().unwrap().to_str().unwrap().to_owned();
    for to in [&data_dir, &inside, &parent] {
        let output = backup.store.tool(&["backup", to]);
        assert_eq!(status(&output), 2, "{to}");
        assert!(stderr(&output).contains("must not contain each other"), "{}", stderr(&output));
    }
    let (output, _) = backup.restore(&[]);
    assert_eq!(status(&output), 2);
    fs::create_dir(backup.to()).unwrap();
    assert!(stderr(&backup.restore(&[]).0).contains("no complete backup in it"));
    fs::write(backup.to().join("mine.txt"), "x").unwrap();
    let output = backup.run(&[]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("mine.txt"), "{}", stderr(&output));
    fs::remove_file(backup.to().join("mine.txt")).unwrap();
    backup.make();
    let output = run(&["--data-dir", &data_dir, "restore", backup.to().to_str().unwrap()]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("not empty"), "{}", stderr(&output));
    let empty = tempfile::tempdir().unwrap();
    let output =
        run(&["--data-dir", empty.path().to_str().unwrap(), "backup", backup.to().to_str().unwrap()]);
    assert_eq!(status(&output), 2);
}

#[test]
fn a_damaged_store_exits_with_1_and_the_former_backup_stays() {
    let backup = Backup::new();
    backup.make();
    let small = backup.store.small;
    backup.store.flip(&segment_path(small.segment), small.offset + 64, 1);
    let output = backup.store.tool(&["--json", "backup", "--verify", backup.to().to_str().unwrap()]);
    assert_eq!(status(&output), 1, "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["findings"][0]["key"], "small");
    let (output, to) = backup.restore(&[]);
    assert_eq!(status(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(content(&to, "late"), b"behind the checkpoint");
}

#[test]
fn a_damaged_backup_is_restored_with_findings() {
    let backup = Backup::new();
    let slot = backup.make()["slot"].as_str().unwrap().to_owned();
    let large = backup.store.large;
    let file = backup.to().join(slot).join(segment_path(large.segment));
    let mut damaged = fs::read(&file).unwrap();
    damaged[large.offset as usize + 100] ^= 1;
    // Written as a new file: through the link the damage would reach the store, too.
    fs::remove_file(&file).unwrap();
    fs::write(&file, damaged).unwrap();
    let (output, _) = backup.restore(&["--json"]);
    assert_eq!(status(&output), 1);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["findings"][0]["key"], "large");
}

#[test]
fn owners_and_grants_of_users_are_restored_and_rebuilt() {
    let backup = Backup::new();
    let since = Timestamp::from_millis(1_750_000_000_000);
    let owner = Some(ObjectOwner { name: "ann".into(), since });
    let grant = |name: &str, permissions| UserGrant { name: name.into(), since, permissions };
    // The second was granted after the put, and both grants of bob are kept.
    let grants = vec![grant("bob", 1), grant("bob", 15), grant("eve", 4)];
    let of_owner =
        ObjectControls { users: NamedUsers::of(owner.clone(), Vec::new()), ..ObjectControls::default() };
    let all = ObjectControls {
        acl: AclGrants::ALL_READ,
        users: NamedUsers::of(owner, grants.clone()),
        ..ObjectControls::default()
    };
    let list = b"<AccessControlList><Grant/></AccessControlList>";
    {
        let store = open(backup.store.dir.path());
        for key in ["owned", "shared"] {
            let mut writer = store.writer("photos", key, Some(3)).unwrap();
            writer.write(b"abc").unwrap();
            writer.commit(Commit { controls: of_owner.clone(), ..commit(b"abc") }).unwrap();
        }
        let shared = store.find("photos", "shared", Selector::Current).unwrap().version;
        store.set_acl("photos", "shared", shared, AclGrants::ALL_READ, grants).unwrap();
        store.set_bucket_configuration("photos", BucketConfigurationKind::Acl, Some(list.to_vec())).unwrap();
    }
    let check = |dir: &Path, bucket_acl: Option<&[u8]>| {
        let store = open(dir);
        let controls = |key| store.find("photos", key, Selector::Current).unwrap().version.controls;
        assert_eq!(controls("owned"), of_owner);
        assert_eq!(controls("shared"), all);
        let bucket = store.configured_bucket("photos").unwrap();
        let kept = bucket.configuration(BucketConfigurationKind::Acl);
        assert_eq!(kept.map(BucketConfiguration::document), bucket_acl);
    };
    backup.make();
    let (output, to) = backup.restore(&[]);
    assert_eq!(status(&output), 0, "{}{}", stdout(&output), stderr(&output));
    check(&to, Some(list));
    assert_eq!(status(&run(&["--data-dir", to.to_str().unwrap(), "verify"])), 0);
    let rebuilt = run(&["--data-dir", to.to_str().unwrap(), "rebuild", "--replace"]);
    assert_eq!(status(&rebuilt), 0, "{}{}", stdout(&rebuilt), stderr(&rebuilt));
    // Segments hold no configurations of buckets (data-format.md, section 9).
    check(&to, None);
}
