//! A standby in the directory of a writer, as after a loss of power: its host goes on, or follows
//! the one that has taken over.
//!
//! The table in `writer_dir` has the cases. Nothing is changed in the directory before its host
//! takes over, or another one shows that it lives: by a heartbeat, or by a cut.

use std::io;
use std::sync::Arc;

use super::{Standby, StandbyStep, locate};
use crate::format::{Cut, FileKind, Parcel};
use crate::log::list_numbers;
use crate::store::Progress;
use crate::store::open::loader::store_id;
use crate::store::remote_log::chain::{Chain, RemoteLog};
use crate::store::remote_log::error::{ShipError, disk};
use crate::store::ship::aside::set_aside;
use crate::store::ship::epoch::return_point;
use crate::store::ship::log_copy::{LogCopy, follows, mark};
use crate::store::ship::writer_dir::{LogEnd, WriterDir};
use crate::store::tier::epoch::{check_no_other_tier, made_newest_claim};

/// Why a directory is neither a standby's nor becomes one.
const GOES_BACK: &str = "was restored to an earlier time: start the server there once without --standby, which gives up the log on the \
                         remote after that time";
const OTHER_STORE: &str = "holds another store than the remote. Choose an empty one";

/// The directory of a writer that has the whole log on the remote.
pub(super) struct WatchedDir {
    pub(super) dir: WriterDir,
    /// The end of the log on the remote.
    pub(super) end: LogEnd,
    /// Whether the directory has made the newest claim, so that no other host writes.
    pub(super) is_newest: bool,
}

impl Standby {
    /// Whether the directory is a writer's, and not a standby's.
    ///
    /// # Errors
    /// Of the disk.
    pub fn is_of_writer(&self) -> io::Result<bool> {
        let fs = self.fs.as_ref();
        Ok(!follows(fs)? && !list_numbers(fs, FileKind::Log)?.is_empty())
    }

    /// Whether the directory, a writer's, has all groups on the remote, and is left as it is
    /// until it is clear whether another host writes.
    pub fn watches(&self) -> bool {
        self.watched.is_some()
    }

    /// Whether no other host can write, so that this one goes on at once.
    pub fn is_newest(&self) -> bool {
        self.watched.as_ref().is_some_and(|watched| watched.is_newest)
    }

