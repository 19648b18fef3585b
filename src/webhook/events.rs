//! Events from changes of the log.

use super::record::{ObjectEventFacts, Sequencer, test_message};
use super::selection::{configuration_id, notifications};
use super::{Message, WebhookSettings};
use crate::s3::XmlConfiguration as _;
use crate::s3::notification::{NotificationConfiguration, ObjectEvent};
use crate::store::{
    BucketConfigurationKind, BucketInfo, Cause, Change, ChangeKind, ConfiguredBucket, DepartedBucket,
    DepartedBuckets, Follower, Store, StoreError, UploadId, VersionRecord, VersionRef, Versioning,
};

/// Turns changes into the messages of one target.
pub(super) struct EventSource {
    settings: WebhookSettings,
    region: String,
    departed: DepartedBuckets,
    /// The last bucket of which nothing is known.
    unknown: u64,
}

/// The bucket of an event.
enum EventBucket {
    Present(ConfiguredBucket),
    /// One that is gone, with its last notifications.
    Departed(BucketInfo, Option<NotificationConfiguration>),
}

impl EventBucket {
    fn present(store: &Store, id: u64) -> Option<Self> {
        let name = &store.followed_bucket(id)?.name;
        store.configured_bucket(name).ok().filter(|found| found.info.id == id).map(Self::Present)
    }

    fn departed(bucket: &DepartedBucket) -> Self {
        let notifications = bucket.notifications.as_deref();
        let notifications = notifications.and_then(NotificationConfiguration::from_document);
        Self::Departed(bucket.record.clone(), notifications)
    }

    fn info(&self) -> &BucketInfo {
        match self {
            Self::Present(found) => &found.info,
            Self::Departed(info, _) => info,
        }
    }

    fn notifications(&self) -> Option<&NotificationConfiguration> {
        match self {
            Self::Present(found) => notifications(found),
            Self::Departed(_, notifications) => notifications.as_ref(),
        }
    }
}

impl EventSource {
    pub(super) fn new(settings: &WebhookSettings, region: &str) -> Self {
        Self {
            settings: settings.clone(),
            region: region.to_owned(),
            departed: DepartedBuckets::default(),
            unknown: 0,
        }
    }

    /// The message about a change that the follower read; `None` where the target gets none.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn message(
        &mut self,
        store: &Store,
        follower: &Follower,
        change: &Change,
    ) -> Result<Option<Message>, StoreError> {
        match &change.kind {
            ChangeKind::BucketDeleted => {
                self.departed.forget(change.bucket);
                Ok(None)
            }
            ChangeKind::BucketConfigured(BucketConfigurationKind::Notification) => {
                Ok(self.test_message(store, change))
            }
            ChangeKind::BucketPut(_) | ChangeKind::BucketConfigured(_) => Ok(None),
            ChangeKind::Put(_) | ChangeKind::Deleted(_) | ChangeKind::Amended(_) => {
                let Some(event) = event_of(change) else { return Ok(None) };
                let bucket = self.bucket(store, follower, change.bucket)?;
                Ok(bucket.and_then(|bucket| self.record(store, &bucket, change, event)))
            }
        }
    }

    /// The message for a target that a bucket has named.
    fn test_message(&self, store: &Store, change: &Change) -> Option<Message> {
        let bucket = EventBucket::present(store, change.bucket)?;
        let mut destinations = bucket.notifications()?.destinations();
        let is_named = destinations.any(|destination| destination.name == self.settings.name);
        let request = change.cause.as_deref().map(|cause| cause.request.as_str());
        is_named.then(|| Message::Whole(test_message(&bucket.info().name, change.time, request)))
    }

    fn record(
        &self,
        store: &Store,
        of: &EventBucket,
        change: &Change,
        event: ObjectEvent,
    ) -> Option<Message> {
        let bucket = of.info();
        let key = std::str::from_utf8(&change.key).ok()?;
        let configuration = configuration_id(&self.settings, &bucket.name, of.notifications(), event, key)?;
        let cause = change.cause.as_deref();

        let facts = ObjectEventFacts {
            event,
            time: change.time,
            region: &self.region,
            bucket: &bucket.name,
            owner: &bucket.owner,
            key,
            content: content(&change.kind),
            version: version(store, bucket.versioning, &change.kind),
            sequencer: Sequencer { group: change.sequence, place: change.place },
            user: cause.map(|cause| &*cause.user).filter(|user| !user.is_empty()),
            source: cause.map(|cause| &*cause.address).filter(|address| !address.is_empty()),
            request: cause.map(|cause| &*cause.request).filter(|request| !request.is_empty()),
        };
        Some(Message::Record(facts.to_record(&configuration)))
    }

    /// The bucket with that id; `None` for one that an earlier version of the server deleted, whose
    /// log does not name it.
    fn bucket(
        &mut self,
        store: &Store,
        follower: &Follower,
        id: u64,
    ) -> Result<Option<EventBucket>, StoreError> {
        if let Some(present) = EventBucket::present(store, id) {
            return Ok(Some(present));
        }
        let departed = self.departed.get(store, follower, id)?.map(EventBucket::departed);
        if departed.is_none() && self.unknown != id {
            self.unknown = id;
            log::error!(
                "the webhook {} does not get events of a bucket that is gone: the log does not tell its name",
                self.settings.name
            );
        }
        Ok(departed)
    }
}

