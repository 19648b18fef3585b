//! The result of a command.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit status; the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// No damage and no failure.
    Success,
    /// Damage, or failed requests.
    Findings,
    /// The command could not do its work.
    Failed,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome as u8)
    }
}

/// The reason for an early end of a command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command could not do its work.
    Command(String),
    /// Standard output failed.
    Output(io::Error),
}

impl Failure {
    /// A failure that concerns `subject`.
    pub(crate) fn of(subject: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::Command(format!("{subject}: {why}"))
    }

    /// Prints the failure to standard error. A closed pipe, as by `head`, is not reported.
    pub(crate) fn report(&self) {
        if matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe) {
            return;
        }
        // Standard error may be closed, too.
        let _ = writeln!(io::stderr(), "siltstone-tools: {self}");
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(what) => f.write_str(what),
            Self::Output(error) => write!(f, "cannot write: {error}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
