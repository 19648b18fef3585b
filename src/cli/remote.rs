//! The section `[remote]` of the configuration file, checked before the server starts.

use std::path::Path;

use siltstone::remote::RemoteSettings;

use super::CliError;
use super::config_file;
use super::environment::Environment;

/// The remote that the configuration file names, if there is one. Nothing is connected.
///
/// # Errors
/// The section is wrong: file, line and problem.
pub(crate) fn settings(
    config: Option<&Path>,
    environment: &Environment,
) -> Result<Option<RemoteSettings>, CliError> {
    config_file::section(config, environment, RemoteSettings::parse)
}
