//! The lifecycle rules of a bucket on the page of its settings.

use super::super::lifecycle_rules;
use super::super::shown_time::TimedText;
use super::super::text::{self, visible};
use super::View;
use super::documents::ShownDocument;
use crate::service::{LifecycleEffect, NextSweep, RulePreview};

/// Versions of a bucket up to which the page counts what is due: more would make it slow.
const COUNTED_VERSIONS_MAX: u64 = 10_000;

/// A rule on the page.
pub(super) struct ExpiryRule {
    pub(super) name: String,
    /// What it does, as a sentence.
    pub(super) words: String,
    pub(super) is_enabled: bool,
    /// What it takes or moves now, or else when it does next; empty where that was not counted.
    pub(super) effects: Vec<TimedText>,
    /// The form that changes it; `None` for users who may not.
    pub(super) link: Option<String>,
}

/// Whether it is counted what rules take from a bucket that has so many versions, as far as that is
/// known.
pub(super) fn is_counted(versions: Option<u64>) -> bool {
    versions.is_some_and(|versions| versions <= COUNTED_VERSIONS_MAX)
}

/// The rules of a bucket, with what each takes now if its versions are counted. That reads all of
/// them.
pub(super) fn rules_with_effect(
    view: &View<'_>,
    bucket: &str,
    document: &ShownDocument,
    versions: Option<u64>,
) -> Vec<ExpiryRule> {
    let identity = &view.visitor.identity;
    let text = document.text.as_bytes();
    let effect = match is_counted(versions) && !document.text.is_empty() {
        true => view.console.service.lifecycle_effect(identity, view.request, bucket, text),
        false => Ok(LifecycleEffect::default()),
    };
    // Who may not change the rules is not told what they take.
    rules(view, bucket, document, &effect.unwrap_or_default().rules)
}

/// The rules of a bucket. `effects` has what they take, by their ids.
pub(super) fn rules(
    view: &View<'_>,
    bucket: &str,
    document: &ShownDocument,
    effects: &[(String, RulePreview)],
) -> Vec<ExpiryRule> {
    let listed = lifecycle_rules::listed(&document.text);
    let mut rows = Vec::with_capacity(listed.len());
    for rule in listed {
        let params = [("name", Some(bucket)), ("kind", Some("lifecycle")), ("rule", Some(&*rule.id))];
        let words = format!("{}: {}", rule.keys, rule.actions.join("; "));
        let of_rule = effects.iter().filter(|(id, _)| *id == rule.id);
        rows.push(ExpiryRule {
            name: visible(&rule.id).into_owned(),
            words: visible(&words).into_owned(),
            is_enabled: rule.is_enabled,
            effects: of_rule.filter_map(|(_, preview)| in_words(preview)).collect(),
            link: document.may_set.then(|| view.link("editor", &params)),
        });
    }
    rows
}

/// The next run of the rules of a bucket.
pub(super) fn next_run(view: &View<'_>, bucket: &str) -> Option<TimedText> {
    let service = &view.console.service;
    match service.next_lifecycle_sweep(&view.visitor.identity, view.request, bucket)? {
        NextSweep::Unknown => None,
        NextSweep::Soon => Some("Next run within a minute.".into()),
        NextSweep::At(time) => Some(TimedText::of_day("Next run about ", time, ".")),
    }
}

/// What a rule takes or moves; `None` for nothing.
fn in_words(preview: &RulePreview) -> Option<TimedText> {
    let verb = if preview.moves { "to become COLD" } else { "due" };
    let due = preview.due;
    match (due.count, preview.next) {
        (0, Some(next)) => Some(TimedText::of_day(format!("the first is {verb} "), next, "")),
        (0, None) => None,
        (count, _) => Some(format!("{} {verb} now ({})", text::count(count), text::size(due.bytes)).into()),
    }
}
