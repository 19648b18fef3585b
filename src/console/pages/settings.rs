//! The settings of a bucket: usage and quota, versions, public reading, and the documents that S3
//! has for the rest.

use askama::Template;

use super::super::form::{EnteredFields, decoded};
use super::super::notification_rules;
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::seen;
use super::super::text;
use super::{Page, View, html, see_other};
use crate::s3::bucket_encryption::{BucketEncryption, DefaultEncryption};
use crate::s3::encryption::{AES256, AWS_KMS};
use crate::s3::{Method, Operation, Response, XmlConfiguration as _, uri};

/// A sub-resource with a document.
struct BucketDocument {
    title: &'static str,
    /// The parameter of S3.
    name: &'static str,
    /// The operation that stores it.
    put: Operation,
}

/// The parameter of S3 for the default encryption.
const ENCRYPTION: &str = "encryption";

const DOCUMENTS: [BucketDocument; 8] = [
    BucketDocument { title: "Policy (JSON)", name: "policy", put: Operation::PutBucketPolicy },
    BucketDocument { title: "Cross-origin rules (XML)", name: "cors", put: Operation::PutBucketCors },
    BucketDocument {
        title: "Lifecycle rules (XML)",
        name: "lifecycle",
        put: Operation::PutBucketLifecycleConfiguration,
    },
    BucketDocument {
        title: "Object lock (XML)",
        name: "object-lock",
        put: Operation::PutObjectLockConfiguration,
    },
    BucketDocument {
        title: "Default encryption (XML)",
        name: ENCRYPTION,
        put: Operation::PutBucketEncryption,
    },
    BucketDocument { title: "Website (XML)", name: "website", put: Operation::PutBucketWebsite },
    BucketDocument { title: "Tags (XML)", name: "tagging", put: Operation::PutBucketTagging },
    BucketDocument {
        title: "Notifications (XML)",
        name: notification_rules::DOCUMENT,
        put: Operation::PutBucketNotificationConfiguration,
    },
];

#[derive(Template)]
#[template(path = "settings.html", config = "src/console/askama.toml")]
struct SettingsPage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    usage: Option<UsageRow>,
    quota_entered: EnteredFields<'a>,
    /// What the user may do here.
    may_set_quota: bool,
    may_set_versioning: bool,
    may_set_policy: bool,
    /// `Enabled`, `Suspended` or nothing; `None` where the user may not see it.
    versioning: Option<String>,
    /// Whether everyone may read the objects, by the statement of this page; `None` where the user
    /// may not see the policy, or the policy is another.
    is_public: Option<bool>,
    /// What is shown of the policy, as the field of the form for public reading has it.
    policy_shown: String,
    /// `None` where the user may not see it.
    encryption: Option<EncryptionRow>,
    encryption_entered: EnteredFields<'a>,
    documents: Vec<DocumentRow>,
    /// Unfinished uploads; `None` where the user may not see them.
    uploads: Option<UploadList>,
}

/// A document that was not saved, with the text of the form.
#[derive(Template)]
#[template(path = "document.html", config = "src/console/askama.toml")]
struct DocumentPage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    title: &'static str,
    name: &'static str,
    text: &'a str,
    /// The stored text, where it is another one than the form showed.
    stored: Option<String>,
    shown: String,
}

/// The first unfinished uploads of a bucket.
struct UploadList {
    rows: Vec<UploadRow>,
    has_more: bool,
}

struct UploadRow {
    /// The key as shown, and as the field has it.
    name: String,
    key: String,
    id: String,
    begun: String,
    initiator: String,
    may_abort: bool,
}

struct UsageRow {
    objects: u64,
    bytes: String,
    index_bytes: String,
    quota_bytes: String,
    quota_objects: String,
    quota_uploads: String,
    quota_index_bytes: String,
    /// The bytes of the index that the quota allows; empty where there is no limit.
    index_bytes_in_force: String,
    /// What the form of the quota shows, as its field has it.
    quota_shown: String,
}

/// The encryption of new objects that ask for none.
struct EncryptionRow {
    /// The algorithm as S3 names it; empty for none.
    algorithm: &'static str,
    /// The key of the ring for SSE-KMS; empty for the current one.
    key: String,
    may_set: bool,
    /// What the form shows, as its field has it.
    shown: String,
}

impl EncryptionRow {
    fn of(document: &DocumentRow) -> Self {
        let stored = BucketEncryption::from_document(document.text.as_bytes()).unwrap_or_default();
        let (algorithm, key) = match stored.default {
            None => ("", None),
            Some(DefaultEncryption::S3) => (AES256, None),
            Some(DefaultEncryption::Kms(key)) => (AWS_KMS, key),
        };
        let key = key.unwrap_or_default();
        Self { algorithm, key, may_set: document.may_set, shown: document.shown.clone() }
    }
}

