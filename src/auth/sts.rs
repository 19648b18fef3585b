//! Who may have a session of what (STS API reference): the rules of the calls that hand out keys
//! for a while. No call gives its caller more than it has, nor a session more than it was given.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::Value;

use crate::auth::bucket_policy::{IdentityPolicy, TrustConditions};
use crate::auth::keys::session_access_key;
use crate::auth::session::SessionKind;
use crate::auth::session::arn::{ACCOUNT, NameKind, assumed_role, federated_user, policy_of, role_of};
use crate::auth::session::origin::SessionOrigin;
use crate::auth::session::token::{SessionClaims, SessionTimes};
use crate::auth::users_fields::is_name_char;
use crate::auth::{
    Action, Authenticator, Identity, KeyPair, PolicyContext, PrincipalFacts, TokenClaim, TrustedIssuer,
    Users, WebIdentity,
};
use crate::base::limits::{
    CHAINED_SESSION_MAX_SECS, SESSION_MIN_SECS, SESSION_POLICIES_MAX, SESSION_POLICY_MAX_CHARS,
    SESSION_TAGS_MAX, SESSION_TOKEN_MAX_BYTES, TAG_KEY_LEN_MAX_CHARS, TAG_VALUE_LEN_MAX_CHARS,
    USER_SESSION_MAX_SECS,
};
use crate::base::{Entropy, Timestamp};
use crate::s3::CallError;

/// The session of a user without another duration (STS API reference, GetSessionToken).
const USER_SESSION_SECS: u64 = 12 * 60 * 60;
/// The lengths of names of sessions (STS API reference, AssumeRole and GetFederationToken).
const ROLE_SESSION_NAME_CHARS: RangeInclusive<usize> = 2..=64;
const FEDERATED_NAME_CHARS: RangeInclusive<usize> = 2..=32;

/// What is asked of AssumeRole.
#[derive(Debug, Clone, Default)]
pub struct RoleRequest<'r> {
    /// The ARN of the role, of any account.
    pub role_arn: &'r str,
    pub session_name: &'r str,
    pub external_id: Option<&'r str>,
    pub duration_secs: Option<u64>,
    /// The session policy.
    pub policy: Option<&'r str>,
    /// The ARNs of policies of the users file that limit the session, too.
    pub policy_arns: Vec<&'r str>,
    pub tags: Vec<(String, String)>,
}

/// What is asked of AssumeRoleWithWebIdentity, beside the token.
#[derive(Debug, Clone, Default)]
pub struct TokenRoleRequest<'r> {
    /// The ARN of the role, of any account.
    pub role_arn: &'r str,
    pub session_name: &'r str,
    pub duration_secs: Option<u64>,
    /// The session policy.
    pub policy: Option<&'r str>,
    /// The ARNs of policies of the users file that limit the session, too.
    pub policy_arns: Vec<&'r str>,
    /// The address of the client.
    pub source_ip: Option<IpAddr>,
    /// Whether the connection is encrypted.
    pub secure: bool,
}

/// What is asked of GetFederationToken.
#[derive(Debug, Clone, Default)]
pub struct FederationRequest<'r> {
    /// The name of the federated user.
    pub name: &'r str,
    pub duration_secs: Option<u64>,
    /// The session policy. Without any, the session may do nothing by itself.
    pub policy: Option<&'r str>,
    /// The ARNs of policies of the users file that limit the session, too.
    pub policy_arns: Vec<&'r str>,
    pub tags: Vec<(String, String)>,
}

/// A new session, as it is shown once. It has no `Debug`, since it is secret.
pub struct IssuedSession {
    pub keys: KeyPair,
    pub token: String,
    pub expires: Timestamp,
    /// The ARN of the session; that of the user for GetSessionToken.
    pub arn: String,
    /// The unique id of its role with the name of the session; of a federated user that of the
    /// account.
    pub id: String,
    /// How much of a token it takes, in percent.
    pub packed_percent: usize,
}

