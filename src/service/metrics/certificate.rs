//! The metrics of the certificate of the server.

use super::Exposition;
use crate::base::Timestamp;

/// Adds the end of the certificate.
pub(in crate::service) fn certificate(page: &mut Exposition, expires: Timestamp) {
    let help = "The end of the server's certificate, or of an intermediate one that ends earlier.";
    page.single("tls_certificate_expiry_timestamp_seconds", "gauge", help, expires.as_secs());
}
