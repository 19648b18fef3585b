//! A file of lines that grows at its end and can be rotated by renaming: the access log and the
//! audit log.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Write, stderr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use log::{info, warn};

/// The file, or standard error.
pub(crate) struct LineFile {
    /// The name in messages.
    name: &'static str,
    /// `None` for standard error.
    path: Option<PathBuf>,
    state: Mutex<LineEnd>,
}

struct LineEnd {
    file: Option<Arc<File>>,
    /// Whether a write failed, perhaps within a line.
    torn: bool,
}

impl LineFile {
    /// Opens the file at `path` for appending; creates it if missing. `-` is standard error. `name`
    /// is its name in messages.
    ///
    /// # Errors
    /// In words for the operator.
    pub(crate) fn open(name: &'static str, path: &Path) -> Result<Self, String> {
        let path = (path != Path::new("-")).then(|| path.to_owned());
        let file = path.as_deref().map(|path| append_to(name, path)).transpose()?.map(Arc::new);
        Ok(Self { name, path, state: Mutex::new(LineEnd { file, torn: false }) })
    }

    /// Opens the file again after it was renamed. On an error the old file stays in use.
    pub(crate) fn reopen(&self) {
        let Some(path) = &self.path else { return };
        let name = self.name;
        match append_to(name, path) {
            Ok(file) => {
                *self.lock() = LineEnd { file: Some(Arc::new(file)), torn: false };
                info!("reopened the {name}");
            }
            Err(problem) => warn!("the {name} continues in the old file: {problem}"),
        }
    }

    /// Writes whole lines in one call, so that several writers' do not mix. After a failure
    /// they begin on a line of their own.
    ///
    /// # Errors
    /// Errors of the write; a part of the lines may be written.
    pub(crate) fn append(&self, lines: &str) -> io::Result<()> {
        self.write(lines).map(drop)
    }

    /// As [`LineFile::append`]. The lines are durable on return.
    ///
    /// # Errors
    /// Errors of the write and the sync.
    pub(crate) fn append_durably(&self, lines: &str) -> io::Result<()> {
        // The sync is outside of the lock, so that lines of other requests can be written
        // meanwhile.
        self.write(lines)?.map_or(Ok(()), |file| file.sync_data())
    }

    fn write(&self, lines: &str) -> io::Result<Option<Arc<File>>> {
        let mut state = self.lock();
        let begun = if std::mem::replace(&mut state.torn, true) {
            Cow::Owned(format!("\n{lines}"))
        } else {
            lines.into()
        };
        match &state.file {
            Some(file) => (&**file).write_all(begun.as_bytes())?,
            None => stderr().lock().write_all(begun.as_bytes())?,
        }
        state.torn = false;
        Ok(state.file.clone())
    }

    /// Held while lines are written. `torn` is set before, so that a panic in between is as an
    /// error.
    fn lock(&self) -> MutexGuard<'_, LineEnd> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn append_to(name: &str, path: &Path) -> Result<File, String> {
    let opened = OpenOptions::new().append(true).create(true).mode(0o640).open(path);
    let file = opened.map_err(|e| format!("cannot open the {name} {}: {e}", path.display()))?;
    // The entry of a new file in its directory; a file system without such syncs has the lines all
    // the same.
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
    Ok(file)
}
