//! Floor 7: the command line, the configuration file, the first start and the life of the process.

mod announce;
mod failure;
mod keys;
mod logging;
mod open_files;
mod options;
mod serve;
mod signals;
mod users_file;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use failure::Failure;
use options::{Options, Settings};
use users_file::UsersFile;

/// Names the administrator's access key.
pub(crate) const ACCESS_KEY_VARIABLE: &str = "SILTSTONE_ACCESS_KEY";
/// Names the administrator's secret key.
pub(crate) const SECRET_KEY_VARIABLE: &str = "SILTSTONE_SECRET_KEY";

const MORE_HELP: &str = "\
Examples:
  siltstone
      Serve ./siltstone-data on 127.0.0.1:9000; the first start makes an administrator and shows its keys.
  siltstone --data-dir /srv/objects --listen 0.0.0.0:9000
  siltstone --config /etc/siltstone.toml --log-level warn

Environment:
  SILTSTONE_ACCESS_KEY, SILTSTONE_SECRET_KEY
      Keys of the user `admin`, whatever the users file says. Set both or neither.

Signals:
  SIGTERM, SIGINT  finish what runs, then exit
  SIGHUP           read the users file again; a broken one is reported and changes nothing

Exit status:
  0  ended by a signal
  1  could not start or go on
  2  wrong arguments, environment or configuration file";

/// An S3-style object store for small hosts.
#[derive(Debug, Parser)]
#[command(version, after_help = MORE_HELP)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,

    /// File with options in TOML, named as the flags with `_` for `-`: data_dir = "/srv/objects"
    #[arg(long, value_name = "FILE", env = "SILTSTONE_CONFIG", global = true)]
    config: Option<PathBuf>,

    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Clone, Copy, Default, Subcommand)]
enum Command {
    /// Serve the objects: what happens without a command, too
    #[default]
    Serve,
}

/// Does what the command line says. `keys` are the values of [`ACCESS_KEY_VARIABLE`] and [`SECRET_KEY_VARIABLE`].
///
/// # Errors
/// Whatever kept the server from starting or going on, in words for the operator and with the exit status.
pub(crate) fn run(line: CommandLine, keys: [Option<OsString>; 2]) -> Result<(), Failure> {
    let Command::Serve = line.command.unwrap_or_default();
    let file = line.config.map_or_else(|| Ok(Options::default()), |path| Options::read(&path))?;
    let settings = Settings::from(line.options.or(file));
    let keys = keys::from_environment(keys)?;
    logging::start(settings.log_level);
    serve::serve(&settings, UsersFile::new(settings.users.clone(), keys))
}
