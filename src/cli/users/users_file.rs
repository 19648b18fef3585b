//! The users file: created on the first start, read at the start and on SIGHUP, and edited by
//! commands.

use std::path::{Path, PathBuf};

use log::{info, warn};
use siltstone::auth::{KeyPair, Users};
use siltstone::base::{Entropy, limits};
use siltstone::fs::SecretFile;

use super::user_changes::UserList;
use crate::cli::config::keys::AdministratorKeys;
use crate::cli::config::options::ServerOptions;

/// The path of the file, and the administrator from the environment.
pub(crate) struct UsersFile {
    file: SecretFile,
    administrator: Option<AdministratorKeys>,
}

impl UsersFile {
    /// The file at `path`. With `administrator`, the user `admin` has these keys and all
    /// permissions, regardless of the file.
    fn new(path: PathBuf, administrator: Option<AdministratorKeys>) -> Self {
        Self { file: SecretFile::new(path), administrator }
    }

    /// The users file that the options name. With `administrator` as of [`UsersFile::new`].
    pub(crate) fn of(options: &ServerOptions, administrator: Option<AdministratorKeys>) -> Self {
        let path = options.start.users_path();
        let copy = options.start.copy_of(&path);
        let own = Self::new(path, administrator);
        let refusal = options.start.refusal_for(own.file.path());
        Self { file: own.file.with_copy(copy).refusing(refusal), ..own }
    }

    /// As [`SecretFile::update_copy`].
    pub(crate) fn update_copy(&self) {
        self.file.update_copy();
    }

    /// As [`SecretFile::make_level`].
    pub(crate) fn make_level(&self, newer_counts: bool) -> Result<(), String> {
        self.file.make_level(newer_counts)
    }

    /// Whether nobody could sign requests.
    pub(crate) fn is_missing(&self) -> bool {
        self.administrator.is_none() && !self.file.exists()
    }

    /// Creates the file with one administrator if it is missing, durably and readable by the owner
    /// alone. Returns the generated keys. If the environment sets the administrator, no file is
    /// created: secrets kept elsewhere must not also be in the data directory.
    ///
    /// # Errors
    /// A message for the operator.
    pub(crate) fn create_if_missing(&self, entropy: &dyn Entropy) -> Result<Option<KeyPair>, String> {
        if !self.is_missing() {
            return Ok(None);
        }
        let keys = KeyPair::generate(entropy);
        self.file.create(&Users::first_file(&keys))?;
        Ok(Some(keys))
    }

    /// Reads the file: the users, and the same in the form that the audit log compares. It may be
    /// missing if the environment sets the administrator. Warns of dangerous settings.
    ///
    /// # Errors
    /// A message for the operator, with the file and the line.
    pub(crate) fn read(&self) -> Result<(Users, UserList), String> {
        let (users, list) = match &self.administrator {
            None => {
                let (text, users) = self.load()?;
                (users, UserList::of(&text))
            }
            Some(keys) => {
                let (text, users) = self.load_if_any()?;
                let keys = keys.read()?;
                let list = UserList::of(&text).with_administrator(&keys);
                (users.with_administrator(keys)?, list)
            }
        };
        warn_of_readers(&self.file);
        warn_of_short_secrets(&users);
        Ok((users, list))
    }

    fn load_if_any(&self) -> Result<(String, Users), String> {
        if self.file.exists() {
            return self.load();
        }
        info!("there is no users file {}: `admin` alone can sign requests", self.path().display());
        Ok(Default::default())
    }

    /// The text of the file, after validation.
    ///
    /// # Errors
    /// As [`UsersFile::read`].
    pub(crate) fn text(&self) -> Result<String, String> {
        self.load().map(|(text, _)| text)
    }

    /// The users in the form that the audit log compares; none for a file that is missing or
    /// broken.
    pub(crate) fn list(&self) -> UserList {
        self.text().map(|text| UserList::of(&text)).unwrap_or_default()
    }

    /// Replaces the text by the result of `change`, as [`SecretFile::edit`]. The text is validated
    /// before and after.
    ///
    /// # Errors
    /// A message for the operator; the file is unchanged.
    pub(crate) fn edit(&self, change: impl FnOnce(&str) -> Result<String, String>) -> Result<(), String> {
        if !self.file.exists() {
            return self.text().map(drop);
        }
        self.edit_or_make(change)
    }

