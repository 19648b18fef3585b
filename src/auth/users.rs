//! The users file: the users, their keys and their permissions.
//!
//! ```toml
//! [[user]]
//! name = "backup"
//! access_key = "AKIAIOSFODNN7EXAMPLE"
//! secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
//!
//! previous = { access_key = "AKIAI44QH8DHBEXAMPLE", secret_key = "je7MtGbClwBF/2Zp9Utk/h3yCo8nvbEXAMPLEKEY" }
//!
//! [[user.allow]]
//! actions = ["ListBucket"]
//! resources = ["archive"]
//!
//! [[user.allow]]
//! actions = ["GetObject", "PutObject"]
//! resources = ["archive/2026/*"]
//!
//! [[user]]                      # requests without a signature
//! name = "anonymous"
//! allow = [{ actions = ["GetObject"], resources = ["public/*"] }]
//! ```
//!
//! A user has one pair of keys and, during a rotation, the previous pair in addition. `inactive`
//! lists those of its access keys that sign nothing. A table with `created` may have no keys yet.
//!
//! Tables `[[policy]]` have a `name` and a `document` (JSON of IAM). `policy` of a user, a group or
//! a role is a document, or a list of documents and names of policies. Tables `[[group]]` have a
//! `name` and `members`, the names of users. A table `inline_policies` of a user, a group or a role
//! has documents by their names, which belong to it alone.
//!
//! Tables `[[role]]` have a `name`, `allow` and `policy`, and `assumed_by`, the names
//! of users and roles. Tables `[[sealing_key]]` have the keys that seal the tokens of sessions; the
//! last one seals, all open. `sessions_after` of a user or a role ends the sessions that were
//! issued before.
//!
//! Tables `[[issuer]]` have the `url` of a provider of identities and the `audiences` of its
//! tokens, and may have a `ca_file` or a `keys_file`. `[[role.web_identity]]` names an `issuer`,
//! and the `condition` (JSON of IAM, keys `jwt:CLAIM`) that its tokens fulfil. Tables that calls of
//! IAM made have `created`: such an issuer may have no `audiences` yet, and `thumbprints` that are
//! kept for those who read them back; such a role may trust an issuer that was deleted since.
//!
//! Tables `[[service_account]]` have keys that belong to a `user`, with a `name`, and may have
//! `expires` and a `policy` that narrows what the user may do.
//!
//! A table `[user.quota]` limits the buckets that the user owns: `bytes = "10GiB"`, `objects`,
//! `uploads` and `buckets`.
//!
//! A table `[user.oidc]` names the people who act as this user in the console, after an OpenID
//! provider has vouched for them: `subjects` and `groups`, lists of names.
//!
//! `"*"` stands for all actions or all resources. A resource `bucket` is the bucket itself,
//! `bucket/key` one object, `bucket/prefix*` the objects whose keys begin with the prefix; neither
//! includes the other. A `*` at the end of a bucket name stands for all buckets with that prefix.
//! `@owned` stands for the buckets that the user created and all their objects, `@owned/prefix*`
//! for some of the objects. Actions without a grant are refused unless a bucket policy or an ACL
//! allows them. A grant without effect is an error.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;
use toml::value::Datetime;

use crate::auth::admission::{Admissions, OidcPerson, OidcTable};
use crate::auth::bucket_policy::{IdentityPolicy, PrincipalFacts};
use crate::auth::issuers::{IssuerTable, TrustedIssuer};
use crate::auth::managed_policies::{GroupTable, InlineTable, ManagedPolicies, PolicyTable};
use crate::auth::policy::Grant;
use crate::auth::roles::{AssumableRole, RoleTable};
use crate::auth::service_accounts::ServiceAccountTable;
use crate::auth::session::arn::{ACCOUNT, NameKind, assumed_role, federated_user};
use crate::auth::session::cache::OpenedSessions;
use crate::auth::session::origin::{SessionOrigin, SourceSession};
use crate::auth::session::token::{OpenedToken, SealingKey, SessionClaims};
use crate::auth::session::{SenderSession, SessionKind, SessionLimit};
use crate::auth::user::{Signer, User};
use crate::auth::user_quota::QuotaTable;
use crate::auth::users_fields::{AllowTable, FieldProblem, PlacedPair, checked, instant, is_name_char, pair};
use crate::auth::{Action, KeyPair};
use crate::base::{Quota, Timestamp, limits, line_of};
use crate::s3::acl::AclUser;
use crate::s3::{ErrorCode, S3Error};

const ADMINISTRATOR: &str = Users::ADMINISTRATOR;

/// An error in a users file. It never quotes a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct UsersError {
    /// The line, counted from 1.
    pub line: usize,
    pub problem: String,
}

/// The users of one version of the file.
#[derive(Debug)]
pub struct Users {
    by_access_key: HashMap<String, Arc<Signer>>,
    by_name: HashMap<String, Arc<User>>,
    roles: HashMap<String, AssumableRole>,
    policies: ManagedPolicies,
    issuers: Vec<TrustedIssuer>,
    /// In the order of the file: the last one seals.
    sealing_keys: Vec<SealingKey>,
    opened: OpenedSessions<Signer>,
    anonymous: Arc<User>,
    quotas: HashMap<String, Quota>,
    admissions: Admissions,
}

/// What a request says of the keys that signed it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PresentedKey<'r> {
    pub(super) access_key: &'r str,
    /// The token of a session.
    pub(super) token: Option<&'r str>,
}

impl Default for Users {
    /// No users, as in an empty file.
    fn default() -> Self {
        UsersBuilder::default().finish()
    }
}

impl Users {
    /// The name of the user that the first start creates, and of the one that the environment sets.
    pub const ADMINISTRATOR: &'static str = "admin";

    /// The name of the user of requests without a signature.
    pub const ANONYMOUS: &'static str = "anonymous";

    /// Parses a users file.
    ///
    /// # Errors
    /// The first problem: malformed TOML, an unknown key, action or resource, or a name or access
    /// key that is missing, malformed or repeated.
    pub fn parse(text: &str) -> Result<Self, UsersError> {
        let file: UsersTable = toml::from_str(text).map_err(|error| UsersError {
            line: line_of(text, &error.span().unwrap_or_default()),
            problem: error.message().to_owned(),
        })?;
        let mut reader = UsersBuilder::default();
        let read = reader.read(&file);
        read.map_err(|(at, problem)| UsersError { line: line_of(text, &at), problem })?;
        Ok(reader.finish())
    }

    /// The text of the first file: one administrator with all permissions, who signs with `keys`.
    pub fn first_file(keys: &KeyPair) -> String {
        format!(
            "# Who may do what. Read again on SIGHUP.\n\n[[user]]\nname = \"{ADMINISTRATOR}\"\naccess_key = {}\nsecret_key = {}\n\n\
             [[user.allow]]\nactions = [\"*\"]\nresources = [\"*\"]\n",
            toml::Value::from(keys.access_key.as_str()),
            toml::Value::from(keys.secret_key.reveal())
        )
    }

