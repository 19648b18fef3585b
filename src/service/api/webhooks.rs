//! The webhooks, in the API.

use serde_json::{Value, json};

use super::{ApiError, document};
use crate::auth::{Action, Identity};
use crate::base::Timestamp;
use crate::s3::Response;
use crate::service::Service;
use crate::service::users::check;
use crate::webhook::TargetState;

impl Service {
    /// The webhooks with their figures.
    pub(super) fn webhooks(&self, identity: &Identity) -> Result<Response, ApiError> {
        check(identity, Action::AdminGetState)?;
        let shown: Vec<_> = self.webhook_states().iter().map(webhook_document).collect();
        Ok(document(200, &json!({ "webhooks": shown })))
    }
}

/// The figures of a webhook.
pub(super) fn webhook_document(target: &TargetState) -> Value {
    json!({
        "name": target.name,
        "target": target.endpoint,
        "delivered": target.delivered,
        "failed_requests": target.failed,
        "dropped": target.dropped,
        "overruns": target.overruns,
        "overrun": target.is_overrun,
        "lag_seconds": target.lag.as_secs(),
        "waiting_groups": target.waiting_groups,
        "error": target.error,
        "failing_since": target.failing_since.map(Timestamp::to_iso8601),
    })
}
