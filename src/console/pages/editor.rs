//! Editors of the documents of a bucket: a form makes a rule, and the document with it is shown,
//! with its effect, before it is saved.

use askama::Template;

use super::super::form::{EnteredFields, decoded};
use super::super::lifecycle_rules::{self, ListedRule, RuleFields, RuleForm};
use super::super::notification_rules::{self, FAMILIES, ListedNotification};
use super::super::rules;
use super::super::s3_client::Refusal;
use super::super::seen;
use super::super::shown_time::ShownTime;
use super::super::text;
use super::super::text_diff::{self, ChangedLine};
use super::{Page, View, html};
use crate::s3::lifecycle::ExpiryKind;
use crate::s3::{Method, Response, uri};
use crate::service::{LifecycleEffect, PreviewCount};

#[derive(Template)]
#[template(path = "editor.html", config = "src/console/askama.toml")]
struct EditorPage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    kind: EditorKind,
    form: EditorForm,
    /// What was entered in the form of a rule.
    entered: EnteredFields<'a>,
    /// The document as it would be, to be saved; empty for none.
    draft: Option<Draft>,
    effect: Option<EffectRows>,
    /// The lines that the draft would change.
    changes: Vec<ChangedLine>,
}

/// A document to be saved.
struct Draft {
    text: String,
    /// The stored document that it was made from, as the field of the form has it.
    shown: String,
}

/// The stored values that a form shows.
#[derive(Default)]
struct EditorForm {
    rules: Vec<RuleRow>,
    /// The id of the stored rule that is changed, as shown and percent-encoded.
    changed: Option<ChangedRule>,
    /// The stored document whose values the form shows, as its field has it.
    shown: String,
    fields: RuleFields,
    /// The XML of a rule that the form cannot show.
    rule_text: Option<String>,
    /// The index document and the error document.
    website: (String, String),
    /// The webhooks that notifications may name.
    targets: Vec<String>,
}

/// The id of a rule, as shown and as its field has it.
struct ChangedRule {
    name: String,
    id: String,
}

/// A stored rule.
struct RuleRow {
    /// The value of the field of the rule.
    id: String,
    name: String,
    /// The form that changes it, if there is one.
    link: Option<String>,
    keys: String,
    actions: Vec<String>,
    is_enabled: bool,
}

impl RuleRow {
    fn of_rule(view: &View<'_>, bucket: &str, rule: &ListedRule) -> Self {
        let params = [("name", Some(bucket)), ("kind", Some("lifecycle")), ("rule", Some(&*rule.id))];
        Self {
            id: uri::encode_query(&rule.id),
            name: text::visible(&rule.id).into_owned(),
            link: Some(view.link("editor", &params)),
            keys: text::visible(&rule.keys).into_owned(),
            actions: text::all_visible(&rule.actions),
            is_enabled: rule.is_enabled,
        }
    }

    /// A notification is removed, and never changed.
    fn of_notification(notification: &ListedNotification) -> Self {
        Self {
            id: uri::encode_query(&notification.id),
            name: text::visible(&notification.id).into_owned(),
            link: None,
            keys: text::visible(&notification.keys).into_owned(),
            actions: text::all_visible(&notification.actions),
            is_enabled: true,
        }
    }
}

/// The document that an editor changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EditorKind {
    Lifecycle,
    Cors,
    Policy,
    ObjectLock,
    Website,
    Notification,
}

