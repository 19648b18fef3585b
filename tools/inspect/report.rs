//! The report of an inspection.

use std::io::{self, Write};

use bytesize::ByteSize;
use serde_json::{Value, json};

use super::count::BucketCounts;
use crate::minio::layout::{Deployment, DriveSet};

/// The most damage that is named.
const NAMED_MAX: usize = 1_000;

/// What was found.
pub(super) struct Inspection<'i> {
    pub(super) deployment: &'i Deployment,
    pub(super) buckets: &'i [BucketCounts],
    /// Files, and what is wrong with them.
    pub(super) damaged: &'i [(String, String)],
    /// Damage that is not named.
    pub(super) further: u64,
}

impl Inspection<'_> {
    /// Whether an import would find everything.
    pub(super) fn is_clean(&self) -> bool {
        let are_whole = self.buckets.iter().all(|bucket| bucket.dangling == 0 && bucket.unreadable == 0);
        self.damaged.is_empty() && self.deployment.missing().is_empty() && are_whole
    }

    pub(super) fn write(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        if json { self.write_json(out) } else { self.write_text(out) }
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let drives = self.deployment.drives.iter().enumerate();
        let drives: Vec<_> = drives
            .map(|(at, drive)| json!({ "path": drive.name(), "set": self.deployment.set_of[at] + 1 }))
            .collect();
        let sets = self.deployment.sets.iter();
        let sets: Vec<_> = sets
            .map(|set| {
                json!({ "pool": set.pool + 1, "set": set.number, "drives": set.size, "given": set.given.len(), "needed": set.needed })
            })
            .collect();
        let named = self.damaged.iter().take(NAMED_MAX);
        let report = json!({
            "deployment": self.deployment.id,
            "drives": drives,
            "sets": sets,
            "missing": self.deployment.missing(),
            "notes": self.deployment.notes,
            "buckets": self.buckets.iter().map(bucket_json).collect::<Vec<_>>(),
            "damage_count": self.damage_count(),
            "damage": named.map(|(name, why)| json!({ "name": name, "why": why })).collect::<Vec<_>>(),
        });
        writeln!(out, "{report}")
    }

    fn damage_count(&self) -> u64 {
        self.damaged.len() as u64 + self.further
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let id = self.deployment.id.as_deref().unwrap_or("unknown, since no drive has its format.json");
        writeln!(out, "deployment: {id}")?;
        for set in &self.deployment.sets {
            let DriveSet { number, size, given, needed, .. } = set;
            writeln!(out, "set {number}: {} of {size} drives, {needed} needed", given.len())?;
            for drive in &set.given {
                writeln!(out, "  {}", self.deployment.drives[*drive].name())?;
            }
        }
        for note in self.deployment.missing().iter().chain(&self.deployment.notes) {
            writeln!(out, "attention: {note}")?;
        }
        for bucket in self.buckets {
            write_bucket(bucket, out)?;
        }
        for (file, what) in self.damaged.iter().take(NAMED_MAX) {
            writeln!(out, "damage: {file}: {what}")?;
        }
        let unnamed = self.damage_count() - self.damaged.len().min(NAMED_MAX) as u64;
        if unnamed > 0 {
            writeln!(out, "damage: {unnamed} more")?;
        }
        Ok(())
    }
}

fn bucket_json(bucket: &BucketCounts) -> Value {
    json!({
        "name": bucket.name,
        "keys": bucket.keys,
        "deleted_keys": bucket.deleted_keys,
        "versions": bucket.versions,
        "delete_markers": bucket.delete_markers,
        "bytes": bucket.bytes,
        "multipart": bucket.multipart,
        "compressed": bucket.compressed,
        "encrypted": bucket.encrypted,
        "keys_needed": bucket.keys_needed,
        "on_tier": bucket.on_tier,
        "locked": bucket.locked,
        "unproven": bucket.unproven,
        "dangling": bucket.dangling,
        "unreadable": bucket.unreadable,
        "strange_files": bucket.strange_files,
        "configurations": bucket.configurations,
        "sampled": bucket.sampled,
    })
}

fn write_bucket(bucket: &BucketCounts, out: &mut dyn Write) -> io::Result<()> {
    let BucketCounts { name, keys, versions, delete_markers, .. } = bucket;
    let bytes = ByteSize::b(bucket.bytes).display().iec();
    let part = if bucket.sampled { " (of the part that was looked at)" } else { "" };
    writeln!(
        out,
        "bucket {name}: {keys} keys, {versions} versions, {delete_markers} delete markers, {bytes}{part}"
    )?;
    for (count, what) in [
        (bucket.deleted_keys, "keys are hidden by a delete marker"),
        (bucket.multipart, "versions were uploaded in parts"),
        (bucket.compressed, "versions are compressed"),
        (bucket.encrypted, "versions are encrypted"),
        (bucket.locked, "versions have a retention or a legal hold"),
        (bucket.on_tier, "versions are on a remote tier, and cannot be imported"),
        (bucket.unproven, "versions have an ETag that proves nothing"),
        (bucket.dangling, "versions are on too few drives, and would not be imported"),
        (bucket.unreadable, "keys or versions cannot be read"),
        (bucket.strange_files, "files have no metadata of MinIO, and would be left out"),
    ] {
        if count > 0 {
            writeln!(out, "  {count} {what}")?;
        }
    }
    for (key, count) in &bucket.keys_needed {
        writeln!(out, "  {count} take the key {key:?}")?;
    }
    if !bucket.configurations.is_empty() {
        let names: Vec<_> = bucket.configurations.iter().map(String::as_str).collect();
        writeln!(out, "  configured: {}", names.join(", "))?;
    }
    Ok(())
}
