//! Building a tree beside whoever reads its entries: leaves are written on a thread of their own, once there are enough
//! of them.

use std::panic::resume_unwind;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::index::keys::leaf::At;
use crate::index::keys::tree::{Tree, TreeBuilder};

/// Entries go over together when their keys and values have reached this size. A tree of fewer needs no other thread.
const BATCH_BYTES: usize = 32 * 1024;
/// Batches on their way: what is read never runs far ahead of what is built.
const AHEAD: usize = 4;

/// Takes entries in order.
#[derive(Default)]
pub(super) struct TreeFiller {
    batch: Batch,
    beside: Option<Beside>,
}

/// The thread that builds. It ends when the batches do.
struct Beside {
    outbox: Sender<Batch>,
    thread: JoinHandle<Tree>,
}

/// Entries, their keys and values one behind the other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// The rank of each, and how long its key and its value are.
    entries: Vec<(u64, usize, usize)>,
}

impl TreeFiller {
    pub(super) fn push(&mut self, at: At<'_>, value: &[u8]) {
        self.batch.bytes.extend_from_slice(at.key);
        self.batch.bytes.extend_from_slice(value);
        self.batch.entries.push((at.rank, at.key.len(), value.len()));
        if self.batch.bytes.len() >= BATCH_BYTES {
            self.send();
        }
    }

    fn send(&mut self) {
        let next = Batch::with_room(self.batch.entries.len());
        let batch = std::mem::replace(&mut self.batch, next);
        let beside = self.beside.get_or_insert_with(Beside::begin);
        // A thread that takes nothing more has panicked, which shows when it is waited for.
        let _ = beside.outbox.send(batch);
    }

    pub(super) fn finish(mut self) -> Tree {
        if self.beside.is_some() {
            self.send();
        }
        match self.beside.take() {
            Some(beside) => beside.end().unwrap_or_else(|panic| resume_unwind(panic)),
            None => {
                let mut builder = TreeBuilder::default();
                self.batch.push_to(&mut builder);
                builder.finish()
            }
        }
    }
}

/// What has been built of a file that turns out to be damaged is gone before anything else is read.
impl Drop for TreeFiller {
    fn drop(&mut self) {
        if let Some(beside) = self.beside.take() {
            let _ = beside.end();
        }
    }
}

impl Beside {
    fn begin() -> Self {
        let (outbox, inbox) = bounded(AHEAD);
        Self { outbox, thread: thread::spawn(move || build(&inbox)) }
    }

    fn end(self) -> thread::Result<Tree> {
        drop(self.outbox);
        self.thread.join()
    }
}

fn build(inbox: &Receiver<Batch>) -> Tree {
    let mut builder = TreeBuilder::default();
    inbox.iter().for_each(|batch| batch.push_to(&mut builder));
    builder.finish()
}

impl Batch {
    /// Room for one like the last.
    fn with_room(entries: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(BATCH_BYTES + BATCH_BYTES / 8),
            entries: Vec::with_capacity(entries),
        }
    }

    fn push_to(&self, builder: &mut TreeBuilder) {
        let mut rest = &self.bytes[..];
        for (rank, key_len, value_len) in &self.entries {
            let (key, value);
            (key, rest) = rest.split_at(*key_len);
            (value, rest) = rest.split_at(*value_len);
            builder.push(At { key, rank: *rank }, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: u64) -> TreeFiller {
        let mut filler = TreeFiller::default();
        for nth in 0..count {
            let key = format!("{:06}", nth / 3);
            filler.push(At { key: key.as_bytes(), rank: 9 - nth % 3 }, &nth.to_le_bytes());
        }
        filler
    }

    #[test]
    fn a_tree_holds_all_that_was_put_in_be_it_built_here_or_beside() {
        for (count, beside) in [(0, false), (3, false), (30_000, true)] {
            let filler = filled(count);
            assert_eq!(filler.beside.is_some(), beside);
            let tree = filler.finish();
            let mut scan = tree.scan();
            scan.seek(At::first_of(&[]));
            for nth in 0..count {
                assert!(scan.next());
                assert_eq!((scan.at().rank, scan.value()), (9 - nth % 3, &nth.to_le_bytes()[..]));
                assert_eq!(scan.key(), format!("{:06}", nth / 3).as_bytes());
            }
            assert!(!scan.next());
            assert_eq!(tree.len(), count);
        }
    }
}
