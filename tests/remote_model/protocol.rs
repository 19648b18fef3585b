//! The hosts of the model: each writes, ships, tiers, deletes and takes over, one request or local
//! step at a time.

use std::collections::BTreeSet;

use super::invariants;
use super::objects::*;
use super::state::{Activity, Deletion, HostState, ReturnPoint, WorldState};
use crate::support::explorer::StateMachine;

/// A rule of the protocol that a test takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Safeguard {
    /// Claims are never deleted.
    ClaimsStay,
    /// Cuts are never deleted.
    CutsStay,
    /// The writer asks for the next claim after each parcel, and answers after that.
    ClaimCheckAfterParcel,
    /// The deleter asks for the next claim after the root and before the DELETE.
    ClaimCheckAfterRoot,
    /// A root that no longer names a key is up before the key is deleted.
    RootBeforeDelete,
    /// A key is dead at the newest root that is as old as the window, not only absent from all
    /// roots of the window.
    DeadAtBase,
    /// Names of parcels contain the epoch.
    EpochInNames,
    /// An intent is no copy.
    IntentIsNoCopy,
    /// A retry sends the bytes of the first try.
    SameBytesOnRetry,
    /// The remote honours If-None-Match.
    AtomicCreate,
    /// Local pages go after the parcel with *segment remote* is up and the claim was checked.
    EvictAfterShipped,
    /// A takeover reads parcels from the newest root on, not from where the host stopped following.
    ReadFromRoot,
    /// A cut is created once, with the bytes of the first try.
    CutIsFrozen,
    /// A host that starts on its own newest epoch ships its unshipped groups in the new one.
    TailGoesOn,
    /// A key that the unshipped tail names is no stranger.
    TailNamesKeys,
    /// Roots that may go while younger than the base are told apart by their names from those that
    /// may become the base.
    LastingRootsStay,
    /// The deleter puts the base as its floor before it deletes anything.
    FloorBeforeDelete,
    /// A host that goes back looks at the floors after it has its claim.
    FloorAfterClaim,
    /// A directory that is opened as that of a writer has the whole log before it claims.
    DescentBeforeClaim,
    /// It has the whole log after its claim, too, before it puts the cut.
    DescentAfterClaim,
    /// A writer that finds a later claim without a cut claims again.
    ClaimsAgain,
    /// A host that has lost a claim looks at the log again before it claims another.
    LosersLook,
    /// A host that was taken over sets its changes aside and follows.
    LosersFollow,
    /// A start goes on at once only where its directory has made the newest claim.
    OwnClaimGoesOn,
    /// What the remote lacks is set aside before a directory is filled.
    AsideBeforeFill,
}

/// The size of a search.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) hosts: usize,
    pub(super) epochs: usize,
    pub(super) writes: usize,
    /// Parcels of all epochs.
    pub(super) parcels: usize,
    pub(super) roots: usize,
    pub(super) deletes: u8,
    /// Whether roots are deleted, too.
    pub(super) root_deletes: bool,
    /// Restores to an earlier point that go on from there.
    pub(super) returns: u8,
    /// Directories that are opened as those of writers, whatever they hold.
    pub(super) boots: u8,
    /// Whether each host is started by the one command, whatever its directory is. Boots are those
    /// in copies of directories then.
    pub(super) one_command: bool,
    /// Hosts that go for good.
    pub(super) deaths: u8,
    /// Requests without an answer. Each of them lands at any later time, any number of times, or
    /// never.
    pub(super) unanswered: usize,
    pub(super) crashes: u8,
    /// A group is answered after its parcel is up; otherwise after it is on the local disk.
    pub(super) sync: bool,
    /// Segments are uploaded, and keys deleted.
    pub(super) tier: bool,
    /// Bytes go to a segment that is uploaded before the parcel that names it, and not into the
    /// parcel.
    pub(super) own_lane: bool,
    pub(super) removed: BTreeSet<Safeguard>,
}

