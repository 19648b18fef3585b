//! The calls of STS: keys for a while. They are forms, or queries with an action, and their answers
//! and errors have the form of STS.

use serde_json::json;

use super::Service;
use super::access_log::RequestLogEntry;
use super::audit::{AuditRecord, AuditedState};
use crate::auth::{FederationRequest, Identity, IssuedSession, RoleRequest, SealingKey};
use crate::base::OsEntropy;
use crate::base::limits::QUERY_BODY_MAX_BYTES;
use crate::s3::query_call::{self, CallParams};
use crate::s3::{CallError, Dialect, Method, QueryParams, Request, Response};

/// A call that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StsCall {
    AssumeRole,
    GetSessionToken,
    GetFederationToken,
    GetCallerIdentity,
}

impl StsCall {
    const ALL: [Self; 4] =
        [Self::AssumeRole, Self::GetSessionToken, Self::GetFederationToken, Self::GetCallerIdentity];

    fn as_str(self) -> &'static str {
        match self {
            Self::AssumeRole => "AssumeRole",
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
    /// Answers a call.
    pub(super) fn sts(&self, request: Request<'_>, entry: &mut RequestLogEntry) -> Response {
        entry.dialect = Dialect::Aws;
        entry.operation = "SecurityTokenService";
        let answer = self.answer_call(request, entry);
        answer.unwrap_or_else(|error| {
            entry.error = Some(error.code);
            error.respond(entry.id.as_str())
        })
    }

    fn answer_call(
        &self,
        mut request: Request<'_>,
        entry: &mut RequestLogEntry,
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
        let call = StsCall::named(params.action())?;
        entry.operation = call.as_str();
        let dialect = Dialect::detect(&request.headers, query.names(), Dialect::Aws)?;
        let caller = self
            .authenticator
            .authenticate_call(&request, &query, dialect, &body)
            .inspect_err(|error| self.log_failed_signature(error, &request, entry))?;
        entry.user = Some(caller.name().to_owned());
        if caller.is_anonymous() {
            let message = "Request is missing Authentication Token";
            return Err(CallError::new(403, "MissingAuthenticationToken", message));
        }
        if call == StsCall::GetCallerIdentity {
            return Ok(caller_identity(&caller, entry));
        }
        let issued = self.issue_audited(call, &caller, &params, entry)?;
        Ok(query_call::answer(call.as_str(), entry.id.as_str(), |result| {
            let subject = match call {
                StsCall::AssumeRole => Some(("AssumedRoleUser", "AssumedRoleId")),
                StsCall::GetFederationToken => Some(("FederatedUser", "FederatedUserId")),
                _ => None,
            };
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
        }))
    }

    /// Hands out a session. The attempt is in the audit log on return, if there is one.
    fn issue_audited(
        &self,
        call: StsCall,
        caller: &Identity,
        params: &CallParams,
        entry: &RequestLogEntry,
    ) -> Result<IssuedSession, CallError> {
        let log = self.recorder.audit_log.as_deref();
        if log.is_some_and(|log| !log.is_writable()) {
            let message = "The audit log cannot be written, so that no session is handed out.";
            return Err(CallError::new(503, "ServiceUnavailable", message));
        }
        let issued = self.issue(call, caller, params);
        let Some(log) = log else { return issued };
        let state = issued.as_ref().ok().map(|session| {
            let policy = params.get("Policy");
            let tags = params.pairs("Tags").unwrap_or_default();
            let state = json!({ "access_key": session.keys.access_key, "arn": session.arn,
                "expires": session.expires.to_iso8601(), "policy": policy, "tags": tags });
            AuditedState::new(state.to_string())
        });
        let peer = entry.peer().map(|peer| peer.to_string());
        log.record(&[AuditRecord {
            time: entry.begun,
            id: Some(entry.id.as_str()),
            user: Some(caller.name()),
            session: caller.session().map(|session| session.arn()),
            peer: peer.as_deref(),
            action: call.as_str(),
            subject: match call {
                StsCall::AssumeRole => params.get("RoleArn"),
                StsCall::GetFederationToken => params.get("Name"),
                StsCall::GetSessionToken | StsCall::GetCallerIdentity => None,
            },
            after: state.as_ref(),
            status: Some(issued.as_ref().map_or_else(|error| error.status, |_| 200)),
            error: issued.as_ref().err().map(|error| error.code),
            ..AuditRecord::default()
        }]);
        issued
    }

    fn issue(
        &self,
        call: StsCall,
        caller: &Identity,
        params: &CallParams,
    ) -> Result<IssuedSession, CallError> {
        for unsupported in ["SerialNumber", "TokenCode"] {
            if params.get(unsupported).is_some() {
                return Err(CallError::denied("MultiFactorAuthentication failed: there are no such devices"));
            }
        }
        // A policy that would not count must not look as if it did.
        if params.has_list("PolicyArns") {
            return Err(CallError::validation("PolicyArns: there are no managed policies"));
        }
        let takes_policy = matches!(call, StsCall::AssumeRole | StsCall::GetFederationToken);
        if !takes_policy && (params.get("Policy").is_some() || params.has_list("Tags")) {
            return Err(CallError::validation("GetSessionToken takes neither Policy nor Tags"));
        }
        self.ensure_sealing_key();
        let duration_secs = params.number("DurationSeconds")?;
        let policy = params.get("Policy");
        match call {
            StsCall::AssumeRole => {
                let request = RoleRequest {
                    role_arn: params.required("RoleArn")?,
                    session_name: params.required("RoleSessionName")?,
                    external_id: params.get("ExternalId"),
                    duration_secs,
                    policy,
                    tags: params.pairs("Tags")?,
                };
                self.authenticator.assume_role(caller, &request, &OsEntropy)
            }
            StsCall::GetFederationToken => {
                let name = params.required("Name")?;
                let request = FederationRequest { name, duration_secs, policy, tags: params.pairs("Tags")? };
                self.authenticator.federation_token(caller, &request, &OsEntropy)
            }
            StsCall::GetSessionToken | StsCall::GetCallerIdentity => {
                self.authenticator.session_token(caller, duration_secs, &OsEntropy)
            }
        }
    }

    /// Has a key made that seals tokens, where there is none: in the users file, so that other
    /// hosts with the file and later starts can open them, or else for this process.
    fn ensure_sealing_key(&self) {
        if self.authenticator.has_sealing_key() {
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

fn caller_identity(caller: &Identity, entry: &RequestLogEntry) -> Response {
    let identity = caller.caller();
    query_call::answer(StsCall::GetCallerIdentity.as_str(), entry.id.as_str(), |result| {
        result.leaf("Arn", &identity.arn);
        result.leaf("UserId", &identity.id);
        result.leaf("Account", identity.account);
    })
}
