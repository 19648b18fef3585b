//! The command line: options and settings, the commands, and the life of the server process.
//!
//! Rooms, bottom first; each names only those before it, and [`error`] and [`announce`]:
//!
//! - [`logs`]: what the process writes
//! - [`config`]: options and settings, and where their values come from
//! - [`users`]: the users file, and the users of a running server
//! - [`run`]: the life of the server process
//! - [`commands`]: the other commands

mod announce;
mod commands;
mod config;
mod error;
mod logs;
mod program_name;
mod run;
mod users;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use commands::api_client;
use commands::clock::{self, ClockCommand};
use commands::config::{self as configuration, ConfigCommand, Configuration};
use commands::health::{self, HealthArguments};
use commands::key::{self, KeyCommand};
use commands::mirror::{self, MirrorCommand};
use commands::pages::{self, CompletionsArguments, ManArguments};
use commands::placement::{self, PlacementArguments};
use commands::policy::{self, GroupCommand, PolicyCommand};
use commands::promote::{self, PromoteArguments};
use commands::quota::{self, QuotaCommand};
use commands::service_account::{self, ServiceAccountCommand};
use commands::user::{self, UserCommand};
use commands::webhook::{self, WebhookCommand};
use config::config_file;
pub(crate) use config::environment::Environment;
use config::keys::AdministratorKeys;
use config::layers::{is_set, with_layers};
use config::notes::Notes;
use config::old_names;
use config::options::ServerOptions;
use config::sections::Sections;
use config::server::{self, ServerArguments};
use config::shown::ShownOption;
pub(crate) use error::CliError;
use logs::logging::{self, LogLevel};
pub(crate) use program_name::ProgramName;
pub(crate) use run::allocator::restart_configured;
use run::data_dir;
use run::key_ring::KeysFile;
use run::serve;
use run::server_secrets::ServerSecrets;
use run::service_manager::ServiceManager;
use run::standby::{self, Promoted};
use users::users_file::UsersFile;

const MORE_HELP: &str = "\
Examples:
  siltstone
      Serve ./siltstone-data on 127.0.0.1:9000; the first start creates an administrator and shows its keys on the terminal.
  siltstone --data-dir /srv/objects --listen 0.0.0.0:9000
  siltstone --config /etc/siltstone.toml --log-level warn
  siltstone server /srv/objects --address :9000
      The same in the form of MinIO's command and with its defaults: all addresses, us-east-1; more in siltstone server --help.
  siltstone standby --config siltstone.toml --ship sync --takeover-after 30s
      The one command for two hosts with one remote, at each of their starts: write where this directory is the newest, else follow the
      writer and take over when it is gone. The same as --standby true; siltstone promote takes over at once.
  siltstone health
      Ask the server of this host whether a put would succeed now; exit status 0 or 1.
  siltstone user add camera --actions PutObject --resources 'pictures/incoming/*'
      Create a user in ./siltstone-data/users.toml and show its keys; more in siltstone user --help.

Environment:
  SILTSTONE_ACCESS_KEY, SILTSTONE_SECRET_KEY
      Keys of the user `admin`, in place of those in the users file. Set both or neither.
  SILTSTONE_ACCESS_KEY_FILE, SILTSTONE_SECRET_KEY_FILE
      Files that hold the keys instead, one key in each.
  SILTSTONE_REMOTE_ACCESS_KEY, SILTSTONE_REMOTE_SECRET_KEY
      Keys for the remote, where the section [remote] of the configuration file has none.
  NOTIFY_SOCKET
      Set by systemd for services of Type=notify: the socket that is told when connections are accepted.

Signals:
  SIGTERM, SIGINT  finish running requests, then exit
  SIGHUP           read the users file, the key files, the keys of encrypted objects, the secrets of webhooks, the token of the metrics, the certificate and its
                   key again, and reopen the access log and the audit log; a broken file is reported and changes nothing

Exit status:
  0  ended by a signal
  1  could not start or continue, or a command failed
  2  wrong arguments, environment or configuration file
  3  with --standby: another host has taken over, and the next start follows it";

