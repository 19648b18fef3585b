//! Editors of the documents of a bucket: a form makes a rule, and the document with it is shown, with its effect, before it is saved.

use askama::Template;

use super::super::rules;
use super::super::s3_client::Refusal;
use super::super::text;
use super::{Page, View, html};
use crate::s3::Response;
use crate::s3::lifecycle::ExpiryKind;
use crate::service::{LifecycleEffect, PreviewCount};

#[derive(Template)]
#[template(path = "editor.html", config = "src/console/askama.toml")]
struct EditorPage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    kind: EditorKind,
    /// The document with the new rule, to be saved.
    draft: Option<String>,
    effect: Option<EffectRows>,
}

/// The document that an editor changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EditorKind {
    Lifecycle,
    Cors,
    Policy,
    ObjectLock,
}

/// The effect of lifecycle rules, as shown.
struct EffectRows {
    /// Rule, due now, due later, next moment.
    rules: Vec<(String, String, String, String)>,
    /// Key, action, bytes.
    due: Vec<(String, &'static str, String)>,
    count: u64,
    bytes: String,
    is_cut: bool,
}

impl EditorKind {
    const ALL: [Self; 4] = [Self::Lifecycle, Self::Cors, Self::Policy, Self::ObjectLock];

    /// The parameter of S3 for the document.
    fn name(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::Cors => "cors",
            Self::Policy => "policy",
            Self::ObjectLock => "object-lock",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Lifecycle => "Lifecycle rules",
            Self::Cors => "Cross-origin rules",
            Self::Policy => "Policy",
            Self::ObjectLock => "Object lock",
        }
    }

    /// The document with the rule of the form.
    fn draft(self, view: &View<'_>, bucket: &str) -> Result<String, Refusal> {
        let stored = match view.document(bucket, self.name()) {
            Err(refusal) if refusal.status == 404 => String::new(),
            stored => stored?,
        };
        match self {
            Self::Lifecycle => rules::with_lifecycle_rule(&stored, &view.params),
            Self::Cors => rules::with_cors_rule(&stored, &view.params),
            Self::Policy => rules::with_statement(&stored, bucket, &view.params),
            Self::ObjectLock => rules::default_retention(&view.params),
        }
    }
}

/// Whether there is an editor for a document.
pub(super) fn is_for(name: &str) -> bool {
    EditorKind::ALL.iter().any(|kind| kind.name() == name)
}

/// The form of the document that `kind` names.
pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    respond(view, None)
}

/// The document with the rule of the form, or as it was edited, and its effect. Nothing is changed.
pub(super) fn preview(view: &View<'_>) -> Result<Response, Refusal> {
    let (bucket, kind) = (view.required("name")?, kind(view)?);
    let draft = match view.given("text") {
        Some(text) => text.to_owned(),
        None => kind.draft(view, bucket)?,
    };
    respond(view, Some(draft))
}

fn respond(view: &View<'_>, draft: Option<String>) -> Result<Response, Refusal> {
    let (bucket, kind) = (view.required("name")?, kind(view)?);
    let effect = match &draft {
        Some(text) if kind == EditorKind::Lifecycle => Some(effect(view, bucket, text)?),
        _ => None,
    };
    let back = view.link("settings", &[("name", Some(bucket))]);
    Ok(html(200, &EditorPage { page: view.page(), bucket, back, kind, draft, effect }))
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
    let count = |sum: PreviewCount| format!("{} ({})", sum.count, text::size(sum.bytes));
    let rules = effect.rules.into_iter().map(|(rule, total)| {
        let next = total.next.map(|next| text::time(&next.to_iso8601())).unwrap_or_default();
        (text::visible(&rule).into_owned(), count(total.due), count(total.later), next)
    });
    let due = effect.due.into_iter().map(|item| {
        let action = match item.kind {
            ExpiryKind::Current => "current version",
            ExpiryKind::Noncurrent => "older version",
            ExpiryKind::DeleteMarker => "delete marker",
            ExpiryKind::Upload => "upload",
        };
        (text::visible(&item.key).into_owned(), action, text::size(item.bytes))
    });
    EffectRows {
        rules: rules.collect(),
        due: due.collect(),
        count: effect.total.count,
        bytes: text::size(effect.total.bytes),
        is_cut: effect.is_cut,
    }
}
