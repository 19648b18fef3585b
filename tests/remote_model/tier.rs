//! Uploads, evictions, roots and deletes of a host of the model.

use super::objects::*;
use super::protocol::{HOST_NAMES, Safeguard, Scenario, Successors};
use super::state::{Activity, Deletion, HostState, WorldState};

impl Scenario {
    pub(super) fn tier_steps(&self, world: &WorldState, h: usize, found: &mut Successors) {
        for k in 0..self.writes {
            self.upload_steps(world, h, k, found);
        }
        let host = &world.hosts[h];
        let last = host.next_parcel - 1;
        let roots = world.objects.roots.iter().flatten().flatten().count() - 1;
        if host.activity == Activity::Serving
            && roots < self.roots
            && world.objects.roots[host.epoch][last].is_none()
        {
            let request = ChangeRequest::Root { epoch: host.epoch, counter: last, history: host.shipped };
            self.put(world, (HOST_NAMES[h], "puts a root"), request, found, |_, _| {});
        }
        let base = self.base(world, host);
        if self.returns > 0 && base & !world.objects.floors[host.epoch] != 0 && world.deletes < self.deletes {
            let request = ChangeRequest::Floor { epoch: host.epoch, history: base };
            self.put(world, (HOST_NAMES[h], "puts its floor"), request, found, |_, _| {});
        }
        self.deletion_steps(world, h, found);
    }

    fn upload_steps(&self, world: &WorldState, h: usize, k: usize, found: &mut Successors) {
        let host = &world.hosts[h];
        let bit = 1u8 << k;
        let epoch = host.epoch;
        let mut local = |step, change: &dyn Fn(&mut HostState)| {
            let mut next = world.clone();
            change(&mut next.hosts[h]);
            found.push(((HOST_NAMES[h], step), next));
        };
        let trusted = if self.keeps(Safeguard::EvictAfterShipped) { host.shipped } else { host.log };
        let copied =
            is_remote(trusted, k) || !self.keeps(Safeguard::IntentIsNoCopy) && is_leaving(trusted, k);
        if copied && host.local & bit != 0 {
            local("evicts the local pages of a segment", &|host| host.local &= !bit);
        }
        if host.log & (written(k) | dead(k)) != written(k) || is_remote(host.log, k) {
            return;
        }
        if self.sync && host.log != host.shipped {
            return;
        }
        if host.log & leaving(epoch, k) == 0 {
            if host.local & bit != 0 {
                local("logs that a segment leaves", &|host| host.log |= leaving(epoch, k));
            }
        } else if host.verified & bit != 0 {
            local("logs that a segment is remote", &|host| host.log |= remote(epoch, k));
        } else if host.local & bit != 0 {
            let request = ChangeRequest::Segment { epoch, k };
            self.put(world, (HOST_NAMES[h], "puts a segment and verifies it"), request, found, |next, _| {
                next.hosts[h].verified |= bit;
            });
        }
    }

    fn deletion_steps(&self, world: &WorldState, h: usize, found: &mut Successors) {
        let host = &world.hosts[h];
        let mut choose = |step, deletion| {
            let mut next = world.clone();
            next.deletes += u8::from(host.deletion == Deletion::None);
            next.hosts[h].deletion = deletion;
            found.push(((HOST_NAMES[h], step), next));
        };
        match host.deletion {
            Deletion::None => {
                if world.deletes == self.deletes {
                    return;
                }
                for request in self.deletable(world, host) {
                    choose("chooses a key to delete", Deletion::Chosen(request));
                }
            }
            Deletion::Chosen(request) if self.keeps(Safeguard::ClaimCheckAfterRoot) => {
                if world.objects.claims.get(host.epoch + 1).is_none_or(|&claim| claim == 0) {
                    choose("finds no next claim before a delete", Deletion::Checked(request));
                }
            }
            Deletion::Chosen(request) | Deletion::Checked(request) => {
                self.put(world, (HOST_NAMES[h], "deletes a key"), request, found, |next, _| {
                    next.hosts[h].deletion = Deletion::None;
                });
            }
        }
    }

