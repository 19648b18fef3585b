//! The import of all buckets, one after another.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use ring::digest::{SHA256, digest};
use siltstone::base::NOT_POISONED;
use siltstone::base::digest::to_hex;
use siltstone::transfer::{PeerLink, versions_of};
use siltstone::xml::Document;

use super::super::buckets::Place;
use super::super::object::ObjectCopy;
use super::super::own_server::OwnServer;
use super::super::report::Copied;
use super::super::threads::{JobQueue, Transfer};
use super::configure::Configuring;
use super::key::{MinioKey, UNLIKE, told};
use super::salvage::{Doubtful, Salvage, bucket_name};
use super::target::{BucketPlan, set_legal_hold, set_retention};
use super::users::UsersFile;
use crate::minio::content::ObjectContent;
use crate::minio::damage::DamageLog;
use crate::minio::drive::Drive;
use crate::minio::facts::ObjectFacts;
use crate::minio::format::assumption::Assumption;
use crate::minio::format::bucket_metadata::BucketMetadata;
use crate::minio::format::keys::OperatorKeys;
use crate::minio::iam::MinioIdentities;
use crate::minio::layout::Deployment;
use crate::minio::lost::LostObject;
use crate::minio::plain::read_plain;
use crate::minio::system::bucket_metadata_of;
use crate::minio::versions::{Dangling, KeyVersions};
use crate::minio::walk::{BucketWalk, FoundKind, FoundPath};

/// The beginning of a source that names drives.
pub(crate) const PREFIX: &str = "minio:";

/// What an import was asked for.
pub(crate) struct Request<'r> {
    /// The drives, after commas.
    pub(crate) drives: &'r str,
    /// The buckets; all without a name.
    pub(crate) buckets: &'r [String],
    pub(crate) region: &'r str,
    pub(crate) ca_file: Option<&'r Path>,
    pub(crate) parallel: u16,
    pub(crate) json: bool,
    /// Whether it begins although drives are missing.
    pub(crate) partial: bool,
    pub(crate) into_existing: bool,
    /// Whether what is doubtful is stored in a bucket of its own.
    pub(crate) salvage: bool,
    /// The keys of encrypted objects.
    pub(crate) keys: OperatorKeys,
    /// The file for the users, which must not be there.
    pub(crate) users_out: Option<PathBuf>,
    /// The file with the ids of versions.
    pub(crate) map: Option<PathBuf>,
}

/// What the threads of an import share.
struct MinioImport<'i> {
    deployment: &'i Deployment,
    bucket: &'i str,
    target: &'i Place,
    keeps_versions: bool,
    keys: &'i OperatorKeys,
    transfer: &'i Transfer,
    damage: &'i DamageLog,
    map: Option<&'i Mutex<File>>,
    salvage: Option<&'i Salvage<'i>>,
    /// The time of the start in nanoseconds since 1970.
    now: i64,
}

/// Opens the drives.
///
/// # Errors
/// A message: one is no drive, or of another deployment, or too few were given.
pub(crate) fn open_drives(request: &Request<'_>) -> Result<OpenDrives, String> {
    let paths: Vec<PathBuf> = request.drives.split(',').map(PathBuf::from).collect();
    let deployment = Deployment::open(&paths)?;
    let missing = deployment.missing();
    if !missing.is_empty() && !request.partial {
        return Err(format!("{}; --partial imports what can be read without them", missing.join("; ")));
    }
    let buckets = deployment.chosen_buckets(request.buckets)?;
    Ok(OpenDrives { deployment, missing, buckets })
}

/// The drives, and the buckets that are imported.
pub(crate) struct OpenDrives {
    deployment: Deployment,
    missing: Vec<String>,
    buckets: Vec<String>,
}

/// A bucket that may be filled.
struct BegunBucket<'b> {
    bucket: &'b String,
    plan: BucketPlan<'b>,
    place: Place,
    salvage: Option<Salvage<'b>>,
    metadata: Option<BucketMetadata>,
}