    /// As [`UsersFile::edit`], but a missing file counts as empty and is created, with the owner of
    /// its directory, which must exist.
    pub(crate) fn edit_or_make(
        &self,
        change: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<(), String> {
        self.file.edit(|text| {
            let text = text.unwrap_or_default();
            self.parse(text)?;
            let text = change(text)?;
            Users::parse(&text).map_err(|e| e.problem)?;
            Ok(text)
        })
    }

    fn load(&self) -> Result<(String, Users), String> {
        let text = self.file.read()?;
        let users = self.parse(&text)?;
        Ok((text, users))
    }

    fn parse(&self, text: &str) -> Result<Users, String> {
        Users::parse(text).map_err(|e| format!("in {}, {e}", self.path().display()))
    }

    /// Whether the user `admin` comes from the environment.
    pub(crate) fn has_environment(&self) -> bool {
        self.administrator.is_some()
    }

    /// The keys of the user `admin`, if it comes from the environment.
    ///
    /// # Errors
    /// A message for the operator.
    pub(crate) fn environment_keys(&self) -> Result<Option<KeyPair>, String> {
        self.administrator.as_ref().map(AdministratorKeys::read).transpose()
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }
}

/// Warns if others may read a file that holds secrets.
pub(crate) fn warn_of_readers(file: &SecretFile) {
    if file.is_open_to_others() {
        let path = file.path().display();
        warn!("{path} may be read by others than its owner: chmod 600 {path}");
    }
}

fn warn_of_short_secrets(users: &Users) {
    for name in users.with_short_secrets() {
        let least = limits::SECRET_ADVISED_BYTES;
        warn!(
            "the secret key of `{name}` is short and may be guessed from one signed request; it should have {least} characters or more"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use siltstone::base::SeededEntropy;

    use super::*;
    use crate::cli::config::environment::Environment;
    use crate::cli::config::notes::Notes;

    fn chosen() -> AdministratorKeys {
        let set = [("SILTSTONE_ACCESS_KEY", "chosen"), ("SILTSTONE_SECRET_KEY", "s")];
        let environment = Environment::new(set.map(|(name, value)| (name.into(), value.into())));
        AdministratorKeys::from_environment(&environment, &mut Notes::default()).unwrap().unwrap()
    }

    #[test]
    fn a_file_is_made_once_and_keys_that_were_made_up_are_given_back_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = UsersFile::new(dir.path().join("sub/users.toml"), None);
        let keys = file.create_if_missing(&SeededEntropy::new(1)).unwrap().unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), Users::first_file(&keys));
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(file.create_if_missing(&SeededEntropy::new(2)).unwrap(), None);
        assert_eq!(fs::read_to_string(file.path()).unwrap(), Users::first_file(&keys));
        assert_eq!(fs::read_dir(dir.path().join("sub")).unwrap().count(), 1);
    }

    #[test]
    fn a_temporary_file_left_by_a_crash_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("users.toml.new"), "[[us").unwrap();
        let file = UsersFile::new(dir.path().join("users.toml"), None);
        let keys = file.create_if_missing(&SeededEntropy::new(1)).unwrap().unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), Users::first_file(&keys));
        assert!(file.read().is_ok());
    }

    #[test]
    fn an_administrator_of_the_environment_is_not_written_and_needs_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = UsersFile::new(dir.path().join("users.toml"), Some(chosen()));
        assert_eq!(file.create_if_missing(&SeededEntropy::new(1)).unwrap(), None);
        assert!(file.read().is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        fs::write(file.path(), "broken").unwrap();
        assert!(file.read().unwrap_err().contains("line 1"));
    }

    #[test]
    fn an_absent_file_is_made_by_a_change_that_may_and_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let file = UsersFile::new(dir.path().join("users.toml"), None);
        let refused = |_: &str| Err("no".to_owned());
        assert!(file.edit_or_make(refused).is_err() && file.edit(|_| Ok(String::new())).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        file.edit_or_make(|text| Ok(format!("{text}# new\n"))).unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "# new\n");
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o7777, 0o600);
        let nowhere = UsersFile::new(dir.path().join("absent/users.toml"), None);
        assert!(nowhere.edit_or_make(|_| Ok(String::new())).is_err());
    }

    #[test]
    fn problems_name_the_file_and_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = UsersFile::new(dir.path().join("users.toml"), None);
        assert!(file.read().unwrap_err().contains("users.toml"));
        fs::write(file.path(), "\n[[usr]]\n").unwrap();
        let problem = file.read().unwrap_err();
        assert!(problem.contains("users.toml") && problem.contains("line 2"), "{problem}");
    }

    #[test]
    fn the_administrator_of_the_environment_counts_whatever_the_file_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users.toml");
        fs::write(&path, "[[user]]\nname = \"other\"\naccess_key = \"chosen\"\nsecret_key = \"s\"\n")
            .unwrap();
        assert!(UsersFile::new(path.clone(), None).read().is_ok());
        let problem = UsersFile::new(path.clone(), Some(chosen())).read().unwrap_err();
        assert!(problem.contains("`other`"), "{problem}");
        fs::write(&path, "").unwrap();
        assert!(UsersFile::new(path, Some(chosen())).read().is_ok());
    }
}
