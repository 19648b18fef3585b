//! The types of events (S3 user guide, "Event notification types and destinations").

use super::invalid;
use crate::s3::S3Error;

/// An event of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectEvent {
    CreatedPut,
    /// A form of a browser.
    CreatedPost,
    CreatedCopy,
    /// A CompleteMultipartUpload.
    CreatedMultipart,
    /// A version is deleted.
    RemovedDelete,
    /// A delete marker is created.
    RemovedMarker,
    /// A lifecycle rule deletes a version.
    ExpiredDelete,
    /// A lifecycle rule creates a delete marker.
    ExpiredMarker,
    /// A lifecycle rule moves a version to another storage class.
    Transition,
    /// Tags are set.
    TaggingPut,
    TaggingDelete,
    /// An access control list is set.
    AclPut,
}

impl ObjectEvent {
    /// All events with their names in records.
    pub const TABLE: [(Self, &str); 12] = [
        (Self::CreatedPut, "ObjectCreated:Put"),
        (Self::CreatedPost, "ObjectCreated:Post"),
        (Self::CreatedCopy, "ObjectCreated:Copy"),
        (Self::CreatedMultipart, "ObjectCreated:CompleteMultipartUpload"),
        (Self::RemovedDelete, "ObjectRemoved:Delete"),
        (Self::RemovedMarker, "ObjectRemoved:DeleteMarkerCreated"),
        (Self::ExpiredDelete, "LifecycleExpiration:Delete"),
        (Self::ExpiredMarker, "LifecycleExpiration:DeleteMarkerCreated"),
        (Self::Transition, "LifecycleTransition"),
        (Self::TaggingPut, "ObjectTagging:Put"),
        (Self::TaggingDelete, "ObjectTagging:Delete"),
        (Self::AclPut, "ObjectAcl:Put"),
    ];

    /// The name in records.
    pub fn as_str(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    /// The version of the structure of its records (S3 user guide, "Event message structure").
    pub fn record_version(self) -> &'static str {
        match self {
            Self::CreatedPut
            | Self::CreatedPost
            | Self::CreatedCopy
            | Self::CreatedMultipart
            | Self::RemovedDelete
            | Self::RemovedMarker => "2.1",
            Self::ExpiredDelete
            | Self::ExpiredMarker
            | Self::Transition
            | Self::TaggingPut
            | Self::TaggingDelete
            | Self::AclPut => "2.3",
        }
    }
}

/// A set of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventSet(u16);

impl EventSet {
    /// No event.
    pub const NONE: Self = Self(0);

    /// Whether `event` is in the set.
    pub fn contains(self, event: ObjectEvent) -> bool {
        self.0 & (1 << event as u16) != 0
    }

    /// The events of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the sets have an event in common.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The events whose names in records are `name`, or begin with `name` for one that ends in `*`.
    fn named(name: &str) -> Self {
        let mut set = 0;
        for (event, known) in &ObjectEvent::TABLE {
            let is_named = match name.strip_suffix('*') {
                Some(family) => family.ends_with(':') && known.starts_with(family),
                None => *known == name,
            };
            if is_named {
                set |= 1 << *event as u16;
            }
        }
        Self(set)
    }
}

/// An event, or a family of events, as configurations name them: `s3:ObjectCreated:*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPattern {
    text: String,
    events: EventSet,
}

impl EventPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// `InvalidArgument` for an event that never occurs here.
    pub fn parse(text: &str) -> Result<Self, S3Error> {
        let events = text.strip_prefix("s3:").map_or(EventSet::NONE, EventSet::named);
        match events {
            EventSet::NONE => {
                Err(invalid("Event", text, "A specified event is not supported for notifications."))
            }
            events => Ok(Self { text: text.to_owned(), events }),
        }
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The events that it names.
    pub fn events(&self) -> EventSet {
        self.events
    }
}
