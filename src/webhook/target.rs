//! The life of a target: changes are read from the log, and their events delivered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::events::EventSource;
use super::{Courier, Delivered, Message, TargetFigures, WebhookSettings, follower_name};
use crate::store::{Beginning, FollowPosition, Follower, Store, StoreError};

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
        // The position of a new target is taken now rather than by its thread, so that it gets every event from here on.
        if let Err(error) = follower.next(store, 0) {
            log::error!(
                "the webhook {} has no position yet, and gets later events alone: {error}",
                settings.name
            );
        }
        Ok(Self {
            follower,
            events: EventSource::new(settings, region),
            courier: Courier::new(settings, figures)?,
            settings: settings.clone(),
            waiting: Vec::new(),
            end: None,
            since: Instant::now(),
        })
    }

    /// Delivers events until `stopped` is disconnected. An error of the store is logged once, and tried again.
    pub fn run(&mut self, store: &Store, stopped: &Receiver<()>) {
        let (mut pause, mut is_failing) = (Duration::ZERO, false);
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

    /// Reads changes, and delivers what waits once it is enough or old enough. Returns the pause before the next step.
    fn step(&mut self, store: &Store, stopped: &Receiver<()>) -> Result<Duration, StoreError> {
        let news = self.follower.next(store, self.settings.batch)?;
        let has_news = news.is_some();
        if let Some(batch) = news {
            for change in &batch.changes {
                if let Some(message) = self.events.message(store, change) {
                    if self.waiting.is_empty() {
                        self.since = Instant::now();
                    }
                    self.waiting.push(message);
                }
            }
            self.end = Some(batch.end);
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
