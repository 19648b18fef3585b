//! The clock of the host: what is known of it, and the word of the operator that it is right.

use super::Service;
use super::audited_act::AuditedAct;
use super::users::UserError;
use crate::auth::{Action, Identity};
use crate::ops::ClockFigures;
use crate::s3::Request;

impl Service {
    /// Takes the wall clock for right, on behalf of `identity`, who sent `request`. The attempt is
    /// in the audit log on return, if there is one.
    ///
    /// # Errors
    /// [`UserError::Denied`]; [`UserError::Failed`] while the audit log cannot be written, or the
    /// store takes no writes.
    pub(super) fn accept_clock(
        &self,
        identity: &Identity,
        request: &Request<'_>,
    ) -> Result<ClockFigures, UserError> {
        let act = AuditedAct {
            identity,
            request,
            permission: Action::AdminAcceptClock,
            name: "AcceptClock",
            subject: None,
            status: 200,
            unknown: "InternalError",
        };
        self.do_audited(&act, || {
            let accepted = self.context.store.accept_clock();
            let figures = accepted.map_err(|error| UserError::Failed(error.to_string()))?;
            log::info!("the clock is taken for right, as {:?} says", identity.name());
            Ok(figures)
        })
    }
}
