//! Requests from pages of other origins.

use siltstone::s3::{Body, Handler as _, Headers, Method, Request};
use siltstone::service::ServiceSettings;

use super::*;

const SITE: &str = "https://www.site.example";
const VARY: &str = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";
const NOT_ENABLED: &str = "CORSResponse: CORS is not enabled for this bucket.";

const RULES: &str = "<CORSRule><ID>site</ID><AllowedOrigin>https://*.site.example</AllowedOrigin>\
    <AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod><AllowedMethod>HEAD</AllowedMethod>\
    <AllowedMethod>POST</AllowedMethod><AllowedHeader>x-amz-*</AllowedHeader><AllowedHeader>Content-Type</AllowedHeader>\
    <ExposeHeader>ETag</ExposeHeader><ExposeHeader>x-amz-version-id</ExposeHeader><MaxAgeSeconds>600</MaxAgeSeconds>\
    </CORSRule><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>";

fn document(rules: &str) -> String {
    format!("<CORSConfiguration xmlns=\"{NAMESPACE}\">{rules}</CORSConfiguration>")
}

fn set(server: &Server, bucket: &str, rules: &str) -> Answer {
    server.request("PUT", &format!("/{bucket}?cors")).body(document(rules).as_bytes()).send()
}

/// A server whose bucket has [`RULES`].
fn with_rules() -> Server {
    let server = Server::new();
    assert_eq!(set(&server, "b", RULES).status, 200);
    server
}

/// A server that allows these origins to buckets without rules.
fn allowing(origins: &[&str]) -> Server {
    Server::with_settings(ServiceSettings {
        default_dialect: usual_dialect(),
        cors_allow_origins: origins.iter().map(|origin| (*origin).to_owned()).collect(),
        ..ServiceSettings::default()
    })
}

fn preflight<'s>(server: &'s Server, target: &str, origin: &str, method: &str) -> Asked<'s> {
    let asked = server.request("OPTIONS", target).anonymous().header("Origin", origin);
    asked.header("Access-Control-Request-Method", method)
}

/// The headers of CORS in a response, by their names without the common part.
fn cors(answer: &Answer) -> Vec<(String, String)> {
    let names: Vec<_> = answer.header_names().map(str::to_owned).collect();
    let own = names.iter().filter_map(|name| Some((name, name.strip_prefix("Access-Control-")?)));
    own.map(|(name, short)| (short.to_owned(), answer.header(name).unwrap().to_owned())).collect()
}

fn owned(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Checks the headers of the first of [`RULES`] for [`SITE`].
fn is_shared_with_the_site(answer: &Answer) {
    let expected = [
        ("Allow-Origin", SITE),
        ("Allow-Credentials", "true"),
        ("Allow-Methods", "GET, PUT, HEAD, POST"),
        ("Expose-Headers", "ETag, x-amz-version-id"),
        ("Max-Age", "600"),
    ];
    assert_eq!(cors(answer), owned(&expected), "{answer:?}");
    assert_eq!(answer.header("Vary"), Some(VARY));
}

fn is_not_shared(answer: &Answer) {
    assert_eq!((cors(answer), answer.header("Vary")), (Vec::new(), None), "{answer:?}");
}

#[test]
fn rules_are_set_read_and_taken_away() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        let ask = |method: &str| server.request(method, "/b?cors").dialect(dialect);
        ask("GET").send().is_error(404, "NoSuchCORSConfiguration");
        assert_eq!(ask("DELETE").send().status, 204);
        let put = ask("PUT").body(document(RULES).as_bytes()).send();
        assert_eq!((put.status, put.body.len()), (200, 0));
        let read = ask("GET").send();
        assert_eq!((read.status, read.header("Content-Type")), (200, Some("application/xml")));
        assert!(read.text().ends_with(&document(RULES)), "{read:?}");
        let another = "<CORSRule><AllowedOrigin/><AllowedMethod>GET</AllowedMethod></CORSRule>";
        assert_eq!(set(&server, "b", another).status, 200);
        assert!(ask("GET").send().text().ends_with(&document(another)));
        let deleted = ask("DELETE").send();
        assert_eq!((deleted.status, deleted.body.len()), (204, 0));
        ask("GET").send().is_error(404, "NoSuchCORSConfiguration");
    }
}

