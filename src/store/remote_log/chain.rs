//! Reading the log on a remote (data-format.md, section 17): the newest cut, the newest root that
//! it adopts, and the parcels after it.

use std::ops::{ControlFlow, RangeInclusive};
use std::panic::resume_unwind;
use std::thread;

use super::error::ShipError;
use super::object::{get, line, missing, rest_of_object, start_of_object};
use super::request::PATIENCE;
use crate::base::Timestamp;
use crate::base::limits::COUNTERS_END;
use crate::format::{
    Claim, Cut, Floor, LogPosition, PARCEL_MAX_BYTES, Parcel, ParcelHead, ParcelId, ParcelPiece, Root,
    StoreId,
};
use crate::remote::{ObjectPart, RemoteError, RemoteObject, RemoteView};

/// Names on a full page of a listing.
const PAGE_LEN: usize = 1000;

/// The log on a remote, from a root on.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) root: Root,
    /// The epochs from the root's on, each with the cut that adopts it; the newest one goes
    /// on to the first parcel that is missing.
    epochs: Vec<(u64, Option<Cut>)>,
}

/// Parcels of one epoch.
#[derive(Debug, Clone)]
pub(crate) struct ParcelRun {
    epoch: u64,
    counters: RangeInclusive<u64>,
}

impl ParcelRun {
    /// Their number.
    pub(crate) fn count(&self) -> u64 {
        (self.counters.end() + 1).saturating_sub(*self.counters.start())
    }

    pub(crate) fn ids(self) -> impl Iterator<Item = ParcelId> {
        self.counters.map(move |counter| ParcelId { epoch: self.epoch, counter })
    }
}

/// The log on a remote.
#[derive(Clone, Copy)]
pub(crate) struct RemoteLog<'r> {
    pub(crate) remote: &'r dyn RemoteView,
    pub(crate) store: StoreId,
}

impl Chain {
    /// The log of another chain from a later root on.
    pub(crate) fn from_root(root: Root, whole: &Self) -> Self {
        let epochs = whole.epochs.iter().filter(|(epoch, _)| *epoch >= root.epoch);
        Self { root, epochs: epochs.copied().collect() }
    }

    /// The newest epoch.
    pub(crate) fn newest(&self) -> u64 {
        self.epochs.last().map_or(self.root.epoch, |(epoch, _)| *epoch)
    }

    /// The number of parcels after the root in epochs that a later one has adopted.
    pub(crate) fn adopted_parcels(&self) -> u64 {
        let mut parcels: u64 = 0;
        for (epoch, cut) in &self.epochs {
            let Some(cut) = cut else { continue };
            let before = if *epoch == self.root.epoch { self.root.after } else { 0 };
            parcels = parcels.saturating_add(cut.last.saturating_sub(before));
        }
        parcels
    }

    /// Whether a parcel belongs to the log of the chain, or comes before it.
    pub(crate) fn is_adopted(&self, epoch: u64, counter: u64) -> bool {
        if epoch < self.root.epoch {
            return true;
        }
        let Some((_, cut)) = self.epochs.iter().find(|(found, _)| *found == epoch) else { return false };
        cut.is_none_or(|cut| counter <= cut.last)
    }

    /// The epoch and the number of the last parcel of the log, and its end, by the heads after the
    /// root.
    pub(crate) fn end_of(&self, heads: &[ParcelHead], end: LogPosition) -> (u64, u64, LogPosition) {
        let found = heads.last().filter(|head| head.end.sequence > self.root.covered.sequence);
        let found = found.map(|head| (head.epoch, head.counter, end));
        found.unwrap_or((self.root.epoch, self.root.after, self.root.covered))
    }

    /// The last group of an epoch that counts: a cut may adopt a parcel in part.
    pub(crate) fn last_sequence(&self, epoch: u64) -> u64 {
        let cut = self.epochs.iter().find(|(found, _)| *found == epoch).and_then(|(_, cut)| *cut);
        cut.map_or(u64::MAX, |cut| cut.end.sequence)
    }
}

