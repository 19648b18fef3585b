//! The options of the server. Each is declared once, with its flag, its environment variable, its
//! help and its default.
//!
//! A flag takes precedence over the environment variable, the variable over the configuration file,
//! and the file over the default.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};
use siltstone::auth::Secret;
use siltstone::base::limits;
use siltstone::console::{ConsoleAccess, ConsoleRoot, OidcSettings};
use siltstone::http::{EngineName, Networks};
use siltstone::ops::EntityTags;
use siltstone::s3::{Dialect, ObjectOwnership};
use siltstone::service::{HtmlSandbox, MetricsAccess};
use siltstone::store::{ScrubPace, ShipOptions, StoreCreation, TierOptions};

use super::bucket_specs::{self, BucketSpecs};
use super::option_values::{
    ByteCount, RegionNames, ScrubRate, ShipWhen, TimeSpan, WebOrigins, metrics_access, public_url, web_url,
};
use super::secret_files::warn_of_world;
use super::tls_files::TlsFiles;
use crate::cli::error::CliError;
use crate::cli::logs::access_log::AccessLogFormat;
use crate::cli::logs::logging::{LogFormat, LogLevel};

/// The segments that have to fit into the limit of local bytes: one for each kind of write, and one
/// on its way to the remote.
const LOCAL_SEGMENTS_MIN: u64 = 4;

/// The shortest time without a heartbeat: a writer gives one every 5 s, and it is looked for
/// every 3 s.
const TAKEOVER_AFTER_MIN: Duration = Duration::from_secs(15);
/// The least bound of the lag: the remote is looked at three times in it.
const LAG_MAX_MIN: Duration = Duration::from_secs(3);

