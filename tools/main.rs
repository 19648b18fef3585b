//! The tools that look at a data directory from outside. This file alone reads the arguments and the environment.

mod backup;
mod bench;
mod compact;
mod describe;
mod dump;
mod outcome;
mod progress;
mod rebuild;
mod show;
mod stats;
mod undelete;
mod verify;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use outcome::{Failure, Outcome};

const EXIT_STATUS: &str = "\
Exit status:
  0  all is well
  1  something is wrong: the findings tell what
  2  could not look, or wrong arguments";

const VERIFY_HELP: &str = "\
Every header, group and extent is checked against its checksums, and all of them against each other. Nothing is
written. The server must be stopped: to look at the data of one that runs, take a snapshot of its file system.

Examples:
  siltstone-tools verify
      Look at ./siltstone-data.
  siltstone-tools --data-dir /srv/objects verify
  siltstone-tools --data-dir /srv/objects --json verify | jq '.findings[].key'
      The keys of all objects that are damaged.

Exit status:
  0  nothing is wrong; notes tell what is worth knowing
  1  something is damaged: each finding names object, file, offset, and what was expected
  2  could not look: no store there, a server has it open, or wrong arguments";

const DUMP_HELP: &str = "\
Prints the header and every record with its offset and fields. What is damaged is said with its offset and the
reason, and the dump goes on behind it. Files are only read: this is safe beside a running server, which may just be
writing the last record. The contents of objects are checked and not printed.

Examples:
  siltstone-tools dump siltstone-data/meta/0000000000000001.log
  siltstone-tools dump siltstone-data/data/*.segment | grep 'key cats/tom.jpg'
  siltstone-tools --json dump siltstone-data/data/0000000000000001.segment | jq -c 'select(.record == \"damaged\")'
      With --json, every record is one line.

Exit status:
  0  every record is whole
  1  something is damaged
  2  a file could not be read, or wrong arguments";

/// Looks at the data directory of a siltstone server from outside.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_STATUS)]
struct CommandLine {
    /// Directory of all that is stored
    #[arg(
        long,
        value_name = "DIR",
        env = "SILTSTONE_DATA_DIR",
        default_value = "./siltstone-data",
        global = true
    )]
    data_dir: PathBuf,

    /// Write JSON on standard output, for machines
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check that everything in the data directory is as it was written
    #[command(after_help = VERIFY_HELP)]
    Verify,
    /// Copy the data directory to another one, also while a server uses it
    #[command(after_help = backup::BACKUP_HELP)]
    Backup(backup::BackupArguments),
    /// Make a data directory from a backup
    #[command(after_help = backup::RESTORE_HELP)]
    Restore {
        /// The directory that backups were made in
        #[arg(value_name = "BACKUP")]
        from: PathBuf,
    },
    /// Take deletions back, where versions remain
    #[command(after_help = undelete::HELP)]
    Undelete(undelete::Arguments),
    /// Put a load on a running S3 server and say what it does under it
    #[command(after_help = bench::HELP)]
    Bench(bench::Arguments),
    /// Tell what is stored and what space it takes up, also while a server uses it
    #[command(after_help = stats::HELP)]
    Stats(stats::Arguments),
    /// Make the metadata log anew from the segments
    #[command(after_help = rebuild::HELP)]
    Rebuild(rebuild::Arguments),
    /// Make the data directory as small as it can be
    #[command(after_help = compact::HELP)]
    Compact(compact::Arguments),
    /// Print what is in files of the format, also in damaged ones
    #[command(after_help = DUMP_HELP)]
    Dump {
        /// Segments, files of the log, checkpoints
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let line = CommandLine::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match line.command {
        Command::Verify => verify::run(&line.data_dir, line.json, &mut out),
        Command::Backup(arguments) => backup::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Restore { from } => backup::restore(&line.data_dir, &from, line.json, &mut out),
        Command::Undelete(arguments) => undelete::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Bench(arguments) => bench::run(&arguments, line.json, &mut out),
        Command::Stats(arguments) => stats::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Rebuild(arguments) => rebuild::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Compact(arguments) => compact::run(&line.data_dir, &arguments, line.json, &mut out),
        Command::Dump { files } => dump::run(&files, line.json, &mut out),
    };
    let done = done.and_then(|outcome| out.flush().map(|()| outcome).map_err(Failure::Output));
    done.unwrap_or_else(|failure| {
        failure.tell();
        Outcome::CouldNotLook
    })
    .into()
}
