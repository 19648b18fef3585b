//! The commands `disk`.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytesize::ByteSize;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use siltstone::base::{Clock, OsEntropy, SystemClock};
use siltstone::disks::{ChangeProgress, DisksError, LostPair, MirrorPlaces};
use siltstone::format::{FileKind, SideState};
use siltstone::fs::{Fs as _, OsFs};
use siltstone::log::list_numbers;
use siltstone::offline::drop_lost;
use siltstone::offline::lost_disk::{LostDiskOptions, LostDiskReport};

use crate::data_dir::DataDir;
use crate::outcome::{Failure, Outcome};
use crate::progress::Meter;
use crate::show;

pub(crate) const HELP: &str = "\
A store whose data directory is on a hard disk can keep its log and small objects in a second directory, on an SSD: a small put
waits for that alone then. `add` moves the log there, and new small objects follow; `drain` moves all of it back. For both the
server must be stopped. Both directories are needed from then on: name the second one with --fast-dir to the server, and to these
tools.

The log is in the fast directory. While a server runs, the data directory gets a copy of it every ten seconds. Where the disk of the
fast directory is dead, restore a backup, or what was shipped to a remote: it has more, and takes what `lost` drops for deletions.
Without either, `lost` makes a store of the data directory alone: it goes on with that copy, and drops and lists the objects whose
bytes were on the dead disk. Mirrors and webhooks begin anew: fetch back first what a mirror has. With --discard-log the copy is given
up, too: `rebuild` makes a log from the segments then, which restores less.

A store can also have two directories with the same bytes on two disks, and go on without either: name both with --mirror A=B in place
of --data-dir. `add` makes a mirror of a store in A and an empty directory B, which the next start of the server fills. `replace` names
an empty directory in the place of a side that is lost. Where each side has gone on without the other, `resolve` keeps one: the other is
no side any more, its files stay, and it is a store of its own for --data-dir. For all of them the server must be stopped.

Examples:
  siltstone-tools --mirror /srv/one=/srv/two disk add
      From now on: siltstone --mirror /srv/one=/srv/two
  siltstone-tools --mirror /srv/one=/srv/new disk replace
  siltstone-tools --mirror /srv/one=/srv/two disk resolve --keep /srv/two
  siltstone-tools --data-dir /srv/hdd --fast-dir /srv/ssd disk add
      From now on: siltstone --data-dir /srv/hdd --fast-dir /srv/ssd
  siltstone-tools --data-dir /srv/hdd --fast-dir /srv/ssd disk list
  siltstone-tools --data-dir /srv/hdd --fast-dir /srv/ssd disk drain
      From now on: siltstone --data-dir /srv/hdd
  siltstone-tools --data-dir /srv/hdd --fast-dir /srv/ssd disk lost >lost.txt
      Only where nothing is at /srv/ssd any more. From now on: siltstone --data-dir /srv/hdd

Exit status:
  0  success
  1  the fast directory was given up, and objects with it
  2  nothing was changed: a server uses the directories, they do not belong together, no space, or wrong arguments";

const MIRRORED: &str =
    "the store has a second side, which the next start fills: start the server with --mirror";
const REPLACED: &str = "the next start of the server fills it";
const SET_ASIDE: &str = "it is no side any more, and its files stay: move them away, and name an empty directory in its place with \
                         siltstone-tools disk replace";
const ADDED: &str = "the log is in the fast directory now: start the server with --fast-dir, too";
const DRAINED: &str = "all of the store is in the data directory: start the server without --fast-dir";
const DISCARDED: &str = "the fast directory and the log are given up: siltstone-tools rebuild makes a log from the segments of the data directory";
const LOST: &str =
    "all that is left of the store is in the data directory: start the server without --fast-dir";

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: DiskCommand,
}

/// What an operator accepts.
#[derive(Debug, Args)]
struct LostArguments {
    /// Give up the copy of the log in the data directory, too
    #[arg(long, conflicts_with = "accept_damage")]
    discard_log: bool,

    /// Go on where that copy has damage, without all that comes after it
    #[arg(long)]
    accept_damage: bool,
}

#[derive(Debug, Subcommand)]
enum DiskCommand {
    /// Show the directories of the store, their disks, and what is in them; also while a server runs
    List,
    /// Move the log of a store to the directory of --fast-dir; or, with --mirror, give it a second side
    Add,
    /// Name an empty directory as a side of --mirror, in the place of one that is lost
    Replace,
    /// Keep one of two sides of --mirror that have each gone on without the other
    Resolve {
        /// The directory to keep
        #[arg(long, value_name = "SIDE")]
        keep: PathBuf,
    },
    /// Move the log and the segments of the directory of --fast-dir back
    Drain,
    /// Give up a fast directory whose disk is dead
    Lost(LostArguments),
}

