//! The command `import`: copies a directory, or a bucket of another server, into a bucket of a running server.

mod directory;
mod file;
mod listing;
mod object;
mod peer;
mod report;
mod upload;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Args;
use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};
use siltstone::client::{Endpoint, RequestSigner};
use siltstone::xml::Document;

use crate::outcome::{Failure, Outcome};
use crate::progress::Meter;
use directory::{DirectoryWalk, FoundFile};
use listing::ListedKey;
use object::ObjectCopy;
use peer::{Call, CallError, Link, Peer};
use report::{ImportReport, Loss};

pub(crate) const HELP: &str = "\
Copies files, or the objects of another S3 server, into a bucket of a running server. The bucket must exist. An import may be interrupted at
any time: run it again, and it skips keys that are there with the same bytes and attributes. Where both buckets keep versions, all versions
and delete markers are copied in order; otherwise the current versions. The prefix of s3://BUCKET/PREFIX is replaced by that of the target.
Modification times of files become x-amz-meta-mtime.

Examples:
  siltstone-tools import /srv/photos photos/2026 --access-key KEY --secret-key SECRET
  siltstone-tools import s3://photos photos --endpoint https://s3.eu-west-1.amazonaws.com --region eu-west-1
  siltstone-tools --json import s3://photos/cats photos/cats --endpoint http://10.0.0.7:7480 | jq .failures

Exit status:
  0  everything is there
  1  failures or files that were left out, which the output names
  2  a server or the directory cannot be used, or wrong arguments";

/// Keys that wait for a worker.
const WAITING_MAX: usize = 100_000;
/// The time between two looks at the progress.
const LOOK: Duration = Duration::from_millis(200);

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory, or s3://BUCKET/PREFIX
    source: String,
    /// The bucket of the server, and a prefix if need be: BUCKET/PREFIX
    target: String,

    /// URL of the server that receives
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9000")]
    server: String,
    /// Access key of the server that receives
    #[arg(
        long,
        value_name = "KEY",
        env = "SILTSTONE_ACCESS_KEY",
        default_value = "",
        hide_default_value = true
    )]
    access_key: String,
    /// Its secret key
    #[arg(
        long,
        value_name = "SECRET",
        env = "SILTSTONE_SECRET_KEY",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    secret_key: String,

    /// URL of the server of s3://BUCKET
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Access key of the source
    #[arg(
        long,
        value_name = "KEY",
        env = "AWS_ACCESS_KEY_ID",
        default_value = "",
        hide_default_value = true
    )]
    source_access_key: String,
    /// Secret key of the source
    #[arg(
        long,
        value_name = "SECRET",
        env = "AWS_SECRET_ACCESS_KEY",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    source_secret_key: String,
    /// Region that requests are signed for
    #[arg(long, value_name = "NAME", default_value = "us-east-1")]
    region: String,
    /// Certificate authorities of https endpoints, as PEM, instead of those of the system
    #[arg(long, value_name = "FILE", env = "SSL_CERT_FILE")]
    ca_file: Option<PathBuf>,

    /// Follow symbolic links in a directory, instead of leaving them out
    #[arg(long)]
    follow_links: bool,
    /// Store modification times of objects as x-amz-meta-mtime, where they have none
    #[arg(long)]
    keep_times: bool,
    /// Keys that are copied at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
}

/// A unit of work: all of one key.
enum Job {
    File(FoundFile),
    Key(ListedKey),
}

/// An import that is running.
struct Import {
    source: Option<Peer>,
    /// The prefix of the names in the source that those in the target do not have.
    source_prefix: String,
    target: Peer,
    target_prefix: String,
    all_versions: bool,
    keep_times: bool,
    listed_bytes: AtomicU64,
    stopped: Arc<AtomicBool>,
    report: Mutex<ImportReport>,
}

/// Copies, and prints the report.
pub(crate) fn run(arguments: &Arguments, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let import = Import::open(arguments).map_err(Failure::Command)?;
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&import.stopped))?;
    let (sender, receiver) = bounded(WAITING_MAX);
    thread::scope(|scope| {
        for _ in 0..arguments.parallel {
            scope.spawn(|| import.work(&receiver));
        }
        let listing = scope.spawn(|| import.list(arguments, sender));
        let mut meter = Meter::start(json);
        while !listing.is_finished() || !receiver.is_empty() {
            import.show(&mut meter, listing.is_finished());
            thread::sleep(LOOK);
        }
        meter.finish();
    });
    let mut report = import.report.into_inner().unwrap_or_else(PoisonError::into_inner);
    if import.stopped.load(Ordering::Relaxed) {
        report.unfinished = Some("interrupted".to_owned());
    }
    report.write(json, out)?;
    Ok(if report.is_complete() { Outcome::Success } else { Outcome::Findings })
}

