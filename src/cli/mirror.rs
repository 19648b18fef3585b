//! The `mirror` commands, the tables `[[mirror]]` checked before the server starts, and the threads
//! of mirrors.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Subcommand;
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use serde_json::Value;
use siltstone::base::{Clock, SystemClock};
use siltstone::client::encoded;
use siltstone::mirror::{Mirror, MirrorSettings, Mirrors};
use siltstone::store::Store;
use siltstone::transfer::{
    PeerKey, PeerLink, PeerVersion, PeerVersioning, bucket_names, versions_state, visit_keys,
};

use super::api_client::{self, ApiClient, ServerAddress};
use super::environment::Environment;
use super::options::ServerOptions;
use super::outbound_thread::OutboundThread;
use super::{CliError, announce, config_file};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  siltstone mirror status
  siltstone mirror verify away --config siltstone.toml
      Compares the listings of the server and of the target: what is missing, different or only there.
  siltstone mirror resync away
      Compares every key, sends what the target lacks, and removes what only the target has.

The commands ask the running server, at the address of --listen without --endpoint, and sign with the keys of an administrator:
SILTSTONE_ACCESS_KEY and SILTSTONE_SECRET_KEY, or else those in the users file.";

/// The longest wait for the end of a mirror.
const END_MAX: Duration = Duration::from_secs(5);
/// The niceness of the threads of mirrors.
const NICENESS: i32 = 10;
/// Keys that the listing of the target may be ahead.
const KEYS_AHEAD: usize = 4_096;
/// The most keys that are named for one reason.
const NAMED_MAX: u64 = 100;

