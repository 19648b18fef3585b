//! The command `export`: copies a bucket of this server into a directory, or into a bucket of
//! another server.

use siltstone::transfer::{Loss, PeerKey, PeerLink, PeerVersion, visit_keys};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::bucket_source::BucketSource;
use super::buckets::{BucketCopy, Credentials, Place};
use super::client_keys::ClientKeys;
use super::file_names::{Places, side_file};
use super::manifest::ManifestEntry;
use super::own_server::{OwnServer, OwnServerArguments};
use super::report::Copied;
use super::save::{ExportDirectory, SavedVersion};
use super::threads::{JobQueue, Transfer};
use crate::data_dir::DataDir;
use crate::outcome::{Failure, Outcome};

pub(crate) const HELP: &str = "\
Copies the objects of a bucket of a running server, or with --offline of the data directory of a stopped one, into a directory, or into a bucket
of another S3 server, which must exist. An export may be interrupted at any
time: run it again, and it skips what is there with the same bytes and attributes. Nothing is removed from the target.

In a directory each key is a file of its name, with the modification time of x-amz-meta-mtime or of the object. Keys that are no file names are
put aside, and named. Metadata, content headers, tags and versions are in DIR/.siltstone-export/manifest.jsonl, from which an import of the
directory restores them.

Examples:
  siltstone-tools export s3://photos /mnt/usb/photos --access-key KEY --secret-key SECRET
  siltstone-tools export s3://photos/2026 /mnt/usb/photos --versions
  siltstone-tools export s3://photos s3://copies/photos/ --endpoint https://s3.eu-west-1.amazonaws.com --region eu-west-1
  siltstone-tools --data-dir /srv/objects export s3://photos /mnt/usb/photos --offline
  siltstone-tools --json export s3://photos /mnt/usb/photos | jq .failures

Exit status:
  0  everything is there
  1  failures, which the output names
  2  a server or the directory cannot be used, or wrong arguments";

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The bucket of the server, and a prefix if need be: s3://BUCKET/PREFIX
    source: String,
    /// The directory, or s3://BUCKET/PREFIX of another server
    target: String,

    #[command(flatten)]
    own: OwnServerArguments,

    /// URL of the server of the target s3://BUCKET
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Access key of the target
    #[arg(
        long,
        value_name = "KEY",
        env = "AWS_ACCESS_KEY_ID",
        default_value = "",
        hide_default_value = true
    )]
    target_access_key: String,
    /// Secret key of the target
    #[arg(
        long,
        value_name = "SECRET",
        env = "AWS_SECRET_ACCESS_KEY",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    target_secret_key: String,
    /// Session token of temporary keys of the target
    #[arg(
        long,
        value_name = "TOKEN",
        env = "AWS_SESSION_TOKEN",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    target_session_token: String,
    /// Region that requests are signed for
    #[arg(long, value_name = "NAME", default_value = "us-east-1")]
    region: String,
    /// Certificate authorities of https endpoints, as PEM, instead of those of the system
    #[arg(long, value_name = "FILE", env = "SSL_CERT_FILE")]
    ca_file: Option<PathBuf>,

    /// Export noncurrent versions and delete markers, too
    #[arg(long)]
    versions: bool,
    /// Store modification times of objects as x-amz-meta-mtime, where they have none, in another
    /// server
    #[arg(long)]
    keep_times: bool,
    /// Keys that are copied at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
}

/// A key to be saved, and the path of its current version below the directory.
struct Job {
    listed: PeerKey,
    name: String,
    file: String,
}

/// An export into a directory.
struct DirectoryExport<'e> {
    source: &'e Place,
    versions: bool,
    directory: ExportDirectory,
    transfer: &'e Transfer,
}

/// Copies, and prints the report.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &Arguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let transfer = Transfer::new()?;
    let export = if arguments.target.starts_with("s3://") { export_bucket } else { export_directory };
    let own = arguments.own.start(data_dir, false, arguments.parallel).map_err(Failure::Command)?;
    let done = export(arguments, &own, &transfer, json);
    own.end();
    done.map_err(Failure::Command)?;
    let mut report = transfer.report();
    report.write(json, out)?;
    Ok(if report.is_complete() { Outcome::Success } else { Outcome::Findings })
}

fn source_of(arguments: &Arguments, own: &OwnServer<'_>) -> Result<(Place, bool), String> {
    let source = own.place(&arguments.source, &arguments.region, arguments.ca_file.as_deref())?;
    let keeps_versions = source.keeps_versions()?;
    Ok((source, keeps_versions))
}

