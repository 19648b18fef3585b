//! The modification times of copies, which a Siltstone keeps beside its own. Other servers ignore
//! them, or refuse them.

use std::sync::atomic::{AtomicU8, Ordering};

use siltstone::base::Timestamp;
use siltstone::transfer::{ObjectUpload, Origin, PeerError, PeerLink, attributes_of};

/// Nothing was sent yet.
const UNKNOWN: u8 = 0;
const KEPT: u8 = 1;
const NOT_KEPT: u8 = 2;

/// Whether the target keeps the times that are stated, as its first answers show.
#[derive(Default)]
pub(super) struct StatedTimes(AtomicU8);

impl StatedTimes {
    /// Uploads an object with its time if the target keeps it. Returns the entity tag, and whether
    /// the time is kept.
    ///
    /// # Errors
    /// As of [`ObjectUpload::send`].
    pub(super) fn send(
        &self,
        upload: &ObjectUpload<'_>,
        link: &mut PeerLink<'_>,
        origin: &mut dyn Origin,
    ) -> Result<(String, bool), PeerError> {
        let untimed = ObjectUpload { stated_time: None, ..*upload };
        let known = self.0.load(Ordering::Relaxed);
        let Some(time) = upload.stated_time.filter(|_| known != NOT_KEPT) else {
            return Ok((untimed.send(link, origin)?, false));
        };
        let sent = upload.send(link, origin);
        match sent {
            Err(PeerError::Lasting(_)) if known == UNKNOWN => {
                let etag = untimed.send(link, origin)?;
                self.0.store(NOT_KEPT, Ordering::Relaxed);
                Ok((etag, false))
            }
            // A time that is no past one would prove nothing.
            Ok(etag) if known == UNKNOWN && time < upload.begun => {
                Ok((etag, self.learn(upload.key, time, link)?))
            }
            sent => Ok((sent?, true)),
        }
    }

    /// Looks whether the target has kept the time of a key.
    fn learn(&self, key: &str, time: Timestamp, link: &mut PeerLink<'_>) -> Result<bool, PeerError> {
        let there = attributes_of(link, key, None)?.and_then(|there| there.modified);
        let is_kept = there == Some(time.as_secs());
        self.0.store(if is_kept { KEPT } else { NOT_KEPT }, Ordering::Relaxed);
        Ok(is_kept)
    }
}
