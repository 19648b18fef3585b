//! Failed attempts to sign in, which are limited.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::time::Duration;

use crate::base::Timestamp;

/// Failures a minute of one address, and for one access key.
const FAILURES_MAX: u32 = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses and access keys that are remembered. With more of them no further attempt is allowed until a minute has passed.
const REMEMBERED_MAX: usize = 4_096;

/// One that makes attempts, or that attempts are made for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Party {
    Address(IpAddr),
    AccessKey(String),
}

/// The failures of the last minute.
#[derive(Default)]
pub(super) struct Attempts(Mutex<HashMap<Party, (Timestamp, u32)>>);

impl Attempts {
    /// Counts an attempt before it is made. Returns whether it may be made: a success takes it back.
    pub(super) fn begin(&self, address: Option<IpAddr>, access_key: &str, now: Timestamp) -> bool {
        let mut failures = self.0.lock().expect("no code panics while it holds the attempts");
        failures.retain(|_, (since, _)| now.distance(*since) < WINDOW);
        let parties = parties(address, access_key);
        let is_known = |party| failures.contains_key(party);
        if failures.len() + parties.len() > REMEMBERED_MAX && !parties.iter().all(is_known) {
            return false;
        }
        let counts = parties.into_iter().map(|party| {
            let (_, count) = failures.entry(party).or_insert((now, 0));
            *count = count.saturating_add(1);
            *count
        });
        // Every party is counted, also after one of them has failed too often.
        counts.max().is_none_or(|count| count <= FAILURES_MAX)
    }

    /// Forgets the failures of those who made a successful attempt.
    pub(super) fn succeeded(&self, address: Option<IpAddr>, access_key: &str) {
        let mut failures = self.0.lock().expect("no code panics while it holds the attempts");
        for party in parties(address, access_key) {
            failures.remove(&party);
        }
    }
}

fn parties(address: Option<IpAddr>, access_key: &str) -> Vec<Party> {
    let of_key = Party::AccessKey(access_key.chars().take(128).collect());
    address.map(|address| Party::Address(network(address))).into_iter().chain([of_key]).collect()
}

/// The address, or the network of an IPv6 address: its owner has all addresses of a /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + secs * 1_000)
    }

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn five_failures_a_minute_are_the_most_of_an_address_and_for_a_key() {
        let attempts = Attempts::default();
        for n in 0..5 {
            assert!(attempts.begin(address(1), &format!("key{n}"), at(0)));
        }
        assert!(!attempts.begin(address(1), "key9", at(59)));
        assert!(attempts.begin(address(2), "key9", at(59)), "another address");
        assert!(attempts.begin(address(1), "key9", at(60)), "a minute later");
        let attempts = Attempts::default();
        for n in 0..5 {
            assert!(attempts.begin(address(n), "key", at(0)));
        }
        assert!(!attempts.begin(address(9), "key", at(0)));
        assert!(attempts.begin(None, "other", at(0)));
    }

    #[test]
    fn a_success_forgets_the_failures() {
        let attempts = Attempts::default();
        for _ in 0..20 {
            assert!(attempts.begin(address(1), "key", at(0)));
            attempts.succeeded(address(1), "key");
        }
    }

    #[test]
    fn a_network_counts_as_one_and_the_table_is_bounded() {
        let of = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let attempts = Attempts::default();
        for n in 0..5 {
            assert!(attempts.begin(of(&format!("2001:db8::{n}")), &format!("key{n}"), at(0)));
        }
        assert!(!attempts.begin(of("2001:db8::9:9"), "other", at(0)));
        for n in 0..REMEMBERED_MAX {
            attempts.begin(None, &format!("name{n}"), at(0));
        }
        assert!(attempts.0.lock().unwrap().len() <= REMEMBERED_MAX);
        assert!(!attempts.begin(address(77), "new", at(0)) && attempts.begin(address(77), "new", at(60)));
    }
}
