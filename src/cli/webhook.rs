//! The command `webhook`, and the threads that deliver events to webhooks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Subcommand;
use log::{error, info};
use serde_json::Value;
use siltstone::store::Store;
use siltstone::webhook::{TargetFigures, Webhook, WebhookFigures, WebhookSettings};

use super::api_client::{self, ApiClient, ServerAddress};
use super::environment::Environment;
use super::options::ServerOptions;
use super::outbound_thread::OutboundThread;
use super::{CliError, announce, keys};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  siltstone webhook status
  siltstone webhook status thumbs
      One line for each webhook of the running server, or for this one alone.

The command asks the running server, at the address of --listen without --endpoint, and signs with the keys of an administrator:
SILTSTONE_ACCESS_KEY and SILTSTONE_SECRET_KEY, or else those in the users file.";

/// The longest wait for the end of all threads.
const END_MAX: Duration = Duration::from_secs(3);

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

/// A line for each webhook, or for that of the name: its fields, separated by tabs.
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
    let text = |field: &str| row[field].as_str().unwrap_or_default();
    let number = |field: &str| row[field].as_u64().unwrap_or_default();
    let state = match row["failing_since"].as_str() {
        None => "no error".to_owned(),
        Some(since) => format!("failing since {since}: {}", text("error")),
    };
    let overrun = if row["overrun"] == true { ", losing events" } else { "" };
    format!(
        "{}\t{}\t{} s behind, {} groups waiting{overrun}\t{} delivered, {} dropped, {} times lost\t{state}",
        text("name"),
        text("target"),
        number("lag_seconds"),
        number("waiting_groups"),
        number("delivered"),
        number("dropped"),
        number("overruns"),
    )
}

/// Reads the secrets of webhooks again, for the next requests. One that cannot be read stays in
/// effect.
pub(crate) fn reload_secrets(settings: &[WebhookSettings]) {
    for target in settings {
        match target.secret.as_ref().map(|secret| secret.reload(&keys::key_in)) {
            Some(Ok(true)) => info!("the webhook {} has another secret", target.name),
            Some(Err(problem)) => error!("the secret of the webhook {} is unchanged: {problem}", target.name),
            Some(Ok(false)) | None => {}
        }
    }
}

/// The threads, one for each target.
pub(crate) struct WebhookThreads(Vec<OutboundThread>);

impl WebhookThreads {
    /// The figures for targets, which their threads count in.
    pub(crate) fn figures(settings: &[WebhookSettings]) -> WebhookFigures {
        let figures = |target: &WebhookSettings| Arc::new(TargetFigures::new(&target.name, &target.endpoint));
        settings.iter().map(figures).collect()
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(
        store: &Arc<Store>,
        settings: &[WebhookSettings],
        region: &str,
        figures: &WebhookFigures,
    ) -> Result<Self, CliError> {
        let start = |(target, figures): (&WebhookSettings, &Arc<TargetFigures>)| {
            info!("events go to the webhook {target:?}");
            let mut webhook = Webhook::new(store, target, region, Arc::clone(figures))
                .map_err(|why| CliError::start(format!("the webhook {target:?}: {why}")))?;
            OutboundThread::start("webhook", Arc::clone(store), move |store, stopped| {
                webhook.run(store, stopped);
            })
        };
        settings.iter().zip(figures).map(start).collect::<Result<_, _>>().map(Self)
    }

    /// Ends the threads. What a target has not accepted by then it gets after the next start.
    pub(crate) fn end(mut self) {
        let by = Instant::now() + END_MAX;
        self.0.iter_mut().for_each(OutboundThread::stop);
        for thread in self.0 {
            thread.end(by.saturating_duration_since(Instant::now()), "an event");
        }
    }
}
