//! The replication of buckets to mirrors of the operator.

use super::Context;
use super::client_error::ForClient as _;
use super::stored_document::{self, StoredDocument};
use crate::auth::Authorized;
use crate::s3::replication::{REPLICATION_STATUS, ReplicationCandidate, ReplicationConfiguration};
use crate::s3::{Call, ErrorCode, Response, S3Error};
use crate::store::{BucketConfigurationKind, ConfiguredBucket, FoundVersion, VersionId, Versioning};

/// The mirrors that rules of buckets may name.
pub trait ReplicationTargets: Send + Sync {
    /// Whether the operator lets rules name the mirror.
    fn is_target(&self, mirror: &str) -> bool;

    /// How far a mirror is with a version that the rules send to it.
    fn progress(&self, mirror: &str, version: ReplicatedVersion<'_>) -> ReplicationProgress;
}

/// A version that rules send to a mirror.
#[derive(Debug, Clone, Copy)]
pub struct ReplicatedVersion<'v> {
    /// The id and the name of its bucket.
    pub bucket: (u64, &'v str),
    pub key: &'v str,
    pub id: VersionId,
    /// The last group of the log that its commit can be in.
    pub last_group: u64,
}

/// How far a version is, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplicationProgress {
    /// The target has it.
    Completed,
    /// It is still to be sent.
    Pending,
    /// The target refused it, and the mirror does not try again before a change or a start.
    Failed,
}

impl StoredDocument for ReplicationConfiguration {
    const KIND: BucketConfigurationKind = BucketConfigurationKind::Replication;

    fn unset(_: &Context) -> Result<Self, ErrorCode> {
        Err(ErrorCode::ReplicationConfigurationNotFoundError)
    }

    fn check(
        &self,
        context: &Context,
        _: &Authorized,
        _: &Call<'_>,
        bucket: &ConfiguredBucket,
    ) -> Result<(), S3Error> {
        if bucket.info.versioning != Versioning::Enabled {
            return Err(S3Error::new(ErrorCode::InvalidRequest)
                .message("Versioning must be 'Enabled' on the bucket to apply a replication configuration"));
        }
        let targets = context.replication.as_deref();
        let unknown = self.mirrors().find(|name| !targets.is_some_and(|targets| targets.is_target(name)));
        match unknown {
            None => Ok(()),
            Some(name) => Err(S3Error::new(ErrorCode::InvalidRequest)
                .message(
                    "Destination bucket must exist: name a mirror of the server that has `replication = true`.",
                )
                .element("ArgumentValue", name)),
        }
    }
}

/// Refuses a change of the versioning that rules depend on (S3 API reference, PutBucketVersioning).
///
/// # Errors
/// `InvalidBucketState`.
pub(super) fn check_none(context: &Context, call: &Call<'_>) -> Result<(), S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    match bucket.configuration(BucketConfigurationKind::Replication) {
        None => Ok(()),
        Some(_) => Err(S3Error::new(ErrorCode::InvalidBucketState).message(
            "A replication configuration is present on this bucket, so the versioning state cannot be changed.",
        )),
    }
}

/// Adds the status of a version that rules send (S3 API reference, GetObject,
/// "x-amz-replication-status"). That of a replica is among its attributes.
pub(super) fn add_status(
    context: &Context,
    response: Response,
    found: &FoundVersion,
    call: &Call<'_>,
) -> Response {
    let version = &found.version;
    let Some(targets) = context.replication.as_deref() else { return response };
    if version.attributes.get(REPLICATION_STATUS).is_some() {
        return response;
    }
    let Ok(bucket) = context.store.configured_bucket(call.bucket()) else { return response };
    let Some(rules) = stored_document::stored::<ReplicationConfiguration>(&bucket) else { return response };
    let candidate =
        ReplicationCandidate { key: call.key(), tags: &version.tags, delete_marker: version.delete_marker };
    let replicated = ReplicatedVersion {
        bucket: (bucket.info.id, &bucket.info.name),
        key: call.key(),
        id: version.id,
        last_group: context.store.last_group_of(version.id),
    };
    let sending = rules.mirrors().filter(|mirror| rules.sends(mirror, candidate));
    let progress = sending.map(|mirror| targets.progress(mirror, replicated)).max();
    match progress {
        None => response,
        Some(ReplicationProgress::Completed) => response.header("p-replication-status", "COMPLETED"),
        Some(ReplicationProgress::Pending) => response.header("p-replication-status", "PENDING"),
        Some(ReplicationProgress::Failed) => response.header("p-replication-status", "FAILED"),
    }
}
