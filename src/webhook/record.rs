//! The records of events (S3 user guide, "Event message structure").

use serde_json::{Map, Value, json};

use crate::base::Timestamp;
use crate::s3::notification::ObjectEvent;
use crate::s3::uri;
use crate::store::LostChanges;

/// The requester of changes by lifecycle rules, and its address.
const LIFECYCLE: &str = "s3.amazonaws.com";

/// An event of an object, with everything that its record states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEventFacts<'e> {
    /// The event.
    pub event: ObjectEvent,
    /// The time of the change.
    pub time: Timestamp,
    /// The region of the bucket.
    pub region: &'e str,
    /// The bucket.
    pub bucket: &'e str,
    /// The owner of the bucket.
    pub owner: &'e str,
    /// The key.
    pub key: &'e str,
    /// The size and the entity tag; `None` for a deletion.
    pub content: Option<(u64, String)>,
    /// The version; `None` in a bucket that never had versions.
    pub version: Option<String>,
    /// The place of the change in the log.
    pub sequencer: Sequencer,
    /// The user, where it is known.
    pub user: Option<&'e str>,
    /// The address of the sender, where it is known.
    pub source: Option<&'e str>,
    /// The id of the request, where it is known.
    pub request: Option<&'e str>,
}

/// The place of a change in the log: its group, and its place in that group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequencer {
    /// The group.
    pub group: u64,
    /// The place in the group.
    pub place: u32,
}

impl Sequencer {
    /// Hexadecimal digits of one length, so that they are ordered as text.
    pub fn to_text(self) -> String {
        format!("{:016X}{:08X}", self.group, self.place)
    }
}

impl ObjectEventFacts<'_> {
    /// The record for a notification with this id, as JSON.
    pub fn to_record(&self, configuration: &str) -> String {
        let is_expiry = matches!(self.event, ObjectEvent::ExpiredDelete | ObjectEvent::ExpiredMarker);
        let user = if is_expiry { LIFECYCLE } else { self.user.unwrap_or_default() };
        let source = if is_expiry { LIFECYCLE } else { self.source.unwrap_or_default() };
        let record = json!({
            "eventVersion": self.event.record_version(),
            "eventSource": "aws:s3",
            "awsRegion": self.region,
            "eventTime": self.time.to_iso8601(),
            "eventName": self.event.as_str(),
            "userIdentity": { "principalId": user },
            "requestParameters": { "sourceIPAddress": source },
            "responseElements": {
                "x-amz-request-id": self.request.unwrap_or_default(),
                "x-amz-id-2": self.request.unwrap_or_default(),
            },
            "s3": {
                "s3SchemaVersion": "1.0",
                "configurationId": configuration,
                "bucket": {
                    "name": self.bucket,
                    "ownerIdentity": { "principalId": self.owner },
                    "arn": format!("arn:aws:s3:::{}", self.bucket),
                },
                "object": self.object(),
            },
        });
        record.to_string()
    }

    fn object(&self) -> Value {
        let mut object = Map::new();
        object.insert("key".to_owned(), uri::encode_event_key(self.key).into());
        if let Some((size, etag)) = &self.content {
            object.insert("size".to_owned(), (*size).into());
            object.insert("eTag".to_owned(), etag.trim_matches('"').into());
        }
        if let Some(version) = &self.version {
            object.insert("versionId".to_owned(), version.as_str().into());
        }
        object.insert("sequencer".to_owned(), self.sequencer.to_text().into());
        object.into()
    }
}

/// The message for a target that lost events: those whose sequencers are greater than `After`, and
/// not greater than `Through`.
pub(super) fn lost_message(lost: LostChanges, time: Timestamp) -> String {
    let after = Sequencer { group: lost.after, place: u32::MAX }.to_text();
    let through = Sequencer { group: lost.through, place: u32::MAX }.to_text();
    let message = json!({
        "Service": "Siltstone",
        "Event": "siltstone:EventsLost",
        "Time": time.to_iso8601(),
        "After": after,
        "Through": through,
    });
    message.to_string()
}

