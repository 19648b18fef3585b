//! Tools for a data directory. Only this file reads the arguments and the environment.

mod backup;
mod bench;
mod cas_check;
mod compact;
mod contained;
mod data_dir;
mod describe;
mod disk;
mod doctor;
mod dump;
mod inspect;
mod key;
mod lifecycle;
mod metrics_token;
mod minio;
mod outcome;
#[cfg(test)]
#[path = "package/pages.rs"]
mod pages;
mod progress;
mod rebuild;
mod remote;
mod server_keys;
mod show;
mod stats;
mod store_key;
mod top;
mod transfer;
mod undelete;
mod verify;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use data_dir::DataDir;
use outcome::{Failure, Outcome};
use siltstone::base::forbid_core_files;
use transfer::{export, import};

const EXIT_STATUS: &str = "\
Exit status:
  0  success
  1  damage or failures, which the output names
  2  the command could not run, or wrong arguments";

const VERIFY_HELP: &str = "\
Checks every header, group and extent against its checksums, and all of them against each other. Nothing is written.
The server must be stopped. To check the data of a running server, take a snapshot of its file system.

Examples:
  siltstone-tools verify
      Check ./siltstone-data.
  siltstone-tools --data-dir /srv/objects verify
  siltstone-tools --data-dir /srv/objects --json verify | jq '.findings[].key'
      The keys of all damaged objects.

Exit status:
  0  no damage; notes may name oddities
  1  damage: each finding names object, file, offset and expected content
  2  not checked: no store there, a server has it open, or wrong arguments";

const DUMP_HELP: &str = "\
Prints the header and every record with its offset and fields. Damage is printed with its offset and the reason, and
the dump continues after it. Files are only read, which is safe while a server runs; the server may be writing the last
record. The contents of objects are checked and not printed.

Examples:
  siltstone-tools dump siltstone-data/meta/0000000000000001.log
  siltstone-tools dump siltstone-data/data/*.segment | grep 'key cats/tom.jpg'
  siltstone-tools --json dump siltstone-data/data/0000000000000001.segment | jq -c 'select(.record == \"damaged\")'
      With --json, every record is one line.

Exit status:
  0  every record is good
  1  damage
  2  a file could not be read, or wrong arguments";

/// Tools for the data directory of a siltstone server
#[derive(Debug, Parser)]
#[command(name = "siltstone-tools", version, after_help = EXIT_STATUS)]
struct CommandLine {
    #[command(flatten)]
    data_dir: DataDir,

    /// Print JSON
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check every byte of the data directory
    #[command(after_help = VERIFY_HELP)]
    Verify,
    /// Copy the data directory to another one, also while a server uses it
    #[command(after_help = backup::BACKUP_HELP)]
    Backup(backup::BackupArguments),
    /// Restore a data directory from a backup
    #[command(after_help = backup::RESTORE_HELP)]
    Restore {
        /// Directory of the backup
        #[arg(value_name = "BACKUP")]
        from: PathBuf,
    },
    /// Undo deletions in a bucket with versions
    #[command(after_help = undelete::HELP)]
    Undelete(undelete::Arguments),
    /// Measure a running S3 server under load
    #[command(after_help = bench::HELP)]
    Bench(bench::Arguments),
    /// Show the work of a running server in the terminal
    #[command(after_help = top::HELP)]
    Top(top::Arguments),
    /// Check whether an S3 store decides conditional writes atomically
    #[command(after_help = cas_check::HELP)]
    CasCheck(cas_check::Arguments),
    /// Print what is stored and its use of space, also while a server runs
    #[command(after_help = stats::HELP)]
    Stats(stats::Arguments),
    /// Tell what the lifecycle rules of a bucket would take, also while a server runs
    #[command(after_help = lifecycle::HELP)]
    Lifecycle(lifecycle::Arguments),
    /// Rebuild the metadata log from the segments
    #[command(after_help = rebuild::HELP)]
    Rebuild(rebuild::Arguments),
    /// Make, show and retire the keys of encrypted objects
    #[command(after_help = key::HELP)]
    Key(key::Arguments),
    /// Probe and prepare a bucket on another S3 server for this store
    #[command(after_help = remote::HELP)]
    Remote(remote::Arguments),
    /// Copy a directory, a bucket of another S3 server, or the drives of MinIO, into buckets
    #[command(after_help = import::HELP)]
    Import(import::Arguments),
    /// Tell what is on the drives of a MinIO server
    #[command(after_help = inspect::HELP)]
    Inspect(inspect::Arguments),
    /// Copy a bucket into a directory, or into a bucket of another S3 server
    #[command(after_help = export::HELP)]
    Export(export::Arguments),
    /// Examine a server, its host and its data directory for faults
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::Arguments),
    /// Encrypt the data directory
    #[command(after_help = store_key::ENCRYPT_HELP)]
    Encrypt,
    /// Keep the log and small objects of a store on a fast disk, or move them back
    #[command(after_help = disk::HELP)]
    Disk(disk::Arguments),
    /// Make a key file, and show and change what opens an encrypted data directory
    #[command(after_help = store_key::HELP)]
    StoreKey(store_key::Arguments),
    /// Compact the data directory to its smallest size
    #[command(after_help = compact::HELP)]
    Compact(compact::Arguments),
    /// Print the records of data files, also of damaged ones
    #[command(after_help = DUMP_HELP)]
    Dump {
        /// Segments, log files, checkpoints
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// A variable of the environment.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn main() -> ExitCode {
    let mut line = CommandLine::parse();
    line.data_dir.choose_side();
    // Before the first secret is read.
    if let Err(error) = forbid_core_files() {
        eprintln!("siltstone-tools: a crash may write keys to a core file: {error}");
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match line.command {
        Command::Verify => verify::run(&line.data_dir, line.json, &mut out),
        Command::Backup(arguments) => backup::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Restore { from } => backup::restore(&line.data_dir, &from, line.json, &mut out),
        Command::Undelete(arguments) => undelete::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Bench(arguments) => bench::run(&arguments, line.json, &mut out),
        Command::Top(arguments) => top::run(&arguments, line.json, &mut out),
        Command::CasCheck(arguments) => cas_check::run(&arguments, line.json, &mut out),
        Command::Stats(arguments) => stats::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Lifecycle(arguments) => lifecycle::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Rebuild(arguments) => rebuild::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Key(arguments) => key::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Remote(arguments) => remote::run(&line.data_dir, &arguments, line.json, &variable, &mut out),
        Command::Import(arguments) => import::run(&line.data_dir, &arguments, line.json, &variable, &mut out),
        Command::Inspect(arguments) => inspect::run(&arguments, line.json, &mut out),
        Command::Export(arguments) => export::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Doctor(arguments) => doctor::run(&line.data_dir, &arguments, line.json, &variable, &mut out),
        Command::Compact(arguments) => compact::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Disk(arguments) => disk::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Encrypt => store_key::encrypt(&line.data_dir, line.json, &mut out),
        Command::StoreKey(arguments) => store_key::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Dump { files } => dump::run(&line.data_dir, &files, line.json, &mut out),
    };
    let done = done.and_then(|outcome| out.flush().map(|()| outcome).map_err(Failure::Output));
    done.unwrap_or_else(|failure| {
        failure.report();
        Outcome::Failed
    })
    .into()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    #[ignore = "writes files for tools/package/build.sh"]
    fn write_pages() {
        crate::pages::write(crate::CommandLine::command()).unwrap();
    }
}
