//! The right to change the remote: everyone reads it, and who holds an epoch changes it.
//!
//! Segments and pieces of the log are put and deleted through an [`EpochWriter`], which only a
//! [`RemoteRight`] with an epoch gives out. A claim is made before there is an epoch: those who
//! claim get the bare [`Remote`]. Nothing else in `store` has one.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use crate::base::{NOT_POISONED, Timestamp};
use crate::format::ClaimId;
use crate::remote::{Comparison, NewObject, Remote, RemoteError, RemoteObject};
use crate::store::StoreError;

/// Why a store changes nothing on its remote. Its text is public: it names no file and no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteRefusal {
    /// It has not been looked at yet, or an epoch is about to begin.
    NotLooked,
    /// It has not answered since the start.
    Silent,
    /// It has no mark, or another store's, or other objects than it should.
    NotOwn,
    /// This store only looks.
    LooksOnly,
    /// The log there is not continued by this store.
    HasLog,
    /// The directory has not held the newest epoch.
    Foreign {
        /// The newest epoch.
        newest: u64,
    },
    /// The directory is a copy of that which has held the newest epoch.
    Copied {
        /// The newest epoch.
        newest: u64,
    },
    /// Claims are gone that this directory has held.
    ClaimsLost,
    /// Another host has taken the log over.
    TakenOver,
    /// Another store has claimed the next epoch.
    Fenced {
        /// That epoch.
        by: u64,
    },
}

impl RemoteRefusal {
    /// Whether it may pass without a restart.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::NotLooked | Self::Silent | Self::NotOwn | Self::TakenOver)
    }
}

impl fmt::Display for RemoteRefusal {
    /// The cause, and the next step for the operator.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLooked => f.write_str("no epoch has begun yet"),
            Self::Silent => f.write_str("it has not answered since the start"),
            Self::NotOwn => f.write_str("it is not marked as that of this store: run siltstone-tools remote init"),
            Self::LooksOnly => f.write_str("the server was started with --read-only"),
            Self::HasLog => f.write_str("it has a log that this server does not continue: start it with --ship"),
            Self::Foreign { newest } => write!(
                f,
                "another directory has claimed epoch {newest} there. If this one is the right one, stop the other server and run \
                 siltstone-tools remote adopt"
            ),
            Self::Copied { newest } => write!(
                f,
                "this directory is a copy of the one with epoch {newest}. If it is the right one, stop the other server and run \
                 siltstone-tools remote adopt"
            ),
            Self::ClaimsLost => f.write_str(
                "it lacks the epoch that this directory has held: it has lost objects, or is another one. If it is the right one, run \
                 siltstone-tools remote adopt",
            ),
            Self::TakenOver => f.write_str("another host has taken the log over"),
            Self::Fenced { by } => write!(
                f,
                "another server has claimed epoch {by}. If this one is the right one, stop both and run siltstone-tools remote adopt"
            ),
        }
    }
}

/// Whether a store may change its remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RightState {
    Held(u64),
    Refused(RemoteRefusal),
}

/// The right of one store.
pub(in crate::store) struct RemoteRight {
    /// `None` for a store that only looks.
    remote: Option<Arc<dyn Remote>>,
    state: RwLock<RightState>,
    claiming: Mutex<Claiming>,
}

/// How far the claim of a store without a log is.
#[derive(Default)]
pub(in crate::store) struct Claiming {
    /// The claim that is put; none before the remote was looked at.
    pub(in crate::store) claim: Option<ClaimId>,
    /// When it was put.
    pub(in crate::store) since: Option<Timestamp>,
    /// The last look for the next claim.
    pub(in crate::store) last_look: Timestamp,
}

impl RemoteRight {
    /// For a store that may claim an epoch.
    pub(in crate::store) fn new(remote: Arc<dyn Remote>) -> Self {
        Self {
            remote: Some(remote),
            state: RwLock::new(RightState::Refused(RemoteRefusal::NotLooked)),
            claiming: Mutex::default(),
        }
    }

    /// For a store that never changes the remote.
    pub(in crate::store) fn none() -> Self {
        Self {
            remote: None,
            state: RwLock::new(RightState::Refused(RemoteRefusal::LooksOnly)),
            claiming: Mutex::default(),
        }
    }

    /// The remote for those who claim an epoch.
    pub(in crate::store) fn claimant(&self) -> Option<&dyn Remote> {
        self.remote.as_deref()
    }

    /// How far the claim is. Whoever works for it holds the lock.
    pub(in crate::store) fn claiming(&self) -> MutexGuard<'_, Claiming> {
        self.claiming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the epoch that was claimed. A refusal that lasts stays.
    pub(in crate::store) fn hold(&self, epoch: u64) {
        self.change(RightState::Held(epoch));
    }

    /// Gives the epoch up, or notes why there is none.
    pub(in crate::store) fn refuse(&self, why: RemoteRefusal) {
        self.change(RightState::Refused(why));
    }

