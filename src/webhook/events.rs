//! Events from changes of the log.

use std::collections::HashMap;

use super::record::{ObjectEventFacts, Sequencer, test_message};
use super::selection::{configuration_id, notifications};
use super::{Message, WebhookSettings};
use crate::s3::notification::ObjectEvent;
use crate::store::{
    BucketConfigurationKind, BucketInfo, Cause, Change, ChangeKind, Store, UploadId, VersionId,
    VersionRecord, VersionRef, Versioning,
};

/// The operation of lifecycle rules in causes.
const LIFECYCLE: &str = "LifecycleExpiration";

/// Turns changes into the messages of one target.
pub(super) struct EventSource {
    settings: WebhookSettings,
    region: String,
    /// The buckets by id, as of the last change that was read: one that is gone by now has a name in the events before.
    buckets: HashMap<u64, BucketInfo>,
}

impl EventSource {
    pub(super) fn new(settings: &WebhookSettings, region: &str) -> Self {
        Self { settings: settings.clone(), region: region.to_owned(), buckets: HashMap::new() }
    }

    /// The message about a change; `None` where the target gets none.
    pub(super) fn message(&mut self, store: &Store, change: &Change) -> Option<Message> {
        match &change.kind {
            ChangeKind::BucketPut(bucket) => {
                self.buckets.insert(bucket.id, bucket.clone());
                None
            }
            ChangeKind::BucketDeleted => {
                self.buckets.remove(&change.bucket);
                None
            }
            ChangeKind::BucketConfigured(BucketConfigurationKind::Notification) => {
                self.test_message(store, change)
            }
            ChangeKind::BucketConfigured(_) => None,
            ChangeKind::Put(_) | ChangeKind::Deleted(_) | ChangeKind::Amended(_) => {
                self.record(store, change, event_of(change)?)
            }
        }
    }

    /// The message for a target that a bucket has named.
    fn test_message(&mut self, store: &Store, change: &Change) -> Option<Message> {
        let name = self.bucket(store, change.bucket)?.name.clone();
        let bucket = store.configured_bucket(&name).ok()?;
        let mut destinations = notifications(&bucket)?.destinations();
        let is_named = destinations.any(|destination| destination.name == self.settings.name);
        is_named.then(|| Message::Whole(test_message(&name, change.time)))
    }

    fn record(&mut self, store: &Store, change: &Change, event: ObjectEvent) -> Option<Message> {
        let bucket = self.bucket(store, change.bucket)?.clone();
        let key = std::str::from_utf8(&change.key).ok()?;
        let configured = store.configured_bucket(&bucket.name).ok();
        let configured = configured.filter(|found| found.info.id == bucket.id);
        let configuration =
            configuration_id(&self.settings, (&bucket.name, configured.as_ref()), event, key)?;
        let cause = change.cause.as_deref();
        let known = |field: fn(&Cause) -> &String| {
            cause.map(|cause| field(cause).as_str()).filter(|text| !text.is_empty())
        };
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
            user: known(|cause| &cause.user),
            source: known(|cause| &cause.address),
            request: known(|cause| &cause.request),
        };
        Some(Message::Record(facts.to_record(&configuration)))
    }

    /// The bucket with that id; `None` for one that was deleted before this server started.
    fn bucket(&mut self, store: &Store, id: u64) -> Option<&BucketInfo> {
        if !self.buckets.contains_key(&id) {
            self.buckets.extend(store.buckets().into_iter().map(|bucket| (bucket.id, bucket)));
        }
        self.buckets.get(&id)
    }
}

/// The event that a change of an object is. An amendment without a cause only moved bytes.
fn event_of(change: &Change) -> Option<ObjectEvent> {
    let operation = change.cause.as_deref().map_or("", |cause| cause.operation.as_str());
    let is_expiry = operation == LIFECYCLE;
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
            _ => None,
        },
        ChangeKind::BucketPut(_) | ChangeKind::BucketDeleted | ChangeKind::BucketConfigured(_) => None,
    }
}

/// The creation of a version. Where the log does not name the operation, the parts of the version tell some.
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
    let named = |null: bool, id: VersionId| match (null, versioning) {
        (false, _) => Some(VersionRef::Id(id)),
        (true, Versioning::Unset) => None,
        (true, Versioning::Enabled | Versioning::Suspended) => Some(VersionRef::Null),
    };
    let named = match kind {
        ChangeKind::Put(version) | ChangeKind::Amended(version) => named(version.null, version.id),
        ChangeKind::Deleted(id) => named(versioning == Versioning::Unset, *id),
        ChangeKind::BucketPut(_) | ChangeKind::BucketDeleted | ChangeKind::BucketConfigured(_) => None,
    };
    named.map(|named| named.text(store.client_ids()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::Timestamp;
    use crate::store::{Assembly, Attributes, ETag, ObjectControls, StorageClass};

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
            ("", ChangeKind::Deleted(VersionId(9)), Some(ObjectEvent::RemovedDelete)),
            ("LifecycleExpiration", ChangeKind::Deleted(VersionId(9)), Some(ObjectEvent::ExpiredDelete)),
            ("PutObjectTagging", amended(), Some(ObjectEvent::TaggingPut)),
            ("DeleteObjectTagging", amended(), Some(ObjectEvent::TaggingDelete)),
            ("PutObjectAcl", amended(), Some(ObjectEvent::AclPut)),
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
        assert_eq!(content(&ChangeKind::Deleted(VersionId(1))), None);
    }
}
