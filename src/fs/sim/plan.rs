//! The planned faults of the disk, and the trace of its operations.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;

/// One operation that touched the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// Its kind.
    pub kind: OpKind,
    /// The file or directory, by the name it was opened by.
    pub path: String,
    /// The first byte concerned; 0 for operations without bytes.
    pub offset: u64,
    /// Bytes concerned; 0 for operations without bytes.
    pub len: u64,
}

/// The kind of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpKind {
    /// A read. Recorded only after [`SimFs::trace_reads`](super::SimFs::trace_reads).
    Read,
    /// The creation of a file (also by a lock).
    Create,
    /// The creation of a directory.
    CreateDir,
    /// A write.
    Write,
    /// A preallocation.
    Reserve,
    /// A truncation, or the release of preallocated space.
    Truncate,
    /// A hole.
    Punch,
    /// The start of writeback.
    Writeback,
    /// A sync of a file.
    SyncData,
    /// A sync of a directory.
    SyncDir,
    /// A rename.
    Rename {
        /// The new path.
        to: String,
    },
    /// An additional name.
    Link {
        /// The additional path.
        to: String,
    },
    /// The removal of a name.
    Remove,
}

/// Syncs that are held until a test releases them.
#[derive(Debug)]
struct HeldSyncs {
    /// The prefix of their paths.
    prefix: String,
    held: usize,
}

/// A function that a test wants to be called once.
pub(super) type PlannedCall = Box<dyn FnOnce() + Send>;

/// The planned faults and calls, counted from 1 over all operations since the disk was created.
#[derive(Default)]
pub(super) struct FaultPlan {
    pub(super) trace: Vec<Op>,
    /// The recorded reads, if recording is on.
    pub(super) reads: Option<Vec<Op>>,
    pub(super) syncs: u64,
    pub(super) stop_at: Option<u64>,
    pub(super) fail_sync_at: Option<u64>,
    pub(super) opens: u64,
    pub(super) fail_opens: Range<u64>,
    /// Whether the file system does not report its space.
    pub(super) hides_space: bool,
    /// Makes every further operation fail.
    pub(super) power_lost: bool,
    gates: BTreeMap<u64, HeldSyncs>,
    gates_made: u64,
    /// By the number of the operation that each is made before.
    calls: Vec<(u64, PlannedCall)>,
}

impl fmt::Debug for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultPlan").field("operations", &self.operations()).finish_non_exhaustive()
    }
}

impl FaultPlan {
    pub(super) fn add_call(&mut self, before: u64, call: PlannedCall) {
        self.calls.push((before, call));
    }

    pub(super) fn forget_calls(&mut self) {
        self.calls.clear();
    }

    /// A call that is to be made before the next operation.
    pub(super) fn take_due_call(&mut self) -> Option<PlannedCall> {
        let next = self.operations() + 1;
        let due = self.calls.iter().position(|(before, _)| *before <= next)?;
        Some(self.calls.swap_remove(due).1)
    }

    /// Starts an operation. The one during which the power is lost is started, too: it may change
    /// the disk.
    pub(super) fn begin(&mut self, op: Op) -> io::Result<()> {
        self.check_power()?;
        self.trace.push(op);
        self.power_lost = self.stop_at.is_some_and(|stop| self.operations() >= stop);
        Ok(())
    }

    /// Allocates a descriptor for a file or a directory.
    pub(super) fn allocate_descriptor(&mut self) -> io::Result<()> {
        self.opens += 1;
        if self.fail_opens.contains(&self.opens) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "too many open files"));
        }
        Ok(())
    }

    pub(super) fn operations(&self) -> u64 {
        self.trace.len() as u64
    }

    pub(super) fn check_power(&self) -> io::Result<()> {
        if self.power_lost { Err(io::Error::other("power lost")) } else { Ok(()) }
    }

    pub(super) fn add_gate(&mut self, prefix: &str) -> u64 {
        self.gates_made += 1;
        self.gates.insert(self.gates_made, HeldSyncs { prefix: prefix.to_owned(), held: 0 });
        self.gates_made
    }

    pub(super) fn remove_gate(&mut self, gate: u64) {
        self.gates.remove(&gate);
    }

    /// The gate that holds a sync of `path`; nothing is held without power.
    pub(super) fn gate_before(&self, path: &str) -> Option<u64> {
        let gate = self.gates.iter().find(|(_, gate)| path.starts_with(&gate.prefix));
        gate.map(|(&number, _)| number).filter(|&number| self.holds(number))
    }

    pub(super) fn holds(&self, gate: u64) -> bool {
        !self.power_lost && self.gates.contains_key(&gate)
    }

    /// Counts a sync that arrives at a gate, or leaves it.
    pub(super) fn count_held(&mut self, gate: u64, arrives: bool) {
        if let Some(gate) = self.gates.get_mut(&gate) {
            gate.held = if arrives { gate.held + 1 } else { gate.held - 1 };
        }
    }

    pub(super) fn held(&self, gate: u64) -> usize {
        self.gates.get(&gate).map_or(0, |gate| gate.held)
    }
}
