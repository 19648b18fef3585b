//! What a change of the users file presumes: that its subject is there, or that it is not, and that
//! nothing else needs what is to go.

use siltstone::auth::{Users, provider_name};
use siltstone::base::limits::{ISSUER_AUDIENCES_MAX, ISSUERS_MAX, USER_KEYS_MAX};
use siltstone::service::{
    IamChange, PolicyChange, PolicyHolder, ProviderEntry, ProviderTrust, RoleEntry, RoleTrust, UserEntry,
    UserError,
};

use super::iam_text;
use super::issuers_text;
use super::policies_text;
use super::users_text;

/// Checks what a change of policies and groups presumes of the file `text`.
///
/// # Errors
/// As [`UserError`].
pub(crate) fn check_policies(text: &str, change: &PolicyChange) -> Result<(), UserError> {
    let name = change.subject();
    match change {
        PolicyChange::PutPolicy { .. } => Ok(()),
        PolicyChange::CreateGroup { .. } => check_new(text, name),
        PolicyChange::DeletePolicy { .. } => {
            check_policy(text, name, unknown)?;
            policies_text::check_unused(text, name).map_err(UserError::InUse)
        }
        PolicyChange::DeleteGroup { .. } => group_policies(text, name).map(drop),
        PolicyChange::AddMember { user, .. } => {
            group_policies(text, name)?;
            let is_known = user == Users::ADMINISTRATOR || find_user(text, user).is_ok();
            if is_known { Ok(()) } else { Err(missing("user", user)) }
        }
        PolicyChange::RemoveMember { user, .. } => {
            let group = policies_text::groups(text).map_err(UserError::Failed)?;
            let group = group.into_iter().find(|group| group.name == name);
            let members = group.ok_or_else(|| unknown("group", name))?.members;
            if members.contains(user) { Ok(()) } else { Err(missing("member", user)) }
        }
        PolicyChange::Attach { to, policy } => {
            policies_of(text, to)?;
            check_policy(text, policy, missing)
        }
        PolicyChange::Detach { from, policy } => match policies_of(text, from)?.contains(policy) {
            true => Ok(()),
            false => {
                let kind = policies_text::kind(from);
                let told = format!("the {kind} `{name}` has no `{policy}`");
                Err(UserError::Missing(told))
            }
        },
    }
}

/// Checks what a change of IAM presumes of the file `text`.
///
/// # Errors
/// As [`UserError`].
pub(crate) fn check_iam(text: &str, change: &IamChange) -> Result<(), UserError> {
    match change {
        IamChange::CreateUser { name } | IamChange::CreateGroup { name } => check_new(text, name),
        IamChange::CreateRole { name, trust, .. } => {
            check_new(text, name)?;
            check_trust(text, trust)
        }
        IamChange::DeleteUser { name } => check_bare_user(&find_user(text, name)?),
        IamChange::AddKey { user } => match find_user(text, user)?.access_keys.len() {
            0..USER_KEYS_MAX => Ok(()),
            _ => {
                Err(UserError::TooMany(format!("the user `{user}` has {USER_KEYS_MAX} access keys already")))
            }
        },
        IamChange::SetKeyStatus { user, access_key, .. } | IamChange::DeleteKey { user, access_key } => {
            match find_user(text, user)?.access_keys.contains(access_key) {
                true => Ok(()),
                false => Err(missing("access key", access_key)),
            }
        }
        IamChange::DeleteGroup { name } => check_bare_group(text, name),
        IamChange::CreatePolicy { name, .. } => {
            let policies = policies_text::policies(text).map_err(UserError::Failed)?;
            match policies.into_iter().find(|policy| policy.name.eq_ignore_ascii_case(name)) {
                Some(policy) => Err(UserError::Taken { kind: "policy", name: policy.name }),
                None => Ok(()),
            }
        }
        IamChange::ReplacePolicy { name, .. } => check_policy(text, name, unknown),
        IamChange::PutInline { of, .. } => policies_of(text, of).map(drop),
        IamChange::DeleteInline { of, policy } => match inline_of(text, of)?.contains(policy) {
            true => Ok(()),
            false => Err(missing("policy", policy)),
        },
        IamChange::SetTrust { role, trust } => {
            find_role(text, role)?;
            check_trust(text, trust)
        }
        IamChange::SetMaxDuration { role, .. } => find_role(text, role).map(drop),
        IamChange::DeleteRole { name } => {
            let role = find_role(text, name)?;
            check_nothing_left("role", name, &role.policies, role.inline_policies.keys())
        }
        IamChange::CreateProvider { url, .. } => check_new_provider(text, url),
        IamChange::DeleteProvider { provider } => check_untrusted(text, &find_provider(text, provider)?),
        IamChange::AddAudience { provider, audience } => {
            let known = find_provider(text, provider)?.audiences;
            match known.contains(audience) || known.len() < ISSUER_AUDIENCES_MAX {
                true => Ok(()),
                false => Err(UserError::TooMany(format!(
                    "the provider `{provider}` has {ISSUER_AUDIENCES_MAX} clients already"
                ))),
            }
        }
        IamChange::RemoveAudience { provider, .. } | IamChange::SetThumbprints { provider, .. } => {
            find_provider(text, provider).map(drop)
        }
    }
}

