//! Failed attempts to sign in, which are limited for each network.
//!
//! Failures count for the network that they come from. So nobody holds up the owner of an access
//! key from elsewhere, although every link to share shows that key. A key that signed in from a
//! network has a count of its own there, so that its neighbours hold it up no sooner than an attack
//! on that very key does.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use crate::base::failure_counts::{FailureCounts, remove_oldest};
use crate::base::{NOT_POISONED, network_of};

/// Failures a minute of one network.
const FAILURES_MAX: u32 = 5;
/// Failures a minute of one network for an access key that signed in from there before.
const KNOWN_KEY_FAILURES_MAX: u32 = 60;
/// Access keys that are remembered with the network that they signed in from. A further one
/// replaces the oldest.
const KNOWN_KEYS_MAX: usize = 1_024;

/// The address of an IPv4 host, or an IPv6 /64; `None` where the address is not known.
type Network = Option<IpAddr>;

/// An access key and the network that it is used from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct KeyUse {
    network: Network,
    access_key: String,
}

/// The attempts of one party within a minute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Party {
    Network(Network),
    KnownKey(KeyUse),
}

/// The failures of the last minute, and the keys that signed in.
#[derive(Default)]
pub(super) struct Attempts(Mutex<AttemptTable>);

#[derive(Default)]
struct AttemptTable {
    counts: FailureCounts<Party>,
    /// The keys that signed in, and when they last did.
    known_keys: HashMap<KeyUse, Instant>,
}

impl Attempts {
    /// Counts an attempt before it is made. Returns whether it may be made: a success takes it
    /// back.
    pub(super) fn begin(&self, address: Option<IpAddr>, access_key: &str, now: Instant) -> bool {
        let mut table = self.lock();
        let (party, failures_max) = table.party(address, access_key);
        table.counts.begin(party, failures_max, now)
    }

    /// Takes an attempt back that was successful, and remembers that the key signed in from there.
    /// The failures before it stay: the owner of another key could try without a limit otherwise.
    pub(super) fn succeeded(&self, address: Option<IpAddr>, access_key: &str, now: Instant) {
        let mut table = self.lock();
        let (party, _) = table.party(address, access_key);
        table.counts.take_back(&party);
        let key_use = key_use(address, access_key);
        if !table.known_keys.contains_key(&key_use) && table.known_keys.len() >= KNOWN_KEYS_MAX {
            remove_oldest(&mut table.known_keys, |last_used| *last_used);
        }
        table.known_keys.insert(key_use, now);
    }

    fn lock(&self) -> MutexGuard<'_, AttemptTable> {
        self.0.lock().expect(NOT_POISONED)
    }
}

impl AttemptTable {
    /// The party that an attempt counts for, and the failures that it may have.
    fn party(&self, address: Option<IpAddr>, access_key: &str) -> (Party, u32) {
        let key_use = key_use(address, access_key);
        match self.known_keys.contains_key(&key_use) {
            true => (Party::KnownKey(key_use), KNOWN_KEY_FAILURES_MAX),
            false => (Party::Network(key_use.network), FAILURES_MAX),
        }
    }
}

fn key_use(address: Option<IpAddr>, access_key: &str) -> KeyUse {
    // Anyone may send an access key of any length.
    KeyUse { network: address.map(network_of), access_key: access_key.chars().take(128).collect() }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::time::Duration;

    use super::*;
    use crate::base::failure_counts::COUNTED_PARTIES_MAX;

    fn at(secs: u64) -> Instant {
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        *BEGUN + Duration::from_secs(secs)
    }

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn five_failures_a_minute_are_the_most_of_a_network() {
        let attempts = Attempts::default();
        for n in 0..5 {
            assert!(attempts.begin(address(1), &format!("key{n}"), at(0)));
        }
        assert!(!attempts.begin(address(1), "key9", at(59)));
        assert!(attempts.begin(address(2), "key9", at(59)), "another address");
        assert!(attempts.begin(address(1), "key9", at(60)), "a minute later");
    }

    #[test]
    fn nobody_holds_up_the_owner_of_a_key_from_elsewhere() {
        let attempts = Attempts::default();
        for n in 0..200 {
            attempts.begin(address(n), "key", at(0));
        }
        assert!(attempts.begin(address(201), "key", at(0)));
    }

    #[test]
    fn a_success_takes_its_own_attempt_back_alone() {
        let attempts = Attempts::default();
        for _ in 0..20 {
            assert!(attempts.begin(address(1), "key", at(0)));
            attempts.succeeded(address(1), "key", at(0));
        }
        for _ in 0..5 {
            assert!(attempts.begin(address(1), "guessed", at(0)));
            assert!(attempts.begin(address(1), "key", at(0)));
            attempts.succeeded(address(1), "key", at(0));
        }
        assert!(!attempts.begin(address(1), "guessed", at(0)));
    }

    #[test]
    fn a_key_that_signed_in_before_is_held_up_by_failures_of_its_own_alone() {
        let attempts = Attempts::default();
        assert!(attempts.begin(address(1), "key", at(0)));
        attempts.succeeded(address(1), "key", at(0));
        for n in 0..100 {
            attempts.begin(address(1), &format!("other{n}"), at(1));
        }
        assert!(!attempts.begin(address(1), "stranger", at(1)));
        for _ in 0..KNOWN_KEY_FAILURES_MAX {
            assert!(attempts.begin(address(1), "key", at(1)));
        }
        assert!(!attempts.begin(address(1), "key", at(1)));
        assert!(attempts.begin(address(1), "key", at(61)));
    }

    #[test]
    fn a_network_counts_as_one() {
        let of = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let attempts = Attempts::default();
        for n in 0..5 {
            assert!(attempts.begin(of(&format!("2001:db8::{n}")), &format!("key{n}"), at(0)));
        }
        assert!(!attempts.begin(of("2001:db8::9:9"), "other", at(0)));
    }

    #[test]
    fn a_full_table_forgets_the_oldest_and_refuses_nobody_else() {
        let attempts = Attempts::default();
        for n in 0..COUNTED_PARTIES_MAX as u32 + 100 {
            let network = Some(IpAddr::from(n.to_be_bytes()));
            for key in ["a", "b"] {
                assert!(attempts.begin(network, key, at(u64::from(n > 9))));
                attempts.succeeded(network, key, at(0));
            }
        }
        assert!(attempts.begin(address(77), "new", at(1)));
        let table = attempts.0.lock().unwrap();
        assert!(
            table.counts.parties().len() <= COUNTED_PARTIES_MAX && table.known_keys.len() <= KNOWN_KEYS_MAX
        );
        let first = Party::Network(Some(IpAddr::from([0, 0, 0, 1])));
        assert!(!table.counts.parties().any(|party| *party == first));
    }
}
