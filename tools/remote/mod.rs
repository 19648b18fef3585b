//! The command `remote`: prepares, shows and probes the bucket on another S3 server that the
//! configuration file names.

mod key;
mod report;

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use siltstone::base::{OsEntropy, SystemClock, Timestamp};
use siltstone::client::SettingSources;
use siltstone::format::{ASIDE, FileKind, LOCK, RemoteMark, StoreId};
use siltstone::fs::{Fs, OsFs, ReadOnlyFs, SubdirFs};
use siltstone::log::{list_numbers, open_file};
use siltstone::offline::{
    audit_copies, audit_remote, delete_orphans, divergent_changes, log_lag, remote_reach,
};
use siltstone::remote::probe::{ProbeReport, ProbeSize, nonce, probe};
use siltstone::remote::{NewObject, Remote, RemoteError, RemoteObject, RemoteSettings, S3Remote, read_mark};
use siltstone::store::{
    Progress, ShipError, StoreCreation, adopt_remote, check_first_start, follows, restore_from_remote,
    restore_from_remote_at,
};

use crate::data_dir::DataDir;
use crate::outcome::{Failure, Outcome};
use crate::progress::Meter;
use report::{
    Contents, DivergentLog, write_adopted, write_audit, write_divergent, write_marked, write_probe,
    write_restored, write_status,
};

pub(crate) const HELP: &str = "\
A remote is a bucket and a prefix on another S3 server. The section [remote] of the configuration file names it:

  [remote]
  endpoint = \"https://s3.example.net\"
  bucket = \"cold\"
  prefix = \"box1\"
  access_key = \"...\"
  secret_key_file = \"/etc/siltstone/remote.key\"

The keys may also be in SILTSTONE_REMOTE_ACCESS_KEY and SILTSTONE_REMOTE_SECRET_KEY.

Examples:
  siltstone-tools remote --config siltstone.toml probe
      Find out by trying for which modes the remote is fit.
  siltstone-tools --data-dir /srv/objects remote --config /etc/siltstone.toml init
      Probe it, and mark it as that of the store in /srv/objects. The server may run; it has run once, so that there is a store.
  siltstone-tools --json remote --config siltstone.toml status | jq .segments

  siltstone-tools --data-dir /srv/objects remote --config /etc/siltstone.toml restore
      Make the store in the empty directory /srv/objects from the log that a server with --ship has sent.
  siltstone-tools --data-dir /srv/before remote --config /etc/siltstone.toml restore --at 2h
      The same with the state of two hours ago.
  siltstone-tools --data-dir /srv/objects remote --config /etc/siltstone.toml divergent
      List what this host took after the last piece of the log that another host has adopted, in its directory and in all that was set
      aside there when it came back. The server may not run, unless as a standby.

  siltstone-tools --data-dir /srv/objects remote --config /etc/siltstone.toml adopt
      Say that this directory is the right one, after it was copied from another place or restored from a backup.

  siltstone-tools --data-dir /srv/objects remote --config siltstone.toml audit
      List objects that are missing, and those that nothing needs; a server may be at work. Without a log on the remote the data directory
      names the copies.

  siltstone-tools remote key /etc/siltstone/remote-encryption.key
      Make a key. The section names its file as encryption_key_file; init comes after it.

Exit status:
  0  success; for probe and init: fit for all modes; for audit: no findings are left; for divergent: nothing is divergent
  1  the remote is unfit for a mode (init marks it nevertheless, unless it is unfit for all), or belongs to another store, or to none, or
     something is found or divergent
  2  the remote or the store could not be asked, or wrong arguments";

/// The longest time of one call.
const WITHIN: Duration = Duration::from_secs(30);
/// The answer where the data directory is empty.
const NO_STORE: &str = "there is no store: start the server once with this data directory, which makes one, and then run init; the server may go on \
                        running";
/// The longest configuration or key file.
const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Configuration file that names the remote
    #[arg(long, value_name = "FILE", env = "SILTSTONE_CONFIG")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: RemoteCommand,
}

#[derive(Debug, Subcommand)]
enum RemoteCommand {
    /// Probe the remote, and mark it as that of the store
    Init(ProbeArguments),
    /// Show whose the remote is, and its objects
    Status,
    /// Find out for which modes the remote is fit
    Probe(ProbeArguments),
    /// Make the store in the data directory, which is empty, from the log on the remote
    Restore(RestoreArguments),
    /// Make a key with which the objects of a remote are encrypted
    Key {
        /// Key file, which does not exist
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Put the key in front of those in the file: new objects get it, and the others stay
        /// readable
        #[arg(long)]
        rotate: bool,
    },
    /// Make the data directory the one whose server changes the remote, as after it was moved or
    /// restored. No server may run
    Adopt,
    /// List the changes in the data directory that the log on the remote lacks, as after another
    /// host has taken over
    Divergent,
    /// Compare the objects of the remote with those that the log there names
    Audit(AuditArguments),
}

