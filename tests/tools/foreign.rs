//! Directories of other programs: what makes a store leaves them as they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::import::{command_of, start};
use super::remote::RemoteServer;
use super::{Fixture, run, status, stderr};

/// The directories of five programs, and one of nobody knows whom: files that each has, and what
/// the refusal says.
const FOREIGN: [(&[&str], &str); 6] = [
    (&[".minio.sys/format.json", "data/cat.jpg/xl.meta", "meta/dog.jpg/xl.meta"], "`.minio.sys` is of MinIO"),
    (&[".rustfs.sys/format.json", "photos/cat.jpg/xl.meta"], "`.rustfs.sys` is of RustFS"),
    (&["db.lmdb/data.mdb", "cluster_layout", "data/00/11/block"], "of Garage"),
    (&["photos_1.dat", "photos_1.idx", "photos_1.vif"], "of SeaweedFS"),
    (&["ceph_fsid", "whoami", "block"], "of Ceph"),
    (&["accounts/2026.ods"], "`accounts`"),
];

/// Every file and directory below, and the bytes of the files.
pub(super) fn everything(dir: &Path, found: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => {
                everything(&path, found);
                found.insert(path, None);
            }
            false => drop(found.insert(path.clone(), Some(fs::read(&path).unwrap()))),
        }
    }
}

fn content(dir: &TempDir) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    everything(dir.path(), &mut found);
    found
}

#[test]
fn no_command_makes_a_store_in_a_foreign_directory() {
    let home = tempfile::tempdir().unwrap();
    let source = start(home.path());
    let url = format!("http://{}", source.address());
    let remote = RemoteServer::start();
    let config = remote.config();
    let config = config.to_str().unwrap();
    let store = Fixture::new();
    let backups = tempfile::tempdir().unwrap();
    let backup = backups.path().join("backup");
    let backup = backup.to_str().unwrap();
    assert_eq!(status(&store.tool(&["backup", backup])), 0);
    for (files, told) in FOREIGN {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("the bytes of {file}")).unwrap();
        }
        let before = content(&dir);
        let data_dir = dir.path().to_str().unwrap();
        let import = ["s3://old", "new", "--endpoint", &url, "--offline", "--data-dir", data_dir];
        for (name, output, told) in [
            ("import --offline", command_of("import", &import).output().unwrap(), told),
            ("remote restore", run(&["--data-dir", data_dir, "remote", "--config", config, "restore"]), told),
            ("restore", run(&["--data-dir", data_dir, "restore", backup]), "empty"),
        ] {
            assert_eq!(status(&output), 2, "{name} into {files:?}: {}", stderr(&output));
            assert!(stderr(&output).contains(told), "{name} into {files:?}: {}", stderr(&output));
            assert_eq!(content(&dir), before, "{name} into {files:?}");
        }
    }
}
