//! The bytes of an object: shards from all drives, verified, put together, decrypted and
//! decompressed.
//!
//! Every shard of a block is read and verified, also those that are not needed, so that all rot is
//! reported. What is missing or damaged is rebuilt from the others.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use super::damage::DamageLog;
use super::facts::ObjectFacts;
use super::format::bitrot::{HASH_BYTES, WholeHasher, highway};
use super::format::dare::{DareReader, PACKAGE_BYTES, PAYLOAD_BYTES};
use super::format::erasure::ErasureCode;
use super::format::keys::part_key;
use super::format::s2::S2Reader;
use super::format::version::{Coding, PartChecksum, PartPlace, StoredPart, uuid_text};
use super::layout::Deployment;
use super::versions::{KeptObject, Shard};

/// Bytes that are read at a time for a hash of a whole file.
const PIECE_BYTES: usize = 1 << 20;
/// The internal metadata of objects whose bytes are in xl.meta.
const INLINE: &str = "x-minio-internal-inline-data";

/// An object whose bytes are read.
pub(crate) struct ObjectContent<'c> {
    pub(crate) deployment: &'c Deployment,
    pub(crate) bucket: &'c str,
    /// The path of the key below its bucket.
    pub(crate) path: &'c str,
    pub(crate) object: &'c KeptObject,
    pub(crate) facts: &'c ObjectFacts,
    pub(crate) damage: &'c DamageLog,
}

impl<'c> ObjectContent<'c> {
    /// A reader of the plain bytes of a range, which is within the object.
    pub(crate) fn read(&'c self, range: Range<u64>) -> ContentReader<'c> {
        let mut skip = range.start;
        let mut part = 0;
        while self.facts.parts.get(part).is_some_and(|length| *length <= skip) {
            skip -= self.facts.parts[part];
            part += 1;
        }
        ContentReader { content: self, part, skip, left: range.end - range.start, open: None }
    }

    /// A reader of the plain bytes of a part after so many.
    fn part(&'c self, at: usize, skip: u64) -> io::Result<Box<dyn Read + 'c>> {
        let part = &self.object.stored.parts[at];
        let decoding = &self.facts.decoding;
        let key = decoding.key.map(|key| if decoding.by_parts { part_key(&key, part.number) } else { key });
        // Nothing tells where in a compressed stream a byte is: it is read from its beginning.
        let seekable = if decoding.compressed { 0 } else { skip };
        let (stored, left): (Box<dyn Read + 'c>, u64) = match key {
            None => (self.stored(at, seekable)?, skip - seekable),
            Some(key) => {
                let package = seekable / PAYLOAD_BYTES as u64;
                let stream = self.stored(at, package * PACKAGE_BYTES)?;
                let number = u32::try_from(package).map_err(|_| io::Error::other("a part is too long"))?;
                (Box::new(DareReader::new(stream, key, number)), skip - package * PAYLOAD_BYTES as u64)
            }
        };
        let mut plain: Box<dyn Read + 'c> =
            if decoding.compressed { Box::new(S2Reader::new(stored)) } else { stored };
        if io::copy(&mut plain.by_ref().take(left), &mut io::sink())? < left {
            return Err(io::Error::other("a part is shorter than it says"));
        }
        Ok(plain)
    }

    /// A reader of the stored bytes of a part after so many.
    fn stored(&'c self, at: usize, position: u64) -> io::Result<Box<dyn Read + 'c>> {
        let part = &self.object.stored.parts[at];
        if self.object.stored.place != PartPlace::PlainFile {
            return Ok(Box::new(PartStream::new(PartShards::open(self, at)?, part.stored, position)));
        }
        let drive = self.object.shards.first().map(|shard| &self.deployment.drives[shard.drive]);
        let drive = drive.ok_or_else(|| io::Error::other("no drive has it"))?;
        let mut file = drive.open_file(&format!("{}/{}", self.bucket, self.path))?;
        let before: u64 = self.object.stored.parts[..at].iter().map(|part| part.stored).sum();
        file.seek(SeekFrom::Start(before + position))?;
        Ok(Box::new(file.take(part.stored - position.min(part.stored))))
    }
}

/// A reader of the plain bytes of a range.
pub(crate) struct ContentReader<'c> {
    content: &'c ObjectContent<'c>,
    part: usize,
    /// Bytes of the next part that are before the range.
    skip: u64,
    left: u64,
    /// The part that is being read, and its bytes that are left.
    open: Option<(Box<dyn Read + 'c>, u64)>,
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 || buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let Some((reader, of_part)) = &mut self.open else {
                let length = self.content.facts.parts.get(self.part).copied();
                let length = length.ok_or_else(|| io::Error::other("the object is shorter than it says"))?;
                if length > self.skip {
                    self.open = Some((self.content.part(self.part, self.skip)?, length - self.skip));
                } else {
                    self.part += 1;
                }
                self.skip = 0;
                continue;
            };
            let most = self.left.min(*of_part).min(buffer.len() as u64) as usize;
            let count = reader.read(&mut buffer[..most])?;
            if count == 0 {
                return Err(io::Error::other("a part is shorter than it says"));
            }
            *of_part -= count as u64;
            self.left -= count as u64;
            if *of_part == 0 {
                // An encoded part must end here, too.
                if reader.read(&mut [0])? != 0 {
                    return Err(io::Error::other("a part is longer than it says"));
                }
                self.open = None;
                self.part += 1;
            }
            return Ok(count);
        }
    }
}

/// The shards of one part.
struct PartShards<'c> {
    content: &'c ObjectContent<'c>,
    part: &'c StoredPart,
    code: ErasureCode,
    /// The sources of each shard: two drives may claim the same.
    sources: Vec<Vec<ShardSource<'c>>>,
}

