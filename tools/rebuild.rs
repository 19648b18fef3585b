//! The command `rebuild`.

use std::io::{self, Write};

use clap::Args;
use serde_json::{Value, json};
use siltstone::base::SystemClock;
use siltstone::offline;
use siltstone::offline::rebuild::{
    Assumption, LostRecord, RebuildOptions, RebuildReport, RestoredCounts, SkippedCounts,
};
use siltstone::store::Progress;

use crate::backup::needed;
use crate::data_dir::DataDir;
use crate::outcome::{Failure, Outcome};
use crate::progress::Meter;
use crate::show;

pub(crate) const HELP: &str = "\
For a store whose meta/ is lost or unusable. Segments are read completely and not changed. The new log in meta/ counts once it is
complete, so an interrupted rebuild can be repeated. The server must be stopped. An existing log holds more than the segments do: it
is replaced only with --replace, and moved aside instead of removed.

Objects are restored byte for byte, with versions, metadata, checksums and the tags of their put; multipart uploads in progress with
their parts. Segments do not record deletions: deleted objects come back unless their space was reused. Delete markers and empty
buckets are lost. Objects that are not restored, and facts that may be outdated, are listed.

Examples:
  siltstone-tools --data-dir /srv/objects rebuild
  siltstone-tools --data-dir /srv/objects rebuild --replace
      Move an existing log aside: meta/*.replaced-*.
  siltstone-tools --data-dir /srv/objects --json rebuild | jq '.lost[].key'
      The keys of all objects that could not be restored.

Exit status:
  0  everything that was found is restored
  1  the log was rebuilt, and something is damaged or not restored, or needs a key that the ring in the data directory lacks
  2  not rebuilt: no segments there, a log exists, a server has the directory open, or wrong arguments";

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Move an existing log aside instead of refusing
    #[arg(long)]
    replace: bool,

    /// Owner of buckets whose owner is not in the segments: buckets of siltstone 0.1.0
    #[arg(long, value_name = "USER", default_value = "admin")]
    owner: String,
}

/// The facts that segments do not hold.
const NOT_KNOWN: &str = "segments do not record deletions: deleted objects come back unless their space was reused. Delete \
                         markers, buckets without objects, and changes of tags, storage classes or versioning since the last put are lost";

/// Rebuilds the log from the segments, and prints what could not be restored.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &Arguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let options = RebuildOptions { replace: arguments.replace, owner: arguments.owner.clone() };
    let mut meter = Meter::start(json);
    let fs = data_dir.disk()?;
    let rebuilt = offline::rebuild(fs.as_ref(), &SystemClock, &options, &mut |progress| {
        let Progress { step, done, total } = progress;
        meter.update(&format!("reading {step}"), done, total);
    });
    meter.finish();
    let rebuilt = rebuilt.map_err(|error| Failure::of(data_dir.display(), error))?;
    if json { show::json(out, &describe(&rebuilt)) } else { write_text(&rebuilt, out) }?;
    Ok(if rebuilt.is_whole() { Outcome::Success } else { Outcome::Findings })
}

fn write_text(rebuilt: &RebuildReport, out: &mut dyn Write) -> io::Result<()> {
    rebuilt.damage.iter().try_for_each(|damage| writeln!(out, "damage: {damage}"))?;
    rebuilt.lost.iter().try_for_each(|lost| writeln!(out, "not restored: {lost}"))?;
    rebuilt.assumptions.iter().try_for_each(|assumption| writeln!(out, "uncertain: {assumption}"))?;
    writeln!(out, "uncertain: {NOT_KNOWN}")?;
    let place = match rebuilt.has_ring {
        true => "the ring of the data directory does not open them: put back a copy that has it",
        false => "the data directory has no ring: see that yours has it",
    };
    for key in &rebuilt.keys_missing {
        writeln!(out, "key missing: {key}: {place}")?;
    }
    rebuilt.moved.iter().try_for_each(|path| writeln!(out, "moved aside: {path}"))?;
    let RestoredCounts { buckets, versions, live_bytes, uploads, segments, extents } = rebuilt.restored;
    let SkippedCounts { replaced, in_deleted_buckets, of_ended_uploads, unfinished } = rebuilt.skipped;
    writeln!(out, "read: segments {segments}, extents {extents}")?;
    writeln!(
        out,
        "skipped: versions replaced by later ones {replaced}, records in deleted buckets {in_deleted_buckets}, \
         parts of ended uploads {of_ended_uploads}, extents of unfinished writes {unfinished}"
    )?;
    writeln!(
        out,
        "restored: buckets {buckets}, versions {versions}, uploads in progress {uploads}, live bytes {live_bytes}"
    )
}

fn describe(rebuilt: &RebuildReport) -> Value {
    let RebuildReport {
        restored,
        lost,
        assumptions,
        damage,
        skipped,
        log_bytes,
        keys_missing,
        has_ring,
        moved,
    } = rebuilt;
    let RestoredCounts { buckets, versions, live_bytes, uploads, segments, extents } = restored;
    let SkippedCounts { replaced, in_deleted_buckets, of_ended_uploads, unfinished } = skipped;
    json!({
        "restored": {
            "buckets": buckets,
            "versions": versions,
            "uploads": uploads,
            "live_bytes": live_bytes,
        },
        "lost": lost.iter().map(describe_lost).collect::<Value>(),
        "uncertain": assumptions.iter().map(describe_assumption).collect::<Value>(),
        "damage": damage.iter().map(show::damage).collect::<Value>(),
        "passed_over": {
            "replaced": replaced,
            "in_deleted_buckets": in_deleted_buckets,
            "of_ended_uploads": of_ended_uploads,
            "unfinished": unfinished,
        },
        "read": { "segments": segments, "extents": extents },
        "log_bytes": log_bytes,
        "keys_missing": needed(keys_missing),
        "has_ring": has_ring,
        "moved": moved,
    })
}

fn describe_lost(lost: &LostRecord) -> Value {
    let LostRecord { owner, why, damage } = lost;
    let mut described = json!({});
    show::owner(owner, &mut described);
    described["why"] = why.as_str().into();
    described["damage"] = damage.as_ref().map_or(Value::Null, show::damage);
    described
}

fn describe_assumption(assumption: &Assumption) -> Value {
    let Assumption { bucket, key, what } = assumption;
    json!({ "bucket": bucket, "key": key, "what": what })
}
