//! The events of a target: those that the operator chose, and those that buckets send to it.

use super::WebhookSettings;
use crate::s3::XmlConfiguration as _;
use crate::s3::notification::{NotificationConfiguration, ObjectEvent};
use crate::store::{BucketConfigurationKind, ConfiguredBucket};

/// The id in the records of events that the target `settings` gets of a bucket: its name, where the
/// operator chose them, or the id of the notification of the bucket, if that is still there. `None`
/// for an event that it does not get.
pub(super) fn configuration_id(
    settings: &WebhookSettings,
    bucket: &str,
    notifications: Option<&NotificationConfiguration>,
    event: ObjectEvent,
    key: &str,
) -> Option<String> {
    let is_chosen = settings.chosen.as_ref().is_some_and(|chosen| {
        let of_bucket = chosen.buckets.is_empty() || chosen.buckets.iter().any(|chosen| chosen == bucket);
        of_bucket
            && chosen.filter.includes(key)
            && chosen.patterns.iter().any(|pattern| pattern.events().contains(event))
    });
    if is_chosen {
        return Some(settings.name.clone());
    }
    Some(notifications?.find(&settings.name, event, key)?.id.clone())
}

/// The notifications of a bucket. Those that another version of the server stored may be of no use
/// to this one, which then sends none.
pub(super) fn notifications(bucket: &ConfiguredBucket) -> Option<&NotificationConfiguration> {
    let stored = bucket.configuration(BucketConfigurationKind::Notification)?;
    stored.parsed(NotificationConfiguration::from_document).as_ref()
}
