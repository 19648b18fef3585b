//! The `clock` commands, which ask a running server.

use std::time::Duration;

use clap::Subcommand;
use humantime::format_duration;
use serde_json::Value;

use super::api_client::{self, ApiClient, ServerAddress, number_in, text_in};
use crate::cli::announce;
use crate::cli::config::environment::Environment;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  siltstone clock show
  siltstone clock accept
      The time of this host is right: things expire by it again. Retentions in COMPLIANCE mode do not end earlier by it.
  siltstone clock show --endpoint https://objects.example --ca-file ca.pem

The commands ask the running server, at the address of --listen without --endpoint, and sign with the keys of an administrator:
SILTSTONE_ACCESS_KEY and SILTSTONE_SECRET_KEY, or else those in the users file.";

/// A `clock` command.
#[derive(Debug, Subcommand)]
pub(crate) enum ClockCommand {
    /// Show the time of the server, and whether it is in doubt
    Show {
        /// As the server answers, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// State that the time of the server is right
    Accept {
        #[command(flatten)]
        server: ServerAddress,
    },
}

/// Runs a command.
///
/// # Errors
/// A message for the operator: the server cannot be asked or refuses.
pub(crate) fn run(
    command: &ClockCommand,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    let (method, path, server, json) = match command {
        ClockCommand::Show { json, server } => ("GET", "clock", server, *json),
        ClockCommand::Accept { server } => ("POST", "clock/accept", server, false),
    };
    let text = ApiClient::open(server, options, environment)?.ask(method, path, b"")?;
    let lines = if json { vec![text] } else { lines_of(&api_client::parsed(&text)?) };
    announce::lines(lines).map_err(|e| CliError::refused(format!("cannot show the clock: {e}")))
}

fn lines_of(answer: &Value) -> Vec<String> {
    let mut lines = vec![
        format!("time\t{}", text_in(answer, "time")),
        format!("lock clock\t{}", text_in(answer, "lock_time")),
    ];
    let behind = Duration::from_secs(number_in(answer, "behind_seconds"));
    if behind > Duration::from_secs(60 * 60) {
        lines.push(format!("the time is {} behind the lock clock", format_duration(behind)));
    }
    if answer["held"] == true {
        let ahead = Duration::from_secs(number_in(answer, "ahead_seconds"));
        lines
            .push(format!("the time jumped ahead by {}: nothing expires by its age", format_duration(ahead)));
    }
    if answer["compliance_waits"] == true {
        lines.push("retentions in COMPLIANCE mode go on by the lock clock".to_owned());
    }
    if let Some(seconds) = answer["believed_in_seconds"].as_u64() {
        lines.push(format!("the time is believed in {}", format_duration(Duration::from_secs(seconds))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_doubt_is_told_with_its_end() {
        let calm = json!({ "time": "t", "lock_time": "l", "behind_seconds": 0, "held": false });
        assert_eq!(lines_of(&calm), ["time\tt", "lock clock\tl"]);
        let held = json!({
            "time": "t", "lock_time": "l", "ahead_seconds": 7200, "behind_seconds": 0, "held": true,
            "compliance_waits": true, "believed_in_seconds": 3600,
        });
        let lines = lines_of(&held);
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(lines[2].contains("2h") && lines[4].contains("1h"), "{lines:?}");
        let behind = json!({ "time": "t", "lock_time": "l", "behind_seconds": 86_400, "held": false });
        assert!(lines_of(&behind)[2].contains("1day"));
    }
}
