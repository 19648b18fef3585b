//! Where log lines go: standard error, one line each, with the time that the records elsewhere bear.

use std::io::Write;

use clap::ValueEnum;
use log::LevelFilter;
use serde::Deserialize;
use siltstone::base::{Clock, SystemClock};

/// How much is logged: everything at least as weighty as this. `Info` is one line a request and the milestones of the
/// server, `Warn` what went wrong and was survived, `Error` what needs an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::Off,
            Self::Error => LevelFilter::Error,
            Self::Warn => LevelFilter::Warn,
            Self::Info => LevelFilter::Info,
            Self::Debug => LevelFilter::Debug,
            Self::Trace => LevelFilter::Trace,
        }
    }
}

/// Sends the log of the whole process to standard error from here on. Called once.
pub(crate) fn start(level: LogLevel) {
    env_logger::Builder::new()
        .filter_level(level.filter())
        .format(|out, record| {
            let now = SystemClock.now();
            writeln!(out, "{now} {:<5} {}: {}", record.level(), record.target(), record.args())
        })
        .init();
}
