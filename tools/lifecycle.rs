//! The command `lifecycle`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use serde_json::{Value, json};
use siltstone::base::{Clock as _, SystemClock, Timestamp};
use siltstone::fs::OsFs;
use siltstone::ops::expiry_of;
use siltstone::s3::lifecycle::{Expiry, ExpiryKind, LifecycleConfiguration, TransitionMinimumSize};
use siltstone::store::{self, BucketConfigurationKind, ListQuery, PlaceCursor, StoredBucket, UploadPages};
use siltstone::xml::Document;

use crate::outcome::{Failure, Outcome};
use crate::show;

pub(crate) const HELP: &str = "\
Tells what the lifecycle rules of a bucket would take: which versions and uploads, by which rule, when, and how many bytes. Nothing is
changed, written or locked. While a server runs, the result is its state a moment ago.

Examples:
  siltstone-tools lifecycle photos --dry-run
  siltstone-tools lifecycle photos --dry-run --rules new-rules.xml
      Try rules that the bucket does not have yet.
  siltstone-tools --data-dir /srv/objects --json lifecycle photos --dry-run | jq .rules

Exit status:
  0  complete
  1  damage, so that the result may be incomplete
  2  no store or no bucket there, no rules, or wrong arguments";

/// Versions per step.
const STEP_VERSIONS: usize = 4_096;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The bucket
    bucket: String,

    /// Tell what would go; the server does the rest
    #[arg(long, required = true)]
    dry_run: bool,

    /// Rules to try in place of those of the bucket: a LifecycleConfiguration in XML
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Number of versions and uploads to name
    #[arg(long, value_name = "N", default_value_t = 100)]
    top: usize,
}

/// What a rule takes.
#[derive(Default)]
struct RuleTotal {
    /// Due now: versions and uploads, bytes.
    due: (u64, u64),
    /// Due later: the same.
    later: (u64, u64),
    /// The next moment at which something is due.
    next: Option<Timestamp>,
}

/// A version or an upload that is due.
struct DueItem {
    key: String,
    rule: String,
    kind: ExpiryKind,
    at: Timestamp,
    bytes: u64,
}

struct Preview<'r> {
    rules: &'r LifecycleConfiguration,
    now: Timestamp,
    top: usize,
    totals: BTreeMap<usize, RuleTotal>,
    items: Vec<DueItem>,
}

/// Prints the preview.
pub(crate) fn run(
    data_dir: &Path,
    arguments: &Arguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let name = &arguments.bucket;
    let bucket = store::stored_bucket(&OsFs::new(data_dir), name)
        .map_err(|error| Failure::of(data_dir.display(), error))?
        .ok_or_else(|| Failure::of(data_dir.display(), format!("there is no bucket {name}")))?;
    let rules = rules(arguments, &bucket)?;
    let (now, totals, items) = (SystemClock.now(), BTreeMap::new(), Vec::new());
    let mut preview = Preview { rules: &rules, now, top: arguments.top, totals, items };
    preview.add_versions(&bucket);
    preview.add_uploads(&bucket);
    if json { show::json(out, &preview.describe(&bucket)) } else { preview.write_text(&bucket, out) }?;
    Ok(if bucket.damage.is_empty() { Outcome::Success } else { Outcome::Findings })
}

fn rules(arguments: &Arguments, bucket: &StoredBucket) -> Result<LifecycleConfiguration, Failure> {
    let Some(path) = &arguments.rules else {
        let stored = bucket.configuration(BucketConfigurationKind::Lifecycle);
        let stored = stored.ok_or_else(|| {
            Failure::of(&arguments.bucket, "the bucket has no lifecycle rules; --rules FILE tries some")
        })?;
        return LifecycleConfiguration::from_document(stored.document())
            .ok_or_else(|| Failure::of(&arguments.bucket, "its rules cannot be read by this version"));
    };
    let failed = |error: String| Failure::of(path.display(), error);
    let text = fs::read(path).map_err(|error| failed(error.to_string()))?;
    let document = Document::parse(&text).map_err(|error| failed(error.to_string()))?;
    let parsed = LifecycleConfiguration::parse(document.root(), TransitionMinimumSize::default());
    parsed.map_err(|error| failed(error.message))
}

