//! What a test has planned for the disk, and what the disk has been asked.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// One operation that touched the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// What was asked.
    pub kind: OpKind,
    /// The file or directory, by the name it was opened by.
    pub path: String,
    /// The first byte concerned; 0 where bytes are not.
    pub offset: u64,
    /// Bytes concerned; 0 where bytes are not.
    pub len: u64,
}

/// What an operation does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpKind {
    /// Bytes were read. Only where a test asks for it.
    Read,
    /// A file was made (by a lock too).
    Create,
    /// A directory was made.
    CreateDir,
    /// Bytes were written.
    Write,
    /// Room was set aside.
    Reserve,
    /// The end was moved forward, or room behind it given back.
    Truncate,
    /// Room inside was given back.
    Punch,
    /// Bytes were to be written out before a sync.
    Writeback,
    /// A file was synced.
    SyncData,
    /// A directory was synced.
    SyncDir,
    /// A file was renamed.
    Rename {
        /// Its new path.
        to: String,
    },
    /// A file got a further name.
    Link {
        /// Its further path.
        to: String,
    },
    /// A name was taken away.
    Remove,
}

/// Syncs that are held back until a test lets them go on.
#[derive(Debug)]
struct HeldSyncs {
    /// What the paths concerned begin with.
    prefix: String,
    held: usize,
}

/// The faults to come, counted from 1 over all operations since the disk was made.
#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    pub(super) trace: Vec<Op>,
    /// What was read, where that is asked for.
    pub(super) reads: Option<Vec<Op>>,
    pub(super) syncs: u64,
    pub(super) stop_at: Option<u64>,
    pub(super) fail_sync_at: Option<u64>,
    pub(super) openings: u64,
    pub(super) refuse_openings: Range<u64>,
    /// No operation gets an answer any more.
    pub(super) power_lost: bool,
    gates: BTreeMap<u64, HeldSyncs>,
    gates_made: u64,
}

impl FaultPlan {
    /// Begins an operation. The one during which the power goes is begun, too: it may leave traces on the disk.
    pub(super) fn begin(&mut self, op: Op) -> io::Result<()> {
        self.check_power()?;
        self.trace.push(op);
        self.power_lost = self.stop_at.is_some_and(|stop| self.operations() >= stop);
        Ok(())
    }

    /// Takes a descriptor for a file or a directory.
    pub(super) fn take_descriptor(&mut self) -> io::Result<()> {
        self.openings += 1;
        if self.refuse_openings.contains(&self.openings) {
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

    /// The gate that holds back a sync of `path`; without power nothing is held.
    pub(super) fn gate_before(&self, path: &str) -> Option<u64> {
        let gate = self.gates.iter().find(|(_, gate)| path.starts_with(&gate.prefix));
        gate.map(|(&number, _)| number).filter(|&number| self.holds(number))
    }

    pub(super) fn holds(&self, gate: u64) -> bool {
        !self.power_lost && self.gates.contains_key(&gate)
    }

    /// Counts a sync in front of a gate in or out.
    pub(super) fn count_held(&mut self, gate: u64, arrives: bool) {
        if let Some(gate) = self.gates.get_mut(&gate) {
            gate.held = if arrives { gate.held + 1 } else { gate.held - 1 };
        }
    }

    pub(super) fn held(&self, gate: u64) -> usize {
        self.gates.get(&gate).map_or(0, |gate| gate.held)
    }
}
