//! The audit log, where there is one, and the last acts in memory, for the page of the audit.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::audit_record::{AuditLog, AuditRecord};
use crate::base::{NOT_POISONED, Timestamp, beginning_of, push_latest};

/// Acts that are kept.
const KEPT_MAX: usize = 200;
/// Bytes of a text that are kept.
const TEXT_MAX_BYTES: usize = 256;

/// An attempt to change buckets, users, permissions or locks. It has no value and no secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotedAct {
    /// The time of the attempt.
    pub time: Timestamp,
    /// The id of the request; `None` for a change that is not made by a request.
    pub id: Option<String>,
    /// The user, if it was authenticated.
    pub user: Option<String>,
    /// The name of the person who acted as the user, where an OpenID provider vouched for it.
    pub person: Option<String>,
    /// The ARN of the session whose keys signed.
    pub session: Option<String>,
    /// The access key that signed, or that a session of the console stands for.
    pub access_key: Option<String>,
    /// The number of the session of the console.
    pub console_session: Option<u64>,
    /// The address of the client, or what else asked for the change.
    pub peer: Option<String>,
    /// The operation.
    pub action: String,
    pub bucket: Option<String>,
    pub key: Option<String>,
    pub version: Option<String>,
    /// The user or owner that the change concerns.
    pub subject: Option<String>,
    /// The status of the response; `None` for a change that is not made by a request.
    pub status: Option<u16>,
    /// The code of the error.
    pub error: Option<String>,
}

impl NotedAct {
    fn of(record: &AuditRecord<'_>) -> Self {
        Self {
            time: record.time,
            id: kept(record.id),
            user: kept(record.user),
            person: kept(record.person.map(|person| person.name.as_str())),
            session: kept(record.session),
            access_key: kept(record.access_key),
            console_session: record.console_session,
            peer: kept(record.peer),
            action: record.action.to_owned(),
            bucket: kept(record.bucket),
            key: kept(record.key),
            version: kept(record.version),
            subject: kept(record.subject),
            status: record.status,
            error: kept(record.error),
        }
    }
}

/// Clients choose these texts, which must not decide how much memory the trail takes.
fn kept(text: Option<&str>) -> Option<String> {
    text.map(|text| beginning_of(text, TEXT_MAX_BYTES).to_owned())
}

/// Records attempts in memory and, where there is one, in the audit log.
#[derive(Default)]
pub struct AuditTrail {
    log: Option<Arc<dyn AuditLog>>,
    last: Mutex<VecDeque<NotedAct>>,
}

impl AuditTrail {
    /// A trail of the acts from now on. `log` has them all.
    pub fn new(log: Option<Arc<dyn AuditLog>>) -> Self {
        Self { log, last: Mutex::default() }
    }

    /// The audit log.
    pub(super) fn log(&self) -> Option<&dyn AuditLog> {
        self.log.as_deref()
    }

    /// The last acts, the newest first.
    pub(super) fn last(&self) -> Vec<NotedAct> {
        self.last.lock().expect(NOT_POISONED).iter().rev().cloned().collect()
    }
}

impl AuditLog for AuditTrail {
    /// Whether a change can be recorded: always where there is no audit log.
    fn is_writable(&self) -> bool {
        self.log.as_ref().is_none_or(|log| log.is_writable())
    }

    fn record(&self, records: &[AuditRecord<'_>]) {
        {
            let mut last = self.last.lock().expect(NOT_POISONED);
            for record in records {
                push_latest(&mut last, NotedAct::of(record), KEPT_MAX);
            }
        }
        if let Some(log) = &self.log {
            log.record(records);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_acts_are_kept_with_texts_of_bounded_size() {
        let trail = AuditTrail::default();
        let long = "ü".repeat(5_000);
        for number in 0..KEPT_MAX as u64 + 3 {
            let time = Timestamp::from_millis(number);
            let record =
                AuditRecord { time, action: "CreateUser", subject: Some(&long), ..AuditRecord::default() };
            trail.record(&[record]);
        }
        let last = trail.last();
        let times: Vec<_> = last.iter().map(|act| act.time.as_millis()).collect();
        assert_eq!(times, (3..KEPT_MAX as u64 + 3).rev().collect::<Vec<_>>());
        assert!(last.iter().all(|act| act.subject.as_ref().is_some_and(|it| it.len() == TEXT_MAX_BYTES)));
        assert!(trail.is_writable() && trail.log().is_none());
    }
}
