//! The `policy` and `group` commands, which ask a running server, or else edit the users file.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use siltstone::service::{PolicyChange, PolicyHolder, UserChange};

use super::api_client::{ApiClient, ServerAddress};
use super::user;
use super::user_api;
use crate::cli::announce;
use crate::cli::config::environment::Environment;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;
use crate::cli::users::policies_text;
use crate::cli::users::users_file::UsersFile;

/// Bytes of a policy that is read from a file.
const POLICY_READ_MAX_BYTES: u64 = 64 << 10;

/// Shown below the help of `policy`.
pub(crate) const POLICY_EXAMPLES: &str = "\
Examples:
  siltstone policy put lake-readers lake-readers.json
  siltstone policy put lake-readers - < lake-readers.json
  siltstone policy list
  siltstone policy show readwrite
  siltstone policy remove lake-readers
  siltstone user attach ann lake-readers
  siltstone group attach analysts lake-readers

The ready-made policies consoleAdmin, diagnostics, readonly, readwrite and writeonly mean what MinIO's do.
The commands find the server and its keys as those of siltstone user.";

/// Shown below the help of `group`.
pub(crate) const GROUP_EXAMPLES: &str = "\
Examples:
  siltstone group add analysts
  siltstone group join analysts ann
  siltstone group attach analysts readonly
  siltstone group list
  siltstone group leave analysts ann
  siltstone group detach analysts readonly
  siltstone group remove analysts

The commands find the server and its keys as those of siltstone user.";

/// A `policy` command.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Create a policy, or replace its document
    Put {
        /// Name of the policy
        name: String,
        /// File with the document, in the JSON of IAM; `-` for the standard input
        file: PathBuf,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Show the names of the policies
    List {
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Show the document of a policy
    Show {
        /// Name of the policy
        name: String,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Remove a policy that no user, group or role has
    Remove {
        /// Name of the policy
        name: String,
        #[command(flatten)]
        server: ServerAddress,
    },
}

/// A `group` command.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Create a group
    Add {
        /// Name of the group
        name: String,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Show the groups: name, members and policies
    List {
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Add a user to a group
    Join {
        /// Name of the group
        name: String,
        /// Name of the user
        user: String,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Remove a user from a group
    Leave {
        /// Name of the group
        name: String,
        /// Name of the user
        user: String,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Attach a policy to a group
    Attach {
        /// Name of the group
        name: String,
        /// Name of the policy
        policy: String,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Detach a policy from a group
    Detach {
        /// Name of the group
        name: String,
        /// Name of the policy
        policy: String,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Remove a group; its users stay
    Remove {
        /// Name of the group
        name: String,
        #[command(flatten)]
        server: ServerAddress,
    },
}

/// Runs a `policy` command.
///
/// # Errors
/// A message for the operator; nothing is changed, unless the message says otherwise.
pub(crate) fn run_policy(
    command: &PolicyCommand,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    match command {
        PolicyCommand::Put { name, file, server } => {
            let change = PolicyChange::PutPolicy { name: name.clone(), document: document(file)? };
            user::run_change(&UserChange::Policies(change), server, options, environment)
        }
        PolicyCommand::Remove { name, server } => {
            let change = PolicyChange::DeletePolicy { name: name.clone() };
            user::run_change(&UserChange::Policies(change), server, options, environment)
        }
        PolicyCommand::List { server } => {
            let policies = entries("policies", policies_text::policies, server, options, environment)?;
            show(policies.iter().map(|policy| {
                let kind = if policy.ready_made { "ready-made" } else { "-" };
                format!("{}\t{kind}", policy.name)
            }))
        }
        PolicyCommand::Show { name, server } => {
            let found = entries("policies", policies_text::policies, server, options, environment)?
                .into_iter()
                .find(|policy| policy.name == *name);
            let found = found.ok_or_else(|| CliError::refused(format!("there is no policy `{name}`")))?;
            show(std::iter::once(found.document))
        }
    }
}

/// Runs a `group` command.
///
/// # Errors
/// As [`run_policy`].
pub(crate) fn run_group(
    command: &GroupCommand,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    let (change, server) = match command {
        GroupCommand::List { server } => {
            let groups = entries("groups", policies_text::groups, server, options, environment)?;
            return show(groups.iter().map(|group| {
                format!("{}\t{}\t{}", group.name, group.members.join(","), group.policies.join(", "))
            }));
        }
        GroupCommand::Add { name, server } => (PolicyChange::CreateGroup { name: name.clone() }, server),
        GroupCommand::Remove { name, server } => (PolicyChange::DeleteGroup { name: name.clone() }, server),
        GroupCommand::Join { name, user, server } => {
            (PolicyChange::AddMember { group: name.clone(), user: user.clone() }, server)
        }
        GroupCommand::Leave { name, user, server } => {
            (PolicyChange::RemoveMember { group: name.clone(), user: user.clone() }, server)
        }
        GroupCommand::Attach { name, policy, server } => {
            (PolicyChange::Attach { to: PolicyHolder::Group(name.clone()), policy: policy.clone() }, server)
        }
        GroupCommand::Detach { name, policy, server } => {
            (PolicyChange::Detach { from: PolicyHolder::Group(name.clone()), policy: policy.clone() }, server)
        }
    };
    user::run_change(&UserChange::Policies(change), server, options, environment)
}

/// What the running server lists as `kind`, or else what `read` finds in the users file.
fn entries<T: serde::de::DeserializeOwned>(
    kind: &str,
    read: fn(&str) -> Result<Vec<T>, String>,
    server: &ServerAddress,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<Vec<T>, CliError> {
    match ApiClient::find(server, options, environment)? {
        Some(server) => user_api::list_of(server, kind),
        None => {
            let file = UsersFile::of(options, None);
            file.text().and_then(|text| read(&text)).map_err(CliError::refused)
        }
    }
}

fn show(lines: impl Iterator<Item = String>) -> Result<(), CliError> {
    announce::lines(lines).map_err(|e| CliError::refused(format!("cannot show the answer: {e}")))
}

/// The document in a file, or in the standard input.
pub(super) fn document(path: &Path) -> Result<String, CliError> {
    let mut text = String::new();
    let read = match path == Path::new("-") {
        true => std::io::stdin().lock().take(POLICY_READ_MAX_BYTES).read_to_string(&mut text),
        false => std::fs::File::open(path)
            .and_then(|file| file.take(POLICY_READ_MAX_BYTES).read_to_string(&mut text)),
    };
    read.map_err(|error| CliError::refused(format!("{}: {error}", path.display())))?;
    Ok(text.trim_end().to_owned())
}
