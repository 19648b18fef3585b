//! Reading groups, of the log or of a checkpoint alike.

use crate::base::limits::PAGE_BYTES;
use crate::format::{Group, GroupHeader, GroupKind, StoreId, UncheckedGroup};
use crate::fs::File;
use crate::log::LogError;

/// A file that holds groups.
pub(crate) struct GroupFile<'a> {
    pub(crate) file: &'a dyn File,
    pub(crate) len: u64,
    pub(crate) kind: GroupKind,
    pub(crate) store: StoreId,
}

impl GroupFile<'_> {
    /// The group at `position` with its length in bytes, if a good one stands there, else why not. Whether it fits
    /// those around it is not looked at.
    pub(crate) fn read(&self, position: u64) -> Result<Result<(Group, u64), String>, LogError> {
        let mut page = [0; PAGE_BYTES as usize];
        if position + PAGE_BYTES > self.len {
            return Ok(Err("the file ends here".into()));
        }
        self.file.read_exact_at(&mut page, position)?;
        let unchecked = match UncheckedGroup::decode(self.kind, &self.store, &page) {
            Ok(unchecked) => unchecked,
            Err(error) => return Ok(Err(format!("group header: {error}"))),
        };
        let (sequence, len) = (unchecked.header().sequence, unchecked.group_len());
        if position + len > self.len {
            return Ok(Err(format!("the file ends within group {sequence}")));
        }
        let checked = match page.get(GroupHeader::BYTES..GroupHeader::BYTES + unchecked.body_len()) {
            Some(body) => unchecked.check(body),
            None => {
                let mut body = vec![0; unchecked.body_len()];
                self.file.read_exact_at(&mut body, position + GroupHeader::BYTES as u64)?;
                unchecked.check(&body)
            }
        };
        Ok(checked.map(|group| (group, len)).map_err(|error| format!("body of group {sequence}: {error}")))
    }
}

/// What stands where the next group is expected.
pub(crate) enum Next {
    /// The group, which fits the one before it, and where it starts.
    Good(Group, u64),
    /// No group, and why not.
    Bad(String),
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
    /// Reads the group at the position and, if it is good, goes on behind it.
    pub(crate) fn next(&mut self) -> Result<Next, LogError> {
        let (group, len) = match self.groups.read(self.position)? {
            Ok(read) => read,
            Err(why) => return Ok(Next::Bad(why)),
        };
        if let Some(why) = self.misfit(&group.header) {
            return Ok(Next::Bad(why));
        }
        let at = self.position;
        self.position += len;
        self.sequence += 1;
        self.previous_crc = group.crc;
        Ok(Next::Good(group, at))
    }

    fn misfit(&self, header: &GroupHeader) -> Option<String> {
        if header.sequence != self.sequence {
            return Some(format!("the group has sequence {} and not {}", header.sequence, self.sequence));
        }
        (header.previous_crc != self.previous_crc)
            .then(|| "the group does not follow the one before it".into())
    }
}
