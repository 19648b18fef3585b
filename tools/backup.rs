//! The commands `backup` and `restore`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use siltstone::base::SystemClock;
use siltstone::base::digest::to_hex;
use siltstone::format::BackupSlot;
use siltstone::fs::{Fs as _, OsFs, SubdirFs, absolute};
use siltstone::offline::backup::{
    BackupError, BackupOptions, BackupReport, BackupSource, FileTotals, RestoreReport,
};
use siltstone::offline::{self, NeededKey, verify::Finding};
use siltstone::store::Progress;
use siltstone::vault::{VaultError, copy_keys, is_encrypted};

use crate::data_dir::DataDir;
use crate::outcome::{Failure, Outcome};
use crate::progress::Meter;
use crate::{show, verify};

pub(crate) const BACKUP_HELP: &str = "\
The backup holds everything acknowledged before the command began, and possibly later writes. The server need not be stopped.
The directory holds one backup. The next one replaces it once it is complete; after any failure the former one is still usable.
Full segments are not copied again. On the same file system they are hard links, which protect against mistakes and not
against a broken disk; elsewhere the copies of the former backup are kept. While a hard link to a segment exists, the server
frees none of its space. The data directory may be mounted read-only: then the segments are locked while they are copied.
Every copied object is checked against its checksums.

The directory named in CURRENT, a or b, is a data directory like any other: siltstone-tools --data-dir BACKUP/a verify
checks it.

Examples:
  siltstone-tools backup /mnt/usb/objects
      Back up ./siltstone-data.
  siltstone-tools --data-dir /srv/objects backup --verify --with-users /mnt/usb/objects
  siltstone-tools --data-dir /srv/objects --json backup /mnt/usb/objects | jq .copied.bytes

Exit status:
  0  the backup is complete
  1  the store or the copy is damaged, and the former backup was kept; or the backup is complete and lacks a key that its
     encrypted objects need, which is named: the ring of the data directory does not have it
  2  no backup could be made, or wrong arguments; the former one was kept";

pub(crate) const RESTORE_HELP: &str = "\
Copies the backup into the data directory, which must be empty or missing, and checks every checksum of the copy. The users
and the keys of encrypted objects are restored if the backup was made with --with-users.

Examples:
  siltstone-tools --data-dir /srv/objects restore /mnt/usb/objects
  siltstone-tools --data-dir ./look restore /mnt/usb/objects && siltstone --data-dir ./look

Exit status:
  0  restored
  1  restored, but damaged: each finding names object, file, offset and expected content; or the ring that was restored lacks a
     key that objects need, which is named
  2  nothing was restored, or wrong arguments";

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// Directory of the backup; created if missing
    #[arg(value_name = "BACKUP")]
    to: PathBuf,

    /// Check every checksum of the new backup, also in segments that were not copied, before it
    /// replaces the former
    #[arg(long)]
    verify: bool,

    /// Copy users.toml and keys.toml, too, if they are there; they hold secrets
    #[arg(long)]
    with_users: bool,
}

/// Makes a backup.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &BackupArguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let to = &arguments.to;
    let refused = |error: &dyn std::fmt::Display| Failure::of(to.display(), error);
    check_apart(data_dir, to)?;
    raise_open_files();
    let raw_from = OsFs::new(data_dir.to_path_buf());
    let raw_target = OsFs::new(to);
    let from = data_dir.disk()?;
    raw_target.create_root().map_err(|error| refused(&error))?;
    share_keys(&raw_from, &raw_target).map_err(|error| refused(&error))?;
    let target = data_dir.beside(to).disk()?;
    let target = target.as_ref();
    let source =
        BackupSource { fs: from.as_ref(), link: &|path, new| data_dir.link_into(path, &raw_target, new) };
    let options = BackupOptions { verify: arguments.verify, with_users: arguments.with_users };
    let mut meter = Meter::start(json);
    let made =
        offline::backup(&source, target, &SystemClock, options, &mut |progress| show(&mut meter, progress));
    meter.finish();
    match made {
        Ok(report) => {
            // Slots that came or went meanwhile: the backup has those of its end, too.
            share_keys(&raw_from, &raw_target).map_err(|error| refused(&error))?;
            write_backup(&report, arguments.with_users, json, out)?;
            Ok(if report.keys_missing.is_empty() { Outcome::Success } else { Outcome::Findings })
        }
        Err(BackupError::Findings(findings)) => write_findings(&findings, json, out),
        Err(BackupError::Damaged(damage)) => write_findings(&[Finding { damage, owner: None }], json, out),
        Err(error @ BackupError::NotAStore) => Err(Failure::of(data_dir.display(), error)),
        Err(error) => Err(refused(&error)),
    }
}

