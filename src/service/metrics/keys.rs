//! The metrics of the key ring.

use super::Exposition;
use crate::ops::ShownRing;

/// Adds the keys of encrypted objects.
pub(in crate::service) fn keys(page: &mut Exposition, ring: &ShownRing) {
    let help = "Keys of encrypted objects in the ring.";
    page.single("keys", "gauge", help, ring.keys.len() as u64);
    let help = "Whether there are encrypted objects, and no keys.";
    page.single("keys_missing", "gauge", help, u64::from(ring.is_missing));
}