#[derive(Debug, Args)]
struct AuditArguments {
    /// Delete the objects of earlier epochs that nothing needs; without it they are listed
    #[arg(long)]
    delete: bool,
}

#[derive(Debug, Args)]
struct RestoreArguments {
    /// Restore the state of that time: 2026-11-24T09:00:00Z, or 2h for two hours ago. A start
    /// with --ship then gives up the log after it
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<Moment>,
    /// Encrypt the new data directory with a key of its own, which the key or the passphrase of
    /// --store-key-file opens
    #[arg(long)]
    encrypt_store: bool,
}

/// A time, or an age.
#[derive(Debug, Clone, Copy)]
enum Moment {
    At(Timestamp),
    Ago(Duration),
}

fn moment(text: &str) -> Result<Moment, String> {
    if let Some(time) = Timestamp::parse_iso8601(text) {
        return Ok(Moment::At(time));
    }
    let age = text.strip_suffix("ago").unwrap_or(text).trim();
    let told = "it is neither a time such as 2026-11-24T09:00:00Z nor an age such as 2h";
    humantime::parse_duration(age).map(Moment::Ago).map_err(|_| told.to_owned())
}

impl Moment {
    fn time(self) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(age) => {
                Timestamp::from_system(SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH))
            }
        }
    }
}

#[derive(Debug, Args)]
struct ProbeArguments {
    /// Rounds of creates of one name at the same time
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Creates in each round
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=64))]
    racers: u16,
}

/// Runs a command on the remote. `variable` reads the environment.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &Arguments,
    json: bool,
    variable: &dyn Fn(&str) -> Option<String>,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    if let RemoteCommand::Key { file, rotate } = &arguments.command {
        return key::write(file, *rotate, json, out);
    }
    let config = arguments.config.as_deref();
    let config =
        config.ok_or_else(|| Failure::Command("name the configuration file with --config".to_owned()))?;
    let settings = settings(config, variable)?;
    let remote = settings.remote().map_err(Failure::Command)?;
    let bare = S3Remote::new(&settings).map_err(Failure::Command)?;
    let place = RemotePlace { remote: remote.as_ref(), bare: &bare, name: format!("{settings:?}") };
    match &arguments.command {
        RemoteCommand::Key { .. } => Ok(Outcome::Success),
        RemoteCommand::Init(size) => init(&place, &store_in(data_dir)?, size, json, out),
        RemoteCommand::Status => status(&place, data_dir, json, out),
        RemoteCommand::Adopt => adopt(&place, data_dir, json, out),
        RemoteCommand::Divergent => divergent(&place, data_dir, json, out),
        RemoteCommand::Restore(arguments) => restore(&place, data_dir, arguments, json, out),
        RemoteCommand::Audit(arguments) => audit(&place, data_dir, arguments.delete, json, out),
        RemoteCommand::Probe(size) => {
            let report = place.probe(size, json)?;
            write_probe(&report, &place.name, json, out)?;
            Ok(if report.decides_races() && report.left.is_none() {
                Outcome::Success
            } else {
                Outcome::Findings
            })
        }
    }
}

/// A remote with its name for messages.
struct RemotePlace<'r> {
    remote: &'r dyn Remote,
    /// The same without encryption, to be probed.
    bare: &'r dyn Remote,
    name: String,
}

