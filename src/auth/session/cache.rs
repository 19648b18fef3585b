//! Sessions that were opened, by their access key.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, RwLock};

use crate::base::limits::OPENED_SESSIONS_MAX;
use crate::base::locks::NOT_POISONED;

/// What was made of the tokens of sessions, until the users file is read again. The session that
/// was opened first goes first.
#[derive(Debug)]
pub(in crate::auth) struct OpenedSessions<T>(RwLock<Opened<T>>);

#[derive(Debug)]
struct Opened<T> {
    by_access_key: HashMap<String, OpenedSession<T>>,
    order: VecDeque<String>,
}

#[derive(Debug)]
struct OpenedSession<T> {
    token: SealedToken,
    value: Arc<T>,
}

/// A token, which `Debug` does not show.
struct SealedToken(String);

impl std::fmt::Debug for SealedToken {
    /// Shows nothing.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealedToken")
    }
}

impl<T> Default for OpenedSessions<T> {
    fn default() -> Self {
        Self(RwLock::new(Opened { by_access_key: HashMap::new(), order: VecDeque::new() }))
    }
}

impl<T> OpenedSessions<T> {
    /// What was made of `token` for this access key.
    pub(in crate::auth) fn get(&self, access_key: &str, token: &str) -> Option<Arc<T>> {
        let opened = self.0.read().expect(NOT_POISONED);
        let found = opened.by_access_key.get(access_key)?;
        // The access key is no secret. Beside another token it counts for nothing: that token is
        // opened, and judged by itself.
        (found.token.0 == token).then(|| Arc::clone(&found.value))
    }

    /// Keeps what was made of a token that was opened.
    pub(in crate::auth) fn keep(&self, access_key: &str, token: &str, value: &Arc<T>) {
        let mut opened = self.0.write().expect(NOT_POISONED);
        let session = OpenedSession { token: SealedToken(token.to_owned()), value: Arc::clone(value) };
        if opened.by_access_key.insert(access_key.to_owned(), session).is_some() {
            return;
        }
        // Tokens come from outside, any number of them: the oldest goes. It costs its next request
        // the opening of its token.
        opened.order.push_back(access_key.to_owned());
        if opened.order.len() > OPENED_SESSIONS_MAX
            && let Some(oldest) = opened.order.pop_front()
        {
            opened.by_access_key.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_sessions_are_kept_and_the_first_one_goes_first() {
        let opened = OpenedSessions::default();
        for nth in 0..OPENED_SESSIONS_MAX + 2 {
            opened.keep(&format!("K{nth}"), "token", &Arc::new(nth));
            opened.keep(&format!("K{nth}"), "token", &Arc::new(nth));
        }
        assert_eq!(opened.get("K1", "token"), None);
        assert_eq!(opened.get("K2", "token").as_deref(), Some(&2));
        assert_eq!(opened.get("K2", "tokem"), None);
        assert_eq!(opened.get("K3x", "token"), None);
        let kept = opened.0.read().unwrap();
        assert_eq!((kept.by_access_key.len(), kept.order.len()), (OPENED_SESSIONS_MAX, OPENED_SESSIONS_MAX));
        assert!(!format!("{opened:?}").contains("\"token\""));
    }
}
