//! New keys, which are shown once: after the redirect that follows their making, to the session
//! that made them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::sessions::{SessionId, new_secret};
use crate::auth::KeyPair;
use crate::base::{Entropy, NOT_POISONED, Timestamp};

/// Tickets at a time. A further one replaces the oldest.
const TICKETS_MAX: usize = 64;
/// How long a ticket can be used.
const AGE_MAX: Duration = Duration::from_secs(10 * 60);

/// The new keys of a user or of a service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewKeys {
    /// The name of the user or of the service account.
    pub(super) holder: String,
    pub(super) keys: KeyPair,
    /// Whether the keys before these are still valid.
    pub(super) has_previous: bool,
    /// The service account whose keys these are to take the place of.
    pub(super) replaces: Option<String>,
    /// The page that made them.
    pub(super) made_by: NewKeysPlace,
}

/// A page that makes keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewKeysPlace {
    Users,
    Account,
}

struct Ticket {
    session: SessionId,
    made: Timestamp,
    new_keys: NewKeys,
}

/// The new keys that were not shown yet.
#[derive(Default)]
pub(super) struct Tickets(Mutex<HashMap<String, Ticket>>);

impl Tickets {
    /// Keeps keys for one look by the session. Returns the name of the ticket.
    pub(super) fn offer(
        &self,
        session: SessionId,
        new_keys: NewKeys,
        now: Timestamp,
        entropy: &dyn Entropy,
    ) -> String {
        let name = new_secret(entropy);
        let mut tickets = self.lock();
        tickets.retain(|_, ticket| now.distance(ticket.made) < AGE_MAX);
        if tickets.len() >= TICKETS_MAX {
            let oldest = tickets.iter().min_by_key(|(_, ticket)| ticket.made).map(|(name, _)| name.clone());
            if let Some(oldest) = oldest {
                tickets.remove(&oldest);
            }
        }
        tickets.insert(name.clone(), Ticket { session, made: now, new_keys });
        name
    }

    /// The keys of a ticket, which counts no more afterwards. Another session's counts for
    /// that one alone.
    pub(super) fn redeem(&self, name: &str, session: SessionId, now: Timestamp) -> Option<NewKeys> {
        let mut tickets = self.lock();
        if tickets.get(name)?.session != session {
            return None;
        }
        let ticket = tickets.remove(name)?;
        (now.distance(ticket.made) < AGE_MAX).then_some(ticket.new_keys)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Ticket>> {
        self.0.lock().expect(NOT_POISONED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Secret;
    use crate::base::SeededEntropy;

    fn new_keys(holder: &str) -> NewKeys {
        let keys = KeyPair { access_key: "AK".to_owned(), secret_key: Secret::new("secret") };
        let made_by = NewKeysPlace::Users;
        NewKeys { holder: holder.to_owned(), keys, has_previous: false, replaces: None, made_by }
    }

    fn at(minutes: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + minutes * 60_000)
    }

    #[test]
    fn a_ticket_counts_once_for_its_session_and_for_ten_minutes() {
        let tickets = Tickets::default();
        let entropy = SeededEntropy::new(1);
        let own = SessionId::of_secret("own");
        let other = SessionId::of_secret("other");
        let name = tickets.offer(own, new_keys("u"), at(0), &entropy);
        assert_eq!(tickets.redeem(&name, other, at(0)), None);
        assert_eq!(tickets.redeem("", own, at(0)), None);
        assert_eq!(tickets.redeem(&name, own, at(9)), Some(new_keys("u")));
        assert_eq!(tickets.redeem(&name, own, at(9)), None);
        let late = tickets.offer(own, new_keys("u"), at(0), &entropy);
        assert_eq!(tickets.redeem(&late, own, at(10)), None);
    }

    #[test]
    fn tickets_are_few() {
        let tickets = Tickets::default();
        let entropy = SeededEntropy::new(1);
        let own = SessionId::of_secret("own");
        let first = tickets.offer(own, new_keys("first"), at(0), &entropy);
        for _ in 0..TICKETS_MAX {
            tickets.offer(own, new_keys("u"), at(1), &entropy);
        }
        assert_eq!(tickets.lock().len(), TICKETS_MAX);
        assert_eq!(tickets.redeem(&first, own, at(1)), None);
    }
}
