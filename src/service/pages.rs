//! The pages below `/-/`, for monitoring. They need no signature, so they show no key, no content
//! and no path. The metrics show the names of buckets and of owners with quotas to those who may
//! read them ([`MetricsAccess`]).

use std::time::Duration;

use super::metrics::{self, Exposition};
use super::{MetricsToken, MirrorSides, Service};
use crate::ops::{Health, RemoteProbed, ShipFigures};
use crate::s3::{ErrorCode, Method, Request, Response, ResponseBody, S3Error};

/// The lag of the log on the remote that is reported: beyond `--ship-every`, as a rule.
const LAG_TOLD: Duration = Duration::from_secs(10);

/// The clients that may read `/-/metrics` without its token. None needs a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsAccess {
    /// None: the page does not exist.
    Off,
    /// Clients on this host: the peer has a loopback address and does not forward for another
    /// client.
    Local,
    /// Every client.
    Open,
}

impl MetricsAccess {
    pub(super) fn allows(self, request: &Request<'_>) -> bool {
        match self {
            Self::Off => false,
            Self::Local => request.is_local(),
            Self::Open => true,
        }
    }
}

/// Whether the client may read the metrics: by where it is, or by the token.
pub(super) fn may_read(request: &Request<'_>, access: MetricsAccess, token: Option<&MetricsToken>) -> bool {
    access.allows(request) || token.is_some_and(|token| token.is_stated_by(request))
}

/// The refusal of a client that does not state the token of the metrics.
pub(super) fn token_needed() -> Response {
    text(401, "The metrics are for clients that state the token of --metrics-token-file.\n")
        .header("WWW-Authenticate", "Bearer realm=\"metrics\"")
}

/// The name of the page that MinIO has at the requested path ("Healthcheck API", "Admin API"). Only
/// GET and HEAD ask for the health there, so that a put of such a key succeeds as everywhere; the
/// administration refuses every method.
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
        "live" => Some("health"),
        "cluster/read" => Some("readable"),
        // A maintenance that takes this host down leaves no other.
        "cluster" if request.query.contains("maintenance=true") => Some("maintenance"),
        "ready" | "cluster" => Some("ready"),
        _ => None,
    }
}

/// Whether a page is one of the health of the server, which monitors ask for every few seconds.
pub(super) fn is_health(page: &str) -> bool {
    matches!(page, "health" | "readable" | "ready" | "maintenance")
}

