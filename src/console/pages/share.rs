//! A URL that lets everyone who has it read one object for a time.

use askama::Template;

use super::super::s3_client::Refusal;
use super::super::text;
use super::{Page, View, html};
use crate::auth::SharedObject;
use crate::s3::Response;

/// The longest time of a presigned URL, in seconds.
const EXPIRES_MAX_SECS: u64 = 7 * 24 * 60 * 60;

#[derive(Template)]
#[template(path = "share.html", config = "src/console/askama.toml")]
struct SharePage {
    page: Page,
    name: String,
    back: String,
    url: String,
    hours: u64,
    names_version: bool,
}

pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("bucket")?;
    let key = &*view.key()?;
    let expires_secs =
        view.required("expires")?.parse().ok().filter(|secs| (1..=EXPIRES_MAX_SECS).contains(secs));
    let expires_secs =
        expires_secs.ok_or_else(|| Refusal::new(400, "A link lasts for at most seven days."))?;
    // The link means this content, also after a newer version was put.
    let head = view.s3().head(bucket, key, view.given("version"))?;
    let version = head.version.as_deref().filter(|version| *version != "null");
    let origin = view.s3_origin();
    let region = view.console.service.region();
    let shared = SharedObject { origin: &origin, bucket, key, version, region, expires_secs };
    let url =
        view.console.authenticator.presign(&view.visitor.key, shared).ok_or_else(Refusal::signed_out)?;
    let params = [("bucket", Some(bucket)), ("key", Some(key)), ("version", view.given("version"))];
    let page = SharePage {
        page: view.page(),
        name: text::visible(key).into_owned(),
        back: view.link("object", &params),
        url,
        hours: expires_secs / 3_600,
        names_version: version.is_some(),
    };
    Ok(html(200, &page.page, &page))
}