#[test]
fn missing_buckets_have_no_rules() {
    let server = Server::new();
    for method in ["GET", "PUT", "DELETE"] {
        let asked = server.request(method, "/absent?cors").body(document(RULES).as_bytes());
        asked.send().is_error(404, "NoSuchBucket");
    }
}

#[test]
fn rules_that_s3_refuses_are_refused_and_change_nothing() {
    let server = with_rules();
    let rule = |inner: &str| {
        format!(
            "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>{inner}</CORSRule>"
        )
    };
    for (rules, code, message) in [
        (String::new(), "MalformedXML", "well"),
        ("<CORSRule/>".to_owned(), "MalformedXML", "well"),
        (rule("<MaxAgeSeconds>soon</MaxAgeSeconds>"), "MalformedXML", "well"),
        (
            rule("<AllowedMethod>PATCH</AllowedMethod>"),
            "InvalidRequest",
            "Found unsupported HTTP method in CORS config. Unsupported method is PATCH",
        ),
        (
            rule("<AllowedOrigin>http://*.*</AllowedOrigin>"),
            "InvalidRequest",
            "AllowedOrigin \"http://*.*\" can not have more than one wildcard.",
        ),
        (
            rule("<ExposeHeader>x-amz-meta-*</ExposeHeader>"),
            "InvalidRequest",
            "ExposeHeader \"x-amz-meta-*\" contains wildcard. We currently do not support wildcard for ExposeHeader.",
        ),
        (
            rule("").repeat(101),
            "InvalidRequest",
            "The number of CORS rules should not exceed allowed limit of 100 rules.",
        ),
    ] {
        let answer = set(&server, "b", &rules);
        answer.is_error(400, code);
        assert!(answer.one("Message").unwrap().contains(message), "{answer:?}");
    }
    for body in ["", "junk", "<Other/>"] {
        server.request("PUT", "/b?cors").body(body.as_bytes()).send().is_error(400, "MalformedXML");
    }
    server.request("PUT", "/b?cors").unframed().send().is_error(411, "MissingContentLength");
    let wrong = server.request("PUT", "/b?cors").header("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==");
    wrong.body(document(RULES).as_bytes()).send().is_error(400, "BadDigest");
    assert!(server.get("/b?cors").text().ends_with(&document(RULES)));
    assert_eq!(set(&server, "b", &rule("").repeat(100)).status, 200);
}

#[test]
fn rules_above_the_limit_are_refused() {
    let server = Server::new();
    let of_length = |len: usize| {
        let rule = "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>";
        document(&(rule.to_owned() + &" ".repeat(len - document(rule).len())))
    };
    let put = |len| server.request("PUT", "/b?cors").body(of_length(len).as_bytes());
    put((64 << 10) + 1).send().is_error(400, "MaxMessageLengthExceeded");
    put((64 << 10) + 1).chunked().send().is_error(400, "MaxMessageLengthExceeded");
    server.get("/b?cors").is_error(404, "NoSuchCORSConfiguration");
    assert_eq!(put(64 << 10).send().status, 200);
}

#[test]
fn a_preflight_is_answered_by_the_first_rule_that_allows_it() {
    for dialect in Dialect::ALL {
        let server = with_rules();
        for target in ["/b", "/b/k", "/b/k?uploads", "/b/k?X-Amz-Signature=0&x-id=PutObject"] {
            let answer = preflight(&server, target, SITE, "PUT").dialect(dialect).send();
            assert_eq!((answer.status, answer.body.len()), (200, 0), "{answer:?}");
            is_shared_with_the_site(&answer);
        }
        let asked = preflight(&server, "/b/k", SITE, "PUT").dialect(dialect);
        let answer = asked.header("Access-Control-Request-Headers", "X-Amz-Date,content-type").send();
        assert_eq!(answer.header("Access-Control-Allow-Headers"), Some("x-amz-date, content-type"));
        let answer = preflight(&server, "/b/k", "https://other.example", "GET").dialect(dialect).send();
        assert_eq!(answer.status, 200);
        assert_eq!(cors(&answer), owned(&[("Allow-Origin", "*"), ("Allow-Methods", "GET")]));
        assert_eq!(answer.header("Vary"), Some(VARY));
    }
}

