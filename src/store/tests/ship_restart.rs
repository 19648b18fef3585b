//! An epoch goes on from the root of the one before: nothing that the remote has is sent again, and
//! writes do not wait for a checkpoint.

use super::ship::{
    LITTLE_LOCAL, begun, follow, followed, is_unavailable, is_whole, promoted, restored, ship, shipping,
    standby_on,
};
use super::tier::{Tiered, work};
use super::*;
use crate::base::limits::MIB;
use crate::format::{Parcel, Root};
use crate::remote::sim::{RemoteCall, RemoteFault};

const HOUR: Duration = Duration::from_secs(3600);

/// A writer with objects in segments that the remote does not have.
fn writer_with_objects(tiered: &Tiered, mode: ShipMode) -> Store {
    let writer = begun(tiered, &tiered.fs, mode);
    writer.create_bucket("b", "admin").unwrap();
    for at in 0..8 {
        put(&writer, "b", &format!("k{at}"), &bytes(at, 500_000)).unwrap();
        put(&writer, "b", &format!("s{at}"), &bytes(at, 300)).unwrap();
    }
    ship(&writer).unwrap();
    writer
}

fn has_objects(store: &Store) {
    for at in 0..8 {
        assert!(get(store, "b", &format!("k{at}")).unwrap() == bytes(at, 500_000), "k{at}");
        assert_eq!(get(store, "b", &format!("s{at}")).unwrap(), bytes(at, 300));
    }
    assert_eq!(store.health().damage, []);
}

fn roots(tiered: &Tiered) -> Vec<String> {
    tiered.remote.names().into_iter().filter(|name| name.starts_with("root/")).collect()
}

#[test]
fn a_restart_sends_nothing_that_the_remote_has_before_its_first_write() {
    for mode in [ShipMode::Sync, ShipMode::Async] {
        let tiered = Tiered::new(LITTLE_LOCAL);
        drop(writer_with_objects(&tiered, mode));
        for restart in 1..4 {
            let writer = begun(&tiered, &tiered.fs, mode);
            let calls = tiered.remote.calls(RemoteCall::Put);
            put(&writer, "b", "first", &bytes(restart, 300)).unwrap();
            ship(&writer).unwrap();
            let figures = writer.ship_figures().unwrap();
            assert_eq!((figures.epoch, figures.roots), (restart + 1, 0));
            // The one parcel has the write and the header of its segment, and what the restart
            // wrote in the log.
            assert!(figures.sent_bytes < 64 * 1024, "{figures:?}");
            assert!(tiered.remote.calls(RemoteCall::Put) <= calls + 1, "claim, cut and tail come before");
            let there = shipping(&tiered, &restored(&tiered), mode);
            has_objects(&there);
            assert_eq!(get(&there, "b", "first").unwrap(), bytes(restart, 300));
        }
        assert_eq!(roots(&tiered).len(), 1);
    }
}

#[test]
fn a_host_that_takes_over_sends_nothing_that_the_remote_has() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let old = writer_with_objects(&tiered, ShipMode::Async);
    let fs = SimFs::new();
    let mut standby = standby_on(&tiered, &fs);
    follow(&mut standby);
    drop(old);
    let new = promoted(&tiered, &fs, &mut standby, ShipMode::Async);
    put(&new, "b", "k", b"v").unwrap();
    ship(&new).unwrap();
    assert!(new.ship_figures().unwrap().sent_bytes < 64 * 1024);
    has_objects(&shipping(&tiered, &restored(&tiered), ShipMode::Async));
    // An object that is changed without new bytes refers to those of the epoch before.
    let mut third = standby_on(&tiered, &SimFs::new());
    follow(&mut third);
    assert_eq!(third.figures().epoch, 2);
}

#[test]
fn what_was_not_shipped_before_a_restart_is_shipped_after_it_and_holds_up_no_write() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let writer = writer_with_objects(&tiered, ShipMode::Async);
    tiered.remote.set_down(true);
    put(&writer, "b", "tail", &bytes(50, 700_000)).unwrap();
    put(&writer, "b", "tail-small", &bytes(51, 100)).unwrap();
    drop(writer);
    tiered.remote.set_down(false);
    let writer = shipping(&tiered, &tiered.fs, ShipMode::Async);
    // The claim and the cut are put, and then the remote takes no more.
    for fault in [RemoteFault::None, RemoteFault::None, RemoteFault::Status(503)] {
        tiered.remote.fail_next(RemoteCall::Put, fault);
    }
    assert!(is_unavailable(&ship(&writer)));
    put(&writer, "b", "k", b"v").unwrap();
    ship(&writer).unwrap();
    let sent = writer.ship_figures().unwrap().sent_bytes;
    assert!(sent > 700_000 && sent < 1_000_000, "{sent}");
    let there = shipping(&tiered, &restored(&tiered), ShipMode::Async);
    has_objects(&there);
    assert!(get(&there, "b", "tail").unwrap() == bytes(50, 700_000));
    assert_eq!(get(&there, "b", "tail-small").unwrap(), bytes(51, 100));
}