/// The section of a configuration file.
pub(crate) fn settings(
    config: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<RemoteSettings, Failure> {
    let text = small_file(config).map_err(|why| Failure::of(config.display(), why))?;
    let sources = SettingSources { read: &small_file, variable };
    let parsed = RemoteSettings::parse(&text, &sources).map_err(|why| Failure::of(config.display(), why))?;
    parsed.ok_or_else(|| Failure::of(config.display(), "there is no section [remote]"))
}

fn small_file(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_MAX_BYTES).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

/// The id of the store in a directory. Nothing is locked.
pub(crate) fn store_in(data_dir: &DataDir) -> Result<StoreId, Failure> {
    let fs = data_dir.disk()?;
    let fs = fs.as_ref();
    let failed = |why: String| Failure::of(data_dir.display(), why);
    let numbers = list_numbers(fs, FileKind::Log).map_err(|error| failed(error.to_string()))?;
    let newest = numbers.last().ok_or_else(|| failed(NO_STORE.to_owned()))?;
    let opened = open_file(fs, FileKind::Log, *newest, None).map_err(|error| failed(error.to_string()))?;
    Ok(opened.1.store)
}

fn init(
    place: &RemotePlace<'_>,
    store: &StoreId,
    size: &ProbeArguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    if let Some(mark) = place.mark()? {
        return place.judge_mark(&mark, store, json, out);
    }
    let report = place.probe(size, json)?;
    write_probe(&report, &place.name, json, out)?;
    if !report.keeps_objects() {
        return Ok(Outcome::Findings);
    }
    let made = Timestamp::from_system(SystemTime::now());
    let bytes = RemoteMark { store: *store, made, decides_races: report.decides_races() }.encode();
    let object =
        NewObject { name: RemoteMark::NAME, body: &bytes.as_slice(), nonce: &nonce(), create_only: true };
    match place.remote.put(&object, WITHIN) {
        Ok(_) => {}
        Err(RemoteError::Exists) => {}
        Err(why) => return Err(Failure::of(&place.name, why)),
    }
    // A remote that ignores conditions may have taken two.
    let mark = place.mark()?.ok_or_else(|| Failure::of(&place.name, "the mark that was put is missing"))?;
    if mark.store != *store {
        return place.judge_mark(&mark, store, json, out);
    }
    Ok(if mark.decides_races { Outcome::Success } else { Outcome::Findings })
}

/// Makes a store from the log on the remote.
fn restore(
    place: &RemotePlace<'_>,
    data_dir: &DataDir,
    arguments: &RestoreArguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let fs = OsFs::new(data_dir.to_path_buf());
    let checked = check_first_start(&fs, StoreCreation::Auto, &[]);
    checked.map_err(|error| Failure::of(data_dir.display(), error))?;
    let created = fs.create_root();
    created.map_err(|error| Failure::of(data_dir.display(), error))?;
    let disk = data_dir.disk_to_fill(arguments.encrypt_store)?;
    let fs = disk.as_ref();
    let mut meter = Meter::of_steps(json);
    let mut update = |now: Progress| meter.update(&now.step.to_string(), now.done, now.total);
    let report = match arguments.at.map(Moment::time) {
        Some(at) => restore_from_remote_at(place.remote, fs, &SystemClock, at, &mut update),
        None => restore_from_remote(place.remote, fs, &SystemClock, &mut update),
    };
    meter.finish();
    let report = report.map_err(|error| Failure::of(&place.name, error))?;
    write_restored(&report, data_dir, json, out)?;
    Ok(Outcome::Success)
}

/// Claims the next epoch for the directory.
fn adopt(
    place: &RemotePlace<'_>,
    data_dir: &DataDir,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let failed = |why: String| Failure::of(data_dir.display(), why);
    let store = store_in(data_dir)?;
    let disk = data_dir.disk()?;
    let fs = disk.as_ref();
    let _lock = fs.lock(LOCK).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => failed("a server uses the directory: stop it first".to_owned()),
        _ => failed(error.to_string()),
    })?;
    let mark =
        place.mark()?.ok_or_else(|| Failure::of(&place.name, "it is marked for no store: run init"))?;
    if mark.store != store {
        return Err(Failure::of(&place.name, "it belongs to another store"));
    }
    let now = Timestamp::from_system(SystemTime::now());
    let adopted = adopt_remote(place.remote, fs, store, now, &OsEntropy);
    let adopted = adopted.map_err(|error| Failure::of(&place.name, error))?;
    write_adopted(adopted, data_dir, json, out)?;
    Ok(Outcome::Success)
}

/// Compares the objects with the log's, and deletes orphans where that is asked for.
/// Without a log the data directory names the copies.
fn audit(
    place: &RemotePlace<'_>,
    data_dir: &DataDir,
    deletes: bool,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let failed = |error: ShipError| Failure::of(&place.name, error);
    let found = match audit_remote(place.remote) {
        Err(ShipError::NoLog) if deletes => {
            let why = "--delete needs a log on the remote, which tells what nothing needs: the data directory may be an old copy";
            return Err(Failure::of(&place.name, why));
        }
        Err(ShipError::NoLog) => {
            let copies = audit_copies(place.remote, data_dir.disk()?.as_ref());
            copies.map_err(|error| Failure::of(data_dir.display(), error))?
        }
        found => found.map_err(failed)?,
    };
    if deletes {
        delete_orphans(place.remote, &found).map_err(failed)?;
    }
    write_audit(&found, deletes, json, out)?;
    let is_clean = found.missing.is_empty() && (deletes || found.orphans.is_empty());
    Ok(if is_clean { Outcome::Success } else { Outcome::Findings })
}

