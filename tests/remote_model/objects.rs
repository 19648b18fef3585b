//! The remote of the model: linearizable objects, and requests whose answers were lost.

pub(super) const EPOCHS: usize = 4;
pub(super) const PARCELS: usize = 6;
pub(super) const WRITES: usize = 3;

/// A set of log entries, one bit each. A history is the set of its entries: each entry occurs once.
pub(super) type Entries = u32;

/// The entry *object k was written*.
pub(super) fn written(k: usize) -> Entries {
    1 << k
}

/// The entry *object k, and with it segment k, is dead*.
pub(super) fn dead(k: usize) -> Entries {
    1 << (WRITES + k)
}

/// The entry *segment leaving*: the intent to upload segment k under the key of `epoch`.
pub(super) fn leaving(epoch: usize, k: usize) -> Entries {
    1 << (2 * WRITES + epoch * WRITES + k)
}

/// The entry *segment remote*: the key of `epoch` for segment k was verified.
pub(super) fn remote(epoch: usize, k: usize) -> Entries {
    1 << ((2 + EPOCHS) * WRITES + epoch * WRITES + k)
}

/// Whether any key of segment k is known to be verified in `entries`.
pub(super) fn is_remote(entries: Entries, k: usize) -> bool {
    (0..EPOCHS).any(|epoch| entries & remote(epoch, k) != 0)
}

/// Whether any upload of segment k is intended in `entries`.
pub(super) fn is_leaving(entries: Entries, k: usize) -> bool {
    (0..EPOCHS).any(|epoch| entries & leaving(epoch, k) != 0)
}

/// The point of the former epoch from which an epoch goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CutObject {
    pub(super) former: usize,
    pub(super) last: usize,
    /// Stands for the sequence and header CRC of the last adopted group.
    pub(super) history: Entries,
    /// Whether groups after it are given up on purpose.
    pub(super) gives_up: bool,
}

/// A piece of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ParcelObject {
    /// Stands for the CRC of the group before.
    pub(super) previous: Entries,
    pub(super) entries: Entries,
}

/// A request that changes the remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ChangeRequest {
    Claim { epoch: usize, nonce: u8 },
    Cut { epoch: usize, cut: CutObject },
    Parcel { epoch: usize, counter: usize, parcel: ParcelObject },
    Root { epoch: usize, counter: usize, history: Entries },
    Floor { epoch: usize, history: Entries },
    Segment { epoch: usize, k: usize },
    DeleteSegment { epoch: usize, k: usize },
    DeleteParcel { epoch: usize, counter: usize },
    DeleteRoot { epoch: usize, counter: usize },
    DeleteClaim { epoch: usize },
    DeleteCut { epoch: usize },
}

/// All objects. Counters of parcels begin at 1; a root at counter n holds the history after parcel
/// n.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct RemoteObjects {
    pub(super) claims: [u8; EPOCHS],
    pub(super) cuts: [Option<CutObject>; EPOCHS],
    /// The last bytes put under each name. They stay after a delete, for the invariants alone.
    pub(super) parcels: [[Option<ParcelObject>; PARCELS]; EPOCHS],
    /// The parcels that a GET finds, one bit for each counter.
    pub(super) present: [u8; EPOCHS],
    pub(super) roots: [[Option<Entries>; PARCELS]; EPOCHS],
    /// The newest base that an epoch has named before it deleted anything.
    pub(super) floors: [Entries; EPOCHS],
    /// The segments that a GET finds, one bit for each.
    pub(super) segments: [u8; EPOCHS],
}

impl RemoteObjects {
    /// The remote after epoch 0 was claimed by `nonce` and began empty.
    pub(super) fn with_first_epoch(nonce: u8) -> Self {
        let mut objects = Self {
            claims: [0; EPOCHS],
            cuts: [None; EPOCHS],
            parcels: [[None; PARCELS]; EPOCHS],
            present: [0; EPOCHS],
            roots: [[None; PARCELS]; EPOCHS],
            floors: [0; EPOCHS],
            segments: [0; EPOCHS],
        };
        objects.claims[0] = nonce;
        objects.cuts[0] = Some(CutObject { former: 0, last: 0, history: 0, gives_up: false });
        objects.roots[0][0] = Some(0);
        objects
    }

    /// Applies `request` at once and tells whether it created what it names. `atomic_create` is
    /// false for a remote that ignores If-None-Match.
    pub(super) fn apply(&mut self, request: ChangeRequest, atomic_create: bool) -> bool {
        match request {
            ChangeRequest::Claim { epoch, nonce } => {
                if atomic_create && self.claims[epoch] != 0 {
                    return self.claims[epoch] == nonce;
                }
                self.claims[epoch] = nonce;
            }
            ChangeRequest::Cut { epoch, cut } => {
                if atomic_create && self.cuts[epoch].is_some() {
                    return self.cuts[epoch] == Some(cut);
                }
                self.cuts[epoch] = Some(cut);
            }
            ChangeRequest::Parcel { epoch, counter, parcel } => {
                self.parcels[epoch][counter] = Some(parcel);
                self.present[epoch] |= 1 << counter;
            }
            ChangeRequest::Root { epoch, counter, history } => self.roots[epoch][counter] = Some(history),
            ChangeRequest::Floor { epoch, history } => self.floors[epoch] |= history,
            ChangeRequest::DeleteRoot { epoch, counter } => self.roots[epoch][counter] = None,
            ChangeRequest::Segment { epoch, k } => self.segments[epoch] |= 1 << k,
            ChangeRequest::DeleteSegment { epoch, k } => self.segments[epoch] &= !(1 << k),
            ChangeRequest::DeleteParcel { epoch, counter } => self.present[epoch] &= !(1 << counter),
            ChangeRequest::DeleteClaim { epoch } => self.claims[epoch] = 0,
            ChangeRequest::DeleteCut { epoch } => self.cuts[epoch] = None,
        }
        true
    }

    pub(super) fn parcel(&self, epoch: usize, counter: usize) -> Option<ParcelObject> {
        if counter < PARCELS && self.present[epoch] & (1 << counter) != 0 {
            self.parcels[epoch][counter]
        } else {
            None
        }
    }

    pub(super) fn has_segment(&self, epoch: usize, k: usize) -> bool {
        self.segments[epoch] & (1 << k) != 0
    }

    /// The epochs whose log the epoch `top` has adopted and continued, itself first, each with the
    /// last parcel that counts. `None` where a cut is missing.
    pub(super) fn adopted_epochs(&self, top: usize) -> Option<Vec<(usize, usize)>> {
        let mut epochs = vec![(top, PARCELS - 1)];
        while let Some(&(epoch, _)) = epochs.last().filter(|(epoch, _)| *epoch > 0) {
            let cut = self.cuts[epoch]?;
            epochs.push((cut.former, cut.last));
        }
        Some(epochs)
    }

    /// The histories of the roots that the epoch `top` has put and adopted, each with its name.
    pub(super) fn adopted_roots(&self, top: usize) -> Vec<(usize, usize, Entries)> {
        let epochs = self.adopted_epochs(top).unwrap_or_default();
        let named = epochs.into_iter().flat_map(|(epoch, last)| (0..=last).map(move |n| (epoch, n)));
        named.filter_map(|(epoch, n)| self.roots[epoch][n].map(|history| (epoch, n, history))).collect()
    }

    /// The newest root of an epoch, up to counter `last`.
    pub(super) fn newest_root(&self, epoch: usize, last: usize) -> Option<(usize, Entries)> {
        (0..PARCELS.min(last + 1))
            .rev()
            .find_map(|counter| self.roots[epoch][counter].map(|history| (counter, history)))
    }
}
