//! Changes of many selected objects: the list that is shown before, and the steps in which they are
//! made. What was changed after the list was shown stays.

use askama::Template;

use super::super::form::{self, decoded};
use super::super::objects::{ChangedObject, LeftObject};
use super::super::s3_client::Refusal;
use super::super::selected_object::SelectedObject;
use super::super::selection::{Selection, SelectionPlace};
use super::super::sessions::{Told, UndoForm};
use super::super::text;
use super::{Page, View, html, see_other};
use crate::base::Timestamp;
use crate::console::rewind;
use crate::s3::Response;

/// Objects that a list counts.
const COUNTED_MAX: usize = 10_000;
/// Names that a list shows.
const SHOWN_MAX: usize = 100;

pub(super) const CHANGED: &str = "It was changed after the list was shown.";

/// What the form of a change selects, and where from.
pub(super) struct ChangedSelection<'v> {
    pub(super) bucket: &'v str,
    /// The folder of the page on which the objects were selected; empty for the bucket itself.
    pub(super) at: String,
    /// The address of that page.
    pub(super) back: String,
    pub(super) selection: Selection,
}

impl<'v> ChangedSelection<'v> {
    /// Reads the fields: `object`, `folder` and `history` select, and `at` is the percent-encoded
    /// prefix of the page to return to.
    ///
    /// # Errors
    /// A field is missing or malformed.
    pub(super) fn read(view: &'v View<'_>) -> Result<Self, Refusal> {
        let bucket = view.required("bucket")?;
        let at = view.given("at").map(decoded).transpose()?.unwrap_or_default();
        let prefix = Some(&*at).filter(|at| !at.is_empty());
        let back = view.link("bucket", &[("name", Some(bucket)), ("prefix", prefix)]);
        let selection = Selection::read(&view.params)?;
        Ok(Self { bucket, at, back, selection })
    }

    /// The list for the question before the change.
    ///
    /// # Errors
    /// Errors of the listings.
    pub(super) fn list(&self, view: &View<'_>) -> Result<SelectedList, Refusal> {
        SelectedList::read(view, self.bucket, &self.selection)
    }
}

/// What a form selects, as the question before a change shows it.
pub(super) struct SelectedList {
    /// The time of this list.
    pub(super) seen: String,
    pub(super) names: Vec<String>,
    pub(super) further: usize,
    pub(super) count: usize,
    pub(super) bytes: String,
    pub(super) is_cut: bool,
    /// The fields that select the same once more.
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) has_versions: bool,
    /// Whether it has delete markers alone.
    pub(super) has_markers_alone: bool,
}

impl SelectedList {
    /// The number of objects, for people.
    pub(super) fn shown_count(&self) -> String {
        text::count(self.count as u64)
    }

    /// Lists what is selected, and adds to the named objects the entity tags that they have.
    ///
    /// # Errors
    /// Errors of the listings.
    pub(super) fn read(view: &View<'_>, bucket: &str, selection: &Selection) -> Result<Self, Refusal> {
        // An object that comes while the folders are listed is not on the list.
        let seen = view.console.clock.now().to_iso8601();
        let mut step = selection.step(&view.s3(), bucket, SelectionPlace::default(), COUNTED_MAX)?;
        let mut bytes: u64 = step.listed.iter().map(|object| object.size).sum();
        for object in &mut step.named {
            if object.is_marker() {
                continue;
            }
            // The size and the tag of an object that may not be read are not known.
            if let Ok(head) = view.s3().head(bucket, &object.key, object.version.as_deref()) {
                bytes += head.size;
                object.etag.get_or_insert(head.etag);
            }
        }
        let count = step.named.len() + step.listed.len();
        let named = step.named.iter().map(shown_name);
        let names = named.chain(step.listed.iter().map(|line| shown_name(&line.selected())));
        let at = view.given("at").map(|at| ("at", at.to_owned()));
        let objects = step.named.iter().map(|object| ("object", object.field()));
        Ok(Self {
            seen,
            names: names.take(SHOWN_MAX).collect(),
            further: count.saturating_sub(SHOWN_MAX),
            count,
            bytes: text::size(bytes),
            is_cut: step.next.is_some(),
            fields: at.into_iter().chain(objects).chain(selection.prefix_fields()).collect(),
            has_versions: step.named.iter().any(|object| object.version.is_some())
                || step.listed.iter().any(|line| line.version.is_some()),
            has_markers_alone: step.listed.is_empty() && step.named.iter().all(SelectedObject::is_marker),
        })
    }
}

fn shown_name(object: &SelectedObject) -> String {
    match &object.version {
        Some(version) => format!("{} ({version})", text::visible(&object.key)),
        None => text::visible(&object.key).into_owned(),
    }
}

