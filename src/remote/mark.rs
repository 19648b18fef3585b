//! The mark of a remote, which says whose objects are there.

use std::time::Duration;

use super::{RemoteError, RemoteView};
use crate::format::RemoteMark;

/// Reads the mark of a remote, by one request; `None` where there is none (data-format.md, section
/// 16).
///
/// # Errors
/// [`RemoteError::Wrong`] where the object is no mark; others where the remote does not answer.
pub fn read_mark(remote: &dyn RemoteView, within: Duration) -> Result<Option<RemoteMark>, RemoteError> {
    let part = match remote.get_part(RemoteMark::NAME, 0..RemoteMark::MAX_BYTES, within) {
        Err(RemoteError::Missing) => return Ok(None),
        read => read?,
    };
    if part.object_length > RemoteMark::MAX_BYTES {
        return Err(RemoteError::Wrong("the object is longer than a mark".to_owned()));
    }
    RemoteMark::decode(&part.bytes).map(Some).map_err(|why| RemoteError::Wrong(why.to_string()))
}