/// An S3-style object store for small hosts.
#[derive(Debug, Parser)]
#[command(version, after_help = MORE_HELP)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    command: Option<CliCommand>,

    /// File with options in TOML, named as the flags with `_` for `-`: data_dir = "/srv/objects"
    #[arg(long, value_name = "FILE", env = "SILTSTONE_CONFIG", global = true)]
    config: Option<PathBuf>,

    #[command(flatten)]
    options: ServerOptions,

    /// Remarks for the log.
    #[arg(skip)]
    notes: Notes,

    /// Every option with its origin.
    #[arg(skip)]
    shown: Vec<ShownOption>,
}

#[derive(Debug, Default, Subcommand)]
enum CliCommand {
    /// Serve the objects; the default without a command
    #[default]
    Serve,
    /// Serve the objects of DIR, in the form of MinIO's command and with its defaults
    #[command(after_help = server::EXAMPLES)]
    Server(ServerArguments),
    /// Serve the objects, or follow the host that does and take over from it; as serve --standby
    /// true
    Standby,
    /// Tell the standby that runs in the data directory to take over
    Promote(PromoteArguments),
    /// Ask a server whether a put would succeed now; exit status 0 or 1
    Health(HealthArguments),
    /// Show, compare and restart the mirrors of a running server
    #[command(subcommand, after_help = mirror::EXAMPLES)]
    Mirror(MirrorCommand),
    /// Pin the bytes of a bucket to the disk or to the remote, on a running server
    #[command(after_help = placement::EXAMPLES)]
    Placement(PlacementArguments),
    /// Give objects to other keys of the ring of a running server, and destroy keys
    #[command(subcommand, after_help = key::EXAMPLES)]
    Key(KeyCommand),
    /// Show the time of a running server, or state that it is right
    #[command(subcommand, after_help = clock::EXAMPLES)]
    Clock(ClockCommand),
    /// Check the configuration, or show every option and where its value comes from
    #[command(subcommand, after_help = configuration::EXAMPLES)]
    Config(ConfigCommand),
    /// Write the completions of a shell
    #[command(after_help = pages::COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArguments),
    /// Write the man page of the program, or of a command
    #[command(after_help = pages::MAN_EXAMPLES)]
    Man(ManArguments),
    /// Set, show and remove quotas of buckets and owners, on a running server
    #[command(subcommand, after_help = quota::EXAMPLES)]
    Quota(QuotaCommand),
    /// Create, show and remove groups of users, and change who is in them and what they may do
    #[command(subcommand, after_help = policy::GROUP_EXAMPLES)]
    Group(GroupCommand),
    /// Put, show and remove policies, which users, groups and roles have by name
    #[command(subcommand, after_help = policy::POLICY_EXAMPLES)]
    Policy(PolicyCommand),
    /// Make, show and remove service accounts: keys that belong to a user
    #[command(subcommand, after_help = service_account::EXAMPLES)]
    ServiceAccount(ServiceAccountCommand),
    /// Create, show and remove users, rotate their keys, and change what they may do
    #[command(subcommand, after_help = user::EXAMPLES)]
    User(UserCommand),
    /// Show the webhooks of a running server
    #[command(subcommand, after_help = webhook::EXAMPLES)]
    Webhook(WebhookCommand),
}

impl CommandLine {
    /// Whether the server is to be started.
    pub(crate) fn serves(&self) -> bool {
        use CliCommand::{Serve, Server, Standby};
        matches!(self.command, None | Some(Serve | Server(_) | Standby))
    }

    /// Parses the arguments of the process, variables of other servers, and the configuration file.
    /// Ends the process if the arguments are wrong or ask for help.
    ///
    /// # Errors
    /// Errors of the variables and of the configuration file, in words for the operator.
    pub(crate) fn read(arguments: &[OsString], environment: &Environment) -> Result<Self, CliError> {
        let arguments = without_program_name(arguments);
        let matches = matches_of(&arguments);
        let line = Self::from_matches(&matches);
        let mut notes = Notes::default();
        let old_names = old_names::options(environment, |name| is_set(&matches, name), &mut notes)
            .map_err(CliError::usage)?;
        let file = match line.config.as_deref().map(config_file::read) {
            None => Vec::new(),
            // The file is what the command was asked about: it is not used wrongly.
            Some(Err(problem)) if line.looks_at_configuration() => return Err(problem.refused_answer()),
            Some(read) => read?,
        };
        let layers = [old_names, file];
        let merged = matches_of(&with_layers(&matches, &arguments, &layers));
        let shown = ShownOption::all(&matches, &merged, &layers);
        let mut line = Self { notes, shown, ..Self::from_matches(&merged) };
        if let Some(CliCommand::Server(own)) = &mut line.command {
            own.reconcile(&matches)?;
        }
        Ok(line)
    }

