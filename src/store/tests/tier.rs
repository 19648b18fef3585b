//! Sealed segments on a remote: what is answered stays readable whatever fails, and nothing goes
//! before its copy is compared.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Barrier;

use super::*;
use crate::base::limits::MIB;
use crate::base::test_scope::seeds;
use crate::base::{Clock as _, Entropy as _};
use crate::format::{CopyPhase, RemoteMark, UNIT_BYTES, segment_path, tables_path};
use crate::fs::Fs;
use crate::fs::sim::CrashPolicy;
use crate::offline::verify::NoteKind;
use crate::remote::sim::{RemoteCall, RemoteFault, SimRemote};
use crate::remote::{
    EncryptedRemote, EncryptionKey, EncryptionKeys, NewObject, ObjectPart, PartStream, Remote, RemoteError,
    RemoteObject, RemoteView, RequestsByCall,
};

const LEN: usize = 700_000;
/// The segments that are written to, and some more.
const LOCAL: u64 = 11 * MIB;

thread_local! {
    /// Whether the objects on remotes of this thread's tests are encrypted.
    pub(super) static ENCRYPTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs tests with encrypted remotes.
pub(super) fn encrypted(tests: &[fn()]) {
    ENCRYPTED.set(true);
    tests.iter().for_each(|test| test());
    ENCRYPTED.set(false);
}

/// The key of encrypted remotes.
pub(super) fn key() -> EncryptionKey {
    EncryptionKey::generate(&SeededEntropy::new(1))
}

/// A store with its disk, its clock and its remote.
pub(super) struct Tiered {
    pub(super) fs: SimFs,
    pub(super) clock: Arc<ManualClock>,
    pub(super) remote: SimRemote,
    options: TierOptions,
}

impl Tiered {
    pub(super) fn new(options: TierOptions) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        Self { fs: SimFs::new(), clock, remote: SimRemote::new(), options }
    }

    /// The names of the copies.
    pub(super) fn copies(&self) -> Vec<String> {
        self.remote.names().into_iter().filter(|name| name.starts_with("segment/")).collect()
    }

    /// The remote as a store reaches it.
    pub(super) fn reached(&self) -> Arc<dyn Remote> {
        let remote = Arc::new(self.remote.clone());
        if !ENCRYPTED.get() {
            return remote;
        }
        Arc::new(EncryptedRemote::new(remote, &EncryptionKeys { current: key(), older: Vec::new() }))
    }

    /// Marks the remote as that of a store, whatever faults are planned.
    pub(super) fn mark(&self, store: &Store) {
        self.mark_as(store, true);
    }

    /// As `mark`, with what a probe has found.
    pub(super) fn mark_as(&self, store: &Store, decides_races: bool) {
        let mark = RemoteMark { store: store.shared.store, made: self.clock.now(), decides_races };
        let marked =
            Self { remote: SimRemote::new(), fs: self.fs.clone(), clock: self.clock.clone(), ..*self };
        let name = RemoteMark::NAME;
        let bytes = mark.encode();
        let object = NewObject { name, body: &bytes.as_slice(), nonce: "mark", create_only: false };
        marked.reached().put(&object, Duration::ZERO).unwrap();
        self.remote.place(name, &marked.remote.bytes(name).unwrap());
    }

    /// The same with other options.
    pub(super) fn with(self, options: TierOptions) -> Self {
        Self { options, ..self }
    }

    pub(super) fn open(&self) -> Store {
        self.open_on(&self.fs)
    }

    /// Filled by a store that keeps everything here, and opened again.
    pub(super) fn filled(options: TierOptions) -> (Self, Store) {
        let tiered = Self::new(TierOptions::default());
        let store = tiered.open();
        fill(&store);
        store.close();
        drop(store);
        let tiered = Self { options, ..tiered };
        let store = tiered.open();
        store.begin_epoch(&SeededEntropy::new(7)).unwrap();
        seal(&store);
        (tiered, store)
    }

    pub(super) fn open_on(&self, fs: &SimFs) -> Store {
        let store = self.open_unmarked(fs);
        self.mark(&store);
        store
    }

    /// As `open_on`, with the remote as it is.
    pub(super) fn open_unmarked(&self, fs: &SimFs) -> Store {
        self.try_open_on(fs).unwrap()
    }

    /// As `open`, with each sealed segment on its way to the large one of two disks.
    pub(super) fn open_moving(&self) -> Store {
        let options = StoreOptions { fast_free_percent: 100, ..options() };
        self.try_open_with(&self.fs, options).unwrap()
    }

    /// As `open_unmarked`, of a disk that may fail.
    pub(super) fn try_open_on(&self, fs: &SimFs) -> Result<Store, OpenError> {
        self.try_open_with(fs, options())
    }

    fn try_open_with(&self, fs: &SimFs, options: StoreOptions) -> Result<Store, OpenError> {
        let options = StoreOptions { segment_max_bytes: 4 * MIB, ..options };
        let entropy = SeededEntropy::new(1);
        Store::open_tiered(
            disks::disk(fs),
            self.clock.clone(),
            &entropy,
            options,
            self.reached(),
            self.options,
        )
    }

    /// The same remote and clock with another disk.
    pub(super) fn handle(&self, fs: &SimFs) -> Self {
        Self { fs: fs.clone(), clock: self.clock.clone(), remote: self.remote.clone(), options: self.options }
    }

    /// Copies of all, which go on by themselves.
    pub(super) fn copy(&self) -> Self {
        let clock = Arc::new(ManualClock::new(self.clock.now()));
        Self { fs: self.fs.copy(), clock, remote: self.remote.copy(), options: self.options }
    }
}

