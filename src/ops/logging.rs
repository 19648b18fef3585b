//! The access logs of buckets, which are delivered as objects to other buckets.

use super::access::{self, Place};
use super::client_error::to_client_error;
use super::encryption::ChosenEncryption;
use super::new_object::attributes_of;
use super::stored_document::{self, StoredDocument};
use super::{Context, EntityTags, object_lock};
use crate::auth::{Action, Authorized};
use crate::base::Timestamp;
use crate::s3::logging::{BucketLogging, LogObject, LogTarget};
use crate::s3::{Call, ErrorCode, RequestId, S3Error};
use crate::store::{
    BucketConfigurationKind, Cause, CauseScope, Commit, ConfiguredBucket, ETag, ObjectControls, StorageClass,
    StoreError, WriteCondition,
};

/// The media type of the objects.
const MEDIA_TYPE: &str = "text/plain";

impl StoredDocument for BucketLogging {
    const KIND: BucketConfigurationKind = BucketConfigurationKind::Logging;

    /// A bucket without a log has an empty configuration.
    fn unset(_: &Context) -> Result<Self, ErrorCode> {
        Ok(Self::default())
    }

    /// The target is of the same owner, so that nobody fills the bucket of another one, and the
    /// sender may put such objects there itself.
    fn check(
        &self,
        context: &Context,
        proof: &Authorized,
        call: &Call<'_>,
        bucket: &ConfiguredBucket,
    ) -> Result<(), S3Error> {
        let Some(target) = &self.target else { return Ok(()) };
        let found = context.store.bucket(&target.bucket).map_err(|error| match error {
            StoreError::NoSuchBucket => unfit(target, "The target bucket for logging does not exist"),
            other => to_client_error(&other, &call.id),
        })?;
        let key = target.key(LogObject {
            region: &context.region,
            source: call.bucket(),
            of_events: Timestamp::default(),
            delivered: Timestamp::default(),
            unique: 0,
        });
        access::check(context, proof, call, Action::PutObject, Place::object(&target.bucket, &key))?;
        match found.owner == bucket.info.owner {
            true => Ok(()),
            false => Err(unfit(
                target,
                "The owner for the bucket to be logged and the target bucket must be the same.",
            )),
        }
    }

    fn is_empty(&self) -> bool {
        self.target.is_none()
    }
}

fn unfit(target: &LogTarget, message: &str) -> S3Error {
    S3Error::new(ErrorCode::InvalidTargetBucketForLogging)
        .message(message)
        .element("TargetBucket", &target.bucket)
}

/// A bucket whose requests are recorded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LoggedBucket {
    pub name: String,
    pub owner: String,
    pub target: LogTarget,
}

/// Records that are to be stored.
#[derive(Debug, Clone, Copy)]
pub struct LogDelivery<'d> {
    pub log: &'d LoggedBucket,
    pub key: &'d str,
    pub records: &'d [u8],
    /// Its id in the log of the server.
    pub id: &'d RequestId,
}

impl Context {
    /// The log of a bucket; `None` without one, and for a bucket that is missing.
    pub fn log_of(&self, bucket: &str) -> Option<LoggedBucket> {
        let found = self.store.configured_bucket(bucket).ok()?;
        found.configuration(BucketLogging::KIND)?;
        let target = stored_document::stored::<BucketLogging>(&found)?.target.clone()?;
        Some(LoggedBucket { name: found.info.name.clone(), owner: found.info.owner.clone(), target })
    }

    /// Stores the records of a log in its target, as a put without headers would. Durable on
    /// return.
    ///
    /// # Errors
    /// `InvalidTargetBucketForLogging` for a target that is missing or of another owner; those of a
    /// put.
    pub fn deliver_log(&self, delivery: LogDelivery<'_>) -> Result<(), S3Error> {
        let LogDelivery { log, key, records, id } = delivery;
        let bucket =
            self.store.configured_bucket(&log.target.bucket).map_err(|error| for_log(error, log, id))?;
        let encryption = ChosenEncryption::of_bucket(self, &bucket, id)?;
        let retention = object_lock::default_retention(self, &bucket);
        let mut writer = self
            .store
            .writer(&log.target.bucket, key, Some(records.len() as u64))
            .map_err(|error| for_log(error, log, id))?;
        // Of the bucket that is written to, since another one may have taken the name.
        if writer.bucket().owner != log.owner {
            return Err(unfit(&log.target, "The target bucket for logging is of another owner"));
        }
        if let Some(new) = &encryption.new {
            writer.encrypt(new).map_err(|error| for_log(error, log, id))?;
        }
        writer.write(records).map_err(|error| for_log(error, log, id))?;
        let etag = match self.entity_tags {
            EntityTags::Md5 => ETag::None,
            EntityTags::Crc => ETag::Crc(writer.crc32()),
        };
        let commit = Commit {
            etag,
            attributes: attributes_of(vec![("content-type".to_owned(), MEDIA_TYPE.to_owned())]),
            checksums: Vec::new(),
            tags: Vec::new(),
            controls: ObjectControls { retention, ..ObjectControls::default() },
            storage_class: StorageClass::default(),
            condition: WriteCondition::None,
            stated_time: None,
        };
        let _scope = CauseScope::enter(self.store.has_followers().then(|| cause(id).into()));
        let written = match self.entity_tags {
            EntityTags::Md5 => writer.commit_with_md5(commit),
            EntityTags::Crc => writer.commit(commit),
        };
        written.map(|_| ()).map_err(|error| for_log(error, log, id))
    }
}

fn for_log(error: StoreError, log: &LoggedBucket, id: &RequestId) -> S3Error {
    match error {
        StoreError::NoSuchBucket => unfit(&log.target, "The target bucket for logging does not exist"),
        other => to_client_error(&other, id),
    }
}

/// A delivery, for those who follow the log of the store.
fn cause(id: &RequestId) -> Cause {
    Cause { operation: "PutObject".to_owned(), request: id.as_str().to_owned(), ..Cause::default() }
}
