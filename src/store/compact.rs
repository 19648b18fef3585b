//! Making a store as small as it can be while nobody uses it.

use std::io;
use std::sync::Arc;

use thiserror::Error;

use crate::base::limits::{KIB, MIB};
use crate::base::{Clock, Entropy};
use crate::format::FileKind;
use crate::fs::Fs;
use crate::log::{Damage, list_numbers};
use crate::store::loader::store_id;
use crate::store::reclaim::ReclaimPolicy;
use crate::store::{OpenError, Store, StoreError, StoreOptions};

/// The log goes on in a new file when it has grown to this, so that the one before can go.
const LOG_FILE_MAX_BYTES: u64 = 64 * KIB;
/// What is needed beside the copies: new files, and the log of what was moved.
const ROOM_BESIDE_BYTES: u64 = 4 * MIB;

/// What a store takes up, in bytes that are allocated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Segments.
    pub segments: u64,
    /// Bytes of them.
    pub data_bytes: u64,
    /// Bytes of checkpoints and log.
    pub metadata_bytes: u64,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compacted {
    /// What the store took up.
    pub before: Footprint,
    /// What it takes up now.
    pub after: Footprint,
    /// Bytes of extents that versions and parts refer to.
    pub live_bytes: u64,
    /// Bytes of extents that were moved.
    pub moved_bytes: u64,
    /// Whether it was stopped before the end. Going on later loses nothing.
    pub stopped: bool,
    /// What is damaged, and therefore was left where it is.
    pub damage: Vec<Damage>,
}

/// How far it has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactProgress {
    /// Bytes of extents that were moved.
    pub moved_bytes: u64,
    /// About as many as will be.
    pub total_bytes: u64,
}

/// Why a store was not made smaller. Nothing was lost.
#[derive(Debug, Error)]
pub enum CompactError {
    /// There is no store.
    #[error("there is no store in it: no segment, no log and no checkpoint")]
    NotAStore,
    /// It cannot be opened.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// It takes no writes, and what is damaged may be needed to tell what lives.
    #[error("the store is damaged and was left as it is: {0}")]
    Damaged(String),
    /// There is too little room for the copies.
    #[error("{needed} bytes must be free on its file system, and {free} are")]
    NoRoom {
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// What went wrong underway.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The disk failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Makes a store as small as it can be: all that lives stands side by side in segments that hold nothing else, and a new
/// checkpoint takes the place of the log. `go_on` is asked between two steps, and told how far it has got.
///
/// # Why it may be stopped at any time
///
/// There is no moment in which one store is switched for another. Each step is one of [`Store::reclaim`], which is safe beside
/// clients and safe against crashes: copies are durable before one group of the log lets records refer to them,
/// and only what nothing refers to goes. So the store is whole after every step, kill -9 and power cuts are like the same things beside a
/// server, and the next attempt goes on with what is left. A second store beside the first, with one rename at the end, would take
/// twice the room and lose all of the work when it is interrupted.
///
/// # Errors
/// [`CompactError`]. What was done before an error stays done.
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
    let mut done = Compacted { before: footprint(fs.as_ref())?, ..Compacted::default() };
    check_room(&store, &done.before)?;
    done.stopped = !empty_segments(&store, go_on)?;
    store.renew_log()?;
    store.close();
    let health = store.health();
    (done.live_bytes, done.moved_bytes, done.damage) = (health.live_bytes, health.moved_bytes, health.damage);
    drop(store);
    done.after = footprint(fs.as_ref())?;
    Ok(done)
}

/// At the least, the fullest of the segments that have to be emptied must fit beside all others: each makes room for the
/// next. And so must a checkpoint, which is not longer than the metadata that there is.
fn check_room(store: &Store, before: &Footprint) -> Result<(), CompactError> {
    let fullest = {
        let index = store.shared.index();
        index.liveness().iter().map(|(_, live)| live).max().unwrap_or(0)
    };
    let needed = fullest + before.metadata_bytes + ROOM_BESIDE_BYTES;
    let free = store.shared.fs.space()?.free_bytes;
    if free < needed { Err(CompactError::NoRoom { needed, free }) } else { Ok(()) }
}

/// Whether it came to its end.
fn empty_segments(
    store: &Store,
    go_on: &mut dyn FnMut(CompactProgress) -> bool,
) -> Result<bool, CompactError> {
    store.shared.segments.retire(|_| true);
    let total_bytes = store.health().live_bytes;
    loop {
        let more = store.reclaim_by(ReclaimPolicy::OFFLINE)?.more;
        if !more {
            // What was moved last is sealed, too.
            let index = store.shared.index();
            store.shared.segments.retire(|id| index.liveness().of(id) > 0);
            drop(index);
            store.shared.segments.seal_retired().map_err(|error| store.shared.write_failed(error))?;
            return Ok(true);
        }
        if !go_on(CompactProgress { moved_bytes: store.health().moved_bytes, total_bytes }) {
            return Ok(false);
        }
    }
}

impl Store {
    /// Writes two checkpoints, each behind a group of its own, so that the log before them can go.
    fn renew_log(&self) -> Result<(), StoreError> {
        for _ in 0..2 {
            self.committer.write_idle_group()?;
            self.checkpoint()?;
        }
        Ok(())
    }
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
