//! The calls of STS: keys for a while. They are forms, or queries with an action, and their answers
//! and errors have the form of STS. Calls of IAM come in the same form, and go on in `service/iam`.

use serde_json::json;

use super::Service;
use super::access_log::RequestLogEntry;
use super::audit_record::{AuditLog as _, AuditRecord, AuditedState};
use super::iam::IamCall;
use super::web_identity::{PROVIDER_AWAY, VouchedSession};
use crate::auth::{FederationRequest, Identity, IssuedSession, RoleRequest, SealingKey, WebIdentity};
use crate::base::OsEntropy;
use crate::base::limits::QUERY_BODY_MAX_BYTES;
use crate::s3::query_call::{self, CallParams, QueryApi};
use crate::s3::{CallError, Dialect, Method, QueryParams, Request, Response};

/// A call that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StsCall {
    AssumeRole,
    AssumeRoleWithWebIdentity,
    GetSessionToken,
    GetFederationToken,
    GetCallerIdentity,
}

impl StsCall {
    const ALL: [Self; 5] = [
        Self::AssumeRole,
        Self::AssumeRoleWithWebIdentity,
        Self::GetSessionToken,
        Self::GetFederationToken,
        Self::GetCallerIdentity,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::AssumeRole => "AssumeRole",
            Self::AssumeRoleWithWebIdentity => "AssumeRoleWithWebIdentity",
            Self::GetSessionToken => "GetSessionToken",
            Self::GetFederationToken => "GetFederationToken",
            Self::GetCallerIdentity => "GetCallerIdentity",
        }
    }

    fn named(name: &str) -> Result<Self, CallError> {
        let known = Self::ALL.into_iter().find(|call| call.as_str() == name);
        known.ok_or_else(|| {
            let shown: String = name.chars().take(64).collect();
            CallError::new(400, "InvalidAction", format!("Could not find operation {shown}"))
        })
    }
}

impl Service {
    /// Answers a call of STS or IAM.
    pub(super) fn query_call(&self, request: Request<'_>, entry: &mut RequestLogEntry) -> Response {
        entry.dialect = Dialect::Aws;
        entry.operation = "SecurityTokenService";
        let mut api = QueryApi::Sts;
        let answer = self.answer_call(request, entry, &mut api);
        answer.unwrap_or_else(|error| {
            entry.error = Some(error.code);
            error.respond(api, entry.id.as_str())
        })
    }

    /// Answers a call, and says of which service it is as soon as that is known.
    fn answer_call(
        &self,
        mut request: Request<'_>,
        entry: &mut RequestLogEntry,
        api: &mut QueryApi,
    ) -> Result<Response, CallError> {
        // The body is read before its sender is known, so it is short.
        let body = match request.body.content_length {
            Some(length) if length > QUERY_BODY_MAX_BYTES as u64 => None,
            _ => request.body.read_short(QUERY_BODY_MAX_BYTES)?,
        };
        let body = body.ok_or_else(|| {
            let message = format!("A call has at most {QUERY_BODY_MAX_BYTES} bytes.");
            CallError::new(413, "RequestEntityTooLarge", message)
        })?;
        let query = QueryParams::parse(&request.query)?;
        let sent = match request.method {
            Method::Get => &request.query,
            _ => std::str::from_utf8(&body).map_err(|_| CallError::validation("the form is not UTF-8"))?,
        };
        let params = CallParams::parse(sent)?;
        if let Some(call) = IamCall::named(params.action()) {
            *api = QueryApi::Iam;
            entry.operation = call.name;
            let caller = self.authenticated_caller(*api, &request, &query, &body, entry)?;
            return self.iam(call, &caller, &request, &params, entry);
        }
        let call = StsCall::named(params.action())?;
        entry.operation = call.as_str();
        if call == StsCall::AssumeRoleWithWebIdentity {
            return self.answer_web_identity(&params, &request, entry);
        }
        let caller = self.authenticated_caller(*api, &request, &query, &body, entry)?;
        if call == StsCall::GetCallerIdentity {
            return Ok(caller_identity(&caller, entry));
        }
        let issued = self.issue_audited(call, &caller, &params, entry)?;
        Ok(session_answer(call, &issued, None, entry))
    }

    /// Who signed a call.
    fn authenticated_caller(
        &self,
        api: QueryApi,
        request: &Request<'_>,
        query: &QueryParams,
        body: &[u8],
        entry: &mut RequestLogEntry,
    ) -> Result<Identity, CallError> {
        let dialect = Dialect::detect(&request.headers, query.names(), Dialect::Aws)?;
        let caller = self
            .authenticator
            .authenticate_call(api, request, query, dialect, body)
            .inspect_err(|error| self.log_failed_signature(error, request, entry))?;
        entry.user = Some(caller.name().to_owned());
        if caller.is_anonymous() {
            let message = "Request is missing Authentication Token";
            return Err(CallError::new(403, "MissingAuthenticationToken", message));
        }
        Ok(caller)
    }