pub(super) fn work(store: &Store) -> Result<TierProgress, StoreError> {
    let mut all = TierProgress::default();
    loop {
        let done = store.tier_step(&SeededEntropy::new(7))?;
        all.sent += done.sent;
        all.deleted += done.deleted;
        all.given_back_bytes += done.given_back_bytes;
        if !done.more {
            return Ok(all);
        }
    }
}

/// Ten objects of 700,000 bytes and ten of 300, in sealed segments, and a last one that is not.
fn fill(store: &Store) {
    store.create_bucket("b", "admin").unwrap();
    for at in 0..10 {
        put(store, "b", &format!("k{at}"), &bytes(at, LEN)).unwrap();
        put(store, "b", &format!("s{at}"), &bytes(at, 300)).unwrap();
    }
    seal(store);
}

pub(super) fn seal(store: &Store) {
    store.shared.segments.retire(|_| true);
    put(store, "b", "last", b"x").unwrap();
    reclaim_all(store).unwrap();
}

pub(super) fn check(store: &Store) {
    for at in 0..10 {
        assert!(get(store, "b", &format!("k{at}")).unwrap() == bytes(at, LEN), "k{at}");
        assert_eq!(get(store, "b", &format!("s{at}")).unwrap(), bytes(at, 300));
    }
    assert_eq!(store.health().damage, []);
}

/// All local pages go.
pub(super) const NOTHING_LOCAL: TierOptions = TierOptions {
    local_max_bytes: 2 * MIB,
    keep_local: Duration::ZERO,
    keep_dropped: Duration::from_secs(60),
    scrub_percent: 0,
    abandons_log: false,
};

#[test]
pub(super) fn what_went_to_the_remote_is_read_from_there_and_kept_as_far_as_there_is_room() {
    let (tiered, store) = Tiered::filled(TierOptions { local_max_bytes: LOCAL, ..NOTHING_LOCAL });
    let done = work(&store).unwrap();
    assert!(done.sent >= 2 && done.given_back_bytes > 0, "{done:?}");
    let figures = store.tier_figures().unwrap();
    assert!(figures.remote_bytes > 7_000_000 && figures.waiting_segments == 0, "{figures:?}");
    assert!(figures.cached_bytes + figures.pinned_bytes <= LOCAL, "{figures:?}");
    check(&store);
    assert!(tiered.remote.calls(RemoteCall::Get) > 0);
    let figures = store.tier_figures().unwrap();
    assert!(figures.cached_bytes + figures.pinned_bytes <= LOCAL, "{figures:?}");
    assert!(figures.cached_bytes > MIB, "fetched bytes are kept: {figures:?}");
    // What was read last is here now.
    let before = tiered.remote.calls(RemoteCall::Get);
    assert!(get(&store, "b", "s9").is_ok() && get(&store, "b", "s9").is_ok());
    assert!(tiered.remote.calls(RemoteCall::Get) <= before + 1);
    store.close();
}

#[test]
pub(super) fn without_the_remote_the_store_starts_lists_reads_what_is_here_and_takes_writes() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    store.close();
    drop(store);
    tiered.remote.set_down(true);
    let store = tiered.open();
    assert_eq!(keys(&store, "b").len(), 21);
    assert_eq!(get(&store, "b", "last").unwrap(), b"x");
    assert!(matches!(get(&store, "b", "k1"), Err(StoreError::RemoteUnavailable(_))));
    assert_eq!(store.health().damage, [], "what cannot be fetched is not damaged");
    put(&store, "b", "new", b"new").unwrap();
    assert_eq!(get(&store, "b", "new").unwrap(), b"new");
    tiered.remote.set_down(false);
    check(&store);
    store.close();
}

#[test]
pub(super) fn nothing_is_given_back_before_its_copy_was_compared() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    tiered.remote.fail_next(RemoteCall::Put, RemoteFault::Status(503));
    assert!(matches!(work(&store), Err(StoreError::RemoteUnavailable(_))));
    // The put is answered, and its bytes are others.
    tiered.remote.hold(RemoteCall::Head);
    let step = std::thread::scope(|scope| {
        let step = scope.spawn(|| store.tier_step(&SeededEntropy::new(7)));
        tiered.remote.wait_for_held(RemoteCall::Head, 1);
        assert!(tiered.remote.damage(&tiered.copies()[0], 100_000));
        tiered.remote.release(RemoteCall::Head);
        step.join().unwrap()
    });
    assert!(matches!(step, Err(StoreError::RemoteUnavailable(_))), "{step:?}");
    assert_eq!(store.tier_figures().unwrap().remote_segments, 0);
    tiered.remote.set_down(true);
    assert!(matches!(work(&store), Err(StoreError::RemoteUnavailable(_))));
    check(&store);
    tiered.remote.set_down(false);
    assert!(work(&store).unwrap().sent >= 2);
    check(&store);
    store.close();
}

