//! Who may change the remote: a directory goes on from the claim that it has made, and a copy of it
//! changes nothing.

use super::ship::{HOUR, LITTLE_LOCAL, begun, restored, ship, shipping_with};
use super::tier::{NOTHING_LOCAL, Tiered, check, seal, work};
use super::*;
use crate::base::limits::MIB;
use crate::format::{Claim, EPOCH, StoreId};
use crate::fs::Fs;
use crate::remote::sim::{RemoteCall, RemoteFault};

fn begin(store: &Store, seed: u64) -> Result<(), StoreError> {
    store.begin_epoch(&SeededEntropy::new(seed))
}

/// A copy of a directory, file by file.
fn copied(from: &SimFs) -> SimFs {
    let to = SimFs::new();
    // The files of the copy have other numbers than those of the original.
    (0..1000).for_each(|at| drop(to.create(&format!("other{at}")).unwrap()));
    for dir in ["data", "meta"] {
        to.create_dir(dir).unwrap();
        for name in from.list(dir).unwrap() {
            let path = format!("{dir}/{name}");
            let source = from.open_read(&path).unwrap();
            let mut bytes = vec![0; source.len().unwrap() as usize];
            source.read_exact_at(&mut bytes, 0).unwrap();
            let target = to.create(&path).unwrap();
            target.write_all_at(&bytes, 0).unwrap();
            target.sync_data().unwrap();
        }
        to.sync_dir(dir).unwrap();
    }
    to.sync_dir("").unwrap();
    to
}

/// Deletes what a store has, and lets the time pass after which its copies on the remote would go.
fn delete_all(tiered: &Tiered, store: &Store) {
    for key in keys(store, "b") {
        delete(store, "b", &key, Selector::Current).unwrap();
    }
    put(store, "b", "other", b"y").unwrap();
    reclaim_all(store).unwrap();
    let _ = work(store);
    tiered.clock.advance(HOUR);
    let _ = work(store);
}

fn changes(tiered: &Tiered) -> [u64; 2] {
    [RemoteCall::Put, RemoteCall::Delete].map(|call| tiered.remote.calls(call))
}

fn fill_more(store: &Store) {
    for at in 20..32 {
        put(store, "b", &format!("more{at}"), &bytes(at, 700_000)).unwrap();
    }
    seal(store);
}

#[test]
fn a_copied_directory_beside_the_living_store_takes_nothing_from_it() {
    let (tiered, living) = Tiered::filled(NOTHING_LOCAL);
    work(&living).unwrap();
    let there = tiered.remote.names();
    let roomy = TierOptions { local_max_bytes: 64 * MIB, ..NOTHING_LOCAL };
    let disk = copied(&tiered.fs);
    let copy = tiered.handle(&disk).with(roomy).open_unmarked(&disk);
    let before = changes(&tiered);
    assert_eq!(begin(&copy, 8), Ok(()));
    assert_eq!(copy.remote_refusal(), Some(RemoteRefusal::Copied { newest: 1 }));
    delete_all(&tiered, &copy);
    fill_more(&copy);
    work(&copy).unwrap();
    assert_eq!((changes(&tiered), tiered.remote.names()), (before, there));
    assert_eq!(get(&copy, "b", "more20").unwrap(), bytes(20, 700_000), "its own writes go on");
    check(&living);
    put(&living, "b", "more", b"v").unwrap();
    work(&living).unwrap();
    assert_eq!((living.remote_refusal(), get(&living, "b", "more").unwrap()), (None, b"v".to_vec()));
}

#[test]
fn a_copy_of_a_stopped_directory_is_behind_once_the_store_has_started_again() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    store.close();
    drop(store);
    let copy = copied(&tiered.fs);
    let living = tiered.open();
    begin(&living, 9).unwrap();
    assert_eq!(living.tier_figures().unwrap().epoch, 2, "a restart claims the next epoch");
    let copy = tiered.open_unmarked(&copy);
    begin(&copy, 8).unwrap();
    assert_eq!(copy.remote_refusal(), Some(RemoteRefusal::Foreign { newest: 2 }));
    delete_all(&tiered, &copy);
    check(&living);
}

