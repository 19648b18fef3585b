//! The `user` commands, which ask a running server, or else edit the users file.

use clap::{Args, Subcommand};
use siltstone::auth::KeyPair;
use siltstone::service::{GrantEntry, PolicyChange, PolicyHolder, UserChange, UserEntry};

use super::api_client::{ApiClient, ServerAddress};
use super::user_api;
use super::user_edits;
use crate::cli::announce;
use crate::cli::config::environment::Environment;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;
use crate::cli::users::users_file::UsersFile;

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  siltstone user add camera --actions PutObject --resources 'pictures/incoming/*'
  siltstone user add backup --actions ListBucket,GetObject --resources 'pictures,pictures/*'
  siltstone user add h --actions '*' --resources 'home/h/*'
      All actions on the objects below h/ in the bucket home, including listing them.
  siltstone user add tests --actions '*' --resources 'alt-*,alt-*/*'
      All buckets whose names begin with alt-, and all their objects.
  siltstone user add deputy --admin
  siltstone user add anonymous --actions GetObject --resources 'pictures/public/*'
      Requests without a signature.
  siltstone user list --data-dir /srv/objects
  siltstone user rotate camera
  siltstone user rotate camera --finish
      Give it new keys; the old ones stay valid until they are removed, once no client uses them.
  siltstone user revoke-sessions lake
      End the sessions of a user or a role that were issued up to now (AssumeRole, GetSessionToken).
  siltstone user attach camera readonly
      Let it do what a policy allows beside its permissions; siltstone policy --help.
  siltstone user remove camera

The commands ask the server at the address of --listen, or at --endpoint, and a change is in effect at once. They sign with the keys of
an administrator: SILTSTONE_ACCESS_KEY and SILTSTONE_SECRET_KEY, or else those in the users file. If no server there knows these
keys, the commands edit the file; a server that runs elsewhere uses it after SIGHUP: kill -HUP PID";

/// The server options that also apply to these commands.
pub(crate) const OPTIONS: [&str; 7] =
    ["config", "data_dir", "users", "audit_log", "listen", "region", "log_level"];

