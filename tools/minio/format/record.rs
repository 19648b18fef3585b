//! The record of a version in `xl.meta`.

use std::collections::BTreeMap;

use super::malformed::Malformed;
use super::msgpack::MsgReader;
use super::version::{
    Coding, PARTS_MAX, PartChecksum, PartPlace, SHARDS_MAX, StoredObject, StoredPart, StoredVersion,
    VersionBody, WholeHash, parse_uuid,
};

const OBJECT: i64 = 1;
const DELETE_MARKER: i64 = 2;
const LEGACY: i64 = 3;

/// The name in the internal metadata of a delete marker that hides nothing.
const FREE_VERSION: &str = "x-minio-internal-free-version";
/// The name of the state of a deletion that replication holds back.
const PURGE_STATUS: &str = "x-minio-internal-purgestatus";
/// The directory of parts that an overwritten xl.json had.
const LEGACY_DIRECTORY: &str = "legacy";

/// Reads a map with the list `Versions`.
pub(super) fn read_list(reader: &mut MsgReader<'_>) -> Result<Vec<StoredVersion>, Malformed> {
    let mut versions = Vec::new();
    for _ in 0..reader.map()? {
        if reader.text()? != "Versions" {
            reader.skip()?;
            continue;
        }
        for _ in 0..reader.list()? {
            versions.push(read(reader)?);
        }
    }
    Ok(versions)
}

/// Reads a record.
pub(super) fn read(reader: &mut MsgReader<'_>) -> Result<StoredVersion, Malformed> {
    let start = reader.offset();
    let mut kind = 0;
    let mut read = None;
    let fields = reader.map().map_err(early_rustfs)?;
    for _ in 0..fields {
        let name = reader.text()?;
        match name {
            "Type" => kind = reader.int()?,
            "V2Obj" | "DelObj" | "V1Obj" if reader.nil() => {}
            "V2Obj" => read = Some((OBJECT, object(reader)?)),
            "DelObj" => read = Some((DELETE_MARKER, delete_marker(reader)?)),
            "V1Obj" => read = Some((LEGACY, legacy(reader)?)),
            _ => reader.skip()?,
        }
    }
    match read {
        Some((found, version)) if found == kind => Ok(version),
        _ => Err(Malformed::new(start, format!("a version of type {kind} without its record"))),
    }
}

fn id(reader: &mut MsgReader<'_>) -> Result<[u8; 16], Malformed> {
    let bytes = reader.bytes()?;
    bytes.try_into().map_err(|_| Malformed::new(reader.offset(), "a UUID that has not 16 bytes"))
}

/// Internal metadata, the names in lower case.
fn internal(reader: &mut MsgReader<'_>) -> Result<BTreeMap<String, Vec<u8>>, Malformed> {
    let mut pairs = BTreeMap::new();
    for _ in 0..reader.map()? {
        let name = reader.text()?.to_ascii_lowercase();
        let value = if reader.nil() { &[][..] } else { reader.bytes()? };
        pairs.insert(name, value.to_vec());
    }
    Ok(pairs)
}

/// Metadata of the client, the names in lower case.
fn user(reader: &mut MsgReader<'_>) -> Result<BTreeMap<String, String>, Malformed> {
    let mut pairs = BTreeMap::new();
    for _ in 0..reader.map()? {
        let name = reader.text()?.to_ascii_lowercase();
        pairs.insert(name, reader.text()?.to_owned());
    }
    Ok(pairs)
}

fn small(reader: &mut MsgReader<'_>, max: usize) -> Result<usize, Malformed> {
    let at = reader.offset();
    let number = usize::try_from(reader.uint()?).ok().filter(|number| *number <= max);
    number.ok_or_else(|| Malformed::new(at, "a number out of range"))
}

fn distribution(reader: &mut MsgReader<'_>) -> Result<Vec<u16>, Malformed> {
    let mut shards = Vec::new();
    for _ in 0..reader.list()? {
        shards.push(u16::try_from(small(reader, SHARDS_MAX)?).unwrap_or(u16::MAX));
    }
    Ok(shards)
}

fn sizes(reader: &mut MsgReader<'_>) -> Result<Vec<i64>, Malformed> {
    let at = reader.offset();
    let count = reader.list()?;
    if count > PARTS_MAX {
        return Err(Malformed::new(at, "more than 10,000 parts"));
    }
    (0..count).map(|_| reader.int()).collect()
}

/// The lists with one element for each part.
#[derive(Default)]
struct PartLists {
    numbers: Vec<i64>,
    sizes: Vec<i64>,
    actual: Vec<i64>,
}

impl PartLists {
    fn parts(&self) -> Option<Vec<StoredPart>> {
        if self.numbers.len() != self.sizes.len() {
            return None;
        }
        let mut parts = Vec::with_capacity(self.numbers.len());
        for (at, number) in self.numbers.iter().enumerate() {
            parts.push(StoredPart {
                number: u32::try_from(*number).ok()?,
                stored: u64::try_from(self.sizes[at]).ok()?,
                actual: self.actual.get(at).and_then(|actual| u64::try_from(*actual).ok()),
                checksum: PartChecksum::Streaming,
            });
        }
        Some(parts)
    }
}