/// The name of a transition: the actor and its step.
pub(super) type NamedStep = (&'static str, &'static str);

pub(super) type Successors = Vec<(NamedStep, WorldState)>;

/// The names of the hosts in paths.
pub(super) const HOST_NAMES: [&str; 3] = ["host A", "host B", "host C"];

impl Scenario {
    pub(super) fn keeps(&self, safeguard: Safeguard) -> bool {
        !self.removed.contains(&safeguard)
    }

    /// The epoch in the names of an epoch's parcels.
    pub(super) fn name_epoch(&self, epoch: usize) -> usize {
        if self.keeps(Safeguard::EpochInNames) { epoch } else { 0 }
    }

    /// Whether hosts are started in directories of writers, or go for good: the searches without
    /// them are smaller.
    pub(super) fn has_starts(&self) -> bool {
        self.boots > 0 || self.deaths > 0 || self.one_command
    }

    fn create_is_atomic(&self, request: ChangeRequest) -> bool {
        let overwritten = matches!(request, ChangeRequest::Cut { .. }) && !self.keeps(Safeguard::CutIsFrozen);
        self.keeps(Safeguard::AtomicCreate) && !overwritten
    }

    /// Sends `request` with and without an answer; `answer` learns whether it created its object.
    pub(super) fn put(
        &self,
        world: &WorldState,
        step: NamedStep,
        request: ChangeRequest,
        found: &mut Successors,
        answer: impl FnOnce(&mut WorldState, bool),
    ) {
        if world.unanswered.len() < self.unanswered && !world.unanswered.contains(&request) {
            let mut next = world.clone();
            next.unanswered.insert(request);
            found.push(((step.0, "sends a request that is not answered"), next));
        }
        let mut next = world.clone();
        let applied = self.apply(&mut next, request);
        answer(&mut next, applied);
        found.push((step, next));
    }

    /// Applies a request. The cut of an epoch that goes back ends the promises about groups after
    /// it.
    fn apply(&self, world: &mut WorldState, request: ChangeRequest) -> bool {
        let before = world.objects.cuts;
        let applied = world.objects.apply(request, self.create_is_atomic(request));
        if let ChangeRequest::Cut { cut, .. } = request
            && cut.gives_up
            && world.objects.cuts != before
        {
            world.promised &= cut.history;
            world.window &= cut.history;
            world.hosts.iter_mut().for_each(|host| host.answered &= cut.history);
        }
        applied
    }

    /// Restores to an earlier point than the newest, in order to go on from there. The disk of the
    /// host is replaced.
    fn return_steps(&self, world: &WorldState, h: usize, epoch: usize, found: &mut Successors) {
        if world.returns == self.returns {
            return;
        }
        for (point, root) in invariants::earlier_points(self, world) {
            let mut next = world.clone();
            next.returns += 1;
            next.nonces += 1;
            let host = &mut next.hosts[h];
            host.nonce = next.nonces;
            host.divergent |= host.log & !point.cut.history;
            host.log = point.cut.history;
            host.shipped = point.cut.history;
            host.epoch = EPOCHS;
            host.local = 0;
            host.return_point = Some(ReturnPoint { root, ..point });
            host.activity = Activity::Claiming { epoch };
            found.push(((HOST_NAMES[h], "restores an earlier point"), next));
        }
    }

    /// The next step of a host that has the claim and found the newest cut.
    fn after_cut(&self, host: &HostState, epoch: usize, former: usize) -> Activity {
        match host.return_point {
            None => Activity::FindingRoot { epoch, former },
            Some(point) if former != point.newest => Activity::Fenced,
            Some(point) if self.keeps(Safeguard::FloorAfterClaim) => {
                Activity::LookingAtFloors { epoch, candidate: point.newest }
            }
            Some(point) => Activity::Cutting { epoch, cut: point.cut },
        }
    }

