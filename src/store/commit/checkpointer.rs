//! The checkpointer: writes checkpoints while the store is in use (data-format.md, section 8), and
//! removes the files that they make obsolete.

use std::io;
use std::sync::{Arc, MutexGuard};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::format::{FileKind, checkpoint_path, log_path};
use crate::index::{Cursor, Index};
use crate::log::{CheckpointPlan, CheckpointWriter, LogError, SpaceClaim, list_numbers, read_checkpoint};
use crate::store::shared::followers::keeps_log_from;
use crate::store::shared::{LogShipping, Published, SharedStore};
use crate::store::{StoreError, ThreadWatch};

/// Checkpoints that are kept, unless disk space is short.
pub(crate) const GENERATIONS: usize = 2;
/// Checkpoints that are kept if disk space is short.
const GENERATIONS_WHEN_SHORT: usize = 1;
/// The log that is kept for followers alone if disk space is short.
const NOTHING_FOR_FOLLOWERS: u64 = 0;
/// Keys that are encoded at a time.
const KEYS_AT_ONCE: usize = 256;
/// A checkpoint for growth must free at least this share of its own length.
const WORTH_SHARE: u64 = 4;

/// A request to the thread.
enum CheckpointerRequest {
    /// Write a checkpoint, if one is still due.
    Due,
    /// Free the disk space of obsolete metadata.
    Room(RoomRequest),
}

/// The disk space that a claim lacks.
pub(in crate::store) struct RoomRequest {
    claim: SpaceClaim,
    /// Bytes beyond the reserve of the claim.
    bytes: u64,
    /// Dropped when the request has been served.
    _done: Option<Sender<()>>,
}

/// The thread that writes checkpoints.
pub(in crate::store) struct Checkpointer {
    requests: Sender<CheckpointerRequest>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    pub(in crate::store) fn start(shared: Arc<SharedStore>) -> Self {
        // One request waits at most: those after it would be served by the same checkpoint.
        let (requests, inbox) = bounded(1);
        let thread = thread::Builder::new()
            .name("checkpointer".into())
            .spawn(move || run(&shared, &inbox))
            .expect("a thread can be started at start-up");
        Self { requests, thread }
    }

    /// Whether no request is queued.
    pub(in crate::store) fn is_free(&self) -> bool {
        self.requests.is_empty()
    }

    /// Requests a checkpoint.
    pub(in crate::store) fn request(&self) {
        // If the queue is full, the request is repeated after the next group.
        let _ = self.requests.try_send(CheckpointerRequest::Due);
    }

    /// Requests disk space without waiting.
    pub(in crate::store) fn request_room(&self, claim: SpaceClaim) {
        let _ =
            self.requests.try_send(CheckpointerRequest::Room(RoomRequest { claim, bytes: 0, _done: None }));
    }

    /// Requests disk space and waits until the request has been served.
    pub(in crate::store) fn wait_for_room(&self, claim: SpaceClaim, bytes: u64) {
        let (done, waiting) = bounded(0);
        let wanted = RoomRequest { claim, bytes, _done: Some(done) };
        if self.requests.send(CheckpointerRequest::Room(wanted)).is_ok() {
            // The sender is dropped, never used.
            let _ = waiting.recv();
        }
    }

    /// Ends the thread after all requests.
    pub(in crate::store) fn end(self) {
        drop(self.requests);
        if self.thread.join().is_err() {
            log::error!("the checkpointer panicked");
        }
    }
}

fn run(shared: &Arc<SharedStore>, inbox: &Receiver<CheckpointerRequest>) {
    let _watch = ThreadWatch::new(Arc::clone(shared), "checkpointer");
    while let Ok(request) = inbox.recv() {
        let done = match &request {
            CheckpointerRequest::Due if !is_due(shared) => Ok(()),
            CheckpointerRequest::Due => write(shared),
            CheckpointerRequest::Room(wanted) => make_room(shared, wanted),
        };
        if let Err(error) = done {
            log::warn!(
                "no checkpoint was written, so that the log grows and the next start takes longer: {error}"
            );
        }
    }
}