impl RemoteLog<'_> {
    /// Whether an epoch up to that epoch has begun a log.
    pub(crate) fn has_log(&self, highest: u64) -> Result<bool, ShipError> {
        Ok(highest > 0 && (!self.page(Cut::PREFIX, "")?.is_empty() || self.cut(highest)?.is_some()))
    }

    /// The highest epoch with a claim; 0 for none. A listing may lack the newest ones.
    pub(crate) fn newest_claim(&self) -> Result<u64, ShipError> {
        let listed = self.listed(Claim::PREFIX)?;
        let listed = listed.last().and_then(|claim| hexadecimal(&claim.name, Claim::PREFIX));
        self.newest_claim_from(listed.unwrap_or(0))
    }

    /// The highest epoch with a claim, from one that has a claim on.
    pub(crate) fn newest_claim_from(&self, epoch: u64) -> Result<u64, ShipError> {
        // One by one from the last known on, since a listing may lack what was put a moment ago,
        // and a claim that is not seen costs more than a request.
        let mut newest = epoch;
        while self.is_claimed(newest + 1)? {
            newest += 1;
        }
        Ok(newest)
    }

    /// The parcels with bytes that the checkpoint of a root needs, in order. They may begin in a
    /// epoch that its own has adopted.
    pub(crate) fn parcels_before(&self, root: &Root) -> Result<Vec<ParcelRun>, ShipError> {
        // Backwards from the root: each cut names the last parcel of the epoch before that counts.
        let mut runs = Vec::new();
        let mut epoch = root.epoch;
        let mut last = root.after;
        while epoch > root.first.epoch {
            runs.push(ParcelRun { epoch, counters: 1..=last });
            let cut = self.cut(epoch)?;
            let cut = cut.ok_or_else(|| ShipError::damaged(Cut::name(epoch), &"a root needs it"))?;
            epoch = cut.former;
            last = cut.last;
        }
        if epoch != root.first.epoch {
            let name = Root::name(root.epoch, root.number);
            return Err(ShipError::damaged(name, &"its first parcel is of an epoch that was not adopted"));
        }
        runs.push(ParcelRun { epoch, counters: root.first.counter..=last });
        runs.reverse();
        Ok(runs)
    }

    /// Whether there is a claim of that epoch.
    pub(crate) fn is_claimed(&self, epoch: u64) -> Result<bool, ShipError> {
        self.exists(&Claim::name(epoch))
    }

    /// The newest cut of an epoch up to `epoch`.
    pub(crate) fn newest_cut(&self, epoch: u64) -> Result<Option<Cut>, ShipError> {
        // Downwards: epochs whose host failed between claim and cut have none.
        for epoch in (1..=epoch).rev() {
            if let Some(cut) = self.cut(epoch)? {
                return Ok(Some(cut));
            }
        }
        Ok(None)
    }

    /// The log as the epoch of `newest` has adopted and continued it; `None` if it has no root.
    pub(crate) fn chain(&self, newest: &Cut) -> Result<Option<Chain>, ShipError> {
        self.chain_from(newest, &mut |_| true)
    }

    /// As [`RemoteLog::chain`], from the newest root on that `wanted` takes; it is asked for each
    /// of them, the newest first.
    pub(crate) fn chain_from(
        &self,
        newest: &Cut,
        wanted: &mut dyn FnMut(&Root) -> bool,
    ) -> Result<Option<Chain>, ShipError> {
        let mut cut = *newest;
        let mut adopted_by = None;
        let mut epochs = Vec::new();
        loop {
            epochs.insert(0, (cut.epoch, adopted_by));
            if let Some(root) = self.newest_root(cut.epoch, adopted_by.as_ref(), wanted)? {
                return Ok(Some(Chain { root, epochs }));
            }
            if cut.former == 0 {
                return Ok(None);
            }
            // An epoch may end before its first root. Its log goes on from the one before it.
            let former = self.cut(cut.former)?;
            let name = Cut::name(cut.former);
            adopted_by = Some(cut);
            cut = former
                .ok_or_else(|| ShipError::damaged(name, &"it is missing, and a later epoch names it"))?;
        }
    }

    /// The heads of the parcels after the root of a chain, as far as each follows the one before it
    /// and up to the first one with a group after a time; and the end of the last one.
    pub(crate) fn heads(
        &self,
        chain: &Chain,
        at: Option<Timestamp>,
    ) -> Result<(Vec<ParcelHead>, LogPosition), ShipError> {
        let mut heads = Vec::new();
        let mut end = chain.root.covered;
        for (epoch, adopted_by) in &chain.epochs {
            let first = if *epoch == chain.root.epoch { chain.root.after + 1 } else { 1 };
            let mut ahead = HeadsAhead::of(self, *epoch, first, adopted_by.as_ref())?;
            for counter in first..=adopted_by.map_or(u64::MAX - 1, |cut| cut.last) {
                let Some(head) = ahead.head(counter)? else {
                    // A later epoch names the last one, so that all before it were there.
                    if adopted_by.is_some() {
                        return Err(missing(&Parcel::name(*epoch, counter)));
                    }
                    break;
                };
                // Parcels before the end of the checkpoint, and the one with its end, are not
                // chained by their heads.
                let covered = chain.root.covered.sequence;
                if head.before != end && (end.sequence > covered || head.before.sequence > covered) {
                    return Ok((heads, end));
                }
                if head.end.sequence > covered {
                    end = head.end;
                }
                // Groups after the end of the adopted log mean nothing.
                if let Some(cut) = adopted_by.filter(|cut| cut.end.sequence < end.sequence) {
                    end = cut.end;
                }
                heads.push(head);
                if at.is_some_and(|at| head.time > at) && self.goes_beyond(&head, at)? {
                    return Ok((heads, end));
                }
            }
        }
        Ok((heads, end))
    }

    /// Whether a parcel has a group after a time.
    fn goes_beyond(&self, head: &ParcelHead, at: Option<Timestamp>) -> Result<bool, ShipError> {
        let parcel = self.parcel(head.epoch, head.counter)?;
        let groups = parcel.unchecked_groups(&self.store);
        let groups =
            groups.map_err(|error| ShipError::damaged(Parcel::name(head.epoch, head.counter), &error))?;
        Ok(groups.iter().any(|(group, _)| at.is_some_and(|at| group.header().time > at)))
    }

    /// A whole parcel.
    pub(crate) fn parcel(&self, epoch: u64, counter: u64) -> Result<Parcel, ShipError> {
        self.find_parcel(epoch, counter)?.ok_or_else(|| missing(&Parcel::name(epoch, counter)))
    }

    /// A whole parcel, if it is there.
    pub(crate) fn find_parcel(&self, epoch: u64, counter: u64) -> Result<Option<Parcel>, ShipError> {
        self.find_parcel_but(epoch, counter, &|_| false).map(|found| found.and_then(|(_, parcel)| parcel))
    }

    /// The head of a parcel, if it is there, and the parcel, unless `skips` its head. A parcel that
    /// is not long takes one request.
    pub(crate) fn find_parcel_but(
        &self,
        epoch: u64,
        counter: u64,
        skips: &dyn Fn(&ParcelHead) -> bool,
    ) -> Result<Option<(ParcelHead, Option<Parcel>)>, ShipError> {
        let start = start_of_object(self.remote, &Parcel::name(epoch, counter))?;
        start.map_or(Ok(None), |start| self.open_parcel(ParcelId { epoch, counter }, start, skips).map(Some))
    }

    /// Gives parcels to `visit`, in their order. Several are asked for at a time.
    ///
    /// # Errors
    /// Where one is missing; the errors of the remote, and of `visit`.
    pub(crate) fn each_parcel(
        &self,
        ids: impl Iterator<Item = ParcelId>,
        visit: &mut dyn FnMut(Parcel) -> Result<ControlFlow<()>, ShipError>,
    ) -> Result<(), ShipError> {
        let mut ids = ids.peekable();
        while ids.peek().is_some() {
            // A batch at a time, and the parcels of it in order: memory holds no more than the
            // first bytes of so many.
            let batch: Vec<ParcelId> = ids.by_ref().take(self.remote.calls_at_once()).collect();
            let starts =
                at_once(&batch, &|id| start_of_object(self.remote, &Parcel::name(id.epoch, id.counter)));
            for (id, start) in batch.into_iter().zip(starts) {
                let start = start?.ok_or_else(|| missing(&Parcel::name(id.epoch, id.counter)))?;
                let (_, parcel) = self.open_parcel(id, start, &|_| false)?;
                let Some(parcel) = parcel else { continue };
                if visit(parcel)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// A parcel whose first bytes are here, unless `skips` its head.
    fn open_parcel(
        &self,
        ParcelId { epoch, counter }: ParcelId,
        start: ObjectPart,
        skips: &dyn Fn(&ParcelHead) -> bool,
    ) -> Result<(ParcelHead, Option<Parcel>), ShipError> {
        let name = Parcel::name(epoch, counter);
        let head = start.bytes.get(..ParcelHead::BYTES).unwrap_or(&start.bytes);
        let head =
            ParcelHead::decode(&self.store, head).map_err(|error| ShipError::damaged(&name, &error))?;
        // The bytes of a parcel prove that they are whole, and not that they are those that were
        // asked for.
        if (head.epoch, head.counter) != (epoch, counter) {
            return Err(ShipError::damaged(name, &"it is another parcel"));
        }
        if skips(&head) {
            return Ok((head, None));
        }
        let bytes = rest_of_object(self.remote, &name, start, PARCEL_MAX_BYTES)?;
        let parcel =
            Parcel::decode(&self.store, &bytes).map_err(|error| ShipError::damaged(&name, &error))?;
        Ok((head, Some(parcel)))
    }

    /// The bytes of a piece that is an object of its own.
    pub(crate) fn piece(&self, head: &ParcelHead, piece: &ParcelPiece) -> Result<Vec<u8>, ShipError> {
        let name = Parcel::object_name(head.epoch, head.counter, piece.object);
        let bytes = get(self.remote, &name, 0..piece.length)?;
        piece.check(&bytes).map_err(|error| ShipError::damaged(name, &error))?;
        Ok(bytes)
    }

    /// The cut of an epoch.
    pub(crate) fn cut(&self, epoch: u64) -> Result<Option<Cut>, ShipError> {
        let found = line(self.remote, &Cut::name(epoch), Cut::decode)?;
        Ok(found.filter(|cut| cut.store == self.store && cut.epoch == epoch))
    }

    /// The newest root of an epoch that holds nothing beyond the cut that adopts it, and that is
    /// wanted.
    pub(crate) fn newest_root(
        &self,
        epoch: u64,
        adopted_by: Option<&Cut>,
        wanted: &mut dyn FnMut(&Root) -> bool,
    ) -> Result<Option<Root>, ShipError> {
        let numbers = self.numbers(&Root::prefix(epoch), &|number| Root::name(epoch, number))?;
        for number in numbers.into_iter().rev() {
            let Some(root) = line(self.remote, &Root::name(epoch, number), Root::decode)? else { continue };
            // A root beyond the cut covers groups that the next epoch has not adopted: a restore
            // that began with it would bring back what was given up.
            let is_adopted = adopted_by
                .is_none_or(|cut| root.after <= cut.last && root.covered.sequence <= cut.end.sequence);
            if is_adopted && root.store == self.store && root.epoch == epoch && wanted(&root) {
                return Ok(Some(root));
            }
        }
        Ok(None)
    }

    pub(crate) fn head_of_parcel(&self, epoch: u64, counter: u64) -> Result<Option<ParcelHead>, ShipError> {
        let name = Parcel::name(epoch, counter);
        let found = match self.remote.get(&name, 0..ParcelHead::BYTES as u64, PATIENCE) {
            Err(RemoteError::Missing) => return Ok(None),
            found => found.map_err(|error| ShipError::Remote { name: name.clone(), error })?,
        };
        let head =
            ParcelHead::decode(&self.store, &found).map_err(|error| ShipError::damaged(&name, &error))?;
        if (head.epoch, head.counter) == (epoch, counter) {
            Ok(Some(head))
        } else {
            Err(ShipError::damaged(name, &"it is another parcel"))
        }
    }

    /// Whether there is an object of that name.
    pub(crate) fn exists(&self, name: &str) -> Result<bool, ShipError> {
        let found = self.remote.head(name, PATIENCE);
        Ok(found.map_err(|error| ShipError::Remote { name: name.to_owned(), error })?.is_some())
    }

    /// The newest floor that an epoch has put.
    pub(crate) fn newest_floor(&self, epoch: u64) -> Result<Option<Floor>, ShipError> {
        let numbers = self.numbers(&Floor::prefix(epoch), &|number| Floor::name(epoch, number))?;
        let Some(number) = numbers.last() else { return Ok(None) };
        let name = Floor::name(epoch, *number);
        let floor = line(self.remote, &name, Floor::decode)?.ok_or_else(|| missing(&name))?;
        let is_sound = floor.store == self.store && (floor.epoch, floor.number) == (epoch, *number);
        if is_sound { Ok(Some(floor)) } else { Err(ShipError::damaged(name, &"it is another floor")) }
    }

    /// The numbers after a prefix, in order, of the objects that listings show and of those that
    /// follow the last one without a gap: listings may lack the newest.
    fn numbers(&self, prefix: &str, name: &dyn Fn(u64) -> String) -> Result<Vec<u64>, ShipError> {
        let listed = self.listed(prefix)?;
        let mut numbers: Vec<u64> =
            listed.iter().filter_map(|object| hexadecimal(&object.name, prefix)).collect();
        let mut next = numbers.last().copied().unwrap_or(0) + 1;
        while self.exists(&name(next))? {
            numbers.push(next);
            next += 1;
        }
        Ok(numbers)
    }

    /// All objects with names that begin so, as listings show them.
    pub(crate) fn listed(&self, prefix: &str) -> Result<Vec<RemoteObject>, ShipError> {
        self.listed_after(prefix, "")
    }

    /// As [`RemoteLog::listed`], of those after a name.
    pub(crate) fn listed_after(&self, prefix: &str, after: &str) -> Result<Vec<RemoteObject>, ShipError> {
        let mut all: Vec<RemoteObject> = Vec::new();
        loop {
            let page = self.page(prefix, all.last().map_or(after, |last| &last.name))?;
            let is_full = page.len() >= PAGE_LEN;
            all.extend(page);
            if !is_full {
                return Ok(all);
            }
        }
    }

    /// Some objects with names that begin so and come after a name, in order; all unless they are
    /// many.
    pub(crate) fn page(&self, prefix: &str, after: &str) -> Result<Vec<RemoteObject>, ShipError> {
        let page = self.remote.list(prefix, after, PATIENCE);
        page.map_err(|error| ShipError::Remote { name: prefix.to_owned(), error })
    }
}

/// The heads of the parcels of an epoch, several of which are asked for at a time as far as some
/// are known to be there.
struct HeadsAhead<'l, 'r> {
    log: &'l RemoteLog<'r>,
    epoch: u64,
    /// The last one that is known; the others are asked for one by one.
    known: u64,
    /// Those that have come, the next one last.
    come: Vec<(u64, Result<Option<ParcelHead>, ShipError>)>,
}

impl<'l, 'r> HeadsAhead<'l, 'r> {
    fn of(
        log: &'l RemoteLog<'r>,
        epoch: u64,
        first: u64,
        adopted_by: Option<&Cut>,
    ) -> Result<Self, ShipError> {
        let known = match adopted_by {
            Some(cut) => cut.last,
            None if log.remote.calls_at_once() == 1 => 0,
            // A listing may lack the newest ones, and shows enough to ask for the others.
            None => {
                let prefix = Parcel::prefix(epoch);
                let listed = log.listed_after(&prefix, &Parcel::name(epoch, first - 1))?;
                // The names of its data objects begin with the parcel's.
                let last = listed.last().and_then(|last| last.name.get(..prefix.len() + 16));
                last.and_then(|name| hexadecimal(name, &prefix)).unwrap_or(0)
            }
        };
        Ok(Self { log, epoch, known, come: Vec::new() })
    }

    fn head(&mut self, counter: u64) -> Result<Option<ParcelHead>, ShipError> {
        if self.come.is_empty() && counter < self.known {
            let last = self.known.min(counter + self.log.remote.calls_at_once() as u64 - 1);
            let counters: Vec<u64> = (counter..=last).rev().collect();
            let heads = at_once(&counters, &|counter| self.log.head_of_parcel(self.epoch, *counter));
            self.come = counters.into_iter().zip(heads).collect();
        }
        match self.come.pop() {
            Some((come, head)) if come == counter => head,
            _ => self.log.head_of_parcel(self.epoch, counter),
        }
    }
}

/// Asks for several things at a time, and returns the answers in their order.
fn at_once<T: Sync, A: Send>(asked: &[T], ask: &(dyn Fn(&T) -> A + Sync)) -> Vec<A> {
    if let [only] = asked {
        return vec![ask(only)];
    }
    thread::scope(|scope| {
        let threads: Vec<_> = asked.iter().map(|one| scope.spawn(move || ask(one))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// The number after the prefix in a name.
fn hexadecimal(name: &str, prefix: &str) -> Option<u64> {
    counter_of(name.strip_prefix(prefix)?)
}

/// The cut of the newest epoch.
pub(crate) fn newest_epoch(log: &RemoteLog<'_>) -> Result<Cut, ShipError> {
    let newest = log.newest_claim()?;
    log.newest_cut(newest)?.ok_or(ShipError::NoLog)
}

/// The first part of a name, and the epoch after it.
pub(crate) fn kind_and_epoch(name: &str) -> Option<(&str, u64)> {
    let (kind, rest) = name.split_once('/')?;
    let (epoch, _) = rest.split_once('/')?;
    Some((kind, counter_of(epoch)?))
}

/// The epoch and the counter in the name of a parcel or of its data object.
pub(crate) fn parcel_of(name: &str) -> Option<(u64, u64)> {
    let ("log", epoch) = kind_and_epoch(name)? else { return None };
    let (_, counter) = name.rsplit_once('/')?;
    let counter = counter.split('-').next()?;
    Some((epoch, counter_of(counter)?))
}

/// A number of a name, unless it leaves none for what comes after it.
fn counter_of(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok().filter(|number| *number < COUNTERS_END)
}
