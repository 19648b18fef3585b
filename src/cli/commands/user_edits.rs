//! The `user` commands on the users file, without a server.

use std::path::Path;

use siltstone::auth::KeyPair;
use siltstone::base::{Clock as _, OsEntropy, SystemClock};
use siltstone::service::{AuditLog as _, GrantEntry, UserChange, UserEntry};

use crate::cli::error::CliError;
use crate::cli::logs::audit_log::AuditLogFile;
use crate::cli::users::user_changes::ChangeOrigin;
use crate::cli::users::users_file::UsersFile;
use crate::cli::users::users_text;

/// The users of the file.
///
/// # Errors
/// A message for the operator.
pub(crate) fn list(file: &UsersFile) -> Result<Vec<UserEntry>, CliError> {
    file.text().and_then(|text| users_text::entries(&text)).map_err(CliError::refused)
}

/// Makes a change and records it in the audit log at `log`. Durable on return. Returns new keys.
///
/// # Errors
/// A message for the operator; the file is unchanged, unless the message says otherwise.
pub(crate) fn change(
    change: &UserChange,
    forced: bool,
    file: &UsersFile,
    log: Option<&Path>,
) -> Result<Option<KeyPair>, CliError> {
    let log = log.map(AuditLogFile::open).transpose().map_err(CliError::refused)?;
    let before = file.list();
    let done = edit(change, forced, file);
    let Some(log) = log else { return done.map_err(CliError::refused) };
    let uid = format!("uid {}", rustix::process::getuid().as_raw());
    let origin = ChangeOrigin { user: Some(&uid), peer: "command", ..ChangeOrigin::SIGNAL };
    match &done {
        Ok(_) => file.list().record_changes(&before, &log, origin),
        Err(_) => origin.record_refused(change.audited_as(), Some(change.name()), &log),
    }
    if done.is_ok() && !log.is_writable() {
        return Err(CliError::refused("the users file was changed, but the audit log cannot be written"));
    }
    done.map_err(CliError::refused)
}

fn edited(text: &str, change: &UserChange, forced: bool, keys: Option<&KeyPair>) -> Result<String, String> {
    let edited = users_text::changed(text, change, keys, SystemClock.now())?;
    if let UserChange::Delete { name } = change
        && !forced
    {
        check_administrators(name, text, &edited)?;
    }
    Ok(edited)
}

fn edit(change: &UserChange, forced: bool, file: &UsersFile) -> Result<Option<KeyPair>, String> {
    let keys = change.makes_keys().then(|| KeyPair::generate(&OsEntropy));
    let is_first = !file.path().exists();
    match change {
        UserChange::Create { allow, .. } => {
            file.edit_or_make(|text| edited(text, change, forced, keys.as_ref()))?;
            if is_first && !allow.iter().any(GrantEntry::is_everything) {
                eprintln!(
                    "the file is new and has no administrator, and the server creates none in it: siltstone user add NAME --admin"
                );
            }
        }
        _ => file.edit(|text| edited(text, change, forced, keys.as_ref()))?,
    }
    Ok(keys)
}

/// Checks that an administrator is left, if there was one.
fn check_administrators(name: &str, before: &str, after: &str) -> Result<(), String> {
    match users_text::has_administrator(before) && !users_text::has_administrator(after) {
        false => Ok(()),
        true => Err(format!("`{name}` is the last administrator; to remove it anyway, use --force")),
    }
}