/// Whether the log has grown enough since the last checkpoint for another.
pub(in crate::store) fn is_due(shared: &SharedStore) -> bool {
    shared.backlog.is_due(shared.options.checkpoint_after_bytes)
}

/// Writes a checkpoint of the published index, and removes the files that it makes obsolete. Does
/// nothing if there is no new group since the last checkpoint.
///
/// # Errors
/// [`StoreError::DiskFull`] before the first write, if there is no space; errors of the disk.
pub(in crate::store) fn write(shared: &SharedStore) -> Result<(), StoreError> {
    let _one_at_a_time = lock(shared)?;
    write_locked(shared)
}

/// Waits until no other thread writes a checkpoint.
///
/// # Errors
/// A thread panicked while it wrote one, so that the space set aside for checkpoints is unknown
/// until a restart.
fn lock(shared: &SharedStore) -> Result<MutexGuard<'_, ()>, StoreError> {
    shared.checkpointing.lock().map_err(|_| StoreError::Io("an earlier checkpoint panicked".to_owned()))
}

/// Frees disk space of the metadata until the claim has enough: first the older checkpoint, then
/// all files that a new checkpoint makes obsolete.
fn make_room(shared: &SharedStore, wanted: &RoomRequest) -> Result<(), StoreError> {
    let _one_at_a_time = lock(shared)?;
    shared.check_writable()?;
    let lacks_room = || shared.lacks_room(wanted.claim, wanted.bytes).map_err(|error| shared.failed(error));
    if lacks_room()? {
        drop_older_generation(shared).map_err(|error| shared.write_failed(error))?;
    }
    if lacks_room()? && is_worth_it(shared, wanted).map_err(|error| shared.failed(error))? {
        return write_locked(shared);
    }
    Ok(())
}

/// Whether a checkpoint would free enough space for the claim. For claims other than removal it
/// must also free enough to be worth its own writes.
fn is_worth_it(shared: &SharedStore, wanted: &RoomRequest) -> Result<bool, LogError> {
    let reserve = shared.segments.reserve();
    let checkpoint = reserve.checkpoint_bytes();
    let given_back = obsolete_bytes(shared)?.saturating_sub(checkpoint);
    let free = shared.segments.free_bytes()? + given_back;
    let enough = free >= reserve.bytes_kept_free(wanted.claim).saturating_add(wanted.bytes);
    Ok(enough && (wanted.claim == SpaceClaim::Removal || given_back >= checkpoint / WORTH_SHARE))
}

/// The allocated bytes of all metadata files, except the current log file.
fn obsolete_bytes(shared: &SharedStore) -> Result<u64, LogError> {
    let fs = shared.fs.as_ref();
    let mut logs = list_numbers(fs, FileKind::Log)?;
    logs.pop();
    let checkpoints = list_numbers(fs, FileKind::Checkpoint)?;
    let paths = logs.into_iter().map(log_path).chain(checkpoints.into_iter().map(checkpoint_path));
    let mut bytes = 0;
    for path in paths {
        bytes += fs.open_read(&path)?.usage()?.allocated_bytes;
    }
    Ok(bytes)
}

/// Writes a checkpoint under the lock. At every moment a start finds a checkpoint and all of the log
/// after it.
fn write_locked(shared: &SharedStore) -> Result<(), StoreError> {
    shared.check_writable()?;
    // 1. Before the snapshot: a group that comes in between counts for the next checkpoint, although
    //    this one may cover it. The other way round, a group would count for none.
    shared.backlog.begin();
    // 2. The new checkpoint is durable under its name.
    let written = write_published(shared);
    let reserve = shared.segments.reserve();
    shared.backlog.end(written.as_ref().ok().copied(), reserve);
    // 3. Only then older ones are removed, and last the log files, the oldest first: a crash in
    //    between leaves files that are not needed, and no gap.
    let removed = written.and_then(|_| remove_obsolete(shared));
    // 4. Until now the allocated bytes of the file counted as reserved; the removals take effect only
    //    now.
    reserve.set_allocated(0);
    removed.map_err(|error| match &error {
        // A passed deadline is no error of the disk.
        LogError::Io(why) if why.kind() == io::ErrorKind::TimedOut => shared.failed(error),
        _ => shared.write_failed(error),
    })
}

