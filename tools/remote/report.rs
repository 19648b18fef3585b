//! The results of the commands, as text and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};
use siltstone::base::Timestamp;
use siltstone::format::RemoteMark;
use siltstone::offline::{Divergence, DivergentChange, LogLag, RemoteAudit, RemoteReach};
use siltstone::remote::RemoteObject;
use siltstone::remote::probe::{ProbeCheck, ProbeReport};
use siltstone::store::RemoteRestoreReport;

use crate::show;

/// The kinds of objects, by the first part of their names.
const KINDS: [&str; 7] = ["segment", "log", "checkpoint", "root", "floor", "claim", "cut"];

/// The objects on a remote, by their kinds: count and bytes.
#[derive(Default)]
pub(super) struct Contents(BTreeMap<&'static str, (u64, u64)>);

impl Contents {
    pub(super) fn count(&mut self, object: &RemoteObject) {
        if object.name == RemoteMark::NAME {
            return;
        }
        let first = object.name.split('/').next().unwrap_or_default();
        let kind = KINDS.into_iter().find(|kind| *kind == first).unwrap_or("other");
        let (count, bytes) = self.0.entry(kind).or_default();
        *count += 1;
        *bytes += object.length;
    }

    /// All kinds with their names in the plural, count and bytes.
    fn kinds(&self) -> impl Iterator<Item = (String, u64, u64)> {
        KINDS.into_iter().chain(["other"]).map(|kind| {
            let (count, bytes) = self.0.get(kind).copied().unwrap_or_default();
            let name = if matches!(kind, "log" | "other") { kind.to_owned() } else { format!("{kind}s") };
            (name, count, bytes)
        })
    }
}

/// The modes with the answer whether the remote is fit.
fn modes(report: &ProbeReport) -> [(&'static str, &'static str, bool); 3] {
    [
        ("tier", "cold segments on the remote", report.keeps_objects()),
        ("ship", "the log on the remote", report.keeps_objects()),
        ("takeover", "a second host takes over by itself", report.decides_races()),
    ]
}

pub(super) fn write_restored(
    report: &RemoteRestoreReport,
    data_dir: &Path,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let RemoteRestoreReport { sequence, time, parcels, bytes, remote_segments } = report;
    if json {
        let told = json!({
            "sequence": sequence, "time": time.as_millis(), "parcels": parcels, "bytes": bytes,
            "remote_segments": remote_segments,
        });
        return show::json(out, &told);
    }
    writeln!(out, "restored {} up to group {sequence} of {}", data_dir.display(), time.to_iso8601())?;
    writeln!(
        out,
        "{bytes} bytes were fetched, and those of {remote_segments} segments stay on the remote until they are read"
    )
}

pub(super) fn write_adopted(epoch: u64, data_dir: &Path, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        return show::json(out, &json!({ "epoch": epoch }));
    }
    writeln!(
        out,
        "epoch {epoch} is claimed for {}: its next start goes on from there, and a server in another directory changes nothing on the \
         remote any more",
        data_dir.display()
    )
}

/// What the log of a directory has, and that on the remote lacks.
pub(super) struct DivergentLog {
    /// The name of the directory, where its files were set aside.
    pub(super) aside: Option<String>,
    /// `None` where nothing says which groups the remote has.
    pub(super) divergence: Option<Divergence>,
    pub(super) changes: Vec<DivergentChange>,
}

/// In JSON the data directory's comes first, and those that were set aside below `aside`.
pub(super) fn write_divergent(logs: &[DivergentLog], json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        let own = logs.iter().find(|log| log.aside.is_none());
        let mut told = own.map_or_else(|| json!({ "changes": [] }), describe_divergent);
        let asides = logs.iter().filter(|log| log.aside.is_some());
        told["aside"] = asides.map(describe_divergent).collect();
        return show::json(out, &told);
    }
    if logs.is_empty() {
        return writeln!(out, "the directory is that of a standby, and nothing was set aside there");
    }
    logs.iter().try_for_each(|log| write_divergent_log(log, out))
}