#[test]
fn a_preflight_at_the_host_of_a_bucket_is_one_of_that_bucket() {
    let server = with_rules();
    let at = |host: &str, path: &str| preflight(&server, path, SITE, "PUT").host(host).send();
    is_shared_with_the_site(&at("b.s3.example:9000", "/k"));
    is_shared_with_the_site(&at("b.s3.example", "/"));
    is_shared_with_the_site(&at("b.s3.example", "/-/health"));
    assert_eq!(at("other.s3.example", "/b/k").status, 403);
}

#[test]
fn a_preflight_that_no_rule_allows_is_refused_with_the_messages_of_s3() {
    let server = with_rules();
    let refused = |asked: Asked<'_>, (method, kind): (&str, &str), message: &str| {
        let answer = asked.send();
        answer.is_error(403, "AccessForbidden");
        is_not_shared(&answer);
        assert!(answer.one("Message").unwrap().starts_with(message), "{answer:?}");
        let named = (answer.one("Method"), answer.one("ResourceType"));
        assert_eq!(named, (Some(method.to_owned()), Some(kind.to_owned())));
    };
    let not_allowed = "CORSResponse: This CORS request is not allowed. This is usually because";
    let other = "https://other.example";
    refused(preflight(&server, "/b/k", other, "PUT"), ("PUT", "OBJECT"), not_allowed);
    refused(preflight(&server, "/b", SITE, "DELETE"), ("DELETE", "BUCKET"), not_allowed);
    let asked = preflight(&server, "/b/k", SITE, "GET").header("Access-Control-Request-Headers", "range");
    refused(asked, ("GET", "OBJECT"), not_allowed);
    refused(preflight(&server, "/", SITE, "GET"), ("GET", "SERVICE"), NOT_ENABLED);

    let bad = |asked: Asked<'_>, message: &str| {
        let answer = asked.send();
        answer.is_error(400, "BadRequest");
        assert_eq!(answer.one("Message").as_deref(), Some(message));
    };
    let options = || server.request("OPTIONS", "/b/k").anonymous();
    bad(
        options().header("Access-Control-Request-Method", "GET"),
        "Insufficient information. Origin request header needed.",
    );
    bad(options().header("Origin", SITE), "Invalid Access-Control-Request-Method: null");
    bad(preflight(&server, "/b/k", SITE, "PATCH"), "Invalid Access-Control-Request-Method: PATCH");

    assert_eq!(server.delete("/b?cors").status, 204);
    refused(preflight(&server, "/b/k", SITE, "PUT"), ("PUT", "OBJECT"), NOT_ENABLED);
    refused(options().header("Origin", SITE), ("OPTIONS", "OBJECT"), NOT_ENABLED);
}

#[test]
fn a_preflight_needs_no_signature_and_reveals_no_bucket() {
    let server = Server::new();
    let without_rules = preflight(&server, "/b/k", SITE, "PUT").send();
    let missing = preflight(&server, "/absent/k", SITE, "PUT").send();
    for answer in [without_rules, missing] {
        answer.is_error(403, "AccessForbidden");
        assert_eq!(answer.one("Message").as_deref(), Some(NOT_ENABLED));
    }
    let server = with_rules();
    let wrong = preflight(&server, "/b/k", SITE, "PUT").header("Authorization", "AWS4-HMAC-SHA256 x");
    assert_eq!(wrong.send().status, 200);
}

