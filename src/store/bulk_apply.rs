//! Applying many groups of the log at once.
//!
//! Changes of different keys do not depend on each other: what they add up to is the same in any order, as long as those of one
//! key stay in theirs. Sorted by key, they come to each leaf of the index once and find it in the processor's cache, which
//! takes a fraction of the time. Changes of buckets keep their place among all others.

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::base::limits::MIB;
use crate::format::{Entry, Group};
use crate::index::{ApplyError, Index};

/// Entries that are sorted together, and the most bytes of them: they are held in memory, some times as large.
const ENTRIES_AT_ONCE: usize = 64 * 1024;
const BYTES_AT_ONCE: usize = 8 * MIB as usize;
/// Entries that are handed from thread to thread together, and the most bytes of them.
const CHUNK_ENTRIES: usize = 4096;
const CHUNK_BYTES: usize = MIB as usize;
/// Chunks on the way.
const CHUNKS_AHEAD: usize = 2;

/// Entries on their way to the thread that applies them.
pub(super) struct EntrySender {
    chunks: Sender<EntryChunk>,
    chunk: EntryChunk,
}

/// The receiving end.
pub(super) struct EntryReceiver(Receiver<EntryChunk>);

#[derive(Default)]
struct EntryChunk {
    entries: Vec<Entry>,
    bytes: usize,
}

/// The two ends of a feed.
pub(super) fn channel() -> (EntrySender, EntryReceiver) {
    let (chunks, receiver) = bounded(CHUNKS_AHEAD);
    (EntrySender { chunks, chunk: EntryChunk::default() }, EntryReceiver(receiver))
}

impl EntrySender {
    /// Takes the next group; `false` when nobody applies any more, because something did not fit.
    pub(super) fn send_group(&mut self, group: Group) -> bool {
        self.chunk.bytes += group.body_len;
        self.chunk.entries.extend(group.entries);
        let full = self.chunk.entries.len() >= CHUNK_ENTRIES || self.chunk.bytes >= CHUNK_BYTES;
        !full || self.send_chunk()
    }

    /// Hands on what is left.
    pub(super) fn finish(mut self) {
        // Where nobody takes it, it has been noticed that something did not fit.
        self.send_chunk();
    }

    fn send_chunk(&mut self) -> bool {
        self.chunks.send(std::mem::take(&mut self.chunk)).is_ok()
    }
}

impl EntryReceiver {
    /// Applies all that is fed.
    ///
    /// # Errors
    /// The first entry found that cannot be true. What the index holds then is of no use.
    pub(super) fn apply_to(self, index: &mut Index) -> Result<(), ApplyError> {
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

/// Applies entries in the order of their keys, between any two that concern buckets.
fn apply(index: &mut Index, entries: &[Entry]) -> Result<(), ApplyError> {
    for run in entries.chunk_by(|one, next| one.bucket_and_key().is_some() && next.bucket_and_key().is_some())
    {
        let mut sorted: Vec<&Entry> = run.iter().collect();
        // A stable sort: what is of one key stays in its order.
        sorted.sort_by(|one, next| one.bucket_and_key().cmp(&next.bucket_and_key()));
        sorted.into_iter().try_for_each(|entry| index.apply(entry))?;
    }
    Ok(())
}
