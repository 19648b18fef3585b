//! The pages below `/-/`.

use siltstone::ops::ExpiredItem;
use siltstone::service::{MetricsAccess, ServiceSettings};
use siltstone::store::Beginning;

use super::*;

fn page(server: &Server, method: &str, target: &str) -> Answer {
    server.request(method, target).anonymous().send()
}

#[test]
fn health_and_readiness_need_no_signature() {
    let server = Server::new();
    for (target, text) in [("/-/health", "alive\n"), ("/-/readable", "readable\n"), ("/-/ready", "ready\n")] {
        let answer = page(&server, "GET", target);
        assert_eq!((answer.status, answer.text()), (200, text));
        page(&server, "HEAD", target).is_bare(200);
        assert_eq!(page(&server, "POST", target).status, 405);
    }
    assert_eq!(page(&server, "GET", "/-/other").status, 404);
}

#[test]
fn the_health_pages_of_minio_answer_as_ours() {
    let server = Server::new();
    for (target, text) in [
        ("/minio/health/live", "alive\n"),
        ("/minio/health/ready", "ready\n"),
        ("/minio/health/cluster", "ready\n"),
        ("/minio/health/cluster/read", "readable\n"),
    ] {
        let answer = page(&server, "GET", target);
        assert_eq!((answer.status, answer.text()), (200, text));
        page(&server, "HEAD", target).is_bare(200);
    }
    assert_eq!(page(&server, "GET", "/minio/health/cluster?maintenance=true").status, 412);
    server.put("/b/k", b"x");
    server.fs.fail_sync_at(server.fs.syncs() + 1);
    server.request("PUT", "/b/k").body(b"x").send().is_error(503, "ServiceUnavailable");
    for (target, status) in
        [("/minio/health/live", 200), ("/minio/health/ready", 503), ("/minio/health/cluster", 503)]
    {
        assert_eq!(page(&server, "GET", target).status, status, "{target}");
    }
}

#[test]
fn the_administration_of_minio_is_refused_in_a_form_that_its_clients_read() {
    let server = Server::new();
    for (method, target) in [("GET", "/minio/admin/v3/info"), ("PUT", "/minio/admin/v4/add-user?accessKey=a")]
    {
        let answer = page(&server, method, target);
        assert_eq!((answer.status, answer.header("Content-Type")), (501, Some("application/json")));
        assert!(answer.text().starts_with("{\"Code\":\"NotImplemented\",\"Message\":"), "{answer:?}");
    }
    for target in ["/minio/admin/view", "/minio/admin/v/x", "/other/admin/v3/info"] {
        page(&server, "GET", target).is_error(403, "AccessDenied");
    }
}

#[test]
fn a_bucket_named_minio_works_beside_its_health_pages() {
    let server = Server::new();
    assert_eq!(server.request("PUT", "/minio").send().status, 200);
    for key in ["health/live", "health/other", "live", "-/health"] {
        assert_eq!(server.put(&format!("/minio/{key}"), key.as_bytes()).status, 200);
    }
    assert_eq!(server.get("/minio/health/other").text(), "health/other");
    assert_eq!(server.get("/minio/live").text(), "live");
    page(&server, "GET", "/minio/health/other").is_error(403, "AccessDenied");
    page(&server, "POST", "/minio/health/live").is_error(405, "MethodNotAllowed");
    let of_bucket = |target: &str| server.request("GET", target).host("minio.s3.example").send();
    assert_eq!(of_bucket("/-/health").text(), "-/health");
    of_bucket("/minio/health/live").is_error(404, "NoSuchKey");
    assert_eq!(server.request("DELETE", "/minio/health/live").send().status, 204);
    assert!(!server.get("/minio?list-type=2").text().contains("health/live"));
}

