//! The copies of segments that the checkpoint of a root names.

use std::collections::BTreeMap;

use super::chain::RemoteLog;
use super::error::ShipError;
use super::object::get;
use crate::base::limits::{MIB, PAGE_BYTES};
use crate::format::{Entry, Group, GroupHeader, GroupKind, LogPosition, RemoteCopy, Root, UncheckedGroup};

/// Bytes that are fetched at once.
const FETCH_BYTES: u64 = 8 * MIB;

/// The copies of segments by the segments' ids, as of a root. The whole checkpoint is read, and
/// none of it kept.
pub(crate) fn copies_at(log: RemoteLog<'_>, root: &Root) -> Result<BTreeMap<u64, RemoteCopy>, ShipError> {
    let name = root.checkpoint_name();
    let mut reader = CheckpointReader {
        log,
        name: &name,
        length: root.checkpoint_length,
        fetched: PAGE_BYTES,
        buffer: Vec::new(),
        start: 0,
        end: LogPosition::default(),
    };
    let mut copies = BTreeMap::new();
    loop {
        for entry in reader.next()?.entries {
            match entry {
                Entry::RemoteSegment { segment, copy: Some(copy) } => {
                    copies.insert(segment, copy);
                }
                Entry::CheckpointEnd(end) if end.through == root.covered.sequence => return Ok(copies),
                Entry::CheckpointEnd(_) => {
                    return Err(ShipError::damaged(name, &"it is that of another root"));
                }
                _ => {}
            }
        }
    }
}

/// Reads the groups of a checkpoint on the remote.
struct CheckpointReader<'r> {
    log: RemoteLog<'r>,
    name: &'r str,
    length: u64,
    /// The bytes of the object before this place were fetched.
    fetched: u64,
    buffer: Vec<u8>,
    /// The place of the next group in the buffer.
    start: usize,
    /// The last group.
    end: LogPosition,
}

impl CheckpointReader<'_> {
    fn next(&mut self) -> Result<Group, ShipError> {
        self.fetch(GroupHeader::BYTES)?;
        let head = UncheckedGroup::decode(GroupKind::Checkpoint, &self.log.store, &self.buffer[self.start..]);
        let head = head.map_err(|error| self.damaged(&error))?;
        let length = head.group_len() as usize;
        self.fetch(length)?;
        let body = &self.buffer[self.start + GroupHeader::BYTES..][..head.body_len()];
        let group = head.check(body).map_err(|error| self.damaged(&error))?;
        let LogPosition { sequence, crc } = self.end;
        if group.header.sequence != sequence + 1 || group.header.previous_crc != crc {
            return Err(self.damaged(&"a group does not follow the one before it"));
        }
        self.end = LogPosition { sequence: sequence + 1, crc: group.crc };
        self.start += length;
        Ok(group)
    }

    /// Fetches until the buffer has that many bytes of the next group.
    fn fetch(&mut self, wanted: usize) -> Result<(), ShipError> {
        while self.buffer.len() - self.start < wanted {
            let end = self.length.min(self.fetched + FETCH_BYTES);
            if end <= self.fetched {
                return Err(self.damaged(&"it is cut off"));
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            self.buffer.extend(get(self.log.remote, self.name, self.fetched..end)?);
            self.fetched = end;
        }
        Ok(())
    }

    fn damaged(&self, why: &dyn std::fmt::Display) -> ShipError {
        ShipError::damaged(self.name, why)
    }
}
