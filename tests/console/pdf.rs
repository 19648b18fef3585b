//! The preview of PDF.

use super::harness::Site;

#[test]
fn a_pdf_is_shown_in_a_frame_of_its_own_page_alone() {
    let site = Site::new();
    let mut owner = site.signed_in("owner");
    owner.put("b", "doc.pdf", &[("content-type", "application/pdf")], b"%PDF-1.4");
    owner.put("b", "page.pdf", &[("content-type", "text/html")], b"<script>alert(1)</script>");
    let page = owner.get("object?bucket=b&key=doc.pdf");
    assert!(page.text().contains("<iframe class=\"preview\""), "{}", page.text());
    assert!(page.header("Content-Security-Policy").unwrap().ends_with("; frame-src 'self'"));
    assert!(!owner.get("").header("Content-Security-Policy").unwrap().contains("frame-src"));
    let framed = owner.get("content?bucket=b&key=doc.pdf&view=1");
    assert_eq!((framed.status, &*framed.body), (200, &b"%PDF-1.4"[..]));
    assert_eq!(framed.header("Content-Disposition"), Some("inline"));
    assert_eq!(framed.header("X-Content-Type-Options"), Some("nosniff"));
    assert_eq!(
        framed.header("Content-Security-Policy"),
        Some("default-src 'none'; frame-ancestors 'self'; sandbox")
    );
    assert_eq!(framed.header("X-Frame-Options"), Some("SAMEORIGIN"));
    for address in [
        "content?bucket=b&key=page.pdf&view=1",
        "content?bucket=b&key=doc.pdf",
        "content?bucket=b&key=doc.pdf&view=1&response-content-type=text%2Fhtml",
    ] {
        let answer = owner.get(address);
        let disposition = answer.header("Content-Disposition").unwrap_or("attachment");
        assert!(disposition.starts_with("attachment"), "{address}: {disposition}");
        assert_eq!(answer.header("X-Frame-Options"), Some("DENY"), "{address}");
    }
}
