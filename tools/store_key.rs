//! The commands `store-key` and `encrypt`: the keys of an encrypted data directory.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use serde_json::json;
use siltstone::base::{OsEntropy, Timestamp};
use siltstone::disks::DisksError;
use siltstone::format::{ASIDE, KEYS, KEYS_COPY, KeySlotKind, SHADOW};
use siltstone::fs::{Lock, OsFs, memory_limit};
use siltstone::vault::{DirectoryKeys, KeyRequest, StoreSecret, VaultError, convert, level_keys};

use crate::data_dir::{DataDir, secret_in};
use crate::outcome::{Failure, Outcome};
use crate::progress::Meter;
use crate::show;

pub(crate) const HELP: &str = "\
An encrypted data directory has one key, which is wrapped in KEYS and KEYS.copy in slots: each for a key file or a
passphrase. Any of them opens it. The server needs one of them at each start (--store-key-file).

Examples:
  siltstone-tools store-key create /media/stick/store.key
      Make a key file, which its owner alone can read.
  siltstone-tools --data-dir /srv/objects store-key slots
      Show the slots. No key is needed.
  siltstone-tools --data-dir /srv/objects --store-key-file /media/stick/store.key store-key add /root/passphrase
      Let a passphrase open it, too.
  siltstone-tools --data-dir /srv/objects --store-key-file /root/passphrase store-key remove 1
  siltstone-tools --data-dir /srv/objects --store-key-file /media/stick/store.key store-key mend
      Write KEYS and KEYS.copy again from the one that is whole, once the key has opened it. The server may run.

Exit status:
  0  done
  2  nothing was changed, or wrong arguments";

pub(crate) const ENCRYPT_HELP: &str = "\
Encrypts every file of the data directory, one after another: each is written again beside itself, read back and renamed,
so that the largest file has to fit on the disk a second time. The server must be stopped. Where the command is cut off,
the server refuses the directory until the command was run again, with the same key, and has finished.

The former bytes may be left in free blocks of the disk, in snapshots, and in backups by hard links. users.toml and
keys.toml stay in the clear.

Examples:
  siltstone-tools store-key create /media/stick/store.key
  siltstone-tools --data-dir /srv/objects --store-key-file /media/stick/store.key encrypt

Exit status:
  0  every file is encrypted
  2  not all are, or wrong arguments";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: StoreKeyCommand,
}

#[derive(Debug, Subcommand)]
enum StoreKeyCommand {
    /// Make a key file
    Create {
        /// The file, which must not exist
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Show what opens the data directory
    Slots,
    /// Let the key or the passphrase of another file open the data directory, too
    Add {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Remove a slot
    Remove {
        /// Its number, as `slots` shows it
        #[arg(value_name = "N")]
        slot: usize,
    },
    /// Write KEYS and KEYS.copy again, where one of them is missing, damaged or older
    Mend,
}

/// Runs `store-key`.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &Arguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    match &arguments.command {
        StoreKeyCommand::Create { file } => {
            data_dir.check_apart(file)?;
            create(file, json, out)
        }
        StoreKeyCommand::Slots => slots(data_dir, json, out),
        StoreKeyCommand::Add { file } => {
            data_dir.check_apart(file)?;
            let added = secret_in(file)?;
            change(data_dir, json, out, |keys, secret| {
                let key = keys.open(secret)?;
                keys.add(&key, &request(&added))
            })
        }
        StoreKeyCommand::Remove { slot } => {
            change(data_dir, json, out, |keys, secret| keys.open(secret).and_then(|_| keys.remove(*slot)))
        }
        StoreKeyCommand::Mend => mend(data_dir, json, out),
    }
}

