//! The options of the server. Each is declared once, with its flag, its environment variable, its
//! help and its default.
//!
//! A flag takes precedence over the environment variable, the variable over the configuration file,
//! and the file over the default.

mod addressing;
mod console;
mod http;
mod logs;
mod oidc;
mod protocol;
mod remote;
mod start;
mod store;
mod upkeep;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use siltstone::console::{ConsoleAccess, ConsoleRoot};
use siltstone::http::EngineName;
use siltstone::store::TierOptions;

use super::bucket_specs;
use super::option_values::ByteCount;
use crate::cli::error::CliError;

pub(crate) use addressing::AddressingOptions;
pub(crate) use console::ConsoleOptions;
pub(crate) use http::HttpOptions;
pub(crate) use logs::LogOptions;
pub(crate) use protocol::ProtocolOptions;
pub(crate) use remote::RemoteOptions;
pub(crate) use start::{DEFAULT_DATA_DIR, StartOptions};
pub(crate) use store::StoreSettings;
pub(crate) use upkeep::UpkeepOptions;

/// The segments that have to fit into the limit of local bytes: one for each kind of write, and one
/// on its way to the remote.
const LOCAL_SEGMENTS_MIN: u64 = 4;

/// Every option with its value, by subject. The structs are in the order of the help.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct ServerOptions {
    #[command(flatten)]
    pub(crate) start: StartOptions,

    #[command(flatten)]
    pub(crate) addressing: AddressingOptions,

    #[command(flatten)]
    pub(crate) console: ConsoleOptions,

    #[command(flatten)]
    pub(crate) protocol: ProtocolOptions,

    #[command(flatten)]
    pub(crate) http: HttpOptions,

    #[command(flatten)]
    pub(crate) store: StoreSettings,

    #[command(flatten)]
    pub(crate) remote: RemoteOptions,

    #[command(flatten)]
    pub(crate) upkeep: UpkeepOptions,

    #[command(flatten)]
    pub(crate) logs: LogOptions,
}

impl ServerOptions {
    /// The files that it names. They may be in the data directory before the first start.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let named = [
            &self.start.users,
            &self.start.keys_file,
            &self.console.oidc.oidc_client_secret_file,
            &self.console.oidc.oidc_ca_file,
            &self.http.tls_cert,
            &self.http.tls_key,
            &self.protocol.metrics_token_file,
            &self.store.store_key_file,
        ];
        named.into_iter().flatten().chain(self.logs.files()).map(PathBuf::as_path)
    }

    /// The settings of the tier.
    pub(crate) fn tier(&self) -> TierOptions {
        TierOptions {
            local_max_bytes: self.remote.local_max.as_ref().map_or(u64::MAX, |most| most.0),
            keep_local: self.remote.keep_local.as_ref().map_or(Duration::ZERO, |time| time.0),
            keep_dropped: self.remote.keep_dropped.0,
            scrub_percent: self.upkeep.scrub_remote,
            abandons_log: self.remote.abandon_log,
        }
    }

    /// Checks that the options are consistent.
    ///
    /// # Errors
    /// Names the conflicting options.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        if self.http.http_engine == EngineName::TinyHttp && self.http.tls_files()?.is_some() {
            return Err(CliError::usage("--tls-cert: only --http-engine direct can serve HTTPS"));
        }
        self.check_listeners()?;
        bucket_specs::check(&self.start.bucket)?;
        self.check_local_max()?;
        self.remote.check_takeover()?;
        self.addressing.check_website_domain()?;
        self.http.tls_files().map(drop)
    }

    fn check_listeners(&self) -> Result<(), CliError> {
        let console = self.console.console_listen.map(|listen| ("--console-listen", listen));
        for (option, listen) in [("--listen", self.start.listen)].into_iter().chain(console) {
            if self.http.http_engine == EngineName::TinyHttp && !listen.ip().is_loopback() {
                return Err(CliError::usage(format!(
                    "{option} {listen}: the engine tiny_http accepts ambiguous requests and has no limit of connections, threads and \
                     memory, so it listens on loopback addresses alone. Use --http-engine direct, or {option} 127.0.0.1:{}",
                    listen.port()
                )));
            }
        }
        if console.is_none() && !self.console.console_path.is_reserved() {
            return Err(CliError::usage(format!(
                "--console-path {}: beside S3 requests it is below {}, since it would hide a bucket elsewhere. Set --console-listen",
                self.console.console_path.as_str(),
                ConsoleRoot::DEFAULT
            )));
        }
        let Some((option, listen)) = console else { return Ok(()) };
        if self.console.console == ConsoleAccess::Off {
            return Err(CliError::usage(format!("{option} {listen}: there is no console, by --console off")));
        }
        if listen == self.start.listen && listen.port() != 0 {
            return Err(CliError::usage(format!(
                "{option} {listen}: it is the address of --listen, where the console is without {option}"
            )));
        }
        Ok(())
    }

    /// Open segments cannot go to the remote. Where they filled the limit, writes would be refused
    /// for ever.
    fn check_local_max(&self) -> Result<(), CliError> {
        let least = LOCAL_SEGMENTS_MIN.saturating_mul(self.store.segment_size.0);
        if self.remote.local_max.as_ref().is_none_or(|most| most.0 >= least) {
            return Ok(());
        }
        let least = ByteCount(least);
        Err(CliError::usage(format!(
            "--local-max: at least {least}, {LOCAL_SEGMENTS_MIN} times --segment-size"
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::time::Duration;

    use crate::cli::config::config_file::options;
    use crate::cli::logs::logging::LogLevel;

    #[test]
    fn options_that_are_not_set_have_their_defaults() {
        let set = options(
            &["--listen=127.0.0.1:1"],
            "listen = '127.0.0.1:2'\nworkers = 3\nshutdown_timeout = '1m 5s'",
        );
        assert_eq!(set.start.listen, "127.0.0.1:1".parse().unwrap());
        assert_eq!(set.http.workers.map(NonZeroUsize::get), Some(3));
        assert_eq!(set.http.shutdown_timeout.0, Duration::from_secs(65));
        assert_eq!((set.logs.log_level, set.addressing.region.0.len()), (LogLevel::Info, 2));
    }

    #[test]
    fn a_limit_of_local_bytes_leaves_room_beside_the_open_segments() {
        assert!(options(&["--segment-size=4MiB", "--local-max=16MiB"], "").check().is_ok());
        let refused = options(&["--segment-size=4MiB", "--local-max=15MiB"], "").check().unwrap_err();
        assert!(refused.to_string().contains("at least 16MiB"), "{refused}");
    }
}