/// The effect of lifecycle rules, as shown.
struct EffectRows {
    /// Rule, action, due now, due later, next moment.
    rules: Vec<(String, &'static str, String, String, Option<ShownTime>)>,
    /// Key, action, bytes.
    due: Vec<(String, &'static str, String)>,
    count: String,
    bytes: String,
    /// The versions that move at once, with their bytes; `None` without any.
    moves: Option<String>,
    is_cut: bool,
}

impl EditorKind {
    const ALL: [Self; 6] =
        [Self::Lifecycle, Self::Cors, Self::Policy, Self::ObjectLock, Self::Website, Self::Notification];

    /// The parameter of S3 for the document.
    fn name(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::Cors => "cors",
            Self::Policy => "policy",
            Self::ObjectLock => "object-lock",
            Self::Website => "website",
            Self::Notification => "notification",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Lifecycle => "Lifecycle rules",
            Self::Cors => "CORS",
            Self::Policy => "Policy",
            Self::ObjectLock => "Object lock",
            Self::Website => "Website",
            Self::Notification => "Notifications",
        }
    }

    /// The stored document; empty for none.
    fn stored(self, view: &View<'_>, bucket: &str) -> Result<String, Refusal> {
        view.stored_document(bucket, self.name())
    }

    /// The document with the change of the form.
    fn draft(self, view: &View<'_>, bucket: &str) -> Result<Draft, Refusal> {
        let stored = self.stored(view, bucket)?;
        // A form that showed stored values would bring them back.
        let has_shown = view.given("rule").is_some() || self == Self::Website;
        seen::check(view.given("shown").filter(|_| has_shown), &stored)?;
        let removed = view.given("remove").map(decoded).transpose()?;
        let rule = view.given("rule").map(decoded).transpose()?;
        let text = match self {
            Self::Lifecycle => match (removed, rule) {
                (Some(id), _) => lifecycle_rules::without(&stored, &id),
                (None, Some(id)) => lifecycle_rules::replaced(&stored, &id, &view.params),
                (None, None) => lifecycle_rules::with(&stored, &view.params),
            },
            Self::Cors => rules::with_cors_rule(&stored, &view.params),
            Self::Policy => rules::with_statement(&stored, bucket, &view.params),
            Self::ObjectLock => rules::default_retention(&view.params),
            Self::Website => rules::website(&stored, &view.params),
            Self::Notification => match removed {
                Some(id) => notification_rules::without(&stored, &id),
                None => notification_rules::with(&stored, &view.params),
            },
        };
        Ok(Draft { text: text?, shown: seen::digest(&stored) })
    }

    /// The form, with the stored values where the user may read them.
    fn form(self, view: &View<'_>, bucket: &str) -> Result<EditorForm, Refusal> {
        match self {
            Self::Cors | Self::Policy | Self::ObjectLock => Ok(EditorForm::default()),
            Self::Website => {
                let stored = self.stored(view, bucket).unwrap_or_default();
                let shown = seen::digest(&stored);
                Ok(EditorForm { website: rules::website_fields(&stored), shown, ..EditorForm::default() })
            }
            Self::Notification => Ok(EditorForm::notifying(view, &self.stored(view, bucket)?)),
            Self::Lifecycle => {
                let stored = self.stored(view, bucket).unwrap_or_default();
                let rule = match view.request.method {
                    Method::Post => view.given("rule").map(decoded).transpose()?,
                    _ => view.given("rule").map(str::to_owned),
                };
                let changing = rule.map(|id| EditorForm::changing(&stored, &id));
                match changing {
                    // What was entered for a rule that is gone becomes a further one.
                    Some(Err(_)) if view.refusal.is_some() => Ok(EditorForm::adding(view, &stored, bucket)),
                    Some(form) => form,
                    None => Ok(EditorForm::adding(view, &stored, bucket)),
                }
            }
        }
    }
}

impl EditorForm {
    /// The form of a new rule, beside the stored ones.
    fn adding(view: &View<'_>, stored: &str, bucket: &str) -> Self {
        let rules = lifecycle_rules::listed(stored);
        let rules = rules.iter().map(|rule| RuleRow::of_rule(view, bucket, rule)).collect();
        Self { rules, ..Self::default() }
    }

    /// The form of a new notification, beside the stored ones.
    fn notifying(view: &View<'_>, stored: &str) -> Self {
        Self {
            rules: notification_rules::listed(stored).iter().map(RuleRow::of_notification).collect(),
            targets: view.console.service.webhook_names().to_vec(),
            ..Self::default()
        }
    }