/// How pages speak of a change.
pub(super) struct ChangeWords {
    /// The page that makes it.
    pub(super) page: &'static str,
    pub(super) title: &'static str,
    pub(super) subject: &'static str,
    pub(super) participle: &'static str,
}

/// The part of a change that one request makes.
pub(super) struct ChangeStep {
    /// The objects that are still as they were listed.
    pub(super) objects: Vec<ChangedObject>,
    /// Those that are left as they are.
    pub(super) left: Vec<LeftObject>,
    /// Those that were changed, in this step and before.
    pub(super) done: usize,
    seen: Timestamp,
    /// The value of the field for the next step.
    after: Option<String>,
    /// The way to take the change back, where it was made as a whole.
    pub(super) undo: Option<UndoForm>,
}

/// The fields of a step; the next one has all others, too.
const OF_STEP: [&str; 5] = ["bucket", "confirmed", "seen", "after", "done"];

#[derive(Template)]
#[template(path = "steps.html", config = "src/console/askama.toml")]
struct StepPage<'a> {
    page: Page,
    words: ChangeWords,
    bucket: &'a str,
    back: String,
    fields: Vec<(&'a str, &'a str)>,
    seen: String,
    done: usize,
    left: Vec<LeftObject>,
    after: Option<String>,
}

impl StepPage<'_> {
    fn shown_done(&self) -> String {
        text::count(self.done as u64)
    }
}

impl ChangeStep {
    /// Reads the step that the fields `after` and `seen` name: about `objects_max` objects.
    ///
    /// # Errors
    /// Errors of the listings; the fields are malformed.
    pub(super) fn read(
        view: &View<'_>,
        bucket: &str,
        selection: &Selection,
        objects_max: usize,
    ) -> Result<Self, Refusal> {
        let seen = view.given("seen").map_or_else(|| Ok(view.console.clock.now()), rewind::time)?;
        let place = view.given("after").map(SelectionPlace::parse).transpose()?.unwrap_or_default();
        let listed = selection.step(&view.s3(), bucket, place, objects_max)?;
        let mut step = Self {
            objects: Vec::new(),
            left: Vec::new(),
            done: view.given("done").and_then(|count| count.parse().ok()).unwrap_or(0),
            seen,
            after: listed.next.as_ref().map(SelectionPlace::field),
            undo: None,
        };
        for SelectedObject { key, version, etag } in listed.named {
            // A version does not change.
            let etag = etag.filter(|_| version.is_none());
            step.objects.push(ChangedObject { key, version, etag });
        }
        for object in listed.listed {
            if rewind::modified(&object).map_or(true, |modified| modified > seen) {
                step.left.push(LeftObject { key: object.key, message: CHANGED.to_owned() });
                continue;
            }
            let etag = object.version.is_none().then_some(object.etag);
            step.objects.push(ChangedObject { key: object.key, version: object.version, etag });
        }
        Ok(step)
    }

    /// Whether no step comes after this one, and no object is left as it is.
    pub(super) fn is_whole(&self) -> bool {
        self.left.is_empty() && self.after.is_none()
    }

    /// A change that was made in one step.
    pub(super) fn made(view: &View<'_>, done: usize, left: Vec<LeftObject>) -> Self {
        Self { objects: Vec::new(), left, done, seen: view.console.clock.now(), after: None, undo: None }
    }

    /// Changes each object of the step by itself.
    pub(super) fn make(&mut self, change: impl Fn(&ChangedObject) -> Result<(), Refusal>) {
        for object in std::mem::take(&mut self.objects) {
            match change(&object) {
                Ok(()) => self.done = self.done.saturating_add(1),
                Err(refusal) => self.left.push(LeftObject { key: object.key, message: refusal.message }),
            }
        }
    }

    /// Leads on to the next step or, where nothing is left to report, back.
    pub(super) fn end(self, view: &View<'_>, bucket: &str, back: String, words: ChangeWords) -> Response {
        if self.left.is_empty() && self.after.is_none() {
            let objects = if self.done == 1 { "object" } else { "objects" };
            let text = format!("{} {objects} {}", self.done, words.participle);
            view.tell_outcome(Told { text, undo: self.undo });
            return see_other(&back);
        }
        let page = StepPage {
            page: view.page(),
            words,
            bucket,
            back,
            fields: form::without(&view.params, &OF_STEP),
            seen: self.seen.to_iso8601(),
            done: self.done,
            left: self.left,
            after: self.after,
        };
        html(if page.left.is_empty() { 200 } else { 409 }, &page.page, &page)
    }
}
