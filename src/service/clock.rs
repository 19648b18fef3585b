//! The clock of the host: what is known of it, and the word of the operator that it is right.

use super::Service;
use super::audit::AuditRecord;
use super::users::{UserError, check};
use crate::auth::{Action, Identity};
use crate::ops::ClockFigures;
use crate::s3::Request;

impl Service {
    /// Takes the wall clock for right, on behalf of `identity`, who sent `request`. The attempt is in the audit log on return, if there is
    /// one.
    ///
    /// # Errors
    /// [`UserError::Denied`]; [`UserError::Failed`] while the audit log cannot be written, or the store takes no writes.
    pub(super) fn accept_clock(
        &self,
        identity: &Identity,
        request: &Request<'_>,
    ) -> Result<ClockFigures, UserError> {
        let log = self.recorder.audit_log.as_deref();
        if log.is_some_and(|log| !log.is_writable()) {
            return Err(UserError::Failed("the audit log cannot be written".to_owned()));
        }
        let accepted = check(identity, Action::AdminAcceptClock).and_then(|()| {
            let accepted = self.context.store.accept_clock();
            accepted.map_err(|error| UserError::Failed(error.to_string()))
        });
        let (status, error) = match &accepted {
            Ok(_) => (200, None),
            Err(UserError::Denied(_)) => (403, Some("AccessDenied")),
            Err(_) => (500, Some("InternalError")),
        };
        if accepted.is_ok() {
            log::info!("the clock is taken for right, as {:?} says", identity.name());
        }
        let peer = request.peer.map(|peer| peer.ip().to_string());
        let record = AuditRecord {
            time: self.recorder.clock.now(),
            user: Some(identity.name()),
            person: identity.person().map(|person| &**person),
            peer: peer.as_deref(),
            action: "AcceptClock",
            status: Some(status),
            error,
            ..AuditRecord::default()
        };
        log.into_iter().for_each(|log| log.record(std::slice::from_ref(&record)));
        accepted
    }
}