/// Where a shard is.
enum ShardBytes<'c> {
    File(File),
    Inline(&'c [u8]),
}

struct ShardSource<'c> {
    bytes: ShardBytes<'c>,
    checksum: &'c PartChecksum,
    /// The file, for reports.
    name: String,
}

impl ShardSource<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match &self.bytes {
            ShardBytes::File(file) => file.read_exact_at(buffer, offset),
            ShardBytes::Inline(bytes) => {
                let from = usize::try_from(offset).ok().filter(|from| *from <= bytes.len());
                let there = from.and_then(|from| bytes[from..].get(..buffer.len()));
                buffer.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        match &self.bytes {
            ShardBytes::File(file) => Ok(file.metadata()?.len()),
            ShardBytes::Inline(bytes) => Ok(bytes.len() as u64),
        }
    }
}

impl<'c> PartShards<'c> {
    fn open(content: &'c ObjectContent<'c>, at: usize) -> io::Result<Self> {
        let part = &content.object.stored.parts[at];
        let coding = &content.object.stored.coding;
        let code = ErasureCode::new(coding.data, coding.parity);
        let code = code.ok_or_else(|| io::Error::other("its code is impossible"))?;
        let mut sources: Vec<Vec<ShardSource<'c>>> = Vec::new();
        sources.resize_with(coding.data + coding.parity, Vec::new);
        for shard in &content.object.shards {
            let Some(of_index) = sources.get_mut(shard.index) else { continue };
            let source = source_of(content, at, shard);
            of_index.extend(source.filter(|source| is_whole(content, part, coding, source)));
        }
        Ok(Self { content, part, code, sources })
    }

    /// The bytes of a block.
    fn block(&self, number: u64) -> io::Result<Vec<u8>> {
        let coding = &self.content.object.stored.coding;
        let start = number * coding.block_bytes;
        let length = coding.block_bytes.min(self.part.stored - start);
        let shard = coding.shard_bytes(length) as usize;
        let mut shards: Vec<Option<Vec<u8>>> = Vec::new();
        for sources in &self.sources {
            let mut read = None;
            // All of them, though one is enough: rot on the others is to be reported, too.
            for source in sources {
                let bytes = self.shard(source, number, shard);
                read = read.or(bytes);
            }
            shards.push(read);
        }
        let found = shards.iter().filter(|shard| shard.is_some()).count();
        if !self.code.rebuild_data(&mut shards) {
            let part = self.part.number;
            let needed = coding.data;
            return Err(io::Error::other(format!(
                "block {number} of part {part} has {found} whole shards, and {needed} are needed"
            )));
        }
        let mut block = Vec::with_capacity(shard * coding.data);
        for data in shards.iter().take(coding.data).flatten() {
            block.extend_from_slice(data);
        }
        block.truncate(length as usize);
        Ok(block)
    }

    /// The verified shard of a block; `None` for a damaged one, which is noted.
    fn shard(&self, source: &ShardSource<'_>, number: u64, length: usize) -> Option<Vec<u8>> {
        let coding = &self.content.object.stored.coding;
        let full = coding.shard_bytes(coding.block_bytes);
        let damaged = |what: &str| {
            let what = format!("block {number} of part {}: {what}", self.part.number);
            self.content.damage.note(source.name.clone(), what);
        };
        // Without a hash of the block, that of the whole file was compared when it was opened.
        if *source.checksum != PartChecksum::Streaming {
            let mut bytes = vec![0; length];
            let read = source.read_at(number * full, &mut bytes);
            return read.inspect_err(|error| damaged(&error.to_string())).is_ok().then_some(bytes);
        }
        let mut bytes = vec![0; HASH_BYTES + length];
        if let Err(error) = source.read_at(number * (full + HASH_BYTES as u64), &mut bytes) {
            damaged(&error.to_string());
            return None;
        }
        let data = bytes.split_off(HASH_BYTES);
        if highway(&data)[..] != bytes[..] {
            damaged("its hash does not match");
            return None;
        }
        Some(data)
    }
}

