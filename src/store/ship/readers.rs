//! The store that readers of a standby see: its index goes on with each parcel.
//!
//! One thread extends the directory, and shows each parcel to the readers after its groups are
//! durable. So they see a group whole, and after the bytes that it names. They learn that a segment
//! is remote before its local bytes go. They write nothing: files are opened for reading alone, and
//! cold bytes are not kept.

use std::mem;
use std::sync::Arc;

use crate::base::Clock;
use crate::format::{Entry, log_path};
use crate::fs::Fs;
use crate::index::Index;
use crate::log::{Damage, FollowedGroup, LogError, LogFollower};
use crate::remote::RemoteView;
use crate::store::open::loader::apply_group;
use crate::store::shared::Published;
use crate::store::{OpenError, Store, StoreOptions};

/// Those who read the directory of a standby.
pub trait StandbyReaders: Send {
    /// Gives them the store. It goes on by itself.
    fn open(&self, store: Arc<Store>);

    /// Takes the store from them: its directory is filled again, or becomes a writer's. A
    /// request that still reads from it gets the right bytes or an error.
    fn close(&self);
}

/// The store of the readers, as far as it is open.
pub(super) struct ReaderStore {
    options: StoreOptions,
    readers: Box<dyn StandbyReaders>,
    state: ReaderState,
}

enum ReaderState {
    Closed,
    Open(Box<FollowedStore>),
    /// The directory could not be read. It is tried again after it has been filled again.
    Failed,
}

impl ReaderStore {
    /// A store that is not open.
    pub(super) fn new(options: StoreOptions, readers: Box<dyn StandbyReaders>) -> Self {
        Self { options, readers, state: ReaderState::Closed }
    }

    /// Reads the groups up to `through`, all of which are durable. The readers learn of remote
    /// segments.
    pub(super) fn read_through(&mut self, through: u64) {
        if let ReaderState::Open(followed) = &mut self.state
            && let Err(error) = followed.read_through(through)
        {
            self.fail(&error.into());
        }
    }

    /// Shows the readers the groups that were read. Opens the store if it is closed.
    pub(super) fn show(&mut self, fs: &Arc<dyn Fs>, clock: &Arc<dyn Clock>, remote: &Arc<dyn RemoteView>) {
        match &mut self.state {
            ReaderState::Failed => {}
            ReaderState::Open(followed) => followed.publish(),
            ReaderState::Closed => {
                match Store::open_for_reads(fs.clone(), clock.clone(), self.options, remote.clone()) {
                    Ok((store, log)) => {
                        let followed = FollowedStore { store: Arc::new(store), log, next: None };
                        self.readers.open(followed.store.clone());
                        self.state = ReaderState::Open(Box::new(followed));
                    }
                    Err(error) => self.fail(&error),
                }
            }
        }
    }

    fn fail(&mut self, error: &OpenError) {
        log::error!("nothing is read from this standby until its directory is filled again: {error}");
        self.close();
        self.state = ReaderState::Failed;
    }

    /// Takes the store from the readers.
    pub(super) fn close(&mut self) {
        if let ReaderState::Open(_) = mem::replace(&mut self.state, ReaderState::Closed) {
            self.readers.close();
        }
    }
}

/// A store whose index follows the log in its directory.
struct FollowedStore {
    store: Arc<Store>,
    log: LogFollower,
    /// The index with the groups that were read, until it is published.
    next: Option<NextIndex>,
}

struct NextIndex {
    index: Index,
    /// Whether segments have become remote, so that their files are replaced before it is
    /// published.
    replaces_files: bool,
}

impl FollowedStore {
    fn read_through(&mut self, through: u64) -> Result<(), LogError> {
        if self.log.position().sequence >= through {
            return Ok(());
        }
        let mut next = self.next.take().unwrap_or_else(|| NextIndex {
            index: Index::clone(&self.store.shared.index()),
            replaces_files: false,
        });
        while let Some(FollowedGroup { group, .. }) = self.log.next(through)? {
            let sequence = group.header.sequence;
            apply_group(&mut next.index, &group, 0)
                .map_err(|why| Damage::new(log_path(sequence), 0, format!("group {sequence}: {why}")))?;
            next.replaces_files |=
                group.entries.iter().any(|entry| matches!(entry, Entry::RemoteSegment { .. }));
        }
        // Before the files are replaced: a reader that opens one then finds holes, and has to know
        // that the remote has the bytes.
        if let Some(tier) = self.store.tier.as_ref().filter(|_| next.replaces_files) {
            tier.learn(&next.index, self.log.position().sequence);
        }
        self.next = Some(next);
        Ok(())
    }

    fn publish(&mut self) {
        let Some(NextIndex { index, replaces_files }) = self.next.take() else { return };
        let shared = &self.store.shared;
        if replaces_files {
            // Open handles are those of the files before. New readers open the ones without bytes,
            // and fetch.
            shared.segments.close_idle();
        }
        let sequence = self.log.position().sequence;
        shared.publish(Published { index: Arc::new(index), sequence, doubtful_segment: 0 });
    }
}
