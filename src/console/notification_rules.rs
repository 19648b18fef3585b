//! The notifications of a bucket, one by one: shown, added by a form, and removed without a change
//! of the others.

use super::form;
use super::s3_client::Refusal;
use crate::s3::notification::{EventPattern, KeyFilter, Notification, NotificationConfiguration};
use crate::s3::{QueryParams, XmlConfiguration as _};

/// The name of the document, which is shown where there is a webhook that it could name.
pub(super) const DOCUMENT: &str = "notification";
/// The document of a bucket without notifications.
pub(super) const NONE: &str = "<NotificationConfiguration/>";
/// The families of events that the form offers.
pub(super) const FAMILIES: [&str; 5] = [
    "s3:ObjectCreated:*",
    "s3:ObjectRemoved:*",
    "s3:LifecycleExpiration:*",
    "s3:ObjectTagging:*",
    "s3:ObjectAcl:Put",
];

/// A notification, for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListedNotification {
    pub(super) id: String,
    /// The keys that it is about.
    pub(super) keys: String,
    /// Its target, and its events.
    pub(super) actions: Vec<String>,
}

impl ListedNotification {
    fn of(notification: &Notification) -> Self {
        let mut actions = vec![format!("to {}", notification.destination.name)];
        actions.extend(notification.patterns().iter().map(|pattern| pattern.as_str().to_owned()));
        Self { id: notification.id.clone(), keys: keys(notification.filter()), actions }
    }
}

/// The document as a bucket has it; empty for one without notifications.
pub(super) fn text(stored: String) -> String {
    match NotificationConfiguration::from_document(stored.as_bytes()) {
        Some(none) if none.is_empty() => String::new(),
        _ => stored,
    }
}

/// The notifications of a document.
pub(super) fn listed(stored: &str) -> Vec<ListedNotification> {
    let configuration = NotificationConfiguration::from_document(stored.as_bytes()).unwrap_or_default();
    configuration.iter().map(ListedNotification::of).collect()
}

fn keys(filter: &KeyFilter) -> String {
    let mut parts = Vec::new();
    for (words, text) in [("that begin with", &filter.prefix), ("that end with", &filter.suffix)] {
        if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
            parts.push(format!("{words} {text}"));
        }
    }
    if parts.is_empty() { "all keys".to_owned() } else { format!("keys {}", parts.join(" and ")) }
}

/// The document without the notification with an id; empty if none is left.
///
/// # Errors
/// There is none, or the document is of no use to this server.
pub(super) fn without(stored: &str, id: &str) -> Result<String, Refusal> {
    let rest = parsed(stored)?.without(id);
    let rest =
        rest.ok_or_else(|| Refusal::new(409, "The bucket has no notification of this name any more."))?;
    Ok(document(&rest))
}

/// The document with the notification of a form: target, events, beginning and end of keys.
///
/// # Errors
/// A field is missing, or the notification overlaps with another one.
pub(super) fn with(stored: &str, fields: &QueryParams) -> Result<String, Refusal> {
    let patterns = form::all(fields, "event").map(EventPattern::parse).collect::<Result<Vec<_>, _>>();
    let patterns = patterns.map_err(|error| Refusal::of_error(&error))?;
    if patterns.is_empty() {
        return Err(Refusal::new(400, "Choose at least one kind of event."));
    }
    let filter = KeyFilter { prefix: entered(fields, "prefix"), suffix: entered(fields, "suffix") };
    let target = form::required(fields, "target")?;
    let id = entered(fields, "id").unwrap_or_default();
    let added = Notification::of_webhook(target, &id, patterns, filter);
    Ok(document(&parsed(stored)?.with(added).map_err(|error| Refusal::of_error(&error))?))
}

/// `None` for a field that is left empty.
fn entered(fields: &QueryParams, name: &str) -> Option<String> {
    fields.get(name).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The stored configuration. One that cannot be read must not be replaced.
fn parsed(stored: &str) -> Result<NotificationConfiguration, Refusal> {
    if stored.is_empty() {
        return Ok(NotificationConfiguration::default());
    }
    let parsed = NotificationConfiguration::from_document(stored.as_bytes());
    parsed.ok_or_else(|| Refusal::new(409, "The notifications cannot be read here. Edit them as text."))
}

fn document(configuration: &NotificationConfiguration) -> String {
    match configuration.is_empty() {
        true => String::new(),
        false => String::from_utf8_lossy(&configuration.to_document()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_added_listed_and_removed_one_by_one() {
        let fields = |text: &str| QueryParams::parse(text).unwrap();
        let one = fields("target=thumbs&id=new&event=s3:ObjectCreated:*&prefix=in/&suffix=.jpg");
        let first = with("", &one).unwrap();
        let other = fields("target=audit&event=s3:ObjectRemoved:*&event=s3:ObjectAcl:Put&prefix=&suffix=");
        let both = with(&first, &other).unwrap();
        let told = listed(&both);
        assert_eq!(
            (told[0].id.as_str(), told[0].keys.as_str()),
            ("new", "keys that begin with in/ and that end with .jpg")
        );
        assert_eq!(told[0].actions, ["to thumbs", "s3:ObjectCreated:*"]);
        assert_eq!((told[1].keys.as_str(), told[1].actions[0].as_str()), ("all keys", "to audit"));
        assert_eq!(with(&both, &other).unwrap_err().status, 400, "it overlaps");
        assert_eq!(without(&both, &told[1].id).unwrap(), first);
        assert_eq!(without(&first, "new").unwrap(), "");
        assert_eq!(without(&first, "old").unwrap_err().status, 409);
        for lacking in ["target=t", "event=s3:ObjectCreated:*", "target=t&event=s3:Unknown"] {
            assert_eq!(with("", &fields(lacking)).unwrap_err().status, 400, "{lacking}");
        }
        let newer = "<NotificationConfiguration><Newer/></NotificationConfiguration>";
        assert_eq!(with(newer, &one).unwrap_err().status, 409);
        assert_eq!((text(NONE.to_owned()), text(first.clone())), (String::new(), first));
    }
}
