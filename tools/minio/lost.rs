//! Parts whose xl.meta is gone or damaged, on a server of one drive: their files hold all bytes, with
//! hashes between them.
//!
//! A file of n bytes in pieces of S has n + 32 * ceil(n / S) bytes. S is 1 MiB, and 10 MiB before
//! 2021; the hash of the first piece tells which.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use super::drive::Drive;
use super::format::bitrot::{HASH_BYTES, highway};
use super::format::version::parse_uuid;
use super::layout::Deployment;
use super::walk::drives_in;

/// The sizes of pieces.
const PIECE_BYTES: [u64; 2] = [1 << 20, 10 << 20];
const PART: &str = "part.";

/// A directory of parts.
pub(crate) struct LostObject {
    /// The name of the directory.
    pub(crate) directory: String,
    parts: Vec<LostPart>,
    piece_bytes: u64,
}

struct LostPart {
    file: File,
    name: String,
    length: u64,
}

impl LostObject {
    /// The directories of parts at a path of a bucket.
    ///
    /// # Errors
    /// A message: nothing tells how the bytes were cut.
    pub(crate) fn all_at(
        deployment: &Deployment,
        bucket: &str,
        path: &str,
        drives: u64,
    ) -> Result<Vec<Self>, String> {
        let Some(at) = drives_in(drives).next() else { return Ok(Vec::new()) };
        if deployment.sets[deployment.set_of[at]].size != 1 {
            return Err("its shards are on several drives, and nothing tells how they were cut".to_owned());
        }
        let drive = &deployment.drives[at];
        let entries = drive.entries(&format!("{bucket}/{path}")).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        for entry in entries {
            let Ok(directory) = entry.name.into_string() else { continue };
            if parse_uuid(&directory).is_some() {
                found.extend(Self::open(drive, &format!("{bucket}/{path}/{directory}"), directory)?);
            }
        }
        Ok(found)
    }

    /// A directory of parts; `None` for one without parts.
    fn open(drive: &Drive, path: &str, directory: String) -> Result<Option<Self>, String> {
        let entries = drive.entries(path).map_err(|error| error.to_string())?;
        let names = entries.into_iter().filter_map(|entry| entry.name.into_string().ok());
        let mut names: Vec<(u32, String)> = names
            .filter_map(|name| {
                let number = name.strip_prefix(PART)?.parse().ok()?;
                Some((number, name))
            })
            .collect();
        // By number: the name of part 10 comes before that of part 2.
        names.sort();
        let mut parts = Vec::new();
        for (_, name) in names {
            let file =
                drive.open_file(&format!("{path}/{name}")).map_err(|error| format!("{name}: {error}"))?;
            let length = file.metadata().map_err(|error| format!("{name}: {error}"))?.len();
            parts.push(LostPart { file, name, length });
        }
        let Some(first) = parts.first() else { return Ok(None) };
        let piece_bytes = PIECE_BYTES.into_iter().find(|piece| read_piece(first, 0, *piece).is_ok());
        let piece_bytes = piece_bytes.ok_or("no hash of its first piece matches")?;
        for part in &mut parts {
            part.length -= HASH_BYTES as u64 * part.length.div_ceil(piece_bytes + HASH_BYTES as u64);
        }
        Ok(Some(Self { directory, parts, piece_bytes }))
    }

    pub(crate) fn length(&self) -> u64 {
        self.parts.iter().map(|part| part.length).sum()
    }

    /// What the first bytes look like, if they are not those of an object.
    pub(crate) fn encoding(&self) -> Option<&'static str> {
        let piece = self.parts.first().and_then(|part| read_piece(part, 0, self.piece_bytes).ok())?;
        match &*piece {
            [0x20 | 0x10, 0 | 1, ..] => Some("its bytes look encrypted"),
            bytes if bytes.starts_with(b"\xff\x06\0\0S2sTwO") || bytes.starts_with(b"\xff\x06\0\0sNaPpY") => {
                Some("its bytes look compressed")
            }
            _ => None,
        }
    }

    /// A reader of the bytes from `start` on.
    pub(crate) fn read(&self, start: u64) -> LostReader<'_> {
        LostReader { object: self, position: start, piece: Vec::new(), at: 0 }
    }
}

/// A piece, whose hash stands before it.
fn read_piece(part: &LostPart, number: u64, piece_bytes: u64) -> io::Result<Vec<u8>> {
    let full = piece_bytes + HASH_BYTES as u64;
    let start = number * full;
    // The last piece is as long as what is left of the file.
    let there = part.file.metadata()?.len().saturating_sub(start).min(full);
    let mut bytes = vec![0; usize::try_from(there).map_err(io::Error::other)?];
    part.file.read_exact_at(&mut bytes, start)?;
    let data = bytes.split_off(HASH_BYTES.min(bytes.len()));
    match highway(&data)[..] == bytes[..] {
        true => Ok(data),
        false => Err(io::Error::other(format!("block {number} of {}: its hash does not match", part.name))),
    }
}

/// A reader of verified bytes.
pub(crate) struct LostReader<'l> {
    object: &'l LostObject,
    position: u64,
    piece: Vec<u8>,
    at: usize,
}

impl Read for LostReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            let mut before = self.position;
            let holder = self.object.parts.iter().find(|part| {
                let is_here = before < part.length;
                before -= if is_here { 0 } else { part.length };
                is_here
            });
            let Some(part) = holder else { return Ok(0) };
            self.piece = read_piece(part, before / self.object.piece_bytes, self.object.piece_bytes)?;
            self.at = (before % self.object.piece_bytes) as usize;
        }
        let count = buffer.len().min(self.piece.len() - self.at);
        buffer[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        self.position += count as u64;
        Ok(count)
    }
}
