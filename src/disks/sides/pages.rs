//! A file whose second and third page have the same mark, and which is changed where it is (data-format.md,
//! section 24).

use std::io;
use std::sync::Arc;

use crate::base::Timestamp;
use crate::base::limits::PAGE_BYTES;
use crate::disks::DisksError;
use crate::format::{
    DecodeError, Decoded, Features, FileHeader, FileKind, SIDE_MARK_NUMBER, SideMark, StoreId, WitnessMark,
};
use crate::fs::{File, Fs};
use crate::log::{LogError, write_atomically};

/// The pages with the mark.
const PAGES: [u64; 2] = [PAGE_BYTES, 2 * PAGE_BYTES];

/// The content of a page.
pub(super) trait MarkPage: Sized {
    /// Rises with each mark.
    fn number(&self) -> u64;
    fn encode(&self) -> Vec<u8>;
    fn decode(page: &[u8]) -> Decoded<Self>;
}

impl MarkPage for SideMark {
    fn number(&self) -> u64 {
        self.number
    }

    fn encode(&self) -> Vec<u8> {
        self.encode()
    }

    fn decode(page: &[u8]) -> Decoded<Self> {
        Self::decode(page)
    }
}

impl MarkPage for WitnessMark {
    fn number(&self) -> u64 {
        self.number
    }

    fn encode(&self) -> Vec<u8> {
        self.encode()
    }

    fn decode(page: &[u8]) -> Decoded<Self> {
        Self::decode(page)
    }
}

/// The mark that counts.
struct Newest<P> {
    page: P,
    /// The offset of the page to be overwritten first: the other one has this mark.
    next_offset: u64,
}

/// An open file with a mark.
pub(super) struct MarkPages<P> {
    file: Arc<dyn File>,
    newest: Newest<P>,
}

impl<P: MarkPage> MarkPages<P> {
    /// Makes the file `path` in the directory `dir`, or replaces it. Durable on return.
    pub(super) fn create(
        fs: &dyn Fs,
        path: &str,
        dir: &str,
        mirror: StoreId,
        page: P,
        now: Timestamp,
    ) -> Result<Self, LogError> {
        let header = FileHeader {
            kind: FileKind::Log,
            store: mirror,
            number: SIDE_MARK_NUMBER,
            features: Features::MIRRORED,
            created: now,
            previous_crc: 0,
        };
        let file = write_atomically(fs, path, dir, |file| {
            file.write_all_at(&header.encode(), 0)?;
            for offset in PAGES {
                file.write_all_at(&page.encode(), offset)?;
            }
            Ok(())
        })?;
        Ok(Self { file, newest: Newest { page, next_offset: PAGES[0] } })
    }

    /// Opens the file; `None` where there is none. What is read is durable.
    pub(super) fn open(fs: &dyn Fs, path: &str, dir: &str) -> Result<Option<Self>, DisksError> {
        let file = match fs.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        // An earlier process may have been killed before its sync.
        file.sync_data()?;
        fs.sync_dir(dir)?;
        let newest = newest(file.as_ref(), path)?;
        Ok(Some(Self { file, newest }))
    }

    /// The mark that counts, of a file that is not to be written; `None` where there is none.
    pub(super) fn read(fs: &dyn Fs, path: &str) -> Result<Option<P>, DisksError> {
        let file = match fs.open_read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        Ok(Some(newest(file.as_ref(), path)?.page))
    }

    /// The mark that counts.
    pub(super) fn newest(&self) -> &P {
        &self.newest.page
    }

    /// Writes a mark whose number is one higher. It is in force, durably, on return.
    ///
    /// # Errors
    /// Of the disk: either mark may be in force then.
    pub(super) fn write(&mut self, page: P) -> io::Result<()> {
        let bytes = page.encode();
        let [first, second] = PAGES;
        let offset = self.newest.next_offset;
        let other = if offset == first { second } else { first };
        self.write_page(&bytes, offset)?;
        self.newest = Newest { page, next_offset: other };
        // So that damage to the first one does not bring the mark before it back. The mark is in force
        // without this page, too.
        let _ = self.write_page(&bytes, other);
        Ok(())
    }

    fn write_page(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)?;
        self.file.sync_data()
    }
}

fn newest<P: MarkPage>(file: &dyn File, path: &str) -> Result<Newest<P>, DisksError> {
    // After a failed sync the cache may have a page that never reached the disk.
    file.evict()?;
    let bad = |error: DecodeError| DisksError::BadMark(path.to_owned(), error.to_string());
    // Damage to the header is of no matter.
    if let Some(Err(error)) = read_page(file, 0)?.map(|page| FileHeader::decode(&page))
        && error.is_newer()
    {
        return Err(bad(error));
    }
    let [first_offset, second_offset] = PAGES;
    let first = decode_at::<P>(file, first_offset)?;
    let second = decode_at::<P>(file, second_offset)?;
    match (first, second) {
        (Err(error), _) | (_, Err(error)) if error.is_newer() => Err(bad(error)),
        (Err(error), Err(_)) => Err(bad(error)),
        (Ok(page), Err(_)) => Ok(Newest { page, next_offset: second_offset }),
        (Err(_), Ok(page)) => Ok(Newest { page, next_offset: first_offset }),
        (Ok(one), Ok(other)) if one.number() < other.number() => {
            Ok(Newest { page: other, next_offset: first_offset })
        }
        (Ok(page), Ok(_)) => Ok(Newest { page, next_offset: second_offset }),
    }
}

fn decode_at<P: MarkPage>(file: &dyn File, offset: u64) -> io::Result<Decoded<P>> {
    Ok(read_page(file, offset)?.map_or(Err(DecodeError::Short), |page| P::decode(&page)))
}

/// The bytes of a page; `None` where the file is too short, or the disk cannot read them.
fn read_page(file: &dyn File, offset: u64) -> io::Result<Option<Vec<u8>>> {
    let mut page = vec![0; PAGE_BYTES as usize];
    match file.read_exact_at(&mut page, offset) {
        Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) => {
            Ok(None)
        }
        read => read.map(|()| Some(page)),
    }
}
