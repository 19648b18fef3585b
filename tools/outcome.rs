//! How a command ends.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// What came of it; the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Nothing is wrong.
    Well,
    /// Something is.
    Findings,
    /// Nobody knows.
    CouldNotLook,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome as u8)
    }
}

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It could not look at what was asked for.
    Look(String),
    /// Nobody takes what it writes.
    Output(io::Error),
}

impl Failure {
    /// What is wrong with `subject`.
    pub(crate) fn look(subject: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::Look(format!("{subject}: {why}"))
    }

    /// Says so on standard error. Whoever stopped reading, as `head` does, knows it.
    pub(crate) fn tell(&self) {
        let what = match self {
            Self::Look(what) => what.clone(),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return,
            Self::Output(error) => format!("cannot write: {error}"),
        };
        // Where standard error is closed, too, there is nobody to tell.
        let _ = writeln!(io::stderr(), "siltstone-tools: {what}");
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
