//! The counts of a bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossbeam_channel::bounded;
use siltstone::base::NOT_POISONED;

use crate::minio::content::ObjectContent;
use crate::minio::damage::DamageLog;
use crate::minio::facts::{ObjectFacts, remote_tier};
use crate::minio::format::bucket_metadata::BucketMetadata;
use crate::minio::format::keys::{Encryption, EncryptionKind, OperatorKeys};
use crate::minio::layout::Deployment;
use crate::minio::plain::read_plain;
use crate::minio::versions::{KeptObject, KeyVersions};
use crate::minio::walk::{BucketWalk, FoundKind, FoundPath};
use crate::progress::Meter;

/// Paths that wait for a thread.
const WAITING_MAX: usize = 10_000;
/// The time between two looks at the progress.
const LOOK: Duration = Duration::from_millis(200);

/// What is in a bucket.
#[derive(Debug, Default, Clone)]
pub(super) struct BucketCounts {
    pub(super) name: String,
    pub(super) keys: u64,
    /// Keys whose newest version is a delete marker.
    pub(super) deleted_keys: u64,
    pub(super) versions: u64,
    pub(super) delete_markers: u64,
    /// Bytes as clients know them, as far as the metadata tell.
    pub(super) bytes: u64,
    pub(super) multipart: u64,
    pub(super) compressed: u64,
    pub(super) encrypted: u64,
    pub(super) on_tier: u64,
    pub(super) locked: u64,
    /// Versions without an entity tag that proves their bytes.
    pub(super) unproven: u64,
    /// Entries that too few drives have.
    pub(super) dangling: u64,
    /// Versions or keys that cannot be read.
    pub(super) unreadable: u64,
    /// Files without metadata of MinIO.
    pub(super) strange_files: u64,
    /// The names of the keys that encrypted versions take, and how many.
    pub(super) keys_needed: BTreeMap<String, u64>,
    /// Whether the walk ended before the end.
    pub(super) sampled: bool,
    /// The names of the configurations.
    pub(super) configurations: BTreeSet<String>,
}

impl BucketCounts {
    /// Adds the configurations.
    pub(super) fn configured(&mut self, metadata: Option<BucketMetadata>) {
        self.configurations.extend(metadata.into_iter().flat_map(|metadata| metadata.documents.into_keys()));
    }

    fn add(&mut self, other: Self) {
        self.keys += other.keys;
        self.deleted_keys += other.deleted_keys;
        self.versions += other.versions;
        self.delete_markers += other.delete_markers;
        self.bytes += other.bytes;
        self.multipart += other.multipart;
        self.compressed += other.compressed;
        self.encrypted += other.encrypted;
        self.on_tier += other.on_tier;
        self.locked += other.locked;
        self.unproven += other.unproven;
        self.dangling += other.dangling;
        self.unreadable += other.unreadable;
        self.strange_files += other.strange_files;
        for (name, count) in other.keys_needed {
            *self.keys_needed.entry(name).or_default() += count;
        }
    }
}

/// The inspection of one bucket.
pub(super) struct BucketInspection<'i> {
    pub(super) deployment: &'i Deployment,
    pub(super) bucket: &'i str,
    pub(super) damage: &'i DamageLog,
    pub(super) sample: Option<u64>,
    pub(super) verify: bool,
    pub(super) parallel: u16,
}