    /// Looks at the floor of one epoch: a base after the root of the point means that bytes of the
    /// point may be gone.
    fn look_at_floor(world: &mut WorldState, h: usize, epoch: usize, candidate: usize) {
        let floor = world.objects.floors[candidate];
        let host = &mut world.hosts[h];
        host.activity = match host.return_point {
            Some(point) if floor & !point.root != 0 => {
                host.return_point = None;
                Activity::Fenced
            }
            Some(point) if candidate == 0 => Activity::Cutting { epoch, cut: point.cut },
            _ => Activity::LookingAtFloors { epoch, candidate: candidate - 1 },
        };
    }

    fn host_steps(&self, world: &WorldState, h: usize, found: &mut Successors) {
        let host = &world.hosts[h];
        let mut local = |step, change: &dyn Fn(&mut WorldState)| {
            let mut next = world.clone();
            change(&mut next);
            found.push(((HOST_NAMES[h], step), next));
        };
        match host.activity {
            Activity::Standby => {
                if world.boots < self.boots && self.one_command {
                    for other in (0..self.hosts).filter(|other| world.hosts[*other].epoch != EPOCHS) {
                        local("is started in a copy of the directory of another host", &|next| {
                            Self::copy_directory(next, other, h);
                        });
                    }
                }
                if world.boots < self.boots && !self.one_command {
                    local("is started as a writer", &|next| {
                        next.boots += 1;
                        self.open_as_writer(next, h);
                    });
                }
                if let Some(epoch) = (0..self.epochs).find(|&epoch| world.objects.claims[epoch] == 0) {
                    local("probes for the next claim", &|next| {
                        next.nonces += 1;
                        next.hosts[h].nonce = next.nonces;
                        next.hosts[h].activity = Activity::Claiming { epoch };
                    });
                    if host.return_point.is_none() {
                        self.return_steps(world, h, epoch, found);
                    }
                }
            }
            Activity::Starting => local("looks at its directory and the log", &|next| {
                self.look_at_directory(next, h);
            }),
            Activity::Watching => {
                local("finds no heartbeat and goes on", &|next| {
                    next.hosts[h].is_writer = true;
                    self.probe(next, h);
                });
                let writes =
                    |host: &HostState| matches!(host.activity, Activity::Serving | Activity::CheckingClaim);
                if (0..self.hosts).any(|other| other != h && writes(&world.hosts[other])) {
                    local("finds a heartbeat and follows", &|next| self.leave_directory(next, h));
                }
            }
            Activity::CheckingDescent => local("looks whether it has the whole log", &|next| {
                let lacks = invariants::newest_history(self, next) & !next.hosts[h].log;
                if lacks == 0 { self.probe(next, h) } else { next.hosts[h].activity = Activity::Fenced }
            }),
            Activity::Claiming { epoch } | Activity::ClaimingOn { epoch } => {
                let request = ChangeRequest::Claim { epoch, nonce: host.nonce };
                self.put(world, (HOST_NAMES[h], "puts its claim"), request, found, |next, won| {
                    self.claimed(next, h, (epoch, won));
                });
            }
            Activity::FindingCut { epoch, candidate } => local("gets a cut", &|next| {
                next.hosts[h].activity = match next.objects.cuts[candidate] {
                    Some(_) => self.after_cut(&next.hosts[h], epoch, candidate),
                    None if candidate == 0 => Activity::Standby,
                    None => Activity::FindingCut { epoch, candidate: candidate - 1 },
                };
            }),
            Activity::LookingAtFloors { epoch, candidate } => {
                local("looks at a floor", &|next| Self::look_at_floor(next, h, epoch, candidate));
            }
            Activity::FindingRoot { epoch, former } => {
                local("gets the newest root", &|next| self.find_root(next, h, epoch, former));
            }
            Activity::ReadingParcels { epoch, former, counter, history } => {
                let name = self.name_epoch(former);
                local("gets the next parcel", &|next| {
                    next.hosts[h].activity = match next.objects.parcel(name, counter + 1) {
                        Some(parcel) => {
                            let history = history | parcel.entries;
                            Activity::ReadingParcels { epoch, former, counter: counter + 1, history }
                        }
                        None => {
                            let cut = CutObject { former, last: counter, history, gives_up: false };
                            Activity::Cutting { epoch, cut }
                        }
                    };
                });
            }
            Activity::Cutting { cut, .. } if self.one_command && self.lacks(host, &cut) => {
                local("sets aside what came between its look and its claim", &|next| {
                    let activity = next.hosts[h].activity;
                    self.leave_directory(next, h);
                    next.hosts[h].activity = activity;
                });
            }
            Activity::Cutting { cut, .. } if self.lacks(host, &cut) => {
                local("finds that it lacks a part of the log", &|next| {
                    next.hosts[h].activity = Activity::Fenced;
                });
            }
            Activity::Cutting { epoch, cut } => {
                if !self.keeps(Safeguard::CutIsFrozen) && !cut.gives_up {
                    local("reads the parcels again", &|next| self.find_root(next, h, epoch, cut.former));
                }
                self.put(
                    world,
                    (HOST_NAMES[h], "puts its cut"),
                    ChangeRequest::Cut { epoch, cut },
                    found,
                    |next, won| {
                        if won {
                            self.begin_epoch(next, h, epoch, cut);
                        } else {
                            next.hosts[h].activity = Activity::Fenced;
                        }
                    },
                );
            }
            Activity::Serving => self.serving_steps(world, h, found),
            Activity::CheckingClaim => local("asks for the next claim", &|next| self.confirm(next, h)),
            Activity::Overtaken => {
                let is_cut = world.objects.cuts[host.epoch + 1..].iter().any(Option::is_some);
                local("looks for the cut of the later claim", &|next| match is_cut {
                    true => Self::give_up(next, h),
                    false => self.open_as_writer(next, h),
                });
            }
            Activity::Fenced if self.one_command => local("ends and starts again", &|next| {
                next.hosts[h].activity = Activity::Starting;
            }),
            Activity::Fenced if self.deaths > 0 && self.keeps(Safeguard::LosersFollow) => {
                local("sets its changes aside and follows", &|next| {
                    let host = &mut next.hosts[h];
                    host.divergent |= host.log & !host.shipped;
                    host.activity = Activity::Standby;
                });
            }
            Activity::Fenced | Activity::Gone => {}
        }
        if matches!(host.activity, Activity::Serving | Activity::CheckingClaim) && self.tier {
            self.tier_steps(world, h, found);
        }
    }