/// Whether a path below `/minio/` is one of MinIO's administration (`admin/v3/info`), which does
/// not exist here.
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
            ("readable", _) => Ok(text(200, "readable\n")),
            ("ready", access) => Ok(self.ready(may_read(request, access, self.metrics_token.as_deref()))),
            ("metrics", access) if may_read(request, access, self.metrics_token.as_deref()) => {
                Ok(self.exposition())
            }
            ("metrics", _) if self.metrics_token.is_some() => Ok(token_needed()),
            ("metrics", MetricsAccess::Local) => Ok(text(
                403,
                "The metrics are for clients on the server's host, unless it runs with --metrics open.\n",
            )),
            _ => Ok(text(404, "There is no such page.\n")),
        }
    }

    /// Whether a put would succeed now, and every background thread runs. Those who may read the metrics
    /// also see the directories of disks, as there.
    fn ready(&self, shows_dirs: bool) -> Response {
        let probed = self.context.store.remote_probed();
        let is_shipped = self.context.store.ship_figures().is_some();
        let shipped_to = probed.filter(|_| is_shipped);
        let obstacle = obstacle(&self.context.health())
            .or_else(|| self.unshipped())
            .or_else(|| unsafe_remote(shipped_to.as_ref()));
        match obstacle {
            None => text(200, &self.ready_text(shipped_to.as_ref(), shows_dirs)),
            Some(obstacle) => text(503, &obstacle),
        }
    }

    /// The reason why writes are refused until the remote has more of the log, if they are.
    fn unshipped(&self) -> Option<String> {
        let why = self.context.store.ship_obstacle()?;
        Some(format!("{why} Reads go on.\n"))
    }

    /// A clock that is in doubt is reported here: puts go on, and what was to expire stays for a
    /// while. A follower that starts over is reported here, too, since the copy that it makes is
    /// not current for a long time, and one that has lost changes, until it goes on after them. So is a
    /// store that has all its bytes on one of two disks.
    fn ready_text(&self, shipped_to: Option<&RemoteProbed>, shows_dirs: bool) -> String {
        let mut told = "ready\n".to_owned();
        if let Some(sides) = self.mirror_sides() {
            told += &degraded_text(&sides, shows_dirs);
        }
        if self.context.store.fast_disk().is_some_and(|fast| fast.is_shadow_given_up) {
            told += "The log has no shadow for the next minutes: where the fast disk is lost meanwhile, all is. The server's log says why.\n";
        }
        if self.context.store.clock_figures().is_held {
            told += "The clock jumped ahead, so that nothing expires by its age: see siltstone clock show.\n";
        }
        let followers = self.context.store.follower_figures();
        if followers.iter().any(|it| it.is_overrun || (it.in_snapshot && it.starts_over > 0)) {
            told += "A follower of the log starts over, since the log was not kept for so long: see the metrics.\n";
        }
        if let Some(lost) =
            self.context.store.copy_findings().map(|found| found.lost.len()).filter(|lost| *lost > 0)
        {
            told += &format!(
                "{lost} copies of segments on the remote are gone or changed, and their bytes are not all on this disk, so that reads of \
                 their objects fail. The server's log names them.\n"
            );
        }
        if let Some(lag) = self.context.store.ship_figures().and_then(|figures| lag_text(&figures)) {
            told += &lag;
        }
        if let Some(lack) = self.context.shown_ring().lack() {
            told += &lack;
            told.push('\n');
        }
        if let Some(why) = self.context.store.remote_refusal() {
            told += &format!("Nothing is changed on the remote, and no bytes leave this disk: {why}.\n");
        }
        told + undecided_remote(shipped_to)
    }

    /// Shows the requests, the store and the memory.
    pub(super) fn show_metrics(&self, page: &mut Exposition) {
        self.recorder.metrics.show(page);
        let clock = self.context.store.clock_figures();
        metrics::store(page, &self.context.health(), &self.context.memory.usage(), &clock);
        metrics::keys(page, &self.context.shown_ring());
    }

    fn exposition(&self) -> Response {
        let mut page = Exposition::default();
        self.show_metrics(&mut page);
        if let Some(expires) = self.certificate_expires() {
            metrics::certificate(&mut page, expires);
        }
        metrics::sides(&mut page, self.mirror_sides().as_ref());
        metrics::disk_hook(&mut page, self.disk_hook.as_deref());
        metrics::segment_bytes(&mut page, self.context.store.segment_bytes());
        metrics::fast_disk(&mut page, self.context.store.fast_disk());
        metrics::remote(&mut page, &self.context.store.tier_figures().unwrap_or_default());
        metrics::remote_copies(&mut page, &self.context.store.copy_findings().unwrap_or_default());
        metrics::remote_repairs(&mut page, &self.context.store.repair_figures().unwrap_or_default());
        metrics::remote_epoch(&mut page, &self.context.store.tier_figures().unwrap_or_default());
        metrics::remote_probe(&mut page, self.context.store.remote_probed().as_ref());
        metrics::remote_requests(&mut page, &self.context.store.remote_requests());
        metrics::ship(&mut page, &self.context.store.ship_figures().unwrap_or_default());
        metrics::followers(&mut page, &self.context.store.follower_figures());
        metrics::mirrors(&mut page, &self.mirrors);
        metrics::commits(&mut page, &self.context.store.commit_figures());
        metrics::usage(&mut page, self.context.store.bucket_usages());
        metrics::quotas(&mut page, self.context.quota_limits());
        metrics::webhooks(&mut page, &self.webhook_states());
        metrics::lifecycle(&mut page, &self.lifecycle.snapshot());
        if let Some(logs) = &self.recorder.bucket_logs {
            metrics::bucket_logs(&mut page, &logs.figures());
        }
        exposition(page)
    }
}

/// A page of metrics, with the version of the format (Prometheus, "Exposition formats").
pub(super) fn exposition(page: Exposition) -> Response {
    Response::new(200)
        .header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        .with_body(ResponseBody::Bytes(page.finish()))
}

/// The reason why a put would be refused, or why puts will be before long. It is public: the
/// details, with files and offsets, are in the log.
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

/// A line for each side of a mirror that has not all bytes.
fn degraded_text(sides: &MirrorSides, shows_dirs: bool) -> String {
    let mut told = String::new();
    for side in sides.sides.iter().filter(|side| side.state != "whole") {
        let place = if shows_dirs { format!(" ({})", side.dir) } else { String::new() };
        let since = side.since.to_iso8601();
        let state = match (side.state, sides.filled_percent()) {
            ("filling", Some(percent)) => {
                format!("is filled since {since}: {percent} %, {} bytes are left.", sides.left_bytes)
            }
            ("filling", None) => format!("is filled since {since}."),
            _ if shows_dirs => format!("is not in the mirror since {since}: {}", side.why),
            _ => format!("is not in the mirror since {since}. The server's log says why."),
        };
        told += &format!("degraded: side {}{place} {state}\n", side.letter);
    }
    told
}