fn object(reader: &mut MsgReader<'_>) -> Result<StoredVersion, Malformed> {
    let start = reader.offset();
    let mut version_id = [0; 16];
    let mut directory = [0; 16];
    let mut coding = Coding { data: 0, parity: 0, block_bytes: 0, index: 0, distribution: Vec::new() };
    let mut lists = PartLists::default();
    let mut size = 0;
    let mut modified = 0;
    let mut internal_metadata = BTreeMap::new();
    let mut user_metadata = BTreeMap::new();
    let mut algorithms = [1, 1];
    let fields = reader.map().map_err(early_rustfs)?;
    for _ in 0..fields {
        match reader.text()? {
            "ID" => version_id = id(reader)?,
            "DDir" => directory = id(reader)?,
            "EcAlgo" => algorithms[0] = reader.int()?,
            "CSumAlgo" => algorithms[1] = reader.int()?,
            "EcM" => coding.data = small(reader, SHARDS_MAX)?,
            "EcN" => coding.parity = small(reader, SHARDS_MAX)?,
            "EcBSize" => coding.block_bytes = reader.uint()?,
            "EcIndex" => coding.index = small(reader, SHARDS_MAX)?,
            "EcDist" => coding.distribution = distribution(reader)?,
            "PartNums" => lists.numbers = sizes(reader)?,
            "PartSizes" => lists.sizes = sizes(reader)?,
            "PartASizes" => lists.actual = sizes(reader)?,
            "Size" => size = reader.uint()?,
            "MTime" => modified = reader.int()?,
            "MetaSys" => internal_metadata = internal(reader)?,
            "MetaUsr" => user_metadata = user(reader)?,
            _ => reader.skip()?,
        }
    }
    if algorithms != [1, 1] {
        return Err(Malformed::new(start, "an erasure code or a checksum that is unknown"));
    }
    let parts =
        lists.parts().ok_or_else(|| Malformed::new(start, "its lists of parts do not fit together"))?;
    let object = StoredObject {
        coding,
        place: PartPlace::DataDirectory(directory),
        parts,
        size,
        internal: internal_metadata,
        user: user_metadata,
        legacy: false,
    };
    finished(version_id, modified, object, start)
}

fn finished(
    id: [u8; 16],
    modified: i64,
    object: StoredObject,
    start: usize,
) -> Result<StoredVersion, Malformed> {
    match object.fault() {
        Some(fault) => Err(Malformed::new(start, fault)),
        None => {
            Ok(StoredVersion { id, modified, signature: [0; 4], body: VersionBody::Object(Box::new(object)) })
        }
    }
}

/// Early builds of RustFS wrote the fields of a version as a list.
fn early_rustfs(fault: Malformed) -> Malformed {
    match fault.what.starts_with("a list") {
        true => Malformed::new(
            fault.offset,
            "it is of an early RustFS, whose versions are lists, and not of MinIO",
        ),
        false => fault,
    }
}

fn delete_marker(reader: &mut MsgReader<'_>) -> Result<StoredVersion, Malformed> {
    let mut version_id = [0; 16];
    let mut modified = 0;
    let mut metadata = BTreeMap::new();
    let fields = reader.map().map_err(early_rustfs)?;
    for _ in 0..fields {
        match reader.text()? {
            "ID" => version_id = id(reader)?,
            "MTime" => modified = reader.int()?,
            "MetaSys" => metadata = internal(reader)?,
            _ => reader.skip()?,
        }
    }
    let body = VersionBody::DeleteMarker {
        free: metadata.contains_key(FREE_VERSION),
        purged: metadata.get(PURGE_STATUS).is_some_and(|state| !state.is_empty()),
    };
    Ok(StoredVersion { id: version_id, modified, signature: [0; 4], body })
}

/// What a record of the older form says, before it is put together.
struct LegacyFields {
    coding: Coding,
    checksums: Vec<(u32, i64, Vec<u8>)>,
    parts: Vec<StoredPart>,
    size: u64,
    modified: i64,
    user: BTreeMap<String, String>,
    id: String,
    directory: String,
}

fn legacy(reader: &mut MsgReader<'_>) -> Result<StoredVersion, Malformed> {
    let start = reader.offset();
    let mut fields = LegacyFields {
        coding: Coding { data: 0, parity: 0, block_bytes: 0, index: 0, distribution: Vec::new() },
        checksums: Vec::new(),
        parts: Vec::new(),
        size: 0,
        modified: 0,
        user: BTreeMap::new(),
        id: String::new(),
        directory: String::new(),
    };
    let count = reader.map().map_err(early_rustfs)?;
    for _ in 0..count {
        match reader.text()? {
            "Stat" => legacy_stat(reader, &mut fields)?,
            "Erasure" => legacy_erasure(reader, &mut fields)?,
            "Meta" => fields.user = user(reader)?,
            "Parts" => fields.parts = legacy_parts(reader)?,
            "VersionID" => reader.text()?.clone_into(&mut fields.id),
            "DataDir" => reader.text()?.clone_into(&mut fields.directory),
            _ => reader.skip()?,
        }
    }
    fields.finish(start)
}