/// A `mirror` command.
#[derive(Debug, Subcommand)]
pub(crate) enum MirrorCommand {
    /// Show each mirror: how far it is behind, what it sent, its last error
    Status {
        /// As the server answers, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Compare the listings of the server and of the target of a mirror
    Verify {
        /// Name of the mirror in the configuration file
        name: String,
        /// Compare the current objects alone, for a target that is meant to keep no versions
        #[arg(long)]
        current: bool,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Let a mirror start over: it compares every key, and removes what only the target has
    Resync {
        /// Name of the mirror
        name: String,
        #[command(flatten)]
        server: ServerAddress,
    },
}

/// The mirrors of a server, each with its threads.
pub(crate) struct MirrorThreads(Vec<OutboundThread>);

impl MirrorThreads {
    /// Starts them.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(store: &Arc<Store>, mirrors: &Mirrors) -> Result<Self, CliError> {
        let start = |mirror: &Arc<Mirror>| {
            let mirror = Arc::clone(mirror);
            OutboundThread::start("mirror", Arc::clone(store), move |store, stopped| {
                yield_to_requests();
                run(&mirror, store, stopped);
            })
        };
        mirrors.iter().map(start).collect::<Result<_, _>>().map(Self)
    }

    /// Ends them, and saves their positions.
    pub(crate) fn end(self) {
        self.0.into_iter().for_each(|thread| thread.end(END_MAX, "an object of a mirror"));
    }
}

/// Lowers the priority of this thread and of those that it starts: requests go first where there
/// are too few processors for both.
fn yield_to_requests() {
    // Elsewhere the call concerns the whole process.
    if cfg!(target_os = "linux")
        && let Err(error) = rustix::process::setpriority_process(None, NICENESS)
    {
        log::info!("mirrors run at the priority of requests: {error}");
    }
}

fn run(mirror: &Mirror, store: &Store, stopped: &Receiver<()>) {
    thread::scope(|scope| {
        scope.spawn(|| {
            while stopped.recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {}
            mirror.stop();
        });
        mirror.run(store);
    });
}

/// Runs a command.
///
/// # Errors
/// A message for the operator: the server cannot be asked or refuses; the target of a mirror
/// differs.
pub(crate) fn command(
    command: &MirrorCommand,
    options: &ServerOptions,
    environment: &Environment,
    config: Option<&Path>,
) -> Result<(), CliError> {
    match command {
        MirrorCommand::Status { json, server } => {
            let text = ApiClient::open(server, options, environment)?.ask("GET", "mirrors", b"")?;
            let lines = if *json { vec![text] } else { table(&text)? };
            announce::lines(lines).map_err(|e| CliError::refused(format!("cannot show the mirrors: {e}")))
        }
        MirrorCommand::Resync { name, server } => {
            let path = format!("mirrors/{}/resync", encoded(name));
            ApiClient::open(server, options, environment)?.ask("POST", &path, b"").map(drop)
        }
        MirrorCommand::Verify { name, current, server } => {
            let known = config_file::section(config, environment, MirrorSettings::parse)?
                .into_iter()
                .find(|mirror| mirror.name == *name);
            let mirror = known.ok_or_else(|| {
                CliError::usage(format!(
                    "{name}: no table [[mirror]] of the configuration file has this name"
                ))
            })?;
            verify((&mirror, *current), server, options, environment)
        }
    }
}

/// A line for each mirror and each refused key: its fields, separated by tabs.
fn table(text: &str) -> Result<Vec<String>, CliError> {
    let answer = api_client::parsed(text)?;
    let line = |row: &Value| {
        let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
        let number = |field: &str| row[field].as_u64().unwrap_or_default();
        let error = match &row["last_error"] {
            Value::Null => "no error".to_owned(),
            error => format!(
                "last error {}: {}",
                error["time"].as_str().unwrap_or_default(),
                error["text"].as_str().unwrap_or_default()
            ),
        };
        format!(
            "{}\t{}\t{}\t{} s behind, {} keys due, {} failing, {} refused\t{} objects, {} bytes, {} removed\t{error}",
            text("name"),
            text("target"),
            text("state"),
            number("lag_seconds"),
            number("due_keys"),
            number("failing_keys"),
            number("refused_keys"),
            number("objects"),
            number("bytes"),
            number("removed"),
        )
    };
    let lines = |row| [line(row)].into_iter().chain(occupied_lines(row)).chain(refused_lines(row));
    Ok(answer["mirrors"].as_array().into_iter().flatten().flat_map(lines).collect())
}

/// A line for each bucket of a mirror that waits for a resync.
fn occupied_lines(row: &Value) -> impl Iterator<Item = String> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    row["occupied"].as_array().into_iter().flatten().map(move |it| {
        let there = format!("{}/{}", text(it, "target_bucket"), text(it, "target_prefix"));
        format!(
            "{}\toccupied\t{}\t{there} has objects that the mirror did not send: `siltstone mirror resync` takes them over",
            text(row, "name"),
            text(it, "bucket"),
        )
    })
}

/// A line for each key of a mirror that the target refused.
fn refused_lines(row: &Value) -> Vec<String> {
    let listed = row["refused"].as_array().into_iter().flatten();
    let line = |refused: &Value| {
        let text = |field: &str| refused[field].as_str().unwrap_or_default();
        let place = format!("{}/{}", text("bucket"), text("key"));
        format!(
            "{}\trefused\t{place}\t{}\t{}",
            row["name"].as_str().unwrap_or_default(),
            text("time"),
            text("text")
        )
    };
    let mut lines: Vec<_> = listed.map(line).collect();
    let unlisted = row["refused_keys"].as_u64().unwrap_or_default().saturating_sub(lines.len() as u64);
    if unlisted > 0 {
        lines.push(format!(
            "{}\trefused\tup to {unlisted} more keys: `siltstone mirror verify` names them",
            row["name"].as_str().unwrap_or_default()
        ));
    }
    lines
}

/// The differences that a comparison found.
#[derive(Default)]
struct MirrorDifferences {
    compared: u64,
    missing: u64,
    different: u64,
    extra: u64,
    /// Keys that only differ in how many delete markers are in a row.
    marker_runs: u64,
    /// Buckets that keep versions here, and not at the target.
    unversioned: u64,
    lines: Vec<String>,
}

impl MirrorDifferences {
    fn note(&mut self, count: fn(&mut Self) -> &mut u64, what: &str, bucket: &str, key: &str) {
        *count(self) += 1;
        if *count(self) <= NAMED_MAX {
            self.lines.push(format!("{what}\t{bucket}/{key}"));
        }
    }