    fn change(&self, to: RightState) {
        let mut state = self.state.write().expect(NOT_POISONED);
        // A refusal that lasts wins over a claim that was on its way when it came.
        let lasts = matches!(*state, RightState::Refused(why) if !why.may_pass());
        if lasts || *state == to {
            return;
        }
        *state = to;
        if let RightState::Refused(why) = to
            && !why.may_pass()
        {
            log::error!("nothing is changed on the remote, and no bytes leave this disk: {why}");
        }
    }

    /// The epoch that is held.
    pub(in crate::store) fn epoch(&self) -> Option<u64> {
        match *self.state.read().expect(NOT_POISONED) {
            RightState::Held(epoch) => Some(epoch),
            RightState::Refused(_) => None,
        }
    }

    /// Why there is none.
    pub(in crate::store) fn refusal(&self) -> Option<RemoteRefusal> {
        match *self.state.read().expect(NOT_POISONED) {
            RightState::Held(_) => None,
            RightState::Refused(why) => Some(why),
        }
    }

    /// The writer of the epoch that is held.
    ///
    /// # Errors
    /// [`StoreError::RemoteUnavailable`] without one.
    pub(in crate::store) fn writer(&self) -> Result<EpochWriter<'_>, StoreError> {
        match (self.epoch(), &self.remote) {
            (Some(epoch), Some(remote)) => Ok(EpochWriter { right: self, remote: remote.as_ref(), epoch }),
            _ => {
                let why = self.refusal().unwrap_or(RemoteRefusal::NotLooked);
                Err(StoreError::RemoteUnavailable(format!("nothing is changed there: {why}")))
            }
        }
    }
}

/// Changes the objects of a remote while its epoch is held.
#[derive(Clone, Copy)]
pub(in crate::store) struct EpochWriter<'r> {
    right: &'r RemoteRight,
    remote: &'r dyn Remote,
    epoch: u64,
}

impl EpochWriter<'_> {
    /// As [`Remote::put`].
    ///
    /// # Errors
    /// [`RemoteError::Refused`] once the epoch is lost; the errors of the remote.
    pub(in crate::store) fn put(
        &self,
        object: &NewObject<'_>,
        within: Duration,
    ) -> Result<RemoteObject, RemoteError> {
        self.check()?;
        self.remote.put(object, within)
    }

    /// As [`Remote::put_and_compare`].
    ///
    /// # Errors
    /// As of [`EpochWriter::put`].
    pub(in crate::store) fn put_and_compare(
        &self,
        object: &NewObject<'_>,
        within: Duration,
    ) -> Result<Comparison, RemoteError> {
        self.check()?;
        self.remote.put_and_compare(object, within)
    }

    /// As [`Remote::delete`].
    ///
    /// # Errors
    /// As of [`EpochWriter::put`].
    pub(in crate::store) fn delete(&self, name: &str, within: Duration) -> Result<(), RemoteError> {
        self.check()?;
        self.remote.delete(name, within)
    }

    fn check(&self) -> Result<(), RemoteError> {
        match self.right.epoch() {
            Some(epoch) if epoch == self.epoch => Ok(()),
            _ => Err(RemoteError::Refused(format!("epoch {} is not held any more", self.epoch))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::RemoteView as _;
    use crate::remote::sim::SimRemote;

    fn put(writer: &EpochWriter<'_>) -> Result<RemoteObject, RemoteError> {
        let body = b"body".as_slice();
        writer.put(&NewObject { name: "a", body: &body, nonce: "n", create_only: false }, Duration::ZERO)
    }

    #[test]
    fn nothing_is_changed_without_an_epoch_and_after_its_loss() {
        let remote = SimRemote::new();
        let right = RemoteRight::new(Arc::new(remote.clone()));
        assert!(right.writer().is_err());
        right.hold(3);
        let writer = right.writer().unwrap();
        put(&writer).unwrap();
        right.refuse(RemoteRefusal::Fenced { by: 4 });
        assert!(put(&writer).is_err() && writer.delete("a", Duration::ZERO).is_err());
        assert!(remote.head("a", Duration::ZERO).unwrap().is_some());
        // A refusal that lasts is not overcome by another claim.
        right.hold(5);
        right.refuse(RemoteRefusal::Silent);
        assert_eq!(right.refusal(), Some(RemoteRefusal::Fenced { by: 4 }));
    }

    #[test]
    fn an_epoch_that_was_given_up_is_not_that_of_an_older_writer() {
        let right = RemoteRight::new(Arc::new(SimRemote::new()));
        right.hold(1);
        let writer = right.writer().unwrap();
        right.refuse(RemoteRefusal::NotLooked);
        right.hold(2);
        assert!(put(&writer).is_err() && put(&right.writer().unwrap()).is_ok());
    }
}
