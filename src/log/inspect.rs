//! Checked access to the structures of a segment, for readers and tools.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::base::limits::{GROUP_BODY_MAX_BYTES, MIB, PAGE_BYTES};
use crate::format::{DecodeError, Descriptor, ExtentHeader, ExtentRef, FileKind, Footer, StoreId};
use crate::fs::{ReadAhead, VerifiedCopy};
use crate::log::files::check_header;
use crate::log::{Damage, ExtentReader, LogError, Segment};

/// The longest descriptor: its record must also fit into a group.
const DESCRIPTOR_MAX_BYTES: u64 = GROUP_BODY_MAX_BYTES;

impl Segment {
    /// The header of the extent that starts at `offset`.
    ///
    /// # Errors
    /// [`LogError::Damaged`] when there is none, or one with another segment or offset.
    pub fn extent(&self, store: &StoreId, offset: u64) -> Result<ExtentHeader, LogError> {
        let mut bytes = [0; ExtentHeader::BYTES];
        self.read_checked(&mut bytes, offset, |bytes| self.decode_extent(store, offset, bytes))
    }

    fn decode_extent(&self, store: &StoreId, offset: u64, bytes: &[u8]) -> Result<ExtentHeader, LogError> {
        let header = ExtentHeader::decode(store, bytes);
        let header = header.map_err(|error| self.damage(offset, format!("extent header: {error}")))?;
        if (header.segment, header.offset) != (self.id, offset) {
            let what =
                format!("the extent belongs to offset {} of segment {:016x}", header.offset, header.segment);
            return Err(self.damage(offset, what).into());
        }
        Ok(header)
    }

    /// The descriptor of an extent in this segment.
    ///
    /// # Errors
    /// [`LogError::Damaged`] when it does not match its CRC or cannot be decoded.
    pub fn descriptor(&self, header: &ExtentHeader) -> Result<Descriptor, LogError> {
        let offset = header.offset + header.descriptor_at();
        let mut bytes = self.room_for_descriptor(header)?;
        self.read_checked(&mut bytes, offset, |bytes| {
            let descriptor = header.decode_descriptor(bytes);
            descriptor.map_err(|error| self.damage(offset, format!("descriptor: {error}")).into())
        })
    }

    /// The bytes of the descriptor of an extent in this segment, unchecked.
    ///
    /// # Errors
    /// [`LogError::Damaged`] when its length is impossible.
    pub fn descriptor_bytes(&self, header: &ExtentHeader) -> Result<Vec<u8>, LogError> {
        let mut bytes = self.room_for_descriptor(header)?;
        self.read_at(&mut bytes, header.offset + header.descriptor_at())?;
        Ok(bytes)
    }

    fn room_for_descriptor(&self, header: &ExtentHeader) -> Result<Vec<u8>, LogError> {
        let offset = header.offset + header.descriptor_at();
        let len = u64::from(header.descriptor_len);
        if len > DESCRIPTOR_MAX_BYTES {
            let what = format!("a descriptor has at most {DESCRIPTOR_MAX_BYTES} bytes, and this one {len}");
            return Err(self.damage(offset, what).into());
        }
        // Before memory is taken for it: a damaged header may state any length.
        if self.file.len()? < offset + len {
            return Err(self.ends_too_early(offset).into());
        }
        Ok(vec![0; len as usize])
    }

    /// Verifies the block table and all blocks of an extent, without its header.
    ///
    /// # Errors
    /// [`LogError::Damaged`] at the first mismatch.
    pub fn check_payload(self: &Arc<Self>, extent: &ExtentRef) -> Result<(), LogError> {
        let len = u64::from(extent.payload_len);
        let mut reader = ExtentReader::new(self.clone(), *extent);
        let mut buffer = vec![0; len.min(MIB) as usize];
        let mut position = 0;
        while position < len {
            position += reader.read(position, len, &mut buffer)? as u64;
        }
        Ok(())
    }

    /// The footer; `None` while the segment is not sealed.
    ///
    /// # Errors
    /// [`LogError::Damaged`] when the footer is damaged.
    pub fn footer(&self, store: &StoreId) -> Result<Option<Footer>, LogError> {
        let offset = self.file.len()?.saturating_sub(Footer::BYTES as u64);
        if offset < PAGE_BYTES || !offset.is_multiple_of(PAGE_BYTES) {
            return Ok(None);
        }
        let mut page = vec![0; Footer::BYTES];
        let own = self.read_at(&mut page, offset).and_then(|()| self.decode_footer(store, offset, &page));
        let damage = match &own {
            Ok(None) => self.damage(offset, "the segment is sealed on the remote, and has no footer here"),
            Err(LogError::Damaged(damage)) => damage.clone(),
            _ => return own,
        };
        // A segment that is elsewhere is sealed.
        let copied = self.read_copy(&mut page, offset, damage, |page| {
            let footer = self.decode_footer(store, offset, page)?;
            footer.ok_or_else(|| self.damage(offset, "the copy of the segment has no footer").into())
        });
        match copied {
            Err(LogError::Damaged(_)) => own,
            copied => copied.map(Some),
        }
    }

    /// Checks the first page of the segment, or of its copy.
    ///
    /// # Errors
    /// [`LogError::Damaged`]; an error of the kind `Unsupported` where the page is whole, and
    /// only a newer siltstone can read it.
    pub fn check_first_page(&self, store: &StoreId, page: &[u8]) -> Result<(), LogError> {
        check_header(page, FileKind::Segment, self.id, Some(*store)).map(drop)
    }

