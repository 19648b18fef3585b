//! The file `xl.meta`: all versions of a key, and the bytes of small ones.
//!
//! | offset | bytes |
//! |---|---|
//! | 0 | `XL2 ` |
//! | 4 | major 1 and minor 0 to 3, u16 little-endian each; the text `1   ` stands for 1.0 |
//! | 8 | minor 0: a map with the list `Versions`, up to the end |
//! | | minor 1: a byte string with that map, then inline data |
//! | | minor 2: the byte string, a checksum of it, then inline data |
//! | | minor 3: a byte string with header version, record version, count, and for each version its header and its record as byte strings; the checksum; inline data |
//!
//! The checksum is an integer, the low half of XXH64 with seed 0. Inline data is absent, or a byte 1
//! and a map from names to byte strings. Headers repeat what the records say, and are read for the
//! signature alone. A record is a map with the number of its type (1 object, 2 delete marker, 3
//! object in the form of xl.json) and one map below `V2Obj`, `DelObj` or `V1Obj`. Unknown names are
//! stepped over.

use std::collections::BTreeMap;

use twox_hash::XxHash64;

use super::malformed::Malformed;
use super::msgpack::MsgReader;
use super::record;
use super::version::StoredVersion;

/// The longest file that is read.
pub(crate) const XL_META_MAX_BYTES: u64 = 64 << 20;

const MAGIC: &[u8; 4] = b"XL2 ";
/// The greatest minor version.
const MINOR_MAX: u16 = 3;
/// The greatest version of headers and of records.
const HEADER_MAX: u64 = 3;
const RECORD_MAX: u64 = 3;
const INLINE_VERSION: u8 = 1;

/// The content of the file.
#[derive(Debug)]
pub(crate) struct XlMeta<'b> {
    /// The versions, in no particular order.
    pub(crate) versions: Vec<StoredVersion>,
    /// Bytes of shards, by the name of the version or the data directory.
    pub(crate) inline: BTreeMap<&'b str, &'b [u8]>,
}

impl<'b> XlMeta<'b> {
    /// Reads the file.
    ///
    /// # Errors
    /// It is not of this format, or damaged.
    pub(crate) fn parse(bytes: &'b [u8]) -> Result<Self, Malformed> {
        if bytes.is_empty() {
            return Err(Malformed::new(0, "it is empty"));
        }
        let head = bytes.get(..8).ok_or_else(|| Malformed::new(bytes.len(), "it ends within its head"))?;
        if &head[..4] != MAGIC {
            return Err(Malformed::new(0, "it does not begin with XL2"));
        }
        let minor = minor_of([head[4], head[5], head[6], head[7]])?;
        let mut reader = MsgReader::new(&bytes[8..]);
        let parsed = match minor {
            0 => record::read_list(&mut reader).map(|versions| (versions, BTreeMap::new())),
            _ => sections(&mut reader, minor),
        };
        // Offsets count from the start of the file.
        let (versions, inline) = parsed.map_err(|fault| Malformed::new(fault.offset + 8, fault.what))?;
        Ok(Self { versions, inline })
    }
}

fn minor_of(version: [u8; 4]) -> Result<u16, Malformed> {
    if &version == b"1   " {
        return Ok(0);
    }
    let major = u16::from_le_bytes([version[0], version[1]]);
    let minor = u16::from_le_bytes([version[2], version[3]]);
    match (major, minor) {
        (1, 0..=MINOR_MAX) => Ok(minor),
        _ => Err(Malformed::new(
            4,
            format!("it is of version {major}.{minor}, and 1.0 to 1.{MINOR_MAX} are known"),
        )),
    }
}

type Sections<'b> = (Vec<StoredVersion>, BTreeMap<&'b str, &'b [u8]>);

fn sections<'b>(reader: &mut MsgReader<'b>, minor: u16) -> Result<Sections<'b>, Malformed> {
    let metadata = reader.bytes()?;
    let start = reader.offset() - metadata.len();
    // Before the records are read: those of a damaged file would show some other fault.
    if minor >= 2 {
        let at = reader.offset();
        let stored = reader.uint()?;
        let computed = XxHash64::oneshot(0, metadata) & 0xffff_ffff;
        if stored != computed {
            return Err(Malformed::new(at, "the checksum of its metadata does not match"));
        }
    }
    let inline = inline_of(reader)?;
    let mut within = MsgReader::new(metadata);
    let versions = match minor {
        3 => indexed(&mut within),
        _ => record::read_list(&mut within),
    };
    Ok((versions.map_err(|fault| Malformed::new(start + fault.offset, fault.what))?, inline))
}

/// The versions of minor 3.
fn indexed(reader: &mut MsgReader<'_>) -> Result<Vec<StoredVersion>, Malformed> {
    let header_version = reader.uint()?;
    let record_version = reader.uint()?;
    if !(1..=HEADER_MAX).contains(&header_version) || !(1..=RECORD_MAX).contains(&record_version) {
        let what = format!(
            "its headers are of version {header_version}, its records of {record_version}, which are unknown"
        );
        return Err(Malformed::new(reader.offset(), what));
    }
    let count = reader.uint()?;
    let mut versions = Vec::new();
    for _ in 0..count {
        let header = reader.bytes()?;
        let signature = signature_in(header, header_version)
            .map_err(|fault| Malformed::new(reader.offset() - header.len() + fault.offset, fault.what))?;
        let body = reader.bytes()?;
        let start = reader.offset() - body.len();
        let read = record::read(&mut MsgReader::new(body));
        let mut version = read.map_err(|fault| Malformed::new(start + fault.offset, fault.what))?;
        version.signature = signature;
        versions.push(version);
    }
    Ok(versions)
}

/// The signature in the header of a version: id, time, signature, type, flags, and since version 3
/// the numbers of shards.
fn signature_in(header: &[u8], version: u64) -> Result<[u8; 4], Malformed> {
    let mut reader = MsgReader::new(header);
    let fields = reader.list()?;
    reader.skip()?;
    reader.skip()?;
    if version < 2 || fields < 5 {
        return Ok([0; 4]);
    }
    let signature = reader.bytes()?;
    signature.try_into().map_err(|_| Malformed::new(reader.offset(), "a signature that has not 4 bytes"))
}

fn inline_of<'b>(reader: &mut MsgReader<'b>) -> Result<BTreeMap<&'b str, &'b [u8]>, Malformed> {
    let rest = reader.rest();
    let start = reader.offset();
    let Some(version) = rest.first() else { return Ok(BTreeMap::new()) };
    if *version != INLINE_VERSION {
        return Err(Malformed::new(
            start,
            format!("its inline data is of version {version}, which is unknown"),
        ));
    }
    let read = inline_map(&mut MsgReader::new(&rest[1..]));
    read.map_err(|fault| Malformed::new(start + 1 + fault.offset, fault.what))
}

fn inline_map<'b>(reader: &mut MsgReader<'b>) -> Result<BTreeMap<&'b str, &'b [u8]>, Malformed> {
    let mut inline = BTreeMap::new();
    for _ in 0..reader.map()? {
        let name = reader.text()?;
        inline.insert(name, reader.bytes()?);
    }
    Ok(inline)
}