/// Where the shard of a part is: in the file of its number, or in xl.meta.
///
/// Drives of one object may differ, whatever the metadata say: where one place is empty, the other
/// counts.
fn source_of<'c>(content: &'c ObjectContent<'c>, at: usize, shard: &'c Shard) -> Option<ShardSource<'c>> {
    let number = content.object.stored.parts[at].number;
    let checksum = shard.checksums.get(at)?;
    let drive = &content.deployment.drives[shard.drive];
    let of_key = format!("{}/{}", content.bucket, content.path);
    let directory = match &shard.place {
        PartPlace::DataDirectory(id) => format!("{of_key}/{}", uuid_text(id)),
        PartPlace::Legacy => format!("{of_key}/legacy"),
        PartPlace::Beside => of_key.clone(),
        // It has no shards.
        PartPlace::PlainFile => return None,
    };
    let file = format!("{directory}/part.{number}");
    let inline = shard.inline.as_deref().map(|bytes| ShardSource {
        bytes: ShardBytes::Inline(bytes),
        checksum,
        name: format!("{}/{of_key}/xl.meta", drive.name()),
    });
    let says_inline = content.object.stored.internal.contains_key(INLINE);
    if says_inline && inline.is_some() {
        return inline;
    }
    match drive.open_file(&file) {
        Ok(opened) => {
            let name = format!("{}/{file}", drive.name());
            Some(ShardSource { bytes: ShardBytes::File(opened), checksum, name })
        }
        Err(_) if inline.is_some() => inline,
        Err(error) => {
            content.damage.note(format!("{}/{file}", drive.name()), error.to_string());
            None
        }
    }
}

/// Whether a shard has its length and, where there is one hash of all of it, its hash. A shard that
/// is short may still have good blocks.
fn is_whole(
    content: &ObjectContent<'_>,
    part: &StoredPart,
    coding: &Coding,
    source: &ShardSource<'_>,
) -> bool {
    let plain = coding.shard_file_bytes(part.stored);
    let pieces = part.stored.div_ceil(coding.block_bytes);
    let (expected, hash) = match source.checksum {
        PartChecksum::Streaming => (plain + pieces * HASH_BYTES as u64, None),
        PartChecksum::Whole(kind, hash) => (plain, Some((*kind, hash))),
        PartChecksum::None => (plain, None),
    };
    let found = match source.len() {
        Ok(found) => found,
        Err(error) => {
            content.damage.note(source.name.clone(), error.to_string());
            return false;
        }
    };
    if found != expected {
        content.damage.note(source.name.clone(), format!("it has {found} bytes in place of {expected}"));
    }
    let Some((kind, hash)) = hash else { return true };
    let mut hasher = WholeHasher::new(kind);
    let mut at = 0;
    while at < found {
        let mut piece = vec![0; PIECE_BYTES.min((found - at) as usize)];
        if let Err(error) = source.read_at(at, &mut piece) {
            content.damage.note(source.name.clone(), error.to_string());
            return false;
        }
        hasher.update(&piece);
        at += piece.len() as u64;
    }
    let is_right = hasher.finish() == *hash;
    if !is_right {
        content.damage.note(source.name.clone(), "its hash does not match".to_owned());
    }
    is_right
}

/// The stored bytes of a part from an offset on.
struct PartStream<'c> {
    shards: PartShards<'c>,
    length: u64,
    position: u64,
    block: Vec<u8>,
    /// The place in the block.
    at: usize,
}

impl<'c> PartStream<'c> {
    fn new(shards: PartShards<'c>, length: u64, position: u64) -> Self {
        Self { shards, length, position, block: Vec::new(), at: 0 }
    }
}

impl Read for PartStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.length {
            return Ok(0);
        }
        if self.at == self.block.len() {
            let block_bytes = self.shards.content.object.stored.coding.block_bytes;
            self.block = self.shards.block(self.position / block_bytes)?;
            self.at = (self.position % block_bytes) as usize;
        }
        let count = buffer.len().min(self.block.len() - self.at);
        buffer[..count].copy_from_slice(&self.block[self.at..self.at + count]);
        self.at += count;
        self.position += count as u64;
        Ok(count)
    }
}
