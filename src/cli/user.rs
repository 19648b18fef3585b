//! The `user` commands, which edit the users file.

use clap::{Args, Subcommand};
use siltstone::auth::{KeyPair, Users};
use siltstone::base::OsEntropy;
use siltstone::service::{AuditLog as _, GrantEntry};

use super::audit_log::AuditLogFile;
use super::user_changes::ChangeOrigin;
use super::users_file::UsersFile;
use super::users_text::{self, ListedUser};
use super::{CliError, announce};

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
  siltstone user remove camera

A running server uses the changed file after SIGHUP: kill -HUP PID";

/// The server options that also apply to these commands.
pub(crate) const OPTIONS: [&str; 5] = ["config", "data_dir", "users", "audit_log", "log_level"];

/// A `user` command.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Create a user and show its keys, once, as lines for a shell
    #[command(after_help = EXAMPLES)]
    Add(Add),
    /// Show names, access keys (the previous one last) and permissions; no secrets
    List,
    /// Give a user new keys and show them, once; the old keys stay valid until --finish or the next rotation
    Rotate {
        /// Name of the user
        name: String,
        /// Remove the old keys
        #[arg(long)]
        finish: bool,
    },
    /// Remove a user; its buckets and objects stay
    Remove {
        /// Name of the user
        name: String,
        /// Even if no administrator is left
        #[arg(long)]
        force: bool,
    },
}

/// A new user.
#[derive(Debug, Args)]
pub(crate) struct Add {
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

impl UserCommand {
    /// The action in the audit log, and the name of the user; `None` for a command that changes nothing.
    fn audited(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Add(new) => Some(("CreateUser", &new.name)),
            Self::List => None,
            Self::Rotate { name, .. } => Some(("RotateKeys", name)),
            Self::Remove { name, .. } => Some(("DeleteUser", name)),
        }
    }
}

/// Runs a command on `file`, and records it in `log`.
///
/// # Errors
/// A message for the operator; the file is unchanged, unless the message says otherwise.
pub(crate) fn run(
    command: &UserCommand,
    file: &UsersFile,
    log: Option<&AuditLogFile>,
) -> Result<(), CliError> {
    let (Some(log), Some((action, name))) = (log, command.audited()) else { return execute(command, file) };
    let uid = format!("uid {}", rustix::process::getuid().as_raw());
    let origin = ChangeOrigin { user: Some(&uid), peer: "command" };
    let before = file.list();
    let done = execute(command, file);
    match &done {
        Ok(()) => file.list().record_changes(&before, log, origin),
        Err(_) => origin.record_refused(action, Some(name), log),
    }
    if done.is_ok() && !log.is_writable() {
        return Err(CliError::refused("the users file was changed, but the audit log cannot be written"));
    }
    done
}

fn execute(command: &UserCommand, file: &UsersFile) -> Result<(), CliError> {
    let done = match command {
        UserCommand::Add(new) => add(new, file),
        UserCommand::List => list(file),
        UserCommand::Rotate { name, finish: false } => rotate(name, file),
        UserCommand::Rotate { name, finish: true } => finish_rotation(name, file),
        UserCommand::Remove { name, force } => remove(name, *force, file),
    };
    done.map_err(CliError::refused)
}

fn add(new: &Add, file: &UsersFile) -> Result<(), String> {
    let allowed = match new.admin {
        true => GrantEntry::everything(),
        false => GrantEntry { actions: new.actions.clone(), resources: new.resources.clone() },
    };
    let keys = (new.name != Users::ANONYMOUS).then(|| KeyPair::generate(&OsEntropy));
    let is_first = !file.path().exists();
    file.edit_or_make(|text| users_text::add(text, &new.name, keys.as_ref(), &[allowed]))?;
    report(&format!("created the user `{}`", new.name), file);
    if is_first && !new.admin {
        eprintln!(
            "the file is new and has no administrator, and the server creates none in it: siltstone user add NAME --admin"
        );
    }
    keys.map_or(Ok(()), |keys| show(&keys))
}

fn list(file: &UsersFile) -> Result<(), String> {
    let users = users_text::list(&file.text()?)?;
    announce::lines(users.iter().map(line)).map_err(|e| format!("cannot show the users: {e}"))
}

fn rotate(name: &str, file: &UsersFile) -> Result<(), String> {
    let keys = KeyPair::generate(&OsEntropy);
    file.edit(|text| users_text::rotate(text, name, &keys))?;
    report(&format!("gave `{name}` new keys"), file);
    eprintln!("the old keys stay valid until: siltstone user rotate {name} --finish");
    show(&keys)
}

fn finish_rotation(name: &str, file: &UsersFile) -> Result<(), String> {
    file.edit(|text| users_text::finish_rotation(text, name))?;
    report(&format!("removed the previous keys of `{name}`"), file);
    Ok(())
}

fn remove(name: &str, force: bool, file: &UsersFile) -> Result<(), String> {
    file.edit(|text| {
        let less = users_text::remove(text, name)?;
        let some =
            |text: &str| Ok::<_, String>(users_text::list(text)?.iter().any(ListedUser::is_administrator));
        if !force && some(text)? && !some(&less)? {
            return Err(format!("`{name}` is the last administrator; to remove it anyway, use --force"));
        }
        Ok(less)
    })?;
    report(&format!("removed the user `{name}`"), file);
    Ok(())
}

/// The line of a user: name, access keys and permissions, separated by tabs.
fn line(user: &ListedUser) -> String {
    let allowed = user.allow.iter().map(|a| format!("{} on {}", a.actions.join(","), a.resources.join(",")));
    let allowed = allowed.collect::<Vec<_>>().join("; ");
    let keys = user.access_keys().collect::<Vec<_>>().join(",");
    format!("{}\t{}\t{allowed}", user.name, if keys.is_empty() { "-" } else { &keys })
}

fn report(done: &str, file: &UsersFile) {
    eprintln!(
        "{done} in {}; a running server uses the file after SIGHUP: kill -HUP PID",
        file.path().display()
    );
}

fn show(keys: &KeyPair) -> Result<(), String> {
    eprintln!("its keys are shown only once:");
    let lines = [
        format!("export AWS_ACCESS_KEY_ID={}", keys.access_key),
        format!("export AWS_SECRET_ACCESS_KEY={}", keys.secret_key.reveal()),
    ];
    announce::lines(lines).map_err(|e| format!("cannot show the keys ({e}): rotate them"))
}
