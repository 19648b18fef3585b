//! The variables of the process.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variables that are set and not empty. Compose files pass on variables that are not set as
/// empty ones.
#[derive(Debug, Default)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The environment of these variables.
    pub(crate) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(variables.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }

    /// The value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The value of a variable as text.
    ///
    /// # Errors
    /// The value is not UTF-8. The message does not show it.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, String> {
        let value = self.get(name);
        value.map(|value| value.to_str().ok_or_else(|| format!("{name} is not UTF-8"))).transpose()
    }

    /// The names of the variables, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|name| name.to_str())
    }
}
