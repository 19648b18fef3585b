//! How far a data directory and the log on the remote are apart.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::Timestamp;
use crate::format::{Entry, Group, Parcel};
use crate::fs::Fs;
use crate::remote::RemoteView;
use crate::store::remote_log::chain::{RemoteLog, newest_epoch, parcel_of};
use crate::store::remote_log::error::ShipError;
use crate::store::remote_log::object::store_of;
use crate::store::ship::own_log::OwnLog;

/// The groups that a directory or the log on the remote has, and the other lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogLag {
    /// Whether the directory has them.
    pub is_here: bool,
    /// Their number.
    pub groups: u64,
    /// Here the bytes of objects that they name, on the remote the parcels' bytes with them.
    pub bytes: u64,
    /// The time from the last group that both have to the last one.
    pub time: Duration,
}

/// Compares the log in a directory with that on the remote from its newest root on. Nothing is
/// written, and a server may be at work; `None` where the remote has no log.
///
/// # Errors
/// Errors of the remote, and of the directory.
pub fn log_lag(remote: &dyn RemoteView, fs: &dyn Fs) -> Result<Option<LogLag>, ShipError> {
    let log = RemoteLog { remote, store: store_of(remote)? };
    let chain = match newest_epoch(&log).and_then(|cut| log.chain(&cut)) {
        Err(ShipError::NoLog) | Ok(None) => return Ok(None),
        found => found?,
    };
    let Some(root) = chain.map(|chain| chain.root) else { return Ok(None) };
    let mut ahead: BTreeMap<u64, u64> = BTreeMap::new();
    for object in log.listed_after(&Parcel::prefix(root.epoch), &Parcel::name(root.epoch, root.after))? {
        if let Some((_, counter)) = parcel_of(&object.name).filter(|(_, counter)| *counter > root.after) {
            *ahead.entry(counter).or_default() += object.length;
        }
    }
    let last = match ahead.last_key_value() {
        Some((counter, _)) => log.head_of_parcel(root.epoch, *counter)?,
        None => None,
    };
    let (sequence, time) =
        last.map_or((root.covered.sequence, root.made), |last| (last.end.sequence, last.time));
    let mut here = OwnEnd { after: sequence, ..OwnEnd::default() };
    let own = OwnLog::open(fs, log.store)?.read(&mut |group| here.learn(&group))?;
    if own >= sequence {
        let lag = LogLag {
            is_here: true,
            groups: own - sequence,
            bytes: here.bytes,
            time: here.time.since(here.shared),
        };
        return Ok(Some(lag));
    }
    let mut bytes = 0;
    for (counter, length) in ahead.iter().rev() {
        let head = log.head_of_parcel(root.epoch, *counter)?;
        let Some(head) = head.filter(|head| head.end.sequence > own) else { break };
        bytes += length;
        if head.before.sequence <= own {
            break;
        }
    }
    Ok(Some(LogLag { is_here: false, groups: sequence - own, bytes, time: time.since(here.time) }))
}

/// The end of the log in a directory.
#[derive(Default)]
struct OwnEnd {
    /// The last group of the log on the remote.
    after: u64,
    /// The time of the last group up to that one, and of the last one.
    shared: Timestamp,
    time: Timestamp,
    /// Bytes that the later groups name.
    bytes: u64,
}

impl OwnEnd {
    fn learn(&mut self, group: &Group) {
        self.time = group.header.time;
        if group.header.sequence <= self.after {
            self.shared = self.time;
        } else {
            let extents = group.entries.iter().flat_map(Entry::extents);
            self.bytes += extents.map(|extent| u64::from(extent.take)).sum::<u64>();
        }
    }
}
