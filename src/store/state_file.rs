//! Small files of `meta/` that are written whole (data-format.md, sections 12 and 13). None of them is needed to tell what the
//! store holds: where one is lost, work is done again.

use std::io;

use crate::format::{Decoded, FileKind};
use crate::fs::Fs;
use crate::log::{Damage, LogError, write_atomically};

/// A file that is kept.
#[derive(Clone, Copy)]
pub(super) struct StateFile {
    /// Its path.
    pub(super) path: &'static str,
    /// What is in it.
    pub(super) what: &'static str,
    /// It is never longer, in bytes.
    pub(super) max_bytes: u64,
}

impl StateFile {
    /// What was kept; `None` where nothing was.
    ///
    /// # Errors
    /// Damage, when it is not what was written; of the disk.
    pub(super) fn load<T>(
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
            return Err(self.damage(format!("it has {len} bytes, more than are ever written")).into());
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

    /// Keeps `bytes`. Durable on return; after a crash before it, what was kept last is still there.
    ///
    /// # Errors
    /// Of the disk. What was kept last is still there, and nothing beside it.
    pub(super) fn save(&self, fs: &dyn Fs, bytes: &[u8]) -> Result<(), LogError> {
        write_atomically(fs, self.path, FileKind::Log.dir(), |file| Ok(file.write_all_at(bytes, 0)?))?;
        Ok(())
    }

    fn damage(&self, what: String) -> Damage {
        Damage::new(self.path, 0, what)
    }
}