/// Lists what the directory has and the log on the remote lacks.
fn divergent(
    place: &RemotePlace<'_>,
    data_dir: &DataDir,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let disk = data_dir.disk()?;
    let disk = disk.as_ref();
    let mut found = Vec::new();
    for name in set_aside(&OsFs::new(data_dir.to_path_buf()))
        .map_err(|error| Failure::of(data_dir.display(), error))?
    {
        let fs = SubdirFs::new(disk, &name);
        match DivergentLog::read(place.remote, &fs, Some(name.clone())) {
            Err(ShipError::OtherLog) => found.push(DivergentLog::unknown(name)),
            read => found.push(read.map_err(|error| Failure::of(data_dir.display(), error))?),
        }
    }
    // A standby has nothing of its own.
    if !follows(disk).map_err(|error| Failure::of(data_dir.display(), error))? {
        found.push(
            DivergentLog::read(place.remote, disk, None)
                .map_err(|error| Failure::of(data_dir.display(), error))?,
        );
    }
    write_divergent(&found, json, out)?;
    let is_clean = found.iter().all(|log| log.changes.is_empty() && log.divergence.is_some());
    Ok(if is_clean { Outcome::Success } else { Outcome::Findings })
}

/// The directories with files that were set aside before the data directory was filled.
fn set_aside(disk: &OsFs) -> io::Result<Vec<String>> {
    match disk.entries(ASIDE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => {
            let dirs = entries?.into_iter().filter(|entry| entry.is_dir);
            Ok(dirs.map(|entry| format!("{ASIDE}/{}", entry.name)).collect())
        }
    }
}

impl DivergentLog {
    fn read(remote: &dyn Remote, fs: &dyn Fs, aside: Option<String>) -> Result<Self, ShipError> {
        let mut changes = Vec::new();
        let found = divergent_changes(remote, &ReadOnlyFs::new(fs), &mut |change| changes.push(change))?;
        Ok(Self { aside, divergence: Some(found), changes })
    }

    /// A log without a group in common with what the remote still has.
    fn unknown(aside: String) -> Self {
        Self { aside: Some(aside), divergence: None, changes: Vec::new() }
    }
}

fn status(
    place: &RemotePlace<'_>,
    data_dir: &DataDir,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let mark = place.mark()?;
    let mut contents = Contents::default();
    let mut after = String::new();
    loop {
        let page = place.remote.list("", &after, WITHIN).map_err(|why| Failure::of(&place.name, why))?;
        let Some(RemoteObject { name, .. }) = page.last() else { break };
        after.clone_from(name);
        for object in &page {
            contents.count(object);
        }
    }
    let own = store_in(data_dir).ok().zip(mark).map(|(store, mark)| store == mark.store);
    let reach = mark.map(|_| remote_reach(place.remote)).transpose();
    let reach = reach.map_err(|error| Failure::of(&place.name, error))?.flatten();
    // A server may be at work in the directory, so that it cannot be read.
    let lag = own.filter(|own| *own).and_then(|_| {
        let disk = data_dir.disk().ok()?;
        log_lag(place.remote, &ReadOnlyFs::new(disk)).ok().flatten()
    });
    write_status((mark.as_ref(), own), &contents, (reach, lag), &place.name, json, out)?;
    Ok(if mark.is_none() || own == Some(false) { Outcome::Findings } else { Outcome::Success })
}

impl RemotePlace<'_> {
    /// The mark on the remote.
    fn mark(&self) -> Result<Option<RemoteMark>, Failure> {
        read_mark(self.remote, WITHIN)
            .map_err(|why| Failure::of(&self.name, format!("{}: {why}", RemoteMark::NAME)))
    }

    /// Says whose the remote is, and for which modes its mark says that it is fit.
    fn judge_mark(
        &self,
        mark: &RemoteMark,
        store: &StoreId,
        json: bool,
        out: &mut dyn Write,
    ) -> Result<Outcome, Failure> {
        write_marked(mark, mark.store == *store, &self.name, json, out)?;
        let is_good = mark.store == *store && mark.decides_races;
        Ok(if is_good { Outcome::Success } else { Outcome::Findings })
    }

    fn probe(&self, size: &ProbeArguments, json: bool) -> Result<ProbeReport, Failure> {
        let mut meter = Meter::of_steps(json);
        let size = ProbeSize { rounds: size.rounds, racers: size.racers, settle: ProbeSize::SETTLE };
        let report = probe(self.bare, size, |step, done, all| meter.update(step, done, all));
        meter.finish();
        report.map_err(|why| Failure::of(&self.name, why))
    }
}
