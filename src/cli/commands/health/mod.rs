//! The command `health`: asks a server whether it is ready, for health checks in images without a
//! shell; and the programs that health checks call in its place.

pub(crate) mod fetch;
pub(crate) mod mc;
mod target;

use std::net::SocketAddr;

use clap::Args;

use crate::cli::announce;
use crate::cli::config::options::ServerOptions;
use crate::cli::config::server;
use crate::cli::error::CliError;
use target::{Answer, PATIENCE, Target};

/// The arguments of `health`.
#[derive(Debug, Args)]
pub(crate) struct HealthArguments {
    /// The server [default: the one that the options of this command would start]
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// The address that `server` takes from the same variable
    #[arg(long, hide = true, env = "MINIO_ADDRESS", value_parser = server::address)]
    address: Option<SocketAddr>,
}

/// Asks the server. Success is reported in one line on standard output.
///
/// # Errors
/// The server is not ready or cannot be asked: the reason in one line.
pub(crate) fn run(arguments: &HealthArguments, options: &ServerOptions) -> Result<(), CliError> {
    let target = match &arguments.url {
        Some(url) => Target::parse(url).map_err(|problem| format!("--url {url}: {problem}")),
        None => Target::of_server(arguments.address.unwrap_or(options.start.listen), options),
    };
    report(&target.map_err(CliError::refused)?)
}

/// Asks for the page, and writes the first line of the answer of a server that is ready.
fn report(target: &Target) -> Result<(), CliError> {
    let answer = target.ask("GET", PATIENCE).map_err(CliError::refused)?;
    if answer.status != 200 {
        return Err(CliError::refused(not_ready(&answer)));
    }
    write([answer.reason().to_owned()])
}

fn not_ready(answer: &Answer) -> String {
    format!("not ready, status {}: {}", answer.status, answer.reason())
}

/// Why arguments are refused, in one line. Ends the process where they ask for help.
fn why_refused(error: &clap::Error) -> String {
    if !error.use_stderr() {
        error.exit();
    }
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn write(lines: impl IntoIterator<Item = String>) -> Result<(), CliError> {
    announce::lines(lines).map_err(|e| CliError::refused(format!("cannot write the answer: {e}")))
}