/// Writes the checkpoint unless it exists already. Returns its length.
fn write_published(shared: &SharedStore) -> Result<u64, LogError> {
    // The last id is read after the index: by then, all ids in the index have been generated.
    let Published { index, sequence: covered, .. } = shared.published();
    let last_stamp = shared.ids.last();
    if covered == 0 {
        return Ok(0);
    }
    let fs = shared.fs.as_ref();
    if let Some(newest) = good_checkpoints(shared)?.last().filter(|newest| **newest >= covered) {
        return Ok(fs.open_read(&checkpoint_path(*newest))?.len()?);
    }
    let expected_len = shared.segments.reserve().checkpoint_bytes();
    ensure_room(shared, expected_len)?;
    let now = shared.clock.now();
    let check_abort = &|| shared.check_close_deadline();
    let plan = CheckpointPlan { covered, features: index.features(), expected_len, check_abort };
    let len = CheckpointWriter::write(fs, shared.store, now, &plan, &mut |writer| {
        shared.segments.reserve().set_allocated(writer.allocated_bytes()?);
        feed(&index, writer)?;
        let mut written = Vec::new();
        shared.write_counters.lifetime().encode_entry(&mut written);
        writer.put_encoded(&written)?;
        Ok(writer.end(covered, last_stamp))
    })?;
    shared.set_newest_checkpoint(now);
    Ok(len)
}

/// Writes the whole index, a few keys at a time. Commits go on; the snapshot does not change.
fn feed(index: &Index, writer: &mut CheckpointWriter<'_>) -> Result<(), LogError> {
    let mut cursor = Cursor::Start;
    let mut entries = Vec::new();
    while index.walk_encoded(&mut cursor, KEYS_AT_ONCE, &mut entries) {
        writer.put_encoded(&entries)?;
    }
    Ok(())
}

/// Writes a checkpoint in the place of a damaged file of the log or of a damaged checkpoint, which
/// has been reported, and removes that file. Returns whether it is gone: groups that the remote
/// lacks stay. Durable on return.
///
/// A damaged group is not needed any more where the new checkpoint covers it, and neither is what
/// only an older checkpoint needs, which would need the damaged group.
///
/// # Errors
/// As of [`write`].
pub(in crate::store) fn replace_damaged(shared: &SharedStore, path: &str) -> Result<bool, StoreError> {
    let _one_at_a_time = lock(shared)?;
    write_locked(shared)?;
    remove_damaged(shared, path).map_err(|error| shared.write_failed(error))
}

fn remove_damaged(shared: &SharedStore, path: &str) -> Result<bool, LogError> {
    let fs = shared.fs.as_ref();
    let checkpoints = list_numbers(fs, FileKind::Checkpoint)?;
    if checkpoints.iter().any(|number| checkpoint_path(*number) == path) {
        fs.remove(path)?;
        fs.sync_dir(FileKind::Checkpoint.dir())?;
        return Ok(true);
    }
    keep_newest_alone(shared)?;
    Ok(!list_numbers(fs, FileKind::Log)?.iter().any(|number| log_path(*number) == path))
}

/// Fails if there is no space for a checkpoint, even after the older one is removed.
fn ensure_room(shared: &SharedStore, len: u64) -> Result<(), LogError> {
    if shared.segments.free_bytes()? < len {
        drop_older_generation(shared)?;
    }
    let free = shared.segments.free_bytes()?;
    if free >= len {
        return Ok(());
    }
    let what = format!("a checkpoint takes up to {len} bytes, and {free} are free");
    Err(LogError::DiskFull(io::Error::new(io::ErrorKind::StorageFull, what)))
}

