//! The audit log: records of the attempts to change what is kept and who has access, and their
//! collection during a request.

use crate::auth::{Authorized, OidcPerson};
use crate::base::Timestamp;
use crate::ops::{AuditScope, Context, audit_scope};
use crate::s3::operation::ResourceLevel;
use crate::s3::{
    Call, ErrorCode, Operation, QueryParams, Response, S3Error, TargetResource, VersionDeletion,
};

/// The longest value of `before` and `after` that is recorded whole, in bytes. A bucket policy of
/// the largest size fits.
const STATE_MAX_BYTES: usize = 32 * 1024;

/// One attempt at a change. It holds no secrets.
#[derive(Debug, Default)]
pub struct AuditRecord<'r> {
    /// The time of the attempt.
    pub time: Timestamp,
    /// The id of the request; `None` for a change that is not made by a request.
    pub id: Option<&'r str>,
    /// The user, if it is authenticated.
    pub user: Option<&'r str>,
    /// The person who acts as the user, where an OpenID provider vouched for it.
    pub person: Option<&'r OidcPerson>,
    /// The ARN of the session whose keys signed the request.
    pub session: Option<&'r str>,
    /// The address of the client.
    pub peer: Option<&'r str>,
    /// The operation.
    pub action: &'r str,
    pub bucket: Option<&'r str>,
    /// The key of the object.
    pub key: Option<&'r str>,
    /// The version, as clients name it.
    pub version: Option<&'r str>,
    /// The name of the user or owner that the change concerns.
    pub subject: Option<&'r str>,
    /// The value before the attempt.
    pub before: Option<&'r AuditedState>,
    /// The value after a change.
    pub after: Option<&'r AuditedState>,
    /// The status of the response; `None` for a change that is not made by a request.
    pub status: Option<u16>,
    /// The code of the error.
    pub error: Option<&'r str>,
}

/// A destination for audit records.
pub trait AuditLog: Send + Sync {
    /// Whether a line can be written. After a failure, an implementation tries again here.
    fn is_writable(&self) -> bool;

    /// Records attempts after their outcome and before the response. The records are durable on
    /// return, unless the implementation reports otherwise; `is_writable` is then false until a
    /// later record can be written.
    fn record(&self, records: &[AuditRecord<'_>]);
}

/// A recorded value, bounded in size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedState {
    /// The value, or the beginning of a long one.
    pub text: String,
    /// The length of the whole value in bytes, if `text` is only its beginning.
    pub cut_from: Option<usize>,
}

impl AuditedState {
    /// The value, cut if it is long.
    pub fn new(mut text: String) -> Self {
        let whole = text.len();
        if whole <= STATE_MAX_BYTES {
            return Self { text, cut_from: None };
        }
        let mut end = STATE_MAX_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        Self { text, cut_from: Some(whole) }
    }
}

/// The attempt of a request in progress.
pub(super) struct AuditEntry {
    scope: AuditScope,
    action: &'static str,
    bucket: Option<String>,
    key: Option<String>,
    version: Option<String>,
    subject: Option<String>,
    before: Option<AuditedState>,
    after: Option<AuditedState>,
    deletions: Vec<VersionDeletion>,
}

/// The part of a record that only the end of the request knows.
pub(super) struct AuditOutcome<'o> {
    pub(super) time: Timestamp,
    pub(super) id: &'o str,
    pub(super) user: Option<&'o str>,
    pub(super) person: Option<&'o OidcPerson>,
    pub(super) session: Option<&'o str>,
    pub(super) peer: Option<&'o str>,
    pub(super) status: u16,
    pub(super) error: Option<&'o str>,
}

