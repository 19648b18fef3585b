//! The sessions of browsers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::user_agent::UserAgent;
use crate::auth::EnteredKey;
use crate::base::digest::Sha256;
use crate::base::{Entropy, NOT_POISONED};

/// Sessions at a time. A further one ends the idlest of the user that has the most.
const SESSIONS_MAX: usize = 1_024;
/// Sessions of one key, or of one person who acts by it. A further one ends its idlest, so that
/// nobody ends the sessions of others by signing in.
const SESSIONS_OF_KEY_MAX: usize = 32;
/// How long a session lasts.
const AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// How long a session may be idle.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);
/// How long a token of the first start can be used.
const TOKEN_AGE_MAX: Duration = Duration::from_secs(60 * 60);
/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// The hash of the secret of a session: all that the server keeps of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SessionId([u8; 32]);

impl SessionId {
    /// The id of the session with this secret.
    pub(super) fn of_secret(secret: &str) -> Self {
        // Neither a dump of the memory nor the time of a lookup gives away a secret that is hashed.
        Self(Sha256::of(secret.as_bytes()))
    }
}

/// What a session stands for.
pub(super) struct SessionKey {
    pub(super) key: EnteredKey,
    /// How pages and logs name the session.
    pub(super) number: u64,
}

/// Whether a request keeps its session from being idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionUse {
    /// Somebody asked for it.
    ByPerson,
    /// A page asked for it by itself.
    ByPage,
}

/// Where a session was begun.
#[derive(Debug, Clone, Default)]
pub(super) struct SignInPlace {
    /// The address of the browser, or of the proxy before it that is not trusted.
    pub(super) address: Option<IpAddr>,
    pub(super) agent: UserAgent,
}

/// A session that has not ended.
pub(super) struct OpenSession {
    pub(super) id: SessionId,
    /// How pages name it: no other session since the start of the server has the number, and it
    /// gives no hint of the secret.
    pub(super) number: u64,
    pub(super) key: EnteredKey,
    pub(super) place: SignInPlace,
    pub(super) begun: Instant,
    pub(super) last_used: Instant,
}

struct BrowserSession {
    number: u64,
    key: EnteredKey,
    place: SignInPlace,
    begun: Instant,
    last_used: Instant,
    /// What the next page tells.
    told: Option<Told>,
}

/// The outcome of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) text: String,
    /// The form whose button takes it back.
    pub(super) undo: Option<UndoForm>,
}

/// A form of hidden fields that takes a change back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UndoForm {
    /// The page that it is sent to.
    pub(super) page: &'static str,
    pub(super) fields: Vec<(&'static str, String)>,
}

impl BrowserSession {
    fn has_ended(&self, now: Instant) -> bool {
        now.duration_since(self.begun) >= AGE_MAX || now.duration_since(self.last_used) >= IDLE_MAX
    }

    fn shown(&self, id: SessionId) -> OpenSession {
        OpenSession {
            id,
            number: self.number,
            key: self.key.clone(),
            place: self.place.clone(),
            begun: self.begun,
            last_used: self.last_used,
        }
    }
}

/// All sessions, and the tokens that start one.
#[derive(Default)]
pub(super) struct Sessions {
    open: Mutex<HashMap<SessionId, BrowserSession>>,
    tokens: Mutex<HashMap<SessionId, (EnteredKey, Instant)>>,
    /// Sessions that were started.
    started: AtomicU64,
}

impl Sessions {
    /// Starts a session and returns its secret.
    pub(super) fn start(
        &self,
        key: EnteredKey,
        place: SignInPlace,
        now: Instant,
        entropy: &dyn Entropy,
    ) -> String {
        let secret = new_secret(entropy);
        let mut open = self.open();
        // Before the limits, so that no session that has ended takes the place of another.
        open.retain(|_, session| !session.has_ended(now));
        if count_of(&open, &key) >= SESSIONS_OF_KEY_MAX {
            end_idlest_of(&mut open, &key);
        } else if open.len() >= SESSIONS_MAX {
            let most = open.values().map(|session| &session.key).max_by_key(|key| count_of(&open, key));
            if let Some(most) = most.cloned() {
                end_idlest_of(&mut open, &most);
            }
        }
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let session = BrowserSession { number, key, place, begun: now, last_used: now, told: None };
        open.insert(SessionId::of_secret(&secret), session);
        secret
    }

    /// Lets the next page of a session tell something: the outcome of a change, after the redirect
    /// that follows it.
    pub(super) fn tell(&self, id: &SessionId, told: Told) {
        if let Some(session) = self.open().get_mut(id) {
            session.told = Some(told);
        }
    }

    /// The text that this page of a session tells, and no further one.
    pub(super) fn take_told(&self, id: &SessionId) -> Option<Told> {
        self.open().get_mut(id)?.told.take()
    }