#[test]
fn of_a_cloned_disk_and_the_original_the_last_one_to_start_is_right() {
    let (tiered, original) = Tiered::filled(TierOptions { local_max_bytes: 64 * MIB, ..NOTHING_LOCAL });
    assert!(work(&original).unwrap().sent > 0);
    let disk = tiered.fs.copy();
    let clone = tiered.open_unmarked(&disk);
    begin(&clone, 8).unwrap();
    assert_eq!(clone.tier_figures().unwrap().epoch, 2);
    fill_more(&original);
    tiered.clock.advance(HOUR);
    let before = changes(&tiered);
    assert!(matches!(original.tier_step(&SeededEntropy::new(7)), Err(StoreError::RemoteUnavailable(_))));
    assert_eq!(original.remote_refusal(), Some(RemoteRefusal::Fenced { by: 2 }));
    // It gives nothing back, sends nothing and deletes nothing, and takes writes.
    let done = work(&original).unwrap();
    assert_eq!((done, changes(&tiered)), (TierProgress::default(), before));
    put(&original, "b", "late", b"v").unwrap();
    check(&original);
    drop(original);
    // It does not come back by a restart, but by the word of an operator.
    let reopen = || tiered.open_unmarked(&tiered.fs);
    let original = reopen();
    begin(&original, 10).unwrap();
    assert_eq!(original.remote_refusal(), Some(RemoteRefusal::Foreign { newest: 2 }));
    let store = original.shared.store;
    drop(original);
    adopt(&tiered, store, 30, 3);
    let original = reopen();
    begin(&original, 11).unwrap();
    assert_eq!(original.tier_figures().unwrap().epoch, 4);
    tiered.clock.advance(HOUR);
    assert!(clone.tier_step(&SeededEntropy::new(7)).is_err());
    assert_eq!(clone.remote_refusal(), Some(RemoteRefusal::Fenced { by: 3 }));
}

/// Adopts the remote for the directory of the host.
fn adopt(tiered: &Tiered, store: StoreId, seed: u64, epoch: u64) {
    let now = tiered.clock.now();
    let adopted = adopt_remote(tiered.reached().as_ref(), &tiered.fs, store, now, &SeededEntropy::new(seed));
    assert_eq!(adopted.unwrap(), epoch);
}

#[test]
fn a_directory_that_was_adopted_is_the_right_one_whichever_starts_first() {
    let (tiered, former) = Tiered::filled(NOTHING_LOCAL);
    work(&former).unwrap();
    let store = former.shared.store;
    let disk = tiered.fs.copy();
    drop(former);
    // The directory of `tiered` is the new one, and the copy of the disk the former one.
    adopt(&tiered, store, 30, 2);
    let former = tiered.open_unmarked(&disk);
    begin(&former, 31).unwrap();
    assert_eq!(former.remote_refusal(), Some(RemoteRefusal::Foreign { newest: 2 }));
    let new = tiered.open_unmarked(&tiered.fs);
    begin(&new, 32).unwrap();
    assert_eq!((new.tier_figures().unwrap().epoch, new.remote_refusal()), (3, None));
}

#[test]
fn an_adoption_that_fails_at_any_call_is_made_up_for_by_the_next_one() {
    for fault in [RemoteFault::Lost, RemoteFault::Status(503)] {
        let (tiered, former) = Tiered::filled(NOTHING_LOCAL);
        let store = former.shared.store;
        drop(former);
        tiered.remote.fail_next(RemoteCall::Put, fault);
        let remote = tiered.reached();
        let now = tiered.clock.now();
        assert!(adopt_remote(remote.as_ref(), &tiered.fs, store, now, &SeededEntropy::new(33)).is_err());
        let there = u64::from(fault == RemoteFault::Lost);
        adopt(&tiered, store, 34, 2 + there);
        let new = tiered.open_unmarked(&tiered.fs);
        begin(&new, 35).unwrap();
        assert_eq!(new.remote_refusal(), None);
    }
}

#[test]
fn a_start_goes_on_after_a_crash_at_any_step_of_its_claim() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    drop(store);
    // The answer is lost, the put is refused, the remote goes away before.
    for fault in [RemoteFault::Lost, RemoteFault::Status(503)] {
        tiered.remote.fail_next(RemoteCall::Put, fault);
        let store = tiered.open_unmarked(&tiered.fs);
        assert!(matches!(begin(&store, 20), Err(StoreError::RemoteUnavailable(_))));
        assert_eq!(store.remote_refusal(), Some(RemoteRefusal::Silent));
        drop(store);
        let store = tiered.open_unmarked(&tiered.fs);
        begin(&store, 21).unwrap();
        assert_eq!(store.remote_refusal(), None, "{fault:?}");
        drop(store);
    }
    // The same process tries its claim again.
    tiered.remote.fail_next(RemoteCall::Put, RemoteFault::Lost);
    let store = tiered.open_unmarked(&tiered.fs);
    assert!(begin(&store, 22).is_err());
    let claimed = tiered.remote.names().iter().filter(|name| name.starts_with(Claim::PREFIX)).count();
    begin(&store, 22).unwrap();
    let now = tiered.remote.names().iter().filter(|name| name.starts_with(Claim::PREFIX)).count();
    assert_eq!((claimed, store.remote_refusal()), (now, None));
}

