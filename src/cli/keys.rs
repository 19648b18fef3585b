//! The administrator's keys, when the environment names them.

use std::ffi::OsString;

use siltstone::auth::{KeyPair, Secret, Users};

use super::{ACCESS_KEY_VARIABLE, Failure, SECRET_KEY_VARIABLE};

/// The values of the two variables, access key first; an empty one counts as not set.
///
/// # Errors
/// Only one of them is set, or one is not fit for a users file.
pub(crate) fn from_environment(values: [Option<OsString>; 2]) -> Result<Option<KeyPair>, Failure> {
    match values.map(|value| value.filter(|v| !v.is_empty())) {
        [None, None] => Ok(None),
        [Some(access), Some(secret)] => pair(access, secret).map(Some),
        _ => {
            let both = format!("set both of {ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE}, or neither");
            Err(Failure::usage(both))
        }
    }
}

fn pair(access: OsString, secret: OsString) -> Result<KeyPair, Failure> {
    let pair = KeyPair {
        access_key: text(ACCESS_KEY_VARIABLE, access)?,
        secret_key: Secret::new(text(SECRET_KEY_VARIABLE, secret)?),
    };
    match Users::parse(&Users::first_file(&pair)) {
        Ok(_) => Ok(pair),
        Err(e) => Err(Failure::usage(format!("{ACCESS_KEY_VARIABLE}, {SECRET_KEY_VARIABLE}: {}", e.problem))),
    }
}

fn text(variable: &str, value: OsString) -> Result<String, Failure> {
    value.into_string().map_err(|_| Failure::usage(format!("{variable} is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(access: Option<&str>, secret: Option<&str>) -> Result<Option<KeyPair>, String> {
        from_environment([access, secret].map(|value| value.map(OsString::from))).map_err(|e| e.to_string())
    }

    #[test]
    fn both_keys_are_set_or_neither() {
        assert_eq!(read(None, None), Ok(None));
        assert_eq!(read(Some(""), None), Ok(None));
        let pair = KeyPair { access_key: "a".to_owned(), secret_key: Secret::new("s") };
        assert_eq!(read(Some("a"), Some("s")), Ok(Some(pair)));
        assert!(read(Some("a"), Some("")).unwrap_err().contains("or neither"));
        assert!(read(None, Some("s")).unwrap_err().contains("or neither"));
    }

    #[test]
    fn keys_that_no_request_could_bear_are_refused() {
        assert!(read(Some("a/b"), Some("s")).unwrap_err().contains("access_key"));
    }
}
