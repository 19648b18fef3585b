//! What a session came of: whoever asked for it, and the sessions through which it was asked for. A
//! session counts for as long as all of them do.

use serde::{Deserialize, Serialize};

use super::SessionKind;
use crate::base::Timestamp;

/// A session, as those remember it that were handed out to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::auth) struct SourceSession {
    #[serde(rename = "k")]
    pub(in crate::auth) kind: SessionKind,
    /// The name of the role or user.
    #[serde(rename = "p")]
    pub(in crate::auth) principal: String,
    /// In milliseconds since 1970.
    #[serde(rename = "i")]
    pub(super) issued: u64,
    /// The id of the key that sealed its token.
    #[serde(rename = "s")]
    pub(in crate::auth) sealed_by: String,
    /// The issuer of the token of a provider by which the role was assumed.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub(in crate::auth) issuer: Option<String>,
}

impl SourceSession {
    pub(in crate::auth) fn issued(&self) -> Timestamp {
        Timestamp::from_millis(self.issued)
    }
}

/// What a session came of. It is empty where a provider vouched for whoever asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::auth) struct SessionOrigin {
    /// The access key of the user who signed the first call.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub(in crate::auth) access_key: Option<String>,
    /// The sessions through which it was asked for, in their order.
    #[serde(rename = "s", default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::auth) sessions: Vec<SourceSession>,
}

impl SessionOrigin {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The origin of what `session`, which has this one, is handed.
    pub(in crate::auth) fn followed_by(mut self, session: SourceSession) -> Self {
        self.sessions.push(session);
        self
    }
}
