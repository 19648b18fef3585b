//! The groups that a host took after the last one that a later epoch adopted from it. They are in
//! its directory alone.

use std::collections::BTreeMap;

use crate::base::Timestamp;
use crate::format::{ClientId, ClientIds, Entry, Group, LogPosition};
use crate::fs::{Fs, ReadOnlyFs};
use crate::offline::stats::load;
use crate::remote::RemoteView;
use crate::store::remote_log::chain::RemoteLog;
use crate::store::remote_log::error::ShipError;
use crate::store::remote_log::object::mark_of;
use crate::store::ship::own_log::{OwnLog, anchors};

/// How far the log of a directory is that on the remote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Divergence {
    /// The number of the newest epoch.
    pub epoch: u64,
    /// The last group that both have.
    pub shared: u64,
    /// The last group in the directory.
    pub last: u64,
    /// The groups after the last shared one.
    pub groups: u64,
}

/// A change of a key, a bucket or a quota that the log on the remote lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivergentChange {
    /// Its group.
    pub sequence: u64,
    /// The time of the group.
    pub time: Timestamp,
    /// Its kind.
    pub kind: DivergentKind,
    /// The name of the bucket, or its id where the bucket is gone.
    pub bucket: String,
    /// The key; empty for a change of the bucket itself.
    pub key: Vec<u8>,
    /// The version or the upload as clients see it.
    pub version: Option<ClientId>,
    /// The bytes of the version or the part; 0 for others.
    pub size: u64,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DivergentKind {
    /// A new version.
    Put,
    /// A new delete marker.
    Marker,
    /// A version was deleted.
    Delete,
    /// A version got other controls, tags or another place.
    Amend,
    /// A part of a multipart upload.
    Part,
    /// A multipart upload began or ended.
    Upload,
    /// The bucket was made or deleted, or got another configuration.
    Bucket,
    /// The owner got another quota.
    OwnerQuota,
}

impl DivergentKind {
    /// Its name for operators.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Marker => "delete marker",
            Self::Delete => "delete",
            Self::Amend => "amend",
            Self::Part => "part",
            Self::Upload => "upload",
            Self::Bucket => "bucket",
            Self::OwnerQuota => "quota of",
        }
    }
}

/// Gives the changes in the directory that the log on the remote lacks to `visit`, in order.
/// Nothing is written. Where no other host has taken over, these are those that were not shipped.
///
/// # Errors
/// [`ShipError::OtherLog`] where the directory has no group in common with what the remote still
/// has of its log.
pub fn divergent_changes(
    remote: &dyn RemoteView,
    fs: &dyn Fs,
    visit: &mut dyn FnMut(DivergentChange),
) -> Result<Divergence, ShipError> {
    let log = RemoteLog { remote, store: mark_of(remote)?.store };
    let (epoch, anchors) = anchors(&log)?;
    let own = OwnLog::open(fs, log.store)?;
    let is_anchor = |at: LogPosition| anchors.get(&at.sequence) == Some(&at.crc);
    let mut shared = own.start.filter(|start| is_anchor(*start));
    let last = own.read(&mut |group| {
        let at = LogPosition { sequence: group.header.sequence, crc: group.crc };
        shared = Some(at).filter(|at| is_anchor(*at)).or(shared);
    })?;
    let shared = shared.ok_or(ShipError::OtherLog)?.sequence;
    let (index, _) = load(&ReadOnlyFs::new(fs)).map_err(|error| ShipError::Disk(error.to_string()))?;
    let names = index.buckets().map(|record| (record.id, record.name.clone())).collect();
    let mut changes = Changes { ids: ClientIds::new(&log.store), names };
    let mut groups = 0;
    own.read(&mut |group| {
        if group.header.sequence > shared {
            groups += 1;
            changes.of_group(&group, visit);
        }
    })?;
    Ok(Divergence { epoch, shared, last, groups })
}

/// The changes of groups, with the names that buckets have.
struct Changes {
    ids: ClientIds,
    names: BTreeMap<u64, String>,
}

impl Changes {
    fn of_group(&mut self, group: &Group, visit: &mut dyn FnMut(DivergentChange)) {
        for entry in &group.entries {
            if let Entry::BucketPut(record) = entry {
                self.names.insert(record.id, record.name.clone());
            }
            if let Some((kind, version, size)) = self.of_entry(entry) {
                let sequence = group.header.sequence;
                let time = group.header.time;
                let bucket = self.holder(entry);
                let key = entry.bucket_and_key().map_or(Vec::new(), |(_, key)| key.to_vec());
                visit(DivergentChange { sequence, time, kind, bucket, key, version, size });
            }
        }
    }

    /// The name of the bucket of a change, or of the owner.
    fn holder(&self, entry: &Entry) -> String {
        let id = match entry {
            Entry::OwnerQuota { owner, .. } => return owner.clone(),
            Entry::BucketPut(record) => record.id,
            Entry::BucketDelete { id } => *id,
            Entry::BucketConfiguration { bucket, .. } => *bucket,
            other => other.bucket_and_key().map_or(0, |(bucket, _)| bucket),
        };
        self.names.get(&id).cloned().unwrap_or_else(|| format!("{id:016x}"))
    }

    fn of_entry(&self, entry: &Entry) -> Option<(DivergentKind, Option<ClientId>, u64)> {
        Some(match entry {
            Entry::VersionPut { record, .. } if record.delete_marker => {
                (DivergentKind::Marker, Some(self.ids.of_version(record.id)), 0)
            }
            Entry::VersionPut { record, .. } => {
                (DivergentKind::Put, Some(self.ids.of_version(record.id)), record.size)
            }
            Entry::VersionAmend { record, .. } => {
                (DivergentKind::Amend, Some(self.ids.of_version(record.id)), record.size)
            }
            Entry::VersionDelete { version: id, .. } => {
                (DivergentKind::Delete, Some(self.ids.of_version(*id)), 0)
            }
            Entry::PartPut { upload: id, record, .. } => {
                (DivergentKind::Part, Some(self.ids.of_upload(*id)), record.size)
            }
            Entry::UploadPut { record, .. } => {
                (DivergentKind::Upload, Some(self.ids.of_upload(record.id)), 0)
            }
            Entry::UploadDelete { upload: id, .. } => {
                (DivergentKind::Upload, Some(self.ids.of_upload(*id)), 0)
            }
            Entry::BucketPut(_) | Entry::BucketDelete { .. } | Entry::BucketConfiguration { .. } => {
                (DivergentKind::Bucket, None, 0)
            }
            Entry::OwnerQuota { .. } => (DivergentKind::OwnerQuota, None, 0),
            Entry::RemoteSegment { .. }
            | Entry::Follower { .. }
            | Entry::FollowerNote { .. }
            | Entry::Cause(_)
            | Entry::NullDeletion
            | Entry::Origin(_)
            | Entry::CheckpointEnd(_) => return None,
        })
    }
}
