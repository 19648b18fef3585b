//! Records as JSON, field by field. Each field is named, so that a new field of a record cannot be
//! forgotten here. Stamps have 16 hexadecimal digits, as in messages. Ids of versions and uploads
//! are printed as clients see them: the stamp and a tag.

use serde_json::{Map, Value, json};
use siltstone::base::digest::to_hex;
use siltstone::base::entity_tag;
use siltstone::crypto::KeyReach;
use siltstone::format::{
    AssembledPart, Assembly, Attributes, BucketRecord, CheckpointEnd, Checksum, ChecksumAlgorithm,
    ChecksumType, ClientIds, Descriptor, EncryptedRun, EncryptionKind, Entry, ExtentHeader, ExtentPurpose,
    ExtentRef, FileHeader, Group, GroupHeader, NamedUsers, ObjectControls, Pack, PartRecord, PayloadSource,
    RawEntry, RebuildRecord, Retention, RetentionMode, UploadId, UploadRecord, UserGrant, VersionRecord,
    Versioning, WrappedKey, WrittenBytes,
};

fn stamp(value: u64) -> String {
    format!("{value:016x}")
}

fn crc(value: u32) -> String {
    format!("{value:08x}")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn list<T>(items: &[T], describe: impl Fn(&T) -> Value) -> Value {
    items.iter().map(describe).collect()
}

fn pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    Value::Object(pairs.map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>())
}

fn attributes(attributes: &Attributes) -> Value {
    pairs(attributes.iter())
}

