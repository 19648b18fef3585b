//! The metrics of the key ring.

use super::Exposition;
use crate::ops::ShownRing;

/// Adds the keys of encrypted objects.
pub(in crate::service) fn keys(page: &mut Exposition, ring: &ShownRing) {
    let help = "Keys of encrypted objects in the ring.";
    page.single("keys", "gauge", help, ring.keys.len() as u64);
    let help = "Keys that encrypted objects need and the ring lacks.";
    page.single("keys_missing", "gauge", help, ring.missing.len() as u64);
    let help = "Versions, uploads and parts that `siltstone key rewrap` would give to a newer key.";
    page.single("keys_rewrap_due", "gauge", help, ring.rewrap_due);
}
