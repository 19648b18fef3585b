//! The `mirror` commands, which ask a running server.

use std::path::Path;

use clap::Subcommand;
use serde_json::Value;
use siltstone::client::encoded;
use siltstone::mirror::MirrorSettings;

use super::api_client::{self, ApiClient, ServerAddress, number_in, text_in};
use super::mirror_verify::{VerifiedMirror, verify};
use crate::cli::announce;
use crate::cli::config::config_file;
use crate::cli::config::environment::Environment;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  siltstone mirror status
  siltstone mirror verify away --config siltstone.toml
      Compares the listings of the server and of the target: what is missing, different or only there.
  siltstone mirror resync away
      Compares every key, sends what the target lacks, and removes what only the target has.

The commands ask the running server, at the address of --listen without --endpoint, and sign with the keys of an administrator:
SILTSTONE_ACCESS_KEY and SILTSTONE_SECRET_KEY, or else those in the users file.";

/// A `mirror` command.
#[derive(Debug, Subcommand)]
pub(crate) enum MirrorCommand {
    /// Show each mirror: how far it is behind, what it sent, its last error
    Status {
        /// As the server answers, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Compare the listings of the server and of the target of a mirror
    Verify {
        /// Name of the mirror in the configuration file
        name: String,
        /// Compare the current objects alone, for a target that is meant to keep no versions
        #[arg(long)]
        current: bool,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Let a mirror start over: it compares every key, and removes what only the target has
    Resync {
        /// Name of the mirror
        name: String,
        #[command(flatten)]
        server: ServerAddress,
    },
}

/// Runs a command.
///
/// # Errors
/// A message for the operator: the server cannot be asked or refuses; the target of a mirror
/// differs.
pub(crate) fn command(
    command: &MirrorCommand,
    options: &ServerOptions,
    environment: &Environment,
    config: Option<&Path>,
) -> Result<(), CliError> {
    match command {
        MirrorCommand::Status { json, server } => {
            let text = ApiClient::open(server, options, environment)?.ask("GET", "mirrors", b"")?;
            let lines = if *json { vec![text] } else { table(&text)? };
            announce::lines(lines).map_err(|e| CliError::refused(format!("cannot show the mirrors: {e}")))
        }
        MirrorCommand::Resync { name, server } => {
            let path = format!("mirrors/{}/resync", encoded(name));
            ApiClient::open(server, options, environment)?.ask("POST", &path, b"").map(drop)
        }
        MirrorCommand::Verify { name, current, server } => {
            let known = config_file::section(config, environment, MirrorSettings::parse)?
                .into_iter()
                .find(|mirror| mirror.name == *name);
            let mirror = known.ok_or_else(|| {
                CliError::usage(format!(
                    "{name}: no table [[mirror]] of the configuration file has this name"
                ))
            })?;
            if mirror.replication {
                return Err(CliError::refused(format!(
                    "{name}: the rules of buckets say what it sends, and x-amz-replication-status what it has sent"
                )));
            }
            verify(VerifiedMirror { settings: &mirror, current: *current }, server, options, environment)
        }
    }
}

/// A line for each mirror and each refused key: its fields, separated by tabs.
fn table(text: &str) -> Result<Vec<String>, CliError> {
    let answer = api_client::parsed(text)?;
    let mut lines = Vec::new();
    for mirror in answer["mirrors"].as_array().into_iter().flatten() {
        lines.push(status_line(mirror));
        lines.extend(occupied_lines(mirror));
        lines.extend(refused_lines(mirror));
    }
    Ok(lines)
}

/// The line of a mirror itself.
fn status_line(mirror: &Value) -> String {
    let error = match &mirror["last_error"] {
        Value::Null => "no error".to_owned(),
        error => format!("last error {}: {}", text_in(error, "time"), text_in(error, "text")),
    };
    format!(
        "{}\t{}\t{}\t{} s behind, {} keys due, {} failing, {} refused\t{} objects, {} bytes, {} removed\t{error}",
        text_in(mirror, "name"),
        text_in(mirror, "target"),
        text_in(mirror, "state"),
        number_in(mirror, "lag_seconds"),
        number_in(mirror, "due_keys"),
        number_in(mirror, "failing_keys"),
        number_in(mirror, "refused_keys"),
        number_in(mirror, "objects"),
        number_in(mirror, "bytes"),
        number_in(mirror, "removed"),
    )
}

/// A line for each bucket of a mirror that waits for a resync.
fn occupied_lines(mirror: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for occupied in mirror["occupied"].as_array().into_iter().flatten() {
        let there = format!("{}/{}", text_in(occupied, "target_bucket"), text_in(occupied, "target_prefix"));
        lines.push(format!(
            "{}\toccupied\t{}\t{there} has objects that the mirror did not send: `siltstone mirror resync` takes them over",
            text_in(mirror, "name"),
            text_in(occupied, "bucket"),
        ));
    }
    lines
}

/// A line for each key of a mirror that the target refused.
fn refused_lines(mirror: &Value) -> Vec<String> {
    let name = text_in(mirror, "name");
    let mut lines = Vec::new();
    for refused in mirror["refused"].as_array().into_iter().flatten() {
        let place = format!("{}/{}", text_in(refused, "bucket"), text_in(refused, "key"));
        let time = text_in(refused, "time");
        let reason = text_in(refused, "text");
        lines.push(format!("{name}\trefused\t{place}\t{time}\t{reason}"));
    }
    // The server lists some of them, and counts the others.
    let unlisted = mirror["refused_keys"].as_u64().unwrap_or_default().saturating_sub(lines.len() as u64);
    if unlisted > 0 {
        lines.push(format!(
            "{name}\trefused\tup to {unlisted} more keys: `siltstone mirror verify` names them"
        ));
    }
    lines
}
