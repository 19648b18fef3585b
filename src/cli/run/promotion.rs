//! The files in a data directory by which its standby is told to take over. The standby removes
//! them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use log::warn;

/// The file that says that a standby waits for requests, the one with a request, and the one with a
/// refusal.
pub(crate) const WAITING: &str = "promote.waiting";
pub(crate) const REQUEST: &str = "promote";
pub(crate) const REFUSAL: &str = "promote.refused";
/// The content of a request.
const PLAIN: &str = "promote\n";
const OTHER_STOPPED: &str = "promote, the other host is stopped\n";

/// Why a standby cannot take over that has never found a log.
pub(crate) const WAITS_FOR_LOG: &str = "the standby waits for a first log: start the host that has the objects with --ship, and there is nothing to take over before";

/// A request to take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PromoteRequest {
    /// Whether the operator rules out another writer.
    pub(crate) stopped_the_other: bool,
}

impl PromoteRequest {
    /// The content of its file.
    pub(crate) fn text(self) -> &'static str {
        if self.stopped_the_other { OTHER_STOPPED } else { PLAIN }
    }
}

/// The standby's end of requests.
pub(crate) struct Promotion(PathBuf);

impl Promotion {
    /// That of a data directory.
    pub(crate) fn at(data_dir: &Path) -> Self {
        Self(data_dir.to_owned())
    }

    /// Takes requests from now on. Those of an earlier time are forgotten.
    pub(crate) fn open(&self) {
        self.close();
        if let Err(error) = fs::write(self.0.join(WAITING), "") {
            warn!("siltstone promote will not find this standby: {error}");
        }
    }

    /// Takes no more requests.
    pub(crate) fn close(&self) {
        for name in [WAITING, REQUEST, REFUSAL] {
            remove(&self.0.join(name));
        }
    }

    /// Takes a request.
    pub(crate) fn take(&self) -> Option<PromoteRequest> {
        let path = self.0.join(REQUEST);
        let text = fs::read_to_string(&path).ok()?;
        // The name of a file appears with its content, but its content may be that of another
        // program.
        let request = match text.as_str() {
            PLAIN => Some(PromoteRequest { stopped_the_other: false }),
            OTHER_STOPPED => Some(PromoteRequest { stopped_the_other: true }),
            _ => None,
        };
        if request.is_some() {
            remove(&path);
        }
        request
    }

    /// Refuses a request that was taken.
    pub(crate) fn refuse(&self, why: &str) {
        warn!("this host is not promoted: {why}");
        if let Err(error) = fs::write(self.0.join(REFUSAL), why) {
            warn!("the refusal cannot be told: {error}");
        }
    }
}

/// Removes a file, if there is one.
pub(crate) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warn!("{} cannot be removed: {error}", path.display());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once_and_an_old_one_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let promotion = Promotion::at(dir.path());
        assert_eq!(promotion.take(), None);
        for (text, stopped_the_other) in [(PLAIN, false), (OTHER_STOPPED, true)] {
            fs::write(dir.path().join(REQUEST), text).unwrap();
            assert_eq!(promotion.take(), Some(PromoteRequest { stopped_the_other }));
            assert_eq!(promotion.take(), None);
        }
        fs::write(dir.path().join(REQUEST), "prom").unwrap();
        assert_eq!(promotion.take(), None, "the rest is still being written");
        promotion.open();
        assert!(!dir.path().join(REQUEST).exists() && dir.path().join(WAITING).exists());
        promotion.close();
        assert!(!dir.path().join(WAITING).exists());
    }
}
