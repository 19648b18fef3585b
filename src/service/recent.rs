//! The last requests that failed and the last slow ones, in memory, for the page of the state.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use super::access_log::AccessRecord;
use crate::base::{NOT_POISONED, Timestamp, beginning_of, push_latest};

/// Requests that each list keeps.
const KEPT_MAX: usize = 50;
/// Bytes of a path and of a user's name that are kept.
const TEXT_MAX_BYTES: usize = 256;
/// A request that took as long is slow.
const SLOW: Duration = Duration::from_secs(1);

/// A request. It has no query and no header, so that it can hold no signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedRequest {
    /// The time of arrival.
    pub time: Timestamp,
    /// The request id, which the log has, too.
    pub id: String,
    /// The address of the client.
    pub peer: Option<IpAddr>,
    /// The user, if it was authenticated.
    pub user: Option<String>,
    pub operation: String,
    /// The beginning of the path as sent.
    pub path: String,
    /// The status of the response.
    pub status: u16,
    /// The code of the error in the response.
    pub error: Option<String>,
    /// Bytes of the request body that were read.
    pub received: u64,
    /// Bytes of the response body, as announced.
    pub sent: u64,
    /// The time from the head of the request to the head of the response.
    pub took: Duration,
}

/// The last failed and the last slow requests, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotedRequests {
    /// Those that failed.
    pub failed: Vec<NotedRequest>,
    /// Those that were slow.
    pub slow: Vec<NotedRequest>,
}

/// The lists. Requests that neither fail nor are slow do not touch them.
#[derive(Default)]
pub(super) struct RecentRequests {
    failed: Mutex<VecDeque<NotedRequest>>,
    slow: Mutex<VecDeque<NotedRequest>>,
}

impl RecentRequests {
    /// Notes a request. A refusal is no failure where a page only asked what it can show.
    pub(super) fn note(&self, record: &AccessRecord<'_>, is_question: bool) {
        let is_refused_question = is_question && record.status < 500;
        if has_failed(record.status) && !is_refused_question {
            push(&self.failed, record);
        }
        if record.took >= SLOW {
            push(&self.slow, record);
        }
    }

    pub(super) fn snapshot(&self) -> NotedRequests {
        NotedRequests { failed: newest_first(&self.failed), slow: newest_first(&self.slow) }
    }
}

/// Whether a status means a failure. Clients ask for missing objects and with conditions in
/// their ordinary work.
fn has_failed(status: u16) -> bool {
    status >= 400 && !matches!(status, 404 | 412 | 416)
}

fn push(list: &Mutex<VecDeque<NotedRequest>>, record: &AccessRecord<'_>) {
    // Clients choose these texts, which must not decide how much memory the list takes.
    let noted = NotedRequest {
        time: record.time,
        id: record.id.to_owned(),
        peer: record.peer.map(|peer| peer.ip()),
        user: record.user.map(|user| beginning_of(user, TEXT_MAX_BYTES).to_owned()),
        operation: record.operation.to_owned(),
        path: beginning_of(record.path, TEXT_MAX_BYTES).to_owned(),
        status: record.status,
        error: record.error.map(str::to_owned),
        received: record.received,
        sent: record.sent,
        took: record.took,
    };
    push_latest(&mut list.lock().expect(NOT_POISONED), noted, KEPT_MAX);
}

fn newest_first(list: &Mutex<VecDeque<NotedRequest>>) -> Vec<NotedRequest> {
    list.lock().expect(NOT_POISONED).iter().rev().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(path: &str, status: u16, took: Duration) -> AccessRecord<'_> {
        AccessRecord {
            time: Timestamp::from_millis(0),
            id: "id",
            peer: None,
            user: Some("ada"),
            operation: "GetObject",
            method: "GET",
            path,
            query: "X-Amz-Signature=secret",
            status,
            error: None,
            received: 0,
            sent: 0,
            took,
            secure: false,
            agent: "",
        }
    }

    #[test]
    fn failures_and_slow_requests_are_kept_without_their_query() {
        let recent = RecentRequests::default();
        for (path, status, took) in [
            ("/ok", 200, Duration::ZERO),
            ("/missing", 404, Duration::ZERO),
            ("/denied", 403, Duration::ZERO),
            ("/broken", 500, SLOW),
            ("/slow", 200, SLOW),
        ] {
            recent.note(&record(path, status, took), false);
        }
        recent.note(&record("/asked", 403, SLOW), true);
        let noted = recent.snapshot();
        let paths = |list: &[NotedRequest]| list.iter().map(|noted| noted.path.clone()).collect::<Vec<_>>();
        assert_eq!(paths(&noted.failed), ["/broken", "/denied"]);
        assert_eq!(paths(&noted.slow), ["/asked", "/slow", "/broken"]);
        assert!(!format!("{noted:?}").contains("secret"));
    }

    #[test]
    fn the_lists_and_their_texts_are_bounded() {
        let recent = RecentRequests::default();
        let long = format!("/{}", "ü".repeat(5_000));
        for n in 0..KEPT_MAX + 7 {
            recent.note(&record(&format!("/{n}{long}"), 500, Duration::ZERO), true);
        }
        let failed = recent.snapshot().failed;
        assert_eq!((failed.len(), failed[0].path.starts_with("/56/")), (KEPT_MAX, true));
        assert!(failed.iter().all(|noted| noted.path.len() <= TEXT_MAX_BYTES));
    }
}