    /// The keys that the rules of deleting leave to `host`.
    fn deletable(&self, world: &WorldState, host: &HostState) -> Vec<ChangeRequest> {
        let objects = &world.objects;
        let mut keys = Vec::new();
        let base = self.base_of_deletes(world, host);
        for (epoch, k) in (0..self.epochs).flat_map(|epoch| (0..self.writes).map(move |k| (epoch, k))) {
            let named = if self.keeps(Safeguard::TailNamesKeys) { host.log } else { host.shipped };
            let stranger = epoch < host.epoch && named & remote(epoch, k) == 0;
            let gone =
                base & dead(k) != 0 || !self.keeps(Safeguard::DeadAtBase) && self.unnamed(world, host, k);
            if objects.has_segment(epoch, k) && (stranger || gone) {
                keys.push(ChangeRequest::DeleteSegment { epoch, k });
            }
        }
        for (epoch, counter) in (0..self.epochs).flat_map(|epoch| (1..PARCELS).map(move |n| (epoch, n))) {
            let copied =
                |k| is_remote(base, k) || !self.keeps(Safeguard::IntentIsNoCopy) && is_leaving(base, k);
            let needless = |k| base & dead(k) != 0 || copied(k);
            let base = if self.keeps(Safeguard::DeadAtBase) { base } else { self.covering(world, host) };
            if let Some(parcel) = objects.parcel(epoch, counter)
                && (self.keeps(Safeguard::DeadAtBase) || parcel.entries & world.window == parcel.entries)
                && base & parcel.entries == parcel.entries
                && (0..WRITES).all(|k| parcel.entries & written(k) == 0 || needless(k))
            {
                keys.push(ChangeRequest::DeleteParcel { epoch, counter });
            }
        }
        keys.extend(self.deletable_roots(world, host));
        keys
    }

    /// The newest root of the adopted chain that is as old as the window, and that may be a base.
    fn base(&self, world: &WorldState, host: &HostState) -> Entries {
        let may_be = |(_, counter, history): &(usize, usize, Entries)| {
            history & world.window == *history && (self.is_lasting(*counter) || !self.deletes_roots())
        };
        self.newest(world, host, may_be)
    }

    /// The newest root of the adopted chain, of any age.
    fn covering(&self, world: &WorldState, host: &HostState) -> Entries {
        self.newest(world, host, |_| true)
    }

    fn newest(
        &self,
        world: &WorldState,
        host: &HostState,
        may_be: impl Fn(&(usize, usize, Entries)) -> bool,
    ) -> Entries {
        let roots = world.objects.adopted_roots(host.epoch).into_iter();
        let roots = roots.filter(|(_, _, history)| history & host.shipped == *history).filter(may_be);
        roots.map(|(_, _, history)| history).max_by_key(|history| history.count_ones()).unwrap_or(0)
    }

    fn deletes_roots(&self) -> bool {
        self.root_deletes && self.keeps(Safeguard::LastingRootsStay)
    }

    /// Whether a root stays until a base is after it.
    fn is_lasting(&self, counter: usize) -> bool {
        counter == 0 || counter % 2 == 1
    }

    /// The base by which a host deletes: the floor that it has put.
    fn base_of_deletes(&self, world: &WorldState, host: &HostState) -> Entries {
        match self.keeps(Safeguard::RootBeforeDelete) {
            true if self.returns > 0 && self.keeps(Safeguard::FloorBeforeDelete) => {
                world.objects.floors[host.epoch]
            }
            true => self.base(world, host),
            false => host.shipped,
        }
    }

    /// The roots before the base, and younger ones that have served their time.
    fn deletable_roots(&self, world: &WorldState, host: &HostState) -> Vec<ChangeRequest> {
        let base = self.base_of_deletes(world, host);
        let roots = world.objects.adopted_roots(host.epoch).into_iter();
        let may_go = |(_, counter, history): &(usize, usize, Entries)| {
            let is_passed = history & base == *history && *history != base;
            let is_spare = !self.is_lasting(*counter) || !self.keeps(Safeguard::LastingRootsStay);
            is_passed || is_spare && *history != base
        };
        let named = roots.filter(|_| self.root_deletes).filter(may_go);
        named.map(|(epoch, counter, _)| ChangeRequest::DeleteRoot { epoch, counter }).collect()
    }

    /// Whether a root without segment k is up, and no root of the window names it.
    fn unnamed(&self, world: &WorldState, host: &HostState, k: usize) -> bool {
        let roots = || world.objects.roots.iter().flatten().flatten();
        let alive = |history: Entries| is_remote(history, k) && history & dead(k) == 0;
        host.shipped & dead(k) != 0
            && roots().any(|&history| history & dead(k) != 0)
            && !roots().any(|&history| alive(history) && history & world.window == world.window)
    }
}
