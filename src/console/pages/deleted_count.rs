//! The number of deleted objects of a folder, here and below, in steps that a page waits for.

use std::time::Duration;

use serde_json::json;

use super::super::s3_client::Refusal;
use super::super::text;
use super::View;
use super::walk::{Sought, WalkCount};
use crate::s3::{Response, ResponseBody};
use crate::service::KeyPlace;

/// The time of the first step: its number stands beside the subject of a page.
const GLANCE: Duration = Duration::from_millis(15);
/// The time of each further step, for which scripts ask.
const STEP: Duration = Duration::from_millis(60);

/// The number as far as the first step has come.
pub(super) struct DeletedCount {
    pub(super) count: u64,
    /// The address of the next step; `None` where the number is whole.
    pub(super) further: Option<String>,
}

impl DeletedCount {
    /// The first step; `None` where the user may not see the versions.
    pub(super) fn glance(view: &View<'_>, bucket: &str, prefix: &str) -> Option<Self> {
        let place = KeyPlace { bucket, prefix, after: None };
        let counted = WalkCount::read(view, place, Sought::Deleted, GLANCE).ok()?;
        let further = counted.next.map(|after| address(view, bucket, prefix, &after));
        Some(Self { count: counted.keys, further })
    }

    /// The number in words; empty for none.
    pub(super) fn in_words(&self) -> String {
        match (self.count, &self.further) {
            (0, None) => String::new(),
            (0, Some(_)) => "not counted".to_owned(),
            (count, None) => text::count(count),
            (count, Some(_)) => format!("more than {}", text::count(count)),
        }
    }
}

/// The address of the step after a key.
fn address(view: &View<'_>, bucket: &str, prefix: &str, after: &str) -> String {
    let params = [("name", Some(bucket)), ("prefix", Some(prefix)), ("after", Some(after))];
    view.link("deleted-count", &params)
}

/// A step for a script, as JSON: the number that it has met, and the address of the next step or
/// null.
///
/// # Errors
/// Errors of the walk.
pub(super) fn step(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("name")?;
    let prefix = view.given("prefix").unwrap_or_default();
    let place = KeyPlace { bucket, prefix, after: view.given("after") };
    let counted = WalkCount::read(view, place, Sought::Deleted, STEP)?;
    let further = counted.next.map(|after| address(view, bucket, prefix, &after));
    let step = json!({ "count": counted.keys, "further": further });
    Ok(Response::new(200)
        .header("Content-Type", "application/json")
        .with_body(ResponseBody::Bytes(step.to_string().into_bytes())))
}
