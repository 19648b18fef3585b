//! Everything that an operator may set, and where: a flag wins over its environment variable, that over the
//! configuration file, that over the default.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use siltstone::base::limits;
use siltstone::http::{EngineName, Networks};
use siltstone::ops::EntityTags;
use siltstone::s3::Dialect;
use siltstone::service::MetricsAccess;
use siltstone::store::ScrubPace;

use super::Failure;
use super::access_log::LineFormat;
use super::logging::{LogFormat, LogLevel};
use super::tls_files::TlsFiles;

/// What was set in one place. The same list serves flags, environment and file, so that none of them lacks an entry.
#[derive(Debug, Default, Clone, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    /// Directory of all that is stored; made if missing [default: ./siltstone-data]
    #[arg(long, value_name = "DIR", env = "SILTSTONE_DATA_DIR", global = true)]
    data_dir: Option<PathBuf>,

    /// Address to accept connections on; port 0 picks a free one [default: 127.0.0.1:9000]
    #[arg(long, value_name = "ADDR:PORT", env = "SILTSTONE_LISTEN", global = true)]
    listen: Option<SocketAddr>,

    /// File of users and permissions; made with one administrator if missing [default: DIR/users.toml]
    #[arg(long, value_name = "FILE", env = "SILTSTONE_USERS", global = true)]
    users: Option<PathBuf>,

    /// The server's region, then further ones that signatures may name [default: eu,us-east-1]
    #[arg(long, value_name = "NAME,...", env = "SILTSTONE_REGION", global = true)]
    region: Option<Regions>,

    /// Domain whose subdomains are buckets, beside path style [default: none]
    #[arg(long, value_name = "DOMAIN", env = "SILTSTONE_DOMAIN", global = true)]
    domain: Option<String>,

    /// Dialect of requests that bear no vendor's name [default: svc]
    #[arg(long, value_name = "NAME", env = "SILTSTONE_DIALECT", global = true)]
    dialect: Option<DialectName>,

    /// Namespace of XML documents; empty for none [default: http://s3.amazonaws.com/doc/2006-03-01/]
    #[arg(long, value_name = "URI", env = "SILTSTONE_XML_NAMESPACE", global = true)]
    xml_namespace: Option<String>,

    /// Who may read /-/metrics: nobody (off), clients on this host (local) or all (open) [default: local]
    #[arg(long, value_name = "NAME", env = "SILTSTONE_METRICS", global = true)]
    metrics: Option<MetricsName>,

    /// What the ETag of a put is: the MD5 of its bytes, or, cheaper, their CRC-32 as HEX-1 [default: md5]
    #[arg(long, value_name = "NAME", env = "SILTSTONE_ETAG", global = true)]
    etag: Option<ETagName>,

    /// What serves HTTP: direct, or tiny_http, on loopback addresses alone [default: direct]
    #[arg(long, value_name = "NAME", env = "SILTSTONE_HTTP_ENGINE", global = true)]
    http_engine: Option<EngineFlag>,

    /// Serve HTTPS with the certificates of this file, in PEM: the server's first [default: none]
    #[arg(long, value_name = "FILE", env = "SILTSTONE_TLS_CERT", global = true)]
    tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM [default: none]
    #[arg(long, value_name = "FILE", env = "SILTSTONE_TLS_KEY", global = true)]
    tls_key: Option<PathBuf>,

    /// Threads that answer requests [default: 96, or fewer by --memory-max]
    #[arg(long, value_name = "N", env = "SILTSTONE_WORKERS", global = true)]
    workers: Option<NonZeroUsize>,

    /// Requests that may wait for a thread; more are answered with 503 [default: 1024]
    #[arg(long, value_name = "N", env = "SILTSTONE_QUEUE", global = true)]
    queue: Option<NonZeroUsize>,

    /// Connections that may be open at once [default: 8192, or fewer by --memory-max]
    #[arg(long, value_name = "N", env = "SILTSTONE_MAX_CONNECTIONS", global = true)]
    max_connections: Option<NonZeroUsize>,

    /// Connections of one address (IPv6: of one /64) that may be open at once [default: a quarter of --max-connections]
    #[arg(long, value_name = "N", env = "SILTSTONE_MAX_CONNECTIONS_PER_ADDRESS", global = true)]
    max_connections_per_address: Option<NonZeroUsize>,

    /// Addresses and networks without that limit, such as 10.0.0.0/8; loopback stands for this host, none for nobody [default: loopback]
    #[arg(long, value_name = "LIST", env = "SILTSTONE_TRUSTED_PROXIES", global = true)]
    trusted_proxies: Option<TrustedProxies>,

    /// Memory that may be used beside the index; at least 64MiB [default: a quarter of the machine's, 64MiB to 1GiB]
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_MEMORY_MAX", global = true)]
    memory_max: Option<Size>,

    /// Memory that the index of keys may take up; puts near it get 507 [default: three quarters of what --memory-max leaves]
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_INDEX_MAX", global = true)]
    index_max: Option<Size>,

    /// How long a connection may stay open without a request [default: 1m]
    #[arg(long, value_name = "TIME", env = "SILTSTONE_IDLE_TIMEOUT", global = true)]
    idle_timeout: Option<Period>,

    /// How long running requests, and a last checkpoint after them, may go on after SIGTERM [default: 10s]
    #[arg(long, value_name = "TIME", env = "SILTSTONE_SHUTDOWN_TIMEOUT", global = true)]
    shutdown_timeout: Option<Period>,

    /// How long completing an upload, or reading for a copy, may take before the answer begins with blanks [default: 5s]
    #[arg(long, value_name = "TIME", env = "SILTSTONE_KEEP_ALIVE_AFTER", global = true)]
    keep_alive_after: Option<Period>,

    /// Age at which multipart uploads in progress are given up [default: none]
    #[arg(long, value_name = "TIME", env = "SILTSTONE_ABORT_UPLOADS_AFTER", global = true)]
    abort_uploads_after: Option<Period>,

    /// Size at which a data segment is followed by another; at least 1MiB [default: 256MiB]
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_SEGMENT_SIZE", global = true)]
    segment_size: Option<Size>,

    /// Bytes a second that may be moved to win back room; room that is short overrules it [default: 32MiB]
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_RECLAIM_RATE", global = true)]
    reclaim_rate: Option<Size>,

    /// Bytes a second that may be read to check what is stored for damage; 0 for none [default: for a pass in 6d, at least 4MiB]
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_SCRUB_RATE", global = true)]
    scrub_rate: Option<Rate>,

    /// Write a line for each request to this file, - for standard error; else they are among the log [default: none]
    #[arg(long, value_name = "FILE", env = "SILTSTONE_ACCESS_LOG", global = true)]
    access_log: Option<PathBuf>,

    /// How a line of the access log is written: json, or common as web servers do [default: json]
    #[arg(long, value_name = "NAME", env = "SILTSTONE_ACCESS_LOG_FORMAT", global = true)]
    access_log_format: Option<LineFormat>,

    /// Least weight of what is logged on standard error [default: info]
    #[arg(long, value_name = "LEVEL", env = "SILTSTONE_LOG_LEVEL", global = true)]
    log_level: Option<LogLevel>,

    /// How a line of the log is written: text, or json [default: text]
    #[arg(long, value_name = "NAME", env = "SILTSTONE_LOG_FORMAT", global = true)]
    log_format: Option<LogFormat>,
}

