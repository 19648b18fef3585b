//! Whom a website shows its objects to: policies, access control lists and pages of other origins.

use super::*;

const ORIGIN: &str = "https://app.example";
const CORS: &str = "<CORSConfiguration><CORSRule><AllowedOrigin>https://app.example</AllowedOrigin>\
    <AllowedMethod>GET</AllowedMethod><ExposeHeader>ETag</ExposeHeader></CORSRule></CORSConfiguration>";

/// A website that shows nothing until it is allowed.
fn closed() -> Server {
    let server = site(INDEX, &[]);
    server.put("/b/index.html", b"page");
    server.put("/b/hidden", b"hidden");
    server.visit("/").is_page(403, "AccessDenied");
    server
}

fn set(server: &Server, target: &str, document: &str, status: u16) {
    let answer = server.request("PUT", target).body(document.as_bytes()).send();
    assert_eq!(answer.status, status, "{answer:?}");
}

#[test]
fn the_policy_of_the_bucket_allows_and_denies() {
    let server = closed();
    let statement = |effect: &str, resource: &str, condition: &str| {
        format!(
            r#"{{"Effect": "{effect}", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::{resource}"{condition}}}"#
        )
    };
    let policy = |statements: &[String]| {
        format!(r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#, statements.join(","))
    };
    set(
        &server,
        "/b?policy",
        &policy(&[statement("Allow", "b/*", ""), statement("Deny", "b/hidden", "")]),
        204,
    );
    assert_eq!(server.visit("/").text(), "page");
    server.visit("/hidden").is_page(403, "AccessDenied");
    server.visit("/absent").is_page(403, "AccessDenied");

    let from_site = r#", "Condition": {"StringLike": {"aws:Referer": "https://app.example/*"}}"#;
    set(&server, "/b?policy", &policy(&[statement("Allow", "b/*", from_site)]), 204);
    server.visit("/").is_page(403, "AccessDenied");
    let linked = server.browse("GET", "/").header("Referer", "https://app.example/page").send();
    assert_eq!(linked.text(), "page");
}

#[test]
fn an_access_control_list_shows_one_object() {
    let server = closed();
    let controls =
        "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>";
    set(&server, "/b?ownershipControls", controls, 200);
    let put = server.request("PUT", "/b/index.html").header("p-acl", "public-read").body(b"page");
    assert_eq!(put.send().status, 200);
    assert_eq!(server.visit("/").text(), "page");
    server.visit("/hidden").is_page(403, "AccessDenied");
}

#[test]
fn pages_of_other_origins_are_answered_by_the_rules_of_the_bucket() {
    let server = site(WITH_ERROR, &["GetObject"]);
    server.put("/b/index.html", b"page");
    let ask = |target: &str| server.browse("GET", target).header("Origin", ORIGIN).send();
    let allowed = |answer: &Answer| answer.header("Access-Control-Allow-Origin").map(str::to_owned);
    let preflight = |target: &str| {
        let asked = server.browse("OPTIONS", target).header("Origin", ORIGIN);
        asked.header("Access-Control-Request-Method", "GET").send()
    };
    assert_eq!(allowed(&ask("/")), None);
    preflight("/").is_page(403, "AccessForbidden");
    // The rules of a bucket that the path names on the S3 endpoint are others.
    assert_eq!(server.request("PUT", "/other").send().status, 200);
    set(&server, "/other?cors", CORS, 200);
    assert_eq!(allowed(&ask("/other/k")), None);
    assert_eq!(server.delete("/other?cors").status, 204);

    set(&server, "/b?cors", CORS, 200);
    for target in ["/", "/absent", "/other/k", "/-/health", "/minio/health/live"] {
        assert_eq!(allowed(&ask(target)).as_deref(), Some(ORIGIN), "{target}");
        let answer = preflight(target);
        assert_eq!((answer.status, allowed(&answer).as_deref()), (200, Some(ORIGIN)), "{target}");
    }
    assert_eq!(server.visit("/").header("Access-Control-Allow-Origin"), None);
    let signed_elsewhere = server.request("GET", "/other/k").header("Origin", ORIGIN).send();
    assert_eq!(allowed(&signed_elsewhere), None);
}
