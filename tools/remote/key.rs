//! Making keys for the objects of a remote.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use siltstone::base::OsEntropy;
use siltstone::remote::{EncryptionKey, EncryptionKeys};

use super::small_file;
use crate::outcome::{Failure, Outcome};
use crate::show;

/// Puts a new key into a key file: a new file, or, to rotate, in front of the keys of one that is
/// there.
pub(super) fn write(path: &Path, rotate: bool, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let failed = |why: String| Failure::of(path.display(), why);
    let key = EncryptionKey::generate(&OsEntropy);
    if rotate {
        let text = small_file(path).map_err(failed)?;
        EncryptionKeys::parse(&text).map_err(failed)?;
        replace(path, &format!("{}\n{text}", key.line())).map_err(failed)?;
    } else {
        create(path, &format!("{}\n", key.line())).map_err(failed)?;
    }
    if json {
        show::json(out, &json!({ "file": path, "key": key.id().to_string() }))?;
        return Ok(Outcome::Success);
    }
    writeln!(out, "{}: new objects are encrypted with the key {}", path.display(), key.id())?;
    writeln!(out, "without this file nothing of the remote can be read: keep a copy in another place")?;
    Ok(Outcome::Success)
}

/// Replaces a file in one step: it has the keys before, or all.
fn replace(path: &Path, text: &str) -> Result<(), String> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    create(&unfinished, text).map_err(|why| format!("{}: {why}", unfinished.display()))?;
    fs::rename(&unfinished, path).and_then(|()| sync_dir_of(path)).map_err(|error| error.to_string())
}

/// Makes a file that its owner alone can read. It is on the disk then.
fn create(path: &Path, text: &str) -> Result<(), String> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = opened.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.and_then(|()| sync_dir_of(path)).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => "the file exists: add a key to it with --rotate".to_owned(),
        _ => error.to_string(),
    })
}

fn sync_dir_of(path: &Path) -> std::io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
}
