//! Sealed segments on a remote: what is answered stays readable whatever fails, and nothing goes before its copy is compared.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::base::limits::MIB;
use crate::format::{CopyPhase, segment_path};
use crate::fs::Fs;
use crate::fs::sim::CrashPolicy;
use crate::remote::{NewObject, Remote, RemoteError, RemoteObject};

const LEN: usize = 700_000;
/// The segments that are written to, and some more.
const LOCAL: u64 = 11 * MIB;

/// A remote of the test: a map that can be away, and that counts.
#[derive(Default)]
struct MapRemote {
    objects: Mutex<BTreeMap<String, (Vec<u8>, String)>>,
    is_away: AtomicBool,
    /// Whether a put stores other bytes than it got.
    lies: AtomicBool,
    gets: AtomicUsize,
    puts: AtomicUsize,
}

impl MapRemote {
    fn check(&self) -> Result<(), RemoteError> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(RemoteError::Unavailable("it is away".to_owned())),
            false => Ok(()),
        }
    }

    fn names(&self) -> Vec<String> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }

    fn change(&self, act: impl Fn(&mut Vec<u8>)) {
        self.objects.lock().unwrap().values_mut().for_each(|(bytes, _)| act(bytes));
    }
}

fn described(name: &str, (bytes, nonce): &(Vec<u8>, String)) -> RemoteObject {
    let (length, nonce, md5) = (bytes.len() as u64, Some(nonce.clone()), Some(Md5::of(bytes)));
    RemoteObject { name: name.to_owned(), length, nonce, md5 }
}

impl Remote for MapRemote {
    fn put(&self, object: &NewObject<'_>, _within: Duration) -> Result<RemoteObject, RemoteError> {
        self.check()?;
        self.puts.fetch_add(1, Ordering::SeqCst);
        let mut bytes = vec![0; object.body.length() as usize];
        object.body.read_at(0, &mut bytes).map_err(RemoteError::Body)?;
        bytes[100_000] ^= u8::from(self.lies.load(Ordering::SeqCst));
        let stored = (bytes, object.nonce.to_owned());
        let answer = described(object.name, &stored);
        self.objects.lock().unwrap().insert(object.name.to_owned(), stored);
        Ok(answer)
    }

    fn head(&self, name: &str, _within: Duration) -> Result<Option<RemoteObject>, RemoteError> {
        self.check()?;
        Ok(self.objects.lock().unwrap().get(name).map(|stored| described(name, stored)))
    }

    fn get(&self, name: &str, range: Range<u64>, _within: Duration) -> Result<Vec<u8>, RemoteError> {
        self.check()?;
        self.gets.fetch_add(1, Ordering::SeqCst);
        let objects = self.objects.lock().unwrap();
        let (bytes, _) = objects.get(name).ok_or(RemoteError::Missing)?;
        let part = bytes.get(range.start as usize..range.end as usize);
        part.map(<[u8]>::to_vec).ok_or_else(|| RemoteError::Wrong("the range is beyond the end".to_owned()))
    }

    fn delete(&self, name: &str, _within: Duration) -> Result<(), RemoteError> {
        self.check()?;
        self.objects.lock().unwrap().remove(name);
        Ok(())
    }

    fn list(&self, _: &str, _: &str, _: Duration) -> Result<Vec<RemoteObject>, RemoteError> {
        unreachable!("the tier lists nothing")
    }
}

/// A store with its disk, its clock and its remote.
struct Tiered {
    fs: SimFs,
    clock: Arc<ManualClock>,
    remote: Arc<MapRemote>,
    options: TierOptions,
}

impl Tiered {
    fn new(options: TierOptions) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        Self { fs: SimFs::new(), clock, remote: Arc::default(), options }
    }

    fn open(&self) -> Store {
        self.open_on(&self.fs)
    }

    /// Filled by a store that keeps everything here, and opened again.
    fn filled(options: TierOptions) -> (Self, Store) {
        let tiered = Self::new(TierOptions::default());
        let store = tiered.open();
        fill(&store);
        store.close();
        drop(store);
        let tiered = Self { options, ..tiered };
        let store = tiered.open();
        seal(&store);
        (tiered, store)
    }

    fn open_on(&self, fs: &SimFs) -> Store {
        let options = StoreOptions { segment_max_bytes: 4 * MIB, ..options() };
        let remote: Arc<dyn Remote> = self.remote.clone();
        let (fs, entropy) = (Arc::new(fs.clone()), SeededEntropy::new(1));
        Store::open_tiered(fs, self.clock.clone(), &entropy, options, (remote, self.options)).unwrap()
    }
}

