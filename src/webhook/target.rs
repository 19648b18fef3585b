//! The life of a target: changes are read from the log, and their events delivered.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::events::EventSource;
use super::record::lost_message;
use super::{Courier, Delivered, Message, TargetFigures, WebhookSettings, follower_name};
use crate::base::Timestamp;
use crate::store::{Beginning, ChangeBatch, FollowPosition, Follower, LostChanges, Store, StoreError};

/// The interval of looks for changes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The pause after an error of the store.
const ERROR_PAUSE: Duration = Duration::from_secs(5);

/// A target in use.
pub struct Webhook {
    settings: WebhookSettings,
    follower: Follower,
    events: EventSource,
    courier: Courier,
    /// Changes that were read, and are not among the messages.
    unread: Option<ChangeBatch>,
    /// Messages that are not delivered, and the place after the changes that they are about.
    waiting: Vec<Message>,
    end: Option<FollowPosition>,
    /// The time of the first of them.
    since: Instant,
}

impl Webhook {
    /// A target, which begins with the next change unless it has a position.
    ///
    /// # Errors
    /// A message, if the settings name no server.
    pub fn new(
        store: &Store,
        settings: &WebhookSettings,
        region: &str,
        figures: Arc<TargetFigures>,
    ) -> Result<Self, String> {
        let mut follower = store.follower(&follower_name(&settings.name), Beginning::Now);
        // The position of a new target is taken now rather than by its thread, so that it gets
        // every event from here on.
        let unread = follower.next(store, 0).unwrap_or_else(|error| {
            log::error!(
                "the webhook {} cannot save its position, and gets later events alone after a crash: {error}",
                settings.name
            );
            None
        });
        Ok(Self {
            follower,
            events: EventSource::new(settings, region),
            courier: Courier::new(settings, figures)?,
            settings: settings.clone(),
            unread,
            waiting: Vec::new(),
            end: None,
            since: Instant::now(),
        })
    }

    /// Delivers events until `stopped` is disconnected. An error of the store is logged once, and
    /// tried again.
    pub fn run(&mut self, store: &Store, stopped: &Receiver<()>) {
        let mut pause = Duration::ZERO;
        let mut is_failing = false;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            pause = match self.step(store, stopped) {
                Ok(pause) => {
                    is_failing = false;
                    pause
                }
                Err(error) => {
                    if !is_failing {
                        log::error!("the webhook {} cannot read changes: {error}", self.settings.name);
                    }
                    is_failing = true;
                    ERROR_PAUSE
                }
            };
        }
        if let Err(error) = self.follower.save(store) {
            log::warn!("the webhook {} will get some events again: {error}", self.settings.name);
        }
    }

    /// Reads changes, and delivers what waits once it is enough or old enough. Returns the pause
    /// before the next step.
    fn step(&mut self, store: &Store, stopped: &Receiver<()>) -> Result<Duration, StoreError> {
        let news = match self.unread.take() {
            Some(batch) => Some(batch),
            None => self.follower.next(store, self.settings.batch)?,
        };
        let has_news = news.is_some();
        if let Some(batch) = news {
            self.add(store, batch)?;
        }
        let left = self.settings.delay.saturating_sub(self.since.elapsed());
        let is_due = self.waiting.is_empty() || self.waiting.len() >= self.settings.batch || left.is_zero();
        if is_due && self.deliver(store, stopped)? == Delivered::Stopped {
            return Ok(Duration::ZERO);
        }
        Ok(match (has_news, self.waiting.is_empty()) {
            (true, _) => Duration::ZERO,
            (false, true) => LOOK_EVERY,
            (false, false) => LOOK_EVERY.min(left),
        })
    }

    /// Adds the messages of a batch to those that wait. After an error the batch is read again.
    fn add(&mut self, store: &Store, batch: ChangeBatch) -> Result<(), StoreError> {
        let events = &mut self.events;
        let follower = &self.follower;
        let read = batch.changes.iter().map(|change| events.message(store, follower, change));
        let messages = match read.collect::<Result<Vec<_>, _>>() {
            Ok(messages) => messages.into_iter().flatten(),
            Err(error) => {
                self.unread = Some(batch);
                return Err(error);
            }
        };
        if self.waiting.is_empty() {
            self.since = Instant::now();
        }
        self.waiting.extend(batch.lost.map(|lost| self.notice_of(lost)));
        self.waiting.extend(messages);
        self.end = Some(batch.end);
        Ok(())
    }

    fn notice_of(&self, lost: LostChanges) -> Message {
        let LostChanges { after, through } = lost;
        log::error!(
            "the webhook {} does not get the events of the groups {} to {through}: the log was not kept for so long",
            self.settings.name,
            after + 1
        );
        Message::Whole(lost_message(lost, Timestamp::from_system(SystemTime::now())))
    }

    /// Delivers what waits, and states that its changes are done.
    fn deliver(&mut self, store: &Store, stopped: &Receiver<()>) -> Result<Delivered, StoreError> {
        if self.courier.deliver(&self.waiting, stopped) == Delivered::Stopped {
            return Ok(Delivered::Stopped);
        }
        self.waiting.clear();
        match self.end.take() {
            Some(end) => self.follower.done_through(store, end).map(|()| Delivered::Done),
            None => Ok(Delivered::Done),
        }
    }
}
