//! The keys of an operator, in the form in which MinIO takes them. They come from the environment or
//! from files, and never from the command line.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::format::keys::{FirstUser, OperatorKeys, SecretKey};

/// A key in base64.
const SECRET: &str = "MINIO_KMS_SECRET_KEY";
/// Keys in hexadecimal, of servers before 2021.
const MASTERS: [&str; 2] = ["MINIO_KMS_MASTER_KEY", "MINIO_SSE_MASTER_KEY"];
/// The keys of the first user, their former names, and those before the last change of both.
const FIRST_USERS: [(&str, &str); 4] = [
    ("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"),
    ("MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"),
    ("MINIO_ROOT_USER_OLD", "MINIO_ROOT_PASSWORD_OLD"),
    ("MINIO_ACCESS_KEY_OLD", "MINIO_SECRET_KEY_OLD"),
];
/// The end of the names of variables that name a file with the value.
const FILE: &str = "_FILE";

/// Where the keys are.
pub(crate) struct KeySources<'s> {
    /// The environment.
    pub(crate) variable: &'s dyn Fn(&str) -> Option<String>,
    /// A file with lines `NAME=VALUE`, as services have it.
    pub(crate) environment: Option<&'s Path>,
    /// A file with lines of the beginning of bucket and key, and a key in base64.
    pub(crate) customer: Option<&'s Path>,
}

impl KeySources<'_> {
    /// Reads the keys.
    ///
    /// # Errors
    /// A message without any key.
    pub(crate) fn read(&self) -> Result<OperatorKeys, String> {
        let mut keys = OperatorKeys::default();
        let settings = self.settings()?;
        for Setting { name, value } in &settings {
            add(&mut keys, name, value)?;
        }
        let mut names = FIRST_USERS.iter().flat_map(|(user, _)| values_of(&settings, user));
        keys.root_user = names.next().map(str::to_owned);
        for (user, password) in FIRST_USERS {
            for access_key in values_of(&settings, user) {
                for secret_key in values_of(&settings, password) {
                    let access_key = access_key.to_owned();
                    keys.first_users.push(FirstUser { access_key, secret_key: secret_key.to_owned() });
                }
            }
        }
        if let Some(path) = self.customer {
            let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            for (at, line) in lines {
                let pair = line.trim().rsplit_once(char::is_whitespace);
                let pair = pair.and_then(|(prefix, key)| Some((prefix.trim().to_owned(), decoded(key)?)));
                // The message does not quote the line, which may have a key.
                keys.customer.push(pair.ok_or_else(|| {
                    format!("{}, line {}: it is no BUCKET/PREFIX and key in base64", path.display(), at + 1)
                })?);
            }
        }
        Ok(keys)
    }

    /// What the variables say that this program knows, and the lines of the file.
    fn settings(&self) -> Result<Vec<Setting>, String> {
        let of_first_users = FIRST_USERS.into_iter().flat_map(|(user, password)| [user, password]);
        let mut settings = Vec::new();
        for name in [SECRET].into_iter().chain(MASTERS).chain(of_first_users) {
            if let Some(value) = (self.variable)(name) {
                settings.push(Setting { name: name.to_owned(), value });
            }
            if let Some(path) = (self.variable)(&format!("{name}{FILE}")) {
                let value =
                    fs::read_to_string(&path).map_err(|error| format!("{name}{FILE}: {path}: {error}"))?;
                settings.push(Setting { name: name.to_owned(), value: value.trim().to_owned() });
            }
        }
        if let Some(path) = self.environment {
            let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            for line in text.lines() {
                let line = line.trim().trim_start_matches("export ");
                let Some((name, value)) = line.split_once('=') else { continue };
                let value = value.trim().trim_matches(['"', '\'']).to_owned();
                settings.push(Setting { name: name.trim().to_owned(), value });
            }
        }
        Ok(settings)
    }
}

/// A variable of MinIO with its value.
struct Setting {
    name: String,
    value: String,
}

fn values_of<'s>(settings: &'s [Setting], name: &'s str) -> impl Iterator<Item = &'s str> {
    settings.iter().filter(move |setting| setting.name == name).map(|setting| &*setting.value)
}

fn decoded(key: &str) -> Option<SecretKey> {
    BASE64.decode(key.trim()).ok()?.try_into().ok()
}

/// Adds the key of a variable; others are of no concern.
fn add(keys: &mut OperatorKeys, name: &str, value: &str) -> Result<(), String> {
    let is_secret = name == SECRET;
    if !is_secret && !MASTERS.contains(&name) {
        return Ok(());
    }
    // Names of keys have no colon.
    let (id, key) = value.trim().split_once(':').ok_or_else(|| format!("{name}: it is no ID:KEY"))?;
    let key = if is_secret { decoded(key) } else { unhex(key.trim()) };
    let key = key.ok_or_else(|| format!("{name}: the key {id:?} does not have 32 bytes"))?;
    let list = if is_secret { &mut keys.secret } else { &mut keys.master };
    list.push((id.to_owned(), key));
    Ok(())
}

fn unhex(text: &str) -> Option<SecretKey> {
    let mut key = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_the_environment_and_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let environment = dir.path().join("minio");
        let customer = dir.path().join("customer");
        let hex = "6368616e676520746869732070617373776f726420746f206120736563726574";
        let lines = "MINIO_OPTS=\"-x\"\nMINIO_ROOT_USER=root\nMINIO_ROOT_PASSWORD=\"its secret\"\n";
        fs::write(&environment, format!("{lines}export MINIO_KMS_MASTER_KEY='old:{hex}'\n")).unwrap();
        let key = BASE64.encode([7; 32]);
        fs::write(&customer, format!("films/a b {key}\n\n")).unwrap();
        let variable = |name: &str| (name == SECRET).then(|| format!("new:{key}"));
        let sources =
            KeySources { variable: &variable, environment: Some(&environment), customer: Some(&customer) };
        let keys = sources.read().unwrap();
        assert_eq!(keys.secret, [("new".to_owned(), [7; 32])]);
        assert_eq!(keys.master, [("old".to_owned(), *b"change this password to a secret")]);
        assert_eq!(keys.customer, [("films/a b".to_owned(), [7; 32])]);
        assert_eq!(keys.root_user.as_deref(), Some("root"));
        assert_eq!(keys.first_users[0].secret_key, "its secret");
    }

    #[test]
    fn the_first_user_is_known_by_its_name_alone() {
        let variable = |name: &str| (name == FIRST_USERS[0].0).then(|| "root".to_owned());
        let keys = KeySources { variable: &variable, environment: None, customer: None }.read().unwrap();
        assert_eq!((keys.root_user.as_deref(), keys.first_users.len()), (Some("root"), 0));
    }

    #[test]
    fn a_key_that_is_none_is_named_and_not_shown() {
        for (name, value) in [(SECRET, "id"), (SECRET, "id:c2VjcmV0"), (MASTERS[0], "id:zz")] {
            let variable = |asked: &str| (asked == name).then(|| value.to_owned());
            let told = KeySources { variable: &variable, environment: None, customer: None }.read();
            let told = told.err().unwrap();
            assert!(told.contains(name) && !told.contains("c2VjcmV0"), "{told}");
        }
    }
}