/// A provider by its URL without the scheme.
fn find_provider(text: &str, name: &str) -> Result<ProviderEntry, UserError> {
    let providers = issuers_text::providers(text).map_err(UserError::Failed)?;
    let found = providers.into_iter().find(|provider| provider_name(&provider.url) == name);
    found.ok_or_else(|| unknown("provider", name))
}

fn check_new_provider(text: &str, url: &str) -> Result<(), UserError> {
    let providers = issuers_text::providers(text).map_err(UserError::Failed)?;
    let name = provider_name(url);
    if providers.iter().any(|known| provider_name(&known.url) == name) {
        return Err(UserError::Taken { kind: "provider", name: name.to_owned() });
    }
    match providers.len() < ISSUERS_MAX {
        true => Ok(()),
        false => Err(UserError::TooMany(format!("there are {ISSUERS_MAX} providers already"))),
    }
}

/// Checks that no role that people wrote trusts a provider that is to go: the file would be refused.
fn check_untrusted(text: &str, provider: &ProviderEntry) -> Result<(), UserError> {
    let roles = iam_text::roles(text).map_err(UserError::Failed)?;
    let trusting = roles.into_iter().find(|role| {
        let mut issuers = role.web_identities.iter().map(|trust| &trust.issuer);
        role.created.is_none() && issuers.any(|issuer| *issuer == provider.url)
    });
    match trusting {
        None => Ok(()),
        Some(role) => Err(UserError::InUse(format!("the role `{}` trusts its tokens", role.name))),
    }
}

fn unknown(kind: &'static str, name: &str) -> UserError {
    UserError::Unknown { kind, name: name.to_owned() }
}

fn missing(kind: &'static str, name: &str) -> UserError {
    UserError::Missing(format!("there is no {kind} `{name}`"))
}

/// Checks that no user, group or role has the name. IAM's names do not differ by upper and lower
/// case alone.
pub(crate) fn check_new(text: &str, name: &str) -> Result<(), UserError> {
    let users = users_text::list(text).map_err(UserError::Failed)?.into_iter().map(|user| user.name);
    let groups = policies_text::groups(text).map_err(UserError::Failed)?.into_iter().map(|it| it.name);
    let roles = iam_text::roles(text).map_err(UserError::Failed)?.into_iter().map(|role| role.name);
    let named = users.map(|name| ("user", name)).chain(groups.map(|name| ("group", name)));
    let mut named = named.chain(roles.map(|name| ("role", name)));
    match named.find(|(_, taken)| taken.eq_ignore_ascii_case(name)) {
        Some((kind, name)) => Err(UserError::Taken { kind, name }),
        None => Ok(()),
    }
}

fn find_user(text: &str, name: &str) -> Result<UserEntry, UserError> {
    let users = users_text::entries(text).map_err(UserError::Failed)?;
    users.into_iter().find(|user| user.name == name).ok_or_else(|| unknown("user", name))
}

fn find_role(text: &str, name: &str) -> Result<RoleEntry, UserError> {
    let roles = iam_text::roles(text).map_err(UserError::Failed)?;
    roles.into_iter().find(|role| role.name == name).ok_or_else(|| unknown("role", name))
}

