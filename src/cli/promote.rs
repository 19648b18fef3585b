//! The command `promote`, which tells the standby in a data directory to take over: by a file
//! there, which the standby removes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use log::warn;
use siltstone::format::LOCK;
use siltstone::fs::{Fs as _, OsFs};

use super::CliError;
use super::announce;
use super::options::ServerOptions;

/// The file that says that a standby waits for requests, the one with a request, and the one with a
/// refusal.
const WAITING: &str = "promote.waiting";
const REQUEST: &str = "promote";
const REFUSAL: &str = "promote.refused";
/// The content of a request.
const PLAIN: &str = "promote\n";
const OTHER_STOPPED: &str = "promote, the other host is stopped\n";
/// The longest wait for the standby. It may be in the middle of a large parcel.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a standby cannot take over that has never found a log.
pub(crate) const WAITS_FOR_LOG: &str = "the standby waits for a first log: start the host that has the objects with --ship, and there is nothing to take over before";

/// The arguments of `promote`.
#[derive(Debug, Args)]
pub(crate) struct PromoteArguments {
    /// Take over although the remote does not decide races: no other host writes
    #[arg(long)]
    i_stopped_the_other: bool,
}

/// A request to take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PromoteRequest {
    /// Whether the operator rules out another writer.
    pub(crate) stopped_the_other: bool,
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

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warn!("{} cannot be removed: {error}", path.display());
        }
        _ => {}
    }
}

/// Tells the standby in the data directory to take over, and waits until it has begun.
///
/// # Errors
/// There is no standby, or it refuses.
pub(crate) fn run(arguments: &PromoteArguments, options: &ServerOptions) -> Result<(), CliError> {
    let dir = &options.data_dir;
    let failed = |error: io::Error| CliError::refused(format!("{}: {error}", dir.display()));
    if !is_in_use(dir).map_err(failed)? {
        return Err(CliError::refused(format!("no standby runs in {}", dir.display())));
    }
    if !dir.join(WAITING).exists() {
        return Err(CliError::refused(format!("{}: a server runs, and no standby", dir.display())));
    }
    let request = dir.join(REQUEST);
    let refusal = dir.join(REFUSAL);
    remove(&refusal);
    let text = if arguments.i_stopped_the_other { OTHER_STOPPED } else { PLAIN };
    fs::write(&request, text).map_err(failed)?;
    let until = Instant::now() + PATIENCE;
    while request.exists() {
        if Instant::now() >= until {
            remove(&request);
            return Err(CliError::refused("the standby does not answer: see its log"));
        }
        thread::sleep(Duration::from_millis(50));
    }
    // A refusal is written right after the request is taken.
    thread::sleep(Duration::from_millis(200));
    match fs::read_to_string(&refusal) {
        Ok(why) => {
            remove(&refusal);
            Err(CliError::refused(why))
        }
        Err(_) => announce::lines(["the standby takes over: see its log".to_owned()])
            .map_err(|e| CliError::refused(format!("cannot write the answer: {e}"))),
    }
}

/// Whether a process uses the directory.
fn is_in_use(dir: &Path) -> io::Result<bool> {
    match OsFs::new(dir).lock(LOCK) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
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
