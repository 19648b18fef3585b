//! Options: the OpenID provider by which people sign in to the console.

use std::path::{Path, PathBuf};

use clap::Args;
use siltstone::auth::Secret;
use siltstone::console::OidcSettings;

use crate::cli::config::secret_files::warn_of_world;
use crate::cli::error::CliError;

/// The OpenID provider by which people sign in to the console.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct OidcOptions {
    /// Let people sign in to the console by this OpenID provider: the URL of the issuer, as its
    /// tokens state it
    #[arg(long, value_name = "URL", env = "SILTSTONE_OIDC_ISSUER", global = true)]
    pub(crate) oidc_issuer: Option<String>,

    /// Name of this server at the OpenID provider
    #[arg(long, value_name = "ID", env = "SILTSTONE_OIDC_CLIENT_ID", global = true)]
    pub(crate) oidc_client_id: Option<String>,

    /// File with the secret of this server at the OpenID provider; none for a public client
    #[arg(long, value_name = "FILE", env = "SILTSTONE_OIDC_CLIENT_SECRET_FILE", global = true)]
    pub(crate) oidc_client_secret_file: Option<PathBuf>,

    /// Scopes to ask the OpenID provider for, with spaces between them
    #[arg(
        long,
        value_name = "NAMES",
        env = "SILTSTONE_OIDC_SCOPES",
        global = true,
        default_value = "openid profile"
    )]
    pub(crate) oidc_scopes: String,

    /// Claim with the groups of a person; with dots between them, the names on the way to it
    /// (realm_access.roles)
    #[arg(
        long,
        value_name = "NAME",
        env = "SILTSTONE_OIDC_GROUPS_CLAIM",
        global = true,
        default_value = "groups"
    )]
    pub(crate) oidc_groups_claim: String,

    /// PEM file with the authorities that sign the OpenID provider's certificate, instead of those
    /// of the system
    #[arg(long, value_name = "FILE", env = "SILTSTONE_OIDC_CA_FILE", global = true)]
    pub(crate) oidc_ca_file: Option<PathBuf>,
}

impl OidcOptions {
    /// The OpenID provider of the console.
    ///
    /// # Errors
    /// The file with the secret cannot be read, or the settings are not sound.
    pub(crate) fn settings(&self) -> Result<Option<OidcSettings>, CliError> {
        let (issuer, client_id) = match (&self.oidc_issuer, &self.oidc_client_id) {
            (Some(issuer), Some(client_id)) => (issuer, client_id),
            (None, None) => return Ok(None),
            _ => return Err(CliError::usage("--oidc-issuer and --oidc-client-id are given together")),
        };
        let client_secret = match &self.oidc_client_secret_file {
            Some(path) => Some(read_secret(path)?),
            None => None,
        };
        let settings = OidcSettings {
            issuer: issuer.clone(),
            client_id: client_id.clone(),
            client_secret,
            scopes: self.oidc_scopes.clone(),
            groups_claim: self.oidc_groups_claim.clone(),
            authorities: self.oidc_ca_file.clone(),
        };
        settings.check().map_err(|why| CliError::usage(format!("--oidc-issuer: {why}")))?;
        Ok(Some(settings))
    }
}

fn read_secret(path: &Path) -> Result<Secret, CliError> {
    warn_of_world(path);
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| CliError::usage(format!("{}: {error}", path.display())))?;
    Ok(Secret::new(text.trim()))
}