/// The event that a change of an object is. An amendment without a cause only moved bytes.
fn event_of(change: &Change) -> Option<ObjectEvent> {
    let operation = change.cause.as_deref().map_or("", |cause| cause.operation.as_str());
    let is_expiry = operation == Cause::LIFECYCLE_EXPIRATION;
    match &change.kind {
        ChangeKind::Put(version) if version.delete_marker && is_expiry => Some(ObjectEvent::ExpiredMarker),
        ChangeKind::Put(version) if version.delete_marker => Some(ObjectEvent::RemovedMarker),
        ChangeKind::Put(version) => Some(creation(operation, version)),
        ChangeKind::Deleted(_) if is_expiry => Some(ObjectEvent::ExpiredDelete),
        ChangeKind::Deleted(_) => Some(ObjectEvent::RemovedDelete),
        ChangeKind::Amended(_) => match operation {
            "PutObjectTagging" => Some(ObjectEvent::TaggingPut),
            "DeleteObjectTagging" => Some(ObjectEvent::TaggingDelete),
            "PutObjectAcl" => Some(ObjectEvent::AclPut),
            Cause::LIFECYCLE_TRANSITION => Some(ObjectEvent::Transition),
            _ => None,
        },
        ChangeKind::BucketPut(_) | ChangeKind::BucketDeleted | ChangeKind::BucketConfigured(_) => None,
    }
}

/// The creation of a version. Where the log does not name the operation, the parts of the version
/// tell some.
fn creation(operation: &str, version: &VersionRecord) -> ObjectEvent {
    match (operation, &version.upload) {
        ("PostObject", _) => ObjectEvent::CreatedPost,
        ("CopyObject", _) => ObjectEvent::CreatedCopy,
        ("CompleteMultipartUpload", _) => ObjectEvent::CreatedMultipart,
        ("", Some(parts)) if parts.upload == UploadId::NONE => ObjectEvent::CreatedCopy,
        ("", Some(_)) => ObjectEvent::CreatedMultipart,
        _ => ObjectEvent::CreatedPut,
    }
}

/// The size and the entity tag of the version that a change left behind.
fn content(kind: &ChangeKind) -> Option<(u64, String)> {
    match kind {
        ChangeKind::Put(version) | ChangeKind::Amended(version) if !version.delete_marker => {
            Some((version.size, version.etag.to_string()))
        }
        _ => None,
    }
}

