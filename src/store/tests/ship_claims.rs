//! Who may claim: a directory that lacks a part of the log claims nothing, a claim that stays
//! without a cut ends no epoch for good, and standbys do not fence one another.

use super::ship::{
    HOUR, LITTLE_LOCAL, begun, follow, followed, is_unavailable, promoted, restored, ship, shipping,
    standby_on,
};
use super::tier::Tiered;
use super::*;
use crate::format::{Claim, Cut};
use crate::remote::sim::{RemoteCall, RemoteFault};

/// The time that a claim has for its cut.
const PATIENCE: Duration = Duration::from_secs(10);

fn claims(tiered: &Tiered) -> usize {
    tiered.remote.names().iter().filter(|name| name.starts_with(Claim::PREFIX)).count()
}

/// A host that claims, and fails before its cut.
fn claim_by_another(tiered: &Tiered, store: &Store, epoch: u64) {
    let claim = Claim { store: store.shared.store, epoch, made: Timestamp::from_millis(1), of_tier: false };
    tiered.remote.place(&Claim::name(epoch), &claim.encode());
}

/// A writer, with a copy of its directory from before its last shipped write.
fn writer_with_an_old_copy(tiered: &Tiered, mode: ShipMode) -> (Store, SimFs) {
    let writer = begun(tiered, &tiered.fs, mode);
    writer.create_bucket("b", "admin").unwrap();
    put(&writer, "b", "k", b"1").unwrap();
    ship(&writer).unwrap();
    let old = tiered.fs.copy();
    put(&writer, "b", "k", b"2").unwrap();
    ship(&writer).unwrap();
    (writer, old)
}

#[test]
fn a_directory_that_lacks_a_part_of_the_log_claims_nothing() {
    for mode in [ShipMode::Sync, ShipMode::Async] {
        let tiered = Tiered::new(LITTLE_LOCAL);
        let (writer, old) = writer_with_an_old_copy(&tiered, mode);
        let stale = shipping(&tiered, &old, mode);
        assert!(matches!(ship(&stale), Err(StoreError::ReadOnly(_))));
        assert_eq!(claims(&tiered), 1);
        put(&writer, "b", "k", b"3").unwrap();
        ship(&writer).unwrap();
        assert_eq!(get(&shipping(&tiered, &restored(&tiered), mode), "b", "k").unwrap(), b"3");
    }
}

#[test]
fn a_directory_that_lacks_what_came_while_it_claimed_begins_no_epoch_and_the_writer_claims_again() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let writer = Arc::new(begun(&tiered, &tiered.fs, ShipMode::Sync));
    writer.create_bucket("b", "admin").unwrap();
    let copy = tiered.fs.copy();
    let counted = shipping(&tiered, &tiered.fs.copy(), ShipMode::Sync);
    // The calls of the look before the claim are those of a start that is refused its claim.
    let before = tiered.remote.all_calls();
    tiered.remote.set_read_only(true);
    assert!(ship(&counted).is_err());
    tiered.remote.set_read_only(false);
    let claim = tiered.remote.all_calls() - before;
    let other = Arc::clone(&writer);
    tiered.remote.call_before(tiered.remote.all_calls() + claim, move || {
        put(&other, "b", "k", b"while it claims").unwrap();
    });
    let late = shipping(&tiered, &copy, ShipMode::Sync);
    assert!(matches!(ship(&late), Err(StoreError::ReadOnly(_))));
    assert_eq!(claims(&tiered), 2, "it has looked before its claim, and after it");
    assert!(is_unavailable(&put(&writer, "b", "k", b"in doubt")));
    tiered.clock.advance(PATIENCE);
    ship(&writer).unwrap();
    put(&writer, "b", "k", b"again").unwrap();
    assert_eq!(writer.ship_figures().unwrap().epoch, 3);
    let there = shipping(&tiered, &restored(&tiered), ShipMode::Sync);
    assert_eq!(get(&there, "b", "k").unwrap(), b"again");
}

#[test]
fn a_claim_that_stays_without_a_cut_is_waited_for_and_then_passed() {
    for mode in [ShipMode::Sync, ShipMode::Async] {
        let tiered = Tiered::new(LITTLE_LOCAL);
        let writer = begun(&tiered, &tiered.fs, mode);
        writer.create_bucket("b", "admin").unwrap();
        ship(&writer).unwrap();
        claim_by_another(&tiered, &writer, 2);
        // In sync mode the write is in doubt, and nobody sees it.
        let doubtful = put(&writer, "b", "doubt", b"v");
        assert_eq!(is_unavailable(&doubtful), mode == ShipMode::Sync);
        assert!(is_unavailable(&ship(&writer)) || mode == ShipMode::Sync);
        assert_eq!(get(&writer, "b", "doubt").is_ok(), mode == ShipMode::Async);
        for at in 0..3 {
            assert!(is_unavailable(&put(&writer, "b", "k", b"refused")), "{at}");
            tiered.clock.advance(PATIENCE / 2);
            // Another claim has as much time.
            if at == 0 {
                claim_by_another(&tiered, &writer, 3);
            }
            assert_eq!(ship(&writer).is_ok(), at == 2);
        }
        put(&writer, "b", "k", b"after").unwrap();
        ship(&writer).unwrap();
        assert_eq!(get(&writer, "b", "doubt").unwrap(), b"v");
        assert_eq!(writer.ship_figures().unwrap().epoch, 4);
        let there = shipping(&tiered, &restored(&tiered), mode);
        assert_eq!(keys(&there, "b"), ["doubt", "k"]);
    }
}

