//! Edits of the service accounts in the text of a users file.

use std::collections::HashMap;

use serde::Deserialize;
use siltstone::auth::KeyPair;
use siltstone::base::Timestamp;
use siltstone::service::{NewServiceAccount, ServiceAccountEntry};
use toml_edit::{Datetime, Table};

use super::policies_text;
use super::tables_text::{datetime, edit_tables, remove_table, shown_time};

const KIND: &str = "service_account";

#[derive(Deserialize)]
struct ListedAccount {
    name: String,
    user: String,
    access_key: String,
    expires: Option<Datetime>,
    created: Option<Datetime>,
    policy: Option<toml::Value>,
}

#[derive(Deserialize)]
struct AccountsToml {
    #[serde(default)]
    service_account: Vec<ListedAccount>,
}

fn parsed(text: &str) -> Result<Vec<ListedAccount>, String> {
    toml::from_str(text).map(|file: AccountsToml| file.service_account).map_err(|e| e.message().to_owned())
}

/// The service accounts of a user, in the order of the file.
///
/// # Errors
/// The text is not a valid users file.
pub(crate) fn of_user(text: &str, user: &str) -> Result<Vec<ServiceAccountEntry>, String> {
    let of_user = parsed(text)?.into_iter().filter(|account| account.user == user);
    Ok(of_user.map(entry).collect())
}

/// The service accounts of all users, by user; those of each in the order of the file.
///
/// # Errors
/// The text is not a valid users file.
pub(super) fn by_user(text: &str) -> Result<HashMap<String, Vec<ServiceAccountEntry>>, String> {
    let mut by_user: HashMap<String, Vec<ServiceAccountEntry>> = HashMap::new();
    for account in parsed(text)? {
        by_user.entry(account.user.clone()).or_default().push(entry(account));
    }
    Ok(by_user)
}

fn entry(account: ListedAccount) -> ServiceAccountEntry {
    ServiceAccountEntry {
        policies: account.policy.as_ref().map(|policy| policies_text::texts(Some(policy))),
        name: account.name,
        access_key: account.access_key,
        expires: account.expires.as_ref().map(shown_time),
        created: account.created.as_ref().map(shown_time),
    }
}

/// Adds an account with these keys at the end.
///
/// # Errors
/// The name is taken, the time is none or over, or the file has a form that cannot be edited.
pub(super) fn add(
    text: &str,
    user: &str,
    account: &NewServiceAccount,
    keys: &KeyPair,
    now: Timestamp,
) -> Result<String, String> {
    let NewServiceAccount { name, policy, expires } = account;
    if parsed(text)?.iter().any(|known| known.name == *name) {
        return Err(format!("there is a service account `{name}` already"));
    }
    let expires = expires.as_deref().map(|time| end(time, now)).transpose()?;
    let created = datetime(now)?;
    edit_tables(text, KIND, |accounts| {
        let mut table = Table::new();
        table["name"] = toml_edit::value(name);
        table["user"] = toml_edit::value(user);
        table["access_key"] = toml_edit::value(&keys.access_key);
        table["secret_key"] = toml_edit::value(keys.secret_key.reveal());
        table["created"] = toml_edit::value(created);
        if let Some(expires) = expires {
            table["expires"] = toml_edit::value(expires);
        }
        if let Some(policy) = policy {
            let is_document = policy.trim_start().starts_with('{');
            table["policy"] = match is_document {
                true => toml_edit::value(policy),
                false => toml_edit::value([policy].into_iter().collect::<toml_edit::Array>()),
            };
        }
        accounts.push(table);
        Ok(String::new())
    })
}

fn end(text: &str, now: Timestamp) -> Result<Datetime, String> {
    let time = Timestamp::parse_iso8601(text);
    let time = time.ok_or_else(|| format!("`{text}` is not a time such as 2026-12-31T00:00:00Z"))?;
    if time <= now {
        return Err(format!("`{text}` is over"));
    }
    time.to_iso8601().parse().map_err(|e: toml_edit::DatetimeParseError| e.to_string())
}

/// Removes an account of a user.
///
/// # Errors
/// The user has no such account, or the file has a form that cannot be edited.
pub(super) fn remove(text: &str, user: &str, name: &str) -> Result<String, String> {
    match parsed(text)?.iter().any(|account| account.name == name && account.user == user) {
        true => remove_table(text, KIND, name),
        false => Err(format!("the user `{user}` has no service account `{name}`")),
    }
}

/// The text without the accounts of a user.
///
/// # Errors
/// The file has a form that cannot be edited.
pub(super) fn without_those_of(text: &str, user: &str) -> Result<String, String> {
    let mut text = text.to_owned();
    for account in of_user(&text, user)? {
        text = remove(&text, user, &account.name)?;
    }
    Ok(text)
}
