//! The report of an import or an export.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::json;
use siltstone::transfer::Loss;

/// The most keys that are named for one reason.
const NAMED_MAX: usize = 1_000;

/// The outcome of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copied {
    /// It is stored now.
    Stored,
    /// It was there before, with the same bytes and attributes.
    Present,
}

/// The counts and names of a transfer.
#[derive(Default)]
pub(super) struct TransferReport {
    pub(super) stored: u64,
    pub(super) present: u64,
    pub(super) failed: u64,
    pub(super) bytes: u64,
    losses: BTreeMap<Loss, u64>,
    /// What the source was read by and was never seen elsewhere, and how often.
    relied_on: BTreeMap<&'static str, u64>,
    failures: Vec<(String, String)>,
    left_out_count: u64,
    left_out: Vec<(String, String)>,
    renamed_count: u64,
    renamed: Vec<(String, String)>,
    empty_count: u64,
    empty: Vec<(String, String)>,
    /// What a source has to tell beside that, by its heading.
    sections: BTreeMap<&'static str, ReportSection>,
    /// The reason why the source was not read to its end.
    pub(super) unfinished: Option<String>,
}

/// Names below a heading, and how many there are in all.
#[derive(Default)]
struct ReportSection {
    count: u64,
    named: Vec<(String, String)>,
    /// Whether they are findings, and not remarks.
    is_finding: bool,
}

/// The name of a loss.
fn loss_text(loss: Loss) -> &'static str {
    match loss {
        Loss::Grants => "grants of ACLs to others than the owner",
        Loss::Encryption => "server-side encryption",
        Loss::StorageClass => "storage class",
        Loss::ObjectLock => "retention or legal hold",
        Loss::EntityTag => {
            "ETag, since the source does not tell the lengths of the parts or encrypts with a key"
        }
        Loss::Noncurrent => "noncurrent versions, since the target keeps none",
        Loss::Times => {
            "modification time, which takes a Siltstone as target and PutObjectStatedTime; --keep-times stores it as x-amz-meta-mtime"
        }
        Loss::Tags => "tags, since one of the servers does not keep them",
    }
}

impl TransferReport {
    pub(super) fn add(&mut self, key: &str, bytes: u64, outcome: Result<Copied, String>) {
        self.bytes += bytes;
        match outcome {
            Ok(Copied::Stored) => self.stored += 1,
            Ok(Copied::Present) => self.present += 1,
            Err(why) => {
                self.failed += 1;
                name(&mut self.failures, key, why);
            }
        }
    }

    pub(super) fn lose(&mut self, loss: Loss) {
        *self.losses.entry(loss).or_default() += 1;
    }

    /// Notes `times` uses of a fact about the source that was never checked by its bytes.
    pub(super) fn rely_on(&mut self, fact: &'static str, times: u64) {
        *self.relied_on.entry(fact).or_default() += times;
    }

    pub(super) fn leave_out(&mut self, path: &str, why: &str) {
        self.left_out_count += 1;
        name(&mut self.left_out, path, why.to_owned());
    }

    /// Notes that a directory has no entries, and so becomes no key.
    pub(super) fn pass_over_empty(&mut self, path: &str) {
        self.empty_count += 1;
        name(&mut self.empty, path, String::new());
    }

    /// Notes that a key is in a file of another name.
    pub(super) fn rename(&mut self, key: &str, why: &str) {
        self.renamed_count += 1;
        name(&mut self.renamed, key, why.to_owned());
    }

    /// Notes something below a heading, which makes the outcome one with findings.
    pub(super) fn find(&mut self, heading: &'static str, subject: &str, why: &str) {
        self.remark(heading, subject, why);
        self.sections.entry(heading).or_default().is_finding = true;
    }

    /// Notes something below a heading.
    pub(super) fn remark(&mut self, heading: &'static str, subject: &str, why: &str) {
        let section = self.sections.entry(heading).or_default();
        section.count += 1;
        name(&mut section.named, subject, why.to_owned());
    }

    /// Notes a failure that is not that of a whole key.
    pub(super) fn fail(&mut self, subject: &str, why: String) {
        self.failed += 1;
        name(&mut self.failures, subject, why);
    }