    /// Checks the last page of the sealed segment, or of its copy.
    ///
    /// # Errors
    /// [`LogError::Damaged`], also where the page is no footer.
    pub fn check_last_page(&self, store: &StoreId, offset: u64, page: &[u8]) -> Result<(), LogError> {
        match self.decode_footer(store, offset, page)? {
            Some(_) => Ok(()),
            None => Err(self.damage(offset, "the footer of a sealed segment is missing").into()),
        }
    }

    fn decode_footer(&self, store: &StoreId, offset: u64, page: &[u8]) -> Result<Option<Footer>, LogError> {
        match Footer::decode(store, page) {
            Ok(footer) if footer == (Footer { segment: self.id, offset }) => Ok(Some(footer)),
            Ok(_) => Err(self.damage(offset, "the footer belongs elsewhere").into()),
            Err(DecodeError::Magic) => Ok(None),
            // Its last sector did not reach the disk: the footer was never synced, and the segment
            // is not sealed.
            Err(_) if page.ends_with(&[0; 4]) => Ok(None),
            Err(error) => Err(self.damage(offset, format!("footer: {error}")).into()),
        }
    }

    /// Fills `out` from `offset` on.
    ///
    /// # Errors
    /// [`LogError::Damaged`] when the segment ends before, or the disk cannot read the bytes.
    pub fn read_at(&self, out: &mut [u8], offset: u64) -> Result<(), LogError> {
        match self.file.read_exact_at(out, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.ends_too_early(offset).into())
            }
            Err(error) => Err(LogError::of_read(error, &self.path(), offset)),
            Ok(()) => Ok(()),
        }
    }

    /// Says that bytes will be read soon.
    ///
    /// # Errors
    /// As of [`Segment::read_at`].
    pub(super) fn will_read(&self, range: Range<u64>) -> Result<ReadAhead, LogError> {
        let start = range.start;
        let Some(elsewhere) = self.file.elsewhere() else { return Ok(None) };
        elsewhere.will_read(range).map_err(|error| LogError::of_read(error, &self.path(), start))
    }

    /// Fills `out` from `offset` on with bytes that pass `check`: with those of their copy where
    /// there is one and the own ones do not pass. Bad bytes are noted then, so that they are
    /// replaced.
    ///
    /// # Errors
    /// Of `check`, of the own bytes where both fail; of the disk, and of the host of the copy. No
    /// byte of `out` may be used then.
    pub(super) fn read_checked<T>(
        &self,
        out: &mut [u8],
        offset: u64,
        check: impl Fn(&[u8]) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        match self.read_at(out, offset).and_then(|()| check(out)) {
            Err(LogError::Damaged(damage)) => self.read_copy(out, offset, damage, check),
            read => read,
        }
    }

    /// Reads the copy of bytes whose own ones have that damage.
    ///
    /// # Errors
    /// The damage, where there is no copy, or one as bad; of the host of the copy.
    pub(super) fn read_copy<T>(
        &self,
        out: &mut [u8],
        offset: u64,
        damage: Damage,
        check: impl Fn(&[u8]) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let Some(elsewhere) = self.file.elsewhere() else { return Err(damage.into()) };
        match elsewhere.read_copy(out, offset) {
            Ok(true) => {}
            Ok(false) => return Err(damage.into()),
            Err(error) => return Err(LogError::of_read(error, &self.path(), offset)),
        }
        match check(out) {
            Err(LogError::Damaged(_)) => Err(damage.into()),
            checked => {
                elsewhere.note_bad(damage.offset, &damage.what, VerifiedCopy { offset, bytes: out });
                checked
            }
        }
    }

    /// Damage in this segment.
    pub fn damage(&self, offset: u64, what: impl Into<String>) -> Damage {
        Damage::new(self.path(), offset, what)
    }

    fn ends_too_early(&self, offset: u64) -> Damage {
        self.damage(offset, "the segment ends before the extent does")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Fs;
    use crate::fs::sim::SimFs;

    const STORE: StoreId = StoreId([1; 16]);
    const AT: u64 = 2 * PAGE_BYTES;

    fn segment(bytes: &[u8]) -> Segment {
        let file = SimFs::new().create("segment").unwrap();
        file.write_all_at(bytes, AT).unwrap();
        Segment { id: 5, file }
    }

    fn footer(footer: Footer, change: impl FnOnce(&mut Vec<u8>)) -> Result<bool, String> {
        let mut page = footer.encode(&STORE);
        change(&mut page);
        let found = segment(&page).footer(&STORE);
        found.map(|footer| footer.is_some()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_partial_footer_seals_nothing_and_a_damaged_one_is_reported() {
        let good = Footer { segment: 5, offset: AT };
        assert_eq!(footer(good, |_| {}), Ok(true));
        assert_eq!(footer(good, |page| page[..512].fill(0)), Ok(false));
        assert_eq!(footer(good, |page| page[3584..].fill(0)), Ok(false));
        assert!(footer(good, |page| page[100] = 1).unwrap_err().contains("footer CRC does not match"));
        for other in [Footer { segment: 6, ..good }, Footer { offset: 0, ..good }] {
            assert!(footer(other, |_| {}).unwrap_err().contains("the footer belongs elsewhere"));
        }
    }

    #[test]
    fn an_extent_with_another_location_is_reported() {
        let header = |segment, offset| ExtentHeader {
            segment,
            offset,
            payload_len: 0,
            descriptor_len: 0,
            check: 0,
            descriptor_crc: 0,
        };
        let read = |header: ExtentHeader| segment(&header.encode(&STORE)).extent(&STORE, AT);
        assert_eq!(read(header(5, AT)).unwrap(), header(5, AT));
        for (id, offset) in [(6, AT), (5, AT + 64)] {
            assert!(read(header(id, offset)).unwrap_err().to_string().contains("the extent belongs to"));
        }
    }
}