#[test]
fn the_first_root_of_an_epoch_needs_parcels_of_the_one_before_until_their_segments_are_remote() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    drop(writer_with_objects(&tiered, ShipMode::Async));
    let writer = begun(&tiered, &tiered.fs, ShipMode::Async);
    put(&writer, "b", "k", b"v").unwrap();
    ship(&writer).unwrap();
    tiered.clock.advance(HOUR);
    put(&writer, "b", "l", b"w").unwrap();
    ship(&writer).unwrap();
    let root = |name: &str| Root::decode(&tiered.remote.bytes(name).unwrap()).unwrap();
    let over = root(&Root::name(2, 1));
    assert_eq!((over.epoch, over.first.epoch), (2, 1));
    let sent = writer.ship_figures().unwrap().sent_bytes;
    assert!(sent < 100_000, "{sent}");
    let there = shipping(&tiered, &restored(&tiered), ShipMode::Async);
    has_objects(&there);
    let audit = audit_remote(tiered.reached().as_ref()).unwrap();
    assert_eq!((audit.missing, audit.orphans.len()), (vec![], 0));
    // A standby that begins there has all bytes, too, and so has the host after it.
    let fs = SimFs::new();
    let mut standby = standby_on(&tiered, &fs);
    follow(&mut standby);
    is_whole(&fs);
    // Without one of these parcels the restore says so.
    let needed = Parcel::name(1, over.first.counter);
    let bytes = tiered.remote.bytes(&needed).unwrap();
    tiered.remote.remove(&needed);
    let mut lost = standby_on(&tiered, &SimFs::new());
    assert!(lost.step(&mut |_| ()).is_err());
    tiered.remote.place(&needed, &bytes);
    // Once the segments are remote, a root needs them no longer.
    writer.shared.segments.retire(|_| true);
    put(&writer, "b", "k", &self::bytes(9, 300_000)).unwrap();
    reclaim_all(&writer).unwrap();
    assert!(work(&writer).unwrap().sent > 0);
    ship(&writer).unwrap();
    tiered.clock.advance(HOUR);
    put(&writer, "b", "l", b"x").unwrap();
    ship(&writer).unwrap();
    let newest = root(roots(&tiered).last().unwrap());
    assert_eq!((newest.epoch, newest.first.epoch), (2, 2));
    let new = promoted(&tiered, &fs, &mut standby, ShipMode::Async);
    has_objects_but(&new);
}

fn has_objects_but(store: &Store) {
    for at in 0..8 {
        assert_eq!(get(store, "b", &format!("s{at}")).unwrap(), bytes(at, 300));
        assert!(get(store, "b", &format!("k{at}")).unwrap() == bytes(at, 500_000), "k{at}");
    }
}

#[test]
fn an_object_that_is_changed_in_a_later_epoch_keeps_the_bytes_of_the_former_one() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    drop(writer_with_objects(&tiered, ShipMode::Async));
    let writer = begun(&tiered, &tiered.fs, ShipMode::Async);
    // A segment that is appended to again: old bytes before the end, new ones after it.
    for at in 0..4 {
        put(&writer, "b", &format!("n{at}"), &bytes(60 + at, 200_000)).unwrap();
    }
    delete(&writer, "b", "k0", Selector::Current).unwrap();
    reclaim_all(&writer).unwrap();
    ship(&writer).unwrap();
    let there = shipping(&tiered, &restored(&tiered), ShipMode::Async);
    for at in 0..4 {
        assert!(get(&there, "b", &format!("n{at}")).unwrap() == bytes(60 + at, 200_000), "n{at}");
    }
    for at in 1..8 {
        assert!(get(&there, "b", &format!("k{at}")).unwrap() == bytes(at, 500_000), "k{at}");
    }
}

#[test]
fn a_writer_that_claims_again_sends_nothing_twice() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let writer = writer_with_objects(&tiered, ShipMode::Async);
    let before = writer.ship_figures().unwrap().sent_bytes;
    let claim = crate::format::Claim {
        store: writer.shared.store,
        epoch: 2,
        made: Timestamp::from_millis(1),
        of_tier: false,
    };
    tiered.remote.place(&crate::format::Claim::name(2), &claim.encode());
    tiered.clock.advance(Duration::from_secs(10));
    assert!(is_unavailable(&ship(&writer)));
    tiered.clock.advance(Duration::from_secs(10));
    ship(&writer).unwrap();
    put(&writer, "b", "k", b"v").unwrap();
    ship(&writer).unwrap();
    let figures = writer.ship_figures().unwrap();
    assert_eq!(figures.epoch, 3);
    assert!(figures.sent_bytes - before < 64 * 1024, "{figures:?}");
    has_objects(&shipping(&tiered, &restored(&tiered), ShipMode::Async));
}

#[test]
fn a_root_is_put_after_many_parcels_and_not_at_each_of_them() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (writer, _fs, _standby) = followed(&tiered);
    for at in 0..600 {
        put(&writer, "b", "k", &bytes(at, 10)).unwrap();
        ship(&writer).unwrap();
    }
    assert_eq!(writer.ship_figures().unwrap().roots, 3, "the first one, and one for each 256 parcels");
    for at in 0..9 {
        put(&writer, "b", "large", &bytes(at, 8 * MIB as usize)).unwrap();
        ship(&writer).unwrap();
    }
    assert_eq!(writer.ship_figures().unwrap().roots, 4, "64 MiB");
}