    /// These users with an administrator who signs with `keys` and has all permissions, in place of
    /// the one in the file. `keys` are valid in a users file.
    ///
    /// # Errors
    /// The access key belongs to another user, whom the message names.
    pub fn with_administrator(mut self, keys: KeyPair) -> Result<Self, String> {
        if self.roles.contains_key(ADMINISTRATOR) {
            return Err(format!("a role is called `{ADMINISTRATOR}`, as the administrator is"));
        }
        let of_administrator = self.by_access_key.extract_if(|_, it| it.user().name() == ADMINISTRATOR);
        let accounts: Vec<_> = of_administrator.filter(|(_, signer)| signer.session().is_some()).collect();
        let former = self.by_name.get(ADMINISTRATOR);
        let sessions_after = former.and_then(|user| user.sessions_after());
        let grants = vec![Grant::of_everything()];
        let administrator = Arc::new(User::of_kind(NameKind::User, ADMINISTRATOR, grants, sessions_after));
        self.by_name.insert(ADMINISTRATOR.to_owned(), Arc::clone(&administrator));
        self.admissions.replace_key(ADMINISTRATOR, &keys.access_key);
        for (access_key, account) in accounts {
            self.by_access_key.insert(access_key, Arc::new(account.of_user(&administrator)));
        }
        let signer = Arc::new(Signer::new(&administrator, &keys.access_key, keys.secret_key));
        match self.by_access_key.insert(keys.access_key, signer) {
            Some(other) => Err(format!(
                "the access key of `{ADMINISTRATOR}` belongs to `{}` already",
                other.user().name()
            )),
            None => Ok(self),
        }
    }

    /// The names of the users with a secret that is short enough to be guessed, sorted and without
    /// repetition.
    pub fn with_short_secrets(&self) -> BTreeSet<&str> {
        let signers = self.by_access_key.values();
        let short = signers.filter(|it| it.secret().reveal().len() < limits::SECRET_ADVISED_BYTES);
        short.map(|signer| signer.user().name()).collect()
    }

    /// The quotas, by the name of the user.
    pub fn quotas(&self) -> &HashMap<String, Quota> {
        &self.quotas
    }

    /// The names of those who may do everything, once for each of their keys.
    pub fn administrators(&self) -> impl Iterator<Item = &str> {
        let own = self.by_access_key.values().filter(|signer| signer.session().is_none());
        let users = own.map(|signer| signer.user());
        users.filter(|user| may_do_everything(user)).map(|user| user.name())
    }

    /// Whether somebody may do everything.
    pub fn has_administrator(&self) -> bool {
        self.administrators().next().is_some()
    }

    /// The keys of an administrator: of the one that the first start creates, or else of the first
    /// by access key.
    pub fn administrator_keys(&self) -> Option<KeyPair> {
        let own = self.by_access_key.iter().filter(|(_, signer)| signer.session().is_none());
        let all = own.filter(|(_, signer)| may_do_everything(signer.user()));
        let (access_key, signer) =
            all.min_by_key(|(access_key, it)| (it.user().name() != ADMINISTRATOR, (*access_key).clone()))?;
        Some(KeyPair { access_key: access_key.clone(), secret_key: signer.secret().clone() })
    }

    /// The access key of the user as whom a person acts.
    pub(super) fn access_key_of(&self, person: &OidcPerson) -> Option<&str> {
        self.admissions.access_key_of(person)
    }

    /// The user of an access key in a request, or the session of a token, at `now`. `spare` opens
    /// tokens as the keys of the file do.
    ///
    /// # Errors
    /// `InvalidAccessKeyId`; `InvalidToken` for a token that is none of this access key, or whose
    /// session was ended; `ExpiredToken`.
    pub(super) fn signer(
        &self,
        presented: PresentedKey<'_>,
        spare: Option<&SealingKey>,
        now: Timestamp,
    ) -> Result<Arc<Signer>, S3Error> {
        let PresentedKey { access_key, token } = presented;
        let Some(token) = token else {
            let signer = self.find(access_key);
            let signer = signer.filter(|signer| signer.session().is_none_or(|it| now < it.expires));
            return signer.cloned().ok_or_else(|| {
                S3Error::new(ErrorCode::InvalidAccessKeyId).element("AWSAccessKeyId", access_key)
            });
        };
        let signer = match self.opened.get(access_key, token) {
            Some(signer) => signer,
            None => {
                let opened = self.open(access_key, token, spare);
                let signer = Arc::new(opened.ok_or_else(|| S3Error::new(ErrorCode::InvalidToken))?);
                self.opened.keep(access_key, token, &signer);
                signer
            }
        };
        match signer.session().is_some_and(|session| now < session.expires) {
            true => Ok(signer),
            false => Err(S3Error::new(ErrorCode::ExpiredToken)),
        }
    }

    fn open(&self, access_key: &str, token: &str, spare: Option<&SealingKey>) -> Option<Signer> {
        let keys: Vec<_> = self.sealing_keys.iter().chain(spare).collect();
        let opened = SealingKey::open(token, keys.iter().copied())?;
        let OpenedToken { claims, secret, session } = opened;
        let counts = claims.access_key == access_key && self.still_counts(&claims.origin, &session, &keys);
        let user = self.principal(&session).filter(|_| counts)?;
        let limit = self.limit_of(&claims)?;
        let signer = Signer::new(user, access_key, secret);
        Some(signer.with_session(session_of(claims, user, limit, session)))
    }

    /// The role or user of a session.
    fn principal(&self, session: &SourceSession) -> Option<&Arc<User>> {
        match session.kind {
            SessionKind::Role => self.roles.get(&session.principal).map(|role| &role.user),
            SessionKind::User | SessionKind::Federated | SessionKind::ServiceAccount => {
                self.by_name.get(&session.principal)
            }
        }
    }

    /// Whether a session still counts, with everything that it came of. `keys` open tokens.
    fn still_counts(&self, origin: &SessionOrigin, session: &SourceSession, keys: &[&SealingKey]) -> bool {
        let mut caller = None;
        if let Some(access_key) = &origin.access_key {
            let first = origin.sessions.first().unwrap_or(session);
            let Some(signer) = self.find(access_key) else { return false };
            if !signer.user().keeps_sessions_of(first.issued()) {
                return false;
            }
            caller = Some(signer.user().name());
        }
        for session in origin.sessions.iter().chain([session]) {
            let is_sealed = keys.iter().any(|key| key.name() == session.sealed_by);
            let user = self.principal(session).filter(|user| user.keeps_sessions_of(session.issued()));
            if !is_sealed || user.is_none() || !self.is_entitled(session, caller) {
                return false;
            }
            caller = Some(session.principal.as_str());
        }
        true
    }

    /// Whether who asked for a session might ask for it again: the caller, or the issuer of a
    /// token. The caller is none in tokens that do not hold it.
    fn is_entitled(&self, session: &SourceSession, caller: Option<&str>) -> bool {
        if session.kind != SessionKind::Role {
            return caller.is_none_or(|caller| caller == session.principal);
        }
        let Some(role) = self.roles.get(&session.principal) else { return false };
        match &session.issuer {
            // With the issuer goes what its tokens were good for.
            Some(url) => {
                let issuer = self.issuers.iter().find(|issuer| issuer.url == *url);
                let is_known = issuer
                    .is_some_and(|issuer| issuer.created.is_none_or(|created| session.issued() > created));
                is_known && role.trusts(url).next().is_some()
            }
            None => caller.is_none_or(|caller| role.is_assumed_by(caller)),
        }
    }

