//! The settings of a bucket by subject: what is in force, in words, with the forms that change it
//! and the ways to the documents that S3 has for it.

use askama::Template;

use super::super::document_words;
use super::super::form::EnteredFields;
use super::super::notification_rules;
use super::super::pair_rows::{self, PairRow};
use super::super::quota_fields::QuotaFields;
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::seen;
use super::super::shown_time::{ShownTime, TimedText};
use super::super::text::{self, visible};
use super::documents::{self, ENCRYPTION, ShownDocument};
use super::expiry::{self, ExpiryRule};
use super::greyed::Lack;
use super::quota_bar::{self, QuotaBar};
use super::user_rows::{self, AccessRow};
use super::{Page, View, html};
use crate::s3::bucket_encryption::{BucketEncryption, DefaultEncryption};
use crate::s3::encryption::{AES256, AWS_KMS};
use crate::s3::tags::BucketTags;
use crate::s3::{Method, Operation, Response, XmlConfiguration as _, uri};

/// Users whose access the page tells.
const USERS_MAX: usize = 100;
/// What the form of the tags sends besides what was entered.
const TAGS_FORM: &[(&str, &str)] = &[("setting", "bucket-tags")];

#[derive(Template)]
#[template(path = "settings.html", config = "src/console/askama.toml")]
struct SettingsPage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    usage: Option<UsageRow>,
    quota_bars: Vec<QuotaBar>,
    quota_entered: EnteredFields<'a>,
    /// What the user may do here.
    may_set_quota: bool,
    versioning_lack: Option<Lack>,
    policy_lack: Option<Lack>,
    may_set_versioning: bool,
    may_set_policy: bool,
    /// `None` where the user may not see them.
    tags: Option<TagRows>,
    /// `Enabled`, `Suspended` or nothing; `None` where the user may not see it.
    versioning: Option<String>,
    object_lock: String,
    /// `None` where the user may not see it.
    encryption: Option<EncryptionRow>,
    encryption_entered: EnteredFields<'a>,
    /// Whether everyone may read the objects, by the statement of this page; `None` where the user
    /// may not see the policy, or the policy is another.
    is_public: Option<bool>,
    /// The address of the objects, before their keys.
    address: String,
    /// What is shown of the policy, as the field of the form for public reading has it.
    policy_shown: String,
    /// The policy and the cross-origin rules, a sentence each.
    statements: Vec<String>,
    cors: Vec<String>,
    /// The users who may do something here, if they were asked for; `None` where the user may not
    /// see them.
    users: Option<Vec<AccessRow>>,
    /// The page with them.
    users_link: String,
    expiry: Vec<ExpiryRule>,
    /// When its rules run next, as far as that is known.
    next_run: Option<TimedText>,
    /// The page with what the rules take now; `None` where that is told, or not known.
    effect_link: Option<String>,
    website: Option<String>,
    /// The address of the website, if the server has websites.
    website_address: Option<String>,
    /// The notifications, a sentence each.
    events: Vec<String>,
    documents: Vec<ShownDocument>,
    /// Unfinished uploads; `None` where the user may not see them.
    uploads: Option<UploadList>,
}

impl SettingsPage<'_> {
    /// The document of that name, if the user may see it.
    fn document(&self, name: &str) -> Option<&ShownDocument> {
        self.documents.iter().find(|document| document.name == name)
    }
}

/// The tags of the bucket, as rows of a form.
struct TagRows {
    tags: Vec<(String, String)>,
    rows: Vec<PairRow>,
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
    begun: ShownTime,
    initiator: String,
    may_abort: bool,
}

struct UsageRow {
    objects: u64,
    bytes: String,
    index_bytes: String,
    quota: QuotaFields,
    /// The bytes of the index that the quota allows; empty where there is no limit.
    index_bytes_in_force: String,
}