#[test]
fn metrics_count_requests_bytes_and_stored_objects() {
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
        "siltstone_tls_certificate_expiry_timestamp_seconds 5",
        "siltstone_segment_sync_duration_seconds_count 1",
        "siltstone_checkpoint_created_timestamp_seconds 0",
    ] {
        assert!(metrics.text().lines().any(|l| l == line), "{line} is missing from\n{}", metrics.text());
    }
    let of =
        |name: &str| metrics.text().lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    let (disk, live): (Option<u64>, Option<u64>) =
        (of("siltstone_store_segment_bytes "), of("siltstone_store_live_bytes "));
    assert!(live >= Some(1000) && disk > live, "{disk:?} of {live:?}");
    server.store.checkpoint().unwrap();
    let metrics = page(&server, "GET", "/-/metrics");
    assert!(!metrics.text().contains("siltstone_checkpoint_created_timestamp_seconds 0\n"));
}

#[test]
fn the_guide_has_every_metric_with_its_type_and_labels() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let bucket = "b";
    let key = "k";
    let version = Some("v");
    let rule = "r";
    let is_hidden = false;
    let bytes = 1;
    server.expiries.count(&ExpiredItem { bucket, key, version, rule, is_hidden, moved_to: None, bytes });
    let limits = br#"{"bytes":9,"objects":9,"uploads":9,"index_bytes":9}"#;
    assert_eq!(server.request("PUT", "/b?quota").body(limits).send().status, 200);
    let owner = server.request("PUT", "/?quota&owner=owner").body(br#"{"buckets":9}"#).send();
    assert_eq!(owner.status, 200, "{owner:?}");
    let _follower = server.store.follower("thumbs", Beginning::Now);
    let page = page(&server, "GET", "/-/metrics");
    let mut shown = std::collections::BTreeMap::new();
    for line in page.text().lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap();
            shown.insert(name.to_owned(), (kind.to_owned(), String::new()));
        } else if let Some((sample, labels)) = line.split_once('{') {
            let name = sample.trim_end_matches("_bucket").to_owned();
            let labels = labels.split("\",").map(|label| label.split('=').next().unwrap());
            let labels: Vec<_> = labels.filter(|label| *label != "le" && !label.contains('}')).collect();
            if let Some((_, known)) = shown.get_mut(&name) {
                *known = labels.join(", ");
            }
        }
    }
    let of_row = |row: Vec<String>| (row[0].trim_matches('`').to_owned(), (row[1].clone(), row[2].clone()));
    let listed: std::collections::BTreeMap<_, _> =
        crate::guide::rows("src/guide/metrics.md", "# Metrics").into_iter().map(of_row).collect();
    assert_eq!(shown, listed);
}

fn server_with(metrics: MetricsAccess) -> Server {
    Server::with_settings(ServiceSettings { metrics, ..ServiceSettings::default() })
}

#[test]
fn metrics_can_be_closed_off() {
    assert_eq!(page(&server_with(MetricsAccess::Off), "GET", "/-/metrics").status, 404);
}

#[test]
fn local_metrics_are_for_peers_on_this_host() {
    let server = server_with(MetricsAccess::Local);
    let status = |peer: Option<&str>| {
        let asked = server.request("GET", "/-/metrics").anonymous();
        asked.peer(peer.map(|peer| peer.parse().unwrap())).respond().status
    };
    for peer in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert_eq!(status(Some(peer)), 200, "{peer}");
    }
    for peer in ["10.0.0.1:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1", "0.0.0.0:1", "[::]:1"] {
        assert_eq!(status(Some(peer)), 403, "{peer}");
    }
    assert_eq!(status(None), 403);
    let open = server_with(MetricsAccess::Open);
    assert_eq!(open.request("GET", "/-/metrics").anonymous().peer(None).respond().status, 200);
}

#[test]
fn local_metrics_are_not_for_clients_of_a_local_proxy() {
    let server = server_with(MetricsAccess::Local);
    for header in ["Forwarded", "Via", "X-Forwarded-For", "X-Real-IP"] {
        let asked = server.request("GET", "/-/metrics").anonymous().header(header, "for=10.0.0.1");
        let answer = asked.send();
        assert_eq!((answer.status, answer.text().contains("memory")), (403, false), "{header}");
    }
    assert_eq!(page(&server, "GET", "/-/metrics").status, 200);
}