/// Runs one of the commands.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &Arguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    if let Some(places) = data_dir.mirror() {
        return run_mirror(&places, arguments, json, out);
    }
    let directories = data_dir.directories();
    let mut meter = Meter::start(json);
    let mut shown = |progress: ChangeProgress| {
        meter.update("moving", progress.done_bytes, progress.total_bytes);
    };
    if matches!(arguments.command, DiskCommand::Add | DiskCommand::Drain) && data_dir.fast_dir().is_none() {
        return Err(Failure::Command("name the fast directory with --fast-dir".to_owned()));
    }
    let changed = match &arguments.command {
        DiskCommand::List => return list(data_dir, json, out),
        DiskCommand::Replace | DiskCommand::Resolve { .. } => {
            return Err(Failure::Command("name both directories with --mirror A=B".to_owned()));
        }
        DiskCommand::Add => directories.add(&OsEntropy, SystemClock.now(), &mut shown).map(|()| ADDED),
        DiskCommand::Drain => directories.drain(&mut shown).map(|()| DRAINED),
        DiskCommand::Lost(LostArguments { discard_log: true, .. }) => {
            directories.begin_loss().and_then(LostPair::end).map(|()| DISCARDED)
        }
        DiskCommand::Lost(LostArguments { accept_damage, .. }) => {
            let options = LostDiskOptions { accepts_damage: *accept_damage };
            return lose(data_dir, options, json, out);
        }
    };
    meter.finish();
    let follows = changed.map_err(|error| data_dir.failed(&error))?;
    if json {
        show::json(out, &json!({ "done": true }))?;
    } else {
        writeln!(out, "{}: {follows}", data_dir.display())?;
    }
    Ok(Outcome::Success)
}

/// Runs a command on a mirror.
fn run_mirror(
    places: &MirrorPlaces,
    arguments: &Arguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let failed = |error: DisksError| Failure::Command(error.to_string());
    let now = SystemClock.now();
    let (dir, follows) = match &arguments.command {
        DiskCommand::List => return list_sides(places, json, out),
        DiskCommand::Add => {
            places.add(&OsEntropy, now).map_err(failed)?;
            (places.sides[0].as_path(), MIRRORED)
        }
        DiskCommand::Replace => (places.replace(&OsEntropy, now).map_err(failed)?, REPLACED),
        DiskCommand::Resolve { keep } => {
            let keep = places.sides.iter().position(|side| side == keep);
            let keep = keep
                .ok_or_else(|| Failure::Command("--keep: name one of the two of --mirror A=B".to_owned()))?;
            (places.resolve(keep, now).map_err(failed)?, SET_ASIDE)
        }
        DiskCommand::Drain | DiskCommand::Lost(_) => {
            return Err(Failure::Command(
                "this is done to a fast directory: name it with --fast-dir".to_owned(),
            ));
        }
    };
    if json {
        show::json(out, &json!({ "done": true }))?;
    } else {
        writeln!(out, "{}: {follows}", dir.display())?;
    }
    Ok(Outcome::Success)
}

/// Shows both sides, and what a start would do with them.
fn list_sides(places: &MirrorPlaces, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let described = places.described().map_err(|error| Failure::Command(error.to_string()))?;
    let home = places.home();
    let mut rows = Vec::new();
    for (at, side) in described.iter().enumerate() {
        let state = side.mark.as_ref().map_or("none", |mark| word_for(mark.state));
        let counts = home.as_ref().is_ok_and(|home| home.source == at);
        // A disk that does not answer has no figures.
        let looked = ListedDirectory::look("side", &side.dir).ok();
        let generation = side.mark.as_ref().map(|mark| &mark.generation);
        let begun = generation.map(|generation| generation.begun.to_iso8601());
        if json {
            let mut row = looked
                .as_ref()
                .map_or_else(|| json!({ "role": "side", "dir": side.dir }), ListedDirectory::described);
            row["state"] = json!(state);
            row["counts"] = json!(counts);
            row["generation"] = json!(generation.map(|generation| generation.id.to_string()));
            row["begun"] = json!(begun);
            row["members"] = json!(generation.map(|generation| generation.members.len()));
            rows.push(row);
            continue;
        }
        let since = begun.map_or_else(String::new, |begun| format!(" in the generation of {begun}"));
        let read = if counts { ", read by a start" } else { "" };
        let disk = looked.map_or_else(|| "it does not answer".to_owned(), |found| found.to_string());
        writeln!(out, "side {}: {state}{since}{read}; {disk}", side.dir.display())?;
    }
    let refusal = home.err();
    if json {
        show::json(out, &json!({ "sides": rows, "refusal": refusal.map(|refusal| refusal.to_string()) }))?;
    } else if let Some(refusal) = refusal {
        writeln!(out, "a start is refused: {refusal}")?;
    }
    Ok(Outcome::Success)
}

