//! Floor 7: the command line, the configuration file, the first start and the life of the process.

mod access_log;
mod allocator;
mod announce;
mod failure;
mod housekeeping;
mod keys;
mod logging;
mod memory;
mod open_files;
mod options;
mod serve;
mod signals;
mod tls_files;
mod user;
mod users_file;
mod users_text;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub(crate) use allocator::settle as settle_allocator;
pub(crate) use failure::Failure;
use keys::AdministratorKeys;
pub(crate) use keys::KEY_VARIABLES;
use options::{Options, Settings};
use user::UserCommand;
use users_file::UsersFile;

const MORE_HELP: &str = "\
Examples:
  siltstone
      Serve ./siltstone-data on 127.0.0.1:9000; the first start makes an administrator and shows its keys on the terminal.
  siltstone --data-dir /srv/objects --listen 0.0.0.0:9000
  siltstone --config /etc/siltstone.toml --log-level warn
  siltstone user add camera --actions PutObject --resources 'pictures/incoming/*'
      Make a user in ./siltstone-data/users.toml and show its keys; more in siltstone user --help.

Environment:
  SILTSTONE_ACCESS_KEY, SILTSTONE_SECRET_KEY
      Keys of the user `admin`, whatever the users file says. Set both or neither.
  SILTSTONE_ACCESS_KEY_FILE, SILTSTONE_SECRET_KEY_FILE
      Files that hold them instead, each alone in its file.

Signals:
  SIGTERM, SIGINT  finish what runs, then exit
  SIGHUP           read the users file, the files of keys, the certificate and its key again, and open the access log anew; what is broken is
                   reported and changes nothing

Exit status:
  0  ended by a signal
  1  could not start, go on or do what was asked
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

#[derive(Debug, Default, Subcommand)]
enum Command {
    /// Serve the objects: what happens without a command, too
    #[default]
    Serve,
    /// Make, show and remove users, and give them new keys
    #[command(subcommand, after_help = user::EXAMPLES)]
    User(UserCommand),
}

impl CommandLine {
    /// Whether the server is to be started.
    pub(crate) fn serves(&self) -> bool {
        matches!(self.command, None | Some(Command::Serve))
    }

    /// Reads the arguments of the process; ends it where they are wrong or ask for help.
    pub(crate) fn read() -> Self {
        Self::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit())
    }
}

/// What clap goes by. Options stand before or behind any command; the help of `user` shows those that concern it.
fn command() -> clap::Command {
    let mut command = CommandLine::command();
    // Options reach the commands below when they are built, and not before.
    command.build();
    command
        .mut_subcommand("user", |user| without_server_options(user).mut_subcommands(without_server_options))
}

fn without_server_options(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| {
        let of_server = arg.is_global_set() && !user::OPTIONS.contains(&arg.get_id().as_str());
        if of_server { arg.hide(true) } else { arg }
    })
}

/// Does what the command line says. `keys` are the values of [`KEY_VARIABLES`].
///
/// # Errors
/// Whatever kept the server from starting or going on, or the command from being done, in words for the operator and with the exit status.
pub(crate) fn run(line: CommandLine, keys: [Option<OsString>; 4]) -> Result<(), Failure> {
    let file = line.config.map_or_else(|| Ok(Options::default()), |path| Options::read(&path))?;
    let settings = Settings::from(line.options.or(file));
    settings.check()?;
    logging::start(settings.log_level, settings.log_format);
    match line.command.unwrap_or_default() {
        Command::Serve => {
            let keys = AdministratorKeys::from_environment(keys).map_err(Failure::usage)?;
            keys.iter().try_for_each(|keys| keys.read().map(drop)).map_err(Failure::usage)?;
            serve::serve(&settings, UsersFile::new(settings.users.clone(), keys))
        }
        Command::User(command) => user::run(&command, &UsersFile::new(settings.users, None)),
    }
}
