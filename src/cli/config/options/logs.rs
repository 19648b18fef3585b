//! Options: the log, the access log and the audit log.

use std::path::PathBuf;

use clap::Args;
use siltstone::base::limits;

use crate::cli::config::option_values::TimeSpan;
use crate::cli::logs::access_log::{AccessLogFormat, AccessLogPlace};
use crate::cli::logs::logging::{LogFormat, LogLevel};

/// The log, the access log and the audit log.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct LogOptions {
    /// Write a line for each request to this file, - for standard error, off or none for no line at
    /// all; without it they are in the log
    #[arg(long, value_name = "FILE", env = "SILTSTONE_ACCESS_LOG", global = true)]
    pub(crate) access_log: Option<AccessLogPlace>,

    /// How a line of the access log is written: json, or common as web servers do
    #[arg(long, value_name = "NAME", env = "SILTSTONE_ACCESS_LOG_FORMAT", global = true)]
    #[arg(value_enum, default_value_t = AccessLogFormat::Json)]
    pub(crate) access_log_format: AccessLogFormat,

    /// Write a line of JSON for each attempt to change users, permissions, locks or configurations,
    /// or to delete a version, to this file, - for standard error
    #[arg(long, value_name = "FILE", env = "SILTSTONE_AUDIT_LOG", global = true)]
    pub(crate) audit_log: Option<PathBuf>,

    /// How long requests wait at most before they are stored in the log of their bucket
    /// (PutBucketLogging)
    #[arg(long, value_name = "TIME", env = "SILTSTONE_BUCKET_LOG_INTERVAL", global = true)]
    #[arg(default_value_t = TimeSpan::from_secs(limits::BUCKET_LOG_INTERVAL_SECS))]
    pub(crate) bucket_log_interval: TimeSpan,

    /// Lowest level that is logged on standard error
    #[arg(long, value_name = "LEVEL", env = "SILTSTONE_LOG_LEVEL", global = true)]
    #[arg(value_enum, default_value_t = LogLevel::Info)]
    pub(crate) log_level: LogLevel,

    /// How a line of the log is written: text, or json
    #[arg(long, value_name = "NAME", env = "SILTSTONE_LOG_FORMAT", global = true)]
    #[arg(value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

impl LogOptions {
    /// The place of the access log; `None` to write its lines to the log. If the log is JSON, the
    /// access log is written to standard error as JSON lines of its own.
    pub(crate) fn access_log_place(&self) -> Option<&AccessLogPlace> {
        let among_json = self.log_format == LogFormat::Json && self.log_level >= LogLevel::Info;
        self.access_log.as_ref().or(among_json.then_some(&AccessLogPlace::StandardError))
    }

    /// The files that the logs are written to.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let access_log = match &self.access_log {
            Some(AccessLogPlace::File(path)) => Some(path),
            _ => None,
        };
        access_log.into_iter().chain(&self.audit_log)
    }
}
