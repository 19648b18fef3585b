//! The collection of a record for the audit during a request.

use std::sync::Arc;

use super::audit_record::{AuditLog, AuditRecord, AuditedState};
use super::audit_trail::AuditTrail;
use crate::auth::{Authorized, Identity, OidcPerson};
use crate::base::Timestamp;
use crate::ops::{AuditScope, Context, audit_scope};
use crate::s3::operation::ResourceLevel;
use crate::s3::{
    Call, ErrorCode, Operation, QueryParams, Response, S3Error, TargetResource, VersionDeletion,
};

/// The attempt of a request in progress.
pub(super) struct AuditEntry {
    scope: AuditScope,
    action: &'static str,
    bucket: Option<String>,
    key: Option<String>,
    version: Option<String>,
    subject: Option<String>,
    access_key: Option<Arc<str>>,
    console_session: Option<u64>,
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
    /// The attempt that a request makes; `None` if it is not audited. Without a log, deletions of
    /// versions are not: they are writes of objects, of which there may be many.
    pub(super) fn begin(
        operation: Operation,
        target: &TargetResource,
        query: &QueryParams,
        has_log: bool,
    ) -> Option<Box<Self>> {
        let scope = audit_scope(operation);
        match scope {
            AuditScope::None => return None,
            AuditScope::NamedVersion if !has_log || !query.has("versionId") => return None,
            AuditScope::VersionsInBody if !has_log => return None,
            AuditScope::Every | AuditScope::NamedVersion | AuditScope::VersionsInBody => {}
        }
        let version = query.get("versionId").map(str::to_owned);
        let level = target.level();
        Some(Box::new(Self {
            scope,
            action: operation.as_str(),
            bucket: (level != ResourceLevel::Service).then(|| target.bucket().to_owned()),
            key: (level == ResourceLevel::Object).then(|| target.key().to_owned()),
            version,
            subject: query.get("owner").filter(|_| level == ResourceLevel::Service).map(str::to_owned),
            access_key: None,
            console_session: None,
            before: None,
            after: None,
            deletions: Vec::new(),
        }))
    }

    /// Notes by what the sender is known.
    pub(super) fn sent_by(&mut self, identity: &Identity) {
        self.access_key = identity.access_key().cloned();
        self.console_session = identity.console_session();
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

    /// Records the attempt: one record, or one for each version that the body names. Those about
    /// deletions of versions are in the log alone.
    pub(super) fn conclude(&self, trail: &AuditTrail, outcome: &AuditOutcome<'_>) {
        if self.scope == AuditScope::Every {
            return trail.record(&[self.record(outcome)]);
        }
        let Some(log) = trail.log() else { return };
        let is_refused = outcome.error.is_some();
        if self.scope == AuditScope::NamedVersion || (self.deletions.is_empty() && is_refused) {
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
            access_key: self.access_key.as_deref(),
            console_session: self.console_session,
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
