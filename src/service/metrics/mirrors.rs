//! The metrics of mirrors.

use super::Exposition;
use crate::mirror::Mirrors;

/// Adds the figures of mirrors.
pub(in crate::service) fn mirrors(page: &mut Exposition, mirrors: &Mirrors) {
    let figures: Vec<_> = mirrors.iter().map(|mirror| mirror.figures()).collect();
    let mut each = page.of_each(&figures, "mirror", |mirror| &mirror.name);
    each.family("mirror_due_keys", "gauge", "Keys that the mirror has to copy.", |it| it.due_keys);
    let help = "Keys that the mirror could not copy, and tries again.";
    each.family("mirror_failing_keys", "gauge", help, |it| it.failing_keys);
    let help = "Keys that the target refused, and that wait for a change, a start or a resync.";
    each.family("mirror_refused_keys", "gauge", help, |it| it.refused_keys);
    let help = "Buckets that wait for a resync, since the target has objects that the mirror did not send.";
    each.family("mirror_occupied_buckets", "gauge", help, |it| it.occupied.len() as u64);
    each.family("mirror_objects_total", "counter", "Objects that were sent.", |it| it.objects);
    each.family("mirror_bytes_total", "counter", "Bytes of the objects that were sent.", |it| it.bytes);
    let help = "Objects, versions and delete markers that were removed at the target.";
    each.family("mirror_removed_total", "counter", help, |it| it.removed);
}
