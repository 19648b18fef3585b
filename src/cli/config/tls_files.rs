//! The files of the certificate and its private key.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use log::warn;
use siltstone::http::Tls;

use crate::cli::error::CliError;

/// The paths of the certificate and the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    certificates: PathBuf,
    key: PathBuf,
}

impl TlsFiles {
    /// The files if both are set; `None` if neither is.
    ///
    /// # Errors
    /// Only one is set.
    pub(crate) fn named(
        certificates: Option<PathBuf>,
        key: Option<PathBuf>,
    ) -> Result<Option<Self>, CliError> {
        match (certificates, key) {
            (None, None) => Ok(None),
            (Some(certificates), Some(key)) => Ok(Some(Self { certificates, key })),
            _ => Err(CliError::usage("--tls-cert and --tls-key: set both, or neither")),
        }
    }

    /// Reads the files. Warns of a key that others may read.
    ///
    /// # Errors
    /// A message for the operator.
    pub(crate) fn read(&self) -> Result<Tls, String> {
        let (certificates, key) = self.texts()?;
        Tls::new(&certificates, &key).map_err(|problem| self.named_in(&problem))
    }

    /// Reads the files again into `tls`.
    ///
    /// # Errors
    /// A message for the operator; `tls` is unchanged.
    pub(crate) fn read_into(&self, tls: &Tls) -> Result<(), String> {
        let (certificates, key) = self.texts()?;
        tls.replace(&certificates, &key).map_err(|problem| self.named_in(&problem))
    }

    fn texts(&self) -> Result<(Vec<u8>, Vec<u8>), String> {
        let texts = (read(&self.certificates)?, read(&self.key)?);
        warn_if_open(&self.key);
        Ok(texts)
    }

    fn named_in(&self, problem: &str) -> String {
        format!("in {} and {}: {problem}", self.certificates.display(), self.key.display())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

fn warn_if_open(key: &Path) {
    let mode = fs::metadata(key).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        warn!("{} may be read by others (mode {mode:o}); a private key should have mode 600", key.display());
    }
}