/// The policies of a group: their names, and documents.
fn group_policies(text: &str, name: &str) -> Result<Vec<String>, UserError> {
    let groups = policies_text::groups(text).map_err(UserError::Failed)?;
    let group = groups.into_iter().find(|group| group.name == name);
    group.map(|group| group.policies).ok_or_else(|| unknown("group", name))
}

/// The policies of a user, group or role, likewise.
fn policies_of(text: &str, holder: &PolicyHolder) -> Result<Vec<String>, UserError> {
    match holder {
        PolicyHolder::User(name) => find_user(text, name).map(|user| user.policies),
        PolicyHolder::Group(name) => group_policies(text, name),
        PolicyHolder::Role(name) => find_role(text, name).map(|role| role.policies),
    }
}

/// The names of the policies that belong to a user, group or role alone.
fn inline_of(text: &str, holder: &PolicyHolder) -> Result<Vec<String>, UserError> {
    let policies = match holder {
        PolicyHolder::User(name) => find_user(text, name)?.inline_policies,
        PolicyHolder::Role(name) => find_role(text, name)?.inline_policies,
        PolicyHolder::Group(name) => {
            let groups = policies_text::groups(text).map_err(UserError::Failed)?;
            let group = groups.into_iter().find(|group| group.name == *name);
            group.ok_or_else(|| unknown("group", name))?.inline_policies
        }
    };
    Ok(policies.into_keys().collect())
}

fn check_policy(
    text: &str,
    name: &str,
    refused: impl FnOnce(&'static str, &str) -> UserError,
) -> Result<(), UserError> {
    let policies = policies_text::policies(text).map_err(UserError::Failed)?;
    match policies.iter().any(|policy| policy.name == name) {
        true => Ok(()),
        false => Err(refused("policy", name)),
    }
}

fn check_bare_user(user: &UserEntry) -> Result<(), UserError> {
    let name = &user.name;
    let in_use = |what: String| Err(UserError::InUse(format!("the user `{name}` still has {what}")));
    if !user.access_keys.is_empty() {
        return in_use(format!("access keys: {}", user.access_keys.join(", ")));
    }
    if !user.groups.is_empty() {
        return in_use(format!("groups: {}", user.groups.join(", ")));
    }
    if !user.service_accounts.is_empty() {
        let accounts: Vec<_> = user.service_accounts.iter().map(|account| &*account.name).collect();
        return in_use(format!("service accounts: {}", accounts.join(", ")));
    }
    check_nothing_left("user", name, &user.policies, user.inline_policies.keys())
}

fn check_bare_group(text: &str, name: &str) -> Result<(), UserError> {
    let groups = policies_text::groups(text).map_err(UserError::Failed)?;
    let group = groups.into_iter().find(|group| group.name == name);
    let group = group.ok_or_else(|| unknown("group", name))?;
    if !group.members.is_empty() {
        let members = group.members.join(", ");
        return Err(UserError::InUse(format!("the group `{name}` still has members: {members}")));
    }
    check_nothing_left("group", name, &group.policies, group.inline_policies.keys())
}

/// Checks that nobody would lose a policy. Documents without a name go with their table: no call of
/// IAM takes them away.
fn check_nothing_left<'n>(
    kind: &str,
    name: &str,
    attached: &'n [String],
    inline: impl Iterator<Item = &'n String>,
) -> Result<(), UserError> {
    let attached = attached.iter().filter(|policy| !policy.trim_start().starts_with('{'));
    let left: Vec<_> = attached.chain(inline).map(String::as_str).collect();
    match left.is_empty() {
        true => Ok(()),
        false => {
            Err(UserError::InUse(format!("the {kind} `{name}` still has policies: {}", left.join(", "))))
        }
    }
}

/// Checks that there are the providers that a role is to trust.
fn check_trust(text: &str, trust: &RoleTrust) -> Result<(), UserError> {
    for ProviderTrust { provider, .. } in &trust.providers {
        find_provider(text, provider).map_err(|error| match error {
            // A fault of the document, and not of what the call is about.
            UserError::Unknown { .. } => UserError::Invalid(error.to_string()),
            other => other,
        })?;
    }
    Ok(())
}