    /// Whether everything is in the target.
    pub(super) fn is_complete(&self) -> bool {
        self.failed == 0
            && self.left_out_count == 0
            && self.unfinished.is_none()
            && !self.sections.values().any(|section| section.is_finding)
    }

    /// Writes the report, with the names below each heading sorted: several threads note them, in an
    /// order that differs from run to run.
    pub(super) fn write(&mut self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        self.sort();
        if json { self.write_json(out) } else { self.write_text(out) }
    }

    fn sort(&mut self) {
        self.failures.sort_unstable();
        self.left_out.sort_unstable();
        self.renamed.sort_unstable();
        self.empty.sort_unstable();
        for section in self.sections.values_mut() {
            section.named.sort_unstable();
        }
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let named = |(name, why): &(String, String)| json!({ "name": name, "why": why });
        let losses: Vec<_> = self
            .losses
            .iter()
            .map(|(loss, count)| json!({ "what": loss_text(*loss), "count": count }))
            .collect();
        let relied_on = self.relied_on.iter().map(|(fact, count)| json!({ "what": fact, "count": count }));
        let mut report = json!({
            "stored": self.stored,
            "present": self.present,
            "failed": self.failed,
            "bytes": self.bytes,
            "not_kept": losses,
            "relied_on": relied_on.collect::<Vec<_>>(),
            "failures": self.failures.iter().map(named).collect::<Vec<_>>(),
            "left_out_count": self.left_out_count,
            "left_out": self.left_out.iter().map(named).collect::<Vec<_>>(),
            "renamed_count": self.renamed_count,
            "renamed": self.renamed.iter().map(named).collect::<Vec<_>>(),
            "empty_directories_count": self.empty_count,
            "empty_directories": self.empty.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "unfinished": self.unfinished,
        });
        for (heading, section) in &self.sections {
            let field = heading.replace(' ', "_");
            report[format!("{field}_count")] = json!(section.count);
            report[field] = section.named.iter().map(named).collect();
        }
        writeln!(out, "{report}")
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.failures.iter().try_for_each(|(name, why)| writeln!(out, "failed: {name:?}: {why}"))?;
        self.left_out.iter().try_for_each(|(name, why)| writeln!(out, "left out: {name}: {why}"))?;
        self.renamed
            .iter()
            .try_for_each(|(name, why)| writeln!(out, "under another name: {name:?}: {why}"))?;
        for (name, _) in &self.empty {
            writeln!(out, "empty directory, which a bucket cannot have: {name}")?;
        }
        if self.empty_count > self.empty.len() as u64 {
            writeln!(out, "empty directories in all: {}", self.empty_count)?;
        }
        for (loss, count) in &self.losses {
            writeln!(out, "not kept for {count}: {}", loss_text(*loss))?;
        }
        for (fact, count) in &self.relied_on {
            writeln!(out, "relied on, from MinIO's source alone, {count} times: {fact}")?;
        }
        for (heading, section) in &self.sections {
            for (subject, why) in &section.named {
                writeln!(out, "{heading}: {subject}: {why}")?;
            }
            let further = section.count - section.named.len() as u64;
            if further > 0 {
                writeln!(out, "{heading}: {further} more")?;
            }
        }
        if let Some(why) = &self.unfinished {
            writeln!(out, "unfinished: {why}")?;
        }
        let Self { stored, present, failed, left_out_count, bytes, .. } = self;
        writeln!(
            out,
            "{stored} keys stored, {present} there before, {failed} failed, {left_out_count} left out; {bytes} bytes"
        )
    }
}

fn name(names: &mut Vec<(String, String)>, name: &str, why: String) {
    if names.len() < NAMED_MAX {
        names.push((name.to_owned(), why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report after notes in the order of `subjects`.
    fn written(subjects: [&str; 3], json: bool) -> String {
        let mut report = TransferReport::default();
        for subject in subjects {
            report.fail(subject, "away".to_owned());
            report.leave_out(subject, "no file");
            report.rename(subject, "taken");
            report.pass_over_empty(subject);
            report.find("dangling", subject, "too few");
        }
        let mut out = Vec::new();
        report.write(json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_are_sorted_in_whatever_order_they_came() {
        for json in [false, true] {
            let sorted = written(["a", "b", "c"], json);
            assert_eq!(written(["c", "a", "b"], json), sorted);
            assert!(sorted.contains("dangling"), "{sorted}");
        }
    }
}
