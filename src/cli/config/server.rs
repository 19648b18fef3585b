//! The command `server`: MinIO's form of the command line, with MinIO's defaults, so that a compose
//! file needs no other change than its image.

use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

use siltstone::console::ConsoleAccess;
use siltstone::s3::ObjectOwnership;

use super::layers::is_set;
use super::notes::Notes;
use super::options::ServerOptions;
use crate::cli::error::CliError;

/// The options whose defaults differ from `serve`'s, each with its default here. All
/// addresses and port 9000 (MinIO, `server --help`); clients of MinIO speak S3's dialect; it
/// accepts signatures for any region unless its own is named, and lets pages of every origin use
/// it (`MINIO_API_CORS_ALLOW_ORIGIN`).
const DEFAULTS: [(&str, &str); 5] = [
    ("listen", "[::]:9000"),
    ("dialect", "aws"),
    ("region", "us-east-1,*"),
    ("cors_allow_origin", "*"),
    ("object_ownership", ObjectOwnership::ObjectWriter.as_str()),
];

/// The variables that stand for arguments.
pub(crate) const VARIABLES: [&str; 3] = ["MINIO_VOLUMES", "MINIO_ADDRESS", "MINIO_CONSOLE_ADDRESS"];

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  siltstone server /data --console-address :9001
  siltstone server /data --address 127.0.0.1:9000 --log-level warn

The command takes all options of `siltstone serve`. It differs from it in these defaults: all addresses, port 9000, the aws
dialect, the region us-east-1 with signatures for any, CORS for every origin, and ACLs in effect. A leading `minio` is ignored.";

/// The arguments of `server` in MinIO's form. They set options of [`ServerOptions`].
#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// Directory of all stored data; created if missing [default: that of --data-dir]
    #[arg(value_name = "DIR", env = "MINIO_VOLUMES")]
    directories: Vec<String>,

    /// Address to accept connections on; without an IP, all addresses of this host
    #[arg(long, value_name = "[IP]:PORT", env = "MINIO_ADDRESS", value_parser = address)]
    address: Option<SocketAddr>,

    /// Address to serve the console on; without an IP, all addresses of this host [default: that
    /// of --address]
    #[arg(long, value_name = "[IP]:PORT", env = "MINIO_CONSOLE_ADDRESS", value_parser = address)]
    console_address: Option<SocketAddr>,

    /// Accepted for the sake of MinIO's command; see --log-level
    #[arg(long, hide = true)]
    quiet: bool,

    /// Accepted for the sake of MinIO's command, where it has no effect either
    #[arg(long, hide = true)]
    compat: bool,

    /// Whether the variable names several directories, with spaces between them.
    #[arg(skip)]
    is_list: bool,
}

impl ServerArguments {
    /// Drops arguments that come from variables with MinIO's names where the option has a value
    /// from its flag or from its own variable. `matches` are the parsed arguments of the process.
    ///
    /// # Errors
    /// The command line sets an option in both forms.
    pub(crate) fn reconcile(&mut self, matches: &ArgMatches) -> Result<(), CliError> {
        if is_overruled(matches, "directories", "data_dir")? {
            self.directories.clear();
        }
        let by_variable = source(matches, "directories") == Some(ValueSource::EnvVariable);
        self.is_list = by_variable && self.directories.iter().any(|one| one.contains(' '));
        if is_overruled(matches, "address", "listen")? {
            self.address = None;
        }
        if is_overruled(matches, "console_address", "console_listen")? {
            self.console_address = None;
        }
        Ok(())
    }

    /// Sets the options that these arguments name.
    ///
    /// # Errors
    /// The arguments name several directories or hosts.
    pub(crate) fn apply(&self, options: &mut ServerOptions, notes: &mut Notes) -> Result<(), CliError> {
        if let Some(directory) = self.directory()? {
            options.start.data_dir = directory;
        }
        if let Some(address) = self.address {
            options.start.listen = address;
        }
        match self.console_address {
            Some(address) if options.console.access() == ConsoleAccess::Off => {
                notes.info(format!("--console-address {address}: nothing listens there, by --console off"));
            }
            Some(address) => options.console.console_listen = Some(address),
            None => {}
        }
        Ok(())
    }

    /// The one directory, if it is named.
    fn directory(&self) -> Result<Option<PathBuf>, CliError> {
        match self.directories.as_slice() {
            [] => Ok(None),
            [one] if is_directory(one) && !self.is_list => Ok(Some(one.into())),
            several => Err(CliError::usage(format!(
                "server {}: name one directory of this host. Siltstone keeps one copy of all data in one directory and forms no \
                 cluster; for several disks put ZFS, Btrfs, md or LVM below that directory, or name two that get the same bytes \
                 with --mirror A=B (see the guide, planning and disks)",
                several.join(" ")
            ))),
        }
    }
}

/// The parser of all commands, whose `server` has options with the defaults of this form: the options
/// that a command has of its own are not those of all.
pub(crate) fn with_defaults(command: clap::Command) -> clap::Command {
    let of_all = command.get_arguments();
    let own: Vec<_> = of_all
        .filter_map(|arg| {
            let (_, default) = DEFAULTS.iter().find(|(option, _)| arg.get_id() == option)?;
            Some(arg.clone().default_value(*default))
        })
        .collect();
    command.mut_subcommand("server", |server| server.args(own))
}

/// Whether the value of `argument`, of this command, gives way to `option`'s.
fn is_overruled(matches: &ArgMatches, argument: &str, option: &str) -> Result<bool, CliError> {
    match (source(matches, argument), matches.value_source(option)) {
        (Some(ValueSource::CommandLine), Some(ValueSource::CommandLine)) => {
            let flag = option.replace('_', "-");
            Err(CliError::usage(format!(
                "server: DIR is --data-dir, --address is --listen and --console-address is --console-listen; write one of them, \
                 without --{flag}"
            )))
        }
        (Some(ValueSource::CommandLine), _) => Ok(false),
        _ => Ok(is_set(matches, option)),
    }
}

/// Whether `text` is the path of one directory: neither a pattern of several (`/disk{1...4}`) nor
/// a host.
fn is_directory(text: &str) -> bool {
    let is_pattern = text.contains("...") && text.contains('{') && text.contains('}');
    let is_host = text.starts_with("http://") || text.starts_with("https://");
    !is_pattern && !is_host
}

/// The source of an argument of this command.
fn source(matches: &ArgMatches, argument: &str) -> Option<ValueSource> {
    matches.subcommand().and_then(|(_, own)| own.value_source(argument))
}

/// Parses `IP:PORT`, `HOST:PORT` or `:PORT`.
///
/// # Errors
/// A message for the operator.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix(':') {
        let port = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
        return Ok(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
    }
    let mut found = text.to_socket_addrs().map_err(|e| format!("{e} (write :9000 or 127.0.0.1:9000)"))?;
    found.next().ok_or_else(|| "the host has no address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_an_ip_stands_for_all() {
        for (text, meant) in [
            (":9000", "[::]:9000"),
            ("0.0.0.0:1", "0.0.0.0:1"),
            ("[::1]:2", "[::1]:2"),
            ("127.0.0.1:0", "127.0.0.1:0"),
        ] {
            assert_eq!(address(text), Ok(meant.parse().unwrap()));
        }
        for wrong in ["", ":", ":port", "9000", "127.0.0.1", ":65536"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
