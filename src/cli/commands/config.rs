//! The commands `config`, which look at the configuration without a server.

use std::path::Path;

use clap::Subcommand;

use crate::cli::announce;
use crate::cli::config::config_file;
use crate::cli::config::environment::Environment;
use crate::cli::config::keys::AdministratorKeys;
use crate::cli::config::notes::Notes;
use crate::cli::config::options::ServerOptions;
use crate::cli::config::sections::Sections;
use crate::cli::config::shown::{self, ShownOption};
use crate::cli::error::CliError;
use crate::cli::run::disk_hook::DiskHook;
use crate::cli::run::key_ring::KeysFile;
use crate::cli::run::memory::MemoryPlan;
use crate::cli::run::metrics_token::MetricsTokenFile;
use crate::cli::users::users_file::UsersFile;

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  siltstone config check --config /etc/siltstone.toml
      Reads the file, the variables and the files that they name as a start would, and starts nothing; exit status 1 where a start
      would be refused.
  siltstone config show --config /etc/siltstone.toml
      Every option with its value and where that comes from, as a configuration file; secrets are left out.

Both go by the defaults of siltstone serve.";

/// A `config` command.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the configuration file, the variables and the files that they name
    Check,
    /// Show every option with its value and where that comes from; no secrets
    Show,
}

/// What the commands look at.
pub(crate) struct Configuration<'c> {
    pub(crate) options: &'c ServerOptions,
    pub(crate) environment: &'c Environment,
    /// The configuration file.
    pub(crate) file: Option<&'c Path>,
    /// The options with their origins.
    pub(crate) shown: &'c [ShownOption],
}

/// Runs a command.
///
/// # Errors
/// Something is wrong: a line for each problem.
pub(crate) fn run(command: &ConfigCommand, configuration: &Configuration<'_>) -> Result<(), CliError> {
    let lines = match command {
        ConfigCommand::Check => {
            configuration.check()?;
            vec!["the configuration is sound".to_owned()]
        }
        ConfigCommand::Show => configuration.lines()?,
    };
    announce::lines(lines).map_err(|e| CliError::refused(format!("cannot write the answer: {e}")))
}

impl Configuration<'_> {
    /// Reads what a start reads before it opens the store.
    fn check(&self) -> Result<(), CliError> {
        let outcomes = [
            self.options.check(),
            MemoryPlan::make(self.options).map(drop),
            self.options.console.oidc.settings().map(drop),
            self.check_certificate(),
            MetricsTokenFile::open(self.options).map(drop),
            DiskHook::open(self.options).map(drop),
            Sections::read(self.file, self.environment).map(drop),
            self.check_users(),
            KeysFile::of(self.options, self.environment).read().map(drop).map_err(CliError::refused),
        ];
        let mut problems: Vec<_> =
            outcomes.into_iter().filter_map(Result::err).map(|problem| problem.to_string()).collect();
        // One that is found on two ways.
        problems.dedup();
        if problems.is_empty() { Ok(()) } else { Err(CliError::refused(problems.join("\n"))) }
    }

    fn check_certificate(&self) -> Result<(), CliError> {
        let Some(files) = self.options.http.tls_files()? else { return Ok(()) };
        files.read().map(drop).map_err(CliError::refused)
    }

    /// The first start makes the users file.
    fn check_users(&self) -> Result<(), CliError> {
        let keys = AdministratorKeys::from_environment(self.environment, &mut Notes::default());
        let file = UsersFile::of(self.options, keys.map_err(CliError::refused)?);
        if file.is_missing() {
            return Ok(());
        }
        file.read().map(drop).map_err(CliError::refused)
    }

    fn lines(&self) -> Result<Vec<String>, CliError> {
        let mut lines: Vec<_> = self.shown.iter().map(ShownOption::line).collect();
        if let Some(path) = self.file {
            lines.extend(shown::sections(&config_file::text(path)?));
        }
        Ok(lines)
    }
}