impl AuditEntry {
    /// The attempt that a request makes; `None` if it is not audited.
    pub(super) fn begin(
        operation: Operation,
        target: &TargetResource,
        query: &QueryParams,
    ) -> Option<Box<Self>> {
        let scope = audit_scope(operation);
        let version = query.get("versionId").map(str::to_owned);
        match scope {
            AuditScope::None => return None,
            AuditScope::NamedVersion if version.is_none() => return None,
            AuditScope::Every | AuditScope::NamedVersion | AuditScope::VersionsInBody => {}
        }
        let level = target.level();
        Some(Box::new(Self {
            scope,
            action: operation.as_str(),
            bucket: (level != ResourceLevel::Service).then(|| target.bucket().to_owned()),
            key: (level == ResourceLevel::Object).then(|| target.key().to_owned()),
            version,
            subject: query.get("owner").filter(|_| level == ResourceLevel::Service).map(str::to_owned),
            before: None,
            after: None,
            deletions: Vec::new(),
        }))
    }

    /// Runs the operation and keeps the values before and after it. Nothing is changed while the
    /// log cannot be written.
    ///
    /// # Errors
    /// `ServiceUnavailable`; the errors of the operation.
    pub(super) fn run(
        &mut self,
        log: &dyn AuditLog,
        context: &Context,
        proof: &Authorized,
        call: &mut Call<'_>,
    ) -> Result<Response, S3Error> {
        // Before the operation: a change that no record can follow must not be made.
        if !log.is_writable() {
            let message = "The audit log cannot be written, so that audited operations are refused.";
            return Err(S3Error::new(ErrorCode::ServiceUnavailable).message(message));
        }

        self.before = context.audited_state(call).map(AuditedState::new);
        call.deletions = (self.scope == AuditScope::VersionsInBody).then(Vec::new);
        let outcome = context.dispatch(proof, call);
        self.deletions = call.deletions.take().unwrap_or_default();
        if let Ok(response) = &outcome {
            self.after = context.audited_state(call).map(AuditedState::new);
            if self.version.is_none() {
                // The version that the operation made.
                let made = response.get_header("p-version-id");
                self.version = made.map(|id| String::from_utf8_lossy(id).into_owned());
            }
        }
        outcome
    }

    /// Records the attempt: one record, or one for each version that the body names.
    pub(super) fn conclude(&self, log: &dyn AuditLog, outcome: &AuditOutcome<'_>) {
        let is_refused = outcome.error.is_some();
        if self.scope != AuditScope::VersionsInBody || (self.deletions.is_empty() && is_refused) {
            return log.record(&[self.record(outcome)]);
        }
        if self.deletions.is_empty() {
            return;
        }
        let states: Vec<_> =
            self.deletions.iter().map(|it| it.before.clone().map(AuditedState::new)).collect();
        let records: Vec<_> = self
            .deletions
            .iter()
            .zip(&states)
            .map(|(deletion, before)| AuditRecord {
                key: Some(&deletion.key),
                version: Some(&deletion.version),
                before: before.as_ref(),
                status: Some(deletion.error.map_or(outcome.status, ErrorCode::status)),
                error: deletion.error.map(ErrorCode::as_str).or(outcome.error),
                ..self.record(outcome)
            })
            .collect();
        log.record(&records);
    }

    fn record<'r>(&'r self, outcome: &AuditOutcome<'r>) -> AuditRecord<'r> {
        AuditRecord {
            time: outcome.time,
            id: Some(outcome.id),
            user: outcome.user,
            person: outcome.person,
            session: outcome.session,
            peer: outcome.peer,
            action: self.action,
            bucket: self.bucket.as_deref(),
            key: self.key.as_deref(),
            version: self.version.as_deref(),
            subject: self.subject.as_deref(),
            before: self.before.as_ref(),
            after: self.after.as_ref(),
            status: Some(outcome.status),
            error: outcome.error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_between_characters_and_says_so() {
        let whole = AuditedState::new("x".repeat(STATE_MAX_BYTES));
        assert_eq!((whole.text.len(), whole.cut_from), (STATE_MAX_BYTES, None));
        let long = format!("{}é", "x".repeat(STATE_MAX_BYTES - 1));
        let cut = AuditedState::new(long);
        assert_eq!((cut.text.len(), cut.cut_from), (STATE_MAX_BYTES - 1, Some(STATE_MAX_BYTES + 1)));
    }
}
