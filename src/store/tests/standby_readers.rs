//! Readers of a standby: they see a prefix of the history of the writer, and leave no trace in the
//! directory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::ship::{HOUR, LITTLE_LOCAL, begun, delete_covered, follow, is_whole, promoted, ship, standby_on};
use super::tier::{Tiered, work};
use super::*;

const KEYS: u64 = 6;

/// The store that readers have, while they have one.
#[derive(Clone, Default)]
struct Readers(Arc<Mutex<Option<Arc<Store>>>>);

impl Readers {
    fn store(&self) -> Option<Arc<Store>> {
        self.0.lock().unwrap().clone()
    }
}

impl StandbyReaders for Readers {
    fn open(&self, store: Arc<Store>) {
        assert!(self.0.lock().unwrap().replace(store).is_none(), "the last one was closed");
    }

    fn close(&self) {
        assert!(self.0.lock().unwrap().take().is_some());
    }
}

fn read_standby_on(tiered: &Tiered, fs: &SimFs) -> (Standby, Readers) {
    let readers = Readers::default();
    // Files are opened again and again, and may have been replaced.
    let options = StoreOptions { segments_open_max: 1, ..options() };
    (standby_on(tiered, fs).with_readers(options, Box::new(readers.clone())), readers)
}

/// The objects as of each group after which they were looked at: by key, the seed of their bytes.
#[derive(Default)]
struct History {
    states: BTreeMap<u64, BTreeMap<String, u64>>,
    now: BTreeMap<String, u64>,
}

impl History {
    fn note(&mut self, store: &Store) {
        self.states.insert(store.health().sequence, self.now.clone());
    }

    /// Checks that a reader sees the state as of its group. Returns the number of the group.
    fn check(&self, store: &Store) -> u64 {
        let sequence = store.health().sequence;
        let state = self.states.range(..=sequence).next_back().map(|(_, state)| state.clone());
        let state = state.unwrap_or_default();
        if store.bucket("b").is_err() {
            assert!(state.is_empty());
            return sequence;
        }
        assert_eq!(keys(store, "b"), state.keys().cloned().collect::<Vec<_>>(), "as of group {sequence}");
        for (key, seed) in &state {
            assert!(get(store, "b", key).unwrap() == value(*seed), "{key} as of group {sequence}");
        }
        assert_eq!(store.health().damage, []);
        sequence
    }
}

fn value(seed: u64) -> Vec<u8> {
    let len = match seed % 4 {
        0 => 900_000 + seed % 1000,
        1 => 100_000,
        _ => seed % 3000,
    };
    bytes(seed, len as usize)
}

/// One write, or work in the background. What it does not change leaves the history as it is.
fn act(tiered: &Tiered, store: &Store, history: &mut History, draw: &SeededEntropy, seed: u64) {
    let key = format!("k{}", draw.below(KEYS));
    match draw.below(10) {
        0..6 => match put(store, "b", &key, &value(seed)) {
            // There is little room, and less until the log is shipped.
            Err(StoreError::DiskFull) => {}
            written => {
                written.unwrap();
                history.now.insert(key, seed);
            }
        },
        6 => {
            delete(store, "b", &key, Selector::Current).unwrap();
            history.now.remove(&key);
        }
        7 => {
            store.shared.segments.retire(|_| true);
            reclaim_all(store).unwrap();
        }
        8 => drop(work(store).unwrap()),
        _ => tiered.clock.advance(HOUR),
    }
    history.note(store);
}

/// The files of a directory with their bytes.
fn files(fs: &SimFs) -> BTreeMap<String, Vec<u8>> {
    fs.files().into_iter().map(|(path, _)| (path.clone(), fs.contents(&path).unwrap())).collect()
}