    /// Starts a process by the one command in the directory of a writer.
    fn look_at_directory(&self, world: &mut WorldState, h: usize) {
        let lacks = invariants::newest_history(self, world) & !world.hosts[h].log;
        let newest = world.objects.claims.iter().rposition(|claim| *claim != 0);
        let is_own = newest.is_some_and(|newest| world.objects.claims[newest] == world.hosts[h].nonce);
        if lacks != 0 {
            return self.leave_directory(world, h);
        }
        world.hosts[h].was_behind = false;
        if !is_own && self.keeps(Safeguard::OwnClaimGoesOn) {
            world.hosts[h].activity = Activity::Watching;
            return;
        }
        let writes = |host: &HostState| {
            matches!(host.activity, Activity::Serving | Activity::CheckingClaim) && Some(host.epoch) == newest
        };
        world.started_beside |= world.hosts.iter().any(writes);
        world.hosts[h].is_writer = true;
        self.probe(world, h);
    }

    /// Makes the directory that of a standby.
    fn leave_directory(&self, world: &mut WorldState, h: usize) {
        let newest = invariants::newest_history(self, world);
        let host = &mut world.hosts[h];
        if self.keeps(Safeguard::AsideBeforeFill) {
            host.divergent |= host.log & !newest;
        }
        host.log &= newest;
        host.shipped = host.log;
        host.epoch = EPOCHS;
        host.in_flight = None;
        host.is_writer = false;
        host.activity = Activity::Standby;
    }