#[test]
pub(super) fn an_intent_is_repeated_under_its_name_after_a_crash() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    tiered.remote.fail_next(RemoteCall::Put, RemoteFault::Status(503));
    assert!(work(&store).is_err());
    let intended: Vec<_> = store.shared.index().remote_copies(None).map(|(id, copy)| copy.name(id)).collect();
    assert_eq!(intended.len(), 1);
    drop(store);
    let rebooted = tiered.fs.crash(CrashPolicy::DropAll);
    let store = tiered.open_on(&rebooted);
    reclaim_all(&store).unwrap();
    work(&store).unwrap();
    assert!(tiered.copies().contains(&intended[0]));
    check(&store);
    store.close();
}

#[test]
pub(super) fn the_copy_of_a_segment_that_died_is_dropped_and_deleted_after_a_while() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    let copies = tiered.copies();
    assert!(copies.len() >= 2);
    for at in 0..10 {
        delete(&store, "b", &format!("k{at}"), Selector::Current).unwrap();
        delete(&store, "b", &format!("s{at}"), Selector::Current).unwrap();
    }
    put(&store, "b", "other", b"y").unwrap();
    reclaim_all(&store).unwrap();
    assert_eq!(work(&store).unwrap().deleted, 0);
    assert_eq!(tiered.copies(), copies, "a restored backup may need them");
    let figures = store.tier_figures().unwrap();
    assert_eq!((figures.dropped_segments, figures.remote_segments), (copies.len() as u64, 0));
    tiered.clock.advance(Duration::from_secs(61));
    assert_eq!(work(&store).unwrap().deleted, copies.len() as u64);
    assert_eq!(tiered.copies(), Vec::<String>::new());
    assert_eq!(store.shared.index().remote_copies(None).count(), 0);
    store.close();
}

#[test]
pub(super) fn a_page_that_a_crash_left_empty_is_fetched_again_and_a_rotten_one_too() {
    let (tiered, store) = Tiered::filled(TierOptions { local_max_bytes: u64::MAX, ..NOTHING_LOCAL });
    work(&store).unwrap();
    let extent = store.find("b", "k3", Selector::Current).unwrap().version.extents[0];
    let file = tiered.fs.open(&segment_path(extent.segment)).unwrap();
    file.write_all_at(&[0; 100_000], extent.offset + 64).unwrap();
    file.write_all_at(&[7; 50], extent.offset + 300_000).unwrap();
    check(&store);
    work(&store).unwrap();
    check(&store);
    let file = tiered.fs.open(&segment_path(extent.segment)).unwrap();
    let mut page = [0; 4096];
    file.read_exact_at(&mut page, extent.offset + 64).unwrap();
    assert_ne!(page, [0; 4096], "the good bytes are here again");
    // Where the copy is as bad, it is damage.
    file.write_all_at(&[7; 50], extent.offset + 300_000).unwrap();
    for name in tiered.copies() {
        (0..tiered.remote.bytes(&name).unwrap().len())
            .step_by(1000)
            .for_each(|at| assert!(tiered.remote.damage(&name, at)));
    }
    assert!(matches!(get(&store, "b", "k3"), Err(StoreError::Corrupt(_))));
    store.close();
}

#[test]
pub(super) fn the_phases_of_copies_survive_a_checkpoint_and_a_crash() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    let copies = |store: &Store| -> Vec<_> {
        store.shared.index().remote_copies(None).map(|(id, copy)| (id, *copy)).collect()
    };
    let before = copies(&store);
    assert!(before.iter().all(|(_, copy)| copy.phase == CopyPhase::Remote) && before.len() >= 2);
    let store = tiered.open_on(&tiered.fs.crash(CrashPolicy::DropAll));
    assert_eq!(copies(&store), before);
    store.checkpoint().unwrap();
    store.close();
    check(&store);
}

#[test]
pub(super) fn many_readers_of_one_place_are_served_by_one_fetch() {
    let (tiered, store) = with_room();
    tiered.remote.hold(RemoteCall::Get);
    let before = tiered.remote.calls(RemoteCall::Get);
    let read = || {
        let found = store.find("b", "k3", Selector::Current).unwrap();
        to_end(store.read(&found, 0..1000).unwrap()).unwrap()
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
        tiered.remote.wait_for_held(RemoteCall::Get, 1);
        tiered.remote.release(RemoteCall::Get);
        readers.into_iter().for_each(|reader| assert!(reader.join().unwrap() == bytes(3, LEN)[..1000]));
    });
    assert_eq!(tiered.remote.calls(RemoteCall::Get) - before, 1, "the table of the blocks is here");
    let before = tiered.remote.calls(RemoteCall::Get);
    assert!(get(&store, "b", "k4").unwrap() == bytes(4, LEN));
    assert_eq!(tiered.remote.calls(RemoteCall::Get) - before, 1);
    store.close();
}

