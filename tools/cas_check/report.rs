//! The results and the verdict, as text and as JSON.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::contract::Check;
use super::link::Finding;
use super::place::Versions;
use crate::show;

/// The result of a check.
pub(crate) struct CheckResult {
    pub(crate) name: &'static str,
    title: &'static str,
    versions: Versions,
    outcome: CheckOutcome,
    /// A remark or a reason.
    detail: String,
}

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckOutcome {
    Holds,
    Broken,
    Refused,
    Unfinished,
    /// The store does not offer versions, which conditional writes do not need.
    NotOffered,
}

/// All results.
pub(crate) struct Report {
    pub(crate) endpoint: String,
    pub(crate) bucket: String,
    pub(crate) rounds: u32,
    pub(crate) connections: u16,
    pub(crate) requests: u64,
    pub(crate) elapsed: Duration,
    pub(crate) results: Vec<CheckResult>,
}

impl CheckResult {
    pub(crate) fn new(check: &Check, versions: Versions, result: Result<String, Finding>) -> Self {
        let (outcome, detail) = match result {
            Ok(remark) => (CheckOutcome::Holds, remark),
            Err(Finding::Broken(why)) => (CheckOutcome::Broken, why),
            Err(Finding::Refused(why)) => (CheckOutcome::Refused, why),
            Err(Finding::Unfinished(why)) => (CheckOutcome::Unfinished, why),
        };
        Self { name: check.name, title: check.title, versions, outcome, detail }
    }

    /// The result of a check with versions in a store without them.
    pub(crate) fn not_offered(check: &Check, why: &str) -> Self {
        let outcome = CheckOutcome::NotOffered;
        let detail = why.to_owned();
        Self { name: check.name, title: check.title, versions: Versions::On, outcome, detail }
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.outcome == CheckOutcome::Refused
    }

    fn to_json(&self) -> Value {
        json!({
            "check": self.name,
            "title": self.title,
            "versions": self.versions == Versions::On,
            "result": self.outcome.name(),
            "detail": self.detail,
        })
    }
}

impl CheckOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Broken => "broken",
            Self::Refused => "refused",
            Self::Unfinished => "unfinished",
            Self::NotOffered => "not offered",
        }
    }
}

impl Report {
    /// Whether the store keeps the whole contract.
    pub(crate) fn passes(&self) -> bool {
        let mut outcomes = self.results.iter().map(|result| &result.outcome);
        outcomes.all(|outcome| matches!(outcome, CheckOutcome::Holds | CheckOutcome::NotOffered))
    }

    fn has(&self, outcome: CheckOutcome) -> bool {
        self.results.iter().any(|result| result.outcome == outcome)
    }

    fn reason(&self) -> &'static str {
        if self.has(CheckOutcome::Broken) {
            "do not coordinate by this store: it answers conditional writes wrongly"
        } else if self.has(CheckOutcome::Unfinished) {
            "not proven: some checks were not finished"
        } else if self.has(CheckOutcome::Refused) {
            "the store refuses some conditions; those that it takes hold"
        } else {
            "the store decides conditional writes atomically"
        }
    }

    fn verdict(&self) -> &'static str {
        if self.passes() { "pass" } else { "fail" }
    }

    /// Writes the report.
    pub(crate) fn write(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        if json { show::json(out, &self.to_json()) } else { self.write_text(out) }
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        for (versions, heading) in [(Versions::Off, "without versions"), (Versions::On, "with versions")] {
            let results: Vec<_> = self.results.iter().filter(|result| result.versions == versions).collect();
            if !results.is_empty() {
                writeln!(out, "{heading}")?;
            }
            for result in results {
                let CheckResult { name, title, detail, .. } = result;
                writeln!(out, "  {:<12}{name:<16}{title}: {detail}", result.outcome.name())?;
            }
        }
        let requests = self.requests;
        let seconds = self.elapsed.as_secs_f64();
        writeln!(out, "{requests} requests in {seconds:.1} s to {}, bucket {}", self.endpoint, self.bucket)?;
        writeln!(out, "verdict: {}: {}", self.verdict(), self.reason())
    }

    fn to_json(&self) -> Value {
        json!({
            "endpoint": self.endpoint,
            "bucket": self.bucket,
            "rounds": self.rounds,
            "connections": self.connections,
            "requests": self.requests,
            "seconds": self.elapsed.as_secs_f64(),
            "checks": self.results.iter().map(CheckResult::to_json).collect::<Value>(),
            "verdict": self.verdict(),
            "reason": self.reason(),
        })
    }
}
