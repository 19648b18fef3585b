//! The requests that a remote costs, counted on the simulated one, and the table of the guide that names them.

use super::tier::{NOTHING_LOCAL, Tiered, work};
use super::*;
use crate::remote::sim::RemoteCall;

/// Requests that are counted apart: those of the price of puts, and those of the price of gets.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Requests {
    puts: u64,
    gets: u64,
}

fn requests(store: &Store) -> Requests {
    let counts = store.remote_requests();
    let of = |calls: &[RemoteCall]| calls.iter().map(|call| counts[*call as usize].1.requests).sum();
    // Lists cost as much as puts, deletes cost nothing.
    Requests {
        puts: of(&[RemoteCall::Put, RemoteCall::List]),
        gets: of(&[RemoteCall::Head, RemoteCall::Get]),
    }
}

/// The requests of some work.
fn during(store: &Store, act: impl FnOnce()) -> Requests {
    let before = requests(store);
    act();
    let after = requests(store);
    Requests { puts: after.puts - before.puts, gets: after.gets - before.gets }
}

fn shipping(tiered: &Tiered, mode: ShipMode) -> Store {
    let store = tiered.open_on(&tiered.fs);
    store.ship_log(ShipOptions {
        mode,
        root_every: Duration::from_secs(3600),
        window: Duration::from_secs(7 * 86_400),
    });
    ship(&store);
    store.create_bucket("b", "admin").unwrap();
    ship(&store);
    store
}

fn ship(store: &Store) {
    store.ship_step(&SeededEntropy::new(5)).unwrap();
}

/// An hour of intervals, each of which begins with a write or with none.
fn hour(every: u64, writes: bool) -> Requests {
    let tiered = Tiered::new(TierOptions::default());
    let store = shipping(&tiered, ShipMode::Async);
    during(&store, || {
        for nth in 0..3600 / every {
            if writes {
                put(&store, "b", &format!("k{}", nth % 50), b"v").unwrap();
            }
            tiered.clock.advance(Duration::from_secs(every));
            ship(&store);
        }
    })
}

/// A write that is answered after its piece is there.
fn synchronous_group() -> Requests {
    let store = shipping(&Tiered::new(TierOptions::default()), ShipMode::Sync);
    during(&store, || {
        put(&store, "b", "k", b"v").unwrap();
    })
}

/// A segment on its way to the remote, and a cold read of 64 KiB of it.
fn segment_and_read() -> [Requests; 2] {
    let (_tiered, store) = Tiered::filled(NOTHING_LOCAL);
    // The first send also looks at the mark.
    store.check_remote_mark().unwrap();
    let mut segments = 0;
    let sent = during(&store, || segments = work(&store).unwrap().sent);
    assert!(segments > 1 && sent.puts % segments == 0 && sent.gets % segments == 0, "{sent:?}");
    let sent = Requests { puts: sent.puts / segments, gets: sent.gets / segments };
    let read = during(&store, || {
        let found = store.find("b", "k3", Selector::Current).unwrap();
        assert_eq!(to_end(store.read(&found, 65_536..131_072).unwrap()).unwrap().len(), 65_536);
    });
    [sent, read]
}

#[test]
fn the_guide_has_the_requests_that_were_counted() {
    let [segment, read] = segment_and_read();
    let counted = [
        ("a segment", segment),
        ("a cold read of up to 64 KiB", read),
        ("`async`, `2s`, an hour of writes", hour(2, true)),
        ("`async`, `10s`, an hour of writes", hour(10, true)),
        ("`async`, `60s`, an hour of writes", hour(60, true)),
        ("`async`, an hour without a write", hour(2, false)),
        ("`sync`, a group of writes", synchronous_group()),
    ];
    let page = include_str!("../../guide/remote.md");
    for (work, Requests { puts, gets }) in counted {
        println!("| {work} | {puts} | {gets} |");
    }
    for (work, counted) in counted {
        let row = page.lines().find(|line| line.starts_with(&format!("| {work} |")));
        let row = row.unwrap_or_else(|| panic!("no row for {work}"));
        let mut cells = row.split('|').skip(2).map(|cell| cell.trim().parse::<u64>().unwrap());
        let told = Requests { puts: cells.next().unwrap(), gets: cells.next().unwrap() };
        // A request more in an hour makes no other price.
        let is_near = |counted: u64, told: u64| counted.abs_diff(told) * 50 <= told;
        assert!(
            is_near(counted.puts, told.puts) && is_near(counted.gets, told.gets),
            "{work}: {counted:?}, and the guide has {told:?}"
        );
    }
}