    /// The policies that limit the session of a token; `None` where one cannot be read.
    fn limit_of(&self, claims: &SessionClaims) -> Option<SessionLimit> {
        let mut policies = Vec::new();
        if let Some(policy) = &claims.policy {
            policies.push(Arc::new(IdentityPolicy::parse(&policy.to_string()).ok()?));
        }
        policies.extend(claims.managed.iter().filter_map(|name| self.policies.get(name)).cloned());
        let is_limited = claims.policy.is_some() || !claims.managed.is_empty();
        // A federated user without a policy may do nothing.
        match is_limited || claims.kind == SessionKind::Federated {
            true => Some(SessionLimit::Policies(policies)),
            false => Some(SessionLimit::None),
        }
    }

    /// A policy by its name.
    pub(super) fn policy(&self, name: &str) -> Option<&Arc<IdentityPolicy>> {
        self.policies.get(name)
    }

    /// The key that seals the tokens of new sessions.
    pub(super) fn sealing_key(&self) -> Option<&SealingKey> {
        self.sealing_keys.last()
    }

    /// A role by its name.
    pub(super) fn role(&self, name: &str) -> Option<&AssumableRole> {
        self.roles.get(name)
    }

    /// The issuers whose tokens assume roles.
    pub fn issuers(&self) -> &[TrustedIssuer] {
        &self.issuers
    }

    /// The user of an access key, with its secret.
    pub(super) fn find(&self, access_key: &str) -> Option<&Arc<Signer>> {
        self.by_access_key.get(access_key)
    }

    /// The user of an access key of its own, which is of no service account.
    pub(super) fn find_own(&self, access_key: &str) -> Option<&Arc<Signer>> {
        self.find(access_key).filter(|signer| signer.session().is_none())
    }

    /// Goes on with the times at which the keys of `before` were used.
    pub(super) fn keep_uses_of(&self, before: &Self) {
        for (access_key, signer) in &self.by_access_key {
            if let Some(used) = before.find(access_key).and_then(|it| it.last_used()) {
                signer.note_use(used);
            }
        }
        for (name, user) in &self.by_name {
            if let Some(used) = before.named(name).and_then(|it| it.session_use().time()) {
                user.session_use().note(used);
            }
        }
    }

