//! What a server does when it is asked for more than it can do, and beside clients that take their
//! time. `cargo bench --bench overload`; `SILTSTONE_BENCH_SECS` says how long the overload in one
//! go lasts (60 s), `SILTSTONE_BENCH_DIR` where the server writes, and `SILTSTONE_BENCH_SERVER`
//! names another server than the one of this build. `SILTSTONE_BENCH_PART` picks one of `page` and
//! `slow`.
//!
//! Requests are sent on schedule, whether answers come or not. The load comes from the same
//! machine, so that all rates are lower than what the server could do; what is judged is the ratio
//! of two of them.

mod generator;
mod objects;
mod opened;
mod running;
mod slow;

use std::time::Duration;

use generator::{Offer, Tally, put_load};
use running::Running;
use rustix::process::{Resource, getrlimit, setrlimit};

/// A page of a listing as large as pages are: much work for the server, and little for those that
/// ask.
const PAGE: &str = "/shown?list-type=2";
/// What others ask for beside slow clients.
const SMALL: &str = "/shown/plain/00000000";

/// How many times the capacity is offered.
const FACTOR: f64 = 10.0;
/// How long everything else is measured.
const SHORT: Duration = Duration::from_secs(5);
/// How often capacity and overload take turns.
const TURNS: usize = 12;

fn main() {
    // cargo test asks benches for their list of tests; there are none.
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let secs = std::env::var("SILTSTONE_BENCH_SECS").map_or(60, |secs| secs.parse().expect("a number"));
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: files.maximum, ..files })
        .expect("what is granted may be used");
    let server = Running::start();
    let wanted = std::env::var("SILTSTONE_BENCH_PART").ok();
    let is_wanted = |part: &str| wanted.as_deref().is_none_or(|wanted| wanted == part);
    if is_wanted("page") {
        overload(&server, PAGE, Duration::from_secs(secs));
    }
    if is_wanted("slow") {
        beside_slow(&server);
    }
}

/// Capacity and latency first, then the excess, then latency again; in the end capacity and excess
/// in turns, since a machine may become slower or faster within a minute.
fn overload(server: &Running, target: &str, time: Duration) {
    println!("GET {target}");
    let load = |what: &str, offer, time| loaded(server, target, what, offer, time);
    let alone = load("one client", Offer::Closed(1), SHORT);
    let capacity =
        |clients| load(&format!("{clients} clients"), Offer::Closed(clients), SHORT).accepted_a_second();
    let excess = |capacity, time| {
        let rate = FACTOR * capacity;
        load(&format!("{rate:.0} requests a second"), Offer::Open(rate), time).accepted_a_second()
    };
    let [few, many] = [8, 32].map(|clients| (clients, capacity(clients)));
    let (clients, most) = if few.1 > many.1 { few } else { many };
    excess(most, time);
    let after = load("one client afterwards", Offer::Closed(1), SHORT);
    println!("  latency of one client afterwards: {:.2} times that before", after.median() / alone.median());
    let mut shares = [(); TURNS].map(|()| {
        let before = capacity(clients);
        excess(before, SHORT) / before
    });
    shares.sort_by(f64::total_cmp);
    let [least, median, most] = [0, TURNS / 2, TURNS - 1].map(|at| shares[at]);
    println!(
        "  accepted under overload: {median:.2} of the capacity just before, the median of {TURNS} turns ({least:.2} to {most:.2})"
    );
}

/// The rate of a few clients without slow ones and beside them.
fn beside_slow(server: &Running) {
    println!("GET {SMALL}");
    let load = |what: &str| loaded(server, SMALL, what, Offer::Closed(8), SHORT).accepted_a_second();
    let without = load("8 clients");
    let slow = slow::Clients::start(server.address);
    let beside = load(&format!("8 clients beside {} slow ones", slow::COUNT));
    println!("  the rate beside slow clients: {:.2} of that without", beside / without);
    println!("  slow clients that are still served or wait: {}", slow.end());
}

fn loaded(server: &Running, target: &str, what: &str, offer: Offer, time: Duration) -> Tally {
    let tally = put_load(server.address, server.get(target).as_bytes(), offer, time);
    println!("  {what}: {tally}");
    tally
}
