//! The section `[remote]` of the configuration file, checked before the server starts.

use std::path::Path;

use siltstone::remote::{RemoteSettings, SettingSources};

use super::CliError;
use super::config_file;
use super::environment::Environment;
use super::keys::key_in;

/// The remote that the configuration file names, if there is one. Nothing is connected.
///
/// # Errors
/// The section is wrong: file, line and problem.
pub(crate) fn settings(
    config: Option<&Path>,
    environment: &Environment,
) -> Result<Option<RemoteSettings>, CliError> {
    let Some(path) = config else { return Ok(None) };
    let text = config_file::text(path)?;
    let variable = |name: &str| environment.text(name).ok().flatten().map(str::to_owned);
    let sources = SettingSources { read: &key_in, variable: &variable };
    let parsed = RemoteSettings::parse(&text, &sources);
    parsed.map_err(|problem| {
        CliError::usage(format!("in the configuration file {}, {problem}", path.display()))
    })
}