fn describe_divergent(log: &DivergentLog) -> Value {
    let changes = log.changes.iter().map(describe_change).collect::<Vec<_>>();
    let mut told = json!({ "changes": changes });
    if let Some(Divergence { epoch, shared, last, groups }) = log.divergence {
        told =
            json!({ "epoch": epoch, "shared": shared, "last": last, "groups": groups, "changes": changes });
    }
    if let Some(name) = &log.aside {
        told["name"] = name.as_str().into();
    }
    told
}

fn write_divergent_log(log: &DivergentLog, out: &mut dyn Write) -> io::Result<()> {
    let DivergentLog { aside, divergence, changes } = log;
    if let Some(name) = aside {
        writeln!(out, "{name}:")?;
    }
    let Some(Divergence { epoch, shared, groups, .. }) = divergence else {
        return writeln!(
            out,
            "it has no group in common with what the remote still has of the log: look at it with --read-only"
        );
    };
    for change in changes {
        let DivergentChange { sequence, time, kind, bucket, key, version, size } = change;
        write!(out, "{sequence} {} {} {bucket}", time.to_iso8601(), kind.name())?;
        if !key.is_empty() {
            write!(out, "/{:?}", String::from_utf8_lossy(key))?;
        }
        version.iter().try_for_each(|version| write!(out, " version {version}, {size} bytes"))?;
        writeln!(out)?;
    }
    writeln!(
        out,
        "{groups} groups after group {shared} are here alone, with {} changes; the log on the remote is that of epoch {epoch}",
        changes.len()
    )
}

fn describe_change(change: &DivergentChange) -> Value {
    let DivergentChange { sequence, time, kind, bucket, key, version, size } = change;
    json!({
        "group": sequence, "time": time.to_iso8601(), "kind": kind.name(), "bucket": bucket,
        "key": String::from_utf8_lossy(key), "version": version.map(|version| version.to_string()), "bytes": size,
    })
}

pub(super) fn write_probe(
    report: &ProbeReport,
    place: &str,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if json {
        return show::json(out, &describe_probe(report, place));
    }
    writeln!(out, "remote: {place}")?;
    for ProbeCheck { property, outcome } in &report.checks {
        match outcome {
            Ok(remark) => writeln!(out, "{}: holds ({remark})", property.name())?,
            Err(why) => writeln!(out, "{}: does not hold: {why}", property.name())?,
        }
    }
    report.left.iter().try_for_each(|left| writeln!(out, "objects are left below {left}"))?;
    for (mode, meaning, fit) in modes(report) {
        writeln!(out, "{}fit for {mode}: {meaning}", if fit { "" } else { "not " })?;
    }
    report.first_problem().iter().try_for_each(|why| writeln!(out, "because of {why}"))
}

fn describe_probe(report: &ProbeReport, place: &str) -> Value {
    let check = |check: &ProbeCheck| {
        let (Ok(detail) | Err(detail)) = &check.outcome;
        json!({ "check": check.property.name(), "holds": check.outcome.is_ok(), "detail": detail })
    };
    let modes: serde_json::Map<String, Value> =
        modes(report).into_iter().map(|(mode, _, fit)| (mode.to_owned(), fit.into())).collect();
    json!({
        "remote": place,
        "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
        "fit": modes,
        "why": report.first_problem(),
        "confidence": report.one_bad_race_in().map(|races| json!({ "level": 0.95, "one_bad_race_in": races })),
        "left": report.left,
    })
}

/// Says whose a remote is that is marked already.
pub(super) fn write_marked(
    mark: &RemoteMark,
    is_own: bool,
    place: &str,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if json {
        let told = json!({
            "remote": place, "own": is_own, "made": mark.made.to_iso8601(), "decides_races": mark.decides_races,
        });
        return show::json(out, &told);
    }
    writeln!(out, "remote: {place}")?;
    if !is_own {
        return writeln!(out, "it belongs to another store: choose another prefix");
    }
    let fit = if mark.decides_races { "tier, ship, takeover" } else { "tier and ship, and not for takeover" };
    writeln!(out, "it was marked for this store at {}, as fit for {fit}", mark.made.to_iso8601())
}

