//! The console behind a proxy with TLS.

use siltstone::s3::Method;

use super::harness::{Answer, Browser, Site};
use crate::support::users::{access_key, secret_key};

const PROXY: [u8; 4] = [10, 0, 0, 1];
const BY_TLS: (&str, &str) = ("x-forwarded-proto", "https");

fn site() -> Site {
    Site::new().behind(PROXY.into())
}

fn browser(site: &Site, peer: [u8; 4]) -> Browser<'_> {
    let mut browser = site.browser();
    browser.peer = (peer, 5).into();
    browser
}

fn sign_in(browser: &mut Browser<'_>, secret: &str, lines: &[(&str, &str)]) -> Answer {
    let mut lines = lines.to_vec();
    lines.push(("sec-fetch-site", "same-origin"));
    let key = access_key("owner");
    let secret = secret.to_owned();
    browser.post_with("sign-in", &[("access_key", &key), ("secret_key", &secret)], &lines)
}

#[test]
fn a_trusted_proxy_with_tls_counts_as_tls() {
    let site = site();
    let mut browser = browser(&site, PROXY);
    assert_eq!(browser.get("").status, 403, "without the header it is plain HTTP");
    let answer = sign_in(&mut browser, &secret_key("owner"), &[BY_TLS, ("x-forwarded-for", "192.0.2.5")]);
    let set = answer.header("Set-Cookie").unwrap();
    assert!(set.starts_with("__Host-siltstone=") && set.contains("; Secure;"), "{set}");
    assert_eq!(browser.send(Method::Get, "", &[BY_TLS], b"").status, 200);
    let hosted = [BY_TLS, ("x-forwarded-host", "evil.example, box.example"), ("host", "127.0.0.1:9000")];
    let page = browser.send(Method::Get, "connect", &hosted, b"");
    assert!(
        page.text().contains("https://box.example") && !page.text().contains("evil.example"),
        "{}",
        page.text()
    );
    for host in ["a b", "a/b", "a\"b", "a\r\nb"] {
        let page = browser.send(Method::Get, "connect", &[BY_TLS, ("x-forwarded-host", host)], b"");
        assert!(page.text().contains("https://127.0.0.1:9000"), "{host:?}");
    }
    let downgraded = [("x-forwarded-proto", "https, http")];
    assert_eq!(browser.send(Method::Get, "", &downgraded, b"").status, 403, "the last value counts");
}

#[test]
fn headers_of_others_change_nothing() {
    let site = site();
    let mut stranger = browser(&site, [10, 0, 0, 2]);
    for lines in
        [&[BY_TLS][..], &[BY_TLS, ("x-forwarded-for", "127.0.0.1")], &[("x-forwarded-for", "10.0.0.1")]]
    {
        assert_eq!(sign_in(&mut stranger, &secret_key("owner"), lines).status, 403, "{lines:?}");
    }
    let mut local = browser(&site, [127, 0, 0, 1]);
    let for_another = [BY_TLS, ("x-forwarded-for", "192.0.2.5")];
    assert_eq!(sign_in(&mut local, &secret_key("owner"), &for_another).status, 403);
    let answer = sign_in(&mut local, &secret_key("owner"), &[BY_TLS]);
    assert!(!answer.header("Set-Cookie").unwrap().contains("Secure"), "it is plain HTTP");
}

#[test]
fn attempts_are_counted_by_the_address_that_the_proxy_tells() {
    let site = site();
    let mut browser = browser(&site, PROXY);
    let mut attempt = |secret: &str, from: &str| {
        let lines = [BY_TLS, ("x-forwarded-for", from)];
        let mut lines = lines.to_vec();
        lines.push(("sec-fetch-site", "same-origin"));
        browser.post_with("sign-in", &[("access_key", "nobody"), ("secret_key", secret)], &lines).status
    };
    // Clients may have sent all but the last.
    let answers: Vec<_> = (0..6).map(|n| attempt("wrong", &format!("192.0.2.{n}, 192.0.2.77"))).collect();
    assert_eq!(answers, [403, 403, 403, 403, 403, 429]);
}

#[test]
fn a_change_from_another_origin_is_refused_behind_a_proxy_too() {
    let site = site();
    let mut browser = browser(&site, PROXY);
    sign_in(&mut browser, &secret_key("owner"), &[BY_TLS]);
    let host = ("x-forwarded-host", "box.example");
    for (origin, status) in
        [("https://box.example", 303), ("https://evil.example", 403), ("https://127.0.0.1:9000", 403)]
    {
        let answer =
            browser.post_with("create-bucket", &[("name", "made")], &[BY_TLS, host, ("origin", origin)]);
        assert_eq!(answer.status, status, "{origin}");
    }
}

#[test]
fn policies_go_by_the_address_of_the_connection() {
    let site = site();
    let mut browser = browser(&site, PROXY);
    sign_in(&mut browser, &secret_key("owner"), &[BY_TLS]);
    let lines = [BY_TLS, ("sec-fetch-site", "same-origin"), ("x-forwarded-for", "192.0.2.5")];
    let mut s3 = |method, query: &str, body: &[u8]| {
        browser.send(method, &format!("s3?bucket=b&{query}"), &lines, body).status
    };
    assert_eq!(s3(Method::Put, "key=k", b"content"), 200);
    assert_eq!(s3(Method::Get, "key=k", b""), 200);
    let policy = br#"{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::b/*", "Condition": {"NotIpAddress": {"aws:SourceIp": "192.0.2.0/24"}}}]}"#;
    assert_eq!(s3(Method::Put, "policy=", policy), 204);
    assert_eq!(s3(Method::Get, "key=k", b""), 403);
}
