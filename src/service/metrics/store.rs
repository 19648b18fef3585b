//! The state of the store as metrics.

use super::Exposition;
use crate::base::Timestamp;
use crate::base::memory::MemoryUsage;
use crate::ops::{ClockFigures, FastDiskFigures, Health};

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

fn gauges(health: &Health, memory: &MemoryUsage) -> [Figure; 13] {
    let scrubbed = health.scrub.finished.map_or(0, Timestamp::as_secs);
    let log_checked = health.scrub.log_finished.map_or(0, Timestamp::as_secs);
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
        (
            "scrub_log_finished_timestamp_seconds",
            "The end of the last check of the log and the checkpoints since the start; 0 before the first.",
            log_checked,
        ),
    ]
}

fn counters(health: &Health, memory: &MemoryUsage) -> [Figure; 7] {
    [
        ("memory_refused_total", "Reservations of memory that were refused.", memory.refused),
        ("store_reclaimed_segments_total", "Data segments taken away.", health.reclaimed_segments),
        ("store_reclaimed_bytes_total", "Bytes given back to the file system.", health.reclaimed_bytes),
        ("store_moved_bytes_total", "Bytes moved so that segments could go.", health.moved_bytes),
        ("scrub_extents_total", "Extents checked by the scrub.", health.scrub.extents),
        ("scrub_bytes_total", "Bytes checked by the scrub.", health.scrub.bytes),
        (
            "repair_log_files_total",
            "Damaged files of the log, and checkpoints, that a new checkpoint replaced.",
            health.scrub.replaced_log_files,
        ),
    ]
}

/// Adds the fast one of two disks.
pub(in crate::service) fn fast_disk(page: &mut Exposition, figures: Option<FastDiskFigures>) {
    let help = "Bytes that are free on the file system of the fast directory; 0 without one.";
    let space = figures.and_then(|figures| figures.space);
    page.single("fast_disk_free_bytes", "gauge", help, space.map_or(0, |(free, _)| free));
    let help = "Bytes of the file system of the fast directory; 0 without one.";
    page.single("fast_disk_size_bytes", "gauge", help, space.map_or(0, |(_, total)| total));
    let help = "Bytes of segments that were moved from the fast directory to the data directory.";
    let moved_bytes = figures.map_or(0, |figures| figures.moved_bytes);
    page.single("fast_disk_moved_bytes_total", "counter", help, moved_bytes);
    let help =
        "Durable groups of the log that its shadow in the data directory lacks; 0 without a fast directory.";
    let lag = figures.map_or(0, |figures| figures.shadow_lag_groups);
    page.single("fast_disk_shadow_lag_groups", "gauge", help, lag);
}

/// Adds the disk space of the data segments, if it is known.
pub(in crate::service) fn segment_bytes(page: &mut Exposition, bytes: Option<u64>) {
    let help = "Bytes that data segments take up on the disk, without holes.";
    if let Some(bytes) = bytes {
        page.single("store_segment_bytes", "gauge", help, bytes);
    }
}