/// Who a sender is, in the words of IAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerIdentity {
    pub arn: String,
    pub id: String,
    pub account: &'static str,
}

impl Identity {
    /// Who the sender is.
    pub fn caller(&self) -> CallerIdentity {
        let (arn, id) = match self.session() {
            Some(session) => (session.arn().to_owned(), session.id().to_owned()),
            None => (NameKind::User.arn(self.name()), self.principal().map_or("", |it| &it.id).to_owned()),
        };
        CallerIdentity { arn, id, account: ACCOUNT }
    }
}

/// A session that is about to be sealed.
struct NewSession<'r> {
    kind: SessionKind,
    /// The name of the role or user.
    principal: &'r str,
    name: &'r str,
    duration_secs: u64,
    policy: Option<&'r str>,
    policy_arns: &'r [&'r str],
    tags: &'r [(String, String)],
    /// The token of a provider by which a role is assumed.
    identity: Option<&'r WebIdentity>,
    origin: SessionOrigin,
    /// The end of the session that asks for it. It ends by then, too.
    ends_by: Option<Timestamp>,
}

impl Authenticator {
    /// AssumeRole: a session of a role that names the caller among those who may assume it.
    ///
    /// # Errors
    /// - `ValidationError`, `MalformedPolicyDocument`, `PackedPolicyTooLarge`;
    /// - `AccessDenied` for an unknown role, one that is not for the caller, another external id,
    ///   and a caller whose session is limited or a federated user's; for tags without TagSession.
    pub fn assume_role(
        &self,
        caller: &Identity,
        request: &RoleRequest<'_>,
        entropy: &dyn Entropy,
    ) -> Result<IssuedSession, CallError> {
        check_name(request.session_name, "roleSessionName", ROLE_SESSION_NAME_CHARS)?;
        let name = role_of(request.role_arn)
            .ok_or_else(|| CallError::validation("roleArn is not the ARN of a role"))?;
        let may_call =
            caller.session().is_none_or(|it| it.is_unlimited() && it.kind != SessionKind::Federated);
        let role = caller.users().role(name).filter(|role| may_call && role.is_assumed_by(caller.name()));
        let role = role.ok_or_else(|| may_not_assume(caller, name))?;
        if role.external_id.is_some() && role.external_id.as_deref() != request.external_id {
            return Err(may_not_assume(caller, name));
        }
        let of_role = role.longest.as_secs();
        let longest = match caller.session() {
            Some(_) => of_role.min(CHAINED_SESSION_MAX_SECS),
            None => of_role,
        };
        let default = longest.min(CHAINED_SESSION_MAX_SECS);
        let duration_secs = checked_duration(request.duration_secs, default, longest)?;
        check_tags(caller, &request.tags)?;
        let session = NewSession {
            kind: SessionKind::Role,
            principal: name,
            name: request.session_name,
            duration_secs,
            policy: request.policy,
            policy_arns: &request.policy_arns,
            tags: &request.tags,
            identity: None,
            origin: caller.origin_of_next(),
            ends_by: caller.session().map(|session| session.expires),
        };
        let issued = self.issue(&session, entropy)?;
        let id = format!("{}:{}", role.user.facts().id, request.session_name);
        Ok(IssuedSession { arn: assumed_role(name, request.session_name), id, ..issued })
    }

    /// The issuer of that URL in the users file.
    pub fn trusted_issuer(&self, url: &str) -> Option<TrustedIssuer> {
        self.users().issuers().iter().find(|issuer| issuer.url == url).cloned()
    }

    /// The issuers in the users file.
    pub fn trusted_issuers(&self) -> Vec<TrustedIssuer> {
        self.users().issuers().to_vec()
    }

