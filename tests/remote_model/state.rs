//! One state of the model: the remote, the hosts, and what was answered.

use std::collections::BTreeSet;

use super::objects::*;

/// What a host does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Activity {
    Standby,
    /// Started by the one command in the directory of a writer: it looks at the log.
    Starting,
    /// Its directory has the whole log, and another one has made the newest claim: it waits for a
    /// heartbeat.
    Watching,
    /// Opened as the directory of a writer: it looks whether it has the whole log before it claims.
    CheckingDescent,
    Claiming {
        epoch: usize,
    },
    /// It has lost a claim, and claims the next one without a look at who won.
    ClaimingOn {
        epoch: usize,
    },
    LookingAtFloors {
        epoch: usize,
        candidate: usize,
    },
    FindingCut {
        epoch: usize,
        candidate: usize,
    },
    FindingRoot {
        epoch: usize,
        former: usize,
    },
    ReadingParcels {
        epoch: usize,
        former: usize,
        counter: usize,
        history: Entries,
    },
    Cutting {
        epoch: usize,
        cut: CutObject,
    },
    Serving,
    CheckingClaim,
    /// There is a later claim, and it waits for its cut.
    Overtaken,
    Fenced,
    /// The host is gone for good.
    Gone,
}

/// How far the deleter of a host is with one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Deletion {
    None,
    Chosen(ChangeRequest),
    Checked(ChangeRequest),
}

/// An earlier point of the log that was restored, to go on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReturnPoint {
    /// The epoch that was current then.
    pub(super) newest: usize,
    /// The root that it was restored from.
    pub(super) root: Entries,
    pub(super) cut: CutObject,
}

/// One host: its disk, and the memory of its process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HostState {
    pub(super) activity: Activity,
    /// The claim of this process. A restart takes a new one.
    pub(super) nonce: u8,
    pub(super) epoch: usize,
    pub(super) next_parcel: usize,
    /// Entries of the local log that are shipped and checked.
    pub(super) shipped: Entries,
    /// Entries of the local log.
    pub(super) log: Entries,
    /// Groups that another epoch cut off. They are kept and listed.
    pub(super) divergent: Entries,
    pub(super) in_flight: Option<ParcelObject>,
    /// Segments with local pages.
    pub(super) local: u8,
    /// Uploads that this process verified.
    pub(super) verified: u8,
    /// Writes that this host answered.
    pub(super) answered: Entries,
    pub(super) deletion: Deletion,
    /// The point at which the log on the disk ends on purpose.
    pub(super) return_point: Option<ReturnPoint>,
    /// Whether the directory goes on as it is, and is not filled.
    pub(super) is_writer: bool,
    /// Whether its log lacked a part of the adopted one when the process started.
    pub(super) was_behind: bool,
}

/// All that the model knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct WorldState {
    pub(super) objects: RemoteObjects,
    pub(super) hosts: Vec<HostState>,
    pub(super) unanswered: BTreeSet<ChangeRequest>,
    pub(super) crashes: u8,
    pub(super) nonces: u8,
    /// Entries that were answered as shipped.
    pub(super) promised: Entries,
    pub(super) written: usize,
    pub(super) parcels: usize,
    pub(super) deletes: u8,
    pub(super) returns: u8,
    /// Directories that were opened as those of writers.
    pub(super) boots: u8,
    pub(super) deaths: u8,
    /// Whether a host has claimed whose log was behind when it started.
    pub(super) claimed_behind: bool,
    /// Whether a host has claimed that had not seen the claim before its own.
    pub(super) claimed_unseen: bool,
    /// Whether a start has claimed at once beside a host that writes.
    pub(super) started_beside: bool,
    /// The oldest history of the window.
    pub(super) window: Entries,
}