/// A dialect by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DialectName {
    Svc,
    Aws,
}

/// A kind of ETag by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ETagName {
    Md5,
    Crc,
}

/// Who may read the metrics, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "toml::Value")]
enum MetricsName {
    Off,
    Local,
    Open,
}

/// An engine by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
enum EngineFlag {
    Direct,
    TinyHttp,
}

/// One region or more, each with a name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
struct Regions(Vec<String>);

/// A span of time as operators write it, such as `10s` or `2m 30s`; not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Period(Duration);

/// A number of bytes as operators write it, such as `512KiB` or `64MiB`; at least one mebibyte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Size(u64);

/// Clients whose connections are not counted by their address.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct TrustedProxies(Networks);

/// Bytes a second, or `0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Rate(u64);

/// What holds in the end: every option with its value.
#[derive(Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) data_dir: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) users: PathBuf,
    /// The server's own region first.
    pub(crate) regions: Vec<String>,
    /// In lower case.
    pub(crate) domain: Option<String>,
    pub(crate) dialect: Dialect,
    pub(crate) xml_namespace: String,
    pub(crate) metrics: MetricsAccess,
    pub(crate) entity_tags: EntityTags,
    pub(crate) http_engine: EngineName,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    /// `None`: as many as the memory has room for, up to the default.
    pub(crate) workers: Option<usize>,
    pub(crate) queue_len: usize,
    /// As `workers`.
    pub(crate) connections_max: Option<usize>,
    /// `None`: a share of `connections_max`.
    pub(crate) connections_per_address_max: Option<usize>,
    pub(crate) trusted_proxies: Networks,
    /// In bytes, beside the index. `None`: by the machine.
    pub(crate) memory_max: Option<u64>,
    /// In bytes. `None`: by the machine.
    pub(crate) index_max: Option<u64>,
    pub(crate) idle_timeout: Duration,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) keep_alive_after: Duration,
    pub(crate) abort_uploads_after: Option<Duration>,
    pub(crate) segment_max_bytes: u64,
    pub(crate) reclaim_rate: u64,
    /// `None`: no scrub.
    pub(crate) scrub_pace: Option<ScrubPace>,
    pub(crate) access_log: Option<PathBuf>,
    pub(crate) access_log_format: LineFormat,
    pub(crate) log_level: LogLevel,
    pub(crate) log_format: LogFormat,
}

