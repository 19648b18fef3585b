//! The users of a running server: read from the users file, changed by administrators, and in
//! effect at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use log::{error, info};
use siltstone::auth::{Authenticator, KeyPair, NameKind, SealingKey, Users};
use siltstone::base::OsEntropy;
use siltstone::service::{
    AuditLog as _, AuditTrail, ChangeSender, GrantEntry, GroupEntry, IamChange, PolicyChange, PolicyEntry,
    PolicyHolder, ProviderEntry, RoleEntry, UserChange, UserDirectory, UserEntry, UserError,
};
use siltstone::store::Store;

use super::iam_text;
use super::issuers_text;
use super::policies_text;
use super::user_changes::{ChangeOrigin, UserList};
use super::user_checks::{check_iam, check_new, check_policies};
use super::users_file::UsersFile;
use super::users_text;

/// The users file, and what its users are in effect for.
pub(crate) struct RunningUsers {
    file: UsersFile,
    authenticator: Arc<Authenticator>,
    store: Arc<Store>,
    audit: Arc<AuditTrail>,
    /// The users in effect, as the audit log knows them. Its lock is held from an edit of the file
    /// until the edit is in effect, so that no older version of the file follows a newer one.
    known: Mutex<UserList>,
}

impl RunningUsers {
    /// The users of `file`, which are `known` and in effect.
    pub(crate) fn new(
        file: UsersFile,
        known: UserList,
        authenticator: Arc<Authenticator>,
        store: Arc<Store>,
        audit: Arc<AuditTrail>,
    ) -> Self {
        Self { file, authenticator, store, audit, known: Mutex::new(known) }
    }

    /// Reads the users file again, on a signal. If it is broken the previous users stay in effect.
    pub(crate) fn reload(&self) {
        match self.load(&mut self.known(), ChangeOrigin::SIGNAL) {
            Ok(()) => {
                info!("the users file was read again");
                self.file.update_copy();
            }
            Err(problem) => {
                ChangeOrigin::SIGNAL.record_refused("ReloadUsers", None, &*self.audit);
                error!("the users are unchanged: {problem}");
            }
        }
    }

    fn load(&self, known: &mut UserList, origin: ChangeOrigin<'_>) -> Result<(), String> {
        let (users, list) = self.file.read()?;
        // The quotas first: no request of a new user is without its quota.
        self.store.configure_owner_quotas(users.quotas().clone());
        self.authenticator.replace(users);
        list.record_changes(known, &*self.audit, origin);
        *known = list;
        Ok(())
    }

    /// After a panic on the way, these are the users before it: the next reading of the file
    /// records what has changed since.
    fn known(&self) -> MutexGuard<'_, UserList> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text of the file, empty without one.
    fn text(&self) -> Result<String, String> {
        match self.file.path().exists() {
            true => self.file.text(),
            false => Ok(String::new()),
        }
    }

    /// Checks that the change is one of the file, and that it can be recorded.
    fn check(&self, change: &UserChange) -> Result<(), UserError> {
        let is_of_user = match change {
            // The end of its sessions has no other place than the file.
            UserChange::RevokeSessions { .. } => false,
            UserChange::Policies(change) => matches!(
                change,
                PolicyChange::Attach { to: PolicyHolder::User(_), .. }
                    | PolicyChange::Detach { from: PolicyHolder::User(_), .. }
            ),
            UserChange::Iam(change) => is_of_user(change),
            _ => true,
        };
        if is_of_user && change.name() == Users::ADMINISTRATOR && self.file.has_environment() {
            let why =
                "the user `admin` comes from the environment of the server: change it there, and restart";
            return Err(UserError::Invalid(why.to_owned()));
        }
        if let UserChange::Iam(change) = change
            && change.is_creation()
            && change.subject().eq_ignore_ascii_case(Users::ADMINISTRATOR)
            && self.file.has_environment()
        {
            return Err(UserError::Taken { kind: "user", name: Users::ADMINISTRATOR.to_owned() });
        }
        match self.audit.is_writable() {
            true => Ok(()),
            false => {
                Err(UserError::Failed("the audit log cannot be written, so no user is changed".to_owned()))
            }
        }
    }

    /// The text of the file after a change.
    fn edited(&self, text: &str, change: &UserChange, keys: Option<&KeyPair>) -> Result<String, UserError> {
        let name = change.name();
        let users = users_text::list(text).map_err(UserError::Failed)?;
        let is_named = match change {
            UserChange::Create { .. } => {
                check_new(text, name)?;
                true
            }
            UserChange::RevokeSessions { .. } => {
                users_text::has_role(text, name)
                    || name == Users::ADMINISTRATOR && self.file.has_environment()
            }
            UserChange::Policies(change) => {
                check_policies(text, change)?;
                true
            }
            UserChange::Iam(change) => {
                check_iam(text, change)?;
                true
            }
            _ => false,
        };
        if !is_named && !users.iter().any(|user| user.name == name) {
            return Err(UserError::Unknown { kind: "user", name: name.to_owned() });
        }
        let now = self.authenticator.now();
        let edited = match change {
            UserChange::Iam(change) => iam_text::changed(text, change, keys, now),
            change => users_text::changed(text, change, keys, now),
        };
        let edited = edited.map_err(UserError::Invalid)?;
        // Read as the server will read it: a change that breaks the file is not written.
        let after = Users::parse(&edited).map_err(|error| UserError::Invalid(error.problem))?;
        self.check_administrators(text, &after)?;
        if let Some(keys) = self.file.environment_keys().map_err(UserError::Failed)? {
            after.with_administrator(keys).map_err(UserError::Invalid)?;
        }
        Ok(edited)
    }

