//! The log in a directory, and the groups that it may have in common with the log on the remote.

use std::collections::BTreeMap;

use crate::format::{FileKind, Group, LogPosition, StoreId};
use crate::fs::Fs;
use crate::log::{LogError, Replay, ReplayStart, list_numbers, open_file};
use crate::store::open::loader::pack_is_good;
use crate::store::remote_log::chain::{RemoteLog, newest_epoch};
use crate::store::remote_log::error::ShipError;

/// Groups of the current log on the remote, by sequence: the ends of adopted logs, and of the
/// parcels after the newest root. With it comes the number of the newest epoch.
pub(crate) fn anchors(log: &RemoteLog<'_>) -> Result<(u64, BTreeMap<u64, u32>), ShipError> {
    let newest = newest_epoch(log)?;
    let mut found = BTreeMap::new();
    let mut cut = Some(newest);
    while let Some(it) = cut {
        found.insert(it.end.sequence, it.end.crc);
        cut = if it.former == 0 { None } else { log.cut(it.former)? };
    }
    if let Some(chain) = log.chain(&newest)? {
        found.insert(chain.root.covered.sequence, chain.root.covered.crc);
        found.extend(log.heads(&chain, None)?.0.into_iter().map(|head| (head.end.sequence, head.end.crc)));
    }
    Ok((newest.epoch, found))
}

/// The log files of a directory.
pub(crate) struct OwnLog<'f> {
    fs: &'f dyn Fs,
    store: StoreId,
    /// The first file.
    number: u64,
    /// The group before it; `None` at the beginning of a log.
    pub(crate) start: Option<LogPosition>,
}

impl<'f> OwnLog<'f> {
    pub(crate) fn open(fs: &'f dyn Fs, store: StoreId) -> Result<Self, ShipError> {
        let numbers = list_numbers(fs, FileKind::Log).map_err(|error| failed(&error.into()))?;
        let number = *numbers.first().ok_or_else(|| ShipError::Disk("there is no store".to_owned()))?;
        let (_, header) =
            open_file(fs, FileKind::Log, number, Some(store)).map_err(|error| failed(&error))?;
        // The file names the group before its first one. So a log whose older files are gone is
        // compared from there on, one group further back.
        let before = LogPosition { sequence: number - 1, crc: header.previous_crc };
        Ok(Self { fs, store, number, start: (number > 1).then_some(before) })
    }

    /// Gives all groups to `visit`. Returns the last sequence.
    pub(crate) fn read(&self, visit: &mut dyn FnMut(Group)) -> Result<u64, ShipError> {
        let replay = Replay {
            fs: self.fs,
            store: self.store,
            start: ReplayStart { covered: self.number - 1, through: 0 },
            pack_is_good: &|pack| pack_is_good(self.fs, self.store, pack),
        };
        let tail = replay.run(&mut |group| {
            visit(group);
            Ok(())
        });
        let tail = tail.map_err(|error| failed(&error))?;
        match tail.damage {
            Some(damage) => Err(ShipError::Disk(damage.to_string())),
            None => Ok(tail.sequence - 1),
        }
    }
}

fn failed(error: &LogError) -> ShipError {
    ShipError::Disk(error.to_string())
}
