//! An in-memory remote that guarantees exactly what [`Remote`] promises and no more. On request of
//! a test its calls fail, lose their answers, land late, or return other bytes; it is filled, made
//! read-only, or taken down.
//!
//! Its objects are a linearizable map. A fault shows as a caller of the real client sees it after
//! the last try: 500, 503 and 409 as [`RemoteError::Unavailable`], a short body as the same. One
//! seed gives one sequence of faults, where calls come in one order.

mod plan;
mod state;

#[cfg(test)]
mod tests;

pub use super::RemoteCall;
pub use plan::RemoteFault;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{
    NewObject, ObjectPart, PartBytes, PartStream, Remote, RemoteError, RemoteObject, RemoteView,
    RequestFigures, RequestsByCall,
};
use crate::base::SeededEntropy;
use crate::base::digest::Md5;
use plan::{CALL_KINDS, unavailable};
use state::{LateWrite, SimState, StoredObject};

/// The most objects on a page of a listing.
const PAGE_LEN: usize = 1000;

/// The timeout of a test that waits for a call to be held.
const HELD_WAIT: Duration = Duration::from_secs(60);

/// A simulated remote; a clone is the same remote.
#[derive(Clone, Default)]
pub struct SimRemote {
    shared: Arc<SimShared>,
}

#[derive(Default)]
struct SimShared {
    state: Mutex<SimState>,
    /// Signals that a call is held or released.
    changed: Condvar,
    /// Calls at a time come in any order, so that a test with seeds makes one; 0 stands for it.
    calls_at_once: AtomicUsize,
}

/// Inspection and control by tests.
impl SimRemote {
    /// An empty remote without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets callers make so many calls at a time.
    pub fn set_calls_at_once(&self, calls: usize) {
        self.shared.calls_at_once.store(calls, Ordering::Relaxed);
    }

    /// Makes calls fail at random, as many of a thousand as `per_mille` says, by the sequence of
    /// `seed`. Zero ends it.
    pub fn fail_at_random(&self, seed: u64, per_mille: u64) {
        self.lock().plan.fail_at_random(seed, per_mille);
    }

    /// Makes the next call of that kind fail so. Several are used up in the order in which they
    /// were added.
    pub fn fail_next(&self, call: RemoteCall, fault: RemoteFault) {
        self.lock().plan.add(call, fault);
    }

    /// Takes the remote down, or up again. Meanwhile calls fail and have no effect.
    pub fn set_down(&self, down: bool) {
        self.lock().plan.down = down;
    }

    /// Takes the remote down with the `n`-th call of all kinds, counted from 1 since the remote was
    /// made.
    pub fn down_at(&self, n: u64) {
        self.lock().plan.down_at = Some(n);
    }

    /// A copy of the remote as it is now: its objects, and the writes that have not landed. Both go
    /// on apart from each other.
    pub fn copy(&self) -> Self {
        let state = Mutex::new(self.lock().copy());
        let calls_at_once = AtomicUsize::new(self.calls_at_once());
        Self { shared: Arc::new(SimShared { state, changed: Condvar::new(), calls_at_once }) }
    }

    /// Calls `then` once, before the `n`-th call of all kinds, counted from 1 since the remote was
    /// made.
    pub fn call_before(&self, n: u64, then: impl FnOnce() + Send + 'static) {
        self.lock().plan.to_do.push((n, Box::new(then)));
    }

    /// Forgets the functions that were to be called.
    pub fn forget_calls(&self) {
        self.lock().plan.to_do.clear();
    }

    /// Makes puts and deletes be refused, or allows them again.
    pub fn set_read_only(&self, read_only: bool) {
        self.lock().plan.read_only = read_only;
    }

    /// Makes puts fail for lack of space, or allows them again.
    pub fn set_full(&self, full: bool) {
        self.lock().plan.full = full;
    }

    /// Makes puts ignore `If-None-Match`, as some remotes do: they replace the object.
    pub fn set_ignores_conditions(&self, ignores: bool) {
        self.lock().plan.ignores_conditions = ignores;
    }

