//! The roles of the users file: rights that users assume for a while.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use toml::value::Datetime;

use crate::auth::bucket_policy::TrustConditions;
use crate::auth::issuers::{TokenTrust, TrustTable};
use crate::auth::managed_policies::{InlineTable, ManagedPolicies};
use crate::auth::session::arn::NameKind;
use crate::auth::user::User;
use crate::auth::users_fields::{AllowTable, FieldProblem, checked, instant, is_name_char};
use crate::base::limits::{ROLE_SESSION_MAX_SECS, SESSION_MIN_SECS};

/// The longest session of a role that sets no other: an hour (STS API reference, AssumeRole).
pub const ROLE_DURATION_DEFAULT_SECS: u64 = 60 * 60;
/// Stands for all users and roles among those who may assume a role.
pub const ROLE_OF_EVERYBODY: &str = "*";

/// A table `[[role]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RoleTable {
    pub(super) name: Spanned<String>,
    assumed_by: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    web_identity: Vec<TrustTable>,
    external_id: Option<Spanned<String>>,
    max_duration: Option<Spanned<String>>,
    sessions_after: Option<Spanned<Datetime>>,
    #[serde(default)]
    allow: Vec<AllowTable>,
    policy: Option<Spanned<toml::Value>>,
    #[serde(default)]
    inline_policies: InlineTable,
    created: Option<Spanned<Datetime>>,
}

/// A role.
#[derive(Debug)]
pub(super) struct AssumableRole {
    /// Its rights and its name, as of a user.
    pub(super) user: Arc<User>,
    /// The names of the users and roles that may assume it.
    assumed_by: Vec<String>,
    /// The tokens of providers that assume it.
    trusts: Vec<TokenTrust>,
    /// What a request must state, so that nobody has a program that may assume the role do so for
    /// him (IAM user guide, "The confused deputy problem").
    pub(super) external_id: Option<String>,
    /// Its longest session.
    pub(super) longest: Duration,
}

impl AssumableRole {
    /// Reads a table.
    pub(super) fn of(table: &RoleTable, policies: &ManagedPolicies) -> Result<Self, FieldProblem> {
        let name = checked(&table.name, "name", is_name_char)?;
        let mut grants = Vec::new();
        for allow in &table.allow {
            grants.push(allow.grant()?);
        }
        let sessions_after = table.sessions_after.as_ref().map(instant).transpose()?;
        let mut own = policies.of_field(table.policy.as_ref())?;
        own.extend(ManagedPolicies::of_inline(&table.inline_policies)?);
        let created = table.created.as_ref().map(instant).transpose()?;
        let user = User::of_kind(NameKind::Role, name, grants, sessions_after);
        let user = user.created_at(created).with_policies(own);
        if table.assumed_by.is_none() && table.web_identity.is_empty() {
            let problem =
                format!("nobody assumes the role `{name}`: it needs `assumed_by` or `web_identity`");
            return Err((table.name.span(), problem));
        }
        let default = Duration::from_secs(ROLE_DURATION_DEFAULT_SECS);
        let assumed_by = table.assumed_by.iter().flatten().map(|name| name.as_ref().clone()).collect();
        let external_id =
            table.external_id.as_ref().map(|id| checked(id, "external_id", |c| !c.is_control()));
        Ok(Self {
            user: Arc::new(user),
            assumed_by,
            trusts: table.web_identity.iter().map(TokenTrust::of).collect::<Result<_, _>>()?,
            external_id: external_id.transpose()?.map(str::to_owned),
            longest: table.max_duration.as_ref().map_or(Ok(default), duration)?,
        })
    }

    /// Whether the user or role of that name may assume it.
    pub(super) fn is_assumed_by(&self, name: &str) -> bool {
        self.assumed_by.iter().any(|known| known == name || known == ROLE_OF_EVERYBODY)
    }

    /// The conditions on tokens of that issuer.
    pub(super) fn trusts(&self, issuer: &str) -> impl Iterator<Item = &TrustConditions> {
        self.trusts.iter().filter(move |trust| trust.issuer == issuer).map(|trust| &trust.conditions)
    }
}

impl RoleTable {
    /// The first of those who may assume it whom `is_known` does not know.
    pub(super) fn unknown(&self, is_known: impl Fn(&str) -> bool) -> Option<FieldProblem> {
        let mut names = self.assumed_by.iter().flatten();
        let name = names.find(|name| name.as_ref() != ROLE_OF_EVERYBODY && !is_known(name.as_ref()))?;
        Some((name.span(), format!("there is no user and no role `{}`", name.as_ref())))
    }

    /// The first of the issuers that it trusts whom `is_known` does not know. A role that IAM's calls
    /// made may outlive the provider that it trusts (IAM API reference,
    /// DeleteOpenIDConnectProvider); in one that people wrote it is a mistake.
    pub(super) fn unknown_issuer(&self, is_known: impl Fn(&str) -> bool) -> Option<FieldProblem> {
        if self.created.is_some() {
            return None;
        }
        let trust = self.web_identity.iter().find(|trust| !is_known(trust.issuer.as_ref()))?;
        Some((trust.issuer.span(), format!("there is no issuer `{}`", trust.issuer.as_ref())))
    }
}

fn duration(text: &Spanned<String>) -> Result<Duration, FieldProblem> {
    let allowed = Duration::from_secs(SESSION_MIN_SECS)..=Duration::from_secs(ROLE_SESSION_MAX_SECS);
    let duration = humantime::parse_duration(text.as_ref()).ok().filter(|it| allowed.contains(it));
    duration.ok_or_else(|| (text.span(), "`max_duration` is a time from `15m` to `12h`".to_owned()))
}