impl Import {
    fn open(arguments: &Arguments) -> Result<Self, String> {
        let (bucket, target_prefix) = split(&arguments.target);
        let keys = (&*arguments.access_key, &*arguments.secret_key);
        let target = open_peer(&arguments.server, keys, bucket, arguments)?;
        let target_versions =
            keeps_versions(&target).map_err(|why| format!("{}: {why}", arguments.target))?;
        let mut import = Self {
            source: None,
            source_prefix: String::new(),
            target,
            target_prefix,
            all_versions: false,
            keep_times: arguments.keep_times,
            listed_bytes: AtomicU64::new(0),
            stopped: Arc::new(AtomicBool::new(false)),
            report: Mutex::new(ImportReport::default()),
        };
        if let Some(place) = arguments.source.strip_prefix("s3://") {
            let (bucket, prefix) = split(place);
            let endpoint = arguments.endpoint.as_deref().ok_or("--endpoint URL names the server of s3://")?;
            let keys = (&*arguments.source_access_key, &*arguments.source_secret_key);
            let source = open_peer(endpoint, keys, bucket, arguments)?;
            let versions = keeps_versions(&source).map_err(|why| format!("{}: {why}", arguments.source))?;
            import.all_versions = versions && target_versions;
            if versions && !target_versions {
                import.report().lose(Loss::Noncurrent);
            }
            import.source_prefix = prefix;
            import.source = Some(source);
            return Ok(import);
        }
        if !import.target_prefix.is_empty() && !import.target_prefix.ends_with('/') {
            import.target_prefix.push('/');
        }
        if !Path::new(&arguments.source).is_dir() {
            return Err(format!("{}: there is no such directory", arguments.source));
        }
        Ok(import)
    }

    fn report(&self) -> std::sync::MutexGuard<'_, ImportReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, meter: &mut Meter, listed: bool) {
        let done = self.report().bytes;
        // Before the end of the listing the total is unknown, and with it the time left.
        let total = if listed { self.listed_bytes.load(Ordering::Relaxed) } else { 0 };
        meter.update(if listed { "importing" } else { "listing and importing" }, done, total);
    }

    /// Hands out the jobs.
    fn list(&self, arguments: &Arguments, sender: Sender<Job>) {
        let Some(source) = &self.source else { return self.list_files(arguments, &sender) };
        let mut link = Link::new(source);
        let done = listing::visit_keys(&mut link, &self.source_prefix, self.all_versions, &mut |listed| {
            let bytes = listed.versions.iter().map(|version| version.length).sum();
            self.hand_out(&sender, Job::Key(listed), bytes)
        });
        if let Err(why) = done {
            self.report().unfinished = Some(format!("the listing of the source: {why}"));
        }
        drop(sender);
    }

    fn list_files(&self, arguments: &Arguments, sender: &Sender<Job>) {
        let mut walk = DirectoryWalk {
            follow_links: arguments.follow_links,
            found: &mut |file| {
                let bytes = file.length;
                self.hand_out(sender, Job::File(file), bytes)
            },
            left_out: &mut |path, why| self.report().leave_out(&path.display().to_string(), why),
            above: BTreeSet::new(),
        };
        walk.start(Path::new(&arguments.source));
    }

    /// Returns whether the listing goes on.
    fn hand_out(&self, sender: &Sender<Job>, mut job: Job, bytes: u64) -> bool {
        self.listed_bytes.fetch_add(bytes, Ordering::Relaxed);
        while !self.stopped.load(Ordering::Relaxed) {
            match sender.send_timeout(job, LOOK) {
                Ok(()) => return true,
                Err(SendTimeoutError::Timeout(back)) => job = back,
                Err(SendTimeoutError::Disconnected(_)) => return false,
            }
        }
        false
    }

    fn work(&self, jobs: &Receiver<Job>) {
        let mut target = Link::new(&self.target);
        let mut source = self.source.as_ref().map(Link::new);
        while let Ok(job) = jobs.recv() {
            if self.stopped.load(Ordering::Relaxed) {
                continue;
            }
            match (job, &mut source) {
                (Job::File(found), _) => {
                    let key = format!("{}{}", self.target_prefix, found.name);
                    let outcome = file::import_file(&mut target, &found, &key);
                    self.report().add(&key, found.length, outcome);
                }
                (Job::Key(listed), Some(source)) => self.copy(source, &mut target, &listed),
                (Job::Key(_), None) => {}
            }
        }
    }

    fn copy<'p>(&self, source: &mut Link<'p>, target: &mut Link<'p>, listed: &ListedKey) {
        let name = listed.key.strip_prefix(&self.source_prefix).unwrap_or(&listed.key);
        let to = format!("{}{name}", self.target_prefix);
        let mut copy = ObjectCopy {
            source,
            target,
            keys: (&listed.key, &to),
            keep_times: self.keep_times,
            lost: &mut |loss| self.report().lose(loss),
        };
        let outcome =
            if self.all_versions { copy.copy_versions(&listed.versions) } else { copy.copy_current() };
        let bytes = listed.versions.iter().map(|version| version.length).sum();
        self.report().add(&listed.key, bytes, outcome);
    }
}

fn open_peer(url: &str, keys: (&str, &str), bucket: String, arguments: &Arguments) -> Result<Peer, String> {
    let endpoint = Endpoint::resolve(url, arguments.ca_file.as_deref())?;
    let signer = RequestSigner::new(keys.0, keys.1, &arguments.region);
    Ok(Peer { endpoint, signer, bucket })
}

/// Whether the bucket has versions. It fails if the bucket cannot be used.
fn keeps_versions(peer: &Peer) -> Result<bool, String> {
    let call = Call { method: "GET", query: &[("versioning", "")], ..Call::default() };
    let (_, document) = Link::new(peer).ask(call).map_err(|error| match error {
        CallError::Absent => "there is no such bucket".to_owned(),
        other => other.text(),
    })?;
    let document = Document::parse(&document).map_err(|error| error.to_string())?;
    let status = document.root().child_text("Status").map_err(|error| error.to_string())?;
    Ok(status.is_some_and(|status| !status.is_empty()))
}

/// The bucket and the prefix.
fn split(place: &str) -> (String, String) {
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    (bucket.to_owned(), prefix.to_owned())
}
