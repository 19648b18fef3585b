//! The settings of a bucket: usage and quota, versions, public reading, and the documents that S3 has for the rest.

use askama::Template;

use super::super::notification_rules;
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::text;
use super::{Page, View, html, see_other};
use crate::s3::{Method, Response};

/// The notifications, which are shown where there is a webhook that they could name.
const NOTIFICATION: &str = "notification";
/// The sub-resources with a document: title, name of the parameter.
const DOCUMENTS: [(&str, &str); 7] = [
    ("Policy (JSON)", "policy"),
    ("Cross-origin rules (XML)", "cors"),
    ("Lifecycle rules (XML)", "lifecycle"),
    ("Object lock (XML)", "object-lock"),
    ("Website (XML)", "website"),
    ("Tags (XML)", "tagging"),
    ("Notifications (XML)", NOTIFICATION),
];

#[derive(Template)]
#[template(path = "settings.html", config = "src/console/askama.toml")]
struct SettingsPage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    usage: Option<UsageRow>,
    /// `Enabled`, `Suspended` or nothing; `None` where the user may not see it.
    versioning: Option<String>,
    /// Whether everyone may read the objects, by the statement of this page; `None` where the user may not see the policy, or the
    /// policy is another.
    is_public: Option<bool>,
    documents: Vec<DocumentRow>,
}

struct UsageRow {
    objects: u64,
    bytes: String,
    quota_bytes: String,
    quota_objects: String,
}

struct DocumentRow {
    title: &'static str,
    name: &'static str,
    text: String,
    /// The address of the editor, if there is one.
    editor: Option<String>,
}

/// The policy by which everyone may read objects, and not list them.
fn public_policy(bucket: &str) -> String {
    format!(
        "{{\"Version\":\"2012-10-17\",\"Statement\":[{{\"Sid\":\"PublicRead\",\"Effect\":\"Allow\",\"Principal\":\"*\",\
         \"Action\":\"s3:GetObject\",\"Resource\":\"arn:aws:s3:::{bucket}/*\"}}]}}"
    )
}

pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("name")?;
    // A bucket that is not there has no settings.
    view.s3().send(Method::Head, target(Some(bucket), None)?, S3Request::default())?;
    let documents: Vec<_> = DOCUMENTS
        .iter()
        .filter_map(|(title, name)| {
            let text = match view.document(bucket, name) {
                Ok(text) if *name == NOTIFICATION => notification_rules::text(text),
                Ok(text) => text,
                Err(refusal) if refusal.status == 404 => String::new(),
                Err(_) => return None,
            };
            let has_targets = !view.console.service.webhook_names().is_empty();
            if *name == NOTIFICATION && text.is_empty() && !has_targets {
                return None;
            }
            let params = [("name", Some(bucket)), ("kind", Some(*name))];
            let editor = super::editor::is_for(name).then(|| view.link("editor", &params));
            Some(DocumentRow { title, name, text, editor })
        })
        .collect();
    let page = SettingsPage {
        page: view.page(),
        bucket,
        back: view.link("bucket", &[("name", Some(bucket))]),
        usage: usage(view, bucket),
        versioning: versioning(view, bucket),
        is_public: is_public(&documents, bucket),
        documents,
    };
    Ok(html(200, &page.page, &page))
}

/// Changes the setting that the field `setting` names, and leads back.
pub(super) fn set(view: &View<'_>) -> Result<Response, Refusal> {
    let (bucket, setting) = (view.required("name")?, view.required("setting")?);
    match setting {
        "versioning" => {
            let status = view.required("status")?;
            let body =
                format!("<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>");
            change(view, bucket, "versioning", Some(body))?;
        }
        "public" if view.given("status") == Some("on") => {
            change(view, bucket, "policy", Some(public_policy(bucket)))?;
        }
        "public" => change(view, bucket, "policy", None)?,
        "quota" => set_quota(view, bucket)?,
        // S3 has no other way to remove them.
        NOTIFICATION => {
            let text = view.given("text").unwrap_or(notification_rules::NONE);
            change(view, bucket, NOTIFICATION, Some(text.to_owned()))?;
        }
        name if DOCUMENTS.iter().any(|(_, known)| *known == name) => {
            change(view, bucket, name, view.given("text").map(str::to_owned))?;
        }
        _ => return Err(Refusal::new(400, "There is no such setting.")),
    }
    Ok(see_other(&view.link("settings", &[("name", Some(bucket))])))
}

fn set_quota(view: &View<'_>, bucket: &str) -> Result<(), Refusal> {
    let mut quota = serde_json::Map::new();
    if let Some(bytes) = view.given("bytes") {
        let bytes = bytes
            .parse::<bytesize::ByteSize>()
            .map_err(|_| Refusal::new(400, "A size is written as 10GiB."))?;
        quota.insert("bytes".to_owned(), bytes.as_u64().into());
    }
    if let Some(objects) = view.given("objects") {
        let objects =
            objects.parse::<u64>().map_err(|_| Refusal::new(400, "A number of objects has digits alone."))?;
        quota.insert("objects".to_owned(), objects.into());
    }
    change(view, bucket, "quota", Some(serde_json::Value::Object(quota).to_string()))
}

/// Sets a sub-resource, or removes it.
fn change(view: &View<'_>, bucket: &str, name: &str, body: Option<String>) -> Result<(), Refusal> {
    let method = if body.is_some() { Method::Put } else { Method::Delete };
    let body = body.unwrap_or_default().into_bytes();
    let digest = super::super::objects::base64_md5(&body);
    let request = S3Request { query: &[(name, "")], headers: &[("content-md5", &digest)], body };
    view.s3().send(method, target(Some(bucket), None)?, request).map(drop)
}

fn usage(view: &View<'_>, bucket: &str) -> Option<UsageRow> {
    let document = view.document(bucket, "quota").ok()?;
    let report: serde_json::Value = serde_json::from_str(&document).ok()?;
    let (used, quota) = (report.get("used")?, report.get("quota")?);
    let number = |of: &serde_json::Value, name| of.get(name).and_then(serde_json::Value::as_u64);
    Some(UsageRow {
        objects: number(used, "objects")?,
        bytes: text::size(number(used, "bytes")?),
        quota_bytes: number(quota, "bytes").map(|bytes| bytes.to_string()).unwrap_or_default(),
        quota_objects: number(quota, "objects").map(|objects| objects.to_string()).unwrap_or_default(),
    })
}

/// The state of versions: `Enabled`, `Suspended` or nothing; `None` where the user may not see it.
pub(super) fn versioning(view: &View<'_>, bucket: &str) -> Option<String> {
    let text = view.document(bucket, "versioning").ok()?;
    let status = ["Enabled", "Suspended"].into_iter().find(|status| text.contains(&format!(">{status}<")));
    Some(status.unwrap_or_default().to_owned())
}

fn is_public(documents: &[DocumentRow], bucket: &str) -> Option<bool> {
    let policy = documents.iter().find(|document| document.name == "policy")?;
    match &*policy.text {
        "" => Some(false),
        text => same_json(text, &public_policy(bucket)).then_some(true),
    }
}

fn same_json(one: &str, other: &str) -> bool {
    let parsed = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    parsed(one).is_some() && parsed(one) == parsed(other)
}