fn word_for(state: SideState) -> &'static str {
    match state {
        SideState::Whole => "whole",
        SideState::Filling => "filling",
        SideState::Told => "told",
    }
}

/// Makes a store of the data directory alone.
fn lose(
    data_dir: &DataDir,
    options: LostDiskOptions,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let pair = data_dir.directories().begin_loss().map_err(|error| data_dir.failed(&error))?;
    let disk = data_dir.in_the_clear(pair.data())?;
    let mut described = Vec::new();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let report = drop_lost(&disk, &clock, options, &mut |lost| {
        if json {
            let mut owner = json!({});
            show::owner(lost, &mut owner);
            described.push(owner);
            return Ok(());
        }
        writeln!(out, "lost: {lost}")
    });
    let report = report.map_err(|error| data_dir.failed(&error))?;
    pair.end().map_err(|error| data_dir.failed(&error))?;
    let LostDiskReport { last_group, buckets, versions, lost_versions, lost_parts, followers, damage } =
        report;
    if json {
        let shown = json!({
            "last_group": last_group,
            "buckets": buckets,
            "versions": versions,
            "lost": described,
            "begin_anew": followers,
            "damage": damage.iter().map(show::damage).collect::<Value>(),
        });
        show::json(out, &shown)?;
    } else {
        for found in &damage {
            writeln!(out, "damage: {found}")?;
        }
        for follower in &followers {
            writeln!(out, "begins anew: {follower}")?;
        }
        writeln!(out, "left: buckets {buckets}, versions {versions}; the log ends with group {last_group}")?;
        writeln!(out, "lost: versions {lost_versions}, parts of uploads in progress {lost_parts}")?;
        writeln!(out, "{}: {LOST}", data_dir.display())?;
    }
    let is_whole = damage.is_empty() && lost_versions == 0 && lost_parts == 0;
    Ok(if is_whole { Outcome::Success } else { Outcome::Findings })
}

/// A directory of the store, and its disk.
struct ListedDirectory<'d> {
    role: &'static str,
    dir: &'d Path,
    free_bytes: u64,
    total_bytes: u64,
    segments: usize,
    segment_bytes: u64,
}

impl<'d> ListedDirectory<'d> {
    fn look(role: &'static str, dir: &'d Path) -> Result<Self, DisksError> {
        let disk = OsFs::new(dir);
        let space = disk.space()?;
        let ids = list_numbers(&disk, FileKind::Segment)?;
        let mut segment_bytes = 0;
        for id in &ids {
            // One that moves meanwhile is counted on the other disk, or not at all.
            if let Ok(file) = disk.open_read(&FileKind::Segment.path(*id)) {
                segment_bytes += file.usage()?.allocated_bytes;
            }
        }
        let segments = ids.len();
        Ok(Self {
            role,
            dir,
            free_bytes: space.free_bytes,
            total_bytes: space.total_bytes,
            segments,
            segment_bytes,
        })
    }

    fn described(&self) -> Value {
        json!({
            "role": self.role,
            "dir": self.dir,
            "free_bytes": self.free_bytes,
            "total_bytes": self.total_bytes,
            "segments": self.segments,
            "segment_bytes": self.segment_bytes,
        })
    }
}

impl fmt::Display for ListedDirectory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free = ByteSize(self.free_bytes);
        let total = ByteSize(self.total_bytes);
        let bytes = ByteSize(self.segment_bytes);
        write!(f, "{free} of {total} free, {} segments with {bytes}", self.segments)
    }
}

fn list(data_dir: &DataDir, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let failed = |error: DisksError| data_dir.failed(&error);
    data_dir.directories().open().map_err(failed)?;
    let mut listed = vec![ListedDirectory::look("data", data_dir).map_err(failed)?];
    if let Some(fast) = data_dir.fast_dir() {
        listed.push(ListedDirectory::look("fast", fast).map_err(failed)?);
    }
    if json {
        show::json(out, &listed.iter().map(ListedDirectory::described).collect())?;
        return Ok(Outcome::Success);
    }
    for found in &listed {
        writeln!(out, "{} {}: {found}", found.role, found.dir.display())?;
    }
    Ok(Outcome::Success)
}
