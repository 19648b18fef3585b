//! Building a tree in the background: once there are enough entries, a second thread writes the
//! leaves.

use std::panic::resume_unwind;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::index::keys::leaf::EntryPos;
use crate::index::keys::tree::{Tree, TreeBuilder};

/// The size of keys and values at which a batch is sent. A smaller tree needs no thread.
const BATCH_BYTES: usize = 32 * 1024;
/// The number of batches in the channel. It bounds how far reading runs ahead of building.
const AHEAD: usize = 4;

/// Builds a tree from entries in order.
#[derive(Default)]
pub(super) struct BackgroundBuilder {
    batch: EntryBatch,
    thread: Option<BuilderThread>,
}

/// The building thread. It ends when the channel closes.
struct BuilderThread {
    sender: Sender<EntryBatch>,
    thread: JoinHandle<Tree>,
}

/// Entries: their keys and values, without gaps.
#[derive(Default)]
struct EntryBatch {
    bytes: Vec<u8>,
    /// The order of each entry, and the lengths of its key and value.
    entries: Vec<(u64, usize, usize)>,
}

impl BackgroundBuilder {
    pub(super) fn push(&mut self, at: EntryPos<'_>, value: &[u8]) {
        self.batch.bytes.extend_from_slice(at.key);
        self.batch.bytes.extend_from_slice(value);
        self.batch.entries.push((at.order, at.key.len(), value.len()));
        if self.batch.bytes.len() >= BATCH_BYTES {
            self.send();
        }
    }

    fn send(&mut self) {
        let next = EntryBatch::with_room(self.batch.entries.len());
        let batch = std::mem::replace(&mut self.batch, next);
        let thread = self.thread.get_or_insert_with(BuilderThread::begin);
        // A failed send means that the thread panicked; joining it reports that.
        let _ = thread.sender.send(batch);
    }

    pub(super) fn finish(mut self) -> Tree {
        if self.thread.is_some() {
            self.send();
        }
        match self.thread.take() {
            Some(thread) => thread.end().unwrap_or_else(|panic| resume_unwind(panic)),
            None => {
                let mut builder = TreeBuilder::default();
                self.batch.push_to(&mut builder);
                builder.finish()
            }
        }
    }
}

/// Ends the thread, so that the memory of a partial tree is free before anything else is read.
impl Drop for BackgroundBuilder {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.end();
        }
    }
}

impl BuilderThread {
    fn begin() -> Self {
        let (sender, receiver) = bounded(AHEAD);
        Self { sender, thread: thread::spawn(move || build(&receiver)) }
    }

    fn end(self) -> thread::Result<Tree> {
        drop(self.sender);
        self.thread.join()
    }
}

fn build(receiver: &Receiver<EntryBatch>) -> Tree {
    let mut builder = TreeBuilder::default();
    for batch in receiver {
        batch.push_to(&mut builder);
    }
    builder.finish()
}

impl EntryBatch {
    /// An empty batch with the capacity of the last one.
    fn with_room(entries: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(BATCH_BYTES + BATCH_BYTES / 8),
            entries: Vec::with_capacity(entries),
        }
    }

    fn push_to(&self, builder: &mut TreeBuilder) {
        let mut rest = &self.bytes[..];
        for (order, key_len, value_len) in &self.entries {
            let (key, value);
            (key, rest) = rest.split_at(*key_len);
            (value, rest) = rest.split_at(*value_len);
            builder.push(EntryPos { key, order: *order }, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: u64) -> BackgroundBuilder {
        let mut background_builder = BackgroundBuilder::default();
        for nth in 0..count {
            let key = format!("{:06}", nth / 3);
            background_builder.push(EntryPos { key: key.as_bytes(), order: 9 - nth % 3 }, &nth.to_le_bytes());
        }
        background_builder
    }

    #[test]
    fn a_tree_is_complete_with_and_without_a_builder_thread() {
        for (count, thread) in [(0, false), (3, false), (30_000, true)] {
            let background_builder = filled(count);
            assert_eq!(background_builder.thread.is_some(), thread);
            let tree = background_builder.finish();
            let mut scan = tree.scan();
            scan.seek(EntryPos::first_of(&[]));
            for nth in 0..count {
                assert!(scan.next());
                assert_eq!((scan.at().order, scan.value()), (9 - nth % 3, &nth.to_le_bytes()[..]));
                assert_eq!(scan.key(), format!("{:06}", nth / 3).as_bytes());
            }
            assert!(!scan.next());
            assert_eq!(tree.len(), count);
        }
    }
}