impl BucketInspection<'_> {
    /// Counts what is in the bucket: one thread walks, others read.
    pub(super) fn run(&self, json: bool) -> BucketCounts {
        let total = Mutex::new(BucketCounts::default());
        let (sender, receiver) = bounded::<FoundPath>(WAITING_MAX);
        let mut seen = 0;
        thread::scope(|scope| {
            let walking = scope.spawn(move || {
                BucketWalk {
                    drives: &self.deployment.drives,
                    bucket: self.bucket,
                    found: &mut |found| {
                        seen += 1;
                        self.sample.is_none_or(|sample| seen <= sample) && sender.send(found).is_ok()
                    },
                    unreadable: &mut |name, why| self.damage.note(name, why),
                }
                .start();
                self.sample.is_some_and(|sample| seen > sample)
            });
            let working: Vec<_> = (0..self.parallel)
                .map(|_| {
                    scope.spawn(|| {
                        for found in &receiver {
                            let counts = self.count(&found);
                            total.lock().expect(NOT_POISONED).add(counts);
                        }
                    })
                })
                .collect();
            let mut meter = Meter::of_steps(json);
            while working.iter().any(|worker| !worker.is_finished()) {
                let keys = total.lock().expect(NOT_POISONED).keys;
                // A million keys are too many for a line each.
                meter.update(&format!("inspecting {}: {} thousand keys", self.bucket, keys / 1_000), keys, 0);
                thread::sleep(LOOK);
            }
            meter.finish();
            let sampled = walking.join().unwrap_or(true);
            total.lock().expect(NOT_POISONED).sampled = sampled;
        });
        total.into_inner().expect(NOT_POISONED)
    }

    fn count(&self, found: &FoundPath) -> BucketCounts {
        let mut counts = BucketCounts::default();
        match found.kind {
            FoundKind::Object => {
                let key = KeyVersions::read(self.deployment, self.bucket, found);
                self.count_key(found, &key, &mut counts);
            }
            FoundKind::PlainFile => match read_plain(self.deployment, self.bucket, found) {
                Some(key) => self.count_key(found, &key, &mut counts),
                None => counts.strange_files += 1,
            },
            FoundKind::LostParts => {
                let name = format!("{}/{}", self.bucket, found.path);
                self.damage.note(name, "parts of an object whose xl.meta is gone".to_owned());
                counts.unreadable += 1;
            }
        }
        counts
    }

    fn count_key(&self, found: &FoundPath, key: &KeyVersions, counts: &mut BucketCounts) {
        counts.keys += 1;
        counts.dangling += key.dangling.len() as u64;
        if key.versions.is_empty() && key.dangling.is_empty() && !key.damage.is_empty() {
            counts.unreadable += 1;
        }
        for (file, why) in &key.damage {
            self.damage.note(file.clone(), why.clone());
        }
        counts.deleted_keys += u64::from(!key.versions.is_empty() && key.is_hidden());
        for version in &key.versions {
            match &version.object {
                None => counts.delete_markers += 1,
                Some(object) => self.count_version(found, &version.id, object, counts),
            }
        }
    }

    fn count_version(&self, found: &FoundPath, id: &str, object: &KeptObject, counts: &mut BucketCounts) {
        let stored = &object.stored;
        counts.versions += 1;
        counts.multipart += u64::from(stored.parts.len() > 1);
        counts.compressed += u64::from(stored.internal.contains_key("x-minio-internal-compression"));
        let lock_names = ["x-amz-object-lock-mode", "x-amz-object-lock-legal-hold"];
        counts.locked += u64::from(lock_names.iter().any(|name| stored.user.contains_key(*name)));
        if remote_tier(stored, now()).is_some() {
            counts.on_tier += 1;
            counts.bytes += stored.size;
            return;
        }
        if let Some(encryption) = Encryption::of(&stored.internal) {
            counts.encrypted += 1;
            let name = match encryption.kind {
                EncryptionKind::Customer => "keys of clients (SSE-C)".to_owned(),
                _ => encryption.key_id,
            };
            *counts.keys_needed.entry(name).or_default() += 1;
            let told = stored.internal_text("x-minio-internal-actual-size");
            counts.bytes += told.and_then(|size| size.parse().ok()).unwrap_or(stored.size);
            return;
        }
        match ObjectFacts::of(stored, &OperatorKeys::default(), self.bucket, &found.key(), now()) {
            Ok(facts) => {
                counts.bytes += facts.length;
                counts.unproven += u64::from(facts.etag_parts().is_none());
                if self.verify && !self.is_readable(found, id, object, &facts) {
                    counts.unreadable += 1;
                }
            }
            Err(obstacle) => {
                counts.unreadable += 1;
                self.damage.note(format!("{}/{} version {id}", self.bucket, found.key()), obstacle.text());
            }
        }
    }

    fn is_readable(&self, found: &FoundPath, id: &str, object: &KeptObject, facts: &ObjectFacts) -> bool {
        let Self { deployment, bucket, damage, .. } = *self;
        let content = ObjectContent { deployment, bucket, path: &found.path, object, facts, damage };
        let read = io::copy(&mut content.read(0..facts.length), &mut io::sink());
        if let Err(error) = &read {
            self.damage.note(format!("{bucket}/{} version {id}", found.key()), error.to_string());
        }
        read.is_ok()
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