    /// The key that a session stands for; `None` if it is unknown or has ended. Its use by a person
    /// keeps it from being idle.
    pub(super) fn key(&self, id: &SessionId, used: SessionUse, now: Instant) -> Option<SessionKey> {
        let mut open = self.open();
        let session = open.get_mut(id)?;
        if session.has_ended(now) {
            open.remove(id);
            return None;
        }
        if used == SessionUse::ByPerson {
            session.last_used = now;
        }
        Some(SessionKey { key: session.key.clone(), number: session.number })
    }

    /// All sessions that have not ended, the one that was used last first.
    pub(super) fn all(&self, now: Instant) -> Vec<OpenSession> {
        let open = self.open();
        let going = open.iter().filter(|(_, session)| !session.has_ended(now));
        let mut all: Vec<_> = going.map(|(id, session)| session.shown(*id)).collect();
        all.sort_by_key(|session| std::cmp::Reverse((session.last_used, session.number)));
        all
    }

    /// Ends a session.
    pub(super) fn end(&self, id: &SessionId) {
        self.open().remove(id);
    }

    /// A token that starts one session of `key`.
    pub(super) fn offer(&self, key: EnteredKey, now: Instant, entropy: &dyn Entropy) -> String {
        let token = new_secret(entropy);
        self.tokens().insert(SessionId::of_secret(&token), (key, now));
        token
    }

    /// The key of a token, which counts no more afterwards.
    pub(super) fn redeem(&self, token: &str, now: Instant) -> Option<EnteredKey> {
        // Removed before its age is looked at: a token counts once.
        let (key, offered) = self.tokens().remove(&SessionId::of_secret(token))?;
        (now.duration_since(offered) < TOKEN_AGE_MAX).then_some(key)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, BrowserSession>> {
        self.open.lock().expect(NOT_POISONED)
    }

    fn tokens(&self) -> MutexGuard<'_, HashMap<SessionId, (EnteredKey, Instant)>> {
        self.tokens.lock().expect(NOT_POISONED)
    }
}

fn count_of(open: &HashMap<SessionId, BrowserSession>, key: &EnteredKey) -> usize {
    open.values().filter(|session| session.key == *key).count()
}

fn end_idlest_of(open: &mut HashMap<SessionId, BrowserSession>, key: &EnteredKey) {
    let of_key = open.iter().filter(|(_, session)| session.key == *key);
    let idlest = of_key.min_by_key(|(_, session)| session.last_used).map(|(id, _)| *id);
    if let Some(idlest) = idlest {
        open.remove(&idlest);
    }
}