    /// AssumeRoleWithWebIdentity: a session of a role that trusts such tokens.
    ///
    /// # Errors
    /// - `ValidationError`, `MalformedPolicyDocument`, `PackedPolicyTooLarge`;
    /// - `AccessDenied` for an unknown role, and one that does not trust the token.
    pub fn assume_role_with_web_identity(
        &self,
        identity: &WebIdentity,
        request: &TokenRoleRequest<'_>,
        entropy: &dyn Entropy,
    ) -> Result<IssuedSession, CallError> {
        check_name(request.session_name, "roleSessionName", ROLE_SESSION_NAME_CHARS)?;
        let name = role_of(request.role_arn)
            .ok_or_else(|| CallError::validation("roleArn is not the ARN of a role"))?;
        let users = self.users();
        let role = users.role(name).ok_or_else(no_web_identity)?;
        let now = self.now();
        if !role.trusts(&identity.issuer).any(|conditions| is_trusted(identity, conditions, request, now)) {
            return Err(no_web_identity());
        }
        let longest = role.longest.as_secs();
        let default = longest.min(CHAINED_SESSION_MAX_SECS);
        let session = NewSession {
            kind: SessionKind::Role,
            principal: name,
            name: request.session_name,
            duration_secs: checked_duration(request.duration_secs, default, longest)?,
            policy: request.policy,
            policy_arns: &request.policy_arns,
            tags: &[],
            identity: Some(identity),
            origin: SessionOrigin::default(),
            ends_by: None,
        };
        let issued = self.issue(&session, entropy)?;
        let id = format!("{}:{}", role.user.facts().id, request.session_name);
        Ok(IssuedSession { arn: assumed_role(name, request.session_name), id, ..issued })
    }

    /// GetSessionToken: a session with the rights of the caller, but for the administration.
    ///
    /// # Errors
    /// `ValidationError`; `AccessDenied` for a caller that is a session itself.
    pub fn session_token(
        &self,
        caller: &Identity,
        duration_secs: Option<u64>,
        entropy: &dyn Entropy,
    ) -> Result<IssuedSession, CallError> {
        check_no_session(caller, "sts:GetSessionToken")?;
        let duration_secs = checked_duration(duration_secs, USER_SESSION_SECS, USER_SESSION_MAX_SECS)?;
        let session = NewSession {
            kind: SessionKind::User,
            principal: caller.name(),
            name: "",
            duration_secs,
            policy: None,
            policy_arns: &[],
            tags: &[],
            identity: None,
            origin: caller.origin_of_next(),
            ends_by: None,
        };
        let issued = self.issue(&session, entropy)?;
        Ok(IssuedSession { arn: NameKind::User.arn(caller.name()), ..issued })
    }

    /// GetFederationToken: a session that the caller hands to somebody else, with those of its
    /// rights that the policy allows.
    ///
    /// # Errors
    /// `ValidationError`, `MalformedPolicyDocument`, `PackedPolicyTooLarge`; `AccessDenied` for a
    /// caller that is a session itself, or has not the permission GetFederationToken; for tags
    /// without TagSession.
    pub fn federation_token(
        &self,
        caller: &Identity,
        request: &FederationRequest<'_>,
        entropy: &dyn Entropy,
    ) -> Result<IssuedSession, CallError> {
        check_name(request.name, "name", FEDERATED_NAME_CHARS)?;
        check_no_session(caller, "sts:GetFederationToken")?;
        // The caller chooses the name, and the policy of a bucket may allow it more than the caller
        // has.
        check_permission(caller, Action::GetFederationToken)?;
        check_tags(caller, &request.tags)?;
        let duration_secs =
            checked_duration(request.duration_secs, USER_SESSION_SECS, USER_SESSION_MAX_SECS)?;
        let session = NewSession {
            kind: SessionKind::Federated,
            principal: caller.name(),
            name: request.name,
            duration_secs,
            policy: request.policy,
            policy_arns: &request.policy_arns,
            tags: &request.tags,
            identity: None,
            origin: caller.origin_of_next(),
            ends_by: None,
        };
        let issued = self.issue(&session, entropy)?;
        let id = format!("{ACCOUNT}:{}", request.name);
        Ok(IssuedSession { arn: federated_user(request.name), id, ..issued })
    }