/// Every option with its value.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct ServerOptions {
    /// Directory of all stored data; created if missing, see --create
    #[arg(long, value_name = "DIR", env = "SILTSTONE_DATA_DIR", global = true)]
    #[arg(default_value = "./siltstone-data")]
    pub(crate) data_dir: PathBuf,

    /// Whether a store may be made: auto where the directory is empty or missing, never where it is
    /// expected, as on a mount point
    #[arg(long, value_name = "WHEN", env = "SILTSTONE_CREATE", global = true, default_value = "auto")]
    #[arg(value_parser = one_of(&[("auto", StoreCreation::Auto), ("never", StoreCreation::Never)]))]
    pub(crate) create: StoreCreation,

    /// Address to accept connections on; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", env = "SILTSTONE_LISTEN", global = true)]
    #[arg(default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 9000)))]
    pub(crate) listen: SocketAddr,

    /// File of users and permissions; created with one administrator if missing [default:
    /// DIR/users.toml]
    #[arg(long, value_name = "FILE", env = "SILTSTONE_USERS", global = true)]
    users: Option<PathBuf>,

    /// Buckets to make at the start if they are missing: NAME, NAME:versioned, NAME:locked (object
    /// lock), NAME:public (anyone may read objects, and not list them), NAME:versioned+public; may
    /// be repeated
    #[arg(long, value_name = "NAME[:MODIFIER],...", env = "SILTSTONE_BUCKETS", global = true)]
    pub(crate) bucket: Vec<BucketSpecs>,

    /// Empty directories in the data directory that stand for buckets to make, as in MinIO.
    #[arg(skip)]
    pub(crate) bucket_directories: Vec<String>,

    /// The server's region, then further ones that signatures may name; * for all
    #[arg(long, value_name = "NAME,...", env = "SILTSTONE_REGION", global = true)]
    #[arg(default_value = "eu,us-east-1")]
    pub(crate) region: RegionNames,

    /// Domain whose subdomains are buckets, in addition to path style
    #[arg(long, value_name = "DOMAIN", env = "SILTSTONE_DOMAIN", global = true)]
    domain: Option<String>,

    /// Origins whose pages may use buckets without a CORS configuration, such as
    /// https://app.example; * stands for all, none for no origin
    #[arg(long, value_name = "ORIGIN,...", env = "SILTSTONE_CORS_ALLOW_ORIGIN", global = true)]
    #[arg(default_value = "none")]
    pub(crate) cors_allow_origin: WebOrigins,

    /// Domain whose subdomains are websites of buckets
    #[arg(long, value_name = "DOMAIN", env = "SILTSTONE_WEBSITE_DOMAIN", global = true)]
    website_domain: Option<String>,

    /// Whether stored HTML and SVG documents that are read without a signature run no scripts
    #[arg(long, value_name = "NAME", env = "SILTSTONE_HTML_SANDBOX", global = true, default_value = "on")]
    #[arg(value_parser = one_of(&[("on", HtmlSandbox::On), ("off", HtmlSandbox::Off)]))]
    pub(crate) html_sandbox: HtmlSandbox,

    /// Console for browsers at /-/console/, over TLS or for browsers on this host
    #[arg(long, value_name = "NAME", env = "SILTSTONE_CONSOLE", global = true, default_value = "on")]
    #[arg(value_parser = one_of(&[("on", ConsoleAccess::On), ("off", ConsoleAccess::Off)]))]
    console: ConsoleAccess,

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
    console_insecure: bool,

    /// Scheme, host and port by which clients reach this server, in links to share and in lines to
    /// paste: where a proxy or a published port stands before it, such as https://s3.example.org
    #[arg(long, value_name = "URL", env = "SILTSTONE_PUBLIC_URL", global = true, value_parser = public_url)]
    pub(crate) public_url: Option<String>,

    /// Address of the console as browsers know it: where a browser that opens the root of the
    /// server is led
    #[arg(long, value_name = "URL", env = "SILTSTONE_CONSOLE_URL", global = true, value_parser = web_url)]
    pub(crate) console_url: Option<String>,

    /// Let people sign in to the console by this OpenID provider: the URL of the issuer, as its
    /// tokens state it
    #[arg(long, value_name = "URL", env = "SILTSTONE_OIDC_ISSUER", global = true)]
    oidc_issuer: Option<String>,

    /// Name of this server at the OpenID provider
    #[arg(long, value_name = "ID", env = "SILTSTONE_OIDC_CLIENT_ID", global = true)]
    oidc_client_id: Option<String>,

    /// File with the secret of this server at the OpenID provider; none for a public client
    #[arg(long, value_name = "FILE", env = "SILTSTONE_OIDC_CLIENT_SECRET_FILE", global = true)]
    oidc_client_secret_file: Option<PathBuf>,

    /// Scopes to ask the OpenID provider for, with spaces between them
    #[arg(
        long,
        value_name = "NAMES",
        env = "SILTSTONE_OIDC_SCOPES",
        global = true,
        default_value = "openid profile"
    )]
    oidc_scopes: String,

    /// Claim with the groups of a person; with dots between them, the names on the way to it
    /// (realm_access.roles)
    #[arg(
        long,
        value_name = "NAME",
        env = "SILTSTONE_OIDC_GROUPS_CLAIM",
        global = true,
        default_value = "groups"
    )]
    oidc_groups_claim: String,

    /// PEM file with the authorities that sign the OpenID provider's certificate, instead of those
    /// of the system
    #[arg(long, value_name = "FILE", env = "SILTSTONE_OIDC_CA_FILE", global = true)]
    oidc_ca_file: Option<PathBuf>,

    /// Dialect of requests without a vendor prefix
    #[arg(long, value_name = "NAME", env = "SILTSTONE_DIALECT", global = true, default_value = "svc")]
    #[arg(value_parser = one_of(&[("svc", Dialect::Svc), ("aws", Dialect::Aws)]))]
    pub(crate) dialect: Dialect,

    /// Ownership of objects in buckets without ownership controls; BucketOwnerEnforced means that
    /// there are no ACLs
    #[arg(long, value_name = "NAME", env = "SILTSTONE_OBJECT_OWNERSHIP", global = true)]
    #[arg(default_value = ObjectOwnership::BucketOwnerEnforced.as_str())]
    #[arg(value_parser = one_of(&ObjectOwnership::TABLE))]
    pub(crate) object_ownership: ObjectOwnership,

    /// Accept URLs presigned by signature version 2, as AWS's clients still make them for us-east-1
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_SIGV2_PRESIGNED", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = true)]
    pub(crate) sigv2_presigned: bool,

    /// Namespace of XML documents; empty for none
    #[arg(long, value_name = "URI", env = "SILTSTONE_XML_NAMESPACE", global = true)]
    #[arg(default_value = "http://s3.amazonaws.com/doc/2006-03-01/")]
    pub(crate) xml_namespace: String,

    /// Clients that may read /-/metrics: none (off), those on this host (local) or all (open)
    #[arg(long, value_name = "NAME", env = "SILTSTONE_METRICS", global = true)]
    #[arg(value_parser = metrics_access, default_value = "local")]
    pub(crate) metrics: MetricsAccess,

    /// ETag of a put: the MD5 of its bytes, or, cheaper, their CRC-32 as HEX-1
    #[arg(long, value_name = "NAME", env = "SILTSTONE_ETAG", global = true, default_value = "md5")]
    #[arg(value_parser = one_of(&[("md5", EntityTags::Md5), ("crc", EntityTags::Crc)]))]
    pub(crate) etag: EntityTags,

    /// HTTP engine: direct, or tiny_http on loopback addresses
    #[arg(long, value_name = "NAME", env = "SILTSTONE_HTTP_ENGINE", global = true, default_value = "direct")]
    #[arg(value_parser = one_of(&[("direct", EngineName::Direct), ("tiny_http", EngineName::TinyHttp)]))]
    pub(crate) http_engine: EngineName,

    /// Serve HTTPS with the certificates of this PEM file, the server's first
    #[arg(long, value_name = "FILE", env = "SILTSTONE_TLS_CERT", global = true)]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", env = "SILTSTONE_TLS_KEY", global = true)]
    tls_key: Option<PathBuf>,

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
        "Memory that may be used in addition to the index; at least {least} [default: a quarter of the machine's, {least} to {most}]",
        least = ByteCount(limits::MEMORY_MIN_BYTES),
        most = ByteCount(limits::MEMORY_DEFAULT_MAX_BYTES),
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

    /// Buckets that a user may own, unless its quota has another limit
    #[arg(long, value_name = "N", env = "SILTSTONE_BUCKETS_MAX", global = true)]
    #[arg(default_value_t = limits::BUCKETS_MAX_DEFAULT)]
    pub(crate) buckets_max: u64,

    /// Time after the latest part after which multipart uploads are aborted, unless a lifecycle
    /// rule of the bucket does
    #[arg(long, value_name = "TIME", env = "SILTSTONE_ABORT_UPLOADS_AFTER", global = true)]
    #[arg(default_value_t = TimeSpan::from_secs(limits::ABORT_UPLOADS_AFTER_DEFAULT_SECS))]
    pub(crate) abort_uploads_after: TimeSpan,

    /// Size at which a data segment is followed by another; at least 1MiB
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_SEGMENT_SIZE", global = true)]
    #[arg(default_value_t = ByteCount(limits::SEGMENT_MAX_BYTES))]
    pub(crate) segment_size: ByteCount,

    /// Only look at the data directory: writes are refused, and nothing is written there or to the
    /// remote. As --read-only or --read-only=BOOL
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_READ_ONLY", global = true)]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = false, default_missing_value = "true")]
    pub(crate) read_only: bool,

    /// Most bytes that data segments take up on this disk, where a remote has the others; at least
    /// 4 times --segment-size [default: none]
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_LOCAL_MAX", global = true)]
    pub(crate) local_max: Option<ByteCount>,

    /// Time for which the bytes of a segment stay on this disk after the remote has got them
    /// [default: none]
    #[arg(long, value_name = "TIME", env = "SILTSTONE_KEEP_LOCAL", global = true)]
    pub(crate) keep_local: Option<TimeSpan>,

    /// Time for which the remote keeps the bytes of a segment after the last object in it is gone,
    /// for backups
    #[arg(long, value_name = "TIME", env = "SILTSTONE_KEEP_DROPPED", global = true)]
    #[arg(default_value_t = TimeSpan::from_secs(limits::KEEP_DROPPED_SECS))]
    pub(crate) keep_dropped: TimeSpan,

    /// When a write is on the remote: async for within --ship-every, sync for before it is answered
    #[arg(long, value_name = "WHEN", env = "SILTSTONE_SHIP", global = true)]
    #[arg(default_value_t = ShipWhen(None))]
    pub(crate) ship: ShipWhen,

    /// Interval at which the log is sent to the remote
    #[arg(long, value_name = "TIME", env = "SILTSTONE_SHIP_EVERY", global = true)]
    #[arg(default_value_t = TimeSpan::from_secs(limits::SHIP_EVERY_SECS))]
    pub(crate) ship_every: TimeSpan,

    /// With async: age of the oldest write that the remote lacks, beyond which writes get 503
    /// [default: --takeover-after, where it is set; else none]
    #[arg(long, value_name = "TIME", env = "SILTSTONE_SHIP_LAG_MAX", global = true)]
    ship_lag_max: Option<TimeSpan>,

    /// Time without a heartbeat of the writer after which a standby takes over; at least 15s.
    /// Without it only `promote` takes over. The writer has the same setting
    #[arg(long, value_name = "TIME", env = "SILTSTONE_TAKEOVER_AFTER", global = true)]
    pub(crate) takeover_after: Option<TimeSpan>,

    /// Time into the past that a restore from the remote reaches at least
    #[arg(long, value_name = "TIME", env = "SILTSTONE_SHIP_WINDOW", global = true)]
    #[arg(default_value_t = TimeSpan::from_secs(limits::SHIP_WINDOW_SECS))]
    pub(crate) ship_window: TimeSpan,

    /// Write although the remote has a log and this server does not continue it by --ship: that log
    /// ends
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_ABANDON_LOG", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = false)]
    pub(crate) abandon_log: bool,

    /// One of several hosts with one remote: the start goes on where this directory is the newest
    /// and no other host writes, and else follows the writer, as the command standby does. All of
    /// them have the same setting
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_STANDBY", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = false)]
    pub(crate) standby: bool,

    /// Answer reads on a standby from the directory that it fills; the answers may be stale, and
    /// say so
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_STANDBY_READS", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = false)]
    pub(crate) standby_reads: bool,

    /// Log that is kept for mirrors and other followers alone; one that is further behind starts
    /// over
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_FOLLOW_MAX", global = true)]
    #[arg(default_value_t = ByteCount(limits::FOLLOW_MAX_BYTES))]
    pub(crate) follow_max: ByteCount,

    /// Bytes a second that may be moved to reclaim space; a shortage of space overrules it
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_RECLAIM_RATE", global = true)]
    #[arg(default_value_t = ByteCount(limits::RECLAIM_RATE_BYTES_PER_SEC))]
    pub(crate) reclaim_rate: ByteCount,

    /// Bytes a second that may be read to scrub stored bytes for damage; 0 for none
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_SCRUB_RATE", global = true)]
    #[arg(help = format!(
        "Bytes a second that may be read to scrub stored bytes for damage; 0 for none [default: for a pass in {}d, at least {}]",
        limits::SCRUB_PASS_SECS / (24 * 60 * 60),
        ByteCount(limits::SCRUB_RATE_BYTES_PER_SEC),
    ))]
    scrub_rate: Option<ScrubRate>,

    /// Percent of the bytes on the remote that the scrub reads in 30 days; 0 for none
    #[arg(long, value_name = "PERCENT", env = "SILTSTONE_SCRUB_REMOTE", global = true)]
    #[arg(default_value_t = limits::SCRUB_REMOTE_PERCENT, value_parser = clap::value_parser!(u64).range(0..=100))]
    scrub_remote: u64,

    /// Write a line for each request to this file, - for standard error; without it they are in the
    /// log
    #[arg(long, value_name = "FILE", env = "SILTSTONE_ACCESS_LOG", global = true)]
    access_log: Option<PathBuf>,

    /// How a line of the access log is written: json, or common as web servers do
    #[arg(long, value_name = "NAME", env = "SILTSTONE_ACCESS_LOG_FORMAT", global = true)]
    #[arg(value_enum, default_value_t = AccessLogFormat::Json)]
    pub(crate) access_log_format: AccessLogFormat,

    /// Write a line of JSON for each attempt to change users, permissions, locks or configurations,
    /// or to delete a version, to this file, - for standard error
    #[arg(long, value_name = "FILE", env = "SILTSTONE_AUDIT_LOG", global = true)]
    pub(crate) audit_log: Option<PathBuf>,

    /// Lowest level that is logged on standard error
    #[arg(long, value_name = "LEVEL", env = "SILTSTONE_LOG_LEVEL", global = true)]
    #[arg(value_enum, default_value_t = LogLevel::Info)]
    pub(crate) log_level: LogLevel,

    /// How a line of the log is written: text, or json
    #[arg(long, value_name = "NAME", env = "SILTSTONE_LOG_FORMAT", global = true)]
    #[arg(value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

