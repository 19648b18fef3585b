//! Errors that end the process.

use std::fmt;
use std::process::ExitCode;

/// An error that ends the process: a message for the operator, and the exit status.
#[derive(Debug)]
pub(crate) struct CliError {
    status: u8,
    message: String,
}

impl CliError {
    /// The server could not start or go on: status 1.
    pub(crate) fn start(message: impl Into<String>) -> Self {
        Self::refused(message)
    }

    /// A command was refused or failed: status 1.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { status: 1, message: message.into() }
    }

    /// The same with the status of a command that was refused.
    pub(crate) fn refused_answer(self) -> Self {
        Self::refused(self.message)
    }

    /// Arguments, environment or configuration file are wrong: status 2, as for arguments that clap
    /// refuses.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { status: 2, message: message.into() }
    }

    /// A program that this one stands for failed: its own status.
    pub(crate) fn with_status(status: u8, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// Writes the message to standard error, if there is one.
    pub(crate) fn report(&self, program: &str) {
        if !self.message.is_empty() {
            eprintln!("{program}: {self}");
        }
    }

    /// Another host has taken over: status 3, after which the service manager starts this one again
    /// as its standby.
    pub(crate) fn taken_over() -> Self {
        let message = "another host has taken over: the next start with --standby follows it";
        Self { status: 3, message: message.to_owned() }
    }

    /// The exit status.
    pub(crate) fn status(&self) -> ExitCode {
        self.status.into()
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.trim_end())
    }
}
