//! Event notifications of buckets (S3 API reference, PutBucketNotificationConfiguration; S3 user
//! guide, "Amazon S3 Event Notifications").

mod destination;
mod event;
mod filter;

pub use destination::{Destination, DestinationKind};
pub use event::{EventPattern, EventSet, ObjectEvent};
pub use filter::KeyFilter;

use std::fmt::Write as _;

use crate::base::digest::{Sha256, to_hex};
use crate::base::limits::NOTIFICATIONS_MAX;
use crate::s3::elements::{check_children, missing, text};
use crate::s3::{ErrorCode, S3Error, XmlConfiguration};
use crate::xml::{Element, Writer};

/// The longest id, in characters.
const ID_LEN_MAX_CHARS: usize = 255;

/// The notifications of a bucket, in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotificationConfiguration {
    notifications: Vec<Notification>,
}

/// Events that go to one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Its id; unique in a bucket.
    pub id: String,
    pub destination: Destination,
    patterns: Vec<EventPattern>,
    filter: KeyFilter,
}

impl NotificationConfiguration {
    /// Whether nothing is notified.
    pub fn is_empty(&self) -> bool {
        self.notifications.is_empty()
    }

    /// The notifications, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Notification> {
        self.notifications.iter()
    }

    /// The same with another notification at the end.
    ///
    /// # Errors
    /// As [`Self::parse`] for an id that is in use, and for filters that overlap.
    pub fn with(mut self, notification: Notification) -> Result<Self, S3Error> {
        self.notifications.push(notification);
        self.check_ids()?;
        self.check_overlaps()?;
        Ok(self)
    }

    /// The same without the notification with an id; `None` where there is none.
    pub fn without(mut self, id: &str) -> Option<Self> {
        let at = self.notifications.iter().position(|notification| notification.id == id)?;
        self.notifications.remove(at);
        Some(self)
    }

    /// The destinations, in order; one may occur several times.
    pub fn destinations(&self) -> impl Iterator<Item = &Destination> {
        self.notifications.iter().map(|notification| &notification.destination)
    }

    /// The notification of the webhook `target` for `event` of `key`. There is at most one, since
    /// filters do not overlap.
    pub fn find(&self, target: &str, event: ObjectEvent, key: &str) -> Option<&Notification> {
        self.notifications.iter().find(|it| it.destination.name == target && it.includes(event, key))
    }

    fn check_ids(&self) -> Result<(), S3Error> {
        let ids: Vec<_> = self.notifications.iter().map(|notification| &notification.id).collect();
        match ids.iter().enumerate().find(|(at, id)| ids[..*at].contains(id)) {
            Some((_, id)) => {
                Err(invalid("Id", id, "Same ID used for multiple configurations. IDs must be unique"))
            }
            None => Ok(()),
        }
    }

    /// Refuses two notifications that would apply to one event of one key, as S3 does, whatever
    /// their destinations.
    fn check_overlaps(&self) -> Result<(), S3Error> {
        for (at, one) in self.notifications.iter().enumerate() {
            let overlapping = self.notifications[..at].iter().find(|other| one.overlaps(other));
            if overlapping.is_some() {
                let has_filter = !one.filter.is_empty();
                return Err(invalid(
                    "Id",
                    &one.id,
                    match has_filter {
                        true => {
                            "Configuration is ambiguously defined. Cannot have overlapping suffixes in two rules if the prefixes \
                         are overlapping for the same event type."
                        }
                        false => {
                            "Configurations overlap. Configurations on the same bucket cannot share a common event type."
                        }
                    },
                ));
            }
        }
        Ok(())
    }
}

impl XmlConfiguration for NotificationConfiguration {
    const ROOT: &'static str = "NotificationConfiguration";

