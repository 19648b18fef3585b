//! The administrator's keys from the environment, or from files that it names.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use siltstone::auth::{KeyPair, Secret, Users};

use super::environment::Environment;
use super::notes::Notes;
use super::secret_files::{SECRETS_DIR, warn_of_world};

/// The variables of the access key and of the secret key: ours, then other servers', in
/// order of precedence. With `_FILE` appended they name files that hold the keys.
const VARIABLES: [[&str; 2]; 4] = [
    ["SILTSTONE_ACCESS_KEY", "SILTSTONE_SECRET_KEY"],
    ["MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"],
    ["MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"],
    ["RUSTFS_ACCESS_KEY", "RUSTFS_SECRET_KEY"],
];
/// The longest key file. Reading is bounded, since a device may never end.
const KEY_FILE_MAX_BYTES: u64 = 4096;

/// The sources of the keys.
#[derive(Debug, PartialEq)]
pub(crate) struct AdministratorKeys {
    access_key: KeyOrigin,
    secret_key: KeyOrigin,
}

/// The source of one key: the name of the variable, and its value or the file that it names.
#[derive(PartialEq)]
enum KeyOrigin {
    Variable(String, String),
    File(String, PathBuf),
}

impl AdministratorKeys {
    /// The keys that the environment names; `None` if it names none. Notes names of other servers.
    ///
    /// # Errors
    /// Only one key is set, or a key is set in both ways or is not UTF-8.
    pub(crate) fn from_environment(
        environment: &Environment,
        notes: &mut Notes,
    ) -> Result<Option<Self>, String> {
        for [access, secret] in VARIABLES {
            let found = [KeyOrigin::named(environment, access)?, KeyOrigin::named(environment, secret)?];
            match found {
                [None, None] => {}
                [Some(access_key), Some(secret_key)] => {
                    if access != VARIABLES[0][0] {
                        let [our_access, our_secret] = VARIABLES[0];
                        notes.info(format!(
                            "{access} and {secret} are read in place of {our_access} and {our_secret}"
                        ));
                    }
                    return Ok(Some(Self { access_key, secret_key }));
                }
                _ => {
                    return Err(format!(
                        "set both of {access} and {secret}, or neither (or the same with _FILE)"
                    ));
                }
            }
        }
        Ok(None)
    }

    /// Whether a variable may name a key.
    pub(crate) fn reads(variable: &str) -> bool {
        let name = variable.strip_suffix("_FILE").unwrap_or(variable);
        VARIABLES.iter().flatten().any(|known| *known == name)
    }

    /// The current keys. Files are read each time.
    ///
    /// # Errors
    /// A file cannot be read, or a key is not valid in a users file. Messages quote no secrets.
    pub(crate) fn read(&self) -> Result<KeyPair, String> {
        let pair =
            KeyPair { access_key: self.access_key.read()?, secret_key: Secret::new(self.secret_key.read()?) };
        // By the parser of users files, so that both have the same rules.
        match Users::parse(&Users::first_file(&pair)) {
            Ok(_) => Ok(pair),
            Err(e) => {
                Err(format!("{}, {}: {}", self.access_key.variable(), self.secret_key.variable(), e.problem))
            }
        }
    }
}

impl KeyOrigin {
    /// The source that `variable`, or the same with `_FILE`, names.
    fn named(environment: &Environment, variable: &str) -> Result<Option<Self>, String> {
        let file_variable = format!("{variable}_FILE");
        match (environment.text(variable)?, environment.get(&file_variable)) {
            (None, None) => Ok(None),
            (Some(text), None) => Ok(Some(Self::Variable(variable.to_owned(), text.to_owned()))),
            (None, Some(path)) => {
                let is_ours = VARIABLES[0].contains(&variable);
                let path =
                    if is_ours { path.into() } else { secret_file(Path::new(path), Path::new(SECRETS_DIR)) };
                Ok(Some(Self::File(file_variable, path)))
            }
            (Some(_), Some(_)) => Err(format!("set {variable} or {file_variable}, not both")),
        }
    }

    fn variable(&self) -> &str {
        match self {
            Self::Variable(variable, _) | Self::File(variable, _) => variable,
        }
    }

    fn read(&self) -> Result<String, String> {
        match self {
            Self::Variable(_, text) => Ok(text.clone()),
            Self::File(variable, path) => {
                key_in(path).map_err(|problem| format!("{variable}: {}: {problem}", path.display()))
            }
        }
    }
}

impl std::fmt::Debug for KeyOrigin {
    /// Shows no key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.variable())
    }
}

/// The file in the folder of secrets if there is one of that name; else the file at the path.
fn secret_file(path: &Path, secrets: &Path) -> PathBuf {
    let secret = secrets.join(path);
    if secret.is_file() { secret } else { path.to_owned() }
}