impl Options {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// A file that cannot be read, is no TOML, has an unknown key or a value that does not fit: the message names the
    /// file and the line.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|e| {
            Failure::usage(format!("cannot read the configuration file {}: {e}", path.display()))
        })?;
        toml::from_str(&text)
            .map_err(|e| Failure::usage(format!("in the configuration file {}: {e}", path.display())))
    }

    /// These options, and where one is not set, `other`'s.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            data_dir: self.data_dir.or(other.data_dir),
            listen: self.listen.or(other.listen),
            users: self.users.or(other.users),
            region: self.region.or(other.region),
            domain: self.domain.or(other.domain),
            dialect: self.dialect.or(other.dialect),
            xml_namespace: self.xml_namespace.or(other.xml_namespace),
            metrics: self.metrics.or(other.metrics),
            etag: self.etag.or(other.etag),
            http_engine: self.http_engine.or(other.http_engine),
            tls_cert: self.tls_cert.or(other.tls_cert),
            tls_key: self.tls_key.or(other.tls_key),
            workers: self.workers.or(other.workers),
            queue: self.queue.or(other.queue),
            max_connections: self.max_connections.or(other.max_connections),
            max_connections_per_address: self
                .max_connections_per_address
                .or(other.max_connections_per_address),
            trusted_proxies: self.trusted_proxies.or(other.trusted_proxies),
            memory_max: self.memory_max.or(other.memory_max),
            index_max: self.index_max.or(other.index_max),
            idle_timeout: self.idle_timeout.or(other.idle_timeout),
            shutdown_timeout: self.shutdown_timeout.or(other.shutdown_timeout),
            keep_alive_after: self.keep_alive_after.or(other.keep_alive_after),
            abort_uploads_after: self.abort_uploads_after.or(other.abort_uploads_after),
            segment_size: self.segment_size.or(other.segment_size),
            reclaim_rate: self.reclaim_rate.or(other.reclaim_rate),
            scrub_rate: self.scrub_rate.or(other.scrub_rate),
            access_log: self.access_log.or(other.access_log),
            access_log_format: self.access_log_format.or(other.access_log_format),
            log_level: self.log_level.or(other.log_level),
            log_format: self.log_format.or(other.log_format),
        }
    }
}