    /// Answers the call that is not signed, but has the token of a provider.
    fn answer_web_identity(
        &self,
        params: &CallParams,
        request: &Request<'_>,
        entry: &mut RequestLogEntry,
    ) -> Result<Response, CallError> {
        let call = StsCall::AssumeRoleWithWebIdentity;
        refuse_unsupported(params)?;
        self.check_audit()?;
        let vouched = self.assume_role_with_web_identity(params, request, entry);
        // What is turned away unjudged is no attempt, and could fill the audit log.
        if !vouched.as_ref().is_err_and(|error| matches!(error.code, "Throttling" | PROVIDER_AWAY)) {
            let identity = vouched.as_ref().ok().map(|vouched| &vouched.identity);
            let issued = vouched.as_ref().map(|vouched| &vouched.issued);
            let audited = AuditedCall { call, caller: None, identity, params };
            self.audit_session(&audited, issued, entry);
        }
        let VouchedSession { identity, issued } = vouched?;
        Ok(session_answer(call, &issued, Some(&identity), entry))
    }

    /// Refuses to hand out keys where that could not be recorded.
    fn check_audit(&self) -> Result<(), CallError> {
        if !self.recorder.audit.is_writable() {
            let message = "The audit log cannot be written, so that no session is handed out.";
            return Err(CallError::new(503, "ServiceUnavailable", message));
        }
        Ok(())
    }

    /// Hands out a session. The attempt is in the audit log on return, if there is one.
    fn issue_audited(
        &self,
        call: StsCall,
        caller: &Identity,
        params: &CallParams,
        entry: &RequestLogEntry,
    ) -> Result<IssuedSession, CallError> {
        self.check_audit()?;
        let issued = self.issue(call, caller, params);
        let audited = AuditedCall { call, caller: Some(caller), identity: None, params };
        self.audit_session(&audited, issued.as_ref(), entry);
        issued
    }

    /// Records an attempt to get keys.
    fn audit_session(
        &self,
        audited: &AuditedCall<'_>,
        issued: Result<&IssuedSession, &CallError>,
        entry: &RequestLogEntry,
    ) {
        let AuditedCall { call, caller, identity, params } = audited;
        let state = issued.ok().map(|session| {
            let policy = params.get("Policy");
            let managed = params.members("PolicyArns", "arn").unwrap_or_default();
            let tags = params.pairs("Tags").unwrap_or_default();
            let mut state = json!({ "access_key": session.keys.access_key, "arn": session.arn,
                "expires": session.expires.to_iso8601(), "policy": policy, "policies": managed, "tags": tags });
            if let Some(identity) = identity {
                state["issuer"] = json!(identity.issuer);
                state["subject"] = json!(identity.subject);
                state["audience"] = json!(identity.audience);
            }
            AuditedState::new(state.to_string())
        });
        let peer = entry.peer().map(|peer| peer.to_string());
        self.recorder.audit.record(&[AuditRecord {
            time: entry.begun,
            id: Some(entry.id.as_str()),
            user: caller.map(Identity::name),
            session: caller.and_then(|caller| caller.session()).map(|session| session.arn()),
            access_key: caller.and_then(|caller| caller.access_key()).map(|key| &**key),
            peer: peer.as_deref(),
            action: call.as_str(),
            subject: match call {
                StsCall::AssumeRole | StsCall::AssumeRoleWithWebIdentity => params.get("RoleArn"),
                StsCall::GetFederationToken => params.get("Name"),
                StsCall::GetSessionToken | StsCall::GetCallerIdentity => None,
            },
            after: state.as_ref(),
            status: Some(issued.map_or_else(|error| error.status, |_| 200)),
            error: issued.err().map(|error| error.code),
            ..AuditRecord::default()
        }]);
    }

