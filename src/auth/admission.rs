//! Which people an OpenID provider may vouch for, by the users file: `[user.oidc]`.

use serde::Deserialize;
use toml::Spanned;

/// A person whom an OpenID provider vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcPerson {
    /// The claim `sub`: it stays the same, and is unique at the provider (OpenID Connect Core 1.0,
    /// section 5.7).
    pub subject: String,
    /// A name for people. It may change, and others may have the same.
    pub name: String,
    /// The groups of the person, as the provider names them.
    pub groups: Vec<String>,
}

/// The table `[user.oidc]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OidcTable {
    #[serde(default)]
    subjects: Vec<Spanned<String>>,
    #[serde(default)]
    groups: Vec<Spanned<String>>,
}

/// The people who act as a user.
#[derive(Debug)]
struct Admission {
    user: String,
    access_key: String,
    subjects: Vec<String>,
    groups: Vec<String>,
}

/// The people of all users, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Admissions(Vec<Admission>);

impl Admissions {
    /// Adds the people who act as `user`, whose current access key is given.
    ///
    /// # Errors
    /// The table admits nobody, or an empty name.
    pub(super) fn add(&mut self, user: &str, access_key: &str, table: &OidcTable) -> Result<(), String> {
        let subjects = texts(&table.subjects);
        let groups = texts(&table.groups);
        if subjects.is_empty() && groups.is_empty() {
            return Err(format!("`[user.oidc]` of `{user}` needs `subjects` or `groups`"));
        }
        if subjects.iter().chain(&groups).any(String::is_empty) {
            return Err(format!("`[user.oidc]` of `{user}` has an empty name"));
        }
        self.0.push(Admission { user: user.into(), access_key: access_key.into(), subjects, groups });
        Ok(())
    }

    /// Follows a user whose keys were replaced.
    pub(super) fn replace_key(&mut self, user: &str, access_key: &str) {
        let of_user = self.0.iter_mut().filter(|admission| admission.user == user);
        for admission in of_user {
            access_key.clone_into(&mut admission.access_key);
        }
    }

    /// The access key of the user as whom a person acts: the first one that names the person, or
    /// else the first one that names one of the groups.
    pub(super) fn access_key_of(&self, person: &OidcPerson) -> Option<&str> {
        let named = self.0.iter().find(|admission| admission.subjects.contains(&person.subject));
        let found = named.or_else(|| {
            let mut all = self.0.iter();
            all.find(|admission| admission.groups.iter().any(|group| person.groups.contains(group)))
        });
        found.map(|admission| admission.access_key.as_str())
    }
}

fn texts(of: &[Spanned<String>]) -> Vec<String> {
    of.iter().map(|text| text.get_ref().clone()).collect()
}