pub(super) fn write_audit(
    audit: &RemoteAudit,
    deleted: bool,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let RemoteAudit { objects, orphans, missing, .. } = audit;
    if json {
        let missing: Vec<Value> =
            missing.iter().map(|(name, why)| json!({ "name": name, "why": why })).collect();
        let orphans: Vec<Value> =
            orphans.iter().map(|object| json!({ "name": object.name, "bytes": object.length })).collect();
        let told =
            json!({ "objects": objects, "missing": missing, "strangers": orphans, "deleted": deleted });
        return show::json(out, &told);
    }
    for (name, why) in missing {
        writeln!(out, "missing: {name}: {why}")?;
    }
    for RemoteObject { name, length, .. } in orphans {
        writeln!(out, "{}: {name}, {length} bytes", if deleted { "deleted" } else { "orphan" })?;
    }
    writeln!(out, "{objects} objects, {} missing, {} orphans", missing.len(), orphans.len())
}

pub(super) fn write_status(
    (mark, own): (Option<&RemoteMark>, Option<bool>),
    contents: &Contents,
    (reach, lag): (Option<RemoteReach>, Option<LogLag>),
    place: &str,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let owner = match (mark, own) {
        (None, _) => "nobody: run siltstone-tools remote init",
        (Some(_), Some(true)) => "this store",
        (Some(_), Some(false)) => "another store",
        (Some(_), None) => "a store; none is in the data directory to compare with",
    };
    if json {
        let mut described = json!({
            "remote": place,
            "marked": mark.is_some(),
            "own": own,
            "made": mark.map(|mark| mark.made.to_iso8601()),
            "decides_races": mark.map(|mark| mark.decides_races),
            "oldest": reach.map(|reach| reach.oldest.to_iso8601()),
            "newest": reach.map(|reach| reach.newest.to_iso8601()),
            "epoch": reach.map(|reach| reach.epoch),
            "group": reach.map(|reach| reach.sequence),
            "sign_of_life": reach.and_then(|reach| reach.heartbeat).map(Timestamp::to_iso8601),
            "lag": lag.map(|LogLag { is_here, groups, bytes, time }| {
                json!({ "of": if is_here { "remote" } else { "directory" }, "groups": groups, "bytes": bytes, "seconds": time.as_secs() })
            }),
        });
        for (kind, count, bytes) in contents.kinds() {
            described[kind] = json!({ "count": count, "bytes": bytes });
        }
        return show::json(out, &described);
    }
    writeln!(out, "remote: {place}\nbelongs to: {owner}")?;
    if let Some(mark) = mark {
        let fit = if mark.decides_races { "tier, ship, takeover" } else { "tier, ship" };
        writeln!(out, "marked: {}, fit for {fit}", mark.made.to_iso8601())?;
    }
    if let Some(RemoteReach { oldest, newest, epoch, sequence, heartbeat }) = reach {
        writeln!(out, "restores reach: {} to {}", oldest.to_iso8601(), newest.to_iso8601())?;
        let heartbeat = heartbeat.map_or("none".to_owned(), Timestamp::to_iso8601);
        writeln!(out, "log: epoch {epoch}, up to group {sequence}, last heartbeat: {heartbeat}")?;
    }
    if let Some(LogLag { is_here, groups, bytes, time }) = lag {
        let behind = if is_here { "the log on the remote" } else { "the data directory" };
        writeln!(out, "lag: {behind} lacks {groups} groups, {bytes} bytes, {} s", time.as_secs())?;
    }
    contents
        .kinds()
        .try_for_each(|(kind, count, bytes)| writeln!(out, "{kind}: {count} objects, {bytes} bytes"))
}