/// Runs `encrypt`.
pub(crate) fn encrypt(data_dir: &DataDir, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if data_dir.mirror().is_some() {
        return Err(data_dir.failed(&DisksError::OnlyLooks));
    }
    let secret = data_dir.secret()?.ok_or_else(|| {
        let why = "name a file with a key (siltstone-tools store-key create FILE) or a passphrase with --store-key-file";
        Failure::of(data_dir.display(), why)
    })?;
    data_dir.check_own_key_apart()?;
    let more = further_dirs(&OsFs::new(data_dir.to_path_buf()))?;
    let fault = data_dir.keys_fault()?;
    let disk = data_dir.raw_disk()?;
    let mut meter = Meter::start(json);
    let done = convert(
        &disk,
        &request(&secret),
        Arc::new(OsEntropy),
        &more,
        &|| OsFs::new(data_dir.to_path_buf()).lock_root(),
        &mut |done, total| meter.update("encrypting", done, total),
    );
    meter.finish();
    let report = done.map_err(|error| data_dir.failed(&error))?;
    if json {
        let shown = json!({
            "files": report.files,
            "bytes": report.bytes,
            "encrypted_before": report.done_before,
            "linked_elsewhere": report.linked,
            "keys_fault": fault.map(|fault| fault.to_string()),
        });
        show::json(out, &shown)?;
        return Ok(Outcome::Success);
    }
    writeln!(
        out,
        "{}: {} files with {} bytes were encrypted",
        data_dir.display(),
        report.files,
        report.bytes
    )?;
    if let Some(fault) = fault {
        writeln!(out, "{fault}; it was written again")?;
    }
    if report.done_before > 0 {
        writeln!(out, "{} files were encrypted by an earlier run", report.done_before)?;
    }
    if report.linked > 0 {
        writeln!(
            out,
            "{} of them have further names, as in a backup, which stay in the clear",
            report.linked
        )?;
    }
    writeln!(out, "without the key nothing of it can be read: keep a copy in another place")?;
    Ok(Outcome::Success)
}

/// The directories of files that were set aside (data-format.md, section 2), and that of the shadow of
/// the log.
fn further_dirs(disk: &OsFs) -> Result<Vec<String>, Failure> {
    let mut found = dirs_in(disk, SHADOW)?;
    for dir in dirs_in(disk, ASIDE)? {
        found.extend(dirs_in(disk, &dir)?);
    }
    Ok(found)
}

fn dirs_in(disk: &OsFs, dir: &str) -> Result<Vec<String>, Failure> {
    match disk.entries(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => {
            let entries = entries.map_err(|error| Failure::Command(error.to_string()))?;
            let dirs = entries.into_iter().filter(|entry| entry.is_dir);
            Ok(dirs.map(|entry| format!("{dir}/{}", entry.name)).collect())
        }
    }
}

fn create(file: &Path, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let (line, id) = StoreSecret::new_key_file(&OsEntropy);
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let written = opened.and_then(|mut made| {
        made.write_all(line.as_bytes())?;
        made.sync_all()
    });
    written.map_err(|error| Failure::of(file.display(), error))?;
    if json {
        show::json(out, &json!({ "file": file, "key": id.to_string() }))?;
        return Ok(Outcome::Success);
    }
    writeln!(out, "{}: the key file {id}", file.display())?;
    writeln!(out, "keep it away from the disk that it protects, and a copy in another place")?;
    Ok(Outcome::Success)
}

fn slots(data_dir: &DataDir, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let keys = data_dir.keys()?;
    write_slots(&keys, json, out)?;
    Ok(Outcome::Success)
}

/// Puts the file back that the directory lacks, or that is damaged.
fn mend(data_dir: &DataDir, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let failed = |error: VaultError| data_dir.failed(&error);
    let disks = KeyDisks::of(data_dir);
    let _locks = disks.lock().map_err(|error| failed(error.into()))?;
    let mut keys = data_dir.keys()?;
    let secret = data_dir.secret()?.ok_or_else(|| failed(VaultError::NoSecret))?;
    let fault = keys.fault().cloned();
    keys.mend(&disks.own, &secret).map_err(failed)?;
    disks.make_level().map_err(failed)?;
    if json {
        show::json(out, &json!({ "mended": fault.map(|fault| fault.to_string()) }))?;
        return Ok(Outcome::Success);
    }
    match fault {
        Some(fault) => writeln!(out, "{fault}; {KEYS} and {KEYS_COPY} were written again")?,
        None => writeln!(out, "{KEYS} and {KEYS_COPY} are whole and the same: nothing was written")?,
    }
    Ok(Outcome::Success)
}

