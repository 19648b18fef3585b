//! The `placement` command, which asks a running server.

use clap::{Args, ValueEnum};
use siltstone::s3::BucketName;
use siltstone::store::BucketPlacement;

use super::api_client::{self, ApiClient, ServerAddress};
use crate::cli::announce;
use crate::cli::config::environment::Environment;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  siltstone placement database local
      Its bytes are sent to the remote, and stay on the disk.
  siltstone placement archive remote
      Its bytes leave the disk as soon as the remote has them.
  siltstone placement archive
  siltstone placement archive none

The command asks the running server, at the address of --listen without --endpoint, and signs with the keys of an administrator:
SILTSTONE_ACCESS_KEY and SILTSTONE_SECRET_KEY, or else those in the users file.";

/// The arguments of the command.
#[derive(Debug, Args)]
pub(crate) struct PlacementArguments {
    /// Name of the bucket
    #[arg(id = "name", value_name = "BUCKET")]
    bucket: String,
    /// The place where its bytes should lie; without it, the placement is shown
    placement: Option<PlacementName>,
    #[command(flatten)]
    server: ServerAddress,
}

/// A placement by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlacementName {
    /// The disk, whatever else must leave
    Local,
    /// The remote alone
    Remote,
    /// The disk, as long as there is room
    None,
}

/// Runs the command.
///
/// # Errors
/// A message for the operator: the server cannot be asked, or refuses.
pub(crate) fn run(
    arguments: &PlacementArguments,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    let PlacementArguments { bucket, placement, server } = arguments;
    BucketName::new(bucket).map_err(|_| CliError::usage(format!("{bucket}: no bucket has this name")))?;
    let mut client = ApiClient::open(server, options, environment)?;
    let path = format!("buckets/{bucket}/placement");
    match placement {
        Some(PlacementName::Local) => client.ask("PUT", &path, &BucketPlacement::Local.document()).map(drop),
        Some(PlacementName::Remote) => {
            client.ask("PUT", &path, &BucketPlacement::Remote.document()).map(drop)
        }
        Some(PlacementName::None) => client.ask("DELETE", &path, &[]).map(drop),
        None => {
            let answer = api_client::parsed(&client.ask("GET", &path, &[])?)?;
            let shown = answer["placement"].as_str().unwrap_or("none").to_owned();
            announce::lines([shown]).map_err(|e| CliError::refused(format!("cannot show the placement: {e}")))
        }
    }
}