/// Restores a backup.
pub(crate) fn restore(
    data_dir: &DataDir,
    from: &Path,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let raw_target = OsFs::new(data_dir.to_path_buf());
    if !from.is_dir() {
        return Err(Failure::of(from.display(), "there is no such directory"));
    }
    if is_used(data_dir).map_err(|error| Failure::of(data_dir.display(), &error))? {
        return Err(Failure::of(data_dir.display(), &BackupError::NotEmpty));
    }
    let source = data_dir.beside(from).disk()?;
    data_dir.make_pair()?;
    raw_target.create_root().map_err(|error| Failure::of(data_dir.display(), &error))?;
    copy_keys(&OsFs::new(from), &raw_target).map_err(|error| data_dir.failed(&error))?;
    let target = data_dir.disk()?;
    let mut meter = Meter::start(json);
    let done = offline::restore(source.as_ref(), target.as_ref(), &mut |progress| show(&mut meter, progress));
    meter.finish();
    let report = match done {
        Ok(report) => report,
        Err(BackupError::Damaged(damage)) => {
            return write_findings(&[Finding { damage, owner: None }], json, out);
        }
        Err(error @ BackupError::NotABackup) => return Err(Failure::of(from.display(), error)),
        Err(error) => return Err(Failure::of(data_dir.display(), &error)),
    };
    write_restored(&report, json, out)?;
    // Without a ring in the backup, it comes from elsewhere.
    let is_whole = report.findings.is_empty() && (report.keys_missing.is_empty() || !report.with_keys);
    Ok(if is_whole { Outcome::Success } else { Outcome::Findings })
}

/// Gives the directory of a backup, and both of its slots, the keys of the store: each slot is a
/// data directory like any other, and hard links share files.
fn share_keys(from: &OsFs, target: &OsFs) -> Result<(), VaultError> {
    let has_keys = is_encrypted(target)?;
    if !is_encrypted(from)? {
        let why = "it holds a backup of an encrypted data directory: name another directory";
        return if has_keys { Err(VaultError::Slots(why.to_owned())) } else { Ok(()) };
    }
    if !has_keys && !target.list("")?.is_empty() {
        let why =
            "it holds something in the clear, and the data directory is encrypted: name another directory";
        return Err(VaultError::Slots(why.to_owned()));
    }
    copy_keys(from, target)?;
    for slot in [BackupSlot::A, BackupSlot::B] {
        target.create_dir(slot.dir())?;
        copy_keys(from, &SubdirFs::new(target, slot.dir()))?;
    }
    Ok(())
}

/// Raises the limit of open files: segments that cannot be linked are all open at the same time.
fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If that is refused, the backup names the first segment that could not be opened.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Refuses a backup within the store, which would be part of the next one, and a store within a
/// backup, which would be removed with it.
fn check_apart(data_dir: &Path, to: &Path) -> Result<(), Failure> {
    let from = absolute(data_dir).map_err(|error| Failure::of(data_dir.display(), error))?;
    let to = absolute(to).map_err(|error| Failure::of(to.display(), error))?;
    if from.starts_with(&to) || to.starts_with(&from) {
        let why = "the backup and the data directory must not contain each other";
        return Err(Failure::of(to.display(), why));
    }
    Ok(())
}

