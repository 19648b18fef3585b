//! The command `import`: copies a directory, a bucket of another server, or the drives of MinIO,
//! into buckets of this one.

use siltstone::base::digest::to_hex;
use siltstone::transfer::{Loss, PeerLink};
use std::collections::{BTreeSet, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use ring::digest::{SHA256, digest};

use super::buckets::{BucketCopy, Credentials, Place};
use super::client_keys::ClientKeys;
use super::configurations::configurations_of;
use super::directory::{DirectoryWalk, FoundFile};
use super::exported::{ExportedKey, listed};
use super::file::{SourceDirectory, import_file};
use super::file_names::SIDE_DIRECTORY;
use super::manifest::{MANIFEST, ManifestEntry, ManifestReader};
use super::minio::{self, BucketPlan, Configuring};
use super::object::ObjectCopy;
use super::own_server::{OwnServer, OwnServerArguments};
use super::threads::{JobQueue, Transfer};
use crate::contained::ContainedDirectory;
use crate::data_dir::DataDir;
use crate::minio::format::bucket_metadata::BucketMetadata;
use crate::minio::format::keys::SecretKey;
use crate::minio::iam::MinioIdentities;
use crate::minio::secrets::KeySources;
use crate::outcome::{Failure, Outcome};

pub(crate) const HELP: &str = "\
Copies files, or the objects of another S3 server, into a bucket of a running server, which must exist, or with --offline into the data directory
of a stopped one, where the bucket is made if it is missing. An import may be interrupted at any time: run it again, and it skips keys that are there with the same bytes and attributes. Where both buckets keep versions, all versions
and delete markers are copied in order; otherwise the current versions. The prefix of s3://BUCKET/PREFIX is replaced by that of the target.
Modification times of objects and files are shown as Last-Modified, if the target is a Siltstone and the user has PutObjectStatedTime. Those of files become
x-amz-meta-mtime, too, and with --keep-times those of objects. A directory that an export filled is restored with the metadata, tags and versions of its
manifest.

The drives of MinIO (minio:DIR,DIR) are read and never written: versions, delete markers, times of versions, ETags, metadata, tags, retention and legal
holds come along. Every byte is verified; what is damaged is rebuilt from other drives or named. Buckets are made; one that is there and was
not made by an earlier run of the same import is refused.

Examples:
  siltstone-tools import /srv/photos photos/2026 --access-key KEY --secret-key SECRET
  siltstone-tools import s3://photos photos --endpoint https://s3.eu-west-1.amazonaws.com --region eu-west-1
  siltstone-tools --data-dir /srv/objects import /mnt/usb/photos photos --offline
  siltstone-tools --data-dir /srv/objects import minio:/mnt/disk1,/mnt/disk2,/mnt/disk3,/mnt/disk4 --offline
      All buckets on the drives of a MinIO server, whole or in part, each into a bucket of its name.
  siltstone-tools import s3://photos photos --endpoint http://10.0.0.7:9000 --with-configurations --minio-iam iam --users-out users.toml
      A bucket of a running MinIO server with its configurations, and the users of its export.
  siltstone-tools --json import s3://photos/cats photos/cats --endpoint http://10.0.0.7:7480 | jq .failures

Exit status:
  0  everything is there
  1  failures or files that were left out, which the output names
  2  a server or the directory cannot be used, or wrong arguments";

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory, s3://BUCKET/PREFIX, or minio:DIR[,DIR...] with the drives of a MinIO server
    source: String,
    /// The bucket of the server, and a prefix if need be: BUCKET/PREFIX; for minio: the buckets, all without a name
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,

    #[command(flatten)]
    own: OwnServerArguments,

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
    /// Session token of temporary keys of the source
    #[arg(
        long,
        value_name = "TOKEN",
        env = "AWS_SESSION_TOKEN",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    source_session_token: String,
    /// Region that requests are signed for
    #[arg(long, value_name = "NAME", default_value = "us-east-1")]
    region: String,
    /// Certificate authorities of https endpoints, as PEM, instead of those of the system
    #[arg(long, value_name = "FILE", env = "SSL_CERT_FILE")]
    ca_file: Option<PathBuf>,

    /// Import from MinIO's drives although some are missing
    #[arg(long)]
    partial: bool,
    /// Fill buckets that are there, and that this import did not make
    #[arg(long)]
    into_existing: bool,
    /// Store what is doubtful, as parts without metadata, in a bucket of its own, BUCKET-salvaged
    #[arg(long)]
    salvage: bool,
    /// File with the environment of the MinIO server, as /etc/default/minio, for the keys of encrypted objects and users
    #[arg(long, value_name = "FILE")]
    minio_env: Option<PathBuf>,
    /// File with the keys of clients (SSE-C): on each line BUCKET/PREFIX and the key in base64
    #[arg(long, value_name = "FILE")]
    sse_c_keys: Option<PathBuf>,
    /// Write the users of MinIO's drives, or of --minio-iam, into a new users file
    #[arg(long, value_name = "FILE")]
    users_out: Option<PathBuf>,
    /// Directory with the unpacked zip of `mc admin cluster iam export`: the users of a MinIO or RustFS server
    #[arg(long, value_name = "DIR", requires = "users_out")]
    minio_iam: Option<PathBuf>,
    /// Take the configurations of the bucket of s3:// along, which is made with them
    #[arg(long)]
    with_configurations: bool,
    /// Write the ids of versions on MinIO's drives and in this server, as JSON lines
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,

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

impl Arguments {
    /// The only target.
    fn target(&self) -> Result<&str, String> {
        match &*self.targets {
            [target] => Ok(target),
            [] => Err("the bucket to import into is missing: BUCKET or BUCKET/PREFIX".to_owned()),
            _ => Err("one bucket is imported into, but from minio:".to_owned()),
        }
    }
}

/// A unit of work: all of one key.
enum Job {
    File(FoundFile),
    Exported(Vec<ManifestEntry>),
}

/// An import of a directory.
struct DirectoryImport<'i> {
    directory: &'i SourceDirectory,
    target: &'i Place,
    all_versions: bool,
    transfer: &'i Transfer,
}