/// Removes the log that only followers need, and all checkpoints but the newest, after that one has
/// been read from the disk and verified.
fn drop_older_generation(shared: &SharedStore) -> Result<(), LogError> {
    // The log of followers goes first: they can start over, and the older checkpoint cannot be made
    // again.
    keep_newest(shared, GENERATIONS, NOTHING_FOR_FOLLOWERS)?;
    if good_checkpoints(shared)?.len() > 1 { keep_newest_alone(shared) } else { Ok(()) }
}

/// Removes all checkpoints but the newest, and the log before that one, after it has been read from
/// the disk and verified.
fn keep_newest_alone(shared: &SharedStore) -> Result<(), LogError> {
    let Some(newest) = good_checkpoints(shared)?.last().copied() else {
        return Ok(());
    };
    let fs = shared.fs.as_ref();
    // From the disk, and not from the page cache, which may hold what the disk has lost: the older
    // checkpoint is about to go, and this one has to do alone.
    fs.open_read(&checkpoint_path(newest))?.evict()?;
    match read_checkpoint(fs, shared.store, newest, &mut |_| Ok(())) {
        Ok(_) => keep_newest(shared, GENERATIONS_WHEN_SHORT, NOTHING_FOR_FOLLOWERS),
        Err(LogError::Damaged(damage)) => {
            shared.report(&damage);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// The sequences of all checkpoints without known damage, ascending.
fn good_checkpoints(shared: &SharedStore) -> Result<Vec<u64>, LogError> {
    let mut checkpoints = list_numbers(shared.fs.as_ref(), FileKind::Checkpoint)?;
    checkpoints.retain(|number| !shared.is_damaged(&checkpoint_path(*number)));
    Ok(checkpoints)
}

/// Removes the files that the newest checkpoint, which has been read back, makes obsolete.
fn remove_obsolete(shared: &SharedStore) -> Result<(), LogError> {
    keep_newest(shared, GENERATIONS, shared.options.follow_max_bytes)?;
    if shared.lacks_room(SpaceClaim::Growth, 0)? {
        keep_newest(shared, GENERATIONS_WHEN_SHORT, NOTHING_FOR_FOLLOWERS)
    } else {
        Ok(())
    }
}

/// Removes all checkpoints but the newest `kept`, and the log files that only the others need, or
/// that followers need in addition to `follow_max_bytes` of files.
fn keep_newest(shared: &SharedStore, kept: usize, follow_max_bytes: u64) -> Result<(), LogError> {
    let fs = shared.fs.as_ref();
    let Some(oldest_kept) = good_checkpoints(shared)?.iter().rev().nth(kept - 1).copied() else {
        return Ok(());
    };
    // Damaged ones, too: the good ones alone are counted among those that are kept.
    for number in list_numbers(fs, FileKind::Checkpoint)?.iter().filter(|number| **number < oldest_kept) {
        fs.remove(&checkpoint_path(*number))?;
    }
    // A log file is obsolete if the next one begins no later than the group after the checkpoint.
    let logs = list_numbers(fs, FileKind::Log)?;
    // Groups that the remote lacks stay in any case.
    let needed_from = shared.shipping().map_or(u64::MAX, LogShipping::keeps_log_from).min(oldest_kept + 1);
    let kept_from = keeps_log_from(shared, &logs, needed_from, follow_max_bytes)?;
    // The oldest first: a crash in between leaves a log without a gap. The last file always stays.
    for pair in logs.windows(2).filter(|pair| pair[1] <= kept_from) {
        fs.remove(&log_path(pair[0]))?;
        shared.followers.set_log_from(pair[1]);
    }
    Ok(fs.sync_dir(FileKind::Log.dir())?)
}