struct DocumentRow {
    title: &'static str,
    name: &'static str,
    text: String,
    /// Whether the user may store another one.
    may_set: bool,
    /// What the form shows, as its field has it.
    shown: String,
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
        .filter_map(|BucketDocument { title, name, put }| {
            let text = view.stored_document(bucket, name).ok()?;
            let has_targets = !view.console.service.webhook_names().is_empty();
            if *name == notification_rules::DOCUMENT && text.is_empty() && !has_targets {
                return None;
            }
            let params = [("name", Some(bucket)), ("kind", Some(*name))];
            let editor = super::editor::is_for(name).then(|| view.link("editor", &params));
            let may_set = view.may(*put, bucket, None);
            let editor = editor.filter(|_| may_set);
            Some(DocumentRow { title, name, shown: seen::digest(&text), text, may_set, editor })
        })
        .collect();
    let policy = documents.iter().find(|document| document.name == "policy");
    let encryption = documents.iter().find(|document| document.name == ENCRYPTION);
    let page = SettingsPage {
        page: view.page(),
        bucket,
        encryption: encryption.map(EncryptionRow::of),
        encryption_entered: view.entered(&[("setting", "default-encryption")]),
        back: view.link("bucket", &[("name", Some(bucket))]),
        policy_shown: policy.map(|policy| policy.shown.clone()).unwrap_or_default(),
        uploads: uploads(view, bucket),
        usage: usage(view, bucket),
        quota_entered: view.entered(&[("setting", "quota")]),
        may_set_quota: view.may(Operation::PutBucketQuota, bucket, None),
        may_set_versioning: view.may(Operation::PutBucketVersioning, bucket, None),
        may_set_policy: view.may(Operation::PutBucketPolicy, bucket, None),
        versioning: versioning(view, bucket),
        is_public: is_public(&documents, bucket),
        documents,
    };
    Ok(html(200, &page.page, &page))
}

/// Changes the setting that the field `setting` names, and leads back.
pub(super) fn set(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("name")?;
    let setting = view.required("setting")?;
    match setting {
        "versioning" => {
            let status = view.required("status")?;
            let body =
                format!("<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>");
            change(view, bucket, "versioning", Some(body))?;
            view.tell(if status == "Enabled" { "Versioning is on" } else { "Versioning is suspended" });
        }
        "public" => {
            seen::check(view.given("shown"), &view.stored_document(bucket, "policy")?)?;
            let is_on = view.given("status") == Some("on");
            change(view, bucket, "policy", is_on.then(|| public_policy(bucket)))?;
            view.tell(if is_on { "Everyone can read objects" } else { "Public access is off" });
        }
        "quota" => {
            set_quota(view, bucket)?;
            view.tell("Saved the quota");
        }
        "default-encryption" => {
            set_default_encryption(view, bucket)?;
            view.tell("Saved the encryption of new objects");
        }
        "upload" => {
            abort_upload(view, bucket)?;
            view.tell("Aborted the upload");
        }
        name => {
            let title = set_document(view, bucket, name)?;
            view.tell(format!("Saved: {title}"));
        }
    }
    Ok(see_other(&view.link("settings", &[("name", Some(bucket))])))
}

/// Sets or removes the encryption of new objects. What the document has beside that stays.
fn set_default_encryption(view: &View<'_>, bucket: &str) -> Result<(), Refusal> {
    let stored = view.stored_document(bucket, ENCRYPTION)?;
    seen::check(view.given("shown"), &stored)?;
    let key = view.given("key").map(str::to_owned);
    let default = match view.given("algorithm") {
        Some(AWS_KMS) => Some(DefaultEncryption::Kms(key)),
        _ if key.is_some() => return Err(Refusal::new(400, "A key is named for SSE-KMS alone.")),
        Some(AES256) => Some(DefaultEncryption::S3),
        Some(_) => return Err(Refusal::new(400, "There is no such encryption.")),
        None => None,
    };
    let before = BucketEncryption::from_document(stored.as_bytes()).unwrap_or_default();
    let after = BucketEncryption { default, ..before };
    let says_something = after.default.is_some() || after.blocked.is_some();
    let body = says_something.then(|| String::from_utf8_lossy(&after.to_document()).into_owned());
    change(view, bucket, ENCRYPTION, body)
}

