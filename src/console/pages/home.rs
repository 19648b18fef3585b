//! The buckets of the user: the first page.

use askama::Template;

use super::super::form::EnteredFields;
use super::super::objects::BucketLine;
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::shown_time::ShownTime;
use super::super::text;
use super::greyed::Lack;
use super::overview::{self, Overview};
use super::page_links::{PageLinks, PagedList};
use super::quota_bar::{self, QuotaBar};
use super::{Page, View, html, pasted, see_other, settings};
use crate::s3::{Method, Response};
use crate::service::{BucketMarks, QuotaLimit, Usage};

/// The document that turns versioning on.
const ENABLED: &str = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";

#[derive(Template)]
#[template(path = "home.html", config = "src/console/askama.toml")]
struct HomePage<'a> {
    page: Page,
    entered: EnteredFields<'a>,
    buckets: Vec<BucketRow>,
    links: PageLinks,
    /// The text that the names of the shown buckets contain.
    find: &'a str,
    /// Whether the user may make a bucket, at least with some names.
    may_create: bool,
    create_lack: Lack,
    /// Why the buckets cannot be listed.
    refusal: Option<String>,
    /// The state of the server, for administrators.
    overview: Option<Overview>,
    /// The quota of the user.
    own_quota: Vec<QuotaBar>,
    /// Whether a shown quota is used up.
    has_full_quota: bool,
}

struct BucketRow {
    name: String,
    link: String,
    created: ShownTime,
    badges: Vec<&'static str>,
    /// The content, where the user may list it.
    content: Option<BucketContent>,
    /// The fullest limit of its quota.
    quota: Option<QuotaBar>,
}

struct BucketContent {
    objects: String,
    size: String,
    /// The bytes of older versions and of uploads; empty without any.
    further: String,
    /// How much it has grown, in words; empty where that is not known, or nothing.
    grown: String,
}

pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let find = view.given("find").unwrap_or_default().trim();
    if let Some(page) = pasted::page(view, find) {
        return Ok(see_other(&page));
    }
    let (lines, next, refusal) = match buckets(view, find) {
        Ok((buckets, next)) => (buckets, next, None),
        Err(refusal) if refusal.status == 403 => (Vec::new(), None, Some(refusal.message)),
        Err(refusal) => return Err(refusal),
    };
    let names: Vec<_> = lines.iter().map(|line| line.name.as_str()).collect();
    let usages = view.console.service.usages_for(&view.visitor.identity, view.request, &names);
    let limits = view.console.service.bucket_limits_for(&view.visitor.identity, view.request, &names);
    let marks = view.console.service.marks_for(&view.visitor.identity, view.request, &names);
    let growth = view.console.service.growth_of(&names);
    let mut rows = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        let known = KnownBucket {
            usage: usages[at].as_ref(),
            limits: &limits[at],
            marks: marks[at],
            grown: growth.bytes[at].and_then(|bytes| grown(bytes, growth.days)),
        };
        rows.push(row(view, line, known));
    }
    let is_first = find.is_empty() && view.given("after").is_none();
    let overview = if is_first { overview::of(view) } else { None };
    let own_quota = quota_bar::bars("Your quota", &view.console.service.own_limits(&view.visitor.identity));
    let mut shown_quotas = rows.iter().filter_map(|row| row.quota.as_ref()).chain(&own_quota);
    let has_full_quota = shown_quotas.any(|bar| bar.is_used_up);
    let first = view.link("", &[("find", Some(find).filter(|find| !find.is_empty()))]);
    let list = PagedList { first: &first, beginning: &["after"] };
    let next = next.as_deref().map(|token| [("after", token)]);
    let page = HomePage {
        page: view.page(),
        entered: view.entered(&[]),
        buckets: rows,
        links: PageLinks::of(&view.params, list, next.as_ref().map(<[_; 1]>::as_slice)),
        find,
        may_create: view.visitor.identity.may_create_some_bucket(),
        create_lack: Lack::of("CreateBucket", "*"),
        refusal,
        overview,
        own_quota,
        has_full_quota,
    };
    Ok(html(200, &page.page, &page))
}

