//! The audit log: a file with a line of JSON for each attempt at a change, synced before the
//! response is sent.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use log::{error, info};
use serde_json::{Map, Value, json};
use siltstone::base::{Clock as _, SystemClock, Timestamp};
use siltstone::service::{AuditLog, AuditRecord, AuditedState};

use super::log_file::LineFile;

/// The file of the audit log, or standard error.
pub(crate) struct AuditLogFile {
    file: LineFile,
    /// Lines that could not be written or synced since the last one that could.
    lost: Mutex<u64>,
}

impl AuditLogFile {
    /// Opens the file at `path` for appending; creates it if missing. `-` is standard error.
    ///
    /// # Errors
    /// In words for the operator.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        Ok(Self { file: LineFile::open("audit log", path)?, lost: Mutex::new(0) })
    }

    /// Opens the file again after it was renamed. On an error the old file stays in use.
    pub(crate) fn reopen(&self) {
        self.file.reopen();
    }

    /// Held while the line about lost lines is written. A panic in between leaves their number.
    fn lost(&self) -> MutexGuard<'_, u64> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AuditLog for AuditLogFile {
    /// After lines were lost, a line that tells their number has to be written first.
    fn is_writable(&self) -> bool {
        let mut lost = self.lost();
        if *lost > 0 {
            let resumed = gap_line(SystemClock.now(), *lost);
            if self.file.append_durably(&resumed).is_err() {
                return false;
            }
            info!("the audit log can be written again; {lost} lines are missing from it");
            *lost = 0;
        }
        true
    }

    /// Lines that cannot be written go to the log of the process.
    fn record(&self, records: &[AuditRecord<'_>]) {
        let lines: String = records.iter().map(json_line).collect();
        if let Err(problem) = self.file.append_durably(&lines) {
            *self.lost() += records.len() as u64;
            error!("the audit log cannot be written: {problem}; lines that are missing from it: {lines}");
        }
    }
}

fn gap_line(now: Timestamp, lost: u64) -> String {
    format!("{}\n", json!({ "time": now.to_iso8601(), "action": "AuditLogResumed", "lost": lost }))
}

fn json_line(record: &AuditRecord<'_>) -> String {
    let mut line = Map::new();
    let mut add = |name: &str, value: Value| line.insert(name.to_owned(), value);
    add("time", record.time.to_iso8601().into());
    add("id", record.id.into());
    add("user", record.user.into());
    if let Some(person) = record.person {
        add("person", json!({ "subject": person.subject, "name": person.name }));
    }
    if record.session.is_some() {
        add("session", record.session.into());
    }
    if record.access_key.is_some() {
        add("access_key", record.access_key.into());
    }
    if record.console_session.is_some() {
        add("console_session", record.console_session.into());
    }
    add("peer", record.peer.into());
    add("action", record.action.into());
    add("bucket", record.bucket.into());
    add("key", record.key.into());
    add("version", record.version.into());
    if record.subject.is_some() {
        add("subject", record.subject.into());
    }
    add("before", state(record.before));
    add("after", state(record.after));
    add("status", record.status.into());
    add("error", record.error.into());
    format!("{}\n", Value::Object(line))
}

/// The value as a string; of a long one an object with its beginning and its length.
fn state(state: Option<&AuditedState>) -> Value {
    match state {
        None => Value::Null,
        Some(AuditedState { text, cut_from: None }) => text.as_str().into(),
        Some(AuditedState { text, cut_from: Some(bytes) }) => json!({ "cut": text, "bytes": bytes }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn record<'r>(before: &'r AuditedState) -> AuditRecord<'r> {
        AuditRecord {
            time: Timestamp::from_millis(1_369_353_600_250),
            action: "PutBucketPolicy",
            bucket: Some("b\n\"b"),
            before: Some(before),
            status: Some(200),
            ..AuditRecord::default()
        }
    }

    #[test]
    fn a_line_can_be_read_back_and_marks_a_value_that_is_cut() {
        let read = |state: AuditedState| -> Value {
            let line = json_line(&record(&state));
            assert_eq!(line.matches('\n').count(), 1);
            serde_json::from_str(&line).unwrap()
        };
        let whole = read(AuditedState::new("{}".to_owned()));
        assert_eq!(
            (&whole["before"], &whole["after"], &whole["bucket"]),
            (&json!("{}"), &Value::Null, &json!("b\n\"b"))
        );
        let cut = read(AuditedState { text: "{".to_owned(), cut_from: Some(9) });
        assert_eq!(cut["before"], json!({ "cut": "{", "bytes": 9 }));
    }

    #[test]
    fn nothing_is_writable_after_a_loss_until_a_line_tells_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let log = AuditLogFile::open(&path).unwrap();
        assert!(log.is_writable());
        let state = AuditedState::new(String::new());
        log.record(&[record(&state), record(&state)]);
        assert!(!log.is_writable());
        fs::remove_file(&path).unwrap();
        log.reopen();
        assert!(log.is_writable());
        log.record(&[record(&state)]);
        let lines: Vec<Value> =
            fs::read_to_string(&path).unwrap().lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        assert_eq!((&lines[0]["action"], &lines[0]["lost"]), (&json!("AuditLogResumed"), &json!(2)));
        assert_eq!((lines.len(), &lines[1]["action"]), (2, &json!("PutBucketPolicy")));
    }
}
