//! The pages that pasted addresses name.

use super::View;
use crate::console::form::decoded;
use crate::console::objects::Folder;

/// The address of the page for `s3://BUCKET/KEY`, or for a URL of S3 requests of this server with
/// the bucket in its path; `None` for any other text.
pub(super) fn page(view: &View<'_>, text: &str) -> Option<String> {
    let text = text.trim();
    let place = match text.strip_prefix("s3://") {
        Some(place) => place.to_owned(),
        None => {
            let path = text.strip_prefix(&view.s3_origin())?.strip_prefix('/')?;
            decoded(path.split(['?', '#']).next().unwrap_or_default()).ok()?
        }
    };
    let (bucket, key) = place.split_once('/').unwrap_or((&place, ""));
    if bucket.is_empty() {
        return None;
    }
    let name = ("name", Some(bucket));
    Some(match key {
        "" => view.link("bucket", &[name]),
        key if key.ends_with('/') => view.link("bucket", &[name, ("prefix", Some(key))]),
        key if is_folder(view, bucket, key) => {
            view.link("bucket", &[name, ("prefix", Some(&format!("{key}/")))])
        }
        key => view.link("object", &[("bucket", Some(bucket)), ("key", Some(key))]),
    })
}

/// Whether there is no object of this key, but a folder of this name.
fn is_folder(view: &View<'_>, bucket: &str, key: &str) -> bool {
    let is_missing = view.s3().head(bucket, key, None).is_err_and(|refusal| refusal.status == 404);
    let prefix = &*format!("{key}/");
    let page = view.s3().objects(Folder { bucket, prefix, is_grouped: true }, None);
    is_missing && page.is_ok_and(|page| !(page.folders.is_empty() && page.objects.is_empty()))
}
