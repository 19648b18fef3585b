//! One follower: its stage, its batches, its position.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::change::{Change, ChangeBatch, ChangePlace, FollowPosition, KeyRange, LostChanges};
use super::snapshot::SnapshotWalk;
use crate::base::Timestamp;
use crate::base::limits::MIB;
use crate::format::{Cause, Entry, FileKind, FollowerState, Group, LogPosition, RefusedKeys, SnapshotCursor};
use crate::log::{LogError, LogFollower, list_numbers};
use crate::store::shared::SharedStore;
use crate::store::{Store, StoreError};

/// The interval of saved positions, while there is news.
const SAVE_EVERY: Duration = Duration::from_secs(5);
/// Bytes of groups in a batch, unless one group is longer.
const BATCH_BYTES: usize = MIB as usize;

/// The place from which a follower without one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// The walk over everything that there is.
    Snapshot,
    /// The next change.
    Now,
}

/// A follower of the log. Dropping it saves nothing: [`Follower::save`] does.
pub struct Follower {
    name: String,
    beginning: Beginning,
    stage: FollowStage,
    /// Reads with news so far, and those that the saved position has.
    news: u64,
    saved_news: u64,
    /// `None` before a position was saved.
    saved_at: Option<Instant>,
    /// The last place that is done; `None` until the stage is known.
    done: Option<FollowPosition>,
    /// The keys that are done although they were refused, and whether the saved ones are others.
    refused: RefusedKeys,
    refused_anew: bool,
    /// Changes that were lost, and that the next batch reports.
    lost: Option<LostChanges>,
}

enum FollowStage {
    /// Nothing was read.
    Unopened,
    /// A walk, and the place in the log that follows it.
    Snapshot(SnapshotWalk, LogPosition),
    /// The log.
    Log(Box<LogFollower>),
}

