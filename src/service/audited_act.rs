//! Acts of administration, and their records in the audit log.

use super::Service;
use super::audit_record::{AuditLog as _, AuditRecord};
use super::users::{UserError, check};
use crate::auth::{Action, Identity};
use crate::s3::Request;

/// An act that administrators ask for.
pub(super) struct AuditedAct<'a> {
    /// Who asks for it.
    pub(super) identity: &'a Identity,
    /// The request by which they do.
    pub(super) request: &'a Request<'a>,
    /// The permission that it takes.
    pub(super) permission: Action,
    /// Its name in the audit log.
    pub(super) name: &'static str,
    /// What it changes.
    pub(super) subject: Option<&'a str>,
    /// The status with which it is answered.
    pub(super) status: u16,
    /// The code of the answer where its subject is unknown.
    pub(super) unknown: &'static str,
}

impl Service {
    /// Does an act if its sender may. The attempt is in the audit log on return, if there is one.
    ///
    /// # Errors
    /// [`UserError::Denied`]; [`UserError::Failed`] while the audit log cannot be written; those of
    /// `run`.
    pub(super) fn do_audited<T>(
        &self,
        act: &AuditedAct<'_>,
        run: impl FnOnce() -> Result<T, UserError>,
    ) -> Result<T, UserError> {
        let trail = &self.recorder.audit;
        // Before the act: one that no record can follow must not be done.
        if !trail.is_writable() {
            return Err(UserError::Failed("the audit log cannot be written".to_owned()));
        }
        let done = check(act.identity, act.permission).and_then(|()| run());
        let (status, error) = match &done {
            Ok(_) => (act.status, None),
            Err(UserError::Denied(_)) => (403, Some("AccessDenied")),
            Err(UserError::Unknown { .. } | UserError::Invalid(_) | UserError::Missing(_)) => {
                (404, Some(act.unknown))
            }
            Err(
                UserError::Refused(_) | UserError::Taken { .. } | UserError::InUse(_) | UserError::TooMany(_),
            ) => (409, Some("Conflict")),
            Err(UserError::Failed(_)) => (500, Some("InternalError")),
        };
        let peer = act.request.peer.map(|peer| peer.ip().to_string());
        let record = AuditRecord {
            time: self.recorder.clock.now(),
            user: Some(act.identity.name()),
            person: act.identity.person().map(|person| &**person),
            session: act.identity.session().map(|session| session.arn()),
            access_key: act.identity.access_key().map(|key| &**key),
            console_session: act.identity.console_session(),
            peer: peer.as_deref(),
            action: act.name,
            subject: act.subject,
            status: Some(status),
            error,
            ..AuditRecord::default()
        };
        // Refused acts, too, with the reason.
        trail.record(&[record]);
        done
    }
}