/// A `user` command.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Create a user and show its keys, once, as lines for a shell
    #[command(after_help = EXAMPLES)]
    Add {
        #[command(flatten)]
        new: NewUserArguments,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Show names, access keys (the previous one last) and permissions; no secrets
    List {
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Give a user new keys and show them, once; the old keys stay valid until --finish or the next
    /// rotation
    Rotate {
        /// Name of the user
        name: String,
        /// Remove the old keys
        #[arg(long)]
        finish: bool,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// End the sessions of a user or a role that were issued up to now; keys of its own stay valid
    RevokeSessions {
        /// Name of the user or role
        name: String,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Attach a policy to a user, beside its permissions
    Attach {
        /// Name of the user
        name: String,
        /// Name of the policy
        policy: String,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Detach a policy from a user
    Detach {
        /// Name of the user
        name: String,
        /// Name of the policy
        policy: String,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Remove a user; its buckets and objects stay
    Remove {
        /// Name of the user
        name: String,
        /// Even if no administrator is left; edits the file, also beside a running server
        #[arg(long, conflicts_with = "endpoint")]
        force: bool,
        #[command(flatten)]
        server: ServerAddress,
    },
}

/// A new user.
#[derive(Debug, Args)]
pub(crate) struct NewUserArguments {
    /// Its name; `anonymous` for requests without a signature
    name: String,
    /// Permitted actions, named as in the file; `*` for all
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', required_unless_present = "admin")]
    actions: Vec<String>,
    /// Resources: buckets (`b`, `b*`), keys (`b/k`, `b/k*`, `b*/k*`) or `*`
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', required_unless_present = "admin")]
    resources: Vec<String>,
    /// Permit all actions on all resources
    #[arg(long, conflicts_with_all = ["actions", "resources"])]
    admin: bool,
}

impl NewUserArguments {
    fn change(&self) -> UserChange {
        let allowed = match self.admin {
            true => GrantEntry::everything(),
            false => GrantEntry { actions: self.actions.clone(), resources: self.resources.clone() },
        };
        UserChange::Create { name: self.name.clone(), allow: vec![allowed] }
    }
}

impl UserCommand {
    /// The change that the command makes; `None` for one that makes none.
    fn change(&self) -> Option<UserChange> {
        Some(match self {
            Self::Add { new, .. } => new.change(),
            Self::List { .. } => return None,
            Self::Rotate { name, finish: false, .. } => UserChange::RotateKeys { name: name.clone() },
            Self::Rotate { name, finish: true, .. } => UserChange::RemovePreviousKeys { name: name.clone() },
            Self::RevokeSessions { name, .. } => UserChange::RevokeSessions { name: name.clone() },
            Self::Attach { name, policy, .. } => UserChange::Policies(PolicyChange::Attach {
                to: PolicyHolder::User(name.clone()),
                policy: policy.clone(),
            }),
            Self::Detach { name, policy, .. } => UserChange::Policies(PolicyChange::Detach {
                from: PolicyHolder::User(name.clone()),
                policy: policy.clone(),
            }),
            Self::Remove { name, .. } => UserChange::Delete { name: name.clone() },
        })
    }

    fn server(&self) -> &ServerAddress {
        match self {
            Self::Add { server, .. }
            | Self::List { server }
            | Self::Rotate { server, .. }
            | Self::RevokeSessions { server, .. }
            | Self::Attach { server, .. }
            | Self::Detach { server, .. }
            | Self::Remove { server, .. } => server,
        }
    }

    fn is_forced(&self) -> bool {
        matches!(self, Self::Remove { force: true, .. })
    }
}

/// Runs a command at a running server, or else on the users file.
///
/// # Errors
/// A message for the operator; no user is changed, unless the message says otherwise.
pub(crate) fn run(
    command: &UserCommand,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    let server = match command.is_forced() {
        true => None,
        false => ApiClient::find(command.server(), options, environment)?,
    };
    let Some(change) = command.change() else {
        let file = UsersFile::of(options, None);
        let users = server.map_or_else(|| user_edits::list(&file), user_api::list)?;
        return announce::lines(users.iter().map(line))
            .map_err(|e| CliError::refused(format!("cannot show the users: {e}")));
    };
    make(&change, command.is_forced(), server, options)
}

/// Makes a change at a running server, or else in the users file.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_change(
    change: &UserChange,
    server: &ServerAddress,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    make(change, false, ApiClient::find(server, options, environment)?, options)
}

fn make(
    change: &UserChange,
    is_forced: bool,
    server: Option<ApiClient>,
    options: &ServerOptions,
) -> Result<(), CliError> {
    let file = UsersFile::of(options, None);
    let (place, keys) = match server {
        Some(server) => {
            let place = format!("at {}, in effect", server.url);
            (place, user_api::change(server, change)?)
        }
        None => {
            let log = options.logs.audit_log.as_deref();
            let keys = user_edits::change(change, is_forced, &file, log)?;
            let path = file.path().display();
            (format!("in {path}; a running server uses the file after SIGHUP: kill -HUP PID"), keys)
        }
    };
    eprintln!("{} {place}", done(change));
    if let UserChange::RotateKeys { name } = change {
        eprintln!("the old keys stay valid until: siltstone user rotate {name} --finish");
    }
    keys.map_or(Ok(()), |keys| show(&keys))
}

fn done(change: &UserChange) -> String {
    let name = change.name();
    match change {
        UserChange::Create { .. } => format!("created the user `{name}`"),
        UserChange::SetGrants { .. } => format!("changed the grants of `{name}`"),
        UserChange::RotateKeys { .. } => format!("gave `{name}` new keys"),
        UserChange::RemovePreviousKeys { .. } => format!("removed the previous keys of `{name}`"),
        UserChange::RevokeSessions { .. } => format!("ended the sessions of `{name}`"),
        UserChange::Delete { .. } => format!("removed the user `{name}`"),
        UserChange::CreateServiceAccount { account, .. } => {
            format!("created the service account `{}` of `{name}`", account.name)
        }
        UserChange::DeleteServiceAccount { account, .. } => {
            format!("removed the service account `{account}` of `{name}`")
        }
        UserChange::Policies(change) => done_to_policies(change),
        UserChange::Iam(_) => format!("changed `{name}`"),
    }
}

fn done_to_policies(change: &PolicyChange) -> String {
    match change {
        PolicyChange::PutPolicy { name, .. } => format!("put the policy `{name}`"),
        PolicyChange::DeletePolicy { name } => format!("removed the policy `{name}`"),
        PolicyChange::CreateGroup { name } => format!("created the group `{name}`"),
        PolicyChange::DeleteGroup { name } => format!("removed the group `{name}`"),
        PolicyChange::AddMember { group, user } => format!("added `{user}` to the group `{group}`"),
        PolicyChange::RemoveMember { group, user } => format!("removed `{user}` from the group `{group}`"),
        PolicyChange::Attach { to, policy } => format!("attached the policy `{policy}` to `{}`", to.name()),
        PolicyChange::Detach { from, policy } => {
            format!("detached the policy `{policy}` from `{}`", from.name())
        }
    }
}

/// The line of a user: name, access keys and permissions, separated by tabs.
fn line(user: &UserEntry) -> String {
    let allowed = user.allow.iter().map(|a| format!("{} on {}", a.actions.join(","), a.resources.join(",")));
    let policies = user.policies.iter().map(|policy| format!("policy {policy}"));
    let allowed = allowed.chain(policies).chain(user.groups.iter().map(|group| format!("group {group}")));
    let allowed = allowed.collect::<Vec<_>>().join("; ");
    let mut keys = Vec::new();
    for key in &user.access_keys {
        let note = if user.inactive_keys.contains(key) { " (inactive)" } else { "" };
        keys.push(format!("{key}{note}"));
    }
    let keys = keys.join(",");
    format!("{}\t{}\t{allowed}", user.name, if keys.is_empty() { "-" } else { &keys })
}

fn show(keys: &KeyPair) -> Result<(), CliError> {
    eprintln!("its keys are shown only once:");
    let lines = [
        format!("export AWS_ACCESS_KEY_ID={}", keys.access_key),
        format!("export AWS_SECRET_ACCESS_KEY={}", keys.secret_key.reveal()),
    ];
    announce::lines(lines).map_err(|e| CliError::refused(format!("cannot show the keys ({e}): rotate them")))
}