    /// Checks that an administrator is left, who can mend what is wrong.
    fn check_administrators(&self, before: &str, after: &Users) -> Result<(), UserError> {
        if self.file.has_environment() || after.has_administrator() {
            return Ok(());
        }
        match users_text::has_administrator(before) {
            true => Err(UserError::Invalid("no administrator would be left".to_owned())),
            false => Ok(()),
        }
    }

    fn make(&self, change: &UserChange, origin: ChangeOrigin<'_>) -> Result<Option<KeyPair>, UserError> {
        self.check(change)?;
        let keys = change.makes_keys().then(|| KeyPair::generate(&OsEntropy));
        let mut known = self.known();
        // The edit passes on texts alone. The kind of the refusal decides the status of the
        // response, and is kept aside.
        let mut refused = None;
        let edit = self.file.edit_or_make(|text| {
            self.edited(text, change, keys.as_ref()).map_err(|error| {
                let told = error.to_string();
                refused = Some(error);
                told
            })
        });
        edit.map_err(|problem| refused.unwrap_or(UserError::Failed(problem)))?;
        self.load(&mut known, origin).map_err(|problem| {
            UserError::Failed(format!("the users file was changed, but cannot be read: {problem}"))
        })?;
        Ok(keys)
    }
}

/// Whether a change is one of the table of a user.
fn is_of_user(change: &IamChange) -> bool {
    match change {
        IamChange::DeleteUser { .. }
        | IamChange::AddKey { .. }
        | IamChange::SetKeyStatus { .. }
        | IamChange::DeleteKey { .. } => true,
        IamChange::PutInline { of, .. } | IamChange::DeleteInline { of, .. } => {
            matches!(of, PolicyHolder::User(_))
        }
        _ => false,
    }
}

fn origin_of(sender: ChangeSender<'_>) -> ChangeOrigin<'_> {
    let ChangeSender { user, person, session, access_key, console_session, peer } = sender;
    ChangeOrigin { user: Some(user), person, session, access_key, console_session, peer }
}

impl UserDirectory for RunningUsers {
    fn list(&self) -> Result<Vec<UserEntry>, UserError> {
        let text = self.text().map_err(UserError::Failed)?;
        let mut users = users_text::entries(&text).map_err(UserError::Failed)?;
        let environment = self.file.environment_keys().map_err(UserError::Failed)?;
        let in_file = users.iter().find(|user| user.name == Users::ADMINISTRATOR);
        let id_in_file = in_file.map(|user| user.id.clone());
        if environment.is_some() {
            users.retain(|user| user.name != Users::ADMINISTRATOR);
        }
        let of_environment = environment.map(|keys| UserEntry {
            name: Users::ADMINISTRATOR.to_owned(),
            access_keys: vec![keys.access_key],
            allow: vec![GrantEntry::everything()],
            administrator: true,
            from_environment: true,
            id: id_in_file.unwrap_or_else(|| NameKind::User.unique_id(Users::ADMINISTRATOR, None)),
            ..UserEntry::default()
        });
        Ok(of_environment.into_iter().chain(users).collect())
    }

    fn policies(&self) -> Result<Vec<PolicyEntry>, UserError> {
        self.text().and_then(|text| policies_text::policies(&text)).map_err(UserError::Failed)
    }

    fn groups(&self) -> Result<Vec<GroupEntry>, UserError> {
        self.text().and_then(|text| policies_text::groups(&text)).map_err(UserError::Failed)
    }

    fn roles(&self) -> Result<Vec<RoleEntry>, UserError> {
        self.text().and_then(|text| iam_text::roles(&text)).map_err(UserError::Failed)
    }

    fn providers(&self) -> Result<Vec<ProviderEntry>, UserError> {
        self.text().and_then(|text| issuers_text::providers(&text)).map_err(UserError::Failed)
    }

    fn change(&self, change: &UserChange, sender: ChangeSender<'_>) -> Result<Option<KeyPair>, UserError> {
        let origin = origin_of(sender);
        let made = self.make(change, origin);
        match &made {
            Ok(_) => info!("{} of `{}` by `{}`", change.audited_as(), change.name(), sender.user),
            Err(_) => self.record_denied(change, sender),
        }
        made
    }

    fn add_sealing_key(&self) -> Result<(), UserError> {
        let mut known = self.known();
        if self.authenticator.has_sealing_key() {
            return Ok(());
        }
        let key = SealingKey::generate(&OsEntropy);
        let edit = self.file.edit_or_make(|text| users_text::with_sealing_key(text, &key));
        edit.and_then(|()| self.load(&mut known, ChangeOrigin::SEALING_KEY)).map_err(UserError::Failed)?;
        info!("the users file has a key for the tokens of sessions");
        Ok(())
    }

    fn record_denied(&self, change: &UserChange, sender: ChangeSender<'_>) {
        origin_of(sender).record_refused(change.audited_as(), Some(change.name()), &*self.audit);
    }
}