/// Parses the path of the console.
fn console_root(text: &str) -> Result<ConsoleRoot, &'static str> {
    text.parse()
}

/// Parses one of several names into its value.
fn one_of<T: Copy + Send + Sync + 'static>(
    values: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let value_of = |name: String| values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    PossibleValuesParser::new(values.iter().map(|(name, _)| *name))
        .try_map(move |name| value_of(name).ok_or("it is not one of the names"))
}

const fn not_zero(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("a default is not zero")
}

impl ServerOptions {
    /// The users file.
    pub(crate) fn users_path(&self) -> PathBuf {
        self.users.clone().unwrap_or_else(|| self.data_dir.join("users.toml"))
    }

    /// The files that it names. They may be in the data directory before the first start.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let named = [
            &self.users,
            &self.oidc_client_secret_file,
            &self.oidc_ca_file,
            &self.tls_cert,
            &self.tls_key,
            &self.access_log,
            &self.audit_log,
        ];
        named.into_iter().flatten().map(PathBuf::as_path)
    }

    /// The browsers that may use the console.
    pub(crate) fn console_access(&self) -> ConsoleAccess {
        match self.console {
            ConsoleAccess::On if self.console_insecure => ConsoleAccess::Insecure,
            access => access,
        }
    }

    /// The OpenID provider of the console.
    ///
    /// # Errors
    /// The file with the secret cannot be read, or the settings are not sound.
    pub(crate) fn oidc(&self) -> Result<Option<OidcSettings>, CliError> {
        let (issuer, client_id) = match (&self.oidc_issuer, &self.oidc_client_id) {
            (Some(issuer), Some(client_id)) => (issuer, client_id),
            (None, None) => return Ok(None),
            _ => return Err(CliError::usage("--oidc-issuer and --oidc-client-id are given together")),
        };
        let read = |path: &PathBuf| {
            warn_of_world(path);
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| CliError::usage(format!("{}: {error}", path.display())))?;
            Ok(Secret::new(text.trim()))
        };
        let settings = OidcSettings {
            issuer: issuer.clone(),
            client_id: client_id.clone(),
            client_secret: self.oidc_client_secret_file.as_ref().map(read).transpose()?,
            scopes: self.oidc_scopes.clone(),
            groups_claim: self.oidc_groups_claim.clone(),
            authorities: self.oidc_ca_file.clone(),
        };
        settings.check().map_err(|why| CliError::usage(format!("--oidc-issuer: {why}")))?;
        Ok(Some(settings))
    }

    /// The domain of virtual hosts, in lower case.
    pub(crate) fn host_domain(&self) -> Option<String> {
        self.domain.as_ref().map(|domain| domain.to_ascii_lowercase())
    }

    /// The domain of websites, in lower case.
    pub(crate) fn website_domain(&self) -> Option<String> {
        self.website_domain.as_ref().map(|domain| domain.to_ascii_lowercase())
    }

    /// The settings of the tier.
    pub(crate) fn tier(&self) -> TierOptions {
        TierOptions {
            local_max_bytes: self.local_max.as_ref().map_or(u64::MAX, |most| most.0),
            keep_local: self.keep_local.as_ref().map_or(Duration::ZERO, |time| time.0),
            keep_dropped: self.keep_dropped.0,
            scrub_percent: self.scrub_remote,
            abandons_log: self.abandon_log,
        }
    }

    /// The settings of shipping; `None` where the log stays here.
    pub(crate) fn shipping(&self) -> Option<ShipOptions> {
        let mode = self.ship.0?;
        let root_every = Duration::from_secs(limits::ROOT_EVERY_SECS);
        Some(ShipOptions { mode, root_every, window: self.ship_window.0, lag_max: self.lag_max() })
    }

    /// The age of the oldest write that the remote may lack. A second host may write after the time
    /// of a takeover, so this one stops by then.
    fn lag_max(&self) -> Option<Duration> {
        let most = self.ship_lag_max.as_ref().or(self.takeover_after.as_ref());
        most.map(|most| most.0)
    }

    /// The interval at which the log is sent: well within the bound of its lag.
    pub(crate) fn ship_interval(&self) -> Duration {
        self.lag_max().map_or(self.ship_every.0, |most| self.ship_every.0.min(most / 3))
    }

    /// The pace of the scrub; `None` for no scrub.
    pub(crate) fn scrub_pace(&self) -> Option<ScrubPace> {
        match self.scrub_rate {
            None => Some(ScrubPace::Weekly),
            Some(ScrubRate(0)) => None,
            Some(ScrubRate(bytes)) => Some(ScrubPace::BytesPerSec(bytes)),
        }
    }

    /// Checks that the options are consistent.
    ///
    /// # Errors
    /// Names the conflicting options.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        if self.http_engine == EngineName::TinyHttp && self.tls_files()?.is_some() {
            return Err(CliError::usage("--tls-cert: only --http-engine direct can serve HTTPS"));
        }
        self.check_listeners()?;
        bucket_specs::check(&self.bucket)?;
        self.check_local_max()?;
        self.check_takeover()?;
        self.check_website_domain()?;
        self.tls_files().map(drop)
    }

    fn check_listeners(&self) -> Result<(), CliError> {
        let console = self.console_listen.map(|listen| ("--console-listen", listen));
        for (option, listen) in [("--listen", self.listen)].into_iter().chain(console) {
            if self.http_engine == EngineName::TinyHttp && !listen.ip().is_loopback() {
                return Err(CliError::usage(format!(
                    "{option} {listen}: the engine tiny_http accepts ambiguous requests and has no limit of connections, threads and \
                     memory, so it listens on loopback addresses alone. Use --http-engine direct, or {option} 127.0.0.1:{}",
                    listen.port()
                )));
            }
        }
        if console.is_none() && !self.console_path.is_reserved() {
            return Err(CliError::usage(format!(
                "--console-path {}: beside S3 requests it is below {}, since it would hide a bucket elsewhere. Set --console-listen",
                self.console_path.as_str(),
                ConsoleRoot::DEFAULT
            )));
        }
        let Some((option, listen)) = console else { return Ok(()) };
        if self.console == ConsoleAccess::Off {
            return Err(CliError::usage(format!("{option} {listen}: there is no console, by --console off")));
        }
        if listen == self.listen && listen.port() != 0 {
            return Err(CliError::usage(format!(
                "{option} {listen}: it is the address of --listen, where the console is without {option}"
            )));
        }
        Ok(())
    }

    /// Open segments cannot go to the remote. Where they filled the limit, writes would be refused
    /// for ever.
    fn check_local_max(&self) -> Result<(), CliError> {
        let least = LOCAL_SEGMENTS_MIN.saturating_mul(self.segment_size.0);
        if self.local_max.as_ref().is_none_or(|most| most.0 >= least) {
            return Ok(());
        }
        let least = ByteCount(least);
        Err(CliError::usage(format!(
            "--local-max: at least {least}, {LOCAL_SEGMENTS_MIN} times --segment-size"
        )))
    }

    /// Two hosts answer writes for as long as the bound of the lag at most, so it is no longer than
    /// the time of a takeover.
    fn check_takeover(&self) -> Result<(), CliError> {
        let takeover_after = self.takeover_after.as_ref().map(|time| time.0);
        if takeover_after.is_some_and(|time| time < TAKEOVER_AFTER_MIN) {
            return Err(CliError::usage("--takeover-after: at least 15s"));
        }
        let Some(most) = self.ship_lag_max.as_ref().map(|time| time.0) else { return Ok(()) };
        if most < LAG_MAX_MIN {
            return Err(CliError::usage("--ship-lag-max: at least 3s"));
        }
        match takeover_after {
            Some(time) if most > time => Err(CliError::usage(
                "--ship-lag-max: at most --takeover-after, after which another host may write",
            )),
            _ => Ok(()),
        }
    }

    fn check_website_domain(&self) -> Result<(), CliError> {
        let Some(domain) = self.website_domain() else { return Ok(()) };
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        if domain.is_empty() || domain.starts_with('.') || !domain.chars().all(is_of_name) {
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

    /// The file of the access log; `None` to write its lines to the log. If the log is JSON, the
    /// access log is written to standard error as JSON lines of its own.
    pub(crate) fn access_log_path(&self) -> Option<&Path> {
        let among_json = self.log_format == LogFormat::Json && self.log_level >= LogLevel::Info;
        self.access_log.as_deref().or(among_json.then_some(Path::new("-")))
    }

    /// The files of the certificate and the key; `None` for plain HTTP.
    ///
    /// # Errors
    /// One is set without the other.
    pub(crate) fn tls_files(&self) -> Result<Option<TlsFiles>, CliError> {
        TlsFiles::named(self.tls_cert.clone(), self.tls_key.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::config::config_file::options;

    #[test]
    fn options_that_are_not_set_have_their_defaults() {
        let set = options(
            &["--listen=127.0.0.1:1"],
            "listen = '127.0.0.1:2'\nworkers = 3\nshutdown_timeout = '1m 5s'",
        );
        assert_eq!(set.listen, "127.0.0.1:1".parse().unwrap());
        assert_eq!(set.workers.map(NonZeroUsize::get), Some(3));
        assert_eq!(set.shutdown_timeout.0, Duration::from_secs(65));
        assert_eq!((set.log_level, set.region.0.len()), (LogLevel::Info, 2));
    }

    #[test]
    fn the_users_file_is_in_the_data_directory_unless_it_is_named() {
        assert_eq!(options(&[], "data_dir = '/d'").users_path(), Path::new("/d/users.toml"));
        let named = options(&[], "data_dir = '/d'\nusers = '/etc/u.toml'");
        assert_eq!(named.users_path(), Path::new("/etc/u.toml"));
    }

    #[test]
    fn version_2_is_accepted_unless_it_is_switched_off() {
        assert!(options(&[], "").sigv2_presigned);
        assert!(!options(&[], "sigv2_presigned = false").sigv2_presigned);
        assert!(!options(&["--sigv2-presigned", "false"], "sigv2_presigned = true").sigv2_presigned);
    }

    #[test]
    fn a_limit_of_local_bytes_leaves_room_beside_the_open_segments() {
        assert!(options(&["--segment-size=4MiB", "--local-max=16MiB"], "").check().is_ok());
        let refused = options(&["--segment-size=4MiB", "--local-max=15MiB"], "").check().unwrap_err();
        assert!(refused.to_string().contains("at least 16MiB"), "{refused}");
    }

    #[test]
    fn the_lag_is_bounded_where_a_takeover_is_named() {
        let bound = |arguments: &[&str]| {
            let set = options(arguments, "ship = 'async'");
            set.check().map(|()| (set.shipping().unwrap().lag_max, set.ship_interval()))
        };
        let seconds = Duration::from_secs;
        assert_eq!(bound(&[]).unwrap(), (None, seconds(2)));
        assert_eq!(bound(&["--takeover-after=30s"]).unwrap(), (Some(seconds(30)), seconds(2)));
        let both = ["--takeover-after=30s", "--ship-lag-max=3s"];
        assert_eq!(bound(&both).unwrap(), (Some(seconds(3)), seconds(1)));
        assert_eq!(bound(&["--ship-lag-max=1h"]).unwrap().0, Some(seconds(3600)));
        for (arguments, why) in [
            (&["--takeover-after=14s"][..], "at least 15s"),
            (&["--ship-lag-max=2s"], "at least 3s"),
            (&["--takeover-after=15s", "--ship-lag-max=16s"], "at most --takeover-after"),
        ] {
            assert!(bound(arguments).unwrap_err().to_string().contains(why), "{arguments:?}");
        }
    }

    #[test]
    fn a_scrub_rate_of_zero_turns_the_scrub_off() {
        assert_eq!(options(&[], "").scrub_pace(), Some(ScrubPace::Weekly));
        assert_eq!(options(&["--scrub-rate=0"], "").scrub_pace(), None);
        assert_eq!(options(&["--scrub-rate=1MiB"], "").scrub_pace(), Some(ScrubPace::BytesPerSec(1 << 20)));
    }
}
