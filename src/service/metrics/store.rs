//! The state of the store as metrics.

use super::Exposition;
use crate::base::Timestamp;
use crate::base::memory::MemoryUsage;
use crate::ops::{
    BucketUsage, ClockFigures, CommitFigures, CopyFindings, FollowerFigures, Health, RemoteProbed,
    RequestFigures, ShipFigures, TierFigures, Usage,
};
use crate::service::standby::StandbyState;

/// Buckets with samples of their own, those with the most bytes. The others are one sum.
const BUCKETS_MAX: usize = 100;
/// The label of that sum, which no bucket can have.
const OTHER_BUCKETS: &str = "(other)";
/// Microseconds of a second.
const MICRO: f64 = 1e6;

/// Adds the state of the store, and of the memory beside its index.
pub(in crate::service) fn store(
    page: &mut Exposition,
    health: &Health,
    memory: &MemoryUsage,
    clock: &ClockFigures,
) {
    page.family("build_info", "gauge", "The version of the server; always 1.");
    page.sample("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    for (name, help, value) in gauges(health, memory) {
        page.single(name, "gauge", help, value);
    }
    for (name, help, value) in counters(health, memory) {
        page.single(name, "counter", help, value);
    }
    if let Some((free, total)) = health.disk {
        page.single("disk_free_bytes", "gauge", "Bytes that are free on the file system of the data.", free);
        page.single("disk_size_bytes", "gauge", "Bytes of the file system of the data.", total);
    }
    let help = "Estimated time to replay the log that no checkpoint covers, after a crash.";
    page.single("replay_estimate_seconds", "gauge", help, health.replay_time.as_secs_f64());
    let help = "The creation time of the newest checkpoint; 0 before the first.";
    let created = health.newest_checkpoint.map_or(0, Timestamp::as_secs);
    page.single("checkpoint_created_timestamp_seconds", "gauge", help, created);
    let help = "How far the clock is behind the lock clock.";
    page.single("clock_behind_seconds", "gauge", help, clock.behind.as_secs_f64());
    let help = "How far the clock is ahead of the time by which things expire.";
    page.single("clock_ahead_seconds", "gauge", help, clock.ahead.as_secs_f64());
    let help = "Whether nothing expires by its age, since the clock jumped ahead.";
    page.single("clock_held", "gauge", help, u64::from(clock.is_held));
    page.family("written_bytes_total", "counter", "Bytes written to the disk, by the purpose of the write.");
    for (kind, bytes) in health.written.by_kind() {
        page.sample("written_bytes_total", &[("kind", kind)], bytes);
    }
    let help = "Payload of objects and parts that was acknowledged, which caused the bytes written.";
    page.single("put_bytes_total", "counter", help, health.written.payload);
}

type Figure = (&'static str, &'static str, u64);

fn gauges(health: &Health, memory: &MemoryUsage) -> [Figure; 12] {
    let scrubbed = health.scrub.finished.map_or(0, Timestamp::as_secs);
    [
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
        ("scrub_bad_extents", "Extents found bad by the scrub and still referred to.", health.scrub.bad),
        (
            "scrub_finished_timestamp_seconds",
            "The end of the last pass of the scrub; 0 before the first.",
            scrubbed,
        ),
    ]
}

fn counters(health: &Health, memory: &MemoryUsage) -> [Figure; 6] {
    [
        ("memory_refused_total", "Reservations of memory that were refused.", memory.refused),
        ("store_reclaimed_segments_total", "Data segments taken away.", health.reclaimed_segments),
        ("store_reclaimed_bytes_total", "Bytes given back to the file system.", health.reclaimed_bytes),
        ("store_moved_bytes_total", "Bytes moved so that segments could go.", health.moved_bytes),
        ("scrub_extents_total", "Extents checked by the scrub.", health.scrub.extents),
        ("scrub_bytes_total", "Bytes checked by the scrub.", health.scrub.bytes),
    ]
}

/// Adds the end of the certificate.
pub(in crate::service) fn certificate(page: &mut Exposition, expires: Timestamp) {
    let help = "The end of the server's certificate, or of an intermediate one that ends earlier.";
    page.single("tls_certificate_expiry_timestamp_seconds", "gauge", help, expires.as_secs());
}

