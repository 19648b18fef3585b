//! The `service-account` commands, which ask a running server, or else edit the users file.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use siltstone::base::{Clock as _, SystemClock, Timestamp};
use siltstone::service::{NewServiceAccount, ServiceAccountEntry, UserChange};

use super::api_client::{ApiClient, ServerAddress};
use super::policy::document;
use super::user;
use super::user_api;
use crate::cli::announce;
use crate::cli::config::environment::Environment;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;
use crate::cli::users::service_accounts_text;
use crate::cli::users::users_file::UsersFile;

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  siltstone service-account add ann ann-ci --policy one-bucket.json --expires 90days
  siltstone service-account add ann ann-reports --policy readonly
  siltstone service-account list ann
  siltstone service-account remove ann ann-ci

An account may do what its user may at that moment, cut by its policy. Users make and remove their own with their keys in
SILTSTONE_ACCESS_KEY and SILTSTONE_SECRET_KEY. The commands find the server and its keys as those of siltstone user.";

/// The end of keys: a time, or how long from now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpiryTime(Timestamp);

impl FromStr for ExpiryTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let span = humantime::parse_duration(text).ok().map(|span| SystemClock.now().plus(span));
        let time = span.or_else(|| Timestamp::parse_iso8601(text));
        time.map(Self).ok_or_else(|| "write 90days, or 2026-12-31T00:00:00Z".to_owned())
    }
}

/// A `service-account` command.
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceAccountCommand {
    /// Make keys that belong to a user, and show them, once, as lines for a shell
    #[command(after_help = EXAMPLES)]
    Add {
        #[command(flatten)]
        new: NewAccountArguments,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Show the service accounts of a user: names, access keys, ends and policies
    List {
        /// Name of the user
        user: String,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Remove a service account of a user
    Remove {
        /// Name of the user
        user: String,
        /// Name of the account
        name: String,
        #[command(flatten)]
        server: ServerAddress,
    },
}

/// A new service account.
#[derive(Debug, Args)]
pub(crate) struct NewAccountArguments {
    /// Name of the user
    user: String,
    /// Name of the account, which no other has
    name: String,
    /// What narrows it: the name of a policy, or a file with a document; `-` for the standard input
    #[arg(long, value_name = "NAME|FILE")]
    policy: Option<String>,
    /// When its keys end: a time, or how long from now
    #[arg(long, value_name = "TIME")]
    expires: Option<ExpiryTime>,
}

impl NewAccountArguments {
    fn change(&self) -> Result<UserChange, CliError> {
        let policy = match &self.policy {
            Some(policy) if policy == "-" || PathBuf::from(policy).is_file() => {
                Some(document(policy.as_ref())?)
            }
            policy => policy.clone(),
        };
        let expires = self.expires.map(|ExpiryTime(time)| time.to_iso8601());
        let account = NewServiceAccount { name: self.name.clone(), policy, expires };
        Ok(UserChange::CreateServiceAccount { user: self.user.clone(), account })
    }
}

/// Runs a command at a running server, or else on the users file.
///
/// # Errors
/// A message for the operator; nothing is changed, unless the message says otherwise.
pub(crate) fn run(
    command: &ServiceAccountCommand,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    match command {
        ServiceAccountCommand::Add { new, server } => {
            user::run_change(&new.change()?, server, options, environment)
        }
        ServiceAccountCommand::Remove { user, name, server } => {
            let change = UserChange::DeleteServiceAccount { user: user.clone(), account: name.clone() };
            user::run_change(&change, server, options, environment)
        }
        ServiceAccountCommand::List { user, server } => {
            let accounts = match ApiClient::find(server, options, environment)? {
                Some(server) => user_api::service_accounts(server, user)?,
                None => {
                    let text = UsersFile::of(options, None).text();
                    let found = text.and_then(|text| service_accounts_text::of_user(&text, user));
                    found.map_err(CliError::refused)?
                }
            };
            announce::lines(accounts.iter().map(line))
                .map_err(|e| CliError::refused(format!("cannot show the answer: {e}")))
        }
    }
}

/// The line of an account: name, access key, end and policies, separated by tabs.
fn line(account: &ServiceAccountEntry) -> String {
    let expires = account.expires.as_deref().unwrap_or("-");
    let policies = account.policies.as_ref().map_or_else(|| "-".to_owned(), |it| it.join(", "));
    format!("{}\t{}\t{expires}\t{policies}", account.name, account.access_key)
}
