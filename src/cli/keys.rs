//! The administrator's keys from the environment, or from files that it names.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use siltstone::auth::{KeyPair, Secret, Users};

/// The variables that name the keys, or the files that hold them.
pub(crate) const KEY_VARIABLES: [&str; 4] = [
    "SILTSTONE_ACCESS_KEY",
    "SILTSTONE_ACCESS_KEY_FILE",
    "SILTSTONE_SECRET_KEY",
    "SILTSTONE_SECRET_KEY_FILE",
];
const ACCESS_KEY: &str = KEY_VARIABLES[0];
const ACCESS_KEY_FILE: &str = KEY_VARIABLES[1];
const SECRET_KEY: &str = KEY_VARIABLES[2];
const SECRET_KEY_FILE: &str = KEY_VARIABLES[3];

/// The longest key file. Reading is bounded, since a device may never end.
const KEY_FILE_MAX_BYTES: u64 = 4096;

/// The sources of the keys.
#[derive(Debug, PartialEq)]
pub(crate) struct AdministratorKeys {
    access_key: KeySource,
    secret_key: KeySource,
}

/// The source of one key.
#[derive(PartialEq)]
enum KeySource {
    Variable(&'static str, String),
    File(&'static str, PathBuf),
}

impl AdministratorKeys {
    /// Evaluates the values of [`KEY_VARIABLES`], in order; an empty one counts as not set. `None` if none is set.
    ///
    /// # Errors
    /// Only one key is set, or a key is set in both ways or is not UTF-8.
    pub(crate) fn from_environment(values: [Option<OsString>; 4]) -> Result<Option<Self>, String> {
        let [access, access_file, secret, secret_file] = values.map(|value| value.filter(|v| !v.is_empty()));
        let access = KeySource::named([ACCESS_KEY, ACCESS_KEY_FILE], access, access_file)?;
        let secret = KeySource::named([SECRET_KEY, SECRET_KEY_FILE], secret, secret_file)?;
        match (access, secret) {
            (None, None) => Ok(None),
            (Some(access_key), Some(secret_key)) => Ok(Some(Self { access_key, secret_key })),
            _ => {
                Err(format!("set both of {ACCESS_KEY} and {SECRET_KEY}, or neither (or the same with _FILE)"))
            }
        }
    }

    /// The current keys. Files are read each time.
    ///
    /// # Errors
    /// A file cannot be read, or a key is not valid in a users file. Messages quote no secrets.
    pub(crate) fn read(&self) -> Result<KeyPair, String> {
        let pair =
            KeyPair { access_key: self.access_key.read()?, secret_key: Secret::new(self.secret_key.read()?) };
        match Users::parse(&Users::first_file(&pair)) {
            Ok(_) => Ok(pair),
            Err(e) => {
                Err(format!("{}, {}: {}", self.access_key.variable(), self.secret_key.variable(), e.problem))
            }
        }
    }
}

impl KeySource {
    fn named(
        [variable, file_variable]: [&'static str; 2],
        text: Option<OsString>,
        file: Option<OsString>,
    ) -> Result<Option<Self>, String> {
        match (text, file) {
            (None, None) => Ok(None),
            (Some(text), None) => {
                let text = text.into_string().map_err(|_| format!("{variable} is not UTF-8"))?;
                Ok(Some(Self::Variable(variable, text)))
            }
            (None, Some(path)) => Ok(Some(Self::File(file_variable, path.into()))),
            (Some(_), Some(_)) => Err(format!("set {variable} or {file_variable}, not both")),
        }
    }

    fn variable(&self) -> &'static str {
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

impl std::fmt::Debug for KeySource {
    /// Shows no key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.variable())
    }
}

/// The key in a file, without the line end that editors and `echo` append.
fn key_in(path: &Path) -> Result<String, String> {
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

    fn keys(values: [Option<&str>; 4]) -> Result<Option<KeyPair>, String> {
        let keys = AdministratorKeys::from_environment(values.map(|value| value.map(OsString::from)))?;
        keys.map(|keys| keys.read()).transpose()
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
        let (access, secret) = (file("access", b"a\n"), file("secret", b" s s \r\n"));
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
        let values = [Some("a"), None, Some("hidden"), None].map(|value| value.map(OsString::from));
        assert!(!format!("{:?}", AdministratorKeys::from_environment(values)).contains("hidden"));
    }
}