    /// Starts a host in a copy of the directory of another one. It has another number than the
    /// claim of that one.
    fn copy_directory(world: &mut WorldState, from: usize, to: usize) {
        let from = world.hosts[from].clone();
        world.boots += 1;
        let host = &mut world.hosts[to];
        host.divergent |= host.log & !host.shipped;
        host.log = from.log;
        host.shipped = from.shipped;
        host.local |= from.local;
        host.epoch = from.epoch;
        host.next_parcel = from.next_parcel;
        host.nonce = 0;
        host.activity = Activity::Starting;
    }

    /// Starts a process in a directory that goes on as it is.
    fn open_as_writer(&self, world: &mut WorldState, h: usize) {
        let lacks = invariants::newest_history(self, world) & !world.hosts[h].log;
        let host = &mut world.hosts[h];
        host.is_writer = true;
        host.was_behind = lacks != 0;
        host.activity = Activity::CheckingDescent;
        if !self.keeps(Safeguard::DescentBeforeClaim) {
            self.probe(world, h);
        }
    }

    /// Looks for the next claim.
    fn probe(&self, world: &mut WorldState, h: usize) {
        let free = (0..self.epochs).find(|&epoch| world.objects.claims[epoch] == 0);
        world.hosts[h].activity = match free {
            Some(epoch) => Activity::Claiming { epoch },
            None => Activity::CheckingDescent,
        };
        if free.is_some() {
            world.nonces += 1;
            world.hosts[h].nonce = world.nonces;
        }
    }

    /// The answer to a claim.
    fn claimed(&self, world: &mut WorldState, h: usize, (epoch, won): (usize, bool)) {
        let host = &world.hosts[h];
        if won {
            world.claimed_behind |= host.is_writer && host.was_behind;
            world.claimed_unseen |= matches!(host.activity, Activity::ClaimingOn { .. });
        }
        world.hosts[h].activity = match won {
            true => Activity::FindingCut { epoch, candidate: epoch - 1 },
            false if !self.keeps(Safeguard::LosersLook) && epoch + 1 < self.epochs => {
                Activity::ClaimingOn { epoch: epoch + 1 }
            }
            false if host.is_writer => Activity::CheckingDescent,
            false => Activity::Standby,
        };
    }

    /// Whether a directory that goes on as it is lacks a part of the log that a cut adopts.
    fn lacks(&self, host: &HostState, cut: &CutObject) -> bool {
        host.is_writer && self.keeps(Safeguard::DescentAfterClaim) && cut.history & !host.log != 0
    }

    /// Another host has taken over.
    fn give_up(world: &mut WorldState, h: usize) {
        let host = &mut world.hosts[h];
        host.activity = Activity::Fenced;
        host.divergent |= host.log & !host.shipped;
    }

    fn find_root(&self, world: &mut WorldState, h: usize, epoch: usize, former: usize) {
        let host = &world.hosts[h];
        let cut = world.objects.cuts[former].unwrap_or(CutObject {
            former: 0,
            last: 0,
            history: 0,
            gives_up: false,
        });
        let first = if self.keeps(Safeguard::EpochInNames) { 0 } else { cut.last };
        let (counter, history) = match world.objects.newest_root(former, PARCELS) {
            Some(root) if self.keeps(Safeguard::ReadFromRoot) => root,
            _ => (first, cut.history),
        };
        let history = history | if host.epoch == former { host.shipped } else { 0 };
        let counter = if host.epoch == former { counter.max(host.next_parcel - 1) } else { counter };
        world.hosts[h].activity = Activity::ReadingParcels { epoch, former, counter, history };
    }