/// Copies, and prints the report.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &Arguments,
    json: bool,
    variable: &dyn Fn(&str) -> Option<String>,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let transfer = Transfer::new()?;
    if arguments.source.starts_with(minio::PREFIX) {
        import_drives(data_dir, arguments, variable, &transfer, json).map_err(Failure::Command)?;
        return finish(&transfer, json, out);
    }
    arguments.target().map_err(Failure::Command)?;
    write_exported_users(arguments, variable, &transfer).map_err(Failure::Command)?;
    let import = if arguments.source.starts_with("s3://") { import_bucket } else { import_directory };
    let own = arguments.own.start(data_dir, true, arguments.parallel).map_err(Failure::Command)?;
    let done = import(arguments, &own, &transfer, json);
    own.end();
    done.map_err(Failure::Command)?;
    finish(&transfer, json, out)
}

/// Writes the users of an export before the objects come, since a file that is in the way ends the
/// import.
fn write_exported_users(
    arguments: &Arguments,
    variable: &dyn Fn(&str) -> Option<String>,
    transfer: &Transfer,
) -> Result<(), String> {
    let Some(directory) = &arguments.minio_iam else { return Ok(()) };
    let Some(path) = &arguments.users_out else { return Ok(()) };
    let identities = MinioIdentities::of_export(directory)?;
    minio::write_identities(path, &identities, variable("MINIO_ROOT_USER").as_deref(), transfer)
}

fn finish(transfer: &Transfer, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let mut report = transfer.report();
    report.write(json, out)?;
    Ok(if report.is_complete() { Outcome::Success } else { Outcome::Findings })
}

/// The place that is filled, and whether it keeps versions. A bucket that has to be made does so if
/// `versions` are to come.
fn target_of(arguments: &Arguments, own: &OwnServer<'_>, versions: bool) -> Result<(Place, bool), String> {
    let target = own.place(arguments.target()?, &arguments.region, arguments.ca_file.as_deref())?;
    if own.makes_buckets() {
        target.make_bucket(versions)?;
    }
    let keeps_versions = target.keeps_versions()?;
    Ok((target, keeps_versions))
}

