//! A remote that answers 404 for objects that it has: no host takes the log for shorter than it is.

use super::ship::{HOUR, begun, follow, is_whole, restored, ship, standby_on};
use super::tier::{NOTHING_LOCAL, Tiered};
use super::*;
use crate::base::Clock as _;
use crate::fs::sim::CrashPolicy;
use crate::remote::sim::RemoteCall;

/// A writer that has answered ten writes, in the order of their keys, and is gone.
fn written(mode: ShipMode) -> Tiered {
    let tiered = Tiered::new(NOTHING_LOCAL);
    let store = begun(&tiered, &tiered.fs, mode);
    store.create_bucket("b", "admin").unwrap();
    for at in 0..10 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 300)).unwrap();
        ship(&store).unwrap();
    }
    store.give_heartbeat().unwrap();
    tiered
}

fn names(tiered: &Tiered, prefix: &str) -> Vec<String> {
    tiered.remote.names().into_iter().filter(|name| name.starts_with(prefix)).collect()
}

fn hide(tiered: &Tiered, names: &[String], in_listings: bool) {
    tiered.remote.hide(names.iter().map(String::as_str), in_listings);
}

fn take_over(standby: &mut Standby) -> Result<Option<TakenOver>, ShipError> {
    standby.take_over(&SeededEntropy::new(3), &mut |_| ())
}

fn has_all(tiered: &Tiered, fs: &SimFs, taken: TakenOver) {
    let store = tiered.open_on(fs);
    let options = ShipOptions { mode: ShipMode::Sync, root_every: HOUR, window: HOUR * 24, lag_max: None };
    store.ship_log_from(options, Some(taken));
    ship(&store).unwrap();
    for at in 0..10 {
        assert_eq!(get(&store, "b", &format!("k{at}")).unwrap(), bytes(at, 300), "k{at}");
    }
    put(&store, "b", "more", b"m").unwrap();
    store.close();
    drop(store);
    is_whole(fs);
}

/// Sets of objects that a takeover must not go without, and whether listings lack them, too.
fn hidings(tiered: &Tiered) -> Vec<(Vec<String>, bool)> {
    let parcels = names(tiered, "log/");
    let last = parcels[parcels.len() - 3..].to_vec();
    let alive = names(tiered, "alive/");
    vec![
        (last.clone(), false),
        (last.clone(), true),
        (vec![last[0].clone()], false),
        (vec![last[0].clone()], true),
        (vec![last[2].clone()], true),
        ([last, alive].concat(), false),
        (parcels, false),
    ]
}

#[test]
fn a_takeover_waits_for_pieces_that_the_remote_does_not_show() {
    for follows_before in [false, true] {
        let count = hidings(&written(ShipMode::Sync)).len();
        for nth in 0..count {
            let tiered = written(ShipMode::Sync);
            let (hidden, in_listings) = hidings(&tiered).swap_remove(nth);
            let fs = SimFs::new();
            hide(&tiered, &hidden, in_listings);
            let mut standby = standby_on(&tiered, &fs);
            if follows_before {
                follow(&mut standby);
            }
            for _ in 0..3 {
                match take_over(&mut standby) {
                    Err(ShipError::Hidden { name, .. }) => {
                        assert!(hidden.contains(&name), "{nth}: {name} is named, and hidden are {hidden:?}");
                    }
                    other => panic!("{nth}: {other:?}"),
                }
            }
            hide(&tiered, &[], false);
            let taken = take_over(&mut standby).unwrap().unwrap();
            has_all(&tiered, &fs, taken);
        }
    }
}

#[test]
fn a_standby_that_has_seen_a_heartbeat_does_not_forget_it() {
    let tiered = written(ShipMode::Sync);
    let fs = SimFs::new();
    let parcels = names(&tiered, "log/");
    hide(&tiered, &parcels[parcels.len() - 2..], true);
    let mut standby = standby_on(&tiered, &fs);
    follow(&mut standby);
    assert!(standby.figures().waiting_groups > 0, "{:?}", standby.figures());
    hide(&tiered, &[&parcels[parcels.len() - 2..], &names(&tiered, "alive/")].concat(), true);
    assert!(matches!(take_over(&mut standby), Err(ShipError::Hidden { .. })));
    hide(&tiered, &[], false);
    let taken = take_over(&mut standby).unwrap().unwrap();
    has_all(&tiered, &fs, taken);
}