/// A store with room for what comes, and its mark known.
fn with_room() -> (Tiered, Store) {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    store.close();
    drop(store);
    let tiered = Tiered { options: TierOptions { local_max_bytes: u64::MAX, ..NOTHING_LOCAL }, ..tiered };
    let store = tiered.open();
    store.check_remote_mark().unwrap();
    (tiered, store)
}

fn reader(store: &Store, key: &str) -> ObjectReader {
    let found = store.find("b", key, Selector::Current).unwrap();
    store.read(&found, 0..found.version.size).unwrap()
}

#[test]
pub(super) fn the_first_bytes_are_read_while_the_others_come_and_readers_share_them() {
    let (tiered, store) = with_room();
    let fetched = || store.tier_figures().unwrap().fetched_bytes;
    let gets = tiered.remote.calls(RemoteCall::Get);
    let wanted = bytes(3, LEN);
    let block = 65_536;
    let mut readers = [reader(&store, "k3"), reader(&store, "k3")];
    assert_eq!(fetched(), 0, "a reader that is opened takes nothing");
    let mut buffer = vec![0; block];
    for (nth, turn) in [0, 1, 1, 1, 0, 0, 0, 1].into_iter().enumerate() {
        let at = [0, 0, 1, 2, 1, 2, 3, 3][nth] * block;
        assert_eq!(readers[turn].read(&mut buffer).unwrap(), block);
        assert!(buffer == wanted[at..at + block], "block at {at}");
        let taken = [1, 1, 2, 3, 3, 3, 4, 4][nth] * block as u64;
        assert!((taken..taken + 8192).contains(&fetched()), "{} after {nth} blocks", fetched());
    }
    let [one, other] = readers;
    drop(other);
    assert!(to_end(one).unwrap() == wanted[4 * block..], "the rest comes for one of them");
    assert_eq!(tiered.remote.calls(RemoteCall::Get) - gets, 1);
    // What was kept is that, and a reader that ended early left the rest to be fetched.
    let mut early = reader(&store, "k4");
    assert_eq!(early.read(&mut buffer).unwrap(), block);
    drop(early);
    let gets = tiered.remote.calls(RemoteCall::Get);
    assert!(get(&store, "b", "k3").unwrap() == wanted && get(&store, "b", "k4").unwrap() == bytes(4, LEN));
    assert_eq!(tiered.remote.calls(RemoteCall::Get) - gets, 1);
    check(&store);
    store.close();
}

#[test]
pub(super) fn a_fetch_that_is_cut_in_its_midst_goes_on_with_another() {
    let (tiered, store) = with_room();
    let gets = tiered.remote.calls(RemoteCall::Get);
    tiered.remote.fail_next(RemoteCall::Get, RemoteFault::Cut);
    assert!(get(&store, "b", "k1").unwrap() == bytes(1, LEN));
    assert!(tiered.remote.calls(RemoteCall::Get) - gets >= 2);
    // Where the remote is gone, a reader fails in the midst, and nothing is damaged.
    tiered.remote.fail_next(RemoteCall::Get, RemoteFault::Cut);
    let mut cut = reader(&store, "k2");
    tiered.remote.set_down(true);
    let mut buffer = vec![0; 65_536];
    assert_eq!(cut.read(&mut buffer).unwrap(), buffer.len());
    assert!(buffer == bytes(2, LEN)[..65_536]);
    assert!(matches!(to_end(cut), Err(StoreError::RemoteUnavailable(_))));
    tiered.remote.set_down(false);
    check(&store);
    store.close();
}

#[test]
fn bytes_are_handed_out_before_they_are_kept_and_are_kept_with_the_last_reader() {
    let (tiered, store) = with_room();
    let cached = || {
        work(&store).unwrap();
        store.tier_figures().unwrap().cached_bytes
    };
    let before = cached();
    let mut one = reader(&store, "k3");
    let mut other = reader(&store, "k3");
    let mut buffer = vec![0; 65_536];
    assert_eq!(one.read(&mut buffer).unwrap(), buffer.len());
    assert_eq!(cached(), before);
    drop(one);
    assert_eq!(other.read(&mut buffer).unwrap(), buffer.len());
    assert!(buffer == bytes(3, LEN)[..65_536]);
    assert_eq!(cached(), before, "another reader may still take more");
    drop(other);
    assert_eq!(cached(), before + 65_536 + 4096);
    let gets = tiered.remote.calls(RemoteCall::Get);
    let found = store.find("b", "k3", Selector::Current).unwrap();
    assert!(to_end(store.read(&found, 0..65_536).unwrap()).unwrap() == bytes(3, LEN)[..65_536]);
    assert_eq!(tiered.remote.calls(RemoteCall::Get), gets);
    store.close();
}

