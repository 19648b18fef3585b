//! Options: the engine, TLS, and the limits of connections, threads, memory and time.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use siltstone::base::limits;
use siltstone::http::{EngineName, Networks};

use crate::cli::config::option_values::{ByteCount, TimeSpan, not_zero, one_of};
use crate::cli::config::tls_files::TlsFiles;
use crate::cli::error::CliError;

/// The engine, TLS, and the limits of connections, threads, memory and time.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct HttpOptions {
    /// HTTP engine: direct, or tiny_http on loopback addresses
    #[arg(long, value_name = "NAME", env = "SILTSTONE_HTTP_ENGINE", global = true, default_value = "direct")]
    #[arg(value_parser = one_of(&[("direct", EngineName::Direct), ("tiny_http", EngineName::TinyHttp)]))]
    pub(crate) http_engine: EngineName,

    /// Serve HTTPS with the certificates of this PEM file, the server's first
    #[arg(long, value_name = "FILE", env = "SILTSTONE_TLS_CERT", global = true)]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", env = "SILTSTONE_TLS_KEY", global = true)]
    pub(crate) tls_key: Option<PathBuf>,

    /// Threads that answer requests
    #[arg(long, value_name = "N", env = "SILTSTONE_WORKERS", global = true)]
    #[arg(help = format!("Threads that answer requests [default: {}, or fewer by --memory-max]", limits::WORKERS_DEFAULT))]
    pub(crate) workers: Option<NonZeroUsize>,

    /// Requests that may wait for a thread; more are answered with 503
    #[arg(long, value_name = "N", env = "SILTSTONE_QUEUE", global = true)]
    #[arg(default_value_t = not_zero(limits::QUEUE_LEN_DEFAULT))]
    pub(crate) queue: NonZeroUsize,

    /// Connections that may be open at once
    #[arg(long, value_name = "N", env = "SILTSTONE_MAX_CONNECTIONS", global = true)]
    #[arg(help = format!("Connections that may be open at once [default: {}, or fewer by --memory-max]", limits::CONNECTIONS_MAX_DEFAULT))]
    pub(crate) max_connections: Option<NonZeroUsize>,

    /// Connections of one address (IPv6: of one /64) that may be open at once [default: a quarter
    /// of --max-connections]
    #[arg(long, value_name = "N", env = "SILTSTONE_MAX_CONNECTIONS_PER_ADDRESS", global = true)]
    pub(crate) max_connections_per_address: Option<NonZeroUsize>,

    /// Addresses and networks without that limit, such as 10.0.0.0/8; loopback stands for this
    /// host, none for no address
    #[arg(
        long,
        value_name = "LIST",
        env = "SILTSTONE_TRUSTED_PROXIES",
        global = true,
        default_value = "loopback"
    )]
    pub(crate) trusted_proxies: Networks,

    /// Memory that may be used in addition to the index
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_MEMORY_MAX", global = true)]
    #[arg(help = format!(
        "Memory that may be used in addition to the index; at least {} [default: a quarter of the machine's, {} to {}]",
        ByteCount(limits::MEMORY_MIN_BYTES),
        ByteCount(limits::MEMORY_DEFAULT_MIN_BYTES),
        ByteCount(limits::MEMORY_DEFAULT_MAX_BYTES),
    ))]
    pub(crate) memory_max: Option<ByteCount>,

    /// Memory that the index of keys may use; puts near it get 507 [default: three quarters of
    /// what --memory-max leaves]
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_INDEX_MAX", global = true)]
    pub(crate) index_max: Option<ByteCount>,

    /// How long a connection may stay open without a request
    #[arg(long, value_name = "TIME", env = "SILTSTONE_IDLE_TIMEOUT", global = true)]
    #[arg(default_value_t = TimeSpan::from_secs(limits::IDLE_DEADLINE_DEFAULT_SECS))]
    pub(crate) idle_timeout: TimeSpan,

    /// How long running requests, and a last checkpoint after them, may go on after SIGTERM
    #[arg(long, value_name = "TIME", env = "SILTSTONE_SHUTDOWN_TIMEOUT", global = true)]
    #[arg(default_value_t = TimeSpan::from_secs(limits::SHUTDOWN_TIMEOUT_DEFAULT_SECS))]
    pub(crate) shutdown_timeout: TimeSpan,

    /// How long completing an upload, or reading for a copy, may take before the response begins
    /// with whitespace
    #[arg(long, value_name = "TIME", env = "SILTSTONE_KEEP_ALIVE_AFTER", global = true)]
    #[arg(default_value_t = TimeSpan::from_secs(limits::PADDING_AFTER_SECS))]
    pub(crate) keep_alive_after: TimeSpan,
}

impl HttpOptions {
    /// The files of the certificate and the key; `None` for plain HTTP.
    ///
    /// # Errors
    /// One is set without the other.
    pub(crate) fn tls_files(&self) -> Result<Option<TlsFiles>, CliError> {
        TlsFiles::named(self.tls_cert.clone(), self.tls_key.clone())
    }
}
