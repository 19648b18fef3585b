//! The command `verify`.

use std::io::{self, Write};

use serde_json::{Value, json};
use siltstone::offline;
use siltstone::offline::verify::{Finding, Note, SegmentUse, VerifyReport};
use siltstone::store::{Damage, Progress};

use crate::data_dir::DataDir;
use crate::outcome::{Failure, Outcome};
use crate::progress::Meter;
use crate::show;

/// Checks a whole store, and prints the findings.
pub(crate) fn run(data_dir: &DataDir, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let mut meter = Meter::start(json);
    let report = offline::verify(data_dir.disk()?.as_ref(), &mut |Progress { step, done, total }| {
        meter.update(&format!("reading {step}"), done, total);
    });
    meter.finish();
    let mut report = report.map_err(|error| Failure::of(data_dir.display(), error))?;
    // The files with the key are below the disk that was checked.
    if let Some(fault) = data_dir.keys_fault()? {
        let what = format!("{}: siltstone-tools store-key mend writes it again", fault.what);
        let damage = Damage { file: fault.file.to_owned(), offset: 0, what };
        report.findings.push(Finding { damage, owner: None });
    }
    let written = if json { show::json(out, &describe(&report)) } else { write_text(&report, out) };
    written?;
    Ok(if report.findings.is_empty() { Outcome::Success } else { Outcome::Findings })
}

fn write_text(report: &VerifyReport, out: &mut dyn Write) -> io::Result<()> {
    report.findings.iter().try_for_each(|finding| writeln!(out, "finding: {finding}"))?;
    report.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))?;
    for segment in &report.segments {
        let SegmentUse { len, live, sealed, .. } = segment;
        let state = if *sealed { "sealed" } else { "in use" };
        writeln!(out, "{}: {live} of {len} bytes are live, {state}", segment.path())?;
    }
    let counts = &report.counts;
    writeln!(
        out,
        "files: segments {}, log files {}, checkpoints {}",
        counts.segments, counts.log_files, counts.checkpoints
    )?;
    writeln!(
        out,
        "contents: buckets {}, versions {}, uploads in progress {}",
        counts.buckets, counts.versions, counts.uploads
    )?;
    writeln!(out, "checked: extents {}, bytes {}", counts.extents, counts.payload_bytes)?;
    if counts.unchecked_extents > 0 {
        writeln!(
            out,
            "not checked, since they are on a remote: extents {}, bytes {}",
            counts.unchecked_extents, counts.unchecked_bytes
        )?;
    }
    match report.findings.len() {
        0 if counts.unchecked_extents > 0 => writeln!(
            out,
            "nothing is wrong with what was checked; siltstone-tools remote audit looks for the copies of the rest, and the scrub of the \
             server reads samples of it"
        ),
        0 => writeln!(out, "nothing is wrong"),
        1 => writeln!(out, "1 finding"),
        many => writeln!(out, "{many} findings"),
    }
}

fn describe(report: &VerifyReport) -> Value {
    let counts = &report.counts;
    json!({
        "findings": report.findings.iter().map(finding).collect::<Value>(),
        "notes": report.notes.iter().map(note).collect::<Value>(),
        "segments": report.segments.iter().map(segment).collect::<Value>(),
        "counts": {
            "segments": counts.segments,
            "log_files": counts.log_files,
            "checkpoints": counts.checkpoints,
            "buckets": counts.buckets,
            "versions": counts.versions,
            "uploads": counts.uploads,
            "extents": counts.extents,
            "payload_bytes": counts.payload_bytes,
            "unchecked_extents": counts.unchecked_extents,
            "unchecked_bytes": counts.unchecked_bytes,
        },
    })
}

/// A finding as JSON.
pub(crate) fn finding(finding: &Finding) -> Value {
    let Finding { damage, owner } = finding;
    let mut described = show::damage(damage);
    if let Some(owner) = owner {
        show::owner(owner, &mut described);
    }
    described
}

fn note(note: &Note) -> Value {
    let Note { kind, file, offset, what } = note;
    json!({ "kind": kind.name(), "file": file, "offset": offset, "what": what })
}

fn segment(segment: &SegmentUse) -> Value {
    let SegmentUse { id: _, len, live, sealed } = segment;
    json!({ "file": segment.path(), "len": len, "live": live, "sealed": sealed })
}
