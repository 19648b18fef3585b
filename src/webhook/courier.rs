//! The delivery of messages to one target, tried until it takes them.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::delivery::{DeliveryError, WebhookSender};
use super::{TargetFigures, WebhookSettings};
use crate::base::{Backoff, OsEntropy, Timestamp, jittered};

/// The pauses after failures.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(60) };
/// The pause beyond the one that a target asks for, which is never longer than the longest.
const PAUSE_BEYOND: Duration = Duration::from_millis(500);
/// Records beyond this size go with the next request.
const BODY_MAX_BYTES: usize = 1 << 20;

/// A message for a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The record of an event, which goes with others.
    Record(String),
    /// A message of its own.
    Whole(String),
}

impl Message {
    fn text(&self) -> &str {
        match self {
            Self::Record(text) | Self::Whole(text) => text,
        }
    }
}

/// Whether a delivery ended, or its thread is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// The target has the messages, or they were dropped.
    Done,
    /// The thread is to end. The target may have the messages or not.
    Stopped,
}

/// The sender of messages to one target.
pub struct Courier {
    sender: WebhookSender,
    settings: WebhookSettings,
    figures: Arc<TargetFigures>,
}

impl Courier {
    /// A courier, which connects with the first message.
    ///
    /// # Errors
    /// A message, if the settings name no server.
    pub fn new(settings: &WebhookSettings, figures: Arc<TargetFigures>) -> Result<Self, String> {
        Ok(Self { sender: WebhookSender::new(settings)?, settings: settings.clone(), figures })
    }

    /// Delivers messages in order, in as few requests as their kinds and sizes allow. It gives up
    /// once `stopped` is disconnected.
    pub fn deliver(&mut self, messages: &[Message], stopped: &Receiver<()>) -> Delivered {
        let mut rest = messages;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(first_request(rest, self.settings.batch));
            if self.deliver_request(now, stopped) == Delivered::Stopped {
                return Delivered::Stopped;
            }
            rest = later;
        }
        Delivered::Done
    }

    /// Delivers the messages of one request. Of several that are refused together, each is sent
    /// alone, so that the others pass.
    fn deliver_request(&mut self, messages: &[Message], stopped: &Receiver<()>) -> Delivered {
        let body = body(messages);
        let mut failures = 0;
        let mut refused_since = None;
        loop {
            let now = Timestamp::from_system(SystemTime::now());
            failures += 1;
            let mut wait = BACKOFF.jittered_after(failures, &OsEntropy);
            match self.sender.send(&body, now) {
                Ok(()) => {
                    self.accepted(messages.len());
                    return Delivered::Done;
                }
                Err(DeliveryError::Failed(why)) => self.failed(&why, now),
                Err(DeliveryError::Later(why, after)) => {
                    self.failed(&why, now);
                    wait = asked(after);
                }
                Err(DeliveryError::Refused(why)) => {
                    self.failed(&why, now);
                    if messages.len() > 1 {
                        return self.deliver_alone(messages, stopped);
                    }
                    // A target may refuse by mistake, until its operator has seen it: the event is
                    // dropped only after that time.
                    let since = *refused_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.settings.drop_refused_after {
                        self.dropped(&why);
                        return Delivered::Done;
                    }
                }
            }
            if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return Delivered::Stopped;
            }
        }
    }

    fn deliver_alone(&mut self, messages: &[Message], stopped: &Receiver<()>) -> Delivered {
        let each = messages.iter().map(std::slice::from_ref);
        let mut outcomes = each.map(|message| self.deliver_request(message, stopped));
        outcomes.find(|outcome| *outcome == Delivered::Stopped).unwrap_or(Delivered::Done)
    }

    fn accepted(&self, messages: usize) {
        if self.figures.add_delivered(messages) {
            log::info!("the webhook {} accepts events again", self.settings.name);
        }
    }

    /// An outage of hours is one line of the log.
    fn failed(&self, why: &str, now: Timestamp) {
        if self.figures.add_failed(why, now) {
            log::warn!(
                "the webhook {:?} takes no events, which are kept and sent later: {why}",
                self.settings
            );
        }
    }

    fn dropped(&self, why: &str) {
        self.figures.add_dropped();
        log::error!("the webhook {} refuses an event, which is dropped: {why}", self.settings.name);
    }
}

/// How many of the messages, of which there is one at least, go with the first request, if it may
/// have `batch`.
fn first_request(messages: &[Message], batch: usize) -> usize {
    let mut count = 0;
    let mut bytes = 0;
    for message in messages.iter().take(batch) {
        bytes += message.text().len();
        if !matches!(message, Message::Record(_)) || bytes > BODY_MAX_BYTES {
            break;
        }
        count += 1;
    }
    count.max(1)
}

fn body(messages: &[Message]) -> String {
    match messages {
        [Message::Whole(text)] => text.clone(),
        records => {
            let records: Vec<_> = records.iter().map(Message::text).collect();
            format!("{{\"Records\":[{}]}}", records.join(","))
        }
    }
}

/// The pause before the try that a target asks for after that time.
fn asked(after: Duration) -> Duration {
    after.saturating_add(jittered(PAUSE_BEYOND, &OsEntropy)).min(BACKOFF.longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(lens: &[usize]) -> Vec<Message> {
        lens.iter().map(|len| Message::Record("r".repeat(*len))).collect()
    }

    #[test]
    fn requests_are_bounded_and_whole_messages_go_alone() {
        assert_eq!(first_request(&records(&[1, 2, 3]), 5), 3);
        assert_eq!(first_request(&records(&[1, 2, 3]), 2), 2);
        assert_eq!(first_request(&records(&[BODY_MAX_BYTES, 1]), 5), 1);
        assert_eq!(first_request(&records(&[BODY_MAX_BYTES + 1, 1]), 5), 1);
        let mut mixed = records(&[1, 1]);
        mixed.insert(1, Message::Whole("test".to_owned()));
        assert_eq!((first_request(&mixed, 5), first_request(&mixed[1..], 5)), (1, 1));
        assert_eq!(body(&mixed[1..2]), "test");
        assert_eq!(body(&records(&[1, 2])), "{\"Records\":[r,rr]}");
    }

    #[test]
    fn targets_choose_a_pause_within_bounds() {
        for seconds in [0, 3, 59] {
            let at_least = Duration::from_secs(seconds);
            let pause = asked(Duration::from_secs(seconds));
            assert!((at_least..=at_least + PAUSE_BEYOND).contains(&pause), "{seconds}: {pause:?}");
        }
        assert_eq!(asked(Duration::from_secs(61)), BACKOFF.longest);
        assert_eq!(asked(Duration::MAX), BACKOFF.longest);
    }
}
