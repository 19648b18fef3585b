//! The program `mc`, as far as compose files use it to see whether a server is there: `mc ready`
//! and `mc alias set`. It is a link to this program, in an image that has no `mc`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use serde_json::{Map, Value, json};

use super::target::{READY_PAGE, Target};
use super::{report, why_refused};
use crate::cli::{self, CliError, CommandLine, Environment};

/// The alias that is the server of this host unless it was set (MinIO Client, "mc alias").
const OWN_ALIAS: &str = "local";
/// The beginning of the names of variables that hold the URL of an alias.
const VARIABLE_PREFIX: &str = "MC_HOST_";

/// Asks a server whether it is ready, as `mc` does; nothing else
#[derive(Debug, Parser)]
#[command(name = "mc", disable_version_flag = true)]
struct Mc {
    #[command(flatten)]
    global: GlobalFlags,

    #[command(subcommand)]
    command: McCommand,
}

#[derive(Debug, Args)]
struct GlobalFlags {
    /// The directory of the aliases [default: $HOME/.mc]
    #[arg(short = 'C', long, value_name = "DIR", env = "MC_CONFIG_DIR", global = true)]
    config_dir: Option<PathBuf>,
    /// Accepted
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Accepted
    #[arg(long, global = true)]
    json: bool,
    /// Accepted
    #[arg(long, global = true)]
    debug: bool,
    /// Accepted
    #[arg(long, global = true)]
    no_color: bool,
    /// Accepted: a certificate of this host is not verified
    #[arg(long, global = true)]
    insecure: bool,
}

#[derive(Debug, Subcommand)]
enum McCommand {
    /// Ask whether a put would succeed; exit status 0 or 1
    Ready(Ready),
    /// Keep the URL of a server for `ready`
    #[command(subcommand)]
    Alias(AliasCommand),
}

#[derive(Debug, Args)]
struct Ready {
    /// Whether a get would succeed
    #[arg(long)]
    cluster_read: bool,
    /// Whether the server could go away without a loss
    #[arg(long)]
    maintenance: bool,
    alias: String,
}

#[derive(Debug, Subcommand)]
enum AliasCommand {
    /// Keep the URL of a server that is ready
    #[command(alias = "s")]
    Set(AliasSet),
}

#[derive(Debug, Args)]
struct AliasSet {
    alias: String,
    url: String,
    /// Accepted, and not kept: `ready` needs no keys
    keys: Vec<String>,
    /// Accepted
    #[arg(long)]
    api: Option<String>,
    /// Accepted
    #[arg(long)]
    path: Option<String>,
}

/// Runs as `mc`.
///
/// # Errors
/// The server is not ready, the alias is not known or cannot be kept: status 1. The command is
/// another one: status 2.
pub(crate) fn run(arguments: &[OsString], environment: &Environment) -> Result<(), CliError> {
    let mc = Mc::try_parse_from(arguments).map_err(|error| refused(&error))?;
    let home = environment.get("HOME").map(|home| Path::new(home).join(".mc"));
    let aliases = Aliases { dir: mc.global.config_dir.or(home) };
    match mc.command {
        McCommand::Ready(ready) => ready.run(&aliases, environment),
        McCommand::Alias(AliasCommand::Set(set)) => set.run(&aliases),
    }
}

impl Ready {
    fn run(&self, aliases: &Aliases, environment: &Environment) -> Result<(), CliError> {
        let name = self.alias.trim_end_matches('/');
        let url = match environment.text(&format!("{VARIABLE_PREFIX}{name}")).map_err(CliError::usage)? {
            Some(url) => Some(without_keys(url)),
            None if name.contains("://") => Some(name.to_owned()),
            None => aliases.url(name).map_err(CliError::refused)?,
        };
        match url {
            Some(url) => self.ask(&url),
            None if name == OWN_ALIAS => ask_own_server(environment),
            None => Err(CliError::refused(format!(
                "there is no alias `{name}`: `mc alias set {name} URL` or the variable {VARIABLE_PREFIX}{name} sets it"
            ))),
        }
    }

    fn ask(&self, url: &str) -> Result<(), CliError> {
        let mut target = Target::parse(url.trim_end_matches('/'))
            .map_err(|why| CliError::refused(format!("{url}: {why}")))?;
        target.path = match (self.cluster_read, self.maintenance) {
            (true, _) => "/minio/health/cluster/read".to_owned(),
            (_, true) => "/minio/health/cluster?maintenance=true".to_owned(),
            _ => READY_PAGE.to_owned(),
        };
        report(&target)
    }
}

impl AliasSet {
    /// Keeps the URL once the server is ready: what waits for the server calls this until it
    /// succeeds.
    fn run(&self, aliases: &Aliases) -> Result<(), CliError> {
        let url = self.url.trim_end_matches('/');
        let target = Target::parse(url).map_err(|why| CliError::refused(format!("{url}: {why}")))?;
        report(&target)?;
        aliases.set(&self.alias, url).map_err(CliError::refused)
    }
}