/// Sets or removes a document. Returns its title.
fn set_document(view: &View<'_>, bucket: &str, name: &str) -> Result<&'static str, Refusal> {
    let Some(kind) = DOCUMENTS.iter().find(|kind| kind.name == name) else {
        return Err(Refusal::new(400, "There is no such setting."));
    };
    if let Some(shown) = view.given("shown") {
        seen::check(Some(shown), &view.stored_document(bucket, name)?)?;
    }
    // S3 has no other way to remove notifications.
    let removed = (name == notification_rules::DOCUMENT).then_some(notification_rules::NONE);
    let body = view.given("text").or(removed).map(str::to_owned);
    change(view, bucket, name, body)?;
    Ok(kind.title)
}

/// The page of a refused form: the settings, or a document alone.
pub(super) fn show_again(view: &View<'_>) -> Result<Response, Refusal> {
    let setting = view.required("setting")?;
    match DOCUMENTS.iter().find(|kind| kind.name == setting) {
        Some(kind) => show_document(view, kind),
        None => show(view),
    }
}

/// A document that was not saved, with the text of the form.
fn show_document(view: &View<'_>, kind: &BucketDocument) -> Result<Response, Refusal> {
    let bucket = view.required("name")?;
    // The text stays, too, where the stored one may not be read.
    let stored = view.stored_document(bucket, kind.name).ok();
    let shown = stored.as_deref().map(seen::digest).unwrap_or_default();
    let is_conflict = view.given("shown").is_some_and(|before| before != shown);
    let page = DocumentPage {
        page: view.page(),
        bucket,
        back: view.link("settings", &[("name", Some(bucket))]),
        title: kind.title,
        name: kind.name,
        text: view.given("text").unwrap_or_default(),
        stored: stored.filter(|_| is_conflict),
        shown,
    };
    Ok(html(200, &page.page, &page))
}

fn abort_upload(view: &View<'_>, bucket: &str) -> Result<(), Refusal> {
    let key = decoded(view.required("key")?)?;
    let query = [("uploadId", view.required("upload")?)];
    let request = S3Request { query: &query, ..S3Request::default() };
    view.s3().send(Method::Delete, target(Some(bucket), Some(&key))?, request).map(drop)
}

fn uploads(view: &View<'_>, bucket: &str) -> Option<UploadList> {
    let listing = view.s3().uploads(bucket).ok()?;
    let mut rows = Vec::with_capacity(listing.uploads.len());
    for upload in listing.uploads {
        rows.push(UploadRow {
            may_abort: view.may(Operation::AbortMultipartUpload, bucket, Some(&upload.key)),
            name: text::visible(&upload.key).into_owned(),
            key: uri::encode_query(&upload.key),
            id: upload.id,
            begun: text::time(&upload.begun),
            initiator: upload.initiator,
        });
    }
    Some(UploadList { rows, has_more: listing.has_more })
}

fn set_quota(view: &View<'_>, bucket: &str) -> Result<(), Refusal> {
    let present = usage(view, bucket);
    if let Some(present) = present {
        seen::check_digest(view.given("shown"), &present.quota_shown)?;
    }
    let mut quota = serde_json::Map::new();
    for name in ["bytes", "index_bytes"] {
        if let Some(size) = view.given(name) {
            let size = size
                .parse::<bytesize::ByteSize>()
                .map_err(|_| Refusal::new(400, "A size is written as 10GiB."))?;
            quota.insert(name.to_owned(), size.as_u64().into());
        }
    }
    for name in ["objects", "uploads"] {
        if let Some(count) = view.given(name) {
            let count = count
                .parse::<u64>()
                .map_err(|_| Refusal::new(400, "A number of objects or uploads has digits alone."))?;
            quota.insert(name.to_owned(), count.into());
        }
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
    let used = report.get("used")?;
    let quota = report.get("quota")?;
    let index_bytes_in_force = report["in_force"]["index_bytes"].as_u64();
    Some(UsageRow {
        objects: used.get("objects")?.as_u64()?,
        bytes: text::size(used.get("bytes")?.as_u64()?),
        index_bytes: text::size(used.get("index_bytes")?.as_u64()?),
        quota_shown: seen::digest(&quota.to_string()),
        quota_bytes: limit_in(quota, "bytes"),
        quota_objects: limit_in(quota, "objects"),
        quota_uploads: limit_in(quota, "uploads"),
        quota_index_bytes: limit_in(quota, "index_bytes"),
        index_bytes_in_force: index_bytes_in_force.map(text::size).unwrap_or_default(),
    })
}

/// A limit as a field shows it; empty without a limit.
fn limit_in(quota: &serde_json::Value, name: &str) -> String {
    quota.get(name).and_then(serde_json::Value::as_u64).map(|limit| limit.to_string()).unwrap_or_default()
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
    let one: Option<serde_json::Value> = serde_json::from_str(one).ok();
    one.is_some() && one == serde_json::from_str(other).ok()
}