#[test]
fn a_remote_without_the_claims_of_the_directory_is_left_alone() {
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    drop(store);
    tiered.remote.remove(&Claim::name(1));
    let store = tiered.open_unmarked(&tiered.fs);
    begin(&store, 8).unwrap();
    assert_eq!(store.remote_refusal(), Some(RemoteRefusal::ClaimsLost));
    drop(store);
    tiered.fs.remove(EPOCH).unwrap();
    let store = tiered.open_unmarked(&tiered.fs);
    begin(&store, 9).unwrap();
    assert_eq!(store.remote_refusal(), None, "a store of an earlier version has no claim");
}

#[test]
fn a_claim_is_read_back_where_the_remote_decides_no_races() {
    let tiered = Tiered::new(NOTHING_LOCAL);
    let store = tiered.open_unmarked(&tiered.fs);
    tiered.mark_as(&store, false);
    tiered.remote.set_ignores_conditions(true);
    begin(&store, 8).unwrap();
    assert_eq!((store.tier_figures().unwrap().epoch, store.remote_refusal()), (0, None));
    tiered.clock.advance(Duration::from_secs(2));
    begin(&store, 8).unwrap();
    assert_eq!(store.tier_figures().unwrap().epoch, 1);
    drop(store);
    // Another one puts the same claim meanwhile.
    let store = tiered.open_unmarked(&tiered.fs);
    begin(&store, 9).unwrap();
    tiered.remote.place(&Claim::name(2), b"another");
    tiered.clock.advance(Duration::from_secs(2));
    begin(&store, 9).unwrap();
    assert_eq!(store.remote_refusal(), Some(RemoteRefusal::Foreign { newest: 2 }));
}

#[test]
fn a_start_without_the_log_is_refused_where_the_remote_has_one() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = begun(&tiered, &tiered.fs, ShipMode::Async);
    store.create_bucket("b", "admin").unwrap();
    ship(&store).unwrap();
    store.close();
    drop(store);
    // It cannot look at first, and takes writes until it could.
    tiered.remote.set_down(true);
    let store = tiered.open_unmarked(&tiered.fs);
    assert!(matches!(begin(&store, 8), Err(StoreError::RemoteUnavailable(_))));
    put(&store, "b", "k", b"v").unwrap();
    tiered.remote.set_down(false);
    let before = changes(&tiered);
    assert!(matches!(begin(&store, 8), Err(StoreError::ReadOnly(_))));
    assert!(matches!(put(&store, "b", "l", b"v"), Err(StoreError::ReadOnly(_))));
    assert_eq!(store.health().read_only_reason, Some(ReadOnlyReason::LogNotContinued));
    assert_eq!(changes(&tiered), before);
    drop(store);
    // An operator gives the log up. The directory is the one that has shipped it.
    let told = tiered.with(TierOptions { abandons_log: true, ..LITTLE_LOCAL });
    let store = told.open_unmarked(&told.fs);
    begin(&store, 9).unwrap();
    assert_eq!((store.tier_figures().unwrap().epoch, store.remote_refusal()), (2, None));
    put(&store, "b", "l", b"v").unwrap();
}

#[test]
fn a_copy_that_ships_takes_nothing_from_a_living_store_that_does_not() {
    let (tiered, living) = Tiered::filled(NOTHING_LOCAL);
    work(&living).unwrap();
    let copy = tiered.open_unmarked(&copied(&tiered.fs));
    copy.ship_log_from(
        ShipOptions { mode: ShipMode::Async, root_every: HOUR, window: HOUR, lag_max: None },
        None,
    );
    let before = changes(&tiered);
    assert!(matches!(ship(&copy), Err(StoreError::ReadOnly(_))));
    assert_eq!(changes(&tiered), before);
    drop(copy);
    drop(living);
    // The store itself may begin to ship.
    let options = ShipOptions { mode: ShipMode::Async, root_every: HOUR, window: HOUR, lag_max: None };
    let store = shipping_with(&tiered, &tiered.fs, options);
    ship(&store).unwrap();
    check(&store);
}

/// Reads everything that a store has.
fn read_all(store: &Store) -> Vec<(String, Vec<u8>)> {
    keys(store, "b").into_iter().map(|key| (key.clone(), get(store, "b", &key).unwrap())).collect()
}

fn look(tiered: &Tiered, fs: &SimFs) -> Store {
    let remote: Arc<dyn RemoteView> = tiered.reached();
    Store::look(Arc::new(fs.clone()), tiered.clock.clone(), options(), Some(remote)).unwrap()
}

