//! The sections of the configuration file, checked before the server starts.

use std::path::Path;

use siltstone::mirror::MirrorSettings;
use siltstone::remote::RemoteSettings;
use siltstone::webhook::WebhookSettings;

use super::config_file;
use super::environment::Environment;
use super::secret_files::warn_of_world;
use crate::cli::error::CliError;

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
        // Before the sections are parsed: others may read the secrets of a file with a fault, too.
        if let Some(path) = config {
            warn_of_secrets(path);
        }
        let remote = config_file::section(config, environment, RemoteSettings::parse)?;
        if let Some(remote) = &remote {
            log::info!("the remote is {remote:?}");
        }
        let webhooks = config_file::section(config, environment, WebhookSettings::parse)?;
        let mirrors = config_file::section(config, environment, MirrorSettings::parse)?;
        Ok(Self { remote, webhooks, mirrors })
    }

    /// The sections without the servers that changes are sent to.
    pub(crate) fn without_targets(self) -> Self {
        Self { webhooks: Vec::new(), mirrors: Vec::new(), ..self }
    }
}

/// Warns if the configuration file holds secret keys and may be read by all accounts of the host.
fn warn_of_secrets(path: &Path) {
    let text = config_file::text(path).unwrap_or_default();
    if has_secret_keys(&text.parse().unwrap_or_default()) {
        warn_of_world(path);
    }
}

/// Whether a section has a secret key itself, rather than the name of its file.
fn has_secret_keys(file: &toml::Table) -> bool {
    file.values().any(|section| match section {
        toml::Value::Table(section) => section.contains_key("secret_key"),
        toml::Value::Array(sections) => sections.iter().any(|section| section.get("secret_key").is_some()),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_with_secret_keys_are_told_from_those_with_their_files() {
        let has = |text: &str| has_secret_keys(&text.parse().unwrap());
        assert!(
            has("[remote]\nsecret_key = 'x'\n")
                && has("[[mirror]]\nname = 'a'\n[[mirror]]\nsecret_key = 'x'\n")
        );
        assert!(!has("listen = 'a'\n[remote]\nsecret_key_file = 'x'\n[[mirror]]\naccess_key = 'x'\n"));
    }
}
