//! The command `undelete`.

use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use siltstone::base::{Clock, OsEntropy, SystemClock, Timestamp};
use siltstone::offline::undelete::{Undeletable, UndeleteQuery};
use siltstone::store::{Store, StoreError, StoreOptions, VersionRef};

use crate::data_dir::DataDir;
use crate::outcome::{Failure, Outcome};
use crate::show;

pub(crate) const HELP: &str = "\
In a bucket with versions, deleting an object only adds a delete marker above them. This command removes the markers, so that
the newest version below is current again. Keys with nothing but markers stay deleted. The server must be stopped.

Examples:
  siltstone-tools undelete photos --dry-run
      List the deletions in the bucket photos that can be undone.
  siltstone-tools --data-dir /srv/objects undelete photos cats/tom.jpg
  siltstone-tools undelete photos --prefix cats/ --since 2h
      Undo the deletions below cats/ of the last two hours.
  siltstone-tools undelete photos --since 2026-11-21T20:00:00Z --json

Exit status:
  0  done, also if there was nothing to undo
  2  failed: nothing was undone, or only the listed keys; or wrong arguments";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The bucket
    bucket: String,

    /// Only this key
    #[arg(conflicts_with = "prefix")]
    key: Option<String>,

    /// Only keys with this prefix
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,

    /// Only deletions since then: a time such as 2026-11-21T20:00:00Z, or an age such as 2h
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,

    /// List the deletions that can be undone, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// A time, given as such or as an age.
#[derive(Debug, Clone, Copy)]
struct Since(Timestamp);

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(time) = Timestamp::parse_iso8601(text) {
            return Ok(Self(time));
        }
        let ago = humantime::parse_duration(text)
            .map_err(|_| "write a time such as 2026-11-21T20:00:00Z, or an age such as 2h")?;
        let now = SystemClock.now().as_millis();
        Ok(Self(Timestamp::from_millis(now.saturating_sub(ago.as_millis() as u64))))
    }
}

/// Undoes deletions, or lists them.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &Arguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let Arguments { bucket, key, prefix, since, dry_run } = arguments;
    let store = open(data_dir)?;
    let query =
        UndeleteQuery { prefix: prefix.clone(), key: key.clone(), since: since.map(|Since(time)| time) };
    let mut written = Ok(());
    let mut count = 0;
    let done = store.undeletable(bucket, &query, &mut |found| {
        if !dry_run {
            store.undelete(bucket, found)?;
        }
        count += found.len();
        if written.is_ok() {
            written = found.iter().try_for_each(|found| write_deletion(&store, found, json, out));
        }
        Ok(())
    });
    store.close();
    written?;
    done.map_err(|error| refused(data_dir, bucket, &error))?;
    if !json {
        let what = if *dry_run { "could be undeleted" } else { "undeleted" };
        writeln!(out, "{what}: {count}")?;
    }
    Ok(Outcome::Success)
}

/// Opens the store; a missing one is not created.
fn open(data_dir: &DataDir) -> Result<Store, Failure> {
    let refused = |error: &dyn std::fmt::Display| Failure::of(data_dir.display(), error);
    let fs = data_dir.disk()?;
    if fs.list("meta").map_err(|error| refused(&error))?.is_empty() {
        return Err(refused(&"there is no store in it"));
    }
    Store::open(fs, Arc::new(SystemClock), &OsEntropy, StoreOptions::default()).map_err(|e| refused(&e))
}

fn refused(data_dir: &Path, bucket: &str, error: &StoreError) -> Failure {
    match error {
        StoreError::NoSuchBucket => Failure::of(bucket, error),
        error => Failure::of(data_dir.display(), error),
    }
}

fn write_deletion(
    store: &Store,
    found: &Undeletable,
    json: bool,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let Undeletable { key, markers, deleted, version } = found;
    let shown = |version: VersionRef| version.text(store.client_ids());
    let id = shown(if version.null { VersionRef::Null } else { VersionRef::Id(version.id) });
    if json {
        let described = json!({
            "key": key,
            "deleted": deleted.to_string(),
            "markers": markers.iter().map(|marker| shown(*marker)).collect::<Value>(),
            "version": { "id": id, "modified": version.modified.to_string(), "size": version.size },
        });
        return show::json(out, &described);
    }
    let size = version.size;
    let modified = version.modified;
    writeln!(out, "{key:?}: deleted {deleted}, version {id} of {modified}, {size} bytes")
}
