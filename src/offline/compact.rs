//! Compacting a store without clients to its smallest size.

use std::io;
use std::sync::Arc;

use thiserror::Error;

use crate::base::limits::{KIB, MIB};
use crate::base::{Clock, Entropy};
use crate::format::FileKind;
use crate::fs::{DiskPlace, Fs};
use crate::log::{Damage, list_numbers};
use crate::store::open::loader::store_id;
use crate::store::{OpenError, Store, StoreError, StoreOptions};

/// The length at which the log continues in a new file, so that the old one can go.
const LOG_FILE_MAX_BYTES: u64 = 64 * KIB;
/// Space needed besides the copies: new files, and the log of the relocation.
const ROOM_BESIDE_BYTES: u64 = 4 * MIB;

/// The size of a store, in allocated bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Segments.
    pub segments: u64,
    /// Their bytes.
    pub data_bytes: u64,
    /// Bytes of checkpoints and log.
    pub metadata_bytes: u64,
}

/// The result of a compaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The size before.
    pub before: Footprint,
    /// The size after.
    pub after: Footprint,
    /// Bytes of extents that versions and parts refer to.
    pub live_bytes: u64,
    /// Bytes of relocated extents.
    pub moved_bytes: u64,
    /// Whether it was interrupted. Nothing is lost, and another call continues.
    pub stopped: bool,
    /// Damaged extents, which stay where they are.
    pub damage: Vec<Damage>,
}

/// The progress of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactProgress {
    /// Bytes relocated so far.
    pub moved_bytes: u64,
    /// An estimate of all bytes to relocate.
    pub total_bytes: u64,
}

/// The reason for a failed compaction. Nothing was lost.
#[derive(Debug, Error)]
pub enum CompactError {
    /// There is no store.
    #[error("there is no store in it: no segment, no log and no checkpoint")]
    NotAStore,
    /// The store cannot be opened.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// The store is read-only, and the damaged part may say which bytes are live.
    #[error("the store is damaged and was not changed: {0}")]
    Damaged(String),
    /// The bytes of segments are on a remote. The server compacts them online.
    #[error(
        "the bytes of {0} segments are on a remote, so that only the server can compact: it does so while it runs"
    )]
    Remote(u64),
    /// There is too little space for the copies.
    #[error("{needed} bytes must be free on its file system, but only {free} are")]
    NoRoom {
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// An operation failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The disk failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Compacts a store to its smallest size: all live extents are together in segments without dead
/// bytes, and a new checkpoint replaces the log. `go_on` is called between two steps with the
/// progress; `false` interrupts.
///
/// # Why it may be stopped at any time
///
/// The store is never switched for another one. Each step is a step of [`Store::reclaim`], which is
/// safe beside clients and safe against crashes: copies are durable before one group of the log
/// makes records refer to them, and only dead bytes go. So the store is complete after every step,
/// also after kill -9 and power cuts, and the next attempt continues. A second store with one
/// rename at the end would take twice the space and lose all work on an interruption.
///
/// # Errors
/// [`CompactError`]. The steps before an error stay done.
pub fn compact(
    fs: &Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    entropy: &dyn Entropy,
    segment_max_bytes: u64,
    go_on: &mut dyn FnMut(CompactProgress) -> bool,
) -> Result<Compacted, CompactError> {
    if store_id(fs.as_ref()).map_err(OpenError::from)?.is_none() {
        return Err(CompactError::NotAStore);
    }
    let options = StoreOptions {
        segment_max_bytes,
        log_file_max_bytes: LOG_FILE_MAX_BYTES,
        keep_free_bytes: 0,
        idle_group_after: None,
        ..StoreOptions::default()
    };
    let store = Store::open(fs.clone(), clock, entropy, options)?;
    if let Some(why) = store.health().read_only {
        return Err(CompactError::Damaged(why));
    }
    if store.remote_segments() > 0 {
        return Err(CompactError::Remote(store.remote_segments()));
    }
    let mut done = Compacted { before: footprint(fs.as_ref())?, ..Compacted::default() };
    check_room(&store, fs.as_ref(), &done.before)?;
    let total_bytes = store.health().live_bytes;
    let is_emptied =
        store.empty_segments(&mut |moved_bytes| go_on(CompactProgress { moved_bytes, total_bytes }))?;
    done.stopped = !is_emptied;
    store.renew_log()?;
    store.close();
    let health = store.health();
    (done.live_bytes, done.moved_bytes, done.damage) = (health.live_bytes, health.moved_bytes, health.damage);
    drop(store);
    done.after = footprint(fs.as_ref())?;
    Ok(done)
}

/// Checks for the space of the fullest segment, since each emptied segment makes space for the
/// next, and for a checkpoint, which is at most as long as the current metadata.
fn check_room(store: &Store, fs: &dyn Fs, before: &Footprint) -> Result<(), CompactError> {
    let needed = store.fullest_segment_bytes() + before.metadata_bytes + ROOM_BESIDE_BYTES;
    // The large disk gets the copies, where there are two.
    let free = fs.space_on(DiskPlace::Bulk)?.free_bytes;
    if free < needed { Err(CompactError::NoRoom { needed, free }) } else { Ok(()) }
}

fn footprint(fs: &dyn Fs) -> io::Result<Footprint> {
    let mut found = Footprint::default();
    for kind in FileKind::ALL {
        for number in list_numbers(fs, kind)? {
            let bytes = fs.open_read(&kind.path(number))?.usage()?.allocated_bytes;
            match kind {
                FileKind::Segment => {
                    found.segments += 1;
                    found.data_bytes += bytes;
                }
                FileKind::Log | FileKind::Checkpoint => found.metadata_bytes += bytes,
            }
        }
    }
    Ok(found)
}