/// Adds the state of the remote; zeros without one.
pub(in crate::service) fn remote(page: &mut Exposition, figures: &TierFigures) {
    page.family("remote_segments", "gauge", "Data segments, by how far their copies on the remote are.");
    for (phase, count) in [
        ("waiting", figures.waiting_segments),
        ("remote", figures.remote_segments),
        ("dropped", figures.dropped_segments),
    ] {
        page.sample("remote_segments", &[("phase", phase)], count);
    }
    let help = "Bytes of the segments that the remote has.";
    page.single("remote_bytes", "gauge", help, figures.remote_bytes);
    let help = "Bytes of these segments that are on this disk, too, and may be given back.";
    page.single("remote_cached_bytes", "gauge", help, figures.cached_bytes);
    let help = "Bytes of segments that have to stay on this disk.";
    page.single("remote_pinned_bytes", "gauge", help, figures.pinned_bytes);
    page.single("remote_fetches_total", "counter", "Reads from the remote.", figures.fetches);
    let help = "Bytes that were read from the remote.";
    page.single("remote_fetched_bytes_total", "counter", help, figures.fetched_bytes);
    page.single(
        "remote_sent_bytes_total",
        "counter",
        "Bytes that were sent to the remote.",
        figures.sent_bytes,
    );
}

/// Adds what the comparisons of the copies on the remote have found; zeros without a remote.
pub(in crate::service) fn remote_copies(page: &mut Exposition, found: &CopyFindings) {
    let help = "The end of the last listing of the copies on the remote; 0 before the first since the start.";
    let listed = found.listed.map_or(0, Timestamp::as_secs);
    page.single("remote_listing_timestamp_seconds", "gauge", help, listed);
    let help = "Copies on the remote that are gone or changed, and whose bytes are not all on this disk.";
    page.single("remote_lost_segments", "gauge", help, found.lost.len() as u64);
    let help = "Copies on the remote that were gone or changed, and were sent again.";
    page.single("remote_resent_segments_total", "counter", help, found.resent);
}

/// Adds the epoch of the store on the remote; zeros without a remote.
pub(in crate::service) fn remote_epoch(page: &mut Exposition, figures: &TierFigures) {
    let help = "The epoch in which objects of the remote are changed; 0 without one.";
    page.single("remote_epoch", "gauge", help, figures.epoch);
    let help = "Whether nothing is changed on the remote, and no bytes leave the disk: 1 or 0.";
    page.single("remote_refused", "gauge", help, u64::from(figures.refusal.is_some()));
}

/// Adds the outcome of the last probe of the remote; zeros before the first, and without a remote.
pub(in crate::service) fn remote_probe(page: &mut Exposition, probed: Option<&RemoteProbed>) {
    let help = "The end of the last probe of the remote; 0 before the first since the start.";
    let at = probed.map_or(0, |probed| probed.at.as_secs());
    page.single("remote_probe_timestamp_seconds", "gauge", help, at);
    let help = "Whether the last probe found the remote unfit for a mode: 1 or 0.";
    page.family("remote_unfit", "gauge", help);
    let lacks = |is_there: fn(&RemoteProbed) -> bool| probed.is_some_and(|probed| !is_there(probed));
    for (mode, is_unfit) in
        [("tier", lacks(|probed| probed.keeps_objects)), ("takeover", lacks(|probed| probed.decides_races))]
    {
        page.sample("remote_unfit", &[("mode", mode)], u64::from(is_unfit));
    }
}

