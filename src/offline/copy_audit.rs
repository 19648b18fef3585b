//! The copies of segments on a remote without a log, compared with those that a data directory
//! names.

use std::collections::BTreeMap;

use super::remote_audit::RemoteAudit;
use crate::format::{CopyPhase, RemoteCopy};
use crate::fs::{Fs, ReadOnlyFs};
use crate::offline::stats::load;
use crate::remote::{RemoteObject, RemoteView};
use crate::store::open::loader::store_id;
use crate::store::remote_log::chain::RemoteLog;
use crate::store::remote_log::error::ShipError;
use crate::store::remote_log::object::store_of;

/// Compares the copies on a remote with those that the data directory of its store names. Nothing
/// is changed; a server may be at work. *Orphans* are copies that the directory does not name:
/// none is deleted, since the directory may be an old copy itself.
///
/// # Errors
/// Errors of the remote and of the directory; [`ShipError::Disk`] for the directory of another
/// store.
pub fn audit_copies(remote: &dyn RemoteView, fs: &dyn Fs) -> Result<RemoteAudit, ShipError> {
    let log = RemoteLog { remote, store: store_of(remote)? };
    let fs = ReadOnlyFs::new(fs);
    let own = store_id(&fs).map_err(|error| ShipError::Disk(error.to_string()))?;
    if own != Some(log.store) {
        return Err(ShipError::Disk("the data directory is not that of the store of the remote".to_owned()));
    }
    // The listing comes first: what a server at work sends or deletes meanwhile is asked for after.
    let listed: BTreeMap<String, u64> =
        log.listed(RemoteCopy::PREFIX)?.into_iter().map(|object| (object.name, object.length)).collect();
    let (index, _) = load(&fs).map_err(|error| ShipError::Disk(error.to_string()))?;
    let mut audit = RemoteAudit { objects: listed.len() as u64, ..RemoteAudit::default() };
    let mut orphans = listed.clone();
    for (segment, copy) in index.remote_copies(None) {
        let name = copy.name(segment);
        orphans.remove(&name);
        if copy.phase != CopyPhase::Remote {
            continue;
        }
        match listed.get(&name) {
            Some(found) if *found == copy.length => {}
            Some(_) => audit.missing.push((name, "it has another length")),
            None if log.exists(&name)? => {}
            None => audit.missing.push((name, "it is not there")),
        }
    }
    for (name, length) in orphans {
        if log.exists(&name)? {
            audit.orphans.push(RemoteObject { name, length, nonce: None, md5: None });
        }
    }
    Ok(audit)
}