impl From<Options> for Settings {
    /// Fills in the defaults.
    fn from(set: Options) -> Self {
        let data_dir = set.data_dir.unwrap_or_else(|| "./siltstone-data".into());
        let period =
            |set: Option<Period>, default| set.map_or(Duration::from_secs(default), |Period(time)| time);
        Self {
            users: set.users.unwrap_or_else(|| data_dir.join("users.toml")),
            data_dir,
            listen: set.listen.unwrap_or((Ipv4Addr::LOCALHOST, 9000).into()),
            regions: set.region.map_or_else(|| vec!["eu".into(), "us-east-1".into()], |Regions(names)| names),
            domain: set.domain.map(|domain| domain.to_ascii_lowercase()),
            dialect: set.dialect.map_or(Dialect::Svc, DialectName::dialect),
            xml_namespace: set
                .xml_namespace
                .unwrap_or_else(|| "http://s3.amazonaws.com/doc/2006-03-01/".to_owned()),
            metrics: set.metrics.map_or(MetricsAccess::Local, MetricsName::access),
            entity_tags: set.etag.map_or(EntityTags::Md5, ETagName::entity_tags),
            http_engine: set.http_engine.map_or(EngineName::Direct, EngineFlag::engine),
            tls_cert: set.tls_cert,
            tls_key: set.tls_key,
            workers: set.workers.map(NonZeroUsize::get),
            queue_len: set.queue.map_or(limits::QUEUE_LEN_DEFAULT, NonZeroUsize::get),
            connections_max: set.max_connections.map(NonZeroUsize::get),
            connections_per_address_max: set.max_connections_per_address.map(NonZeroUsize::get),
            trusted_proxies: set.trusted_proxies.map_or_else(Networks::loopback, |TrustedProxies(list)| list),
            memory_max: set.memory_max.map(|Size(bytes)| bytes),
            index_max: set.index_max.map(|Size(bytes)| bytes),
            idle_timeout: period(set.idle_timeout, limits::IDLE_DEADLINE_DEFAULT_SECS),
            shutdown_timeout: period(set.shutdown_timeout, limits::SHUTDOWN_TIMEOUT_DEFAULT_SECS),
            keep_alive_after: period(set.keep_alive_after, limits::PADDING_AFTER_SECS),
            abort_uploads_after: set.abort_uploads_after.map(|Period(time)| time),
            segment_max_bytes: set.segment_size.map_or(limits::SEGMENT_MAX_BYTES, |Size(bytes)| bytes),
            reclaim_rate: set.reclaim_rate.map_or(limits::RECLAIM_RATE_BYTES_PER_SEC, |Size(bytes)| bytes),
            scrub_pace: match set.scrub_rate {
                None => Some(ScrubPace::Weekly),
                Some(Rate(0)) => None,
                Some(Rate(bytes)) => Some(ScrubPace::BytesPerSec(bytes)),
            },
            access_log: set.access_log,
            access_log_format: set.access_log_format.unwrap_or(LineFormat::Json),
            log_level: set.log_level.unwrap_or(LogLevel::Info),
            log_format: set.log_format.unwrap_or(LogFormat::Text),
        }
    }
}