    /// Whether the command is one about the configuration.
    fn looks_at_configuration(&self) -> bool {
        matches!(self.command, Some(CliCommand::Config(_)))
    }

    fn from_matches(matches: &ArgMatches) -> Self {
        Self::from_arg_matches(matches).unwrap_or_else(|error| error.exit())
    }
}

/// The arguments without a leading `minio` or `rustfs`, the name of the program in the commands of
/// compose files whose image has this program as its entry point. A directory in place of a command
/// means `server`, as RustFS takes it.
fn without_program_name(arguments: &[OsString]) -> Vec<OsString> {
    let mut arguments = arguments.to_vec();
    if arguments.get(1).is_some_and(|first| first == "minio" || first == "rustfs") {
        arguments.remove(1);
    }
    if arguments.get(1).is_some_and(|first| first.as_encoded_bytes().starts_with(b"/")) {
        arguments.insert(1, "server".into());
    }
    arguments
}

/// What the arguments say. Ends the process if they are wrong or ask for help.
fn matches_of(arguments: &[OsString]) -> ArgMatches {
    // Each option beside each command is for help texts, and takes 4 MiB that the allocator would keep.
    let bare = server::with_defaults(CommandLine::command());
    bare.try_get_matches_from(arguments).unwrap_or_else(|_| command().get_matches_from(arguments))
}

/// The parser with its help texts. Options may precede or follow any command; the help of `user`, `group`, `policy`,
/// `quota`, `mirror`, `key`, `clock` and `webhook` shows only the options that concern it.
pub(crate) fn command() -> clap::Command {
    let mut command = server::with_defaults(CommandLine::command());
    // Global options reach subcommands when these are built.
    command.build();
    command
        .mut_subcommand("user", |user| with_options(user, &user::OPTIONS))
        .mut_subcommand("group", |group| with_options(group, &user::OPTIONS))
        .mut_subcommand("service-account", |account| with_options(account, &user::OPTIONS))
        .mut_subcommand("policy", |policy| with_options(policy, &user::OPTIONS))
        .mut_subcommand("mirror", |mirror| with_options(mirror, &api_client::OPTIONS))
        .mut_subcommand("placement", |placement| with_options(placement, &api_client::OPTIONS))
        .mut_subcommand("webhook", |webhook| with_options(webhook, &api_client::OPTIONS))
        .mut_subcommand("key", |key| with_options(key, &key::OPTIONS))
        .mut_subcommand("clock", |clock| with_options(clock, &api_client::OPTIONS))
        .mut_subcommand("quota", |quota| with_options(quota, &api_client::OPTIONS))
        .mut_subcommand("completions", |pages| with_options(pages, &[]))
        .mut_subcommand("man", |pages| with_options(pages, &[]))
}

/// Hides the options of the server in the help of a command and of its subcommands, except those of
/// `shown`.
fn with_options(command: clap::Command, shown: &[&str]) -> clap::Command {
    hide_others(command, shown).mut_subcommands(|command| {
        hide_others(command, shown).mut_subcommands(|command| hide_others(command, shown))
    })
}

fn hide_others(command: clap::Command, shown: &[&str]) -> clap::Command {
    command.mut_args(|arg| {
        let hidden = arg.is_global_set() && !shown.contains(&arg.get_id().as_str());
        if hidden { arg.hide(true) } else { arg }
    })
}

