//! The metrics of the bytes on the remote, of its copies and of the requests to it.

use super::Exposition;
use crate::base::Timestamp;
use crate::ops::{CopyFindings, RemoteProbed, RepairFigures, RequestFigures, TierFigures};

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

/// Adds the local bytes of segments on the remote that were found bad; zeros without a remote.
pub(in crate::service) fn remote_repairs(page: &mut Exposition, figures: &RepairFigures) {
    let help = "Reads of bad bytes on this disk that the remote served in their place.";
    page.single("repair_served_reads_total", "counter", help, figures.served_reads);
    let help = "Segments with bad bytes, or without their file, whose files were written anew.";
    page.single("repair_segments_total", "counter", help, figures.repaired_segments);
    let help = "Segments with bad bytes whose files are to be written anew.";
    page.single("repair_waiting_segments", "gauge", help, figures.waiting.len() as u64);
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
    // Before the first probe nothing is known to be amiss.
    let is_unfit_for_tier = probed.is_some_and(|probed| !probed.keeps_objects);
    let is_unfit_for_takeover = probed.is_some_and(|probed| !probed.decides_races);
    page.sample("remote_unfit", &[("mode", "tier")], u64::from(is_unfit_for_tier));
    page.sample("remote_unfit", &[("mode", "takeover")], u64::from(is_unfit_for_takeover));
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
    let sent: u64 = requests.iter().map(|(_, figures)| figures.sent_bytes).sum();
    let received: u64 = requests.iter().map(|(_, figures)| figures.received_bytes).sum();
    page.sample("remote_body_bytes_total", &[("direction", "sent")], sent);
    page.sample("remote_body_bytes_total", &[("direction", "received")], received);
}
