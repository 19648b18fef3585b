//! Reading groups, of the log and of checkpoints.

use std::fmt::Display;
use std::io;

use crate::base::limits::PAGE_BYTES;
use crate::format::{Group, GroupHeader, GroupKind, StoreId, UncheckedGroup};
use crate::fs::File;
use crate::log::{LogError, unreadable};

/// A file that holds groups.
pub(crate) struct GroupFile<'a> {
    pub(crate) file: &'a dyn File,
    pub(crate) len: u64,
    pub(crate) kind: GroupKind,
    pub(crate) store: StoreId,
}

/// A group whose body has passed its CRC. Its entries are not decoded yet.
pub(crate) struct RawGroup {
    pub(crate) group: UncheckedGroup,
    pub(crate) body: Vec<u8>,
}

impl RawGroup {
    pub(crate) fn sequence(&self) -> u64 {
        self.group.header().sequence
    }

    /// Decodes the entries.
    fn decode(self) -> Result<Group, GroupError> {
        let sequence = self.sequence();
        let decoded = self.group.check(&self.body);
        decoded.map_err(|error| match (body_error(sequence, error), error.is_newer()) {
            (why, true) => GroupError::Newer(why),
            (why, false) => GroupError::Bad(why),
        })
    }
}

/// The text of an error in the body of a group.
pub(crate) fn body_error(sequence: u64, error: impl Display) -> String {
    format!("body of group {sequence}: {error}")
}

impl GroupFile<'_> {
    /// The group at `position` with its length in bytes, or the reason why there is none. Its place
    /// in the chain is not checked.
    pub(crate) fn read(&self, position: u64) -> Result<Result<(Group, u64), GroupError>, LogError> {
        let raw = self.read_raw(position)?;
        Ok(raw.and_then(|(raw, len)| Ok((raw.decode()?, len))))
    }

    /// As [`GroupFile::read`], without decoding the entries.
    pub(crate) fn read_raw(&self, position: u64) -> Result<Result<(RawGroup, u64), GroupError>, LogError> {
        let mut page = [0; PAGE_BYTES as usize];
        if position + PAGE_BYTES > self.len {
            return Ok(Err(GroupError::Bad("the file ends here".into())));
        }
        if let Err(error) = self.file.read_exact_at(&mut page, position) {
            return GroupError::of_read(error).map(Err);
        }
        let group = match UncheckedGroup::decode(self.kind, &self.store, &page) {
            Ok(group) => group,
            Err(error) => return Ok(Err(GroupError::Bad(format!("group header: {error}")))),
        };
        let sequence = group.header().sequence;
        let len = group.group_len();
        // Checked before memory is taken for it: the length is only what a header claims.
        if position + len > self.len {
            return Ok(Err(GroupError::Bad(format!("the file ends within group {sequence}"))));
        }
        // Most groups are no longer than the page that was read for the header.
        let body = match page.get(GroupHeader::BYTES..GroupHeader::BYTES + group.body_len()) {
            Some(body) => body.to_vec(),
            None => {
                let mut body = vec![0; group.body_len()];
                if let Err(error) = self.file.read_exact_at(&mut body, position + GroupHeader::BYTES as u64) {
                    return GroupError::of_read(error).map(Err);
                }
                body
            }
        };
        let checked = group.check_body(&body).map_err(|error| GroupError::Bad(body_error(sequence, error)));
        Ok(checked.map(|()| (RawGroup { group, body }, len)))
    }
}

/// Why no group could be read.
pub(crate) enum GroupError {
    /// There is no group, or it is not whole or does not fit.
    Bad(String),
    /// The disk cannot read it. A crash never causes this, so the group is not treated as torn.
    Unreadable(String),
    /// The group is whole, but a newer siltstone wrote it.
    Newer(String),
}

impl GroupError {
    fn of_read(error: io::Error) -> Result<Self, LogError> {
        match error.kind() {
            io::ErrorKind::InvalidData => Ok(Self::Unreadable(unreadable(&error))),
            _ => Err(error.into()),
        }
    }

    pub(crate) fn why(self) -> String {
        match self {
            Self::Bad(why) | Self::Unreadable(why) | Self::Newer(why) => why,
        }
    }
}

/// A position in a chain of groups.
pub(crate) struct GroupReader<'a> {
    pub(crate) groups: GroupFile<'a>,
    /// Where the next group is expected.
    pub(crate) position: u64,
    /// The sequence expected there.
    pub(crate) sequence: u64,
    /// The header CRC of the group before.
    pub(crate) previous_crc: u32,
}

impl GroupReader<'_> {
    /// Reads the group at the position. If it is good and fits the one before it, advances and
    /// returns it with its offset.
    pub(crate) fn next(&mut self) -> Result<Result<(Group, u64), GroupError>, LogError> {
        let read = self.groups.read(self.position)?;
        Ok(read.and_then(|(group, len)| {
            let at = self.advance(&group.header, group.crc, len)?;
            Ok((group, at))
        }))
    }

    /// As [`GroupReader::next`], without decoding the entries.
    pub(crate) fn next_raw(&mut self) -> Result<Result<(RawGroup, u64), GroupError>, LogError> {
        let read = self.groups.read_raw(self.position)?;
        Ok(read.and_then(|(raw, len)| {
            let at = self.advance(raw.group.header(), raw.group.crc(), len)?;
            Ok((raw, at))
        }))
    }

    /// Advances past a group that fits, and returns its offset; or the reason why it does not fit.
    fn advance(&mut self, header: &GroupHeader, crc: u32, len: u64) -> Result<u64, GroupError> {
        if let Some(why) = self.misfit(header) {
            return Err(GroupError::Bad(why));
        }
        let at = self.position;
        self.position += len;
        self.sequence += 1;
        self.previous_crc = crc;
        Ok(at)
    }

    fn misfit(&self, header: &GroupHeader) -> Option<String> {
        if header.sequence != self.sequence {
            return Some(format!("the group has sequence {} and not {}", header.sequence, self.sequence));
        }
        (header.previous_crc != self.previous_crc)
            .then(|| "the group does not follow the one before it".into())
    }
}