fn tags(tags: &[(String, String)]) -> Value {
    pairs(tags.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

/// The header of a file.
pub(crate) fn file_header(header: &FileHeader) -> Value {
    let FileHeader { kind, store, number, features, created, previous_crc } = header;
    json!({
        "kind": format!("{kind:?}").to_lowercase(),
        "store": to_hex(&store.0),
        "number": stamp(*number),
        "features": features.names().collect::<Vec<_>>(),
        "created": created.to_string(),
        "previous_crc": crc(*previous_crc),
    })
}

/// The header of an extent.
pub(crate) fn extent(header: &ExtentHeader) -> Value {
    let ExtentHeader { segment, offset: _, payload_len, descriptor_len, check, descriptor_crc } = header;
    json!({
        "segment": stamp(*segment),
        "payload_len": payload_len,
        "descriptor_len": descriptor_len,
        "check": crc(*check),
        "descriptor_crc": crc(*descriptor_crc),
    })
}

/// The descriptor of an extent.
pub(crate) fn descriptor(ids: &ClientIds, descriptor: &Descriptor) -> Value {
    let Descriptor { bucket, bucket_name, key, write, position, purpose } = descriptor;
    let mut described = json!({
        "bucket": stamp(*bucket),
        "bucket_name": bucket_name,
        "key": text(key),
        "write": stamp(*write),
        "position": position,
    });
    if let (Value::Object(described), Value::Object(more)) = (&mut described, describe_purpose(ids, purpose))
    {
        described.extend(more);
    }
    described
}

fn describe_purpose(ids: &ClientIds, purpose: &ExtentPurpose) -> Value {
    match purpose {
        ExtentPurpose::Object(last) => {
            json!({ "purpose": "object", "record": last.as_ref().map(|record| version(ids, record)) })
        }
        ExtentPurpose::Part(id, last) => json!({
            "purpose": "part",
            "upload": ids.of_upload(*id).to_string(),
            "record": last.as_ref().map(|record| part(record)),
        }),
        ExtentPurpose::ObjectRecord(object) => {
            recorded("object record", object, Value::Null, version(ids, &object.record))
        }
        ExtentPurpose::PartRecord(of, object) => {
            recorded("part record", object, upload(ids, of), part(&object.record))
        }
        ExtentPurpose::Controls(id, controls) => json!({
            "purpose": "controls",
            "version": ids.of_version(*id).to_string(),
            "controls": describe_controls(controls),
        }),
        ExtentPurpose::EncryptedObject => json!({ "purpose": "encrypted object" }),
        ExtentPurpose::EncryptedPart(id) => {
            json!({ "purpose": "encrypted part", "upload": ids.of_upload(*id).to_string() })
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "json! takes its arguments by reference")]
fn recorded<T>(purpose: &str, recorded: &RebuildRecord<T>, upload: Value, record: Value) -> Value {
    let RebuildRecord { owner, created, versioning, sources, record: _ } = recorded;
    json!({
        "purpose": purpose,
        "owner": owner,
        "created": created.to_string(),
        "versioning": versioning_name(*versioning),
        "sources": list(sources, source),
        "upload": upload,
        "record": record,
    })
}

fn source(source: &PayloadSource) -> Value {
    let PayloadSource { stamp: of, from, len } = source;
    json!({ "stamp": stamp(*of), "from": from, "len": len })
}

/// A group with the entries of its body.
pub(crate) fn group(ids: &ClientIds, group: &Group, entries: &[RawEntry<'_>]) -> Value {
    let Group { header, crc: own_crc, .. } = group;
    let GroupHeader { kind: _, sequence, stable, file_len, time, pack, previous_crc } = header;
    json!({
        "sequence": sequence,
        "stable": stable,
        "file_len": file_len,
        "time": time.to_string(),
        "previous_crc": crc(*previous_crc),
        "crc": crc(*own_crc),
        "pack": pack.as_ref().map(describe_pack),
        "entries": list(entries, |raw| raw_entry(ids, raw)),
    })
}

fn describe_pack(pack: &Pack) -> Value {
    let Pack { segment, offset, len, crc: pack_crc } = pack;
    json!({ "segment": stamp(*segment), "offset": offset, "len": len, "crc": crc(*pack_crc) })
}

/// An entry, also one of a kind that readers of the log skip.
fn raw_entry(ids: &ClientIds, raw: &RawEntry<'_>) -> Value {
    match (raw.decode(), raw.written_bytes()) {
        (Ok(Some(known)), _) => entry(ids, &known),
        (Ok(None), Ok(Some(written))) => written_bytes(&written),
        (Err(error), _) | (_, Err(error)) => json!({ "kind": raw.kind(), "error": error.to_string() }),
        (Ok(None), Ok(None)) => json!({ "kind": raw.kind() }),
    }
}

fn written_bytes(written: &WrittenBytes) -> Value {
    let WrittenBytes { payload, objects, log, zeros, checkpoints, moved } = written;
    json!({
        "kind": "written bytes",
        "payload": payload,
        "objects": objects,
        "log": log,
        "zeros": zeros,
        "checkpoints": checkpoints,
        "moved": moved,
    })
}

fn entry(ids: &ClientIds, entry: &Entry) -> Value {
    match entry {
        Entry::BucketPut(record) => json!({ "kind": "bucket put", "record": bucket(record) }),
        Entry::BucketDelete { id } => json!({ "kind": "bucket delete", "bucket": stamp(*id) }),
        Entry::BucketConfiguration { bucket, kind, document } => json!({
            "kind": "bucket configuration",
            "bucket": stamp(*bucket),
            "configuration": kind.as_str(),
            "document": document.as_deref().map(text),
        }),
        Entry::OwnerQuota { owner, document } => json!({
            "kind": "owner quota",
            "owner": owner,
            "document": document.as_deref().map(text),
        }),
        Entry::RemoteSegment { segment, copy } => json!({
            "kind": "remote segment",
            "segment": segment,
            "phase": copy.map(|copy| copy.phase.as_str()),
            "name": copy.map(|copy| copy.name(*segment)),
            "since": copy.map(|copy| copy.since.to_string()),
        }),
        Entry::Follower { name, state } => json!({
            "kind": "follower",
            "name": name,
            "sequence": state.as_ref().map(|state| state.position.sequence),
            "crc": state.as_ref().map(|state| format!("{:08x}", state.position.crc)),
            "snapshot": state.as_ref().and_then(|state| state.snapshot.as_ref()).map(|cursor| json!({
                "bucket": stamp(cursor.bucket),
                "key": text(&cursor.key),
            })),
        }),
        Entry::FollowerNote { name, note } => json!({
            "kind": "follower note",
            "name": name,
            "key": text(&note.key),
            "value": note.value.as_deref().map(text),
        }),
        Entry::Cause(cause) => json!({
            "kind": "cause",
            "entries": cause.entries,
            "operation": cause.operation,
            "user": cause.user,
            "address": cause.address,
            "request": cause.request,
        }),
        Entry::NullDeletion => json!({ "kind": "null deletion" }),
        Entry::Origin(origins) => json!({ "kind": "origin", "stores": origins }),
        Entry::VersionPut { bucket, key, record } => {
            placed("version put", *bucket, key, version(ids, record))
        }
        Entry::VersionAmend { bucket, key, record } => {
            placed("version amend", *bucket, key, version(ids, record))
        }
        Entry::VersionDelete { bucket, key, version } => {
            placed("version delete", *bucket, key, json!({ "id": ids.of_version(*version).to_string() }))
        }
        Entry::UploadPut { bucket, key, record } => placed("upload put", *bucket, key, upload(ids, record)),
        Entry::UploadDelete { bucket, key, upload } => {
            placed("upload delete", *bucket, key, json!({ "id": ids.of_upload(*upload).to_string() }))
        }
        Entry::PartPut { bucket, key, upload, record } => {
            let mut described = placed("part put", *bucket, key, part(record));
            described["upload"] = ids.of_upload(*upload).to_string().into();
            described
        }
        Entry::CheckpointEnd(CheckpointEnd { through, last_stamp, buckets, versions }) => json!({
            "kind": "checkpoint end",
            "through": through,
            "last_stamp": stamp(*last_stamp),
            "buckets": buckets,
            "versions": versions,
        }),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "json! takes its arguments by reference")]
fn placed(kind: &str, bucket: u64, key: &[u8], record: Value) -> Value {
    json!({ "kind": kind, "bucket": stamp(bucket), "key": text(key), "record": record })
}

fn bucket(record: &BucketRecord) -> Value {
    let BucketRecord { id, name, owner, created, versioning } = record;
    json!({
        "id": stamp(*id),
        "name": name,
        "owner": owner,
        "created": created.to_string(),
        "versioning": versioning_name(*versioning),
    })
}

fn versioning_name(versioning: Versioning) -> &'static str {
    match versioning {
        Versioning::Unset => "unset",
        Versioning::Enabled => "enabled",
        Versioning::Suspended => "suspended",
    }
}

fn version(ids: &ClientIds, record: &VersionRecord) -> Value {
    let VersionRecord {
        id,
        null,
        delete_marker,
        modified,
        stated_time,
        size,
        etag,
        extents,
        attributes: given,
        checksums,
        tags: tagged,
        controls,
        controls_stamp,
        encryption: of_version,
        upload,
        storage_class,
    } = record;
    json!({
        "id": ids.of_version(*id).to_string(),
        "null": *null,
        "delete_marker": delete_marker,
        "modified": modified.to_string(),
        "stated_time": stated_time.map(|time| time.to_string()),
        "size": size,
        "etag": entity_tag::bare(&etag.to_string()),
        "extents": list(extents, extent_ref),
        "attributes": attributes(given),
        "checksums": list(checksums, checksum),
        "tags": tags(tagged),
        "controls": describe_controls(controls),
        "controls_stamp": controls_stamp.map(stamp),
        "storage_class": storage_class.as_str(),
        "encryption": of_version.as_ref().map(|of| encryption(&of.keys, &of.runs, &of.sealed)),
        "upload": upload.as_ref().map(|made| assembly(ids, made)),
    })
}

fn describe_controls(controls: &ObjectControls) -> Value {
    if controls.is_empty() {
        return Value::Null;
    }
    let ObjectControls { acl, users, retention, legal_hold } = controls;
    let retention = retention.as_ref().map(|Retention { mode, until }| {
        let mode = match mode {
            RetentionMode::Governance => "governance",
            RetentionMode::Compliance => "compliance",
        };
        json!({ "mode": mode, "until": until.to_string() })
    });
    let mut described =
        json!({ "acl": format!("{:08b}", acl.bits()), "retention": retention, "legal_hold": legal_hold });
    if let Some(NamedUsers { owner, grants }) = users.as_deref() {
        let owner = owner.as_ref();
        described["owner"] = json!(owner.map(|it| json!({ "name": it.name, "since": it.since.to_string() })));
        described["users"] = list(grants, user_grant);
    }
    described
}

fn user_grant(grant: &UserGrant) -> Value {
    let UserGrant { name, since, permissions } = grant;
    json!({ "name": name, "since": since.to_string(), "permissions": format!("{permissions:04b}") })
}

fn assembly(ids: &ClientIds, assembly: &Assembly) -> Value {
    let Assembly { upload, parts } = assembly;
    // A copy of a whole multipart object completed no upload.
    let of = (*upload != UploadId::NONE).then(|| ids.of_upload(*upload));
    let part = |part: &AssembledPart| {
        let AssembledPart { number, size, checksum: given } = part;
        json!({ "number": number, "size": size, "checksum": given.as_ref().map(checksum) })
    };
    json!({ "id": of.map(|id| id.to_string()), "parts": list(parts, part) })
}

fn upload(ids: &ClientIds, record: &UploadRecord) -> Value {
    let UploadRecord {
        id,
        initiated,
        initiator,
        checksum,
        attributes: given,
        tags: tagged,
        controls,
        storage_class,
        encryption,
    } = record;
    let checksum = checksum.map(|(algorithm, kind)| checksum_name(algorithm, kind));
    json!({
        "id": ids.of_upload(*id).to_string(),
        "initiated": initiated.to_string(),
        "initiator": initiator,
        "checksum": checksum,
        "attributes": attributes(given),
        "tags": tags(tagged),
        "controls": describe_controls(controls),
        "storage_class": storage_class.as_str(),
        "encryption": encryption.as_deref().map(wrapped_key),
    })
}

fn wrapped_key(key: &WrappedKey) -> Value {
    let WrappedKey { kind, reach, bucket_key, key_id, context, salt, sealed } = key;
    let kind = match kind {
        EncryptionKind::S3 => "SSE-S3",
        EncryptionKind::Kms => "SSE-KMS",
        EncryptionKind::Customer => "SSE-C",
    };
    json!({
        "kind": kind,
        "of_write": *reach == KeyReach::Write,
        "bucket_key": bucket_key,
        "key_id": key_id,
        "context": context,
        "salt": to_hex(salt),
        "sealed": to_hex(sealed),
    })
}

fn encrypted_run(run: &EncryptedRun) -> Value {
    let EncryptedRun { key, salt, packages, first, len } = run;
    json!({ "key": key, "salt": to_hex(salt), "packages": packages, "first": first, "len": len })
}

fn encryption(keys: &[WrappedKey], runs: &[EncryptedRun], sealed: &[u8]) -> Value {
    json!({ "keys": list(keys, wrapped_key), "runs": list(runs, encrypted_run), "sealed": to_hex(sealed) })
}

fn part(record: &PartRecord) -> Value {
    let PartRecord { number, id, modified, size, md5, extents, checksum: given, encryption: of_part } =
        record;
    json!({
        "number": number,
        "id": stamp(*id),
        "modified": modified.to_string(),
        "size": size,
        "md5": to_hex(md5),
        "extents": list(extents, extent_ref),
        "checksum": given.as_ref().map(checksum),
        "encryption": of_part.as_ref().map(|of| encryption(&of.keys, &of.runs, &of.sealed)),
    })
}

fn extent_ref(extent: &ExtentRef) -> Value {
    let ExtentRef { segment, offset, payload_len, check, skip, take, shared } = extent;
    json!({
        "segment": stamp(*segment),
        "offset": offset,
        "payload_len": payload_len,
        "check": crc(*check),
        "skip": skip,
        "take": take,
        "shared": shared,
    })
}

fn checksum(checksum: &Checksum) -> Value {
    let Checksum { algorithm, kind, parts, value } = checksum;
    json!({ "of": checksum_name(*algorithm, *kind), "parts": parts, "value": to_hex(value) })
}

fn checksum_name(algorithm: ChecksumAlgorithm, kind: ChecksumType) -> String {
    let algorithm = match algorithm {
        ChecksumAlgorithm::Crc32 => "CRC32",
        ChecksumAlgorithm::Crc32c => "CRC32C",
        ChecksumAlgorithm::Sha1 => "SHA1",
        ChecksumAlgorithm::Sha256 => "SHA256",
        ChecksumAlgorithm::Crc64Nvme => "CRC64NVME",
    };
    let kind = match kind {
        ChecksumType::FullObject => "full object",
        ChecksumType::Composite => "composite",
    };
    format!("{algorithm} {kind}")
}