/// A page of buckets whose names contain `find`, and the token of the next one. One that looks for
/// names is the first page of the listing with some.
fn buckets(view: &View<'_>, find: &str) -> Result<(Vec<BucketLine>, Option<String>), Refusal> {
    let find = find.to_lowercase();
    let mut after = view.given("after").map(str::to_owned);
    loop {
        let (mut lines, next) = view.s3().buckets(after.as_deref())?;
        lines.retain(|line| line.name.contains(&find));
        if !lines.is_empty() || next.is_none() {
            return Ok((lines, next));
        }
        after = next;
    }
}

/// What is known of a bucket beside its line, as far as the user may see it.
struct KnownBucket<'k> {
    usage: Option<&'k Usage>,
    limits: &'k [QuotaLimit],
    marks: BucketMarks,
    /// How much it has grown, in words.
    grown: Option<String>,
}

fn row(view: &View<'_>, bucket: &BucketLine, known: KnownBucket<'_>) -> BucketRow {
    let KnownBucket { usage, limits, marks, grown } = known;
    let content = usage.map(|usage| {
        let further = usage.bytes() - usage.current.bytes;
        BucketContent {
            objects: text::count(usage.current.count),
            size: text::size(usage.current.bytes),
            further: if further == 0 { String::new() } else { text::size(further) },
            grown: grown.unwrap_or_default(),
        }
    });
    let link = view.link("bucket", &[("name", Some(&bucket.name))]);
    let quota = quota_bar::bars("Quota", limits).into_iter().next();
    let badges = badges(marks);
    BucketRow {
        link,
        created: ShownTime::age(&bucket.created),
        name: bucket.name.clone(),
        badges,
        content,
        quota,
    }
}

fn badges(marks: BucketMarks) -> Vec<&'static str> {
    let all = [
        (marks.is_public, "Public"),
        (marks.keeps_versions, "Versions"),
        (marks.has_locks, "Locked"),
        (marks.has_lifecycle, "Expires"),
        (marks.has_replication, "Mirrored"),
    ];
    all.into_iter().filter(|(has_it, _)| *has_it).map(|(_, badge)| badge).collect()
}

/// How much a bucket has grown, in words; `None` for one that is as it was.
fn grown(bytes: i64, days: u64) -> Option<String> {
    let over = text::days(days);
    let size = text::size(bytes.unsigned_abs());
    match bytes {
        0 => None,
        1.. => Some(format!("+{size} in {over}")),
        ..0 => Some(format!("−{size} in {over}")),
    }
}

/// Makes a bucket, perhaps with versions, with object lock or for everyone to read.
pub(super) fn create(view: &View<'_>) -> Result<Response, Refusal> {
    let name = view.required("name")?;
    let lock = view.given("lock").map(|_| ("x-amz-bucket-object-lock-enabled", "true"));
    let request = S3Request { headers: lock.as_slice(), ..S3Request::default() };
    view.s3().send(Method::Put, target(Some(name), None)?, request)?;
    // Object lock brings versioning.
    let asks_for_versions = view.given("versions").is_some() && lock.is_none();
    let versions = asks_for_versions.then(|| ("versioning", ENABLED.to_owned()));
    let policy = view.given("public").map(|_| ("policy", settings::public_policy(name)));
    for (document, text) in versions.into_iter().chain(policy) {
        let request = S3Request { query: &[(document, "")], body: text.into_bytes(), ..S3Request::default() };
        view.s3().send(Method::Put, target(Some(name), None)?, request).map_err(|refusal| Refusal {
            message: format!("The bucket {name} was made, but not its {document}: {}", refusal.message),
            ..refusal
        })?;
    }
    view.tell(format!("Created the bucket {name}"));
    Ok(see_other(&view.link("bucket", &[("name", Some(name))])))
}

/// Deletes an empty bucket.
pub(super) fn delete(view: &View<'_>) -> Result<Response, Refusal> {
    let name = view.required("name")?;
    view.s3().send(Method::Delete, target(Some(name), None)?, S3Request::default())?;
    view.tell(format!("Deleted the bucket {name}"));
    Ok(see_other(view.console.root.as_str()))
}