/// Follows step by step. After each one the readers see a state of the history, and never an older
/// one than before.
fn follow_and_check(standby: &mut Standby, readers: &Readers, history: &History, seen: &mut u64) {
    let mut idle = 0;
    while idle < 6 {
        let held = readers.store().and_then(|store| hold(&store));
        idle = if standby.step(&mut |_| ()).unwrap().more { 0 } else { idle + 1 };
        if let Some((reader, expected)) = held {
            assert!(to_end(reader).unwrap() == expected, "the reader began before the step");
        }
        if let Some(store) = readers.store() {
            let sequence = history.check(&store);
            assert_eq!(sequence, standby.figures().sequence);
            assert!(sequence >= *seen, "readers went back from group {seen} to {sequence}");
            *seen = sequence;
        }
    }
}

/// A reader of the first object, which has read nothing yet, and the bytes that it has to get.
fn hold(store: &Store) -> Option<(ObjectReader, Vec<u8>)> {
    store.bucket("b").ok()?;
    let key = keys(store, "b").into_iter().next()?;
    let found = store.find("b", &key, Selector::Current).unwrap();
    let reader = store.read(&found, 0..found.version.size).unwrap();
    Some((reader, get(store, "b", &key).unwrap()))
}

#[test]
fn readers_see_a_prefix_of_the_history_and_leave_the_directory_as_it_is() {
    let draw = SeededEntropy::new(seed());
    let tiered = Tiered::new(LITTLE_LOCAL);
    let mut writer = begun(&tiered, &tiered.fs, ShipMode::Async);
    writer.create_bucket("b", "admin").unwrap();
    let fs = SimFs::new();
    let plain_fs = SimFs::new();
    let (mut standby, readers) = read_standby_on(&tiered, &fs);
    let mut plain = standby_on(&tiered, &plain_fs);
    let mut history = History::default();
    let mut seen = 0;
    let mut written = 0;
    history.note(&writer);
    for round in 0..40 {
        for _ in 0..draw.below(6) {
            written += 1;
            act(&tiered, &writer, &mut history, &draw, written);
        }
        if round % 13 == 12 {
            // A new epoch of the same host.
            drop(writer);
            writer = begun(&tiered, &tiered.fs, ShipMode::Async);
            history.note(&writer);
        }
        ship(&writer).unwrap();
        reclaim_all(&writer).unwrap();
        work(&writer).unwrap();
        history.note(&writer);
        ship(&writer).unwrap();
        if round % 4 == 0 {
            continue;
        }
        follow_and_check(&mut standby, &readers, &history, &mut seen);
        follow(&mut plain);
        assert_eq!(seen, writer.health().sequence, "all that was shipped is seen");
        assert_eq!(files(&fs), files(&plain_fs), "readers leave no trace");
        is_whole(&fs);
    }
    let cold = readers.store().unwrap().tier_figures().unwrap();
    assert!(cold.dropped_segments > 0 && cold.fetched_bytes > 0, "{cold:?}");
}

#[test]
fn at_every_moment_of_a_step_a_reader_gets_the_bytes_of_its_group() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let writer = begun(&tiered, &tiered.fs, ShipMode::Async);
    writer.create_bucket("b", "admin").unwrap();
    let mut history = History::default();
    history.note(&writer);
    let write = |history: &mut History, seed: u64| {
        put(&writer, "b", &format!("k{}", seed % KEYS), &value(seed)).unwrap();
        history.now.insert(format!("k{}", seed % KEYS), seed);
        history.note(&writer);
    };
    (0..6).for_each(|seed| write(&mut history, seed));
    ship(&writer).unwrap();
    let start = SimFs::new();
    follow(&mut standby_on(&tiered, &start));
    // New objects, and segments that go to the remote, so that their local bytes go.
    writer.shared.segments.retire(|_| true);
    write(&mut history, 8);
    reclaim_all(&writer).unwrap();
    assert!(work(&writer).unwrap().sent > 0);
    history.note(&writer);
    ship(&writer).unwrap();
    (9..12).for_each(|seed| write(&mut history, seed));
    ship(&writer).unwrap();
    let history = Arc::new(history);
    let mut looks = 0;
    for at in 1.. {
        let fs = start.copy();
        let (mut standby, readers) = read_standby_on(&tiered, &fs);
        standby.step(&mut |_| ()).unwrap();
        let held = readers.store().and_then(|store| hold(&store));
        let history = history.clone();
        let readers = readers.clone();
        let looked = Arc::new(Mutex::new(false));
        let tell = looked.clone();
        fs.call_before(fs.operations() + at, move || {
            history.check(&readers.store().unwrap());
            *tell.lock().unwrap() = true;
        });
        follow(&mut standby);
        fs.forget_calls();
        let (reader, expected) = held.unwrap();
        assert!(to_end(reader).unwrap() == expected);
        if !*looked.lock().unwrap() {
            break;
        }
        looks += 1;
    }
    assert!(looks > 20, "{looks}");
}