    fn outcome(mut self) -> Result<(), CliError> {
        let Self { compared, missing, different, extra, marker_runs, unversioned, .. } = self;
        if marker_runs > 0 {
            self.lines.push(format!(
                "{marker_runs} keys are the same but for the number of delete markers in a row, of which some servers keep one"
            ));
        }
        self.lines.push(format!(
            "{compared} keys compared: {missing} missing, {different} different, {extra} only at the target"
        ));
        announce::lines(self.lines)
            .map_err(|e| CliError::refused(format!("cannot show the differences: {e}")))?;
        match missing + different + extra + unversioned {
            0 => Ok(()),
            _ => Err(CliError::refused(
                "the target differs: if the mirror is current, `siltstone mirror resync` mends it",
            )),
        }
    }
}

fn verify(
    (mirror, current): (&MirrorSettings, bool),
    server: &ServerAddress,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    let here = api_client::peer(server, options, environment)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let there = Mirror::new(mirror.clone(), clock).map_err(CliError::refused)?;
    let mut source = PeerLink::new(&here);
    let mut target = PeerLink::new(there.peer());
    let refused = |why: String| CliError::refused(format!("the comparison was not finished: {why}"));
    let mut found = MirrorDifferences::default();
    for bucket in bucket_names(&mut source).map_err(refused)? {
        for prefix in mirror.prefixes_of(&bucket) {
            source.enter(&bucket);
            target.enter(&mirror.bucket_for(&bucket));
            let state = |link: &mut PeerLink<'_>| versions_state(link).map_err(|error| refused(error.text()));
            let states = (state(&mut source)?, state(&mut target)?);
            if !current {
                found.compare_versioning(&bucket, states);
            }
            let versions = !current && states.0.may_have_versions() && states.1.may_have_versions();
            compare(&mut source, &mut target, (mirror, &prefix, versions), &mut |found_key| {
                found.add(&bucket, found_key);
            })
            .map_err(refused)?;
        }
    }
    found.outcome()
}

/// A key of one or both sides, and whether both are alike.
#[derive(Debug, PartialEq, Eq)]
enum ComparedKey {
    Alike,
    /// Alike but for the number of delete markers in a row.
    MarkerRuns,
    Missing(String),
    Different(String),
    Extra(String),
}

impl MirrorDifferences {
    /// Names a bucket of which the target cannot have every version.
    fn compare_versioning(&mut self, bucket: &str, (here, there): (PeerVersioning, PeerVersioning)) {
        let there = match there {
            PeerVersioning::Enabled => return,
            PeerVersioning::Suspended => "suspended",
            PeerVersioning::Unset => "not enabled",
            PeerVersioning::Unsupported => "not known",
        };
        if here.may_have_versions() {
            self.unversioned += 1;
            self.lines.push(format!("versions\t{bucket}: kept here, and {there} at the target"));
        }
    }

    fn add(&mut self, bucket: &str, compared: ComparedKey) {
        self.compared += 1;
        match compared {
            ComparedKey::Alike => {}
            ComparedKey::MarkerRuns => self.marker_runs += 1,
            ComparedKey::Missing(key) => self.note(|it| &mut it.missing, "missing", bucket, &key),
            ComparedKey::Different(key) => self.note(|it| &mut it.different, "different", bucket, &key),
            ComparedKey::Extra(key) => self.note(|it| &mut it.extra, "extra", bucket, &key),
        }
    }
}