/// Opens the drives before anything is made in the target.
fn import_drives(
    data_dir: &DataDir,
    arguments: &Arguments,
    variable: &dyn Fn(&str) -> Option<String>,
    transfer: &Transfer,
    json: bool,
) -> Result<(), String> {
    let keys = KeySources {
        variable,
        environment: arguments.minio_env.as_deref(),
        customer: arguments.sse_c_keys.as_deref(),
    };
    let request = minio::Request {
        drives: arguments.source.strip_prefix(minio::PREFIX).unwrap_or_default(),
        buckets: &arguments.targets,
        region: &arguments.region,
        ca_file: arguments.ca_file.as_deref(),
        parallel: arguments.parallel,
        json,
        partial: arguments.partial,
        into_existing: arguments.into_existing,
        salvage: arguments.salvage,
        keys: keys.read()?,
        users_out: arguments.users_out.clone(),
        map: arguments.map.clone(),
    };
    // Before the server of --offline starts: what is wrong with the drives shows at once.
    let drives = minio::open_drives(&request)?;
    let own = arguments.own.start(data_dir, true, arguments.parallel)?;
    let done = minio::import(&drives, &request, &own, transfer);
    own.end();
    done
}

/// The keys of clients in the file that the arguments name.
fn client_keys_in(arguments: &Arguments) -> Result<Vec<(String, SecretKey)>, String> {
    let sources =
        KeySources { variable: &|_| None, environment: None, customer: arguments.sse_c_keys.as_deref() };
    Ok(sources.read()?.customer)
}

fn import_bucket(
    arguments: &Arguments,
    own: &OwnServer<'_>,
    transfer: &Transfer,
    json: bool,
) -> Result<(), String> {
    let url = arguments.endpoint.as_deref().ok_or("--endpoint URL names the server of s3://")?;
    // Before anything is asked of the source.
    let client_keys = ClientKeys::new(client_keys_in(arguments)?, url)?;
    let keys = Credentials {
        access_key: &arguments.source_access_key,
        secret_key: &arguments.source_secret_key,
        token: &arguments.source_session_token,
    };
    let source = Place::open(&arguments.source, url, &keys, &arguments.region, arguments.ca_file.as_deref())?;
    let there = source.keeps_versions()?;
    let configured = configured_target(arguments, own, &source, url, transfer)?;
    let (target, here) = target_of(arguments, own, there)?;
    if there && !here {
        transfer.report().lose(Loss::Noncurrent);
    }
    let copy = BucketCopy {
        source: &source,
        target: &target,
        all_versions: there && here,
        keep_times: arguments.keep_times,
        state_times: true,
        client_keys,
    };
    copy.run(transfer, arguments.parallel, "importing", json);
    // After the objects: rules of a lifecycle or a default retention would act on those that are still
    // to come.
    if let Some(metadata) = configured {
        let mut link = PeerLink::new(&target.peer);
        Configuring { bucket: &metadata.name, metadata: &metadata, link: &mut link, transfer }.run();
    }
    Ok(())
}

/// The configurations of the source that the target gets, which is made for them; `None` where they
/// are not wanted, and where the target keeps its own.
fn configured_target(
    arguments: &Arguments,
    own: &OwnServer<'_>,
    source: &Place,
    url: &str,
    transfer: &Transfer,
) -> Result<Option<BucketMetadata>, String> {
    if !arguments.with_configurations {
        return Ok(None);
    }
    let target = own.place(arguments.target()?, &arguments.region, arguments.ca_file.as_deref())?;
    if !source.prefix.is_empty() || !target.prefix.is_empty() {
        return Err("--with-configurations takes whole buckets: leave the prefixes out".to_owned());
    }
    let bucket = &source.peer.bucket;
    let metadata = configurations_of(&mut PeerLink::new(&source.peer), bucket, transfer);
    let id = digest(&SHA256, format!("{url}/{bucket}").as_bytes());
    let import = format!("s3:{}", to_hex(&id.as_ref()[..16]));
    let plan = BucketPlan {
        import: &import,
        versions: source.keeps_versions()?,
        lock: metadata.is_locked(),
        into_existing: arguments.into_existing,
    };
    plan.check(&target)?;
    plan.make(&target)?;
    if plan.is_ours(&target)? {
        return Ok(Some(metadata));
    }
    transfer.report().remark("configurations not kept", bucket, "the bucket was there and keeps its own");
    Ok(None)
}