fn change(
    data_dir: &DataDir,
    json: bool,
    out: &mut dyn Write,
    change: impl FnOnce(&mut DirectoryKeys, &StoreSecret) -> Result<(), VaultError>,
) -> Result<Outcome, Failure> {
    let failed = |error: VaultError| data_dir.failed(&error);
    let disks = KeyDisks::of(data_dir);
    // A server reads the keys when it starts, so that it may run meanwhile; a conversion writes
    // them. Other commands that change them wait: what they wrote in between would be lost.
    let _locks = disks.lock().map_err(|error| failed(error.into()))?;
    let mut keys = data_dir.keys()?;
    let secret = data_dir.secret()?.ok_or_else(|| failed(VaultError::NoSecret))?;
    keys.check_changeable(&disks.own).map_err(failed)?;
    change(&mut keys, &secret).map_err(failed)?;
    keys.write(&disks.own).map_err(|error| failed(error.into()))?;
    disks.make_level().map_err(failed)?;
    write_slots(&keys, json, out)?;
    Ok(Outcome::Success)
}

/// The directories that have the keys.
struct KeyDisks {
    own: OsFs,
    /// The other side of a mirror, where it is in use.
    other: Option<OsFs>,
}

impl KeyDisks {
    fn of(data_dir: &DataDir) -> Self {
        Self { own: OsFs::new(data_dir.to_path_buf()), other: data_dir.other_side().map(OsFs::new) }
    }

    fn lock(&self) -> io::Result<Vec<Box<dyn Lock>>> {
        [&self.own].into_iter().chain(&self.other).map(OsFs::lock_root).collect()
    }

    /// Gives both sides the newer of their keys; so does a start, if that fails.
    fn make_level(&self) -> Result<(), VaultError> {
        self.other.iter().try_for_each(|other| level_keys([&self.own, other]))
    }
}

fn write_slots(keys: &DirectoryKeys, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        let shown: Vec<_> = keys
            .slots()
            .iter()
            .zip(1..)
            .map(|(slot, number)| match slot.kind {
                KeySlotKind::KeyFile(id) => {
                    json!({ "slot": number, "kind": "key-file", "key": id.to_string(), "created": slot.created.as_millis() })
                }
                KeySlotKind::Passphrase(cost) => {
                    json!({ "slot": number, "kind": "passphrase", "memory_kib": cost.memory_kib, "created": slot.created.as_millis() })
                }
            })
            .collect();
        let fault = keys.fault().map(ToString::to_string);
        return Ok(show::json(out, &json!({ "slots": shown, "fault": fault }))?);
    }
    if let Some(fault) = keys.fault() {
        writeln!(out, "{fault}: siltstone-tools {}", keys.mending_command())?;
    }
    for (slot, number) in keys.slots().iter().zip(1..) {
        match slot.kind {
            KeySlotKind::KeyFile(id) => writeln!(out, "{number}  key file {id}")?,
            KeySlotKind::Passphrase(cost) => {
                writeln!(
                    out,
                    "{number}  passphrase, {} KiB and {} passes of Argon2id",
                    cost.memory_kib, cost.passes
                )?;
            }
        }
    }
    Ok(())
}

/// A slot for a secret, made now on this host.
pub(crate) fn request(secret: &StoreSecret) -> KeyRequest<'_> {
    let memory_bytes = memory_limit(Path::new("/"), "self").map_or(0, |limit| limit.bytes);
    KeyRequest { secret, entropy: &OsEntropy, now: Timestamp::from_system(SystemTime::now()), memory_bytes }
}