#[test]
fn bytes_that_come_wrong_are_fetched_again_and_are_neither_handed_out_nor_kept() {
    let (tiered, store) = with_room();
    for at in 0..10 {
        let extent = store.find("b", &format!("k{at}"), Selector::Current).unwrap().version.extents[0];
        let name = store.shared.index().remote_copy(extent.segment).unwrap().name(extent.segment);
        let place = (extent.offset + UNIT_BYTES + at * 70_000) as usize;
        assert!(tiered.remote.damage(&name, place));
        let remote = tiered.remote.clone();
        let calls = tiered.remote.all_calls();
        // The same change again makes it good.
        tiered.remote.call_before(calls + 2, move || assert!(remote.damage(&name, place)));
        assert!(get(&store, "b", &format!("k{at}")).unwrap() == bytes(at, LEN), "k{at}");
        assert!(tiered.remote.all_calls() - calls >= 2, "k{at}");
    }
    store.begin_epoch(&SeededEntropy::new(7)).unwrap();
    work(&store).unwrap();
    check(&store);
    tiered.remote.set_down(true);
    (0..10).for_each(|at| assert!(get(&store, "b", &format!("k{at}")).unwrap() == bytes(at, LEN), "k{at}"));
    assert_eq!(store.health().damage, []);
    store.close();
}

#[test]
pub(super) fn a_slow_remote_holds_a_reader_for_some_two_seconds() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    for _ in 0..3 {
        tiered.remote.fail_next(RemoteCall::Get, RemoteFault::Slow);
        assert!(matches!(get(&store, "b", "k1"), Err(StoreError::RemoteUnavailable(_))));
    }
    let longest = tiered.remote.longest_wait();
    assert!(longest > Duration::ZERO && longest < Duration::from_millis(2500), "{longest:?}");
    assert_eq!(store.health().damage, []);
    check(&store);
    store.close();
}

/// A remote that accepts each request for bytes, and answers none.
struct SilentRemote(SimRemote);

impl RemoteView for SilentRemote {
    fn head(&self, name: &str, within: Duration) -> Result<Option<RemoteObject>, RemoteError> {
        self.0.head(name, within)
    }

    fn get_part(&self, name: &str, range: Range<u64>, within: Duration) -> Result<ObjectPart, RemoteError> {
        if name == RemoteMark::NAME {
            return self.0.get_part(name, range, within);
        }
        std::thread::sleep(within);
        self.0.fail_next(RemoteCall::Get, RemoteFault::Slow);
        self.0.get_part(name, range, within)
    }

    fn open_stream(
        &self,
        name: &str,
        range: Range<u64>,
        within: Duration,
    ) -> Result<PartStream, RemoteError> {
        std::thread::sleep(within);
        self.0.fail_next(RemoteCall::Get, RemoteFault::Slow);
        self.0.open_stream(name, range, within)
    }

    fn list(&self, prefix: &str, after: &str, within: Duration) -> Result<Vec<RemoteObject>, RemoteError> {
        self.0.list(prefix, after, within)
    }

    fn requests(&self) -> RequestsByCall {
        self.0.requests()
    }
}

impl Remote for SilentRemote {
    fn put(&self, object: &NewObject<'_>, within: Duration) -> Result<RemoteObject, RemoteError> {
        self.0.put(object, within)
    }

    fn delete(&self, name: &str, within: Duration) -> Result<(), RemoteError> {
        self.0.delete(name, within)
    }
}

#[test]
fn the_readers_of_a_silent_remote_fail_together() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    store.close();
    drop(store);
    let options = StoreOptions { segment_max_bytes: 4 * MIB, ..options() };
    let silent = Arc::new(SilentRemote(tiered.remote.clone()));
    let fs = Arc::new(tiered.fs.clone());
    let entropy = SeededEntropy::new(1);
    let clock = tiered.clock.clone();
    let store = Store::open_tiered(fs, clock, &entropy, options, silent, NOTHING_LOCAL).unwrap();
    store.check_remote_mark().unwrap();
    let before = tiered.remote.calls(RemoteCall::Get);
    // A range, and a whole object, which is read ahead.
    let read = |nth: u64| match nth % 2 {
        0 => {
            let found = store.find("b", "k3", Selector::Current).unwrap();
            to_end(store.read(&found, 0..1000)?).map(drop)
        }
        _ => get(&store, "b", "k3").map(drop),
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..16).map(|nth| scope.spawn(move || read(nth))).collect();
        for reader in readers {
            assert!(matches!(reader.join().unwrap(), Err(StoreError::RemoteUnavailable(_))));
        }
    });
    // Each would ask for itself and wait two seconds, one after the other. Some may come late, and
    // ask once more.
    let asked = tiered.remote.calls(RemoteCall::Get) - before;
    assert!(asked <= 6, "{asked} of 16 readers have asked");
    assert_eq!(store.health().damage, []);
    store.close();
}

