//! Stored documents that browsers open at the origin of the server. A user who may put objects could otherwise run scripts there,
//! with access to everything that a page of that origin may reach.

use crate::s3::{Operation, Response};

/// Whether browsers run scripts of stored documents that they read without a signature. Websites have hosts of their own and are
/// not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HtmlSandbox {
    /// No: HTML, SVG and XML get an origin of their own and run nothing (Content Security Policy, "sandbox").
    On,
    /// Yes.
    Off,
}

/// Adds the headers that keep the object in a response from running scripts, and its type from being guessed.
pub(super) fn confine(response: Response, operation: Operation) -> Response {
    if !matches!(operation, Operation::GetObject | Operation::HeadObject) {
        return response;
    }
    let is_active = response.get_header("Content-Type").is_none_or(is_active);
    let response = response.header("X-Content-Type-Options", "nosniff");
    if is_active { response.header("Content-Security-Policy", "sandbox") } else { response }
}

/// Whether a browser may run scripts in a document of this type. A value that is no type counts too. Images and PDF documents do
/// not: some browsers show no PDF in a sandbox.
fn is_active(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    let essence = essence.trim_ascii().to_ascii_lowercase();
    let is_type = essence.iter().filter(|byte| **byte == b'/').count() == 1;
    let is_xml = essence.ends_with(b"/xml") || essence.ends_with(b"+xml") || essence.ends_with(b"/xsl");
    !is_type || is_xml || essence == b"text/html" || essence.starts_with(b"multipart/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_with_scripts_are_active_however_they_are_written() {
        for active in [
            "text/html",
            " Text/HTML ; charset=utf-8",
            "image/svg+xml",
            "application/xhtml+xml;x",
            "text/xml",
            "application/xml",
            "text/xsl",
            "multipart/x-mixed-replace",
            "html",
            "",
            "text/html, text/plain/x",
        ] {
            assert!(is_active(active.as_bytes()), "{active}");
        }
        for passive in [
            "image/png",
            "application/pdf",
            "text/plain",
            "text/css",
            "binary/octet-stream",
            "text/javascript",
        ] {
            assert!(!is_active(passive.as_bytes()), "{passive}");
        }
    }
}