#[test]
fn a_response_to_an_allowed_origin_has_the_headers_of_its_rule() {
    for dialect in Dialect::ALL {
        let server = with_rules();
        let ask = |method: &str, target: &str| {
            server.request(method, target).dialect(dialect).header("Origin", SITE)
        };
        is_shared_with_the_site(&ask("PUT", "/b/k").body(b"some bytes").send());
        for (method, target, status) in [
            ("GET", "/b/k", 200),
            ("HEAD", "/b/k", 200),
            ("GET", "/b?list-type=2", 200),
            ("GET", "/b?cors", 200),
        ] {
            let answer = ask(method, target).send();
            assert_eq!(answer.status, status, "{answer:?}");
            is_shared_with_the_site(&answer);
        }
        let part = ask("GET", "/b/k").header("Range", "bytes=0-3").send();
        assert_eq!((part.status, part.text()), (206, "some"));
        is_shared_with_the_site(&part);
        is_shared_with_the_site(&ask("GET", "/k").host("b.s3.example").send());
        // No rule allows the method.
        is_not_shared(&ask("DELETE", "/b/k").send());
        let other = server.request("GET", "/b").dialect(dialect).header("Origin", "https://other.example");
        assert_eq!(cors(&other.send()), owned(&[("Allow-Origin", "*"), ("Allow-Methods", "GET")]));
        is_not_shared(&server.request("GET", "/b").dialect(dialect).send());
        is_not_shared(&ask("GET", "/").send());
    }
}

#[test]
fn errors_have_the_headers_too() {
    for dialect in Dialect::ALL {
        let server = with_rules();
        server.put("/b/k", b"x");
        let ask = |method: &str, target: &str| {
            server.request(method, target).dialect(dialect).header("Origin", SITE)
        };
        for (asked, status) in [
            (ask("GET", "/b/absent"), 404),
            (ask("GET", "/b/k").anonymous(), 403),
            (ask("GET", "/b/k").header("Authorization", "AWS4-HMAC-SHA256 x").anonymous(), 400),
            (ask("GET", "/b/k").by("nobody"), 403),
            (ask("GET", "/b/k").header("If-Match", "\"no\""), 412),
            (ask("GET", "/b/k").header("If-None-Match", "*"), 304),
            (ask("GET", "/b/k").header("Range", "bytes=9-"), 416),
            (ask("HEAD", "/b/absent"), 404),
            (ask("HEAD", "/b/k").anonymous(), 403),
            (ask("PUT", "/b/new").by("nobody").announcing(1000), 403),
            (ask("PUT", "/b/new").header("Content-MD5", "x").body(b"x"), 400),
            (ask("PUT", "/b?analytics").body(b"x"), 501),
            (ask("POST", "/b/k"), 405),
            (ask("GET", "/b?max-keys=-1"), 400),
            (ask("GET", &format!("/b/{}", "k".repeat(1000))), 404),
        ] {
            let answer = asked.send();
            assert_eq!(answer.status, status, "{answer:?}");
            is_shared_with_the_site(&answer);
        }
        is_not_shared(&ask("GET", "/absent/k").send());
    }
}

#[test]
fn a_deferred_response_has_the_headers() {
    let server = with_rules();
    let created = server.request("POST", "/b/film?uploads").send();
    let upload = created.one("UploadId").unwrap();
    let part = server.put(&format!("/b/film?partNumber=1&uploadId={upload}"), b"part");
    let tag = part.header("ETag").unwrap();
    let list = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part></CompleteMultipartUpload>"
    );
    let asked = server.request("POST", &format!("/b/film?uploadId={upload}")).header("Origin", SITE);
    let answer = asked.body(list.as_bytes()).send();
    assert_eq!(answer.status, 200, "{answer:?}");
    is_shared_with_the_site(&answer);
}

/// A request whose head is known when it is rejected.
fn head_of(path: &str, origin: Option<&str>) -> Request<'static> {
    let mut headers = Headers::default();
    headers.push("Host", b"localhost");
    if let Some(origin) = origin {
        headers.push("Origin", origin.as_bytes());
    }
    Request {
        method: Method::Get,
        path: path.to_owned(),
        query: String::new(),
        headers,
        body: Body::none(),
        secure: false,
        peer: None,
        client: None,
    }
}