fn legacy_stat(reader: &mut MsgReader<'_>, fields: &mut LegacyFields) -> Result<(), Malformed> {
    for _ in 0..reader.map()? {
        match reader.text()? {
            "Size" => fields.size = reader.uint()?,
            "ModTime" => fields.modified = reader.time()?,
            _ => reader.skip()?,
        }
    }
    Ok(())
}

fn legacy_erasure(reader: &mut MsgReader<'_>, fields: &mut LegacyFields) -> Result<(), Malformed> {
    for _ in 0..reader.map()? {
        match reader.text()? {
            "DataBlocks" => fields.coding.data = small(reader, SHARDS_MAX)?,
            "ParityBlocks" => fields.coding.parity = small(reader, SHARDS_MAX)?,
            "BlockSize" => fields.coding.block_bytes = reader.uint()?,
            "Index" => fields.coding.index = small(reader, SHARDS_MAX)?,
            "Distribution" => fields.coding.distribution = distribution(reader)?,
            "Checksums" => {
                for _ in 0..reader.list()? {
                    fields.checksums.push(legacy_checksum(reader)?);
                }
            }
            _ => reader.skip()?,
        }
    }
    Ok(())
}

fn legacy_checksum(reader: &mut MsgReader<'_>) -> Result<(u32, i64, Vec<u8>), Malformed> {
    let mut number = 0;
    let mut algorithm = 0;
    let mut hash = Vec::new();
    for _ in 0..reader.map()? {
        match reader.text()? {
            "PartNumber" => number = u32::try_from(reader.uint()?).unwrap_or(0),
            "Algorithm" => algorithm = reader.int()?,
            "Hash" if reader.nil() => {}
            "Hash" => hash = reader.bytes()?.to_vec(),
            _ => reader.skip()?,
        }
    }
    Ok((number, algorithm, hash))
}

fn legacy_parts(reader: &mut MsgReader<'_>) -> Result<Vec<StoredPart>, Malformed> {
    let mut parts = Vec::new();
    for _ in 0..reader.list()? {
        let mut part = StoredPart { number: 0, stored: 0, actual: None, checksum: PartChecksum::Streaming };
        for _ in 0..reader.map()? {
            match reader.text()? {
                "n" => part.number = u32::try_from(reader.uint()?).unwrap_or(0),
                "s" => part.stored = reader.uint()?,
                "as" => part.actual = u64::try_from(reader.int()?).ok(),
                _ => reader.skip()?,
            }
        }
        parts.push(part);
        if parts.len() > PARTS_MAX {
            return Err(Malformed::new(reader.offset(), "more than 10,000 parts"));
        }
    }
    Ok(parts)
}

impl LegacyFields {
    fn finish(mut self, start: usize) -> Result<StoredVersion, Malformed> {
        for part in &mut self.parts {
            let checksum = self.checksums.iter().find(|(number, ..)| *number == part.number);
            part.checksum = match checksum {
                // 1 to 4 stand for SHA-256, HighwayHash of the file and of its pieces, and BLAKE2b.
                Some((_, 1, hash)) => PartChecksum::Whole(WholeHash::Sha256, hash.clone()),
                Some((_, 2, hash)) => PartChecksum::Whole(WholeHash::Highway, hash.clone()),
                Some((_, 3, _)) => PartChecksum::Streaming,
                Some((_, 4, hash)) => PartChecksum::Whole(WholeHash::Blake2b, hash.clone()),
                _ => return Err(Malformed::new(start, "a part without a known checksum")),
            };
        }
        let place = match &*self.directory {
            "" => PartPlace::Beside,
            LEGACY_DIRECTORY => PartPlace::Legacy,
            uuid => {
                let uuid = parse_uuid(uuid);
                PartPlace::DataDirectory(uuid.ok_or_else(|| Malformed::new(start, "an odd data directory"))?)
            }
        };
        let id = match &*self.id {
            "" | "null" => [0; 16],
            uuid => parse_uuid(uuid).ok_or_else(|| Malformed::new(start, "an odd version id"))?,
        };
        let (internal, user) = split_metadata(self.user);
        let object = StoredObject {
            coding: self.coding,
            place,
            parts: self.parts,
            size: self.size,
            internal,
            user,
            legacy: true,
        };
        finished(id, self.modified, object, start)
    }
}

/// The beginning of the names of internal metadata.
const INTERNAL_PREFIX: &str = "x-minio-internal-";

/// Divides metadata that stand in one map. The oldest files have the entity tag as `md5Sum`.
pub(crate) fn split_metadata(
    all: BTreeMap<String, String>,
) -> (BTreeMap<String, Vec<u8>>, BTreeMap<String, String>) {
    let mut internal = BTreeMap::new();
    let mut user = BTreeMap::new();
    for (name, value) in all {
        let name = name.to_ascii_lowercase();
        if name.starts_with(INTERNAL_PREFIX) {
            internal.insert(name, value.into_bytes());
        } else if name == "md5sum" {
            user.entry("etag".to_owned()).or_insert(value);
        } else {
            user.insert(name, value);
        }
    }
    (internal, user)
}
