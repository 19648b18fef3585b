//! The `user` commands at a running server.

use serde_json::{Value, json};
use siltstone::auth::{KeyPair, Secret};
use siltstone::client::encoded;
use siltstone::service::{UserChange, UserEntry};

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

/// Makes a change, which is durable and in effect on return. Returns new keys.
///
/// # Errors
/// A message for the operator.
pub(crate) fn change(mut server: ApiClient, change: &UserChange) -> Result<Option<KeyPair>, CliError> {
    let user = format!("users/{}", encoded(change.name()));
    let body = |value: Value| value.to_string().into_bytes();
    let made = match change {
        UserChange::Create { name, allow } => {
            server.ask_document("POST", "users", &body(json!({ "name": name, "allow": allow })))?
        }
        UserChange::RotateKeys { .. } => server.ask_document("POST", &format!("{user}/keys"), &[])?,
        UserChange::SetGrants { allow, .. } => {
            server.ask("PUT", &format!("{user}/grants"), &body(json!({ "allow": allow })))?;
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
    };
    let key = |name: &str| made[name].as_str().map(str::to_owned);
    let keys = key("access_key").zip(key("secret_key"));
    Ok(keys.map(|(access_key, secret)| KeyPair { access_key, secret_key: Secret::new(secret) }))
}
