//! Applying many groups of the log at a time.
//!
//! Changes of different keys are independent: any order gives the same index, as long as the
//! changes of one key keep theirs. Sorted by key, they visit each leaf of the index once, in the
//! processor's cache, which takes a fraction of the time. Changes of buckets are never reordered.

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::base::limits::MIB;
use crate::format::{Entry, Group};
use crate::index::{ApplyError, Index};

/// The most entries that are sorted together, and the most bytes. In memory they take some times as
/// much.
const ENTRIES_AT_ONCE: usize = 64 * 1024;
const BYTES_AT_ONCE: usize = 8 * MIB as usize;
/// The most entries of a chunk, and the most bytes.
const CHUNK_ENTRIES: usize = 4096;
const CHUNK_BYTES: usize = MIB as usize;
/// The capacity of the channel in chunks.
const CHUNKS_AHEAD: usize = 2;

/// The sending end, for the thread that reads the log.
pub(in crate::store) struct EntrySender {
    chunks: Sender<EntryChunk>,
    chunk: EntryChunk,
}

/// The receiving end, for the thread that applies the entries.
pub(in crate::store) struct EntryReceiver(Receiver<EntryChunk>);

#[derive(Default)]
struct EntryChunk {
    entries: Vec<Entry>,
    bytes: usize,
}

/// The two ends of a channel for entries.
pub(in crate::store) fn channel() -> (EntrySender, EntryReceiver) {
    let (chunks, receiver) = bounded(CHUNKS_AHEAD);
    (EntrySender { chunks, chunk: EntryChunk::default() }, EntryReceiver(receiver))
}

impl EntrySender {
    /// Sends a group; `false` if the receiver has failed.
    pub(in crate::store) fn send_group(&mut self, group: Group) -> bool {
        self.chunk.bytes += group.body_len;
        // Notes change nothing, and would part the changes of keys.
        let changes = group.entries.into_iter().filter(|entry| !entry.is_note());
        self.chunk.entries.extend(changes);
        let full = self.chunk.entries.len() >= CHUNK_ENTRIES || self.chunk.bytes >= CHUNK_BYTES;
        !full || self.send_chunk()
    }

    /// Sends the last chunk.
    pub(in crate::store) fn finish(mut self) {
        // The receiver returns its own error if it has failed.
        self.send_chunk();
    }

    fn send_chunk(&mut self) -> bool {
        self.chunks.send(std::mem::take(&mut self.chunk)).is_ok()
    }
}

impl EntryReceiver {
    /// Applies all entries.
    ///
    /// # Errors
    /// The first contradictory entry. The index is unusable then.
    pub(in crate::store) fn apply_to(self, index: &mut Index) -> Result<(), ApplyError> {
        let mut pending = EntryChunk::default();
        for chunk in self.0 {
            pending.bytes += chunk.bytes;
            pending.entries.extend(chunk.entries);
            if pending.entries.len() >= ENTRIES_AT_ONCE || pending.bytes >= BYTES_AT_ONCE {
                apply(index, &pending.entries)?;
                pending = EntryChunk::default();
            }
        }
        apply(index, &pending.entries)
    }
}

/// Applies entries in the order of their keys, but never across a change of a bucket.
fn apply(index: &mut Index, entries: &[Entry]) -> Result<(), ApplyError> {
    for run in entries.chunk_by(|one, next| one.bucket_and_key().is_some() && next.bucket_and_key().is_some())
    {
        let mut sorted: Vec<&Entry> = run.iter().collect();
        // The sort is stable: the entries of a key keep their order.
        sorted.sort_by(|one, next| one.bucket_and_key().cmp(&next.bucket_and_key()));
        sorted.into_iter().try_for_each(|entry| index.apply(entry))?;
    }
    Ok(())
}
