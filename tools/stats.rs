//! The command `stats`.

use std::io::{self, Write};

use bytesize::ByteSize;
use clap::Args;
use serde_json::{Value, json};
use siltstone::base::SystemClock;
use siltstone::format::{FileKind, WrittenBytes};
use siltstone::offline;
use siltstone::offline::stats::{
    AgeClass, BucketTotal, Count, FileStats, KeySize, SegmentStats, SizeClass, Stats, Totals,
};

use crate::data_dir::DataDir;
use crate::outcome::{Failure, Outcome};
use crate::show;

pub(crate) const HELP: &str = "\
Reads the metadata and prints the numbers of objects, versions, delete markers and uploads, their sizes and ages, and their use of the
disk: live and dead bytes by segment, bytes of disk for each live byte, log and checkpoints. Nothing is written or locked. While a
server runs, the result is its state a moment ago.

Examples:
  siltstone-tools stats
  siltstone-tools --data-dir /srv/objects stats --top 50
      With the 50 largest buckets and keys.
  siltstone-tools --data-dir /srv/objects --json stats | jq .space.amplification

Exit status:
  0  complete
  1  damage, so that the result may be incomplete
  2  no store there, or wrong arguments";

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Number of the largest buckets and keys to name
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

/// Prints the statistics of a store.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &Arguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let stats = offline::stats(data_dir.disk()?.as_ref(), &SystemClock, arguments.top);
    let stats = stats.map_err(|error| Failure::of(data_dir.display(), error))?;
    if json { show::json(out, &describe(&stats)) } else { write_text(&stats, out) }?;
    Ok(if stats.damage.is_empty() { Outcome::Success } else { Outcome::Findings })
}

fn write_text(stats: &Stats, out: &mut dyn Write) -> io::Result<()> {
    let Totals { objects, noncurrent, delete_markers, uploads, parts, .. } = &stats.totals;
    stats.damage.iter().try_for_each(|damage| writeln!(out, "damage: {damage}"))?;
    writeln!(out, "buckets: {}", stats.buckets)?;
    writeln!(out, "objects: {} with {}", objects.count, size(objects.bytes))?;
    writeln!(out, "older versions: {} with {}", noncurrent.count, size(noncurrent.bytes))?;
    writeln!(out, "delete markers: {delete_markers}")?;
    writeln!(out, "uploads in progress: {uploads} with {} parts of {}", parts.count, size(parts.bytes))?;
    for SizeClass { up_to, of } in stats.totals.sizes.iter().filter(|class| class.of.count > 0) {
        let bound = up_to.map_or("larger".into(), |up_to| format!("up to {}", size(up_to)));
        writeln!(out, "size {bound}: {} objects, {}", of.count, size(of.bytes))?;
    }
    for AgeClass { up_to_secs, of } in stats.totals.ages.iter().filter(|class| class.of.count > 0) {
        let bound = up_to_secs.map_or("more".into(), |secs| format!("up to {} hours", secs / 3600));
        writeln!(out, "age {bound}: {} objects, {}", of.count, size(of.bytes))?;
    }
    for BucketTotal { bytes, versions, name } in &stats.totals.largest_buckets {
        writeln!(out, "bucket {name}: {} in {versions} versions", size(*bytes))?;
    }
    for KeySize { bytes, bucket, key } in &stats.totals.largest_keys {
        writeln!(out, "key {key:?} of bucket {bucket}: {}", size(*bytes))?;
    }
    write_space(stats, out)
}

fn write_space(stats: &Stats, out: &mut dyn Write) -> io::Result<()> {
    for SegmentStats { id, len, on_disk, live, sealed } in &stats.segments {
        let state = if *sealed { "sealed" } else { "in use" };
        writeln!(
            out,
            "{}: {} live of {}, {} on disk, {state}",
            FileKind::Segment.path(*id),
            size(*live),
            size(*len),
            size(*on_disk)
        )?;
    }
    for (name, FileStats { files, len, on_disk }) in [("log", stats.log), ("checkpoints", stats.checkpoints)]
    {
        writeln!(out, "{name}: {files} files with {}, {} on disk", size(len), size(on_disk))?;
    }
    match stats.newest_checkpoint {
        Some(made) => writeln!(out, "newest checkpoint: of {made}, {} groups ago", stats.groups_behind)?,
        None => writeln!(out, "newest checkpoint: none, {} groups in the log", stats.groups_behind)?,
    }
    write_written(stats.written, out)?;
    let cost = stats.amplification().map_or("none".into(), |cost| format!("{cost:.2}"));
    writeln!(out, "live: {}", live_text(stats.content_bytes(), stats.live_bytes()))?;
    writeln!(
        out,
        "space: {} live, {} on disk, bytes of disk for each live byte {cost}",
        size(stats.live_bytes()),
        size(stats.on_disk())
    )
}