#[test]
pub(super) fn a_cold_range_is_one_request_and_one_more_where_the_tables_are_lost() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    let extent = |key: &str| store.find("b", key, Selector::Current).unwrap().version.extents[0];
    let read = |key: &str, range: Range<u64>| {
        let found = store.find("b", key, Selector::Current).unwrap();
        to_end(store.read(&found, range).unwrap()).unwrap()
    };
    let gets = |read: &dyn Fn()| {
        let before = tiered.remote.calls(RemoteCall::Get);
        read();
        tiered.remote.calls(RemoteCall::Get) - before
    };
    let block = |key: &'static str, at: u64| {
        move |read: &dyn Fn(&str, Range<u64>) -> Vec<u8>| {
            let expected = bytes(key[1..].parse().unwrap(), LEN);
            assert!(
                read(key, at..at + 65_536) == expected[at as usize..at as usize + 65_536],
                "{key} at {at}"
            );
        }
    };
    assert_eq!(gets(&|| block("k3", 65_536)(&read)), 1);
    // Lost, and then damaged: a reader takes the one in the segment, and keeps it.
    for spoil in [true, false] {
        let path = tables_path(extent("k5").segment);
        match spoil {
            true => tiered.fs.remove(&path).unwrap(),
            false => tiered.fs.open(&path).unwrap().write_all_at(&[7; 1000], 0).unwrap(),
        }
        assert_eq!(gets(&|| block("k5", 131_072)(&read)), 2);
        assert_eq!(gets(&|| block("k5", 0)(&read)), 1);
    }
    check(&store);
    // No file of tables outlives its segment.
    let tables = || {
        let names = tiered.fs.list("data").unwrap();
        names.iter().filter(|name| name.ends_with(".tables")).count()
    };
    assert!(tables() >= 2);
    for at in 0..10 {
        delete(&store, "b", &format!("k{at}"), Selector::Current).unwrap();
        delete(&store, "b", &format!("s{at}"), Selector::Current).unwrap();
    }
    put(&store, "b", "other", b"y").unwrap();
    reclaim_all(&store).unwrap();
    assert_eq!(tables(), 0);
    store.close();
}

#[test]
fn a_segment_with_damage_stays_and_is_named_and_the_others_go() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    let extent = store.find("b", "k3", Selector::Current).unwrap().version.extents[0];
    tiered.fs.damage(&segment_path(extent.segment), extent.offset + 200_000, 1).unwrap();
    let waiting = store.tier_figures().unwrap().waiting_segments;
    assert_eq!(work(&store).unwrap().sent, waiting - 1);
    let own = format!("/{:016x}-", extent.segment);
    assert!(tiered.copies().iter().all(|name| !name.contains(&own)), "{:?}", tiered.copies());
    let damage = store.health().damage;
    assert!(
        damage.iter().all(|damage| damage.file == segment_path(extent.segment)) && damage.len() == 1,
        "{damage:?}"
    );
    assert_eq!(store.damaged_objects().iter().map(|object| &*object.key).collect::<Vec<_>>(), ["k3"]);
    // It is not read again and again.
    assert_eq!(work(&store).unwrap().sent, 0);
    // Once the damaged object is gone, the others in the segment may go.
    delete(&store, "b", "k3", Selector::Current).unwrap();
    assert_eq!(work(&store).unwrap().sent, 1);
    assert!(
        (0..10)
            .filter(|at| *at != 3)
            .all(|at| get(&store, "b", &format!("k{at}")).unwrap() == bytes(at, LEN))
    );
    store.close();
}

#[test]
pub(super) fn where_the_remote_is_away_writes_go_on_until_the_limit_and_deletes_beyond_it() {
    let tiered = Tiered::new(TierOptions { local_max_bytes: 20 * MIB, ..NOTHING_LOCAL });
    let store = tiered.open();
    tiered.remote.set_down(true);
    store.create_bucket("b", "admin").unwrap();
    let mut stored = 0;
    let refused = loop {
        assert!(matches!(work(&store), Ok(_) | Err(StoreError::RemoteUnavailable(_))));
        match put(&store, "b", &format!("k{stored}"), &bytes(stored, LEN)) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "no limit");
    };
    assert!(refused == StoreError::DiskFull && stored >= 10, "{refused:?} after {stored}");
    assert!((0..stored).all(|at| get(&store, "b", &format!("k{at}")).unwrap() == bytes(at, LEN)));
    delete(&store, "b", "k0", Selector::Current).unwrap();
    tiered.remote.set_down(false);
    reclaim_all(&store).unwrap();
    work(&store).unwrap();
    put(&store, "b", "again", &bytes(77, LEN)).unwrap();
    assert!((1..stored).all(|at| get(&store, "b", &format!("k{at}")).unwrap() == bytes(at, LEN)));
    store.close();
}

#[test]
fn the_bytes_of_a_backup_stay() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    let id = store.find("b", "k0", Selector::Current).unwrap().version.extents[0].segment;
    tiered.fs.create_dir("backup").unwrap();
    tiered.fs.link(&segment_path(id), "backup/held").unwrap();
    work(&store).unwrap();
    assert!(tiered.fs.open(&segment_path(id)).unwrap().next_hole(0..4 * MIB).unwrap().is_none());
    tiered.fs.remove("backup/held").unwrap();
    assert!(work(&store).unwrap().given_back_bytes > MIB);
    check(&store);
    store.close();
}

/// Puts, overwrites, deletes and reads of any keys, with a remote that fails, and with losses of
/// power.
struct RandomRun {
    tiered: Tiered,
    fs: SimFs,
    store: Store,
    draw: SeededEntropy,
    keys: BTreeMap<String, (u64, usize)>,
}

