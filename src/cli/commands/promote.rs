//! The command `promote`, which tells the standby in a data directory to take over.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use siltstone::format::LOCK;
use siltstone::fs::{Fs as _, OsFs};

use crate::cli::announce;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;
use crate::cli::run::promotion::{PromoteRequest, REFUSAL, REQUEST, WAITING, remove};

/// The longest wait for the standby. It may be in the middle of a large parcel.
const PATIENCE: Duration = Duration::from_secs(60);

/// The arguments of `promote`.
#[derive(Debug, Args)]
pub(crate) struct PromoteArguments {
    /// Take over although the remote does not decide races: no other host writes
    #[arg(long)]
    i_stopped_the_other: bool,
}

/// Tells the standby in the data directory to take over, and waits until it has begun.
///
/// # Errors
/// There is no standby, or it refuses.
pub(crate) fn run(arguments: &PromoteArguments, options: &ServerOptions) -> Result<(), CliError> {
    let dir = &options.start.data_dir;

    if !is_in_use(dir).map_err(|error| failed(dir, &error))? {
        return Err(CliError::refused(format!("no standby runs in {}", dir.display())));
    }
    if !dir.join(WAITING).exists() {
        return Err(CliError::refused(format!("{}: a server runs, and no standby", dir.display())));
    }
    let request = dir.join(REQUEST);
    let refusal = dir.join(REFUSAL);
    remove(&refusal);
    let wanted = PromoteRequest { stopped_the_other: arguments.i_stopped_the_other };
    fs::write(&request, wanted.text()).map_err(|error| failed(dir, &error))?;
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

fn failed(dir: &Path, error: &io::Error) -> CliError {
    CliError::refused(format!("{}: {error}", dir.display()))
}

/// Whether a process uses the directory.
fn is_in_use(dir: &Path) -> io::Result<bool> {
    match OsFs::new(dir).lock(LOCK) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}
