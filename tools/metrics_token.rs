//! The argument with the token of a server's metrics.

use std::fs;
use std::path::PathBuf;

use clap::Args;

/// The file with the token, if one is named.
#[derive(Debug, Args)]
pub(crate) struct MetricsTokenFile {
    /// File with the token that the server has by its option --metrics-token-file
    #[arg(long, value_name = "FILE", env = "SILTSTONE_METRICS_TOKEN_FILE")]
    metrics_token_file: Option<PathBuf>,
}

impl MetricsTokenFile {
    /// The header line that states the token (RFC 6750, section 2.1); empty without a file.
    ///
    /// # Errors
    /// A message, if the file cannot be read or holds no token.
    pub(crate) fn header_line(&self) -> Result<String, String> {
        let Some(path) = &self.metrics_token_file else { return Ok(String::new()) };
        let text = fs::read_to_string(path)
            .map_err(|error| format!("--metrics-token-file: {}: {error}", path.display()))?;
        let token = text.trim();
        // A line end within the token would begin another header.
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "--metrics-token-file: {}: a token is one word of ASCII characters",
                path.display()
            ));
        }
        Ok(format!("Authorization: Bearer {token}\r\n"))
    }
}
