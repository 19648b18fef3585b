//! Write heads: the segments that are appended to, one for each kind of writer.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Segment, Segments};
use crate::base::NOT_POISONED;
use crate::fs::{DiskPlace, Fs};
use crate::log::{LogError, SpaceClaim};

/// The kinds of writers. Each appends to a segment of its own: a sync waits for everything that was
/// written to the file, and a commit of small objects must not wait for gigabytes of upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteHead {
    /// Small objects, packed and synced by the committer.
    Small,
    /// Large objects, written and synced by the thread that receives them.
    Large,
    /// Extents that are moved out of mostly dead segments. They have outlived others already, so
    /// they are kept apart from new ones. This head may use part of the space that is kept free
    /// ([`SpaceClaim::Upkeep`]), because relocation reclaims space.
    Relocation,
}

impl WriteHead {
    pub(super) const ALL: [Self; 3] = [Self::Small, Self::Large, Self::Relocation];

    /// The disk on which its segments begin, where there are two.
    pub(super) fn place(self) -> DiskPlace {
        match self {
            Self::Small => DiskPlace::Fast,
            Self::Large | Self::Relocation => DiskPlace::Bulk,
        }
    }

    pub(super) fn claim(self) -> SpaceClaim {
        match self {
            Self::Small | Self::Large => SpaceClaim::Growth,
            Self::Relocation => SpaceClaim::Upkeep,
        }
    }
}

/// Space for one extent or pack. While any allocation in a segment is held, the segment is neither
/// sealed nor removed: a writer keeps it until the bytes are published or abandoned.
pub struct Allocation {
    /// The segment.
    pub segment: Arc<Segment>,
    /// The first byte; the start of a page.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    pub(super) _writing: Arc<()>,
}

impl Allocation {
    /// Overwrites an unreferenced extent with zeros. Durable on return.
    ///
    /// # Errors
    /// Of the disk.
    pub fn erase(&self) -> Result<(), LogError> {
        self.segment.file.write_zeros(self.offset, self.len)?;
        Ok(self.segment.file.sync_data()?)
    }
}

/// A segment that a write head appends to, or did before it was retired.
pub(super) struct ActiveSegment {
    pub(super) segment: Arc<Segment>,
    /// The disk that it is on.
    pub(super) place: DiskPlace,
    /// Where the next allocation starts.
    pub(super) end: u64,
    /// The end of the preallocated space.
    pub(super) reserved_to: u64,
    /// The end of the zeros that were written, where that is after `end`.
    pub(super) zeroed_to: u64,
    /// A second reference exists while an [`Allocation`] is held.
    pub(super) writing: Arc<()>,
}

impl ActiveSegment {
    /// A segment that ends at `end`, with nothing preallocated.
    pub(super) fn new(segment: Arc<Segment>, place: DiskPlace, end: u64) -> Self {
        Self { segment, place, end, reserved_to: end, zeroed_to: end, writing: Arc::default() }
    }

    pub(super) fn is_written_to(&self) -> bool {
        Arc::strong_count(&self.writing) > 1
    }

    /// Truncates the zeros after the end. Not durable yet.
    pub(super) fn trim_zeros(&self) -> io::Result<()> {
        self.segment.file.truncate(self.end)
    }
}

/// The segments that the write heads append to, and the retired ones that are not sealed yet.
#[derive(Default)]
pub(super) struct ActiveSegments {
    heads: [Mutex<Option<ActiveSegment>>; WriteHead::ALL.len()],
    /// Locked after a head, never before one.
    retired: Mutex<Vec<ActiveSegment>>,
}

impl ActiveSegments {
    pub(super) fn head(&self, head: WriteHead) -> MutexGuard<'_, Option<ActiveSegment>> {
        self.heads[head as usize].lock().expect(NOT_POISONED)
    }

    pub(super) fn retired(&self) -> MutexGuard<'_, Vec<ActiveSegment>> {
        self.retired.lock().expect(NOT_POISONED)
    }
}

impl Segments {
    /// The file system that a head writes through; the head of relocation counts its bytes apart.
    pub(super) fn fs_of(&self, head: WriteHead) -> &dyn Fs {
        match head {
            WriteHead::Small | WriteHead::Large => self.fs.as_ref(),
            WriteHead::Relocation => self.relocation_fs.as_ref(),
        }
    }
}