/// The bucket for what is doubtful, if it is wanted.
fn salvage_of<'b>(
    request: &Request<'_>,
    own: &OwnServer<'_>,
    bucket: &str,
    import: &'b str,
) -> Result<Option<Salvage<'b>>, String> {
    if !request.salvage {
        return Ok(None);
    }
    let plan = BucketPlan { import, versions: false, lock: false, into_existing: request.into_existing };
    let place = own.place(&bucket_name(bucket), request.region, request.ca_file)?;
    plan.check(&place)?;
    Ok(Some(Salvage { plan, place, is_made: Mutex::new(false) }))
}

/// Imports the buckets.
///
/// # Errors
/// A message: a bucket is in the way. Nothing was written then.
pub(crate) fn import(
    OpenDrives { deployment, missing, buckets }: &OpenDrives,
    request: &Request<'_>,
    own: &OwnServer<'_>,
    transfer: &Transfer,
) -> Result<(), String> {
    let id = import_id(deployment);
    let damage = DamageLog::default();
    let map = request.map.as_deref().map(File::create).transpose();
    let map = map.map_err(|error| format!("the file of --map: {error}"))?.map(Mutex::new);
    // All buckets are checked before the first is made.
    let mut begun = Vec::new();
    for bucket in buckets {
        let metadata = bucket_metadata_of(deployment, bucket, &damage);
        let metadata = metadata.unwrap_or_else(|why| {
            transfer.report().fail(&format!("{bucket}, its configurations"), why);
            None
        });
        let plan = BucketPlan {
            import: &id,
            versions: keeps_versions(deployment, bucket, metadata.as_ref()),
            lock: metadata.as_ref().is_some_and(BucketMetadata::is_locked),
            into_existing: request.into_existing,
        };
        let place = own.place(bucket, request.region, request.ca_file)?;
        plan.check(&place)?;
        let salvage = salvage_of(request, own, bucket, &id)?;
        begun.push(BegunBucket { bucket, plan, place, salvage, metadata });
    }
    // Before the first bucket, since a file that is in the way ends the import.
    if let Some(path) = &request.users_out {
        write_users(path, deployment, request, &damage, transfer)?;
    }
    for note in missing.iter().chain(&deployment.notes) {
        transfer.report().find("drives", note, "see above");
    }
    for BegunBucket { bucket, plan, place, salvage, metadata } in &begun {
        plan.make(place)?;
        let keeps_versions = place.keeps_versions()?;
        let import = MinioImport {
            deployment,
            bucket,
            target: place,
            keeps_versions,
            keys: &request.keys,
            transfer,
            damage: &damage,
            map: map.as_ref(),
            salvage: salvage.as_ref(),
            now: now(),
        };
        import.run(request);
        if transfer.is_stopped() {
            break;
        }
        // After the objects: rules of a lifecycle, a default retention or an event would act on
        // those that are still to come. A bucket that the operator made keeps its own.
        if let Some(metadata) = metadata
            && plan.is_ours(place)?
        {
            let mut link = PeerLink::new(&place.peer);
            Configuring { bucket, metadata, link: &mut link, transfer }.run();
        }
    }
    let (named, further) = damage.take();
    for (file, what) in named {
        transfer.report().find("damage", &file, &what);
    }
    if further > 0 {
        transfer.report().find("damage", "further files", &format!("{further} blocks or files more"));
    }
    Ok(())
}

/// Writes the users of the drives into a new file.
fn write_users(
    path: &Path,
    deployment: &Deployment,
    request: &Request<'_>,
    damage: &DamageLog,
    transfer: &Transfer,
) -> Result<(), String> {
    let identities = MinioIdentities::read(deployment, &request.keys, damage);
    for assumption in &identities.assumptions {
        transfer.report().rely_on(assumption.text(), 1);
    }
    for (file, why) in &identities.faults {
        transfer.report().find("users", file, why);
    }
    write_identities(path, &identities, request.keys.root_user.as_deref(), transfer)
}