/// Runs the command.
///
/// # Errors
/// The server could not start or continue, or the command failed: a message for the operator and
/// the exit status.
pub(crate) fn run(line: CommandLine, environment: &Environment) -> Result<(), CliError> {
    let CommandLine { command, mut options, mut notes, config, shown } = line;
    let command = command.unwrap_or_default();
    // What is written for people and shells does not depend on the options of a server.
    let needs_sound_options =
        !matches!(command, CliCommand::Completions(_) | CliCommand::Man(_) | CliCommand::Config(_));
    if let CliCommand::Server(arguments) = &command {
        arguments.apply(&mut options, &mut notes)?;
    }
    let serves = matches!(command, CliCommand::Serve | CliCommand::Server(_) | CliCommand::Standby);
    let problem = data_dir::choose_side(&mut options, serves)?;
    if matches!(command, CliCommand::Server(_)) {
        data_dir::take_bucket_directories(&mut options, &mut notes)?;
    }
    let mut log_level = options.logs.log_level;
    if needs_sound_options {
        options.check()?;
    } else {
        log_level = log_level.min(LogLevel::Warn);
    }
    logging::start(log_level, options.logs.log_format);
    if let Some(problem) = problem {
        log::warn!("{problem}");
    }
    let is_standby = matches!(command, CliCommand::Standby);
    match command {
        CliCommand::Serve | CliCommand::Server(_) | CliCommand::Standby => {
            options.remote.standby |= is_standby;
            let sections = Sections::read(config.as_deref(), environment)?;
            let manager = ServiceManager::of_process(environment);
            if options.remote.standby {
                follow_or_serve(&options, sections, environment, notes, &manager)
            } else {
                serve(&options, sections, environment, notes, &manager, None)
            }
        }
        CliCommand::Promote(arguments) => promote::run(&arguments, &options),
        CliCommand::Health(arguments) => health::run(&arguments, &options),
        CliCommand::Mirror(command) => mirror::command(&command, &options, environment, config.as_deref()),
        CliCommand::Placement(arguments) => placement::run(&arguments, &options, environment),
        CliCommand::Key(command) => key::run(&command, &options, environment),
        CliCommand::Clock(command) => clock::run(&command, &options, environment),
        CliCommand::Quota(command) => quota::run(&command, &options, environment),
        CliCommand::Group(command) => policy::run_group(&command, &options, environment),
        CliCommand::Policy(command) => policy::run_policy(&command, &options, environment),
        CliCommand::ServiceAccount(command) => service_account::run(&command, &options, environment),
        CliCommand::User(command) => user::run(&command, &options, environment),
        CliCommand::Webhook(command) => webhook::command(&command, &options, environment),
        CliCommand::Completions(arguments) => pages::completions(&arguments, self::command()),
        CliCommand::Man(arguments) => pages::man(&arguments, self::command()),
        CliCommand::Config(command) => {
            let file = config.as_deref();
            let configuration = Configuration { options: &options, environment, file, shown: &shown };
            configuration::run(&command, &configuration)
        }
    }
}

/// Serves at once where no other host writes; otherwise after this one has taken over.
fn follow_or_serve(
    options: &ServerOptions,
    sections: Sections,
    environment: &Environment,
    notes: Notes,
    manager: &ServiceManager,
) -> Result<(), CliError> {
    if options.store.read_only {
        return Err(CliError::usage(
            "--read-only: a standby writes to its directory; start the server without --standby",
        ));
    }
    let secrets = secrets(options, environment, &mut Notes::default())?;
    match standby::follow(options, &sections, secrets, manager)? {
        None => Ok(()),
        promoted => serve(options, sections, environment, notes, manager, promoted),
    }
}

fn serve(
    options: &ServerOptions,
    sections: Sections,
    environment: &Environment,
    mut notes: Notes,
    manager: &ServiceManager,
    promoted: Option<Promoted>,
) -> Result<(), CliError> {
    let secrets = secrets(options, environment, &mut notes)?;
    old_names::note_unused(environment, &mut notes);
    notes.log();
    data_dir::check_mirror(options, &sections)?;
    serve::serve(options, sections, secrets, manager, promoted)
}

/// The files with the secrets, and the administrator of the environment.
///
/// # Errors
/// The keys of the environment are wrong.
fn secrets(
    options: &ServerOptions,
    environment: &Environment,
    notes: &mut Notes,
) -> Result<ServerSecrets, CliError> {
    let keys = AdministratorKeys::from_environment(environment, notes).map_err(CliError::usage)?;
    keys.iter().try_for_each(|keys| keys.read().map(drop)).map_err(CliError::usage)?;
    let users = UsersFile::of(options, keys);
    Ok(ServerSecrets { users, keys: KeysFile::of(options, environment) })
}
