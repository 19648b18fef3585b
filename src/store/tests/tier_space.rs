//! The space on the remote: under every pattern of overwrites and deletes it stays below a multiple
//! of the live bytes.

use std::collections::BTreeMap;

use super::tier::{NOTHING_LOCAL, Tiered, seal, work};
use super::*;
use crate::base::Entropy as _;
use crate::base::limits::{KIB, MIB};
use crate::base::test_scope::cases;

/// The most bytes on the remote for each of a live object there.
const SPACE_MAX: f64 = 2.9;
/// The same after ordinary work.
const SPACE_USUAL: f64 = 1.6;
const KEYS: u64 = 400;

/// A store with a tier, and what it should hold.
struct RemoteChurn {
    tiered: Tiered,
    store: Store,
    draw: SeededEntropy,
    expected: BTreeMap<u64, u64>,
    /// The name of the next object that is put under a new key.
    next: u64,
}

impl RemoteChurn {
    /// A store with objects of up to 64 KiB, all of them on the remote.
    fn begin() -> Self {
        let tiered = Tiered::new(TierOptions { local_max_bytes: 32 * MIB, ..NOTHING_LOCAL });
        let store = tiered.open();
        store.create_bucket("b", "admin").unwrap();
        let draw = SeededEntropy::new(seed());
        let expected = BTreeMap::new();
        let mut churn = Self { tiered, store, draw, expected, next: KEYS };
        (0..KEYS).for_each(|key| churn.put(key));
        churn.clean();
        churn
    }

    fn put(&mut self, key: u64) {
        let seed = self.draw.next_u64();
        put(&self.store, "b", &key.to_string(), &content(seed)).unwrap();
        self.expected.insert(key, seed);
        // As much as a segment holds.
        if self.draw.below(64) == 0 {
            self.step();
        }
    }

    fn put_new(&mut self, count: u64) {
        for _ in 0..count {
            self.next += 1;
            self.put(self.next);
        }
    }

    fn delete(&mut self, key: u64) {
        delete(&self.store, "b", &key.to_string(), Selector::Current).unwrap();
        self.expected.remove(&key);
    }

    /// Deletes all objects but some, by their place in the order of their keys, which is that in
    /// which they were put.
    fn keep(&mut self, stays: impl Fn(usize) -> bool) {
        let keys: Vec<u64> = self.expected.keys().copied().collect();
        keys.into_iter().enumerate().filter(|(nth, _)| !stays(*nth)).for_each(|(_, key)| self.delete(key));
    }

    fn step(&self) {
        reclaim_all(&self.store).unwrap();
        work(&self.store).unwrap();
    }

    /// Does the background work to its end, and waits until dropped copies go.
    fn clean(&self) {
        for _ in 0..4 {
            seal(&self.store);
            self.step();
            self.tiered.clock.advance(NOTHING_LOCAL.keep_dropped * 2);
            self.step();
        }
    }

    /// The bytes of the copies for each byte that is live in them.
    fn space(&self, what: &str) -> f64 {
        self.clean();
        let copies = self.tiered.copies().into_iter();
        let bytes: usize = copies.map(|name| self.tiered.remote.bytes(&name).unwrap().len()).sum();
        let index = self.store.shared.index();
        let live: u64 = index.remote_copies(None).map(|(id, _)| index.liveness().of(id)).sum();
        let space = bytes as f64 / live as f64;
        println!("{what}: {bytes} bytes for {live} live ones: {space:.2}");
        assert!(space <= SPACE_MAX, "{what}: {space}");
        assert_eq!(self.store.tier_figures().unwrap().waiting_segments, 0);
        space
    }

    fn check(self) {
        for (key, seed) in &self.expected {
            assert!(get(&self.store, "b", &key.to_string()).unwrap() == content(*seed), "{key}");
        }
        assert_eq!(self.store.health().damage, []);
        self.store.close();
    }
}

fn content(seed: u64) -> Vec<u8> {
    bytes(seed, (4 * KIB + seed % (60 * KIB)) as usize)
}

#[test]
fn after_random_work_the_remote_holds_little_more_than_what_lives() {
    let mut churn = RemoteChurn::begin();
    let mut all = vec![churn.space("filled")];
    for round in 0..6 {
        for _ in 0..KEYS / 2 {
            let key = churn.draw.below(KEYS);
            match churn.draw.below(4) {
                0 if churn.expected.contains_key(&key) => churn.delete(key),
                _ => churn.put(key),
            }
        }
        all.push(churn.space(&format!("round {round}")));
    }
    let usual = all.iter().sum::<f64>() / all.len() as f64;
    println!("usual: {usual:.2}");
    assert!(usual <= SPACE_USUAL, "{all:?}");
    churn.check();
}

#[test]
fn no_order_of_deletes_makes_the_remote_hold_much_that_is_dead() {
    // Just too much of each segment lives for it to be moved.
    let mut churn = RemoteChurn::begin();
    churn.keep(|nth| nth % 50 < 19);
    assert!(churn.space("38 of 100 stay") > 2.0, "the worst case that is allowed");
    churn.put_new(100);
    churn.space("and new ones come");
    churn.check();
    let shares = [("a third stays", 3, 1), ("one in ten stays", 10, 1), ("one in a hundred", 100, 1)];
    for (what, of, stay) in cases(&shares, 1) {
        let mut churn = RemoteChurn::begin();
        churn.keep(|nth| nth % of < stay);
        churn.space(what);
        churn.check();
    }
    // What was moved meets the same again.
    let mut churn = RemoteChurn::begin();
    for round in 0..5 {
        churn.keep(|nth| nth % 5 < 2);
        churn.space(&format!("two of five stay, round {round}"));
        churn.put_new(200);
        churn.space(&format!("and new ones come, round {round}"));
    }
    churn.check();
}

#[test]
fn a_few_objects_that_are_overwritten_again_and_again_leave_no_dead_copies() {
    let mut churn = RemoteChurn::begin();
    for round in 0..4 {
        for nth in 0..KEYS {
            churn.put(nth % 8 * 50);
        }
        churn.space(&format!("round {round}"));
    }
    // The oldest go first, as by rules.
    for _ in 0..4 {
        churn.put_new(100);
        let oldest: Vec<u64> = churn.expected.keys().copied().take(150).collect();
        oldest.into_iter().for_each(|key| churn.delete(key));
        churn.space("the oldest go");
    }
    churn.check();
}