/// The id of the version as clients know it; `None` in a bucket that never had versions.
fn version(store: &Store, versioning: Versioning, kind: &ChangeKind) -> Option<String> {
    let (null, id) = match kind {
        ChangeKind::Put(version) | ChangeKind::Amended(version) => (version.null, version.id),
        // Logs of earlier versions do not mark null versions.
        ChangeKind::Deleted(gone) => (gone.null || versioning == Versioning::Unset, gone.id),
        ChangeKind::BucketPut(_) | ChangeKind::BucketDeleted | ChangeKind::BucketConfigured(_) => {
            return None;
        }
    };
    let named = match (null, versioning) {
        (false, _) => VersionRef::Id(id),
        (true, Versioning::Unset) => return None,
        (true, Versioning::Enabled | Versioning::Suspended) => VersionRef::Null,
    };
    Some(named.text(store.client_ids()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::Timestamp;
    use crate::store::{Assembly, Attributes, DeletedVersion, ETag, ObjectControls, StorageClass, VersionId};

    fn record(delete_marker: bool, upload: Option<UploadId>) -> Box<VersionRecord> {
        Box::new(VersionRecord {
            storage_class: StorageClass::Standard,
            id: VersionId(9),
            null: true,
            delete_marker,
            modified: Timestamp::from_millis(6),
            size: 5,
            etag: ETag::Md5([1; 16]),
            extents: vec![],
            attributes: Attributes::new(),
            checksums: vec![],
            tags: vec![],
            upload: upload.map(|upload| Assembly { upload, parts: vec![] }),
            controls: ObjectControls::default(),
            controls_stamp: None,
            encryption: None,
            stated_time: None,
        })
    }

    fn change(operation: &str, kind: ChangeKind) -> Change {
        let cause = Cause { entries: 1, operation: operation.to_owned(), ..Cause::default() };
        let cause = (!operation.is_empty()).then(|| Arc::new(cause));
        Change {
            sequence: 1,
            place: 0,
            time: Timestamp::from_millis(1),
            bucket: 1,
            key: b"k".to_vec(),
            kind,
            cause,
        }
    }

    #[test]
    fn operations_and_changes_make_events() {
        let put = |marker, upload| ChangeKind::Put(record(marker, upload));
        let amended = || ChangeKind::Amended(record(false, None));
        let gone = DeletedVersion { id: VersionId(9), null: false };
        for (operation, kind, event) in [
            ("PutObject", put(false, None), Some(ObjectEvent::CreatedPut)),
            ("PostObject", put(false, None), Some(ObjectEvent::CreatedPost)),
            ("CopyObject", put(false, Some(UploadId::NONE)), Some(ObjectEvent::CreatedCopy)),
            ("CompleteMultipartUpload", put(false, Some(UploadId(7))), Some(ObjectEvent::CreatedMultipart)),
            ("", put(false, None), Some(ObjectEvent::CreatedPut)),
            ("", put(false, Some(UploadId::NONE)), Some(ObjectEvent::CreatedCopy)),
            ("", put(false, Some(UploadId(7))), Some(ObjectEvent::CreatedMultipart)),
            ("DeleteObject", put(true, None), Some(ObjectEvent::RemovedMarker)),
            ("LifecycleExpiration", put(true, None), Some(ObjectEvent::ExpiredMarker)),
            ("", ChangeKind::Deleted(gone), Some(ObjectEvent::RemovedDelete)),
            ("LifecycleExpiration", ChangeKind::Deleted(gone), Some(ObjectEvent::ExpiredDelete)),
            ("PutObjectTagging", amended(), Some(ObjectEvent::TaggingPut)),
            ("DeleteObjectTagging", amended(), Some(ObjectEvent::TaggingDelete)),
            ("PutObjectAcl", amended(), Some(ObjectEvent::AclPut)),
            ("LifecycleTransition", amended(), Some(ObjectEvent::Transition)),
            ("PutObjectRetention", amended(), None),
            ("", amended(), None),
            ("PutBucketNotificationConfiguration", ChangeKind::BucketDeleted, None),
        ] {
            assert_eq!(event_of(&change(operation, kind.clone())), event, "{operation} {kind:?}");
        }
    }

    #[test]
    fn content_is_that_of_versions_alone() {
        let told = content(&ChangeKind::Put(record(false, None)));
        assert_eq!(told.map(|(size, etag)| (size, etag.trim_matches('"').len())), Some((5, 32)));
        assert_eq!(content(&ChangeKind::Put(record(true, None))), None);
        let gone = DeletedVersion { id: VersionId(1), null: true };
        assert_eq!(content(&ChangeKind::Deleted(gone)), None);
    }
}
