//! Changes of the settings of a bucket, one a form.

use super::super::form::decoded;
use super::super::notification_rules;
use super::super::pair_rows;
use super::super::quota_fields;
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::seen;
use super::documents::{self, ENCRYPTION};
use super::settings::{self, bucket_tags, public_policy, quota_shown};
use super::{View, see_other};
use crate::s3::bucket_encryption::{BucketEncryption, DefaultEncryption};
use crate::s3::encryption::{AES256, AWS_KMS};
use crate::s3::tags::BucketTags;
use crate::s3::{Method, Response, XmlConfiguration as _};

/// Changes the setting that the field `setting` names, and leads back.
///
/// # Errors
/// The form is not one of a page; the errors of S3.
pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = settings::bucket_of(view)?;
    let told = match view.required("setting")? {
        "versioning" => {
            let status = view.required("status")?;
            let body =
                format!("<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>");
            change(view, bucket, "versioning", Some(body))?;
            if status == "Enabled" { "Versioning is on" } else { "Versioning is suspended" }.to_owned()
        }
        "public" => {
            seen::check(view.given("shown"), &view.stored_document(bucket, "policy")?)?;
            let is_on = view.given("status") == Some("on");
            change(view, bucket, "policy", is_on.then(|| public_policy(bucket)))?;
            if is_on { "Everyone can read objects" } else { "Public access is off" }.to_owned()
        }
        "quota" => {
            set_quota(view, bucket)?;
            "Saved the quota".to_owned()
        }
        "bucket-tags" => {
            set_tags(view, bucket)?;
            "Saved the tags".to_owned()
        }
        "default-encryption" => {
            set_default_encryption(view, bucket)?;
            "Saved the encryption of new objects".to_owned()
        }
        "upload" => {
            abort_upload(view, bucket)?;
            "Aborted the upload".to_owned()
        }
        name => format!("Saved: {}", set_document(view, bucket, name)?),
    };
    view.tell(told);
    Ok(see_other(&view.link("settings", &[("name", Some(bucket))])))
}

/// The page of a refused form: the settings, or a document alone.
///
/// # Errors
/// The form is not one of a page.
pub(super) fn show_again(view: &View<'_>) -> Result<Response, Refusal> {
    match documents::named(view.required("setting")?) {
        Ok(document) => documents::show_refused(view, document),
        Err(_) => settings::show(view),
    }
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

/// Sets the tags in the rows of a form, or removes them.
fn set_tags(view: &View<'_>, bucket: &str) -> Result<(), Refusal> {
    let stored = bucket_tags(&view.stored_document(bucket, "tagging")?);
    seen::check(view.given("shown"), &seen::pairs(&stored))?;
    let tags = BucketTags(pair_rows::read(&view.params)?);
    let is_some = !tags.0.is_empty();
    let body = is_some.then(|| String::from_utf8_lossy(&tags.to_document()).into_owned());
    change(view, bucket, "tagging", body)
}

/// Sets or removes a document. Returns its title.
fn set_document(view: &View<'_>, bucket: &str, name: &str) -> Result<&'static str, Refusal> {
    let document = documents::named(name)?;
    if let Some(shown) = view.given("shown") {
        seen::check(Some(shown), &view.stored_document(bucket, name)?)?;
    }
    // S3 has no other way to remove notifications.
    let removed = (name == notification_rules::DOCUMENT).then_some(notification_rules::NONE);
    let body = view.given("text").or(removed).map(str::to_owned);
    change(view, bucket, name, body)?;
    Ok(document.title)
}

fn abort_upload(view: &View<'_>, bucket: &str) -> Result<(), Refusal> {
    let key = decoded(view.required("key")?)?;
    let query = [("uploadId", view.required("upload")?)];
    let request = S3Request { query: &query, ..S3Request::default() };
    view.s3().send(Method::Delete, target(Some(bucket), Some(&key))?, request).map(drop)
}

fn set_quota(view: &View<'_>, bucket: &str) -> Result<(), Refusal> {
    if let Some(present) = quota_shown(view, bucket) {
        seen::check_digest(view.given("shown"), &present)?;
    }
    change(view, bucket, "quota", Some(quota_fields::read(&view.params)?))
}

/// Sets a sub-resource, or removes it.
fn change(view: &View<'_>, bucket: &str, name: &str, body: Option<String>) -> Result<(), Refusal> {
    let method = if body.is_some() { Method::Put } else { Method::Delete };
    let body = body.unwrap_or_default().into_bytes();
    let digest = super::super::objects::base64_md5(&body);
    let request = S3Request { query: &[(name, "")], headers: &[("content-md5", &digest)], body };
    view.s3().send(method, target(Some(bucket), None)?, request).map(drop)
}