    fn begin_epoch(&self, world: &mut WorldState, h: usize, epoch: usize, cut: CutObject) {
        let fetched = (0..WRITES).filter(|&k| {
            let has = |p: &ParcelObject| p.entries & written(k) != 0;
            let name = self.name_epoch(cut.former);
            !self.own_lane && (1..PARCELS).any(|n| world.objects.parcel(name, n).as_ref().is_some_and(has))
        });
        let fetched = fetched.fold(0, |all, k| all | 1 << k);
        let host = &mut world.hosts[h];
        let tail = host.log & !cut.history;
        let is_own = cut.former == host.epoch || host.is_writer;
        let goes_on = is_own && self.keeps(Safeguard::TailGoesOn);
        let has = if host.is_writer { host.log & cut.history } else { cut.history };
        host.log = has | if goes_on { tail } else { 0 };
        if !is_own {
            host.divergent |= tail;
        }
        host.local |= fetched;
        host.epoch = epoch;
        host.shipped = cut.history;
        host.next_parcel = if self.keeps(Safeguard::EpochInNames) { 1 } else { cut.last + 1 };
        host.in_flight = None;
        host.return_point = None;
        host.is_writer = false;
        host.activity = Activity::Serving;
    }

    fn serving_steps(&self, world: &WorldState, h: usize, found: &mut Successors) {
        let host = &world.hosts[h];
        let tail = host.log & !host.shipped;
        if !self.sync || tail == 0 {
            self.commit_steps(world, h, found);
        }
        let retries = host.in_flight.is_some();
        if tail == 0 || host.next_parcel >= PARCELS || !retries && world.parcels == self.parcels {
            return;
        }
        if self.own_lane && (0..WRITES).any(|k| tail & written(k) != 0 && !is_remote(host.log, k)) {
            return;
        }
        let frozen = ParcelObject { previous: host.shipped, entries: tail };
        let parcel = host.in_flight.filter(|_| self.keeps(Safeguard::SameBytesOnRetry)).unwrap_or(frozen);
        let mut begun = world.clone();
        begun.hosts[h].in_flight = Some(parcel);
        begun.parcels += usize::from(!retries);
        let request =
            ChangeRequest::Parcel { epoch: self.name_epoch(host.epoch), counter: host.next_parcel, parcel };
        self.put(&begun, (HOST_NAMES[h], "puts a parcel"), request, found, |next, _| {
            next.hosts[h].activity = Activity::CheckingClaim;
            if !self.keeps(Safeguard::ClaimCheckAfterParcel) {
                self.promise(next, h);
            }
        });
    }

    fn commit_steps(&self, world: &WorldState, h: usize, found: &mut Successors) {
        let mut commit = |step, entry: Entries| {
            let mut next = world.clone();
            let host = &mut next.hosts[h];
            host.log |= entry;
            if !self.sync {
                host.answered |= entry;
            }
            if entry == written(world.written) {
                host.local |= 1 << world.written;
                next.written += 1;
            }
            found.push(((HOST_NAMES[h], step), next));
        };
        if world.written < self.writes {
            commit("commits a write", written(world.written));
        }
        for k in (0..self.writes).filter(|_| self.tier) {
            if world.hosts[h].log & (written(k) | dead(k)) == written(k) {
                commit("commits a delete", dead(k));
            }
        }
    }

    /// The answer of HEAD for the next claim.
    fn confirm(&self, world: &mut WorldState, h: usize) {
        let epoch = world.hosts[h].epoch;
        if world.objects.claims.get(epoch + 1).is_some_and(|&claim| claim != 0) {
            match self.has_starts() && self.keeps(Safeguard::ClaimsAgain) {
                true => world.hosts[h].activity = Activity::Overtaken,
                false => Self::give_up(world, h),
            }
        } else {
            self.promise(world, h);
        }
    }

    fn promise(&self, world: &mut WorldState, h: usize) {
        let host = &mut world.hosts[h];
        host.activity = Activity::Serving;
        let Some(parcel) = host.in_flight.take() else { return };
        let all = host.log & !host.shipped;
        let entries = if self.keeps(Safeguard::SameBytesOnRetry) { parcel.entries } else { all };
        host.shipped |= entries;
        host.next_parcel += 1;
        host.answered |= entries;
        world.promised |= entries;
    }

