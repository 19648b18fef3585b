//! The keys of encrypted objects, in the API.

use serde_json::{Value, json};

use super::{ApiError, document, parsed};
use crate::auth::{Action, Identity};
use crate::base::Timestamp;
use crate::ops::KeyFigures;
use crate::s3::{Request, Response};
use crate::service::Service;
use crate::service::users::check;

/// What a step of a rewrap is asked for.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RewrapAsked {
    /// Whether it begins anew.
    #[serde(default)]
    begin: bool,
}

impl Service {
    /// The keys of the ring, and what needs each of them.
    pub(super) fn ring_keys(&self, identity: &Identity) -> Result<Response, ApiError> {
        check(identity, Action::AdminGetState)?;
        let keys: Vec<_> = self.context.key_figures().iter().map(key_document).collect();
        let file = self.context.ring_file.as_ref().map(|file| file.to_string_lossy());
        let destroyed = self.context.keys.destroyed();
        Ok(document(200, &json!({ "keys": keys, "destroyed": destroyed, "file": file })))
    }

    /// Takes a rewrap one step further.
    pub(super) fn rewrap_of_api(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        body: &[u8],
    ) -> Result<Response, ApiError> {
        let RewrapAsked { begin } = if body.is_empty() { RewrapAsked::default() } else { parsed(body)? };
        let figures = self.rewrap_keys(identity, request, begin)?;
        Ok(document(
            200,
            &json!({
                "more": figures.more,
                "seen": figures.seen,
                "of": self.context.health().versions,
                "rewrapped": figures.rewrapped,
                "unavailable": figures.unavailable,
            }),
        ))
    }

    /// Takes a key out of the ring in effect.
    pub(super) fn destroy_key_of_api(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        id: &str,
    ) -> Result<Response, ApiError> {
        self.destroy_key(identity, request, id)?;
        Ok(super::done())
    }
}

fn key_document(key: &KeyFigures) -> Value {
    json!({
        "id": key.id,
        "name": key.name,
        "state": key.state.as_str(),
        "created": key.created.map(Timestamp::to_iso8601),
        "uses": key.uses,
    })
}
