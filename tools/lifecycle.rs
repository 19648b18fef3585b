//! The command `lifecycle`.

use std::convert::Infallible;
use std::io::Write;
use std::path::PathBuf;
use std::{fs, io};

use clap::Args;
use serde_json::{Value, json};
use siltstone::base::{Clock as _, SystemClock};
use siltstone::offline::{self, StoredBucket};
use siltstone::ops::{DueExpiry, LifecyclePreview, PreviewCount, RulePreview};
use siltstone::s3::XmlConfiguration as _;
use siltstone::s3::lifecycle::{ExpiryKind, LifecycleConfiguration};
use siltstone::store::{BucketConfigurationKind, PlaceCursor, UploadPages};
use siltstone::xml::Document;

use crate::data_dir::DataDir;
use crate::outcome::{Failure, Outcome};
use crate::show;

pub(crate) const HELP: &str = "\
Tells what the lifecycle rules of a bucket would take, and what they would move to the class COLD: which versions and uploads, by which
rule, when, and how many bytes. Nothing is changed, written or locked. While a server runs, the result is its state a moment ago.

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

    /// Tell what would go or move; the server does the rest
    #[arg(long, required = true)]
    dry_run: bool,

    /// Rules to try in place of those of the bucket: a LifecycleConfiguration in XML
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Number of versions and uploads to name
    #[arg(long, value_name = "N", default_value_t = 100)]
    top: usize,
}

/// Prints the preview.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &Arguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let name = &arguments.bucket;
    let bucket = offline::stored_bucket(data_dir.disk()?.as_ref(), name)
        .map_err(|error| Failure::of(data_dir.display(), error))?
        .ok_or_else(|| Failure::of(data_dir.display(), format!("there is no bucket {name}")))?;
    let rules = rules(arguments, &bucket)?;
    let mut preview = LifecyclePreview::new(&rules, SystemClock.now(), arguments.top);
    add_versions(&mut preview, &bucket);
    add_uploads(&mut preview, &bucket);
    if json { show::json(out, &describe(&preview, &bucket)) } else { write_text(&preview, &bucket, out) }?;
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
    LifecycleConfiguration::parse(document.root()).map_err(|error| failed(error.message))
}

fn add_versions(preview: &mut LifecyclePreview<'_>, bucket: &StoredBucket) {
    let mut cursor = PlaceCursor::default();
    while bucket.visit_places(&mut cursor, STEP_VERSIONS, &mut |placed| preview.add_version(placed)) {}
}

fn add_uploads(preview: &mut LifecyclePreview<'_>, bucket: &StoredBucket) {
    let mut pages = UploadPages::default();
    while let Ok(Some(page)) =
        pages.next(|query, after| Ok::<_, Infallible>(bucket.list_uploads(query, after)))
    {
        for (key, upload) in page.keys() {
            preview.add_upload(key.as_bytes(), upload.initiated, || {
                bucket.upload_bytes(key.as_bytes(), upload.id)
            });
        }
    }
}

fn describe(preview: &LifecyclePreview<'_>, bucket: &StoredBucket) -> Value {
    let count = |sum: PreviewCount| json!({ "count": sum.count, "bytes": sum.bytes });
    let rules: Vec<_> = preview
        .rules()
        .map(|(rule, total)| {
            json!({
                "rule": rule,
                "action": if total.moves { "transition to COLD" } else { "expiration" },
                "due": count(total.due),
                "later": count(total.later),
                "next": total.next.map(|next| next.to_string()),
            })
        })
        .collect();
    let items: Vec<_> = preview
        .due()
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

fn write_text(preview: &LifecyclePreview<'_>, bucket: &StoredBucket, out: &mut dyn Write) -> io::Result<()> {
    bucket.damage.iter().try_for_each(|damage| writeln!(out, "damage: {damage}"))?;
    for item in preview.due() {
        let DueExpiry { key, rule, kind, at, bytes } = item;
        writeln!(out, "{key:?}: {} of {bytes} bytes, due since {at} by the rule {rule:?}", name_of(*kind))?;
    }
    for (rule, total) in preview.rules() {
        let RulePreview { moves, due, later, next } = total;
        let what = if *moves { "to become COLD" } else { "due" };
        let next = next.map(|next| format!(", the first at {next}")).unwrap_or_default();
        writeln!(
            out,
            "rule {rule:?}: {} {what} now with {} bytes, {} later with {} bytes{next}",
            due.count, due.bytes, later.count, later.bytes
        )?;
    }
    let PreviewCount { count, bytes } = preview.total_due();
    writeln!(out, "in all: {count} due now with {bytes} bytes; locked versions among them stay")?;
    match preview.total_moves() {
        PreviewCount { count: 0, .. } => Ok(()),
        PreviewCount { count, bytes } => {
            writeln!(out, "in all: {count} to become COLD now with {bytes} bytes")
        }
    }
}

fn name_of(kind: ExpiryKind) -> &'static str {
    match kind {
        ExpiryKind::Current => "current version",
        ExpiryKind::Noncurrent => "noncurrent version",
        ExpiryKind::DeleteMarker => "delete marker",
        ExpiryKind::Upload => "upload",
        ExpiryKind::Transition => "transition to COLD",
    }
}