#[test]
fn an_overloaded_server_tells_pages_so() {
    let server = with_rules();
    let answer = |request: Option<&Request<'_>>| Answer::read(server.service.overloaded(request), 0);
    let shared = answer(Some(&head_of("/b/k", Some(SITE))));
    shared.is_error(503, "SlowDown");
    is_shared_with_the_site(&shared);
    is_not_shared(&answer(Some(&head_of("/b/k", None))));
    is_not_shared(&answer(Some(&head_of("/absent/k", Some(SITE)))));
    is_not_shared(&answer(None));

    let all = server.memory.reserve(server.memory.usage().ceiling - server.memory.usage().reserved).unwrap();
    let asked = server.request("GET", "/b?list-type=2").header("Origin", SITE);
    let answer = asked.send();
    answer.is_error(503, "SlowDown");
    is_shared_with_the_site(&answer);
    drop(all);
}

#[test]
fn the_origins_of_the_server_hold_for_buckets_without_rules() {
    for dialect in Dialect::ALL {
        let server = allowing(&["https://app.example", "http://localhost:*"]);
        let ask = |target: &str, origin: &str| {
            server.request("GET", target).dialect(dialect).header("Origin", origin).send()
        };
        for target in ["/", "/b", "/b/absent", "/absent", "/b/%zz"] {
            let answer = ask(target, "http://localhost:3000");
            assert_eq!(
                answer.header("Access-Control-Allow-Origin"),
                Some("http://localhost:3000"),
                "{target}"
            );
            assert_eq!(answer.header("Access-Control-Allow-Credentials"), Some("true"));
            assert_eq!(answer.header("Access-Control-Allow-Methods"), Some("GET, PUT, POST, DELETE, HEAD"));
            let exposed: Vec<_> =
                answer.header("Access-Control-Expose-Headers").unwrap().split(", ").collect();
            let prefix = dialect.header_prefix();
            for name in ["version-id", "checksum-crc32", "checksum-crc64nvme", "request-id", "delete-marker"]
            {
                assert!(exposed.contains(&&*format!("{prefix}{name}")), "{name} in {exposed:?}");
            }
            assert!(exposed.contains(&"ETag") && exposed.contains(&"*"));
            is_not_shared(&ask(target, "https://other.example"));
        }
        for (target, method) in
            [("/", "GET"), ("/b", "PUT"), ("/b/k", "DELETE"), ("/b/k", "HEAD"), ("/absent", "POST")]
        {
            let asked = preflight(&server, target, "https://app.example", method).dialect(dialect);
            let answer = asked.header("Access-Control-Request-Headers", "authorization, x-svc-any").send();
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("Access-Control-Allow-Headers"), Some("authorization, x-svc-any"));
        }
        let refused = preflight(&server, "/b/k", "https://other.example", "GET").dialect(dialect).send();
        refused.is_error(403, "AccessForbidden");
        // The rules of the bucket replace those of the server.
        assert_eq!(set(&server, "b", RULES).status, 200);
        assert_eq!(
            cors(&ask("/b", "https://app.example")),
            owned(&[("Allow-Origin", "*"), ("Allow-Methods", "GET")])
        );
        assert_eq!(preflight(&server, "/b/k", "https://app.example", "PUT").send().status, 403);
    }
}

#[test]
fn all_origins_may_be_allowed_without_credentials() {
    let server = allowing(&["*"]);
    let answer = server.request("GET", "/b").header("Origin", "null").send();
    assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"));
    assert_eq!(answer.header("Access-Control-Allow-Credentials"), None);
}

#[test]
fn the_pages_of_the_server_are_never_shared() {
    let server = allowing(&["*"]);
    for (method, target, status) in [
        ("GET", "/-/health", 200),
        ("HEAD", "/-/ready", 200),
        ("GET", "/-/metrics", 200),
        ("GET", "/-/absent", 404),
        ("OPTIONS", "/-/health", 405),
        ("GET", "/minio/any/page", 404),
        ("OPTIONS", "/minio/any/page", 403),
    ] {
        let asked = server.request(method, target).header("Origin", SITE);
        let answer = asked.header("Access-Control-Request-Method", "GET").send();
        assert_eq!(answer.status, status, "{method} {target}");
        is_not_shared(&answer);
    }
    // A bucket of that name has the rules that are its own.
    server.put("/minio", b"");
    assert_eq!(set(&server, "minio", RULES).status, 200);
    is_shared_with_the_site(&server.request("GET", "/minio/k").header("Origin", SITE).send());
}
