//! Reading a chain of groups, of the log or of a checkpoint alike.

use crate::base::limits::PAGE_BYTES;
use crate::format::{Group, GroupHeader, GroupKind, StoreId, UncheckedGroup};
use crate::fs::File;
use crate::log::LogError;

/// What stands where the next group is expected.
pub(crate) enum Next {
    /// The group, which fits the one before it, and where it starts.
    Good(Group, u64),
    /// No group, and why not.
    Bad(String),
}

/// A position in a chain of groups.
pub(crate) struct GroupReader<'a> {
    pub(crate) file: &'a dyn File,
    pub(crate) file_len: u64,
    pub(crate) kind: GroupKind,
    pub(crate) store: StoreId,
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
        let mut page = [0; PAGE_BYTES as usize];
        if self.position + PAGE_BYTES > self.file_len {
            return Ok(Next::Bad("the file ends here".into()));
        }
        self.file.read_exact_at(&mut page, self.position)?;
        let unchecked = match UncheckedGroup::decode(self.kind, &self.store, &page) {
            Ok(unchecked) => unchecked,
            Err(error) => return Ok(Next::Bad(format!("group header: {error}"))),
        };
        if let Some(why) = self.misfit(&unchecked) {
            return Ok(Next::Bad(why));
        }
        self.check(unchecked, &page)
    }

    fn misfit(&self, group: &UncheckedGroup) -> Option<String> {
        let header = group.header();
        if header.sequence != self.sequence {
            return Some(format!("the group has sequence {} and not {}", header.sequence, self.sequence));
        }
        if header.previous_crc != self.previous_crc {
            return Some("the group does not follow the one before it".into());
        }
        (self.position + group.group_len() > self.file_len).then(|| "the file ends within the group".into())
    }

    fn check(&mut self, unchecked: UncheckedGroup, page: &[u8]) -> Result<Next, LogError> {
        let len = unchecked.group_len();
        let body_end = GroupHeader::BYTES + unchecked.body_len();
        let checked = match page.get(GroupHeader::BYTES..body_end) {
            Some(body) => unchecked.check(body),
            None => {
                let mut body = vec![0; unchecked.body_len()];
                self.file.read_exact_at(&mut body, self.position + GroupHeader::BYTES as u64)?;
                unchecked.check(&body)
            }
        };
        Ok(match checked {
            Ok(group) => {
                let at = self.position;
                self.position += len;
                self.sequence += 1;
                self.previous_crc = group.crc;
                Next::Good(group, at)
            }
            Err(error) => Next::Bad(format!("group body: {error}")),
        })
    }
}