    /// Reads the directory, or fills it from the newest root. A writer's is left as it is
    /// while it may go on.
    pub(super) fn read_or_watch(
        &mut self,
        log: RemoteLog<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<StandbyStep, ShipError> {
        if self.watched.is_some() {
            let is_due = self.pace.is_heartbeat_due(self.clock.now());
            return if is_due { self.watch(log, progress) } else { Ok(StandbyStep::default()) };
        }
        let newest = self.newest_cut(log)?;
        if self.is_of_writer().map_err(disk)? {
            self.look_at_writer_dir(log, newest, progress)?;
        } else {
            self.read_or_fill(log, &newest.ok_or(ShipError::NoLog)?, progress)?;
        }
        Ok(StandbyStep { more: true, heartbeat: true })
    }

    /// Finds out how the directory of a writer and the log on the remote are related.
    fn look_at_writer_dir(
        &mut self,
        log: RemoteLog<'_>,
        newest: Option<Cut>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ShipError> {
        let fs = Arc::clone(&self.fs);
        let point = return_point(fs.as_ref()).map_err(|error| ShipError::Disk(error.to_string()))?;
        if point.is_some() {
            return Err(ShipError::Occupied(GOES_BACK));
        }
        let store = store_id(fs.as_ref()).map_err(|error| ShipError::Disk(error.to_string()))?;
        if store.is_some_and(|store| store != log.store) {
            return Err(ShipError::Occupied(OTHER_STORE));
        }
        let dir = WriterDir::read(fs.as_ref(), log.store)?;
        let end = LogEnd::find(&log, self.newest_claim + 1, newest.as_ref())?;
        if let Some(newest) = newest.filter(|_| !dir.has(end.end)) {
            return self.leave_writer_dir(log, &newest, &dir, progress);
        }
        let is_newest = made_newest_claim(fs.as_ref(), log, self.newest_claim)?;
        // Only a later heartbeat proves that another host writes.
        self.heartbeat = None;
        self.read_heartbeat_of(log, end.epoch)?;
        self.watched = Some(WatchedDir { dir, end, is_newest });
        Ok(())
    }

    /// Looks whether another host writes. Then the directory of this one is a standby's.
    pub(super) fn watch(
        &mut self,
        log: RemoteLog<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<StandbyStep, ShipError> {
        // Before the cut is looked for, which learns of newer claims.
        let claim = self.newest_claim;
        let newest = self.newest_cut(log)?;
        let Some(before) = self.watched.as_ref().map(|watched| watched.end) else {
            return Ok(StandbyStep::default());
        };
        let is_longer = newest.is_some_and(|cut| cut.epoch != before.epoch)
            || log.exists(&Parcel::name(before.epoch, before.last + 1))?;
        let end = match is_longer {
            true => LogEnd::find(&log, self.newest_claim + 1, newest.as_ref())?,
            false => before,
        };
        let is_alive = self.read_heartbeat_of(log, before.epoch)?;
        let now = self.clock.now();
        self.pace.looked_for_heartbeat(now, self.heartbeat.map(|heartbeat| heartbeat.every), is_alive);
        self.tell_wish(now);
        let Some(mut watched) = self.watched.take() else { return Ok(StandbyStep::default()) };
        let writes = is_alive || end.epoch != before.epoch || !watched.dir.has(end.end);
        if let Some(newest) = newest.filter(|_| writes) {
            self.leave_writer_dir(log, &newest, &watched.dir, progress)?;
            return Ok(StandbyStep { more: true, heartbeat: true });
        }
        watched.end = end;
        watched.is_newest &= self.newest_claim == claim;
        self.watched = Some(watched);
        // What this host had on its way may arrive late, and who claims is about to write.
        Ok(StandbyStep { more: false, heartbeat: end != before || self.newest_claim > claim })
    }

    /// Lets the directory of a writer follow the log that a cut adopts and continues.
    fn leave_writer_dir(
        &mut self,
        log: RemoteLog<'_>,
        newest: &Cut,
        dir: &WriterDir,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ShipError> {
        let fs = Arc::clone(&self.fs);
        let chain = log.chain(newest)?.ok_or(ShipError::NoLog)?;
        let copy = LogCopy::open(fs.as_ref()).map_err(|error| ShipError::Disk(error.to_string()))?;
        if let Some(copy) = copy
            && let Some(place) = locate(log, fs.as_ref(), &chain, copy.end)?
        {
            // Marked first: a crash in between leaves a standby's directory, whose log is read
            // again. Without the mark it would be a writer's with other bytes than its host wrote.
            mark(fs.as_ref())?;
            copy.erase_tail()?;
            self.copy = Some((copy, place));
            return self.show_readers(log);
        }
        self.replace_writer_dir(log, newest, &chain, dir, progress)
    }

    /// Fills the directory of a writer from the root of a chain. What the remote lacks is set aside
    /// before.
    fn replace_writer_dir(
        &mut self,
        log: RemoteLog<'_>,
        newest: &Cut,
        chain: &Chain,
        dir: &WriterDir,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ShipError> {
        // A directory that is marked was set aside.
        let is_whole = !follows(self.fs.as_ref()).map_err(disk)?;
        if is_whole && let Some(segments) = dir.lacking(self.fs.as_ref(), log, newest)? {
            let aside = set_aside(self.fs.as_ref(), dir.end, &segments)?;
            log::warn!(
                "another host has taken over without some groups of this directory: they are set aside in {aside}, and                  siltstone-tools remote divergent lists them"
            );
        }
        self.fill(log, chain, progress)
    }

    /// As [`Standby::replace_writer_dir`], by the log that a claimed epoch adopts.
    pub(super) fn replace_watched(
        &mut self,
        log: RemoteLog<'_>,
        cut: &Cut,
        watched: &WatchedDir,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ShipError> {
        let chain = log.chain(cut)?.ok_or(ShipError::NoLog)?;
        self.replace_writer_dir(log, cut, &chain, &watched.dir, progress)
    }

    /// Fails where a store without a log in another directory has made the newest claim: the log of
    /// a writer would take its objects.
    pub(super) fn check_no_other_tier(&self, log: RemoteLog<'_>) -> Result<(), ShipError> {
        if self.watched.is_none() {
            return Ok(());
        }
        match check_no_other_tier(self.fs.as_ref(), log) {
            Ok(None) => Ok(()),
            Ok(Some(refusal)) => {
                Err(ShipError::Waiting(format!("the remote is not that of this directory: {refusal}")))
            }
            Err(error) => Err(ShipError::Waiting(error.to_string())),
        }
    }
}