/// The file of aliases in the form of MinIO's client, without keys.
struct Aliases {
    /// None where there is no home directory.
    dir: Option<PathBuf>,
}

impl Aliases {
    /// The URL of an alias, if it is set.
    fn url(&self, name: &str) -> Result<Option<String>, String> {
        let Some(path) = self.path() else { return Ok(None) };
        let document = Self::read(&path)?;
        Ok(document["aliases"][name]["url"].as_str().map(str::to_owned))
    }

    /// Sets the URL of an alias, and keeps the others as they are.
    fn set(&self, name: &str, url: &str) -> Result<(), String> {
        let path = self.path().ok_or("there is no place for the alias: set MC_CONFIG_DIR")?;
        let mut document = Self::read(&path)?;
        if !document["aliases"].is_object() {
            document["aliases"] = Value::Object(Map::new());
        }
        document["aliases"][name] = json!({"url": url, "api": "S3v4", "path": "auto"});
        let text = document.to_string();
        write_whole(&path, &text)
            .map_err(|e| format!("cannot keep the alias in {}: {e}; set MC_CONFIG_DIR", path.display()))
    }

    fn path(&self) -> Option<PathBuf> {
        self.dir.as_ref().map(|dir| dir.join("config.json"))
    }

    fn read(path: &Path) -> Result<Value, String> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(json!({"version": "10"})),
            text => text.map_err(|e| format!("{}: {e}", path.display()))?,
        };
        let document: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        if document.is_object() {
            return Ok(document);
        }
        Err(format!("{}: it is no file of aliases", path.display()))
    }
}

/// Replaces the file at once, so that a check that runs beside never sees half of it.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, text)?;
    fs::rename(&unfinished, path)
}

/// The URL without the keys that `MC_HOST_*` has before the host.
fn without_keys(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}://{host}")
}

/// Asks the server that the environment of this process would start, as the command `health` does.
fn ask_own_server(environment: &Environment) -> Result<(), CliError> {
    let line = CommandLine::read(&["siltstone".into(), "health".into()], environment)?;
    cli::run(line, environment)
}

/// The error for another command.
fn refused(error: &clap::Error) -> CliError {
    let why = why_refused(error);
    CliError::usage(format!(
        "{why}. This mc is Siltstone: it knows `mc ready ALIAS` and `mc alias set ALIAS URL`. Any MinIO client works from outside \
         the container; `siltstone user` and `SILTSTONE_BUCKETS` take the place of `mc admin` and `mc mb`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mc(text: &str, dir: &Path) -> CliError {
        let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
        let home = [(OsString::from("HOME"), dir.as_os_str().to_owned())];
        run(&words, &Environment::new(home)).unwrap_err()
    }

    #[test]
    fn ready_asks_the_server_of_an_alias() {
        let dir = tempfile::tempdir().unwrap();
        let aliases = Aliases { dir: Some(dir.path().join(".mc")) };
        aliases.set("mine", "http://127.0.0.1:1").unwrap();
        aliases.set("other", "http://127.0.0.1:2").unwrap();
        assert_eq!(aliases.url("mine"), Ok(Some("http://127.0.0.1:1".to_owned())));
        assert_eq!(aliases.url("none"), Ok(None));
        for ready in ["mc ready mine", "mc --quiet ready --cluster-read mine/", "mc ready http://127.0.0.1:1"]
        {
            let error = mc(ready, dir.path());
            assert!(error.to_string().contains("127.0.0.1:1 does not answer"), "{ready}: {error}");
            assert_eq!(error.status(), 1.into());
        }
        assert!(mc("mc ready none", dir.path()).to_string().contains("there is no alias `none`"));
    }

    #[test]
    fn an_alias_is_set_once_its_server_is_ready() {
        let dir = tempfile::tempdir().unwrap();
        let error = mc("mc alias set mine http://127.0.0.1:1 access secret --api s3v4", dir.path());
        assert_eq!(error.status(), 1.into());
        assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
    }

    #[test]
    fn the_variable_of_an_alias_has_keys_that_are_left_out() {
        for (url, told) in [
            ("http://key:se@cret@host:9000", "http://host:9000"),
            ("http://host:9000", "http://host:9000"),
            ("host", "host"),
        ] {
            assert_eq!(without_keys(url), told);
        }
    }

    #[test]
    fn other_commands_are_refused_with_a_sentence() {
        let dir = tempfile::tempdir().unwrap();
        for other in ["mc ls local", "mc admin info local", "mc mb local/bucket", "mc ready", "mc"] {
            let error = mc(other, dir.path());
            assert_eq!(error.status(), 2.into(), "{other}");
            assert!(error.to_string().contains("This mc is Siltstone"), "{other}: {error}");
        }
    }
}
