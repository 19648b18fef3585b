//! Copies that somebody deletes, cuts or replaces on the remote: no local byte goes after that, and
//! what is here is sent again.

use super::ship::{begun, restored, ship};
use super::tier::{NOTHING_LOCAL, Tiered, work};
use super::*;
use crate::base::Clock as _;
use crate::base::limits::MIB;
use crate::format::{RemoteMark, StoreId};
use crate::remote::sim::RemoteCall;

const DAY: Duration = Duration::from_secs(86_400);
/// Room for all segments.
const ALL_LOCAL: TierOptions = TierOptions { local_max_bytes: 64 * MIB, ..NOTHING_LOCAL };

fn inspect(store: &Store) {
    while store.inspect_copies().unwrap() {}
}

/// A store whose segments are here and on the remote, looked at once.
fn sent() -> (Tiered, Store) {
    let (tiered, store) = Tiered::filled(ALL_LOCAL);
    assert!(work(&store).unwrap().sent >= 2);
    inspect(&store);
    assert_eq!(found(&store), (0, 0));
    (tiered, store)
}

/// The same store with less room, so that local bytes are to go.
fn with_little_room(tiered: Tiered, store: Store) -> (Tiered, Store) {
    store.close();
    drop(store);
    let tiered = tiered.with(NOTHING_LOCAL);
    let store = tiered.open();
    (tiered, store)
}

/// The lost copies, and those that were sent again.
fn found(store: &Store) -> (usize, u64) {
    let found = store.copy_findings().unwrap();
    (found.lost.len(), found.resent)
}

fn readable(store: &Store) -> usize {
    (0..10)
        .filter(|at| get(store, "b", &format!("k{at}")).is_ok_and(|read| read == bytes(*at, 700_000)))
        .count()
}

/// What somebody may do to a copy.
fn harms() -> [fn(&Tiered, &str); 4] {
    let cut = |tiered: &Tiered, name: &str| {
        let bytes = tiered.remote.bytes(name).unwrap();
        tiered.remote.place(name, &bytes[..bytes.len() / 2]);
    };
    let empty = |tiered: &Tiered, name: &str| tiered.remote.place(name, b"");
    let other = |tiered: &Tiered, name: &str| {
        let length = tiered.remote.bytes(name).unwrap().len();
        tiered.remote.place(name, &vec![7; length]);
    };
    [|tiered, name| tiered.remote.remove(name), cut, empty, other]
}

#[test]
fn no_local_byte_goes_once_its_copy_is_gone_or_changed() {
    for harm in harms() {
        let (tiered, store) = sent();
        let (tiered, store) = with_little_room(tiered, store);
        tiered.clock.advance(Duration::from_secs(60));
        tiered.copies().iter().for_each(|name| harm(&tiered, name));
        work(&store).unwrap();
        assert_eq!(readable(&store), 10, "nothing was given back");
        // What was noticed so is sent again, and goes then. A listing does not say other bytes of
        // the same length.
        for _ in 0..tiered.copies().len() + 1 {
            inspect(&store);
            work(&store).unwrap();
            assert_eq!(readable(&store), 10);
        }
        let (lost, resent) = found(&store);
        assert!(lost == 0 && resent > 0, "{lost} lost, {resent} sent again");
        assert!(store.tier_figures().unwrap().cached_bytes < MIB);
        assert_eq!(readable(&store), 10);
        assert_eq!(store.health().damage, []);
        store.close();
    }
}

#[test]
fn the_daily_listing_finds_what_is_gone_and_sends_it_again() {
    let (tiered, store) = sent();
    let before = tiered.remote.calls(RemoteCall::List);
    inspect(&store);
    assert_eq!(tiered.remote.calls(RemoteCall::List), before, "one listing a day");
    let copies = tiered.copies();
    copies.iter().for_each(|name| tiered.remote.remove(name));
    tiered.clock.advance(DAY);
    inspect(&store);
    assert_eq!((tiered.copies(), found(&store)), (copies.clone(), (0, copies.len() as u64)));
    // A listing tells lengths.
    tiered.remote.place(&copies[0], b"short");
    tiered.clock.advance(DAY);
    inspect(&store);
    assert_eq!(found(&store), (0, copies.len() as u64 + 1));
    let (_tiered, store) = with_little_room(tiered, store);
    assert!(work(&store).unwrap().given_back_bytes > 3 * MIB);
    assert_eq!(readable(&store), 10);
    store.close();
}

#[test]
fn a_copy_whose_bytes_are_not_all_here_is_told_as_lost_until_it_is_back() {
    let (tiered, store) = sent();
    let (tiered, store) = with_little_room(tiered, store);
    work(&store).unwrap();
    let copies = tiered.copies();
    let kept = tiered.remote.copy();
    copies.iter().for_each(|name| tiered.remote.remove(name));
    inspect(&store);
    let (lost, resent) = found(&store);
    assert!(lost > 0 && resent == 0, "{lost} lost, {resent} sent again");
    assert!(readable(&store) < 10);
    // Its other bytes stay.
    let here = readable(&store);
    work(&store).unwrap();
    assert_eq!(readable(&store), here);
    // Somebody brings them back.
    for name in &copies {
        let bytes = kept.bytes(name).unwrap();
        let nonce = name.rsplit('-').next().unwrap();
        let object = crate::remote::NewObject { name, body: &bytes.as_slice(), nonce, create_only: false };
        crate::remote::Remote::put(&tiered.remote, &object, Duration::ZERO).unwrap();
    }
    tiered.clock.advance(Duration::from_secs(3600));
    inspect(&store);
    assert_eq!((found(&store), readable(&store)), ((0, 0), 10));
    store.close();
}

