//! The arguments with the keys of a server.

use clap::Args;

/// The keys; empty without them.
#[derive(Debug, Args)]
pub(crate) struct ServerKeys {
    /// Access key of the server
    #[arg(
        long,
        value_name = "KEY",
        env = "SILTSTONE_ACCESS_KEY",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) access_key: String,
    /// Its secret key
    #[arg(
        long,
        value_name = "SECRET",
        env = "SILTSTONE_SECRET_KEY",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) secret_key: String,
}