#[test]
fn a_root_or_a_cut_that_is_hidden_shortens_no_log() {
    for prefix in ["root/", "cut/", "checkpoint/"] {
        let tiered = written(ShipMode::Sync);
        hide(&tiered, &names(&tiered, prefix), false);
        let fs = SimFs::new();
        let mut standby = standby_on(&tiered, &fs);
        assert!(take_over(&mut standby).is_err(), "{prefix}");
        hide(&tiered, &[], false);
        let taken = take_over(&mut standby).unwrap().unwrap();
        has_all(&tiered, &fs, taken);
    }
}

#[test]
fn a_host_that_starts_again_gives_up_nothing_that_the_remote_hides() {
    for in_listings in [false, true] {
        let tiered = written(ShipMode::Sync);
        let parcels = names(&tiered, "log/");
        let hidden = &parcels[parcels.len() - 2..];
        hide(&tiered, hidden, in_listings);
        let disk = tiered.fs.crash(CrashPolicy::KeepAll);
        let store = tiered.open_on(&disk);
        store.ship_log_from(
            ShipOptions { mode: ShipMode::Sync, root_every: HOUR, window: HOUR * 24, lag_max: None },
            None,
        );
        let refused = ship(&store);
        assert!(refused.as_ref().is_err_and(|error| error.to_string().contains(&hidden[0])), "{refused:?}");
        assert!(matches!(put(&store, "b", "x", b"x"), Err(StoreError::RemoteUnavailable(_))));
        hide(&tiered, &[], false);
        ship(&store).unwrap();
        put(&store, "b", "k10", b"x").unwrap();
        assert_eq!(get(&store, "b", "k9").unwrap(), bytes(9, 300));
        store.give_heartbeat().unwrap();
        a_restore_is_as_long_as_the_log(&tiered);
    }
}

fn a_restore_is_as_long_as_the_log(tiered: &Tiered) {
    let before = tiered.remote.calls(RemoteCall::Put);
    let parcels = names(tiered, "log/");
    hide(tiered, &parcels[parcels.len() - 1..], true);
    let refused =
        restore_from_remote(tiered.reached().as_ref(), &SimFs::new(), tiered.clock.as_ref(), &mut |_| ());
    assert!(matches!(refused, Err(ShipError::Hidden { .. })), "{refused:?}");
    hide(tiered, &[], false);
    is_whole(&restored(tiered));
    assert_eq!(tiered.remote.calls(RemoteCall::Put), before);
}

#[test]
fn what_is_gone_for_good_is_given_up_by_a_restore_to_an_earlier_time_alone() {
    let tiered = written(ShipMode::Sync);
    let parcels = names(&tiered, "log/");
    tiered.remote.remove(&parcels[parcels.len() - 1]);
    let fs = SimFs::new();
    let mut standby = standby_on(&tiered, &fs);
    assert!(matches!(take_over(&mut standby), Err(ShipError::Hidden { .. })));
    let fs = SimFs::new();
    let at = tiered.clock.now();
    restore_from_remote_at(tiered.reached().as_ref(), &fs, tiered.clock.as_ref(), at, &mut |_| ()).unwrap();
    let store = tiered.open_on(&fs);
    store.ship_log_from(
        ShipOptions { mode: ShipMode::Sync, root_every: HOUR, window: HOUR * 24, lag_max: None },
        None,
    );
    ship(&store).unwrap();
    assert_eq!(get(&store, "b", "k8").unwrap(), bytes(8, 300));
    assert!(get(&store, "b", "k9").is_err());
    put(&store, "b", "k10", b"x").unwrap();
}
