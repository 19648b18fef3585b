//! Small files of `meta/` that are replaced as a whole (data-format.md, sections 12 and 13). No
//! object depends on them: if one is lost, only work is repeated.

use std::io;

use crate::format::{Decoded, FileKind};
use crate::fs::Fs;
use crate::log::{Damage, LogError, write_atomically};

/// A state file.
#[derive(Clone, Copy)]
pub(in crate::store) struct StateFile {
    /// Its path.
    pub(in crate::store) path: &'static str,
    /// A description of its content, for damage reports.
    pub(in crate::store) what: &'static str,
    /// The maximum length in bytes.
    pub(in crate::store) max_bytes: u64,
}

impl StateFile {
    /// The saved state; `None` if there is none.
    ///
    /// # Errors
    /// Damage, if the file is not as written; errors of the disk.
    pub(in crate::store) fn load<T>(
        &self,
        fs: &dyn Fs,
        decode: impl FnOnce(&[u8]) -> Decoded<T>,
    ) -> Result<Option<T>, LogError> {
        let file = match fs.open_read(self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let len = file.len()?;
        if len > self.max_bytes {
            return Err(self.damage(format!("it has {len} bytes, more than the maximum")).into());
        }
        let mut bytes = vec![0; len as usize];
        match file.read_exact_at(&mut bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(self.damage(format!("it cannot be read: {error}")).into());
            }
            read => read?,
        }
        let decoded = decode(&bytes);
        decoded.map(Some).map_err(|error| self.damage(format!("{}: {error}", self.what)).into())
    }

    /// Saves `bytes`. Durable on return; after an earlier crash the previous state is still there.
    ///
    /// # Errors
    /// Errors of the disk. The previous state is still there.
    pub(in crate::store) fn save(&self, fs: &dyn Fs, bytes: &[u8]) -> Result<(), LogError> {
        write_atomically(fs, self.path, FileKind::Log.dir(), |file| Ok(file.write_all_at(bytes, 0)?))?;
        Ok(())
    }

    fn damage(&self, what: String) -> Damage {
        Damage::new(self.path, 0, what)
    }
}
