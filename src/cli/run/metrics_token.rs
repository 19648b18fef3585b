//! The file with the token of the metrics.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use log::{error, info};
use siltstone::auth::Secret;
use siltstone::service::MetricsToken;

use crate::cli::config::keys::key_in;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;

/// The file, and the token that was read from it.
#[derive(Debug, Clone)]
pub(crate) struct MetricsTokenFile {
    path: PathBuf,
    pub(crate) token: Arc<MetricsToken>,
}

impl MetricsTokenFile {
    /// Reads the file of the options, if they name one.
    ///
    /// # Errors
    /// It cannot be read, or holds no token.
    pub(crate) fn open(options: &ServerOptions) -> Result<Option<Self>, CliError> {
        let Some(path) = options.protocol.metrics_token_file.clone() else { return Ok(None) };
        let token = read(&path).map_err(|why| CliError::usage(format!("--metrics-token-file: {why}")))?;
        Ok(Some(Self { path, token: Arc::new(MetricsToken::new(token)) }))
    }

    /// Reads the file again. If it is broken the previous token stays in effect.
    pub(crate) fn reload(&self) {
        match read(&self.path) {
            Ok(token) => {
                self.token.replace(token);
                info!("the token of the metrics was read again");
            }
            Err(problem) => error!("the token of the metrics is unchanged: {problem}"),
        }
    }
}

fn read(path: &Path) -> Result<Secret, String> {
    let token = key_in(path).map_err(|why| format!("{}: {why}", path.display()))?;
    if token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Secret::new(token));
    }
    Err(format!("{}: a token has no spaces and no other characters than those of ASCII", path.display()))
}