    fn issue(
        &self,
        call: StsCall,
        caller: &Identity,
        params: &CallParams,
    ) -> Result<IssuedSession, CallError> {
        refuse_unsupported(params)?;
        let takes_policy = matches!(call, StsCall::AssumeRole | StsCall::GetFederationToken);
        // A policy that would not count must not look as if it did.
        let ignored = ["Policy", "PolicyArns", "Tags"].into_iter().find(|name| params.has_list(name));
        if let Some(ignored) = ignored.filter(|_| !takes_policy) {
            return Err(CallError::validation(format!("{} takes no {ignored}", call.as_str())));
        }
        self.ensure_sealing_key();
        let duration_secs = params.number("DurationSeconds")?;
        let policy = params.get("Policy");
        let policy_arns = params.members("PolicyArns", "arn")?;
        match call {
            StsCall::AssumeRole => {
                let request = RoleRequest {
                    role_arn: params.required("RoleArn")?,
                    session_name: params.required("RoleSessionName")?,
                    external_id: params.get("ExternalId"),
                    duration_secs,
                    policy,
                    policy_arns,
                    tags: params.pairs("Tags")?,
                };
                self.authenticator.assume_role(caller, &request, &OsEntropy)
            }
            StsCall::GetFederationToken => {
                let name = params.required("Name")?;
                let tags = params.pairs("Tags")?;
                let request = FederationRequest { name, duration_secs, policy, policy_arns, tags };
                self.authenticator.federation_token(caller, &request, &OsEntropy)
            }
            // The others hand out nothing, or were answered before.
            StsCall::GetSessionToken | StsCall::GetCallerIdentity | StsCall::AssumeRoleWithWebIdentity => {
                self.authenticator.session_token(caller, duration_secs, &OsEntropy)
            }
        }
    }

    /// Has a key made that seals tokens, where there is none: in the users file, so that other
    /// hosts with the file and later starts can open them, or else for this process.
    pub(super) fn ensure_sealing_key(&self) {
        // Once the file could not be written, the key of the process serves until the file has one.
        if self.authenticator.can_seal() {
            return;
        }
        let kept = match &self.users {
            Some(directory) => directory.add_sealing_key().map_err(|problem| problem.to_string()),
            None => Err("this server has no users file".to_owned()),
        };
        let kept = kept.and_then(|_| match self.authenticator.has_sealing_key() {
            true => Ok(()),
            false => Err("the list of keys in the users file is empty".to_owned()),
        });
        if let Err(problem) = kept {
            log::warn!("sessions end with this process, since no key for them can be kept: {problem}");
            self.authenticator.seal_with(SealingKey::generate(&OsEntropy));
        }
    }
}

/// A call that is recorded.
struct AuditedCall<'c> {
    call: StsCall,
    /// Who signed it.
    caller: Option<&'c Identity>,
    /// Whom the token of a provider is about.
    identity: Option<&'c WebIdentity>,
    params: &'c CallParams,
}

/// Refuses parameters whose neglect would give more than was asked for.
fn refuse_unsupported(params: &CallParams) -> Result<(), CallError> {
    for unsupported in ["SerialNumber", "TokenCode"] {
        if params.get(unsupported).is_some() {
            return Err(CallError::denied("MultiFactorAuthentication failed: there are no such devices"));
        }
    }
    Ok(())
}

/// The answer with new keys.
fn session_answer(
    call: StsCall,
    issued: &IssuedSession,
    identity: Option<&WebIdentity>,
    entry: &RequestLogEntry,
) -> Response {
    let subject = match call {
        StsCall::AssumeRole | StsCall::AssumeRoleWithWebIdentity => {
            Some(("AssumedRoleUser", "AssumedRoleId"))
        }
        StsCall::GetFederationToken => Some(("FederatedUser", "FederatedUserId")),
        StsCall::GetSessionToken | StsCall::GetCallerIdentity => None,
    };
    query_call::answer(QueryApi::Sts, call.as_str(), entry.id.as_str(), |result| {
        result.element("Credentials", |credentials| {
            credentials.leaf("AccessKeyId", &issued.keys.access_key);
            credentials.leaf("SecretAccessKey", issued.keys.secret_key.reveal());
            credentials.leaf("SessionToken", &issued.token);
            credentials.leaf("Expiration", &issued.expires.to_iso8601());
        });
        if let Some((element, id)) = subject {
            result.element(element, |user| {
                user.leaf(id, &issued.id);
                user.leaf("Arn", &issued.arn);
            });
            result.plain("PackedPolicySize", issued.packed_percent);
        }
        if let Some(identity) = identity {
            query_call::stated_leaf(result, "SubjectFromWebIdentityToken", &identity.subject);
            query_call::stated_leaf(result, "Audience", &identity.audience);
            query_call::stated_leaf(result, "Provider", &identity.issuer);
        }
    })
}

fn caller_identity(caller: &Identity, entry: &RequestLogEntry) -> Response {
    let identity = caller.caller();
    query_call::answer(QueryApi::Sts, StsCall::GetCallerIdentity.as_str(), entry.id.as_str(), |result| {
        result.leaf("Arn", &identity.arn);
        result.leaf("UserId", &identity.id);
        result.leaf("Account", identity.account);
    })
}