impl UsageRow {
    fn shown_objects(&self) -> String {
        text::count(self.objects)
    }
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
    fn of(document: &ShownDocument) -> Self {
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

/// The policy by which everyone may read objects, and not list them.
pub(super) fn public_policy(bucket: &str) -> String {
    format!(
        "{{\"Version\":\"2012-10-17\",\"Statement\":[{{\"Sid\":\"PublicRead\",\"Effect\":\"Allow\",\"Principal\":\"*\",\
         \"Action\":\"s3:GetObject\",\"Resource\":\"arn:aws:s3:::{bucket}/*\"}}]}}"
    )
}

/// The bucket that the form or the address names. Rows of tags take the field `name` for
/// themselves.
///
/// # Errors
/// There is none.
pub(super) fn bucket_of<'v>(view: &'v View<'_>) -> Result<&'v str, Refusal> {
    match view.given("bucket") {
        Some(bucket) if view.given("setting") == Some("bucket-tags") => Ok(bucket),
        _ => view.required("name"),
    }
}

/// The page.
///
/// # Errors
/// There is no such bucket, or none that the user may see.
pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = bucket_of(view)?;
    // A bucket that is not there has no settings.
    view.s3().send(Method::Head, target(Some(bucket), None)?, S3Request::default())?;
    let documents = documents::stored(view, bucket);
    let find = |name: &str| documents.iter().find(|document| document.name == name);
    let text_of = |name: &str| find(name).map(|document| &*document.text).unwrap_or_default();
    let policy = text_of("policy");
    let usage = usage(view, bucket);
    let versions = usage.as_ref().map(|usage| usage.objects);
    let asks_for_effect = is_asked_for(view, "effect");
    let expiry = find("lifecycle").map(|document| match asks_for_effect {
        true => expiry::rules_with_effect(view, bucket, document, versions),
        false => expiry::rules(view, bucket, document, &[]),
    });
    let expiry = expiry.unwrap_or_default();
    let has_effect = find("lifecycle").is_some_and(|document| document.may_set)
        && expiry::is_counted(versions)
        && !(expiry.is_empty() || asks_for_effect);
    let more =
        |name, place: &str| view.link("settings", &[("name", Some(bucket)), (name, Some("1"))]) + place;
    let limits = view.console.service.bucket_limits_for(&view.visitor.identity, view.request, &[bucket]);
    let page = SettingsPage {
        page: view.page(),
        bucket,
        back: view.link("bucket", &[("name", Some(bucket))]),
        quota_bars: quota_bar::bars("Quota", &limits.concat()),
        quota_entered: view.entered(&[("setting", "quota")]),
        may_set_quota: view.may(Operation::PutBucketQuota, bucket, None),
        versioning_lack: view.lack(Operation::PutBucketVersioning, bucket, None),
        policy_lack: view.lack(Operation::PutBucketPolicy, bucket, None),
        may_set_versioning: view.may(Operation::PutBucketVersioning, bucket, None),
        may_set_policy: view.may(Operation::PutBucketPolicy, bucket, None),
        tags: find("tagging").map(|document| tag_rows(view, document)),
        versioning: versioning(view, bucket),
        object_lock: document_words::object_lock(text_of("object-lock")),
        encryption: find(ENCRYPTION).map(EncryptionRow::of),
        encryption_entered: view.entered(&[("setting", "default-encryption")]),
        is_public: find("policy").and_then(|document| is_public(&document.text, bucket)),
        address: view.s3_url(bucket, ""),
        policy_shown: seen::digest(policy),
        statements: text::all_visible(&document_words::policy(policy)),
        cors: text::all_visible(&document_words::cors(text_of("cors"))),
        users: if is_asked_for(view, "users") { users(view, bucket) } else { None },
        users_link: more("users", "#access"),
        expiry,
        next_run: expiry::next_run(view, bucket),
        effect_link: has_effect.then(|| more("effect", "#expiry")),
        website: document_words::website(text_of("website")).map(|words| visible(&words).into_owned()),
        website_address: website_address(view, bucket),
        events: events(text_of(notification_rules::DOCUMENT)),
        uploads: uploads(view, bucket),
        usage,
        documents,
    };
    Ok(html(200, &page.page, &page))
}

/// Whether the address asks for a part of the page that takes long.
fn is_asked_for(view: &View<'_>, part: &str) -> bool {
    view.request.method == Method::Get && view.given(part).is_some()
}

fn tag_rows(view: &View<'_>, document: &ShownDocument) -> TagRows {
    let tags = bucket_tags(&document.text);
    let rows = pair_rows::shown(view.entered(TAGS_FORM), &tags);
    let shown = seen::digest(&seen::pairs(&tags));
    TagRows { tags, rows, shown }
}

/// The tags of a stored document; none of one that cannot be read.
pub(super) fn bucket_tags(document: &str) -> Vec<(String, String)> {
    BucketTags::from_document(document.as_bytes()).unwrap_or_default().0
}

fn events(document: &str) -> Vec<String> {
    let listed = notification_rules::listed(document);
    let sentences = listed.iter().map(|notification| {
        format!("{}: {}; {}", notification.id, notification.keys, notification.actions.join("; "))
    });
    text::all_visible(&sentences.collect::<Vec<_>>())
}

/// The first users who may do something in a bucket, and what; `None` where this user may not see
/// the users.
fn users(view: &View<'_>, bucket: &str) -> Option<Vec<AccessRow>> {
    let identity = &view.visitor.identity;
    let mut names = Vec::new();
    let mut access = Vec::new();
    for user in view.console.service.users(identity).ok()?.iter().take(USERS_MAX) {
        // A user whose keys all rest is in the file, and not in effect.
        let found = view.console.service.access_of(identity, view.request, user, &[bucket]);
        let of_bucket = found.ok().and_then(|access| access.into_iter().next()).unwrap_or_default();
        if of_bucket != Default::default() {
            names.push(user.name.clone());
            access.push(of_bucket);
        }
    }
    Some(user_rows::access_rows(&names, &access))
}

/// The address of the website of a bucket: a host at the address of S3 requests.
fn website_address(view: &View<'_>, bucket: &str) -> Option<String> {
    let host = view.console.service.website_host(bucket)?;
    let origin = view.s3_origin();
    let (scheme, place) = origin.split_once("://")?;
    let port = place.rsplit_once(':').map(|(_, port)| port);
    let port = port.filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    Some(match port {
        Some(port) => format!("{scheme}://{host}:{port}/"),
        None => format!("{scheme}://{host}/"),
    })
}

fn uploads(view: &View<'_>, bucket: &str) -> Option<UploadList> {
    let listing = view.s3().uploads(bucket).ok()?;
    let mut rows = Vec::with_capacity(listing.uploads.len());
    for upload in listing.uploads {
        rows.push(UploadRow {
            may_abort: view.may(Operation::AbortMultipartUpload, bucket, Some(&upload.key)),
            name: visible(&upload.key).into_owned(),
            key: uri::encode_query(&upload.key),
            id: upload.id,
            begun: ShownTime::age(&upload.begun),
            initiator: upload.initiator,
        });
    }
    Some(UploadList { rows, has_more: listing.has_more })
}

/// What the form of the quota shows; `None` where the user may not see the quota.
pub(super) fn quota_shown(view: &View<'_>, bucket: &str) -> Option<String> {
    usage(view, bucket).map(|usage| usage.quota.shown)
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
        quota: QuotaFields::of(quota),
        index_bytes_in_force: index_bytes_in_force.map(text::size).unwrap_or_default(),
    })
}

/// The state of versions: `Enabled`, `Suspended` or nothing; `None` where the user may not see it.
pub(super) fn versioning(view: &View<'_>, bucket: &str) -> Option<String> {
    let text = view.document(bucket, "versioning").ok()?;
    let status = ["Enabled", "Suspended"].into_iter().find(|status| text.contains(&format!(">{status}<")));
    Some(status.unwrap_or_default().to_owned())
}

/// Whether a policy is that of this page; `None` for another one.
fn is_public(policy: &str, bucket: &str) -> Option<bool> {
    match policy {
        "" => Some(false),
        text => same_json(text, &public_policy(bucket)).then_some(true),
    }
}

fn same_json(one: &str, other: &str) -> bool {
    let one: Option<serde_json::Value> = serde_json::from_str(one).ok();
    one.is_some() && one == serde_json::from_str(other).ok()
}
