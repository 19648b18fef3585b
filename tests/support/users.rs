//! Users files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A users file that allows all actions without a signature.
pub(crate) const OPEN_TO_ALL: &str =
    "[[user]]\nname = \"anonymous\"\nallow = [{ actions = [\"*\"], resources = [\"*\"] }]\n";

/// The access key that [`user`] gives a user.
pub(crate) fn access_key(name: &str) -> String {
    format!("AK-{name}")
}

/// The secret key that [`user`] gives a user.
pub(crate) fn secret_key(name: &str) -> String {
    format!("secret of {name}")
}

/// A user with keys, unless it is `anonymous`, and one table of permissions.
pub(crate) fn user(name: &str, actions: &[&str], resources: &[&str]) -> String {
    let keys = match name {
        "anonymous" => String::new(),
        _ => format!("access_key = {:?}\nsecret_key = {:?}\n", access_key(name), secret_key(name)),
    };
    format!("[[user]]\nname = \"{name}\"\n{keys}{}", allow(actions, resources))
}

/// A further table of permissions for the user before it.
pub(crate) fn allow(actions: &[&str], resources: &[&str]) -> String {
    format!("[[user.allow]]\nactions = {actions:?}\nresources = {resources:?}\n\n")
}

/// Writes `users.toml`, readable by its owner alone.
pub(crate) fn write_users(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("users.toml");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}