/// Compares two listings, both of which are sorted by key. A second thread lists the target.
fn compare(
    source: &mut PeerLink<'_>,
    target: &mut PeerLink<'_>,
    (mirror, prefix, versions): (&MirrorSettings, &str, bool),
    found: &mut dyn FnMut(ComparedKey),
) -> Result<(), String> {
    let (sender, there) = bounded::<PeerKey>(KEYS_AHEAD);
    let below = format!("{}{prefix}", mirror.target_prefix);
    thread::scope(|scope| {
        let listing =
            scope.spawn(move || visit_keys(target, &below, versions, &mut |key| sender.send(key).is_ok()));
        let name =
            |key: &PeerKey| key.key.strip_prefix(&*mirror.target_prefix).unwrap_or(&key.key).to_owned();
        let mut next = there.recv().ok();
        let listed = visit_keys(source, prefix, versions, &mut |here| {
            while let Some(extra) = next.take_if(|key| name(key).cmp(&here.key) == Ordering::Less) {
                found(ComparedKey::Extra(name(&extra)));
                next = there.recv().ok();
            }
            let same = next.take_if(|key| name(key) == here.key);
            match same {
                Some(same) => {
                    next = there.recv().ok();
                    found(compared(here, &same));
                }
                None => found(ComparedKey::Missing(here.key)),
            }
            true
        });
        if listed.is_ok() {
            next.iter()
                .chain(there.iter().collect::<Vec<_>>().iter())
                .for_each(|key| found(ComparedKey::Extra(name(key))));
        }
        drop(there);
        listed.and(listing.join().unwrap_or_else(|_| Err("a panic".to_owned())))
    })
}

/// The comparison of two keys. Delete markers in a row carry no data, and some servers keep one of
/// them.
fn compared(here: PeerKey, there: &PeerKey) -> ComparedKey {
    if here.fault.is_some() || there.fault.is_some() {
        return ComparedKey::Different(here.key);
    }
    if are_alike(&here.versions, &there.versions) {
        return ComparedKey::Alike;
    }
    match are_alike(without_repeated_markers(&here), without_repeated_markers(there)) {
        true => ComparedKey::MarkerRuns,
        false => ComparedKey::Different(here.key),
    }
}

/// The versions without delete markers after another one.
fn without_repeated_markers(key: &PeerKey) -> impl Iterator<Item = &PeerVersion> {
    let mut follows_marker = false;
    key.versions.iter().filter(move |version| {
        !(std::mem::replace(&mut follows_marker, version.delete_marker) && version.delete_marker)
    })
}

/// Whether both have the same versions, by length, and by entity tag where both tell the same kind
/// of digest.
fn are_alike<'v>(
    here: impl IntoIterator<Item = &'v PeerVersion>,
    there: impl IntoIterator<Item = &'v PeerVersion>,
) -> bool {
    let form = |etag: &str| (etag.len(), etag.rsplit_once('-').map(|(_, parts)| parts.to_owned()));
    let is_alike = |one: &PeerVersion, other: &PeerVersion| {
        one.delete_marker == other.delete_marker
            && one.length == other.length
            && (one.etag == other.etag || form(&one.etag) != form(&other.etag))
    };
    let mut here = here.into_iter();
    let mut there = there.into_iter();
    loop {
        match (here.next(), there.next()) {
            (Some(one), Some(other)) if is_alike(one, other) => {}
            (one, other) => return one.is_none() && other.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key with versions of these bytes, where `-` is a delete marker.
    fn key(versions: &str) -> PeerKey {
        let version = |byte: char| PeerVersion {
            id: None,
            delete_marker: byte == '-',
            length: 1,
            etag: byte.to_string(),
            modified: None,
        };
        PeerKey { key: "k".to_owned(), versions: versions.chars().map(version).collect(), fault: None }
    }

    #[test]
    fn delete_markers_in_a_row_count_once() {
        let compare = |here: &str, there: &str| compared(key(here), &key(there));
        assert_eq!(compare("a--b", "a--b"), ComparedKey::Alike);
        for (here, there) in [("a--b", "a-b"), ("---", "-"), ("a-b", "a---b"), ("--a-", "-a--")] {
            assert_eq!(compare(here, there), ComparedKey::MarkerRuns, "{here} {there}");
        }
        for (here, there) in
            [("a-b", "ab"), ("aa", "a"), ("a--", "a"), ("a-b", "b-a"), ("a", "ab"), ("", "-")]
        {
            assert_eq!(compare(here, there), ComparedKey::Different("k".to_owned()), "{here} {there}");
        }
    }
}