#[test]
fn a_look_at_a_directory_writes_nothing_anywhere() {
    let (tiered, living) = Tiered::filled(NOTHING_LOCAL);
    work(&living).unwrap();
    let copy = copied(&tiered.fs);
    let before = changes(&tiered);
    let files = copy.operations();
    let looking = look(&tiered, &copy);
    assert_eq!(read_all(&looking), read_all(&living));
    assert!(matches!(put(&looking, "b", "k", b"v"), Err(StoreError::ReadOnly(_))));
    let large = put(&looking, "b", "k", &bytes(1, 3 * MIB as usize));
    assert!(matches!(large, Err(StoreError::ReadOnly(_))), "{large:?}");
    assert!(looking.tier_step(&SeededEntropy::new(7)).is_err());
    assert_eq!(looking.health().read_only_reason, Some(ReadOnlyReason::LooksOnly));
    assert_eq!(looking.health().damage, []);
    looking.close();
    drop(looking);
    assert_eq!(changes(&tiered), before);
    // The lock file alone is made.
    assert!(copy.operations() <= files + 1, "{} operations", copy.operations() - files);
    // A server that runs in the directory keeps others out.
    let second = Store::look(Arc::new(tiered.fs.clone()), tiered.clock.clone(), options(), None);
    assert!(matches!(second, Err(OpenError::Locked)));
}

#[test]
fn looks_at_a_restored_time_and_at_a_fenced_host_leave_the_living_store_whole() {
    let tiered = Tiered::new(TierOptions { keep_dropped: Duration::ZERO, ..LITTLE_LOCAL });
    let old = begun(&tiered, &tiered.fs, ShipMode::Async);
    old.create_bucket("b", "admin").unwrap();
    for at in 0..12 {
        put(&old, "b", &format!("k{at}"), &bytes(at, 700_000)).unwrap();
    }
    reclaim_all(&old).unwrap();
    work(&old).unwrap();
    ship(&old).unwrap();
    let at = tiered.clock.now();
    tiered.clock.advance(HOUR);
    delete(&old, "b", "k0", Selector::Current).unwrap();
    ship(&old).unwrap();
    assert!(work(&old).is_ok());
    let then = SimFs::new();
    let remote = tiered.reached();
    restore_from_remote_at(remote.as_ref(), &then, tiered.clock.as_ref(), at, &mut |_| ()).unwrap();
    let living = begun(&tiered, &restored(&tiered), ShipMode::Async);
    tiered.clock.advance(HOUR);
    assert!(ship(&old).is_err(), "it is fenced");
    let whole = read_all(&living);
    let before = changes(&tiered);
    let looking = look(&tiered, &then);
    assert_eq!((read_all(&looking).len(), whole.len()), (12, 11));
    drop(looking);
    let looking = look(&tiered, &copied(&tiered.fs));
    assert_eq!(read_all(&looking).len(), 11);
    drop(looking);
    // Without an option a copy of the fenced host, and the restored time, are refused before they
    // change anything.
    for disk in [copied(&tiered.fs), then] {
        let copy = tiered.open_unmarked(&disk);
        assert!(matches!(begin(&copy, 8), Err(StoreError::ReadOnly(_))));
        assert!(copy.tier_step(&SeededEntropy::new(7)).is_err());
    }
    assert_eq!(changes(&tiered), before);
    assert_eq!(read_all(&living), whole);
}

#[test]
fn orphans_stay_where_an_epoch_was_claimed_since_the_audit() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let first = begun(&tiered, &tiered.fs, ShipMode::Async);
    first.create_bucket("b", "admin").unwrap();
    ship(&first).unwrap();
    let second = begun(&tiered, &restored(&tiered), ShipMode::Async);
    // Older epochs are judged once the newest one has a root of its own.
    tiered.clock.advance(HOUR);
    ship(&second).unwrap();
    let orphan = "segment/0000000000000001/0000000000000099-00000001";
    tiered.remote.place(orphan, b"orphan");
    let found = audit_remote(tiered.reached().as_ref()).unwrap();
    assert_eq!(found.orphans.len(), 1);
    let third = begun(&tiered, &restored(&tiered), ShipMode::Async);
    let refused = delete_orphans(tiered.reached().as_ref(), &found);
    assert!(matches!(refused, Err(ShipError::Claimed(3))), "{refused:?}");
    assert!(tiered.remote.bytes(orphan).is_some());
    let found = audit_remote(tiered.reached().as_ref()).unwrap();
    delete_orphans(tiered.reached().as_ref(), &found).unwrap();
    assert!(tiered.remote.bytes(orphan).is_none());
    drop((second, third));
}