/// The message for a target that a bucket names anew (S3 user guide, "Event notification types and
/// destinations"): the time of the configuration, and the id of the request that put it. Without a
/// known id both ids are empty, as in records.
pub fn test_message(bucket: &str, time: Timestamp, request: Option<&str>) -> String {
    let message = json!({
        "Service": "Amazon S3",
        "Event": "s3:TestEvent",
        "Time": time.to_iso8601(),
        "Bucket": bucket,
        "RequestId": request.unwrap_or_default(),
        "HostId": request.unwrap_or_default(),
    });
    message.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put() -> ObjectEventFacts<'static> {
        ObjectEventFacts {
            event: ObjectEvent::CreatedPut,
            time: Timestamp::from_millis(1_700_000_000_123),
            region: "eu",
            bucket: "photos",
            owner: "admin",
            key: "red flower/ü.jpg",
            content: Some((17, "\"d41d8cd98f00b204e9800998ecf8427e\"".to_owned())),
            version: Some("v7".to_owned()),
            sequencer: Sequencer { group: 0x1f, place: 2 },
            user: Some("camera"),
            source: Some("192.0.2.1"),
            request: Some("00FF"),
        }
    }

    #[test]
    fn a_record_has_the_fields_of_s3_in_their_order() {
        let expected = r#"{"eventVersion":"2.1","eventSource":"aws:s3","awsRegion":"eu","eventTime":"2023-11-14T22:13:20.123Z","eventName":"ObjectCreated:Put","userIdentity":{"principalId":"camera"},"requestParameters":{"sourceIPAddress":"192.0.2.1"},"responseElements":{"x-amz-request-id":"00FF","x-amz-id-2":"00FF"},"s3":{"s3SchemaVersion":"1.0","configurationId":"new","bucket":{"name":"photos","ownerIdentity":{"principalId":"admin"},"arn":"arn:aws:s3:::photos"},"object":{"key":"red+flower/%C3%BC.jpg","size":17,"eTag":"d41d8cd98f00b204e9800998ecf8427e","versionId":"v7","sequencer":"000000000000001F00000002"}}}"#;
        assert_eq!(put().to_record("new"), expected);
    }

    #[test]
    fn a_deletion_has_no_content_and_an_expiry_no_user() {
        let removed =
            ObjectEventFacts { event: ObjectEvent::RemovedDelete, content: None, version: None, ..put() };
        let record: Value = serde_json::from_str(&removed.to_record("x")).unwrap();
        let fields: Vec<_> = record["s3"]["object"].as_object().unwrap().keys().collect();
        assert_eq!(fields, ["key", "sequencer"]);
        let expired = ObjectEventFacts { event: ObjectEvent::ExpiredMarker, ..removed };
        let record: Value = serde_json::from_str(&expired.to_record("x")).unwrap();
        assert_eq!(record["eventName"], "LifecycleExpiration:DeleteMarkerCreated");
        assert_eq!(record["eventVersion"], "2.3");
        assert_eq!(record["userIdentity"]["principalId"], "s3.amazonaws.com");
    }

    #[test]
    fn a_test_message_has_the_fields_of_s3_in_their_order() {
        let time = Timestamp::from_millis(1_700_000_000_123);
        let expected = r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2023-11-14T22:13:20.123Z","Bucket":"photos","RequestId":"00FF","HostId":"00FF"}"#;
        assert_eq!(test_message("photos", time, Some("00FF")), expected);
        let unknown: Value = serde_json::from_str(&test_message("photos", time, None)).unwrap();
        assert_eq!((unknown["RequestId"].as_str(), unknown["HostId"].as_str()), (Some(""), Some("")));
    }

    #[test]
    fn lost_events_are_between_sequencers() {
        let message = lost_message(LostChanges { after: 3, through: 0x20 }, Timestamp::from_millis(0));
        let told: Value = serde_json::from_str(&message).unwrap();
        let group = put().sequencer.to_text();
        let place = |name: &str| told[name].as_str().unwrap().to_owned();
        assert!(place("After") < group && group < place("Through"), "{told}");
        let next = Sequencer { group: 0x21, place: 0 }.to_text();
        assert!(place("Through") < next, "{told}");
        assert_eq!((told["Event"].as_str(), told.get("Records")), (Some("siltstone:EventsLost"), None));
    }

    #[test]
    fn sequencers_are_ordered_as_text() {
        let places = [(0, 1), (0, 9), (0, 10), (9, 0), (10, 0), (u64::MAX, u32::MAX)];
        let texts = places.map(|(group, place)| Sequencer { group, place }.to_text());
        assert!(texts.is_sorted() && texts.iter().all(|text| text.len() == 24), "{texts:?}");
    }
}
