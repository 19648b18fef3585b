//! A URL that lets everyone who has it read one object for a time.

use std::time::Duration;

use askama::Template;

use super::super::qr_code::DrawnCode;
use super::super::s3_client::Refusal;
use super::super::text;
use super::{Page, View, html};
use crate::auth::SharedObject;
use crate::base::Timestamp;
use crate::console::rewind;
use crate::s3::Response;

const SECS_OF_DAY: u64 = 24 * 60 * 60;
/// The longest time of a presigned URL, in seconds.
const EXPIRES_MAX_SECS: u64 = 7 * SECS_OF_DAY;

#[derive(Template)]
#[template(path = "share.html", config = "src/console/askama.toml")]
struct SharePage {
    page: Page,
    name: String,
    back: String,
    url: String,
    code: Option<DrawnCode>,
    /// How long it lasts: `for 24 hours`, or `until` the end of a day.
    lasts: String,
    names_version: bool,
}

pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("bucket")?;
    let key = &*view.key()?;
    let until = view.given("until");
    let expires_secs = match until {
        Some(day) => secs_to_end(view.console.clock.now(), day)?,
        None => view.required("expires")?.parse().unwrap_or(0),
    };
    if !(1..=EXPIRES_MAX_SECS).contains(&expires_secs) {
        return Err(Refusal::new(400, "A link lasts for at most seven days, and ends in the future."));
    }
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
        code: DrawnCode::of_address(&url),
        url,
        lasts: match until {
            Some(day) => format!("until the end of {day}, in UTC"),
            None => format!("for {} hours", expires_secs / 3_600),
        },
        names_version: version.is_some(),
    };
    Ok(html(200, &page.page, &page))
}

/// The seconds to the end of a day; 0 for one that is over.
///
/// # Errors
/// It is no day.
fn secs_to_end(now: Timestamp, day: &str) -> Result<u64, Refusal> {
    let end = rewind::time(&format!("{day} 23:59:59"))?;
    Ok(end.since(now).as_secs())
}

/// The day of a time in UTC, as fields for dates have it.
pub(super) fn day(time: Timestamp) -> String {
    time.to_iso8601().chars().take(10).collect()
}

/// The last day to whose end a link can last.
pub(super) fn last_day(now: Timestamp) -> String {
    day(now.plus(Duration::from_secs(EXPIRES_MAX_SECS - SECS_OF_DAY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_can_last_to_the_end_of_each_offered_day() {
        let now = rewind::time("2026-01-31 00:00:01").unwrap();
        assert_eq!((&*day(now), &*last_day(now)), ("2026-01-31", "2026-02-06"));
        assert_eq!(secs_to_end(now, "2026-01-31").unwrap(), SECS_OF_DAY - 2);
        assert!(secs_to_end(now, &last_day(now)).unwrap() <= EXPIRES_MAX_SECS);
        assert_eq!(secs_to_end(now, "2026-01-30").unwrap(), 0);
        for malformed in ["", "tomorrow", "2026-02-30"] {
            assert!(secs_to_end(now, malformed).is_err(), "{malformed}");
        }
    }
}
