//! The command `rebuild`.

use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use siltstone::base::SystemClock;
use siltstone::fs::OsFs;
use siltstone::store::rebuild::{
    Assumption, LostRecord, RebuildOptions, RebuildReport, RestoredCounts, SkippedCounts,
};
use siltstone::store::{self, Progress};

use crate::outcome::{Failure, Outcome};
use crate::progress::Meter;
use crate::show;

pub(crate) const HELP: &str = "\
For a store whose meta/ is lost or of no use. Segments are read to their last byte and not changed; the new log is written to meta/
and counts only once all of it is there, so that a rebuild that was cut off can be repeated. The server must be stopped. A log that is
there knows more than the segments do: it is replaced only when asked for, and moved aside, not removed.

Objects come back byte for byte with their versions, metadata and checksums, and with the tags that they were put with; multipart
uploads in progress with their parts. Segments do not tell what was deleted: deleted objects come back unless their space was used
again. Delete markers and empty buckets are lost. What is not restored, or may have been otherwise, is listed.

Examples:
  siltstone-tools --data-dir /srv/objects rebuild
  siltstone-tools --data-dir /srv/objects rebuild --replace
      Move the log that is there aside: meta/*.replaced-*.
  siltstone-tools --data-dir /srv/objects --json rebuild | jq '.lost[].key'
      The keys of all objects that could not be restored.

Exit status:
  0  everything of which a record was found is restored
  1  the log was made, and something is damaged or not restored
  2  no log was made: no segments there, a log is there, a server has the directory open, or wrong arguments";

/// What may be asked for.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Move a log that is there aside instead of refusing
    #[arg(long)]
    replace: bool,

    /// Who owns the buckets of which no segment tells the owner: those of siltstone 0.1.0
    #[arg(long, value_name = "USER", default_value = "admin")]
    owner: String,
}

/// What no segment tells.
const NOT_KNOWN: &str = "segments do not tell what was deleted: objects that were deleted come back unless their space was used \
                         again. Delete markers, buckets that nothing was put into, and changes of tags or versioning since the last \
                         put are lost";

/// Makes a log from the segments and says what could not be restored.
pub(crate) fn run(
    data_dir: &Path,
    arguments: &Arguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let options = RebuildOptions { replace: arguments.replace, owner: arguments.owner.clone() };
    let mut meter = Meter::start(json);
    let mut update =
        |Progress { step, done, total }| meter.update(&format!("looking at {step}"), done, total);
    let rebuilt = store::rebuild(&OsFs::new(data_dir), &SystemClock, &options, &mut update);
    meter.finish();
    let rebuilt = rebuilt.map_err(|error| Failure::look(data_dir.display(), error))?;
    if json { show::json(out, &describe(&rebuilt)) } else { write_text(&rebuilt, out) }?;
    Ok(if rebuilt.is_whole() { Outcome::Well } else { Outcome::Findings })
}

fn write_text(rebuilt: &RebuildReport, out: &mut dyn Write) -> io::Result<()> {
    rebuilt.damage.iter().try_for_each(|damage| writeln!(out, "damage: {damage}"))?;
    rebuilt.lost.iter().try_for_each(|lost| writeln!(out, "not restored: {lost}"))?;
    rebuilt.assumptions.iter().try_for_each(|assumption| writeln!(out, "uncertain: {assumption}"))?;
    writeln!(out, "uncertain: {NOT_KNOWN}")?;
    rebuilt.moved.iter().try_for_each(|path| writeln!(out, "moved aside: {path}"))?;
    let RestoredCounts { buckets, versions, live_bytes, uploads, segments, extents } = rebuilt.restored;
    let SkippedCounts { replaced, in_deleted_buckets, of_ended_uploads, unfinished } = rebuilt.skipped;
    writeln!(out, "read: segments {segments}, extents {extents}")?;
    writeln!(
        out,
        "passed over: versions replaced by later ones {replaced}, records in deleted buckets {in_deleted_buckets}, \
         parts of ended uploads {of_ended_uploads}, extents of unfinished writes {unfinished}"
    )?;
    writeln!(
        out,
        "restored: buckets {buckets}, versions {versions}, uploads in progress {uploads}, live bytes {live_bytes}"
    )
}

fn describe(rebuilt: &RebuildReport) -> Value {
    let RebuildReport { restored, lost, assumptions, damage, skipped, log_bytes, moved } = rebuilt;
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