/// Adds the requests to the remote, by kind.
pub(in crate::service) fn remote_requests(
    page: &mut Exposition,
    requests: &[(&'static str, RequestFigures)],
) {
    page.family("remote_requests_total", "counter", "Requests to the remote; each try is one.");
    for (class, figures) in requests {
        page.sample("remote_requests_total", &[("class", class)], figures.requests);
    }
    let help = "Requests that the remote did not answer, or with an error.";
    page.family("remote_failed_requests_total", "counter", help);
    for (class, figures) in requests {
        page.sample("remote_failed_requests_total", &[("class", class)], figures.failures);
    }
    let help = "Bytes of bodies that were sent to the remote, and received from there.";
    page.family("remote_body_bytes_total", "counter", help);
    let sum = |of: fn(&RequestFigures) -> u64| requests.iter().map(|(_, figures)| of(figures)).sum::<u64>();
    page.sample("remote_body_bytes_total", &[("direction", "sent")], sum(|figures| figures.sent_bytes));
    page.sample(
        "remote_body_bytes_total",
        &[("direction", "received")],
        sum(|figures| figures.received_bytes),
    );
}

/// Adds the state of the log on the remote; zeros where it stays here.
pub(in crate::service) fn ship(page: &mut Exposition, figures: &ShipFigures) {
    let help = "The number of the epoch in which the log is sent to the remote; 0 without one.";
    page.single("ship_epoch", "gauge", help, figures.epoch);
    let help = "Groups of the log that the remote does not have.";
    page.single("ship_waiting_groups", "gauge", help, figures.waiting_groups);
    let help = "Time since the remote had the whole log.";
    page.single("ship_lag_seconds", "gauge", help, figures.lag.as_secs());
    let help = "The lag beyond which no writes are taken; 0 without a bound.";
    page.single("ship_lag_max_seconds", "gauge", help, figures.lag_max.as_secs());
    let help = "Bytes written to the log and to segments since the remote had the whole log.";
    page.single("ship_lag_bytes", "gauge", help, figures.lag_bytes);
    page.single("ship_parcels_total", "counter", "Pieces of the log that were sent.", figures.parcels);
    page.single("ship_roots_total", "counter", "Checkpoints that were sent.", figures.roots);
    page.single("ship_sent_bytes_total", "counter", "Bytes that were sent for the log.", figures.sent_bytes);
    let help = "Objects of the remote that were deleted because no restore within the window needs them.";
    page.single("ship_deleted_objects_total", "counter", help, figures.deleted_objects);
    let help = "Bytes of these objects.";
    page.single("ship_deleted_bytes_total", "counter", help, figures.deleted_bytes);
    let help = "Times that objects of the log were gone from the remote, so that a new checkpoint was sent.";
    page.single("ship_renewals_total", "counter", help, figures.renewals);
    let seconds = |time: Option<Timestamp>| time.map_or(0, |time| time.as_millis() / 1000);
    let help =
        "Time of the newest checkpoint on the remote of this epoch, in seconds since 1970; 0 without one.";
    page.single("ship_last_root_timestamp_seconds", "gauge", help, seconds(figures.last_root));
    let help =
        "Oldest time that a restore from the remote reaches, in seconds since 1970; 0 while it is not known.";
    page.single("ship_oldest_restore_timestamp_seconds", "gauge", help, seconds(figures.oldest));
}

/// Adds the state of the followers of the log.
pub(in crate::service) fn followers(page: &mut Exposition, figures: &[FollowerFigures]) {
    let mut each = |name: &str, kind, help, value: fn(&FollowerFigures) -> u64| {
        page.family(name, kind, help);
        for follower in figures {
            page.sample(name, &[("follower", &follower.name)], value(follower));
        }
    };
    let help = "Age of the oldest change that the follower has not handled, or more.";
    each("follower_lag_seconds", "gauge", help, |follower| follower.lag.as_secs());
    let help = "Groups of the log that the follower has not handled.";
    each("follower_waiting_groups", "gauge", help, |follower| follower.waiting_groups);
    let help = "Whether the follower walks over everything that there is: 1 or 0.";
    each("follower_in_snapshot", "gauge", help, |follower| follower.in_snapshot.into());
    let help = "Times that the follower started over, since the log was not kept for so long.";
    each("follower_starts_over_total", "counter", help, |follower| follower.starts_over);
    let help = "Whether the log that the follower needs next is gone: 1 or 0.";
    each("follower_overrun", "gauge", help, |follower| follower.is_overrun.into());
}

/// Adds the state of a standby, under the names that a writer has for the same log.
pub(in crate::service) fn standby(page: &mut Exposition, state: &StandbyState) {
    let StandbyState { figures, lag, .. } = state;
    let help = "The number of the epoch that this standby follows; 0 while it is being filled.";
    page.single("ship_epoch", "gauge", help, figures.epoch);
    let help = "Groups that this standby lacks, as of the last heartbeat of the writer.";
    page.single("ship_waiting_groups", "gauge", help, figures.waiting_groups);
    let help = "Time since this standby had the whole log on the remote.";
    page.single("ship_lag_seconds", "gauge", help, lag.as_secs());
    let help = "Bytes of the log on the remote that this standby is known to lack.";
    page.single("ship_lag_bytes", "gauge", help, figures.lag_bytes);
    let help = "Pieces of the log that this standby applied.";
    page.single("ship_parcels_total", "counter", help, figures.parcels);
    let help = "Bytes that were read from the remote.";
    page.single("remote_fetched_bytes_total", "counter", help, figures.bytes);
}

/// Adds the disk space of the data segments, if it is known.
pub(in crate::service) fn segment_bytes(page: &mut Exposition, bytes: Option<u64>) {
    let help = "Bytes that data segments take up on the disk, without holes.";
    bytes.iter().for_each(|bytes| page.single("store_segment_bytes", "gauge", help, bytes));
}

/// Adds the histograms of commits.
pub(in crate::service) fn commits(page: &mut Exposition, figures: &CommitFigures) {
    let help = "Time of a commit group from its first decision until it is durable and visible.";
    page.family("commit_duration_seconds", "histogram", help);
    page.histogram("commit_duration_seconds", &[], &figures.durations, MICRO);
    page.family("log_sync_duration_seconds", "histogram", "Time of a sync of the log.");
    page.histogram("log_sync_duration_seconds", &[], &figures.syncs, MICRO);
    let help = "Time of a sync of a data segment that a put waited for.";
    page.family("segment_sync_duration_seconds", "histogram", help);
    page.histogram("segment_sync_duration_seconds", &[], &figures.segment_syncs, MICRO);
    page.family("commit_group_mutations", "histogram", "Mutations of a commit group.");
    page.histogram("commit_group_mutations", &[], &figures.group_sizes, 1.0);
}

/// Adds the content of buckets by kind: of the largest, and the sum of the others.
pub(in crate::service) fn usage(page: &mut Exposition, mut usages: Vec<BucketUsage>) {
    usages.sort_by_key(|usage| std::cmp::Reverse(usage.content.bytes()));
    let mut others = Usage::default();
    usages.iter().skip(BUCKETS_MAX).for_each(|usage| others.add(&usage.content));
    let has_others = usages.len() > BUCKETS_MAX;
    let shown: Vec<_> = usages
        .iter()
        .take(BUCKETS_MAX)
        .map(|usage| (usage.bucket.as_str(), &usage.content))
        .chain(has_others.then_some((OTHER_BUCKETS, &others)))
        .collect();
    page.family("bucket_bytes", "gauge", "Bytes of versions and of parts of uploads, by bucket and kind.");
    for (bucket, content) in &shown {
        for (kind, bytes) in [
            ("current", content.current.bytes),
            ("noncurrent", content.noncurrent.bytes),
            ("uploads", content.uploads.bytes),
        ] {
            page.sample("bucket_bytes", &[("bucket", bucket), ("kind", kind)], bytes);
        }
    }
    page.family("bucket_cold_bytes", "gauge", "Bytes of versions of the class COLD, by bucket.");
    for (bucket, content) in &shown {
        page.sample("bucket_cold_bytes", &[("bucket", bucket)], content.cold.bytes);
    }
    page.family("bucket_objects", "gauge", "Versions, delete markers and uploads, by bucket and kind.");
    for (bucket, content) in &shown {
        for (kind, count) in [
            ("current", content.current.count),
            ("noncurrent", content.noncurrent.count),
            ("delete_markers", content.delete_markers),
            ("uploads", content.uploads.count),
        ] {
            page.sample("bucket_objects", &[("bucket", bucket), ("kind", kind)], count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_buckets_are_shown_and_the_others_summed() {
        let bucket = |n: u64| {
            let mut content = Usage::default();
            (content.current.bytes, content.current.count, content.cold.bytes) = (n, 1, n / 2);
            BucketUsage { bucket: format!("b{n}"), owner: String::new(), content }
        };
        let mut page = Exposition::default();
        usage(&mut page, (1..=103).map(bucket).collect());
        let text = String::from_utf8(page.finish()).unwrap();
        for line in [
            "siltstone_bucket_bytes{bucket=\"b103\",kind=\"current\"} 103",
            "siltstone_bucket_bytes{bucket=\"b4\",kind=\"current\"} 4",
            "siltstone_bucket_bytes{bucket=\"(other)\",kind=\"current\"} 6",
            "siltstone_bucket_cold_bytes{bucket=\"b4\"} 2",
            "siltstone_bucket_objects{bucket=\"(other)\",kind=\"current\"} 3",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing");
        }
        assert!(!text.contains("\"b3\"") && text.lines().count() == 6 + 101 * 8);
    }
}
