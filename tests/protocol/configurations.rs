//! Operations of S3 that are not supported.

use siltstone::xml::Document;

use super::*;

#[test]
fn configurations_that_are_never_set_have_their_own_errors() {
    let server = Server::new();
    let of = |bucket: &str| format!("/{bucket}?replication");
    server.get(&of("b")).is_error(404, "ReplicationConfigurationNotFoundError");
    server.get(&of("absent")).is_error(404, "NoSuchBucket");
    assert_eq!(server.delete(&of("b")).status, 204);
    server.delete(&of("absent")).is_error(404, "NoSuchBucket");
}

#[test]
fn configurations_that_are_never_set_have_the_defaults_of_s3() {
    let server = Server::new();
    let empty: &[&str] = &[];
    for (name, root, leaves) in [
        ("logging", "BucketLoggingStatus", empty),
        ("accelerate", "AccelerateConfiguration", empty),
        ("requestPayment", "RequestPaymentConfiguration", &["Payer"]),
        ("analytics", "ListBucketAnalyticsConfigurationResult", &["IsTruncated"]),
        ("intelligent-tiering", "ListBucketIntelligentTieringConfigurationsOutput", &["IsTruncated"]),
        ("inventory", "ListInventoryConfigurationsResult", &["IsTruncated"]),
        ("metrics", "ListMetricsConfigurationsResult", &["IsTruncated"]),
    ] {
        let answer = server.get(&format!("/b?{name}"));
        assert_eq!((answer.status, answer.header("Content-Type")), (200, Some("application/xml")), "{name}");
        let document = Document::parse(&answer.body).unwrap();
        assert_eq!(document.root().name(), root);
        let children: Vec<_> = document.root().children().map(|child| child.name().to_owned()).collect();
        assert_eq!(children, leaves, "{name}");
        server.get(&format!("/absent?{name}")).is_error(404, "NoSuchBucket");
    }
    assert_eq!(server.get("/b?requestPayment").one("Payer").as_deref(), Some("BucketOwner"));
    assert_eq!(server.get("/b?metrics").one("IsTruncated").as_deref(), Some("false"));
}

#[test]
fn a_configuration_by_id_is_never_there() {
    let server = Server::new();
    for name in ["analytics", "intelligent-tiering", "inventory", "metrics"] {
        for method in ["GET", "DELETE"] {
            let asked = |bucket: &str| server.request(method, &format!("/{bucket}?{name}&id=all")).send();
            asked("b").is_error(404, "NoSuchConfiguration");
            asked("absent").is_error(404, "NoSuchBucket");
        }
        server.delete(&format!("/b?{name}")).is_error(400, "InvalidArgument");
        server.get(&format!("/b?{name}&continuation-token=x")).is_error(400, "InvalidArgument");
        let put = server.request("PUT", &format!("/b?{name}&id=all")).body(b"<x/>").send();
        put.is_error(501, "NotImplemented");
    }
}

#[test]
fn the_default_of_a_configuration_may_be_set_and_no_other() {
    let server = Server::new();
    let accelerate = |status: &str| {
        format!("<AccelerateConfiguration><Status>{status}</Status></AccelerateConfiguration>")
    };
    let payer = |name: &str| {
        format!("<RequestPaymentConfiguration><Payer>{name}</Payer></RequestPaymentConfiguration>")
    };
    let logging = |inner: &str| format!("<BucketLoggingStatus>{inner}</BucketLoggingStatus>");
    let enabled =
        "<LoggingEnabled><TargetBucket>b</TargetBucket><TargetPrefix>p</TargetPrefix></LoggingEnabled>";
    for (name, document, status) in [
        ("accelerate", accelerate("Suspended"), 200),
        ("accelerate", accelerate("Enabled"), 501),
        ("accelerate", accelerate("On"), 400),
        ("accelerate", "<AccelerateConfiguration/>".to_owned(), 400),
        ("requestPayment", payer("BucketOwner"), 200),
        ("requestPayment", payer("Requester"), 501),
        ("requestPayment", payer("Nobody"), 400),
        ("logging", logging(""), 200),
        ("logging", logging(enabled), 200),
        ("logging", logging("<Other/>"), 400),
        ("logging", "<x/>".to_owned(), 400),
        ("logging", String::new(), 400),
    ] {
        let put = |bucket: &str| {
            server.request("PUT", &format!("/{bucket}?{name}")).body(document.as_bytes()).send()
        };
        let answer = put("b");
        assert_eq!(answer.status, status, "{name} {document}: {answer:?}");
        match status {
            400 => assert_eq!(answer.code(), "MalformedXML"),
            501 => assert_eq!(answer.code(), "NotImplemented"),
            _ => assert!(answer.body.is_empty()),
        }
        put("absent").is_error(404, "NoSuchBucket");
    }
}

#[test]
fn operations_that_are_not_served_say_so() {
    let server = Server::new();
    for (method, target) in [
        ("POST", "/b?acl"),
        ("PUT", "/b?analytics&id=x"),
        ("POST", "/b?logging"),
        ("GET", "/b?session"),
        ("POST", "/b?publicAccessBlock"),
        ("GET", "/b/k?torrent"),
        ("POST", "/b/k?restore"),
        ("POST", "/b/k?select&select-type=2"),
    ] {
        server.request(method, target).send().is_error(501, "NotImplemented");
    }
}

#[test]
fn they_reveal_nothing_without_permission() {
    let server = Server::with_grants(&[("stranger", &["GetObject"], &["other/*"])]);
    for target in ["/b?acl", "/b?policy", "/b/k?torrent"] {
        server.request("GET", target).by("stranger").send().is_error(403, "AccessDenied");
        server.request("GET", target).anonymous().send().is_error(403, "AccessDenied");
    }
}

#[test]
fn a_method_that_the_path_does_not_have_is_refused_with_those_it_has() {
    let server = Server::new();
    for (method, target, allow) in [
        ("POST", "/b/k", "DELETE, GET, HEAD, PUT"),
        ("PATCH", "/b", "DELETE, GET, HEAD, POST, PUT"),
        ("POST", "/", "GET"),
        ("DELETE", "/b?location", "GET"),
    ] {
        let answer = server.request(method, target).send();
        answer.is_error(405, "MethodNotAllowed");
        assert_eq!(answer.header("Allow"), Some(allow), "{method} {target}");
    }
}