/// What the remote lacks, where it is long behind.
fn lag_text(figures: &ShipFigures) -> Option<String> {
    let ShipFigures { waiting_groups, lag, lag_max, .. } = figures;
    if *lag < LAG_TOLD {
        return None;
    }
    let bound = match lag_max.as_secs() {
        0 => "Writes go on without a bound.".to_owned(),
        most => format!("Writes are refused beyond {most} s."),
    };
    Some(format!(
        "The remote lacks {waiting_groups} groups of writes, the oldest up to {} s old: they are on the disk of this host alone. {bound}\n",
        lag.as_secs()
    ))
}

/// The reason why a log that is sent to a remote is not safe there.
fn unsafe_remote(shipped_to: Option<&RemoteProbed>) -> Option<String> {
    let reason = "The log is sent to a remote that does not keep it, as its last probe found. The server's log has the details.\n";
    shipped_to.filter(|probed| !probed.keeps_objects).map(|_| reason.to_owned())
}

/// The warning about a remote on which two hosts cannot agree.
fn undecided_remote(shipped_to: Option<&RemoteProbed>) -> &'static str {
    match shipped_to {
        Some(probed) if !probed.decides_races => {
            "The remote does not decide between two hosts, so that --takeover-after is not safe. The server's log has the details.\n"
        }
        _ => "",
    }
}

/// The refusal in the form that MinIO's clients read.
fn no_administration() -> Response {
    const REFUSAL: &str = r#"{"Code":"NotImplemented","Message":"This server is not MinIO: it has no administration over HTTP. `siltstone user`, `quota`, `mirror` and `webhook` take its place, and the console."}"#;
    Response::new(501)
        .header("Content-Type", "application/json")
        .with_body(ResponseBody::Bytes(REFUSAL.as_bytes().to_vec()))
}

/// A page of text.
pub(super) fn text(status: u16, text: &str) -> Response {
    Response::new(status)
        .header("Content-Type", "text/plain; charset=utf-8")
        .with_body(ResponseBody::Bytes(text.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;
    use crate::service::MirrorSide;

    #[test]
    fn a_remote_that_loses_the_log_is_an_obstacle_and_one_that_decides_nothing_a_warning() {
        let told = |keeps_objects, decides_races| {
            let at = Timestamp::from_millis(1);
            let probed = RemoteProbed { at, keeps_objects, decides_races, problem: None };
            (unsafe_remote(Some(&probed)).is_some(), undecided_remote(Some(&probed)).is_empty())
        };
        assert_eq!(told(true, true), (false, true));
        assert_eq!(told(true, false), (false, false));
        assert_eq!(told(false, false), (true, false));
        assert!(unsafe_remote(None).is_none() && undecided_remote(None).is_empty());
    }

    #[test]
    fn each_side_that_has_not_all_bytes_is_told_with_its_directory_to_those_who_may_see_it() {
        let side = |letter, state| MirrorSide {
            letter,
            dir: "/srv/disk".to_owned(),
            state,
            since: Timestamp::from_millis(0),
            why: "Input/output error".to_owned(),
        };
        let told = |state, fill_bytes, shows_dirs| {
            let sides = [side('A', "whole"), side('B', state)];
            let left_bytes = fill_bytes / 4;
            let figures = MirrorSides { sides, left_bytes, fill_bytes, repaired_files: 0, waiting_files: 0 };
            degraded_text(&figures, shows_dirs)
        };
        let since = "since 1970-01-01T00:00:00.000Z";
        assert_eq!(told("whole", 0, true), "");
        let out = format!("degraded: side B (/srv/disk) is not in the mirror {since}: Input/output error\n");
        assert_eq!(told("out", 0, true), out);
        let out = format!("degraded: side B is not in the mirror {since}. The server's log says why.\n");
        assert_eq!(told("out", 0, false), out);
        let filled = format!("degraded: side B (/srv/disk) is filled {since}: 75 %, 100 bytes are left.\n");
        assert_eq!(told("filling", 400, true), filled);
        assert_eq!(told("filling", 0, false), format!("degraded: side B is filled {since}.\n"));
    }
}