#[test]
fn readers_lose_the_store_while_the_directory_is_filled_again_and_when_it_gets_a_writer() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let writer = begun(&tiered, &tiered.fs, ShipMode::Async);
    writer.create_bucket("b", "admin").unwrap();
    put(&writer, "b", "k", &bytes(1, 900_000)).unwrap();
    ship(&writer).unwrap();
    let fs = SimFs::new();
    let (mut standby, readers) = read_standby_on(&tiered, &fs);
    assert!(readers.store().is_none());
    follow(&mut standby);
    let first = readers.store().unwrap();
    let held = hold(&readers.store().unwrap()).unwrap();
    for at in 0..6 {
        writer.shared.segments.retire(|_| true);
        put(&writer, "b", &format!("k{at}"), &bytes(at, 200_000)).unwrap();
        reclaim_all(&writer).unwrap();
        assert!(at == 0 || work(&writer).unwrap().sent > 0);
        tiered.clock.advance(HOUR);
        ship(&writer).unwrap();
    }
    assert!(delete_covered(&tiered) > 2);
    follow(&mut standby);
    assert_eq!(standby.figures().fills, 2);
    let second = readers.store().unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!(keys(&second, "b"), keys(&writer, "b"));
    // What was begun on the old files ends with their bytes or an error.
    assert!(to_end(held.0).is_ok_and(|found| found == held.1) || get(&first, "b", "k").is_err());
    drop((first, second));

    put(&writer, "b", "late", b"v").unwrap();
    ship(&writer).unwrap();
    let new = promoted(&tiered, &fs, &mut standby, ShipMode::Async);
    assert!(readers.store().is_none(), "the writer alone has the directory");
    assert_eq!(keys(&new, "b"), keys(&writer, "b"));
    assert_eq!(get(&new, "b", "late").unwrap(), b"v");
    assert_eq!(new.health().damage, []);
}

#[test]
fn the_store_of_readers_refuses_every_change() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let writer = begun(&tiered, &tiered.fs, ShipMode::Async);
    writer.create_bucket("b", "admin").unwrap();
    put(&writer, "b", "k", b"v").unwrap();
    ship(&writer).unwrap();
    let fs = SimFs::new();
    let (mut standby, readers) = read_standby_on(&tiered, &fs);
    follow(&mut standby);
    let store = readers.store().unwrap();
    let before = files(&fs);
    assert!(put(&store, "b", "k", b"w").is_err() && put(&store, "b", "l", &bytes(1, 900_000)).is_err());
    assert!(
        delete(&store, "b", "k", Selector::Current).is_err() && store.create_bucket("c", "admin").is_err()
    );
    assert!(store.checkpoint().is_err());
    let _ = (store.reclaim(), store.tier_step(&SeededEntropy::new(1)), store.scrub(u64::MAX));
    store.close();
    assert_eq!(get(&store, "b", "k").unwrap(), b"v");
    assert_eq!(files(&fs), before);
}
