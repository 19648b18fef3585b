//! The command `webhook`, which asks a running server.

use clap::Subcommand;
use serde_json::Value;

use super::api_client::{self, ApiClient, ServerAddress, number_in, text_in};
use crate::cli::announce;
use crate::cli::config::environment::Environment;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  siltstone webhook status
  siltstone webhook status thumbs
      One line for each webhook of the running server, or for this one alone.

The command asks the running server, at the address of --listen without --endpoint, and signs with the keys of an administrator:
SILTSTONE_ACCESS_KEY and SILTSTONE_SECRET_KEY, or else those in the users file.";

/// A `webhook` command.
#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// Show each webhook: what it accepted, how far it is behind, its last error
    Status {
        /// Name of the webhook in the configuration file [default: all]
        name: Option<String>,
        /// As the server answers, for programs
        #[arg(long, conflicts_with = "name")]
        json: bool,
        #[command(flatten)]
        server: ServerAddress,
    },
}

/// Runs a command.
///
/// # Errors
/// A message for the operator: the server cannot be asked or refuses, or has no webhook of that
/// name.
pub(crate) fn command(
    command: &WebhookCommand,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    let WebhookCommand::Status { name, json, server } = command;
    let text = ApiClient::open(server, options, environment)?.ask("GET", "webhooks", b"")?;
    let lines = if *json { vec![text] } else { table(&text, name.as_deref())? };
    announce::lines(lines).map_err(|e| CliError::refused(format!("cannot show the webhooks: {e}")))
}

/// A line for each webhook, or for the named one: its fields, separated by tabs.
fn table(text: &str, name: Option<&str>) -> Result<Vec<String>, CliError> {
    let answer = api_client::parsed(text)?;
    let rows = answer["webhooks"].as_array().into_iter().flatten();
    let wanted = rows.filter(|row| name.is_none_or(|name| row["name"] == name));
    let lines: Vec<_> = wanted.map(line).collect();
    match name {
        Some(name) if lines.is_empty() => Err(CliError::refused(format!("the server has no webhook {name}"))),
        _ => Ok(lines),
    }
}

fn line(row: &Value) -> String {
    let state = match row["failing_since"].as_str() {
        None => "no error".to_owned(),
        Some(since) => format!("failing since {since}: {}", text_in(row, "error")),
    };
    let overrun = if row["overrun"] == true { ", losing events" } else { "" };
    format!(
        "{}\t{}\t{} s behind, {} groups waiting{overrun}\t{} delivered, {} dropped, {} times lost\t{state}",
        text_in(row, "name"),
        text_in(row, "target"),
        number_in(row, "lag_seconds"),
        number_in(row, "waiting_groups"),
        number_in(row, "delivered"),
        number_in(row, "dropped"),
        number_in(row, "overruns"),
    )
}