/// The key in a file, without the line end that editors and `echo` append. Warns if all accounts of
/// the host may read it.
pub(crate) fn key_in(path: &Path) -> Result<String, String> {
    warn_of_world(path);
    let mut text = String::new();
    let file = File::open(path).map_err(|e| e.to_string())?;
    file.take(KEY_FILE_MAX_BYTES + 1).read_to_string(&mut text).map_err(|e| e.to_string())?;
    if text.len() as u64 > KEY_FILE_MAX_BYTES {
        return Err("it is too long to hold a key and nothing else".to_owned());
    }
    let key = text.trim_end_matches(['\n', '\r']);
    if key.is_empty() { Err("it holds no key".to_owned()) } else { Ok(key.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment<'a>(set: impl IntoIterator<Item = (&'a str, &'a str)>) -> Environment {
        Environment::new(set.into_iter().map(|(name, value)| (name.into(), value.into())))
    }

    /// The keys that these variables name.
    fn named(set: &[(&str, &str)]) -> Result<Option<KeyPair>, String> {
        let environment = environment(set.iter().copied());
        let keys = AdministratorKeys::from_environment(&environment, &mut Notes::default())?;
        keys.map(|keys| keys.read()).transpose()
    }

    /// The values of our variables: the access key, its file, the secret key, its file.
    fn keys(values: [Option<&str>; 4]) -> Result<Option<KeyPair>, String> {
        let [access, secret] = VARIABLES[0];
        let names =
            [access.to_owned(), format!("{access}_FILE"), secret.to_owned(), format!("{secret}_FILE")];
        let set = names.iter().zip(values).filter_map(|(name, value)| Some((name.as_str(), value?)));
        named(&set.collect::<Vec<_>>())
    }

    fn pair(access_key: &str, secret_key: &str) -> Result<Option<KeyPair>, String> {
        Ok(Some(KeyPair { access_key: access_key.to_owned(), secret_key: Secret::new(secret_key) }))
    }

    #[test]
    fn both_keys_are_set_or_neither() {
        assert_eq!(keys([None; 4]), Ok(None));
        assert_eq!(keys([Some(""), None, None, Some("")]), Ok(None));
        assert_eq!(keys([Some("a"), None, Some("s"), None]), pair("a", "s"));
        assert!(keys([Some("a"), None, Some(""), None]).unwrap_err().contains("or neither"));
        assert!(keys([None, None, None, Some("f")]).unwrap_err().contains("or neither"));
    }

    #[test]
    fn a_key_stands_in_a_variable_or_in_a_file_and_loses_its_line_end_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let access = file("access", b"a\n");
        let secret = file("secret", b" s s \r\n");
        assert_eq!(keys([None, Some(&access), None, Some(&secret)]), pair("a", " s s "));
        assert_eq!(keys([Some("b"), Some(""), None, Some(&secret)]), pair("b", " s s "));
        let both = keys([Some("b"), None, Some("s"), Some(&secret)]).unwrap_err();
        assert!(both.contains("SILTSTONE_SECRET_KEY or SILTSTONE_SECRET_KEY_FILE, not both"), "{both}");
        for (name, text, problem) in [
            ("empty", &b""[..], "no key"),
            ("blank", b"\n\n", "no key"),
            ("long", &[b'x'; 5000], "too long"),
            ("binary", b"\xff\xfe", "UTF-8"),
        ] {
            let refused = keys([Some("a"), None, None, Some(&file(name, text))]);
            let refused = refused.unwrap_err();
            assert!(refused.contains("SILTSTONE_SECRET_KEY_FILE") && refused.contains(problem), "{refused}");
            assert!(refused.contains(name), "{refused}");
        }
        assert!(keys([Some("a"), None, None, Some("/no/such/file")]).unwrap_err().contains("/no/such/file"));
    }

    #[test]
    fn invalid_keys_are_refused_and_not_shown() {
        assert!(keys([Some("a/b"), None, Some("s"), None]).unwrap_err().contains("access_key"));
        let long = "hidden".repeat(50);
        let refused = keys([Some("a"), None, Some(&long), None]).unwrap_err();
        assert!(refused.contains("secret_key") && !refused.contains("hidden"), "{refused}");
        let set = environment([("SILTSTONE_ACCESS_KEY", "a"), ("SILTSTONE_SECRET_KEY", "hidden")]);
        let keys = AdministratorKeys::from_environment(&set, &mut Notes::default());
        assert!(!format!("{keys:?}").contains("hidden"));
    }

    #[test]
    fn names_of_other_servers_are_read_in_their_order_where_ours_are_not_set() {
        let all = [
            ("RUSTFS_ACCESS_KEY", "r"),
            ("RUSTFS_SECRET_KEY", "rs"),
            ("MINIO_ACCESS_KEY", "old"),
            ("MINIO_SECRET_KEY", "olds"),
            ("MINIO_ROOT_USER", "root"),
            ("MINIO_ROOT_PASSWORD", "roots"),
            ("SILTSTONE_ACCESS_KEY", "a"),
            ("SILTSTONE_SECRET_KEY", "s"),
        ];
        for (count, access, secret) in
            [(2, "r", "rs"), (4, "old", "olds"), (6, "root", "roots"), (8, "a", "s")]
        {
            assert_eq!(named(&all[..count]), pair(access, secret));
        }
        assert!(named(&all[..5]).unwrap_err().contains("MINIO_ROOT_USER and MINIO_ROOT_PASSWORD"));
        assert!(
            AdministratorKeys::reads("MINIO_ROOT_PASSWORD_FILE") && !AdministratorKeys::reads("MINIO_FILE")
        );
    }

    #[test]
    fn a_secret_file_without_a_path_is_looked_for_among_the_secrets() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("password"), "s").unwrap();
        assert_eq!(secret_file(Path::new("password"), dir.path()), dir.path().join("password"));
        assert_eq!(secret_file(Path::new("other"), dir.path()), Path::new("other"));
        assert_eq!(secret_file(Path::new("/etc/password"), dir.path()), Path::new("/etc/password"));
    }
}