impl Settings {
    /// Whether the settings can hold together.
    ///
    /// # Errors
    /// Names those that cannot.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.http_engine == EngineName::TinyHttp && self.tls_files()?.is_some() {
            return Err(Failure::usage("--tls-cert: only --http-engine direct can serve HTTPS"));
        }
        if self.http_engine == EngineName::TinyHttp && !self.listen.ip().is_loopback() {
            return Err(Failure::usage(format!(
                "--listen {}: the engine tiny_http takes requests that can be read in two ways, and has no limit of \
                 connections, threads and memory, so it listens on loopback addresses alone. Use --http-engine direct, or \
                 --listen 127.0.0.1:{}",
                self.listen,
                self.listen.port()
            )));
        }
        self.tls_files().map(drop)
    }

    /// Where the lines about requests go: among a log of JSON they stand as JSON of their own.
    pub(crate) fn access_log_path(&self) -> Option<&Path> {
        let among_json = self.log_format == LogFormat::Json && self.log_level >= LogLevel::Info;
        self.access_log.as_deref().or(among_json.then_some(Path::new("-")))
    }

    /// Where certificate and key are; `None` for plain HTTP.
    ///
    /// # Errors
    /// One is set without the other.
    pub(crate) fn tls_files(&self) -> Result<Option<TlsFiles>, Failure> {
        TlsFiles::named(self.tls_cert.clone(), self.tls_key.clone())
    }
}

impl DialectName {
    fn dialect(self) -> Dialect {
        match self {
            Self::Svc => Dialect::Svc,
            Self::Aws => Dialect::Aws,
        }
    }
}

impl ETagName {
    fn entity_tags(self) -> EntityTags {
        match self {
            Self::Md5 => EntityTags::Md5,
            Self::Crc => EntityTags::Crc,
        }
    }
}

impl MetricsName {
    fn access(self) -> MetricsAccess {
        match self {
            Self::Off => MetricsAccess::Off,
            Self::Local => MetricsAccess::Local,
            Self::Open => MetricsAccess::Open,
        }
    }
}

impl EngineFlag {
    fn engine(self) -> EngineName {
        match self {
            Self::Direct => EngineName::Direct,
            Self::TinyHttp => EngineName::TinyHttp,
        }
    }
}

impl FromStr for MetricsName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            "local" => Ok(Self::Local),
            "open" => Ok(Self::Open),
            // The values of earlier versions. `true` was the default, and few will have meant what it did.
            "true" => Err("instead of true, write open (for every client) or local (for those on this host)"),
            "false" => Err("instead of false, write off"),
            _ => Err("it is off, local or open"),
        }
    }
}

impl TryFrom<toml::Value> for MetricsName {
    type Error = &'static str;

    fn try_from(value: toml::Value) -> Result<Self, Self::Error> {
        match value {
            toml::Value::Boolean(value) => value.to_string().parse(),
            value => value.as_str().unwrap_or_default().parse(),
        }
    }
}

impl FromStr for Regions {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>().try_into()
    }
}

impl TryFrom<Vec<String>> for Regions {
    type Error = &'static str;

    fn try_from(names: Vec<String>) -> Result<Self, Self::Error> {
        let fit = !names.is_empty() && names.iter().all(|name| !name.is_empty());
        if fit { Ok(Self(names)) } else { Err("a region has no name") }
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match humantime::parse_duration(text) {
            Ok(time) if time.is_zero() => Err("it must be more than zero".to_owned()),
            Ok(time) => Ok(Self(time)),
            Err(e) => Err(format!("{e} (write 30s or 2m)")),
        }
    }
}

