//! The sections of the configuration file, checked before the server starts.

use std::path::Path;

use siltstone::mirror::MirrorSettings;
use siltstone::remote::RemoteSettings;
use siltstone::webhook::WebhookSettings;

use super::CliError;
use super::config_file;
use super::environment::Environment;

/// The servers that the configuration file names.
pub(crate) struct Sections {
    /// The section `[remote]`.
    pub(crate) remote: Option<RemoteSettings>,
    /// The tables `[[webhook]]`.
    pub(crate) webhooks: Vec<WebhookSettings>,
    /// The tables `[[mirror]]`.
    pub(crate) mirrors: Vec<MirrorSettings>,
}

impl Sections {
    /// Reads the sections. Nothing is connected.
    ///
    /// # Errors
    /// A section is wrong: file, line and problem.
    pub(crate) fn read(config: Option<&Path>, environment: &Environment) -> Result<Self, CliError> {
        let remote = config_file::section(config, environment, RemoteSettings::parse)?;
        remote.iter().for_each(|remote| log::info!("the remote is {remote:?}"));
        let webhooks = config_file::section(config, environment, WebhookSettings::parse)?;
        let mirrors = config_file::section(config, environment, MirrorSettings::parse)?;
        Ok(Self { remote, webhooks, mirrors })
    }
}
