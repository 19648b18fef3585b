//! Options: the console, and the addresses that it shows.

use std::net::SocketAddr;

use clap::{ArgAction, Args};
use siltstone::console::{ConsoleAccess, ConsoleRoot};

use super::oidc::OidcOptions;
use crate::cli::config::option_values::{one_of, public_url, web_url};

/// The console, and the addresses that it shows.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct ConsoleOptions {
    /// Console for browsers at /-/console/, over TLS or for browsers on this host
    #[arg(long, value_name = "NAME", env = "SILTSTONE_CONSOLE", global = true, default_value = "on")]
    #[arg(value_parser = one_of(&[("on", ConsoleAccess::On), ("off", ConsoleAccess::Off)]))]
    pub(crate) console: ConsoleAccess,

    /// Address to serve the console on, instead of --listen; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", env = "SILTSTONE_CONSOLE_LISTEN", global = true)]
    pub(crate) console_listen: Option<SocketAddr>,

    /// Path of the console, for a proxy that keeps the path of requests. With --console-listen any,
    /// else below /-/console/
    #[arg(long, value_name = "PATH", env = "SILTSTONE_CONSOLE_PATH", global = true)]
    #[arg(default_value = ConsoleRoot::DEFAULT, value_parser = console_root)]
    pub(crate) console_path: ConsoleRoot,

    /// Show the console to other hosts also over plain HTTP, where everyone on the way can read its
    /// sessions
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_CONSOLE_INSECURE", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = false)]
    pub(crate) console_insecure: bool,

    /// Scheme, host and port by which clients reach this server, in links to share and in lines to
    /// paste: where a proxy or a published port stands before it, such as https://s3.example.org
    #[arg(long, value_name = "URL", env = "SILTSTONE_PUBLIC_URL", global = true, value_parser = public_url)]
    pub(crate) public_url: Option<String>,

    /// Address of the console as browsers know it: where a browser that opens the root of the
    /// server is led
    #[arg(long, value_name = "URL", env = "SILTSTONE_CONSOLE_URL", global = true, value_parser = web_url)]
    pub(crate) console_url: Option<String>,

    #[command(flatten)]
    pub(crate) oidc: OidcOptions,
}

impl ConsoleOptions {
    /// The browsers that may use the console.
    pub(crate) fn access(&self) -> ConsoleAccess {
        match self.console {
            ConsoleAccess::On if self.console_insecure => ConsoleAccess::Insecure,
            access => access,
        }
    }
}

/// Parses the path of the console.
fn console_root(text: &str) -> Result<ConsoleRoot, &'static str> {
    text.parse()
}