fn is_used(dir: &Path) -> io::Result<bool> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        entries => Ok(entries?.next().is_some()),
    }
}

fn show(meter: &mut Meter, progress: Progress) {
    let Progress { step, done, total } = progress;
    meter.update(&step.to_string(), done, total);
}

fn write_backup(
    report: &BackupReport,
    users_wanted: bool,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let BackupReport {
        slot,
        store,
        taken,
        sequence,
        linked,
        kept,
        copied,
        metadata_bytes,
        with_users,
        with_keys,
        keys_missing,
    } = report;
    if json {
        let described = json!({
            "slot": slot.dir(),
            "store": to_hex(&store.0),
            "taken": taken.to_string(),
            "sequence": sequence,
            "linked": files(linked),
            "kept": files(kept),
            "copied": files(copied),
            "metadata_bytes": metadata_bytes,
            "with_users": with_users,
            "with_keys": with_keys,
            "keys_missing": needed(keys_missing),
        });
        return show::json(out, &described);
    }
    for (what, FileTotals { count, bytes }) in [("linked", linked), ("kept", kept), ("copied", copied)] {
        writeln!(out, "segments {what}: {count}, bytes {bytes}")?;
    }
    writeln!(out, "checkpoints and log: bytes {metadata_bytes}")?;
    if users_wanted && !with_users {
        writeln!(out, "users: none, since the data directory has no users.toml")?;
    }
    if users_wanted && !with_keys {
        writeln!(
            out,
            "keys: none, since the data directory has no keys.toml: back up the file that --keys-file names"
        )?;
    }
    for key in keys_missing {
        writeln!(out, "key missing: {key}: the ring of the data directory does not open them")?;
    }
    writeln!(out, "the backup is complete: directory {}, up to group {sequence}", slot.dir())
}

fn write_restored(report: &RestoreReport, json: bool, out: &mut dyn Write) -> io::Result<()> {
    let RestoreReport {
        taken,
        sequence,
        files: copied,
        with_users,
        with_keys,
        keys_missing,
        findings,
        unchecked_bytes,
    } = report;
    if json {
        let described = json!({
            "taken": taken.to_string(),
            "sequence": sequence,
            "files": files(copied),
            "with_users": with_users,
            "with_keys": with_keys,
            "keys_missing": needed(keys_missing),
            "findings": findings.iter().map(verify::finding).collect::<Value>(),
            "unchecked_bytes": unchecked_bytes,
        });
        return show::json(out, &described);
    }
    findings.iter().try_for_each(|finding| writeln!(out, "finding: {finding}"))?;
    let place = if *with_keys { "the backup lacks it" } else { "the backup has no ring: put yours in place" };
    for key in keys_missing {
        writeln!(out, "key missing: {key}: {place}")?;
    }
    let FileTotals { count, bytes } = copied;
    writeln!(out, "restored: files {count}, bytes {bytes}, up to group {sequence} of {taken}")?;
    match findings.len() {
        0 if *unchecked_bytes > 0 => writeln!(
            out,
            "nothing is wrong with what was checked; {unchecked_bytes} bytes are on a remote, and were not"
        ),
        0 => writeln!(out, "nothing is wrong"),
        many => writeln!(out, "findings: {many}"),
    }
}

/// Keys of the ring, and what needs them.
pub(crate) fn needed(keys: &[NeededKey]) -> Value {
    keys.iter().map(|NeededKey { id, uses }| json!({ "id": id, "uses": uses })).collect()
}

fn files(files: &FileTotals) -> Value {
    let FileTotals { count, bytes } = files;
    json!({ "count": count, "bytes": bytes })
}

fn write_findings(findings: &[Finding], json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if json {
        show::json(out, &json!({ "findings": findings.iter().map(verify::finding).collect::<Value>() }))?;
    } else {
        findings.iter().try_for_each(|finding| writeln!(out, "finding: {finding}"))?;
    }
    Ok(Outcome::Findings)
}
