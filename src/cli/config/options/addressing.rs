//! Options: the region and the domains that clients name, and what pages of browsers may do with
//! buckets.

use clap::Args;
use siltstone::service::HtmlSandbox;

use crate::cli::config::option_values::{RegionNames, WebOrigins, one_of};
use crate::cli::error::CliError;

/// The region and the domains that clients name, and what pages of browsers may do with buckets.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct AddressingOptions {
    /// The server's region, then further ones that signatures may name; * for all
    #[arg(long, value_name = "NAME,...", env = "SILTSTONE_REGION", global = true)]
    #[arg(default_value = "eu,us-east-1")]
    pub(crate) region: RegionNames,

    /// Domain whose subdomains are buckets, in addition to path style
    #[arg(long, value_name = "DOMAIN", env = "SILTSTONE_DOMAIN", global = true)]
    pub(crate) domain: Option<String>,

    /// Origins whose pages may use buckets without a CORS configuration, such as
    /// https://app.example; * stands for all, none for no origin
    #[arg(long, value_name = "ORIGIN,...", env = "SILTSTONE_CORS_ALLOW_ORIGIN", global = true)]
    #[arg(default_value = "none")]
    pub(crate) cors_allow_origin: WebOrigins,

    /// Domain whose subdomains are websites of buckets
    #[arg(long, value_name = "DOMAIN", env = "SILTSTONE_WEBSITE_DOMAIN", global = true)]
    pub(crate) website_domain: Option<String>,

    /// Whether stored HTML and SVG documents that are read without a signature run no scripts
    #[arg(long, value_name = "NAME", env = "SILTSTONE_HTML_SANDBOX", global = true, default_value = "on")]
    #[arg(value_parser = one_of(&[("on", HtmlSandbox::On), ("off", HtmlSandbox::Off)]))]
    pub(crate) html_sandbox: HtmlSandbox,
}

impl AddressingOptions {
    /// The domain of virtual hosts, in lower case.
    pub(crate) fn host_domain(&self) -> Option<String> {
        self.domain.as_ref().map(|domain| domain.to_ascii_lowercase())
    }

    /// The domain of websites, in lower case.
    pub(crate) fn website_domain(&self) -> Option<String> {
        self.website_domain.as_ref().map(|domain| domain.to_ascii_lowercase())
    }

    pub(crate) fn check_website_domain(&self) -> Result<(), CliError> {
        let Some(domain) = self.website_domain() else { return Ok(()) };
        let is_name = domain.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
        if domain.is_empty() || domain.starts_with('.') || !is_name {
            return Err(CliError::usage(format!(
                "--website-domain {domain}: write a name such as web.example, without a dot before it and a port"
            )));
        }
        if self.host_domain().as_ref() == Some(&domain) {
            return Err(CliError::usage(format!(
                "--website-domain {domain}: it is that of --domain, so a host could not tell a website from a bucket"
            )));
        }
        Ok(())
    }
}