fn work(store: &Store) -> Result<TierProgress, StoreError> {
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

fn seal(store: &Store) {
    store.shared.segments.retire(|_| true);
    put(store, "b", "last", b"x").unwrap();
    reclaim_all(store).unwrap();
}

fn check(store: &Store) {
    for at in 0..10 {
        assert!(get(store, "b", &format!("k{at}")).unwrap() == bytes(at, LEN), "k{at}");
        assert_eq!(get(store, "b", &format!("s{at}")).unwrap(), bytes(at, 300));
    }
    assert_eq!(store.health().damage, []);
}

/// All local pages go.
const NOTHING_LOCAL: TierOptions = TierOptions {
    local_max_bytes: 2 * MIB,
    keep_local: Duration::ZERO,
    keep_dropped: Duration::from_secs(60),
};

#[test]
fn what_went_to_the_remote_is_read_from_there_and_kept_as_far_as_there_is_room() {
    let (tiered, store) = Tiered::filled(TierOptions { local_max_bytes: LOCAL, ..NOTHING_LOCAL });
    let done = work(&store).unwrap();
    assert!(done.sent >= 2 && done.given_back_bytes > 0, "{done:?}");
    let figures = store.tier_figures().unwrap();
    assert!(figures.remote_bytes > 7_000_000 && figures.waiting_segments == 0, "{figures:?}");
    assert!(figures.cached_bytes + figures.pinned_bytes <= LOCAL, "{figures:?}");
    check(&store);
    assert!(tiered.remote.gets.load(Ordering::SeqCst) > 0);
    let figures = store.tier_figures().unwrap();
    assert!(figures.cached_bytes + figures.pinned_bytes <= LOCAL, "{figures:?}");
    assert!(figures.cached_bytes > MIB, "fetched bytes are kept: {figures:?}");
    // What was read last is here now.
    let before = tiered.remote.gets.load(Ordering::SeqCst);
    assert!(get(&store, "b", "s9").is_ok() && get(&store, "b", "s9").is_ok());
    assert!(tiered.remote.gets.load(Ordering::SeqCst) <= before + 1);
    store.close();
}

#[test]
fn without_the_remote_the_store_starts_lists_reads_what_is_here_and_takes_writes() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    store.close();
    drop(store);
    tiered.remote.is_away.store(true, Ordering::SeqCst);
    let store = tiered.open();
    assert_eq!(keys(&store, "b").len(), 21);
    assert_eq!(get(&store, "b", "last").unwrap(), b"x");
    assert!(matches!(get(&store, "b", "k1"), Err(StoreError::RemoteUnavailable(_))));
    assert_eq!(store.health().damage, [], "what cannot be fetched is not damaged");
    put(&store, "b", "new", b"new").unwrap();
    assert_eq!(get(&store, "b", "new").unwrap(), b"new");
    tiered.remote.is_away.store(false, Ordering::SeqCst);
    check(&store);
    store.close();
}

#[test]
fn nothing_is_given_back_before_its_copy_was_compared() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    tiered.remote.lies.store(true, Ordering::SeqCst);
    assert!(matches!(work(&store), Err(StoreError::RemoteUnavailable(_))));
    assert_eq!(store.tier_figures().unwrap().remote_segments, 0);
    tiered.remote.lies.store(false, Ordering::SeqCst);
    tiered.remote.is_away.store(true, Ordering::SeqCst);
    assert!(matches!(work(&store), Err(StoreError::RemoteUnavailable(_))));
    check(&store);
    tiered.remote.is_away.store(false, Ordering::SeqCst);
    assert!(work(&store).unwrap().sent >= 2);
    check(&store);
    store.close();
}

#[test]
fn an_intent_is_repeated_under_its_name_after_a_crash() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    tiered.remote.is_away.store(true, Ordering::SeqCst);
    assert!(work(&store).is_err());
    let intended: Vec<_> = store.shared.index().remote_copies(None).map(|(id, copy)| copy.name(id)).collect();
    assert_eq!(intended.len(), 1);
    drop(store);
    let rebooted = tiered.fs.crash(CrashPolicy::DropAll);
    tiered.remote.is_away.store(false, Ordering::SeqCst);
    let store = tiered.open_on(&rebooted);
    reclaim_all(&store).unwrap();
    work(&store).unwrap();
    assert!(tiered.remote.names().contains(&intended[0]));
    check(&store);
    store.close();
}

#[test]
fn the_copy_of_a_segment_that_died_is_dropped_and_deleted_after_a_while() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    let copies = tiered.remote.names();
    assert!(copies.len() >= 2);
    for at in 0..10 {
        delete(&store, "b", &format!("k{at}"), Selector::Current).unwrap();
        delete(&store, "b", &format!("s{at}"), Selector::Current).unwrap();
    }
    put(&store, "b", "other", b"y").unwrap();
    reclaim_all(&store).unwrap();
    assert_eq!(work(&store).unwrap().deleted, 0);
    assert_eq!(tiered.remote.names(), copies, "a restored backup may need them");
    let figures = store.tier_figures().unwrap();
    assert_eq!((figures.dropped_segments, figures.remote_segments), (copies.len() as u64, 0));
    tiered.clock.advance(Duration::from_secs(61));
    assert_eq!(work(&store).unwrap().deleted, copies.len() as u64);
    assert_eq!(tiered.remote.names(), Vec::<String>::new());
    assert_eq!(store.shared.index().remote_copies(None).count(), 0);
    store.close();
}

#[test]
fn a_page_that_a_crash_left_empty_is_fetched_again_and_a_rotten_one_too() {
    let (tiered, store) = Tiered::filled(TierOptions { local_max_bytes: u64::MAX, ..NOTHING_LOCAL });
    work(&store).unwrap();
    let extent = store.find("b", "k3", Selector::Current).unwrap().version.extents[0];
    let file = tiered.fs.open(&segment_path(extent.segment)).unwrap();
    file.write_all_at(&[0; 100_000], extent.offset + 64).unwrap();
    file.write_all_at(&[7; 50], extent.offset + 300_000).unwrap();
    check(&store);
    let mut page = [0; 4096];
    file.read_exact_at(&mut page, extent.offset + 64).unwrap();
    assert_ne!(page, [0; 4096], "the good bytes are here again");
    // Where the copy is as bad, it is damage.
    file.write_all_at(&[7; 50], extent.offset + 300_000).unwrap();
    tiered.remote.change(|bytes| bytes.iter_mut().for_each(|byte| *byte ^= 1));
    assert!(matches!(get(&store, "b", "k3"), Err(StoreError::Corrupt(_))));
    store.close();
}

#[test]
fn the_phases_of_copies_survive_a_checkpoint_and_a_crash() {
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
