//! Writing checkpoints while the store is in use (data-format.md, section 8).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use crossbeam_channel::Receiver;

use crate::format::{FileKind, checkpoint_path, log_path};
use crate::index::{Cursor, Index};
use crate::log::{CheckpointWriter, LogError, list_numbers};
use crate::store::StoreError;
use crate::store::shared::{Published, Shared};

/// Checkpoints that are kept.
pub(super) const GENERATIONS: usize = 2;
/// Keys that are copied out of the index at a time.
const KEYS_AT_ONCE: usize = 256;

/// Starts the thread that writes a checkpoint for each request; requests that pile up are one.
pub(super) fn start(shared: Arc<Shared>, requests: Receiver<()>) -> JoinHandle<()> {
    let run = move || {
        while requests.recv().is_ok() {
            while requests.try_recv().is_ok() {}
            if let Err(error) = write(&shared) {
                log::warn!(
                    "no checkpoint was written, so that the log grows and the next start takes longer: {error}"
                );
            }
        }
    };
    thread::Builder::new()
        .name("checkpointer".into())
        .spawn(run)
        .expect("a thread can be started at start-up")
}

/// How much the log may grow before the next checkpoint: as much as the last one holds, so that writing checkpoints costs
/// no more than writing the log.
pub(super) fn due_after(shared: &Shared) -> u64 {
    shared.options.checkpoint_after_bytes.max(shared.checkpoint_len.load(Ordering::Relaxed))
}

/// Writes a checkpoint of what is published, and removes what it makes superfluous. Nothing happens when there is nothing
/// new since the last one.
///
/// The order: the new checkpoint is durable under its name before an older one goes, and log files go last, oldest
/// first, so that at every moment a start finds a checkpoint and all of the log behind it.
pub(super) fn write(shared: &Shared) -> Result<(), StoreError> {
    let _one_at_a_time = shared.checkpointing.lock().expect("nobody panics while holding it");
    shared.check_writable()?;
    // The stamps are asked last: those of all that is published have been given by then.
    let Published { index, sequence: covered, .. } = shared.published();
    let last_stamp = shared.stamps.last();
    let existing = good_checkpoints(shared).map_err(|error| shared.failed(error))?;
    if existing.last().copied().unwrap_or(0) >= covered {
        return Ok(());
    }
    let fs = shared.fs.as_ref();
    let len = CheckpointWriter::write(fs, shared.store, shared.clock.now(), covered, &mut |writer| {
        feed(&index, writer)?;
        Ok(writer.end(covered, last_stamp))
    })
    .map_err(|error| shared.write_failed(error))?;
    shared.checkpoint_len.store(len, Ordering::Relaxed);
    remove_superfluous(shared).map_err(|error| shared.write_failed(error))
}

/// Puts in the whole index, a few keys at a time. Commits go on: what they publish does not show in it.
fn feed(index: &Index, writer: &mut CheckpointWriter<'_>) -> Result<(), LogError> {
    let (mut cursor, mut entries) = (Cursor::Start, Vec::new());
    while index.walk_encoded(&mut cursor, KEYS_AT_ONCE, &mut entries) {
        writer.put_encoded(&entries)?;
    }
    Ok(())
}

/// The sequences that checkpoints cover, ascending, but for those that the start found damaged.
fn good_checkpoints(shared: &Shared) -> Result<Vec<u64>, LogError> {
    let mut checkpoints = list_numbers(shared.fs.as_ref(), FileKind::Checkpoint)?;
    checkpoints.retain(|number| !shared.is_damaged(&checkpoint_path(*number)));
    Ok(checkpoints)
}

fn remove_superfluous(shared: &Shared) -> Result<(), LogError> {
    let fs = shared.fs.as_ref();
    let Some(oldest_kept) = good_checkpoints(shared)?.iter().rev().nth(GENERATIONS - 1).copied() else {
        return Ok(());
    };
    for number in list_numbers(fs, FileKind::Checkpoint)?.iter().filter(|number| **number < oldest_kept) {
        fs.remove(&checkpoint_path(*number))?;
    }
    // A log file is superfluous when the next one starts no later than right behind the checkpoint.
    let logs = list_numbers(fs, FileKind::Log)?;
    for pair in logs.windows(2).filter(|pair| pair[1] <= oldest_kept + 1) {
        fs.remove(&log_path(pair[0]))?;
    }
    Ok(fs.sync_dir(FileKind::Log.dir())?)
}