    /// The form of a stored rule.
    fn changing(stored: &str, id: &str) -> Result<Self, Refusal> {
        let (fields, rule_text) = match lifecycle_rules::form(stored, id)? {
            RuleForm::Fields(fields) => (fields, None),
            RuleForm::Text(text) => (RuleFields::default(), Some(text)),
        };
        let changed = ChangedRule { name: text::visible(id).into_owned(), id: uri::encode_query(id) };
        Ok(Self { changed: Some(changed), shown: seen::digest(stored), fields, rule_text, ..Self::default() })
    }
}

/// Whether there is an editor for a document.
pub(super) fn is_for(name: &str) -> bool {
    EditorKind::ALL.iter().any(|kind| kind.name() == name)
}

/// The form of the document that `kind` names.
pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    match edited(view) {
        Some(draft) if view.refusal.is_some() => respond(view, EditorForm::default(), Some(draft)),
        _ => respond(view, kind(view)?.form(view, view.required("name")?)?, None),
    }
}

/// The document as it was edited in the form that shows it.
fn edited(view: &View<'_>) -> Option<Draft> {
    let shown = view.given("shown").unwrap_or_default();
    let text = view.params.get("text")?;
    Some(Draft { text: text.to_owned(), shown: shown.to_owned() })
}

/// The document with the change of the form, or as it was edited, and its effect. Nothing is
/// changed.
pub(super) fn preview(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("name")?;
    let kind = kind(view)?;
    let draft = match edited(view) {
        Some(draft) => draft,
        None => kind.draft(view, bucket)?,
    };
    respond(view, EditorForm::default(), Some(draft))
}

fn respond(view: &View<'_>, form: EditorForm, draft: Option<Draft>) -> Result<Response, Refusal> {
    let bucket = view.required("name")?;
    let kind = kind(view)?;
    let effect = match &draft {
        // A document that was refused has none.
        _ if view.refusal.is_some() => None,
        Some(Draft { text, .. }) if kind == EditorKind::Lifecycle && !text.is_empty() => {
            Some(effect(view, bucket, text)?)
        }
        _ => None,
    };
    let changes = match &draft {
        Some(draft) => text_diff::changes(&kind.stored(view, bucket).unwrap_or_default(), &draft.text),
        None => Vec::new(),
    };
    let back = view.link("settings", &[("name", Some(bucket))]);
    let entered = if view.params.has("remove") { EnteredFields::default() } else { view.entered(&[]) };
    let page = EditorPage { page: view.page(), bucket, back, kind, form, entered, draft, effect, changes };
    Ok(html(200, &page.page, &page))
}

fn kind(view: &View<'_>) -> Result<EditorKind, Refusal> {
    let name = view.required("kind")?;
    let kind = EditorKind::ALL.into_iter().find(|kind| kind.name() == name);
    kind.ok_or_else(Refusal::not_found)
}

fn effect(view: &View<'_>, bucket: &str, document: &str) -> Result<EffectRows, Refusal> {
    let service = &view.console.service;
    let effect = service.lifecycle_effect(&view.visitor.identity, view.request, bucket, document.as_bytes());
    effect.map(rows).map_err(|error| Refusal::of_error(&error))
}

fn rows(effect: LifecycleEffect) -> EffectRows {
    let rules = effect.rules.into_iter().map(|(rule, total)| {
        let next = total.next.map(|next| ShownTime::of_day(&next.to_iso8601()));
        let action = if total.moves { "transition to COLD" } else { "expiration" };
        (text::visible(&rule).into_owned(), action, shown_count(total.due), shown_count(total.later), next)
    });
    let due = effect.due.into_iter().map(|item| {
        let action = match item.kind {
            ExpiryKind::Current => "current version",
            ExpiryKind::Noncurrent => "older version",
            ExpiryKind::DeleteMarker => "delete marker",
            ExpiryKind::Upload => "upload",
            ExpiryKind::Transition => "transition to COLD",
        };
        (text::visible(&item.key).into_owned(), action, text::size(item.bytes))
    });
    EffectRows {
        rules: rules.collect(),
        due: due.collect(),
        count: text::count(effect.total.count),
        bytes: text::size(effect.total.bytes),
        moves: (effect.moves.count > 0).then(|| shown_count(effect.moves)),
        is_cut: effect.is_cut,
    }
}

fn shown_count(sum: PreviewCount) -> String {
    format!("{} ({})", text::count(sum.count), text::size(sum.bytes))
}
