//! Objects of FS mode: plain files, with their metadata below `.minio.sys`.
//!
//! The file of a key is `BUCKET/KEY`, and its metadata `.minio.sys/buckets/BUCKET/KEY/fs.json`:
//! a map `meta` with headers and internal metadata, and the sizes of parts. Length and time are
//! those of the file. Metadata of a key that was deleted may stay; the file decides.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use serde_json::Value;

use super::drive::{Drive, SYSTEM};
use super::format::format_json::DriveMode;
use super::format::record::split_metadata;
use super::format::version::{Coding, PartChecksum, PartPlace, StoredObject, StoredPart};
use super::format::xl_json::metadata;
use super::layout::Deployment;
use super::versions::{KeptObject, KeptVersion, KeyVersions, Shard};
use super::walk::{FoundPath, drives_in};

/// The longest fs.json that is read.
const FS_JSON_MAX_BYTES: u64 = 16 << 20;
/// What MinIO showed as the entity tag of files without metadata.
const NO_ETAG: &str = "00000000000000000000000000000000-1";

/// A plain file as a key with one version; `None` if it is a stray file on a drive of another mode.
pub(crate) fn read_plain(deployment: &Deployment, bucket: &str, found: &FoundPath) -> Option<KeyVersions> {
    let fs_json = format!("{SYSTEM}/buckets/{bucket}/{}/fs.json", found.path);
    let at = drives_in(found.drives).find(|at| is_of_fs_mode(&deployment.drives[*at], &fs_json))?;
    let drive = &deployment.drives[at];
    let mut key =
        KeyVersions { versions: Vec::new(), dangling: Vec::new(), damage: Vec::new(), purged: 0, by_half: 0 };
    match plain_version(drive, at, bucket, found, &fs_json) {
        Ok((version, fault)) => {
            key.damage.extend(fault.map(|why| (format!("{}/{fs_json}", drive.name()), why)));
            key.versions.push(version);
        }
        Err(error) => {
            key.damage.push((format!("{}/{bucket}/{}", drive.name(), found.path), error.to_string()));
        }
    }
    Some(key)
}

/// Whether plain files of a drive are objects: by its mode, or where that is not known by the
/// metadata of the file in question.
fn is_of_fs_mode(drive: &Drive, fs_json: &str) -> bool {
    match &drive.format {
        Some(format) => format.mode == DriveMode::FileSystem,
        None => drive.open_file(fs_json).is_ok(),
    }
}

/// The version, and why its metadata cannot be read, if they are there.
fn plain_version(
    drive: &Drive,
    at: usize,
    bucket: &str,
    found: &FoundPath,
    fs_json: &str,
) -> std::io::Result<(KeptVersion, Option<String>)> {
    let file = drive.open_file(&format!("{bucket}/{}", found.path))?.metadata()?;
    let since = file.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let read = match drive.read_file(fs_json, FS_JSON_MAX_BYTES) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| Some(error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(None),
        Err(error) => Err(Some(error.to_string())),
    };
    let (value, fault) = match read {
        Ok(value) => (value, None),
        Err(fault) => (Value::Null, fault),
    };
    let (internal, user) = metadata_of(&value, &found.path);
    let stored = StoredObject {
        coding: Coding { data: 1, parity: 0, block_bytes: 1 << 20, index: 1, distribution: vec![1] },
        place: PartPlace::PlainFile,
        parts: parts(&value, file.len()),
        size: file.len(),
        internal,
        user,
        legacy: true,
    };
    let shards =
        vec![Shard { drive: at, index: 0, place: PartPlace::PlainFile, inline: None, checksums: Vec::new() }];
    let object = Some(KeptObject { stored, shards });
    let modified = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
    Ok((KeptVersion { id: "null".to_owned(), modified, object }, fault))
}

fn metadata_of(value: &Value, path: &str) -> (BTreeMap<String, Vec<u8>>, BTreeMap<String, String>) {
    let (internal, mut user) = split_metadata(metadata(&value["meta"]));
    user.entry("etag".to_owned()).or_insert_with(|| NO_ETAG.to_owned());
    if !user.contains_key("content-type") {
        let kind = mime_guess::from_path(path).first_raw().unwrap_or("application/octet-stream");
        user.insert("content-type".to_owned(), kind.to_owned());
    }
    (internal, user)
}

/// The parts that the metadata name, if they are those of the file.
fn parts(value: &Value, length: u64) -> Vec<StoredPart> {
    let listed = value["parts"].as_array().into_iter().flatten().map(listed_part);
    let listed: Vec<StoredPart> = listed.collect::<Option<_>>().unwrap_or_default();
    let sum = listed.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.stored));
    if !listed.is_empty() && sum == Some(length) {
        return listed;
    }
    vec![StoredPart { number: 1, stored: length, actual: None, checksum: PartChecksum::None }]
}

fn listed_part(part: &Value) -> Option<StoredPart> {
    Some(StoredPart {
        number: u32::try_from(part["number"].as_u64()?).ok()?,
        stored: part["size"].as_u64()?,
        actual: part["actualSize"].as_u64().filter(|actual| *actual > 0),
        checksum: PartChecksum::None,
    })
}
