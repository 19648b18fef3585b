//! The mirrors, in the API.

use serde_json::json;

use super::{ApiError, document, done};
use crate::auth::{Action, Identity};
use crate::base::Timestamp;
use crate::mirror::{MirrorFigures, MirrorRefusal, MirrorState};
use crate::ops::FollowerFigures;
use crate::s3::{Request, Response};
use crate::service::Service;
use crate::service::users::{UserError, check};

impl Service {
    /// The mirrors with their figures.
    pub(super) fn mirrors(&self, identity: &Identity) -> Result<Response, ApiError> {
        check(identity, Action::AdminGetState)?;
        let followers = self.context.store.follower_figures();
        let shown = self.mirrors.iter().map(|mirror| {
            let follower = followers.iter().find(|follower| follower.name == mirror.name());
            mirror_document(&mirror.figures(), follower)
        });
        Ok(document(200, &json!({ "mirrors": shown.collect::<Vec<_>>() })))
    }

    /// Lets a mirror start over.
    pub(super) fn resync_mirror(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        name: &str,
    ) -> Result<Response, ApiError> {
        match self.start_mirror_over(identity, request, name) {
            Ok(()) => Ok(done()),
            Err(UserError::Invalid(_)) => Err(ApiError::new(404, "NoSuchMirror", "No mirror has this name.")),
            Err(error) => Err(error.into()),
        }
    }
}

fn mirror_document(figures: &MirrorFigures, follower: Option<&FollowerFigures>) -> serde_json::Value {
    let MirrorFigures { name, target, due_keys, failing_keys, objects, bytes, removed, .. } = figures;
    let walks = follower.is_some_and(|follower| follower.in_snapshot);
    let state = match figures.state {
        MirrorState::Running if walks => "walking",
        MirrorState::Running => "following",
        MirrorState::Unreachable => "unreachable",
        MirrorState::Paused => "paused",
        MirrorState::Occupied => "occupied",
    };
    let error = figures.last_error.as_ref();
    let refused = figures.refused.iter().map(|refusal| {
        let MirrorRefusal { bucket, key, time, reason } = refusal;
        json!({ "bucket": bucket, "key": key, "time": time.to_iso8601(), "text": reason })
    });
    let occupied = figures.occupied.iter().map(|it| {
        json!({ "bucket": it.bucket, "target_bucket": it.target_bucket, "target_prefix": it.target_prefix })
    });
    json!({
        "name": name,
        "target": target,
        "state": state,
        "lag_seconds": follower.map(|follower| follower.lag.as_secs()),
        "waiting_groups": follower.map(|follower| follower.waiting_groups),
        "starts_over": follower.map(|follower| follower.starts_over),
        "due_keys": due_keys,
        "failing_keys": failing_keys,
        "refused_keys": figures.refused_keys,
        "refused": refused.collect::<Vec<_>>(),
        "occupied": occupied.collect::<Vec<_>>(),
        "objects": objects,
        "bytes": bytes,
        "removed": removed,
        "last_error": error.map(|(time, text)| json!({ "time": Timestamp::to_iso8601(*time), "text": text })),
    })
}