impl Follower {
    pub(super) fn new(name: &str, beginning: Beginning, refused: RefusedKeys) -> Self {
        Self {
            name: name.to_owned(),
            beginning,
            stage: FollowStage::Unopened,
            news: 0,
            saved_news: 0,
            saved_at: None,
            done: None,
            refused,
            refused_anew: false,
            lost: None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next changes, `bound` or somewhat more of them; `None` where there are none yet. A batch
    /// may have none of interest: its end is handed to [`Follower::done_through`] all the same.
    ///
    /// # Errors
    /// Of the disk and the commit. A later call goes on.
    pub fn next(&mut self, store: &Store, bound: usize) -> Result<Option<ChangeBatch>, StoreError> {
        if let FollowStage::Unopened = self.stage {
            self.open(store)?;
        }
        match &mut self.stage {
            FollowStage::Unopened => Ok(None),
            FollowStage::Snapshot(..) => self.next_of_snapshot(store).map(Some),
            FollowStage::Log(log) => match self.lost.take() {
                Some(lost) => {
                    let position = log.position();
                    Ok(Some(self.batch_of_loss(store, lost, position)))
                }
                None => self.next_of_log(store, bound),
            },
        }
    }

    /// States that everything before the place is done. The position is saved from time to time.
    ///
    /// # Errors
    /// Errors of the commit. A later call saves it again.
    pub fn done_through(&mut self, store: &Store, place: FollowPosition) -> Result<(), StoreError> {
        // The time is read before the group: one that comes in between would count as done then.
        let now = store.shared.clock.now();
        let published = store.shared.published().sequence;
        store.shared.followers.update(&self.name, |progress| {
            progress.done = place.state.position.sequence;
            progress.in_snapshot = place.state.snapshot.is_some();
            progress.is_lost = false;
            let is_current = progress.done >= published && !progress.in_snapshot;
            let time = if is_current { now } else { place.time };
            progress.current_at = progress.current_at.max(time);
        });
        self.done = Some(place);
        let now = store.shared.clock.instant();
        let is_recent = self.saved_at.is_some_and(|saved| now.duration_since(saved) < SAVE_EVERY);
        if is_recent { Ok(()) } else { self.save(store) }
    }

    /// The keys that are done although they were refused.
    pub fn refused(&self) -> &RefusedKeys {
        &self.refused
    }

    /// Replaces the keys that are done although they were refused. They are saved together with the
    /// next position.
    pub fn set_refused(&mut self, refused: RefusedKeys) {
        self.refused_anew |= self.refused != refused;
        self.refused = refused;
    }

    /// Saves the last place that is done, if there was news since, or other keys were refused.
    ///
    /// # Errors
    /// Errors of the commit.
    pub fn save(&mut self, store: &Store) -> Result<(), StoreError> {
        let Some(place) = &self.done else { return Ok(()) };
        // Saving is a group of the log itself. Without this, a follower that is up to date would
        // save for ever, each time because of its own last save.
        if place.news <= self.saved_news && !self.refused_anew {
            return Ok(());
        }
        let state = FollowerState { refused: self.refused.clone(), ..place.state.clone() };
        // The fields below say what is saved, so that they change only after it is.
        store.set_follower(&self.name, Some(state))?;
        self.saved_news = place.news;
        self.saved_at = Some(store.shared.clock.instant());
        self.refused_anew = false;
        Ok(())
    }

    /// Starts over, as a follower without a position does.
    ///
    /// # Errors
    /// Of the disk and the commit.
    pub fn start_over(&mut self, store: &Store) -> Result<(), StoreError> {
        self.begin_from(store, self.beginning)
    }

    /// Starts over with a walk over everything that there is.
    ///
    /// # Errors
    /// Of the disk and the commit.
    pub fn walk_again(&mut self, store: &Store) -> Result<(), StoreError> {
        self.begin_from(store, Beginning::Snapshot)
    }

    /// Goes on from the saved position, or starts over where there is none or its place is gone.
    fn open(&mut self, store: &Store) -> Result<(), StoreError> {
        let shared = &store.shared;
        let Some(state) = shared.index().follower(&self.name).cloned() else {
            return self.start_over(store);
        };
        shared.followers.update(&self.name, |progress| {
            progress.done = state.position.sequence;
            progress.in_snapshot = state.snapshot.is_some();
        });
        match open_log(shared, state.position)? {
            Some(log) => {
                self.done = Some(self.place(state.position, state.snapshot.clone()));
                self.stage = match state.snapshot {
                    Some(cursor) => FollowStage::Snapshot(SnapshotWalk::after(cursor), state.position),
                    None => FollowStage::Log(Box::new(log)),
                };
                Ok(())
            }
            None => self.lost(store, state.position.sequence),
        }
    }

    /// Starts over, or goes on after the gap, since the place after group `done` is gone.
    fn lost(&mut self, store: &Store, done: u64) -> Result<(), StoreError> {
        log::warn!("the follower {} starts over: the log was not kept for so long", self.name);
        store.shared.followers.update(&self.name, |progress| {
            progress.starts_over += 1;
            progress.is_lost = true;
        });
        match self.beginning {
            Beginning::Snapshot => self.start_over(store),
            Beginning::Now => self.skip_gap(store, done),
        }
    }

    /// Goes on with the oldest group after the gap. The place is not saved before its consumer
    /// knows of the gap.
    fn skip_gap(&mut self, store: &Store, done: u64) -> Result<(), StoreError> {
        self.stage = FollowStage::Unopened;
        let log = open_after_gap(&store.shared, done)?;
        self.lost = Some(LostChanges { after: done, through: log.position().sequence });
        self.stage = FollowStage::Log(Box::new(log));
        Ok(())
    }

    /// The batch that reports lost changes, and ends after them.
    fn batch_of_loss(&mut self, store: &Store, lost: LostChanges, position: LogPosition) -> ChangeBatch {
        self.news += 1;
        let end = FollowPosition { time: store.shared.clock.now(), ..self.place(position, None) };
        ChangeBatch { changes: Vec::new(), end, range: None, lost: Some(lost) }
    }

    fn begin_from(&mut self, store: &Store, beginning: Beginning) -> Result<(), StoreError> {
        let shared = &store.shared;
        self.stage = FollowStage::Unopened;
        // The place in the log is older than the walk, which reads the newest index in each step:
        // what changes meanwhile comes once more from the log, and nothing is missed.
        let published = shared.published().sequence;
        let log = LogFollower::after(shared.fs.clone(), shared.store, published)
            .map_err(|error| shared.failed(error))?;
        let position = log.position();
        let snapshot = (beginning == Beginning::Snapshot).then(SnapshotCursor::default);
        let state = FollowerState { position, snapshot: snapshot.clone(), refused: self.refused.clone() };
        let saved = store.set_follower(&self.name, Some(state));
        if beginning == Beginning::Now && saved.is_err() {
            // It goes on from here all the same, and loses no change until its first place is
            // saved.
            self.stage = FollowStage::Log(Box::new(log));
            return saved;
        }
        saved?;
        self.saved_at = Some(shared.clock.instant());
        self.saved_news = self.news;
        self.done = Some(self.place(position, snapshot.clone()));
        self.refused_anew = false;
        shared.followers.update(&self.name, |progress| {
            progress.done = position.sequence;
            progress.in_snapshot = snapshot.is_some();
            progress.is_lost = false;
        });
        self.stage = match snapshot {
            Some(cursor) => FollowStage::Snapshot(SnapshotWalk::after(cursor), position),
            None => FollowStage::Log(Box::new(log)),
        };
        Ok(())
    }

    fn next_of_snapshot(&mut self, store: &Store) -> Result<ChangeBatch, StoreError> {
        let FollowStage::Snapshot(walk, position) = &mut self.stage else {
            unreachable!("the caller looked at the stage")
        };
        let position = *position;
        self.news += 1;
        if let Some(step) = walk.step(&store.shared.index(), position.sequence) {
            let cursor = Some(walk.done().clone());
            let end = self.place(position, cursor);
            return Ok(ChangeBatch { changes: step.changes, end, range: step.range, lost: None });
        }
        let range = Some(KeyRange { after: walk.done().clone(), through: None });
        // The log from where the walk began, and not from now on: a key that changed after the walk
        // had passed it is in there alone.
        match open_log(&store.shared, position)? {
            Some(log) => self.stage = FollowStage::Log(Box::new(log)),
            None => {
                self.lost(store, position.sequence)?;
                return self.next_of_snapshot(store);
            }
        }
        Ok(ChangeBatch { changes: Vec::new(), end: self.place(position, None), range, lost: None })
    }

    fn next_of_log(&mut self, store: &Store, bound: usize) -> Result<Option<ChangeBatch>, StoreError> {
        let FollowStage::Log(log) = &mut self.stage else { unreachable!("the caller looked at the stage") };
        let through = store.shared.published().sequence;
        let mut changes = Vec::new();
        let mut bytes = 0;
        let mut time = None;
        let mut has_news = false;
        while changes.len() < bound && bytes < BATCH_BYTES {
            let group = match log.next(through) {
                Ok(Some(followed)) => followed.group,
                Ok(None) => break,
                // Whole groups before the gap are delivered first.
                Err(_) if time.is_some() => break,
                Err(error) => {
                    self.start_over_after(store, error)?;
                    return self.next(store, bound);
                }
            };
            bytes += group.body_len;
            time = Some(group.header.time);
            has_news |= group.entries.iter().any(is_news);
            changes.extend(changes_of(group));
        }
        let Some(time) = time else { return Ok(None) };
        self.news += u64::from(has_news);
        let position = log.position();
        let end = FollowPosition { time, ..self.place(position, None) };
        Ok(Some(ChangeBatch { changes, end, range: None, lost: None }))
    }

    /// A place after all news so far. The log from there on may have changes of any time.
    fn place(&self, position: LogPosition, snapshot: Option<SnapshotCursor>) -> FollowPosition {
        let state = FollowerState { position, snapshot, refused: RefusedKeys::default() };
        FollowPosition { state, time: Timestamp::default(), news: self.news }
    }

    /// Starts over where the log was removed or is damaged. The index has what its groups did.
    fn start_over_after(&mut self, store: &Store, error: LogError) -> Result<(), StoreError> {
        let FollowStage::Log(log) = &self.stage else { unreachable!("the caller looked at the stage") };
        let done = log.position().sequence;
        let is_gone = is_gone(&store.shared, done)?;
        if !is_gone {
            let is_damage = matches!(error, LogError::Damaged(_));
            let error = store.shared.failed(error);
            if !is_damage {
                return Err(error);
            }
        }
        self.lost(store, done)
    }
}

/// The log after a position; `None` where it is not there any more, or is another one.
pub(super) fn open_log(
    shared: &SharedStore,
    position: LogPosition,
) -> Result<Option<LogFollower>, StoreError> {
    if position.sequence > shared.published().sequence || is_gone(shared, position.sequence)? {
        return Ok(None);
    }
    match LogFollower::after(shared.fs.clone(), shared.store, position.sequence) {
        Ok(log) => Ok(Some(log).filter(|log| log.position() == position)),
        // A checkpoint may have removed the file since the look above.
        Err(_) if is_gone(shared, position.sequence)? => Ok(None),
        Err(error @ LogError::Damaged(_)) => {
            shared.failed(error);
            Ok(None)
        }
        Err(error) => Err(shared.failed(error)),
    }
}

/// The oldest place in the log that begins a file after the group `done` and the next one; the end
/// of the log without one.
fn open_after_gap(shared: &SharedStore, done: u64) -> Result<LogFollower, StoreError> {
    let published = shared.published().sequence;
    let logs =
        list_numbers(shared.fs.as_ref(), FileKind::Log).map_err(|error| shared.failed(error.into()))?;
    let later = logs.into_iter().filter(|first| *first > done + 1 && *first <= published + 1);
    let mut opened =
        later.filter_map(|first| LogFollower::after(shared.fs.clone(), shared.store, first - 1).ok());
    match opened.next() {
        Some(log) => Ok(log),
        None => LogFollower::after(shared.fs.clone(), shared.store, published)
            .map_err(|error| shared.failed(error)),
    }
}

/// Whether the log does not have the group after that one any more.
fn is_gone(shared: &SharedStore, sequence: u64) -> Result<bool, StoreError> {
    let logs =
        list_numbers(shared.fs.as_ref(), FileKind::Log).map_err(|error| shared.failed(error.into()))?;
    Ok(logs.first().is_none_or(|first| *first > sequence + 1))
}

/// Whether an entry is of interest to any follower: what they save themselves is not.
fn is_news(entry: &Entry) -> bool {
    !matches!(entry, Entry::Follower { .. } | Entry::FollowerNote { .. })
}

/// The changes of a group, with their causes.
fn changes_of(group: Group) -> Vec<Change> {
    let sequence = group.header.sequence;
    let time = group.header.time;
    let mut changes = Vec::new();
    let mut origins = Vec::new();
    let mut cause: Option<Arc<Cause>> = None;
    // The entries that the cause still concerns.
    let mut left = 0;
    let mut null = false;
    for (place, entry) in (0..).zip(group.entries) {
        match entry {
            Entry::Origin(told) => origins = told,
            Entry::Cause(told) => {
                left = told.entries;
                cause = Some(Arc::new(Cause { origins: std::mem::take(&mut origins), ..told }));
            }
            Entry::NullDeletion => null = true,
            entry => {
                let of_entry = cause.clone().filter(|_| left > 0);
                left = left.saturating_sub(1);
                let null = std::mem::take(&mut null);
                changes.extend(Change::of(entry, ChangePlace { sequence, place, time }, of_entry, null));
            }
        }
    }
    changes
}
