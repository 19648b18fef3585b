//! The steps of the checks that run one after the other, and the display of progress.

use super::link::{Content, Finding, Link, PartialUpload, Reply};
use crate::progress::Meter;
use siltstone::client::{HttpConnection, SignedRequest};

/// A run of checks. Writes and reads use different connections, so that no cache of a connection
/// answers.
pub(crate) struct Session<'p> {
    pub(crate) link: Link<'p>,
    /// The rounds of a race.
    pub(crate) rounds: u32,
    /// The connections that race.
    pub(crate) racers: usize,
    writer: HttpConnection,
    reader: HttpConnection,
    meter: Meter,
    steps_done: u64,
    steps: u64,
}

impl<'p> Session<'p> {
    /// A session of `steps` steps.
    ///
    /// # Errors
    /// The store cannot be reached.
    pub(crate) fn new(
        link: Link<'p>,
        (rounds, racers): (u32, usize),
        (meter, steps): (Meter, u64),
    ) -> Result<Self, String> {
        let open = || HttpConnection::open(&link.place.endpoint).map_err(|error| error.to_string());
        let writer = open()?;
        let reader = open()?;
        Ok(Self { link, rounds, racers, writer, reader, meter, steps_done: 0, steps })
    }

    /// Connects again before a check: the connections may have been silent for too long.
    pub(crate) fn reconnect(&mut self) -> Result<(), Finding> {
        self.writer = self.link.connect()?;
        self.reader = self.link.connect()?;
        Ok(())
    }

    /// Shows that a step of `check` is over.
    pub(crate) fn step_is_over(&mut self, check: &str) {
        self.steps_done = (self.steps_done + 1).min(self.steps);
        self.meter.update(check, self.steps_done, self.steps);
    }

    /// Ends the display of progress. Gives the number of requests.
    pub(crate) fn finish(self) -> u64 {
        self.meter.finish();
        self.link.requests()
    }

    /// Sends a write that must be done. Gives the entity tag.
    pub(crate) fn done(&mut self, request: &SignedRequest<'_>, what: &str) -> Result<String, Finding> {
        match self.link.send(&mut self.writer, request)? {
            Reply::Done(etag) => Ok(etag),
            Reply::Unmet(status) => {
                Err(Finding::Broken(format!("{what} was answered {status}, though its condition holds")))
            }
            other => Err(other.finding(what)),
        }
    }

    /// Sends a write that must be refused with one of `statuses`.
    pub(crate) fn refused(
        &mut self,
        request: &SignedRequest<'_>,
        statuses: &[u16],
        what: &str,
    ) -> Result<(), Finding> {
        match self.link.send(&mut self.writer, request)? {
            Reply::Unmet(status) if statuses.contains(&status) => Ok(()),
            Reply::Unmet(status) => {
                Err(Finding::Broken(format!("{what} was answered {status}, not one of {statuses:?}")))
            }
            Reply::Done(_) => Err(Finding::Broken(format!("{what} was done: the condition is ignored"))),
            other => Err(other.finding(what)),
        }
    }

    /// Begins an upload with a part of these bytes.
    pub(crate) fn upload(&mut self, key: &str, body: &[u8]) -> Result<PartialUpload, Finding> {
        self.link.upload(&mut self.writer, key, body)
    }

    /// Aborts an upload whose completion was refused, unless the store has dropped it already.
    pub(crate) fn abort(&mut self, key: &str, upload: &PartialUpload) {
        let _ = self.link.send(&mut self.writer, &self.link.abort(key, upload));
    }

    /// Connections for a race.
    pub(crate) fn connect_racers(&self) -> Result<Vec<HttpConnection>, Finding> {
        (0..self.racers).map(|_| self.link.connect()).collect()
    }

    /// Checks that a read shows `bytes` and, unless it is empty, the entity tag.
    pub(crate) fn shows(&mut self, key: &str, bytes: &[u8], etag: &str) -> Result<(), Finding> {
        let (found, tag) = self.link.read(&mut self.reader, key)?;
        expect_content(key, &found, &Some(bytes.to_vec()))?;
        if etag.is_empty() || tag == etag {
            return Ok(());
        }
        Err(Finding::Broken(format!("{key} has the entity tag {tag}, and its writer was told {etag}")))
    }

    /// Checks that a read finds nothing.
    pub(crate) fn shows_nothing(&mut self, key: &str) -> Result<(), Finding> {
        let (found, _) = self.link.read(&mut self.reader, key)?;
        expect_content(key, &found, &None)
    }

    /// Checks that a listing shows at most `most` versions of the key.
    pub(crate) fn lists(&self, key: &str, most: usize) -> Result<(), Finding> {
        let listed = self.link.place.objects(key).map_err(Finding::Unfinished)?;
        let count = listed.iter().filter(|version| version.key == key && !version.delete_marker).count();
        if count <= most {
            return Ok(());
        }
        Err(Finding::Broken(format!(
            "{key} has {count} versions, but only {most} writes were answered as done"
        )))
    }
}

/// Checks the content of a key.
pub(crate) fn expect_content(key: &str, found: &Content, expected: &Content) -> Result<(), Finding> {
    let told = match (found, expected) {
        (found, expected) if found == expected => return Ok(()),
        (None, _) => "shows nothing, though an object was written",
        (_, None) => "shows an object, though none was written or it was deleted",
        _ => "shows other bytes than those of the last write that was answered as done",
    };
    Err(Finding::Broken(format!("a read of {key} {told}")))
}
