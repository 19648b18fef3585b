//! The requests that a remote costs, counted on the simulated one, and the table of the guide that
//! names them.

use super::standby_pace::Pair;
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
    store.ship_log_from(
        ShipOptions {
            mode,
            root_every: Duration::from_secs(3600),
            window: Duration::from_secs(7 * 86_400),
            lag_max: None,
        },
        None,
    );
    ship(&store);
    store.create_bucket("b", "admin").unwrap();
    ship(&store);
    store
}

fn ship(store: &Store) {
    store.ship_step(&SeededEntropy::new(5)).unwrap();
}

/// An hour of intervals, each of which begins with a write or with none. `takeover_after` is what
/// the configuration promises.
fn hour(every: u64, writes: bool, takeover_after: Option<u64>) -> Requests {
    let tiered = Tiered::new(TierOptions::default());
    let store = shipping(&tiered, ShipMode::Async);
    store.promise_takeover(takeover_after.map(Duration::from_secs));
    // Early in an epoch heartbeats come often.
    for _ in 0..600 {
        tiered.clock.advance(Duration::from_secs(1));
        store.give_heartbeat_if_due().unwrap();
    }
    during(&store, || {
        for second in 1..=3600 {
            tiered.clock.advance(Duration::from_secs(1));
            store.give_heartbeat_if_due().unwrap();
            if second % every > 0 {
                continue;
            }
            if writes {
                put(&store, "b", &format!("k{}", second % 50), b"v").unwrap();
            }
            ship(&store);
        }
    })
}

/// An hour of a standby, whose writer writes at that interval, if at all.
fn standby_hour(every: Option<u64>, takeover_after: Option<u64>) -> Requests {
    let mut pair = Pair::new(takeover_after);
    pair.seconds(730);
    let mut all = Requests { puts: 0, gets: 0 };
    for second in 1..=3600 {
        pair.tiered.clock.advance(Duration::from_secs(1));
        pair.writer.give_heartbeat_if_due().unwrap();
        if every.is_some_and(|every| second % every == 0) {
            put(&pair.writer, "b", &format!("k{}", second % 50), b"v").unwrap();
            ship(&pair.writer);
        }
        let before = requests(&pair.writer);
        pair.poll();
        let after = requests(&pair.writer);
        all.puts += after.puts - before.puts;
        all.gets += after.gets - before.gets;
    }
    all
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

/// Local bytes of a segment leave.
fn leaving() -> Requests {
    let (tiered, store) = Tiered::filled(TierOptions { local_max_bytes: u64::MAX, ..NOTHING_LOCAL });
    let segments = work(&store).unwrap().sent;
    store.close();
    drop(store);
    let store = tiered.with(NOTHING_LOCAL).open();
    store.begin_epoch(&SeededEntropy::new(8)).unwrap();
    let left = during(&store, || assert!(work(&store).unwrap().given_back_bytes > 0));
    assert!(left.puts == 0 && left.gets % segments == 0, "{left:?}");
    Requests { puts: 0, gets: left.gets / segments }
}

/// The listing of all copies, which are fewer than a thousand.
fn listing() -> Requests {
    let (_tiered, store) = Tiered::filled(NOTHING_LOCAL);
    work(&store).unwrap();
    during(&store, || assert!(!store.inspect_copies().unwrap()))
}

/// The probe that a server makes by itself.
fn weekly_probe() -> Requests {
    let tiered = Tiered::new(NOTHING_LOCAL);
    let store = tiered.open_on(&tiered.fs);
    store.begin_epoch(&SeededEntropy::new(8)).unwrap();
    assert!(store.probe_remote(&SeededEntropy::new(9)).is_none());
    tiered.clock.advance(Duration::from_secs(600));
    during(&store, || assert!(store.probe_remote(&SeededEntropy::new(9)).is_some()))
}

/// The price of a month of such hours, by the list price that the guide states.
fn price_of_a_month(Requests { puts, gets }: Requests) -> String {
    format!("{:.2} $", (puts as f64 * 5.0 + gets as f64 * 0.4) * 720.0 / 1e6)
}

#[test]
fn the_guide_has_the_requests_that_were_counted() {
    let [segment, read] = segment_and_read();
    let counted = [
        ("a segment", segment),
        ("a cold read of up to 64 KiB", read),
        ("local bytes of a segment leave", leaving()),
        ("the listing of a day, for 1,000 segments", listing()),
        ("the probe of a week", weekly_probe()),
        ("`async`, `2s`, an hour of writes", hour(2, true, None)),
        ("`async`, `10s`, an hour of writes", hour(10, true, None)),
        ("`async`, `60s`, an hour of writes", hour(60, true, None)),
        ("`async`, `60s`, an hour of writes, `--takeover-after 15s`", hour(60, true, Some(15))),
        ("`async`, an hour without a write", hour(2, false, None)),
        ("`async`, an hour without a write, `--takeover-after 60s`", hour(2, false, Some(60))),
        ("`async`, an hour without a write, `--takeover-after 15s`", hour(2, false, Some(15))),
        ("a standby, an hour without a write", standby_hour(None, None)),
        ("a standby, an hour without a write, `--takeover-after 15s`", standby_hour(None, Some(15))),
        ("a standby, an hour of writes at `2s`", standby_hour(Some(2), None)),
        ("`sync`, a group of writes", synchronous_group()),
    ];
    let page = include_str!("../../guide/remote.md");
    for (work, Requests { puts, gets }) in counted {
        println!("| {work} | {puts} | {gets} | {} |", price_of_a_month(Requests { puts, gets }));
    }
    for (work, counted) in counted {
        let row = page.lines().find(|line| line.starts_with(&format!("| {work} |")));
        let row = row.unwrap_or_else(|| panic!("no row for {work}"));
        let cells: Vec<&str> = row.split('|').skip(2).map(str::trim).collect();
        let told = Requests { puts: cells[0].parse().unwrap(), gets: cells[1].parse().unwrap() };
        if work.contains("an hour") {
            assert!(
                cells[2].starts_with(&price_of_a_month(told)),
                "{work}: {} is not {}",
                cells[2],
                price_of_a_month(told)
            );
        }
        // A request more in an hour makes no other price.
        let is_near = |counted: u64, told: u64| counted.abs_diff(told) * 50 <= told;
        assert!(
            is_near(counted.puts, told.puts) && is_near(counted.gets, told.gets),
            "{work}: {counted:?}, and the guide has {told:?}"
        );
    }
}
