//! The audit log: the attempts that have a record, and what it says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use siltstone::s3::operation::{ResourceLevel, RouteCondition};
use siltstone::s3::{Method, Operation};
use siltstone::service::{AuditLog, AuditRecord, AuditedState};

use super::*;

const POLICY: &str = r#"{"Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}]}"#;

/// A record as the log got it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Kept {
    pub(super) user: Option<String>,
    pub(super) session: Option<String>,
    peer: Option<String>,
    pub(super) action: String,
    bucket: Option<String>,
    key: Option<String>,
    version: Option<String>,
    pub(super) subject: Option<String>,
    before: Option<String>,
    pub(super) after: Option<String>,
    pub(super) status: Option<u16>,
    pub(super) error: Option<String>,
}

/// A log in memory, which can be full.
#[derive(Default)]
pub(super) struct MemoryLog {
    kept: Mutex<Vec<Kept>>,
    pub(super) full: AtomicBool,
}

impl AuditLog for MemoryLog {
    fn is_writable(&self) -> bool {
        !self.full.load(Ordering::Relaxed)
    }

    fn record(&self, records: &[AuditRecord<'_>]) {
        let text = |value: Option<&str>| value.map(str::to_owned);
        let state = |value: Option<&AuditedState>| value.map(|state| state.text.clone());
        self.kept.lock().unwrap().extend(records.iter().map(|record| Kept {
            user: text(record.user),
            session: text(record.session),
            peer: text(record.peer),
            action: record.action.to_owned(),
            bucket: text(record.bucket),
            key: text(record.key),
            version: text(record.version),
            subject: text(record.subject),
            before: state(record.before),
            after: state(record.after),
            status: record.status,
            error: text(record.error),
        }));
    }
}

/// A server, and its audit log.
fn audited() -> (Server, Arc<MemoryLog>) {
    let log = Arc::new(MemoryLog::default());
    (Server::with_audit_log(log.clone()), log)
}

impl MemoryLog {
    pub(super) fn taken(&self) -> Vec<Kept> {
        std::mem::take(&mut self.kept.lock().unwrap())
    }