/// How the live bytes come about. For small objects they are mostly what the store keeps beside
/// them.
fn live_text(content: u64, live: u64) -> String {
    match live.checked_sub(content) {
        Some(beside) => format!(
            "{} of objects, versions and parts, {} beside them (headers, checksums)",
            size(content),
            size(beside)
        ),
        None => format!(
            "{} for {} of objects, versions and parts, of which copies share bytes",
            size(live),
            size(content)
        ),
    }
}

/// Bytes in the unit that is easy to read.
fn size(bytes: u64) -> String {
    ByteSize::b(bytes).to_string()
}

/// Prints the bytes written by kind, also per byte of payload.
fn write_written(written: WrittenBytes, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "written until the newest checkpoint, for {} put:", size(written.payload))?;
    for (kind, bytes) in written.by_kind().into_iter().chain([("in all", written.total())]) {
        let for_each = match written.payload {
            0 => "none".to_owned(),
            payload => format!("{:.2}", bytes as f64 / payload as f64),
        };
        writeln!(out, "  {kind}: {}, for each byte put {for_each}", size(bytes))?;
    }
    Ok(())
}

fn describe_written(written: WrittenBytes) -> Value {
    let mut described = json!({
        "payload": written.payload,
        "total": written.total(),
        "amplification": written.amplification(),
    });
    for (kind, bytes) in written.by_kind() {
        described[kind] = bytes.into();
    }
    described
}

fn describe(stats: &Stats) -> Value {
    let totals = &stats.totals;
    json!({
        "sequence": stats.sequence,
        "buckets": stats.buckets,
        "objects": count(totals.objects),
        "noncurrent": count(totals.noncurrent),
        "delete_markers": totals.delete_markers,
        "uploads": totals.uploads,
        "parts": count(totals.parts),
        "sizes": totals.sizes.iter().map(|class| json!({ "up_to": class.up_to, "of": count(class.of) })).collect::<Value>(),
        "ages": totals.ages.iter().map(|class| json!({ "up_to_secs": class.up_to_secs, "of": count(class.of) })).collect::<Value>(),
        "largest_buckets": totals.largest_buckets.iter().map(bucket).collect::<Value>(),
        "largest_keys": totals.largest_keys.iter().map(key).collect::<Value>(),
        "space": {
            "content": stats.content_bytes(),
            "live": stats.live_bytes(),
            "on_disk": stats.on_disk(),
            "amplification": stats.amplification(),
        },
        "written": describe_written(stats.written),
        "segments": stats.segments.iter().map(segment).collect::<Value>(),
        "log": files(stats.log),
        "checkpoints": files(stats.checkpoints),
        "newest_checkpoint": stats.newest_checkpoint.map(|made| made.to_string()),
        "groups_behind": stats.groups_behind,
        "damage": stats.damage.iter().map(show::damage).collect::<Value>(),
    })
}

fn count(of: Count) -> Value {
    json!({ "count": of.count, "bytes": of.bytes })
}

fn bucket(total: &BucketTotal) -> Value {
    let BucketTotal { bytes, versions, name } = total;
    json!({ "name": name, "bytes": bytes, "versions": versions })
}

fn key(size: &KeySize) -> Value {
    let KeySize { bytes, bucket, key } = size;
    json!({ "bucket": bucket, "key": key, "bytes": bytes })
}

fn segment(stats: &SegmentStats) -> Value {
    let SegmentStats { id, len, on_disk, live, sealed } = stats;
    json!({ "file": FileKind::Segment.path(*id), "len": len, "on_disk": on_disk, "live": live, "sealed": sealed })
}

fn files(stats: FileStats) -> Value {
    let FileStats { files, len, on_disk } = stats;
    json!({ "files": files, "len": len, "on_disk": on_disk })
}