    fn issue(&self, session: &NewSession<'_>, entropy: &dyn Entropy) -> Result<IssuedSession, CallError> {
        let policy = session.policy.map(checked_policy).transpose()?;
        let users = self.users();
        let managed = checked_policies(session.policy_arns, &users)?;
        let token_claims = session.identity.map(|identity| kept_claims(identity, session, &managed, &users));
        let access_key = session_access_key(entropy);
        let issued = self.now();
        let asked = issued.plus(Duration::from_secs(session.duration_secs));
        let expires = session.ends_by.map_or(asked, |end| end.min(asked));
        let mut claims = SessionClaims::new(
            access_key.clone(),
            session.kind,
            session.principal.to_owned(),
            session.name.to_owned(),
            SessionTimes { issued, expires },
        );
        claims.tags = session.tags.to_vec();
        claims.policy = policy;
        claims.managed = managed;
        claims.token_claims = token_claims.unwrap_or_default();
        claims.origin = session.origin.clone();
        let key = self.sealing_key(&users);
        let key =
            key.ok_or_else(|| CallError::failure("the server has no key for the tokens of sessions"))?;
        let (token, secret_key) = key.seal(&claims, entropy).ok_or_else(|| {
            let message =
                "The policy, the tags, the claims and the origin of the session are too long for its token.";
            CallError::new(400, "PackedPolicyTooLarge", message)
        })?;
        Ok(IssuedSession {
            keys: KeyPair { access_key, secret_key },
            packed_percent: (token.len() * 100).div_ceil(SESSION_TOKEN_MAX_BYTES),
            token,
            expires,
            arn: String::new(),
            id: String::new(),
        })
    }
}

/// The answer is the same for a role that is unknown and for one that does not trust the token: the
/// call is not signed, and would tell strangers which roles there are.
fn no_web_identity() -> CallError {
    CallError::denied("Not authorized to perform sts:AssumeRoleWithWebIdentity")
}

fn is_trusted(
    identity: &WebIdentity,
    conditions: &TrustConditions,
    request: &TokenRoleRequest<'_>,
    now: Timestamp,
) -> bool {
    let claims = identity.claims(conditions.claims());
    let facts = PrincipalFacts { claims, ..PrincipalFacts::default() };
    conditions.hold(&PolicyContext {
        principal: Some(&facts),
        source_ip: request.source_ip,
        secure: request.secure,
        now,
        ..PolicyContext::default()
    })
}

fn may_not_assume(caller: &Identity, role: &str) -> CallError {
    let caller = caller.caller().arn;
    let role = NameKind::Role.arn(role);
    CallError::denied(format!(
        "User: {caller} is not authorized to perform: sts:AssumeRole on resource: {role}"
    ))
}

/// The claims of a provider's token that the session keeps: who it is about, and what the policies
/// name that limit it.
fn kept_claims(
    identity: &WebIdentity,
    session: &NewSession<'_>,
    managed: &[String],
    users: &Users,
) -> Vec<TokenClaim> {
    let of_session = session.policy.and_then(|policy| IdentityPolicy::parse(policy).ok());
    let mut names = vec!["iss", "sub", "aud"];
    if let Some(role) = users.role(session.principal) {
        names.extend(role.user.claims());
    }
    if let Some(policy) = &of_session {
        names.extend(policy.claims());
    }
    for policy in managed.iter().filter_map(|name| users.policy(name)) {
        names.extend(policy.claims());
    }
    identity.claims(names.into_iter())
}

/// Refuses a caller that is a session: it would outlive itself.
fn check_no_session(caller: &Identity, action: &str) -> Result<(), CallError> {
    match caller.session() {
        None => Ok(()),
        Some(session) => {
            Err(CallError::denied(format!("{} is a session, which cannot call {action}", session.arn())))
        }
    }
}