/// Writes users into a new file, and tells what they lose.
///
/// # Errors
/// A message: the file cannot be written, or is there.
pub(crate) fn write_identities(
    path: &Path,
    identities: &MinioIdentities,
    root_user: Option<&str>,
    transfer: &Transfer,
) -> Result<(), String> {
    let users = UsersFile::of(identities, root_user);
    let name = path.display().to_string();
    users.write(path).map_err(|error| format!("{name}: {error}"))?;
    for (user, why) in &users.losses {
        transfer.report().find("users", user, why);
    }
    transfer.report().remark("users written", &name, &format!("{} users", users.count));
    Ok(())
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// What tells this import from one of other drives: the deployment, or where no drive names it the
/// paths of the drives.
fn import_id(deployment: &Deployment) -> String {
    let id = deployment.id.clone().unwrap_or_else(|| {
        let mut paths: Vec<_> = deployment.drives.iter().map(Drive::name).collect();
        paths.sort();
        to_hex(&digest(&SHA256, paths.join(",").as_bytes()).as_ref()[..16])
    });
    format!("minio:{id}")
}

/// The state of a versioning document: `Enabled`, `Suspended` or empty.
fn versioning_in(metadata: &BucketMetadata) -> String {
    let document = metadata.documents.get("VersioningConfigXML").map(Vec::as_slice).unwrap_or_default();
    let Ok(document) = Document::parse(document) else { return String::new() };
    document
        .root()
        .child_text("Status")
        .ok()
        .flatten()
        .map(|state| state.trim().to_owned())
        .unwrap_or_default()
}

/// Whether the bucket keeps versions; without its configurations, whether a key has one with an id.
fn keeps_versions(deployment: &Deployment, bucket: &str, metadata: Option<&BucketMetadata>) -> bool {
    if let Some(metadata) = metadata {
        return metadata.is_locked() || !versioning_in(metadata).is_empty();
    }
    let mut found_one = false;
    BucketWalk {
        drives: &deployment.drives,
        bucket,
        found: &mut |found| {
            if found.kind == FoundKind::Object {
                let key = KeyVersions::read(deployment, bucket, &found);
                found_one = key.versions.iter().any(|version| version.id != "null");
            }
            !found_one
        },
        unreadable: &mut |_, _| {},
    }
    .start();
    found_one
}

impl MinioImport<'_> {
    fn run(&self, request: &Request<'_>) {
        self.transfer.run_keys(
            request.parallel,
            &format!("importing {}", self.bucket),
            request.json,
            |queue| {
                self.list(queue);
                Ok(())
            },
            |jobs| {
                let mut link = PeerLink::new(&self.target.peer);
                for found in jobs {
                    self.work(&mut link, &found);
                }
            },
        );
    }

    fn list(&self, queue: &JobQueue<'_, FoundPath>) {
        BucketWalk {
            drives: &self.deployment.drives,
            bucket: self.bucket,
            found: &mut |found| queue.push(found, 1),
            unreadable: &mut |name, why| self.transfer.report().leave_out(&name, &why),
        }
        .start();
    }

    fn work(&self, link: &mut PeerLink<'_>, found: &FoundPath) {
        let name = format!("{}/{}", self.bucket, found.path);
        match found.kind {
            FoundKind::Object => {
                self.import_key(link, found, &KeyVersions::read(self.deployment, self.bucket, found));
            }
            FoundKind::PlainFile => match read_plain(self.deployment, self.bucket, found) {
                Some(versions) => self.import_key(link, found, &versions),
                None => self.transfer.report().leave_out(&name, "it is a file without metadata of MinIO"),
            },
            FoundKind::LostParts => {
                self.transfer.report().fail(&name, "parts of an object whose xl.meta is gone".to_owned());
                let path = found.path.rsplit_once('/').map_or("", |(path, _)| path).to_owned();
                self.salvage_parts(&FoundPath { path, ..*found }, "its xl.meta is gone");
            }
        }
        self.transfer.done_with_key();
    }

    fn import_key(&self, link: &mut PeerLink<'_>, found: &FoundPath, versions: &KeyVersions) {
        let key = found.key();
        let name = format!("{}/{key}", self.bucket);
        for (file, why) in &versions.damage {
            self.damage.note(file.clone(), why.clone());
        }
        self.tell_dangling(&name, versions);
        if versions.by_half > 0 {
            self.transfer.report().rely_on(Assumption::HalfOfTheDrives.text(), versions.by_half);
        }
        if versions.versions.is_empty() {
            if versions.dangling.is_empty() && versions.purged == 0 && !versions.damage.is_empty() {
                self.transfer.report().fail(&name, "no drive has readable metadata of it".to_owned());
                self.salvage_parts(found, "its xl.meta is damaged");
            }
            return;
        }
        if !self.keeps_versions && versions.is_hidden() {
            self.transfer.report().remark("deleted", &name, "its newest version is a delete marker");
            return;
        }
        let mut source = MinioKey {
            deployment: self.deployment,
            bucket: self.bucket,
            path: &found.path,
            versions,
            damage: self.damage,
            facts: Vec::new(),
            broken: Vec::new(),
            unproven: Vec::new(),
        };
        self.gather_facts(&name, &key, &mut source);
        let copied = self.copy(link, &key, &mut source);
        for (version, why) in std::mem::take(&mut source.broken) {
            self.salvage_unlike(found, &source, &version, &why);
            self.transfer.report().fail(&name, format!("version {version}: {why}"));
        }
        for (version, why) in std::mem::take(&mut source.unproven) {
            self.transfer.report().remark("unproven", &name, &format!("version {version}: {why}"));
        }
        match copied {
            Some(Err(why)) => self.transfer.report().fail(&name, why),
            Some(outcome) => {
                let bytes = source.facts.iter().map(|(_, facts)| facts.length).sum();
                self.transfer.report().add(&name, bytes, outcome);
            }
            None => {}
        }
    }

    /// Stores parts without metadata, if that is wanted.
    fn salvage_parts(&self, found: &FoundPath, reason: &str) {
        let Some(salvage) = self.salvage else { return };
        let key = found.key();
        let name = format!("{}/{key}", self.bucket);
        let all = match LostObject::all_at(self.deployment, self.bucket, &found.path, found.drives) {
            Ok(all) => all,
            Err(why) => return self.transfer.report().find("not salvaged", &name, &why),
        };
        for object in &all {
            let key = if all.len() == 1 { key.clone() } else { format!("{key}.{}", object.directory) };
            let encoding = object.encoding().map_or_else(String::new, |encoding| format!("; {encoding}"));
            let reason = format!("{reason}{encoding}");
            let stored = salvage.store(&key, &Doubtful::Lost(object), &reason, self.transfer);
            self.tell_salvaged(&name, &reason, stored);
        }
    }

    /// Stores an object whose bytes are whole and not those of its entity tag, if that is wanted.
    fn salvage_unlike(&self, found: &FoundPath, source: &MinioKey<'_>, version: &str, why: &str) {
        let Some(salvage) = self.salvage.filter(|_| why.contains(UNLIKE)) else { return };
        let facts = source.facts.iter().find(|(of, _)| *of == version).map(|(_, facts)| facts);
        let kept = source.versions.versions.iter().find(|kept| kept.id == version);
        let (Some(facts), Some(object)) = (facts, kept.and_then(|kept| kept.object.as_ref())) else { return };
        let Self { deployment, bucket, damage, .. } = *self;
        let content = ObjectContent { deployment, bucket, path: &found.path, object, facts, damage };
        let key = if version == "null" { found.key() } else { format!("{}.{version}", found.key()) };
        let stored = salvage.store(&key, &Doubtful::Unlike(&content), why, self.transfer);
        self.tell_salvaged(&format!("{bucket}/{}", found.key()), why, stored);
    }

    fn tell_salvaged(&self, name: &str, reason: &str, stored: Result<(), String>) {
        match stored {
            Ok(()) => self.transfer.report().find("salvaged", name, reason),
            Err(why) => self.transfer.report().find("not salvaged", name, &why),
        }
    }

    fn tell_dangling(&self, name: &str, versions: &KeyVersions) {
        for Dangling { version, found, needed } in &versions.dangling {
            let what = if version.object.is_some() { "version" } else { "delete marker" };
            let why = format!("{what} {}: {found} drives have it, and {needed} are needed", version.id);
            self.transfer.report().find("dangling", name, &why);
        }
    }

    /// What the metadata of all versions say. Those whose bytes cannot be had are failures.
    fn gather_facts<'k>(&self, name: &str, key: &str, source: &mut MinioKey<'k>) {
        let versions = &source.versions.versions;
        let last = versions.len().saturating_sub(1);
        for (at, version) in versions.iter().enumerate() {
            let Some(object) = &version.object else { continue };
            if !self.keeps_versions && at != last {
                continue;
            }
            match ObjectFacts::of(&object.stored, self.keys, self.bucket, key, self.now) {
                Ok(facts) => {
                    if let Some(assumption) = facts.assumption {
                        self.transfer.report().rely_on(assumption.text(), 1);
                    }
                    source.facts.push((&version.id, facts));
                }
                Err(obstacle) => self.transfer.report().fail(name, told(&version.id, &obstacle)),
            }
        }
    }

    /// Copies the versions; `None` if nothing is to be copied, as was told before.
    fn copy(
        &self,
        link: &mut PeerLink<'_>,
        key: &str,
        source: &mut MinioKey<'_>,
    ) -> Option<Result<Copied, String>> {
        let listed = source.listed();
        if source.facts.is_empty()
            && (!self.keeps_versions || listed.iter().all(|version| !version.delete_marker))
        {
            return None;
        }
        let mut copy = ObjectCopy {
            source,
            target: link,
            key,
            begun: self.transfer.begun,
            times: Some(&self.transfer.times),
            lost: &mut |loss| self.transfer.report().lose(loss),
        };
        if !self.keeps_versions {
            let modified = listed.last().and_then(|version| version.modified);
            let copied = copy.copy_current(modified);
            // What is broken is told as such.
            return match copied {
                Err(_) if source_is_broken(source) => None,
                copied => Some(copied),
            };
        }
        let copied = copy.copy_readable(&listed);
        Some(copied.and_then(|(copied, kept)| {
            let ids: Vec<_> = kept.into_iter().filter_map(|at| listed[at].id.clone()).collect();
            self.finish(link, key, source, &ids)?;
            Ok(copied)
        }))
    }

    /// Sets the locks of versions that are there, and writes their ids.
    fn finish(
        &self,
        link: &mut PeerLink<'_>,
        key: &str,
        source: &MinioKey<'_>,
        ids: &[String],
    ) -> Result<(), String> {
        let mut facts = source.facts.iter();
        let has_locks = facts.any(|(_, facts)| facts.legal_hold || facts.retention.is_some());
        if self.map.is_none() && !has_locks {
            return Ok(());
        }
        // The ids of the target are known by the order alone. Another writer could have changed it,
        // and a lock on the wrong version could not be taken back.
        let there = versions_of(link, key)?;
        if there.len() != ids.len() {
            return Err("its versions in the target changed meanwhile".to_owned());
        }
        for (old, new) in ids.iter().zip(&there) {
            let Some(id) = new.id.as_deref() else { continue };
            if let Some((_, facts)) = source.facts.iter().find(|(of, _)| of == old) {
                self.lock(link, key, id, facts).map_err(|why| format!("the lock of version {old}: {why}"))?;
            }
            self.write_map(key, old, id)?;
        }
        Ok(())
    }

    fn lock(&self, link: &mut PeerLink<'_>, key: &str, id: &str, facts: &ObjectFacts) -> Result<(), String> {
        // A retention that has ended protects nothing, and cannot be set.
        if let Some(retention) = facts.retention.as_ref().filter(|retention| retention.until_nanos > self.now)
        {
            set_retention(link, key, id, retention).map_err(siltstone::transfer::PeerError::text)?;
        }
        if facts.legal_hold {
            set_legal_hold(link, key, id).map_err(siltstone::transfer::PeerError::text)?;
        }
        Ok(())
    }

    fn write_map(&self, key: &str, old: &str, new: &str) -> Result<(), String> {
        let Some(map) = self.map else { return Ok(()) };
        let line = serde_json::json!({ "bucket": self.bucket, "key": key, "from": old, "to": new });
        let mut file = map.lock().expect(NOT_POISONED);
        writeln!(file, "{line}").map_err(|error| format!("the file of --map: {error}"))
    }
}

fn source_is_broken(source: &mut MinioKey<'_>) -> bool {
    use super::super::object::CopySource as _;
    source.is_broken(None)
}
