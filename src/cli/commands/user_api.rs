//! The `user` commands at a running server.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use siltstone::auth::{KeyPair, Secret};
use siltstone::client::encoded;
use siltstone::service::{PolicyChange, PolicyHolder, ServiceAccountEntry, UserChange, UserEntry};

use super::api_client::ApiClient;
use crate::cli::error::CliError;

/// The users in effect.
///
/// # Errors
/// A message for the operator.
pub(crate) fn list(mut server: ApiClient) -> Result<Vec<UserEntry>, CliError> {
    let users = server.ask_document("GET", "users", &[])?["users"].take();
    serde_json::from_value(users).map_err(|e| CliError::refused(format!("the answer lists no users: {e}")))
}

/// The policies or the groups in effect: what the API lists at `path`, by that name.
///
/// # Errors
/// A message for the operator.
pub(crate) fn list_of<T: DeserializeOwned>(mut server: ApiClient, path: &str) -> Result<Vec<T>, CliError> {
    let listed = server.ask_document("GET", path, &[])?[path].take();
    serde_json::from_value(listed).map_err(|e| CliError::refused(format!("the answer lists no {path}: {e}")))
}

/// The service accounts of a user.
///
/// # Errors
/// A message for the operator.
pub(crate) fn service_accounts(
    mut server: ApiClient,
    user: &str,
) -> Result<Vec<ServiceAccountEntry>, CliError> {
    let path = format!("users/{}/service-accounts", encoded(user));
    let listed = server.ask_document("GET", &path, &[])?["service_accounts"].take();
    serde_json::from_value(listed)
        .map_err(|e| CliError::refused(format!("the answer lists no service accounts: {e}")))
}

/// Makes a change, which is durable and in effect on return. Returns new keys.
///
/// # Errors
/// A message for the operator.
pub(crate) fn change(mut server: ApiClient, change: &UserChange) -> Result<Option<KeyPair>, CliError> {
    let user = format!("users/{}", encoded(change.name()));
    let made = match change {
        UserChange::Create { name, allow } => server.ask_document(
            "POST",
            "users",
            json!({ "name": name, "allow": allow }).to_string().as_bytes(),
        )?,
        UserChange::RotateKeys { .. } => server.ask_document("POST", &format!("{user}/keys"), &[])?,
        UserChange::SetGrants { allow, .. } => {
            server.ask("PUT", &format!("{user}/grants"), json!({ "allow": allow }).to_string().as_bytes())?;
            Value::Null
        }
        UserChange::RemovePreviousKeys { .. } => {
            server.ask("DELETE", &format!("{user}/keys/previous"), &[])?;
            Value::Null
        }
        UserChange::RevokeSessions { .. } => {
            server.ask("DELETE", &format!("{user}/sessions"), &[])?;
            Value::Null
        }
        UserChange::Delete { .. } => {
            server.ask("DELETE", &user, &[])?;
            Value::Null
        }
        UserChange::CreateServiceAccount { account, .. } => {
            let path = format!("{user}/service-accounts");
            server.ask_document("POST", &path, json!(account).to_string().as_bytes())?
        }
        UserChange::DeleteServiceAccount { account, .. } => {
            server.ask("DELETE", &format!("{user}/service-accounts/{}", encoded(account)), &[])?;
            Value::Null
        }
        UserChange::Policies(change) => {
            change_policies(&mut server, change)?;
            Value::Null
        }
        // Those are asked for by IAM's calls alone, which no command sends.
        UserChange::Iam(_) => return Err(CliError::refused("the API has no such change")),
    };
    let keys = made["access_key"].as_str().zip(made["secret_key"].as_str());
    Ok(keys.map(|(access_key, secret)| KeyPair {
        access_key: access_key.to_owned(),
        secret_key: Secret::new(secret),
    }))
}

fn change_policies(server: &mut ApiClient, change: &PolicyChange) -> Result<(), CliError> {
    match change {
        PolicyChange::PutPolicy { name, document } => {
            server.ask("PUT", &policy_path(name), document.as_bytes())
        }
        PolicyChange::DeletePolicy { name } => server.ask("DELETE", &policy_path(name), &[]),
        PolicyChange::CreateGroup { name } => server.ask("PUT", &group_path(name), &[]),
        PolicyChange::DeleteGroup { name } => server.ask("DELETE", &group_path(name), &[]),
        PolicyChange::AddMember { group, user } => server.ask("PUT", &member_path(group, user), &[]),
        PolicyChange::RemoveMember { group, user } => server.ask("DELETE", &member_path(group, user), &[]),
        PolicyChange::Attach { to, policy } => server.ask("PUT", &attachment_path(to, policy), &[]),
        PolicyChange::Detach { from, policy } => server.ask("DELETE", &attachment_path(from, policy), &[]),
    }
    .map(drop)
}

fn policy_path(name: &str) -> String {
    format!("policies/{}", encoded(name))
}

fn group_path(name: &str) -> String {
    format!("groups/{}", encoded(name))
}

fn member_path(group: &str, user: &str) -> String {
    format!("groups/{}/members/{}", encoded(group), encoded(user))
}

fn attachment_path(holder: &PolicyHolder, policy: &str) -> String {
    let kind = match holder {
        PolicyHolder::User(_) => "users",
        PolicyHolder::Group(_) => "groups",
        PolicyHolder::Role(_) => "roles",
    };
    format!("{kind}/{}/policies/{}", encoded(holder.name()), encoded(policy))
}