#[test]
fn a_cut_after_the_claim_ends_the_epoch_whenever_it_comes() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (writer, _fs, _standby) = followed(&tiered);
    claim_by_another(&tiered, &writer, 2);
    tiered.clock.advance(PATIENCE);
    assert!(is_unavailable(&ship(&writer)));
    // The other host is late, and the writer finds its cut instead of claiming again.
    let cut = Cut { store: writer.shared.store, epoch: 2, former: 1, last: 0, end: Default::default() };
    tiered.remote.place(&Cut::name(2), &cut.encode());
    tiered.clock.advance(PATIENCE);
    assert!(matches!(ship(&writer), Err(StoreError::ReadOnly(_))));
    assert_eq!(writer.health().read_only_reason, Some(ReadOnlyReason::Fenced));
    assert_eq!(claims(&tiered), 2);
}

#[test]
fn a_write_whose_epoch_ends_while_it_is_written_is_not_answered() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let writer = Arc::new(begun(&tiered, &tiered.fs, ShipMode::Sync));
    writer.create_bucket("b", "admin").unwrap();
    claim_by_another(&tiered, &writer, 2);
    // The thread that ships finds the claim between the check of the epoch and the end of the
    // group.
    let other = Arc::clone(&writer);
    tiered.clock.advance(PATIENCE);
    tiered.fs.call_before(tiered.fs.operations() + 1, move || {
        assert!(is_unavailable(&ship(&other)));
    });
    assert!(is_unavailable(&put(&writer, "b", "k", b"v")));
    assert_eq!(writer.ship_figures().unwrap().epoch, 0);
    assert_eq!(get(&writer, "b", "k"), Err(StoreError::NoSuchKey));
}

#[test]
fn of_standbys_that_miss_the_writer_at_a_time_one_wins_and_the_others_follow() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (old, first, mut one) = followed(&tiered);
    let second = SimFs::new();
    let third = SimFs::new();
    let mut two = standby_on(&tiered, &second);
    let mut three = standby_on(&tiered, &third);
    follow(&mut two);
    follow(&mut three);
    drop(old);
    // The first one has claimed, and has no answer to the rest yet.
    tiered.remote.fail_next(RemoteCall::Put, RemoteFault::None);
    tiered.remote.fail_next(RemoteCall::Put, RemoteFault::Status(503));
    assert!(one.take_over(&SeededEntropy::new(1), &mut |_| ()).is_err());
    assert!(one.has_claimed());
    for standby in [&mut two, &mut three] {
        assert!(standby.take_over(&SeededEntropy::new(2), &mut |_| ()).unwrap().is_none());
        assert!(!standby.has_claimed());
    }
    assert_eq!(claims(&tiered), 2);
    let writer = promoted(&tiered, &first, &mut one, ShipMode::Async);
    put(&writer, "b", "k", b"1").unwrap();
    ship(&writer).unwrap();
    for standby in [&mut two, &mut three] {
        follow(standby);
        assert_eq!((standby.figures().epoch, standby.figures().sequence), (2, writer.health().sequence));
    }
    // They are left when the next one goes, and the last of them writes.
    drop(writer);
    let writer = promoted(&tiered, &third, &mut three, ShipMode::Async);
    follow(&mut two);
    drop(writer);
    let writer = promoted(&tiered, &second, &mut two, ShipMode::Async);
    assert_eq!(get(&writer, "b", "k").unwrap(), b"1");
    put(&writer, "b", "k", b"2").unwrap();
    ship(&writer).unwrap();
}

#[test]
fn a_claim_is_a_heartbeat_and_is_passed_when_its_host_shows_no_other() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (old, fs, mut standby) = followed(&tiered);
    claim_by_another(&tiered, &old, 2);
    let heartbeats =
        |standby: &mut Standby| (0..9).filter(|_| standby.step(&mut |_| ()).unwrap().heartbeat).count();
    assert_eq!(heartbeats(&mut standby), 1);
    assert_eq!(heartbeats(&mut standby), 0);
    drop(old);
    let taken = standby.take_over(&SeededEntropy::new(2), &mut |_| ()).unwrap().unwrap();
    assert_eq!(taken.epoch(), 3);
    assert!(tiered.remote.bytes(&Cut::name(3)).is_some(), "others see that it goes on");
    let writer = tiered.open_on(&fs);
    writer.ship_log_from(
        ShipOptions { mode: ShipMode::Async, root_every: HOUR, window: HOUR, lag_max: None },
        Some(taken),
    );
    ship(&writer).unwrap();
}

#[test]
fn a_standby_that_lags_catches_up_before_its_claim() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (old, _fs, mut standby) = followed(&tiered);
    for at in 0..20 {
        put(&old, "b", &format!("k{at}"), b"v").unwrap();
        ship(&old).unwrap();
    }
    tiered.remote.set_read_only(true);
    assert!(standby.take_over(&SeededEntropy::new(2), &mut |_| ()).is_err());
    tiered.remote.set_read_only(false);
    assert_eq!((claims(&tiered), standby.has_claimed()), (1, false));
    assert_eq!(standby.figures().sequence, old.health().sequence);
    ship(&old).unwrap();
    put(&old, "b", "k", b"goes on").unwrap();
}
