//! What ends the process other than well.

use std::fmt;
use std::process::ExitCode;

/// Why the process ends, in words for the operator, and with which exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    /// The server could not start or go on: status 1.
    pub(crate) fn start(message: impl Into<String>) -> Self {
        Self::refused(message)
    }

    /// What a command was to do is refused or failed: status 1.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { status: 1, message: message.into() }
    }

    /// Arguments, environment or configuration file are wrong: status 2, as for arguments that clap refuses.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { status: 2, message: message.into() }
    }

    /// The exit status.
    pub(crate) fn status(&self) -> ExitCode {
        self.status.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.trim_end())
    }
}
