//! The buckets of the user: the first page.

use askama::Template;

use super::super::objects::BucketLine;
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::text;
use super::{Page, View, html, see_other};
use crate::console::address::{ROOT, with_params};
use crate::s3::{Method, Response};

#[derive(Template)]
#[template(path = "home.html", config = "src/console/askama.toml")]
struct HomePage {
    page: Page,
    buckets: Vec<BucketRow>,
    /// Why the buckets cannot be listed.
    refusal: Option<String>,
}

struct BucketRow {
    name: String,
    link: String,
    created: String,
}

pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let (buckets, refusal) = match view.s3().buckets() {
        Ok(buckets) => (buckets.into_iter().map(row).collect(), None),
        Err(refusal) if refusal.status == 403 => (Vec::new(), Some(refusal.message)),
        Err(refusal) => return Err(refusal),
    };
    Ok(html(200, &HomePage { page: view.page(), buckets, refusal }))
}

fn row(bucket: BucketLine) -> BucketRow {
    let link = with_params("bucket", &[("name", Some(&bucket.name))]);
    BucketRow { link, created: text::time(&bucket.created), name: bucket.name }
}

/// Makes a bucket, perhaps with versions.
pub(super) fn create(view: &View<'_>) -> Result<Response, Refusal> {
    let name = view.required("name")?;
    view.s3().send(Method::Put, target(Some(name), None)?, S3Request::default())?;
    if view.given("versions").is_some() {
        let body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>".to_vec();
        let request = S3Request { query: &[("versioning", "")], body, ..S3Request::default() };
        view.s3().send(Method::Put, target(Some(name), None)?, request)?;
    }
    Ok(see_other(&with_params("bucket", &[("name", Some(name))])))
}

/// Deletes an empty bucket.
pub(super) fn delete(view: &View<'_>) -> Result<Response, Refusal> {
    let name = view.required("name")?;
    view.s3().send(Method::Delete, target(Some(name), None)?, S3Request::default())?;
    Ok(see_other(ROOT))
}