    /// Hides objects that are there: GET and HEAD answer 404, as behind a cache, and listings lack
    /// them or not. No names show all again.
    pub fn hide<'n>(&self, names: impl IntoIterator<Item = &'n str>, in_listings: bool) {
        let mut state = self.lock();
        state.plan.hidden = names.into_iter().map(str::to_owned).collect();
        state.plan.hides_in_listings = in_listings;
    }

    /// Makes creates be checked and then put without a lock, as some remotes do: by the sequence of
    /// `seed` the check comes before the body or after it, and more or less time passes between the
    /// two.
    pub fn set_checks_then_puts(&self, seed: u64) {
        self.lock().plan.checks_then_puts = Some(SeededEntropy::new(seed));
    }

    /// The number of calls of a kind since the remote was made, also of failed ones.
    pub fn calls(&self, call: RemoteCall) -> u64 {
        self.lock().plan.calls[call as usize]
    }

    /// The number of calls of all kinds.
    pub fn all_calls(&self) -> u64 {
        self.lock().plan.all_calls()
    }

    /// The number of bytes that GET has returned.
    pub fn bytes_read(&self) -> u64 {
        self.lock().bytes_read
    }

    /// The longest time for which a slow call would have held its caller. Nothing waits for it in a
    /// test.
    pub fn longest_wait(&self) -> Duration {
        self.lock().longest_wait
    }

    /// The names of all objects, in order.
    pub fn names(&self) -> Vec<String> {
        self.lock().objects.keys().cloned().collect()
    }

    /// The bytes of an object.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.lock().objects.get(name).map(|object| object.bytes.clone())
    }

    /// Stores an object as a stranger would: without a nonce.
    pub fn place(&self, name: &str, bytes: &[u8]) {
        let object = StoredObject::new(bytes.to_vec(), None);
        self.lock().objects.insert(name.to_owned(), Arc::new(object));
    }

    /// Removes an object as a stranger would.
    pub fn remove(&self, name: &str) {
        self.lock().objects.remove(name);
    }

    /// Changes the byte at `offset` of an object, as damage on the remote would. Returns whether
    /// there is one.
    pub fn damage(&self, name: &str, offset: usize) -> bool {
        self.lock().damage(name, offset)
    }

    /// The number of writes that were answered as failed and have not landed yet.
    pub fn late_writes(&self) -> usize {
        self.lock().late.len()
    }

    /// Makes the late writes land now.
    pub fn land_late_writes(&self) {
        self.lock().land(u64::MAX);
    }

    /// Holds all calls of a kind before their effect, until [`SimRemote::release`].
    pub fn hold(&self, call: RemoteCall) {
        self.lock().plan.held[call as usize].holds = true;
    }

    /// Lets the held calls of a kind go on.
    pub fn release(&self, call: RemoteCall) {
        self.lock().plan.held[call as usize].holds = false;
        self.shared.changed.notify_all();
    }

    /// Waits until `count` calls of a kind are held.
    ///
    /// # Panics
    /// If they do not come within a minute.
    pub fn wait_for_held(&self, call: RemoteCall, count: usize) {
        let waited = self
            .shared
            .changed
            .wait_timeout_while(self.lock(), HELD_WAIT, |state| state.plan.held[call as usize].count < count);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(state);
        assert!(!timeout.timed_out(), "{count} calls were not held in time");
    }

    /// A test that panics in a call has failed already: the remote stays usable for its
    /// destructors.
    fn lock(&self) -> MutexGuard<'_, SimState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call: it is counted, held while a test wishes it, and meets its fault. Late writes
    /// land before it.
    fn begin(
        &self,
        call: RemoteCall,
    ) -> Result<(MutexGuard<'_, SimState>, Option<RemoteFault>), RemoteError> {
        debug_assert!((call as usize) < CALL_KINDS);
        while let Some(then) = { self.lock().plan.take_due() } {
            then();
        }
        let mut state = self.lock();
        let fault = state.plan.begin(call);
        if state.plan.held[call as usize].holds {
            state.plan.held[call as usize].count += 1;
            self.shared.changed.notify_all();
            while state.plan.held[call as usize].holds {
                state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.plan.held[call as usize].count -= 1;
        }
        state.plan.check_up()?;
        let now = state.plan.all_calls();
        state.land(now);
        match fault {
            Some(RemoteFault::Status(status)) => Err(RemoteError::of_status(status, "as planned")),
            fault => Ok((state, fault)),
        }
    }

    /// The bytes that a GET is answered with, and whether they end early.
    fn read_part(
        &self,
        name: &str,
        range: Range<u64>,
        within: Duration,
    ) -> Result<(ObjectPart, bool), RemoteError> {
        let (mut state, fault) = self.begin(RemoteCall::Get)?;
        if fault == Some(RemoteFault::Slow) {
            state.longest_wait = state.longest_wait.max(within);
            return Err(unavailable("the answer did not come in time"));
        }
        let object = state.shown(name).ok_or(RemoteError::Missing)?;
        let wrong = RemoteError::Wrong(format!("{name} has not the range {range:?}"));
        let object_length = object.bytes.len() as u64;
        let is_empty = range.is_empty();
        let start = at(range.start);
        let end = at(range.end.min(object_length));
        let found = object.bytes.get(start..end).filter(|part| is_empty || !part.is_empty());
        let Some(found) = found else { return Err(wrong) };
        let mut bytes = found.to_vec();
        match fault {
            Some(RemoteFault::WrongRange) => return Err(wrong),
            Some(RemoteFault::WrongBytes) => {
                let place = state.plan.draw(bytes.len() as u64);
                if let Some(byte) = bytes.get_mut(at(place)) {
                    *byte ^= 0x20;
                }
            }
            Some(RemoteFault::Cut) => bytes.truncate(bytes.len() / 2),
            Some(_) => return Err(unavailable("the answer was lost")),
            None => {}
        }
        state.bytes_read += bytes.len() as u64;
        Ok((ObjectPart { bytes, object_length }, fault == Some(RemoteFault::Cut)))
    }

    /// Carries out a write as its fault says.
    fn write(&self, call: RemoteCall, write: LateWrite) -> Result<(), RemoteError> {
        let (mut state, fault) = self.begin(call)?;
        state.plan.check_writable(call)?;
        match fault {
            Some(RemoteFault::Late) => {
                let lands_at = state.plan.draw_landing();
                state.late.push((lands_at, write));
                Err(unavailable("the answer did not come"))
            }
            Some(RemoteFault::LateOver) => {
                let LateWrite::Put { name, stored, .. } = write else {
                    return Err(unavailable("the answer was lost"));
                };
                state.late.push((u64::MAX, LateWrite::Put { name, stored, create_only: false }));
                Err(unavailable("the answer did not come"))
            }
            Some(_) => {
                state.apply(write).ok();
                Err(unavailable("the answer was lost"))
            }
            None => state.apply(write),
        }
    }
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl SimRemote {
    /// A create on a remote that checks its condition, and puts without looking again.
    fn create_without_lock(&self, object: &NewObject<'_>, bytes: &mut [u8]) -> Result<(), RemoteError> {
        let checks_by_head = self.draw_of_schedule(2) == 0;
        if !checks_by_head {
            object.body.read_at(0, bytes).map_err(RemoteError::Body)?;
        }
        {
            let (state, _) = self.begin(RemoteCall::Put)?;
            let taken = state.objects.get(object.name);
            if taken.is_some_and(|taken| taken.nonce.as_deref() != Some(object.nonce)) {
                return Err(RemoteError::Exists);
            }
        }
        if checks_by_head {
            object.body.read_at(0, bytes).map_err(RemoteError::Body)?;
        }
        // The digest takes its time, and so do others.
        Md5::of(bytes);
        for _ in 0..self.draw_of_schedule(4) {
            std::thread::yield_now();
        }
        let stored = Arc::new(StoredObject::new(bytes.to_vec(), Some(object.nonce.to_owned())));
        let name = object.name.to_owned();
        self.lock().apply(LateWrite::Put { name, stored, create_only: false })
    }

    fn draw_of_schedule(&self, bound: u64) -> u64 {
        let state = self.lock();
        state.plan.checks_then_puts.as_ref().map_or(0, |schedule| schedule.below(bound))
    }
}

/// Bytes that come while they are read, perhaps not to their end.
struct SimBytes {
    bytes: Vec<u8>,
    at: usize,
    is_cut: bool,
}

impl PartBytes for SimBytes {
    fn read(&mut self, buffer: &mut [u8], _: Duration) -> Result<(), RemoteError> {
        let Some(bytes) = self.bytes.get(self.at..self.at + buffer.len()) else {
            return Err(match self.is_cut {
                true => unavailable("the connection was cut"),
                false => RemoteError::Wrong("the bytes have ended".to_owned()),
            });
        };
        buffer.copy_from_slice(bytes);
        self.at += buffer.len();
        Ok(())
    }
}

impl RemoteView for SimRemote {
    fn calls_at_once(&self) -> usize {
        self.shared.calls_at_once.load(Ordering::Relaxed).max(1)
    }

    fn head(&self, name: &str, _: Duration) -> Result<Option<RemoteObject>, RemoteError> {
        let (state, fault) = self.begin(RemoteCall::Head)?;
        match fault {
            Some(_) => Err(unavailable("the answer was lost")),
            None => Ok(state.shown(name).map(|object| object.attributes(name))),
        }
    }

    fn get_part(&self, name: &str, range: Range<u64>, within: Duration) -> Result<ObjectPart, RemoteError> {
        match self.read_part(name, range, within)? {
            (_, true) => Err(unavailable("the connection was cut")),
            (part, false) => Ok(part),
        }
    }

    fn open_stream(
        &self,
        name: &str,
        range: Range<u64>,
        within: Duration,
    ) -> Result<PartStream, RemoteError> {
        let (ObjectPart { bytes, object_length }, is_cut) = self.read_part(name, range, within)?;
        let bytes = Box::new(SimBytes { bytes, at: 0, is_cut });
        Ok(PartStream { object_length, bytes })
    }

    fn list(&self, prefix: &str, after: &str, _: Duration) -> Result<Vec<RemoteObject>, RemoteError> {
        let (state, fault) = self.begin(RemoteCall::List)?;
        if fault.is_some() {
            return Err(unavailable("the answer was lost"));
        }
        let mut page = Vec::new();
        for (name, object) in &state.objects {
            let is_hidden = state.plan.hides_in_listings && state.plan.hidden.contains(name);
            if !name.starts_with(prefix) || &**name <= after || is_hidden {
                continue;
            }
            page.push(RemoteObject { nonce: None, ..object.attributes_without_md5(name) });
            if page.len() == PAGE_LEN {
                break;
            }
        }
        Ok(page)
    }

    /// Failures and bytes are not counted.
    fn requests(&self) -> RequestsByCall {
        let calls = self.lock().plan.calls;
        calls.map(|requests| RequestFigures { requests, ..RequestFigures::default() })
    }
}

impl Remote for SimRemote {
    fn put(&self, object: &NewObject<'_>, _: Duration) -> Result<RemoteObject, RemoteError> {
        let length = usize::try_from(object.body.length()).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        object.body.read_at(0, &mut bytes).map_err(RemoteError::Body)?;
        let is_unlocked = object.create_only && self.lock().plan.checks_then_puts.is_some();
        if is_unlocked {
            self.create_without_lock(object, &mut bytes)?;
            let stored = StoredObject::new(bytes, Some(object.nonce.to_owned()));
            return Ok(stored.attributes_without_md5(object.name));
        }
        let stored = StoredObject::new(bytes, Some(object.nonce.to_owned()));
        // The answer to a put need not state an MD5, and few callers want to know it.
        let attributes = stored.attributes_without_md5(object.name);
        let name = object.name.to_owned();
        let stored = Arc::new(stored);
        let write = LateWrite::Put { name, stored, create_only: object.create_only };
        self.write(RemoteCall::Put, write).map(|()| attributes)
    }

    fn delete(&self, name: &str, _: Duration) -> Result<(), RemoteError> {
        self.write(RemoteCall::Delete, LateWrite::Delete { name: name.to_owned() })
    }
}