#[test]
fn while_the_remote_is_away_no_copy_is_taken_for_lost_and_nothing_goes() {
    let (tiered, store) = sent();
    let (tiered, store) = with_little_room(tiered, store);
    store.check_remote_mark().unwrap();
    store.begin_epoch(&SeededEntropy::new(7)).unwrap();
    tiered.remote.set_down(true);
    assert!(matches!(store.inspect_copies(), Err(StoreError::RemoteUnavailable(_))));
    work(&store).unwrap();
    assert_eq!((found(&store), readable(&store)), ((0, 0), 10));
    tiered.remote.set_down(false);
    tiered.clock.advance(Duration::from_secs(60));
    inspect(&store);
    assert!(work(&store).unwrap().given_back_bytes > 3 * MIB);
    assert_eq!(readable(&store), 10);
    store.close();
}

#[test]
fn a_mark_that_somebody_deleted_is_put_again_and_that_of_another_store_ends_all() {
    let (tiered, store) = sent();
    let mark = tiered.remote.bytes(RemoteMark::NAME).unwrap();
    tiered.remote.remove(RemoteMark::NAME);
    tiered.clock.advance(DAY);
    inspect(&store);
    assert_eq!((tiered.remote.bytes(RemoteMark::NAME), found(&store)), (Some(mark), (0, 1)));
    let other = RemoteMark { store: StoreId([9; 16]), made: tiered.clock.now(), decides_races: true };
    tiered.remote.place(RemoteMark::NAME, &other.encode());
    tiered.clock.advance(DAY);
    assert!(matches!(store.inspect_copies(), Err(StoreError::RemoteUnavailable(_))));
    assert!(store.check_remote_mark().is_err());
    assert_eq!(readable(&store), 10, "what is here is read");
    store.close();
}

#[test]
fn a_log_of_which_somebody_deleted_a_part_is_shipped_anew() {
    for prefix in ["root/", "checkpoint/", "log/", "cut"] {
        let tiered = Tiered::new(ALL_LOCAL);
        let store = begun(&tiered, &tiered.fs, ShipMode::Sync);
        store.create_bucket("b", "admin").unwrap();
        for at in 0..10 {
            put(&store, "b", &format!("k{at}"), &bytes(at, 700_000)).unwrap();
        }
        // The log goes on from the root of an earlier epoch.
        store.close();
        drop(store);
        let store = begun(&tiered, &tiered.fs, ShipMode::Sync);
        put(&store, "b", "k10", b"v").unwrap();
        store.inspect_log().unwrap();
        assert_eq!(store.ship_figures().unwrap().renewals, 0);
        let names: Vec<_> =
            tiered.remote.names().into_iter().filter(|name| name.starts_with(prefix)).collect();
        match prefix {
            "cut" => {
                let last = tiered.remote.names().into_iter().rfind(|name| name.starts_with("log/")).unwrap();
                tiered.remote.place(&last, b"cut");
            }
            _ => names.iter().for_each(|name| tiered.remote.remove(name)),
        }
        tiered.clock.advance(DAY);
        store.inspect_log().unwrap();
        assert_eq!(store.ship_figures().unwrap().renewals, 1, "{prefix}");
        assert!(matches!(put(&store, "b", "x", b"x"), Err(StoreError::RemoteUnavailable(_))));
        ship(&store).unwrap();
        put(&store, "b", "x", b"x").unwrap();
        tiered.clock.advance(DAY);
        store.inspect_log().unwrap();
        assert_eq!(store.ship_figures().unwrap().renewals, 1);
        let fs = restored(&tiered);
        let store = tiered.open_on(&fs);
        assert_eq!(readable(&store), 10, "{prefix}");
        assert_eq!(get(&store, "b", "x").unwrap(), b"x");
    }
}

#[test]
fn an_audit_without_a_log_compares_the_copies_with_the_directory() {
    let (tiered, store) = sent();
    let audit = || audit_copies(tiered.reached().as_ref(), &tiered.fs).unwrap();
    let copies = tiered.copies();
    let found = audit();
    assert_eq!((found.objects, found.missing.len(), found.orphans.len()), (copies.len() as u64, 0, 0));
    tiered.remote.remove(&copies[0]);
    tiered.remote.place(&copies[1], b"short");
    tiered.remote.place("segment/0000000000000009/000000000000000a-0000000b", b"other");
    let found = audit();
    let missing: Vec<_> = found.missing.iter().map(|(name, why)| (name.as_str(), *why)).collect();
    assert_eq!(
        missing,
        [(copies[0].as_str(), "it is not there"), (copies[1].as_str(), "it has another length")]
    );
    assert_eq!(found.orphans.len(), 1);
    let other = Tiered::new(NOTHING_LOCAL);
    let elsewhere =
        Store::open(Arc::new(other.fs.clone()), other.clock.clone(), &SeededEntropy::new(99), options());
    elsewhere.unwrap().close();
    assert!(audit_copies(tiered.reached().as_ref(), &other.fs).is_err(), "the directory of another store");
    store.close();
}