    /// The steps of a collector that takes claims and cuts of former epochs for rubbish.
    fn collector_steps(&self, world: &WorldState, found: &mut Successors) {
        let Some(newest) = (0..self.epochs).rev().find(|&epoch| world.objects.cuts[epoch].is_some()) else {
            return;
        };
        for epoch in 1..self.epochs.min(newest + 1) {
            let mut delete = |request| {
                let mut next = world.clone();
                next.objects.apply(request, true);
                found.push((("collector", "deletes a claim or a cut"), next));
            };
            if !self.keeps(Safeguard::ClaimsStay) && world.objects.claims[epoch] != 0 {
                delete(ChangeRequest::DeleteClaim { epoch });
            }
            if !self.keeps(Safeguard::CutsStay) && epoch < newest && world.objects.cuts[epoch].is_some() {
                delete(ChangeRequest::DeleteCut { epoch });
            }
        }
    }

    fn death_steps(&self, world: &WorldState, found: &mut Successors) {
        for h in (0..self.hosts).filter(|_| world.deaths < self.deaths) {
            let mut next = world.clone();
            next.deaths += 1;
            next.hosts[h].activity = Activity::Gone;
            found.push(((HOST_NAMES[h], "is gone for good"), next));
        }
    }

    fn crash_steps(&self, world: &WorldState, found: &mut Successors) {
        if world.crashes == self.crashes {
            return;
        }
        let stands = |host: &HostState| matches!(host.activity, Activity::Standby | Activity::Gone);
        for (h, host) in world.hosts.iter().enumerate().filter(|(_, host)| !stands(host)) {
            let mut next = world.clone();
            next.crashes += 1;
            next.hosts[h] = HostState {
                activity: match self.one_command && host.epoch != EPOCHS {
                    true => Activity::Starting,
                    false => Activity::Standby,
                },
                in_flight: None,
                verified: 0,
                deletion: Deletion::None,
                is_writer: false,
                ..host.clone()
            };
            found.push(((HOST_NAMES[h], "crashes and starts again"), next));
        }
    }
}

impl StateMachine for Scenario {
    type State = WorldState;
    type Step = NamedStep;

    fn start(&self) -> WorldState {
        let standby = HostState {
            activity: Activity::Standby,
            nonce: 0,
            epoch: EPOCHS,
            next_parcel: 1,
            shipped: 0,
            log: 0,
            divergent: 0,
            in_flight: None,
            local: 0,
            verified: 0,
            answered: 0,
            deletion: Deletion::None,
            return_point: None,
            is_writer: false,
            was_behind: false,
        };
        let mut hosts = vec![standby; self.hosts];
        hosts[0] = HostState { activity: Activity::Serving, nonce: 1, epoch: 0, ..hosts[0].clone() };
        WorldState {
            objects: RemoteObjects::with_first_epoch(1),
            hosts,
            unanswered: BTreeSet::new(),
            crashes: 0,
            nonces: 1,
            promised: 0,
            written: 0,
            parcels: 0,
            deletes: 0,
            returns: 0,
            boots: 0,
            deaths: 0,
            claimed_behind: false,
            claimed_unseen: false,
            started_beside: false,
            window: 0,
        }
    }

    fn successors(&self, world: &WorldState, found: &mut Successors) {
        for h in 0..self.hosts {
            self.host_steps(world, h, found);
        }
        self.crash_steps(world, found);
        self.death_steps(world, found);
        self.collector_steps(world, found);
        for &request in &world.unanswered {
            let mut next = world.clone();
            self.apply(&mut next, request);
            if next.objects != world.objects {
                found.push((("network", "lets a request land late"), next));
            }
        }
        if self.tier
            && let Some(window) = invariants::point_after(self, world, world.window)
        {
            let mut next = world.clone();
            next.window = window;
            found.push((("time", "moves the window on"), next));
        }
    }

    fn violation(&self, world: &WorldState) -> Option<&'static str> {
        invariants::violated(self, world)
    }
}