impl RandomRun {
    fn new(seed: u64) -> Self {
        let draw = SeededEntropy::new(seed);
        let options = TierOptions { local_max_bytes: (9 + draw.below(8)) * MIB, ..NOTHING_LOCAL };
        let tiered = Tiered::new(options);
        let fs = tiered.fs.clone();
        let store = tiered.open();
        store.create_bucket("b", "admin").unwrap();
        Self { tiered, fs, store, draw, keys: BTreeMap::new() }
    }

    fn step(&mut self) {
        match self.draw.below(20) {
            0..6 => self.put(),
            6..8 => self.delete(),
            8..12 => self.read(),
            12..16 => drop(self.store.tier_step(&self.draw)),
            16..18 => reclaim_all(&self.store).unwrap(),
            18 => {
                self.store.shared.segments.retire(|_| true);
                self.tiered.clock.advance(Duration::from_secs(self.draw.below(50)));
            }
            _ => self.crash(),
        }
    }

    fn put(&mut self) {
        let key = format!("k{}", self.draw.below(12));
        let seed = self.draw.next_u64();
        let len =
            if self.draw.below(2) == 0 { self.draw.below(3000) } else { self.draw.below(900_000) } as usize;
        match put(&self.store, "b", &key, &bytes(seed, len)) {
            Ok(_) => drop(self.keys.insert(key, (seed, len))),
            Err(error) => assert_eq!(error, StoreError::DiskFull),
        }
    }

    fn delete(&mut self) {
        let key = format!("k{}", self.draw.below(12));
        delete(&self.store, "b", &key, Selector::Current).unwrap();
        self.keys.remove(&key);
    }

    fn read(&self) {
        let key = format!("k{}", self.draw.below(12));
        match (get(&self.store, "b", &key), self.keys.get(&key)) {
            (Ok(found), Some((seed, len))) => assert!(found == bytes(*seed, *len), "{key}"),
            (Err(StoreError::NoSuchKey), None) => {}
            (Err(StoreError::RemoteUnavailable(_)), Some(_)) => {}
            // The fault of the remote that looks like a loss lasts for one answer.
            (Err(StoreError::Corrupt(damage)), Some(_)) => {
                assert!(damage.what.contains("remote"), "{damage}");
            }
            other => panic!("{key}: {other:?}"),
        }
    }

    fn crash(&mut self) {
        self.fs = self.fs.crash(CrashPolicy::Random(self.draw.next_u64()));
        self.store = self.tiered.open_on(&self.fs);
    }

    fn end(mut self) {
        self.tiered.remote.fail_at_random(0, 0);
        self.crash();
        self.tiered.remote.land_late_writes();
        reclaim_all(&self.store).unwrap();
        work(&self.store).unwrap();
        for (key, (seed, len)) in &self.keys {
            assert!(get(&self.store, "b", key).unwrap() == bytes(*seed, *len), "{key}");
        }
        assert_eq!(keys(&self.store, "b"), self.keys.keys().cloned().collect::<Vec<_>>());
        self.store.close();
    }
}

#[test]
pub(super) fn whatever_fails_what_was_answered_is_read_back() {
    let first = seed();
    for seed in seeds(first..first + 8, 2) {
        println!("seed {seed}");
        let mut run = RandomRun::new(seed);
        for step in 0..250 {
            // It fails for a while, and works for a while.
            run.tiered.remote.fail_at_random(seed + step, if step / 40 % 2 == 0 { 150 } else { 0 });
            run.step();
        }
        run.end();
    }
}

#[test]
fn nothing_is_sent_to_the_remote_of_another_store_or_of_none() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    drop(store);
    let store = tiered.open_unmarked(&tiered.fs);
    let other =
        RemoteMark { store: crate::format::StoreId([9; 16]), made: tiered.clock.now(), decides_races: true };
    tiered.remote.place(RemoteMark::NAME, &other.encode());
    let refused = |what: &str| match work(&store) {
        Err(StoreError::RemoteUnavailable(why)) => assert!(why.contains(what), "{why}"),
        done => panic!("{done:?}"),
    };
    refused("another store");
    tiered.remote.place(RemoteMark::NAME, b"siltstone");
    refused("STORE");
    tiered.remote.remove(RemoteMark::NAME);
    refused("remote init");
    assert_eq!((tiered.copies(), store.shared.index().remote_copies(None).count()), (vec![], 0));
    check(&store);
    store.close();
}

/// Checks that cold reads fail with that reason, and are no damage.
pub(super) fn refuses_cold_reads(store: &Store, what: &str) {
    for _ in 0..2 {
        match get(store, "b", "k1") {
            Err(StoreError::RemoteUnavailable(why)) => assert!(why.contains(what), "{why}"),
            read => panic!("{:?}", read.map(|bytes| bytes.len())),
        }
    }
    assert_eq!(store.health().damage, []);
}

