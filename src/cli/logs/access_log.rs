//! The access log: a file with a line for each request.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use log::warn;
use serde_json::json;
use siltstone::service::{AccessLog, AccessRecord};

use super::log_file::LineFile;

/// Where the lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessLogPlace {
    /// Nowhere.
    Off,
    StandardError,
    File(PathBuf),
}

impl FromStr for AccessLogPlace {
    type Err = Infallible;

    /// A file with one of the names has a directory before it: `./off`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "off" | "none" => Self::Off,
            "-" => Self::StandardError,
            path => Self::File(path.into()),
        })
    }
}

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessLogFormat {
    /// One JSON object.
    Json,
    /// The common log format of web servers.
    Common,
}

/// The file of the access log, standard error, or nothing.
pub(crate) struct AccessLogFile {
    /// `None` where requests are not logged.
    file: Option<LineFile>,
    format: AccessLogFormat,
    /// Whether the last line could not be written. Reported once, not for each line.
    failing: AtomicBool,
}

impl AccessLogFile {
    /// Opens the file for appending; creates it if missing.
    ///
    /// # Errors
    /// In words for the operator.
    pub(crate) fn open(place: &AccessLogPlace, format: AccessLogFormat) -> Result<Self, String> {
        let path = match place {
            AccessLogPlace::Off => None,
            AccessLogPlace::StandardError => Some(Path::new("-")),
            AccessLogPlace::File(path) => Some(path.as_path()),
        };
        let file = path.map(|path| LineFile::open("access log", path)).transpose()?;
        Ok(Self { file, format, failing: AtomicBool::new(false) })
    }

    /// Opens the file again after it was renamed. On an error the old file stays in use.
    pub(crate) fn reopen(&self) {
        if let Some(file) = &self.file {
            file.reopen();
        }
    }
}

impl AccessLog for AccessLogFile {
    fn record(&self, record: &AccessRecord<'_>) {
        let Some(file) = &self.file else { return };
        let written = file.append(&match self.format {
            AccessLogFormat::Json => json_line(record),
            AccessLogFormat::Common => common_line(record),
        });
        let failed_before = self.failing.swap(written.is_err(), Ordering::Relaxed);
        if let Err(error) = written
            && !failed_before
        {
            warn!("lines are missing from the access log: {error}");
        }
    }
}

fn json_line(record: &AccessRecord<'_>) -> String {
    let line = json!({
        "time": record.time.to_iso8601(),
        "id": record.id,
        "peer": record.peer.map(|peer| peer.to_string()),
        "secure": record.secure,
        "user": record.user,
        "operation": record.operation,
        "method": record.method,
        "path": record.path,
        "query": record.query,
        "status": record.status,
        "error": record.error,
        "received": record.received,
        "sent": record.sent,
        "ms": u64::try_from(record.took.as_millis()).unwrap_or(u64::MAX),
        "agent": record.agent,
    });
    format!("{line}\n")
}

/// `host - user [time] "request" status bytes`.
fn common_line(record: &AccessRecord<'_>) -> String {
    let host = record.peer.map_or_else(|| "-".to_owned(), |peer| peer.ip().to_string());
    let user = record.user.map_or_else(|| "-".to_owned(), word);
    let query = if record.query.is_empty() { String::new() } else { format!("?{}", word(record.query)) };
    let request = match record.method {
        "" => "-".to_owned(),
        method => format!("{} {}{query} HTTP/1.1", word(method), word(record.path)),
    };
    let sent = if record.sent == 0 { "-".to_owned() } else { record.sent.to_string() };
    let time = common_time(&record.time.to_http_date());
    format!("{host} - {user} [{time}] \"{request}\" {} {sent}\n", record.status)
}

/// Replaces characters that could end the field.
fn word(text: &str) -> String {
    text.chars().map(|c| if is_harmless(c) { c } else { '_' }).collect()
}

fn is_harmless(c: char) -> bool {
    c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '[' | ']')
}

/// `24/May/2013:00:00:00 +0000` of `Fri, 24 May 2013 00:00:00 GMT`.
fn common_time(http_date: &str) -> String {
    let words: Vec<_> = http_date.split(' ').collect();
    match words[..] {
        [_, day, month, year, time, _] => format!("{day}/{month}/{year}:{time} +0000"),
        _ => http_date.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use siltstone::base::Timestamp;

    use super::*;

    fn record<'r>(path: &'r str, query: &'r str) -> AccessRecord<'r> {
        AccessRecord {
            time: Timestamp::from_millis(1_369_353_600_250),
            id: "ID",
            peer: Some("10.0.0.1:5".parse().unwrap()),
            user: Some("a\nb"),
            operation: "GetObject",
            method: "GET",
            path,
            query,
            status: 404,
            error: Some("NoSuchKey"),
            received: 0,
            sent: 321,
            took: Duration::from_millis(7),
            secure: true,
            agent: "agent\"",
        }
    }

    #[test]
    fn a_line_of_json_can_be_read_back() {
        let line = json_line(&record("/b/\"k\"", "versionId=null"));
        assert_eq!(line.matches('\n').count(), 1);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&read["path"], &read["user"], &read["ms"]),
            (&json!("/b/\"k\""), &json!("a\nb"), &json!(7))
        );
        assert_eq!(
            (&read["time"], &read["error"]),
            (&json!("2013-05-24T00:00:00.250Z"), &json!("NoSuchKey"))
        );
    }

    #[test]
    fn a_common_line_has_its_fields_whatever_is_in_them() {
        assert_eq!(
            common_line(&record("/b/\"k]", "x=y")),
            "10.0.0.1 - a_b [24/May/2013:00:00:00 +0000] \"GET /b/_k_?x=y HTTP/1.1\" 404 321\n"
        );
    }
}
