//! The findings of an examination.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::show;

/// The weight of a finding; the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// Something that may be on purpose.
    Note,
    /// It works, and will not always.
    Warning,
    /// Requests fail, or data are at risk.
    Error,
}

/// A fault, and its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// The name of the check; it does not change between versions.
    pub(super) check: &'static str,
    pub(super) severity: Severity,
    pub(super) what: String,
    /// The line, option or command to change.
    pub(super) change: String,
}

impl Finding {
    pub(super) fn error(check: &'static str, what: impl Into<String>, change: impl Into<String>) -> Self {
        Self { check, severity: Severity::Error, what: what.into(), change: change.into() }
    }

    pub(super) fn warning(check: &'static str, what: impl Into<String>, change: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(check, what, change) }
    }

    pub(super) fn note(check: &'static str, what: impl Into<String>, change: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(check, what, change) }
    }
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Prints the findings, the worst first, and the checks that were made.
pub(super) fn write(
    findings: &mut [Finding],
    checked: &[&'static str],
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    if json {
        return show::json(out, &describe(findings, checked));
    }
    for Finding { check, severity, what, change } in &*findings {
        writeln!(out, "{}: {check}: {what}\n    change: {change}", severity.name())?;
    }
    writeln!(out, "{} checks, {} findings", checked.len(), findings.len())
}

fn describe(findings: &[Finding], checked: &[&'static str]) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "check": finding.check,
            "severity": finding.severity.name(),
            "what": finding.what,
            "change": finding.change,
        })
    };
    json!({ "checks": checked, "findings": findings.iter().map(finding).collect::<Vec<_>>() })
}
