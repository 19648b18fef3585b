//! The file in which the scrub keeps what it knows (data-format.md, section 12).

use std::io;

use crate::base::limits::SCRUB_FILE_MAX_BYTES;
use crate::format::{FileKind, SCRUB, ScrubState, StoreId, unfinished};
use crate::fs::Fs;
use crate::log::{Damage, LogError};

/// What was kept; `None` where nothing was.
///
/// # Errors
/// Damage, when it is not what was written.
pub(in crate::store) fn load(fs: &dyn Fs, store: &StoreId) -> Result<Option<ScrubState>, LogError> {
    let file = match fs.open_read(SCRUB) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let len = file.len()?;
    if len > SCRUB_FILE_MAX_BYTES {
        return Err(Damage::new(SCRUB, 0, format!("it has {len} bytes, more than are ever written")).into());
    }
    let mut bytes = vec![0; len as usize];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(Damage::new(SCRUB, 0, format!("it cannot be read: {error}")).into());
        }
        read => read?,
    }
    let state = ScrubState::decode(store, &bytes);
    state.map(Some).map_err(|error| Damage::new(SCRUB, 0, format!("the state of the scrub: {error}")).into())
}

/// Keeps `state`. Durable on return; after a crash before it, what was kept last is still there.
pub(super) fn save(fs: &dyn Fs, store: &StoreId, state: &ScrubState) -> Result<(), LogError> {
    let aside = unfinished(SCRUB);
    match fs.remove(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = fs.create(&aside)?;
    file.write_all_at(&state.encode(store), 0)?;
    file.sync_data()?;
    fs.rename(&aside, SCRUB)?;
    Ok(fs.sync_dir(FileKind::Log.dir())?)
}