fn export_bucket(
    arguments: &Arguments,
    own: &OwnServer<'_>,
    transfer: &Transfer,
    json: bool,
) -> Result<(), String> {
    let (source, keeps_versions) = source_of(arguments, own)?;
    let url = arguments.endpoint.as_deref().ok_or("--endpoint URL names the server of s3://")?;
    let keys = Credentials {
        access_key: &arguments.target_access_key,
        secret_key: &arguments.target_secret_key,
        token: &arguments.target_session_token,
    };
    let target = Place::open(&arguments.target, url, &keys, &arguments.region, arguments.ca_file.as_deref())?;
    let target_keeps = target.keeps_versions()?;
    let wanted = arguments.versions && keeps_versions;
    if wanted && !target_keeps {
        transfer.report().lose(Loss::Noncurrent);
    }
    let copy = BucketCopy {
        source: &source,
        target: &target,
        all_versions: wanted && target_keeps,
        keep_times: arguments.keep_times,
        state_times: false,
        client_keys: ClientKeys::default(),
    };
    copy.run(transfer, arguments.parallel, "exporting", json);
    Ok(())
}

fn export_directory(
    arguments: &Arguments,
    own: &OwnServer<'_>,
    transfer: &Transfer,
    json: bool,
) -> Result<(), String> {
    let (mut source, keeps_versions) = source_of(arguments, own)?;
    source.close_prefix();
    let versions = arguments.versions && keeps_versions;
    let name = format!("s3://{}/{}", source.peer.bucket, source.prefix);
    let directory = ExportDirectory::open(Path::new(&arguments.target), &name, versions)?;
    let export = DirectoryExport { source: &source, versions, directory, transfer };
    transfer.run(
        arguments.parallel,
        "exporting",
        json,
        |queue| export.list(queue),
        |jobs| {
            let mut link = PeerLink::new(&source.peer);
            for job in jobs {
                export.save_key(&mut link, &job);
            }
        },
    );
    // A directory with a manifest counts as whole: an import of one without it is refused.
    if transfer.report().unfinished.is_none() {
        export.directory.finish().map_err(|error| format!("{}: {error}", arguments.target))?;
    }
    Ok(())
}

impl DirectoryExport<'_> {
    fn list(&self, queue: &JobQueue<'_, Job>) -> Result<(), String> {
        let mut link = PeerLink::new(&self.source.peer);
        let mut places = Places::default();
        visit_keys(&mut link, &self.source.prefix, self.versions, &mut |listed| {
            if let Some(why) = listed.fault {
                self.transfer.report().add(&listed.key, 0, Err(why));
                return true;
            }
            let name = listed.key.strip_prefix(&self.source.prefix).unwrap_or(&listed.key).to_owned();
            let has_current = listed.versions.last().is_some_and(|version| !version.delete_marker);
            let file = if has_current { self.place(&mut places, &name) } else { String::new() };
            let bytes = listed.bytes();
            queue.push(Job { listed, name, file }, bytes)
        })
        .map_err(|why| format!("the listing of the source: {why}"))
    }

    fn place(&self, places: &mut Places, name: &str) -> String {
        places.next(name).unwrap_or_else(|why| {
            let file = side_file(name, None);
            self.transfer.report().rename(name, &format!("{why}; it is {file}"));
            file
        })
    }

    fn save_key(&self, link: &mut PeerLink<'_>, job: &Job) {
        let saved = self.save_versions(link, job).and_then(|(copied, entries)| {
            // After the bytes of all versions: the manifest names no file that is missing.
            self.directory.record(&entries).map_err(|error| format!("the manifest: {error}"))?;
            Ok(copied)
        });
        self.transfer.report().add(&job.listed.key, job.listed.bytes(), saved);
    }

    fn save_versions(
        &self,
        link: &mut PeerLink<'_>,
        job: &Job,
    ) -> Result<(Copied, Vec<ManifestEntry>), String> {
        let mut copied = Copied::Present;
        let mut entries = Vec::new();
        for (at, version) in job.listed.versions.iter().enumerate() {
            let current = at + 1 == job.listed.versions.len();
            let (outcome, entry) = self.save_version(link, job, version, current)?;
            if outcome == Copied::Stored {
                copied = Copied::Stored;
            }
            entries.push(ManifestEntry { key: job.name.clone(), current, ..entry });
        }
        Ok((copied, entries))
    }

    fn save_version(
        &self,
        link: &mut PeerLink<'_>,
        job: &Job,
        version: &PeerVersion,
        current: bool,
    ) -> Result<(Copied, ManifestEntry), String> {
        let id = version.id.as_deref();
        if version.delete_marker {
            let id = version.id.clone();
            let entry = ManifestEntry { version: id, delete_marker: true, ..ManifestEntry::default() };
            return Ok((Copied::Present, entry));
        }
        let file =
            if current { job.file.clone() } else { side_file(&job.name, Some(id.unwrap_or_default())) };
        self.directory.save(&mut SavedVersion {
            source: &mut BucketSource {
                link,
                key: &job.listed.key,
                keep_times: false,
                client_key: Vec::new(),
                sent: Vec::new(),
            },
            id,
            file,
            lost: &mut |loss| self.transfer.report().lose(loss),
        })
    }
}
