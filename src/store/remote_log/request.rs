//! What requests to a remote have in common: how long they may take, and bodies that are parts of
//! files.

use std::io;
use std::ops::Range;
use std::time::Duration;

use crate::base::limits::MIB;
use crate::fs::File;
use crate::remote::Body;

/// The time that requests of one kind may take.
pub(crate) struct TimeLimit {
    /// For a small request.
    pub(crate) small: Duration,
    /// The least rate of the bytes of larger ones.
    pub(crate) least_bytes_per_second: u64,
}

/// The limit of requests that no client waits for.
pub(crate) const BACKGROUND: TimeLimit = TimeLimit { small: PATIENCE, least_bytes_per_second: MIB / 8 };
/// The time that a small request may take that no client waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The time to the next try of a listing or of a repair that the remote did not let be made.
pub(crate) const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(60);

impl TimeLimit {
    /// The time that a request with that many bytes may take.
    pub(crate) fn of_bytes(&self, bytes: u64) -> Duration {
        self.small + Duration::from_millis(bytes.saturating_mul(1000) / self.least_bytes_per_second)
    }
}

/// Bytes of a file that do not change.
pub(crate) struct FileBody<'f> {
    pub(crate) file: &'f dyn File,
    pub(crate) range: Range<u64>,
}

impl FileBody<'_> {
    /// Gives all bytes to `take`, part by part.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(crate) fn for_each_part(&self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = vec![0; MIB.min(self.length()) as usize];
        let mut at = 0;
        while at < self.length() {
            let length = (buffer.len() as u64).min(self.length() - at);
            let part = &mut buffer[..length as usize];
            self.read_at(at, part)?;
            take(part);
            at += length;
        }
        Ok(())
    }
}

impl Body for FileBody<'_> {
    fn length(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, self.range.start + offset)
    }
}