#[test]
pub(super) fn nothing_is_read_from_the_remote_of_another_store_and_the_own_one_is_asked_again() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    store.close();
    drop(store);
    let own = tiered.remote.bytes(RemoteMark::NAME).unwrap();
    let store = tiered.open_unmarked(&tiered.fs);
    tiered.remote.remove(RemoteMark::NAME);
    refuses_cold_reads(&store, "remote init");
    let stranger = Tiered::new(NOTHING_LOCAL);
    let other =
        Store::open(Arc::new(SimFs::new()), stranger.clock.clone(), &SeededEntropy::new(77), options());
    stranger.mark(&other.unwrap());
    tiered.remote.place(RemoteMark::NAME, &stranger.remote.bytes(RemoteMark::NAME).unwrap());
    refuses_cold_reads(&store, "another store");
    tiered.remote.place(RemoteMark::NAME, &own);
    tiered.remote.set_down(true);
    refuses_cold_reads(&store, "connection refused");
    tiered.remote.set_down(false);
    let before = tiered.remote.calls(RemoteCall::Get);
    assert!(get(&store, "b", "k1").unwrap() == bytes(1, LEN));
    assert!(tiered.remote.calls(RemoteCall::Get) > before + 1, "the mark is asked for");
    tiered.remote.remove(RemoteMark::NAME);
    check(&store);
    store.close();
}

#[test]
fn the_first_readers_of_cold_bytes_share_one_question_for_the_mark() {
    const READERS: u64 = 6;
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    store.close();
    drop(store);
    let store = tiered.open_unmarked(&tiered.fs);
    let before = tiered.remote.calls(RemoteCall::Get);
    tiered.remote.hold(RemoteCall::Get);
    let ready = Barrier::new(READERS as usize + 1);
    let read = |nth: u64| {
        let found = store.find("b", &format!("k{nth}"), Selector::Current).unwrap();
        ready.wait();
        assert!(to_end(store.read(&found, 0..65_536).unwrap()).unwrap() == bytes(nth, LEN)[..65_536]);
    };
    std::thread::scope(|scope| {
        for nth in 0..READERS {
            scope.spawn(move || read(nth));
        }
        // None has an answer before all of them need it.
        ready.wait();
        tiered.remote.wait_for_held(RemoteCall::Get, 1);
        tiered.remote.release(RemoteCall::Get);
    });
    assert_eq!(tiered.remote.calls(RemoteCall::Get) - before, 1 + READERS);
    store.close();
}

#[test]
fn tools_without_the_remote_change_nothing_and_say_what_they_did_not_check() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    store.close();
    drop(store);
    let report = verify(&tiered.fs, &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
    let remote = report.notes.iter().filter(|note| note.kind == NoteKind::Remote).count();
    assert_eq!(remote, tiered.copies().len());
    let counts = report.counts;
    assert_eq!(counts.unchecked_bytes + counts.payload_bytes, 10 * (LEN as u64 + 300) + 1, "{counts:?}");
    assert!(counts.unchecked_bytes >= 10 * LEN as u64 && counts.unchecked_extents >= 10, "{counts:?}");
    let fs: Arc<dyn Fs> = Arc::new(tiered.fs.clone());
    let compacted = compact(&fs, tiered.clock.clone(), &SeededEntropy::new(1), 4 * MIB, &mut |_| true);
    assert!(compacted.is_err_and(|error| error.to_string().contains("on a remote")));
    let store = tiered.open();
    check(&store);
    store.close();
}

#[test]
fn the_scrub_reads_a_sample_of_the_remote_past_what_is_here_and_keeps_nothing() {
    // All in 30 days is 7 of 30 extents in a pass of a week.
    let options = TierOptions { scrub_percent: 100, local_max_bytes: u64::MAX, ..NOTHING_LOCAL };
    let (tiered, store) = Tiered::filled(options);
    work(&store).unwrap();
    let cached = || store.tier_figures().unwrap().cached_bytes;
    let before = cached();
    let gets = tiered.remote.calls(RemoteCall::Get);
    let mut checked = 0;
    let mut pass = || {
        tiered.clock.advance(Duration::from_secs(7 * 24 * 3600));
        loop {
            let done = store.scrub(MIB).unwrap();
            checked += done.extents;
            if !done.more {
                return store.health().damage;
            }
        }
    };
    assert_eq!(pass(), []);
    let sampled = tiered.remote.calls(RemoteCall::Get) - gets;
    assert!((1..15).contains(&sampled), "{sampled} of 20 extents");
    // While the remote is away, nothing is known.
    tiered.remote.set_down(true);
    assert_eq!(pass(), []);
    tiered.remote.set_down(false);
    // The bytes here are good, and those there are not.
    for name in tiered.copies() {
        (4096..tiered.remote.bytes(&name).unwrap().len())
            .step_by(20_000)
            .for_each(|at| assert!(tiered.remote.damage(&name, at)));
    }
    let found = (0..4).map(|_| pass()).last().unwrap();
    assert!(found.len() > 3 && found.iter().all(|damage| damage.what.contains("on the remote")), "{found:?}");
    let named = store.damaged_objects();
    assert!(named.len() > 3 && named.iter().all(|object| object.bucket == "b"), "{named:?}");
    assert_eq!(cached(), before, "nothing is kept");
    assert!((0..10).all(|at| get(&store, "b", &format!("k{at}")).unwrap() == bytes(at, LEN)));
    assert!(checked > 0);
    store.close();
}
