//! The clock, in the API.

use serde_json::json;

use super::{ApiError, document};
use crate::auth::{Action, Identity};
use crate::base::Timestamp;
use crate::ops::ClockFigures;
use crate::s3::{Request, Response};
use crate::service::Service;
use crate::service::users::check;

impl Service {
    /// The state of the clock.
    pub(super) fn clock_state(&self, identity: &Identity) -> Result<Response, ApiError> {
        check(identity, Action::AdminGetState)?;
        Ok(document(200, &clock_document(&self.context.store.clock_figures())))
    }

    /// Takes the clock for right.
    pub(super) fn accept_clock_of_api(
        &self,
        identity: &Identity,
        request: &Request<'_>,
    ) -> Result<Response, ApiError> {
        let figures = self.accept_clock(identity, request)?;
        Ok(document(200, &clock_document(&figures)))
    }
}

fn clock_document(figures: &ClockFigures) -> serde_json::Value {
    let ClockFigures { wall, lock_time, ahead, behind, is_held, locks_wait, believed_in } = figures;
    json!({
        "time": Timestamp::to_iso8601(*wall),
        "lock_time": Timestamp::to_iso8601(*lock_time),
        "ahead_seconds": ahead.as_secs(),
        "behind_seconds": behind.as_secs(),
        "held": is_held,
        "compliance_waits": locks_wait,
        "believed_in_seconds": believed_in.map(|time| time.as_secs()),
    })
}