/// 256 random bits in hexadecimal.
pub(super) fn new_secret(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; SECRET_BYTES];
    entropy.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use super::*;
    use crate::auth::{Authenticator, Users};
    use crate::base::{ManualClock, SeededEntropy, Timestamp};

    const BY_PERSON: SessionUse = SessionUse::ByPerson;

    fn entered(access_key: &str) -> EnteredKey {
        let users =
            format!("[[user]]\nname = \"u\"\naccess_key = \"{access_key}\"\nsecret_key = \"secret-key\"\n");
        let users = Users::parse(&users).unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
        let authenticator = Authenticator::new(users, vec!["eu".to_owned()], clock);
        authenticator.enter(access_key, "secret-key").unwrap()
    }

    fn key() -> EnteredKey {
        entered("AKIAUSER")
    }

    fn other_key() -> EnteredKey {
        entered("AKIAOTHER")
    }

    fn at(minutes: u64) -> Instant {
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        *BEGUN + Duration::from_secs(60 * minutes)
    }

    #[test]
    fn a_session_ends_when_it_was_idle_for_an_hour_or_lasted_for_twelve() {
        let sessions = Sessions::default();
        let entropy = SeededEntropy::new(1);
        let id = SessionId::of_secret(&sessions.start(key(), SignInPlace::default(), at(0), &entropy));
        assert!(
            sessions.key(&id, BY_PERSON, at(59)).is_some() && sessions.key(&id, BY_PERSON, at(118)).is_some()
        );
        assert!(sessions.key(&id, BY_PERSON, at(178)).is_none());
        assert!(sessions.key(&id, BY_PERSON, at(118)).is_none(), "it does not come back with the clock");
        let id = SessionId::of_secret(&sessions.start(key(), SignInPlace::default(), at(0), &entropy));
        for half_hour in 1..24 {
            assert!(sessions.key(&id, BY_PERSON, at(30 * half_hour)).is_some());
        }
        assert!(sessions.key(&id, BY_PERSON, at(720)).is_none());
    }

    #[test]
    fn a_page_that_asks_by_itself_keeps_no_session_from_being_idle() {
        let sessions = Sessions::default();
        let entropy = SeededEntropy::new(1);
        let id = SessionId::of_secret(&sessions.start(key(), SignInPlace::default(), at(0), &entropy));
        for minute in 1..60 {
            assert!(sessions.key(&id, SessionUse::ByPage, at(minute)).is_some());
        }
        assert!(sessions.key(&id, SessionUse::ByPage, at(60)).is_none());
        assert!(sessions.key(&id, BY_PERSON, at(60)).is_none());
    }

    #[test]
    fn one_page_of_the_session_tells_the_outcome_of_a_change() {
        let sessions = Sessions::default();
        let entropy = SeededEntropy::new(1);
        let own = SessionId::of_secret(&sessions.start(key(), SignInPlace::default(), at(0), &entropy));
        let other = SessionId::of_secret(&sessions.start(key(), SignInPlace::default(), at(0), &entropy));
        let told = Told { text: "12 deleted".to_owned(), undo: None };
        sessions.tell(&own, told.clone());
        assert_eq!(sessions.take_told(&other), None);
        assert_eq!(sessions.take_told(&own).as_ref(), Some(&told));
        assert_eq!(sessions.take_told(&own), None);
        sessions.end(&own);
        sessions.tell(&own, told);
        assert_eq!(sessions.take_told(&own), None);
    }

    #[test]
    fn sessions_are_listed_until_they_end_the_last_used_first() {
        let sessions = Sessions::default();
        let entropy = SeededEntropy::new(1);
        let start = |minutes| {
            let place = SignInPlace { address: Some([192, 0, 2, 1].into()), ..SignInPlace::default() };
            SessionId::of_secret(&sessions.start(key(), place, at(minutes), &entropy))
        };
        let first = start(0);
        let second = start(1);
        let third = start(2);
        sessions.key(&first, BY_PERSON, at(50));
        sessions.end(&second);
        let all = sessions.all(at(61));
        let listed: Vec<_> = all.iter().map(|session| (session.id, session.number)).collect();
        assert_eq!(listed, [(first, 0), (third, 2)]);
        assert_eq!((all[0].begun, all[0].last_used), (at(0), at(50)));
        assert_eq!(all[0].place.address, Some([192, 0, 2, 1].into()));
        let idle = sessions.all(at(62)).iter().map(|session| session.id).collect::<Vec<_>>();
        assert_eq!(idle, [first], "one that was idle for an hour has ended");
    }

    #[test]
    fn an_ended_session_and_a_guessed_secret_are_unknown() {
        let sessions = Sessions::default();
        let entropy = SeededEntropy::new(1);
        let secret = sessions.start(key(), SignInPlace::default(), at(0), &entropy);
        assert_eq!(secret.len(), 64);
        let id = SessionId::of_secret(&secret);
        assert!(sessions.key(&SessionId::of_secret(""), BY_PERSON, at(0)).is_none());
        sessions.end(&id);
        assert!(sessions.key(&id, BY_PERSON, at(0)).is_none());
    }

    #[test]
    fn a_further_session_ends_the_idlest_of_its_own_user() {
        let sessions = Sessions::default();
        let entropy = SeededEntropy::new(1);
        let other =
            SessionId::of_secret(&sessions.start(other_key(), SignInPlace::default(), at(0), &entropy));
        let start = |minutes| {
            SessionId::of_secret(&sessions.start(key(), SignInPlace::default(), at(minutes), &entropy))
        };
        let first = start(1);
        let second = start(2);
        for _ in 2..SESSIONS_OF_KEY_MAX {
            start(3);
        }
        assert!(sessions.key(&first, BY_PERSON, at(4)).is_some());
        start(5);
        assert!(
            sessions.key(&second, BY_PERSON, at(5)).is_none()
                && sessions.key(&first, BY_PERSON, at(5)).is_some()
        );
        for _ in 0..SESSIONS_MAX {
            start(6);
        }
        assert!(sessions.key(&other, BY_PERSON, at(6)).is_some(), "the session of somebody else");
        assert_eq!(sessions.open().len(), SESSIONS_OF_KEY_MAX + 1);
    }

    #[test]
    fn a_full_table_ends_a_session_of_the_user_with_the_most() {
        let sessions = Sessions::default();
        let entropy = SeededEntropy::new(1);
        let keys: Vec<_> = (0..SESSIONS_MAX - 2).map(|n| entered(&format!("AK{n}"))).collect();
        for key in keys.iter().chain([&key(), &key()]) {
            sessions.start(key.clone(), SignInPlace::default(), at(0), &entropy);
        }
        let newest =
            SessionId::of_secret(&sessions.start(other_key(), SignInPlace::default(), at(1), &entropy));
        assert!(sessions.key(&newest, BY_PERSON, at(1)).is_some());
        let open = sessions.open();
        assert_eq!((open.len(), count_of(&open, &key())), (SESSIONS_MAX, 1));
    }

    #[test]
    fn a_token_counts_once_and_for_an_hour() {
        let sessions = Sessions::default();
        let entropy = SeededEntropy::new(1);
        let token = sessions.offer(key(), at(0), &entropy);
        assert_eq!(sessions.redeem("other", at(0)), None);
        assert_eq!(sessions.redeem(&token, at(59)), Some(key()));
        assert_eq!(sessions.redeem(&token, at(59)), None);
        let token = sessions.offer(key(), at(0), &entropy);
        assert_eq!(sessions.redeem(&token, at(60)), None);
    }
}
