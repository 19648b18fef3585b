//! The log on standard error, one line for each record.

use std::io::Write;

use clap::ValueEnum;
use log::{LevelFilter, Record};
use serde_json::json;
use siltstone::base::{Clock, SystemClock, Timestamp};

/// The lowest level that is logged. `Info` is one line for each request and the milestones of the
/// server, `Warn` recovered failures, `Error` failures that need an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
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

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object, for programs.
    Json,
}

impl LogFormat {
    fn line(self, now: Timestamp, record: &Record<'_>) -> String {
        let level = record.level();
        let target = record.target();
        let message = record.args();
        match self {
            Self::Text => format!("{now} {level:<5} {target}: {message}"),
            Self::Json => {
                let time = now.to_iso8601();
                json!({ "time": time, "level": level.as_str(), "target": target, "message": message.to_string() })
                    .to_string()
            }
        }
    }
}

/// Starts logging to standard error. Called once.
pub(crate) fn start(level: LogLevel, format: LogFormat) {
    env_logger::Builder::new()
        .filter_level(level.filter())
        .format(move |out, record| writeln!(out, "{}", format.line(SystemClock.now(), record)))
        .init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_json_is_one_line_whatever_is_in_it() {
        let message = format_args!("a \"quoted\"\nmessage");
        let record = Record::builder().level(log::Level::Warn).target("t").args(message).build();
        let line = LogFormat::Json.line(Timestamp::from_millis(0), &record);
        assert!(!line.contains('\n'), "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            read,
            json!({
                "time": "1970-01-01T00:00:00.000Z", "level": "WARN", "target": "t",
                "message": "a \"quoted\"\nmessage"
            })
        );
    }
}
