//! The pages below `/-/`.

use siltstone::s3::Dialect;
use siltstone::s3::route::Addressing;
use siltstone::service::Settings;

use super::*;

fn page(server: &Server, method: &str, target: &str) -> Answer {
    server.request(method, target).anonymous().send()
}

#[test]
fn health_and_readiness_need_no_signature() {
    let server = Server::new();
    for (target, text) in [("/-/health", "alive\n"), ("/-/ready", "ready\n")] {
        let answer = page(&server, "GET", target);
        assert_eq!((answer.status, answer.text()), (200, text));
        page(&server, "HEAD", target).is_bare(200);
        assert_eq!(page(&server, "POST", target).status, 405);
    }
    assert_eq!(page(&server, "GET", "/-/other").status, 404);
}

#[test]
fn metrics_count_requests_bytes_and_what_the_store_holds() {
    let server = Server::new();
    server.put("/b/k", &[1; 1000]);
    server.get("/b/k");
    server.get("/b/absent");
    let metrics = page(&server, "GET", "/-/metrics");
    assert_eq!(metrics.header("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "siltstone_requests_total{operation=\"PutObject\",status=\"2xx\"} 1",
        "siltstone_requests_total{operation=\"GetObject\",status=\"2xx\"} 1",
        "siltstone_requests_total{operation=\"GetObject\",status=\"4xx\"} 1",
        "siltstone_received_bytes_total 1000",
        "siltstone_store_buckets 1",
        "siltstone_store_versions 1",
        "siltstone_store_read_only 0",
        "siltstone_store_reclaimed_segments_total 0",
        "siltstone_scrub_bad_extents 0",
        "siltstone_scrub_extents_total 0",
    ] {
        assert!(metrics.text().lines().any(|l| l == line), "{line} is missing from\n{}", metrics.text());
    }
}

#[test]
fn metrics_can_be_closed_off() {
    let settings =
        Settings { default_dialect: Dialect::Svc, addressing: Addressing::default(), metrics: false };
    assert_eq!(page(&Server::with_settings(settings), "GET", "/-/metrics").status, 404);
}