    fn one(&self) -> Kept {
        let mut taken = self.taken();
        assert_eq!(taken.len(), 1, "{taken:?}");
        taken.remove(0)
    }
}

#[test]
fn a_change_is_recorded_with_the_value_before_and_after_it() {
    let (server, log) = audited();
    assert!(server.request("PUT", "/b?policy").body(POLICY.as_bytes()).send().status < 300);
    let set = log.one();
    assert_eq!((set.action.as_str(), set.user.as_deref()), ("PutBucketPolicy", Some("owner")));
    assert_eq!((set.bucket.as_deref(), set.key, set.before), (Some("b"), None, None));
    assert_eq!((set.after.as_deref(), set.error), (Some(POLICY), None));
    assert!(set.peer.unwrap().starts_with("127.0.0.1:"));
    assert_eq!(server.delete("/b?policy").status, 204);
    let removed = log.one();
    assert_eq!((removed.before.as_deref(), removed.after, removed.status), (Some(POLICY), None, Some(204)));
    server.set_versioning("Enabled");
    server.set_versioning("Suspended");
    let states: Vec<_> = log.taken().into_iter().map(|it| (it.before, it.after)).collect();
    let enabled = Some("Enabled".to_owned());
    let suspended = Some("Suspended".to_owned());
    assert_eq!(states, [(None, enabled.clone()), (enabled, suspended)]);
}

#[test]
fn buckets_are_recorded_when_they_come_and_go() {
    let (server, log) = audited();
    assert_eq!(server.request("PUT", "/new").send().status, 200);
    assert!(log.one().after.unwrap().contains(r#""owner":"owner""#));
    assert_eq!(server.request("PUT", "/new").send().status, 409);
    let second = log.one();
    let code = Some("BucketAlreadyExists");
    let code = if usual_dialect() == Dialect::Aws { Some("BucketAlreadyOwnedByYou") } else { code };
    assert_eq!((second.error.as_deref(), second.after), (code, None));
    assert_eq!(server.delete("/new").status, 204);
    let gone = log.one();
    assert_eq!((gone.action.as_str(), gone.after), ("DeleteBucket", None));
    assert!(gone.before.is_some());
}

#[test]
fn refused_attempts_are_recorded_whatever_refused_them() {
    let (server, log) = audited();
    server.request("PUT", "/b?policy").by("limited").body(b"{}").send().is_error(403, "AccessDenied");
    let denied = log.one();
    assert_eq!((denied.user.as_deref(), denied.error.as_deref()), (Some("limited"), Some("AccessDenied")));
    assert_eq!((denied.before, denied.after, denied.status), (None, None, Some(403)));
    server.request("DELETE", "/b?policy").anonymous().send().is_error(403, "AccessDenied");
    assert_eq!(log.one().user.as_deref(), Some("anonymous"));
    server.request("PUT", "/b?policy").by("stranger").send().is_error(403, "InvalidAccessKeyId");
    let unknown = log.one();
    assert_eq!((unknown.user, unknown.action.as_str()), (None, "PutBucketPolicy"));
    server.request("PUT", "/b?policy").body(b"{").send().is_error(400, "MalformedPolicy");
    assert_eq!(log.one().error.as_deref(), Some("MalformedPolicy"));
}

#[test]
fn deletions_of_versions_are_recorded_one_by_one_and_others_are_not() {
    let (server, log) = audited();
    server.set_versioning("Enabled");
    let ids: Vec<_> =
        (0..3).map(|_| server.put("/b/k", b"abc").header("p-version-id").unwrap().to_owned()).collect();
    server.delete("/b/k");
    log.taken();
    assert_eq!(server.delete(&format!("/b/k?versionId={}", ids[0])).status, 204);
    let one = log.one();
    assert_eq!((one.key.as_deref(), one.version.as_deref()), (Some("k"), Some(ids[0].as_str())));
    assert!(one.before.unwrap().contains(r#""size":3"#) && one.after.is_none());
    let named = ids[1..].iter().map(|id| format!("<Object><Key>k</Key><VersionId>{id}</VersionId></Object>"));
    let body = format!("<Delete>{}<Object><Key>k</Key></Object></Delete>", named.collect::<String>());
    let ask = |user: &str| delete::many_by(&server, user, &body);
    assert_eq!(ask("limited").status, 200);
    let denied: Vec<_> = log.taken().into_iter().map(|it| (it.version, it.status, it.error)).collect();
    let refused = |id: &String| (Some(id.clone()), Some(403), Some("AccessDenied".to_owned()));
    assert_eq!(denied, ids[1..].iter().map(refused).collect::<Vec<_>>());
    assert_eq!(ask("owner").status, 200);
    let deleted: Vec<_> =
        log.taken().into_iter().map(|it| (it.key, it.version, it.status, it.error)).collect();
    let done = |id: &String| (Some("k".to_owned()), Some(id.clone()), Some(200), None);
    assert_eq!(deleted, ids[1..].iter().map(done).collect::<Vec<_>>());
    server.request("POST", "/b?delete").body(b"<Delete>").send();
    assert_eq!((log.one().action.as_str(), log.taken().len()), ("DeleteObjects", 0));
}

#[test]
fn a_change_of_a_version_names_it_and_requests_for_objects_leave_no_record() {
    let (server, log) = audited();
    let made = server.request("PUT", "/locked").header("p-bucket-object-lock-enabled", "true").send();
    assert!(made.status == 200 && log.one().after.unwrap().contains("Enabled"));
    let version = server.put("/locked/k", b"x").header("p-version-id").unwrap().to_owned();
    server.get("/locked/k");
    server.get("/locked?policy");
    server.delete("/locked/k2");
    assert_eq!(log.taken(), []);
    let hold =
        server.request("PUT", "/locked/k?legal-hold").body(b"<LegalHold><Status>ON</Status></LegalHold>");
    assert_eq!(hold.send().status, 200);
    let held = log.one();
    assert_eq!((held.before.as_deref(), held.after.as_deref()), (Some("OFF"), Some("ON")));
    assert_eq!(held.version, Some(version));
}

#[test]
fn a_quota_of_an_owner_is_recorded_with_its_name() {
    let (server, log) = audited();
    assert_eq!(server.request("PUT", "/?quota&owner=someone").body(br#"{"objects":1}"#).send().status, 200);
    let set = log.one();
    assert_eq!((set.subject.as_deref(), set.bucket), (Some("someone"), None));
    assert!(set.before.is_none() && set.after.unwrap().contains(r#""objects":1"#));
}

#[test]
fn nothing_audited_is_changed_while_the_log_cannot_be_written() {
    let (server, log) = audited();
    log.full.store(true, Ordering::Relaxed);
    let refused = server.request("PUT", "/b?policy").body(POLICY.as_bytes()).send();
    refused.is_error(503, "ServiceUnavailable");
    assert!(refused.text().contains("audit log"), "{}", refused.text());
    server.get("/b?policy").is_error(404, "NoSuchBucketPolicy");
    server.put("/b/k", b"x");
    log.full.store(false, Ordering::Relaxed);
    assert!(server.request("PUT", "/b?policy").body(POLICY.as_bytes()).send().status < 300);
}

/// The table in `ops` decides by operation; this holds that the decision reaches the log for
/// each of them.
#[test]
fn every_operation_that_changes_a_configuration_leaves_a_record() {
    let (server, log) = audited();
    let changes = |method: &Method| matches!(method, Method::Put | Method::Delete);
    for route in Operation::TABLE {
        let of_bucket = route.level == ResourceLevel::Bucket && changes(&route.method);
        if of_bucket && route.condition == RouteCondition::None {
            let method = route.method.as_str();
            let target =
                if route.subresource.is_empty() { "/x".to_owned() } else { format!("/b?{}", route.query()) };
            server.request(method, &target).by("limited").body(b"x").send();
            assert_eq!(log.one().action, route.operation.as_str());
        }
    }
}

#[test]
fn acts_of_administration_are_recorded_whoever_asks_for_them() {
    let (server, log) = audited();
    let sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let ask = |user: &str, path: &str| {
        let asked = server.request("POST", &format!("/-/api/1/{path}")).aws().by(user);
        asked.header("p-content-sha256", sha256).send().status
    };
    let recorded = |action: &str, user: &str, subject: Option<&str>, status: u16, error: Option<&str>| Kept {
        user: Some(user.to_owned()),
        peer: Some("127.0.0.1".to_owned()),
        action: action.to_owned(),
        subject: subject.map(str::to_owned),
        status: Some(status),
        error: error.map(str::to_owned),
        ..Kept::default()
    };
    assert_eq!(ask("limited", "clock/accept"), 403);
    assert_eq!(log.one(), recorded("AcceptClock", "limited", None, 403, Some("AccessDenied")));
    assert_eq!(ask("owner", "clock/accept"), 200);
    assert_eq!(log.one(), recorded("AcceptClock", "owner", None, 200, None));
    assert_eq!(ask("limited", "keys/rewrap"), 403);
    assert_eq!(log.one(), recorded("RewrapKeys", "limited", None, 403, Some("AccessDenied")));
    assert_eq!(ask("owner", "keys/rewrap"), 200);
    assert_eq!(log.one(), recorded("RewrapKeys", "owner", None, 200, None));
    assert_eq!(ask("limited", "mirrors/absent/resync"), 403);
    let denied = recorded("ResyncMirror", "limited", Some("absent"), 403, Some("AccessDenied"));
    assert_eq!(log.one(), denied);
    assert_eq!(ask("owner", "mirrors/absent/resync"), 404);
    let unknown = recorded("ResyncMirror", "owner", Some("absent"), 404, Some("NoSuchMirror"));
    assert_eq!(log.one(), unknown);
    log.full.store(true, Ordering::Relaxed);
    for path in ["clock/accept", "mirrors/absent/resync"] {
        assert_eq!(ask("owner", path), 500, "what cannot be recorded is not done");
    }
    assert_eq!(log.taken(), []);
}