    /// The user of a name.
    pub(super) fn named(&self, name: &str) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    /// Whether there is a user of that name with a key.
    pub(super) fn has_signer(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|user| !user.is_anonymous())
    }

    /// The user or role of a name, as ACLs know it.
    pub(super) fn in_acls(&self, name: &str) -> Option<AclUser<'_>> {
        let user = self.by_name.get(name).filter(|user| !user.is_anonymous());
        let role = || self.role(name).map(|role| &role.user);
        user.or_else(role).map(|user| user.in_acls())
    }

    /// The user of unsigned requests; a user without grants if the file has none.
    pub(super) fn anonymous(&self) -> &Arc<User> {
        &self.anonymous
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsersTable {
    #[serde(default)]
    user: Vec<Spanned<UserTable>>,
    #[serde(default)]
    role: Vec<Spanned<RoleTable>>,
    #[serde(default)]
    group: Vec<GroupTable>,
    #[serde(default)]
    policy: Vec<PolicyTable>,
    #[serde(default)]
    service_account: Vec<ServiceAccountTable>,
    #[serde(default)]
    issuer: Vec<IssuerTable>,
    #[serde(default)]
    sealing_key: Vec<SealingKeyTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserTable {
    name: Spanned<String>,
    access_key: Option<Spanned<String>>,
    /// Of any type, so that no message about a wrong type quotes the value.
    secret_key: Option<Spanned<toml::Value>>,
    previous: Option<PairTable>,
    #[serde(default)]
    allow: Vec<AllowTable>,
    policy: Option<Spanned<toml::Value>>,
    quota: Option<Spanned<QuotaTable>>,
    oidc: Option<Spanned<OidcTable>>,
    sessions_after: Option<Spanned<Datetime>>,
    created: Option<Spanned<Datetime>>,
    key_created: Option<Spanned<Datetime>>,
    #[serde(default)]
    inactive: Vec<Spanned<String>>,
    #[serde(default)]
    inline_policies: InlineTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SealingKeyTable {
    /// Of any type, so that no message about a wrong type quotes the value.
    key: Spanned<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairTable {
    access_key: Spanned<String>,
    /// As [`UserTable::secret_key`].
    secret_key: Spanned<toml::Value>,
    created: Option<Spanned<Datetime>>,
}

/// Builds users from tables, and refuses repeated names and keys.
#[derive(Default)]
struct UsersBuilder {
    names: HashSet<String>,
    by_access_key: HashMap<String, Arc<Signer>>,
    /// The access keys that sign nothing, and that nobody else may have.
    inactive: HashSet<String>,
    /// The names of the users who are locked out: they have keys, and all of them are inactive.
    locked_out: HashSet<String>,
    by_name: HashMap<String, Arc<User>>,
    roles: HashMap<String, AssumableRole>,
    policies: ManagedPolicies,
    /// The policies that users have by their groups, by the name of the user.
    of_groups: HashMap<String, Vec<Arc<IdentityPolicy>>>,
    issuers: Vec<TrustedIssuer>,
    sealing_keys: Vec<SealingKey>,
    anonymous: Option<Arc<User>>,
    quotas: HashMap<String, Quota>,
    admissions: Admissions,
}

impl UsersBuilder {
    /// Reads a file: first what the other tables name.
    fn read(&mut self, file: &UsersTable) -> Result<(), FieldProblem> {
        for table in &file.policy {
            self.policies.add(table)?;
        }
        for table in &file.group {
            self.group(table)?;
        }
        for table in &file.user {
            self.user(table.as_ref())?;
        }
        self.service_accounts(file)?;
        self.check_groups(file)?;
        self.issuers(file)?;
        self.roles(file)?;
        self.sealing_keys(file)
    }

    fn group(&mut self, table: &GroupTable) -> Result<(), FieldProblem> {
        let mut policies = self.policies.of_field(table.policy.as_ref())?;
        policies.extend(ManagedPolicies::of_inline(&table.inline_policies)?);
        table.created.as_ref().map(instant).transpose()?;
        for member in &table.members {
            let of_groups = self.of_groups.entry(member.as_ref().clone()).or_default();
            of_groups.extend(policies.iter().cloned());
        }
        Ok(())
    }

    /// Checks the names of groups, and that their members are users, whose tables may come after
    /// those of the groups.
    fn check_groups(&mut self, file: &UsersTable) -> Result<(), FieldProblem> {
        for table in &file.group {
            for member in &table.members {
                let name = member.as_ref();
                // The administrator may come from the environment, and not from the file.
                let is_known = name == ADMINISTRATOR || self.by_name.contains_key(name);
                if name == Users::ANONYMOUS || !is_known {
                    return Err((member.span(), format!("there is no user `{name}` who could be a member")));
                }
            }
        }
        for table in &file.group {
            let name = checked(&table.name, "name", is_name_char)?;
            if name == Users::ANONYMOUS || !self.names.insert(name.to_owned()) {
                return Err((table.name.span(), format!("the name `{name}` of the group is taken")));
            }
        }
        Ok(())
    }

    fn user(&mut self, table: &UserTable) -> Result<(), FieldProblem> {
        let name = checked(&table.name, "name", |c| !c.is_control())?;
        if !self.names.insert(name.to_owned()) {
            return Err((table.name.span(), format!("the user `{name}` is there twice")));
        }
        let grants = table.allow.iter().map(AllowTable::grant).collect::<Result<_, _>>()?;
        if name == Users::ANONYMOUS {
            table.allow.iter().try_for_each(check_anonymous)?;
        }
        if let Some(quota) = &table.quota {
            let stated = quota.as_ref().quota_of(name).map_err(|problem| (quota.span(), problem))?;
            self.quotas.insert(name.to_owned(), stated);
        }
        let (pairs, inactive) = sorted_pairs(table)?;
        if let Some(oidc) = &table.oidc {
            let at = |problem: String| (oidc.span(), problem);
            let (_, keys) = pairs.first().ok_or_else(|| at(format!("the user `{name}` has no keys")))?;
            self.admissions.add(name, &keys.access_key, oidc.as_ref()).map_err(at)?;
        }
        let sessions_after = table.sessions_after.as_ref().map(instant).transpose()?;
        if let Some(created) = table.created.as_ref().filter(|_| name == Users::ANONYMOUS) {
            return Err((created.span(), "the user `anonymous` has no `created`".to_owned()));
        }
        let created = table.created.as_ref().map(instant).transpose()?;
        check_key_times(table)?;
        let mut policies = self.policies.of_field(table.policy.as_ref())?;
        policies.extend(ManagedPolicies::of_inline(&table.inline_policies)?);
        if name == Users::ANONYMOUS && !table.inline_policies.is_empty() {
            let problem = "the user `anonymous` has `allow`, and no `inline_policies`";
            return Err((table.name.span(), problem.to_owned()));
        }
        if let Some(field) = table.policy.as_ref().filter(|_| name == Users::ANONYMOUS) {
            return Err((field.span(), "the user `anonymous` has `allow`, and no `policy`".to_owned()));
        }
        policies.extend(self.of_groups.get(name).into_iter().flatten().cloned());
        let user = User::of_kind(NameKind::User, name, grants, sessions_after);
        let user = Arc::new(user.created_at(created).with_policies(policies));
        self.by_name.insert(name.to_owned(), Arc::clone(&user));
        if pairs.is_empty() && !inactive.is_empty() {
            self.locked_out.insert(name.to_owned());
        }
        for (at, KeyPair { access_key, secret_key }) in pairs {
            let signer = Arc::new(Signer::new(&user, &access_key, secret_key));
            self.claim_key(&access_key, at, name)?;
            self.by_access_key.insert(access_key, signer);
        }
        for (at, KeyPair { access_key, .. }) in inactive {
            self.claim_key(&access_key, at, name)?;
            self.inactive.insert(access_key);
        }
        if user.is_anonymous() {
            self.anonymous = Some(user);
        }
        Ok(())
    }

    /// Checks that nobody has an access key yet. `name` is who is to have it.
    fn claim_key(&self, access_key: &str, at: Range<usize>, name: &str) -> Result<(), FieldProblem> {
        match self.by_access_key.contains_key(access_key) || self.inactive.contains(access_key) {
            true => Err((at, format!("the access key of `{name}` is there already"))),
            false => Ok(()),
        }
    }

    fn service_accounts(&mut self, file: &UsersTable) -> Result<(), FieldProblem> {
        let mut names = HashSet::new();
        for table in &file.service_account {
            let name = checked(&table.name, "name", is_name_char)?;
            if !names.insert(name) {
                return Err((table.name.span(), format!("the service account `{name}` is there twice")));
            }
            let user = table.user.as_ref();
            let user =
                self.by_name.get(user).filter(|user| !user.is_anonymous()).ok_or_else(|| {
                    (table.user.span(), format!("there is no user `{user}` who could have it"))
                })?;
            let (at, signer) = table.signer(user, &self.policies)?;
            let access_key = signer.access_key().to_string();
            self.claim_key(&access_key, at, name)?;
            // Who is locked out does not come in by another door.
            if self.locked_out.contains(user.name()) {
                self.inactive.insert(access_key);
            } else {
                self.by_access_key.insert(access_key, Arc::new(signer));
            }
        }
        Ok(())
    }

    fn issuers(&mut self, file: &UsersTable) -> Result<(), FieldProblem> {
        for table in &file.issuer {
            let issuer = TrustedIssuer::of(table)?;
            if self.issuers.iter().any(|other| other.url == issuer.url) {
                return Err((table.url.span(), format!("the issuer `{}` is there twice", issuer.url)));
            }
            if self.issuers.len() == limits::ISSUERS_MAX {
                return Err((
                    table.url.span(),
                    format!("there are more than {} issuers", limits::ISSUERS_MAX),
                ));
            }
            self.issuers.push(issuer);
        }
        Ok(())
    }

    /// Reads the roles. One may name others that come after it.
    fn roles(&mut self, file: &UsersTable) -> Result<(), FieldProblem> {
        for table in &file.role {
            let table = table.as_ref();
            let role = AssumableRole::of(table, &self.policies)?;
            let name = role.user.name().to_owned();
            if name == Users::ANONYMOUS || !self.names.insert(name.clone()) {
                return Err((table.name.span(), format!("the name `{name}` of the role is taken")));
            }
            self.roles.insert(name, role);
        }
        for table in &file.role {
            // The administrator may come from the environment, and not from the file.
            let table = table.as_ref();
            let unknown = table.unknown(|name| {
                name == ADMINISTRATOR || name != Users::ANONYMOUS && self.names.contains(name)
            });
            if let Some(problem) = unknown {
                return Err(problem);
            }
            let issuer = table.unknown_issuer(|url| self.issuers.iter().any(|issuer| issuer.url == url));
            if let Some(problem) = issuer {
                return Err(problem);
            }
        }
        Ok(())
    }

    fn sealing_keys(&mut self, file: &UsersTable) -> Result<(), FieldProblem> {
        for table in &file.sealing_key {
            let key = table.key.as_ref().as_str().and_then(SealingKey::parse);
            let Some(key) = key else {
                return Err((table.key.span(), "a sealing key is 32 bytes in base64".to_owned()));
            };
            self.sealing_keys.push(key);
        }
        Ok(())
    }

    fn finish(self) -> Users {
        let anonymous = self.anonymous.unwrap_or_else(|| Arc::new(User::new(Users::ANONYMOUS, Vec::new())));
        Users {
            by_access_key: self.by_access_key,
            by_name: self.by_name,
            roles: self.roles,
            policies: self.policies,
            issuers: self.issuers,
            sealing_keys: self.sealing_keys,
            opened: OpenedSessions::default(),
            anonymous,
            quotas: self.quotas,
            admissions: self.admissions,
        }
    }
}

/// The session that a token stands for, with the rights of `user` and within a limit.
fn session_of(
    claims: SessionClaims,
    user: &User,
    limit: SessionLimit,
    source: SourceSession,
) -> SenderSession {
    let issued = claims.issued();
    let expires = claims.expires();
    let SessionClaims { kind, name, tags, token_claims, origin, .. } = claims;
    let origin_of_next = origin.followed_by(source);
    let of_user = user.facts();
    let with_name = format!("{}:{name}", of_user.id);
    let own = PrincipalFacts { tags, issued: Some(issued), claims: token_claims, ..of_user.clone() };
    let (arn, facts) = match kind {
        SessionKind::User | SessionKind::ServiceAccount => (of_user.arn.clone(), own),
        SessionKind::Role => (
            assumed_role(user.name(), &name),
            PrincipalFacts { id: with_name, kind: "AssumedRole", user_name: None, ..own },
        ),
        SessionKind::Federated => {
            let arn = federated_user(&name);
            let id = format!("{ACCOUNT}:{name}");
            (arn.clone(), PrincipalFacts { arn, id, kind: "FederatedUser", user_name: None, ..own })
        }
    };
    let session_arn = (kind != SessionKind::User).then(|| arn.clone());
    let facts = PrincipalFacts { session_arn, ..facts };
    SenderSession { kind, arn, facts, limit, expires, origin_of_next }
}

/// The pairs of keys of a user: the current one and, if present, the previous one; none for the
/// anonymous user.
fn pairs_of(table: &UserTable) -> Result<Vec<PlacedPair>, FieldProblem> {
    let name = table.name.as_ref();
    match (&table.access_key, &table.secret_key, &table.previous) {
        (None, None, None) if name == Users::ANONYMOUS => Ok(Vec::new()),
        // The administrator of the environment has its keys there, and the end of its sessions
        // here.
        (None, None, None) if name == ADMINISTRATOR && table.sessions_after.is_some() => Ok(Vec::new()),
        // A user that IAM's calls made gets its keys later. Nobody forgets them in a table with
        // `created`.
        (None, None, None) if name != Users::ANONYMOUS && table.created.is_some() => Ok(Vec::new()),
        _ if name == Users::ANONYMOUS => {
            Err((table.name.span(), "the user `anonymous` has no keys".to_owned()))
        }
        (Some(access_key), Some(secret_key), previous) => {
            let previous = previous.as_ref().map(|pair| (&pair.access_key, &pair.secret_key));
            let pairs = std::iter::once((access_key, secret_key)).chain(previous);
            pairs.map(|(access_key, secret_key)| pair(access_key, secret_key)).collect()
        }
        _ => Err((table.name.span(), format!("the user `{name}` needs an access_key and a secret_key"))),
    }
}

/// The pairs of keys of a user: those that sign, and those that do not.
fn sorted_pairs(table: &UserTable) -> Result<(Vec<PlacedPair>, Vec<PlacedPair>), FieldProblem> {
    let all = pairs_of(table)?;
    for named in &table.inactive {
        if !all.iter().any(|(_, pair)| pair.access_key == *named.as_ref()) {
            let problem = format!("`inactive` names `{}`, which is no key of the user", named.as_ref());
            return Err((named.span(), problem));
        }
    }
    Ok(all.into_iter().partition(|(_, pair)| !is_inactive(table, pair)))
}

/// Refuses times of keys that are none. Nothing else here needs them: they are for people.
fn check_key_times(table: &UserTable) -> Result<(), FieldProblem> {
    let of_previous = table.previous.as_ref().and_then(|pair| pair.created.as_ref());
    for time in table.key_created.iter().chain(of_previous) {
        instant(time)?;
    }
    Ok(())
}

fn is_inactive(table: &UserTable, pair: &KeyPair) -> bool {
    table.inactive.iter().any(|named| *named.as_ref() == pair.access_key)
}

/// Refuses actions that the anonymous user is never allowed.
fn check_anonymous(table: &AllowTable) -> Result<(), FieldProblem> {
    match table.actions.iter().find(|action| action.as_ref() == Action::CreateBucket.as_str()) {
        Some(action) => Err((action.span(), "buckets are never created without a signature".to_owned())),
        None => Ok(()),
    }
}

/// Whether it is an administrator to whom nothing is denied: a denial may be one of administration.
fn may_do_everything(user: &User) -> bool {
    user.is_administrator() && !user.has_denial()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{PolicyContext, PolicyDecision, Resource, Secret};
    use crate::base::SeededEntropy;

    /// The example in the documentation of this module.
    fn documented() -> String {
        let source = include_str!("users.rs");
        let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
        let inside = lines.skip_while(|line| !line.contains("```toml")).skip(1);
        inside.take_while(|line| !line.contains("```")).map(|line| format!("{}\n", line.trim())).collect()
    }

    #[test]
    fn the_documented_file_means_what_it_says() {
        let users = Users::parse(&documented()).unwrap();
        let backup = users.find("AKIAIOSFODNN7EXAMPLE").unwrap().user();
        assert!(Arc::ptr_eq(backup, users.find("AKIAI44QH8DHBEXAMPLE").unwrap().user()));
        assert_eq!((backup.name(), backup.is_anonymous()), ("backup", false));
        assert!(backup.may(Action::ListBucket, Resource::Bucket("archive"), &|| false));
        let object = |key| Resource::Object { bucket: "archive", key };
        assert!(backup.may(Action::PutObject, object("2026/x"), &|| false));
        assert!(!backup.may(Action::PutObject, object("2025/x"), &|| false));
        assert!(!backup.may(Action::DeleteObject, object("2026/x"), &|| false));
        let public = Resource::Object { bucket: "public", key: "x" };
        assert!(users.anonymous().may(Action::GetObject, public, &|| false));
        assert!(users.find("AKIAIOSFODNN7EXAMPLF").is_none());
    }

    #[test]
    fn keys_that_rest_sign_nothing_and_are_nobody_elses() {
        let text = documented().replace(
            "[[user.allow]]\nactions = [\"ListBucket\"]",
            "inactive = [\"AKIAIOSFODNN7EXAMPLE\"]\n\n[[user.allow]]\nactions = [\"ListBucket\"]",
        );
        let users = Users::parse(&text).unwrap();
        assert!(users.find("AKIAIOSFODNN7EXAMPLE").is_none());
        assert_eq!(users.find("AKIAI44QH8DHBEXAMPLE").unwrap().user().name(), "backup");
        for key in ["AKIAIOSFODNN7EXAMPLE", "AKIAI44QH8DHBEXAMPLE"] {
            let other = format!("[[user]]\nname = \"x\"\naccess_key = \"{key}\"\nsecret_key = \"s\"\n");
            assert!(refusal(&format!("{text}\n{other}")).1.contains("is there already"));
        }
        let wrong = text.replace("inactive = [\"AKIAIOSFODNN7EXAMPLE\"]", "inactive = [\"AK1\"]");
        assert!(refusal(&wrong).1.contains("no key of the user"));
    }

    #[test]
    fn a_table_with_its_creation_may_have_no_keys() {
        let bare = "[[user]]\nname = \"bare\"\n";
        assert!(refusal(bare).1.contains("needs an access_key"));
        let created = format!("{bare}created = 2026-01-31T12:00:00Z\n");
        let users = Users::parse(&created).unwrap();
        assert!(users.has_signer("bare") && !users.has_administrator());
        assert!(refusal(&format!("{created}access_key = \"AK1\"\n")).1.contains("needs an access_key"));
        let previous = "previous = { access_key = \"AK1\", secret_key = \"s\" }\n";
        assert!(refusal(&format!("{created}{previous}")).1.contains("needs an access_key"));
        assert!(refusal(&created.replace("bare", "anonymous")).1.contains("created"), "not of anonymous");
    }

    #[test]
    fn policies_of_one_count_and_have_names() {
        let user = "[[user]]\nname = \"ann\"\naccess_key = \"AK1\"\nsecret_key = \"s\"\n";
        let everything = "'{\"Statement\": {\"Effect\": \"Allow\", \"Action\": \"*\", \"Resource\": \"*\"}}'";
        let own = format!("[user.inline_policies]\nall = {everything}\n");
        let of_group = format!(
            "[[group]]\nname = \"g\"\nmembers = [\"ann\"]\n[group.inline_policies]\n\"a.b\" = {everything}\n"
        );
        for text in [format!("{user}{own}"), format!("{user}{of_group}")] {
            assert!(Users::parse(&text).unwrap().has_administrator(), "{text}");
        }
        for wrong in [
            format!("{user}{}", own.replace("all =", "\"a/b\" =")),
            format!("{user}{}", own.replace("Allow", "Permit")),
            format!("[[user]]\nname = \"anonymous\"\n{own}"),
            format!("{user}{}", of_group.replace("\"a.b\"", "\"\"")),
        ] {
            assert!(Users::parse(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn anonymous_requests_never_create_buckets() {
        let granted = |action: &str| {
            format!(
                "[[user]]\nname = \"anonymous\"\n[[user.allow]]\nactions = [\"{action}\"]\nresources = [\"*\"]"
            )
        };
        let users = Users::parse(&granted("*")).unwrap();
        assert!(!users.anonymous().may(Action::CreateBucket, Resource::Bucket("b"), &|| false));
        assert!(users.anonymous().may(Action::DeleteBucket, Resource::Bucket("b"), &|| false));
        assert_eq!(
            refusal(&granted("CreateBucket")),
            (4, "buckets are never created without a signature".to_owned())
        );
    }

    #[test]
    fn without_an_anonymous_user_unsigned_requests_may_do_nothing() {
        let users = Users::parse("").unwrap();
        assert!(users.anonymous().is_anonymous());
        for &action in Action::ALL {
            assert!(!users.anonymous().may(action, Resource::Bucket("b"), &|| false));
        }
    }

    #[test]
    fn the_first_file_has_an_administrator_with_all_permissions() {
        let keys = KeyPair::generate(&SeededEntropy::new(1));
        let users = Users::parse(&Users::first_file(&keys)).unwrap();
        assert!(*users.find(&keys.access_key).unwrap().secret() == keys.secret_key);
        let admin = users.find(&keys.access_key).unwrap().user();
        assert_eq!(admin.name(), "admin");
        for &action in Action::ALL {
            assert!(admin.may(action, Resource::Object { bucket: "b", key: "k" }, &|| false), "{action}");
        }
    }

    #[test]
    fn keys_chosen_by_the_operator_are_quoted_in_the_first_file() {
        let keys = KeyPair { access_key: "a\"b".to_owned(), secret_key: Secret::new("c\\d\"\n'''é") };
        let users = Users::parse(&Users::first_file(&keys)).unwrap();
        assert!(*users.find("a\"b").unwrap().secret() == keys.secret_key);
    }

    #[test]
    fn the_environment_replaces_the_administrator_and_no_other_user() {
        let keys =
            |access_key: &str| KeyPair { access_key: access_key.to_owned(), secret_key: Secret::new("s") };
        let users = || Users::parse(&file(&[("admin", "AK1"), ("other", "AK2")], "")).unwrap();
        for access_key in ["AK1", "AK3"] {
            let users = users().with_administrator(keys(access_key)).unwrap();
            assert!(*users.find(access_key).unwrap().secret() == Secret::new("s"));
            let admin = users.find(access_key).unwrap().user();
            assert_eq!(admin.name(), "admin");
            assert!(admin.may(Action::CreateBucket, Resource::Bucket("b"), &|| false));
            assert_eq!(users.find("AK1").is_some(), access_key == "AK1");
            assert_eq!(users.find("AK2").unwrap().user().name(), "other");
        }
        assert!(users().with_administrator(keys("AK2")).unwrap_err().contains("`other`"));
    }

    /// A file of users given as (name, access key), four lines each, followed by `rest`.
    fn file(users: &[(&str, &str)], rest: &str) -> String {
        let users = users.iter().map(|(name, access_key)| {
            format!("[[user]]\nname = {name:?}\naccess_key = {access_key:?}\nsecret_key = \"s3cr3t\"\n")
        });
        users.chain([rest.to_owned()]).collect()
    }

    fn refusal(text: &str) -> (usize, String) {
        let error = Users::parse(text).unwrap_err();
        (error.line, error.problem)
    }

    #[test]
    fn a_name_or_access_key_used_twice_is_refused_by_line() {
        let (line, problem) = refusal(&file(&[("a", "AK1"), ("a", "AK2")], ""));
        assert_eq!((line, problem.as_str()), (6, "the user `a` is there twice"));
        let (line, problem) = refusal(&file(&[("a", "AK1"), ("b", "AK1")], ""));
        assert_eq!((line, problem.as_str()), (7, "the access key of `b` is there already"));
        for previous in ["AK1", "AK2"] {
            let rest = format!("previous = {{ access_key = \"{previous}\", secret_key = \"s\" }}\n");
            let (line, problem) = refusal(&file(&[("a", "AK1"), ("b", "AK2")], &rest));
            assert_eq!((line, problem.as_str()), (9, "the access key of `b` is there already"));
        }
    }

    #[test]
    fn a_user_signs_with_either_of_its_pairs_and_each_has_keys_of_its_own() {
        let previous = "[user.previous]\naccess_key = \"AK0\"\nsecret_key = \"s0\"\n";
        let users = Users::parse(&file(&[("a", "AK1")], previous)).unwrap();
        let key = |access_key: &str| {
            let signer = users.find(access_key).unwrap();
            assert_eq!(signer.user().name(), "a");
            signer.signing_key("20130524", "eu", "s3").sign(&[b"x"])
        };
        assert_ne!(key("AK0"), key("AK1"));
        assert_eq!(key("AK0"), key("AK0"));
        assert_eq!(refusal(&file(&[("a", "AK1")], "previous = { access_key = \"AK0\" }\n")).0, 5);
        let anonymous =
            "[[user]]\nname = \"anonymous\"\n[user.previous]\naccess_key = \"A\"\nsecret_key = \"s\"\n";
        assert_eq!(refusal(anonymous), (2, "the user `anonymous` has no keys".to_owned()));
    }

    #[test]
    fn short_secrets_are_reported_by_user() {
        let text = file(&[("long", "AK1"), ("short", "AK2"), ("shorter", "AK3")], "").replacen(
            "s3cr3t",
            &"x".repeat(limits::SECRET_ADVISED_BYTES),
            1,
        );
        assert!(Users::parse(&text).unwrap().with_short_secrets().into_iter().eq(["short", "shorter"]));
    }

    #[test]
    fn unknown_keys_are_refused_by_line() {
        for (rest, line) in [
            ("admin = true\n", 5),
            ("[[user.allow]]\nactions = []\nresources = []\neffect = \"Deny\"\n", 8),
            ("[[groups]]\n", 5),
        ] {
            let (at, problem) = refusal(&file(&[("a", "AK1")], rest));
            assert_eq!(at, line, "{rest}");
            assert!(problem.contains("unknown field"), "{problem}");
        }
    }

    #[test]
    fn unknown_actions_and_resources_are_refused_by_line() {
        let allow = "[[user.allow]]\nactions = [\n\"GetObject\",\n\"Get\"]\nresources = []\n";
        assert_eq!(refusal(&file(&[("a", "AK1")], allow)), (8, "there is no action `Get`".to_owned()));
        let allow = "[[user.allow]]\nactions = []\nresources = [\"*b\"]\n";
        assert_eq!(refusal(&file(&[("a", "AK1")], allow)).0, 7);
    }

    #[test]
    fn roles_are_named_once_and_assumed_by_those_who_are_there() {
        let role = |rest: &str| file(&[("a", "AK1")], &format!("[[role]]\nname = \"r\"\n{rest}\n"));
        let users = Users::parse(&role("assumed_by = [\"a\", \"r\"]")).unwrap();
        let role_of = |name: &str| users.role(name).map(|role| role.is_assumed_by("a"));
        assert_eq!((role_of("r"), role_of("a")), (Some(true), None));
        let role_named = users.role("r").unwrap();
        assert!(!role_named.is_assumed_by("b") && role_named.user.is_role());
        // The administrator of the environment is not in the file.
        assert!(Users::parse(&role("assumed_by = [\"admin\"]")).is_ok());
        for (rest, line, named) in [
            ("assumed_by = [\n\"b\"]", 8, "no user and no role `b`"),
            ("assumed_by = [\"anonymous\"]", 7, "`anonymous`"),
            ("assumed_by = []\nmax_duration = \"13h\"", 8, "`15m` to `12h`"),
            ("assumed_by = []\nmax_duration = \"14m\"", 8, "`15m` to `12h`"),
            ("assumed_by = []\nsessions_after = 2026-01-31", 8, "is not a time"),
            ("assumed_by = []\npolicy = \"{}\"", 8, "`Statement` is missing"),
            ("assumed_by = []\naccess_key = \"x\"", 8, "unknown field"),
            ("assumed_by = []\n[[role]]\nname = \"r\"\nassumed_by = []", 9, "`r` of the role is taken"),
            ("assumed_by = []\n[[role]]\nname = \"a\"\nassumed_by = []", 9, "`a` of the role is taken"),
            ("assumed_by = []\n[[role]]\nname = \"a/b\"\nassumed_by = []", 9, "may not hold '/'"),
            ("", 6, "needs `assumed_by` or `web_identity`"),
        ] {
            let (at, problem) = refusal(&role(rest));
            assert!(at == line && problem.contains(named), "{rest}: {at} {problem}");
        }
        let keys = KeyPair { access_key: "AK2".to_owned(), secret_key: Secret::new("s") };
        let named_admin = Users::parse("[[role]]\nname = \"admin\"\nassumed_by = []\n").unwrap();
        assert!(named_admin.with_administrator(keys).unwrap_err().contains("role"));
    }

    #[test]
    fn users_have_their_policies_and_those_of_their_groups() {
        let object = |bucket| Resource::Object { bucket, key: "k" };
        let policy = "[[policy]]\nname = \"lake\"\ndocument = '{\"Statement\": {\"Effect\": \"Allow\", \"Action\": \"s3:*\", \"Resource\": \"arn:aws:s3:::lake/*\"}}'\n";
        let group = |rest: &str| format!("[[group]]\nname = \"team\"\n{rest}\n");
        let own = "policy = [\"readonly\", '{\"Statement\": {\"Effect\": \"Deny\", \"Action\": \"*\", \"Resource\": \"arn:aws:s3:::secret/*\"}}']\n";
        let text = file(&[("b", "AK2"), ("a", "AK1")], own);
        let text = text + &group("members = [\"a\"]\npolicy = [\"lake\"]") + policy;
        let users = Users::parse(&text).unwrap();
        let decide = |key: &str, action, bucket| {
            let user = users.find(key).unwrap().user();
            user.decide(action, object(bucket), &PolicyContext::default())
        };
        for (key, action, bucket, expected) in [
            ("AK1", Action::GetObject, "x", PolicyDecision::Allow),
            ("AK1", Action::PutObject, "x", PolicyDecision::NoMatch),
            ("AK1", Action::PutObject, "lake", PolicyDecision::Allow),
            ("AK1", Action::GetObject, "secret", PolicyDecision::Deny),
            ("AK2", Action::GetObject, "lake", PolicyDecision::NoMatch),
        ] {
            assert_eq!(decide(key, action, bucket), expected, "{key} {action} {bucket}");
        }
        assert!(!users.find("AK2").unwrap().user().has_policies());
        let refused = |rest: &str| refusal(&file(&[("a", "AK1")], rest));
        for (rest, line, named) in [
            ("policy = [\"lakes\"]\n".to_owned(), 5, "no policy `lakes`"),
            ("policy = [7]\n".to_owned(), 5, "no policy ``"),
            ("policy = 7\n".to_owned(), 5, "a document, or a list"),
            ("policy = \"{}\"\n".to_owned(), 5, "`Statement` is missing"),
            ("policy = \"readonly\"\n".to_owned(), 5, "the policy: "),
            (policy.repeat(2), 9, "`lake` is there already"),
            (policy.replace("lake\"\n", "readonly\"\n"), 6, "`readonly` is there already"),
            (policy.replace("lake\"\n", "a/b\"\n"), 6, "may not hold '/'"),
            (group("members = [\n\"b\"]"), 8, "no user `b`"),
            (group("members = [\"anonymous\"]"), 7, "no user `anonymous`"),
            (group("policy = [\"lake\"]"), 7, "no policy `lake`"),
            (group("").replace("team", "a"), 6, "`a` of the group is taken"),
            (group("") + &group(""), 9, "`team` of the group is taken"),
            (group("") + "[[role]]\nname = \"team\"\nassumed_by = []\n", 9, "`team` of the role is taken"),
            ("[[user]]\nname = \"anonymous\"\npolicy = [\"readonly\"]\n".to_owned(), 7, "no `policy`"),
        ] {
            let (at, problem) = refused(&rest);
            assert!(at == line && problem.contains(named), "{rest}: {at} {problem}");
        }
        // The administrator of the environment is not in the file.
        assert!(Users::parse(&group("members = [\"admin\"]")).is_ok());
        assert!(refused("policy = 'x'\n").1.len() < 200);
    }

    #[test]
    fn who_may_do_everything_by_a_policy_is_an_administrator() {
        let is_one = |rest: &str| {
            let users = Users::parse(&file(&[("a", "AK1")], rest)).unwrap();
            users.find("AK1").unwrap().user().is_administrator()
        };
        assert!(is_one("policy = [\"consoleAdmin\"]\n"));
        assert!(is_one("[[group]]\nname = \"g\"\nmembers = [\"a\"]\npolicy = [\"consoleAdmin\"]\n"));
        assert!(!is_one("policy = [\"readwrite\"]\n") && !is_one("policy = [\"diagnostics\"]\n"));
        let denial = "'{\"Statement\": {\"Effect\": \"Deny\", \"Action\": \"s3:*\", \"Resource\": \"*\"}}'";
        assert!(!is_one(&format!("policy = [\"consoleAdmin\", {denial}]\n")));
    }

    #[test]
    fn issuers_are_named_once_and_trusted_under_a_condition() {
        let issuer =
            |rest: &str| format!("[[issuer]]\nurl = \"https://id.example\"\naudiences = [\"sts\"]\n{rest}\n");
        let role = |trust: &str| {
            issuer(&format!(
                "[[role]]\nname = \"ci\"\n[[role.web_identity]]\nissuer = \"https://id.example\"\n{trust}\n"
            ))
        };
        let users = Users::parse(&role("condition = '{\"StringEquals\": {\"jwt:sub\": \"a\"}}'")).unwrap();
        let role_named = users.role("ci").unwrap();
        assert!(!role_named.is_assumed_by("ci"));
        assert_eq!(role_named.trusts("https://id.example").count(), 1);
        assert_eq!(role_named.trusts("https://id.example/").count(), 0);
        for (text, line, named) in [
            (role(""), 6, "missing field `condition`"),
            (role("condition = '{\"StringEquals\": {\"jwt:aud\": \"sts\"}}'"), 8, "beside `aud`"),
            (role("condition = '{}'"), 8, "beside `aud`"),
            (
                role("condition = '{\"StringEquals\": {\"jwt:sub\": \"a\"}}'")
                    .replacen(".example", ".other", 1),
                7,
                "no issuer `https://id.example`",
            ),
            (issuer("") + &issuer(""), 6, "is there twice"),
            (issuer("keys_file = \"keys.json\""), 4, "begins with `/`"),
            (issuer("keys_file = \"/k\"\nca_file = \"/c\""), 5, "beside `keys_file`"),
            (issuer("").replace("https", "http"), 2, "must begin with https://"),
            (issuer("").replace("\"sts\"", ""), 3, "names whom tokens are for"),
            (issuer("").replace("\"sts\"", "\"\""), 3, "names whom tokens are for"),
            (issuer("client_id = \"x\""), 4, "unknown field"),
        ] {
            let (at, problem) = refusal(&text);
            assert!(at == line && problem.contains(named), "{text}: {at} {problem}");
        }
        for url in ["urn:cluster", "http://id.example"] {
            let text = issuer("keys_file = \"/k\"").replace("https://id.example", url);
            assert_eq!(Users::parse(&text).unwrap().issuers()[0].url, url);
        }
        let many: String = (0..17).map(|n| issuer("").replace("id.", &format!("id{n}."))).collect();
        assert!(refusal(&many).1.contains("more than 16"));
    }

    #[test]
    fn sealing_keys_are_not_quoted_and_the_last_one_seals() {
        let key = |seed: u64| SealingKey::generate(&SeededEntropy::new(seed));
        let table = |text: &str| format!("[[sealing_key]]\nkey = {text}\n");
        let of = |seed: u64| table(&format!("{:?}", key(seed).reveal()));
        let users = Users::parse(&(of(1) + &of(2))).unwrap();
        assert_eq!(users.sealing_key().map(SealingKey::reveal), Some(key(2).reveal()));
        assert!(!format!("{users:?}").contains(&key(2).reveal()));
        for text in ["8675309", "\"8675309\"", "['8675309']"] {
            let error = Users::parse(&table(text)).unwrap_err();
            assert_eq!(
                (error.line, error.problem.as_str()),
                (2, "a sealing key is 32 bytes in base64"),
                "{text}"
            );
        }
    }

    #[test]
    fn grants_without_effect_are_refused_by_line() {
        let refusal = |actions: &str, resources: &str| {
            let allow = format!("[[user.allow]]\nactions = [{actions}]\nresources = [{resources}]\n");
            refusal(&file(&[("a", "AK1")], &allow))
        };
        let (line, problem) = refusal("\"ListBucket\",\n\"GetObject\"", "\"b\"");
        assert!(line == 7 && problem.contains("`GetObject` does nothing here"), "{line} {problem}");
        let (line, problem) = refusal("\"GetObject\"", "\"b/*\",\n\"c\"");
        assert!(line == 8 && problem.contains("`c/*`"), "{line} {problem}");
        let (line, problem) = refusal("\"ListBucket\"", "\"b/key\"");
        assert!(line == 6 && problem.contains("`bucket/prefix*`"), "{line} {problem}");
        for (actions, resources) in [("", "'b'"), ("'GetObject'", ""), ("'*'", "'b/k', 'b', 'c*'")] {
            let allow = format!("[[user.allow]]\nactions = [{actions}]\nresources = [{resources}]\n");
            assert!(Users::parse(&file(&[("a", "AK1")], &allow)).is_ok(), "{actions} on {resources}");
        }
    }

    #[test]
    fn keys_are_there_for_everybody_but_the_anonymous() {
        assert_eq!(refusal(&file(&[("anonymous", "AK1")], "")).0, 2);
        assert_eq!(refusal("\n[[user]]\nname = \"a\"\n").0, 3);
        assert_eq!(refusal("[[user]]\nname = \"a\"\naccess_key = \"AK\"\n").0, 2);
        assert_eq!(refusal("[[user]]\naccess_key = \"AK\"\nsecret_key = \"s\"\n").1, "missing field `name`");
    }

    #[test]
    fn the_administrator_of_the_environment_has_a_table_without_keys() {
        let after = "[[user]]\nname = \"admin\"\nsessions_after = 2026-01-31T12:00:00Z\n";
        let keys = KeyPair { access_key: "AK".to_owned(), secret_key: Secret::new("s") };
        let users = Users::parse(after).unwrap().with_administrator(keys).unwrap();
        let ended = users.find("AK").unwrap().user().sessions_after();
        assert_eq!(ended.map(Timestamp::to_iso8601).as_deref(), Some("2026-01-31T12:00:00.000Z"));
        assert_eq!(refusal("[[user]]\nname = \"admin\"\n").0, 2);
        assert_eq!(refusal(&after.replace("admin", "ann")).0, 2);
    }

    #[test]
    fn access_keys_that_no_request_could_name_are_refused() {
        for access_key in ["", "a b", "a/b", "a,b", "é", &"a".repeat(129)] {
            assert_eq!(refusal(&file(&[("a", access_key)], "")).0, 3, "{access_key}");
        }
    }

    #[test]
    fn no_error_and_no_debug_output_quotes_a_secret() {
        let with =
            |value: &str| format!("[[user]]\nname = \"a\"\naccess_key = \"AK\"\nsecret_key = {value}\n");
        for value in [
            "8675309",
            "['8675309']",
            "\"8675309",
            "8675309x",
            "\"8675309\\q\"",
            "8675309 8675309",
            "\"8675309\"\nsecret_key = \"8675309\"",
        ] {
            let error = Users::parse(&with(value)).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("8675309"), "{value}: {error}");
            assert!((4..=5).contains(&error.line), "{value}: {error}");
        }
        for value in ["8675309", "\"8675309"] {
            let previous = format!("\"s\"\nprevious = {{ access_key = \"A\", secret_key = {value} }}");
            let error = Users::parse(&with(&previous)).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("8675309"), "{value}: {error}");
            assert_eq!(error.line, 5);
        }
        let users = Users::parse(&with("\"8675309\"")).unwrap();
        assert!(!format!("{users:?}").contains("8675309"));
    }
}