    /// Reads the root element.
    ///
    /// # Errors
    /// `MalformedXML` for a missing, repeated or unknown element; `InvalidArgument` for an event,
    /// an ARN, an id or a filter that S3 refuses, and for filters that overlap; `NotImplemented`
    /// for EventBridge.
    fn parse(root: Element<'_>) -> Result<Self, S3Error> {
        if root.all("EventBridgeConfiguration").next().is_some() {
            return Err(S3Error::new(ErrorCode::NotImplemented)
                .message("There is no EventBridge here. Name a webhook as the destination of a queue.")
                .element("ArgumentName", "EventBridgeConfiguration"));
        }
        let kinds = DestinationKind::ALL.map(DestinationKind::element);
        check_children(root, &kinds)?;
        if root.children().count() > NOTIFICATIONS_MAX {
            let message = format!("A bucket has at most {NOTIFICATIONS_MAX} notification configurations.");
            return Err(invalid(Self::ROOT, &root.children().count().to_string(), message));
        }
        let notifications = root.children().map(Notification::parse).collect::<Result<Vec<_>, _>>()?;
        let parsed = Self { notifications };
        parsed.check_ids()?;
        parsed.check_overlaps()?;
        Ok(parsed)
    }

    fn render(&self, document: &mut Writer) {
        for notification in &self.notifications {
            notification.render(document);
        }
    }
}

impl Notification {
    /// The notification of a webhook, with an id that its content makes where `id` is empty.
    pub fn of_webhook(name: &str, id: &str, patterns: Vec<EventPattern>, filter: KeyFilter) -> Self {
        let destination = Destination::queue(name);
        let notification = Self { id: id.to_owned(), destination, patterns, filter };
        match id {
            "" => Self { id: notification.generated_id(), ..notification },
            _ => notification,
        }
    }

    /// The events, as they were written.
    pub fn patterns(&self) -> &[EventPattern] {
        &self.patterns
    }

    pub fn filter(&self) -> &KeyFilter {
        &self.filter
    }

    fn parse(element: Element<'_>) -> Result<Self, S3Error> {
        let kind =
            DestinationKind::of_element(element.name()).ok_or_else(|| missing("QueueConfiguration"))?;
        check_children(element, &["Id", "Event", "Filter", kind.arn_element()])?;
        let arn = text(element, kind.arn_element())?.ok_or_else(|| missing(kind.arn_element()))?;
        let events = element.all("Event").map(|event| EventPattern::parse(event.text().trim()));
        let patterns = events.collect::<Result<Vec<_>, _>>()?;
        if patterns.is_empty() {
            return Err(missing("Event"));
        }
        let destination = Destination::parse(kind, arn.trim())?;
        let notification =
            Self { id: String::new(), destination, patterns, filter: KeyFilter::parse(element)? };
        let id = match text(element, "Id")? {
            Some(id) if id.chars().count() > ID_LEN_MAX_CHARS => {
                let message =
                    format!("The ID of a configuration is at most {ID_LEN_MAX_CHARS} characters long");
                return Err(invalid("Id", &id, message));
            }
            Some(id) if !id.is_empty() => id,
            _ => notification.generated_id(),
        };
        Ok(Self { id, ..notification })
    }

    /// An id for a notification without one: the same for the same content, so that tools which
    /// write it again find no change.
    fn generated_id(&self) -> String {
        let mut content = self.destination.arn.clone();
        for pattern in &self.patterns {
            // Writing to a `String` does not fail.
            let _ = write!(content, "\n{}", pattern.as_str());
        }
        let _ = write!(content, "\n{:?}\n{:?}", self.filter.prefix, self.filter.suffix);
        to_hex(&Sha256::of(content.as_bytes())[..16])
    }

    /// Whether it applies to `event` of `key`.
    fn includes(&self, event: ObjectEvent, key: &str) -> bool {
        self.events().contains(event) && self.filter.includes(key)
    }

    fn events(&self) -> EventSet {
        self.patterns.iter().fold(EventSet::NONE, |all, pattern| all.union(pattern.events()))
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.events().intersects(other.events()) && self.filter.overlaps(&other.filter)
    }

    fn render(&self, document: &mut Writer) {
        let kind = self.destination.kind;
        document.element(kind.element(), |it| {
            it.leaf("Id", &self.id);
            it.leaf(kind.arn_element(), &self.destination.arn);
            for pattern in &self.patterns {
                it.leaf("Event", pattern.as_str());
            }
            self.filter.render(it);
        });
    }
}

/// An `InvalidArgument`.
fn invalid(name: &str, value: &str, message: impl Into<String>) -> S3Error {
    S3Error::invalid_argument(name, value, message)
}

#[cfg(test)]
mod tests;