fn import_directory(
    arguments: &Arguments,
    own: &OwnServer<'_>,
    transfer: &Transfer,
    json: bool,
) -> Result<(), String> {
    let root = Path::new(&arguments.source);
    if !root.is_dir() {
        return Err(format!("{}: there is no such directory", arguments.source));
    }
    let contained = ContainedDirectory::open(root).map_err(|error| format!("{}: {error}", root.display()))?;
    let directory = SourceDirectory { contained, follow_links: arguments.follow_links };
    let manifest = manifest_of(&directory)?;
    let versions = manifest.as_ref().is_some_and(|manifest| manifest.head.versions);
    let (mut target, mut keeps_versions) = target_of(arguments, own, versions)?;
    target.close_prefix();
    if manifest.is_some() {
        if versions && !keeps_versions {
            transfer.report().lose(Loss::Noncurrent);
        }
        keeps_versions &= versions;
    }
    let import =
        DirectoryImport { directory: &directory, target: &target, all_versions: keeps_versions, transfer };
    transfer.run(
        arguments.parallel,
        "importing",
        json,
        |queue| import.list(manifest, queue),
        |jobs| {
            let mut link = PeerLink::new(&target.peer);
            for job in jobs {
                import.work(&mut link, job);
            }
        },
    );
    Ok(())
}

/// The manifest, if the directory was exported.
fn manifest_of(directory: &SourceDirectory) -> Result<Option<ManifestReader>, String> {
    let root = directory.contained.path().display();
    let failed = |why: String| format!("{root}/{MANIFEST}: {why}");
    if directory.contained.has(MANIFEST) {
        let file = directory.open(MANIFEST).map_err(|error| failed(error.to_string()))?;
        return ManifestReader::open(file).map(Some).map_err(failed);
    }
    if directory.contained.has(SIDE_DIRECTORY) {
        return Err(format!("{root}: its export is not complete; run the export again"));
    }
    Ok(None)
}

impl DirectoryImport<'_> {
    /// Hands out the keys of the manifest, and the files that it does not name.
    fn list(&self, manifest: Option<ManifestReader>, queue: &JobQueue<'_, Job>) -> Result<(), String> {
        // The manifest first: its files are restored with their attributes, and must not come once
        // more as plain files.
        let mut named = HashSet::new();
        if let Some(mut manifest) = manifest {
            while let Some(entries) = manifest.next_key().map_err(|why| format!("the manifest: {why}"))? {
                let files = entries.iter().filter_map(|entry| entry.file.as_deref());
                named.extend(files.map(digest_of));
                let bytes = entries.iter().map(|entry| entry.length).sum();
                if !queue.push(Job::Exported(entries), bytes) {
                    return Ok(());
                }
            }
        }
        self.list_files(&named, queue);
        Ok(())
    }

    fn list_files(&self, named: &HashSet<[u8; 16]>, queue: &JobQueue<'_, Job>) {
        let mut walk = DirectoryWalk {
            follow_links: self.directory.follow_links,
            found: &mut |file| {
                let bytes = file.length;
                named.contains(&digest_of(&file.name)) || queue.push(Job::File(file), bytes)
            },
            empty: &mut |path| self.transfer.report().pass_over_empty(&path.display().to_string()),
            left_out: &mut |path, why| self.transfer.report().leave_out(&path.display().to_string(), why),
            above: BTreeSet::new(),
        };
        walk.start(self.directory.contained.path());
    }

    fn work(&self, target: &mut PeerLink<'_>, job: Job) {
        match job {
            Job::File(found) => {
                let key = format!("{}{}", self.target.prefix, found.name);
                let outcome = import_file(target, self.directory, &found, &key, self.transfer);
                self.transfer.report().add(&key, found.length, outcome);
            }
            Job::Exported(entries) => self.restore(target, &entries),
        }
    }

    /// Restores a key of an export; without versions its current one, if it has one.
    fn restore(&self, target: &mut PeerLink<'_>, entries: &[ManifestEntry]) {
        let current = entries.iter().find(|entry| entry.current && !entry.delete_marker);
        if !self.all_versions && current.is_none() {
            return;
        }
        let key = format!("{}{}", self.target.prefix, entries[0].key);
        let mut copy = ObjectCopy {
            source: &mut ExportedKey::new(self.directory, entries),
            target,
            key: &key,
            begun: self.transfer.begun,
            times: Some(&self.transfer.times),
            lost: &mut |loss| self.transfer.report().lose(loss),
        };
        let outcome =
            if self.all_versions { copy.copy_versions(&listed(entries)) } else { copy.copy_current(None) };
        let bytes = entries.iter().map(|entry| entry.length).sum();
        self.transfer.report().add(&key, bytes, outcome);
    }
}

/// A short digest of a path: enough to distinguish the paths of a directory, in little memory.
fn digest_of(path: &str) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&digest(&SHA256, path.as_bytes()).as_ref()[..16]);
    short
}
