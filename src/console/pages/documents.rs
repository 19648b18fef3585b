//! The documents that S3 has for the settings of a bucket, and the page of one as text.

use askama::Template;

use super::super::notification_rules;
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::seen;
use super::super::text_diff::{self, ChangedLine};
use super::{Page, View, editor, html};
use crate::s3::{Method, Operation, Response};

/// The parameter of S3 for the default encryption.
pub(super) const ENCRYPTION: &str = "encryption";

/// A sub-resource with a document.
pub(super) struct BucketDocument {
    pub(super) title: &'static str,
    /// The parameter of S3.
    pub(super) name: &'static str,
    /// The operation that stores it.
    put: Operation,
}

const DOCUMENTS: [BucketDocument; 8] = [
    BucketDocument { title: "Policy", name: "policy", put: Operation::PutBucketPolicy },
    BucketDocument { title: "CORS", name: "cors", put: Operation::PutBucketCors },
    BucketDocument {
        title: "Lifecycle rules",
        name: "lifecycle",
        put: Operation::PutBucketLifecycleConfiguration,
    },
    BucketDocument { title: "Object lock", name: "object-lock", put: Operation::PutObjectLockConfiguration },
    BucketDocument { title: "Default encryption", name: ENCRYPTION, put: Operation::PutBucketEncryption },
    BucketDocument { title: "Website", name: "website", put: Operation::PutBucketWebsite },
    BucketDocument { title: "Tags", name: "tagging", put: Operation::PutBucketTagging },
    BucketDocument {
        title: "Notifications",
        name: notification_rules::DOCUMENT,
        put: Operation::PutBucketNotificationConfiguration,
    },
];

/// A document as the page of the settings needs it.
pub(super) struct ShownDocument {
    pub(super) title: &'static str,
    pub(super) name: &'static str,
    /// Empty for none.
    pub(super) text: String,
    /// Whether the user may store another one.
    pub(super) may_set: bool,
    /// What a form shows of it, as its field has it.
    pub(super) shown: String,
    /// The address of the editor, if there is one for this user.
    pub(super) editor: Option<String>,
    /// The address of the page with the text.
    pub(super) text_link: String,
}

#[derive(Template)]
#[template(path = "document.html", config = "src/console/askama.toml")]
struct DocumentPage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    title: &'static str,
    name: &'static str,
    /// How the text is written: JSON or XML.
    format: &'static str,
    text: &'a str,
    /// The stored text, where it is another one than the form showed.
    stored: Option<String>,
    /// What a refused text would change.
    changes: Vec<ChangedLine>,
    shown: String,
    may_set: bool,
    /// The page that shows what the text would change, if there is one.
    preview: Option<String>,
}

/// The document that `name` names.
///
/// # Errors
/// There is none: 400.
pub(super) fn named(name: &str) -> Result<&'static BucketDocument, Refusal> {
    let found = DOCUMENTS.iter().find(|document| document.name == name);
    found.ok_or_else(|| Refusal::new(400, "There is no such setting."))
}

/// The documents that the user may see. Notifications are among them where there is a webhook.
pub(super) fn stored(view: &View<'_>, bucket: &str) -> Vec<ShownDocument> {
    let has_targets = !view.console.service.webhook_names().is_empty();
    let mut found = Vec::with_capacity(DOCUMENTS.len());
    for BucketDocument { title, name, put } in &DOCUMENTS {
        let Ok(text) = view.stored_document(bucket, name) else { continue };
        if *name == notification_rules::DOCUMENT && text.is_empty() && !has_targets {
            continue;
        }
        let params = [("name", Some(bucket)), ("kind", Some(*name))];
        let may_set = view.may(*put, bucket, None);
        let editor = (may_set && editor::is_for(name)).then(|| view.link("editor", &params));
        let text_link = view.link("document", &params);
        let shown = seen::digest(&text);
        found.push(ShownDocument { title, name, text, may_set, shown, editor, text_link });
    }
    found
}

/// The page of the document that `kind` names.
///
/// # Errors
/// There is none, or the user may not see it.
pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("name")?;
    // A bucket that is not there has no documents.
    view.s3().send(Method::Head, target(Some(bucket), None)?, S3Request::default())?;
    let document = named(view.required("kind")?).map_err(|_| Refusal::not_found())?;
    let text = view.stored_document(bucket, document.name)?;
    Ok(respond(view, bucket, document, &text_diff::laid_out(&text), Some(text)))
}

/// The page of a document that was not saved, with the text of the form.
///
/// # Errors
/// The form is not one of a page.
pub(super) fn show_refused(view: &View<'_>, document: &BucketDocument) -> Result<Response, Refusal> {
    let bucket = view.required("name")?;
    // The text stays, too, where the stored one may not be read.
    let stored = view.stored_document(bucket, document.name).ok();
    Ok(respond(view, bucket, document, view.given("text").unwrap_or_default(), stored))
}

fn respond(
    view: &View<'_>,
    bucket: &str,
    document: &BucketDocument,
    text: &str,
    stored: Option<String>,
) -> Response {
    let shown = stored.as_deref().map(seen::digest).unwrap_or_default();
    let is_conflict = view.given("shown").is_some_and(|before| before != shown);
    let changes = text_diff::changes(stored.as_deref().unwrap_or_default(), text);
    let page = DocumentPage {
        page: view.page(),
        bucket,
        back: view.link("settings", &[("name", Some(bucket))]),
        title: document.title,
        name: document.name,
        format: if document.name == "policy" { "JSON" } else { "XML" },
        text,
        stored: stored.filter(|_| is_conflict),
        changes,
        shown,
        may_set: view.may(document.put, bucket, None),
        preview: editor::is_for(document.name).then(|| view.link("editor", &[])),
    };
    html(200, &page.page, &page)
}