impl Preview<'_> {
    fn add_versions(&mut self, bucket: &StoredBucket) {
        let mut cursor = PlaceCursor::default();
        while bucket.visit_places(&mut cursor, STEP_VERSIONS, &mut |placed| {
            if let Some(expiry) = expiry_of(self.rules, placed, placed.place) {
                self.add(placed.key, expiry, placed.version.size);
            }
        }) {}
    }

    fn add_uploads(&mut self, bucket: &StoredBucket) {
        let mut pages = UploadPages::default();
        let list = |query: &ListQuery, after| Ok::<_, Infallible>(bucket.list_uploads(query, after));
        while let Ok(Some(page)) = pages.next(list) {
            for (key, upload) in page.keys() {
                if let Some(abort) = self.rules.abort_at(key.as_bytes(), upload.initiated) {
                    self.add(key.as_bytes(), abort, bucket.upload_bytes(key.as_bytes(), upload.id));
                }
            }
        }
    }

    fn add(&mut self, key: &[u8], expiry: Expiry, bytes: u64) {
        let total = self.totals.entry(expiry.rule).or_default();
        total.next = Some(total.next.map_or(expiry.at, |next| next.min(expiry.at)));
        let is_due = expiry.at <= self.now;
        let (count, sum) = if is_due { &mut total.due } else { &mut total.later };
        (*count, *sum) = (*count + 1, *sum + bytes);
        if is_due && self.items.len() < self.top {
            let (key, rule) =
                (String::from_utf8_lossy(key).into_owned(), self.rules.rule_id(expiry.rule).to_owned());
            self.items.push(DueItem { key, rule, kind: expiry.kind, at: expiry.at, bytes });
        }
    }

    fn describe(&self, bucket: &StoredBucket) -> Value {
        let count = |(count, bytes): (u64, u64)| json!({ "count": count, "bytes": bytes });
        let rules: Vec<_> = self
            .totals
            .iter()
            .map(|(rule, total)| {
                json!({
                    "rule": self.rules.rule_id(*rule),
                    "due": count(total.due),
                    "later": count(total.later),
                    "next": total.next.map(|next| next.to_string()),
                })
            })
            .collect();
        let items: Vec<_> = self
            .items
            .iter()
            .map(|item| {
                json!({
                    "key": item.key,
                    "rule": item.rule,
                    "takes": name_of(item.kind),
                    "since": item.at.to_string(),
                    "bytes": item.bytes,
                })
            })
            .collect();
        let damage: Vec<_> = bucket.damage.iter().map(show::damage).collect();
        json!({ "rules": rules, "due": items, "damage": damage })
    }

    fn write_text(&self, bucket: &StoredBucket, out: &mut dyn Write) -> io::Result<()> {
        bucket.damage.iter().try_for_each(|damage| writeln!(out, "damage: {damage}"))?;
        for item in &self.items {
            let DueItem { key, rule, kind, at, bytes } = item;
            writeln!(
                out,
                "{key:?}: {} of {bytes} bytes, due since {at} by the rule {rule:?}",
                name_of(*kind)
            )?;
        }
        for (rule, total) in &self.totals {
            let RuleTotal { due, later, next } = total;
            let next = next.map(|next| format!(", the first at {next}")).unwrap_or_default();
            writeln!(
                out,
                "rule {:?}: {} due now with {} bytes, {} later with {} bytes{next}",
                self.rules.rule_id(*rule),
                due.0,
                due.1,
                later.0,
                later.1
            )?;
        }
        let due: u64 = self.totals.values().map(|total| total.due.0).sum();
        let bytes: u64 = self.totals.values().map(|total| total.due.1).sum();
        writeln!(out, "in all: {due} due now with {bytes} bytes; locked versions among them stay")
    }
}

fn name_of(kind: ExpiryKind) -> &'static str {
    match kind {
        ExpiryKind::Current => "current version",
        ExpiryKind::Noncurrent => "noncurrent version",
        ExpiryKind::DeleteMarker => "delete marker",
        ExpiryKind::Upload => "upload",
    }
}
