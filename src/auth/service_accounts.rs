//! Service accounts, by the users file: `[[service_account]]`. They are keys for programs, which
//! belong to a user and have its rights of the moment, cut by a policy of their own.

use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;
use toml::value::Datetime;

use crate::auth::managed_policies::ManagedPolicies;
use crate::auth::session::arn::service_account;
use crate::auth::session::origin::SessionOrigin;
use crate::auth::session::{SenderSession, SessionKind, SessionLimit};
use crate::auth::user::{Signer, User};
use crate::auth::users_fields::{FieldProblem, instant, pair};
use crate::base::Timestamp;

/// A table `[[service_account]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceAccountTable {
    pub(super) name: Spanned<String>,
    pub(super) user: Spanned<String>,
    access_key: Spanned<String>,
    /// Of any type, so that no message about a wrong type quotes the value.
    secret_key: Spanned<toml::Value>,
    expires: Option<Spanned<Datetime>>,
    created: Option<Spanned<Datetime>>,
    policy: Option<Spanned<toml::Value>>,
}

impl ServiceAccountTable {
    /// The keys of the account, as keys of a session that needs no token, and their place in the
    /// file.
    pub(super) fn signer(
        &self,
        user: &Arc<User>,
        policies: &ManagedPolicies,
    ) -> Result<(Range<usize>, Signer), FieldProblem> {
        let (at, keys) = pair(&self.access_key, &self.secret_key)?;
        let expires = self.expires.as_ref().map(instant).transpose()?;
        // For people alone.
        self.created.as_ref().map(instant).transpose()?;
        let limit = match &self.policy {
            // A list without policies allows nothing: it must not be no limit.
            Some(field) => SessionLimit::Policies(policies.of_field(Some(field))?),
            None => SessionLimit::None,
        };
        let origin_of_next =
            SessionOrigin { access_key: Some(keys.access_key.clone()), sessions: Vec::new() };
        let account = SenderSession {
            kind: SessionKind::ServiceAccount,
            arn: service_account(user.name(), self.name.as_ref()),
            facts: user.facts().clone(),
            limit,
            expires: expires.unwrap_or(Timestamp::from_millis(u64::MAX)),
            origin_of_next,
        };
        Ok((at, Signer::new(user, &keys.access_key, keys.secret_key).with_session(account)))
    }
}