impl FromStr for TrustedProxies {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for TrustedProxies {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "0" { Ok(Self(0)) } else { text.parse().map(|Size(bytes)| Self(bytes)) }
    }
}

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<ByteSize>()?.as_u64() {
            bytes @ limits::MIB.. => Ok(Self(bytes)),
            _ => Err("it must be at least 1MiB".to_owned()),
        }
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl TryFrom<String> for Period {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::CommandLine;

    fn options(text: &str) -> Options {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn what_is_not_set_falls_back_to_the_next_place_and_then_to_the_default() {
        let flags = options("listen = '127.0.0.1:1'");
        let file = options("listen = '127.0.0.1:2'\nworkers = 3\nshutdown_timeout = '1m 5s'");
        let settings = Settings::from(flags.or(file));
        assert_eq!(settings.listen, "127.0.0.1:1".parse().unwrap());
        assert_eq!(settings.workers, Some(3));
        assert_eq!(settings.shutdown_timeout, Duration::from_secs(65));
        assert_eq!(settings.log_level, LogLevel::Info);
    }

    #[test]
    fn the_users_file_stands_in_the_data_directory_unless_it_is_named() {
        let settings = Settings::from(options("data_dir = '/d'"));
        assert_eq!(settings.users, Path::new("/d/users.toml"));
        let settings = Settings::from(options("data_dir = '/d'\nusers = '/etc/u.toml'"));
        assert_eq!(settings.users, Path::new("/etc/u.toml"));
    }

    #[test]
    fn unknown_keys_and_unfit_values_are_refused_with_their_line() {
        for wrong in [
            "workrs = 2",
            "queue = 0",
            "trusted_proxies = 'here'",
            "region = []",
            "listen = 'here'",
            "log_level = 'loud'",
            "idle_timeout = '0s'",
            "segment_size = '1023KiB'",
            "segment_size = '3 bytes'",
            "reclaim_rate = 'fast'",
            "metrics = 'all'",
        ] {
            let error = toml::from_str::<Options>(&format!("workers = 1\n{wrong}")).unwrap_err().to_string();
            assert!(error.contains("line 2"), "{error}");
        }
    }

    #[test]
    fn the_metrics_of_earlier_versions_are_told_what_to_write_instead() {
        for (old, instead) in [("true", "open"), ("false", "off")] {
            for written in [format!("metrics = {old}"), format!("metrics = '{old}'")] {
                let error = toml::from_str::<Options>(&written).unwrap_err().to_string();
                assert!(error.contains("line 1") && error.contains(instead), "{error}");
            }
            assert!(old.parse::<MetricsName>().unwrap_err().contains(instead));
        }
    }

    const EVERY_OPTION: &str = "data_dir = 'a'\nlisten = '[::1]:1'\nusers = 'u'\nregion = ['r']\ndomain = 'D'\n\
        dialect = 'aws'\nxml_namespace = ''\nmetrics = 'off'\netag = 'crc'\nhttp_engine = 'tiny_http'\ntls_cert = 'c'\ntls_key = 'k'\nworkers = 1\nqueue = 2\nmax_connections = 3\nmax_connections_per_address = 2\n\
        trusted_proxies = 'none'\n\
        idle_timeout = '4s'\nshutdown_timeout = '5s'\nkeep_alive_after = '6s'\n\
        abort_uploads_after = '7d'\nsegment_size = '64MiB'\nreclaim_rate = '1GiB'\nscrub_rate = '0'\n\
        access_log = '-'\naccess_log_format = 'common'\nlog_level = 'off'\nlog_format = 'json'\nmemory_max = '64MiB'\nindex_max = '64MiB'";

    #[test]
    fn every_option_can_stand_in_the_file_and_falls_back() {
        let all = options(EVERY_OPTION);
        assert_eq!(all.clone().or(Options::default()), all);
        assert_eq!(Options::default().or(all.clone()), all);
        assert!(!format!("{all:?}").contains("None"), "EVERY_OPTION leaves something out: {all:?}");
    }

    #[test]
    fn the_defaults_that_the_help_names_are_those_that_hold() {
        let command = CommandLine::command();
        let flags = command.get_arguments().filter_map(|arg| {
            let help = arg.get_help()?.to_string();
            let (default, _) = help.split_once("[default: ")?.1.split_once(']')?;
            let default = default.replace("DIR/", "./siltstone-data/");
            // What depends on the machine stands there in words.
            let is_known = default != "none" && !default.contains(' ');
            is_known.then(|| format!("--{}={default}", arg.get_long().unwrap_or_default()))
        });
        let flags: Vec<_> = std::iter::once("siltstone".to_owned()).chain(flags).collect();
        assert!(flags.len() > 10, "{flags:?}");
        let line = CommandLine::try_parse_from(flags).unwrap();
        assert_eq!(Settings::from(line.options), Settings::from(Options::default()));
    }
}
