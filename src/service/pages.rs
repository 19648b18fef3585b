//! The pages below `/-/`, for monitoring. They need no signature, so they show nothing of the stored data and of the
//! disk.

use super::{Service, quota_metrics};
use crate::base::Timestamp;
use crate::ops::Health;
use crate::s3::{ErrorCode, Method, Request, Response, ResponseBody, S3Error};

/// Headers that proxies add. A request with one of them may come from another client than its peer.
const FORWARDING_HEADERS: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];

/// The clients that may read `/-/metrics`. None needs a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsAccess {
    /// None: the page does not exist.
    Off,
    /// Clients on this host: the peer has a loopback address and does not forward for another client.
    Local,
    /// Every client.
    Open,
}

impl MetricsAccess {
    fn allows(self, request: &Request<'_>) -> bool {
        match self {
            Self::Off => false,
            Self::Local => is_local(request),
            Self::Open => true,
        }
    }
}

/// An unknown peer may be anywhere.
fn is_local(request: &Request<'_>) -> bool {
    let is_forwarded = FORWARDING_HEADERS.iter().any(|name| request.headers.get(name).is_some());
    !is_forwarded && request.peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback())
}

/// The name of the page that MinIO has at the requested path ("Healthcheck API", "Admin API"). Only GET and HEAD ask for the health
/// there, so that a put of such a key succeeds as everywhere; the administration refuses every method.
pub(super) fn by_minio_path(request: &Request<'_>) -> Option<&'static str> {
    let path = request.path.strip_prefix("/minio/")?;
    if is_administration(path) {
        return Some("administration");
    }
    let name = path.strip_prefix("health/")?;
    if !matches!(request.method, Method::Get | Method::Head) {
        return None;
    }
    match name {
        "live" | "cluster/read" => Some("health"),
        // A maintenance that takes this host down leaves no other.
        "cluster" if request.query.contains("maintenance=true") => Some("maintenance"),
        "ready" | "cluster" => Some("ready"),
        _ => None,
    }
}

/// Whether a path below `/minio/` is one of MinIO's administration (`admin/v3/info`), which does not exist here.
fn is_administration(path: &str) -> bool {
    let version = path.strip_prefix("admin/v").and_then(|rest| rest.split('/').next());
    version.is_some_and(|version| !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Service {
    /// Handles a request for `/-/{name}`.
    pub(super) fn page(&self, name: &str, request: &Request<'_>) -> Result<Response, S3Error> {
        if name == "administration" {
            return Ok(no_administration());
        }
        if !matches!(request.method, Method::Get | Method::Head) {
            return Err(S3Error::new(ErrorCode::MethodNotAllowed).header("Allow", "GET, HEAD"));
        }
        match (name, self.settings.metrics) {
            ("maintenance", _) => Ok(text(412, "There is no other server that would go on.\n")),
            ("health", _) => Ok(text(200, "alive\n")),
            ("ready", _) => Ok(self.ready()),
            ("metrics", access) if access.allows(request) => Ok(self.exposition()),
            ("metrics", MetricsAccess::Local) => Ok(text(
                403,
                "The metrics are for clients on the server's host, unless it runs with --metrics open.\n",
            )),
            _ => Ok(text(404, "There is no such page.\n")),
        }
    }

    /// Whether a put would succeed now, and every background thread runs.
    fn ready(&self) -> Response {
        match obstacle(&self.context.health()) {
            None => text(200, "ready\n"),
            Some(obstacle) => text(503, &obstacle),
        }
    }

    fn exposition(&self) -> Response {
        let health = self.context.health();
        let scrub = health.scrub;
        let finished = scrub.finished.map_or(0, Timestamp::as_secs);
        let mut page = self.recorder.metrics.exposition();
        let memory = self.context.memory.usage();
        for (name, help, value) in [
            ("memory_max_bytes", "Memory that may be used beside the index.", memory.ceiling),
            (
                "memory_used_bytes",
                "Memory that is set aside or reserved, of memory_max_bytes.",
                memory.fixed + memory.reserved,
            ),
            ("memory_index_bytes", "Memory that the index takes up.", health.index_bytes),
            ("memory_index_max_bytes", "Memory that the index may take up.", health.index_max_bytes),
            ("store_read_only", "Whether the store takes no writes.", u64::from(health.read_only.is_some())),
            ("store_damaged_places", "Places of damage found since the start.", health.damage.len() as u64),
            ("store_buckets", "Buckets.", health.buckets),
            ("store_versions", "Versions of objects, delete markers included.", health.versions),
            ("store_live_bytes", "Bytes of extents that versions refer to.", health.live_bytes),
            ("store_segments", "Data segments.", health.segments),
            ("scrub_bad_extents", "Extents found bad by the scrub and still referred to.", scrub.bad),
            (
                "scrub_finished_seconds",
                "When the last pass ended, in seconds since 1970; 0: never.",
                finished,
            ),
        ] {
            page += &family(name, help, "gauge", value);
        }
        for (name, help, value) in [
            ("memory_refused_total", "Reservations of memory that were refused.", memory.refused),
            ("store_reclaimed_segments_total", "Data segments taken away.", health.reclaimed_segments),
            ("store_reclaimed_bytes_total", "Bytes given back to the file system.", health.reclaimed_bytes),
            ("store_moved_bytes_total", "Bytes moved so that segments could go.", health.moved_bytes),
            ("scrub_extents_total", "Extents checked by the scrub.", scrub.extents),
            ("scrub_bytes_total", "Bytes checked by the scrub.", scrub.bytes),
        ] {
            page += &family(name, help, "counter", value);
        }
        page += "# HELP siltstone_written_bytes_total Bytes written to the disk, by what they were written for.\n\
                 # TYPE siltstone_written_bytes_total counter\n";
        for (kind, bytes) in health.written.by_kind() {
            page += &format!("siltstone_written_bytes_total{{kind=\"{kind}\"}} {bytes}\n");
        }
        page += &family(
            "put_bytes_total",
            "Payload of objects and parts that was acknowledged: what the bytes written are the cost of.",
            "counter",
            health.written.payload,
        );
        page += &quota_metrics::exposition(self.context.quota_limits());
        // The version of the format (Prometheus, "Exposition formats").
        Response::new(200)
            .header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            .with_body(ResponseBody::Bytes(page.into_bytes()))
    }
}

/// The reason why a put would be refused, or why puts will be before long. It is public: the details, with files and offsets,
/// are in the log.
fn obstacle(health: &Health) -> Option<String> {
    let Health { index_bytes, index_max_bytes, .. } = health;
    if let Some(reason) = health.read_only_reason {
        return Some(format!(
            "The store takes no writes: {reason} Reads go on. The server's log has the details.\n"
        ));
    }
    if health.index_full {
        return Some(format!(
            "The index takes up {index_bytes} bytes of the {index_max_bytes} that --index-max allows, so puts are refused. Reads \
             and deletes go on. Delete objects, or raise --index-max.\n"
        ));
    }
    if health.disk_full {
        return Some(
            "The disk is full, so puts are refused. Reads and deletes go on. Delete objects, or make the disk larger.\n".to_owned(),
        );
    }
    health.stopped_thread.map(|name| {
        format!(
            "The thread `{name}` panicked, so the disk will fill up. Restart the server, and report the panic with the lines of \
             its log.\n"
        )
    })
}

/// The refusal in the form that MinIO's clients read.
fn no_administration() -> Response {
    const REFUSAL: &str = r#"{"Code":"NotImplemented","Message":"This server is not MinIO: it has no administration over HTTP. Users are in its users file."}"#;
    Response::new(501)
        .header("Content-Type", "application/json")
        .with_body(ResponseBody::Bytes(REFUSAL.as_bytes().to_vec()))
}

fn family(name: &str, help: &str, kind: &str, value: u64) -> String {
    format!("# HELP siltstone_{name} {help}\n# TYPE siltstone_{name} {kind}\nsiltstone_{name} {value}\n")
}

fn text(status: u16, text: &str) -> Response {
    Response::new(status)
        .header("Content-Type", "text/plain; charset=utf-8")
        .with_body(ResponseBody::Bytes(text.as_bytes().to_vec()))
}