fn check_permission(caller: &Identity, action: Action) -> Result<(), CallError> {
    if caller.may_administer(action) {
        return Ok(());
    }
    let arn = caller.caller().arn;
    Err(CallError::denied(format!("User: {arn} is not authorized to perform: sts:{}", action.as_str())))
}

/// Checks a name, which becomes part of ARNs, lines of logs and variables.
fn check_name(name: &str, field: &str, chars: RangeInclusive<usize>) -> Result<(), CallError> {
    if chars.contains(&name.len()) && name.chars().all(is_name_char) {
        return Ok(());
    }
    let least = chars.start();
    let most = chars.end();
    let message = format!("{field} has {least} to {most} characters of: letters, digits, _ + = , . @ -");
    Err(CallError::validation(message))
}

fn checked_duration(asked: Option<u64>, default: u64, longest: u64) -> Result<u64, CallError> {
    let secs = asked.unwrap_or(default);
    match (SESSION_MIN_SECS..=longest).contains(&secs) {
        true => Ok(secs),
        false => Err(CallError::validation(format!(
            "durationSeconds is from {SESSION_MIN_SECS} to {longest} here"
        ))),
    }
}

/// The session policy, if it is one. That an empty one would count as none must never be.
fn checked_policy(text: &str) -> Result<Value, CallError> {
    if text.chars().count() > SESSION_POLICY_MAX_CHARS {
        let message = format!("policy has at most {SESSION_POLICY_MAX_CHARS} characters");
        return Err(CallError::validation(message));
    }
    IdentityPolicy::parse(text).map_err(|reason| malformed(&reason))?;
    let value: Value = serde_json::from_str(text).map_err(|error| malformed(&error.to_string()))?;
    // What is sealed is what will be read: nothing that was checked may read differently.
    IdentityPolicy::parse(&value.to_string()).map_err(|reason| malformed(&reason))?;
    Ok(value)
}

fn malformed(reason: &str) -> CallError {
    CallError::new(400, "MalformedPolicyDocument", reason)
}

/// The names of the policies of these ARNs, all of which must be there.
fn checked_policies(arns: &[&str], users: &Users) -> Result<Vec<String>, CallError> {
    if arns.len() > SESSION_POLICIES_MAX {
        return Err(CallError::validation(format!(
            "a session has at most {SESSION_POLICIES_MAX} PolicyArns"
        )));
    }
    let mut names = Vec::new();
    for arn in arns {
        let name = policy_of(arn)
            .ok_or_else(|| CallError::validation("PolicyArns: one is not the ARN of a policy"))?;
        if users.policy(name).is_none() {
            return Err(CallError::validation(format!("PolicyArns: there is no policy {name}")));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// Checks the tags of a session. Policies of buckets may allow by them, so that they take a
/// permission.
fn check_tags(caller: &Identity, tags: &[(String, String)]) -> Result<(), CallError> {
    if !tags.is_empty() {
        check_permission(caller, Action::TagSession)?;
    }
    if tags.len() > SESSION_TAGS_MAX {
        return Err(CallError::validation(format!("a session has at most {SESSION_TAGS_MAX} tags")));
    }
    for (at, (key, value)) in tags.iter().enumerate() {
        let is_reserved = key.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("aws:"));
        let fits = !is_reserved
            && (1..=TAG_KEY_LEN_MAX_CHARS).contains(&key.encode_utf16().count())
            && value.encode_utf16().count() <= TAG_VALUE_LEN_MAX_CHARS
            && !key.chars().chain(value.chars()).any(char::is_control);
        if !fits {
            return Err(CallError::validation("a tag of the session has a key or a value that is not valid"));
        }
        if tags[..at].iter().any(|(other, _)| other.eq_ignore_ascii_case(key)) {
            return Err(CallError::new(400, "InvalidParameterValue", "Duplicate tag keys found."));
        }
    }
    Ok(())
}
